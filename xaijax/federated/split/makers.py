"""Split models that are made from one table: logistic regression, networks, trees, neighbours.

They are trained where all columns are at hand; the parts go to the parties afterwards.

Letters: N rows, F columns, E numbers of an answer, T trees, D depth, H hidden
units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.optional import require
from xaijax.core.public import public
from xaijax.core.typing import ArrayLike
from xaijax.federated.in_process.parties import HOST, Parties, parties_of
from xaijax.federated.split.model import JOINS, PartySplit, split_of
from xaijax.federated.split.parts import Part, feature_names_of
from xaijax.players.players import column_labels
from xaijax.tables.frames import frame_labels, same_labels
from xaijax.tables.rows import rows_of as given_rows


@public
def split_logistic(
    coefficients: ArrayLike,
    intercept: float,
    guests: Mapping[str, Iterable[int | str]],
    feature_names: Sequence[str] | None = None,
) -> PartySplit:
    """Splits a logistic regression: each party's answer is its part of the weighted sum.

    The model is sigmoid(intercept + sum over parties of x_party . coefficients_party).

    Args:
        coefficients: numbers [F] of a fitted binary model (`model.coef_[0]`).
        intercept: a number; the host's side holds it.
        guests: {"name": [places of its columns]}, places from 0. The other columns are the host's.
            Each party needs at least one. With feature names, names are accepted too.
        feature_names: texts [F] or None, the names of all columns. Each part then holds the names
            of its own columns. Frames and CSV files of host and guests are read by them: columns in
            another order are put in order, and other columns are refused.

    Returns:
        A `PartySplit`, with a part of one number for each guest.

    Raises:
        InputError, InputTypeError: an argument is not accepted.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> split = xj.federated.split_logistic([1.0, 0.5, -1.0, 2.0], 0.0, {"shop": [1, 2, 3]})
        >>> split.parts["shop"].answers(np.array([[4.0, 0.0, 1.0]]))
        array([[4.]])
        >>> split.host.model.predict(np.array([[3.0, 4.0]])).round(3)
        array([0.999])

        The host's row is its only column, 3, and the shop's answer, 4.
    """
    c = checks.as_array(coefficients, "coefficients").astype(np.float64)
    if c.ndim != 1:
        raise InputError(f"coefficients must be [F], got shape {c.shape}. Say model.coef_[0].")
    start = checks.real_numbers(intercept, "intercept")
    if start.ndim or not np.isfinite(start):
        raise InputError(
            f"intercept must be a finite number (intercept_[0]), got {intercept!r:.40}."
        )
    names = feature_names_of(feature_names, len(c))
    parties = split_parties(guests, len(c), names)
    host_part, parts = _parts(parties, lambda places: Part("linear", {"weights": c[places]}))
    join = {"intercept": start}
    return split_of(host_part, parts, parties, "logistic", join, names)


@public
def split_neighbours(
    rows: ArrayLike,
    labels: ArrayLike,
    guests: Mapping[str, Iterable[int | str]],
    k: int = 5,
    feature_names: Sequence[str] | None = None,
) -> PartySplit:
    """Splits k nearest neighbours: an answer is the squared distances to all training rows.

    **These answers give the guest's table away.** A guest refuses them unless its policy says
    allow_distance_leak=True. Explain neighbours in one process instead (`FederatedExplainer`).

    Args:
        rows: training rows, an array [N, F] of numbers.
        labels: [N], True or 1 for the class that is explained and False or 0 for the other one;
            both must occur.
        guests: {"name": [places of its columns]}, places from 0. The other columns are the host's.
            Each party needs at least one. With feature names, names are accepted too.
        k: int, at most N. The model is the share of the k nearest rows that have the class.
        feature_names: texts [F] or None, the names of all columns; see `split_logistic`. None: the
            names in a frame `rows`, and no names otherwise.

    Returns:
        A `PartySplit`, with a part of N numbers for each guest. Its models run in NumPy on the CPU,
        in float64.

    Raises:
        InputError, InputTypeError: an argument is not accepted.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> rows = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
        >>> split = xj.federated.split_neighbours(rows, [0, 1, 0, 1], {"shop": [1]}, k=1)
        >>> split.parts["shop"].answers(np.array([[3.0]]))
        array([[9., 9., 1., 0.]])
        >>> split.joint.predict(np.array([[2.0, 3.0]]))
        array([1.])
    """
    X, y, names, parties = training(rows, labels, guests, feature_names, np.float64)
    if checks.whole_number(k, "k") > len(X):
        raise InputError(f"k={k} neighbours of {len(X)} training rows; give at most as many.")
    host_part, parts = _parts(parties, lambda places: Part("distances", {"training": X[:, places]}))
    join = {"labels": y, "k": np.array(k)}
    return split_of(host_part, parts, parties, "neighbours", join, names)


@public
def split_trees(
    rows: ArrayLike,
    labels: ArrayLike,
    guests: Mapping[str, Iterable[int | str]],
    rounds: int = 30,
    depth: int = 3,
    rate: float = 0.2,
    feature_names: Sequence[str] | None = None,
) -> PartySplit:
    """Trains boosted trees that each see the columns of one party only.

    In a round every party in turn gets a regression tree (scikit-learn's) of the residual. A leaf's
    value is Newton's step, as in gradient boosting for the logistic loss. The log odds are
    therefore a constant plus a sum over parties, and each guest's answer is one number.

    Args:
        rows: array [N, F] of numbers, read as float32.
        labels: [N], True or 1 for the class that is explained and False or 0 for the other one;
            both must occur.
        guests: {"name": [places of its columns]}, places from 0. The other columns are the host's.
            Each party needs at least one. With feature names, names are accepted too.
        rounds: int. It is the number of trees of each party.
        depth: int. It is the largest depth of a tree.
        rate: float above 0. It is how much of each tree's step is added.
        feature_names: texts [F] or None, the names of all columns; see `split_logistic`. None: the
            names in a frame `rows`, and no names otherwise.

    Returns:
        A `PartySplit`, with a part of one number for each guest.

    Raises:
        InputError, InputTypeError: an argument is not accepted.
        ImportError: scikit-learn is not installed.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> rows = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
        >>> split = xj.federated.split_trees(rows, [0, 0, 0, 1], {"shop": [1]}, rounds=5, depth=1)
        >>> int(split.joint.predict(rows).argmax())
        3

        The fourth row, the only one of the class, has the largest chance of it.

    Training sees all columns, in this process; explaining needs no column of a guest.

    References:
        Friedman, "Greedy function approximation: a gradient boosting machine" (Annals of Statistics
        2001).
    """
    X, y, names, parties = training(rows, labels, guests, feature_names, np.float32)
    checks.whole_number(rounds, "rounds")
    checks.whole_number(depth, "depth")
    checks.positive(rate, "rate")
    blocks = {HOST: parties.host, **parties.guests}
    start = float(np.log(y.mean() / (1 - y.mean())))
    score = np.full(len(y), start)
    grown: dict[str, list[Any]] = {name: [] for name in blocks}
    for _ in range(rounds):
        for name, places in blocks.items():
            tree = _newton_tree(X[:, list(places)], y, score, depth, rate)
            score += tree["value"][0, _leaves(tree, X[:, list(places)])]
            grown[name].append(tree)
    made = {name: _forest(trees, len(blocks[name])) for name, trees in grown.items()}
    host_part = made.pop(HOST)
    join = {"intercept": np.array(start)}
    return split_of(host_part, made, parties, "logistic", join, names)


def _parts(parties: Parties, made: Callable[[list[int]], Part]) -> tuple[Part, dict[str, Part]]:
    """The host's part and those of the guests, each of its own columns."""
    parts = {name: made(list(places)) for name, places in parties.guests.items()}
    return made(list(parties.host)), parts


def _newton_tree(
    X: np.ndarray, y: np.ndarray, score: np.ndarray, depth: int, rate: float
) -> dict[str, np.ndarray]:
    """One tree of the residual as a full binary tree; see `Part`."""
    trees = require("sklearn.tree", "scikit-learn")
    chance = 1 / (1 + np.exp(-score))
    fitted = trees.DecisionTreeRegressor(max_depth=depth, random_state=0).fit(X, y - chance)
    at, tree = fitted.apply(X), fitted.tree_
    gradient = np.bincount(at, y - chance, tree.node_count)
    curvature = np.bincount(at, chance * (1 - chance), tree.node_count)
    steps = rate * gradient / np.maximum(curvature, 1e-12)
    inner = 2**depth - 1
    feature, threshold = np.zeros(inner, np.int32), np.full(inner, np.inf, np.float32)
    value = np.zeros(inner + 1)

    def place(node: int, slot: int) -> None:
        leaf = tree.children_left[node] < 0
        if slot >= inner:
            value[slot - inner] = steps[node]
        elif leaf:  # all rows go on to the left, down to the last level
            place(node, 2 * slot + 1)
        else:
            feature[slot], threshold[slot] = tree.feature[node], _below(tree.threshold[node])
            place(tree.children_left[node], 2 * slot + 1)
            place(tree.children_right[node], 2 * slot + 2)

    place(0, 0)
    return {"feature": feature[None], "threshold": threshold[None], "value": value[None]}


def _below(threshold: float) -> np.float32:
    """The largest float32 that is not above: rows in float32 fall on the same side of it."""
    near = np.float32(threshold)
    return near if near <= threshold else np.nextafter(near, np.float32(-np.inf))


def _leaves(tree: Mapping[str, np.ndarray], X: np.ndarray) -> np.ndarray:
    node = np.zeros(len(X), np.int64)
    inner = tree["feature"].shape[1]
    for _ in range(inner.bit_length()):
        right = X[np.arange(len(X)), tree["feature"][0, node]] > tree["threshold"][0, node]
        node = 2 * node + 1 + right
    return node - inner


def _forest(trees: Sequence[Mapping[str, np.ndarray]], columns: int) -> Part:
    arrays = {name: np.concatenate([tree[name] for tree in trees]) for name in trees[0]}
    return Part("trees", arrays | {"columns": np.arange(columns)})


def training(
    rows: Any, labels: Any, guests: Any, feature_names: Any, dtype: Any
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...] | None, Parties]:
    """(rows [N, F], labels 0 and 1 [N], the names that are given or those of a frame, parties)."""
    X = checks.matrix(rows, "rows").astype(dtype)
    y = checks.as_array(labels, "labels").astype(np.float64)
    if y.shape != (len(X),):
        raise InputError(f"labels has shape {y.shape}; [{len(X)}] is needed, one per row.")
    if set(np.unique(y)) != {0.0, 1.0}:
        raise InputError("labels must be True and False (or 1 and 0), and both must occur.")
    names = feature_names_of(feature_names, X.shape[1])
    table = given_rows(rows)
    if table.is_frame and all(isinstance(label, str) for label in table.labels):
        columns = frame_labels(rows, "rows")
        if names is not None:
            same_labels(columns, names, "rows", "feature_names")
        names = columns
    return X, y, names, split_parties(guests, X.shape[1], names)


