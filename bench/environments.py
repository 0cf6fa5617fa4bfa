"""Environments that the bench makes for peers whose dependencies clash, and workers in them.

`bench/peers/NAME.txt` lists a peer's requirements; a line `# python: 3.11` asks for a version. The
environment is made under `bench/.envs/NAME` once, and again when the file changes. A peer that
cannot be installed raises `NotRun` with the reason, which is then in the table. Environments of
compilers are in the user's cache folder; `python -m bench.environments tpu cuda` makes them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bench.frame import NotRun

HERE = Path(__file__).parent
FIND_PYTHON = HERE.parent / ".ci" / "find-python"
# Those of compilers are large, and all clones share them.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "xaijax"
COMPILERS = ("tpu", "cuda")
SIZES = "1.3 GB each, in the user's cache folder"
LONGEST = 3_600  # seconds of one step; 1.3 GB take longer than 15 minutes at 1 MB/s


def environment(name: str, *, peers: Path = HERE / "peers", root: Path = HERE / ".envs") -> Path:
    """Return the Python of a peer's environment, made now if it is not there yet."""
    requirements = peers / f"{name}.txt"
    text = requirements.read_text()
    wanted = re.search(r"^# python: (\S+)", text, re.MULTILINE)
    folder = root / name
    python, stamp = folder / "bin" / "python", folder / "installed"
    digest = _digest(text)
    if python.exists() and stamp.exists() and stamp.read_text() == digest:
        return python
    base = _interpreter(wanted[1]) if wanted else Path(sys.executable)
    shutil.rmtree(folder, ignore_errors=True)
    _install([str(base), "-m", "venv", str(folder)], name)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _install([*pip, "-r", str(requirements)], name)
    for line in re.findall(r"^# without dependencies: (.+)", text, re.MULTILINE):
        _install([*pip, "--no-deps", *line.split()], name)
    stamp.write_text(digest)
    return python


def compilers_environment(name: str) -> Path:
    """Return the Python of an accelerator's compiler; raises NotRun if `make compilers` did not
    make it.
    """
    python = CACHE / name / "bin" / "python"
    stamp, text = CACHE / name / "installed", (HERE / "peers" / f"{name}.txt").read_text()
    if not (python.exists() and stamp.exists() and stamp.read_text() == _digest(text)):
        raise NotRun(
            f"no environment in {CACHE / name} for what bench/peers/{name}.txt lists. Say "
            f"`make compilers`, which makes both ({SIZES}), or `python -m bench.environments "
            f"{name}`."
        )
    return python


def _digest(text: str) -> str:
    """What an environment is known by: its requirements."""
    return hashlib.sha256(text.encode()).hexdigest()


def _interpreter(version: str) -> Path:
    found = subprocess.run(["bash", str(FIND_PYTHON), version], capture_output=True, text=True)
    if found.returncode:
        raise NotRun(f"no Python {version} with venv was found")
    return Path(found.stdout.strip())


def _install(command: list[str], name: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        raise NotRun(
            f"the environment of {name} took more than {LONGEST // 60} minutes to install"
        ) from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        errors = [line for line in lines if "error" in line.lower()] or lines or ["no message"]
        raise NotRun(f"the environment of {name} cannot be installed: {errors[-1].strip()}")


class Worker:
    """A peer's process; one call at a time, so that ours and the peer alternate."""

    def __init__(self, python: Path, script: Path):
        self._folder = tempfile.TemporaryDirectory(prefix="xaijax-bench-")
        self._process = subprocess.Popen(
            [str(python), str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=script.parent,
        )
        self._calls = 0

    def call(
        self, function: str, *, options: Mapping[str, Any] | None = None, **arrays: Any
    ) -> tuple[float, dict[str, np.ndarray]]:
        """Call a function of the worker.

        Returns:
            The seconds inside the function, without the transport, and its arrays.
        """
        self._calls += 1
        sent = Path(self._folder.name) / f"{self._calls}-in.npz"
        back = Path(self._folder.name) / f"{self._calls}-out.npz"
        np.savez(sent, **arrays)
        request = {"call": function, "options": dict(options or {})}
        request |= {"arrays": str(sent), "result": str(back)}
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise NotRun(f"the peer's process ended with status {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise NotRun(f"the peer failed: {answer['error']}")
        with np.load(back, allow_pickle=False) as stored:
            return answer["seconds"], {name: stored[name] for name in stored.files}

    def close(self) -> None:
        """End the process and remove the files that travelled."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self._process.wait(timeout=30)
        self._folder.cleanup()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


if __name__ == "__main__":
    try:
        for one in sys.argv[1:]:
            print(environment(one, root=CACHE if one in COMPILERS else HERE / ".envs"))
    except NotRun as error:
        sys.exit(str(error))
