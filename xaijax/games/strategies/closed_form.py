"""Semivalues in closed form, of additive models and of sums of trees: no coalition is asked.

Letters: N instances, B donors, C columns, P players, H units of the layer, K outputs, L leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xaijax.games.engine.dispatch import ProgramRecipe
from xaijax.games.engine.evaluator import Engine, once
from xaijax.games.run import GameRun
from xaijax.games.strategies.totals import OfPlayers, OfSets, Stretch, Totals, Weights
from xaijax_kernels.structures.base import Form, WeightedDonors
from xaijax_kernels.structures.closed_forms import blocks

Columns = Callable[[np.ndarray], np.ndarray]  # codes [n, F] -> what the layer reads of them [n, C]


class ByClosedForm:
    """The strategy for all instances of a model whose structure has a closed form."""

    def __init__(self, run: GameRun, form: ClosedForm) -> None:
        self._run, self._form = run, form

    def takes(self, stretch: Stretch) -> np.ndarray:
        """Every instance; bool [n]."""
        return np.ones(len(stretch), bool)

    def add(self, stretch: Stretch, places: np.ndarray, own: Totals) -> np.ndarray:
        """Puts the sums of the whole stretch into `own`; bool, all of them."""
        self._form.add(own, self._run.codes[stretch.here])
        self._run.answered(len(places))
        return np.ones(len(places), bool)

    def cost(self, stretch: Stretch, places: np.ndarray) -> None:
        """Adds one full row of each to the run's cost: no hybrid is asked."""
        self._run.cost.add_rows(stretch.here[places], 1)


class ClosedForm:
    """Semivalues of one explainer's instances, by what is known of its model."""

    def __init__(self, weights: np.ndarray, form: Form, columns: Columns) -> None:
        """weights [B]: those of the donors that the form is for."""
        self.name = form.name
        self._form, self._columns = form, columns
        self._matrix, self._constant = form.head
        of_donors = self._outputs(form.of_donors)
        self._empty = weights @ of_donors
        self._ends = of_donors.min(axis=0), of_donors.max(axis=0)

    def add(self, own: Totals, codes: np.ndarray) -> None:
        """Puts the sums of the instances with these codes [n, F] into `own`."""
        values, layer = self._form.of(self._columns(codes))
        own.phi += values @ self._matrix
        own.empty += self._empty
        own.full[...] = self._outputs(layer)
        low, high = (np.abs(own.full - end).max(axis=1) for end in self._ends)
        np.maximum(own.span, np.maximum(low, high), out=own.span)

    def _outputs(self, layer: np.ndarray) -> np.ndarray:
        return layer @ self._matrix + self._constant


def closed_form(engine: Engine, weights: Weights) -> ClosedForm | None:
    """Closed form of the values with these weights; None if the model's structure has none."""
    return _made(engine, weights.of)


@once
def _made(engine: Engine, of: OfPlayers | OfSets) -> ClosedForm | None:
    head = engine.affine
    if head is None:
        return None
    structure, params = engine.structure, engine.model.params
    known = structure.of(params)

    def read(params: Any, rows: Any) -> Any:
        return structure.of(params).columns(rows)

    given = params, next(blocks(engine.replacement.codes))[0]
    recipe = ProgramRecipe(("columns", structure), read, given, what="the columns of a layer")
    program = engine.compiled.program(recipe)

    def columns(codes: np.ndarray) -> np.ndarray:
        return np.concatenate([np.asarray(program(params, rows))[:n] for rows, n in blocks(codes)])

    weights = engine.replacement.weights
    background = WeightedDonors(
        columns(engine.replacement.codes),
        weights,
        known.of_columns(engine.code_players),
        engine.players.count,  # the weights may be those of fewer, see `index_weights`
        of,
    )
    form = known.closed_form(background, head)
    return None if form is None else ClosedForm(weights, form, columns)
