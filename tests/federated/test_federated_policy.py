"""A guest's policy: what it refuses, what it warns of, its noise, its counts and its log."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from parties import GUEST, HOST, SECRET, Watched, guest_of, host_of, logistic, names, table

import xaijax as xj
from xaijax import federated as fd
from xaijax.federated.guest.audit import AuditLog, QueryCounts
from xaijax.federated.guest.policy import LATTICE, bit_thresholds, noise_key, noisy

pytest.importorskip("google.protobuf", reason="needs the extra [federated]")
pytest.importorskip("cryptography", reason="needs the extra [federated]")

SPLIT, X = logistic(), table(60)


def explained(guest: fd.Guest, N: int = 60, **options) -> xj.Explanation:
    host = host_of(SPLIT, X, fd.InMemory(guest), **options)
    return host(X[:N, HOST], names(60)[:N], progress=False)


def test_fewest_instances() -> None:
    guest = guest_of(SPLIT, X, fd.Policy(fewest=10))
    with pytest.raises(xj.FederatedPolicyError, match="at least 10 .*one of 1 would have 9"):
        explained(guest, 9)
    assert explained(guest, 10).values.shape == (10, 5)
    with pytest.raises(xj.FederatedPolicyError, match="one of 4 would have 5"):
        explained(guest, 22, batch=6)
    # The guest does not rely on hosts that keep to it.
    transport = fd.InMemory(guest)
    host = host_of(SPLIT, X, transport)
    conversation = host._conversations["shop"]
    opened = conversation.open()
    tokens = conversation.token_bytes(opened, [-1, *range(9)])
    with pytest.raises(xj.FederatedPolicyError, match="9 instances in one request"):
        conversation._ask("Answer", session=opened.session, number=1, tokens=tokens)


def test_requests_below_fewest_are_filled_up_with_people_answered_before() -> None:
    """Five more people than before: an answer that was given comes again as it was."""
    guest = guest_of(SPLIT, X, fd.Policy(fewest=10))
    transport = Watched(fd.InMemory(guest))
    host = host_of(SPLIT, X, transport)
    host(X[:35, HOST], names(60)[:35], progress=False)
    found = host(X[:40, HOST], names(60)[:40], progress=False)
    assert found.stats["rows_asked"] == 10  # five new ones, and five that were answered
    np.testing.assert_array_equal(found.values, explained(guest, 40).values)
    alone = host(X[40:42, HOST], names(60)[40:42], progress=False)  # two, and eight of before
    np.testing.assert_array_equal(alone.values, explained(guest, 60).values[40:42])
    sent = [one["instances"] for one in guest.audit.entries if one["event"] == "answer"]
    assert min(sent) >= 10
    # Each of those who fill up is asked as seldom as possible: 13 of 35 or more, once each.
    assert guest._counts.most([one.encode() for one in names(60)[:35]]) == 2 + 2
    assert host._answers["shop"].again.most_common(1)[0][1] == 1
    with pytest.raises(xj.FederatedPolicyError, match="fewest: 9 instances"):
        conversation = host_of(SPLIT, X, fd.InMemory(guest))._conversations["shop"]
        opened = conversation.open()
        tokens = conversation.token_bytes(opened, range(9))
        conversation._ask("Answer", session=opened.session, number=1, tokens=tokens)


@pytest.mark.parametrize(
    ("first", "then", "batch", "most", "words", "remedy"),
    [
        (0, 9, 256, 1024, "0 answered before can fill it up. Explain at least 1 more", 10),
        (0, 22, 6, 1024, "with batch=6. Say batch=23", (22, 23)),
        (0, 13, 12, 1024, "with batch=12. Say batch=14", (13, 14)),
        (0, 13, 256, 12, "Explain 11 people in one call, or 20 to 23", 23),
        (0, 13, 256, 12, "Explain 11 people in one call, or 20 to 23", 11),
    ],
)
def test_what_a_refusal_below_fewest_says_works(
    first: int, then: int, batch: int, most: int, words: str, remedy
) -> None:
    guest = guest_of(SPLIT, X, fd.Policy(fewest=10, most=most))
    with pytest.raises(xj.FederatedPolicyError, match=words):
        explained(guest, then, batch=batch)
    people, batch = remedy if isinstance(remedy, tuple) else (remedy, batch)
    assert len(explained(guest, people, batch=batch)) == people


def test_people_who_fill_up_and_may_not_be_asked_again() -> None:
    guest = guest_of(SPLIT, X, fd.Policy(fewest=10, most_queries=1))
    host = host_of(SPLIT, X, fd.InMemory(guest))
    host(X[:10, HOST], names(60)[:10], progress=False)
    with pytest.raises(xj.FederatedPolicyError, match="with 5 people who were answered before"):
        host(X[:15, HOST], names(60)[:15], progress=False)
    assert len(host(X[:20, HOST], names(60)[:20], progress=False)) == 20  # ten new ones


def test_most_queries_over_sessions_and_restarts(tmp_path: Path) -> None:
    policy = fd.Policy(fewest=1, most_queries=3)
    for _ in range(3):  # each time another process would have
        guest = guest_of(SPLIT, X, policy, secret=SECRET, state=tmp_path / "state")
        explained(guest, 20)
        guest.close()
    guest = guest_of(SPLIT, X, policy, secret=SECRET, state=tmp_path / "state")
    with pytest.raises(xj.FederatedPolicyError, match="has had its 3 requests"):
        explained(guest, 1)
    host = host_of(SPLIT, X, fd.InMemory(guest))
    assert len(host(X[20:40, HOST], names(60)[20:40], progress=False)) == 20  # others still may
    with pytest.raises(xj.FederatedPolicyError):  # one exhausted identifier refuses the request
        host(X[19:50, HOST], names(60)[19:50], progress=False)
    guest.close()
    for file in (tmp_path / "state").iterdir():
        data = file.read_bytes()
        assert not any(one.encode() in data for one in names(60)), file.name
        assert SECRET not in data


def test_two_processes_cannot_share_a_state(tmp_path: Path) -> None:
    first = QueryCounts(tmp_path / "queries", SECRET)
    with pytest.raises(xj.InputError, match="Stop the other guest"):
        QueryCounts(tmp_path / "queries", SECRET)
    first.close()
    QueryCounts(tmp_path / "queries", SECRET).close()


def test_model_versions() -> None:
    parts = {"2023": fd.Part("linear", {"weights": np.ones(3)}), "2024": SPLIT.parts["shop"]}
    both = fd.Guest(X[:, GUEST], names(60), parts, policy=fd.Policy(fewest=1))
    with pytest.raises(xj.FederatedPolicyError, match=r"none was named; .*'2023', '2024'"):
        explained(both)
    found = explained(both, version="2024")
    assert found.provenance["remote"] == {"shop": "2024"}
    one = fd.Policy(fewest=1, versions=["2024"])
    newest = fd.Guest(X[:, GUEST], names(60), parts, policy=one)
    np.testing.assert_array_equal(explained(newest).values, found.values)
    with pytest.raises(xj.FederatedPolicyError, match="another one was asked for"):
        explained(newest, version={"shop": "2023"})
    with pytest.raises(xj.InputError, match=r"allows \['2022'\]"):
        fd.Guest(X[:, GUEST], names(60), parts, policy=fd.Policy(versions=["2022"]))


def test_hosts_by_their_certificates_names() -> None:
    guest = guest_of(SPLIT, X, fd.Policy(fewest=1, hosts=["bank.example"]))
    with pytest.raises(xj.FederatedPolicyError, match="hosts"):
        explained(guest)
    host = host_of(SPLIT, X, fd.InMemory(guest, "bank.example"))
    assert len(host(X[:, HOST], progress=False)) == 60


def test_quantisation() -> None:
    quantum = 0.25
    guest = guest_of(SPLIT, X, fd.Policy(fewest=1, quantum=quantum))
    host = host_of(SPLIT, X, fd.InMemory(guest))
    host(X[:, HOST], progress=False)
    told = host._answers["shop"].rows(range(60))
    exact = SPLIT.parts["shop"].answers(X[:, GUEST])
    assert (told / quantum == np.rint(told / quantum)).all()
    assert np.abs(told - exact).max() <= quantum / 2


WARNED = {
    "as many numbers as columns": (3, 3, "3 numbers for 3 columns, so that it may be inverted"),
    "two columns": (2, 1, r"2 columns; a united value of fewer than 3"),
    "one column": (1, 1, "1 numbers for 1 columns|1 column;"),
}


@pytest.mark.parametrize("name", WARNED)
def test_warnings(name: str) -> None:
    columns, width, words = WARNED[name]
    part = fd.FunctionPart(lambda rows: rows[:, :width], columns, width)
    with pytest.warns(xj.XaiWarning, match=words):
        fd.Guest(X[:, :columns], names(60), part)


def test_no_warning_without_a_reason() -> None:
    guest_of(SPLIT, X)  # warnings are errors


def test_a_single_binary_column_is_refused() -> None:
    column = (X[:, :1] > 0).astype(float)
    part = fd.Part("linear", {"weights": np.ones(1)})
    with pytest.raises(xj.InputError, match="allow_binary=True"):
        fd.Guest(column, names(60), part)
    with pytest.warns(xj.XaiWarning):
        fd.Guest(column, names(60), part, policy=fd.Policy(allow_binary=True))


def test_distances_are_refused_without_consent() -> None:
    split = fd.split_neighbours(X[:20], X[:20, 0] > 0, {"shop": GUEST})
    with pytest.raises(xj.InputError, match="allow_distance_leak=True"):
        guest_of(split, X)
    with pytest.warns(xj.XaiWarning, match="20 numbers for 3 columns"):
        guest = guest_of(split, X, fd.Policy(fewest=1, allow_distance_leak=True))
    host = host_of(split, X, fd.InMemory(guest))
    found = host(X[:8, HOST], names(60)[:8], progress=False)
    expected = xj.FederatedExplainer(split.joint, X, {"shop": GUEST})(X[:8], progress=False)
    np.testing.assert_allclose(found.values, expected.values, rtol=0, atol=1e-6)


BAD = {
    "fewest": ({"fewest": 0}, "fewest must be at least 1"),
    "most": ({"fewest": 9, "most": 9}, "most must be at least 10"),
    "most_queries": ({"most_queries": 0}, "most_queries must be at least 1"),
    "quantum": ({"quantum": -1.0}, "quantum must be a positive number"),
    "epsilon alone": ({"epsilon": 1.0}, "belong together"),
    "epsilon": ({"epsilon": math.inf, "bounds": (0, 1)}, "epsilon must be a positive number"),
    "bounds alone": ({"bounds": (0, 1)}, "belong together"),
    "bounds": ({"epsilon": 1.0, "bounds": (1, 1)}, "low < high"),
    "bounds too wide": ({"epsilon": 1.0, "bounds": (0, 1e9)}, "within a million"),
    "versions": ({"versions": []}, "nothing could be asked"),
    "hosts": ({"hosts": "bank"}, "hosts must be a list"),
    "arbiter": ({"arbiter": 3}, "arbiter must be a certificate's name"),
    "allow_binary": ({"allow_binary": 1}, "allow_binary must be True or False"),
}


@pytest.mark.parametrize("name", BAD)
def test_policies_that_are_refused(name: str) -> None:
    given, words = BAD[name]
    with pytest.raises((xj.InputError, xj.InputTypeError), match=words):
        fd.Policy(**given)


def test_guests_that_are_refused(tmp_path: Path) -> None:
    noise = fd.Policy(epsilon=1.0, bounds=(-1, 1))
    good = {"rows": X[:, GUEST], "identifiers": names(60), "parts": SPLIT.parts["shop"]}
    for given, words in (
        ({"policy": noise}, "secret is needed for noise"),
        ({"state": tmp_path / "s"}, "secret is needed for noise and for a state"),
        ({"secret": b"short"}, "5 bytes; at least 32"),
        ({"secret": "text" * 8}, "secret must be bytes"),
        ({"identifiers": names(59)}, "59 entries for 60 rows"),
        ({"parts": None}, "a Part or FunctionPart is needed"),
        ({"parts": {}}, "parts is empty"),
        ({"rows": X[:, :2]}, "of 3 columns, but rows have 2"),
        ({"rows": np.full((60, 3), np.nan)}, "NaN"),
        ({"reference": [1.0]}, "3 finite numbers"),
        ({"reference": "mean"}, "reference must be one of"),
        ({"policy": {}}, "policy must be a Policy"),
    ):
        with pytest.raises((xj.InputError, xj.InputTypeError), match=words):
            fd.Guest(**(good | given))


def test_noise_is_a_function_of_secret_row_version_and_epsilon() -> None:
    keys = {
        noise_key(*what)
        for what in (
            (SECRET, b"a", b"row", "1", 1.0),
            (SECRET[::-1], b"a", b"row", "1", 1.0),
            (SECRET, b"b", b"row", "1", 1.0),
            (SECRET, b"a", b"raw", "1", 1.0),
            (SECRET, b"a", b"row", "2", 1.0),
            (SECRET, b"a", b"row", "1", 2.0),
            (SECRET, b"ar", b"ow", "1", 1.0),  # lengths are part of what is said
        )
    }
    assert len(keys) == 7


@pytest.mark.slow
def test_noise_has_the_distribution_that_is_said() -> None:
    """Discrete Laplace, by a chi-square test; false alarms: one in ten millions of secrets.

    The secret is fixed, so this run passes always or never.
    """
    low, high, epsilon, draws = 0.0, 4 / LATTICE, 1.0, 200_000
    keys = [noise_key(SECRET, str(i).encode(), b"", "1", epsilon) for i in range(draws)]
    noise = noisy(np.zeros((draws, 1)), low, high, epsilon, keys)[:, 0] * LATTICE
    q = math.exp(-1 / 4)  # scale: 1 number, 4 lattice steps, epsilon 1
    values = np.arange(-20, 21)
    expected = draws * (1 - q) / (1 + q) * q ** np.abs(values)
    counted = (noise[:, None] == values).sum(axis=0)
    rest = draws - expected.sum()
    statistic = ((counted - expected) ** 2 / expected).sum()
    statistic += (draws - counted.sum() - rest) ** 2 / rest
    # 41 degrees of freedom: the quantile of 1 - 1e-7 is 107.1 (Wilson and Hilferty).
    assert statistic < 107.1
    assert (noise == np.rint(noise)).all()


def test_chances_of_bits() -> None:
    """Against the definition: P(bit j) = sum of P(k) over all k with bit j."""
    for scale in (0.3, 2.0, 37.5):
        thresholds = bit_thresholds(scale)
        k = np.arange(200_000)
        chances = (1 - math.exp(-1 / scale)) * np.exp(-k / scale)
        for j, threshold in enumerate(thresholds):
            direct = math.fsum(chances[(k >> j & 1).astype(bool)])
            assert abs(float(threshold) / 2**64 - direct) < 1e-12
    assert len(bit_thresholds(1e9)) < 62  # what int64 holds


def test_noise_is_the_same_after_reconnections_and_restarts(tmp_path: Path) -> None:
    policy = fd.Policy(fewest=1, epsilon=1.0, bounds=(-4, 4))
    found = []
    for session in range(2):
        guest = guest_of(SPLIT, X, policy, secret=SECRET, state=tmp_path / "state")
        found += [explained(guest).values, explained(guest, 30 + session).values[:30]]
        guest.close()
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_array_equal(found[0][:30], found[1])
    np.testing.assert_array_equal(found[0][:30], found[3])
    other = guest_of(SPLIT, X, policy, secret=SECRET[::-1])
    assert (explained(other).values[:, -1] != found[0][:, -1]).mean() > 0.9
    plain = explained(guest_of(SPLIT, X)).values
    assert np.abs(found[0] - plain).max() > 0.1


@pytest.mark.slow
def test_noise_bounds_what_is_told_of_a_row() -> None:
    """The two rows farthest apart: no answer is more than e^epsilon times as likely from one.

    Counted on a lattice of few steps. The ratio of counts of at least 400 has a relative deviation
    of at most 0.071; 6 of them are allowed, for 2 x 25 comparisons: false alarms below 1e-6.
    """
    epsilon, draws = 0.8, 40_000
    low, high = 0.0, 3 / LATTICE
    counts = []
    for number, value in enumerate((low, high)):
        keys = [noise_key(SECRET, b"%d %d" % (number, i), b"", "1", epsilon) for i in range(draws)]
        told = noisy(np.full((draws, 1), value), low, high, epsilon, keys)[:, 0] * LATTICE
        counts.append((told[:, None] == np.arange(-12, 16)).sum(axis=0))
    enough = (counts[0] >= 400) & (counts[1] >= 400)
    assert enough.sum() >= 10
    ratios = np.log(counts[0][enough] / counts[1][enough])
    assert np.abs(ratios).max() <= epsilon + 6 * 0.071
    assert np.abs(ratios).max() >= epsilon - 6 * 0.071  # and no more noise than that needs


def test_answers_are_clipped_to_the_bounds_before_the_noise() -> None:
    keys = [noise_key(SECRET, b"%d" % i, b"", "1", 1.0) for i in range(50)]
    far = noisy(np.full((50, 1), 1e300), -1, 1, 1.0, keys)
    np.testing.assert_array_equal(far, noisy(np.full((50, 1), 1.0), -1, 1, 1.0, keys))


def test_the_audit_log_is_a_chain(tmp_path: Path) -> None:
    guest = guest_of(SPLIT, X, fd.Policy(fewest=10), secret=SECRET, state=tmp_path)
    explained(guest)
    with pytest.raises(xj.FederatedPolicyError):
        guest_of_host = host_of(SPLIT, X, fd.InMemory(guest), version="other")
        guest_of_host(X[:, HOST], progress=False)
    guest.close()
    path = tmp_path / "audit.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    entries = [json.loads(one) for one in lines]
    assert [one["event"] for one in entries] == ["start", "open", "align", "answer", "refused"]
    assert entries[3]["instances"] == 60 and entries[3]["peer"] == "host"
    assert entries[4]["code"] == "policy"
    count, head = fd.verify_audit(path, SECRET)
    assert (count, head) == (5, entries[-1]["mac"])
    text = path.read_text()
    assert not any(one in text for one in names(60))
    assert not any(repr(value) in text for value in X[:, GUEST].ravel())

    whole = b"".join(lines)
    spoilt = {
        "an entry is changed": whole.replace(b'"instances": 60', b'"instances": 20'),
        "an entry is taken out": b"".join(lines[:2] + lines[3:]),
        "the first is taken out": b"".join(lines[1:]),
        "entries change places": b"".join([*lines[:2], lines[3], lines[2], lines[4]]),
        "an entry stands twice": whole + lines[-1],
        "no JSON": whole + b"[]\n",
    }
    for name, data in spoilt.items():
        path.write_bytes(data)
        with pytest.raises(xj.InputError, match="does not continue the chain"):
            fd.verify_audit(path, SECRET)
        with pytest.raises(xj.InputError, match="evidence"):
            guest_of(SPLIT, X, secret=SECRET, state=tmp_path)
            pytest.fail(name)
    path.write_bytes(whole)
    with pytest.raises(xj.InputError, match="another secret"):
        fd.verify_audit(path, SECRET[::-1])


def test_a_torn_last_line_is_told_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = AuditLog(path, SECRET)
    log.add("start")
    with path.open("ab") as file:
        file.write(b'{"number": 2, "ti')
    log = AuditLog(path, SECRET)
    log.add("open")
    assert fd.verify_audit(path, SECRET)[0] == 3
    assert [json.loads(one)["event"] for one in path.read_text().splitlines()] == [
        "start",
        "torn",
        "open",
    ]
