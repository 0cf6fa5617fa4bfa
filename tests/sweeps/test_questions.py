"""Another question into a run's directory is refused, whatever part of the model differs; the same
one resumes, and nothing of anybody's rows stands in the manifest or in a message.
"""

from __future__ import annotations

import datetime
import os
import threading
import types
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import xaijax as xj
from xaijax.sweeps.directory import RunDirectory
from xaijax.sweeps.question import held
from xaijax.sweeps.task import ExplainerRecipe

RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(60, 3))
BACKGROUND = ROWS[:4]


def swept(made: Any, out: Path, rows: Any = ROWS, **options: Any) -> xj.Run:
    return xj.sweep(made, rows, out, progress=False, **{"rows_per_part": 20, **options})


def of(f: Any, backend: str = "host", **options: Any) -> xj.Explainer:
    return xj.Explainer(xj.as_model(f, backend=backend, **options), BACKGROUND)


def trees() -> list[DecisionTreeClassifier]:
    """Two that answer the first 32 rows, and the background, alike."""
    labels = (ROWS[:, 0] > 0).astype(int)
    other = labels.copy()
    other[40:] = (ROWS[40:, 1] > 0).astype(int)
    made = [DecisionTreeClassifier(random_state=0).fit(ROWS, y) for y in (labels, other)]
    answers = [one.predict_proba(ROWS[:32]) for one in made]
    assert np.array_equal(*answers)
    return made


def weighted(w: np.ndarray, backend: str) -> xj.Explainer:
    dot = np.tanh if backend == "host" else jnp.tanh
    return of(lambda rows: dot(rows @ w), backend)


def step(threshold: float) -> xj.Explainer:
    return of(lambda rows: (np.asarray(rows)[:, 1] > threshold).astype(float))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["host", "auto"])
def test_another_estimator_of_the_same_answers_to_the_first_rows(backend, tmp_path) -> None:
    """The broken version compared answers to 32 rows only, and mixed two trees' parts."""
    first, second = (of(one, backend, output=1) for one in trees())
    swept(first, tmp_path)
    (tmp_path / "part-000002.npz").unlink()
    with pytest.raises(xj.InputError, match=r"model\.held"):
        swept(second, tmp_path)
    swept(first, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["host", "jax"])
def test_what_a_function_closes_over_is_part_of_the_question(backend, tmp_path) -> None:
    """By less than the rounding of another platform would move the answers."""
    w = np.array([1.0, -0.5, 0.25], np.float32)
    swept(weighted(w, backend), tmp_path)
    with pytest.raises(xj.InputError, match=r"model\.held"):
        swept(weighted(w * np.float32(1.0008), backend), tmp_path)
    swept(weighted(w.copy(), backend), tmp_path)  # the same, made anew


def test_a_threshold_that_no_probed_row_shows(tmp_path) -> None:
    above = float(ROWS[:32, 1].max()) + 1.0
    swept(step(above), tmp_path)
    with pytest.raises(xj.InputError, match=r"model\.held"):
        swept(step(above + 0.5), tmp_path)


GLOBAL = 0.0


class Above:
    """A callable object with a number of its own."""

    def __init__(self, threshold: float) -> None:
        self.threshold, self.calls = threshold, 0

    def __call__(self, rows: Any) -> Any:
        self.calls += 1
        return (np.asarray(rows)[:, 1] > self.threshold).astype(float)


def in_a_list(threshold: float) -> xj.Explainer:
    numbers = [threshold, 1.0]
    return of(lambda rows: (np.asarray(rows)[:, 1] > numbers[0]).astype(float))


def in_a_dict(threshold: float) -> xj.Explainer:
    numbers = {"from": {"here": threshold}}
    return of(lambda rows: (np.asarray(rows)[:, 1] > numbers["from"]["here"]).astype(float))


