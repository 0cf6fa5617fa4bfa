"""The data and classifiers of the QII paper, by the authors' protocol, for the scripts beside it.

Datta, Sen and Zick (2016), section VII: one-hot inputs, 40 % of the rows train, the others are data
and pool. The authors' tool (https://github.com/cmu-transparency/tool-qii) seeded no split in 2016,
so every number of the paper is that of one unknown split: the scripts show the range over some.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import xaijax as xj

NAMES = {
    "sex": "Gender",
    "KEY!SEX.1997": "Gender",
    "KEY!BDATE_Y.1997": "Birth Year",
    "HAS_DRUGS": "Drug History",
    "CV_CENSUS_REGION.1997": "Census Region",
    "KEY!RACE_ETHNICITY.1997": "Race",
    "HAS_SMOKED": "Smoking History",
}
KINDS = {
    "logistic": lambda: LogisticRegression(max_iter=300),
    "kernel svm": lambda: SVC(),  # radial basis functions, as the paper says
    "tree of depth 2": lambda: DecisionTreeClassifier(max_depth=2, random_state=0),
    "whole tree": lambda: DecisionTreeClassifier(random_state=0),
    "forest": lambda: GradientBoostingClassifier(
        n_estimators=20, max_depth=2, learning_rate=1.0, random_state=0
    ),
}


@dataclass(frozen=True)
class Split:
    """One split: `train` (rows, labels); the `data` with their `frame` and `labels`; all `rows`."""

    train: tuple[np.ndarray, np.ndarray]
    data: np.ndarray  # [N, C]
    frame: pd.DataFrame
    labels: np.ndarray
    rows: np.ndarray  # everybody, [all, C], in the order of the table
    players: dict[str, list[int]]

    @property
    def women(self) -> np.ndarray:
        """Whether each row of the data is a woman's, bool [N]."""
        return (self.frame["Gender"] == "Female").to_numpy()

    def fitted(self, kind: str, without: tuple[str, ...] = ()) -> tuple[Any, np.ndarray, dict]:
        """The model of a kind on all inputs but some, its data, and its players."""
        kept = {name: own for name, own in self.players.items() if name not in without}
        columns = [c for own in kept.values() for c in own]
        model = xj.as_model(KINDS[kind]().fit(self.train[0][:, columns], self.train[1]))
        ends = np.cumsum([len(own) for own in kept.values()])
        players = {
            name: list(range(end - len(own), end))
            for (name, own), end in zip(kept.items(), ends.tolist(), strict=True)
        }
        return model, self.data[:, columns], players


@cache
def table(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """The columns of "adult" or "arrests" by the paper's names, and the labels."""
    frame, labels = xj.datasets.adult("qii") if name == "adult" else xj.datasets.arrests()
    return frame.rename(columns=NAMES), labels.to_numpy()


def split(name: str, seed: int, scaled: bool = True) -> Split:
    """Split number `seed` of "adult" or "arrests", its inputs standardised or as they are."""
    frame, labels = table(name)
    blocks, players, start = [], {}, 0
    for label in frame:
        block = frame[[label]]
        if not pd.api.types.is_numeric_dtype(frame[label]):  # "?" is an all-zero block
            block = pd.get_dummies(frame[label].replace("?", np.nan))
            block = block.iloc[:, :1] if block.shape[1] == 2 else block
        players[str(label)] = list(range(start, start + block.shape[1]))
        start += block.shape[1]
        blocks.append(block.to_numpy(np.float64))
    rows = np.concatenate(blocks, axis=1)
    train, test = train_test_split(np.arange(len(rows)), train_size=0.4, random_state=seed)
    if scaled:
        rows = np.asarray(StandardScaler().fit(rows[train]).transform(rows))
    rows = rows.astype(np.float32)
    return Split(
        (rows[train], labels[train]), rows[test], frame.iloc[test], labels[test], rows, players
    )
