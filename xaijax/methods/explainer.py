"""`Explainer`: Shapley, Banzhaf and other semivalues of a model's answers.

Letters: N instances, F features, P players, B background rows, K outputs.
"""

from __future__ import annotations

import math
import time
from typing import Any

import jax
import numpy as np

from xaijax import _checks
from xaijax._errors import EnumerationLimitError, InputError, InputTypeError
from xaijax._explanation import Explanation
from xaijax._index import Index, index_weights
from xaijax._players import players_from
from xaijax._public import public_class
from xaijax._table import MappedRows
from xaijax._version import __version__
from xaijax.estimators.exact import Estimate, exact
from xaijax.games.evaluator import Evaluator
from xaijax.games.game import Game, Survey
from xaijax.games.quantity import quantity_of
from xaijax.games.replacement import replacement_of
from xaijax.methods._progress import progress_bar

AUTO_CORNERS = 1 << 16  # corners per background row that "auto" enumerates when no budget is given
ESTIMATORS = ("auto", "exact")


@public_class
class Explainer:
    """How much each player's values move a model's answer, for all instances at once.

    The value of a coalition S of instance x is v(S) = link(mean over background rows b of
    f(x on S, b elsewhere)): interventional (marginal) replacement, one donor row at a time.

    Arguments:
        model: from `as_model`.
        background: rows [B, F] (array, or a frame for a host model), or a `Baseline`.
        players: None (each column), {"name": [columns]}, [[columns], ...], or an integer array
            shaped like one instance. Columns that no group names stay single players.
        index: "shapley", "banzhaf", `SizeLimited(k)` (counts KEPT players), or a callable w(s).
        estimator: "auto" or "exact". "auto" is exact, and refuses an instance with more corners
            than B (budget + 2), or than B 2^16 when no budget is given.
        budget: coalitions per instance, the empty and the full one not counted.
        link: "identity", "logit" or a callable; acts on v(S), after the mean.
        seed: of sampled estimators; recorded.
        batch_size: model rows per dispatch (per call, for a host model), rounded up to whole tiles.
        max_memory: bytes; None: half of what is free (or XAIJAX_MEMORY_LIMIT).
        devices: None (all local ones), a number, or a list of JAX devices.
        weights: [B], of the background rows.
        tolerance: largest half-width of an interval that is wanted; exact values meet any.
        tile: model rows in one tile, a power of two from 256; None: chosen from the model's layers.

    Raises `InputError`, `InputTypeError` for arguments that are not accepted. The model is not
    called, traced or compiled before the first explanation.
    """

    def __init__(
        self,
        model: Any,
        background: Any,
        players: Any = None,
        index: Index = "shapley",
        estimator: str = "auto",
        budget: int | None = None,
        link: Any = "identity",
        seed: int = 0,
        batch_size: int | str = "auto",
        max_memory: int | None = None,
        devices: Any = None,
        weights: Any = None,
        tolerance: float | None = None,
        tile: int | None = None,
    ) -> None:
        self.estimator = _checks.one_of(estimator, "estimator", ESTIMATORS)
        self.budget = None if budget is None else _checks.whole_number(budget, "budget")
        self.seed = _checks.whole_number(seed, "seed", least=0)
        self.tolerance = _tolerance(tolerance)
        self.quantity = quantity_of(link)
        if not hasattr(model, "probe"):
            raise InputTypeError(
                f"model must come from xaijax.as_model, got {type(model).__name__}. Say "
                "xaijax.Explainer(xaijax.as_model(f), background)."
            )
        self.model = model
        replacement = replacement_of(model, background, weights)
        table = replacement.table
        self.players = players_from(players, table.feature_names, table.shape)
        self.weights, self.index = index_weights(index, self.players.count)
        self._evaluator = Evaluator(
            model,
            replacement,
            self.players,
            batch_size=batch_size,
            max_memory=max_memory,
            devices=devices,
            tile=tile,
        )
        _checks.on_devices(background, "background", self._evaluator.devices)

    def __call__(self, X: Any, progress: bool | None = None) -> Explanation:
        """Explain the instances X [N, *F]; an `Explanation` with values [N, P] or [N, P, K].

        progress: None (a bar in terminals and notebooks once a run takes a while), True or False.

        Raises, before the model is called: InputError and InputTypeError for rows that are not
        accepted, EnumerationLimitError for what is too large to enumerate, MemoryPlanError for what
        does not fit. After: ModelOutputError, NonDeterministicModelError, and whatever the model
        itself raises.
        """
        started = time.perf_counter()
        evaluator = self._evaluator
        table = evaluator.replacement.table
        evaluator.refuse_overflow(_checks.rows_given(X))
        rows = table.read(X, "X", self.model.allow_nan)
        _checks.on_devices(X, "X", evaluator.devices)

        def progressed(done: int) -> None:
            bar.update(done)

        game = Game(evaluator, rows, self.quantity, progressed)
        survey = game.survey()
        self._refuse(game, survey)
        evaluator.refuse_too_little_memory()
        bar = progress_bar(progress, int(survey.corners.sum()))
        before = evaluator.clock.copy()
        with bar:
            estimate = exact(game, self.weights)
        return self._explanation(X, rows, game, estimate, before, started)

    def _refuse(self, game: Game, survey: Survey) -> None:
        """Raise for what exact values cannot do, and for what "auto" will not."""
        game.refuse_too_many(survey)
        P, B = game.P, len(self._evaluator.replacement.codes)
        coalitions = (1 << P) - 2
        if self.budget is not None and self.budget >= coalitions:
            _checks.warn(
                f"budget={self.budget:,} covers all {coalitions:,} coalitions of {P} players: the "
                "values are exact."
            )
            return
        if self.estimator == "exact":
            if self.budget is not None:
                raise InputError(
                    f"budget={self.budget:,} is given, but estimator='exact' asks all coalitions "
                    f"({coalitions:,}). Leave budget= out, or say estimator='auto', for which it "
                    "is a limit."
                )
            return
        limit = B * (AUTO_CORNERS if self.budget is None else self.budget + 2)
        corners = survey.corners
        if corners.max() > limit:
            n = int(corners.argmax())
            which = "B 2^16" if self.budget is None else "B (budget + 2)"
            raise EnumerationLimitError(
                f"estimator='auto': X row {n} needs {corners[n]:,} model rows (at most "
                f"{survey.largest[n]} of {P} players differ from a background row), more than "
                f"{which} = {limit:,}, up to which auto is exact. Say "
                "estimator='exact' to enumerate them all the same, or group columns with "
                "players=, or use fewer background rows."
            )

    def _explanation(
        self, X: Any, rows: Any, game: Game, estimate: Estimate, before: Any, started: float
    ) -> Explanation:
        evaluator, model = self._evaluator, self.model
        clock = evaluator.clock
        B, P = len(evaluator.replacement.codes), game.P
        compile_seconds = clock.compile_seconds - before.compile_seconds
        stats: dict[str, Any] = {
            "model_rows": game.count.distinct,
            "padded_rows": game.count.padded + clock.padded_rows - before.padded_rows,
            "naive_rows": game.N * B << P,
            "model_calls": clock.model_calls - before.model_calls,
            "structure": None,
            "tile": clock.tile,
            "tile_halvings": clock.tile_halvings - before.tile_halvings,
            "seconds": time.perf_counter() - started - compile_seconds,
            "compile_seconds": compile_seconds,
            "budget": self.budget,
            "estimator": "exact",
            "seed": self.seed,
            "backend": model.backend,
            "devices": [str(d) for d in evaluator.devices],
            "input_dtype": str(X.dtype) if hasattr(X, "dtype") else None,
            "answer_dtype": evaluator.findings.answer_dtype,
            "weights_sum": evaluator.replacement.weights_sum,
        }
        if self.index == "shapley" and estimate.std_errors is None:
            with np.errstate(invalid="ignore"):  # answers that are not finite may be let through
                residual = estimate.base + estimate.values.sum(axis=1) - estimate.full
                bound = _rounding(estimate, P, evaluator.replacement.weights, model)
            stats["efficiency_residual"] = np.abs(residual).max(axis=1)
            stats["efficiency_bound"] = bound
        scalar = evaluator.findings.scalar
        errors = estimate.std_errors
        return Explanation(
            values=estimate.values[:, :, 0] if scalar else estimate.values,
            base_values=estimate.base[:, 0] if scalar else estimate.base,
            std_errors=errors if errors is None or not scalar else errors[:, :, 0],
            data=rows.array if isinstance(rows, MappedRows) else rows,
            feature_names=self.players.names,
            output_names=evaluator.findings.output_names,
            exact=errors is None,
            kind=self.index,
            stats=stats,
            provenance={
                "method": "Explainer",
                "quantity": "model output" if model.output == "value" else str(model.output),
                "index": self.index,
                "index_weights": self.weights.tolist(),
                "link": self.quantity.name,
                "estimator": "exact",
                "replacement": evaluator.replacement.kind,
                "background_rows": evaluator.replacement.rows_given,
                "instances": game.N,
                "players": P,
                "player_columns": self.players.all_columns(),
                "precision": model.precision if model.backend == "jax" else "float64",
                "weights": "given" if evaluator.replacement.weights_sum is not None else "equal",
                "versions": {
                    "xaijax": __version__,
                    "jax": jax.__version__,
                    "numpy": np.__version__,
                },
            },
        )


