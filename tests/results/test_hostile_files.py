"""Files from anyone: one typed error that names the path, and memory bounded by the file's size."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import polars as pl
import pytest

import xaijax as xj
from xaijax.core.errors import InputError, InputTypeError
from xaijax.federated import Part, load_part
from xaijax.results.explanation import Explanation


def explained(**changes):
    fields = {"values": np.ones((2, 3)), "base_values": np.zeros(2), "data": np.ones((2, 3))}
    stats = {"seconds": np.float64(1.5), "names": np.array(["a", None], object)}
    return Explanation(**(fields | {"stats": stats} | changes))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "one.npz"
    explained(data=pd.DataFrame({"a": pd.Categorical(["u", "v"]), "b": ["x", None]})).save(path)
    return path.read_bytes()


def loaded(path, content):
    """Whether the file is read; else the one error, which names the path."""
    path.write_bytes(content)
    try:
        return isinstance(xj.load(path), Explanation)
    except InputError as error:
        assert type(error) is InputError and str(error).startswith(f"path: {path}")
        return False


def test_truncated_and_flipped_files(saved, tmp_path):
    path, read = tmp_path / "one.npz", 0
    assert loaded(path, saved)
    for end in range(0, len(saved), 31):
        assert not loaded(path, saved[:end])
    for place in range(0, len(saved), 17):
        for bit in (0x01, 0x80):
            changed = bytearray(saved)
            changed[place] ^= bit
            read += loaded(path, bytes(changed))
    assert read < len(saved) // 17  # a date, say, may be changed; sums notice the rest


def members_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(members, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in members.items() if isinstance(members, dict) else members:
            archive.writestr(zipfile.ZipInfo(name), content, compression)
    return out.getvalue()


def with_meta(content, change):
    members = members_of(content)
    meta = json.loads(members["meta.json"])
    change(meta)
    return zipped(members | {"meta.json": json.dumps(meta).encode()})


def header(descr, shape, body=b""):
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


def with_values(content, member):
    members = members_of(content)
    return zipped(members | {"values.0.npy": member})


def with_field(name, value):
    return lambda content: with_meta(content, lambda meta: meta["fields"].update({name: value}))


def last_entry(content, offset, bits):
    """With bits set in the last entry of the directory: 8 is its flags, 10 its compression."""
    changed = bytearray(content)
    changed[content.rindex(b"PK\x01\x02") + offset] |= bits
    return bytes(changed)


DEEP = "[" * 100_000 + "]" * 100_000
STATS = "stats"
HOSTILE = {
    "schema -1": lambda c: with_meta(c, lambda m: m.update(schema=-1)),
    "schema 99": lambda c: with_meta(c, lambda m: m.update(schema=99)),
    "schema true": lambda c: with_meta(c, lambda m: m.update(schema=True)),
    "schema text": lambda c: with_meta(c, lambda m: m.update(schema="1")),
    "another format": lambda c: with_meta(c, lambda m: m.update(format=["x"])),
    "no fields": lambda c: with_meta(c, lambda m: m.update(fields=[])),
    "unknown field": with_field("model", 3),
    "stats no mapping": with_field(STATS, 7),
    "complex values": lambda c: with_values(
        c, header("<c16", (2, 3), np.ones(6, np.complex128).tobytes())
    ),
    "deep meta": lambda c: zipped(members_of(c) | {"meta.json": DEEP.encode()}),
    "deep objects": lambda c: zipped(
        {k: DEEP.encode() if "names" in k else v for k, v in members_of(c).items()}
    ),
    "deep header": lambda c: with_values(c, b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 0xFFFF),
    "huge shape": lambda c: with_values(c, header("<f8", (1 << 40,))),
    "negative shape": lambda c: with_values(c, header("<f8", (-1, -6), bytes(48))),
    "huge item": lambda c: with_values(c, header("|V1000000000", (1,))),
    "objects": lambda c: with_values(c, header("|O", (2, 3), bytes(48))),
    "empty array": lambda c: with_values(c, b""),
    "encrypted": lambda c: last_entry(c, 8, 1),
    "absolute name": lambda c: zipped(members_of(c) | {"/etc/passwd": b"x"}),
    "name of a folder above": lambda c: zipped(members_of(c) | {"../x.npy": b"x"}),
    "unknown compression": lambda c: last_entry(c, 10, 0x63),
    "pandas attribute": with_field(STATS, {"x": {"$pandas": "DataFrame"}}),
    "pandas method": with_field(STATS, {"x": {"$pandas": "read_pickle"}}),
    "object scalar": with_field(STATS, {"x": {"$scalar": ["O", "00" * 8]}}),
    "empty scalar": with_field(STATS, {"x": {"$scalar": ["<f8", ""]}}),
    "unknown mark": with_field(STATS, {"x": {"$module": "os"}}),
    "bytes": with_field(STATS, {"x": {"$bytes": 5}}),
    "list as key": with_field(STATS, {"$dict": [[[1], 2]]}),
    "member used twice": with_field("base_values", {"$array": "values.0"}),
    "member that is not there": with_field("base_values", {"$array": "nothing"}),
    "array as objects": with_field(STATS, {"x": {"$array": 5}}),
    "huge objects": lambda c: with_meta(
        c, lambda m: m["fields"][STATS]["names"].update(shape=[1 << 40])
    ),
    "polars attribute": with_field(
        "data", {"$frame": {"library": "polars", "series": [
            {"name": "a", "dtype": "read_csv", "values": [1, 2], "missing": []}]}}
    ),
    "pandas dtype": with_field(
        "data", {"$frame": {"library": "pandas", "index": {"range": [0, 2, 1], "name": None},
            "columns": {"range": [0, 1, 1], "name": None},
            "series": [{"kind": "nullable", "dtype": "object", "values": [1, 2], "missing": []}]}}
    ),
    "another library": with_field("data", {"$frame": {"library": "os", "series": []}}),
    "columns without end": with_field(
        "data", {"$frame": {"library": "pandas", "index": {"range": [0, 2, 1], "name": None},
            "columns": {"range": [0, 1 << 40, 1], "name": None}, "series": []}}
    ),
    "not a zip": lambda c: b"PK\x03\x04" + c[:10],
    "empty": lambda c: b"",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_get_the_one_error(name, saved, tmp_path):
    content = HOSTILE[name](saved)
    assert content != saved
    tracemalloc.start()
    try:
        assert not loaded(tmp_path / "one.npz", content)
        # Bytes, their text, its lists, and what an error shows: a few dozen times the file.
        assert tracemalloc.get_traced_memory()[1] < 1 << 20 + 60 * len(content)
    finally:
        tracemalloc.stop()


def test_two_members_of_one_name(saved, tmp_path):
    members = [*members_of(saved).items()]
    with pytest.warns(UserWarning, match="Duplicate name"):
        content = zipped([*members, members[1]])
    assert not loaded(tmp_path / "one.npz", content)


def test_a_zip_bomb_is_not_unpacked_unless_allowed(tmp_path):
    size = 1 << 24
    path = tmp_path / "one.npz"
    explained(data=np.zeros((2, size // 16))).save(path)
    path.write_bytes(zipped(members_of(path.read_bytes()), zipfile.ZIP_DEFLATED))
    assert path.stat().st_size < size // 100
    tracemalloc.start()
    with pytest.raises(InputError, match=r"bytes, more than .* the file itself has. Say max_bytes"):
        xj.load(path)
    assert tracemalloc.get_traced_memory()[1] < size // 4  # what it would take is `size`
    tracemalloc.stop()
    with pytest.raises(InputError, match="that max_bytes= allows"):
        xj.load(path, max_bytes=size)
    assert xj.load(path, max_bytes=size + (1 << 16)).data.nbytes == size
    with pytest.raises(InputTypeError, match="max_bytes must be a whole number"):
        xj.load(path, max_bytes="1 GB")


@pytest.mark.parametrize("library", [pd, pl])
def test_missing_values_and_frames_still_come_back(library, tmp_path):
    frame = library.DataFrame({"a": [1, 2], "b": ["x", None]})
    path = tmp_path / "one.npz"
    explained(data=frame, stats={"missing": [pd.NA, pd.NaT]}).save(path)
    again = xj.load(path)
    assert again.data.equals(frame)
    assert again.stats["missing"][0] is pd.NA and again.stats["missing"][1] is pd.NaT


@pytest.mark.parametrize("act", [explained().save, xj.load, lambda p: xj.Rules.load(p)])
def test_paths_that_are_none(act, tmp_path):
    with pytest.raises(InputError, match="path: .*null character"):
        act("a\0b")
    with pytest.raises(InputTypeError, match="path: got bytes"):
        act(b"name")
    with pytest.raises(InputError, match="path: 'aaa.*5,000 characters.*shorter"):
        act("a" * 5_000)
    with pytest.raises((InputError, OSError), match="folder|directory"):
        act(tmp_path)


def test_the_longest_name_that_the_system_takes(tmp_path):
    """The temporary name beside it is longer than it."""
    path = tmp_path / ("a" * 251 + ".npz")
    explained().save(path)
    assert isinstance(xj.load(path), Explanation)


@pytest.mark.slow
def test_what_killed_saves_left_is_removed_and_nothing_else(tmp_path):
    path = tmp_path / "one.npz"
    stale = tmp_path / f".one.npz.{'0' * 32}.tmp"
    script = (
        "import sys; from pathlib import Path\n"
        "from xaijax.results.files.npz import new_temporary\n"
        "name, file = new_temporary(Path(sys.argv[1])); file.write(b'half'); file.flush()\n"
        "print(name, flush=True); sys.stdin.read()\n"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert writer.stdout is not None
        alive = tmp_path / os.path.basename(writer.stdout.readline().strip())
        others = [tmp_path / name for name in (".one.npz.tmp", f".two.npz.{'0' * 32}.tmp", "x.tmp")]
        for one in (stale, *others):
            one.write_bytes(b"half")
        explained().save(path)
        assert not stale.exists() and all(one.exists() for one in (alive, *others))
    finally:
        writer.kill()
        writer.communicate()
    explained().save(path)
    assert not alive.exists() and all(one.exists() for one in others)
    assert isinstance(xj.load(path), Explanation)


def test_parts_and_rules_from_anyone(tmp_path):
    path = tmp_path / "part.npz"
    Part("linear", {"weights": np.ones(3)}).save(path)
    content = path.read_bytes()
    np.testing.assert_array_equal(load_part(path).arrays["weights"], np.ones(3))
    for end in range(0, len(content), 41):
        path.write_bytes(content[:end])
        with pytest.raises(InputError, match="part"):
            load_part(path)
    members = members_of(content)
    path.write_bytes(zipped(members | {"weights.npy": header("<f8", (1 << 40,))}))
    with pytest.raises(InputError, match="part"):
        load_part(path)
    with pytest.raises(InputError, match="part"):
        load_part("a\0b")
    for text in (DEEP, "{}", "[]", '{"format": 1}', b"\xff\xfe"):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(InputError, match=r"Rules"):
            xj.Rules.load(path)
