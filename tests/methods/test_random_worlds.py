"""Random models, data and questions, drawn from seeds, against the definitions in float64 NumPy.

Six generators: programs of JAX, estimators of scikit-learn, data of many kinds, questions, QII and
Anchors, and sequences of actions on one explainer. All inputs are multiples of 1/4 and all
thresholds odd multiples of 1/8, so that float32 and float64 decide alike.
"""

from __future__ import annotations

import copy
import itertools
import warnings

import jax.numpy as jnp
import numpy as np
import oracles
import oracles_anchors
import oracles_interactions
import oracles_qii
import pandas as pd
import pytest
import scipy.stats
from often import some_slow
from random_worlds import (
    NAMES,
    Scaled,
    donor_weights,
    estimators,
    framed,
    held_otherwise,
    index_of,
    partition,
    program,
    quarters,
    steps,
    tied,
    written,
)

import xaijax as xj

EPS = 2.0**-24  # half a unit in the last place of float32


def seeds(count, every):
    """A few seeds that always run, and more that are slow."""
    return pytest.mark.parametrize("seed", some_slow(range(count), every=every))


# ------------------------------------------------------------------ 1. programs of JAX


@pytest.mark.slow
@seeds(60, every=20)
def test_programs_of_jax(seed):
    rng = np.random.default_rng(1000 + seed)
    F, K = int(rng.integers(2, 7)), int(rng.choice([1, 1, 2, 3]))
    X, B = tied(rng, int(rng.integers(1, 5)), int(rng.integers(1, 7)), F)
    f, params = program(rng, F, K)
    link = rng.choice(["identity", "identity", "logit", "own"])
    if link == "logit":  # answers within 0 and 1
        inner = f

        def f(xp, params, X):
            return 1 / (1 + xp.exp(-inner(xp, params, X) / 4))

    function, held, form = written(rng, f, params, K)
    groups = [[j] for j in range(F)] if rng.random() < 0.5 else partition(rng, F)
    index, weight, adds = index_of(rng, len(groups))
    weights = donor_weights(rng, len(B))
    structure = "plain" if rng.random() < 0.3 else None
    model = xj.as_model(function, params=held, structure=structure)
    links = {"identity": "identity", "logit": "logit", "own": lambda v: v * v}
    explainer = xj.Explainer(
        model,
        B,
        players={f"p{p}": columns for p, columns in enumerate(groups)},
        index=index,
        weights=weights,
        link=links[link],
        seed=int(rng.integers(9)),
        batch_size=int(rng.choice([256, 1024])) if rng.random() < 0.3 else "auto",
    )
    found = explainer(X)
    linked = {"identity": None, "logit": lambda v: np.log(v / (1 - v)), "own": lambda v: v * v}
    values, base, full = oracles.explain(
        lambda rows: f(np, params, rows), X, B, weight, groups, weights, linked[link]
    )
    if found.values.ndim == 2:
        values, base, full = values[..., 0], base[:, 0], full[:, 0]
    # 200 roundings of the largest number in between; the link's slope may be as large as |v| / v.
    size = max(1.0, np.abs(quantities(f, params, X, B)).max())
    steep = {"identity": 1.0, "logit": 50.0, "own": 2 * size}[link]
    total = sum(abs(weight(s)) * len(list(itertools.combinations(range(len(groups) - 1), s)))
                for s in range(len(groups)))  # fmt: skip
    atol = 200 * EPS * size * steep * max(1.0, total)
    np.testing.assert_allclose(found.values, values, rtol=0, atol=atol, err_msg=form)
    np.testing.assert_allclose(found.base_values, base, rtol=0, atol=atol)
    if adds:
        total = found.base_values + found.values.sum(axis=1)
        np.testing.assert_allclose(total, full, rtol=0, atol=atol)


def quantities(f, params, X, B):
    """Numbers that f meets on its way, about as large as the largest ones."""
    rows = np.concatenate([X, B])
    h = np.abs(rows) @ np.abs(params["W"]) + np.abs(params["b"])
    return [(h * h).max(), np.abs(f(np, params, rows)).max(), (rows**2).sum(axis=1).max()]


# ------------------------------------------------------- 2. estimators of scikit-learn


