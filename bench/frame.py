"""The frame: named cases, contenders that run in turn, figures with goals, and their comparison.

A time without its correctness is not reported: a case whose results disagree fails, and with it
the run.
"""

from __future__ import annotations

import inspect
import math
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

Size = Literal["full", "smoke"]
Clock = Callable[[], float]  # seconds


def wall() -> float:
    """Seconds of the wall, as `time.perf_counter` has them when it is called."""
    return time.perf_counter()


# A share of a slow baseline's work takes at least this long, or its start-up would be scaled too.
LEAST_SECONDS = 5.0
LEAST: dict[Size, float] = {"full": LEAST_SECONDS, "smoke": 0.0}
# A call of LEAST_SECONDS is timed twice at most, one as long as this once: what disturbs a machine
# now and then is small beside it. One of twice as long is its own warm-up.
LONG_CALL = 20.0


class NotRun(Exception):
    """A case, or a peer, cannot run here. The text says why, and stands in the table."""


@dataclass(frozen=True)
class Figure:
    """One measured number, with what it should be."""

    label: str
    value: float
    target: float | None = None  # None: reported, nothing promised
    stretch: float | None = None
    better: Literal["less", "more", "near"] = "less"  # "near": the goals are distances from 1
    unit: str = ""

    @property
    def verdict(self) -> str:
        """Returns "stretch", "met" or "missed"; empty without a target."""
        if self.target is None:
            return ""
        if self.stretch is not None and self._reaches(self.stretch):
            return "stretch"
        return "met" if self._reaches(self.target) else "missed"

    def _reaches(self, goal: float) -> bool:
        if self.better == "near":
            return abs(self.value - 1) <= goal
        return self.value <= goal if self.better == "less" else self.value >= goal


@dataclass(frozen=True)
class Agreement:
    """The largest difference between two results, and how much of it is accepted, and why."""

    between: str
    difference: float
    tolerance: float
    reason: str

    @property
    def holds(self) -> bool:
        """Whether the results agree; a difference that is not a number never does."""
        return self.difference <= self.tolerance


@dataclass(frozen=True)
class Timing:
    """The seconds of one contender, scaled to the whole work."""

    name: str
    units: int  # the whole work
    done: int  # the share that was run
    first: float  # seconds of the first call on that share: compilation included
    seconds: tuple[float, ...]  # of the later calls on that share

    @property
    def best(self) -> float:
        """The least of the seconds, scaled linearly from the share to the whole work."""
        return self.best_of(len(self.seconds))

    def best_of(self, rounds: int) -> float:
        """The same of the first rounds."""
        return min(self.seconds[:rounds]) * self.units / self.done

    @property
    def median(self) -> float:
        """The median of the seconds, scaled likewise."""
        return statistics.median(self.seconds) * self.units / self.done

    @property
    def note(self) -> str:
        """What was run of the work; empty when it was all of it."""
        if self.done == self.units:
            return ""
        spent = statistics.median(self.seconds)
        once = ", once" if spent >= LONG_CALL else ""
        return (
            f"{self.name} on {self.done:,} of {self.units:,} ({spent:.1f} s{once}), scaled linearly"
        )


Timings = Mapping[str, Timing]  # of contenders, by name
Results = Mapping[str, Any]


@dataclass(frozen=True)
class Ratio:
    """A figure that is the time of one contender over another's."""

    label: str
    over: str
    under: str
    target: float | None = None
    stretch: float | None = None
    better: Literal["less", "more"] | None = None  # None: "more" if a peer is over ours

    def of(self, timings: Timings) -> Figure:
        """The figure; a larger ratio is better where the label ends in "ours"."""
        more = self.better == "more" or (self.better is None and self.label.endswith("/ ours"))
        value, unit = ratio(timings, self.over, self.under), "x" if more else ""
        return Figure(
            self.label, value, self.target, self.stretch, "more" if more else "less", unit
        )


@dataclass(frozen=True)
class Outcome:
    """All that one case found."""

    figures: tuple[Figure, ...] = ()
    timings: tuple[Timing, ...] = ()
    agreements: tuple[Agreement, ...] = ()
    notes: tuple[str, ...] = ()  # what a reader of the table must know
    details: Mapping[str, Any] = field(default_factory=dict)  # for the JSON file only
    table: Sequence[Sequence[str]] = ()  # for the case's own page: the headings, then the lines
    not_run: str = ""  # the reason, where nothing was measured

    @property
    def agrees(self) -> bool:
        """Whether every comparison held."""
        return all(agreement.holds for agreement in self.agreements)


class Job(Protocol):
    """A case that is set up, with all its data made."""

    def measure(self) -> Outcome:
        """Run it."""
        ...


@dataclass(frozen=True)
class Case:
    """A named measurement, shared by the bench and the smoke test.

    The docstring of `setup` begins with what is measured. A paragraph "Missed: ..." gives the
    reason of a missed goal in its first sentence, which the table shows, and what else is known.
    """

    name: str  # "T1"
    setup: Callable[[Size], Job]
    long: bool = False  # too long for a plain run: only where it is named
    page: str = ""  # the file, from the repository's root, that gets the outcome's own table

    @property
    def measures(self) -> str:
        """What is measured."""
        first = " ".join((inspect.getdoc(self.setup) or "").partition("\n\n")[0].split())
        return first.removeprefix("Measures ").removesuffix(".")

    @property
    def missed(self) -> str:
        """The reason of a missed goal; empty without one."""
        text = " ".join((inspect.getdoc(self.setup) or "").partition("Missed: ")[2].split())
        return re.split(r"(?<=\.) ", text)[0]

    def run(self, size: Size) -> Outcome:
        """Set up and measure; a case that cannot run here is an outcome with the reason."""
        try:
            return self.setup(size).measure()
        except NotRun as reason:
            return Outcome(not_run=str(reason))


