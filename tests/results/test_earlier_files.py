"""Files that earlier commits wrote are opened, read and continued by this version.

`tests/cases/written_by_324360d` holds the state of a guest and a host's file of its answers about
four people (secret: `SECRET`), a ledger of 2.0 of which 0.5 is spent, a sweep of three rows in two
parts, and the explanation of the same rows. `written_by_1bc6813` holds the same of a guest and its
host, with the split model: since cf6649e its files name a release, and older ones are refused.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from parties import GUEST, HOST, SECRET, names
from repository import CASES

import xaijax as xj
from xaijax import federated as fd
from xaijax.federated.host.answers import GuestAnswers

X = np.arange(28.0).reshape(4, 7) % 5
VALUES = [[3.0, 3.0], [2.0, 2.0], [15.0, 15.0]]  # of z[:, 0] * z[:, 1], by hand


@pytest.fixture
def files(tmp_path: Path) -> Path:
    copy = tmp_path / "files"
    shutil.copytree(CASES / "written_by_324360d", copy)
    shutil.copytree(CASES / "written_by_1bc6813", copy / "later")
    (copy / "people.ledger").chmod(0o600)  # git keeps no such modes
    return copy


def parties(files: Path, **more: Path) -> tuple[fd.Guest, fd.Host]:
    """Both parties of the split model, the guest with its state."""
    part, model = fd.load_part(files / "shop.npz"), fd.load_split(files / "host.npz")
    state, policy = files / "state", fd.Policy(fewest=1)
    guest = fd.Guest(X[:, GUEST], names(4), part, policy=policy, secret=SECRET, state=state)
    return guest, fd.Host(model, X[:, HOST], {"shop": fd.InMemory(guest)}, names(4), **more)


@pytest.mark.parametrize("written", [".", "later"])
def test_the_log_and_counts_of_a_guest_go_on(written: str, files: Path) -> None:
    state = files / written / "state"
    if written == ".":
        shutil.copytree(state, files / "later" / "state", dirs_exist_ok=True)
    log = files / "later" / "state" / "audit.jsonl"
    count, head = fd.verify_audit(log, SECRET)
    assert count == 4
    guest, host = parties(files / "later")
    assert guest._counts.total() == 4 and guest.audit.instances == 4
    host(X[:, HOST], names(4), progress=False)
    guest.close()
    lines = log.read_bytes().splitlines()
    assert head.encode() in lines[count - 1] and head.encode() in lines[count]  # one chain
    assert fd.verify_audit(log, SECRET) == (len(lines), guest.audit.head)


def test_kept_answers_are_not_asked_again(files: Path) -> None:
    guest, host = parties(files / "later", answers=files / "later" / "answers")
    found = host(X[:, HOST], names(4), progress=False)
    guest.close()
    assert found.stats["rows_asked"] == 0
    guest, host = parties(files / "later")
    np.testing.assert_array_equal(found.values, host(X[:, HOST], names(4), progress=False).values)
    guest.close()


def test_answers_that_name_no_release_are_refused(files: Path) -> None:
    with pytest.raises(xj.InputError, match="no file of answers"):
        GuestAnswers(files / "answers" / "0.answers", "shop", [one.encode() for one in names(4)])


def test_a_ledger_knows_what_is_spent(files: Path) -> None:
    ledger = xj.privacy.Ledger(files / "people.ledger", 2.0)
    assert ledger.spent == 0.5
    ledger._answer({"q": 2}, 1.0, lambda: {"noisy": [2]})
    assert xj.privacy.Ledger(files / "people.ledger", 2.0).remaining == 0.5


def test_results_and_sweeps_open(files: Path) -> None:
    found = xj.load(files / "explanation.npz")
    run = xj.open_run(files / "run")
    assert not run.missing
    for one in (found, run.explanation()):
        np.testing.assert_allclose(one.values, VALUES, rtol=0, atol=1e-6)
