"""What a private copy holds, and subsamples."""

from __future__ import annotations

import copy
import dataclasses
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from privacy_cases import (
    MEMBERS,
    MODEL,
    D,
    average,
    disparity,
    of_chances,
    planned,
)

import xaijax as xj
from xaijax.privacy import mechanism
from xaijax.privacy.facts import PUBLIC
from xaijax.results.recount import Once, remembered

pytest.importorskip("opendp", reason="needs the extra [privacy]")

RNG = np.random.default_rng(2)


FIELDS = {
    "values",
    "epsilon",
    "noise_error",
    "mechanism",
    "feature_names",
    "output_names",
    "kind",
    "provenance",
}
FIXED = {"noise", "lattice", "scale", "sensitivity", "composition", "calibration"}


def test_the_copy_holds_noise_and_public_facts_only():
    private = xj.privacy.release(disparity(), 2.0)
    assert {field.name for field in dataclasses.fields(private)} == FIELDS == set(vars(private))
    for name in ("base_values", "std_errors", "data", "stats"):
        assert not hasattr(private, name)
    assert set(private.provenance) <= set(PUBLIC)
    assert set(private.mechanism) == FIXED | {"epsilon_of_mechanism", "charged", "free_again"}
    steps = private.values * 2**20
    assert np.array_equal(steps, np.rint(steps))
    assert private.provenance["members"] == 3 and private.provenance["rest"] == 5
    assert (private.epsilon, private.private, private.shape) == (2.0, True, (1, 2))


def test_the_noises_own_error():
    private = xj.privacy.release(average(), 1.0)
    scale = private.mechanism["scale"]
    # Of a continuous Laplace distribution; the lattice is far finer than the noise.
    assert private.noise_error == pytest.approx(np.sqrt(2) * scale, rel=1e-6)
    half = private.half_widths(0.95)
    assert half.shape == (1, 2) and half[0, 0] == pytest.approx(scale * np.log(20), rel=1e-4)
    noise = np.array(mechanism.noisy([0] * 20_000, scale * 2**20)) / 2**20
    # 0.01 is 6.5 standard errors of 20,000 draws: a false alarm has chance 1e-10.
    assert (np.abs(noise) <= half[0, 0]).mean() == pytest.approx(0.95, abs=0.01)


def test_a_copy_is_frozen_all_the_way_down():
    private = xj.privacy.release(disparity(), 2.0)
    with pytest.raises(ValueError, match="read-only"):
        private.values[0] = 0
    with pytest.raises(TypeError, match="frozen"):
        private.provenance["members"] = 4
    with pytest.raises(TypeError, match="frozen"):
        private.mechanism.update(scale=0)
    with pytest.raises(AttributeError):
        private.provenance["player_columns"].append(1)
    with pytest.raises(TypeError):
        private.provenance["player_columns"][0][0] = 1
    told = dataclasses.asdict(private)
    assert told["provenance"] == private.provenance and told["epsilon"] == 2.0
    same = copy.deepcopy(private)
    assert same.mechanism == private.mechanism
    with pytest.raises(xj.InputError, match="which are needed here"):
        xj.transparency_report(private, "nowhere.html")


def test_a_copy_is_saved_loaded_and_pickled(tmp_path):
    private = xj.privacy.release(of_chances("subtract"), 1.0)
    private.save(tmp_path / "private.npz")
    for same in (xj.load(tmp_path / "private.npz"), pickle.loads(pickle.dumps(private))):
        assert isinstance(same, xj.privacy.PrivateExplanation)
        for field in dataclasses.fields(private):
            if field.name == "values":
                np.testing.assert_array_equal(same.values, private.values)
            else:
                assert getattr(same, field.name) == getattr(private, field.name), field.name
        assert repr(same) == repr(private)
    a = private[:, :, "a"]
    assert a.shape == (1, 3) and a.provenance["selected_output"] == "a"
    assert private[0].shape == (1, 3, 3) and len(list(private)) == 1


