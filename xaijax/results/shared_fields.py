"""Fields that results of N instances have in common, for values of players or of sets.

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import Any, NoReturn, Self

import numpy as np

from xaijax.core.checks import as_array, leaves_of, listed, real_numbers, shown, yes_or_no
from xaijax.core.errors import InputError, InputTypeError
from xaijax.results.files import npz
from xaijax.results.selection import Selection, resolve, take
from xaijax.tables.plain_frames import is_index
from xaijax.tables.rows import GivenRows, joined_index, labels_of_rows, rows_of

# Arrays [N, ...] of `stats` with an axis of players, and those whose last axis may be outputs.
PER_PLAYER = frozenset({"pool_std_errors"})
PER_OUTPUT = frozenset({"completeness", "quantity", "pool_std_errors"})


def shared_fields(result: Any, values: np.ndarray, features: Any, P: int) -> dict[str, Any]:
    """The fields common to results of values [N, ...] or [N, ..., K], checked and frozen.

    result: as it was given; features: the names of its P players, None: "player 0", ...
    """
    N, K = len(values), values.shape[2] if values.ndim == 3 else None
    base_values = floats("base_values", result.base_values)
    check_shape("base_values", base_values.shape, (N,) if K is None else (N, K))
    std_errors = result.std_errors
    if std_errors is not None:
        std_errors = floats("std_errors", std_errors)
        check_shape("std_errors", std_errors.shape, values.shape)
        not_negative("std_errors", std_errors, "a standard error")
    features = [] if features is None else listed(features, "feature_names")
    if not features:
        features = tuple(f"player {j}" for j in range(P))
    outputs = result.output_names
    if K is not None and outputs is None:
        outputs = tuple(f"output {k}" for k in range(K))
    exact, stats, present = result.exact, facts("stats", result.stats), result.present
    if present is not None:
        present = read_only(as_array(present, "present", ""))
        if present.dtype.kind != "b":
            raise InputTypeError(f"present: got dtype {present.dtype}; a bool mask is needed.")
        check_shape("present", present.shape, (N, P))
    index, labels = checked_labels(result.instance_index, result.instance_names, N)
    return {
        "values": values,
        "base_values": base_values,
        "std_errors": std_errors,
        "data": None if result.data is None else frozen_rows(result.data, N),
        "feature_names": names("feature_names", features, P, unique=True),
        "output_names": names("output_names", outputs, K, unique=True),
        "instance_names": labels,
        "instance_index": index,
        "exact": yes_or_no(bool(exact) if isinstance(exact, np.bool_) else exact, "exact"),
        "stats": MappingProxyType({key: read_only(value) for key, value in stats.items()}),
        "provenance": MappingProxyType(dict(facts("provenance", result.provenance))),
        "present": present,
    }


def checked_labels(index: Any, labels: Any, N: int) -> tuple[Any, tuple[str, ...] | None]:
    """(the index, the names) of N instances as they were given.

    If the names do not come from the index, they replace it.
    """
    if index is not None:
        if not is_index(index):
            raise InputTypeError(
                f"instance_index: got {type(index).__name__}; pass an index of pandas, or "
                "instance_names= for texts."
            )
        check_shape("instance_index", (len(index),), (N,))
        index = labels_of_rows(index)
    indexed = None if index is None else texts_of(index)
    if labels is None:
        return index, indexed
    texts = names("instance_names", labels, N, unique=False)
    return index if texts == indexed else None, texts


def texts_of(index: Any) -> tuple[str, ...]:
    """The labels of a pandas Index as texts; several levels are joined."""
    if index.nlevels == 1:
        return tuple(map(str, index))
    return tuple(", ".join(map(str, label)) for label in index)


def labels_of(result: Any) -> Any:
    """Labels of the N instances for a frame: their index, names or positions."""
    if result.instance_index is not None:
        return result.instance_index
    if result.instance_names is not None:
        return np.array(result.instance_names, dtype=object)
    return np.arange(len(result))


def repeated_labels(result: Any, times: int) -> Any:
    """The same labels as a column, each repeated `times` times."""
    labels = labels_of(result)
    if getattr(labels, "nlevels", 1) > 1:
        labels = labels.to_flat_index()
    return labels.repeat(times)


def joined_labels(parts: Sequence[Any]) -> tuple[Any, tuple[str, ...] | None]:
    """(the index, the names) of the instances of all parts.

    Instances of a part without names have their positions in that part, like the rows of a frame
    with a default index.
    """
    if all(part.instance_names is None for part in parts):
        return None, None
    every, known, texts = [], True, []
    for part in parts:
        places = range(len(part))
        known &= part.instance_index is not None or part.instance_names is None
        texts += map(str, places) if part.instance_names is None else part.instance_names
        every.append(places if part.instance_index is None else part.instance_index)
    if not known:
        return None, tuple(texts)
    index = joined_index(every)
    return index, None if index is None else texts_of(index)


def index_of_rows(result: Any, rows: Selection) -> Any:
    """The index of some rows of a result.

    Rows of a frame with a default index keep their labels in that frame, so that a join finds them.
    """
    if result.instance_index is not None:
        return result.instance_index[rows]
    if result.instance_names is not None or result.data is None:
        return None
    return rows_of(take_rows(result.data, rows)).index


def stats_of_rows(
    stats: Mapping[str, Any], N: int, rows: Selection, players: Selection | None = None
) -> dict[str, Any]:
    """The stats of some of N instances; entries per player are cut to some players.

    players: None if the values are not of players.
    """
    taken = {name: v[rows] if per_instance(v, N) else v for name, v in stats.items()}
    for name in PER_PLAYER & taken.keys() if players is not None else ():
        taken[name] = taken[name][:, players]
    return taken


class ResultOfRows:
    """Members of all frozen results of N instances, whatever their values mean."""

    values: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of `values`: (N, P) or (N, P, K), for `Interactions` (N, M) or (N, M, K)."""
        return self.values.shape

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Self]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Self:
        raise NotImplementedError

    # A read-only mapping cannot be pickled or deep-copied; a process pool of the user's needs both.
    def __reduce__(self) -> tuple[Any, ...]:
        return rebuilt, (type(self), self._plain())

    def _plain(self) -> dict[str, Any]:
        """The fields, with mappings that can be pickled."""
        state = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return {
            name: dict(value) if isinstance(value, MappingProxyType) else value
            for name, value in state.items()
        }

    def _save(self, path: str | os.PathLike[str], format: str, later: Sequence[str] = ()) -> None:
        """Writes all fields; `later`, which older versions do not know, if they are set."""
        state = self._plain().items()
        npz.write(path, {n: v for n, v in state if n not in later or v is not None}, format)

    def _of_rows(self, rows: Selection, columns: Any) -> dict[str, Any]:
        """The fields of some instances, and of some players or sets."""
        result: Any = self
        errors = result.std_errors
        return {
            "values": result.values[rows][:, columns],
            "base_values": result.base_values[rows],
            "std_errors": None if errors is None else errors[rows][:, columns],
            "data": take_rows(result.data, rows),
            "instance_names": result.instance_names and take(result.instance_names, rows),
            "instance_index": index_of_rows(result, rows),
        }


