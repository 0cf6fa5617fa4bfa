"""`xaijax explain`, `anchors`, `aec`, `report` and `doctor`, asked in this process."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import xaijax as xj
from xaijax.commands import doctor
from xaijax.commands.cli import main
from xaijax.commands.files import drawn, model_of, write_table

pandas = pytest.importorskip("pandas", reason="needs the extra [data]")
pytest.importorskip("matplotlib", reason="needs the extra [plots]")

MODELS = """
import xaijax as xj

def product(X):
    return X[:, 0] * X[:, 1] + X[:, 2]

made = xj.as_model(product, feature_names=["age", "income", "debt"])
number = 3

def _fails(X):
    raise RuntimeError("no luck")

fails = xj.as_model(_fails, backend="host")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    """A table, a fitted classifier, and functions, in the folder that is worked in."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(rng.integers(0, 4, (40, 3)), columns=["age", "income", "debt"])
    classifier = LogisticRegression().fit(table, np.where(table.age > table.debt, "yes", "no"))
    joblib.dump(classifier, "model.joblib")
    table["repaid"] = classifier.predict(table[["age", "income", "debt"]])
    table.to_csv("loans.csv", index=False)
    np.save("rows.npy", table[["age", "income", "debt"]].to_numpy(np.float64))
    Path("models.py").write_text(MODELS)
    Path("raises.py").write_text("{}['product of what?']")
    Path("broken.csv").write_text('a,b\n1,2\n1,2,3,"4')
    for name in ("broken.npy", "broken.joblib"):
        Path(name).write_bytes(b"nothing of the kind")
    return tmp_path


def explained(*more: str) -> int:
    return main(["explain", "--out", "run", *more])


@pytest.mark.slow
def test_explain_a_fitted_model(folder, capsys) -> None:
    given = ["--model", "model.joblib", "--data", "loans.csv", "--drop", "repaid"]
    assert explained(*given, "--output", "yes", "--rows", "5", "--background-rows", "7") == 0
    told = capsys.readouterr()
    assert "runs whatever code the file contains" in told.err
    names = ["explanation.npz", "values.csv", "beeswarm.png", "bar.png", "report.html"]
    assert {path.name for path in Path("run").iterdir()} == set(names)
    assert all(str(Path("run") / name) in told.out for name in names)
    assert "<h1>Explanation of model.joblib</h1>" in Path("run/report.html").read_text("utf-8")

    table = pandas.read_csv("loans.csv").drop(columns="repaid")
    model = xj.as_model(joblib.load("model.joblib"), output="yes")
    wanted = xj.Explainer(model, drawn(table, 7, 0))(table[:5], progress=False)
    np.testing.assert_array_equal(xj.load("run/explanation.npz").values, wanted.values)
    values = pandas.read_csv("run/values.csv", index_col=0)
    np.testing.assert_allclose(values[["age", "income", "debt"]], wanted.values, rtol=1e-12)


@pytest.mark.parametrize("name", ["models.py:product", "models:made"])
def test_explain_a_function_with_options_in_a_file(name, folder) -> None:
    Path("rows.npy").rename("rows#1.npy")
    Path("job.txt").write_text(
        f"# what is asked\n--model {name} --data rows#1.npy\n--no-page\n  # the index\n"
        "--index 'banzhaf'\n"
    )
    assert main(["explain", "@job.txt", "--out", "run", "--players", '{"both": [0, 1]}']) == 0
    found = xj.load("run/explanation.npz")
    assert found.kind == "banzhaf" and found.shape == (40, 2)
    assert {path.name for path in Path("run").iterdir()} == {"explanation.npz", "values.csv"}


def test_the_background_is_a_part_that_the_seed_draws(folder) -> None:
    rows = np.arange(30.0).reshape(10, 3)
    np.testing.assert_array_equal(drawn(rows, 4, 1), drawn(rows, 4, 1))
    assert len(drawn(rows, 4, 1)) == 4 and len(drawn(rows, 99, 1)) == 10
    assert not np.array_equal(drawn(rows, 4, 1), drawn(rows, 4, 2))


@pytest.mark.slow
def test_another_file_as_background_may_lack_what_is_dropped(folder) -> None:
    table = pandas.read_csv("loans.csv")
    table.drop(columns="repaid")[:6].to_csv("background.csv", index=False)
    given = ["--model", "model.joblib", "--data", "loans.csv", "--drop", "repaid", "--no-page"]
    assert explained(*given, "--background", "background.csv") == 0
    assert xj.load("run/explanation.npz").provenance["background_rows"] == 6


def test_an_output_is_a_class_where_there_are_some(folder) -> None:
    rows, labels = np.load("rows.npy"), np.arange(40) % 3
    for names in (["1", "2", "0"], [1, 2, 0], [False, True, True]):
        fitted = LogisticRegression().fit(rows, np.array(names)[labels])
        joblib.dump(fitted, "other.joblib")
        for label in fitted.classes_:
            assert model_of("other.joblib", str(label)).output == label
    assert model_of("models:product", "1").output == 1


@pytest.mark.slow
def test_report_of_what_was_saved(folder, capsys) -> None:
    assert explained("--model", "models:made", "--data", "rows.npy", "--no-page") == 0
    assert main(["report", "run/explanation.npz", "--out", "page.html"]) == 0
    assert "page.html" in capsys.readouterr().out
    assert "Shapley" in Path("page.html").read_text("utf-8")
    explainer = xj.Explainer(xj.as_model(lambda X: X[:, 0]), np.zeros((1, 3)))
    xj.sweep(explainer, np.load("rows.npy"), "swept", rows_per_part=20, progress=False)
    assert main(["report", "swept"]) == 0 and Path("report.html").is_file()


@pytest.mark.slow
def test_anchors(folder, capsys) -> None:
    given = ["--model", "model.joblib", "--data", "loans.csv", "--drop", "repaid", "--rows", "12"]
    assert main(["anchors", *given, "--target", "repaid", "--out", "rules.json"]) == 0
    told = capsys.readouterr().out
    rules = xj.Rules.load("rules.json")
    assert len(rules) == 12 and str(rules[0]) in told and "and 2 more" in told
    assert "THEN PREDICT repaid" in told
    assert main(["report", "rules.json", "--model", "a bank's", "--out", "page.html"]) == 0
    assert "bank&#39;s" in Path("page.html").read_text("utf-8")
    assert main(["anchors", *given, "--widen", "--out", "wide.json"]) == 0
    wide = xj.Rules.load("wide.json")
    assert wide.provenance["widen"] and wide.stats["widened"] > 0


def test_aec(folder, capsys) -> None:
    given = ["--data", "loans.csv", "--target", "repaid", "--bootstrap", "20"]
    assert main(["aec", *given, "--out", "run"]) == 0
    found = xj.load("run/explanation.npz")
    table = pandas.read_csv("loans.csv")
    wanted = xj.AEC(bootstrap=20).fit(table.drop(columns="repaid"), table.repaid)
    np.testing.assert_array_equal(found.values, wanted.explanation_.values)
    assert Path("run/effects.csv").is_file() and "age" in capsys.readouterr().out


WRONG = {
    "no such model": (["--model", "nowhere.joblib", "--data", "rows.npy"], "--model: there is no"),
    "no module": (["--model", "product", "--data", "rows.npy"], "--model must be module:name"),
    "no member": (
        ["--model", "models:none", "--data", "rows.npy"],
        "'models:none' is not there: models has no 'none'",
    ),
    "no function": (["--model", "models:number", "--data", "rows.npy"], "int"),
    "no rows": (["--model", "models:made", "--data", "none.csv"], "--data: there is no file"),
    "a format": (["--model", "models:made", "--data", "rows.xlsx"], "ends in none of .csv"),
    "drop": (
        ["--model", "model.joblib", "--data", "loans.csv", "--drop", "rent"],
        "--drop: loans.csv has no column 'rent'",
    ),
    "drop of an array": (
        ["--model", "models:made", "--data", "rows.npy", "--drop", "age"],
        "whose columns have no names",
    ),
    "an output of what is a Model": (
        ["--model", "models:made", "--data", "rows.npy", "--output", "yes"],
        "--output: models:made is a Model already",
    ),
    "a broken table": (
        ["--model", "models:made", "--data", "broken.csv"],
        "cannot be read: Parser",
    ),
    "a broken array": (["--model", "models:made", "--data", "broken.npy"], "cannot be read: "),
    "a module that raises": (
        ["--model", "raises.py:product", "--data", "rows.npy"],
        "--model: raises.py raised KeyError: 'product of what?'",
    ),
    "a model that raises": (
        ["--model", "models:fails", "--data", "rows.npy"],
        "--model: models:fails raised RuntimeError: no luck",
    ),
    "a text column": (["--model", "models:product", "--data", "loans.csv"], "repaid"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_line_and_status_1(name, folder, capsys) -> None:
    arguments, told = WRONG[name]
    assert explained(*arguments) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("xaijax: error: ") and printed.err.count("\n") == 1
    assert told in printed.err and not printed.out
    assert not Path("run").exists() or not list(Path("run").iterdir())


def test_a_damaged_model_is_told_after_what_opening_it_means(folder, capsys) -> None:
    assert explained("--model", "broken.joblib", "--data", "rows.npy") == 1
    first, last = capsys.readouterr().err.splitlines()
    assert "runs whatever code" in first and "--model: broken.joblib cannot be read: " in last


def test_a_missing_target_is_told(folder, capsys) -> None:
    assert main(["aec", "--data", "loans.csv", "--target", "rent", "--out", "run"]) == 1
    assert "--target: loans.csv has no 'rent'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--budgets", "3"], "--budgets"),
        (["--rows", "0"], "--rows: 0 is not a whole number of 1 or more"),
        (["--rows", "ten"], "--rows: invalid whole number value: 'ten'"),
        (["--background-rows", "0"], "--background-rows: 0 is not a whole number of 1 or more"),
        (["--seed", "-1"], "--seed: -1 is not a whole number of 0 or more"),
        (["--tolerance", "0"], "--tolerance: 0 is not a number above 0"),
        (["--players", "{age}"], "--players: it must be JSON, got '{age}'"),
        (["--estimator", "exactly"], "--estimator: invalid choice: 'exactly'"),
    ],
)
def test_options_that_cannot_be_read_are_one_line_and_status_2(options, told, folder, capsys):
    with pytest.raises(SystemExit) as ended:
        explained("--model", "models:made", "--data", "rows.npy", *options)
    printed = capsys.readouterr().err
    assert ended.value.code == 2 and told in printed and printed.count("\n") == 1
    assert printed.startswith("xaijax") and printed.endswith("--help)\n")
    assert not Path("run").exists()


def test_a_column_that_the_model_does_not_take_is_named(folder, capsys) -> None:
    assert explained("--model", "model.joblib", "--data", "loans.csv") == 1
    told = "--data: loans.csv has columns that the model does not take: repaid. Leave each out by"
    assert told in capsys.readouterr().err
    assert not Path("run").exists()


def test_a_column_called_base_value_is_told_before_the_work(folder, capsys) -> None:
    table = pandas.read_csv("loans.csv").drop(columns="repaid")
    table = table.rename(columns={"income": "base_value"})
    table.to_csv("base.csv", index=False)
    Path("counted.py").write_text(
        "import xaijax as xj\nfrom pathlib import Path\n"
        "def f(X):\n    Path('asked').touch()\n    X = X.to_numpy()\n"
        "    return X[:, 0] * X[:, 1] + X[:, 2]\n"
        "model = xj.as_model(f, backend='host', feature_names=['age', 'base_value', 'debt'])\n"
    )
    given = ["--model", "counted.py:model", "--data", "base.csv", "--rows", "2", "--no-page"]
    given += ["--background-rows", "3"]
    assert explained(*given) == 1
    told = capsys.readouterr().err
    assert "a column is called 'base_value'" in told and not Path("asked").exists()
    assert not Path("run").exists()
    assert explained(*given, "--players", '{"income": ["base_value"]}') == 0  # what it says
    written = pandas.read_csv("run/values.csv", index_col=0)
    assert {"income", "base_value"} <= set(written.columns)


def test_pages_need_their_extra_before_the_work(folder, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert explained("--model", "models:made", "--data", "rows.npy") == 1
    assert 'pip install "xaijax[data,plots]"' in capsys.readouterr().err
    assert not Path("run").exists()


def test_doctor(capsys, monkeypatch) -> None:
    monkeypatch.setenv("XAIJAX_DATA", "/home/somebody")
    needs = ["jinja2>=3; extra == 'plots'", 'no-such>=1; (x) and extra == "odd"', "jax>=0.4"]
    monkeypatch.setattr(doctor.importlib.metadata, "requires", lambda name: needs)
    assert main(["doctor"]) == 0
    told = capsys.readouterr().out
    assert (
        f"xaijax       {xj.__version__}" in told and "[odd]        not installed: no-such" in told
    )
    assert "jax " in told and "are right" in told
    assert "XAIJAX_DATA is set" in told and "somebody" not in told


def test_doctor_without_a_device_is_one_line(capsys, monkeypatch) -> None:
    def none():
        raise RuntimeError("no CUDA")

    monkeypatch.setattr(doctor.jax, "local_devices", none)
    assert main(["doctor"]) == 1
    told = capsys.readouterr()
    assert "JAX has no device: RuntimeError: no CUDA" in told.err and "Core" in told.out


def test_doctor_tells_values_that_are_wrong(capsys, monkeypatch) -> None:
    class Wrong(doctor.Explainer):
        def __call__(self, *given, **options):
            found = super().__call__(*given, **options)
            return xj.Explanation(2 * found.values, found.base_values)

    monkeypatch.setattr(doctor, "Explainer", Wrong)
    assert main(["doctor"]) == 1
    assert "Do not trust this installation" in capsys.readouterr().err


COMMANDS = "demo explain anchors aec report sweep doctor guest host arbiter".split()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_ends_with_an_example(command, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert f"xaijax {command}" in told.partition("\n\n")[2]  # and not only where usage is told


@pytest.mark.slow
def test_the_command_as_it_is_typed(folder) -> None:
    given = ["--model", "models:made", "--data", "rows.npy", "--out", "run", "--no-page"]
    done = subprocess.run(
        [sys.executable, "-m", "xaijax", "explain", *given], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert Path("run/values.csv").is_file()


def test_no_text_of_a_table_is_a_formula(tmp_path: Path) -> None:
    frame = pandas.DataFrame(
        [[-1.5, "=1+1", -2, "plain"], [2.0, "-x", 3, "a=b"], [0.0, "@y", -4, ""]],
        columns=["-age", "+text", "n", "\tnone"],
        index=pandas.Index(["=cmd", "row", "@two"], name="+who"),
    )
    frame["-kind"] = pandas.Categorical(["+a", "b", "+a"])
    frame["said"] = pandas.array(["=s", None, "-t"], dtype="string")
    before = frame.copy(deep=True)
    path = write_table(frame, tmp_path / "values.csv")
    pandas.testing.assert_frame_equal(frame, before)
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["'+who", "'-age", "'+text", "n", "'\tnone", "'-kind", "said"]
    assert [row[0] for row in rows[1:]] == ["'=cmd", "row", "'@two"]
    assert [row[2] for row in rows[1:]] == ["'=1+1", "'-x", "'@y"]
    assert [row[4] for row in rows[1:]] == ["plain", "a=b", ""]
    assert [row[5] for row in rows[1:]] == ["'+a", "b", "'+a"]
    assert [row[6] for row in rows[1:]] == ["'=s", "", "'-t"]
    assert [(float(row[1]), int(row[3])) for row in rows[1:]] == [(-1.5, -2), (2, 3), (0, -4)]
    pairs = pandas.MultiIndex.from_tuples([("=no", "-a"), ("yes", "b")], names=["output", None])
    path = write_table(pandas.DataFrame([[-1.0, 2.0]], columns=pairs), path)
    told = pandas.read_csv(path, header=[0, 1], index_col=0)
    assert list(told) == [("'=no", "'-a"), ("yes", "b")] and told.iloc[0].tolist() == [-1, 2]


def test_a_header_that_is_a_formula_in_values_csv(folder) -> None:
    Path("formula.py").write_text(
        "import xaijax as xj\n"
        "names = ['=HYPERLINK(1)', '-b', 'c']\n"
        "made = xj.as_model(lambda X: X[:, 0] * X[:, 1] + X[:, 2], feature_names=names)\n"
    )
    assert explained("--model", "formula.py:made", "--data", "rows.npy", "--no-page") == 0
    with open("run/values.csv", newline="") as file:
        header, first = list(csv.reader(file))[:2]
    assert header == ["instance", "'=HYPERLINK(1)", "'-b", "c", "base_value"]
    values = xj.load("run/explanation.npz").values
    np.testing.assert_allclose([float(one) for one in first[1:4]], values[0], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no modes there")
def test_results_are_for_their_owner_alone(folder) -> None:
    given = ["--model", "models:made", "--data", "rows.npy", "--rows", "4"]
    assert explained(*given, "--background-rows", "4") == 0
    for name in ("explanation.npz", "values.csv", "beeswarm.png", "bar.png", "report.html"):
        assert Path("run", name).stat().st_mode & 0o777 == 0o600, name
    assert main(["aec", "--data", "loans.csv", "--drop", "repaid", "--target", "debt"]
                + ["--out", "effects", "--task", "regression"]) == 0  # fmt: skip
    assert Path("effects/effects.csv").stat().st_mode & 0o777 == 0o600


def test_a_new_run_leaves_nothing_of_an_older_one(folder) -> None:
    Path("run").mkdir()
    for name in ("beeswarm.png", "bar.png", "report.html", "values.csv"):
        Path("run", name).write_text("the user's own")
    given = ["--model", "models:made", "--data", "rows.npy", "--rows", "4", "--no-page"]
    assert explained(*given) == 0
    assert Path("run/bar.png").read_text() == "the user's own", "it was no run"
    Path("run/notes.txt").touch()
    assert explained(*given) == 0
    left = {path.name for path in Path("run").iterdir()}
    assert left == {"explanation.npz", "values.csv", "notes.txt"}
    Path("run/report.html").touch()
    assert explained("--model", "models:fails", "--data", "rows.npy", "--no-page") == 1
    assert Path("run/report.html").exists(), "a run that failed has replaced nothing"


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"a.txt": "--rows 3\n--model 'open\n"}, "@a.txt, line 2: No closing quotation"),
        ({"a.txt": "# fine\n@a.txt\n"}, "@a.txt includes itself"),
        ({"a.txt": "@b.txt", "b.txt": "--rows 3\n@./a.txt"}, "@./a.txt includes itself"),
        ({}, "@a.txt cannot be read"),
        ({"a.txt": b"\xff\xfe-\x00"}, "@a.txt is no text in UTF-8"),
    ],
)
def test_a_file_of_options_that_cannot_be_read(files, told, folder, capsys) -> None:
    for name, text in files.items():
        Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SystemExit) as ended:
        explained("@a.txt")
    printed = capsys.readouterr().err
    assert ended.value.code == 2 and told in printed and printed.count("\n") == 1


def test_files_of_options_may_name_others_twice(folder, capsys) -> None:
    Path("rows.txt").write_bytes(b"\xef\xbb\xbf--rows 3\n")  # with a mark of the byte order
    Path("a.txt").write_text("@rows.txt\n@rows.txt --model models:made --data rows.npy\n--no-page")
    assert explained("@a.txt") == 0
    assert xj.load("run/explanation.npz").shape == (3, 3)


ENDS = {
    "ends.py": "import sys\nsys.exit(7)\n",
    "later.py": (
        "import sys, xaijax as xj\n"
        "def f(X):\n    sys.exit(7)\n"
        "model = xj.as_model(f, backend='host')\n"
        "import numpy as np\n"
        "explainer = xj.Explainer(model, np.zeros((1, 3)))\n"
        "def ends():\n    sys.exit()\n"
        "def takes(X):\n    return explainer\n"
        "def none():\n    pass\n"
        "def lines():\n    raise ValueError('two\\nlines')\n"
    ),
}


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["explain", "--model", "ends.py:f"], "--model: ends.py called sys.exit(7) when it was op"),
        (["explain", "--model", "ends:f"], "--model: ends called sys.exit(7)"),
        (["explain", "--model", "later.py:model"], "--model: later.py:model raised SystemExit: 7"),
        (["sweep", "ends.py:f"], "EXPLAINER: ends.py called sys.exit(7)"),
        (["sweep", "later.py:ends"], "EXPLAINER: later.py:ends raised SystemExit: "),
        (["sweep", "later.py:takes"], "later.py:takes raised TypeError: takes() missing 1"),
        (["sweep", "later.py:none"], "EXPLAINER: later.py:none returned None"),
        (["sweep", "later.py:lines"], "later.py:lines raised ValueError: two lines"),
        (["sweep", "later.py:explainer"], "later.py:explainer raised SystemExit: 7"),
        (["sweep", "later.py:np"], "explainer"),
    ],
)
def test_code_that_ends_or_makes_nothing_is_one_line_and_status_1(
    command, told, folder, capsys
) -> None:
    for name, text in ENDS.items():
        Path(name).write_text(text)
    sys.modules.pop("ends", None)
    kind, *given = command
    more = ["rows.npy", "out", "--quiet"] if kind == "sweep" else ["--data", "rows.npy"]
    more += [] if kind == "sweep" else ["--out", "run", "--no-page"]
    assert main([kind, *given, *more]) == 1
    printed = capsys.readouterr().err
    assert told in printed and printed.count("\n") == 1 and printed.startswith("xaijax: error: ")


@pytest.mark.parametrize("out", ["nowhere/rules.json", "there"])
def test_a_file_that_cannot_be_written_is_told_before_the_search(out, folder, capsys) -> None:
    Path("there").mkdir()
    given = ["--model", "models:fails", "--data", "rows.npy", "--out", out]
    assert main(["anchors", *given]) == 1
    assert capsys.readouterr().err.startswith("xaijax: error: --out: "), "and not: no luck"
    assert main(["report", "none.npz", "--out", out]) == 1
    assert capsys.readouterr().err.startswith("xaijax: error: --out: ")
