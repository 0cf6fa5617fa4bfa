"""What leaves a guest's house: noise that no second answer cancels, limits that no file undoes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from parties import GUEST, HOST, SECRET, guest_of, host_of, logistic, names, table

import xaijax as xj
from xaijax import federated as fd
from xaijax.federated.guest.audit import AuditLog
from xaijax.federated.wire import psi

pytest.importorskip("google.protobuf", reason="needs the extra [federated]")
pytest.importorskip("cryptography", reason="needs the extra [federated]")

N = 400
SPLIT, X = logistic(), table(N)
# Noise that hides everything: its scale is 1,200 for answers of about 4.
NOISE = {"fewest": 1, "epsilon": 0.1, "bounds": (-60.0, 60.0)}


def told(weights: list[float], **policy) -> np.ndarray:
    """What a host holds after a sweep, of a part whose version is always "1"; [N]."""
    part = fd.Part("linear", {"weights": np.array(weights)}, release=SPLIT.host.release)
    policy = fd.Policy(**(NOISE | policy))
    guest = fd.Guest(X[:, GUEST], names(N), part, policy=policy, secret=SECRET)
    host = host_of(SPLIT, X, fd.InMemory(guest))
    host(X[:, HOST], progress=False)
    return host._answers["shop"].rows(range(N))[:, 0]


def test_a_new_part_under_an_old_version_has_noise_of_its_own() -> None:
    """Else the difference of both answers is free of noise: here a whole column."""
    before, after = told([1.0, 2.0, 3.0]), told([1.0, 2.0, 4.0])
    column = X[:, GUEST[2]]
    # Two independent draws: a correlation of 0.25 is five standard deviations off.
    assert abs(np.corrcoef(after - before, column)[0, 1]) < 0.25
    np.testing.assert_array_equal(before, told([1.0, 2.0, 3.0]))


def test_other_bounds_have_noise_of_their_own() -> None:
    """The same bits at two scales would tell of each other."""
    truth = X[:, GUEST] @ np.array([1.0, 2.0, 3.0])
    one = told([1.0, 2.0, 3.0]) - truth
    other = told([1.0, 2.0, 3.0], bounds=(-120.0, 120.0)) - truth
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.25


@pytest.mark.parametrize("given", [{"epsilon": 1.0, "bounds": (-1, 1)}, {"quantum": 0.5}])
def test_an_arbiter_and_noise_exclude_each_other(given: dict) -> None:
    """Rows go to the arbiter as they are, so the promise would not hold."""
    with pytest.raises(xj.InputError, match="neither the noise .* nor the rounding"):
        fd.Policy(arbiter="arbiter", **given)


def test_columns_that_tell_too_much_do_so_at_an_arbiter_too() -> None:
    policy = {"fewest": 1, "arbiter": "arbiter"}
    binary = (X[:, :1] > 0).astype(float)
    with pytest.raises(xj.InputError, match="allow_binary=True"):
        fd.Guest(binary, names(N), None, policy=fd.Policy(**policy))
    with pytest.warns(xj.XaiWarning, match="1 column;"):
        fd.Guest(binary, names(N), None, policy=fd.Policy(allow_binary=True, **policy))
    with pytest.warns(xj.XaiWarning, match="2 columns;"):
        fd.Guest(X[:, :2], names(N), None, policy=fd.Policy(**policy))


@pytest.mark.parametrize(
    ("epsilon", "bounds"), [(1e-6, (-1e6, 1e6)), (1.0, (0.0, 1e-8)), (1e12, (0.0, 1.0))]
)
def test_noise_that_cannot_be_drawn_is_refused_at_the_start(epsilon: float, bounds) -> None:
    """And not at each request, or by draws that do not fit 64 bits."""
    policy = fd.Policy(fewest=1, epsilon=epsilon, bounds=bounds)
    with pytest.raises(xj.InputError, match="can be drawn"):
        guest_of(SPLIT, X, policy, secret=SECRET)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # as in a guest's own process
def test_an_answer_that_rounding_makes_infinite_is_not_sent() -> None:
    guest = guest_of(SPLIT, X, fd.Policy(fewest=1, quantum=5e-324))
    with pytest.raises(xj.FederatedProtocolError, match=r"\(internal\)"):
        host_of(SPLIT, X, fd.InMemory(guest))(X[:, HOST], progress=False)


# --- the state folder ------------------------------------------------------------------------


def served(folder: Path) -> fd.Guest:
    policy = fd.Policy(fewest=1, most_queries=1)
    return guest_of(SPLIT, X, policy, secret=SECRET, state=folder)


def test_the_state_is_for_the_owner_only(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)  # a folder that was there before
    guest = served(tmp_path)
    host_of(SPLIT, X, fd.InMemory(guest))(X[:, HOST], progress=False)
    guest.close()
    for file in tmp_path.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600, file.name


@pytest.mark.parametrize("how", ["deleted", "emptied", "put back", "the log deleted"])
def test_limits_survive_the_loss_of_a_file(how: str, tmp_path: Path) -> None:
    """most_queries=1 was used up; a guest without its counts does not start."""
    guest = served(tmp_path)
    guest.close()
    counts = tmp_path / "queries.sqlite"
    older = counts.read_bytes()
    guest = served(tmp_path)
    host_of(SPLIT, X, fd.InMemory(guest))(X[:, HOST], progress=False)
    guest.close()
    if how == "deleted":
        counts.unlink()
    elif how == "the log deleted":
        (tmp_path / "audit.jsonl").unlink()
    else:
        counts.write_bytes(b"" if how == "emptied" else older)
    for _ in range(2):  # trying again does not help
        with pytest.raises(xj.InputError, match="limits would not hold"):
            served(tmp_path)


def test_a_full_disk_leaves_the_log_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that could not be written leaves nothing that the next one would follow."""
    path = tmp_path / "log"
    log = AuditLog(path, SECRET)
    log.add("start")
    with monkeypatch.context() as patched:

        def full(file: int) -> None:
            raise OSError("no space left")

        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space"):
            log.add("open")
    log.add("open")
    assert fd.verify_audit(path, SECRET) == (2, log.head)


