"""`sweep` in this process: the bits of one call, resumed, never lost."""

from __future__ import annotations

import datetime
import errno
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sweeping import EACH, B, Counted, N, X, explainer, parts, product, raises_on

import xaijax as xj
from xaijax.sweeps.directory import RunDirectory


def swept(out, *, made=None, rows=X, **options) -> xj.Run:
    return xj.sweep(made or explainer(), rows, out, **{"rows_per_part": EACH, **options})


def same(found: xj.Explanation, wanted: xj.Explanation) -> None:
    for name in ("values", "base_values", "std_errors"):
        a, b = getattr(found, name), getattr(wanted, name)
        assert (a is None and b is None) or np.array_equal(a, b, equal_nan=True), name
    assert (found.feature_names, found.exact) == (wanted.feature_names, wanted.exact)
    assert set(found.stats) == {*wanted.stats, "platform"}


def test_the_bits_of_one_call(tmp_path: Path) -> None:
    run, wanted = swept(tmp_path / "run"), explainer()(X)
    assert (run.parts, run.missing, run.failed, run.sizes) == (3, (), {}, (10, 10, 5))
    for lazy in (False, True, True):
        found = run.explanation(lazy=lazy)
        same(found, wanted)
        np.testing.assert_array_equal(found.data, X)
        assert found.provenance["instances"] == N
        assert found.stats["model_rows"] == wanted.stats["model_rows"]
        assert found.stats["efficiency_bound"].shape == (N,)
    assert isinstance(found.values.base, np.memmap)
    same(xj.open_run(tmp_path / "run").explanation(), wanted)
    assert "complete" in repr(run)


@pytest.mark.parametrize("options", [{"budget": 6}, {"budget": 6, "estimator": "permutation"}])
def test_sampled_values_and_their_errors(options: dict, tmp_path: Path) -> None:
    made = explainer(**options)  # of "auto" some rows are exact, some sampled
    same(swept(tmp_path, made=made).explanation(lazy=True), made(X))


def test_every_explainer_of_values(tmp_path: Path) -> None:
    model = xj.as_model(product, backend="host", threshold=4.0, classes=["no", "yes"])
    federated = xj.FederatedExplainer(model, B, {"bank": [1, 2]})
    run = swept(tmp_path / "federated", made=federated)
    np.testing.assert_array_equal(run.explanation().values, federated(X).values)
    qii = xj.QII(model, X, pool=B, quantity="individual")
    run = swept(tmp_path / "qii", made=qii, options={"index": "banzhaf"})
    np.testing.assert_array_equal(run.explanation().values, qii.explain(X, "banzhaf").values)
    assert run.manifest["question"]["options"]["index"] == "banzhaf"


@pytest.mark.slow
def test_rules(tmp_path: Path) -> None:
    model = xj.as_model(lambda z: product(z) > 4, backend="host", output="label")
    anchors = xj.AnchorExplainer(model, X, list("abcd"), bins={0: [1], 1: [1]}, target="t")
    run = swept(tmp_path / "anchors", made=anchors, options={"max_size": 1})
    wanted = anchors.explain(X, max_size=1)
    assert list(map(str, run.rules())) == list(map(str, wanted))
    assert run.rules().stats["model_rows"] > 0
    anchors = xj.AnchorExplainer(model, X, list("abcd"), target="t")
    run = swept(tmp_path / "wide", made=anchors, options={"widen": True})
    wanted = anchors.explain(X, widen=True)
    assert list(map(str, run.rules())) == list(map(str, wanted))
    assert run.rules().stats["widened"] == wanted.stats["widened"] > 0
    with pytest.raises(xj.InputError, match="holds rules"):
        run.explanation()


def test_outputs_are_those_of_each_row(tmp_path: Path) -> None:
    model = xj.as_model(lambda z: np.stack([product(z), 2 * product(z)], 1), backend="host")
    made, outputs = xj.Explainer(model, B), np.arange(N) % 2
    run = swept(tmp_path, made=made, options={"outputs": outputs})
    np.testing.assert_array_equal(run.explanation().values, made(X, outputs=outputs).values)