def within_another(threshold: float) -> xj.Explainer:
    global GLOBAL
    GLOBAL = threshold
    return of(lambda rows: np.array([(lambda row: float(row[1] > GLOBAL))(r) for r in rows]))


@pytest.mark.parametrize(
    "made", [in_a_list, in_a_dict, within_another, lambda threshold: of(Above(threshold))]
)
def test_a_threshold_wherever_it_stands(made, tmp_path) -> None:
    """The broken version took two models for one, and mixed their parts."""
    above = float(ROWS[:32, 1].max()) + 1.0
    swept(made(above), tmp_path)
    (tmp_path / "part-000002.npz").unlink()
    with pytest.raises(xj.InputError, match=r"model\.held"):
        swept(made(above + 0.5), tmp_path)
    swept(made(above), tmp_path)


def test_an_object_in_a_list_is_no_other_in_another_process(tmp_path) -> None:
    """The broken version read where it stands in memory, of a key or beside arrays."""

    def made() -> xj.Explainer:
        kept: dict[Any, Any] = {object(): [1.0, object()], "w": [np.ones(2), {object()}]}
        kept["itself"] = [kept]
        return of(lambda rows: np.asarray(rows).sum(axis=1) * kept["w"][0][0])

    swept(made(), tmp_path)
    swept(made(), tmp_path)


def test_shards_share_a_run_where_there_are_no_links(tmp_path, monkeypatch) -> None:
    """The broken version gave the run another id, and no part of the first shard counted."""

    def no_link(*paths: Any) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr("xaijax.sweeps.directory.os.link", no_link)
    first = RunDirectory.made(tmp_path)
    first.write_manifest({"rows": 1})
    own = (tmp_path / "manifest.json").read_text()
    first.write_manifest({"rows": 1})
    assert (tmp_path / "manifest.json").read_text() == own


def test_a_function_that_remembers_its_answers_resumes(tmp_path) -> None:
    """After the first call nothing that it is asked of changes what it remembers."""
    known: dict[bytes, float] = {}

    def f(rows: Any) -> Any:
        return np.array([known.setdefault(row.tobytes(), row.sum()) for row in np.asarray(rows)])

    swept(of(f), tmp_path)
    (tmp_path / "part-000000.npz").unlink()
    swept(of(f), tmp_path)
    (tmp_path / "part-000000.npz").unlink()
    swept(of(f), tmp_path)
    assert known


def test_what_a_function_writes_is_no_part_of_the_question(tmp_path) -> None:
    calls, log = 0, []

    def f(rows: Any) -> Any:
        nonlocal calls
        calls += 1
        log.append(len(rows))
        return np.asarray(rows).sum(axis=1)

    swept(of(f), tmp_path)
    (tmp_path / "part-000000.npz").unlink()
    swept(of(f), tmp_path)
    assert calls and log


@pytest.mark.parametrize("each", [None, 7, 100])
def test_few_distinct_rows_resume(each, tmp_path) -> None:
    """The broken version looked at other numbers of rows the second time."""
    rows = np.repeat(ROWS[:10], 30, axis=0)
    made = of(lambda rows: np.asarray(rows)[:, 0] * np.asarray(rows)[:, 1])
    swept(made, tmp_path, rows, rows_per_part=each)
    (tmp_path / "part-000000.npz").unlink()
    swept(made, tmp_path, rows, rows_per_part=None)
    swept(made, tmp_path, rows, rows_per_part=each)


def test_no_rows_stand_in_the_manifest_or_in_a_message(tmp_path) -> None:
    row = [1.23456789, 2.34567891, 3.45678912]
    model = xj.as_model(lambda rows: np.asarray(rows).sum(axis=1), backend="host")
    made = [
        xj.Explainer(model, [row, row[::-1]]),
        xj.Explainer(model, xj.Baseline(row)),
        xj.FederatedExplainer(model, BACKGROUND, {"g": [1, 2]}, reference=row),
    ]
    for place, one in enumerate(made):
        out = tmp_path / str(place)
        swept(one, out)
        assert "1.2345" not in (out / "manifest.json").read_text()
        with pytest.raises(xj.InputError) as refused:
            swept(xj.Explainer(model, BACKGROUND), out)
        assert "1.2345" not in str(refused.value)


