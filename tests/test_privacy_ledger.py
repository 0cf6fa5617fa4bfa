"""The ledger: charged first, identical queries free, overspending refused, whatever is killed."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest
from privacy_cases import table_model
from repository import ROOT

import xaijax as xj
from xaijax.privacy import ledger as module

pytest.importorskip("opendp", reason="needs the extra [privacy]")

HERE = Path(__file__).parent
D = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [1, 1]], np.float32)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


def average(data=D, labels=(0, 1, 1, 1)):
    return xj.QII(table_model(labels), data, quantity="average").explain()


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_release_is_charged_once_and_told_again(path):
    ledger = xj.privacy.Ledger(path, 2.0)
    first = xj.privacy.release(average(), 0.5, ledger=ledger)
    assert (ledger.spent, ledger.remaining, ledger.budget) == (0.5, 1.5, 2.0)
    assert first.mechanism["charged"] and "charged to a ledger" in repr(first)
    # The same question: another explanation, another QII, the file opened anew.
    again = xj.privacy.release(average(), 0.5, ledger=xj.privacy.Ledger(path, 2))
    assert again.values.tolist() == first.values.tolist() and ledger.spent == 0.5
    assert dict(again.mechanism) == dict(first.mechanism)
    assert [one["kind"] for one in lines(path)] == ["ledger", "charge", "answer"]
    assert oct(path.stat().st_mode & 0o777) == "0o600"


def test_what_differs_is_charged(path):
    ledger = xj.privacy.Ledger(path, 100.0)
    other = D.copy()
    other[0] = [1, 0]
    model = table_model((0, 1, 1, 1))
    different = [
        lambda: xj.privacy.release(average(), 0.5, ledger=ledger),
        lambda: xj.privacy.release(average(), 0.25, ledger=ledger),
        lambda: xj.privacy.release(average(), 0.5, ledger=ledger, composition="sequential"),
        lambda: xj.privacy.release(average(other), 0.5, ledger=ledger),
        lambda: xj.privacy.release(average(labels=(0, 0, 0, 1)), 0.5, ledger=ledger),
        lambda: xj.privacy.release(xj.QII(model, D, quantity="rate").explain(), 0.5, ledger),
        lambda: xj.privacy.release(xj.QII(model, D, quantity="average").unary(), 0.5, ledger),
        lambda: xj.privacy.release(xj.QII(model, D).explain(D[:1]), 0.5, ledger),
        lambda: xj.privacy.release(xj.QII(model, D).explain(D[3:4]), 0.5, ledger),
        lambda: xj.privacy.release(
            xj.QII(model, D, quantity="average", players=[[1], [0]]).explain(), 0.5, ledger
        ),
    ]
    for count, ask in enumerate(different, 1):
        ask()
        assert len(lines(path)) == 1 + 2 * count, count
        ask()
        assert len(lines(path)) == 1 + 2 * count, count
    assert ledger.spent == 0.5 * 9 + 0.25


def test_models_on_the_host_are_told_apart_by_what_they_hold(path):
    """Two functions with the same text, and weights that differ; two fits of one estimator."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    ledger = xj.privacy.Ledger(path, 100.0)

    def with_weight(w):
        def f(X):
            return (X @ w > 0.5) * 1

        return xj.as_model(f, backend="host", output="label", classes=[0, 1])

    def fitted(y):
        return xj.as_model(LogisticRegression().fit(D, y))

    models = [
        lambda: with_weight(np.array([1.0, 0.0])),
        lambda: with_weight(np.array([0.0, 1.0])),
        lambda: fitted([0, 1, 1, 1, 1]),
        lambda: fitted([0, 0, 1, 0, 1]),
    ]
    for count, make in enumerate(models, 1):
        for _ in range(2):
            xj.privacy.release(xj.QII(make(), D, quantity="average").explain(), 0.5, ledger=ledger)
        assert ledger.spent == 0.5 * count


@pytest.mark.parametrize("jitted", [False, True])
def test_traced_models_are_told_apart_by_their_constants(jitted):
    """Also by those of a function within, and the same again when made anew."""
    first = np.random.default_rng(0).normal(size=(40, 60)).astype(np.float32)
    second = first.copy()
    second[17, 33] += 1e-3

    def identity(weights):
        def f(X):
            return jax.numpy.tanh(X @ weights)[:, 0]

        return xj.as_model(jax.jit(f) if jitted else f).identity((40,), np.float32)

    assert identity(first) == identity(first.copy()) != identity(second)


class Ruler:
    """A model of the user's own, as an object."""

    def __init__(self, cut):
        self.cut = cut

    def __call__(self, X):
        return (X[:, 0] > self.cut) * 1


