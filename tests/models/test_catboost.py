"""The class CatBoost itself, whose loss says what its answers are."""

import numpy as np
import oracles
import pytest

import xaijax as xj

rng = np.random.default_rng(0)
X, BACKGROUND = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
ROWS = rng.normal(size=(60, 3))
LABELS = np.array(["lo", "hi"])[(ROWS[:, 0] + ROWS[:, 1] * ROWS[:, 2] > 0).astype(int)]
TARGET = ROWS @ [1.0, -2.0, 0.5] + 0.1 * ROWS[:, 0] * ROWS[:, 1]


def shapley(f, X, background):
    """Values [N, F] or [N, F, K] of f(rows [M, F]), by the definition, in float64."""
    return oracles.explain(f, X, background, oracles.shapley_weight(X.shape[1]))[0]


def product(rows):
    return rows[:, 0] * rows[:, 1] + rows[:, 2]


class RawCatBoost:
    """The class CatBoost itself: what it answers is said by its loss and by prediction_type."""

    classes_ = np.array(["no", "yes"])

    def __init__(self, loss):
        self.loss = loss

    def get_params(self):
        return {"loss_function": self.loss}

    def predict(self, rows, prediction_type="RawFormulaVal"):
        if prediction_type == "Class":
            return self.classes_[(product(rows) > 0).astype(int)][:, None]
        chance = 1 / (1 + np.exp(-product(rows)))
        both = np.stack([1 - chance, chance], axis=1)
        return {"RawFormulaVal": product(rows), "Probability": both}[prediction_type]


RAW = type("CatBoost", (RawCatBoost,), {"__module__": "catboost.core"})


@pytest.mark.parametrize("loss", ["Logloss", "CrossEntropy:border=0.5", "MultiClass"])
def test_the_class_catboost_of_a_classifier(loss):
    model = xj.as_model(RAW(loss))
    assert (model.output, model.classes) == ("proba", ("no", "yes"))
    chances = shapley(lambda rows: 1 / (1 + np.exp(-product(rows))), X, BACKGROUND)
    found = xj.Explainer(model, BACKGROUND)(X).values
    assert np.allclose(found[:, :, 1], chances, atol=1e-12)
    margins = shapley(product, X, BACKGROUND)
    for made in (
        xj.as_model(RAW(loss), output="decision"),
        xj.as_model(RAW(loss).predict),
        xj.as_model(RAW("RMSE"), output="value"),
    ):
        assert np.allclose(xj.Explainer(made, BACKGROUND)(X).values, margins, atol=1e-12)
    labels = ["yes" if margin > 0 else "no" for margin in product(X)]
    assert list(model.labels(X)) == labels
    of_yes = xj.as_model(RAW(loss), output="yes").predict(X)
    assert np.allclose(of_yes, 1 / (1 + np.exp(-product(X))), atol=1e-12)


def test_the_class_catboost_of_several_labels():
    model = xj.as_model(RAW("MultiLogloss"))
    assert (model.output, model.classes) == ("value", None)


@pytest.mark.parametrize("loss", ["Logloss", "MultiClass", "RMSE"])
def test_catboost_itself(loss):
    catboost = pytest.importorskip("catboost")
    settings = {"iterations": 3, "verbose": False, "allow_writing_files": False, "depth": 2}
    target = TARGET if loss == "RMSE" else LABELS
    fitted = catboost.CatBoost({**settings, "loss_function": loss}).fit(ROWS, target)
    model = xj.as_model(fitted)
    wanted = "RawFormulaVal" if loss == "RMSE" else "Probability"
    assert model.output == ("value" if loss == "RMSE" else "proba")
    own = fitted.predict(X, prediction_type=wanted)
    assert np.array_equal(xj.as_model(fitted, backend="host").predict(X), own)
    # The translation: a base and three leaves are summed in float32, and a sigmoid of the sum has
    # a slope of at most 1/4, so that four roundings of the largest number bound both.
    np.testing.assert_allclose(model.predict(X), own, rtol=0, atol=2**-22 * np.abs(own).max())