def test_shards_that_begin_together_share_the_first_ones_plan(tmp_path, monkeypatch) -> None:
    """The broken version had parts of two tiles, of which the manifest named one."""
    together = threading.Barrier(2)
    write = RunDirectory.write_manifest

    def at_once(self: RunDirectory, content: Any) -> None:
        together.wait(20)
        write(self, content)

    monkeypatch.setattr(RunDirectory, "write_manifest", at_once)
    model = xj.as_model(lambda rows: rows[:, 0] * rows[:, 1])
    made = [xj.Explainer(model, BACKGROUND, tile=rows) for rows in (256, 512)]
    failures: list[BaseException] = []

    def drive(k: int) -> None:
        try:
            swept(made[k], tmp_path, executor=xj.engines.shard(k, 2))
        except BaseException as error:
            failures.append(error)

    drivers = [threading.Thread(target=drive, args=(k,)) for k in range(2)]
    for one in drivers:
        one.start()
    for one in drivers:
        one.join()
    assert not failures
    tile = (RunDirectory(tmp_path).manifest or {})["tile"]
    parts = [xj.load(path).stats["tile"] for path in sorted(tmp_path.glob("part-*.npz"))]
    assert set(parts) == {tile}


class Settings:
    """What models below name an attribute of."""

    k = 0.0


class Slotted:
    """The same in a slot, and by a property."""

    __slots__ = ("k",)

    @property
    def shown(self) -> Any:
        return self.k


SLOTTED, SPACE = Slotted(), types.SimpleNamespace()
MODULE: Any = types.ModuleType("settings_of_a_model")
MODULE.NAMES = [str(n) for n in range(20_000)]  # which is not read


def of_variable() -> float:
    return float(os.environ.get("XAIJAX_TEST_THRESHOLD", "0"))


class Method:
    """A model that is a method, and reads by another one."""

    def __init__(self, k: float) -> None:
        self.k = k

    def _cut(self) -> float:
        return self.k

    def answer(self, rows: Any) -> Any:
        return (rows[:, 1] > self._cut()) * 1.0


NAMED = {
    "class": (lambda k: setattr(Settings, "k", k), lambda rows: (rows[:, 1] > Settings.k) * 1.0),
    "slot": (lambda k: setattr(SLOTTED, "k", k), lambda rows: (rows[:, 1] > SLOTTED.k) * 1.0),
    "property": (
        lambda k: setattr(SLOTTED, "k", k),
        lambda rows: (rows[:, 1] > SLOTTED.shown) * 1.0,
    ),
    "namespace": (lambda k: setattr(SPACE, "k", k), lambda rows: (rows[:, 1] > SPACE.k) * 1.0),
    "module": (lambda k: setattr(MODULE, "k", k), lambda rows: (rows[:, 1] > MODULE.k) * 1.0),
    "variable": (
        lambda k: os.environ.update(XAIJAX_TEST_THRESHOLD=str(k)),
        lambda rows: (rows[:, 1] > of_variable()) * 1.0,
    ),
}


@pytest.mark.parametrize("backend", ["host", "jax"])
@pytest.mark.parametrize("kind", NAMED)
def test_what_the_code_names_of_an_object_is_part_of_the_question(
    kind, backend, tmp_path, monkeypatch
) -> None:
    """The broken version mixed parts of two thresholds, which no probed row shows."""
    monkeypatch.delenv("XAIJAX_TEST_THRESHOLD", raising=False)
    change, f = NAMED[kind]
    above = float(ROWS[:, 1].max()) + 1.0
    change(above)
    swept(of(f, backend), tmp_path)
    (tmp_path / "part-000002.npz").unlink()
    change(above + 0.5)
    with pytest.raises(xj.ResumeMismatchError, match=r"model\.held"):
        swept(of(f, backend), tmp_path)
    change(above)
    swept(of(f, backend), tmp_path)
    os.environ.pop("XAIJAX_TEST_THRESHOLD", None)


