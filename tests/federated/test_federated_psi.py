"""Private set intersection, with the real library where it is installed."""

from __future__ import annotations

import numpy as np
import pytest
from parties import GUEST, HOST, Watched, logistic, names, table

import xaijax as xj
from xaijax import federated as fd
from xaijax.federated.wire import party

pytest.importorskip("google.protobuf", reason="needs the extra [federated]")
pytest.importorskip("cryptography", reason="needs the extra [federated]")

SPLIT, X = logistic(), table(60)


def guest_of(rows: slice, **policy) -> fd.Guest:
    more = {"fewest": 1, "intersection": True} | policy
    part, ids = SPLIT.parts["shop"], names(60)[rows]
    return fd.Guest(X[rows, GUEST], ids, part, reference=np.zeros(3), policy=fd.Policy(**more))


def test_both_sides_find_the_common_identifiers_and_nothing_else() -> None:
    pytest.importorskip("private_set_intersection", reason="openmined-psi is not installed")
    guest = guest_of(slice(20, 60))
    transport = Watched(fd.InMemory(guest))
    host = fd.Host(SPLIT.host, X[:40, HOST], {"shop": transport}, names(40))
    with pytest.raises(xj.FederatedProtocolError, match="aligned"):
        host(X[:40, HOST], progress=False)
    common = host.align()
    assert common == tuple(one.encode() for one in names(60)[20:40])
    found = host(X[20:40, HOST], progress=False)
    off = np.r_[np.median(X[:40, HOST], axis=0), np.zeros(3)][[0, 4, 1, 5, 2, 6, 3]]
    explainer = xj.FederatedExplainer(SPLIT.joint, X, {"shop": GUEST}, reference=off)
    expected = explainer(X[20:40], progress=False)
    np.testing.assert_allclose(found.values, expected.values, rtol=0, atol=1e-6)
    said = transport.said
    assert not any(one.encode() in said or one.encode().hex().encode() in said for one in names(60))
    # Another host of this guest still goes by the guest's own list.
    other = fd.Host(SPLIT.host, X[:40, HOST], {"shop": fd.InMemory(guest, "other")}, names(40))
    with pytest.raises(xj.FederatedProtocolError, match="aligned"):
        other(X[:40, HOST], progress=False)


def test_a_policy_must_allow_it() -> None:
    pytest.importorskip("private_set_intersection", reason="openmined-psi is not installed")
    transport = fd.InMemory(guest_of(slice(0, 60), intersection=False))
    host = fd.Host(SPLIT.host, X[:, HOST], {"shop": transport}, names(60))
    with pytest.raises(xj.FederatedPolicyError, match="intersection"):
        host.align()


def test_step_2_needs_step_1() -> None:
    transport = fd.InMemory(guest_of(slice(0, 60)))
    with pytest.raises(xj.FederatedProtocolError, match="step 1 comes first"):
        party.ask(transport, "guest", "Intersect", 1.0, step=2)


def test_without_the_library_the_message_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "private_set_intersection.python", None)
    host = fd.Host(SPLIT.host, X[:, HOST], {"shop": fd.InMemory(guest_of(slice(0, 60)))}, names(60))
    with pytest.raises(ImportError, match='pip install "openmined-psi"'):
        host.align()