def test_plots_draw_a_copy():
    matplotlib = pytest.importorskip("matplotlib", reason="needs the extra [plots]")
    matplotlib.use("Agg")
    private = xj.privacy.release(average(), 3.0)
    for plot in (xj.plots.bar, xj.plots.profile):
        axes = plot(private)
        assert "95 % of the noise, epsilon 3" in axes.get_xlabel()
        assert len(axes.collections) + len(axes.lines) >= 1  # the intervals
    xj.plots.beeswarm(private)
    with pytest.raises(xj.InputError, match="private copy has neither base values"):
        xj.plots.waterfall(private)
    several = xj.privacy.release(of_chances("subtract"), 3.0)
    xj.plots.bar(several)
    xj.plots.bar(several, output="b")


@pytest.mark.slow
def test_a_frame_and_a_pipeline():
    pd = pytest.importorskip("pandas", reason="needs the extra [data]")
    from sklearn.compose import make_column_transformer  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import OneHotEncoder  # noqa: PLC0415

    frame = pd.DataFrame(
        {"job": RNG.choice(["office", "farm"], 30), "age": RNG.integers(18, 80, 30)}
    )
    y = np.where(frame.age + 20 * (frame.job == "farm") > 60, "yes", "no")
    encoder = make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough")
    model = xj.as_model(make_pipeline(encoder, LogisticRegression()).fit(frame, y))
    qii = xj.QII(model, frame, quantity="disparity", members={"job": "farm"})
    explanation = qii.explain()
    private = xj.privacy.release(explanation, 1e6)
    np.testing.assert_allclose(private.values, explanation.values, atol=2e-5)
    assert private.feature_names == ("job", "age") and private.provenance["positive"] == "yes"
    sample = xj.privacy.subsample(frame, 0.5)
    drawn = xj.QII(model, sample, quantity="disparity", members={"job": "farm"}).explain()
    told = xj.privacy.release(drawn, 1.0).provenance
    assert told["subsample"]["full_rows"] == 30 and told["data_rows"] == 15
    farm = (frame.job == "farm").sum()
    rates = told["members"] / farm, told["rest"] / (30 - farm)
    assert told["subsample"]["rate"] == pytest.approx(max(rates))


def test_labels_without_classes_are_zero_and_one():
    """Whichever label was seen last, 1 is positive: which labels occur is private."""
    model = xj.as_model(lambda X: X[:, 0], output="label")
    found = []
    for data in (D, np.zeros_like(D)):
        private = xj.privacy.release(
            xj.QII(model, data, quantity="group", members=MEMBERS).explain(), 1e6
        )
        found.append(private)
    assert found[0].provenance["positive"] == found[1].provenance["positive"] == 1
    np.testing.assert_allclose(found[1].values, 0, atol=1e-4)


def test_a_subsample():
    frame = np.arange(100.0).reshape(50, 2)
    sample = xj.privacy.subsample(frame, 0.3)
    assert len(sample) == 15 and sample.rate == 0.3
    rows = sample.rows[:, 0]
    assert len(set(rows)) == 15 and set(rows) <= set(frame[:, 0])
    other = xj.privacy.subsample(frame, 0.3)
    assert rows.tolist() != other.rows[:, 0].tolist()  # alike: chance 1 / C(50, 15) = 4e-13
    # In the random order of the draw; ascending by chance: 1 / 15! = 8e-13.
    assert rows.tolist() != sorted(rows)
    assert "of 50 rows" in repr(sample) and not any(c in repr(sample) for c in "[]")
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="not copied or stored"):
            copied(sample)


@pytest.mark.parametrize("rate", [0, -0.1, 1.5, np.nan])
def test_rates_between_0_and_1(rate):
    with pytest.raises(xj.InputError, match="rate"):
        xj.privacy.subsample(D, rate)


def test_a_subsample_has_no_seed():
    with pytest.raises(xj.InputTypeError, match="no keyword 'seed'"):
        xj.privacy.subsample(D, 0.5, seed=1)
    with pytest.raises(xj.InputTypeError, match="rate"):
        xj.privacy.subsample(D, "half")
    with pytest.raises(xj.InputError, match="Subsample already"):
        xj.privacy.subsample(xj.privacy.subsample(D, 0.5), 0.5)


