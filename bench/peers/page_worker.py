"""A peer's block of a page, as it stands there, in the peer's environment."""

from __future__ import annotations

import json

import numpy as np
from serve import serve


def run(options, **arrays):
    """Run the text `options["block"]` with the arrays by their names; returns the results asked."""
    lists = {name: arrays[name].tolist() for name in options["lists"]}
    names = {"np": np} | arrays | lists
    exec(options["block"], names)
    found = {name: np.asarray(names[name]) for name in options["arrays"]}
    return found | {name: np.array(json.dumps(names[name])) for name in options["texts"]}


if __name__ == "__main__":
    serve({"run": run})