def test_a_second_call_asks_only_what_is_missing(tmp_path: Path) -> None:
    counted = Counted()
    made = explainer(counted)
    run = swept(tmp_path, made=made)
    run.explanation(lazy=True)
    whole = counted.rows
    (tmp_path / "part-000001.npz").unlink()
    assert xj.open_run(tmp_path).missing == (1,)
    with pytest.raises(xj.SweepIncompleteError, match=r"lacks 1 of 3 parts \(1\)"):
        xj.open_run(tmp_path).explanation()
    counted.rows = 0
    again = swept(tmp_path, made=made, rows_per_part=None)
    assert 0 < counted.rows < whole
    same(again.explanation(lazy=True), made(X))
    counted.rows = 0
    swept(tmp_path, made=made)
    assert counted.rows <= 2 * N  # the answers that tell the model from others


@pytest.mark.parametrize(
    ("made", "rows", "each", "fields"),
    [
        (explainer(index="banzhaf"), X, EACH, "arguments.index: 'shapley' in the run, 'banzhaf'"),
        (explainer(), X + 1, EACH, "rows.sha256"),
        (explainer(lambda z: 2 * product(z)), X, EACH, "model.code.*model.answers"),
        (explainer(), X, 7, "rows_per_part: 10 in the run, 7 now"),
        (explainer(seed=1), X, EACH, "arguments.seed"),
    ],
)
def test_another_question_is_refused_with_its_fields(made, rows, each, fields, tmp_path) -> None:
    swept(tmp_path)
    before = (tmp_path / "manifest.json").read_bytes()
    with pytest.raises(xj.InputError, match=fields):
        swept(tmp_path, made=made, rows=rows, rows_per_part=each)
    assert (tmp_path / "manifest.json").read_bytes() == before
    swept(tmp_path, made=explainer(index="shapley", max_memory=1 << 28))  # the same question


