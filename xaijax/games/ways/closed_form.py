"""Semivalues in closed form, of additive models and of sums of trees: no coalition is asked.

Letters: N instances, B donors, C columns, P players, H units of the layer, K outputs, L leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import jax.numpy as jnp
import numpy as np

from xaijax.games.engine.evaluator import Evaluator
from xaijax.games.ways.corners import Totals
from xaijax_kernels.games.semivalues import induced_weights
from xaijax_kernels.structures.dense import Dense
from xaijax_kernels.structures.leaves import (
    Leaves,
    broken,
    leaves_by_players,
    paid,
    pattern_weights,
)
from xaijax_kernels.structures.product import Boxes, Product

ROWS = 256  # looked at together, the last ones filled up, so that one shape compiles
HEAD = "the affine head"
TABLE_BYTES = 1 << 25  # of the leaves that are looked at together


class _Form(Protocol):
    name: str

    def of(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of columns [n, C]: the values [n, P, H] and the layer [n, H] itself, float64."""
        ...

    @property
    def of_donors(self) -> np.ndarray:
        """The layer of the donors, float64 [B, H]."""
        ...


class ClosedForm:
    """Semivalues of one explainer's instances, by what is known of its model."""

    def __init__(self, evaluator: Evaluator, form: _Form, head: Any, columns: Any) -> None:
        """head: (A [H, K], c [K]) with f = layer A + c; columns: codes [n, F] -> [n, C]."""
        self.name = form.name
        self._form, self._columns = form, columns
        self._matrix, self._constant = head
        of_donors = self._outputs(form.of_donors)
        self._empty = evaluator.replacement.weights @ of_donors
        self._ends = of_donors.min(axis=0), of_donors.max(axis=0)

    def add(self, own: Totals, codes: np.ndarray) -> None:
        """Put the sums of the instances with these codes [n, F] into `own`."""
        values, layer = self._form.of(self._columns(codes))
        own.phi += values @ self._matrix
        own.empty += self._empty
        own.full[...] = self._outputs(layer)
        low, high = (np.abs(own.full - end).max(axis=1) for end in self._ends)
        np.maximum(own.span, np.maximum(low, high), out=own.span)

    def _outputs(self, layer: np.ndarray) -> np.ndarray:
        return layer @ self._matrix + self._constant


def affine_head(evaluator: Evaluator) -> Any:
    """(A [H, K], c [K]) where the trace of the probed model says layer A + c; else None."""
    structure = evaluator.structure
    if not evaluator.structured or evaluator.score is not None or not hasattr(structure, "affine"):
        return None
    if evaluator.kept.get(HEAD, (None,))[0] is not structure:
        evaluator.kept[HEAD] = structure, structure.affine(evaluator.model.params)
    return evaluator.kept[HEAD][1]


def closed_form(evaluator: Evaluator, p: np.ndarray) -> ClosedForm | None:
    """For the semivalue with weights p [P], where the probed model's structure has one."""
    head = affine_head(evaluator)
    if head is None:
        return None
    key = ("closed", p.tobytes())
    if key not in evaluator.kept:
        evaluator.kept[key] = _made(evaluator, p, head)
    return evaluator.kept[key]


def _made(evaluator: Evaluator, p: np.ndarray, head: Any) -> ClosedForm | None:
    known = evaluator.structure.of(evaluator.model.params)
    player = evaluator.code_players[np.maximum(known.owners, 0)]

    def columns(codes: np.ndarray) -> np.ndarray:
        return np.concatenate([np.asarray(known.columns(rows))[:n] for rows, n in _blocks(codes)])

    donors, weights = columns(evaluator.replacement.codes), evaluator.replacement.weights
    inner, P = known.inner, evaluator.players.count  # p may be that of fewer, see `index_weights`
    if isinstance(inner, Dense):
        share = induced_weights(p, 1)[0]
        form: _Form = _Additive(inner, head, donors, weights, player, P, share)
        K = len(head[1])  # the units are folded into the outputs, of which there may be far fewer
        return ClosedForm(evaluator, form, (np.eye(K), np.zeros(K)), columns)
    if not (isinstance(inner, Product) and isinstance(inner.factors, Boxes)):
        return None
    low, high = np.asarray(inner.factors.low), np.asarray(inner.factors.high)
    groups = leaves_by_players(low, high, np.asarray(inner.coefficients, np.float64), player)
    if groups is None:
        return None
    trees = _Trees(groups, donors, weights, P, lambda k: induced_weights(p, k))
    intercept = np.asarray(inner.intercept, np.float64)
    return ClosedForm(evaluator, trees, (head[0], head[1] + intercept @ head[0]), columns)


