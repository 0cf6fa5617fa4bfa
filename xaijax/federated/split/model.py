"""Split models F(h(x_H), g_1(x_G1), ...): the host's side, the guests' parts, and all in one.

Letters: R rows, F columns, H columns of the host, E numbers of an answer, B training rows.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.public import public_class
from xaijax.federated.in_process.parties import HOST, Parties
from xaijax.federated.split.parts import Part, feature_names_of, load_arrays, save_arrays
from xaijax.models import Model, as_model, model_of

OWN, JOIN = "own.", "join."  # in the file of a host's side


def _score(xp: Any, arrays: Mapping[str, Any], host: Any, answers: Any) -> Any:
    del xp
    return host[:, 0] + answers.sum(axis=1) + arrays["intercept"]


def _logistic(xp: Any, arrays: Mapping[str, Any], host: Any, answers: Any) -> Any:
    return 1 / (1 + xp.exp(-_score(xp, arrays, host, answers)))


def _head(xp: Any, arrays: Mapping[str, Any], host: Any, answers: Any) -> Any:
    hidden = xp.concatenate([host, answers], axis=1)
    hidden = xp.tanh(hidden @ arrays["weights0"] + arrays["bias0"])
    return 1 / (1 + xp.exp(-(hidden @ arrays["weights1"] + arrays["bias1"])[:, 0]))


def _neighbours(xp: Any, arrays: Mapping[str, Any], host: Any, answers: Any) -> Any:
    """The share of the k nearest training rows that have the class; ties by the sort's order."""
    B = host.shape[1]
    distances = host + answers.reshape(len(host), -1, B).sum(axis=1)
    k = int(arrays["k"])
    return arrays["labels"][xp.argpartition(distances, k - 1, axis=1)[:, :k]].mean(axis=1)


JOINS: Mapping[str, Callable[[Any, Mapping[str, Any], Any, Any], Any]] = {
    "score": _score,  # own + answers + intercept
    "logistic": _logistic,  # its sigmoid
    "head": _head,  # a hidden layer on [own | answers], and a sigmoid
    "neighbours": _neighbours,  # own and answers are squared distances
}


@public_class
@dataclass(frozen=True, repr=False)
class SplitModel:
    """The host's side of a split model: a model of [host's columns | answers of each guest].

    A split model is F(h(x_H), g_1(x_G1), ...): each guest computes a few numbers of its own
    columns, its answer, and the host computes the rest of these and of its own columns.

    Args:
        model: a `Model` of `as_model`, or what `as_model` takes without options, on rows
            [R, H + sum of widths]: the host's columns, then each guest's answer in the order of
            `widths`.
        columns: int: H.
        widths: {"guest": how many numbers its answer has}.
        origin: how the model was made, for `save`. None for a model that you made; it cannot be
            saved.
        release: text or None, that of the guests' parts. A guest whose part is of another release
            is refused before it answers.
        feature_names: texts [H] or None, the names of the host's columns in the order of the model.
            A host's frame is read by them.

    Raises:
        InputError, InputTypeError: an argument is not accepted.

    Example:
        >>> import xaijax as xj
        >>> joined = xj.as_model(lambda X: X[:, 0] * X[:, 1])
        >>> xj.federated.SplitModel(joined, columns=1, widths={"shop": 1})
        SplitModel(1 host columns; shop (1 numbers))

        The host's only column is multiplied by the shop's answer.
    """

    model: Model
    columns: int
    widths: Mapping[str, int]
    origin: tuple[Part, str, Mapping[str, np.ndarray]] | None = None
    release: str | None = None
    feature_names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", model_of(self.model))
        checks.whole_number(self.columns, "columns")
        if not isinstance(self.widths, Mapping) or not self.widths:
            raise InputError(f'widths must be {{"guest": width}}, got {self.widths!r}.')
        for name, width in self.widths.items():
            checks.whole_number(width, f"widths[{name!r}]")
        checks.text(self.release, "release", none=True)
        names = feature_names_of(self.feature_names, self.columns)
        object.__setattr__(self, "feature_names", names)
        if names is not None:
            named = self.model.replace(feature_names=[*names, *answer_labels(self.widths)])
            object.__setattr__(self, "model", named)

    @classmethod
    def of(
        cls,
        own: Part,
        widths: Mapping[str, int],
        join: Literal["score", "logistic", "head", "neighbours"],
        arrays: Mapping[str, np.ndarray],
    ) -> SplitModel:
        """The host's side of a model that joins the host's part with the guests' answers.

        Args:
            own: the host's `Part`; its release and feature_names are those of the SplitModel.
            widths: {"guest": how many numbers its answer has}.
            join: how they are joined. "score": the host's number plus the answers plus intercept.
                "logistic": the sigmoid of that. "head": a hidden layer with tanh on [host's numbers
                | answers], then a sigmoid. "neighbours": the sum of squared distances, then the
                share of the k nearest training rows that have the class.
            arrays: those of the join. "score" and "logistic": intercept. "head": weights0, bias0,
                weights1, bias1. "neighbours": labels and k.

        Returns:
            A `SplitModel`, which `save` accepts.

        Raises:
            InputError, InputTypeError: an argument is not accepted.
        """
        checks.one_of(join, "join", list(JOINS))
        H = own.columns

        def formula(xp: Any, held: Mapping[str, Any], rows: Any) -> Any:
            mine = own.formula(xp, held["own"], rows[:, :H])
            return JOINS[join](xp, held["join"], mine, rows[:, H:])

        held = {"own": dict(own.arrays), "join": dict(arrays)}
        origin = (own, join, dict(arrays))
        model = _model(formula, held, join)
        return cls(model, H, dict(widths), origin, own.release, own.feature_names)

    def save(self, path: str | Path) -> None:
        """Writes the host's side to a .npz file, which `load_split` reads.

        Args:
            path: the file.

        Raises:
            InputError, InputTypeError: a path that no file can have, or a SplitModel that was made
                of a Model.
        """
        if self.origin is None:
            raise InputError("save: this SplitModel was made of a Model; save that Model instead.")
        part, join, arrays = self.origin
        facts: dict[str, Any] = {"kind": part.kind, "join": join, "widths": dict(self.widths)}
        facts |= {"release": self.release, "feature_names": self.feature_names}
        named = {OWN + name: array for name, array in part.arrays.items()}
        save_arrays(path, facts, named | {JOIN + name: array for name, array in arrays.items()})

    def __repr__(self) -> str:
        guests = ", ".join(f"{name} ({width} numbers)" for name, width in self.widths.items())
        return f"SplitModel({self.columns} host columns; {guests})"


