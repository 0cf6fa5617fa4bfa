"""top= of a call, and `Explanation.top`: what is claimed, kept, and refused."""

from __future__ import annotations

import games
import jax.numpy as jnp
import numpy as np
import oracles_certain as oracle
import pytest
from scipy import stats

import xaijax as xj

P = 20
A = games.weights(P)
MODEL = xj.as_model(games.smooth, params=A)
X, DONORS = games.rows(12, P, "continuous", 1), games.rows(3, P, "continuous", 2)
NOT_CERTAIN = pytest.mark.filterwarnings("ignore:top=")


def explainer(model=MODEL, **options) -> xj.Explainer:
    return xj.Explainer(model, DONORS, **{"budget": 8_000, **options})


@pytest.fixture(scope="module")
def found() -> xj.Explanation:
    with pytest.warns(xj.XaiWarning, match="top=3 is not certain at confidence=0.95 for"):
        return explainer()(X, top=3, progress=False)


@pytest.fixture(scope="module")
def truth() -> np.ndarray:
    return xj.Explainer(MODEL, DONORS, estimator="exact")(X, progress=False).values


@pytest.mark.slow
def test_what_is_certain_is_true(found, truth):
    """Each claim holds with 95 %; of these few, whose seed is fixed, all do."""
    told = found.stats
    assert told["top"] == 3 and told["confidence"] == 0.95 and told["bound"] == "asymptotic"
    assert told["estimator"] == "permutation"  # also where auto would take the kernel
    certain, pairs = told["certain"], told["pairs"]
    assert certain.sum() >= 4 and len(np.unique(pairs[certain])) > 1
    chosen, signs = oracle.top(found.values, 3)
    right, right_signs = oracle.top(truth, 3)
    np.testing.assert_array_equal(chosen[certain], right[certain])
    np.testing.assert_array_equal(signs[certain], right_signs[certain])
    most = 8_000 // (2 * (P - 1))
    assert (pairs[~certain] >= most).all() and (pairs[certain] < pairs.max()).any()
    top = found.top(3)
    assert top.certain[certain].all() and len(top) == len(X)
    assert f"all certain for {int(top.certain.all(axis=1).sum())} of 12 instances" in repr(top)
    np.testing.assert_array_equal(
        np.sort(top.players, axis=1), np.nonzero(chosen)[1].reshape(-1, 3)
    )


@pytest.mark.slow
@NOT_CERTAIN
def test_alone_as_in_company(found):
    for n in (0, 7):
        alone = explainer()(X[n : n + 1], top=3, progress=False)
        assert alone.values.tobytes() == found.values[n : n + 1].tobytes()
        assert alone.stats["certain"] == found.stats["certain"][n]


def test_files_slices_and_parts_keep_what_was_certain(found, tmp_path):
    found.save(tmp_path / "top.npz")
    back = xj.load(tmp_path / "top.npz")
    for other in (back, xj.merge([found[:5], found[5:]])):
        for name in ("certain", "half_widths", "players"):
            np.testing.assert_array_equal(getattr(other.top(3), name), getattr(found.top(3), name))
        assert other.top(3).holds == "asymptotic"
    # A part of the players has other largest ones, and another confidence is another claim.
    few = found[:, [0, 1, 2, 3]]
    assert not few.top(3).certain.all(axis=1)[found.stats["certain"]].all()
    sure = found.top(3).certain.all(axis=1)
    assert found.top(3, 0.999).certain.all(axis=1).sum() < sure.sum()


def test_exact_values_are_certain_at_once_but_for_ties():
    model = xj.as_model(lambda X: X[:, 0] + X[:, 1] + 2 * X[:, 2] * X[:, 3] - 5 * X[:, 2])
    rows = np.array([[1.0, 1.0, 1.0, 0.0], [1.0, 3.0, 1.0, 0.0]])
    got = xj.Explainer(model, np.zeros((1, 4)))(rows, top=2, progress=False)
    assert got.exact and got.stats["bound"] == "rounding"
    np.testing.assert_array_equal(got.stats["certain"], [False, True])
    np.testing.assert_array_equal(got.top(2).certain, [[True, False], [True, True]])
    assert got.top(3).certain.all()
    assert "exact" in repr(got.top(2))


@pytest.mark.slow
@NOT_CERTAIN
def test_equal_values_never_separate():
    """Columns 0 and 1 do the same; also where pairs have no spread at all."""
    rows = X.copy()
    rows[:, 1], rows[:, 0] = 2.0, 2.0
    donors = DONORS.copy()
    donors[:, 1] = donors[:, 0] = 0.0
    curved = xj.as_model(lambda X: jnp.sin(X[:, 0] + X[:, 1] + 0.1 * X[:, 2:].sum(axis=1)))
    linear = xj.as_model(lambda X: X[:, 0] + X[:, 1] + 0.1 * X[:, 2:].sum(axis=1) + 1e4)
    for model in (curved, linear):
        got = xj.Explainer(model, donors, estimator="permutation", budget=4_000)(
            rows, top=1, progress=False
        )
        assert not got.stats["certain"].any()