class _Additive:
    """f = sum over columns z_c (W A)_c, and a constant."""

    name = "additive"

    def __init__(
        self,
        dense: Dense,
        head: tuple[np.ndarray, np.ndarray],
        donors: np.ndarray,
        weights: np.ndarray,
        player: np.ndarray,
        P: int,
        share: float,
    ) -> None:
        """player int [C]; share: what the semivalue gives a player of an additive game."""
        A, c = head
        self._weights = np.asarray(dense.weights, np.float64) @ A
        self._bias = np.asarray(dense.bias, np.float64) @ A + c
        donors = donors.astype(np.float64)
        self._mean = weights @ donors
        self._P, self._share = P, share
        self._order = np.argsort(player, kind="stable")  # columns of a player, side by side
        self._players, self._starts = np.unique(player[self._order], return_index=True)
        self.of_donors = donors @ self._weights + self._bias

    def of(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `_Form`."""
        columns = columns.astype(np.float64)
        change = columns - self._mean
        values = np.zeros((len(columns), self._P, self._weights.shape[1]))
        for k, w in enumerate(self._weights.T):
            terms = (change * w)[:, self._order]
            values[:, self._players, k] = np.add.reduceat(terms, self._starts, axis=1)
        return values * self._share, columns @ self._weights + self._bias


class _Trees:
    """layer = sum over leaves of their values."""

    name = "trees"

    def __init__(
        self,
        groups: list[Leaves],
        donors: np.ndarray,
        weights: np.ndarray,
        P: int,
        induced: Callable[[int], np.ndarray],
    ) -> None:
        self._P = P
        self._parts: list[tuple[Leaves, np.ndarray]] = []
        A = groups[0].values.shape[1]
        self.of_donors = np.zeros((len(donors), A))
        for group in groups:
            pays = pattern_weights(group.d, induced).reshape(1 << group.d, -1)
            for part in _split(group):
                pattern = _patterns(part, donors)
                self.of_donors += (pattern == 0) @ part.values
                place = pattern + (np.arange(len(part.values)) << part.d)
                size = len(part.values) << part.d
                w = np.repeat(weights, len(part.values))
                met = np.bincount(place.ravel(), w, size).reshape(-1, 1 << part.d)
                table = (met @ pays).reshape(size, part.d)
                self._parts.append((part, table.astype(donors.dtype)))

    def of(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `_Form`."""
        A = self.of_donors.shape[1]
        values, layer = np.zeros((len(columns), self._P, A)), np.zeros((len(columns), A))
        for part, table in self._parts:
            here = jnp.asarray(table), part.players, part.values.astype(table.dtype)
            done = 0
            for rows, n in _blocks(columns):
                pattern = broken(rows, part.column, part.slot, part.low, part.high)
                if part.d:
                    values[done : done + n] += np.asarray(paid(pattern, *here, P=self._P))[:n]
                layer[done : done + n] += (np.asarray(pattern)[:n] == 0) @ part.values
                done += n
        return values, layer


def _split(group: Leaves) -> Iterator[Leaves]:
    """Leaves whose tables fit the memory that they may take."""
    step = max(1, TABLE_BYTES // (8 * max(group.d, 1) << group.d))
    for first in range(0, len(group.values), step):
        own = slice(first, first + step)
        arrays = (group.players, group.column, group.slot, group.low, group.high, group.values)
        yield Leaves(*(array[own] for array in arrays))


def _patterns(part: Leaves, rows: np.ndarray) -> np.ndarray:
    fixed = (part.column, part.slot, part.low, part.high)
    return np.concatenate([np.asarray(broken(some, *fixed))[:n] for some, n in _blocks(rows)])


def _blocks(rows: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """(ROWS rows, how many of them are meant)."""
    for first in range(0, len(rows), ROWS):
        some = rows[first : first + ROWS]
        yield np.pad(some, ((0, ROWS - len(some)), (0, 0)), mode="edge"), len(some)