@seeds(80, every=27)
@pytest.mark.parametrize("backend", ["auto", "host"])
def test_estimators(seed, backend):
    from sklearn.compose import ColumnTransformer  # noqa: PLC0415
    from sklearn.impute import SimpleImputer  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder  # noqa: PLC0415

    rng = np.random.default_rng(2000 + seed)
    F, rows = int(rng.integers(2, 5)), 40
    table = quarters(rng, rows, F)
    classifiers, regressors = estimators()
    classifies = bool(rng.integers(2))
    every = classifiers if classifies else regressors
    place = int(rng.integers(len(every)))
    estimator = every[place]
    score = table[:, 0] * 2 + table[:, 1] * table[:, -1] + 1
    y = np.abs(score)
    if classifies:
        y = np.digitize(score, np.quantile(score, [0.5] if rng.integers(2) else [0.3, 0.6]))
        y = np.array(["no", "yes", "maybe"])[y] if rng.integers(2) else y
    elif place >= len(regressors) - 2:
        y = np.stack([score, score**2 / 8], axis=1)
    kind = rng.choice(["array", "frame", "text", "nan"])
    data, line = table, [*steps(rng, F)]
    if kind == "frame":
        data = pd.DataFrame(table, columns=[f"c {j}" for j in range(F)], index=range(7, rows + 7))
    if kind == "text":
        data = pd.DataFrame(table, columns=[f"c{j}" for j in range(F)])
        data["c0"] = np.array(["red", "green", "blue"], object)[rng.integers(3, size=rows)]
        encoder = OneHotEncoder(sparse_output=False) if rng.integers(2) else OrdinalEncoder()
        line = [ColumnTransformer([("t", encoder, ["c0"])], remainder="passthrough"), *line]
    if kind == "nan":
        data = table.copy()
        data[rng.random((rows, F)) < 0.1] = np.nan
        line = [SimpleImputer(add_indicator=bool(rng.integers(2))), *line]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = make_pipeline(*line, estimator).fit(data, y) if line else estimator.fit(data, y)
    methods = [m for m in ("predict_proba", "decision_function") if hasattr(fitted, m)]
    method = methods[rng.integers(len(methods))] if classifies else "predict"
    words = {"predict_proba": "proba", "decision_function": "decision", "predict": "value"}
    taken = rng.permutation(rows)
    part = (lambda places: data.iloc[places]) if hasattr(data, "iloc") else data.__getitem__
    X, B = part(taken[:3]), part(taken[3:8])
    model = xj.as_model(fitted, output=words[method], backend=backend, allow_nan=kind == "nan")
    found = xj.Explainer(model, B)(X)
    v = [games(getattr(fitted, method), X, B, n) for n in range(3)]
    values = np.array([oracles.semivalue(one, F, oracles.shapley_weight(F)) for one in v])
    base = np.array([one[frozenset()] for one in v])
    if found.values.ndim == 3 and values.ndim == 2:
        values, base = values[..., None], base[..., None]
    # A translation is compared with the estimator to 1e-4 of the answers' spread; the host answers
    # itself, so that sums of 32 answers remain.
    size = max(1.0, np.abs(values).max(), np.abs(base).max())
    atol = size * (2e-4 if backend == "auto" else 1e-11)
    np.testing.assert_allclose(found.values, values, rtol=0, atol=atol, err_msg=str(fitted))
    np.testing.assert_allclose(found.base_values, base, rtol=0, atol=atol)


def games(f, X, B, n):
    """v of instance n: rows of arrays or frames, column by column."""
    F, out = X.shape[1], {}
    for size in range(F + 1):
        for S in itertools.combinations(range(F), size):
            rows = B.copy()
            for j in S:
                if hasattr(rows, "isetitem"):
                    rows.isetitem(j, [X.iloc[n, j]] * len(rows))
                else:
                    rows[:, j] = X[n, j]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                out[frozenset(S)] = np.asarray(f(rows), np.float64).mean(axis=0)
    return out


# ------------------------------------------------------------------- 3. data of many kinds


def mixed(rows):
    """A function of whatever array: sums and products of columns, in floats."""
    rows = rows * 0.5
    return rows[:, 0] * rows[:, 1] + rows[:, 2] + rows.sum(axis=1)


