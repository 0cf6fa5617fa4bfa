"""The progress bar: what it shows and when, where it ends, and what Ctrl-C leaves."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest
from progress_bar import Bar

import xaijax as xj
from xaijax.core.compiler import compile_sound, compiling
from xaijax.methods import record
from xaijax.methods.anchors import search as anchors
from xaijax.methods.explainer import explainer
from xaijax.methods.qii import qii


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "host"])
@pytest.mark.parametrize("link", ["identity", "logit"])
def test_the_bar_ends_at_the_model_rows(monkeypatch, backend, link):
    rng = np.random.default_rng(0)
    background = rng.integers(0, 2, (20, 8)).astype(np.float32)
    X = rng.integers(0, 2, (30, 8)).astype(np.float32)
    bar = Bar()

    def drawn(progress, rows):
        bar.total = rows
        return bar

    monkeypatch.setattr(explainer, "progress_bar", drawn)
    known = {"structure": "plain"} if backend == "jax" else {}  # a sum is not asked at all
    model = xj.as_model(lambda rows: 0.1 + 0.1 * rows.sum(axis=1), backend=backend, **known)
    explanation = xj.Explainer(model, background, link=link)(X, progress=True)
    # Precondition: on a device pairs that differ in few players are padded, so rows run and rows
    # asked differ. A host model is asked for no padding.
    assert (explanation.stats["padded_rows"] > 0) == (backend == "jax")
    assert bar.n == bar.total == explanation.stats["model_rows"]


STRUCTURED = {
    "additive": lambda rows: rows.sum(axis=1),
    "first layer": lambda rows: jnp.tanh(rows @ jnp.ones((5, 3))).sum(axis=1),
}


@pytest.mark.slow
@pytest.mark.parametrize("continuous", [True, False])
@pytest.mark.parametrize("structure", list(STRUCTURED))
def test_the_bar_ends_at_the_rows_that_a_structure_answers(monkeypatch, structure, continuous):
    """In closed form, by tables averaged over donors (continuous columns), and by pairs."""
    rng = np.random.default_rng(0)
    X, background = (
        (rng.normal(size=(n, 5)) if continuous else rng.integers(0, 3, (n, 5))).astype(np.float32)
        for n in (30, 16)
    )
    bar = Bar()

    def drawn(progress, rows):
        bar.total = rows
        return bar

    monkeypatch.setattr(explainer, "progress_bar", drawn)
    got = xj.Explainer(xj.as_model(STRUCTURED[structure]), background)(X, progress=True)
    assert got.stats["structure"] == structure
    assert bar.n == bar.total == got.stats["model_rows"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"search": "kl-lucb"}, {"confirm": 0.5}, {"beam_size": None}, {"beam_size": 2}]
)
def test_the_bar_of_anchors_ends_at_the_instances(monkeypatch, options):
    data = np.random.default_rng(0).integers(0, 3, (30, 4)).astype(np.float32)
    bar = Bar()

    def drawn(progress, total, counted):
        assert progress is True and counted == "instances"
        bar.total = total
        return bar

    monkeypatch.setattr(anchors, "progress_bar", drawn)
    model = xj.as_model(lambda rows: (rows[:, 0] * rows[:, 1] > 1) * 1, output="label")
    search = xj.AnchorExplainer(model, data, categories=[0, 1, 2, 3], perturbation="row")
    search.explain(data, progress=True, **options)
    assert bar.n == bar.total == 30


@pytest.mark.parametrize("options", [{}, {"samples": 40}])
def test_qii_counts_the_rows_that_it_asks(monkeypatch, options):
    data = np.random.default_rng(0).integers(0, 3, (12, 3)).astype(np.float32)
    bar = Bar()
    monkeypatch.setattr(qii, "progress_bar", lambda progress, total: bar)
    model = xj.as_model(lambda rows: rows[:, 0] * rows[:, 1] + rows[:, 2], structure="plain")
    asked = xj.QII(model, data, quantity="rate", outcome="score", bounds=(0, 6), **options)
    assert asked.explain().stats["model_rows"] == bar.n > 0
    before = bar.n
    assert asked.unary().stats["model_rows"] == bar.n - before > 0


def test_progress_is_none_true_or_false():
    data = np.zeros((4, 2), np.float32)
    model = xj.as_model(lambda rows: rows[:, 0], output="label")
    with pytest.raises(xj.InputTypeError, match="progress must be None, True or False, got 'yes'"):
        xj.AnchorExplainer(model, data).explain(data, progress="yes")


def shown(capsys: pytest.CaptureFixture[str], words: str) -> Callable[[], bool]:
    """Returns what says whether the words were drawn since the last look."""
    return lambda: words in capsys.readouterr().err


def until(condition: Callable[[], bool]) -> None:
    """Waits for a thread: a minute at most, of a machine that does other work."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_bar_is_drawn_before_anything_is_counted(monkeypatch, capsys):
    monkeypatch.setattr(record, "DRAWN_AFTER", 0.01)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with record.progress_bar(None, None) as bar:
        until(shown(capsys, "model rows: 0"))
        with compiling():
            until(shown(capsys, "compiling: 0"))
        bar.expect(50)
        until(shown(capsys, "model rows:   0%"))
        bar.update(25)
        until(shown(capsys, "model rows:  50%"))
    assert capsys.readouterr().err.endswith("\n")  # what comes next begins a line