def answer_labels(widths: Mapping[str, int]) -> list[str]:
    """Names of the columns that hold the guests' answers."""
    return [f"{name}.{j}" for name, width in widths.items() for j in range(width)]


def load_split(path: str | Path) -> SplitModel:
    """Reads the host's side of a split model from a file. No code in the file is run.

    Args:
        path: a file that `SplitModel.save` wrote.

    Returns:
        The `SplitModel`.

    Raises:
        InputError: another file, or one that cannot be read.

    Example:
        >>> import tempfile
        >>> import xaijax as xj
        >>> split = xj.federated.split_logistic([1.0, 0.5, -1.0, 2.0], 0.0, {"shop": [1, 2, 3]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     split.host.save(f"{folder}/host.npz")
        ...     xj.federated.load_split(f"{folder}/host.npz")
        SplitModel(1 host columns; shop (1 numbers))
    """
    facts, arrays = load_arrays(path, "model")
    try:
        host_arrays = {k.removeprefix(OWN): v for k, v in arrays.items() if k.startswith(OWN)}
        join = {k.removeprefix(JOIN): v for k, v in arrays.items() if k.startswith(JOIN)}
        part = Part(facts["kind"], host_arrays, HOST, facts["release"], facts["feature_names"])
        return SplitModel.of(part, facts["widths"], facts["join"], join)
    except KeyError:
        raise InputError(f"model: {path} is no host's side of a split model.") from None


@dataclass(frozen=True)
class PartySplit:
    """A whole split model, as the one who trained it holds it. `split_logistic` and others make it.

    Attributes:
        host: `SplitModel`, the host's side; `Host` takes it.
        parts: {"guest": its `Part`}; `Guest` takes one.
        joint: `xaijax.Model`, the same model on all columns [R, F], in the order in which they were
            given.

    Example:
        >>> import xaijax as xj
        >>> split = xj.federated.split_logistic([1.0, 0.5, -1.0, 2.0], 0.0, {"shop": [1, 2, 3]})
        >>> split.host
        SplitModel(1 host columns; shop (1 numbers))
        >>> split.parts["shop"]
        Part('linear', 3 columns -> 1 numbers)
    """

    host: SplitModel
    parts: Mapping[str, Part]  # {"guest": its part}
    joint: Model  # the same model on all columns [R, F], in the order in which they were given


def split_of(
    host_part: Part,
    parts: Mapping[str, Part],
    parties: Parties,
    join: Literal["score", "logistic", "head", "neighbours"],
    arrays: Mapping[str, np.ndarray],
    feature_names: Sequence[str] | None = None,
) -> PartySplit:
    """Puts a split model together, under a new release.

    parties: whose columns are where in the rows of the joint model; feature_names: texts [F] of
    these columns, or None.

    The release is random. A digest of the parts would let whoever holds one of them try the
    weights of the others.
    """
    release = secrets.token_hex(16)

    def signed(part: Part, party: str, places: Sequence[int]) -> Part:
        names = None if feature_names is None else [feature_names[c] for c in places]
        return dataclasses.replace(part, party=party, release=release, feature_names=names)

    host_part = signed(host_part, HOST, parties.host)
    parts = {name: signed(part, name, parties.guests[name]) for name, part in parts.items()}
    host = np.array(parties.host)
    own_columns = {name: np.array(places) for name, places in parties.guests.items()}

    def formula(xp: Any, held: Mapping[str, Any], rows: Any) -> Any:
        mine = host_part.formula(xp, held["own"], rows[:, host])
        answers = [
            part.formula(xp, held["parts"][name], rows[:, own_columns[name]])
            for name, part in parts.items()
        ]
        return JOINS[join](xp, held["join"], mine, xp.concatenate(answers, axis=1))

    held = {
        "own": dict(host_part.arrays),
        "join": dict(arrays),
        "parts": {name: dict(part.arrays) for name, part in parts.items()},
    }
    widths = {name: part.width for name, part in parts.items()}
    joint = _model(formula, held, join)
    if feature_names is not None:
        joint = joint.replace(feature_names=list(feature_names))
    return PartySplit(SplitModel.of(host_part, widths, join, arrays), parts, joint)


def _model(formula: Callable[[Any, Any, Any], Any], held: Mapping[str, Any], join: str) -> Model:
    if join == "neighbours":  # in float64: distances that tie in it decide

        def call(rows: np.ndarray) -> np.ndarray:
            return formula(np, held, rows)

        return as_model(call, backend="host")

    def apply(params: Any, rows: Any) -> Any:
        return formula(jnp, params, rows)

    return as_model(apply, params=_float32(held))


def _float32(tree: Any) -> Any:
    """Numbers as a device takes them; whole numbers stay whole."""
    if isinstance(tree, Mapping):
        return {name: _float32(branch) for name, branch in tree.items()}
    return np.asarray(tree, np.int32 if tree.dtype.kind in "iu" else np.float32)