def garbled(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "spoil",
    [
        garbled,
        lambda path: path.write_bytes(path.read_bytes()[:-100]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes((path.parent / "part-000002.npz").read_bytes()),
        lambda path: path.write_bytes((path.parent / "part-000000.npz").read_bytes()),
    ],
    ids=["garbled", "truncated", "empty", "another", "another of as many rows"],
)
def test_a_bad_part_is_set_aside_and_answered_again(spoil, tmp_path: Path) -> None:
    swept(tmp_path)
    spoil(tmp_path / "part-000001.npz")
    assert xj.open_run(tmp_path).missing == (1,)
    with pytest.warns(xj.XaiWarning, match="part 1 was damaged"):
        run = swept(tmp_path)
    same(run.explanation(), explainer()(X))
    assert len(list(tmp_path.glob("aside-000001-*.npz"))) == 1


def test_two_drivers_are_refused(tmp_path: Path) -> None:
    with RunDirectory.made(tmp_path).driven():
        with pytest.raises(xj.InputError, match=f"another driver.*host.*process {os.getpid()}, si"):
            swept(tmp_path)
    swept(tmp_path)


def test_an_exception_of_the_model_comes_through(tmp_path: Path) -> None:
    rows = X.copy()
    rows[17, 3] = 99
    made = explainer(lambda z: raises_on(99, z))
    with (
        pytest.warns(xj.XaiWarning, match="ArithmeticError for row 17 of X"),
        pytest.raises(ArithmeticError, match="holds 99") as raised,
    ):
        swept(tmp_path, made=made, rows=rows)
    assert any("part 1, rows 10 to 19 of X" in note for note in raised.value.__notes__)
    assert parts(tmp_path) == ["part-000000.npz"]
    assert xj.open_run(tmp_path).missing == (1, 2)


def test_ctrl_c_leaves_a_run_and_an_explainer_that_go_on(tmp_path: Path) -> None:
    stops = []

    def stopped(rows):
        if stops:
            stops.clear()
            raise KeyboardInterrupt
        return product(rows)

    made = explainer(stopped)
    swept(tmp_path, made=made)
    (tmp_path / "part-000002.npz").unlink()
    stops.append(True)
    with pytest.raises(KeyboardInterrupt):
        swept(tmp_path, made=made)
    same(swept(tmp_path, made=made).explanation(), made(X))


@pytest.mark.slow
def test_a_model_that_hangs_is_left_behind(tmp_path: Path) -> None:
    released = threading.Event()

    def hangs(rows):
        if (np.asarray(rows) == 99).any():
            released.wait()
        return product(rows)

    rows = X.copy()
    rows[17, 3] = 99
    try:
        with pytest.raises(TimeoutError, match="part 1, rows 10 to 19.*timeout=3"):
            swept(tmp_path, made=explainer(hangs), rows=rows, timeout=3)
    finally:
        released.set()
    assert parts(tmp_path) == ["part-000000.npz"]


def test_a_part_of_another_run_does_not_count(tmp_path: Path) -> None:
    """As one leaves it that was given up, and ends when another run is in the directory."""
    swept(tmp_path / "other", made=explainer(lambda rows: 2 * product(rows)))
    swept(tmp_path / "own")
    (tmp_path / "own" / "part-000001.npz").write_bytes(
        (tmp_path / "other" / "part-000001.npz").read_bytes()
    )
    assert xj.open_run(tmp_path / "own").missing == (1,)
    with pytest.warns(xj.XaiWarning, match="part 1 was damaged"):
        run = swept(tmp_path / "own")
    same(run.explanation(), explainer()(X))


@pytest.mark.slow
def test_a_part_that_was_given_up_is_not_written_into_another_run(tmp_path: Path) -> None:
    released, ended = threading.Event(), threading.Event()

    def hangs(rows):
        if (np.asarray(rows) == 99).any():
            released.wait()
        return 2 * product(rows)

    def watched(rows):
        try:
            return hangs(rows)
        finally:
            if released.is_set():
                ended.set()

    rows = X.copy()
    rows[17, 3] = 99
    try:
        with pytest.raises(TimeoutError):
            swept(tmp_path, made=explainer(watched), rows=rows, timeout=3)
        shutil.rmtree(tmp_path)
        own = swept(tmp_path, made=explainer(product), rows=rows)
        wanted = own.explanation().values.copy()
    finally:
        released.set()
    assert ended.wait(20)
    time.sleep(0.5)  # the part is then written, or not
    assert not xj.open_run(tmp_path).missing
    np.testing.assert_array_equal(xj.open_run(tmp_path).explanation().values, wanted)


def test_a_full_disk_keeps_what_is_there(tmp_path: Path, monkeypatch) -> None:
    swept(tmp_path)
    (tmp_path / "part-000001.npz").unlink()

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            swept(tmp_path)
    assert parts(tmp_path) == ["part-000000.npz", "part-000002.npz"]
    assert not list(tmp_path.glob(".*.tmp"))
    same(swept(tmp_path).explanation(), explainer()(X))


def test_a_read_only_directory_is_an_os_error(tmp_path: Path, monkeypatch) -> None:
    """As a system tells it that mounts the folder so; root may write where a mode forbids it."""
    counted = Counted()

    def read_only(*path, **options):
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patched:
        patched.setattr(os, "mkdir", read_only)
        with pytest.raises(OSError, match="Read-only"):
            swept(tmp_path / "run", made=explainer(counted))
    assert counted.rows == 0


def test_a_folder_of_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(xj.InputError, match="holds other files"):
        swept(tmp_path)
    with pytest.raises(FileNotFoundError, match="no manifest"):
        xj.open_run(tmp_path)
    (tmp_path / "notes.txt").unlink()
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(xj.InputError, match="no manifest of a run"):
        xj.open_run(tmp_path)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"format": "csv"}, xj.InputError, "format must be one of"),
        ({"retries": -1}, xj.InputError, "retries must be at least 0"),
        ({"timeout": 0}, xj.InputError, "timeout must be a positive"),
        ({"rows_per_part": 0}, xj.InputError, "rows_per_part must be at least 1"),
        ({"executor": "dask"}, xj.InputTypeError, "executor must be None"),
        ({"executor": 0}, xj.InputError, "executor must be at least 1"),
        ({"options": {"indx": 1}}, xj.InputError, "takes for the rows: outputs"),
        ({"options": {"outputs": [0]}}, xj.InputError, "outputs has 1 entries, but X has 25"),
        ({"rows": X[:, :3]}, xj.InputError, "rows of shape"),
        ({"rows": X[:0]}, xj.InputError, "X has 0 rows"),
        ({"rows": "nowhere.parquet"}, FileNotFoundError, "no file or folder"),
        ({"made": xj.AEC()}, xj.InputTypeError, "no answer for each row"),
        ({"made": xj.as_model(product, backend="host")}, xj.InputTypeError, "no answer for each"),
        ({"made": xj.QII(xj.as_model(product, backend="host", threshold=1), X, quantity="rate")},
         xj.InputError, "X"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused_before_any_work(options, error, said, tmp_path) -> None:
    with pytest.raises(error, match=said):
        swept(tmp_path / "run", **options)
    assert not parts(tmp_path / "run")


KILLED = """
import sys
from sweeping import X, explainer
import xaijax as xj
xj.sweep(explainer(), X, sys.argv[1], rows_per_part=10)
"""


def driver(out: Path, failpoint: str = "") -> int:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "XAIJAX_FAILPOINT": failpoint}
    command = [sys.executable, "-c", KILLED, str(out)]
    return subprocess.run(command, env=env, timeout=120, check=False).returncode


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failpoint", "left"),
    [
        ("after-temporary:3", 1),  # of the manifest, and of two parts
        pytest.param("mid-write:7", 1, marks=pytest.mark.slow),
        pytest.param("after-rename:3", 2, marks=pytest.mark.slow),
    ],
)
def test_a_killed_driver_loses_no_more_than_its_part(failpoint, left, tmp_path: Path) -> None:
    assert driver(tmp_path, failpoint) == -9
    assert len(parts(tmp_path)) == left
    for path in tmp_path.glob("part-*.npz"):
        xj.load(path)
    run = swept(tmp_path)
    assert not run.missing and not list(tmp_path.glob(".part*.tmp"))
    assert run.explanation().values.tobytes() == explainer()(X).values.tobytes()


