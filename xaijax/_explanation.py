"""`Explanation`: values, base values, errors, and how they were made."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from xaijax import _convert, _files, _intervals, _private_explanation, _summary
from xaijax._checks import whole_number
from xaijax._errors import InputError, InputTypeError
from xaijax._frames import frame_kind
from xaijax._freeze import check_shape, floats, names, read_only
from xaijax._player_data import check_columns, data_column, player_columns, take_rows
from xaijax._private_explanation import PrivateExplanation
from xaijax._public import public, public_class
from xaijax._select import Selection, resolve, split_key, take


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Influence of P players on N instances (and K outputs), frozen.

    Holds no model and no game. Arrays are read-only views (a frame in `data` is kept as given),
    `stats` and `provenance` are read-only mappings. `for one in explanation` goes through the
    instances, `len(explanation)` is N.

    An array in `stats` whose first axis has N entries ("efficiency_residual", "exact_rows", "dof")
    is one entry per instance and is sliced and merged with them; everything else in `stats` tells
    of the run and stays as it is. `provenance["player_columns"]`, where present, is a P-tuple of
    tuples: the columns of `data` that each player covers (entries in C order where instances have a
    higher rank). Without it a frame's columns are found by name, and an array whose instances have
    P entries is taken to have one per player in order.

    Raises:
        InputError: arrays whose shapes do not fit each other, or duplicate names.
        InputTypeError: values that are not numbers.
    """

    values: np.ndarray  # float64 [N, P] or [N, P, K]
    base_values: np.ndarray  # float64 [N] or [N, K]
    std_errors: np.ndarray | None = None  # like values; None when exact; NaN: no degree of freedom
    data: Any = None  # what was explained: array [N, *F], or the frame as given
    feature_names: tuple[str, ...] = ()  # [P], the players; () becomes "player 0", ...
    output_names: tuple[str, ...] | None = None  # [K]; None when values are [N, P]
    instance_names: tuple[str, ...] | None = None  # [N]
    exact: bool = True
    kind: str = "shapley"  # the index: "shapley" | "banzhaf" | ...
    stats: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        values = floats("values", self.values)
        if values.ndim not in (2, 3):
            raise InputError(
                f"values: got shape {values.shape}; accepted are [N, P] and [N, P, K]."
            )
        N, P, K = values.shape if values.ndim == 3 else (*values.shape, None)
        base_values = floats("base_values", self.base_values)
        check_shape("base_values", base_values.shape, (N,) if K is None else (N, K))
        std_errors = self.std_errors
        if std_errors is not None:
            std_errors = floats("std_errors", std_errors)
            check_shape("std_errors", std_errors.shape, values.shape)
        data = self.data
        if data is not None and frame_kind(data) is None:
            data = read_only(np.asarray(data))
            if data.dtype.kind == "c":
                raise InputTypeError(f"data is complex ({data.dtype}); real numbers are needed.")
        if data is not None:
            check_shape("data (its first axis)", data.shape[:1], (N,))
        if not isinstance(self.kind, str):
            raise InputTypeError(f"kind: got {type(self.kind).__name__}; a text is needed.")
        features = self.feature_names
        if features is None or len(features) == 0:
            features = tuple(f"player {j}" for j in range(P))
        outputs = self.output_names
        if K is not None and outputs is None:
            outputs = tuple(f"output {k}" for k in range(K))
        stats = {key: read_only(value) for key, value in self.stats.items()}
        frozen: dict[str, Any] = {
            "values": values,
            "base_values": base_values,
            "std_errors": std_errors,
            "data": data,
            "feature_names": names("feature_names", features, P, unique=True),
            "output_names": names("output_names", outputs, K, unique=True),
            "instance_names": None
            if self.instance_names is None
            else names("instance_names", self.instance_names, N, unique=False),
            "exact": bool(self.exact),
            "stats": MappingProxyType(stats),
            "provenance": MappingProxyType(dict(self.provenance)),
        }
        for name, value in frozen.items():
            object.__setattr__(self, name, value)

    # A read-only mapping cannot be pickled or deep-copied; a process pool of the user's needs both.
    def __reduce__(self) -> tuple[Any, ...]:
        state = {f.name: getattr(self, f.name) for f in fields(self)}
        state |= {"stats": dict(self.stats), "provenance": dict(self.provenance)}
        return (_rebuild, (state,))

    def __repr__(self) -> str:
        return _summary.describe(self)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, P) or (N, P, K)."""
        return self.values.shape

    def __iter__(self) -> Iterator[Explanation]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Explanation:
        """Part of the explanation: `explanation[instance, player, output]`, later axes optional.

        Each axis takes an integer, a name, a slice, a list of integers or names, or a bool mask.
        One instance (`explanation[3]`) stays an Explanation with N = 1, one player likewise keeps
        its axis; one output drops the output axis, and `provenance["selected_output"]` remembers
        it. With some players only, base value plus values is no longer the model's answer. `data`
        keeps all its columns; `stats` other than the arrays [N] tell of the whole run.

        Raises:
            InputError: out of range, an unknown name, a mask of another length, no player left.
            InputTypeError: a key of another type.
        """
        N, P = self.shape[:2]
        keys = split_key(key, self.values.ndim)
        rows, _ = resolve(keys[0], N, self.instance_names, "instance")
        players, _ = resolve(keys[1], P, self.feature_names, "player")
        changes: dict[str, Any] = {
            "values": self.values[rows][:, players],
            "base_values": self.base_values[rows],
            "std_errors": None if self.std_errors is None else self.std_errors[rows][:, players],
            "data": take_rows(self.data, rows),
            "feature_names": take(self.feature_names, players),
            "instance_names": self.instance_names and take(self.instance_names, rows),
            "stats": {
                name: value[rows] if per_instance(value, N) else value
                for name, value in self.stats.items()
            },
        }
        if not changes["feature_names"]:
            raise InputError(f"player key {keys[1]!r} selects no player.")
        provenance = dict(self.provenance)
        if len(changes["feature_names"]) < P or not isinstance(players, slice):
            provenance |= self._columns_of(players)
        if self.output_names is not None:
            outputs, single = resolve(keys[2], len(self.output_names), self.output_names, "output")
            chosen: Any = outputs if single is None else single
            for name in ("values", "base_values", "std_errors"):
                if changes[name] is not None:
                    changes[name] = changes[name][..., chosen]
            kept = take(self.output_names, outputs)
            if not kept:
                raise InputError(f"output key {keys[2]!r} selects no output.")
            changes["output_names"] = kept if single is None else None
            if single is not None:
                provenance["selected_output"] = kept[0]
        return replace(self, provenance=provenance, **changes)

    def _columns_of(self, players: Selection) -> dict[str, Any]:
        """The provenance entry that keeps some of the players tied to their columns of `data`."""
        given = self.provenance.get("player_columns")
        if given is None:
            if not isinstance(self.data, np.ndarray):
                return {}  # nothing to tie, or a frame: its columns are found by name
            found = player_columns(self.data, self.feature_names, None)
            given = [() if j is None else (j,) for j in found]
        check_columns(given, len(self.feature_names), self.data)
        positions = np.arange(len(self.feature_names))[players]
        return {"player_columns": tuple(tuple(given[j]) for j in positions)}

    def player_data(self) -> list[np.ndarray | None]:
        """For each player its column of `data` [N]; None where it has not exactly one column.

        A player of one pixel has that pixel's numbers: positions in `provenance["player_columns"]`
        count the entries of an instance in C order, whatever its rank.

        Raises:
            InputError: `provenance["player_columns"]` does not fit the players or `data`.
        """
        given = self.provenance.get("player_columns")
        found = player_columns(self.data, self.feature_names, given)
        return [None if j is None else data_column(self.data, j) for j in found]

    def half_widths(self, level: float = 0.95) -> np.ndarray:
        """Half-widths of the confidence intervals of the values, like values.

        By Student's t with `stats["dof"]` [N] degrees of freedom; where that is absent the normal
        quantile. 0 where exact, NaN where the standard error is unknown. Each interval is of one
        value: of many values whose true value is 0, a share of 1 - level has an interval without 0.

        Raises:
            InputError: level is not between 0 and 1.
            InputTypeError: level is no number.
        """
        if isinstance(level, bool) or not isinstance(level, int | float | np.integer | np.floating):
            raise InputTypeError(f"level: got {level!r}; pass a number between 0 and 1.")
        if not 0 < level < 1:
            raise InputError(f"level: got {level!r}; pass a number between 0 and 1, 0.95 say.")
        if self.std_errors is None:
            return np.full(self.shape, 0.0 if self.exact else np.nan)
        dof = self.stats.get("dof")
        known = per_instance(dof, len(self))
        return _intervals.half_widths(self.std_errors, dof if known else np.inf, float(level))

    def to_dataframe(self, long: bool = False) -> Any:
        """A pandas DataFrame; needs `pip install "xaijax[data]"`.

        Wide (default): one row per instance, the index being the instance names or 0..N-1, one
        column per player, then "base_value"; with K outputs the columns are pairs (output, player).
        Long: one row per instance, player and output, with the columns instance, player, output
        (only with K outputs), value, std_error (0 where exact, NaN where unknown), base_value, and
        data, the instance's own value, where at least one player is a single column of `data`.

        Raises:
            InputError: a player is called "base_value" (wide only).
            ImportError: pandas is not installed.
        """
        return _convert.to_dataframe(self, long)

    def to_shap(self) -> Any:
        """A `shap.Explanation` that shap's plots draw; needs `pip install shap`.

        Its `data` is [N, P], players that are not a single column being NaN (None among objects);
        None where no player is. Its `error_std` are the standard errors.

        Raises:
            ImportError: shap is not installed.
        """
        return _convert.to_shap(self)

    def to_shapiq(self) -> list[Any]:
        """One `shapiq.InteractionValues` of order 1 per instance [N]; needs `pip install shapiq`.

        Raises:
            InputError: K outputs (choose one: `explanation[:, :, "name"]`), or an index that is
                neither Shapley nor Banzhaf.
            ImportError: shapiq is not installed.
        """
        return _convert.to_shapiq(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one .npz file, as `path` says, that `xaijax.load` reads back exactly.

        NumPy arrays and a JSON text, no pickle; written under a temporary name and renamed.

        Raises:
            InputError: the folder does not exist, or `data`, `stats` or `provenance` hold something
                that has no exact form in the file.
            InputTypeError: `path` is not a path.
        """
        _files.write(path, {f.name: getattr(self, f.name) for f in fields(self)})


