"""Runs a script where JAX sees eight devices, or as many as are said, in a fresh process."""

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
assert len(jax.devices()) == int(sys.argv[3])
out = {}
"""
END = "\nnp.savez(sys.argv[2], **out)\n"


def outcome(script: str, folder: Path, devices: int = 8) -> dict[str, np.ndarray]:
    """Return what the script puts into its dict `out`. It can import what tests can, and
    the test itself.

    devices: that JAX sees there.
    """
    path, out = folder / "on_devices.py", folder / "out.npz"
    path.write_text(BEGINNING + script + END)
    env = {**os.environ, "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    env["JAX_PLATFORMS"] = "cpu"
    folders = sorted({file.parent for file in TESTS.rglob("test_*.py")})
    env["PYTHONPATH"] = os.pathsep.join(map(str, [ROOT, ROOT / "kernels", ORACLES, *folders]))
    command = [sys.executable, str(path), str(CASES), str(out), str(devices)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    with np.load(out) as arrays:
        return dict(arrays)
