"""Federated values between two processes, against the same in one process."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import xaijax
from bench.frame import Agreement, Case, Contender, Duel, Figure, NotRun, Outcome, Size, Timing
from xaijax import federated

WIRE, HERE = "two processes", "one process"
GUEST = [9, 10, 11]
BATCH = 256
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Parties:
    """A split network on 12 columns, three of them a guest's, and the instances."""

    split: federated.Split
    X: np.ndarray  # [N, 12]
    rounds: int

    def measure(self) -> Outcome:
        """Start the guest's process, then time both in turn."""
        with tempfile.TemporaryDirectory() as folder, self._guest(Path(folder)) as connection:
            duel = Duel(
                contenders=[
                    Contender(WIRE, lambda count: self._wire(connection, count), len(self.X)),
                    Contender(HERE, self._here, len(self.X)),
                ],
                check=self._check,
                figures=self._figures,
                rounds=self.rounds,
                notes=("gRPC with mutual TLS on one machine; a session and all answers each turn",),
            )
            return duel.measure()

    def _here(self, count: int) -> xaijax.Explanation:
        explain = xaijax.FederatedExplainer(self.split.joint, self.X, {"shop": GUEST})
        return explain(self.X[:count], progress=False)

    def _wire(self, connection: federated.Connection, count: int) -> xaijax.Explanation:
        mine = self.X[:, :9]
        ids = [str(i) for i in range(len(mine))]
        host = federated.Host(self.split.host, mine, {"shop": connection}, ids, batch=BATCH)
        return host(mine[:count], ids[:count], progress=False)

    def _check(self, results: Mapping[str, Any]) -> list[Agreement]:
        difference = float(np.abs(results[WIRE].values - results[HERE].values).max())
        reason = "float32 on both sides; answers are rounded to it once more"
        return [Agreement("values of both", difference, 1e-6, reason)]

    def _figures(self, timings: Mapping[str, Timing], results: Mapping[str, Any]) -> list[Figure]:
        stats = results[WIRE].stats
        more = timings[WIRE].best - 2 * timings[HERE].best
        bound = -(-(len(self.X) + 1) // BATCH) + 2
        return [
            Figure("two processes - 2 x one process", more, 1.0, unit=" s"),
            Figure("messages", stats["messages"], bound),
            Figure("vectors - (N + 1)", stats["rows_asked"] - len(self.X) - 1, 0),
        ]

    @contextmanager
    def _guest(self, folder: Path) -> Iterator[federated.Connection]:
        tls = federated.make_certificates(folder, ["host", "shop"])
        lines = ["id,a,b,c"]
        lines += [f"{i},{a!r},{b!r},{c!r}" for i, (a, b, c) in enumerate(self._guest_rows())]
        (folder / "rows.csv").write_text("\n".join(lines))
        (folder / "secret").write_bytes(os.urandom(32))
        self.split.parts["shop"].save(folder / "part.npz")
        (folder / "guest.toml").write_text(
            'address = "localhost:0"\nrows = "rows.csv"\nidentifier = "id"\nsecret = "secret"\n'
            'state = "state"\n[parts]\n"1" = "part.npz"\n[policy]\nfewest = 1\n[tls]\n'
            'authority = "authority.pem"\ncertificate = "shop.pem"\nkey = "shop.key"\n'
        )
        path = os.pathsep.join([str(ROOT), str(ROOT / "kernels")])
        command = [sys.executable, "-m", "xaijax", "guest", "serve", "--config"]
        with subprocess.Popen(
            [*command, str(folder / "guest.toml")],
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as guest:
            try:
                assert guest.stdout is not None
                connection = federated.Connection(guest.stdout.readline().split()[-1], tls["host"])
                yield connection
                connection.close()
            finally:
                guest.kill()

    def _guest_rows(self) -> list[list[float]]:
        return self.X[:, GUEST].tolist()


def setup(size: Size) -> Parties:
    """A network that was hardly trained: only its size matters here."""
    if importlib.util.find_spec("grpc") is None:
        raise NotRun("grpc is not installed")
    N = 1_000 if size == "full" else 20
    X = np.random.default_rng(0).normal(size=(N, 12))
    split = federated.split_network(X, X[:, 0] * X[:, 9] > 0, {"shop": GUEST}, steps=50)
    return Parties(split, X, rounds=5 if size == "full" else 1)


CASES = (
    Case(
        "wire",
        "federated values of 1,000 instances of a split network (9 host columns, 3 of a guest "
        "behind 4 numbers), two processes against one",
        "at most twice the time of one process plus one second; ceil((N + 1) / batch) + 2 messages",
        "",
        setup,
    ),
)
