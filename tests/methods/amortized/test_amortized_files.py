"""Saved and loaded: the same values, no pickle, and no other model."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest

import xaijax as xj

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3)).astype(np.float32)
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*rows have been explained by a network:xaijax.XaiWarning"
)


def f(rows):
    return rows[:, 0] * rows[:, 1] + rows[:, 2]


def explainer(model=f, background=X[:4], **options):
    backend = {"backend": "host"} if options.pop("host", False) else {}
    return xj.Explainer(xj.as_model(model, **backend), background, **options)


@pytest.fixture(scope="module")
def amortized():
    return xj.AmortizedExplainer(explainer(), (8, 4), seed=3).fit(
        X, judge=20, steps=20, progress=False
    )


@pytest.fixture
def path(amortized, tmp_path):
    amortized.save(tmp_path / "amortized.npz")
    return tmp_path / "amortized.npz"


@pytest.mark.slow
def test_what_is_loaded_gives_the_same_values(amortized, path):
    loaded = xj.load(path)
    assert dict(loaded.stats_) == dict(amortized.stats_)
    assert (loaded.hidden, loaded.seed) == ((8, 4), 3) and "no explainer" in repr(loaded)
    with pytest.raises(xj.InputError, match="with_explainer"):
        loaded(X)
    with pytest.raises(xj.InputError, match="with_explainer"):
        loaded.fit(X)
    bound = loaded.with_explainer(explainer())
    found, wanted = bound(X, fallback=0.1), amortized(X, fallback=0.1)
    for name in ("values", "bounds", "base_values"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    for key in ("fallback_rows", "r2", "label_model_rows", "fingerprint", "model_fingerprint"):
        np.testing.assert_array_equal(found.stats[key], wanted.stats[key])
    assert found.provenance == wanted.provenance


@pytest.mark.slow
def test_a_file_of_what_was_loaded_is_the_same_file(amortized, path, tmp_path):
    xj.load(path).save(tmp_path / "again.npz")
    assert path.read_bytes() == (tmp_path / "again.npz").read_bytes()


@pytest.mark.slow
def test_no_member_of_the_file_is_a_pickle(path):
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            if name.endswith(".json"):
                json.loads(content)
            else:
                array = np.load(io.BytesIO(content), allow_pickle=False)
                assert not array.dtype.hasobject
        meta = json.loads(archive.read("meta.json"))
    assert meta["format"] == "xaijax.AmortizedExplainer"
    assert not {"X", "data", "rows"} & set(meta["fields"])  # the rows stay at home


@pytest.mark.slow
def test_damaged_files_are_refused(path, tmp_path):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    meta = json.loads(members["meta.json"])
    for field, value in (
        ("leaves", 7),
        ("quantile", None),
        ("inputs", {"shape": 3}),
        ("widths", [10**12]),
    ):
        changed = meta | {"fields": {**meta["fields"], field: value}}
        if value is None:
            del changed["fields"][field]
        with zipfile.ZipFile(tmp_path / "bad.npz", "w") as archive:
            for name, content in members.items():
                told = json.dumps(changed).encode() if name == "meta.json" else content
                archive.writestr(name, told)
        with pytest.raises(xj.InputError, match="path:"):
            xj.load(tmp_path / "bad.npz")


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (lambda: explainer(lambda rows: rows[:, 0] * rows[:, 1] + 2 * rows[:, 2]), "another model"),
        # Another one with the same base value: it differs nowhere in the background.
        (lambda: explainer(lambda rows: f(rows) + (rows[:, 0] > 9)), "another program"),
        (lambda: explainer(background=X[:5]), "other background rows"),
        (lambda: explainer(weights=[1, 2, 3, 4]), "other background rows, weights"),
        (lambda: explainer(players=[[0, 1]]), "other players"),
        (lambda: explainer(lambda rows: rows.sum(axis=1), X[:4, :2]), "other players"),
        (lambda: explainer(index="banzhaf"), "do not add up"),
    ],
)
def test_the_explainer_of_another_question_is_refused(amortized, other, text):
    with pytest.raises(xj.InputError, match=text):
        amortized.with_explainer(other())


@pytest.mark.slow
def test_a_model_on_the_host_is_told_by_its_base_value():
    own = xj.AmortizedExplainer(explainer(host=True), (4,)).fit(
        X, judge=20, steps=3, progress=False
    )
    own.with_explainer(explainer(host=True))
    with pytest.raises(xj.InputError, match="another model"):
        own.with_explainer(explainer(lambda rows: f(rows) + 0.1, host=True))


def test_a_better_estimator_of_the_same_question_is_taken(amortized):
    found = amortized.with_explainer(explainer(estimator="permutation", seed=4))
    assert found._question.explainer.estimator == "permutation"
    assert found._fitted is amortized._fitted
