"""The ledger: charged first, identical queries free, overspending refused, whatever is killed."""

from __future__ import annotations

import decimal
import json
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from privacy_cases import table_model
from repository import CASES, ROOT

import xaijax as xj
from xaijax.core import files
from xaijax.privacy import ledger as module

pytest.importorskip("opendp", reason="needs the extra [privacy]")

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


@pytest.mark.slow
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
        lambda: xj.privacy.release(xj.QII(model, D).explain(D[:1] + 2), 0.5, ledger),
        lambda: xj.privacy.release(xj.QII(model, D).explain(D[:1] + 3), 0.5, ledger),
        lambda: xj.privacy.release(
            xj.QII(model, D, quantity="average", players=[[1], [0]]).explain(), 0.5, ledger
        ),
    ]
    pool, own = D[:2] + 2, {"quantity": "average"}
    for weights in ([1, 9], [9, 1]):
        different += [
            lambda w=weights: xj.privacy.release(
                xj.QII(model, D, pool=pool, pool_weights=w, **own).explain(), 0.5, ledger
            ),
            lambda w=weights: xj.privacy.release(
                xj.QII(
                    model, xj.privacy.subsample(D, 0.9), pool=pool, pool_weights=w, **own
                ).explain(),
                0.5,
                ledger,
            ),
            lambda w=weights: xj.privacy.release(
                xj.QII(model, D, data_weights=[*w, 1, 1, 1], **own).explain(), 0.5, ledger
            ),
        ]
    for weights in ([1, 1, 0, 0, 0], [0, 0, 0, 1, 1]):  # like weights, of other donors
        different.append(
            lambda w=weights: xj.privacy.release(
                xj.QII(model, D, pool_weights=w, **own).explain(), 0.5, ledger
            )
        )
    for count, ask in enumerate(different, 1):
        ask()
        assert len(lines(path)) == 1 + 2 * count, count
        ask()
        assert len(lines(path)) == 1 + 2 * count, count
    assert ledger.spent == 0.5 * (len(different) - 1) + 0.25


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


def test_a_ledger_holds_digests_and_noisy_numbers_only(path):
    """Every text in the file is a word of ours, a name, a number or a digest of 64 digits."""
    ledger = xj.privacy.Ledger(path, 1.0)
    xj.privacy.release(average(D + np.float32(0.125)), 0.5, ledger=ledger)

    def leaves(value):
        if isinstance(value, dict):
            return [one for item in value.items() for one in leaves(list(item))]
        return (
            [one for item in value for one in leaves(item)] if isinstance(value, list) else [value]
        )

    texts = {one for one in leaves(lines(path)) if isinstance(one, str)}
    long = {one for one in texts if len(one) > 40}
    assert long and all(re.fullmatch("[0-9a-f]{64}|the share of .*|discrete .*", t) for t in long)
    (answer,) = [one["answer"] for one in lines(path) if one["kind"] == "answer"]
    assert set(answer) == {"noisy", "mechanism", "provenance"}
    assert len(answer["noisy"]) == 2  # and no list is as long as the data
    assert all(len(one) < len(D) for one in leaves_of_lists(lines(path)))
    other = path.with_name("other")
    xj.privacy.release(average(D + np.float32(0.125)), 0.5, ledger=xj.privacy.Ledger(other, 1.0))
    assert lines(other)[0]["salt"] != lines(path)[0]["salt"]
    assert lines(other)[1]["query"] != lines(path)[1]["query"]  # keyed by the ledger's own salt


def leaves_of_lists(value):
    if isinstance(value, dict):
        return [one for item in value.values() for one in leaves_of_lists(item)]
    if not isinstance(value, list):
        return []
    inner = [one for item in value for one in leaves_of_lists(item)]
    return inner if any(isinstance(item, dict) for item in value) else [value, *inner]


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
        with pytest.raises(xj.PrivacyError, match=r"line \d+ of .* was not written|is shorter"):
            xj.privacy.release(average(), 0.25, ledger=ledger)
        with pytest.raises(xj.PrivacyError, match=r"line \d+ of .* was not written by this ledger"):
            xj.privacy.Ledger(path, 1.0)
    path.write_text("something else\n")
    with pytest.raises(xj.PrivacyError, match="line 1"):
        xj.privacy.Ledger(path, 1.0)
    assert path.read_text() == "something else\n"


def noisy(number=1):
    return lambda: {"noisy": [number]}


