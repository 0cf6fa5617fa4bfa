"""What a release refuses, and with which reason; what the paper's noise is."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest
from privacy_cases import (
    MEMBERS,
    MODEL,
    WIDE,
    D,
    average,
    of_chances,
    person,
    planned,
    scores,
    table_model,
)

import xaijax as xj
from xaijax.core import optional
from xaijax.privacy import mechanism
from xaijax.privacy.facts import NEEDED

pytest.importorskip("opendp", reason="needs the extra [privacy]")

RNG = np.random.default_rng(2)


def own_score(answers, own):
    return (answers[:, 0] > 0) * 1.0


REFUSED = {
    "Deegan-Packel": (
        lambda: xj.QII(MODEL, D, quantity="average").explain(index="deegan-packel", threshold=0.25),
        "Deegan-Packel index jumps",
    ),
    "KL": (lambda: of_chances("kl"), "difference='kl' has no bound"),
    "JS": (lambda: of_chances("js"), "difference='js' has no bound"),
    "a difference of one's own": (
        lambda: of_chances(lambda p, q: np.abs(p - q).max(axis=-1)),
        "your own function",
    ),
    "a sampler": (
        lambda: xj.QII(
            MODEL, D, pool=lambda rng, n: D[rng.integers(8, size=n)], samples=20
        ).explain(D[:1]),
        "your own sampler",
    ),
    "drawn with replacement": (
        lambda: xj.QII(MODEL, D, quantity="average", samples=20).explain(),
        "drawn with replacement.*subsample",
    ),
    "the authors' scheme": (
        lambda: xj.QII(MODEL, D, quantity="average", samples=64, scheme="fixed-pool").explain(),
        "drawn with replacement",
    ),
    "a ratio": (
        lambda: xj.QII(
            table_model((0, 1, 1, 1)),
            np.array([[0, 1], [1, 1], [1, 0], [1, 1]], np.float32),
            quantity="ratio",
            members=[True, True, False, False],
        ).unary(),
        "may be 0",
    ),
    "a score of one's own": (
        lambda: xj.QII(MODEL, D, quantity=own_score).explain(D[:1]),
        "your own, and no bound",
    ),
    "a quantity of one's own by a known name": (
        lambda: xj.QII(
            MODEL, D, quantity=xj.quantities.Interest("individual", whom="all")
        ).explain(),
        "quantity is your own",
    ),
    "private rows explained": (
        lambda: xj.QII(MODEL, D).explain(),
        "explains private rows themselves",
    ),
    "the data as X": (lambda: xj.QII(MODEL, D).explain(D), "explains private rows"),
    "a view of the data as X": (lambda: xj.QII(MODEL, D).explain(D[3:4]), "explains private rows"),
    "rows that an explanation holds as X": (
        lambda: _own_rows(),
        "explains private rows",
    ),
    "a column of a frame as X": (lambda: _of_frames("X"), "explains private rows"),
    "a part of the data as pool": (
        lambda: xj.QII(MODEL, D, pool=D[2:5], quantity="average").explain(),
        "shares memory with the data",
    ),
    "the data backwards as pool": (
        lambda: xj.QII(MODEL, D, pool=D[::-1], quantity="average").explain(),
        "shares memory with the data",
    ),
    "one row over and over as pool": (
        lambda: xj.QII(MODEL, D, pool=np.broadcast_to(D[0], (8, 2)), quantity="average").explain(),
        "shares memory with the data",
    ),
    "a part of a frame as pool": (lambda: _of_frames("pool"), "shares memory with the data"),
    "a row of the data as the constant": (
        lambda: xj.QII(MODEL, D, pool=xj.Baseline(D[0]), quantity="average").explain(),
        "shares memory with the data",
    ),
    "a median of the data as pool": (
        lambda: xj.QII(MODEL, D, pool=xj.Baseline("median", D), quantity="average").explain(),
        "shares memory with the data",
    ),
    "all rows of a subsample as pool": (
        lambda: xj.QII(MODEL, xj.privacy.subsample(D, 0.9), pool=D, quantity="average").explain(),
        "all rows of its subsample",
    ),
    "some of all rows of a subsample as pool": (
        lambda: xj.QII(
            MODEL, xj.privacy.subsample(D, 0.9), pool=D[1:], quantity="average"
        ).explain(),
        "all rows of its subsample",
    ),
    "all rows of a subsample that was drawn of a list": (
        lambda: _of_list(),
        "all rows of its subsample",
    ),
    "all rows of a subsample as X": (
        lambda: xj.QII(MODEL, xj.privacy.subsample(D, 0.9)).explain(D),
        "explains private rows",
    ),
    "the rows of a subsample as X": (lambda: _own_sample(), "explains private rows"),
    "nothing that depends on the data": (
        lambda: xj.QII(MODEL, D, pool=D[:3] + 2).explain(D[:1] + 2),
        "nothing in it depends on the data, provided X= and pool= are public",
    ),
    "a random model": (
        lambda: xj.QII(
            xj.as_model(lambda X: X, backend="host", deterministic=False),
            D,
            quantity="rate",
            outcome="score",
        ).explain(),
        "not exact",
    ),
    "another method": (
        lambda: xj.Explainer(xj.as_model(lambda X: X[:, 0]), D)(D[:2], progress=False),
        "proved for xaijax.QII",
    ),
    "the data's own chances of sets": (
        lambda: _with_prior(),
        r"Pr\[S\] = prior\(\) of the data",
    ),
    "the data's own chances, rounded": (
        lambda: _with_prior(lambda prior: np.round(prior, 6)),
        r"Pr\[S\] = prior\(\)",
    ),
    "the data's own chances, scaled": (
        lambda: _with_prior(lambda prior: prior * (1 - 1e-12)),
        r"Pr\[S\] = prior\(\)",
    ),
    "the chances of all rows of a subsample": (
        lambda: xj.QII(MODEL, xj.privacy.subsample(D, 0.5), quantity="average").explain(
            index=xj.QII(MODEL, D, quantity="average").prior()
        ),
        r"Pr\[S\] = prior\(\)",
    ),
    "bounds that whole numbers do not hold": (
        lambda: xj.QII(
            xj.as_model(scores), WIDE, quantity="rate", outcome="score", bounds=(-1e9, 1e9)
        ).explain(),
        r"beyond 2\^24",
    ),
    "a slice": (lambda: average()[:, [1]], "a slice, a copy"),
    "a pickled one": (lambda: pickle.loads(pickle.dumps(average())), "a slice, a copy"),
    "a deep copy": (lambda: copy.deepcopy(average()), "a slice, a copy"),
    "merged ones": (lambda: xj.merge([person(0), person(1)]), "a slice, a copy"),
    "one with other values": (
        lambda: dataclasses.replace(average(), values=np.ones((1, 2))),
        "a slice, a copy",
    ),
    "values that are not finite": (
        lambda: dataclasses.replace(average(), values=np.array([[np.nan, 1]])),
        "not finite",
    ),
    "a chosen output": (lambda: of_chances("subtract")[:, :, "a"], "an output was selected"),
}


def _with_prior(changed=lambda prior: prior):
    qii = xj.QII(MODEL, D, quantity="average")
    return qii.explain(index=changed(qii.prior()))


def _own_rows():
    qii = xj.QII(MODEL, D)
    return qii.explain(qii.explain().data[:2])


def _own_sample():
    sample = xj.privacy.subsample(D, 0.9)
    return xj.QII(MODEL, sample).explain(sample.rows[:1])


def _of_list():
    rows = D.tolist()
    return xj.QII(MODEL, xj.privacy.subsample(rows, 0.9), pool=rows, quantity="average").explain()


def _of_frames(argument):
    pd = pytest.importorskip("pandas", reason="needs the extra [data]")
    frame = pd.DataFrame({"a": list("xyzx"), "b": [1.0, 2, 1, 2]})
    model = xj.as_model(
        lambda r: (r["a"] == "x").to_numpy() * 1, backend="host", output="label", classes=[0, 1]
    )
    if argument == "X":
        return xj.QII(model, frame).explain(frame.iloc[1:3])
    return xj.QII(model, frame, pool=frame.iloc[:3], quantity="average").explain()


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case, monkeypatch):
    make, reason = REFUSED[case]
    explanation = make()

    def never(*_):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(mechanism, "noisy", never)
    with pytest.raises(xj.PrivacyError, match=reason) as caught:
        xj.privacy.release(explanation, 1.0)
    told = str(caught.value)
    for value in np.ravel(explanation.values):  # no private value in the text
        assert f"{value:.6g}" not in told or float(value) in (0.0, 0.25, 0.5, 1.0)


@pytest.mark.parametrize("fact", NEEDED)
def test_a_fact_that_is_missing_is_named(fact):
    explanation = average()
    told = {name: value for name, value in explanation.provenance.items() if name != fact}
    with pytest.raises(xj.PrivacyError, match=f"does not say '{fact}'"):
        xj.privacy.release(dataclasses.replace(explanation, provenance=told), 1.0)


def test_a_loaded_explanation_is_refused_and_its_file_has_no_sums(tmp_path):
    explanation = average()
    xj.privacy.release(explanation, 1.0)
    explanation.save(tmp_path / "one.npz")
    with zipfile.ZipFile(tmp_path / "one.npz") as archive:
        assert not any("sums" in name or "recount" in name for name in archive.namelist())
        assert b"recount" not in archive.read("meta.json")
    with pytest.raises(xj.PrivacyError, match="loaded one"):
        xj.privacy.release(xj.load(tmp_path / "one.npz"), 1.0)
    assert "recount" not in repr(explanation)


def test_a_private_copy_is_not_released_again():
    private = xj.privacy.release(average(), 1.0)
    with pytest.raises(xj.PrivacyError, match="private copy already"):
        xj.privacy.release(private, 1.0)


@pytest.mark.parametrize("epsilon", [0, -1, np.inf, np.nan, 10**400])
def test_epsilon_is_positive_and_finite(epsilon):
    with pytest.raises(xj.InputError, match="epsilon"):
        xj.privacy.release(average(), epsilon)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"epsilon": "1"}, "epsilon"),
        ({"epsilon": True}, "epsilon"),
        ({"epsilon": np.array([1.0])}, "epsilon"),
        ({"ledger": "ledger.jsonl"}, "ledger"),
        ({"composition": 2}, "composition"),
        ({"seed": 1}, "seed"),
    ],
)
def test_arguments_of_other_types(arguments, named):
    with pytest.raises(xj.InputTypeError, match=named):
        xj.privacy.release(average(), **{"epsilon": 1.0, **arguments})


def test_other_words_and_other_objects():
    qii = xj.QII(MODEL, D, quantity="average")
    for array in (qii.influence([0]), qii.marginal(0, [1]), qii.game()):
        with pytest.raises(xj.InputTypeError, match=r"explain or .unary returned.*players="):
            xj.privacy.release(array, 1.0)
    for arguments in ({"composition": "l2"}, {"calibration": "none"}):
        with pytest.raises(xj.InputError, match=next(iter(arguments))):
            xj.privacy.release(average(), 1.0, **arguments)
    with pytest.raises(xj.InputTypeError, match="explanation"):
        xj.privacy.release(np.ones((1, 2)), 1.0)


@pytest.mark.filterwarnings("ignore:calibration='paper' is not private")
def test_the_paper_says_nothing_of_vectors():
    with pytest.raises(xj.PrivacyError, match="what the paper has a sensitivity for"):
        xj.privacy.release(of_chances("tv"), 1.0, calibration="paper")


@pytest.mark.filterwarnings("ignore:calibration='paper' is not private")
@pytest.mark.parametrize(
    ("quantity", "per_row"),
    [("individual", 1 / 8), ("actual", 1 / 8), ("average", 2 / 8), ("group", 2 / 3)]
    + [("disparity", 2 / 3), ("rate", 2 / 8)],
)
def test_the_noise_of_the_paper(quantity, per_row):
    members = MEMBERS if quantity in ("group", "disparity") else None
    qii = xj.QII(MODEL, D, quantity=quantity, members=members)
    given = (D[:1].copy(),) if quantity in ("individual", "actual") else ()
    for explanation, factor in ((qii.unary(*given), 1), (qii.explain(*given), 2)):
        plan = planned(explanation, epsilon=0.5, calibration="paper")
        assert plan.needed.scale * 2**-20 == pytest.approx(factor * per_row / 0.5, rel=1e-4)


def test_a_missing_extra_is_named(monkeypatch):
    def nowhere(module):
        raise ImportError(module)

    explanation = average()
    monkeypatch.setattr(optional.importlib, "import_module", nowhere)
    with pytest.raises(
        ImportError, match=r'opendp is needed here: pip install "xaijax\[privacy\]"'
    ):
        xj.privacy.release(explanation, 1.0)


@pytest.mark.filterwarnings("ignore:scores of outcome='score' lie outside")  # cut on purpose
def test_scores_of_no_width_are_refused():
    model = xj.as_model(scores)
    qii = xj.QII(model, WIDE, quantity="rate", outcome="score", bounds=(0.5, 0.5 + 1e-9))
    with pytest.raises(xj.PrivacyError, match="no width"):
        xj.privacy.release(qii.explain(), 1.0)
    assert jnp.asarray(scores(WIDE)).shape == (6,)
