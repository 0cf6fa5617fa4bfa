"""`Evaluator`: the setting in use, made ready at the first question.

It holds what every game of one explainer shares. Nothing here calls the model before `probe` is
asked for.

Letters: N instances, C code columns, B donors, P players, K outputs, R rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.forks import before_jax
from xaijax.core.threads import threads_of
from xaijax.games.engine.asked_again import AskedAgain
from xaijax.games.engine.compiled import Clock
from xaijax.games.engine.device import DeviceBackend
from xaijax.games.engine.host import ROWS_PER_CALL, HostBackend, Sharing
from xaijax.games.engine.loop import Backend
from xaijax.games.engine.placement import placed
from xaijax.games.engine.plan import (
    LEAST_DONORS,
    Limits,
    bucket,
    bytes_of_row,
    fitting_tile,
    plan_sizes,
    power_below,
)
from xaijax.games.engine.programs import Programs
from xaijax.games.engine.setting import Probed, Setting
from xaijax.games.engine.walk import WalkBackend
from xaijax.games.measure.replacement import Replacement
from xaijax.games.measure.score import Score
from xaijax.models.model import Model
from xaijax.players.players import Players
from xaijax.tables.own_table import OwnTable
from xaijax.tables.table import CodedTable, FloatTable, Table, Untranslatable
from xaijax_kernels.engine.operations import operations
from xaijax_kernels.engine.tiles import (
    SMALLEST_OF_WIDE,
    SMALLEST_TILE,
    tile_rows,
    weights_of,
    widest_layer,
)
from xaijax_kernels.structures.named import NAMED

PROBE_ROWS = 32


class Evaluator:
    """What the games of one explainer share: a setting, its probe, its loops, and the clock."""

    def __init__(
        self,
        model: Model,
        replacement: Replacement,
        players: Players,
        limits: Limits,
        *,
        score: Score | None = None,
        offsets: bool = False,
    ) -> None:
        """score: what is made of the answer to a row; None: the answer itself. offsets: what a
        model's answers are short of (`Model.offset`) is added to what comes of them, by the game;
        else a model of which they are is asked on the host.
        """
        before_jax()
        self._offsets = offsets and score is None
        self._given = model, replacement  # as of the background's dtype
        asked = model.settled().of_codes(replacement.table)
        self.setting = Setting(asked, replacement, players, limits, score)
        self._limits = limits  # as given
        self.setting.model.refuse_changed()
        self.setting.refuse_other_devices()
        self.clock = Clock()
        self.fits = 0  # of a host estimator, that were seen since the first
        self._compared = False  # the first rows of a translation, with its estimator's answers
        self._held = False  # all donors
        self._probed: Probed | None = None
        self._loop: DeviceBackend | None = None
        self._walker: WalkBackend | None = None

    @property
    def is_probed(self) -> bool:
        """Whether the model has answered the probe."""
        return self._probed is not None

    @property
    def probed(self) -> Probed:
        """What the probe found; asked for after `backend` or `probe`."""
        assert self._probed is not None
        return self._probed

    def start(self) -> Clock:
        """A run begins: the clock as it stands."""
        if self._probed is not None and self._probed.asked_again is not None:
            self._probed.asked_again.start()
        return self.clock.copy()

    def finish(self) -> None:
        """A run is over. Raises NonDeterministicModelError where a host model has changed since the
        run's first call: the answers would be those of two models.
        """
        if self._probed is None or self._probed.asked_again is None:
            return
        model, K = self.setting.model, self._probed.findings.outputs
        self._probed.asked_again.finish(lambda codes, table: model.answer(table.asked(codes), 0, K))

    def measure(self, score: Score) -> None:
        """Ask for this score of an answer from now on."""
        self._use(replace(self.setting, score=score))

    def follow(self) -> None:
        """Forget what is known of a host estimator that was fitted again since it was probed: it is
        asked as it is at each call. Refuses a translated one.
        """
        self.setting.model.refuse_changed()
        changed = None if self._probed is None else self._probed.findings.changed
        if changed is not None and changed():
            self._use(replace(self.setting))
            self.fits += 1

    def encoded(self, rows: Any, hold: bool = True) -> tuple[Table, np.ndarray]:
        """(a table that knows these rows, their codes [N, C]), of rows that the table has read.

        A translated estimator's rows are compared with its own answers, and its background. Where
        they differ, or do not fit JAX, the estimator itself is asked from now on. hold: False: only
        the first rows and the first donors are compared.
        """
        self.setting.model.refuse_codes()
        if not isinstance(self.setting.replacement.table, CodedTable):
            self._take(rows)
            found = self.setting.replacement.table.encode(rows)
            if hold:
                self.setting.model.hold(rows, found[1], of_first=False)
            return found
        first, donors = not self._compared, self.setting.replacement
        model = self._taken(self.setting.model.settled((donors.rows, rows) if first else ()))
        self._compared = True
        while True:
            try:
                if model is not self.setting.model:
                    self._answer_by(model)
                table, codes = self.setting.replacement.table.encode(rows)
            except Untranslatable as reason:
                assert model.comparison is not None
                model.comparison.to_host(str(reason))
                model = model.settled()
                continue
            if hold:
                if not self._held:
                    donors = self.setting.replacement
                    model.hold(donors.rows, donors.codes_of_rows, True, shared=True)
                model.hold(rows, codes, of_first=first)
            held = self._taken(model.settled())
            if held is model:
                self._held |= hold
                return table, codes
            model = held

    def _take(self, rows: Any) -> None:
        """Ask the model in the dtype that these rows and the donors have together; which one that
        is does not depend on the rows that were explained before.
        """
        model, donors = self._given
        if not isinstance(donors.table, FloatTable | OwnTable):
            return
        table = donors.table.holding(rows)
        if getattr(table, "key", None) == getattr(self.setting.replacement.table, "key", None):
            return
        if table.codes_per_column == donors.table.codes_per_column:
            donors = replace(donors, table=table)
        else:
            donors = donors.held_by(table)
        asked = model.settled().of_codes(table)
        limits = self._limits
        self._use(replace(self.setting, model=asked, replacement=donors, limits=limits))

    @property
    def is_settled(self) -> bool:
        """Whether the model in use is the one that its comparison has come to."""
        return self._taken(self.setting.model.settled()) is self.setting.model

    def _taken(self, model: Model) -> Model:
        """The model, or the estimator itself where nothing can be added to what comes of it."""
        if model.offset is None or self._offsets:
            return model
        assert model.original is not None  # only of a translation the level is taken out
        return model.original

    def _answer_by(self, model: Model) -> None:
        """Go on with what a translated estimator settled to; raises Untranslatable.

        By the limits as given: a smaller tile was for the model that is left.
        """
        donors = self.setting.replacement.for_model(model)
        self._use(replace(self.setting, model=model, replacement=donors, limits=self._limits))

    def _use(self, setting: Setting) -> None:
        """Go on with another setting, of which nothing is known yet."""
        self.setting = setting
        self._probed = self._loop = self._walker = None

    def backend(self, table: Table, x: np.ndarray, N: int) -> Backend:
        """The loop that runs the model, planned for N instances; the first call probes the model.

        x: codes of a few of the instances, for the probe.

        A JAX model keeps the plan of the first call, so that no later one compiles again.
        """
        probed = self.probe(table, x)
        if self.setting.model.backend == "host":
            return host_backend(probed, self.setting.most_rows(N), table)
        if self._loop is None:
            self._loop = device_backend(probed, self.setting.most_rows(N))
        return self._loop

    def walker(self, table: Table, x: np.ndarray, N: int) -> WalkBackend:
        """The loop that walks orders; arguments as of `backend`."""
        if self._walker is None:
            self.backend(table, x, N)  # probes the model, and its structure
            self._walker = walker(self.probed)
        return self._walker

    def halve_tile(self) -> bool:
        """Go on with half the tile where the device ran out of memory; False: nothing to halve."""
        tile = self.clock.tile
        if self.setting.model.backend == "host" or tile <= SMALLEST_TILE:
            return False
        checks.warn(
            f"the device ran out of memory with tile={tile}; the run goes on with {tile // 2}. Its "
            "values may differ in the last bits from those of another run. Lower max_memory= or "
            f"say tile={tile // 2} to have the same bits again."
        )
        self.use_tile(tile // 2)
        self.clock.tile_halvings += 1
        return True

    def use_tile(self, rows: int) -> None:
        """Use tiles of so many rows until another model answers. The model must be probed."""
        limits = self.setting.limits
        own = replace(limits, tile=rows, memory=limits.max_memory)
        self.setting = replace(self.setting, limits=own)
        self._probed, self._loop = replace(self.probed, setting=self.setting), None

    def probe(self, table: Table, x: np.ndarray) -> Probed:
        """What the engine must know of the model; asked of it at the first call only.

        table: that knows the instances, of which x are codes.
        """
        if self._probed is None:
            setting = self.setting
            if setting.model.backend != "host":
                table = setting.replacement.table
            # Of both kinds, since rows that are all alike would say nothing about neighbours.
            few = [setting.replacement.codes[: PROBE_ROWS // 2], x[: PROBE_ROWS // 2]]
            asked = np.concatenate(few)
            findings = setting.model.probe(table.asked(asked))
            self.clock.compile_seconds += findings.compile_seconds
            if setting.score is not None:  # refuses a model without its column
                score = setting.score.fitted(findings.outputs, findings.answer_dtype)
                self.setting = setting = replace(setting, score=score)
            again = None
            if findings.again is not None:
                again = AskedAgain(
                    asked, len(few[0]), table, findings.again, setting.model.max_rows
                )
            self._probed = Probed(setting, findings, self.clock, again)
        return self._probed


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
    block = setting.limits.tile or max(SMALLEST_OF_WIDE, min(ROWS_PER_CALL, power_below(fits)))
    wanted = min(setting.limits.batch_rows or block, max(block, min(most_rows, fits)))
    call = -(-wanted // block) * block
    if setting.model.max_rows is not None:
        call = min(call, power_below(setting.model.max_rows))
    return call, block
