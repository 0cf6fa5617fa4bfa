"""The loops that an evaluator's model runs in: on devices, on the host, along orders of players.

Letters: B donors, C code columns, P players, K outputs, R rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xaijax.core.threads import threads_of
from xaijax.games.engine.device import DeviceBackend
from xaijax.games.engine.host import ROWS_PER_CALL, HostBackend
from xaijax.games.engine.limits import power_below
from xaijax.games.engine.plan import plan_sizes
from xaijax.games.engine.programs import Programs, make_mesh
from xaijax.games.engine.shared_rows import Sharing
from xaijax.games.engine.walk import WalkBackend
from xaijax.tables.table import Table
from xaijax_kernels.engine.tiles import SMALLEST_TILE, TILES_PER_DISPATCH, widest_layer
from xaijax_kernels.structures.named import NAMED


def device_backend(evaluator: Any, probe: Any, most_rows: int) -> DeviceBackend:
    """The loop of a traced model, planned for most_rows; probe: what is known of the model."""
    model, codes, devices = evaluator.model, evaluator.replacement.codes, evaluator.devices
    sizes = plan_sizes(
        width=widest_layer(probe.jaxpr, probe.rows, NAMED),
        itemsize=codes.itemsize,
        platform=devices[0].platform,
        shape=evaluator.replacement.table.shape,
        P=evaluator.players.count,
        outputs=evaluator.outputs,
        dtype=codes.dtype.name,
        donors=len(codes),
        columns=codes.shape[1],
        devices=len(devices),
        tile=evaluator.tile,
        batch_rows=evaluator.batch_rows,
        most_rows=most_rows,
        default_tiles=TILES_PER_DISPATCH,
        max_memory=evaluator.max_memory,
        tile_parts=evaluator.tile_parts,
    )
    programs = Programs(
        model.apply,
        model.params,
        evaluator.compiled,
        sizes,
        evaluator.players_of_codes,
        codes,
        make_mesh(devices),
        evaluator.listed,
        evaluator.score,
        probe.outputs,
        evaluator.structure,
        probe.look,
    )
    return DeviceBackend(programs)


def walker(evaluator: Any) -> WalkBackend:
    """The loop along orders of players, of a probed model with a first layer."""
    return WalkBackend(
        evaluator.model,
        evaluator.structure,
        evaluator.findings.outputs,
        evaluator.replacement.codes,
        evaluator.replacement.weights,
        evaluator.instances_at_a_time,
        make_mesh(evaluator.devices),
        evaluator.compiled,
    )


def host_backend(evaluator: Any, probe: Any, most_rows: int, table: Table) -> HostBackend:
    """The loop of a model on the host; table: decodes the codes of the rows asked about."""
    model, codes, K = evaluator.model, evaluator.replacement.codes, probe.outputs

    def answer(code_rows: np.ndarray, first: int) -> np.ndarray:
        answers = model.answer(table.decode(code_rows), first, K)
        if evaluator.asked_again is not None:
            evaluator.asked_again(code_rows, answers, table)
        return answers

    call, block = _host_rows(evaluator, most_rows)
    threads = min(threads_of(model.thread_safe), _together(evaluator, call))
    return HostBackend(
        answer,
        evaluator.players.count,
        evaluator.players_of_codes,
        codes,
        rows_per_call=call,
        rows_per_block=block,
        instances=evaluator.rows_at_a_time,
        listed=evaluator.listed,
        compiled=evaluator.compiled,
        device=evaluator.devices[0],
        sharing=_sharing(evaluator),
        score=evaluator.score,
        threads=threads,
    )


def _together(evaluator: Any, call: int) -> int:
    """Calls of a thread-safe model that half of the memory holds, as `_host_rows` counts them."""
    codes = evaluator.replacement.codes
    return max(1, evaluator.max_memory // 2 // (8 * codes.shape[1] * codes.itemsize * call))


def _sharing(evaluator: Any) -> Sharing | None:
    """Where hybrids of several instances may be the same; not of a random model."""
    codes = evaluator.replacement.codes
    if len(codes) > 1 or evaluator.plain or not evaluator.model.deterministic:
        return None
    # Codes, those asked, and what sorting needs.
    return Sharing(evaluator.max_memory // 16 // (codes.shape[1] * codes.itemsize + 32))


def _host_rows(evaluator: Any, most_rows: int) -> tuple[int, int]:
    """(rows of one call, rows of one block of sums).

    A block: `tile`, or as many rows as a quarter of the memory holds with their codes, their
    decoded values and the model's own copies; a power of two. A call: `batch_size` rounded up
    to whole blocks, as tiles are on a device: many models round a single row's answer in
    another way than a batch's. Never more than is asked for, than fits, or than the model's
    `max_rows`, a power of two below it.
    """
    evaluator.refuse_large_tile()
    codes = evaluator.replacement.codes
    fits = evaluator.max_memory // 4 // (8 * codes.shape[1] * codes.itemsize)
    block = evaluator.tile or max(SMALLEST_TILE, min(ROWS_PER_CALL, power_below(fits)))
    wanted = min(evaluator.batch_rows or block, max(block, min(most_rows, fits)))
    call = -(-wanted // block) * block
    if evaluator.model.max_rows is not None:
        call = min(call, power_below(evaluator.model.max_rows))
    return call, block