def test_bounds_are_kept_and_checked():
    logits = xj.as_model(lambda X: 1 / (1 + jnp.exp(-4 * X[:, 0] - 0.1 * X.sum(axis=1))))
    rows = np.abs(X) + 1
    options = {"estimator": "permutation", "budget": 16_000}
    found = xj.Explainer(logits, -rows[:2], **options)
    got = found(rows, top=1, bounds=(0, 1), progress=False)
    free = found(rows, top=1, progress=False)
    assert got.stats["bound"] == "bounded" and got.stats["certain"].all()
    assert (got.stats["pairs"] > free.stats["pairs"]).all()
    assert got.top(1).certain.all()
    with pytest.raises(xj.ModelOutputError, match=r"bounds=\(0, 0.5\): .* v\(S\) = 0.9"):
        found(rows, top=1, bounds=(0, 0.5), progress=False)


@pytest.mark.slow
@NOT_CERTAIN
def test_outputs_share_the_confidence():
    model = xj.as_model(games.three_outputs, params=A)
    got = explainer(model)(X, top=1, progress=False)
    top = got.top(1)
    assert top.players.shape == top.certain.shape == (12, 1, 3)
    assert top.certain[got.stats["certain"]].all()
    one = explainer(model)(X, top=1, outputs=[0] * 12, progress=False)
    assert one.stats["certain"][got.stats["certain"]].all()
    assert one.stats["coalitions"].sum() < got.stats["coalitions"].sum()
    assert one.top(1).players.shape == (12, 1)


def test_looking_back_takes_intervals_of_one_look():
    """Against Student's intervals for P values together, from the definition."""
    got = explainer(estimator="permutation")(X, progress=False)
    top = got.top(2, 0.9)
    half = stats.t.isf(0.05 / P, got.stats["dof"])[:, None] * got.std_errors
    size, order = np.abs(got.values), np.argsort(-np.abs(got.values), axis=1)
    assert top.holds == "one look"
    for n in range(len(X)):
        for r, i in enumerate(order[n, :2]):
            low = size[n, i] - half[n, i]
            as_large = sum(size[n, j] + half[n, j] >= low for j in range(P) if j != i)
            assert top.certain[n, r] == (low > 0 and as_large < 2)
            # Wider by what rounding does: 16 units of 1.2e-7 of answers and values of a few.
            assert 0 <= top.half_widths[n, r] - half[n, i] < 1e-4
    kernel = explainer(estimator="kernel", tolerance=0.5)(X, progress=False)
    assert kernel.top(2).holds == "checks"


def test_a_result_without_errors_is_not_certain():
    one = xj.Explanation(np.array([[3.0, 1.0]]), np.zeros(1), exact=False)
    assert not one.top(1).certain.any() and one.top(1).holds == "unknown"
    assert np.isnan(one.top(1).half_widths).all()


def test_tables(found):
    pytest.importorskip("pandas")
    table = found.top(3).to_dataframe()
    assert list(table.columns) == ["instance", "rank", "player", "value", "half_width", "certain"]
    assert len(table) == 36 and table["rank"].tolist() == [1, 2, 3] * 12
    names = np.array(found.feature_names)[found.top(3).players].ravel()
    assert table["player"].tolist() == names.tolist()


@pytest.mark.slow
@NOT_CERTAIN
def test_a_sweep_passes_it_through(found, tmp_path):
    run = xj.sweep(
        explainer(), X, tmp_path, rows_per_part=5, options={"top": 3, "confidence": 0.95}
    )
    joined = run.explanation()
    assert joined.values.tobytes() == found.values.tobytes()
    np.testing.assert_array_equal(joined.stats["certain"], found.stats["certain"])
    np.testing.assert_array_equal(joined.top(3).certain, found.top(3).certain)


E, T = xj.InputError, xj.InputTypeError
RANDOM = xj.as_model(lambda X: X[:, 0], deterministic=False)


@pytest.mark.parametrize(
    "options, asked, error, match",
    [
        ({}, {"top": 0}, E, "top"),
        ({}, {"top": 21}, E, "top=21, but there are 20 players"),
        ({}, {"top": 2.5}, T, "top"),
        ({}, {"top": True}, T, "top"),
        ({}, {"top": 3, "confidence": 1}, E, "confidence must be a number in .0, 1., got 1"),
        ({}, {"top": 3, "confidence": "95"}, T, "confidence must be a number in .0, 1., got '95'"),
        ({}, {"confidence": 0.9}, E, "confidence=0.9 needs top="),
        ({}, {"bounds": (0, 1)}, E, "bounds=.* needs top="),
        ({}, {"top": 3, "bounds": (1, 0)}, E, "bounds: got"),
        ({}, {"top": 3, "bounds": (0, np.inf)}, E, "bounds: got"),
        ({}, {"top": 3, "bounds": 1.0}, T, "bounds: got"),
        ({"estimator": "kernel"}, {"top": 3}, E, "needs independent pairs"),
        ({"tolerance": 0.1}, {"top": 3}, E, "two rules of when to stop"),
        ({"model": RANDOM}, {"top": 3}, E, "needs a deterministic model"),
    ],
)
def test_bad_input_is_refused_before_any_work(options, asked, error, match):
    def f(X):
        raise AssertionError("the model was asked")

    model = options.pop("model", xj.as_model(f))
    with pytest.raises(error, match=match):
        explainer(model, **options)(X, progress=False, **asked)


def test_look_backs_refuse_what_is_no_number_of_players(found):
    for k, confidence, error in ((0, 0.9, E), (21, 0.9, E), ("3", 0.9, T), (3, 0.0, E), (3, "", T)):
        with pytest.raises(error):
            found.top(k, confidence)
