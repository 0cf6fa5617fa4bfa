"""A process that is killed at every step of a charged release; run by test_privacy_ledger.py.

    python privacy_kills.py ledger-path out-folder {sound|late}

For each number k a fork asks `release` with an epsilon of its own and dies at its k-th call of the
operating system, before it, after it, or (of a write) in the middle of it; the draw of the noise is
such a step too. What a fork gets to see it writes to out-folder/epsilon.seen. "late" is the broken
control: a ledger that shows the answer before it charges.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

import xaijax as xj
from xaijax.core import files
from xaijax.privacy import ledger as module
from xaijax.privacy import mechanism
from xaijax.results.recount import remembered

STEPS = 24
D = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [1, 1]], float)
CALLS = ("open", "write", "fsync", "ftruncate", "close", "lseek", "read", "fstat", "link")


def die():
    os.kill(os.getpid(), 9)


class Killer:
    """Stands in for `os` in the modules of the file, and counts the draw of noise as well."""

    def __init__(self, at, how):
        self._at, self._how, self._calls = at, how, 0

    def __getattr__(self, name):
        real = getattr(os, name)
        return self.counted(real, name == "write") if name in CALLS else real

    def counted(self, real, writes=False):
        def call(*args):
            self._calls += 1
            if self._calls != self._at:
                return real(*args)
            if self._how == "before":
                die()
            if self._how == "middle" and writes:
                real(args[0], bytes(args[1])[: len(args[1]) // 2])
                die()
            real(*args)
            die()

        return call


class Late(xj.privacy.Ledger):
    """Shows its answers first."""

    shown = staticmethod(lambda answer: None)

    def _answer(self, query, epsilon, draw, may=None):
        answer = draw()
        self.shown(answer)
        return super()._answer(query, epsilon, lambda: answer)


def one(ledger, explanation, out, at, how, epsilon):
    """A fork that is killed, or (at too large) gets its answer."""
    killer = Killer(at, how)
    noisy = mechanism.noisy

    def recorded(values, scale):
        (out / f"{epsilon}.drawn").touch()  # whoever draws before the charge is found by this
        return noisy(values, scale)

    def see(values):
        (out / f"{epsilon}.seen").write_text(json.dumps(values))

    Late.shown = staticmethod(lambda answer: see([value / 2**20 for value in answer["noisy"]]))
    mechanism.noisy = killer.counted(recorded)
    module.os = files.os = killer
    private = xj.privacy.release(explanation, epsilon, ledger=ledger)
    see(private.values.ravel().tolist())


def main():
    path, out, late = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "late"
    warnings.simplefilter("ignore")  # a fork of a process with threads; nothing of JAX runs there
    model = xj.as_model(LogisticRegression().fit(D, [0, 1, 1, 1, 1]))
    explanation = xj.QII(model, D, quantity="average").explain()
    remembered(explanation).sums()  # counted before any fork
    ledger = (Late if late else xj.privacy.Ledger)(path, 1000.0)
    mechanism.library()
    killed = requests = 0
    for how in ("before", "middle", "after"):
        for at in range(1, STEPS + 1):
            requests += 1
            child = os.fork()
            if child == 0:
                one(ledger, explanation, out, at, how, 0.25 + requests / 1024)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            killed += os.WIFSIGNALED(status)
    print(killed)


if __name__ == "__main__":
    main()
