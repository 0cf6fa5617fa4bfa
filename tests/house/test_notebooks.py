"""Every notebook runs from top to bottom without a warning, and is stored as it was run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from repository import ROOT

nbformat = pytest.importorskip("nbformat", reason="needs the extra [notebooks]")
nbclient = pytest.importorskip("nbclient", reason="needs the extra [notebooks]")
pytest.importorskip("ipykernel", reason="needs the extra [notebooks]")
pytest.importorskip("matplotlib", reason="needs the extra [notebooks]")

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NEED_DATA = {
    "aec",
    "anchors",
    "derivatives",
    "federated",
    "how_sure",
    "interactions",
    "qii",
    "trees",
}  # the tables of the folder in XAIJAX_DATA
FOLDERS = [ROOT, ROOT / "notebooks"]  # where an editor may start the kernel

# Every warning is shown, also of libraries, and so is found in stderr. They are no errors, as they
# are in the tests: where a library tries and falls back, an error would be caught and not be seen.
SHOWN = "import warnings\nwarnings.simplefilter('always')"


def run(notebook, folder, monkeypatch, tmp_path):
    """The executed notebook; its kernel imports the tree that is tested."""
    path = [str(ROOT), str(ROOT / "kernels"), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    # Other tests may have asked for pictures that are not shown.
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    # Neither the history nor the start-up files of the person who runs the tests.
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    notebook = nbformat.from_dict({**notebook, "metadata": {}})
    notebook.cells.insert(0, nbformat.v4.new_code_cell(SHOWN))
    client = nbclient.NotebookClient(
        notebook, timeout=1800, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    notebook.cells.pop(0)
    return notebook


def outputs(notebook, kind):
    found = [one for cell in notebook.cells for one in cell.get("outputs", [])]
    return [one for one in found if one.output_type == kind]


def streams(notebook, name):
    return "".join(one.text for one in outputs(notebook, "stream") if one.name == name)


def kinds(notebook):
    """What each cell puts out: its results and pictures in order, and whether it prints.

    In how many pieces a cell prints, and where between pictures, hangs on the machine's load.
    """
    found = [[one.output_type for one in cell.get("outputs", [])] for cell in notebook.cells]
    return [([kind for kind in cell if kind != "stream"], "stream" in cell) for cell in found]


def read(path: Path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def test_there_are_notebooks():
    wanted = {"aec", "anchors", "derivatives", "federated", "how_sure", "images", "interactions"}
    assert wanted | {"networks", "qii", "tokens", "trees"} <= {path.stem for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_a_picture_after_at_most_8_lines_of_code(path):
    """Longer code is folded (`source_hidden`): Jupyter and the site open it on a click."""
    lines = 0
    for cell in read(path).cells:
        if cell.cell_type == "code" and not cell.metadata.get("jupyter", {}).get("source_hidden"):
            lines += sum(bool(line.strip()) for line in cell.source.splitlines())
        if any("image/png" in one.get("data", {}) for one in cell.get("outputs", [])):
            break
    assert lines <= 8


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, monkeypatch, tmp_path):
    """In its small size, where it has one; what is stored may be the full one."""
    if path.stem in NEED_DATA and not os.environ.get("XAIJAX_DATA"):
        pytest.skip("needs tables: XAIJAX_DATA is not set")
    monkeypatch.setenv("XAIJAX_NOTEBOOK_SIZE", "small")
    done = run(read(path), FOLDERS[1], monkeypatch, tmp_path)
    assert streams(done, "stderr") == ""
    stored = read(path)
    assert kinds(done) == kinds(stored)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_notebook_is_small_and_tidy(path):
    notebook = read(path)
    assert path.stat().st_size < 300_000
    assert len(notebook.cells) <= 16
    assert outputs(notebook, "error") == [] and streams(notebook, "stderr") == ""
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1)), "run it from top to bottom, then store it"
    for cell in notebook.cells:
        folded = cell.metadata in ({}, {"jupyter": {"source_hidden": True}})
        assert folded, "store no editor's or timing metadata"
    text = path.read_text("utf-8")
    assert str(Path.home()) not in text and str(ROOT) not in text


@pytest.mark.slow
def test_a_warning_and_an_error_are_seen(monkeypatch, tmp_path):
    source = "from xaijax.core import checks\nchecks.warn('planted')"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    done = run(notebook, FOLDERS[0], monkeypatch, tmp_path)
    assert "XaiWarning: planted" in streams(done, "stderr")
    notebook.cells.append(nbformat.v4.new_code_cell("import xaijax as xj\nxj.nothing"))
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="has no attribute 'nothing'"):
        run(notebook, FOLDERS[0], monkeypatch, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS, ids=["root", "notebooks"])
def test_the_kernel_imports_this_tree(folder, monkeypatch, tmp_path):
    source = "import xaijax\nprint(xaijax.__file__)"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    done = run(notebook, folder, monkeypatch, tmp_path)
    assert streams(done, "stdout").strip() == str(ROOT / "xaijax" / "__init__.py")
    assert streams(done, "stderr") == ""
