"""Runs that take long: told of once, before they start, with the ways to ask for less.

What is long follows from sizes, never from a clock: the model rows that are coming, times the
operations of one by the model's trace. A host model's operations are not known; its rows count.

Letters: R rows, C code columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xaijax.core.checks import MINUTE_OF_A_CORE, tell
from xaijax.core.once import once
from xaijax.core.threads import cores
from xaijax.games.asking.questions import Questions
from xaijax.games.engine.evaluator import Probed
from xaijax_kernels.engine.operations import operations
from xaijax_kernels.structures.summed import WHOLE_ROWS

# Operations of about a minute, at 16e12 a second.
MINUTE_OF_AN_ACCELERATOR = 1e15
# Rows of a host model: a minute at 170,000 rows a second, which is a small forest in scikit-learn.
MOST_HOST_ROWS = 10_000_000
OF_A_COLUMN = 4.0  # to make a hybrid: its mask, both rows' codes, the choice between them
TRACED = 32  # rows that a head is traced for
OF_A_PART = 2.0  # to join two parts, for each of their numbers
# The same where a block of parts leaves a core's cache. Of a convolution with 16,384 units a hybrid
# by its layer took two thirds of the time of a whole row, which counts 942,080 operations.
OF_A_FAR_PART, CACHED = 32.0, 1 << 18


def minute(devices: Sequence[Any]) -> float:
    """Operations that these devices do in about a minute."""
    if devices[0].platform == "cpu":  # several of them share the cores
        return MINUTE_OF_A_CORE * cores()
    return MINUTE_OF_AN_ACCELERATOR * len(devices)


def operations_of_a_row(ask: Questions) -> float:
    """Of a probed JAX model, with the making of the hybrid; less where a structure answers."""
    probed, setting = ask.probed, ask.setting
    hybrid = OF_A_COLUMN * setting.replacement.codes.shape[1]
    whole = hybrid + _operations_of_model(probed)
    if not ask.structured:
        return whole
    return min(whole, _operations_of(ask.probed))


@once
def _operations_of_model(probed: Probed) -> float:
    """Of a row that the model answers."""
    return operations(probed.findings.jaxpr, probed.findings.rows)


@once
def _operations_of(probed: Probed) -> float:
    """Of one hybrid that the structure answers: its parts joined, and the head."""
    structure, known = probed.structure, probed.known
    params, dtype = probed.setting.model.params, probed.setting.replacement.codes.dtype
    head = operations(probed.compiled.head(structure, params, TRACED, dtype).closed.jaxpr, TRACED)
    far = known.adds and WHOLE_ROWS * known.parts > CACHED
    of_part = OF_A_FAR_PART if far else OF_A_PART
    return of_part * known.parts * (1 if known.adds else known.width) + head


def why_long(ask: Questions, rows: int, beside: float = 0.0, drawn: float = 0.0) -> str:
    """What makes so many model rows a long run; empty: it is none. Probes the model.

    beside: operations of one core of the host for what is drawn. drawn: those by which a row is
    drawn where the model runs.
    """
    ask.backend()
    probed, setting = ask.probed, ask.setting
    said = count = f"up to {rows:,} model rows are coming"
    if setting.on_host:
        long = rows > MOST_HOST_ROWS
        said = f"{count}, of a model that is called on the host"
    else:
        # Most runs are short whatever their model is; only for others a structure is looked at.
        limit = minute(setting.devices)
        hybrid = drawn + OF_A_COLUMN * setting.replacement.codes.shape[1]
        long = rows * (hybrid + _operations_of_model(probed)) > limit
        if long:
            each = drawn + operations_of_a_row(ask)
            long = rows * each > limit
            said = f"{count}, of about {each:,.0f} operations each"
    if long:
        return said
    if beside > MINUTE_OF_A_CORE:
        return f"{count}, and what they are made of, or give, is worked out on the host"
    return ""


def tell_long_run(
    ask: Questions, rows: int, ways: str, beside: float = 0.0, drawn: float = 0.0
) -> None:
    """Warn, before it starts, of a run that takes more than about a minute; ways: to shorten it."""
    said = why_long(ask, rows, beside, drawn)
    if said:
        tell(said, ways)
