"""Packaging: what is built holds what is here, no more, and could be published as it is."""

from __future__ import annotations

import email
import importlib.util
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


def test_sdist_brings_what_a_packager_needs(built: Path) -> None:
    files = sdist_files(built)
    assert {"LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "pyproject.toml"} <= files
    assert {"tests/conftest.py", "docs/tour.md", "examples/anchors.py", "mkdocs.yml"} <= files


def test_the_index_would_take_both_files(built: Path) -> None:
    """As twine and check-wheel-contents see them, before anything is uploaded."""
    for module in ("twine", "check_wheel_contents"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}, of the extra [dev]")
    both = [str(path) for path in sorted(built.iterdir())]
    wheel = next(path for path in both if path.endswith(".whl"))
    for command in (["twine", "check", "--strict", *both], ["check_wheel_contents", wheel]):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def described(built: Path) -> tuple[dict[str, list[str]], str]:
    """{field: its values} of the wheel's metadata, and the text that the index shows."""
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        message = email.message_from_bytes(archive.read(name))
    fields: dict[str, list[str]] = {}
    for field, value in message.items():
        fields.setdefault(field, []).append(value)
    return fields, message.get_payload(decode=True).decode()


def test_the_metadata_are_those_of_the_citation(built: Path) -> None:
    fields, _ = described(built)
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    authors, _, _ = citation.partition("\nversion:")
    assert fields["Author"] == [", ".join(re.findall(r"^  - name: (.+)$", authors, re.MULTILINE))]
    assert re.findall(r"^version: (.+)$", citation, re.MULTILINE) == fields["Version"]
    classifiers = fields["Classifier"]
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.11"} <= set(classifiers)
    oldest = re.findall(r"3\.\d+", fields["Requires-Python"][0])
    pythons = [one.rsplit(" ", 1)[1] for one in classifiers if re.search(r":: 3\.\d+$", one)]
    assert pythons[:1] == oldest


def test_links_of_the_readme_work_on_the_index(built: Path) -> None:
    """All are absolute, below the one address of the repository, and lead to files of this tree."""
    fields, text = described(built)
    (repository,) = (u for u in fields["Project-URL"] if u.startswith("Repository, "))
    address, (version,) = repository.removeprefix("Repository, "), fields["Version"]
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)\s]+)\)", text)
    ours = [(mark, link) for mark, link in links if link.startswith(address)]
    assert len(ours) > 10 and all(re.match("https?:|#", link) for _, link in links)
    for mark, link in ours:
        kind = "raw" if mark else "blob"
        path, _, _ = link.removeprefix(f"{address}/{kind}/v{version}/").partition("#")
        assert (ROOT / path).is_file(), link
    assert all(u.partition(", ")[2].startswith(address) for u in fields["Project-URL"])


def test_version_and_date_are_the_same_everywhere() -> None:
    """Those of the changelog's newest section and of the citation (RELEASING.md)."""
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    ((version, date),) = re.findall(r"^version: (.+)\ndate-released: (.+)$", citation, re.MULTILINE)
    newest = re.findall(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", changelog, re.MULTILINE)[0]
    assert newest == (version, date)
    assert f'__version__ = "{version}"' in (ROOT / "xaijax/core/version.py").read_text("utf-8")


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
