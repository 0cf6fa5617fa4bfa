"""Is the importance of the host's columns "preserved well" when the guest's columns unite?

Wang (2019), section 5, by his protocol: mean signed Shapley values, as his figure 4 shows them;
mean absolute ones; and the column that matters most to each person. His 1,000 rows, or fewer.

    XAIJAX_DATA=... python docs/reproduction/federated_importance.py [rows]      # one minute
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

import xaijax as xj

WORK = ["Workclass", "Occupation", "Hours per week"]
GUESTS = {"3 columns": WORK, "5 columns": [*WORK, "Capital Gain", "Capital Loss"]}


def main(count: int) -> None:
    """Prints both rankings and what moves."""
    X, income = xj.datasets.adult(reading="shap")
    train, _, labels, _ = train_test_split(X, income, test_size=0.2, random_state=7)
    rows = ((train - train.mean()) / train.std()).to_numpy()
    neighbours = KNeighborsClassifier().fit(rows, labels)
    model = xj.as_model(neighbours, output=True, feature_names=list(X))
    whole = xj.FederatedExplainer(model, rows, {})(rows[:count], progress=False)
    for name, columns in GUESTS.items():
        federated = xj.FederatedExplainer(model, rows, {"Federated": columns})
        found = federated(rows[:count], progress=False)
        host = [column for column in X if column not in columns]
        before, after = whole[:, host].values, found[:, host].values
        table = pd.DataFrame(
            {
                "mean, alone": before.mean(axis=0),
                "mean, united": after.mean(axis=0),
                "mean |.|, alone": np.abs(before).mean(axis=0),
                "mean |.|, united": np.abs(after).mean(axis=0),
            },
            index=host,
        )
        print(f"guest of {name}, {count:,} people\n{table.round(4).to_string()}")
        tops = [np.abs(values).argmax(axis=1) for values in (before, after)]
        print(f"the host's top column changes for {(tops[0] != tops[1]).mean():.1%} of people")
        print(f"a value moves by {np.abs(after - before).mean():.4f} on average")
        ties = [np.sort(np.abs(values), axis=1)[:, -2:] for values in (before, after)]
        tied = np.logical_or(*((one[:, 1] - one[:, 0]) < 1e-9 for one in ties))
        print(f"of them tied tops: {(tops[0] != tops[1])[tied].sum()} of {tied.sum()} people")
        interaction = federated.interaction_[:, 0]
        moved = (after - before).sum(axis=1)
        print(f"host values and interaction add up to {np.abs(moved + interaction).max():.0e}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