def test_objects_are_told_apart_and_found_again():
    def identity(f):
        return xj.as_model(f, backend="host", output="label").identity((2,), None)

    assert identity(Ruler(1)) == identity(Ruler(1)) != identity(Ruler(2))
    locked = Ruler(1)
    locked.cut = threading.Lock()  # cannot be read: the same only while it is the same object
    assert identity(locked) == identity(locked) != identity(Ruler(1))
    assert identity(functools.partial(max, 1)) != identity(functools.partial(max, 2))


def test_overspending_is_refused_and_nothing_is_charged(path):
    ledger = xj.privacy.Ledger(path, 0.3)
    for labels in ((0, 1, 1, 1), (0, 0, 0, 1), (0, 1, 1, 0)):
        xj.privacy.release(average(labels=labels), 0.1, ledger=ledger)
    assert ledger.remaining == 0.0  # three times 0.1 is 0.3, as written
    before = path.read_bytes()
    with pytest.raises(xj.BudgetExceededError, match=r"epsilon=0\.1 is more than the 0 left"):
        xj.privacy.release(average(labels=(1, 1, 1, 0)), 0.1, ledger=ledger)
    assert path.read_bytes() == before
    # What was answered stays free.
    xj.privacy.release(average(), 0.1, ledger=ledger)
    assert path.read_bytes() == before


@pytest.mark.filterwarnings("ignore:calibration='paper' is not private")
def test_without_a_ledger_and_by_the_paper_nothing_is_charged(path):
    ledger = xj.privacy.Ledger(path, 1.0)
    paper = xj.privacy.release(average(), 0.5, ledger=ledger, calibration="paper")
    assert ledger.spent == 0 and not paper.mechanism["charged"] and not paper.private
    assert "NOT PRIVATE" in repr(paper)
    free = xj.privacy.release(average(), 0.5)
    assert not free.mechanism["charged"] and "not charged" in repr(free)


def test_the_paper_warns():
    with pytest.warns(xj.XaiWarning, match="not private"):
        xj.privacy.release(average(), 0.5, calibration="paper")


def test_a_ledger_holds_no_answers_of_other_queries_and_no_rows(path):
    ledger = xj.privacy.Ledger(path, 1.0)
    secret = D + 0.125  # a number to look for
    xj.privacy.release(average(secret.astype(np.float32)), 0.5, ledger=ledger)
    assert "0.125" not in path.read_text() and "1.125" not in path.read_text()
    salts = {lines(path)[0]["salt"] for _ in range(2)}
    other = path.with_name("other")
    xj.privacy.release(average(secret), 0.5, ledger=xj.privacy.Ledger(other, 1.0))
    assert lines(other)[0]["salt"] not in salts
    assert lines(other)[1]["query"] != lines(path)[1]["query"]  # keyed by the ledger's own salt


def test_another_budget_is_refused(path):
    xj.privacy.Ledger(path, 1.0)
    with pytest.raises(xj.PrivacyError, match=r"budget=2, but .* with 1"):
        xj.privacy.Ledger(path, 2.0)


@pytest.mark.parametrize("budget", [0, -1, np.inf, np.nan])
def test_budgets_are_positive_numbers(path, budget):
    with pytest.raises(xj.InputError, match="budget"):
        xj.privacy.Ledger(path, budget)
    assert not path.exists()


@pytest.mark.parametrize("budget", ["1", True, None])
def test_budgets_are_numbers(path, budget):
    with pytest.raises(xj.InputTypeError, match="budget"):
        xj.privacy.Ledger(path, budget)


def test_the_folder_must_exist(tmp_path):
    with pytest.raises(xj.InputError, match="folder"):
        xj.privacy.Ledger(tmp_path / "none" / "ledger", 1.0)


def test_an_altered_ledger_is_refused(path):
    ledger = xj.privacy.Ledger(path, 1.0)
    xj.privacy.release(average(), 0.5, ledger=ledger)
    text = path.read_text()
    for altered in (
        text.replace('"epsilon": "0.5"', '"epsilon": "0.1"'),
        "\n".join(text.splitlines()[::2]) + "\n",  # the charge taken out
        text.replace("ledger", "Ledger", 1),
        "\n" + text,
    ):
        path.write_text(altered)
        with pytest.raises(xj.PrivacyError, match=r"line \d+ of .* is not what this ledger wrote"):
            xj.privacy.release(average(), 0.25, ledger=ledger)
    path.write_text("something else\n")
    with pytest.raises(xj.PrivacyError, match="line 1"):
        xj.privacy.Ledger(path, 1.0)


