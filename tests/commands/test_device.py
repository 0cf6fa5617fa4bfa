"""`xaijax doctor --device`: what it measures, and that it ends in time."""

from __future__ import annotations

import re
import threading
from types import SimpleNamespace
from unittest.mock import Mock

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest

import xaijax as xj
from xaijax.commands import device, programs
from xaijax.commands.cli import main


def test_doctor_tells_what_it_would_do_with_a_device(capsys) -> None:
    assert main(["doctor", "--device"]) == 0
    told = capsys.readouterr().out
    assert "this check is for a GPU or a TPU" in told and "jax[cuda13]" in told
    assert "device check ---" not in told


@pytest.mark.slow
def test_doctor_checks_a_device(monkeypatch) -> None:
    """The block of the CPU, which is said to be another kind of device."""
    found = []
    own = device.check

    def few(devices):
        found.extend(devices)
        return own(jax.local_devices()[:1], seconds=600.0, most=8)

    monkeypatch.setattr(device, "check", few)
    gpu = SimpleNamespace(platform="gpu", device_kind="NVIDIA H200")
    cpu = SimpleNamespace(platform="cpu", device_kind="cpu")
    told = "\n".join(device.report([cpu, gpu]))
    assert found == [gpu]
    assert told.startswith("--- xaijax device check ---") and told.endswith("--- end ---")
    for name in ("T1", "T3"):
        assert re.search(rf"{name} +\d+ instances +[\d.]+ M rows/s +\d+ % of the plain", told)
    assert told.count("right, ") == 2 and "WRONG" not in told
    assert min(int(one) for one in re.findall(r"(\d+) kernels a dispatch", told)) > 3


@pytest.mark.slow
def test_doctor_says_that_kernels_are_not_read(monkeypatch) -> None:
    monkeypatch.setattr(device, "kernels", Mock(side_effect=programs.UnreadProgram))
    told = "\n".join(device.check(jax.local_devices()[:1], seconds=600.0, most=8))
    assert told.count("kernels not read; right, ") == 2 and told.endswith("--- end ---")


@pytest.mark.slow
def test_doctor_tells_a_device_that_is_wrong(monkeypatch) -> None:
    monkeypatch.setattr(device, "in_float64", lambda problem, x: np.ones(12))
    lines = []
    with pytest.raises(xj.XaiError, match="values of T1 and T3 on cpu are not"):
        for line in device.check(jax.local_devices()[:1], seconds=600.0, most=2):
            lines.append(line)
    assert lines[-1] == "--- end ---" and "WRONG" in "".join(lines)


class SlowDevice:
    """A clock, and an explainer whose calls take `seconds`, and 5 more for each new number of
    rows, in which a program is compiled.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self.now, self.seconds, self.known = 0.0, seconds, set()
        monkeypatch.setattr(device, "Explainer", lambda *_, **options: self)
        monkeypatch.setattr(device, "in_float64", lambda problem, x: np.ones(12))
        monkeypatch.setattr(device, "program_kernels", lambda explainer, X: (7, 7))
        monkeypatch.setattr(device, "forward_seconds", lambda *_: 0.5)
        self.known.clear()

    def __call__(self, X: np.ndarray, progress: bool) -> SimpleNamespace:
        fresh = len(X) not in self.known
        self.known.add(len(X))
        self.now += self.seconds * len(X) / 2 + 5 * fresh
        stats = {"compile_seconds": 5.0 * fresh, "model_rows": 100 * len(X), "model_calls": 1}
        return SimpleNamespace(values=np.ones((len(X), 12)), stats=stats)

    def lines(self) -> str:
        devices = [SimpleNamespace(device_kind="a GPU", platform="gpu", client=None)]
        return "\n".join(device.check(devices, most=512, clock=lambda: self.now))


def test_a_compilation_is_in_no_measured_time(monkeypatch) -> None:
    """A program of more rows is compiled by the first call of them: the broken version measured it
    where no other call followed.
    """
    slow = SlowDevice(monkeypatch, 0.1)
    told = slow.lines()
    problem = device.Problem("T1", codes=False)
    slow.known.clear()
    found = device.measured(problem, [], slow.now + 30, 512, lambda: slow.now)
    assert found.instances >= 32 and found.rate == pytest.approx(100 * 2 / 0.1)
    assert told.count("right, ") == 2 and slow.now <= 2 * 60


@pytest.mark.parametrize("seconds", [0.01, 1.0, 6.0, 20.0, 50.0])
def test_the_check_of_a_device_ends_in_time(seconds, monkeypatch) -> None:
    """The broken version began calls that ended after a minute."""
    slow = SlowDevice(monkeypatch, seconds)
    told = slow.lines()
    assert slow.now <= 60
    assert told.count("right, ") == (1 if seconds == 50 else 2)
    assert ("T3 is left out" in told) == (seconds == 50)
    assert told.endswith("--- end ---")


def test_a_compilation_that_does_not_end_is_left(monkeypatch) -> None:
    """The broken version waited for it, however long it took."""
    slow = SlowDevice(monkeypatch, 0.1)
    never = threading.Event()
    monkeypatch.setattr(device, "Explainer", lambda *_, **options: lambda X, progress: never.wait())
    devices = [SimpleNamespace(device_kind="a GPU", platform="gpu", client=None)]
    told = list(device.check(devices, seconds=0.2, clock=lambda: slow.now))
    never.set()
    assert told[-2].startswith("T1 did not end within 0 seconds") and told[-1] == "--- end ---"


def test_each_program_counts_with_its_own_kernels_and_runs(monkeypatch) -> None:
    """The broken version took those of the largest program for all calls."""
    texts: list[str] = []

    def counted(text: str) -> int:
        texts.append(text)
        return 10 ** len(texts)

    monkeypatch.setattr(device, "kernels", counted)
    problem = device.Problem("T3", codes=True)
    model = xj.as_model(device.forward, problem.params)
    explainer = xj.Explainer(model, problem.background, estimator="exact")
    X = problem.rows(2, 3)
    found = explainer(X, progress=False)
    most, whole = device.program_kernels(explainer, X)
    runs = [int(digit) for digit in reversed(str(whole // 10))]
    assert most == 10 ** len(texts) and len(runs) == len(texts) > 1
    assert sum(runs) > int(found.stats["model_calls"]) > 0


def test_the_check_of_values_in_float64_is_right() -> None:
    """The oracle shares nothing with it."""
    problem = device.Problem("T3", codes=True)
    x = problem.rows(1, 5)
    params = [(w.astype(float), b.astype(float)) for w, b in problem.params]
    problem.__dict__["background"] = problem.background[:1]

    def f(rows):
        return device.forward(params, np.asarray(rows, float), np)

    wanted = oracles.explain(f, x, problem.background, oracles.shapley_weight(12))[0]
    found = device.in_float64(problem, x[0])
    np.testing.assert_allclose(found, wanted[0], rtol=0, atol=1e-12)


def test_kernels_are_counted_as_often_as_loops_turn() -> None:
    def f(x):
        return jax.lax.fori_loop(0, 50, lambda i, c: jnp.sin(c) @ x, x)

    text = jax.jit(f).lower(jnp.ones((64, 64))).compile().as_text()
    one = jax.jit(lambda x: jnp.sin(x) @ x).lower(jnp.ones((64, 64))).compile().as_text()
    each = programs.kernels(one)
    assert each >= 1
    assert 50 * each <= programs.kernels(text) <= 50 * (each + 4)