def split_parties(guests: Any, F: int, names: Sequence[str] | None = None) -> Parties:
    """The parties of a table of F columns, of these names; at least one guest."""
    parties = parties_of(guests, names or column_labels((F,)))
    if not parties.guests:
        raise InputError("guests is empty, so there is nothing to split; name at least one.")
    return parties


LEAST_EMBEDDING = 4
Params = dict[str, dict[str, Any]]  # {party or "join": arrays}


@public
def split_network(
    rows: ArrayLike,
    labels: ArrayLike,
    guests: Mapping[str, Iterable[int | str]],
    embedding: int = LEAST_EMBEDDING,
    hidden: int = 32,
    steps: int = 2_000,
    batch: int = 512,
    rate: float = 3e-3,
    seed: int = 0,
    feature_names: Sequence[str] | None = None,
) -> PartySplit:
    """Trains a split neural network: an encoder for each party, and a head at the host.

    The model is sigmoid(head([h(x_H), g_1(x_G1), ...])). An encoder sees the columns of one party
    and has two layers, columns -> hidden -> embedding, with tanh after both. A guest's answer is
    therefore `embedding` numbers between -1 and 1. The head has one hidden layer. Training is by
    Adam.

    Args:
        rows: array [N, F] of numbers, read as float32; normalise it before.
        labels: [N], True or 1 for the class that is explained and False or 0 for the other one;
            both must occur.
        guests: {"name": [places of its columns]}, places from 0. The other columns are the host's.
            Each party needs at least one. With feature names, names are accepted too.
        embedding: int, at least 4. It is how many numbers a guest's answer has. The host's own
            encoder has as many as `hidden`.
        hidden: int. It is the number of units of each hidden layer.
        steps: int. It is the number of steps of the training.
        batch: int. It is the number of rows in one step, drawn with replacement; at most N are
            used.
        rate: float above 0. It is the first learning rate; it falls to 0 along a cosine.
        seed: int. The first weights and the draws follow from it.
        feature_names: texts [F] or None, the names of all columns; see `split_logistic`. None: the
            names in a frame `rows`, and no names otherwise.

    Returns:
        A `PartySplit`, with a part of `embedding` numbers for each guest.

    Raises:
        InputError, InputTypeError: an argument is not accepted.
        ImportError: optax is not installed.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> rows = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
        >>> labels = [0, 0, 1, 1]
        >>> split = xj.federated.split_network(rows, labels, {"shop": [1]}, steps=100)
        >>> split.joint.predict(rows) > 0.5
        array([False, False,  True,  True])
        >>> split.parts["shop"].width
        4

    Training sees all columns, in this process; explaining needs no column of a guest.
    """
    X, y, names, parties = training(rows, labels, guests, feature_names, np.float32)
    y = y.astype(np.float32)
    if checks.whole_number(embedding, "embedding") < LEAST_EMBEDDING:
        raise InputError(f"embedding={embedding}: at least {LEAST_EMBEDDING} numbers are needed.")
    for name, value in (("hidden", hidden), ("steps", steps), ("batch", batch)):
        checks.whole_number(value, name)
    checks.positive(rate, "rate")
    blocks = {HOST: np.array(parties.host)}
    blocks |= {name: np.array(places) for name, places in parties.guests.items()}
    rng = np.random.default_rng(checks.whole_number(seed, "seed", least=0))
    widths = {name: hidden if name == HOST else embedding for name in blocks}
    params: Params = {
        name: _layers(rng, len(places), hidden, widths[name]) for name, places in blocks.items()
    }
    params["join"] = _layers(rng, sum(widths.values()), hidden, 1)
    encode = Part("network", params[HOST]).formula

    def chance(held: Params, chunk: Any) -> Any:
        host_part, *answers = (encode(jnp, held[name], chunk[:, at]) for name, at in blocks.items())
        return JOINS["head"](jnp, held["join"], host_part, jnp.concatenate(answers, axis=1))

    params = _trained(chance, params, X, y, steps, min(batch, len(X)), rate, rng)
    made = {name: Part("network", params[name]) for name in blocks}
    host_part = made.pop(HOST)
    return split_of(host_part, made, parties, "head", params["join"], names)


