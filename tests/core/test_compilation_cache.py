"""Programs kept in a folder: a second process compiles none of them, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import xaijax as xj
from xaijax.core import compilation_cache

PROGRAM = """
import sys
import jax, numpy as np
import xaijax as xj

found = []
jax.monitoring.register_event_listener(lambda name, **_: found.append(name))
if sys.argv[2] == "late":  # after JAX has looked for a folder and found none
    jax.jit(lambda x: x + 1)(1.0)
xj.enable_compilation_cache(*filter(None, sys.argv[1:2]))  # "": without an argument
rows = np.eye(4, dtype=np.float32)
values = xj.Explainer(xj.as_model(lambda X: X[:, 0] * X[:, 1]), rows)(rows + 1).values
hits, misses = (found.count(f"/jax/compilation_cache/cache_{what}") for what in ("hits", "misses"))
print(hits, misses, values.sum())
"""


def run(*command: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A process of its own that inherits no folder of compiled programs."""
    own = {name: text for name, text in os.environ.items() if "CACHE" not in name} | more
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=True, env=own
    )


def explained(folder: Path | str, when: str, **more: str) -> tuple[int, int, float]:
    """(programs that were there, programs compiled, a sum of values), in a process of its own."""
    done = run("-c", PROGRAM, str(folder), when, **more)
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


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems name other folders")
def test_the_users_own_folder_serves_calls_and_commands(tmp_path: Path) -> None:
    """Without an argument, and by the commands unless they are told otherwise."""
    own, folder = {"XDG_CACHE_HOME": str(tmp_path)}, tmp_path / "xaijax"
    run("-m", "xaijax", "doctor", "--no-compilation-cache", **own)
    run("-c", "import xaijax as xj; xj.as_model(lambda X: X[:, 0]); import jax; jax.jit(abs)(1)")
    assert not folder.exists()  # and the library never makes it by itself
    assert explained("", "early", **own)[1] > 0
    assert folder.stat().st_mode & 0o077 == 0
    before = len(list(folder.iterdir()))
    run("-m", "xaijax", "doctor", **own)
    assert len(list(folder.iterdir())) > before
    folder.chmod(0o777)
    refused = run("-m", "xaijax", "doctor", **own)
    assert refused.stderr.startswith("xaijax: compiled programs are not kept. folder: other users")
    assert "are right" in refused.stdout


def test_the_users_own_folder_is_that_of_the_system(tmp_path: Path, monkeypatch) -> None:
    home = tmp_path / "home"
    monkeypatch.setattr(Path, "home", lambda: home)
    for system, variables, expected in [
        ("linux", {}, home / ".cache" / "xaijax"),
        ("linux", {"XDG_CACHE_HOME": str(tmp_path / "x")}, tmp_path / "x" / "xaijax"),
        ("linux", {"XDG_CACHE_HOME": "x"}, home / ".cache" / "xaijax"),
        ("darwin", {"XDG_CACHE_HOME": str(tmp_path)}, home / "Library" / "Caches" / "xaijax"),
        ("win32", {"LOCALAPPDATA": str(tmp_path)}, tmp_path / "xaijax" / "Cache"),
        ("win32", {}, home / "AppData" / "Local" / "xaijax" / "Cache"),
    ]:
        for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(compilation_cache.sys, "platform", system)
        assert compilation_cache._users_own() == expected


def test_what_is_no_folder_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    given: list[tuple[Any, type[Exception], str]] = [
        (file, xj.InputError, "cannot be made"),
        (3, xj.InputTypeError, "got int"),
        (["x"], xj.InputTypeError, "got list"),
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
        (shared / "mine").mkdir(mode=0o700)
        link = tmp_path / "link"
        link.symlink_to(shared / "mine")
        for folder in (shared / "mine", link):  # others can put another in its place
            with pytest.raises(xj.InputError, match=f"write to {shared}, and so replace"):
                xj.enable_compilation_cache(folder)


@pytest.mark.skipif(os.name != "posix", reason="Windows has no owner's number")
def test_another_users_folder_is_refused(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(xj.InputError, match="is another user's"):
        xj.enable_compilation_cache(tmp_path)


def test_a_user_without_a_home_names_a_folder(monkeypatch) -> None:
    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", none)
    with pytest.raises(xj.InputError, match="no home directory; name a folder"):
        xj.enable_compilation_cache()
