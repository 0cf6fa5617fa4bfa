"""What a release refuses, what the copy holds, and where noise comes from."""

from __future__ import annotations

import ast
import copy
import dataclasses
import pickle
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest
from privacy_cases import chances, planned, scores, table_model
from repository import ROOT

import xaijax as xj
from xaijax import _optional
from xaijax.privacy import mechanism
from xaijax.privacy.facts import NEEDED, PUBLIC

pytest.importorskip("opendp", reason="needs the extra [privacy]")

RNG = np.random.default_rng(2)
D = RNG.integers(0, 2, (8, 2)).astype(np.float32)
WIDE = RNG.integers(0, 3, (6, 3)).astype(np.float32)
MEMBERS = np.arange(8) < 3
MODEL = table_model((0, 1, 1, 0))
CHANCES = xj.as_model(chances, output="proba", classes=["a", "b", "c"])


def average(**more):
    return xj.QII(MODEL, D, quantity="average", **more).explain()


def disparity(data=D, members=MEMBERS, **more):
    return xj.QII(MODEL, data, quantity="disparity", members=members, **more).explain()


# --- refused, with the reason --------------------------------------------------------------------


def of_chances(difference, **more):
    return xj.QII(
        CHANCES, WIDE, quantity="rate", outcome="proba", difference=difference, **more
    ).explain()


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
        "function of your own",
    ),
    "a sampler": (
        lambda: xj.QII(
            MODEL, D, pool=lambda rng, n: D[rng.integers(8, size=n)], samples=20
        ).explain(D[:1]),
        "sampler of your own",
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
        "your own, whose bound",
    ),
    "private rows explained": (
        lambda: xj.QII(MODEL, D).explain(),
        "explains the private rows themselves",
    ),
    "a part of the data as pool": (
        lambda: xj.QII(MODEL, D, pool=D[2:5], quantity="average").explain(),
        "a part of the data",
    ),
    "nothing private": (
        lambda: xj.QII(MODEL, D, pool=D[:3].copy()).explain(D[:1].copy()),
        "nothing private is in it",
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
    "a positive class found in the data": (
        lambda: xj.QII(
            xj.as_model(lambda X: X[:, 0] + 3.0, output="label"), D, quantity="rate"
        ).explain(),
        "last label seen on the data",
    ),
    "a slice": (lambda: average()[:, [1]], "a slice, a copy"),
    "a pickled one": (lambda: pickle.loads(pickle.dumps(average())), "a slice, a copy"),
    "a deep copy": (lambda: copy.deepcopy(average()), "a slice, a copy"),
    "merged ones": (lambda: xj.merge([average(), average()]), "a slice, a copy"),
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


def _with_prior():
    qii = xj.QII(MODEL, D, quantity="average")
    return qii.explain(index=qii.prior())


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


@pytest.mark.parametrize("epsilon", [0, -1, np.inf, np.nan])
def test_epsilon_is_positive_and_finite(epsilon):
    with pytest.raises(xj.InputError, match="epsilon"):
        xj.privacy.release(average(), epsilon)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"epsilon": "1"}, "epsilon"),
        ({"epsilon": True}, "epsilon"),
        ({"ledger": "ledger.jsonl"}, "ledger"),
        ({"composition": 2}, "composition"),
        ({"seed": 1}, "seed"),
    ],
)
def test_arguments_of_other_types(arguments, named):
    with pytest.raises(xj.InputTypeError, match=named):
        xj.privacy.release(average(), **{"epsilon": 1.0, **arguments})


def test_other_words_and_other_objects():
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
    monkeypatch.setattr(_optional.importlib, "import_module", nowhere)
    with pytest.raises(
        ImportError, match=r'opendp is needed here: pip install "xaijax\[privacy\]"'
    ):
        xj.privacy.release(explanation, 1.0)


# --- what the copy holds -------------------------------------------------------------------------

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
    assert set(private.mechanism) == FIXED | {"epsilon_of_mechanism", "charged"}
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
    assert (np.abs(noise) <= half[0, 0]).mean() == pytest.approx(0.95, abs=0.01)


