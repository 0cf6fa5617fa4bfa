"""The bike days of the Anchors chapter: do their rules change with the forest that is explained?

The chapter's forest is one of an R session. These are the notebook's, and the same by other seeds.

    XAIJAX_DATA=... python docs/reproduction/anchors_bike.py [forests]      # 4 forests: a minute
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import xaijax as xj

DAYS = [40, 475, 610, 106, 200, 700]  # counted from 1
CUTS = {"temp": [0, 7, 14, 21, 28], "hum": [30, 60, 69, 92], "windspeed": [5, 10, 15, 20, 25]}

if __name__ == "__main__":
    forests = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    days, count = xj.datasets.bike("anchors")
    since = days[["days_since_2011"]]
    above = np.where(count > LinearRegression().fit(since, count).predict(since), "above", "below")
    texts = [c for c in days if not pd.api.types.is_numeric_dtype(days[c])]
    for seed in range(forests):
        encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        prepared = make_column_transformer((encoder, texts), remainder="passthrough")
        trees = RandomForestClassifier(100, random_state=seed)
        model = xj.as_model(make_pipeline(prepared, trees).fit(days, above))
        anchors = xj.AnchorExplainer(model, days, bins=CUTS, perturbation="flip", target="rentals")
        rules = anchors.explain(
            days.iloc[[n - 1 for n in DAYS]],
            threshold=0.9,
            search="kl-lucb",
            batch_size=1000,
            beam_size=1,
            epsilon=0.1,
            progress=False,
        )
        print(f"forest {seed}")
        for day, rule in zip(DAYS, rules, strict=True):
            print(f"   {day}: {rule}", flush=True)