def test_a_short_run_draws_nothing(monkeypatch, capsys):
    monkeypatch.setattr(record, "DRAWN_AFTER", 3600.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with record.progress_bar(None, 10) as bar:
        bar.update(10)
    assert capsys.readouterr().err == ""


def test_what_compiles_a_program_says_so():
    """Every program is compiled by `compile_sound`; a model is traced by its probe first."""
    seen = []

    class Lowered:
        def compile(self, **_):
            seen.append(record.is_compiling())
            return self

        def as_text(self):
            return ""

    def f(rows):
        seen.append(record.is_compiling())
        return rows[:, 0] * rows[:, 1]

    compile_sound(Lowered())
    xj.Explainer(xj.as_model(f), np.zeros((1, 2)))(np.ones((3, 2)))
    assert seen[:2] == [True, True]
    assert not record.is_compiling()


@pytest.mark.parametrize("progress", [True, False])
def test_an_interrupt_says_how_far_the_run_came(progress):
    with pytest.raises(KeyboardInterrupt) as raised:
        with record.progress_bar(progress, None) as bar:
            bar.expect(10)
            bar.update(4)
            raise KeyboardInterrupt
    (note,) = raised.value.__notes__
    assert note.startswith("xaijax: interrupted: after 4 of 10 model rows; no values are kept")


ENDLESS = """
import sys, time
import jax.numpy as jnp, numpy as np
import xaijax as xj
rows = np.random.default_rng(0).normal(size=(100, 20)).astype(np.float32)
weights = np.random.default_rng(1).normal(size=(20, 256)).astype(np.float32)
def in_jax(X):
    return jnp.tanh(jnp.tanh(X @ weights) @ weights.T).sum(axis=1)
def on_host(X):
    time.sleep(0.05)
    return np.tanh(X @ weights).sum(axis=1)
backend = sys.argv[1]
f, options = (in_jax, {"structure": "plain"}) if backend == "jax" else (on_host, {})
model = xj.as_model(f, backend=backend, **options)
xj.Explainer(model, rows[:50], estimator="exact")(rows, progress=True)  # 5e9 rows
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT of another process")
@pytest.mark.parametrize("backend", ["jax", "host"])
def test_ctrl_c_ends_a_run_that_would_take_hours(backend):
    """Once rows were answered: no dispatch and no call of the model is begun after it."""
    command = [sys.executable, "-W", "ignore", "-c", ENDLESS, backend]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    told = ""
    while not re.search(r"[\d.]+[kM]?row/s", told):
        assert run.poll() is None, told
        told += run.stderr.read(1)
    run.send_signal(signal.SIGINT)
    _, rest = run.communicate(timeout=120)
    assert run.returncode == -signal.SIGINT
    last = rest.strip().splitlines()[-1]
    assert re.match(r"xaijax: interrupted: after [\d,]+ of 5,\d{3},\d{3},\d{3} model rows", last)
