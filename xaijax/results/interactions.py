"""`Interactions`: values of sets of players, base values, errors, and how they were made."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from xaijax.core import checks, sequences
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public_class
from xaijax.players.interaction_index import INTERACTIONS, checked_order, interaction_index
from xaijax.results import convert, set_keys
from xaijax.results.fingerprint import Fingerprint, of_result
from xaijax.results.result_html import interactions_html
from xaijax.results.selection import resolve, split_key, take
from xaijax.results.set_keys import all_of, named
from xaijax.results.shared_fields import (
    ResultOfRows,
    read_only,
    select_output,
    shared_fields,
    stats_of_rows,
    values_of,
)
from xaijax.results.summary import finite_instances, headline_of, largest, shown_stats, sure_of
from xaijax.tables.rows import rows_of

FORMAT = "xaijax.Interactions"


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Interactions(ResultOfRows):
    """Holds how much sets of players move a model's answer together, for N instances.

    It is made by `Explainer.interactions` and `CoalitionTable.interactions`. docs/interactions.md
    describes each index. An interaction of two players above 0 means that together they move the
    answer further up than separately.

    `len(interactions)` is N, `for one in interactions` goes through the instances, and
    `interactions[instance, set, output]` is a part of it. It is frozen and holds no model, like an
    `Explanation`.

    Attributes:
        values: float64 [N, M], or [N, M, K] for K outputs. One number for each set of players.
        base_values: float64 [N] or [N, K]. The value of the empty coalition.
        sets: tuple of M tuples of positions of players, each ascending; all differ. A run gives
            them by size, then in player order; a slice has the order of its key. (0,) is the first
            player alone, (0, 2) the first with the third.
        std_errors: float64, shaped like `values`, or None: exact. 0 for exact instances, NaN
            without a degree of freedom.
        index: str. "sii", "k-sii", "stii", "fsii", "banzhaf" or "moebius".
        order: int. The largest requested size of a set. The values of smaller sets depend on it for
            "k-sii", "stii" and "fsii". None becomes the size of the largest set.
        data: array [N, *F], a frame or several arrays as they were given, or None. The instances.
        feature_names: tuple of str [P]. Names of the players, all different. (), the default,
            becomes ("player 0", "player 1", ...).
        output_names: tuple of str [K], all different, or None if `values` are [N, M].
        instance_names: tuple of str [N] or None.
        exact: bool. Whether there is no error from draws or from a random model; True by default.
        stats: mapping. What the run did and cost, as in `Explanation`. Sampled feature pairs also
            have "large_pairs_sought", bool [N]: False if there were too few coalitions to search
            for a pair far larger than the others, which is then shrunk towards 0.
        provenance: mapping. How the values were made, as in `Explanation`.
        present: bool [N, P], or None if every instance has all players.
        instance_index: pandas Index [N] or None, as for `Explanation`.

    Raises:
        InputError: shapes of arrays do not fit each other, sets repeat or their positions do not
            ascend, or names repeat.
        InputTypeError: values are not real numbers, or sets are not positions.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> model = xj.as_model(lambda X: X[:, 0] * X[:, 1] + X[:, 2])
        >>> explainer = xj.Explainer(model, np.zeros((1, 3)))
        >>> found = explainer.interactions(np.array([[2.0, 3.0, 1.0]]), index="k-sii")
        >>> found.sets
        ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2))
        >>> found.values.round(3) + 0.0
        array([[0., 0., 1., 6., 0., 0.]])
        >>> found.matrix[0].round(3) + 0.0
        array([[0., 6., 0.],
               [6., 0., 0.],
               [0., 0., 1.]])
        >>> found[:, ("x0", "x1")].values.round(3)
        array([[6.]])
    """

    values: np.ndarray
    base_values: np.ndarray
    sets: tuple[tuple[int, ...], ...]
    std_errors: np.ndarray | None = None
    index: str = "sii"
    order: int | None = None
    data: Any = None
    feature_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] | None = None
    instance_names: tuple[str, ...] | None = None
    exact: bool = True
    stats: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    present: np.ndarray | None = None
    instance_index: Any = None

    def __post_init__(self) -> None:
        values = values_of(self, "M")
        names = () if self.feature_names is None else self.feature_names
        names = checks.listed(names, "feature_names")
        sets = set_keys.checked(self.sets, values.shape[1], len(names))
        P = len(names) or 1 + max(place for S in sets for place in S)
        largest = max(map(len, sets))
        order = largest if self.order is None else checked_order(self.order, P)
        if order < largest:
            raise InputError(f"order: got {order}, but there is a set of {largest} players.")
        frozen = shared_fields(self, values, names, P)
        frozen |= {"sets": sets, "index": interaction_index(self.index).name, "order": order}
        for name, value in frozen.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        lines = [self._headline(), f"  {sure_of(self)}"]
        finite = finite_instances(self.values)
        if finite.any():
            joined = [m for m, S in enumerate(self.sets) if len(S) > 1]
            if joined:
                names = [named(self.set_names[m]) for m in joined]
                text = largest(self.values[finite][:, joined], names)
                lines.append(f"  largest mean |interaction|: {text}")
        sought = self.stats.get("large_pairs_sought")
        if isinstance(sought, np.ndarray) and not sought.all():
            lines.append(
                f"  budget too small to look for large pairs, of {int((~sought).sum()):,} of "
                f"{len(self):,} instances: raise it, or say unbiased=True"
            )
        return "\n".join(lines + shown_stats(self))

    def _headline(self) -> str:
        head = f"Interactions ({self.index}, order {self.order})"
        return headline_of(self, head, "sets", f" of {len(self.feature_names):,} players")

    def _repr_html_(self) -> str:
        return interactions_html(self, self._headline())

    @property
    def fingerprint(self) -> Fingerprint:
        """The `Fingerprint` of the model, the background and the question of these values."""
        return of_result(self, "index", "order", "sets")

    @property
    def set_names(self) -> tuple[tuple[str, ...], ...]:
        """The sets by the names of their players."""
        return tuple(tuple(self.feature_names[p] for p in S) for S in self.sets)

    @property
    def matrix(self) -> np.ndarray:
        """Returns the sets of one and two players as symmetric matrices.

        Returns:
            float64 [N, P, P], or [N, P, P, K]. The diagonal holds the single players, by the same
            index; larger sets are not included.

        Raises:
            InputError: some of these sets were not requested, or were sliced away.
        """
        P = len(self.feature_names)
        wanted = all_of(P, min(2, P))
        place = {S: m for m, S in enumerate(self.sets)}
        missing = [S for S in wanted if S not in place]
        if missing:
            raise InputError(
                f"matrix: needs every player and every pair, but "
                f"{named([self.feature_names[p] for p in missing[0]])!r} is not among the "
                f"{len(self.sets):,} sets. Take it before slicing sets."
            )
        out = np.zeros((len(self), P, P, *self.values.shape[2:]))
        for S in wanted:
            out[:, S[0], S[-1]] = out[:, S[-1], S[0]] = self.values[:, place[S]]
        return read_only(out)

    def __getitem__(self, key: Any) -> Interactions:
        """Returns a part: `interactions[instance, set, output]`, later axes optional.

        One instance stays an Interactions with N = 1, and one set keeps its axis. One output drops
        the output axis, and provenance["selected_output"] is its name. Sets come in the order of
        the key.

        Args:
            key: for instances and outputs an integer, a name, a slice, a list of these, or a bool
                mask. For sets: a player's name, or a tuple of players (names or positions), is one
                set; a list of them is several sets; an integer, a slice, a list of integers or a
                bool mask [M] are positions in `sets`.

        Returns:
            An `Interactions`.

        Raises:
            InputError: a position is out of range, a name or set is unknown, a mask has another
                length, or nothing is left.
            InputTypeError: a key has another type.
        """
        keys = split_key(key, self.values.ndim, "interactions", "set")
        rows, _ = resolve(keys[0], len(self), self.instance_names, "instance")
        chosen = set_keys.positions(keys[1], self.sets, self.feature_names)
        changes: dict[str, Any] = {
            **self._of_rows(rows, chosen),
            "present": None if self.present is None else self.present[rows],
            "sets": take(self.sets, chosen),
            "stats": stats_of_rows(self.stats, len(self), rows),
        }
        provenance = dict(self.provenance)
        if self.output_names is not None:
            select_output(keys[2], self.output_names, changes, provenance)
        return replace(self, provenance=provenance, **changes)

    def half_widths(self, level: float = 0.95) -> np.ndarray:
        """Returns half-widths of confidence intervals, as for `Explanation.half_widths`.

        Args:
            level: float between 0 and 1. The probability that an interval contains the true value.

        Returns:
            float64, shaped like `values`: 0 for exact values, NaN if the standard error is unknown.

        Raises:
            InputError, InputTypeError: the level is not accepted.
        """
        dof = self.stats.get("dof")
        return sequences.half_widths_of(self.std_errors, self.shape, self.exact, dof, level)

    def to_dataframe(self, long: bool = False) -> Any:
        """Returns a pandas DataFrame of the values. It needs `pip install "xaijax[data]"`.

        Args:
            long: False: one row for each instance, with a column for each set, called "a & b" by
                its players, then "base_value"; with K outputs, columns are tuples (output, set).
                True: one row for each instance, set and output, with the columns instance, set,
                size, output (with K outputs only), value, std_error (0 if exact, NaN if unknown)
                and base_value.

        Returns:
            A `pandas.DataFrame`.

        Raises:
            InputError: a player is called "base_value" (with long=False only).
            InputTypeError: `long` is not True or False.
            ImportError: pandas is not installed.
        """
        checks.yes_or_no(long, "long")
        labels = [named(S) for S in self.set_names]
        if long:
            sizes, names = [len(S) for S in self.sets], np.array(labels, object)
            return convert.long_frame(self, None, set=names, size=sizes)
        if len(set(labels)) < len(labels):
            twice = next(label for label in labels if labels.count(label) > 1)
            raise InputError(
                f"to_dataframe: two sets are called {twice!r}; say to_dataframe(long=True)."
            )
        return convert.wide(self, "set", labels)

    def to_shapiq(self) -> list[Any]:
        """Returns a list of `shapiq.InteractionValues`. It needs `pip install shapiq`.

        Returns:
            N `shapiq.InteractionValues`, one for each instance.

        Raises:
            InputError: there are K outputs (select one first: `interactions[:, :, "name"]`).
            ImportError: shapiq is not installed.
        """
        index: Any = interaction_index(self.index).shapiq
        return convert.values_of_shapiq(self, "interactions", index, self.sets, self.order or 0)

    @classmethod
    def from_shapiq(cls, found: Any, feature_names: Any = None, data: Any = None) -> Interactions:
        """Returns shapiq's results as `Interactions`, to be drawn, compared and saved.

        Args:
            found: a `shapiq.InteractionValues`, or a list of them, one for each instance, with one
                index, order and number of players. A set that is not listed is 0.
            feature_names: P names of the players. None: "player 0", "player 1", ...
            data: the instances as rows [N, P], an array or a frame, whose columns are the players
                in their order; `plots.dependence` draws against them. None: they are not known.

        Returns:
            `Interactions` of one output. Estimates of shapiq have no standard errors (NaN).

        Raises:
            InputError: the index is not "SII", "k-SII", "STII", "FSII", "BII" or "Moebius"; several
                answer different questions; there are none; or data have another number of rows or
                columns.
            InputTypeError: `found` is not `shapiq.InteractionValues`.

        Example:
            >>> import shapiq
            >>> import xaijax as xj
            >>> game = lambda S: S[:, 0] * S[:, 1] + S[:, 2]
            >>> theirs = shapiq.ExactComputer(game, n_players=3)("k-SII", order=2)
            >>> xj.Interactions.from_shapiq(theirs)[:, ("player 0", "player 1")].values
            array([[1.]])
        """
        results = list(found) if isinstance(found, list | tuple) else [found]
        if not results:
            raise InputError("found: got none; pass at least one shapiq.InteractionValues.")
        for result in results:
            if not (hasattr(result, "interaction_lookup") and hasattr(result, "baseline_value")):
                raise InputTypeError(
                    f"found: got {type(result).__name__}; pass a shapiq.InteractionValues, or a "
                    "list of them."
                )
        facts = {(r.index, r.n_players, r.min_order, r.max_order) for r in results}
        if len(facts) > 1:
            raise InputError(
                f"found: differ in (index, n_players, min_order, max_order): {sorted(facts)}; pass "
                "answers to one question."
            )
        ((name, P, least, most),) = facts
        ours = {index.shapiq: index.name for index in INTERACTIONS.values()}
        if most == 1:  # shapiq's names of the same values of single players
            ours |= {"SV": "sii", "BV": "banzhaf"}
        if name not in ours:
            known = ", ".join(map(repr, ours))
            raise InputError(f"found: index {name!r} has no counterpart here; known are {known}.")
        sets = [S for S in all_of(P, most) if len(S) >= least]
        values = np.zeros((len(results), len(sets)))  # a set that shapiq does not list is 0 there
        place = {S: m for m, S in enumerate(sets)}
        for n, result in enumerate(results):
            for S, where in result.interaction_lookup.items():
                if len(S) >= max(1, least):
                    values[n, place[tuple(sorted(S))]] = result.values[where]
        estimated = np.array([bool(result.estimated) for result in results])
        errors = np.where(estimated[:, None], np.nan, np.zeros(values.shape))
        names = [f"player {p}" for p in range(P)] if feature_names is None else list(feature_names)
        if isinstance(feature_names, str) or len(names) != P:
            raise InputError(
                f"feature_names: got {feature_names!r}; there are {P} players to name."
            )
        if data is not None:
            data = np.asarray(data) if isinstance(data, list) else data
            shape = len(rows_of(data)), rows_of(data).width
            if shape != values.shape[:1] + (P,):
                raise InputError(
                    f"data: got {shape[0]:,} rows of {shape[1]:,} columns; pass rows "
                    f"[{len(results)}, {P}], a column for each player, or leave data= out."
                )
        return cls(
            values,
            np.array([float(result.baseline_value) for result in results]),
            tuple(sets),
            errors if estimated.any() else None,
            ours[name],
            most,
            data,
            tuple(names),
            exact=not estimated.any(),
            provenance={"method": "shapiq"},
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one .npz file, which `xaijax.load` reads back exactly; no pickle.

        Args:
            path: str or path. The file's name, used as it is.

        Raises:
            InputError, InputTypeError: as for `Explanation.save`.
        """
        self._save(path, FORMAT, ("instance_index",))


def value_name(result: Interactions) -> str:
    """Returns the name of one number."""
    return interaction_index(result.index).value
