"""How the bench times its contenders: in turn, by shares, long calls less often."""

from __future__ import annotations

import pytest

from bench import frame
from bench.frame import Contender, Timing, ratio, take_turns


def test_contenders_take_turns() -> None:
    order: list[str] = []
    contenders = [Contender(name, lambda _, n=name: order.append(n), 4) for name in "ab"]
    timings, _ = take_turns(contenders, rounds=2)
    assert order == ["a", "b"] + ["a", "b"] * 2  # one warm-up each, then in turn
    assert all(len(timing.seconds) == 2 for timing in timings.values())


def test_a_slow_peer_runs_a_share_that_is_scaled_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    clock = [0.0]  # in place of the machine's, whose load is no part of the test
    monkeypatch.setattr(frame.time, "perf_counter", lambda: clock[0])

    def slow(count: int) -> int:
        done.append(count)
        clock[0] += 0.011 * count
        return count

    timings, results = take_turns([Contender("slow", slow, 1_000, 0.05)], rounds=1)
    timing = timings["slow"]
    assert 5 <= timing.done < 100 and results["slow"] == timing.done == done[-1]
    assert min(timing.seconds) >= 0.05
    assert timing.best == pytest.approx(11)  # 1,000 units of 0.011 s
    assert f"on {timing.done} of 1,000" in timing.note and "scaled linearly" in timing.note


@pytest.mark.parametrize(
    ("seconds", "calls"), [(4.9, 5), (5.0, 4), (19.0, 4), (21.0, 3), (41.0, 2)]
)
def test_long_calls_are_timed_twice_or_once(
    seconds: float, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, done = [0.0], []
    monkeypatch.setattr(frame.time, "perf_counter", lambda: clock[0])

    def slow(count: int) -> None:
        done.append(count)
        clock[0] += seconds * count

    timing = take_turns([Contender("slow", slow, 9, 4.0)], rounds=3)[0]["slow"]
    assert done == [1] * calls and timing.best == pytest.approx(9 * seconds)
    assert ("once" in timing.note) == (seconds > 20)


def test_a_share_never_passes_the_whole_work() -> None:
    timings, _ = take_turns([Contender("quick", lambda count: count, 3, 9.0)], rounds=1)
    assert timings["quick"].done == 3 and timings["quick"].note == ""


def test_times_are_scaled_from_the_share() -> None:
    timing = Timing("t", 10, 2, 9.0, (1.0, 3.0, 2.0))
    assert timing.best == 5.0 and timing.median == 10.0


def test_a_ratio_is_of_as_many_turns_of_either() -> None:
    timings = {
        "often": Timing("often", 1, 1, 9.0, (3.0, 2.0, 1.0)),
        "once": Timing("once", 4, 2, 9.0, (6.0,)),
    }
    assert ratio(timings, "once", "often") == 4.0  # 12 of 3, not of 1
    assert ratio(timings, "often", "once") == 0.25