def rebuilt(kind: Callable[..., Any], state: dict[str, Any]) -> Any:
    """Rebuilds an object from the parts that `__reduce__` returned."""
    return kind(**state)


def select_output(
    key: Any, output_names: tuple[str, ...], changes: dict[str, Any], provenance: dict[str, Any]
) -> None:
    """Cuts the arrays of `changes`, including its stats, to the outputs that a key means.

    A single output drops their last axis, and its name goes into the provenance.
    """
    outputs, single = resolve(key, len(output_names), output_names, "output")
    chosen: Any = outputs if single is None else single
    for name in ("values", "base_values", "std_errors"):
        if changes.get(name) is not None:
            changes[name] = changes[name][..., chosen]
    for name in PER_OUTPUT & changes.get("stats", {}).keys():
        array = changes["stats"][name]
        if isinstance(array, np.ndarray) and array.shape[-1:] == (len(output_names),):
            if array.ndim > 1:
                changes["stats"][name] = array[..., chosen]
    selected = take(output_names, outputs)
    if not selected:
        raise InputError(f"output key {key!r} selects no output.")
    changes["output_names"] = selected if single is None else None
    if single is not None:
        provenance["selected_output"] = selected[0]


class FrozenDict(dict[str, Any]):
    """A dict that cannot be changed: all changes raise TypeError."""

    def _refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("this dict is frozen. Make a copy to change: dict(...).")

    __setitem__ = __delitem__ = pop = popitem = clear = _refuse
    update = setdefault = __ior__ = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)


