"""`Probed`: a setting whose model has been probed, and what its structure can do; frozen.

Letters: C code columns, K outputs, R rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from xaijax.core.once import shapes_of
from xaijax.games.engine.asked_again import AskedAgain
from xaijax.games.engine.clock import Clock
from xaijax.games.engine.compiled import Compiled, Recipe
from xaijax.games.engine.limits import power_below
from xaijax.games.engine.setting import Setting
from xaijax.games.measure.asked_model import Findings
from xaijax_kernels.engine.tiles import multiplications
from xaijax_kernels.structures.base import Layer, Structure
from xaijax_kernels.structures.columnwise import Columnwise, largest

LEAST_SHARE = 1 / 32  # of a model's products that its first layer must have to be worth programs
BLOCKS = 16  # how often a program of few rows is asked before a larger one is
ROWS_READ, NUMBERS_READ = 1 << 12, 1 << 20  # codes that are looked at together


@dataclass(frozen=True, eq=False)
class Probed:
    """What is known of a setting once its model answered the probe."""

    setting: Setting  # its score is fitted to the model's outputs
    findings: Findings
    clock: Clock
    asked_again: AskedAgain | None = None  # of a host model

    @property
    def compiled(self) -> Compiled:
        """The model's programs, as this run's memory allows them."""
        kept = self.findings.programs
        kept = self.setting.model.compiled if kept is None else kept
        return Compiled(kept, self.clock, self.setting.max_memory)

    @property
    def outputs(self) -> int:
        """K, the scores of a row."""
        answers, score = self.findings.outputs, self.setting.score
        return answers if score is None else score.count(answers)

    @property
    def found(self) -> Structure | None:
        """What is known of the model beyond its answers; None: nothing.

        Nor where the score looks at something made of f(x): that is passed to whole rows only.
        """
        score = self.setting.score
        if self.setting.model.backend == "host":  # where a translation was left
            return None
        if self.setting.fixed:  # donors have no part of their own
            return None
        if score is not None and score.made_of_own is not None:
            return None
        return self.findings.structure

    @property
    def structure(self) -> Structure:
        """The structure of a model that has one."""
        assert self.found is not None
        return self.found

    @property
    def crosses(self) -> bool:
        """Whether parts of instances and donors may be put together; see `Questions.crosses`."""
        return self.found is not None and self.setting.model.deterministic

    @property
    def structured(self) -> bool:
        """Whether corners are answered by the model's structure; see `Questions.structured`.

        Not where the score looks at f(x): rounded in another way, x might not get its own label.
        """
        score = self.setting.score
        return self.crosses and (score is None or not score.reads_own)

    @cached_property
    def known(self) -> Layer:
        """The layer of a model that has a structure, with shapes in place of arrays."""
        return shapes_of(self.structure.of, self.setting.model.params)

    @cached_property
    def spares(self) -> bool:
        """Whether the structure spares enough of a row to be worth the programs that it needs.

        A first layer does where its products are a LEAST_SHARE of the model's. Its programs take
        about a second to compile; a model with a smaller share runs for half a minute before that
        second is won back. It hangs on the model's sizes alone, as bits do: not on the number of
        instances, which would then change the last bits of each other's values. What a person
        declared is used whatever it spares.
        """
        if self.found is None:
            return False
        if self.found.declared:
            return True
        whole = multiplications(self.findings.jaxpr, self.findings.rows)
        return self.known.work() >= LEAST_SHARE * whole

    @property
    def walks(self) -> bool:
        """Whether orders of players are walked by the model's first layer."""
        setting = self.setting
        if self.found is None or setting.players_of_codes is not None:
            return False
        columns = setting.replacement.codes.shape[1]
        if isinstance(self.known, Columnwise) and len(self.known.owners) != columns:
            return False  # a model that reads some of its columns only
        return self.known.walks and len(setting.code_players) == columns

    def largest(self, codes: np.ndarray) -> np.ndarray:
        """The largest size of what the structure makes of each row of codes [R, C]; [R].

        Of a layer's columns, each times its largest weight. Not finite where one of them is not.
        """
        structure, params = self.structure, self.setting.model.params

        def of(params: Any, rows: Any) -> Any:
            return largest(structure.of(params), rows)

        parts: list[Any] = [np.zeros(0)]
        together = min(ROWS_READ, power_below(NUMBERS_READ // math.prod(codes.shape[1:])))
        few = self.findings.rows  # for which the model is traced already
        if len(codes) <= BLOCKS * few:  # a call of a row is not to wait for thousands
            together = min(together, few)
        run = None
        for first in range(0, len(codes), together):  # a memory map is read in pieces
            some = np.asarray(codes[first : first + together])
            if len(some) < together:
                some = np.pad(some, ((0, together - len(some)), (0, 0)), mode="edge")
            if run is None:  # to find it takes as long as it runs
                recipe = Recipe(("largest", structure), of, (params, some), "the size of columns")
                run = self.compiled.program(recipe)
            parts.append(run(params, some))
            parts[-2] = np.asarray(parts[-2])  # the one before is read while this one runs
        return np.concatenate(parts)[: len(codes)]

    @cached_property
    def largest_donors(self) -> np.ndarray:
        """The same of the donors, [B]."""
        return self.largest(self.setting.replacement.codes)