def test_a_torn_line_is_cut_off(path):
    xj.privacy.Ledger(path, 1.0)
    whole = path.read_bytes()
    xj.privacy.Ledger(path, 1.0)._answer({"q": 1}, 0.5, noisy())
    charged = path.read_bytes().split(b"\n")[1]
    for cut in (1, len(charged) // 2, len(charged)):
        path.write_bytes(whole + charged[:cut])  # no newline: it does not count
        ledger = xj.privacy.Ledger(path, 1.0)
        assert ledger.spent == 0
        ledger._answer({"q": 1}, 0.5, noisy())
        assert ledger.spent == 0.5 and len(lines(path)) == 3


def test_a_charge_without_an_answer_is_spent_and_pays_for_no_other(path):
    """Whether an answer left, before the file lost its last line, cannot be known."""
    ledger = xj.privacy.Ledger(path, 1.0)
    ledger._answer({"q": 1}, 0.375, noisy())
    content = path.read_bytes()
    for cut in (content[:-5], content[: content.rindex(b'{"kind": "answer"')]):
        path.write_bytes(cut)
        with pytest.raises(xj.PrivacyError, match="is shorter than it was"):
            ledger._answer({"q": 1}, 0.375, noisy(2))
        anew = xj.privacy.Ledger(path, 1.0)
        assert anew.spent == 0.375
        assert anew._answer({"q": 1}, 0.375, noisy(2)) == {"noisy": [2]} and anew.spent == 0.75
        assert anew._answer({"q": 1}, 0.375, noisy(3)) == {"noisy": [2]} and anew.spent == 0.75

    def fails():
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        anew._answer({"q": 2}, 0.25, fails)
    assert anew.spent == 1.0
    with pytest.raises(xj.BudgetExceededError, match="charged before.*charged again"):
        anew._answer({"q": 2}, 0.25, noisy())


def test_sums_do_not_follow_the_precision_of_the_application(path):
    ledger = xj.privacy.Ledger(path, 2.0)
    ledger._answer({"q": 0}, 1.0, noisy())
    with decimal.localcontext() as context:
        context.prec = 3
        for number in range(1, 11):
            ledger._answer({"q": number}, 0.004, noisy())
        assert ledger.spent == 1.04
    large = xj.privacy.Ledger(path.with_name("large"), 1e300)
    large._answer({"q": 1}, 1.0, noisy())
    with pytest.raises(xj.BudgetExceededError):
        large._answer({"q": 2}, 1e300, noisy())


def test_noise_is_drawn_after_the_charge_is_on_the_disk(path, monkeypatch):
    events = []

    class Watched:
        def __getattr__(self, name):
            if name in ("write", "fsync"):
                events.append(name)
            return getattr(os, name)

    ledger = xj.privacy.Ledger(path, 1.0)
    for one in (module, files):
        monkeypatch.setattr(one, "os", Watched())
    ledger._answer({"q": 1}, 0.5, lambda: events.append("draw") or {"noisy": [1]})
    assert events == ["write", "fsync", "draw", "write", "fsync"]


def released(out):
    """{query: what its process saw}."""
    return {one.stem: json.loads(one.read_text()) for one in out.glob("*.seen")}


def ran(path, out, kind):
    out.mkdir()
    command = [sys.executable, str(CASES / "privacy_kills.py"), str(path), str(out), kind]
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


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_release_killed_at_any_step_is_charged_if_it_was_seen(path, tmp_path):
    killed = ran(path, tmp_path / "out", "sound")
    assert killed >= 3 * 10
    seen = released(tmp_path / "out")
    assert seen  # those that lived long enough
    ledger = xj.privacy.Ledger(path, 1000.0)
    charges = [one for one in lines(path) if one["kind"] == "charge"]
    answers = [one["answer"]["noisy"] for one in lines(path) if one["kind"] == "answer"]
    epsilons = [float(one["epsilon"]) for one in charges]
    assert set(map(float, seen)) <= set(epsilons)  # each has an epsilon of its own
    assert sum(map(float, seen)) <= ledger.spent == pytest.approx(sum(epsilons))
    assert len(seen) <= len(answers) <= len(charges)
    # Whatever noise was drawn, its charge was on the disk by then.
    drawn = [float(one.stem) for one in (tmp_path / "out").glob("*.drawn")]
    assert len(drawn) >= len(seen) and set(drawn) <= set(epsilons)
    # What was seen is what is told again, free of charge.
    assert all([round(v * 2**20) for v in one] in answers for one in seen.values())


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_the_kill_test_sees_a_release_before_the_charge(path, tmp_path):
    ran(path, tmp_path / "out", "late")
    seen = released(tmp_path / "out")
    assert sum(map(float, seen)) > xj.privacy.Ledger(path, 1000.0).spent


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


@pytest.mark.slow
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


def test_a_refusal_shows_the_digits_that_matter(tmp_path):
    """A float32 of 0.1 is another budget than 0.1, and the message shows it."""
    path = tmp_path / "ledger.json"
    xj.privacy.Ledger(path, np.float32(0.1))
    with pytest.raises(xj.PrivacyError, match=r"budget=0\.1, .*opened with 0\.100000001"):
        xj.privacy.Ledger(path, 0.1)