def frozen(value: Any) -> Any:
    """Dicts and lists in frozen form, at any depth; anything else as it is."""
    if isinstance(value, Mapping):
        return FrozenDict({name: frozen(item) for name, item in value.items()})
    return tuple(map(frozen, value)) if isinstance(value, list | tuple) else read_only(value)


class FrozenArrays:
    """Makes the arrays of a frozen dataclass read-only views."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            object.__setattr__(self, field.name, read_only(getattr(self, field.name)))


def thawed(value: Any) -> Any:
    """Converts the result of `frozen` back to dicts and lists."""
    if isinstance(value, Mapping):
        return {name: thawed(item) for name, item in value.items()}
    return list(map(thawed, value)) if isinstance(value, tuple) else value


def floats(name: str, array: Any) -> np.ndarray:
    """A read-only float64 array; a float64 array given is not copied."""
    return read_only(real_numbers(array, name))


def values_of(result: Any, axis: str) -> np.ndarray:
    """The values of a result as float64; axis: the letter of the players or sets."""
    values = floats("values", result.values)
    if values.ndim not in (2, 3):
        raise InputError(f"values: got {values.shape}; accepted are [N, {axis}], [N, {axis}, K].")
    return values


def read_only(value: Any) -> Any:
    """An array as a view that cannot be written; anything else as it is."""
    # A view: the flag must not affect an array that the caller goes on using.
    if isinstance(value, np.ndarray) and value.flags.writeable:
        value = value.view()
        value.flags.writeable = False
    return value


def check_shape(name: str, got: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Raises for a shape that does not fit the values."""
    if got != expected:
        raise InputError(f"{name}: got shape {got}; the values need {expected}.")


def names(name: str, values: Any, size: int | None, unique: bool) -> tuple[str, ...] | None:
    """The names of one axis as texts; size None: the axis does not exist."""
    if values is None:
        return None
    values = listed(values, name)
    if size is None:
        raise InputError(f"{name}: values [N, P] have one output; pass None or values [N, P, K].")
    result = tuple(str(value) for value in values)
    if len(result) != size:
        raise InputError(f"{name}: got {len(result)} names; the values need {size}.")
    if unique and len(set(result)) < size:
        twice = next(text for text in result if result.count(text) > 1)
        raise InputError(f"{name}: {twice!r} is there more than once; names must differ.")
    return result


def unique(texts: Sequence[str]) -> tuple[str, ...]:
    """Texts as names that all differ: one that occurs again has its number."""
    seen: Counter[str] = Counter()
    names: list[str] = []
    for text in texts:
        name = " ".join(text.split()) or repr(text)
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    if len(set(names)) < len(names):  # one is called "a (2)" itself
        return tuple(f"{p}: {name}" for p, name in enumerate(names))
    return tuple(names)


def facts(name: str, values: Any) -> Mapping[str, Any]:
    """Checks and returns a mapping whose keys are texts."""
    if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
        raise InputTypeError(
            f"{name}: got {type(values).__name__} {values!r:.60}; pass a dict whose keys are texts."
        )
    return values


def not_negative(name: str, array: np.ndarray, meaning: str) -> np.ndarray:
    """Returns the array after checking that no number is negative; NaN means unknown."""
    if (array < 0).any():
        raise InputError(
            f"{name}: got {shown(array[array < 0][0])}; {meaning} is at least 0, or NaN if unknown."
        )
    return array


def per_instance(value: Any, N: int) -> bool:
    """Whether an entry of `stats` has one entry per instance."""
    return isinstance(value, np.ndarray) and value.ndim > 0 and len(value) == N


def frozen_rows(data: Any, N: int) -> Any:
    """Arrays of N rows as views that cannot be written; a frame as it is."""
    rows = rows_of(data)
    if rows.is_frame:
        check_shape("data (its first axis)", data.shape[:1], (N,))
        return data
    leaves, structure = leaves_of(data, "data") if rows.kind == "tree" else ([data], None)
    leaves = [_frozen_leaf(leaf, N) for leaf in leaves]
    if not leaves:
        raise InputTypeError(f"data: got an empty {type(data).__name__}, which holds no instances.")
    return leaves[0] if structure is None else structure.unflatten(leaves)


