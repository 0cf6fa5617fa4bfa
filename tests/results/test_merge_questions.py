"""Explanations relative to other rows, or by other functions, are not merged into one."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest
from repository import ROOT

import xaijax as xj

RNG = np.random.default_rng(0)
D, X = RNG.random((20, 3)), RNG.random((4, 3))
MODEL = xj.as_model(
    lambda r: np.stack([1 - r.mean(axis=1), r.mean(axis=1)], 1), backend="host", output="proba",
    classes=["no", "yes"],
)  # fmt: skip
PROBA = {"quantity": "individual", "outcome": "proba"}
SCORE = {"quantity": "individual", "outcome": "score"}


def scaled(factor):
    return lambda p, q: factor * np.abs(p - q).sum(axis=-1)


def qii(**options):
    return xj.QII(MODEL, D, **options)


OTHER_QUESTIONS = {
    "bounds": ({**SCORE, "bounds": (0, 1)}, {**SCORE, "bounds": (0, 0.3)}, "bounds"),
    "floor": ({**PROBA, "difference": "kl", "floor": 0.1},
              {**PROBA, "difference": "kl", "floor": 0.01}, "floor|fingerprint"),
    "lambda": ({**PROBA, "difference": lambda p, q: np.abs(p - q).sum(-1)},
               {**PROBA, "difference": lambda p, q: np.abs(p - q).max(-1)}, "fingerprint"),
    "closure": ({**PROBA, "difference": scaled(1.0)}, {**PROBA, "difference": scaled(2.0)},
                "fingerprint"),
    "pool": ({**SCORE, "pool": D[:9]}, {**SCORE, "pool": D[9:18]}, "fingerprint"),
    "weights": ({**SCORE, "pool_weights": np.arange(1, 21)},
                {**SCORE, "pool_weights": np.arange(20, 0, -1)}, "fingerprint"),
    "score": ({"quantity": lambda a, own: a[:, 0]}, {"quantity": lambda a, own: a[:, 0] ** 2},
              "fingerprint"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:scores of outcome")  # bounds=(0, 0.3) cuts them
@pytest.mark.parametrize("name", OTHER_QUESTIONS)
def test_other_questions_of_qii(name):
    one, other, match = OTHER_QUESTIONS[name]
    a, b = qii(**one).explain(X[:2]), qii(**other).explain(X[2:])
    with pytest.raises(xj.InputError, match=match):
        xj.merge([a, b])
    whole = xj.merge([a, qii(**one).explain(X[2:])])  # asked once more by another object
    np.testing.assert_array_equal(whole.values, qii(**one).explain(X).values)


@pytest.mark.parametrize("quantity", ["rate", "disparity"])
def test_one_number_of_the_data_is_no_instance(quantity):
    members = None if quantity == "rate" else D[:, 0] > 0.5
    found = qii(quantity=quantity, members=members).unary()
    with pytest.raises(xj.InputError, match="one number for the whole data"):
        xj.merge([found, found])
    assert len(xj.merge([found])) == 1


def test_other_backgrounds():
    a, b = xj.Explainer(MODEL, D[:9])(X[:2]), xj.Explainer(MODEL, D[9:18])(X[2:])
    with pytest.raises(xj.InputError, match="other donor rows"):
        xj.merge([a, b])
    same = xj.Explainer(MODEL, D[:9].copy(), batch_size=64)(X[2:])
    assert len(xj.merge([a, same])) == 4
    one, two = (xj.Explainer(MODEL, D[:9], link=lambda v, c=c: c * v) for c in (1.0, 2.0))
    with pytest.raises(xj.InputError, match="or functions"):
        xj.merge([one(X[:2]), two(X[2:])])


def test_frames():
    frame = pd.DataFrame({"a": ["x", "y", "x", "z"], "b": [1.0, 2.0, 3.0, 4.0]})
    model = xj.as_model(lambda f: (f["a"] == "x") * f["b"], backend="host")
    one = xj.Explainer(model, frame)(frame[:2])
    assert len(xj.merge([one, xj.Explainer(model, frame.copy())(frame[2:])])) == 4
    other = frame.assign(a=["x", "y", "z", "x"])
    with pytest.raises(xj.InputError, match="other donor rows"):
        xj.merge([one, xj.Explainer(model, other)(frame[2:])])


def test_samplers_and_seeds_are_one_question():
    """Their rows are draws; what was drawn is not what was asked."""

    def draw(rng, n):
        return D[rng.integers(0, len(D), n)]

    a, b = (
        qii(**SCORE, pool=draw, samples=50, seed=seed).explain(X[2 * seed : 2 * seed + 2])
        for seed in (0, 1)
    )
    assert len(xj.merge([a, b])) == 4


@pytest.mark.slow
def test_the_same_in_another_process(tmp_path):
    """Neither ids nor the process's own hashes are in it: a lambda, a partial, text constants."""
    import subprocess  # noqa: PLC0415
    import sys  # noqa: PLC0415

    script = (
        "import functools, numpy as np, xaijax as xj\n"
        "def d(p, q, c):\n"
        "    return c * np.abs(p - q).sum(-1) if 'a' in {'a', 'b', 'c'} else None\n"
        "m = xj.as_model(lambda r: np.stack([1 - r[:, 0], r[:, 0]], 1), backend='host',"
        " output='proba', classes=[0, 1])\n"
        "q = xj.QII(m, np.eye(3), quantity='individual', outcome='proba',"
        " difference=functools.partial(d, c=0.5))\n"
        "print(q.explain(np.eye(3)).stats['fingerprint'])\n"
    )
    marks = set()
    for seed in ("1", "2", "3"):
        path = f"{ROOT}:{ROOT / 'kernels'}"
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
        marks.add(subprocess.run([sys.executable, "-c", script], env=environment, check=True,
                                 capture_output=True, text=True).stdout.strip())  # fmt: skip
    assert len(marks) == 1 and len(marks.pop()) == 32