def test_a_translated_estimator_answers_each_part_alike(tmp_path: Path) -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    model = xj.as_model(linear.LinearRegression().fit(X, product(X)))
    made = xj.Explainer(model, B)
    first = swept(tmp_path / "once", made=made)
    model.comparison.fall_back("said the test")  # as a row of another call would do
    again = swept(tmp_path / "again", made=made)
    np.testing.assert_array_equal(again.explanation().values, first.explanation().values)


def test_an_estimator_that_cannot_travel_is_swept_in_this_process(tmp_path: Path) -> None:
    """Also where an answer changes how a translation is asked: each part is asked of a new one."""
    linear = pytest.importorskip("sklearn.linear_model")
    fitted = linear.LinearRegression().fit(X, product(X))
    fitted.connection = threading.Lock()  # what no pickle takes
    model = xj.as_model(fitted)
    made = xj.Explainer(model, B)
    first = swept(tmp_path / "once", made=made)
    model.comparison.fall_back("said the test")
    again = swept(tmp_path / "again", made=made)
    assert again.explanation().values.tobytes() == first.explanation().values.tobytes()
    with pytest.raises(xj.InputTypeError, match="cannot be sent"):
        swept(tmp_path / "elsewhere", executor=1, made=made)


def test_dates_and_times_of_a_frame_come_back(tmp_path: Path) -> None:
    days = [datetime.date(2024, 1, 1 + n) for n in range(4)]
    frame = pd.DataFrame({"day": days, "at": [datetime.time(n, 30) for n in range(4)]})

    def f(rows: Any) -> Any:
        return np.array([a.day * b.hour for a, b in zip(rows["day"], rows["at"], strict=True)])

    made = xj.Explainer(xj.as_model(f, backend="host"), frame[:2])
    whole = swept(tmp_path, made=made, rows=frame).explanation()
    np.testing.assert_array_equal(whole.values, made(frame).values)
    pd.testing.assert_frame_equal(whole.data, frame)
    assert [type(one) for one in whole.data.loc[3]] == [datetime.date, datetime.time]