def _frozen_leaf(leaf: Any, N: int) -> np.ndarray:
    """One array of the instances [N, *F]."""
    try:
        array = read_only(np.asarray(leaf))
    except (TypeError, ValueError) as error:
        raise InputTypeError(
            f"data: got {type(leaf).__name__}, which is no array of rows of one length: {error}."
        ) from error
    if array.dtype.kind == "c":
        raise InputTypeError(f"data is complex ({array.dtype}); real numbers are needed.")
    check_shape("data (its first axis)", array.shape[:1], (N,))
    return array


def take_rows(data: Any, rows: Selection) -> Any:
    """The selected rows of an array or frame; None stays None."""
    return None if data is None else rows_of(data).take(rows)


def player_columns(
    data: Any, feature_names: Sequence[str], known: Sequence[Sequence[int]] | None
) -> list[int | None]:
    """The column of `data` of each player [P]; None for a united player, or if none is known.

    Args:
        data: array [N, *F], frame, or None.
        feature_names: the players [P].
        known: `provenance["player_columns"]`, the column positions of each player, if present; for
            instances of rank above 1 they count entries in C order.

    Raises:
        InputError: `known` does not have an entry for each player, or names no columns of `data`.
    """
    if data is None:
        return [None] * len(feature_names)
    if known is not None:
        check_columns(known, len(feature_names), data)
        return [int(columns[0]) if len(columns) == 1 else None for columns in known]
    rows = rows_of(data)
    if rows.is_frame:
        labels = [str(label) for label in rows.labels]
        places = {label: c for c, label in enumerate(labels)}
        several = {label for label, times in Counter(labels).items() if times > 1}
        return [None if name in several else places.get(name) for name in feature_names]
    if rows.width == len(feature_names):
        return list(range(len(feature_names)))
    return [None] * len(feature_names)


def player_data(result: Any) -> list[np.ndarray | None]:
    """The column of `data` of each player, P arrays [N]; None for a player without exactly one."""
    known = result.provenance.get("player_columns")
    places, rows = player_columns(result.data, result.feature_names, known), rows_of(result.data)
    return [None if j is None else rows.column(j) for j in places]


def rows_of_frame(data: Any) -> GivenRows | None:
    """The rows of a frame; None for other data, and for none."""
    return rows if (rows := rows_of(data)).is_frame else None


def check_columns(columns: Any, P: int, data: Any) -> None:
    """Raises if `provenance["player_columns"]` does not fit P players, or `data` if known.

    Raises:
        InputError: it does not fit.
    """
    width = np.inf if data is None else rows_of(data).width
    try:
        fits = len(columns) == P and all(
            isinstance(c, int | np.integer) and 0 <= c < width for places in columns for c in places
        )
    except TypeError:
        fits = False
    if not fits:
        known = "" if data is None else f", below {width:,} as data has"
        raise InputError(
            f"provenance['player_columns']: expected for each of {P:,} players a tuple of the "
            f"positions of its columns{known}; leave it out where there are none."
        )


def as_numbers(values: np.ndarray) -> np.ndarray | None:
    """The entries as float64 [N] if all are numbers (None counts as NaN), else None."""
    if values.dtype.kind in "biuf" or (values.dtype.kind == "V" and values.dtype.names is None):
        return values.astype(np.float64)
    numbers = int | float | np.integer | np.floating | np.bool_ | None
    if values.dtype.kind != "O" or not all(isinstance(v, numbers) for v in values):
        return None
    return np.array([np.nan if v is None else float(v) for v in values])


def concatenate(parts: Sequence[Any]) -> Any:
    """The rows of all parts, arrays or frames of one library, concatenated.

    Raises:
        InputError: the parts have different kinds, columns or instance shapes.
    """
    if all(part is None for part in parts):
        return None
    kinds = {"none" if part is None else rows_of(part).kind for part in parts}
    if len(kinds) > 1:
        raise InputError(f"data: the parts are of different kinds, {', '.join(sorted(kinds))}.")
    rows = rows_of(parts[0])
    if not rows.is_frame:
        if len({rows_of(part).instance for part in parts}) > 1:
            raise InputError("data: the parts have instances of different shapes.")
    elif len({tuple(rows_of(part).labels) for part in parts}) > 1:
        raise InputError("data: the parts have different columns.")
    elif any(list(part.dtypes) != list(parts[0].dtypes) for part in parts):
        raise InputError("data: the parts have columns of different dtypes.")
    return rows.stacked(parts)
