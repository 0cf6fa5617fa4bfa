"""Pictures of values with 3 and with 60 players of long names, against a reference image.

After a change that is meant, make the images anew and look at each of them:

    pytest tests/plots/test_plots_reference.py --mpl-generate-path=tests/plots/reference
"""

from __future__ import annotations

import numpy as np
import pytest

import xaijax as xj
from xaijax import plots

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra [plots]")
pytest.importorskip("pytest_mpl", reason="needs pytest-mpl, of the extra [dev]")

# Another release may set texts otherwise, which moves all else: with other hinting by 35 and more.
MADE_BY = "3.11"
if not matplotlib.__version__.startswith(MADE_BY + "."):
    pytest.skip(f"the images are of matplotlib {MADE_BY}", allow_module_level=True)
pytestmark = pytest.mark.slow

# Root mean square over the pixels, of 255. The same release draws the same up to the rounding of a
# colour. The last two rows that are shown, exchanged, give 1.1 and more; names cut elsewhere 3.5.
TOLERANCE = 1.0
SIZES = (3, 60)
YEARS = "a long name of a quantity, number {} of the census of the year 1994"


def names(P):
    return tuple(YEARS.format(j) for j in range(P))


def explained(P, N=30, K=None, **changes):
    rng = np.random.default_rng(P)
    data = rng.normal(size=(N, P)).round(3)
    values = data * np.linspace(1, 2, P)
    fields = {"values": values, "base_values": np.full(N, 0.25), "data": data}
    if K is not None:
        fields["values"] = values[..., None] * np.linspace(-1, 2, K)
        fields["base_values"] = np.zeros((N, K))
        fields["output_names"] = tuple(
            f"the class number {k} of those that are asked" for k in range(K)
        )
    return xj.Explanation(**fields | {"feature_names": names(P)} | changes)


def sampled(P, N=30, budget=64):
    errors = np.full((N, P), 2 / np.sqrt(budget))
    errors[:, 1] = np.nan
    return explained(P, N, std_errors=errors, exact=False, stats={"budget": budget})


def people(P):
    pd = pytest.importorskip("pandas", reason="needs the extra [data]")
    own = explained(P, 2)
    kinds = ["Married-civ-spouse of long standing", "Married-AF-spouse of long standing"]
    columns = {name: kinds if j % 2 else own.data[:, j] for j, name in enumerate(names(P))}
    return explained(P, 2, data=pd.DataFrame(columns))


def interactions(P, N=8):
    rng = np.random.default_rng(P)
    sets = [(a,) for a in range(P)] + [(a, b) for a in range(P) for b in range(a + 1, P)]
    values = rng.normal(size=(N, len(sets))) * rng.exponential(size=len(sets))
    data = rng.normal(size=(N, P))
    return xj.Interactions(values, np.zeros(N), sets, feature_names=names(P), data=data, order=2)


def a_rule(conditions, precision, coverage, accepted=True):
    rule = [f"{YEARS.format(j)} > {j}" for j in range(conditions)]
    places = [(j, float(j), np.inf) for j in range(conditions)]
    asked = "more than fifty thousand dollars", precision, precision - 0.05, coverage, accepted
    return xj.Rule(rule, places, *asked, 8, "sar", target="income of the person")


def compared(P):
    new = explained(P, values=explained(P).values + np.linspace(-1, 1, P))
    return xj.compare(explained(P), new, paired=True)


def effects(P):
    pd = pytest.importorskip("pandas", reason="needs the extra [data]")
    X = np.random.default_rng(P).normal(size=(80, P)).cumsum(axis=1)
    return xj.AEC().fit(pd.DataFrame(X, columns=list(names(P))), y=X[:, 0]).explanation_


def photograph(P, N=1, K=None, **changes):
    """Grey images of 12 x 10 pixels that P segments cover, but for the last row of pixels."""
    segments = np.arange(120).reshape(12, 10) * P // 110
    data = np.random.default_rng(P).random((N, 12, 10)) + (segments % 2)
    titles = tuple(f"photograph {n} of the collection" for n in range(N))
    told = explained(P, N, K, data=data, instance_names=titles, **changes)
    return told, np.where(segments < P, segments, -1)


