"""Shards: several drivers of one directory, each with its own parts; SLURM arrays among them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xaijax.core import checks
from xaijax.core.errors import InputError


@dataclass(frozen=True)
class Shard:
    """Part n belongs to shard k of n where n modulo the number of shards is k."""

    number: int = 0
    of: int = 1
    executor: Any = None  # what runs this driver's own parts

    @property
    def name(self) -> str:
        """In file names; "" for one driver of all parts."""
        return f"-{self.number}-of-{self.of}" if self.of > 1 else ""

    def has(self, part: int) -> bool:
        """Whether it answers the part."""
        return part % self.of == self.number


def checked_shard(number: Any, of: Any, executor: Any = None) -> Shard:
    """Shard `number` (from 0) of `of`; raises InputError, InputTypeError."""
    count = checks.whole_number(of, "n")
    place = checks.whole_number(number, "k", least=0)
    if place >= count:
        raise InputError(f"k must be from 0 to n - 1 = {count - 1}, got {place}.")
    return Shard(place, count, executor)


def of_slurm(environment: Mapping[str, str] = os.environ, executor: Any = None) -> Shard:
    """The shard that the variables of a SLURM array job name.

    Raises InputError outside of one, and for an array with gaps.
    """
    try:
        first = int(environment["SLURM_ARRAY_TASK_MIN"])
        step = int(environment.get("SLURM_ARRAY_TASK_STEP", "1"))
        own, count = (int(environment[f"SLURM_ARRAY_TASK_{name}"]) for name in ("ID", "COUNT"))
    except (KeyError, ValueError) as error:
        raise InputError(
            f"engines.slurm() is for a job of a SLURM array (sbatch --array=0-9), whose variables "
            f"SLURM_ARRAY_TASK_ID, _MIN and _COUNT say which parts are its own: {error!r}. "
            "Elsewhere say engines.shard(k, n)."
        ) from None
    place, rest = divmod(own - first, max(1, step))
    if rest or not 0 <= place < count:
        raise InputError(
            f"engines.slurm(): task {own} of {count} of an array that begins at {first} in steps "
            f"of {step} is none of its numbers, as where the array is a list (--array=1,4,7). "
            "Number the tasks from 0 without gaps, or say engines.shard(k, n)."
        )
    return checked_shard(place, count, executor)