@seeds(60, every=15)
@pytest.mark.parametrize("backend", ["jax", "host"])
def test_data_of_many_kinds(seed, backend):
    rng = np.random.default_rng(3000 + seed)
    X, B = tied(rng, int(rng.integers(1, 6)), int(rng.integers(1, 6)), 3)
    if rng.random() < 0.5:
        X, B = np.round(X), np.round(B)
    given, X, kind = held_otherwise(rng, X)
    background = B
    if isinstance(given, tuple):
        names = NAMES[rng.integers(len(NAMES))]
        names = [str(n) for n in names] if kind == "polars" else names
        given, background = framed(kind, X, names, rng), framed(kind, B, names, rng)
    f = mixed if backend == "jax" else lambda rows: mixed(np.asarray(rows, np.float64))
    options = {} if rng.random() < 0.5 else {"batch_size": int(rng.integers(1, 500))}
    before = copy.deepcopy(given)
    found = xj.Explainer(xj.as_model(f, backend=backend), background, **options)(given)
    values, base, _ = oracles.explain(mixed, X, B, oracles.shapley_weight(3))
    # Quarters of at most 2 in size: all products are exact in float32, sums round a few times.
    atol = 40 * EPS * 8
    np.testing.assert_allclose(found.values, values, rtol=0, atol=atol, err_msg=kind)
    np.testing.assert_allclose(found.base_values, base, rtol=0, atol=atol)
    X64 = np.asarray(X, np.float64)[:, None, :]
    # -0.0 is another value than 0.0, and 0 in a column of integers.
    alike = (X64 == B[None]) & ~((X64 == 0) & (np.signbit(X64) | np.signbit(B[None])))
    assert (found.values[alike.all(axis=1)] == 0).all()  # nothing replaced, nothing moved
    same = given.equals(before) if hasattr(given, "equals") else np.array_equal(given, before)
    assert same
    rows = np.array(X, np.float64)
    rows[rng.integers(len(X)), rng.integers(3)] = rng.choice([np.inf, -np.inf, np.nan])
    with pytest.raises(xj.InputError, match="X contains (inf|-inf|NaN) at row"):
        xj.Explainer(xj.as_model(f, backend=backend), B)(rows)


# ----------------------------------------------------------------------- 4. questions

INDICES = ["sii", "k-sii", "stii", "fsii", "banzhaf", "moebius"]


def smooth(xp, rows):
    a, b = rows[:, 0] * rows[:, 1], rows[:, 2:].sum(axis=1)
    return xp.stack([xp.tanh(a) + b + a * b / 4, xp.tanh(b / 2) * rows[:, 0]], axis=1)


@pytest.mark.slow
@seeds(36, every=9)
def test_questions(seed, tmp_path):
    rng = np.random.default_rng(4000 + seed)
    F = int(rng.integers(3, 6))
    X, B = tied(rng, 4, int(rng.integers(1, 5)), F)
    backend = str(rng.choice(["jax", "host"]))
    xp = jnp if backend == "jax" else np
    model = xj.as_model(lambda rows: smooth(xp, rows), backend=backend, output_names=["u", "v"])
    explainer = xj.Explainer(model, B)
    # tanh and some twenty roundings of numbers up to 2 x 8; interactions add 2^order of them.
    atol = 200 * EPS * 16 if backend == "jax" else 1e-11
    wide = [
        oracles.coalition_values(
            lambda rows: smooth(np, rows),
            x,
            B,
            np.full(len(B), 1 / len(B)),
            [[j] for j in range(F)],
        )
        for x in X
    ]
    order, index = int(rng.integers(1, F + 1)), INDICES[rng.integers(6)]
    found = explainer.interactions(X, order=order, index=index)
    for n, k in itertools.product(range(4), range(2)):
        v = {S: float(value[k]) for S, value in wide[n].items()}
        wanted = oracles_interactions.interactions(index, v, F, order)
        assert list(found.sets) == oracles_interactions.sets_of(F, order)
        atol_of_sets = atol * 2 ** (order + 1)
        np.testing.assert_allclose(found.values[n, :, k], wanted, rtol=0, atol=atol_of_sets)
    explained = explainer(X)
    values = np.array([oracles.semivalue(v, F, oracles.shapley_weight(F)) for v in wide])
    np.testing.assert_allclose(explained.values, values, rtol=0, atol=atol)
    # One output for each instance.
    chosen = rng.integers(2, size=4)
    outputs = [["u", "v"][k] for k in chosen] if rng.integers(2) else chosen
    one = explainer(X, outputs=outputs)
    np.testing.assert_allclose(one.values, values[range(4), :, chosen], rtol=0, atol=atol)
    most = np.argmax([v[frozenset(range(F))] for v in wide], axis=1)
    predicted = explainer(X, outputs="predicted")
    np.testing.assert_allclose(predicted.values, values[range(4), :, most], rtol=0, atol=atol)
    # What is cut, joined, written and read stays what it is.
    cut = int(rng.integers(1, 4))
    joined = xj.merge([explained[:cut], explained[cut:]])
    np.testing.assert_array_equal(joined.values, explained.values)
    explained.save(tmp_path / "e.npz")
    found.save(tmp_path / "i.npz")
    for made, kept in ((joined, "e"), (found, "i")):
        back = xj.load(tmp_path / f"{kept}.npz")
        np.testing.assert_array_equal(back.values, made.values)
        np.testing.assert_array_equal(back.base_values, made.base_values)
    places = rng.permutation(4)[:2].tolist()
    players = rng.permutation(F)[:2].tolist()
    some = explained[places, players, "v"]
    np.testing.assert_array_equal(some.values, explained.values[places][:, players, 1])
    assert some.feature_names == tuple(explained.feature_names[j] for j in players)
    np.testing.assert_array_equal(np.asarray(some.data)[:, players], X[places][:, players])
    # The largest k, for certain where they are apart.
    k = int(rng.integers(1, F))
    top = explained[..., 0].top(k)
    size = np.sort(np.abs(values[..., 0]), axis=1)[:, ::-1]
    for n in np.flatnonzero(size[:, k - 1] - size[:, k] > 4 * atol):
        largest = set(np.argsort(-np.abs(values[n, :, 0]))[:k].tolist())
        assert set(top.players[n].tolist()) == largest


