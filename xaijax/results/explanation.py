"""`Explanation`: values, base values, errors, and how they were made."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from xaijax.core import checks, sequences
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.optional import require
from xaijax.core.public import public_class
from xaijax.players.index import named, quoted
from xaijax.results import convert, summary
from xaijax.results.describe_question import output_of_each
from xaijax.results.files import npz
from xaijax.results.fingerprint import Fingerprint, of_result
from xaijax.results.result_html import explanation_html
from xaijax.results.selection import Selection, resolve, split_key, take
from xaijax.results.shared_fields import (
    ResultOfRows,
    as_numbers,
    check_columns,
    check_shape,
    floats,
    not_negative,
    per_instance,
    player_columns,
    player_data,
    rows_of_frame,
    select_output,
    shared_fields,
    stats_of_rows,
    unique,
    values_of,
)
from xaijax.results.top import TopK, top_of


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Explanation(ResultOfRows):
    """Holds what an explainer returns: the influence of P players on N instances (and K outputs).

    A player is an input column, or a group of columns that are replaced together. `values` say how
    much each player moves the model's answer. For `Explainer`, the base value plus Shapley values
    is link(f(x)). `len(explanation)` is N, `for one in explanation` goes through the instances, and
    `explanation[instance, player, output]` is a part of it. If prompts are explained, `segments`
    holds the texts of each prompt's players.

    An explanation is frozen and holds no model. It cannot be changed through its own fields: its
    arrays are read-only views, `stats` and `provenance` are read-only mappings. It does not copy:
    if you change an array or frame after passing it to `Explanation(...)`, it changes here too.

    Attributes:
        values: float64 [N, P], or [N, P, K] for K outputs. The influences.
        base_values: float64 [N] or [N, K]. The value of the empty coalition, in which all players
            are absent (for `QII`: replaced). 0 for distances of `QII` and for `AEC`.
        std_errors: float64, shaped like `values`, or None. Standard errors of sampled values, and
            of enumerated values of a random model: 0 for exact instances, NaN without a degree of
            freedom. None: the values are exact, or no error is known. For `AEC` they are errors of
            a bootstrap.
        data: array [N, *F], a frame or several arrays as they were given, or None. The instances.
        feature_names: tuple of str [P]. Names of the players, all different. (), the default,
            becomes ("player 0", "player 1", ...).
        output_names: tuple of str [K], all different, or None if `values` are [N, P]. None with K
            outputs becomes ("output 0", ...).
        instance_names: tuple of str [N] or None.
        exact: bool. Whether there is no error from draws or from a random model; True by default.
        kind: str. The index: "shapley" (the default), "banzhaf" and "size <= k" (with ", not
            normalised" if so) of `Explainer` and `QII`; "semivalue" of `Explainer`; "unary",
            "deegan-packel" and "Pr[S]" of `QII`; "aec" of `AEC`; "amortized" of
            `AmortizedExplainer`; "integrated_gradients" and "expected_gradients" of
            `GradientExplainer`, which are not indices.
        stats: mapping. What the run did and cost: model rows, seconds, seed and more.
            docs/results.md lists every key. An array whose first axis has N entries ("exact_rows",
            "dof") has one entry for each instance, and is sliced and merged with the instances.
            Every other entry is about the whole run, and slicing does not change it.
        provenance: mapping. How the values were made: method, index, background, versions and more.
            docs/results.md lists every key. provenance["player_columns"], if present, is a tuple of
            P tuples: the positions of each player's columns in `data` (of its entries in C order if
            instances have more than one axis). Without it a frame's columns are found by the
            players' names, and an array whose instances have P entries has one for each player.
        present: bool [N, P], or None if every instance has all players. Whether an instance has
            entries of a player; the value of a missing player is 0.
        bounds: float64 [N], or None if no bound is known. For `AmortizedExplainer`, at its
            confidence, all values of a row are within plus or minus its bound of the true values.
            0: the row is exact; NaN: a row without a known bound, merged with others.

        instance_index: pandas Index [N] or None. The index of the explained frame, if it is not
            0..N-1; `instance_names` are its labels as texts, and frames made from the explanation
            have it.

    Raises:
        InputError: shapes of arrays do not fit each other, or names repeat.
        InputTypeError: values are not real numbers, or names or the kind are not text.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> explanation = xj.Explanation(
        ...     values=np.array([[3.0, -1.0], [0.5, 2.0]]),
        ...     base_values=np.array([10.0, 10.0]),
        ...     feature_names=("age", "pay"),
        ... )
        >>> explanation.shape
        (2, 2)
        >>> explanation[0, "age"].values
        array([[3.]])
        >>> explanation.base_values + explanation.values.sum(axis=1)
        array([12. , 12.5])
    """

    values: np.ndarray
    base_values: np.ndarray
    std_errors: np.ndarray | None = None
    data: Any = None
    feature_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] | None = None
    instance_names: tuple[str, ...] | None = None
    exact: bool = True
    kind: str = "shapley"
    stats: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    present: np.ndarray | None = None
    bounds: np.ndarray | None = None
    instance_index: Any = None

    def __post_init__(self) -> None:
        values = values_of(self, "P")
        if not isinstance(self.kind, str):
            raise InputTypeError(f"kind: got {type(self.kind).__name__}; a text is needed.")
        frozen = shared_fields(self, values, self.feature_names, values.shape[1])
        if self.bounds is not None:
            frozen["bounds"] = floats("bounds", self.bounds)
            check_shape("bounds", frozen["bounds"].shape, values.shape[:1])
            not_negative("bounds", frozen["bounds"], "a bound")
        for name, value in frozen.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return summary.describe(self)

    def _repr_html_(self) -> str:
        return explanation_html(self)

    @property
    def fingerprint(self) -> Fingerprint:
        """The `Fingerprint` of the model, the background and the question of these values."""
        return of_result(self, "kind")

    def __getitem__(self, key: Any) -> Explanation:
        """Returns a part: `explanation[instance, player, output]`, later axes optional.

        One instance (`explanation[3]`) stays an Explanation with N = 1, and one player keeps its
        axis. One output drops the output axis, and provenance["selected_output"] is its name. With
        some players only, base value plus values is no longer the model's answer. `data` keeps all
        its columns. Only the arrays [N] of `stats` are sliced. One of several prompts has its own
        segments as players, named by their texts.

        Args:
            key: for each axis an integer, a name, a slice, a list of integers or names, or a bool
                mask. Players and outputs come in the order of the key.

        Returns:
            An `Explanation`.

        Raises:
            InputError: a position is out of range, a name is unknown, a mask has another length, or
                no player or no output is left.
            InputTypeError: a key has another type.
        """
        N, P = self.shape[:2]
        keys = split_key(key, self.values.ndim)
        rows, _ = resolve(keys[0], N, self.instance_names, "instance")
        players, _ = resolve(keys[1], P, self.feature_names, "player")
        changes: dict[str, Any] = {
            **self._of_rows(rows, players),
            "present": None if self.present is None else self.present[rows][:, players],
            "bounds": None if self.bounds is None else self.bounds[rows],
            "feature_names": take(self.feature_names, players),
            "stats": stats_of_rows(self.stats, N, rows, players),
        }
        if not changes["feature_names"]:
            raise InputError(f"player key {keys[1]!r} selects no player.")
        provenance = dict(self.provenance)
        if changes["feature_names"] != self.feature_names:
            provenance |= self._columns_of(players)
        if self.output_names is not None:
            select_output(keys[2], self.output_names, changes, provenance)
        part = replace(self, provenance=provenance, **changes)
        return part._named_by_segments() if len(part) == 1 < N else part

    @property
    def segments(self) -> tuple[tuple[str, ...], ...] | None:
        """The texts of each prompt's segments; None without `data`, and for other methods than
        `PromptExplainer`.
        """
        if "segments" not in self.provenance or self.data is None:
            return None
        texts = np.stack(self.player_data(), axis=1)  # type: ignore[arg-type]
        shown = np.ones(texts.shape, bool) if self.present is None else self.present
        return tuple(tuple(row[has].tolist()) for row, has in zip(texts, shown, strict=True))

    def _named_by_segments(self) -> Explanation:
        """The same with one prompt's segments as names; segments that it lacks are left out."""
        texts = self.segments
        if not texts or not texts[0]:
            return self
        part = self if self.present is None else self[:, np.flatnonzero(self.present[0])]
        return replace(part, feature_names=unique(texts[0]), present=None)

    def _columns_of(self, players: Selection) -> dict[str, Any]:
        """The provenance entry that links these players, in their order, to columns of `data`."""
        columns = self.provenance.get("player_columns")
        if columns is None:
            if self.data is None or rows_of_frame(self.data) is not None:
                return {}  # nothing to link, or a frame: its columns are found by name
            places = player_columns(self.data, self.feature_names, None)
            columns = [() if j is None else (j,) for j in places]
        check_columns(columns, len(self.feature_names), self.data)
        positions = np.arange(len(self.feature_names))[players]
        return {"player_columns": tuple(tuple(columns[j]) for j in positions)}

    def player_data(self) -> list[np.ndarray | None]:
        """Returns for each player its column of `data`.

        Positions in provenance["player_columns"] count the entries of an instance in C order,
        whatever its rank: a player of one pixel gets the numbers of that pixel.

        Returns:
            A list of P arrays [N]; None for a player without exactly one column.

        Raises:
            InputError: provenance["player_columns"] does not fit the players or `data`.
        """
        return player_data(self)

    def half_widths(self, level: float = 0.95) -> np.ndarray:
        """Returns half-widths of confidence intervals: each value plus or minus its half-width.

        They are standard errors times the quantile of Student's t with stats["dof"] [N] degrees of
        freedom, or the normal quantile if there is no "dof". Each interval is for one value alone.
        If the true values of many players are 0, a share of 1 - level of their intervals does not
        contain 0.

        Args:
            level: float between 0 and 1. The probability that an interval contains the true value.

        Returns:
            float64, shaped like `values`: 0 for exact values, NaN if the standard error is unknown.

        Raises:
            InputError: `level` is not between 0 and 1.
            InputTypeError: `level` is not a number.
        """
        dof = self.stats.get("dof")
        exact = self.stats.get("exact_rows")
        exact = exact if per_instance(exact, len(self)) else self.exact
        return sequences.half_widths_of(self.std_errors, self.shape, exact, dof, level)

    def top(self, k: int, confidence: float = 0.95) -> TopK:
        """Returns the k players of the largest |value| of each instance, and which are certain.

        Exact values are certain if they are further apart than rounding can explain. Sampled values
        are certain if simultaneous intervals for all values of an instance separate the k from the
        others, and determine their signs. Such an interval is for a single check at a number of
        draws that was fixed beforehand. Results of `explainer(X, top=k)` and of `tolerance=` have
        bounds that hold at every check, and what the run itself found certain stays so
        (docs/certain_top.md).

        Args:
            k: int from 1 to P.
            confidence: float between 0 and 1. Probability that all claims made about one instance
                are correct.

        Returns:
            A `TopK`: players, values, half-widths, and `certain`.

        Raises:
            InputError: `k` is not from 1 to P, or `confidence` not between 0 and 1.
            InputTypeError: one of them is not a number.

        Example:
            >>> import numpy as np
            >>> import xaijax as xj
            >>> values = np.array([[1.0, -3.0, 0.1]])
            >>> xj.Explanation(values, np.zeros(1), std_errors=values * 0 + 0.1).top(2)
            top 2 of 3 players at 95 %, bound: one look; all certain for 1 of 1 instances
              0: player 1 -3, player 0 1
        """
        return top_of(self, k, confidence)

    def to_dataframe(self, long: bool = False) -> Any:
        """Returns a pandas DataFrame of the values. It needs `pip install "xaijax[data]"`.

        Args:
            long: False: one row for each instance, named by `instance_names` or 0..N-1, with a
                column for each player, then "base_value". With K outputs, columns are tuples
                (output, player). True: one row for each instance, player and output. The columns
                are instance, player, output (with K outputs only), value, std_error (0 if exact,
                NaN if unknown), base_value, and data: the instance's entry of that column, if at
                least one player is a single column of `data`.

        Returns:
            A `pandas.DataFrame`. If each instance has its own output (`outputs=`), the column
            output, the last one with long=False, names it.

        Raises:
            InputError: a player is called "base_value" or, if that column exists, "output" (with
                long=False only).
            ImportError: pandas is not installed.
        """
        if not checks.yes_or_no(long, "long"):
            return convert.wide(self, "player", self.feature_names)
        names = np.array(self.feature_names, dtype=object)
        return convert.long_frame(self, self._table(), player=names)

    def to_shap(self) -> Any:
        """Returns a `shap.Explanation`, for the plots of shap. It needs `pip install shap`.

        Returns:
            A `shap.Explanation`. Its `data` are [N, P], NaN (None among objects) for players that
            are not a single column, or None if no player is one. Its `error_std` are the standard
            errors. With `outputs=`, its `instance_names` name the output of each instance.

        Raises:
            ImportError: shap is not installed.
        """
        shap = require("shap", "shap")
        names, outputs = self.instance_names, output_of_each(self.stats, len(self))
        if outputs:  # the only field of shap with a text for each instance that is sliced with them
            starts = [""] * len(self) if names is None else [f"{name}, " for name in names]
            names = [f"{a}output {b}" for a, b in zip(starts, outputs, strict=True)]
        return shap.Explanation(
            values=self.values.copy(),  # shap's own methods write into their arrays
            base_values=self.base_values.copy(),
            data=self._table(),
            feature_names=list(self.feature_names),
            output_names=None if self.output_names is None else list(self.output_names),
            instance_names=names if outputs else None,
            error_std=None if self.std_errors is None else self.std_errors.copy(),
        )

    def _table(self) -> np.ndarray | None:
        """The data, player by player: [N, P] float64 if all are numbers, else objects."""
        parts = self.player_data()
        if all(part is None for part in parts):
            return None
        numbers = [None if part is None else as_numbers(part) for part in parts]
        plain = all(n is not None for n, p in zip(numbers, parts, strict=True) if p is not None)
        table = np.full(self.shape[:2], np.nan if plain else None, float if plain else object)
        for j, part in enumerate(numbers if plain else parts):
            if part is not None:
                table[:, j] = part
        return table

    def to_shapiq(self) -> list[Any]:
        """Returns a list of `shapiq.InteractionValues` of order 1. It needs `pip install shapiq`.

        Returns:
            N `shapiq.InteractionValues`, one for each instance.

        Raises:
            InputError: there are K outputs (select one first: `explanation[:, :, "name"]`), or the
                index is neither Shapley nor Banzhaf.
            ImportError: shapiq is not installed.
        """
        index = named(self.kind).shapiq
        if index is None:
            raise InputError(
                f"to_shapiq: got the index {self.kind!r}; shapiq has "
                f"{' and '.join(quoted('shapiq'))}."
            )
        sets = [(j,) for j in range(len(self.feature_names))]
        return convert.values_of_shapiq(self, "explanation", index, sets, 1)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the explanation to one .npz file, which `xaijax.load` reads back exactly.

        The file holds NumPy arrays and a JSON text, and no pickle. It is written under a temporary
        name and then renamed, so that nobody reads an incomplete file.

        Args:
            path: str or path. The file's name, used as it is.

        Raises:
            InputError: the folder does not exist, or `data`, `stats` or `provenance` hold something
                that cannot be stored exactly.
            InputTypeError: `path` is not a path.
        """
        self._save(path, npz.FORMAT, ("present", "bounds", "instance_index"))