def test_a_torn_line_is_cut_off(path):
    ledger = xj.privacy.Ledger(path, 1.0)
    whole = path.read_bytes()
    ledger._answer({"q": 1}, 0.5, lambda: {"noisy": [1]})
    charged = path.read_bytes().split(b"\n")[1]
    for cut in (1, len(charged) // 2, len(charged)):
        path.write_bytes(whole + charged[:cut])  # no newline: it does not count
        assert ledger.spent == 0
        ledger._answer({"q": 1}, 0.5, lambda: {"noisy": [1]})
        assert ledger.spent == 0.5 and len(lines(path)) == 3


def test_a_charge_without_an_answer_pays_for_one_answer(path):
    ledger = xj.privacy.Ledger(path, 1.0)

    def fails():
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        ledger._answer({"q": 1}, 0.75, fails)
    assert ledger.spent == 0.75
    # The budget would not pay for it again, and need not.
    assert ledger._answer({"q": 1}, 0.75, lambda: {"noisy": [4]}) == {"noisy": [4]}
    assert ledger._answer({"q": 1}, 0.75, fails) == {"noisy": [4]}
    assert ledger.spent == 0.75


def test_noise_is_drawn_after_the_charge_is_on_the_disk(path, monkeypatch):
    events = []

    class Watched:
        def __getattr__(self, name):
            if name in ("write", "fsync"):
                events.append(name)
            return getattr(os, name)

    ledger = xj.privacy.Ledger(path, 1.0)
    monkeypatch.setattr(module, "os", Watched())
    ledger._answer({"q": 1}, 0.5, lambda: events.append("draw") or {"noisy": [1]})
    assert events == ["write", "fsync", "draw", "write", "fsync"]


def released(out):
    """{query: what its process saw}."""
    files = [one for one in out.iterdir() if one.suffix == ""]
    return {one.name: json.loads(one.read_text()) for one in files}


def ran(path, out, kind):
    out.mkdir()
    command = [sys.executable, str(HERE / "privacy_kills.py"), str(path), str(out), kind]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'kernels'}"},
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_killed_at_any_step_never_more_is_released_than_charged(path, tmp_path):
    killed = ran(path, tmp_path / "out", "sound")
    assert killed > 18
    seen = released(tmp_path / "out")
    assert seen  # those that lived long enough
    ledger = xj.privacy.Ledger(path, 100.0)
    charges = [one for one in lines(path) if one["kind"] == "charge"]
    answers = {one["query"] for one in lines(path) if one["kind"] == "answer"}
    assert 0.25 * len(seen) <= ledger.spent == 0.25 * len(charges)
    assert len(seen) <= len(answers) <= len(charges)
    # At the moment of every draw its charge was on the disk: one more than all that was seen.
    drawn = sorted((tmp_path / "out").glob("*.drawn"))
    assert len(drawn) >= len(seen)
    for one in drawn:
        assert float(one.read_text()) > 0
    # The same query asked again gives what was seen, if it was, and never a second charge.
    spent = ledger.spent
    for name, answer in seen.items():
        again = ledger._answer({"question": name}, 0.25, lambda: {"noisy": [-1]})
        assert again == answer
    assert ledger.spent == spent


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_the_kill_test_sees_a_release_before_the_charge(path, tmp_path):
    ran(path, tmp_path / "out", "late")
    seen = released(tmp_path / "out")
    assert 0.25 * len(seen) > xj.privacy.Ledger(path, 100.0).spent


def test_threads_wait_for_each_other(path):
    ledger = xj.privacy.Ledger(path, 1.0)
    together = threading.Barrier(8)

    def ask(number):
        together.wait()
        try:
            ledger._answer({"q": number}, 0.25, lambda: {"noisy": [number]})
        except xj.BudgetExceededError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(ask, range(8)))
    assert sum(done) == 4 and ledger.spent == 1.0
    assert len(lines(path)) == 1 + 2 * 4


WORKER = """
import sys
from xaijax.privacy import Ledger
import xaijax as xj
ledger = Ledger(sys.argv[1], 3.0)
done = 0
for n in range(12):
    try:
        ledger._answer({"who": sys.argv[2], "n": n}, 0.25, lambda: {"noisy": [n]})
        done += 1
    except xj.BudgetExceededError:
        break
print(done)
"""


def test_processes_wait_for_each_other(path):
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'kernels'}"}
    command = [sys.executable, "-c", WORKER, str(path)]
    workers = [
        subprocess.Popen([*command, str(who)], stdout=subprocess.PIPE, text=True, env=env)
        for who in range(3)
    ]
    done = [int(one.communicate(timeout=120)[0]) for one in workers]
    assert sum(done) == 12  # 3.0 / 0.25, whoever came first
    assert xj.privacy.Ledger(path, 3.0).spent == 3.0