@dataclass(frozen=True)
class Contender:
    """One side of a comparison."""

    name: str
    run: Callable[[int], Any]  # does the first n units of the work and returns their result
    units: int  # the whole work
    least_seconds: float | None = None  # not None: a share that takes this long stands for it


@dataclass(frozen=True)
class Duel:
    """Ours and its peers on the same work, in turn; `check` and `figures` see all of them."""

    contenders: Sequence[Contender]  # ours first
    check: Callable[[Results], Sequence[Agreement]]
    figures: Sequence[Ratio] | Callable[[Timings, Results], Sequence[Figure]]
    rounds: int = 3
    notes: tuple[str, ...] = ()
    clock: Clock = wall  # or time.process_time: of all threads, on a shared machine

    def measure(self) -> Outcome:
        """Time the contenders in turn, then compare what they returned."""
        timings, results = take_turns(self.contenders, rounds=self.rounds, clock=self.clock)
        agreements = tuple(self.check(results))
        if callable(self.figures):
            figures = tuple(self.figures(timings, results))
        else:
            figures = tuple(figure.of(timings) for figure in self.figures)
        shares = tuple(timing.note for timing in timings.values() if timing.note)
        notes = (*shares, *self.notes)
        if self.clock is time.process_time:
            notes += ("seconds of the processor, of all threads",)
        return Outcome(figures, tuple(timings.values()), agreements, notes)


@dataclass(frozen=True)
class Several:
    """Jobs of one case, one after the other; their figures stand together."""

    jobs: Mapping[str, Job]

    def measure(self) -> Outcome:
        """Measure them all; names, labels and notes say whose they are."""
        outcomes = {name: job.measure() for name, job in self.jobs.items()}
        return Outcome(
            figures=tuple(
                replace(figure, label=f"{name}: {figure.label}")
                for name, outcome in outcomes.items()
                for figure in outcome.figures
            ),
            timings=tuple(
                replace(timing, name=f"{name}: {timing.name}")
                for name, outcome in outcomes.items()
                for timing in outcome.timings
            ),
            agreements=tuple(
                agreement for outcome in outcomes.values() for agreement in outcome.agreements
            ),
            notes=tuple(
                f"{name}: {note}" for name, outcome in outcomes.items() for note in outcome.notes
            ),
            details={
                name: outcome.details for name, outcome in outcomes.items() if outcome.details
            },
        )


def take_turns(
    contenders: Sequence[Contender], *, rounds: int, clock: Clock = wall
) -> tuple[dict[str, Timing], dict[str, Any]]:
    """Warm every contender, then run them one after the other, `rounds` times; those whose calls
    are long (`LEAST_SECONDS`, `LONG_CALL`) twice or once.

    Turns, since the machine's speed drifts: what slows one side slows the other too.

    Returns:
        The timings and the last results, by name.
    """
    shares: dict[str, tuple[int, float]] = {}  # units to run, seconds of the first call
    for contender in contenders:
        shares[contender.name] = _warm(contender, clock)
    seconds: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    results: dict[str, Any] = {}
    for _ in range(rounds):
        for contender in contenders:
            before = seconds[contender.name]
            if before and before[0] >= (LONG_CALL if len(before) == 1 else LEAST_SECONDS):
                continue
            spent, results[contender.name] = timed(
                contender.run, shares[contender.name][0], clock=clock
            )
            seconds[contender.name].append(spent)
    timings = {
        contender.name: Timing(
            contender.name, contender.units, *shares[contender.name], tuple(seconds[contender.name])
        )
        for contender in contenders
    }
    return timings, results


def timed(run: Callable[..., Any], *arguments: Any, clock: Clock = wall) -> tuple[float, Any]:
    """Seconds of a call, and its result. The call must return finished results."""
    started = clock()
    result = run(*arguments)
    return clock() - started, result


def _warm(contender: Contender, clock: Clock) -> tuple[int, float]:
    """Choose the share of the work and run it once, so that all its shapes are compiled."""
    if contender.least_seconds is None:
        return contender.units, timed(contender.run, contender.units, clock=clock)[0]
    count = 1
    while True:
        first, _ = timed(contender.run, count, clock=clock)
        spent = first if first >= 2 * LONG_CALL else timed(contender.run, count, clock=clock)[0]
        if spent >= contender.least_seconds or count >= contender.units:
            return min(count, contender.units), first
        # A tenth more than the estimate, so that the share seldom has to be enlarged twice.
        wanted = math.ceil(1.1 * count * contender.least_seconds / max(spent, 1e-6))
        count = min(contender.units, max(count + 1, wanted))


def ratio(timings: Timings, over: str, under: str) -> float:
    """The best time of one contender over the best of another, each for the whole work.

    Both sides use as many turns as the shorter one has, since the least of three is less than the
    least of one.
    """
    rounds = min(len(timings[name].seconds) for name in (over, under))
    return timings[over].best_of(rounds) / timings[under].best_of(rounds)
