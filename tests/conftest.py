"""What all tests share."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

from xaijax.games.engine.plan import MOST_ROWS

PROGRAMS = "JAX_COMPILATION_CACHE_DIR"
EVERY = {  # of them, however small and quick to compile
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


@pytest.hookimpl(tryfirst=True)  # before pytest-mpl reads its option
def pytest_configure(config: pytest.Config) -> None:
    """A store of compiled programs, so that what many tests need is compiled once in a run; in many
    runs, which then take half as long, where JAX_COMPILATION_CACHE_DIR names a folder.

    One for each worker of xdist: two that write one file at a time would read half of it. By the
    environment, which the processes that tests start inherit. Tests that have a reference image are
    compared with it; without this, they would only be drawn.
    """
    if config.pluginmanager.hasplugin("pytest_mpl"):
        config.option.mpl = True
    folder = os.environ.get(PROGRAMS)
    if folder is None:
        folder = tempfile.mkdtemp(prefix="xaijax-programs-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    if hasattr(config, "workerinput"):  # the folder is that of all workers
        folder = str(Path(folder) / config.workerinput["workerid"])
    if config.option.markexpr == "not slow":
        # Each worker has a core. To cut a program into parts that are compiled beside each other
        # took an eighth of a test's time. The slow tests compile as people do.
        one = "--xla_cpu_parallel_codegen_split_count=1"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {one}".strip()
    os.environ |= {PROGRAMS: folder} | EVERY
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """--part K/N: of the tests, those of part K."""
    parser.addoption("--part", help="K/N: run one of N parts, which a test's name decides")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what is in the other parts: a test stays in its part whatever is added."""
    part = config.getoption("part")
    if part is None:
        return
    which, parts = map(int, part.split("/"))
    sorted_out: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        sorted_out[crc32(item.nodeid.encode()) % parts == which - 1].append(item)
    config.hook.pytest_deselected(items=sorted_out[False])
    items[:] = sorted_out[True]


@pytest.fixture
def settings_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An example or a page may name a folder for compiled programs: the tests have one of their
    own, to which they return.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = {name: getattr(jax.config, name) for name in map(str.lower, (PROGRAMS, *EVERY))}
    yield
    if any(getattr(jax.config, name) != value for name, value in before.items()):
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()


@pytest.fixture(autouse=True)
def no_figure_left() -> Iterator[None]:
    """Tests of several files take turns in a process, which holds one list of figures."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture(scope="session", autouse=True)
def tiled_path() -> Iterator[int]:
    """Questions of tests are small, and what they test is the engine: path="auto" takes no small
    path, except in tests marked `small_path`. For the session, so that what the tests of a file
    share goes the same way. Gives the number of rows that users have.
    """
    with pytest.MonkeyPatch.context() as patch:
        most = MOST_ROWS["cpu"]
        patch.setitem(MOST_ROWS, "cpu", 0)
        yield most


@pytest.fixture(autouse=True)
def small_path(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tiled_path: int
) -> None:
    """Tests marked `small_path` choose the path as users do."""
    if request.node.get_closest_marker("small_path") is not None:
        monkeypatch.setitem(MOST_ROWS, "cpu", tiled_path)


@pytest.fixture(scope="session")
def compilers() -> Iterator[Callable[[str], Any]]:
    """Gives the compiler of a target of `bench/compilers.py`, a process that a worker starts once;
    skips the test if `make compilers` did not make its environment.
    """
    from bench.compilers import Compiler, target_of  # noqa: PLC0415 - few tests need them
    from bench.frame import NotRun  # noqa: PLC0415

    started: dict[str, Any] = {}

    def of(name: str) -> Any:
        if name not in started:
            try:
                started[name] = Compiler(target_of(name))
            except NotRun as error:
                pytest.skip(str(error))
        return started[name]

    yield of
    for one in started.values():
        one.close()


@pytest.fixture
def strict_numerics() -> Iterator[None]:
    """No implicit dtype promotion: a float64 or int64 that slips into a kernel is an error.

    Asked for by the tests of kernels (`pytestmark = pytest.mark.usefixtures("strict_numerics")`),
    not switched on for all: a model that a person hands in may mix dtypes, and must go on working,
    so the tests of models and explainers keep JAX's ordinary rules. Rank promotion stays allowed:
    the kernels set [P] against [S, P] where the last axis is players in both.
    """
    with jax.numpy_dtype_promotion("strict"):
        yield