@seeds(24, every=8)
@pytest.mark.parametrize("estimator", ["permutation", "kernel", "gaussian-process", "tolerance"])
def test_sampled_values_are_within_their_standard_errors(seed, estimator):
    """At most one false alarm in a million runs of one case, if errors follow Student's t."""
    rng = np.random.default_rng(5000 + seed)
    F, N = int(rng.integers(10, 14)), 3
    X, B = tied(rng, N, 3, F)
    A = quarters(rng, F, 4, reach=4) / 4

    def f(xp, rows):
        h = xp.tanh(rows @ xp.asarray(A, rows.dtype))
        return h.sum(axis=1) + h[:, 0] * h[:, 1] + rows[:, 0] * rows[:, -1] / 4

    model = xj.as_model(lambda rows: f(jnp, rows), structure="plain")
    options = {"budget": 200, "estimator": estimator}
    if estimator == "tolerance":
        options = {"budget": 900, "tolerance": 0.2, "estimator": "permutation"}
    found = xj.Explainer(model, B, seed=int(rng.integers(1000)), **options)(X)
    values = []
    for x in X:
        table = np.zeros(1 << F)
        for b in B:
            bits = np.arange(1 << F)[:, None] >> np.arange(F) & 1
            table += f(np, np.where(bits == 1, x, b)) / len(B)
        values.append(oracles.semivalue_of_table(table, oracles.shapley_weight(F)))
    errors = np.abs(found.values - np.array(values))
    dof = np.broadcast_to(np.asarray(found.stats.get("dof", np.inf), float), (N,))[:, None]
    level = 1e-6 / errors.size / 2
    quantile = np.where(np.isfinite(dof), scipy.stats.t.isf(level, np.maximum(dof, 1)), 0)
    quantile = np.where(np.isfinite(dof), quantile, scipy.stats.norm.isf(level))
    assert (errors <= quantile * found.std_errors + 1e-5).all()
    assert (found.std_errors[errors > 1e-5] > 0).all()
    total = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(total, f(np, X), rtol=0, atol=2e-5)  # 300 roundings of 16


# ---------------------------------------------------------------- 5. QII and Anchors

QUANTITIES = ["individual", "actual", "rate", "average", "group", "disparity", "signed", "ratio"]


