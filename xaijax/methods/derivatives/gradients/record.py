"""Values, completeness and how they were made, put into an Explanation.

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from xaijax.core.version import __version__
from xaijax.methods.derivatives.gradients.reading import Work
from xaijax.methods.derivatives.gradients.run import Run
from xaijax.methods.fingerprint import donors_fingerprint, probed_fingerprint
from xaijax.results.asked import class_words, told_output
from xaijax.results.explanation import Explanation
from xaijax.tables.rows import rows_of
from xaijax.tables.table import MappedRows

KINDS = {"integrated": "integrated_gradients", "expected": "expected_gradients"}


@dataclass(frozen=True)
class Asked:
    """What is recorded of the explainer."""

    path: str
    steps: int
    samples: int | None
    seed: int
    players: Any


@dataclass(frozen=True)
class Answer:
    """What a run found."""

    values: np.ndarray  # float64 [N, P, K]
    variances: np.ndarray | None  # the same shape, of drawn values
    full: np.ndarray  # float64 [N, K], the model's own answers to the instances
    base: np.ndarray  # float64 [N, K], and to where lines begin

    @property
    def residual(self) -> np.ndarray:
        """f(x) less the base value and all values, [N, K]."""
        return self.full - self.base - self.values.sum(axis=1)


def explanation(
    asked: Asked,
    X: Any,
    rows: Any,
    run: Run,
    work: Work,
    answer: Answer,
    before: Any,
    seconds: float,
) -> Explanation:
    """Put values, stats and provenance together; before: the clock when the run began."""
    scalar = answer.values.shape[2] == 1
    findings = run.probed.findings
    present = getattr(asked.players, "present", None)
    errors = answer.variances
    if errors is not None:
        errors = np.sqrt(errors, out=errors)  # in place: it is as large as the values
    return Explanation(
        values=answer.values[..., 0] if scalar else answer.values,
        base_values=answer.base[:, 0] if scalar else answer.base,
        std_errors=errors[..., 0] if errors is not None and scalar else errors,
        data=rows.array if isinstance(rows, MappedRows) else rows,
        instance_index=rows_of(X).index,
        feature_names=asked.players.names,
        output_names=None if scalar else findings.output_names,
        exact=False,
        kind=KINDS[asked.path],
        stats=_stats(asked, X, run, work, answer, before, seconds, scalar),
        provenance=_provenance(asked, run, work),
        present=present,
    )


def _stats(
    asked: Asked,
    X: Any,
    run: Run,
    work: Work,
    answer: Answer,
    before: Any,
    seconds: float,
    scalar: bool,
) -> dict[str, Any]:
    probed, clock, N = run.probed, run.probed.clock, len(work)
    setting = probed.setting
    compile_seconds = clock.compile_seconds - before.compile_seconds
    model_rows = N * run.lines.rows
    stats: dict[str, Any] = {
        "model_rows": model_rows,
        "model_calls": clock.model_calls - before.model_calls,
        "structure": run.space.name,
        "tile": run.sizes.rows,
        "seconds": seconds - compile_seconds,
        "compile_seconds": compile_seconds,
        "estimator": "sampled" if run.lines.drawn else "quadrature",
        "seed": asked.seed,
        "backend": setting.model.backend,
        "devices": [str(d) for d in setting.devices],
        "input_dtype": str(X.dtype) if hasattr(X, "dtype") else None,
        "answer_dtype": probed.findings.answer_dtype,
        "weights_sum": setting.replacement.weights_sum,
        "completeness": answer.residual[:, 0] if scalar else answer.residual,
        "fingerprint": donors_fingerprint(setting.replacement),
        "model_fingerprint": probed_fingerprint(probed),
    }
    if run.lines.drawn:
        stats["dof"] = np.full(N, run.lines.dof)
    if work.column is not None:
        stats["outputs"] = work.column.astype(np.int64)
        names = probed.findings.output_names
        if names is not None:
            stats["output_names"] = np.array(names)[stats["outputs"]]
    return stats


def _provenance(asked: Asked, run: Run, work: Work) -> dict[str, Any]:
    """How the values were made: public facts."""
    setting = run.probed.setting
    model, donors = setting.model, setting.replacement
    output = getattr(model, "output", "value")
    return {
        "method": "GradientExplainer",
        "quantity": told_output(output),
        **class_words(output, getattr(model, "classes", None)),
        "path": asked.path,
        "steps": None if run.lines.drawn else asked.steps,
        "samples": asked.samples,
        "estimator": "sampled" if run.lines.drawn else "quadrature",
        "replacement": donors.kind,
        "background_rows": donors.rows_given,
        "instances": len(work),
        "players": run.players,
        "player_columns": asked.players.all_columns(),
        "precision": model.precision,
        "weights": "given" if donors.weights_sum is not None else "equal",
        "versions": {"xaijax": __version__, "jax": jax.__version__, "numpy": np.__version__},
    }
