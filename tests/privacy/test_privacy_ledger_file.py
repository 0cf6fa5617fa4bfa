"""The file of a ledger: only ever longer, its owner's only, left alone where it is no ledger."""

from __future__ import annotations

import json

import pytest

import xaijax as xj
from xaijax.privacy import ledger as book


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def noisy(number=1):
    return lambda: {"noisy": [number]}


def test_a_file_that_is_another_one_is_refused(path, tmp_path):
    """While a ledger is open its file may only become longer; what is refused stays as it is."""

    def changed(how):
        path.unlink(missing_ok=True)
        ledger = xj.privacy.Ledger(path, 1.0)
        ledger._answer({"q": 1}, 1.0, noisy())
        how()
        before = path.read_bytes() if path.exists() else None
        for ask in (lambda: ledger.spent, lambda: ledger._answer({"q": 2}, 1.0, noisy())):
            with pytest.raises(xj.PrivacyError, match=r"charges may be missing.*restore"):
                ask()
        assert (path.read_bytes() if path.exists() else None) == before

    def first_line_only():
        path.write_bytes(path.read_bytes().split(b"\n")[0] + b"\n")

    def replaced():
        copy = tmp_path / "copy"
        copy.touch(0o600)
        copy.write_bytes(path.read_bytes())
        copy.replace(path)

    def another_of_the_same_length():
        other = xj.privacy.Ledger(tmp_path / "other", 1.0)
        other._answer({"q": 1}, 1.0, noisy())
        path.write_bytes(other.path.read_bytes())
        other.path.unlink()

    for how in (
        path.unlink,
        lambda: path.write_bytes(b""),
        first_line_only,
        replaced,
        another_of_the_same_length,
    ):
        changed(how)


@pytest.mark.parametrize("content", [b"", b"a note of one line", b'{"kind": "ledger", "vers'])
def test_a_file_that_is_no_ledger_is_left_alone(path, content):
    path.touch(0o600)
    path.write_bytes(content)
    with pytest.raises(xj.PrivacyError, match="no whole line, so it is no ledger"):
        xj.privacy.Ledger(path, 1.0)
    assert path.read_bytes() == content


def test_lines_of_other_versions_and_kinds_are_refused(path):
    ledger = xj.privacy.Ledger(path, 1.0)
    first = lines(path)[0]
    del first["digest"]
    line, digest = book.written(first | {"version": 2}, "")
    path.write_bytes(line)
    with pytest.raises(xj.PrivacyError, match="version 2"):
        xj.privacy.Ledger(path, 1.0)
    line, digest = book.written(first, "")
    path.write_bytes(line + book.written({"kind": "gift", "query": "q"}, digest)[0])
    with pytest.raises(xj.PrivacyError, match="line 2"):
        xj.privacy.Ledger(path, 1.0)
    assert ledger.budget == 1.0


def test_folders_devices_and_readers_are_refused(path, tmp_path):
    with pytest.raises(xj.InputError, match="no file"):
        xj.privacy.Ledger(tmp_path, 1.0)
    with pytest.raises(xj.InputError, match="no file"):
        xj.privacy.Ledger("/dev/null", 1.0)
    xj.privacy.Ledger(path, 1.0)
    path.chmod(0o640)
    with pytest.raises(xj.PrivacyError, match=r"others than its owner.*mode 640.*chmod 600"):
        xj.privacy.Ledger(path, 1.0)


def test_the_path_is_resolved_once(tmp_path, monkeypatch):
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path)
    ledger = xj.privacy.Ledger("people.ledger", 1.0)
    ledger._answer({"q": 1}, 1.0, noisy())
    monkeypatch.chdir(tmp_path / "inside")
    assert ledger.path.is_absolute() and ledger.spent == 1.0
    with pytest.raises(xj.BudgetExceededError):
        ledger._answer({"q": 2}, 1.0, noisy())
    assert not list((tmp_path / "inside").iterdir())
    assert [one.name for one in tmp_path.iterdir() if one.is_file()] == ["people.ledger"]
