"""Packaging: what is built holds what is here, and installs two import packages, no more."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from repository import LIBRARY, ROOT, package_files

NAMED = {
    "xaijax/federated/wire/wire.proto",
    "xaijax/py.typed",
    "xaijax_kernels/py.typed",
    "xaijax/reports/report.html.j2",
    "xaijax/reports/page.css",
    "xaijax/reports/page.js",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    # With the backend that is installed: nothing comes from the network.
    # In another folder than ours, whose names must not be taken for modules.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def wheel_files(built: Path) -> set[str]:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def sdist_files(built: Path) -> set[str]:
    """Without the leading name and version."""
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        return {m.name.partition("/")[2] for m in archive.getmembers() if m.isfile()}


@pytest.mark.slow
def test_wheel_sdist_and_folder_hold_the_same_files(built: Path) -> None:
    here = package_files()
    assert here >= NAMED
    wheel = {name for name in wheel_files(built) if ".dist-info/" not in name}
    sdist = {name.removeprefix("kernels/") for name in sdist_files(built)}
    sdist = {name for name in sdist if name.partition("/")[0] in LIBRARY}
    assert wheel == here, f"the wheel differs from the folder in {sorted(wheel ^ here)}"
    assert sdist == here, f"the sdist differs from the folder in {sorted(sdist ^ here)}"


@pytest.mark.slow
def test_wheel_installs_two_packages_and_nothing_else(built: Path) -> None:
    top = {name.partition("/")[0] for name in wheel_files(built)}
    (info,) = (name for name in top if name.endswith(".dist-info"))
    assert info.startswith("xaijax-")
    assert top == {"xaijax", "xaijax_kernels", info}


def test_kernels_is_a_folder_and_no_package(built: Path) -> None:
    # An installed top-level `kernels` would shadow the package of that name on PyPI.
    assert not (ROOT / "kernels" / "__init__.py").exists()
    assert "kernels/__init__.py" not in sdist_files(built)


def test_extras_that_are_named_are_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = {
        extra
        for folder in LIBRARY.values()
        for path in folder.rglob("*.py")
        for told in re.findall(r"xaijax\[([a-z,-]+)\]", path.read_text())
        for extra in told.split(",")
    }
    assert "scale" in named and named <= set(extras), f"no such extra: {named - set(extras)}"
    libraries = {re.split("[<>=;]", one)[0] for one in extras["scale"]}
    assert libraries == {"cloudpickle", "dask", "distributed", "pyarrow", "ray", "zarr"}


def test_sdist_brings_the_licence_and_the_readme(built: Path) -> None:
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"} <= sdist_files(built)


@pytest.mark.slow
def test_wheel_works_away_from_the_source(built: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    program = f"""
import sys
sys.path.insert(0, {str(site)!r})
import importlib.resources, pathlib
import numpy as np
import xaijax, xaijax_kernels
for package in (xaijax, xaijax_kernels):
    found = pathlib.Path(package.__file__).resolve()
    assert found.is_relative_to(pathlib.Path({str(site)!r}).resolve()), found
    assert importlib.resources.files(package).joinpath("py.typed").is_file()
assert importlib.resources.files("xaijax.reports").joinpath("report.html.j2").is_file()
model = xaijax.as_model(lambda X: X @ np.float32([1, 2]))
explanation = xaijax.Explainer(model, np.zeros((1, 2)))(np.ones((3, 2)), progress=False)
assert np.array_equal(explanation.values, [[1, 2]] * 3), explanation.values
print("done")
"""
    # -I: neither the folder we stand in nor PYTHONPATH can lend the source.
    command = [sys.executable, "-I", "-W", "error", "-c", program]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.strip() == "done", done.stdout + done.stderr