def test_a_method_reads_by_other_methods(tmp_path) -> None:
    above = float(ROWS[:, 1].max()) + 1.0
    swept(of(Method(above).answer), tmp_path)
    with pytest.raises(xj.ResumeMismatchError, match=r"model\.held\.k:"):
        swept(of(Method(above + 0.5).answer), tmp_path)
    swept(of(Method(above).answer), tmp_path)


def test_a_link_that_reads_an_object_is_part_of_the_question(tmp_path) -> None:
    model = xj.as_model(lambda rows: rows.sum(1), backend="host")

    def link(answers: Any) -> Any:
        return answers * Settings.k

    made = xj.Explainer(model, BACKGROUND, link=link)
    Settings.k = 1.0
    swept(made, tmp_path)
    Settings.k = 2.0
    with pytest.raises(xj.ResumeMismatchError, match=r"arguments\.link"):
        swept(made, tmp_path)


def test_answers_are_compared_on_rows_spread_over_X(tmp_path) -> None:
    """What a file holds is not read, and the first 32 rows do not show it."""
    rows = ROWS.copy()
    rows[40:, 1] += 100.0
    file = tmp_path / "threshold.npy"

    def f(rows: Any) -> Any:
        return (rows[:, 1] > np.load(file)) * 1.0

    np.save(file, 50.0)
    swept(of(f), tmp_path / "run", rows)
    (tmp_path / "run" / "part-000002.npz").unlink()
    np.save(file, 150.0)
    with pytest.raises(xj.ResumeMismatchError, match=r"model\.answers_over_X"):
        swept(of(f), tmp_path / "run", rows)
    np.save(file, 50.0)
    swept(of(f), tmp_path / "run", rows)


def test_rows_spread_over_X_that_raise_leave_the_others_compared(tmp_path) -> None:
    """The broken version compared nothing then, in silence, and joined parts of two thresholds."""
    rows = ROWS.copy()
    rows[20:, 1] += 100.0
    rows[-1, 0] = 1e6
    file, bad = tmp_path / "threshold.npy", tmp_path / "bad.npy"

    def f(given: Any) -> Any:
        if np.any(given[:, 0] == np.load(bad)):
            raise ZeroDivisionError("the model's own")
        return (given[:, 1] > np.load(file)) * 1.0

    def again() -> None:
        swept(of(f), tmp_path / "run", rows, rows_per_part=16)

    np.save(file, 50.0)
    np.save(bad, 1e6)
    warned = rf"ZeroDivisionError for row {len(rows) - 1} of X"
    with pytest.warns(xj.XaiWarning, match=warned), pytest.raises(ZeroDivisionError):
        again()
    (tmp_path / "run" / "part-000002.npz").unlink()
    np.save(file, 150.0)
    with (
        pytest.warns(xj.XaiWarning, match=warned),
        pytest.raises(xj.ResumeMismatchError, match=r"answers_over_X"),
    ):
        again()
    np.save(file, 50.0)
    with pytest.warns(xj.XaiWarning, match=warned), pytest.raises(ZeroDivisionError):
        again()  # the same rows raise: the question is the same
    assert (tmp_path / "run" / "part-000002.npz").exists()
    np.save(bad, -1.0)  # another model, which takes that row
    with pytest.raises(xj.ResumeMismatchError, match=r"raised_over_X"):
        again()


