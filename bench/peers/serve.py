"""The peer's side of a worker: runs in the peer's own environment, so it imports NumPy at most.

A worker script beside this file says what it can do and ends with `serve`:

    from serve import serve
    serve({"explain": explain})     # explain(options: dict, **arrays) -> dict of arrays

One JSON line comes in a request, one goes out an answer; arrays travel as .npz files, whose names
are in the lines. What the functions print goes to stderr, so that it cannot mix with answers.
"""

from __future__ import annotations

import json
import sys
import time


def serve(functions):
    """Answer requests until stdin closes. Only the function itself is timed."""
    import numpy as np  # noqa: PLC0415

    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        request = json.loads(line)
        try:
            with np.load(request["arrays"], allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            function = functions[request["call"]]
            started = time.perf_counter()
            result = function(request["options"], **arrays)
            seconds = time.perf_counter() - started
            np.savez(request["result"], **result)
            answer = {"seconds": seconds}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