def _rounding(estimate: Estimate, P: int, donor_weights: np.ndarray, model: Any) -> np.ndarray:
    """How far base + sum of values may be from f(x) by rounding alone; float64 [N].

    A sum of n products rounds by at most lambda sqrt(n) u times the sum of their sizes, but for a
    probability of 2 exp(-lambda^2 / 2) (Higham and Mary 2019, theorem 2.4); lambda = 8: 1e-13. Here
    n = 2^k corners, one player's weights have size 2, and the errors of P players and of the donors
    (weights w) are independent: 16 sqrt(2^k P sum w^2) u span. The level is kept to a few u.
    """
    single = model.backend == "jax" and model.precision != "float64"
    u = 0.5 * float(np.finfo(np.float32 if single else np.float64).eps)
    corners = 2.0**estimate.largest_pair
    level = np.maximum(np.abs(estimate.base), np.abs(estimate.full)).max(axis=1)
    spread = math.sqrt(corners * P * float((donor_weights**2).sum()))
    return u * (16.0 * spread * estimate.span + 8.0 * level)


def _tolerance(tolerance: Any) -> float | None:
    if tolerance is None:
        return None
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float | np.number):
        raise InputTypeError(f"tolerance must be a positive number, got {tolerance!r}.")
    if not 0 < float(tolerance) < math.inf:
        raise InputError(f"tolerance must be a positive number, got {tolerance!r}.")
    return float(tolerance)
