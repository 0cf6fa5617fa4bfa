"""Figures 1 to 6 of the QII paper: which classifier do they show, and on which split?

The text says "decision forest". Asked are figure 1 with few donors, as by the authors' tool; the
bars of figure 2 and what Mr. X, Y and Z are told; the right end of figure 3a.

    XAIJAX_DATA=... python docs/reproduction/qii_figures.py [splits]      # two minutes
"""

from __future__ import annotations

import sys

import numpy as np
from protocol import Split, split, table

import xaijax as xj

PEOPLE = 3000  # of the data, as data and as pool: all 9 million pairs of them are asked
POOL = 500  # donors of a person's Shapley values
PROFILES = {  # enough of each profile to find the person in the table
    "Mr. X": ("adult", {"capital-gain": 14344, "age": 23}),
    "Mr. Y": ("adult", {"capital-gain": 41310, "education": "Preschool"}),
    "Mr. Z": (
        "arrests",
        {
            "Birth Year": 1984,
            "Drug History": 0,
            "Smoking History": 0,
            "Census Region": "West",
            "Race": "Black",
            "Gender": "Male",
        },
    ),
}


def row_of(who: str, one: Split) -> np.ndarray:
    """The row of a person, [1, C]."""
    name, profile = PROFILES[who]
    frame, _ = table(name)
    found = np.logical_and.reduce([(frame[c] == value).to_numpy() for c, value in profile.items()])
    return one.rows[found][:1]


def line(values: np.ndarray, players: dict) -> str:
    """Name and value of each input, largest first."""
    names = list(players)
    return ", ".join(f"{names[j]} {values[j]:+.3f}" for j in np.argsort(-values))


def donors(kind: str) -> None:
    """Figure 1: the share of people who seem to have no influential input, by donors asked."""
    model, data, players = split("adult", 0).fitted(kind)
    values = xj.QII(model, data[:PEOPLE], players=players, pool=data).unary().values  # [N, P]
    few = {n: f"{((1 - values) ** n).prod(axis=1).mean():.1%}" for n in (1, 5, 10, 30, 100)}
    print(f"figure 1, {kind}: no influence seen, by donors: {few}")
    print(f"    all donors: {(values.max(axis=1) == 0).mean():.1%}")


def averages(name: str, seed: int, kind: str) -> None:
    """Figures 2a to 2d on one split, and what the people of figures 4 to 6 are told."""
    one = split(name, seed)
    model, data, players = one.fitted(kind)
    data, frame = data[:PEOPLE], one.frame[:PEOPLE]
    average = xj.QII(model, data, players=players, quantity="average").unary()
    group = frame["Gender"] == "Female" if name == "adult" else frame["Race"] == "Black"
    gap = xj.QII(model, data, players=players, quantity="disparity", members=group.to_numpy())
    gap = gap.unary()
    who = [who for who, (where, _) in PROFILES.items() if where == name]
    told = [f"{one_of} {model.labels(row_of(one_of, one))[0]}" for one_of in who]
    print(f"{name}, split {seed}, {kind}: {', '.join(told)}")
    print(f"    on outcomes   {line(average.values[0], players)}")
    print(f"    on disparity ({gap.stats['quantity'][0]:.3f})  {line(gap.values[0], players)}")
    if name == "adult":
        rich = (one.frame["capital-gain"] > 10_000).to_numpy()
        low, no = 1 - one.labels[rich].mean(), 1 - model.labels(one.data[rich]).mean()
        print(f"    gains above 10,000: {low:.1%} have a low income, {no:.1%} are told so")


def person(who: str, seed: int, kind: str) -> None:
    """The Shapley values of a person's positive outcome."""
    one = split(PROFILES[who][0], seed)
    model, data, players = one.fitted(kind)
    qii = xj.QII(model, data, players=players, pool=data[:POOL], quantity="individual")
    row = row_of(who, one)
    print(f"{who}, split {seed}, {kind}: {model.labels(row)[0]}")
    print(f"    {line(qii.explain(row).values[0], players)}")


def discriminated(seed: int) -> None:
    """Figure 3a at its right end: all ZIP codes give women a no, or all give men a yes."""
    one = split("adult", seed)
    model, data, players = one.fitted("forest")
    column = players["Gender"][0]
    man = data[~one.women][0, column]
    for told, outcome in (("women a no", False), ("men a yes", True)):

        def decide(rows: np.ndarray, outcome: bool = outcome) -> np.ndarray:
            hit = (rows[:, column] == man) == outcome  # whom the ZIP code is about
            return np.where(hit, outcome, model.labels(rows))

        changed = xj.as_model(decide, backend="host", output="label", classes=[False, True])
        qii = xj.QII(changed, data[:PEOPLE], players=players, quantity="average")
        print(f"figure 3a, {told}: QII of gender {float(qii.influence(['Gender'])[0]):.3f}")


if __name__ == "__main__":
    splits = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    frame, labels = table("adult")
    rich = (frame["capital-gain"] > 10_000).to_numpy()
    print(f"adult.data: {1 - labels[rich].mean():.1%} of {rich.sum()} with such gains are low")
    for kind in ("logistic", "forest"):
        donors(kind)
        for seed in range(splits):
            averages("adult", seed, kind)
            averages("arrests", seed, kind)
    discriminated(0)
    person("Mr. X", 0, "logistic")
    person("Mr. Y", 2, "forest")
    person("Mr. Z", 3, "forest")
