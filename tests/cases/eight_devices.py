"""Runs a script where JAX sees eight devices, which only a fresh process can be told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from repository import CASES, ORACLES, ROOT, TESTS

BEGINNING = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
import jax
assert len(jax.devices()) == 8
out = {}
"""
END = "\nnp.savez(sys.argv[2], **out)\n"


def outcome(script: str, folder: Path) -> dict[str, np.ndarray]:
    """Return what the script puts into its dict `out`. It can import what tests can, and
    the test itself."""
    path, out = folder / "on_devices.py", folder / "out.npz"
    path.write_text(BEGINNING + script + END)
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    env["JAX_PLATFORMS"] = "cpu"
    own = sorted({file.parent for file in TESTS.rglob("test_*.py")})
    env["PYTHONPATH"] = os.pathsep.join(map(str, [ROOT, ROOT / "kernels", ORACLES, *own]))
    command = [sys.executable, str(path), str(CASES), str(out)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    with np.load(out) as found:
        return dict(found)