@pytest.mark.parametrize("backend", ["host", "jax"])
def test_a_part_of_another_state_ends_the_run(backend, tmp_path, monkeypatch) -> None:
    """The broken version answered all parts, and of host models joined them, too."""
    write, asked = RunDirectory.write, []

    def then_changed(self: RunDirectory, number: int, answer: Any, term: Any) -> None:
        asked.append(number)
        write(self, number, answer, term)
        Settings.k = 5.0

    def f(rows: Any) -> Any:  # no row and no hybrid shows the change
        return rows.sum(1) + (rows[:, 1] > 100 * Settings.k)

    Settings.k = 1.0
    monkeypatch.setattr(RunDirectory, "write", then_changed)
    made = of(f, backend)
    if backend == "jax":  # what was compiled in the first state goes on with it
        found = swept(made, tmp_path).explanation()
        wanted = (ROWS - BACKGROUND.mean(0)).sum(1)
        np.testing.assert_allclose(found.values.sum(1), wanted, atol=1e-5)  # sums in float32
        return
    with pytest.raises(xj.ResumeMismatchError, match="model_fingerprint"):
        swept(made, tmp_path)
    assert asked == [0]


def test_a_worker_that_reads_another_value_is_refused(monkeypatch) -> None:
    """A global that was assigned after its module was imported stays in this process."""
    monkeypatch.setattr(Settings, "k", 1.0)
    made = of(NAMED["class"][1])
    read = held(NAMED["class"][1])
    ExplainerRecipe.of(made, {}, read).open()
    recipe = ExplainerRecipe.of(made, {"top": 1}, read)
    monkeypatch.setattr(Settings, "k", 2.0)
    with pytest.raises(xj.ResumeMismatchError, match=r"Settings\.k"):
        recipe.open()


def test_reading_ends_at_a_bound() -> None:
    """However much hangs together, and where a list or an object holds itself."""
    root: Any = types.SimpleNamespace()
    root.nodes = [types.SimpleNamespace(root=root, nodes=[n, {n}]) for n in range(100_000)]
    found = held(lambda rows: rows * root.nodes[0].root.nodes)
    assert 0 < len(found) < 100


def frame_of(last: Any) -> Any:
    return pd.DataFrame({"a": [*range(9_000), last], "b": "text", "c": 1.5})


LARGE = {
    "a frame": (frame_of(1), frame_of(2)),
    "objects": tuple(np.array([*"ab" * 5_000, last], object) for last in "cd"),
    "a set of tuples": ({(1, 2), (3, "a")}, {(1, 2), (3, "b")}),
    "days": ([datetime.date(2024, 1, 1)], [datetime.date(2024, 1, 2)]),
    "an array": tuple(np.append(np.zeros(9 << 20), [last, 0.0]) for last in (1.0, 2.0)),
}


@pytest.mark.parametrize("kind", LARGE)
def test_the_last_of_many_values_is_read(kind) -> None:
    """The broken version read 8,192 values, and 65,536 entries of an array above 64 MB."""
    first, second = (held(lambda rows, one=one: rows * len(one)) for one in LARGE[kind])
    assert first != second and not any("not read" in one for one in first.values())


def test_what_is_not_read_whole_is_said(monkeypatch) -> None:
    """Equal digests would say more than is known."""
    deep = [[[n]] for n in range(9_000)]
    large = np.zeros(1_000)

    def f(rows: Any) -> Any:
        return rows[:, 0] * len(deep) + large[0]

    assert held(f)["deep"].endswith("and more, not read")
    found = of(f)(ROWS[:2])
    assert found.stats["model_fingerprint"] is None
    deep = [[[n]] for n in range(900)]
    assert not any("not read" in one for one in held(f).values())
    assert of(f)(ROWS[:2]).stats["model_fingerprint"] is not None
    monkeypatch.setattr("xaijax.core.same.WHOLE", 4_000)
    assert held(f)["large"].endswith("and more, not read")


def test_a_mismatch_is_an_input_error() -> None:
    assert issubclass(xj.ResumeMismatchError, xj.InputError)
