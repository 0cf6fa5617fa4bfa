"""A scikit-learn Pipeline on raw rows of mixed types, explained exactly.

The Pipeline runs in JAX, encoders and all, once its answers to the first rows have been compared.
Two columns that say the same form one player.

    python examples/sklearn_pipeline.py [bar.png]

Needs `pip install "xaijax[data,plots]"`, and the Adult table (see xaijax.datasets).
"""

import sys

import matplotlib.pyplot as plt
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import xaijax as xj

ROWS, BACKGROUND = 50, 50


def fitted() -> Pipeline:
    """A Pipeline fitted to the training part as it stands in the file, texts and numbers."""
    X, y = xj.datasets.adult("qii")
    columns = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(columns, LogisticRegression(max_iter=1000)).fit(X, y)


def main(picture: str = "bar.png") -> xj.Explanation:
    """Explain the probability of an income above 50,000 dollars for some test rows."""
    pipeline = fitted()
    X, y = xj.datasets.adult("qii", part="test")
    print(f"accuracy {pipeline.score(X, y):.1%}")

    background = X.sample(BACKGROUND, random_state=0)
    rows = X.drop(background.index).sample(ROWS, random_state=1)

    # The classes are False and True; output=True takes the probability of True.
    model = xj.as_model(pipeline, output=True)
    print(model)
    explainer = xj.Explainer(
        model,
        background,
        players={"education": ["education", "education-num"]},
    )
    explanation = explainer(rows, progress=True)
    print(explanation)
    print(explanation[0].to_dataframe(long=True)[["player", "data", "value"]].round(4))

    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    xj.plots.bar(explanation, ax=axes)
    figure.savefig(picture, dpi=150)
    plt.close(figure)
    return explanation


if __name__ == "__main__":
    main(*sys.argv[1:])
