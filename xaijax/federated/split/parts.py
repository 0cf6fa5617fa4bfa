"""A party's part of a split model: numbers and a formula, kept in a file without code.

Letters: R rows, F columns of the party, E numbers of an answer, T trees, D depth, B training rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError, ModelOutputError
from xaijax.core.public import public_class
from xaijax.results.files.npz import as_path, file_to_read
from xaijax.results.files.untrusted_zip import Members
from xaijax.tables.frames import same_labels

SCHEMA = 2
LONGEST = 100  # characters of a release


def _linear(xp: Any, arrays: Mapping[str, Any], rows: Any) -> Any:
    del xp
    return rows @ arrays["weights"][:, None]  # [R, 1]


def _network(xp: Any, arrays: Mapping[str, Any], rows: Any) -> Any:
    for layer in range(len(arrays) // 2):
        rows = xp.tanh(rows @ arrays[f"weights{layer}"] + arrays[f"bias{layer}"])
    return rows  # [R, E], within -1 and 1


def _trees(xp: Any, arrays: Mapping[str, Any], rows: Any) -> Any:
    """Full binary trees: node i has the children 2 i + 1 and 2 i + 2."""
    feature, threshold, value = (arrays[name] for name in ("feature", "threshold", "value"))
    inner = feature.shape[1]  # 2^D - 1
    tree = xp.arange(len(feature))
    node = xp.zeros((len(rows), len(feature)), np.int32)
    rows = rows.astype(np.float32)  # as thresholds are, so that all parties go the same way
    for _ in range(inner.bit_length()):
        right = xp.take_along_axis(rows, feature[tree, node], axis=1) > threshold[tree, node]
        node = 2 * node + 1 + right
    return value[tree, node - inner].sum(axis=1)[:, None]  # [R, 1]


def _distances(xp: Any, arrays: Mapping[str, Any], rows: Any) -> Any:
    training = arrays["training"]
    out = xp.zeros((len(rows), len(training)))
    for column in range(training.shape[1]):  # no cancellation, unlike the expanded square
        out = out + (rows[:, column, None] - training[:, column]) ** 2
    return out  # [R, B]


@dataclass(frozen=True)
class _Kind:
    formula: Callable[[Any, Mapping[str, Any], Any], Any]
    columns: Callable[[Mapping[str, Any]], int]
    width: Callable[[Mapping[str, Any]], int]


def _last_layer(arrays: Mapping[str, Any]) -> Any:
    return arrays[f"weights{len(arrays) // 2 - 1}"]


KINDS: Mapping[str, _Kind] = {
    "linear": _Kind(_linear, lambda a: len(a["weights"]), lambda a: 1),
    "network": _Kind(_network, lambda a: len(a["weights0"]), lambda a: _last_layer(a).shape[1]),
    "trees": _Kind(_trees, lambda a: int(a["columns"].shape[0]), lambda a: 1),
    "distances": _Kind(
        _distances, lambda a: a["training"].shape[1], lambda a: a["training"].shape[0]
    ),
}


@public_class
@dataclass(frozen=True, repr=False)
class Part:
    """One party's part g of a split model: rows [R, F] of its columns -> answers [R, E].

    It consists of arrays and a word that says how they are used, so that its file holds numbers and
    no code. The makers of split models (`split_logistic` and others) make parts for all parties.

    Args:
        kind: how the answers are computed.
            "linear": x . weights, with weights [F]; E = 1.
            "network": tanh(x @ weights0 + bias0), and so on for weights1, bias1, ...; tanh follows
            every layer. weights0 is [F, H], bias0 [H]; E is the width of the last layer.
            "trees": the sum over T full binary trees of depth D, with feature and threshold
            [T, 2^D - 1], value [T, 2^D] and columns [F]; E = 1. Node i has the children 2 i + 1 and
            2 i + 2. A row goes to the second one if its entry, as float32, is above the threshold.
            "distances": squared distances to the rows of training [B, F]; E = B.
        arrays: {"name": array} of finite numbers, with the names above. Thresholds may be infinite.
        party: text or None, the name of the guest whose part it is.
        release: text of at most 100 characters, or None. It is the same in all parts that were made
            together. The makers draw it at random, so it says nothing about the weights.
        feature_names: texts [F] or None, the names of the party's columns, in the order of the
            arrays.

    Host and guest compare party and release when they connect, before any answer. A guest's frame
    is read by `feature_names`.

    Attributes:
        columns: F.
        width: E, how many numbers an answer has.

    Raises:
        InputError, InputTypeError: another kind, or arrays that are missing, are not finite or do
            not fit each other.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> part = xj.federated.Part("linear", {"weights": np.array([0.5, -1.0, 2.0])})
        >>> part.answers(np.array([[0.0, 2.0, 1.0], [4.0, 0.0, 1.0]]))
        array([[0.],
               [4.]])
    """

    kind: str
    arrays: Mapping[str, np.ndarray]
    party: str | None = None
    release: str | None = None
    feature_names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        checks.one_of(self.kind, "kind", list(KINDS))
        checks.instance(self.arrays, "arrays", Mapping, 'a dict {"name": array}')
        held = {n: checks.as_array(array, f"arrays: {n!r}") for n, array in self.arrays.items()}
        object.__setattr__(self, "arrays", held)
        for name, a in held.items():
            if a.dtype.kind not in "iuf" or (name != "threshold" and not np.isfinite(a).all()):
                raise InputError(f"arrays: {name!r} must hold finite numbers.")
        try:
            kind = KINDS[self.kind]
            answer = kind.formula(np, held, np.zeros((1, self.columns)))
            good = answer.shape == (1, self.width)
        except (KeyError, IndexError, ValueError, TypeError):
            good = False
        if not good:
            shapes = {name: array.shape for name, array in held.items()}
            raise InputError(f"arrays of kind {self.kind!r} do not fit each other: {shapes}.")
        _check_identity(self)

    @property
    def columns(self) -> int:
        """F, how many columns the party has."""
        return KINDS[self.kind].columns(self.arrays)

    @property
    def width(self) -> int:
        """E, how many numbers an answer has."""
        return KINDS[self.kind].width(self.arrays)

    def formula(self, xp: Any, arrays: Mapping[str, Any], rows: Any) -> Any:
        """The answers, computed by NumPy or by JAX.

        Args:
            xp: the module `numpy` or `jax.numpy`.
            arrays: {"name": array}, shaped like those of the part.
            rows: array [R, F] of that module.

        Returns:
            An array [R, E] of that module.
        """
        return KINDS[self.kind].formula(xp, arrays, rows)

    def answers(self, rows: np.ndarray) -> np.ndarray:
        """The part's answers.

        Args:
            rows: array [R, F].

        Returns:
            float64 [R, E].
        """
        return np.asarray(self.formula(np, self.arrays, rows), np.float64)

    def save(self, path: str | Path) -> None:
        """Writes the part to a .npz file, which holds numbers and no code. `load_part` reads it.

        Args:
            path: the file.

        Raises:
            InputError, InputTypeError: a path that no file can have.
        """
        save_arrays(path, {"kind": self.kind, **identity_of(self)}, self.arrays)

    def __repr__(self) -> str:
        return f"Part({self.kind!r}, {self.columns} columns -> {self.width} numbers)"


@public_class
@dataclass(frozen=True, repr=False)
class FunctionPart:
    """A part that is any function of rows, for guests that are made in Python.

    Args:
        function: rows [R, F] -> numbers [R] or [R, E].
        columns: int: F.
        width: int: E, how many numbers an answer has.
        kind: text. Leave it as it is; a guest's policy refuses the kind "distances".
        party, release, feature_names: as for `Part`. A host whose model has a release accepts parts
            of the same release only: say release=split.host.release if the function computes what a
            part of that split would.

    Attributes:
        columns: F.
        width: E.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> part = xj.federated.FunctionPart(lambda rows: rows.max(axis=1), columns=3)
        >>> part.answers(np.array([[0.0, 2.0, 1.0], [4.0, 0.0, 1.0]]))
        array([[2.],
               [4.]])

    If the function's answers change, give the part another model version. Hosts that kept answers,
    and the noise, know a function by its version alone.
    """

    function: Callable[[np.ndarray], Any]
    columns: int
    width: int = 1
    kind: str = "function"
    party: str | None = None
    release: str | None = None
    feature_names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        checks.functions(self, "function")
        checks.whole_number(self.columns, "columns")
        checks.whole_number(self.width, "width")
        checks.text(self.kind, "kind")
        _check_identity(self)

    def answers(self, rows: np.ndarray) -> np.ndarray:
        """The function's answers.

        Args:
            rows: array [R, F].

        Returns:
            float64 [R, E].

        Raises:
            ModelOutputError: the function returned another shape.
            InputTypeError: the function returned no real numbers.
        """
        # A copy: it may return views of a buffer.
        answers = checks.real_numbers(self.function(rows), "function's answers").copy()
        answers = answers[:, None] if answers.ndim == 1 else answers
        if answers.shape != (len(rows), self.width):
            raise ModelOutputError(
                f"function returned an array of shape {answers.shape} for {len(rows)} rows; "
                f"({len(rows)}, {self.width}) is needed. Fix it, or say width=."
            )
        return answers


def load_part(path: str | Path) -> Part:
    """Reads a part from a file. No code in the file is run.

    Args:
        path: a file that `Part.save` wrote.

    Returns:
        The `Part`.

    Raises:
        InputError: another file, or one that cannot be read.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> import xaijax as xj
        >>> part = xj.federated.Part("linear", {"weights": np.array([0.5, -1.0, 2.0])})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     part.save(f"{folder}/shop.npz")
        ...     xj.federated.load_part(f"{folder}/shop.npz")
        Part('linear', 3 columns -> 1 numbers)
    """
    facts, arrays = load_arrays(path, "part")
    return Part(str(facts.get("kind")), arrays, **{name: facts.get(name) for name in IDENTITY})


IDENTITY = ("party", "release", "feature_names")


def identity_of(part: Any) -> dict[str, Any]:
    """The party that a part belongs to, its release and its columns, as JSON facts."""
    return {name: getattr(part, name, None) for name in IDENTITY}


def _check_identity(part: Any) -> None:
    """Refuses names that are none; feature_names become a tuple."""
    for name in ("party", "release"):
        value = getattr(part, name)
        if checks.text(value, name, none=True) is not None and not 0 < len(value) <= LONGEST:
            raise InputError(f"{name} has {len(value)} characters; 1 to {LONGEST} are accepted.")
    names = feature_names_of(part.feature_names, part.columns)
    object.__setattr__(part, "feature_names", names)


def feature_names_of(names: Any, columns: int) -> tuple[str, ...] | None:
    """The names [F] of as many columns, or None; raises InputError and InputTypeError."""
    if names is None:
        return None
    texts = tuple(checks.listed(names, "feature_names", "texts"))
    if not all(isinstance(text, str) for text in texts):
        raise InputTypeError(f"feature_names must be texts, got {names!r:.80}.")
    texts = tuple(map(str, texts))
    if len(texts) != columns:
        raise InputError(f"feature_names has {len(texts)} names for {columns} columns.")
    checks.unique_names(texts, "feature_names")
    return texts


def columns_by_name(
    labels: Sequence[str], names: Sequence[str], name: str, owner: str
) -> list[int]:
    """Places of the columns `names` [F] of a part among the labels of a table.

    name, owner: those of the table, and of the part, for messages. Raises InputError for other
    columns.
    """
    checks.unique_names(labels, f"{name}: column names")
    if set(labels) != set(names):
        same_labels(labels, names, name, owner)  # says which are missing and which unknown
    return [list(labels).index(label) for label in names]


def save_arrays(path: str | Path, facts: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Writes arrays and JSON facts to a .npz file."""
    said = np.frombuffer(json.dumps({"schema": SCHEMA, **facts}).encode(), np.uint8)
    everything: dict[str, Any] = {"facts": said, **arrays}
    with as_path(path).open("wb") as file:
        np.savez(file, **everything)


def load_arrays(path: str | Path, what: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Reads what `save_arrays` wrote; never unpickles. Raises InputError for another file."""
    try:
        with file_to_read(path).open("rb") as file:
            archive = Members(file, None)  # savez compresses nothing
            names = [name.removesuffix(".npy") for name in archive.names]
            arrays = {name: archive.array(f"{name}.npy") for name in names}
        facts = json.loads(arrays.pop("facts").tobytes())
        schema = facts.pop("schema")
    except Exception as error:  # zipfile, OSError, ValueError, KeyError: all mean another file
        reason = f"cannot be read ({type(error).__name__}); a file that save() wrote is needed."
        raise InputError(f"{what}: {path} {reason}") from None
    if schema != SCHEMA:
        raise InputError(
            f"{what}: {path} has schema {schema}; this xaijax reads {SCHEMA}. Split the model "
            "again, and give all parties their files."
        )
    return facts, arrays