@pytest.mark.slow
@seeds(60, every=20)
def test_influences(seed):
    rng = np.random.default_rng(6000 + seed)
    F, N = int(rng.integers(2, 5)), int(rng.integers(4, 8))
    D, pool = tied(rng, N, int(rng.integers(1, 6)), F)
    groups = partition(rng, F)
    P = len(groups)
    w_data, w_pool = rng.random(N) + 0.1, rng.random(len(pool)) + 0.1
    member = np.arange(N) % 2 == 0
    kind = QUANTITIES[rng.integers(len(QUANTITIES))]
    outcome = "score" if kind == "ratio" else str(rng.choice(["label", "score"]))
    if kind in ("actual", "average"):
        outcome = "label"
    cut = float(rng.integers(-3, 3)) + 0.125

    def score(rows):
        return rows[:, 0] * 2 + rows[:, -1] * rows[:, 1] / 2

    def decided(rows):
        return (score(rows) > cut).astype(int)

    low, high = -3.125, 3.875
    if outcome == "label":
        model = xj.as_model(decided, backend=str(rng.choice(["jax", "host"])), output="label",
                            classes=[0, 1])  # fmt: skip
        of_row = lambda z, x: float(decided(z[None])[0])  # noqa: E731
        if kind in ("actual", "average"):
            of_row = lambda z, x: float(decided(z[None])[0] == decided(x[None])[0])  # noqa: E731
        options = {}
    else:
        if kind == "ratio":
            low = 0.125
        model = xj.as_model(score, backend=str(rng.choice(["jax", "host"])))
        of_row = lambda z, x: float(np.clip(score(z[None])[0], low, high))  # noqa: E731
        options = {"bounds": (low, high)}
    if kind in ("group", "disparity", "signed", "ratio"):
        options["members"] = member
    difference = str(rng.choice(["subtract", "l1"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XaiWarning)  # that bounds cut answers is meant here
        qii = xj.QII(
            model,
            D,
            pool=pool,
            players={f"p{p}": columns for p, columns in enumerate(groups)},
            quantity="disparity" if kind == "signed" else kind,
            signed=kind == "signed",
            outcome=outcome,
            difference=difference,
            data_weights=None if kind in ("individual", "actual") else w_data,
            pool_weights=w_pool,
            **options,
        )
        rows = D if kind in ("individual", "actual") else None
        name, weight = [
            ("shapley", oracles.shapley_weight(P)),
            ("banzhaf", oracles.banzhaf_weight(P)),
        ][rng.integers(2)]
        found = qii.explain(rows, index=name)
        alone = qii.unary(rows)
    weights = {"data_weights": w_data / w_data.sum(), "pool_weights": w_pool / w_pool.sum()}
    # Numbers up to 8 in float32, divided by a mean of at least .125 in a ratio.
    atol = 100 * EPS * 8 * (64 if kind == "ratio" else 1)
    for n, x in enumerate(D if rows is not None else D[:1]):

        def Q(S, x=x):
            return oracles_qii.quantity(
                kind, of_row, S, x=x, D=D, pool=pool, member=member, groups=groups, **weights
            )

        v = oracles_qii.influences(Q, P, difference)
        wanted = oracles_qii.semivalue(v, P, weight)
        np.testing.assert_allclose(found.values[n], wanted, rtol=0, atol=atol, err_msg=kind)
        singles = [float(v[frozenset({i})]) for i in range(P)]
        np.testing.assert_allclose(alone.values[n], singles, rtol=0, atol=atol)


@pytest.mark.slow
@seeds(40, every=13)
def test_rules(seed):
    rng = np.random.default_rng(7000 + seed)
    F, rows = int(rng.integers(2, 4)), int(rng.integers(8, 20))
    data = rng.integers(0, 3, size=(rows, F)).astype(float)
    x = data[rng.integers(rows)]
    w = rng.random(rows) + 0.1 if rng.integers(2) else np.ones(rows)
    w = w / w.sum()
    space = str(rng.choice(["row", "joint", "conditional"]))
    cuts = [[0.5, 1.5] if rng.integers(2) else [0.5] for _ in range(F)]
    a, b = rng.permutation(F)[:2]

    def f(values):
        return (values[:, a] > 0.5) & (values[:, b] != 1.0) | (values[:, a] == 2.0)

    def one(row):
        return bool(f(np.asarray(row)[None])[0])

    model = xj.as_model(f, backend="host", output="label")
    anchors = xj.AnchorExplainer(
        model, data, bins=dict(enumerate(cuts)), perturbation=space, weights=w
    )
    for size in range(F + 1):
        for rule in itertools.combinations(range(F), size):
            found = anchors.evaluate(list(rule), x, search="exact")
            held = frozenset(rule)
            precision = oracles_anchors.precision(space, one, x, data, w, held, cuts)
            coverage = oracles_anchors.coverage(x, data, w, held, cuts)
            # Sums of at most 20^3 chances in float64.
            assert abs(found.precision - precision) <= 1e-10, (space, rule)
            assert abs(found.coverage - coverage) <= 1e-10
    best = anchors.explain(x[None], threshold=0.9, search="exact", beam_size=None)[0]
    wanted = oracles_anchors.optimum(space, one, x, data, w, cuts, 0.9)
    if wanted is None:
        assert not best.accepted
    else:
        assert best.accepted
        assert abs(best.coverage - wanted[0]) <= 1e-10
        assert abs(best.precision - wanted[1]) <= 1e-10


# ------------------------------------------------------------ 6. sequences of actions


@pytest.mark.slow
@seeds(24, every=6)
def test_sequences_of_actions(seed, tmp_path):
    """Each answer of an explainer that lives on is that of the definition at that moment."""
    from sklearn.linear_model import Ridge  # noqa: PLC0415
    from sklearn.tree import DecisionTreeRegressor  # noqa: PLC0415

    rng = np.random.default_rng(8000 + seed)
    X, B = tied(rng, 5, 3, 3)
    kind = str(rng.choice(["host", "ridge", "tree", "params"]))
    targets = quarters(rng, 30, 3)
    params = {"w": quarters(rng, 3).astype(np.float32)}
    if kind == "host":
        own = Scaled()
        model, f = xj.as_model(own, backend="host"), own
    elif kind == "params":
        function = lambda held, rows: jnp.tanh(rows @ held["w"]) + rows[:, 0]  # noqa: E731
        model = xj.as_model(function, params=params)
        f = lambda rows: np.tanh(rows @ params["w"].astype(float)) + rows[:, 0]  # noqa: E731
    else:
        own = Ridge() if kind == "ridge" else DecisionTreeRegressor(max_depth=3, random_state=0)
        own.fit(targets, targets @ [1.0, 2.0, -1.0])
        model, f = xj.as_model(own), own.predict
    explainer = xj.Explainer(model, B)
    runs = 0
    for _ in range(8):
        action = rng.choice(["ask", "ask less", "again", "change", "predict", "sweep", "sets"])
        note = f"seed {seed}, {kind}, {action}"
        if action == "change" and kind == "host":
            if rng.integers(2):
                own.scale = float(rng.integers(1, 5))
            else:
                own.fit(quarters(rng, 3))
        elif action == "change" and kind == "params":
            params = {"w": quarters(rng, 3).astype(np.float32)}
            model = model.replace(params=params)
            explainer = xj.Explainer(model, B)
        elif action == "change":
            own.set_params(**({"alpha": 2.0} if kind == "ridge" else {"max_depth": 2}))
            own.fit(targets, targets @ quarters(rng, 3))
            with pytest.raises(xj.InputError, match="has changed since"):  # never the old fit
                explainer(X)
            model = xj.as_model(own)
            explainer = xj.Explainer(model, B)
        elif action == "again":
            explainer = xj.Explainer(model, B, batch_size=int(rng.integers(1, 600)))
        rows = X[: rng.integers(1, 6)] if action == "ask less" else X
        values, base, full = oracles.explain(f, rows, B, oracles.shapley_weight(3))
        # Ridge and trees of numbers up to 24 are translated to float32; 100 roundings.
        atol = 100 * EPS * 24
        if action == "predict":
            np.testing.assert_allclose(model.predict(rows), full, rtol=0, atol=atol, err_msg=note)
            continue
        if action == "sets":
            found = explainer.interactions(rows, order=1)
            np.testing.assert_allclose(found.values, values, rtol=0, atol=atol, err_msg=note)
            continue
        if action == "sweep":
            runs += 1
            made = xj.sweep(explainer, rows, tmp_path / str(runs), rows_per_part=2)
            if rng.integers(2):  # a part is lost, and the run resumed
                (tmp_path / str(runs) / "part-000001.npz").unlink()
                made = xj.sweep(explainer, rows, tmp_path / str(runs), rows_per_part=2)
            found = made.explanation()
        else:
            found = explainer(rows)
        np.testing.assert_allclose(found.values, values, rtol=0, atol=atol, err_msg=note)
        np.testing.assert_allclose(found.base_values, base, rtol=0, atol=atol, err_msg=note)
        fresh = xj.Explainer(model, B)(rows)
        np.testing.assert_array_equal(found.values, fresh.values, err_msg=note)
