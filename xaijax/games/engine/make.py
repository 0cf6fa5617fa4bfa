"""The loops that a probed model runs in: on devices, on the host, along orders of players.

Letters: B donors, C code columns, P players, K outputs, R rows.
"""

from __future__ import annotations

import numpy as np

from xaijax.core.threads import threads_of
from xaijax.games.engine.device import DeviceBackend
from xaijax.games.engine.host import ROWS_PER_CALL, HostBackend
from xaijax.games.engine.limits import power_below
from xaijax.games.engine.placement import placed
from xaijax.games.engine.plan import (
    LEAST_DONORS,
    bucket,
    bytes_of_row,
    fitting_tile,
    plan_sizes,
)
from xaijax.games.engine.probed import Probed
from xaijax.games.engine.programs import Programs
from xaijax.games.engine.setting import Setting
from xaijax.games.engine.shared_rows import Sharing
from xaijax.games.engine.walk import WalkBackend
from xaijax.tables.table import Table
from xaijax_kernels.engine.operations import operations
from xaijax_kernels.engine.tiles import (
    SMALLEST_TILE,
    tile_rows,
    weights_of,
    widest_layer,
)
from xaijax_kernels.structures.named import NAMED


def part_of_tile(probed: Probed, parts: int) -> int:
    """Rows of a tile that is smaller by `parts` than a device's usual one, where that fits."""
    setting, probe = probed.setting, probed.findings
    codes = setting.replacement.codes
    width, columns = widest_layer(probe.jaxpr, probe.rows, NAMED), codes.shape[1]
    whole = tile_rows(max(width, columns), codes.itemsize, setting.devices[0].platform)
    per_row = bytes_of_row(codes.itemsize, width, columns, probed.outputs)
    return fitting_tile(whole // parts, per_row, setting.max_memory)


def device_backend(probed: Probed, most_rows: int) -> DeviceBackend:
    """The loop of a traced model, planned for most_rows."""
    setting, probe = probed.setting, probed.findings
    model, codes = setting.model, setting.replacement.codes
    placement = placed(setting.devices, model.params)
    sizes = plan_sizes(
        width=widest_layer(probe.jaxpr, probe.rows, NAMED),
        itemsize=codes.itemsize,
        platform=setting.devices[0].platform,
        shape=setting.replacement.table.asked(codes[:1]).shape[1:],
        P=setting.players.count,
        outputs=probed.outputs,
        dtype=codes.dtype.name,
        donors=bucket(len(codes), LEAST_DONORS),
        columns=codes.shape[1],
        devices=placement.mesh.size,
        tile=setting.limits.tile,
        batch_rows=setting.limits.batch_rows,
        most_rows=most_rows,
        max_memory=setting.max_memory,
        weights=None if probed.spares else weights_of(probe.jaxpr),
        operations=operations(probe.jaxpr, probe.rows),
        answers=probe.outputs if setting.score is not None and setting.score.reads_own else 0,
    )
    assert model.apply is not None
    programs = Programs(
        model.apply,
        model.params,
        probed.compiled,
        sizes,
        setting.players_of_codes,
        codes,
        placement,
        setting.listed,
        setting.score,
        probe.outputs,
        probed.found,
        probe.look,
    )
    return DeviceBackend(programs)


def walker(probed: Probed) -> WalkBackend:
    """The loop along orders of players, of a model with a first layer."""
    setting = probed.setting
    return WalkBackend(
        setting.model,
        probed.structure,
        probed.findings.outputs,
        setting.replacement.codes,
        setting.replacement.weights,
        setting.instances_at_a_time,
        placed(setting.devices, setting.model.params),
        probed.compiled,
    )


def host_backend(probed: Probed, most_rows: int, table: Table) -> HostBackend:
    """The loop of a model on the host; table: decodes the codes of the rows asked about."""
    setting, K = probed.setting, probed.findings.outputs
    model, codes = setting.model, setting.replacement.codes

    def answer(code_rows: np.ndarray, first: int) -> np.ndarray:
        answers = model.answer(table.asked(code_rows), first, K)
        if probed.asked_again is not None:
            probed.asked_again(code_rows, answers, table)
        return answers

    call, block = _host_rows(setting, most_rows)
    threads = min(threads_of(model.thread_safe), _together(setting, call))
    return HostBackend(
        answer,
        setting.players.count,
        setting.players_of_codes,
        codes,
        rows_per_call=call,
        rows_per_block=block,
        instances=setting.rows_at_a_time,
        listed=setting.listed,
        compiled=probed.compiled,
        device=setting.devices[0],
        sharing=_sharing(setting),
        score=setting.score,
        threads=threads,
    )


def _together(setting: Setting, call: int) -> int:
    """Calls of a thread-safe model that half of the memory holds, as `_host_rows` counts them."""
    codes = setting.replacement.codes
    return max(1, setting.max_memory // 2 // (8 * codes.shape[1] * codes.itemsize * call))


def _sharing(setting: Setting) -> Sharing | None:
    """Where hybrids of several instances may be the same; not of a random model."""
    codes = setting.replacement.codes
    if len(codes) > 1 or not setting.limits.shares or not setting.model.deterministic:
        return None
    # Codes, those asked, and what sorting needs.
    return Sharing(setting.max_memory // 16 // (codes.shape[1] * codes.itemsize + 32))


def _host_rows(setting: Setting, most_rows: int) -> tuple[int, int]:
    """(rows of one call, rows of one block of sums).

    A block: `tile`, or as many rows as a quarter of the memory holds with their codes, their
    decoded values and the model's own copies; a power of two. A call: `batch_size` rounded up
    to whole blocks, as tiles are on a device: many models round a single row's answer in
    another way than a batch's. Never more than is asked for, than fits, or than the model's
    `max_rows`, a power of two below it.
    """
    setting.refuse_large_tile()
    codes = setting.replacement.codes
    fits = setting.max_memory // 4 // (8 * codes.shape[1] * codes.itemsize)
    block = setting.limits.tile or max(SMALLEST_TILE, min(ROWS_PER_CALL, power_below(fits)))
    wanted = min(setting.limits.batch_rows or block, max(block, min(most_rows, fits)))
    call = -(-wanted // block) * block
    if setting.model.max_rows is not None:
        call = min(call, power_below(setting.model.max_rows))
    return call, block
