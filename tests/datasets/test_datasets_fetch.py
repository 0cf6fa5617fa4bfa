"""The look-up of a table's file, with small files and a server of this process's own."""

from __future__ import annotations

import functools
import hashlib
import http.server
import io
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from xaijax import datasets
from xaijax.datasets import fetch, tables
from xaijax.datasets.fetch import TableFile, find

pytest.importorskip("pandas", reason="needs the extra [data]")
pooch = pytest.importorskip("pooch", reason="needs the extra [data]")

CONTENT = b"a,b\n1,2\n"
FILE = TableFile("t/small.csv", (hashlib.sha256(CONTENT).hexdigest(),), "https://example.org/t")


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty data folder and an empty cache below `tmp_path`."""
    monkeypatch.setenv("XAIJAX_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache" / name)
    monkeypatch.setattr(fetch, "TIMEOUT", 2.0)


def put(root: Path, content: bytes = CONTENT, place: str = FILE.place) -> Path:
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str, list[str]]]:
    """A folder, the address it is served at, and the requests that came."""
    folder = tmp_path / "served"
    folder.mkdir()
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            asked.append(str(args[0]))

    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


def test_the_folder_comes_before_the_cache(tmp_path: Path) -> None:
    in_folder = put(tmp_path / "data")
    in_cache = put(tmp_path / "cache/xaijax")
    assert find(FILE).path == in_folder
    in_folder.unlink()
    assert find(FILE).path == in_cache


def test_other_bytes_in_the_folder_are_an_error_that_names_both_digests(tmp_path: Path) -> None:
    put(tmp_path / "data", b"changed")
    put(tmp_path / "cache/xaijax")  # good, yet no way around the folder's own file
    with pytest.raises(datasets.DataHashError) as raised:
        find(FILE)
    assert FILE.sha256[0] in str(raised.value)
    assert hashlib.sha256(b"changed").hexdigest() in str(raised.value)


def test_a_changed_file_is_checked_again(tmp_path: Path) -> None:
    path = put(tmp_path / "data")
    assert find(FILE).sha256 == FILE.sha256[0]
    path.write_bytes(b"changed afterwards")
    with pytest.raises(datasets.DataHashError):
        find(FILE)


def test_a_file_is_downloaded_once(
    tmp_path: Path, served: tuple[Path, str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address, asked = served
    (folder / "small.csv").write_bytes(CONTENT)
    monkeypatch.delenv("XAIJAX_DATA")
    file = replace(FILE, url=f"{address}/small.csv")
    assert find(file).path == find(file).path == tmp_path / "cache/xaijax" / FILE.place
    assert len(asked) == 1


def test_a_spoilt_cache_is_downloaded_again(
    tmp_path: Path, served: tuple[Path, str, list[str]]
) -> None:
    folder, address, _ = served
    (folder / "small.csv").write_bytes(CONTENT)
    put(tmp_path / "cache/xaijax", b"half a fi")
    assert find(replace(FILE, url=f"{address}/small.csv")).path.read_bytes() == CONTENT


def test_a_download_with_other_bytes_is_refused_and_not_kept(
    tmp_path: Path, served: tuple[Path, str, list[str]]
) -> None:
    folder, address, _ = served
    (folder / "small.csv").write_bytes(b"not what was pinned")
    with pytest.raises(datasets.DataHashError, match=FILE.sha256[0]):
        find(replace(FILE, url=f"{address}/small.csv"))
    assert not list((tmp_path / "cache").rglob("*.csv"))


def test_a_member_of_an_archive(tmp_path: Path, served: tuple[Path, str, list[str]]) -> None:
    folder, address, _ = served
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("inner.csv", CONTENT)
    (folder / "all.zip").write_bytes(packed.getvalue())
    file = replace(
        FILE,
        url=f"{address}/all.zip",
        member="inner.csv",
        archive_sha256=hashlib.sha256(packed.getvalue()).hexdigest(),
    )
    found = find(file)
    assert found.path == tmp_path / "cache/xaijax" / FILE.place
    assert found.path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    "url",
    [None, "http://127.0.0.1:9/small.csv", "https://xaijax.invalid/small.csv"],
    ids=["no address", "refused", "no such host"],
)
def test_nowhere_is_an_error_within_seconds(tmp_path: Path, url: str | None) -> None:
    started = time.monotonic()
    with pytest.raises(datasets.DataNotFoundError) as raised:
        find(replace(FILE, url=url))
    assert time.monotonic() - started < 15
    text = str(raised.value)
    assert str(tmp_path / "data/t/small.csv") in text
    assert str(tmp_path / "cache/xaijax/t/small.csv") in text
    assert "XAIJAX_DATA" in text and FILE.page in text
    assert (url or "no stable address") in text


def test_an_error_of_the_server_is_not_found(served: tuple[Path, str, list[str]]) -> None:
    _, address, asked = served
    with pytest.raises(datasets.DataNotFoundError):
        find(replace(FILE, url=f"{address}/absent.csv"))
    assert len([line for line in asked if "absent" in line]) == 1  # one try


@pytest.mark.parametrize("missing", ["pandas", "pooch"])
def test_a_missing_library_names_the_extra(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(datasets.MissingExtraError, match=r'pip install "xaijax\[data\]"'):
        datasets.titanic()


@pytest.mark.slow
def test_importing_loads_neither_pandas_nor_pooch() -> None:
    code = (
        "import sys, xaijax, xaijax.datasets\n"
        "print([name for name in ('pandas', 'pooch', 'requests') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_loaders_read_small_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = (
        b"39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White,"
        b" Male, 2174, 0, 40, United-States, <=50K\n"
        b"28, ?, 338409, Bachelors, 13, Divorced, ?, Wife, Black, Female, 0, 0, 40, Cuba, >50K\n\n"
    )
    test = b"|1x3 Cross validator\n" + train.splitlines()[1] + b".\n\n"
    for name, content in (("adult-train", train), ("adult-test", test)):
        file = tables.files()[name]
        put(tmp_path / "data", content, file.place)
        pinned = replace(file, sha256=(hashlib.sha256(content).hexdigest(),))
        monkeypatch.setitem(tables.files(), name, pinned)

    X, y = datasets.adult()
    assert X.columns.tolist() == list(
        tables.files()["adult-train"].columns[:-1]
    ) and y.tolist() == [False, True]
    assert X["workclass"].tolist() == ["State-gov", "?"]
    X, y = datasets.adult("qii", part="all")
    assert X.shape == (3, 13) and y.tolist() == [False, True, True]
    table = datasets.adult("shap", part="test")
    # The one test row is coded among the training values, of which it alone has the second.
    assert table.X["Country"].tolist() == [0] and table.X["Race"].tolist() == [0]
    assert table.X["Occupation"].tolist() == [0] and table.X["Relationship"].tolist() == [5]
    assert table.sha256 == hashlib.sha256(test).hexdigest()
    assert table.path == tmp_path / "data" / tables.files()["adult-test"].place


def test_two_files_are_stacked_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, quality in (("wine-red", b"5"), ("wine-white", b"6")):
        content = b"pH;quality\n3.5;" + quality + b"\n"
        file = tables.files()[name]
        put(tmp_path / "data", content, file.place)
        pinned = replace(file, sha256=(hashlib.sha256(content).hexdigest(),))
        monkeypatch.setitem(tables.files(), name, pinned)
    table = datasets.wine()
    assert table.y.tolist() == [5, 6] and table.X.index.tolist() == [0, 1]
    assert table.sha256 == ",".join(found.sha256 for found in table.files)


@pytest.mark.parametrize(
    ("loader", "keywords"),
    [
        (datasets.adult, {"reading": "codes"}),
        (datasets.adult, {"part": "validation"}),
        (datasets.bike, {"reading": "hour"}),
        (datasets.cervical, {"reading": "qii"}),
    ],
)
def test_an_unknown_reading_is_refused(loader, keywords: dict[str, str]) -> None:
    (parameter,) = keywords
    with pytest.raises(ValueError, match=f"{parameter} must be one of"):
        loader(**keywords)
