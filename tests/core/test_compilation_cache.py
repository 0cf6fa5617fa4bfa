"""Programs kept in a folder: a second process compiles none of them, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import xaijax as xj

PROGRAM = """
import sys
import jax, numpy as np
import xaijax as xj

found = []
jax.monitoring.register_event_listener(lambda name, **_: found.append(name))
if sys.argv[2] == "late":  # after JAX has looked for a folder and found none
    jax.jit(lambda x: x + 1)(1.0)
xj.enable_compilation_cache(sys.argv[1])
rows = np.eye(4, dtype=np.float32)
values = xj.Explainer(xj.as_model(lambda X: X[:, 0] * X[:, 1]), rows)(rows + 1).values
hits, misses = (found.count(f"/jax/compilation_cache/cache_{what}") for what in ("hits", "misses"))
print(hits, misses, values.sum())
"""


def explained(folder: Path, when: str) -> tuple[int, int, float]:
    """(programs that were there, programs compiled, a sum of values), in a process of its own."""
    own = {name: text for name, text in os.environ.items() if "CACHE" not in name}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), when],
        capture_output=True, text=True, check=True, env=own,
    )  # fmt: skip
    hits, misses, total = done.stdout.split()
    return int(hits), int(misses), float(total)


@pytest.mark.slow
def test_a_second_process_compiles_nothing_again(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cache"
    hits, misses, first = explained(folder, "late")
    assert misses > 0 and hits == 0
    if os.name == "posix":
        assert folder.stat().st_mode & 0o077 == 0
    again, compiled, second = explained(folder, "early")
    assert again == misses and compiled == 0
    assert first == second


def test_what_is_no_folder_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    given: list[tuple[Any, type[Exception], str]] = [
        (file, xj.InputError, "cannot be made"),
        (3, xj.InputTypeError, "got int"),
        (None, xj.InputTypeError, "got NoneType"),
    ]
    for folder, error, words in given:
        with pytest.raises(error, match=words):
            xj.enable_compilation_cache(folder)
    if os.name == "posix":
        shared = tmp_path / "shared"
        shared.mkdir()
        shared.chmod(0o777)
        with pytest.raises(xj.InputError, match="other users can write"):
            xj.enable_compilation_cache(shared)