def an_image(P):
    errors = np.where(np.arange(P) % 3, 0.1, 2.0)[None]
    told, players = photograph(P, std_errors=errors, exact=False)
    return plots.image(told, players=players)


def some_images(P):
    told, players = photograph(P, 2, 3)
    return plots.images(told, players=players).axes[0]


def kept_of_an_image(P):
    told, players = photograph(P)
    return plots.kept(a_rule(2, 0.97, 0.2), told.data[0], players % P)


def parties(m):
    """What a host and m - 1 guests are worth."""
    means = np.linspace(2, 0.1, m)
    refitted = np.where(np.arange(m - 1) % 2, 0.75, np.nan)
    return xj.GuestWorth(
        parties=("host", *(YEARS.format(j) for j in range(1, m))),
        mean_absolute=means,
        mean_value=means,
        standard_errors=means / 10,
        metric="accuracy",
        score=0.8125,
        score_without=np.linspace(0.5, 0.8, m - 1),
        score_refitted=refitted,
        instances=4000,
    )


def judged(P):
    """A sum: right, the other way round, and by chance."""
    right = np.random.default_rng(P).normal(size=(20, P))
    explainer = xj.Explainer(xj.as_model(lambda X: X.sum(axis=1)), np.zeros((1, P)))
    tried = {"right": right, "by chance": right[:, ::-1], f"turned, {YEARS}": -right}
    return xj.judge(tried, explainer, right, curves=True)


def spread(S):
    """Of S sizes of the background."""
    found = np.geomspace(1, 0.01, S)
    sizes = 10 * np.arange(1, S + 1) ** 2
    return xj.BackgroundSpread(
        sizes, 20, "rows drawn at random", found, found**2, found[:, None], ("x",)
    )


PICTURES = {
    "bar": lambda P: plots.bar(sampled(P)),
    "bar_outputs": lambda P: plots.bar(explained(P, K=9)),
    "beeswarm": lambda P: plots.beeswarm(explained(P)),
    "heatmap": lambda P: plots.heatmap(explained(P)),
    "scatter": lambda P: plots.scatter(explained(P), 1, by=0),
    "groups": lambda P: plots.groups(explained(P), ["women who were asked", "men"] * 15),
    "methods": lambda P: plots.methods({"by the kernel": sampled(P), "exact": explained(P, 20)}),
    "force": lambda P: plots.force(people(P)[0]),
    "waterfall": lambda P: plots.waterfall(people(P)[0]),
    "profile": lambda P: plots.profile(people(P)),
    "convergence": lambda P: plots.convergence(
        [explained(P, 1), *(sampled(P, 1, budget) for budget in (64, 256, 1024))]
    ),
    "rules": lambda P: plots.rules(
        [a_rule(1, 0.97, 0.2), a_rule(P, 0.9, 0.01), a_rule(0, 0.3, 1.0, False)]
    ),
    "compare": lambda P: plots.compare(compared(P)),
    "correlation": lambda P: plots.correlation(effects(P)),
    "interactions": lambda P: plots.interactions(interactions(P)),
    "network": lambda P: plots.network(interactions(P)),
    "pairs": lambda P: plots.pairs(interactions(P)),
    "dependence": lambda P: plots.dependence(interactions(P), 0),
    "tokens": lambda P: plots.tokens(explained(P, 1), [f"word-number-{j}-of-it" for j in range(P)]),
    "image": an_image,
    "images": some_images,
    "kept_words": lambda P: plots.kept(
        a_rule(2, 0.97, 0.2), words=[f"word-number-{j}-of-it" for j in range(P)]
    ),
    "kept_image": kept_of_an_image,
    "worth": lambda P: plots.worth(parties(P)),
    "faithfulness": lambda P: plots.faithfulness(judged(P)),
    "background_spread": lambda P: plots.background_spread(spread(P)),
}


@pytest.mark.parametrize("P", SIZES)
@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.mpl_image_compare(
    baseline_dir="reference", style="default", tolerance=TOLERANCE, savefig_kwargs={"dpi": 28}
)
def test_picture(name, P):
    return PICTURES[name](P).figure