def test_rows_without_a_form_in_the_file_are_refused_before_the_model_is_asked(tmp_path) -> None:
    frame = pd.DataFrame({"n": [Fraction(1, 1 + n) for n in range(4)]})
    asked: list[int] = []

    def f(rows: Any) -> Any:
        asked.append(len(rows))
        return rows["n"].astype(float).to_numpy()

    made = xj.Explainer(xj.as_model(f, backend="host"), frame[:2])
    with pytest.raises(xj.InputError, match="Fraction has no exact form"):
        swept(tmp_path, made=made, rows=frame)
    assert not asked


def test_the_manifest_is_plain_json(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "x"]})
    model = xj.as_model(lambda f: f["a"].to_numpy() * (f["b"] == "x"), backend="host")
    swept(tmp_path, made=xj.Explainer(model, frame), rows=frame)
    found = json.loads((tmp_path / "manifest.json").read_text())
    assert found["question"]["rows"]["columns"] == ["a", "b"]
    assert len(found["question"]["rows"]["sha256"]) == 64


@pytest.fixture(scope="module")
def amortized() -> xj.AmortizedExplainer:
    learned = np.random.default_rng(1).integers(0, 4, (120, X.shape[1])).astype(np.float32)
    made = xj.AmortizedExplainer(explainer(), hidden=(8,))
    return made.fit(learned, judge=20, steps=5, progress=False)


def test_an_amortized_explainer(amortized, tmp_path: Path) -> None:
    with pytest.warns(xj.XaiWarning, match="^25 rows have been explained by a network") as told:
        run = swept(tmp_path / "none", made=amortized, options={"fallback": 0.0})
    assert len([one for one in told if "network" in str(one.message)]) == 1, "once, of all rows"
    with pytest.warns(xj.XaiWarning, match="rows have been explained by a network"):
        wanted = amortized(X, fallback=0.0)
    found = run.explanation()
    np.testing.assert_array_equal(found.values, wanted.values)
    np.testing.assert_array_equal(found.bounds, wanted.bounds)
    assert found.kind == "amortized" and found.stats["rows_so_far"] == N
    with pytest.warns(xj.XaiWarning, match="by a network"):
        run = swept(tmp_path / "some", made=amortized, options={"fallback": 0.2})
    found = run.explanation()
    assert found.stats["fallback_rows"][:10].sum() == found.stats["fallback_rows"][10:20].sum() == 2
    exact = found.stats["exact_rows"]
    np.testing.assert_array_equal(found.values[exact], explainer()(X[exact]).values)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*explained by a network:xaijax.XaiWarning")
def test_another_network_is_another_question(amortized, tmp_path: Path) -> None:
    swept(tmp_path, made=amortized)
    assert not swept(tmp_path, made=amortized).missing
    learned = np.random.default_rng(2).integers(0, 4, (120, X.shape[1])).astype(np.float32)
    other = xj.AmortizedExplainer(explainer(), hidden=(8,)).fit(
        learned, judge=20, steps=5, progress=False
    )
    with pytest.raises(xj.ResumeMismatchError, match="arguments.learned.network"):
        swept(tmp_path, made=other)
    with pytest.raises(xj.InputError, match="is not fitted"):
        swept(tmp_path / "not", made=xj.AmortizedExplainer(explainer()))
    assert not (tmp_path / "not").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*explained by a network:xaijax.XaiWarning")