def test_epsilon_is_of_the_full_data():
    data = np.tile(D, (10, 1))
    sample = xj.privacy.subsample(data, 0.25)
    explanation = xj.QII(MODEL, sample, quantity="average").explain()
    plan = planned(explanation, epsilon=0.5)
    assert plan.public["mechanism"]["epsilon_of_mechanism"] == pytest.approx(
        np.log1p(np.expm1(0.5) / 0.25)
    )
    # The sensitivity is that of the 20 rows drawn, not of the 80.
    assert plan.needed.sensitivity == np.ceil(2**20 * 2 * (2 * 20 - 1) / 400) + 2


def test_a_subsample_is_released_once(tmp_path):
    ledger = xj.privacy.Ledger(tmp_path / "ledger", 10.0)
    data = np.tile(D, (5, 1))

    def ask(sample, epsilon=0.5):
        explanation = xj.QII(MODEL, sample, quantity="average").explain()
        return xj.privacy.release(explanation, epsilon, ledger=ledger)

    sample = xj.privacy.subsample(data, 0.5)
    first = ask(sample)
    assert ledger.spent == 0.5
    with pytest.raises(xj.PrivacyError, match="subsample has been released once"):
        ask(sample, 0.25)
    assert ledger.spent == 0.5
    # Identical queries, of this draw or of another one, are answered from the ledger.
    again = xj.privacy.subsample(data, 0.5)
    assert ask(sample).values.tolist() == first.values.tolist()
    assert ask(again).values.tolist() == first.values.tolist() and ledger.spent == 0.5
    assert ask(again, 0.25).epsilon == 0.25  # that draw is not used up yet
    with pytest.raises(xj.PrivacyError, match="released once"):
        xj.privacy.release(xj.QII(MODEL, again, quantity="rate").explain(), 1.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
def test_a_subsample_is_released_in_its_own_process():
    """Else each fork of a process could release its copy of one draw once."""
    model = xj.as_model(lambda X: (X[:, 0] > 0) * 1, backend="host", output="label", classes=[0, 1])
    explanation = xj.QII(model, xj.privacy.subsample(D, 0.5), quantity="average").unary()
    remembered(explanation).sums()  # nothing of JAX runs in the forks
    read, write = os.pipe()
    for _ in range(2):
        child = os.fork()
        if child == 0:
            try:
                xj.privacy.release(explanation, 1.0)
                os.write(write, b"R")
            except xj.PrivacyError as error:
                os.write(write, b"f" if "fork" in str(error) else b"?")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    assert os.read(read, 10) == b"ff"
    os.close(read)
    os.close(write)
    xj.privacy.release(explanation, 1.0)


@pytest.mark.slow
def test_a_subsample_is_released_by_one_thread(tmp_path):
    ledger = xj.privacy.Ledger(tmp_path / "ledger", 100.0)
    for turn in range(5):
        sample = xj.privacy.subsample(np.tile(D, (5, 1)), 0.5)
        asked = [xj.QII(MODEL, sample, quantity=q).unary() for q in ("average", "rate")] * 2
        for one in asked:
            remembered(one).sums()
        together = threading.Barrier(len(asked))

        def release(place, turn=turn, asked=asked, together=together):
            together.wait()
            try:
                # Some with a ledger: what is refused is not charged either.
                given = ledger if place % 2 else None
                xj.privacy.release(asked[place], 1 + turn + place / 8, ledger=given)
            except xj.PrivacyError:
                return 0
            return 1

        spent = ledger.spent
        with ThreadPoolExecutor(len(asked)) as pool:
            done = list(pool.map(release, range(len(asked))))
        assert sum(done) == 1
        assert (ledger.spent > spent) == (done[1] + done[3])


def test_a_claim_is_given_once_to_any_number_of_threads():
    claim = Once()
    together = threading.Barrier(16)

    def take(_):
        together.wait()
        return claim.take()

    with ThreadPoolExecutor(16) as pool:
        assert sorted(map(str, pool.map(take, range(16)))) == ["None"] + ["again"] * 15


def test_weights_have_no_place_with_a_subsample():
    sample = xj.privacy.subsample(D, 0.5)
    for more in ({"data_weights": np.ones(4)}, {"pool_weights": np.ones(4)}):
        with pytest.raises(xj.InputError, match="cannot be used with a Subsample"):
            xj.QII(MODEL, sample, quantity="average", **more)
    with pytest.raises(xj.InputError, match="leave pool= out"):
        xj.QII(MODEL, D, pool=sample)