def test_files_of_neighbours_that_differ_in_everything_are_equal_but_for_the_noise(
    tmp_path, monkeypatch
):
    """Every row of the data is another one, and so is every value; only noise tells the files."""
    worlds = [np.zeros((8, 2), np.float32), np.tile(np.float32([[0, 1], [1, 1]]), (4, 1))]
    kinds = {
        "disparity": lambda data: disparity(data),
        "average": lambda data: xj.QII(MODEL, data, quantity="average").explain(index="banzhaf"),
        "individual": lambda data: xj.QII(MODEL, data, quantity="individual").unary(D[:2].copy()),
        "sampled": lambda data: disparity(
            xj.privacy.subsample(data, 1.0), players={"both": [0, 1]}
        ),
    }
    for name, make in kinds.items():
        before = [make(data).values for data in worlds]
        assert not np.array_equal(*before) or name == "sampled"
        for noise in (True, False):
            with monkeypatch.context() as patch:
                if not noise:  # the same numbers in place of noise: nothing else may differ
                    patch.setattr(mechanism, "noisy", lambda values, scale: [7] * len(values))
                copies = [xj.privacy.release(make(data), 1.0) for data in worlds]
            parts = []
            for number, private in enumerate(copies):
                path = tmp_path / f"{name}{number}.npz"
                private.save(path)
                with zipfile.ZipFile(path) as archive:
                    parts.append({one: archive.read(one) for one in archive.namelist()})
            differing = {one for one in parts[0] if parts[0][one] != parts[1][one]}
            assert parts[0].keys() == parts[1].keys()
            assert differing == ({"values.0.npy"} if noise else set()), (name, noise)
            if not noise:
                assert repr(copies[0]) == repr(copies[1])


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
    matplotlib.pyplot.close("all")


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


# --- subsamples ----------------------------------------------------------------------------------


def test_a_subsample():
    frame = np.arange(100.0).reshape(50, 2)
    sample = xj.privacy.subsample(frame, 0.3)
    assert len(sample) == 15 and sample.rate == 0.3
    rows = sample.rows[:, 0]
    assert len(set(rows)) == 15 and set(rows) <= set(frame[:, 0])
    other = xj.privacy.subsample(frame, 0.3)
    assert rows.tolist() != other.rows[:, 0].tolist()  # alike: chance 1 / C(50, 15) = 4e-13
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
    assert plan.told["mechanism"]["epsilon_of_mechanism"] == pytest.approx(
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


def test_weights_have_no_place_with_a_subsample():
    sample = xj.privacy.subsample(D, 0.5)
    for more in ({"data_weights": np.ones(4)}, {"pool_weights": np.ones(4)}):
        with pytest.raises(xj.InputError, match="no place with a Subsample"):
            xj.QII(MODEL, sample, quantity="average", **more)
    with pytest.raises(xj.InputError, match="leave pool= out"):
        xj.QII(MODEL, D, pool=sample)


# --- house rules ---------------------------------------------------------------------------------

NOISE = {"random", "secrets", "opendp", "opendp.prelude", "numpy.random", "scipy", "uuid"}
ALLOWED = {
    "mechanism.py": {"opendp.prelude"},  # the noise
    "sampling.py": {"secrets"},  # which rows a subsample has
    "ledger.py": {"secrets"},  # the salt of a ledger
}


def sources_of_chance(source: str) -> set[str]:
    """Modules and names in a file by which random numbers could be had."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in (
            "np.random",
            "numpy.random",
            "jax.random",
            "os.urandom",
            "os.getrandom",
        ):
            found.add("numpy.random")
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "require":
            found.add(ast.literal_eval(node.args[0]))
    return {name for name in found if name in NOISE or name.split(".")[0] in NOISE}


def test_noise_has_one_source():
    folder = ROOT / "xaijax" / "privacy"
    files = sorted(folder.glob("*.py"))
    assert len(files) >= 10
    for path in files:
        assert sources_of_chance(path.read_text("utf-8")) == ALLOWED.get(path.name, set()), path
    noisy = [
        path.name for path in files if ".noisy(" in path.read_text() or "make_" in path.read_text()
    ]
    assert noisy == ["mechanism.py", "releasing.py"]


def test_the_search_for_noise_sees_what_it_looks_for():
    assert sources_of_chance("import random") == {"random"}
    assert sources_of_chance("x = np.random.default_rng(0)") == {"numpy.random"}
    assert sources_of_chance("from numpy.random import laplace") == {"numpy.random"}
    assert sources_of_chance("jax.random.laplace(key)") == {"numpy.random"}
    assert sources_of_chance("d = require('opendp.prelude', 'x')") == {"opendp.prelude"}


def test_scores_of_no_width_are_refused():
    model = xj.as_model(scores)
    qii = xj.QII(model, WIDE, quantity="rate", outcome="score", bounds=(0.5, 0.5 + 1e-9))
    with pytest.raises(xj.PrivacyError, match="no width"):
        xj.privacy.release(qii.explain(), 1.0)
    assert jnp.asarray(scores(WIDE)).shape == (6,)
