"""A process that is killed at every step of a charged release; run by test_privacy_ledger.py.

    python privacy_kills.py ledger-path out-folder {sound|late}

For each number k a fork opens the ledger, asks one query and dies at its k-th call of the operating
system, before it, after it, or (of a write) in the middle of it. What a fork gets to see as its
answer it writes to out-folder/k-how. "late" is the broken control: the charge comes after the draw.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

from xaijax.privacy import ledger as module

EPSILON = 0.25
STEPS = 12


def die():
    os.kill(os.getpid(), 9)


class Killer:
    """Stands in for `os` in the ledger's module."""

    def __init__(self, at, how):
        self._at, self._how, self._calls = at, how, 0

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in ("open", "write", "fsync", "ftruncate", "close", "lseek"):
            return real

        def call(*args):
            self._calls += 1
            if self._calls != self._at:
                return real(*args)
            if self._how == "before":
                die()
            if self._how == "middle" and name == "write":
                real(args[0], bytes(args[1])[: len(args[1]) // 2])
                die()
            done = real(*args)
            die()
            return done

        return call


def one(path, out, at, how, late):
    """A fork that is killed, or (at too large) gets its answer."""
    ledger = module.Ledger(path, 100.0)
    name = f"{at}-{how}"

    def draw():
        # Whoever sees noise that was not charged has seen too much: the draw itself is on record.
        (out / f"{name}.drawn").write_text(str(module._read_book(file(path), path).spent))
        return {"noisy": [at]}

    if late:
        answer = {"noisy": [at]}
        (out / name).write_text(json.dumps(answer))
    module.os = Killer(at, how)
    answer = ledger._answer({"question": name}, EPSILON, draw)
    if not late:
        (out / name).write_text(json.dumps(answer))


def file(path):
    return os.open(path, os.O_RDONLY)


def main():
    path, out, late = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "late"
    warnings.simplefilter("ignore")  # a fork of a process with threads; nothing of JAX runs here
    killed = 0
    for how in ("before", "middle", "after"):
        for at in range(1, STEPS + 1):
            child = os.fork()
            if child == 0:
                one(path, out, at, how, late)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            killed += os.WIFSIGNALED(status)
    print(killed)


if __name__ == "__main__":
    main()