def _layers(rng: np.random.Generator, columns: int, hidden: int, width: int) -> dict[str, Any]:
    def weights(rows: int, out: int) -> np.ndarray:
        return (rng.normal(size=(rows, out)) / np.sqrt(rows)).astype(np.float32)

    return {
        "weights0": weights(columns, hidden),
        "bias0": np.zeros(hidden, np.float32),
        "weights1": weights(hidden, width),
        "bias1": np.zeros(width, np.float32),
    }


def _trained(
    chance: Callable[[Params, Any], Any],
    params: Params,
    X: np.ndarray,
    y: np.ndarray,
    steps: int,
    batch: int,
    rate: float,
    rng: np.random.Generator,
) -> dict[str, dict[str, np.ndarray]]:
    optax = require("optax", "optax")
    optimiser = optax.adam(optax.cosine_decay_schedule(rate, steps))

    def loss(held: Params, chunk: Any, truth: Any) -> Any:
        p = jnp.clip(chance(held, chunk), 1e-6, 1 - 1e-6)
        return -(truth * jnp.log(p) + (1 - truth) * jnp.log1p(-p)).mean()

    @jax.jit
    def run(held: Params, data: Any, truth: Any, draws: Any) -> Params:
        def step(carry: Any, places: Any) -> Any:
            now, state = carry
            gradient = jax.grad(loss)(now, data[places], truth[places])
            updates, state = optimiser.update(gradient, state)
            return (optax.apply_updates(now, updates), state), None

        return jax.lax.scan(step, (held, optimiser.init(held)), draws)[0][0]

    draws = rng.integers(0, len(X), (steps, batch))
    done = run(params, X, y, draws)
    return {name: {k: np.asarray(v) for k, v in held.items()} for name, held in done.items()}