def test_it_stays_out_of_what_is_public(tmp_path):
    pytest.importorskip("matplotlib")
    found = xj.Explainer(MODEL, D)(X)
    mark = found.stats["fingerprint"]
    assert mark not in repr(found.provenance) and mark not in repr(found)
    page = xj.report(found[:, :, 0], tmp_path / "page.html")
    assert mark not in page.read_text("utf-8") and "fingerprint" not in page.read_text("utf-8")
    value = xj.as_model(lambda r: r.sum(axis=1), backend="host")
    assert "fingerprint" not in xj.FederatedExplainer(value, D, {"g": [2]})(X).stats


def test_functions_of_other_kinds():
    """Objects that are called, bound methods and partials are told apart by what they hold."""

    class Distance:
        def __init__(self, factor=1.0):
            self.factor = factor

        def __call__(self, p, q):
            return self.factor * np.abs(p - q).sum(-1)

        def twice(self, p, q):
            return 2 * np.abs(p - q).sum(-1)

    def powered(p, q, power):
        return (np.abs(p - q) ** power).sum(-1)

    given = [
        Distance(),
        Distance(2.0),
        Distance().twice,
        *(functools.partial(powered, power=k) for k in (1, 2)),
    ]
    marks = [qii(**PROBA, difference=d).explain(X[:1]).stats["fingerprint"] for d in given]
    assert len(set(marks)) == 5
    again = qii(**PROBA, difference=Distance()).explain(X[1:2]).stats["fingerprint"]
    assert again == marks[0]


def helper_of(factor):
    """A function that a lambda calls by a global name of its own."""
    scope = {"np": np}
    exec(f"def helper(one):\n    return {factor} * one", scope)
    return eval("lambda p, q: helper(np.abs(p - q).sum(-1))", scope)


FUNCTIONS = {
    "difference": [PROBA | {"difference": scaled(c)} for c in (1.0, 2.0)],
    "difference by a helper": [PROBA | {"difference": helper_of(c)} for c in (1.0, 2.0)],
    "quantity": [{"quantity": lambda a, own: a[:, 0]}, {"quantity": lambda a, own: a[:, 0] ** 2}],
    "quantity of an Interest": [
        {"quantity": xj.quantities.Interest("own", score=lambda a, own, c=c: c * a[:, 0])}
        for c in (0.5, 1.0)
    ],
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_functions_of_one_name_are_not_one_quantity(kind):
    one, two = FUNCTIONS[kind]
    first = qii(**one).explain(X)
    xj.compare(first, qii(**one).explain(X))
    other = qii(**two).explain(X)
    assert first.provenance[kind.split()[0]] == other.provenance[kind.split()[0]]
    message = f"differ in {kind.split()[0]}: two functions of one name"
    with pytest.raises(xj.InputError, match=message):
        xj.compare(first, other)
    with pytest.raises(xj.InputError, match=message):
        xj.plots.methods({"first": first, "other": other})
    with pytest.raises(xj.InputError, match="or functions"):
        xj.merge([first, other])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*have been explained by a network")
def test_a_link_of_an_amortized_explainer_is_compared():
    one, two = (xj.Explainer(MODEL, D[:9], link=lambda v, c=c: c * v) for c in (1.0, 2.0))
    network = xj.AmortizedExplainer(one).fit(np.tile(D, (2, 1)), judge=20)
    with pytest.raises(xj.InputError, match="differ in link"):
        xj.plots.methods({"network": network(D), "other": two(D)}, output="yes")
