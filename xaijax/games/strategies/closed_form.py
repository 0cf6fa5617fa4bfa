"""Computes semivalues in closed form, for additive models and sums of trees, without coalitions.

Letters: N instances, B donors, C columns, P players, H units of the layer, K outputs, L leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xaijax.games.engine.dispatch import ProgramRecipe
from xaijax.games.engine.evaluator import Engine, once
from xaijax.games.run import GameRun
from xaijax.games.strategies.totals import Chunk, OfPlayers, OfSets, Totals
from xaijax_kernels.structures.base import Form, WeightedDonors
from xaijax_kernels.structures.closed_forms import blocks
from xaijax_kernels.structures.paths import path_dependent

# codes [n, F] -> the columns that the layer reads [n, C]
Columns = Callable[[np.ndarray], np.ndarray]


class ByClosedForm:
    """The strategy for all instances of a model whose structure has a closed form."""

    def __init__(self, run: GameRun, form: ClosedForm) -> None:
        self._run, self._form = run, form

    def takes(self, chunk: Chunk) -> np.ndarray:
        """Every instance; bool [n]."""
        return np.ones(len(chunk.here), bool)

    def add(self, chunk: Chunk, places: np.ndarray, totals: Totals) -> np.ndarray:
        """Writes the sums of the full chunk into `totals`; bool, all of them."""
        self._form.add(totals, self._run.codes[chunk.here])
        self._run.answered(len(places))
        return np.ones(len(places), bool)

    def cost(self, chunk: Chunk, places: np.ndarray) -> None:
        """Adds one full row per instance to the run's cost: no hybrids are needed."""
        self._run.cost.add_rows(chunk.here[places], 1)


class ClosedForm:
    """Semivalues of one explainer's instances by the closed form of its model."""

    def __init__(self, weights: np.ndarray, form: Form, columns: Columns, donors: int = 0) -> None:
        """weights [B]: of the form's donors, whose columns are `donors` bytes."""
        self.name = form.name
        self._form, self._columns = form, columns
        # The columns are held twice while the form is made, and its outputs beside its layer.
        self.size = form.size + 2 * (donors + form.of_donors.nbytes)
        self._matrix, self._constant = form.head
        of_donors = self._outputs(form.of_donors)
        self._empty = weights @ of_donors
        self._extremes = of_donors.min(axis=0), of_donors.max(axis=0)

    def add(self, totals: Totals, codes: np.ndarray) -> None:
        """Writes the sums of the instances with these codes [n, F] into `totals`."""
        values, layer = self._form.of(self._columns(codes))
        totals.phi += values @ self._matrix
        totals.empty += self._empty
        totals.full[...] = self._outputs(layer)
        low, high = (np.abs(totals.full - end).max(axis=1) for end in self._extremes)
        np.maximum(totals.span, np.maximum(low, high), out=totals.span)

    def _outputs(self, layer: np.ndarray) -> np.ndarray:
        return layer @ self._matrix + self._constant


def no_paths(engine: Engine) -> str | None:
    """The reason why the covers of trees cannot replace absent players of this model, with a
    remedy; None: they can.

    engine: after `GameRun.compare` and `GameRun.read_affine`.
    """
    name = engine.model.name
    if engine.score is not None:
        return "outputs= has no closed form. Leave it out, and take one output of the values"
    if engine.fixed:
        return "players= keeps columns (-1) always. Make them players"
    if engine.usable_structure is None or engine.known.forest is None:
        why = f" ({engine.model.reason})" if engine.model.backend == "host" else ""
        return f"{name} is no sum of trees that JAX knows{why}. Give background rows"
    if engine.known.forest.get("cover") is None:
        return f"the trees of {name} store no covers, their training rows. Give background rows"
    if engine.affine is None:
        return f"what {name} answers is no sum over leaves. Say output='decision' in as_model"
    return None


@once
def closed_form(engine: Engine, of: OfPlayers | OfSets) -> ClosedForm | None:
    """Closed form of the values with these weights; None if the model's structure has none."""
    head = engine.affine
    if head is None:
        return None
    structure, params = engine.structure, engine.model.params
    known = structure.of(params)

    def read(params: Any, rows: Any) -> Any:
        return structure.of(params).columns(rows)

    example = params, next(blocks(engine.replacement.codes))[0]
    recipe = ProgramRecipe(("columns", structure), read, example, what="the columns of a layer")
    program = engine.compiled.program(recipe)

    def columns(codes: np.ndarray) -> np.ndarray:
        return np.concatenate([np.asarray(program(params, rows))[:n] for rows, n in blocks(codes)])

    players = known.of_columns(engine.code_players)
    if not engine.replacement.HYBRIDS:
        if no_paths(engine) is not None or known.forest is None:
            return None
        nodes = known.forest
        form = path_dependent(nodes, players, engine.players.count, of, head)
        return None if form is None else ClosedForm(np.ones(1), form, columns)

    def made(key: Any, function: Any, arguments: Any) -> Any:
        recipe = ProgramRecipe(key, function, arguments, what="values of products")
        return engine.compiled.program(recipe)

    weights = engine.replacement.weights
    background = WeightedDonors(
        columns(engine.replacement.codes),
        weights,
        players,
        engine.players.count,  # the weights may be for fewer players, see `index_weights`
        of,
        engine.memory.share("results"),
        made,
        engine.devices[0].platform,
    )
    form = known.closed_form(background, head)
    return None if form is None else ClosedForm(weights, form, columns, background.donors.nbytes)