@public
def load(
    path: str | os.PathLike[str], max_bytes: int | None = None
) -> Explanation | PrivateExplanation:
    """Read what `Explanation.save` wrote: equal bytes, dtypes, names, stats and provenance.

    Also what `PrivateExplanation.save` wrote. The file may come from anyone: nothing in it is run,
    and no more is read than it has bytes.

    Args:
        path: the file.
        max_bytes: how many bytes its content may take. None: as many as the file itself has, which
            is what `save` writes; a file that somebody has compressed needs more.

    Raises:
        FileNotFoundError: no such file.
        InputError: not such a file, a damaged one, one of a newer version, or one whose content is
            larger than allowed.
        InputTypeError: `path` is not a path, or max_bytes no whole number.
        ImportError: `data` is a frame of a library that is not installed.
    """
    if max_bytes is not None:
        max_bytes = whole_number(max_bytes, "max_bytes")
    makers = {
        _files.FORMAT: _rebuild,
        _private_explanation.FORMAT: lambda state: PrivateExplanation(**state),
    }
    return _files.read(path, makers, max_bytes)


def per_instance(value: Any, N: int) -> bool:
    """Whether an entry of `stats` is one entry per instance."""
    return isinstance(value, np.ndarray) and value.ndim > 0 and len(value) == N


def _rebuild(state: dict[str, Any]) -> Explanation:
    return Explanation(**state)
