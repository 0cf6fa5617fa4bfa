"""`xaijax demo`: its files, and every number that it prints against the explanation it saved."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import xaijax as xj
from xaijax.commands.cli import main
from xaijax.commands.demo.data import demo_data
from xaijax.commands.demo.network import logit, train
from xaijax.datasets import fetch

pytest.importorskip("pandas", reason="needs the extra [data]")
pytest.importorskip("matplotlib", reason="needs the extra [plots]")
pooch = pytest.importorskip("pooch", reason="needs the extra [data]")

DATA = Path(os.environ.get("XAIJAX_DATA") or "nowhere")
FILES = {"explanation.npz", "beeswarm.png", "bar.png", "waterfall.png", "report.html"}


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No folder, an empty cache, no network."""

    def no_network(*_):
        raise OSError("no network")

    monkeypatch.delenv("XAIJAX_DATA", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache" / name)
    monkeypatch.setattr(fetch, "_download", no_network)


def numbers(text):
    return [float(n.replace(",", "")) for n in re.findall(r"\d[\d,]*(?:\.\d+)?(?:e[-+]\d+)?", text)]


def blocks(text):
    """{head: the numbers of its lines} of "Head   text" lines, a line without a head continuing."""
    found, head = {}, ""
    for line in text.splitlines():
        named = re.match(r"([A-Z][A-Za-z |]*?)(?:  |$)", line)
        head = named[1] if named else head
        found.setdefault(head, []).extend(numbers(line))
    return found


def check(printed, folder, data, rows, seed):
    """Every number of the printed text, from the files and from the training done once more."""
    assert {path.name for path in folder.iterdir()} == FILES
    for name in FILES - {"explanation.npz", "report.html"}:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    page = (folder / "report.html").read_text("utf-8")
    assert page.count('src="data:image/png') == 3
    assert f"JAX MLP {data.X_train.shape[1]}-64-64-1" in page
    assert not re.search("https?:", re.sub(r'src="data:[^"]*"', "", page))  # base64 may spell it
    assert all(str(folder / name) in printed for name in FILES)

    explanation = xj.load(folder / "explanation.npz")
    stats, (N, P) = explanation.stats, explanation.shape
    B, F = 100, data.X_train.shape[1]
    assert N == rows and P == F and explanation.exact and explanation.kind == "shapley"
    assert stats["naive_rows"] == N * B * 2**P
    assert explanation.provenance["background_rows"] == B

    params = train(data.X_train.to_numpy(np.float32), data.y_train, data.steps, seed)
    answers = np.asarray(logit(params, data.X_test.to_numpy(np.float32)), np.float64)
    accuracy = 100 * np.mean((answers > 0) == data.y_test)
    majority = 100 * max(np.mean(data.y_test), np.mean(~data.y_test))

    got = blocks(printed)
    assert got["Data"][-3:] == [len(data.X_train), len(data.X_test), F]
    assert got["Model"][:5] == [F, 64, 64, 1, data.steps]
    assert got["Accuracy"] == [float(f"{accuracy:.1f}"), float(f"{majority:.1f}")]
    assert got["Explained"][-6:] == [N, B, P, 2, P, 2**P]
    assert got["Seconds"] == [round(stats["seconds"], 2), round(stats["compile_seconds"], 2)]
    share = round(100 * stats["model_rows"] / stats["naive_rows"], 1)
    assert got["Model rows"] == [stats["model_rows"], 2, stats["naive_rows"], share]
    worst = stats["efficiency_residual"].argmax()
    residual, bound = stats["efficiency_residual"][worst], stats["efficiency_bound"][worst]
    assert got["Efficiency"] == [float(f"{residual:.1e}"), float(f"{bound:.1e}")]
    assert (stats["efficiency_residual"] <= stats["efficiency_bound"]).all()

    table = printed.partition("Players by mean |value|\n")[2].partition("\n\n")[0].splitlines()
    size = np.abs(explanation.values).mean(axis=0)
    wanted = sorted(zip(-size, explanation.feature_names, strict=True))
    assert [line[4:].split()[-1] for line in table] == [f"{-s:.4f}" for s, _ in wanted]
    assert [line[4:].rsplit(maxsplit=1)[0].strip() for line in table] == [n for _, n in wanted]

    # The explained rows are held-out rows, named by their place, and the answers are the model's.
    places = [int(name.removeprefix("test row ")) for name in explanation.instance_names]
    own = data.X_test.loc[places].to_numpy(np.float32)
    assert explanation.data.astype(str).equals(data.shown.loc[places].astype(str))
    answer = np.asarray(jax.nn.sigmoid(logit(params, own)))
    total = explanation.base_values + explanation.values.sum(axis=1)
    np.testing.assert_allclose(total, answer, atol=stats["efficiency_bound"].max())


@pytest.mark.slow
def test_on_bundled_data_where_adult_is_not_found(nowhere, tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    assert main(["demo", "--rows", "40", "--seed", "3", "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert "Adult census table was not found" in printed.out
    assert "bundled with scikit-learn" in printed.out
    assert "adult/adult.data was not found. Looked in:" in " ".join(printed.out.split())
    assert "model rows: 100%" in printed.err  # the bar, and nothing of it among the results
    assert "\r" not in printed.out
    check(printed.out, out, demo_data(3), rows=40, seed=3)


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "adult" / "adult.test").is_file(), reason="needs the Adult table")
def test_on_adult(tmp_path, capsys):
    assert main(["demo", "--rows", "40", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "NOTE" not in printed
    data = demo_data(0)
    assert list(data.X_train.columns)[:3] == ["Age", "Country", "Education-Num"]
    check(printed, tmp_path, data, rows=40, seed=0)
    # Texts are shown where the model is given codes: the same people, column by column.
    texts, codes = data.shown["Relationship"], data.X_test["Relationship"]
    assert {"Husband", "Wife"} <= set(texts) and len(set(zip(texts, codes, strict=True))) == 6
    np.testing.assert_array_equal(data.shown["Age"], data.X_test["Age"])


@pytest.mark.slow
def test_more_rows_than_there_are(nowhere, tmp_path, capsys):
    assert main(["demo", "--rows", "143", "--out", str(tmp_path)]) == 0
    assert "142 test rows (all there are; 143 wanted)" in capsys.readouterr().out


def test_a_file_with_other_bytes_is_an_error_not_a_reason_for_other_data(
    nowhere, tmp_path, monkeypatch, capsys
):
    (tmp_path / "adult").mkdir()
    (tmp_path / "adult" / "adult.data").write_text("39, State-gov\n")
    monkeypatch.setenv("XAIJAX_DATA", str(tmp_path))
    assert main(["demo", "--out", str(tmp_path / "out")]) == 1
    printed = capsys.readouterr()
    assert not printed.out
    assert printed.err.startswith("xaijax: error: ") and printed.err.count("\n") == 1
    assert "SHA-256" in printed.err


def test_a_missing_extra_is_told_before_the_work(nowhere, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert main(["demo", "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert not printed.out and 'pip install "xaijax[data,plots]"' in printed.err


def test_a_folder_that_cannot_be_made(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["demo", "--out", str(tmp_path / "file" / "below")]) == 1
    assert "cannot make the folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv", [["--nope"], ["nope"], ["demo", "--rows", "0"], ["demo", "--rows", "x"], ["demo", "x"]]
)
def test_arguments_that_are_not_accepted(argv, capsys):
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert "usage: xaijax" in capsys.readouterr().err


def test_alone_it_prints_its_help(capsys):
    assert main([]) == 0
    assert "demo" in capsys.readouterr().out


@pytest.mark.slow
def test_as_a_module():
    command = [sys.executable, "-m", "xaijax", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert re.fullmatch(r"xaijax \d+\.\d+\.\d+\S*\n", done.stdout)
