"""Parties for the tests of the wire: a table split in two, transports that watch or tamper."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from repository import ROOT

from xaijax import federated as fd

F = 7
GUEST, HOST = [1, 3, 5], [0, 2, 4, 6]
SECRET = bytes(range(32))


def table(N: int = 200, seed: int = 0) -> np.ndarray:
    """Rows [N, 7]."""
    return np.random.default_rng(seed).normal(size=(N, F))


def names(N: int, start: str = "customer-") -> list[str]:
    return [f"{start}{i:05d}" for i in range(N)]


def logistic() -> fd.PartySplit:
    """A vertical logistic regression on the table's columns."""
    return fd.split_logistic([0.5, -1.0, 0.25, 2.0, -0.75, 0.5, 1.0], 0.1, {"shop": GUEST})


def guest_of(
    split: fd.PartySplit, X: np.ndarray, policy: fd.Policy | None = None, **more
) -> fd.Guest:
    policy = fd.Policy(fewest=1) if policy is None else policy
    return fd.Guest(X[:, GUEST], names(len(X)), split.parts["shop"], policy=policy, **more)


def host_of(split: fd.PartySplit, X: np.ndarray, transport, **more) -> fd.Host:
    more = {"identifiers": names(len(X)), **more}
    return fd.Host(split.host, X[:, HOST], {"shop": transport}, **more)


class Watched:
    """A transport that writes down what passes, and may put something else in its place."""

    def __init__(self, inner, change: Callable[[str, bytes], bytes] = lambda method, reply: reply):
        self.inner, self.change = inner, change
        self.log: list[tuple[str, bytes, bytes]] = []  # method, request, reply

    def call(self, method: str, data: bytes, deadline: float) -> bytes:
        reply = self.change(method, self.inner.call(method, data, deadline))
        self.log.append((method, data, reply))
        return reply

    def close(self) -> None:
        self.inner.close()

    @property
    def said(self) -> bytes:
        return b"\n".join(request + b"\n" + reply for _, request, reply in self.log)

    @property
    def lengths(self) -> list[tuple[str, int, int]]:
        return [(method, len(request), len(reply)) for method, request, reply in self.log]


def mutated(rng: np.random.Generator, message: bytes) -> bytes:
    """Bytes changed, cut, put in or doubled."""
    data = bytearray(message)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(0, max(1, len(data))))
        kind = rng.integers(0, 5)
        if kind == 0 and data:
            data[at] ^= 1 << int(rng.integers(0, 8))
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            data[at:at] = rng.bytes(int(rng.integers(1, 9)))
        elif kind == 3 and data:
            data[at] = int(rng.choice([0, 127, 128, 255]))
        else:
            data += data[at : at + int(rng.integers(1, 40))]
    return bytes(data)


def write_csv(path: Path, rows: np.ndarray, columns: list[str], ids: list[str]) -> None:
    lines = [",".join(["customer", *columns])]
    lines += [
        ",".join([identifier, *map(repr, map(float, row))])
        for identifier, row in zip(ids, rows, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")


def guest_folder(
    folder: Path, split: fd.PartySplit, X: np.ndarray, tls: fd.Tls, policy: str = "fewest = 1"
) -> Path:
    """All that `xaijax guest serve` needs; the path of guest.toml."""
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "rows.csv", X[:, GUEST], ["a", "b", "c"], names(len(X)))
    split.parts["shop"].save(folder / "part.npz")
    (folder / "secret").write_bytes(SECRET)
    (folder / "guest.toml").write_text(
        f"""
address = "localhost:0"
rows = "rows.csv"
identifier = "customer"
secret = "secret"
state = "state"
[parts]
"2024" = "part.npz"
[policy]
{policy}
[tls]
authority = "{tls.authority}"
certificate = "{tls.certificate}"
key = "{tls.key}"
"""
    )
    return folder / "guest.toml"


@contextlib.contextmanager
def process(*arguments: str | Path, more_path: str | Path = "") -> Iterator[tuple]:
    """`xaijax ...` in a process of its own: (the process, the address it listens at)."""
    path = [str(ROOT), str(ROOT / "kernels"), str(more_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}
    command = [sys.executable, "-W", "error", "-m", "xaijax", *map(str, arguments)]
    started = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert started.stdout is not None and started.stderr is not None
        line = started.stdout.readline()
        assert line.startswith("listening at "), line + started.stderr.read()
        yield started, line.split()[-1]
    finally:
        with contextlib.suppress(ProcessLookupError):
            started.kill()
        started.communicate()