def test_a_refusal_does_not_tell_how_many_people_a_guest_has() -> None:
    host = host_of(SPLIT, X, fd.InMemory(guest_of(SPLIT, X)), identifiers=names(3))
    with pytest.raises(xj.FederatedProtocolError, match="are not the same") as raised:
        host(X[:3, HOST], progress=False)
    assert f"{N:,}" not in str(raised.value)


# --- the host --------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", ["too wide", "too narrow", "NaN"])
def test_rows_that_cannot_be_explained_cost_no_queries(bad: str) -> None:
    rows = {"too wide": X, "too narrow": X[:, :2], "NaN": np.full((N, 4), np.nan)}[bad]
    guest = guest_of(SPLIT, X)
    with pytest.raises(xj.InputError):
        host_of(SPLIT, X, fd.InMemory(guest))(rows, progress=False)
    assert [one["event"] for one in guest.audit.entries] == ["start"]


@pytest.mark.slow
def test_kept_answers_of_another_version_are_not_used(tmp_path: Path) -> None:
    older = fd.Part("linear", {"weights": np.ones(3)}, release=SPLIT.host.release)
    parts = {"2023": older, "2024": SPLIT.parts["shop"]}
    guest = fd.Guest(X[:, GUEST], names(N), parts, policy=fd.Policy(fewest=1))

    def host(version: str | None, split: fd.PartySplit = SPLIT) -> fd.Host:
        kept = {"answers": tmp_path, "version": version}
        return host_of(split, X, fd.InMemory(guest), **kept)

    first = host("2023")(X[:, HOST], progress=False)
    with pytest.raises(xj.FederatedProtocolError, match="kept answers are of model version '2023'"):
        host("2024")(X[:, HOST], progress=False)
    for version in ("2023", None):
        again = host(version)(X[:, HOST], progress=False)
        assert again.stats["rows_asked"] == 0
        np.testing.assert_array_equal(again.values, first.values)
    wide = fd.split_network(X, X[:, 0] > 0, {"shop": GUEST}, steps=1)
    with pytest.raises(xj.FederatedProtocolError, match="with 1 numbers each; wanted .* 4 numbers"):
        host("2023", wide)(X[:, HOST], progress=False)


def test_a_list_that_is_refused_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else kept answers, which go by place, would be taken for those of other people."""
    guest = guest_of(SPLIT, X)
    host = host_of(SPLIT, X, fd.InMemory(guest))
    before = host(X[:, HOST], progress=False)

    def found(transport, who, identifiers, deadline) -> tuple[bytes, ...]:
        return tuple(identifiers[5:])

    monkeypatch.setattr(psi, "intersect", found)
    with pytest.raises(xj.InputError, match="another list of identifiers"):
        host.align()
    again = host(X[:20, HOST], names(N)[:20], progress=False)
    np.testing.assert_array_equal(again.values, before.values[:20])