def test_an_amortized_explainer_travels(amortized, tmp_path: Path) -> None:
    run = swept(tmp_path, made=amortized, executor=1, options={"fallback": 0.0})
    wanted = amortized(X, fallback=0.0)
    np.testing.assert_array_equal(run.explanation().values, wanted.values)


# Of rows 0 to 9 nobody has player 2, and rows 10 to 19 are all alike but for whose entries are.
OWN = np.array([[0, 0, 1, -1]] * 10 + [[0, 1, 2, 2], [2, 1, 0, 0]] * 5 + [[1, 1, 0, 2]] * 5)
ALIKE = np.concatenate([X[:10], np.repeat(X[10:11], 10, axis=0), X[20:]])


def own_values() -> np.ndarray:
    """Shapley values of `product` by the sum over all orders of the three players, [N, 3]."""
    found = np.zeros((N, 3))
    for n in range(N):
        for order in itertools.permutations(range(3)):
            for donor in B.astype(float):
                row = donor.copy()
                row[OWN[n] == -1] = ALIKE[n][OWN[n] == -1]
                before = product(row[None])[0]
                for player in order:
                    row[OWN[n] == player] = ALIKE[n][OWN[n] == player]
                    after = product(row[None])[0]
                    found[n, player] += (after - before) / (6 * len(B))
                    before = after
    return found


@pytest.mark.parametrize("background", [B, xj.Baseline(lambda rows: rows * 0 + B[0])])
def test_players_of_each_instance_in_several_parts(background, tmp_path: Path) -> None:
    made = xj.Explainer(xj.as_model(product, backend="host"), background, OWN)
    run = swept(tmp_path, made=made, rows=ALIKE)
    wanted, found = made(ALIKE), run.explanation()
    assert run.parts == 3 and sum(run.sizes) == N, "equal rows with other players are asked apart"
    np.testing.assert_array_equal(found.values, wanted.values)
    np.testing.assert_array_equal(found.present, wanted.present)
    if background is B:  # float32 answers, of numbers below 20
        np.testing.assert_allclose(found.values, own_values(), atol=1e-5)
    assert not swept(tmp_path, made=made, rows=ALIKE).missing
    other = xj.Explainer(xj.as_model(product, backend="host"), background, OWN[::-1])
    with pytest.raises(xj.ResumeMismatchError, match=r"arguments\.players"):
        swept(tmp_path, made=other, rows=ALIKE)
    with pytest.raises(xj.InputError, match="entries of 25 instances, but X has 20 rows"):
        swept(tmp_path / "short", made=made, rows=ALIKE[:20])


def test_other_explainers_with_players_of_each_instance(tmp_path: Path) -> None:
    model = xj.as_model(product, backend="host", threshold=4.0)
    qii = xj.QII(model, ALIKE, pool=B, players=OWN, quantity="individual")
    found = swept(tmp_path / "qii", made=qii, rows=ALIKE).explanation()
    np.testing.assert_array_equal(found.values, qii.explain(ALIKE).values)
    model = xj.as_model(lambda rows: product(rows) > 4, backend="host", output="label")
    anchors = xj.AnchorExplainer(model, ALIKE, players=OWN, perturbation="row")
    run = swept(tmp_path / "anchors", made=anchors, rows=ALIKE, options={"max_size": 1})
    assert list(map(str, run.rules())) == list(map(str, anchors.explain(ALIKE, max_size=1)))


@pytest.mark.slow
def test_players_of_each_instance_travel_with_their_part(tmp_path: Path) -> None:
    made = xj.Explainer(xj.as_model(product, backend="host"), B, OWN)
    run = xj.sweep(made, ALIKE, tmp_path, executor=1)  # with parts by time
    np.testing.assert_array_equal(run.explanation().values, made(ALIKE).values)


def test_derivatives_with_players_of_each_instance(tmp_path: Path) -> None:
    made = xj.GradientExplainer(xj.as_model(lambda z: z[:, 0] * z[:, 1]), B, players=OWN, steps=4)
    run = swept(tmp_path, made=made, rows=ALIKE)
    np.testing.assert_array_equal(run.explanation().values, made(ALIKE).values)
