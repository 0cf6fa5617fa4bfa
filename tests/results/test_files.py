"""`Explanation.save` and `load`: an exact round trip, no pickle, no half-written file."""

from __future__ import annotations

import datetime
import json
import os
import zipfile
import zoneinfo

import ml_dtypes
import numpy as np
import pytest

from xaijax.core.errors import InputError, InputTypeError
from xaijax.methods.loading import load
from xaijax.results.explanation import Explanation


def make(**changes):
    rng = np.random.default_rng(0)
    fields = {
        "values": rng.normal(size=(4, 3, 2)),
        "base_values": rng.normal(size=(4, 2)),
        "std_errors": np.where(rng.random((4, 3, 2)) < 0.3, np.nan, 1e-300),
        "data": rng.normal(size=(4, 3)).astype(np.float32),
        "feature_names": ("a", "größe", "c\0\ud800"),
        "output_names": ("no", "yes"),
        "instance_names": ("1", "2", "3", ""),
        "exact": False,
        "kind": "banzhaf",
    }
    return Explanation(**(fields | changes))


def there_and_back(explanation, tmp_path):
    path = tmp_path / "explanation.npz"
    explanation.save(path)
    return load(path)


def assert_same(a, b):
    """Equal types, dtypes and bytes, all the way down."""
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if a.dtype == object:
            for x, y in zip(a.flat, b.flat, strict=True):
                assert_same(x, y)
        else:
            assert a.tobytes() == b.tobytes()
    elif isinstance(a, np.generic):
        assert (a.dtype, a.tobytes()) == (b.dtype, b.tobytes())
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    else:
        assert a == b or (a != a and b != b)


def test_every_field_comes_back(tmp_path):
    explanation = make()
    again = there_and_back(explanation, tmp_path)
    for name in ("values", "base_values", "std_errors", "data"):
        assert_same(getattr(explanation, name), getattr(again, name))
    for name in ("feature_names", "output_names", "instance_names", "exact", "kind"):
        assert getattr(again, name) == getattr(explanation, name)
    assert again.std_errors is not None and np.isnan(again.std_errors).any()


def test_empty_fields_come_back(tmp_path):
    again = there_and_back(
        Explanation(values=np.zeros((2, 1)), base_values=np.zeros(2), exact=True), tmp_path
    )
    assert again.std_errors is None and again.data is None
    assert again.output_names is None and again.instance_names is None and again.exact is True


def test_stats_and_provenance_come_back(tmp_path):
    stats = {
        "model_rows": 2**70,
        "seconds": 0.1,
        "nothing": float("nan"),
        "least": -float("inf"),
        "residual": np.array([1e-300, np.nan, -0.0, 5e-324]),
        "count": np.int64(7),
        "error": np.float32(0.1),
        "flag": np.bool_(True),
        "half": np.array([1.5, 2.5], dtype=ml_dtypes.bfloat16),
        "when": np.datetime64("2024-01-02T03:04", "ns"),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "texts": np.array(["a", "bcd"]),
        "objects": np.array([["x", None], [1, (2, [3.5])]], dtype=object),
        "empty": np.zeros((0, 3), dtype=np.int8),
        "none": None,
        "yes": True,
    }
    provenance = {
        "bounds": (0, 1.0),
        "versions": {"jax": "0.12", "numpy": ["2", ("x",)]},
        "groups": {3: "c", ("a", 1): [2]},
        "$array": "a key that looks like a mark",
        "digest": b"\x00\xff",
    }
    again = there_and_back(make(stats=stats, provenance=provenance), tmp_path)
    assert_same(dict(again.stats), stats)
    assert_same(dict(again.provenance), provenance)


ZONE = zoneinfo.ZoneInfo("Europe/Berlin")
TIMES = [
    datetime.date(2024, 2, 29),
    datetime.time(23, 59, 59, 999_999),
    datetime.datetime(1, 1, 1, 0, 0, 0, 1),
    datetime.timedelta(-3, 5, 7),
    datetime.datetime(2024, 10, 27, 2, 30, tzinfo=ZONE, fold=1),
    datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC),
    datetime.time(3, 4, tzinfo=datetime.timezone(datetime.timedelta(minutes=-90))),
    None,
]


@pytest.mark.parametrize(
    "data",
    [
        np.arange(24, dtype=np.uint8).reshape(4, 3, 2),
        np.arange(12).reshape(4, 3) > 5,
        np.array([[1.5], [np.nan], [np.inf], [-0.0]], dtype=np.float16),
        np.array(
            [["a", None], ["b\0", 1.5], ["", float("nan")], ["x", np.float64(2)]], dtype=object
        ),
        np.array([["a"], ["bc"], [""], ["d"]]),
        np.array([[time] for time in TIMES[:4]], dtype=object),
        np.array([[time] for time in TIMES[4:]], dtype=object),
        np.arange(4).reshape(4, 1).astype(ml_dtypes.bfloat16),
    ],
    ids=lambda data: str(data.dtype),
)
def test_array_data_comes_back(data, tmp_path):
    assert_same(there_and_back(make(data=data), tmp_path).data, data)


def test_pandas_data_comes_back(tmp_path):
    pd = pytest.importorskip("pandas")
    naive = pd.to_datetime(["2024-01-01", None, "2024-03-01", "2024-07-01"])
    data = pd.DataFrame(
        {
            "int8": np.array([1, -2, 3, 4], dtype=np.int8),
            "float": [1.5, np.nan, -0.0, np.inf],
            "bool": [True, False, True, True],
            "text": pd.Series(["a", None, "", "b\0"], dtype="str"),
            "string": pd.Series(["a", pd.NA, "", "b"], dtype="string"),
            "object": pd.Series(["a", None, float("nan"), 3], dtype=object),
            "all text as object": pd.Series(["a", "b", "c", "d"], dtype=object),
            "missing": pd.Series([pd.NA, pd.NaT, None, "x"], dtype=object),
            "category": pd.Categorical(["v", None, "u", "v"], categories=["v", "u", "w"]),
            "ordered": pd.Categorical([3, 1, 3, 1], categories=[3, 1], ordered=True),
            "Int64": pd.array([2**62 + 1, None, 3, 4], dtype="Int64"),
            "Float32": pd.array([1.5, None, 3, 4], dtype="Float32"),
            "boolean": pd.array([True, None, False, True], dtype="boolean"),
            "time": naive,
            "zoned": naive.tz_localize("Europe/Berlin"),
            "span": pd.to_timedelta([1, None, 3, 4], unit="s"),
            7: [1, 2, 3, 4],
        },
        index=pd.Index(["w", "x", "y", "z"], name="who"),
    )
    again = there_and_back(make(data=data), tmp_path).data
    pd.testing.assert_frame_equal(again, data, check_exact=True)
    assert list(again.dtypes) == list(data.dtypes)
    for label in ("object", "missing"):
        assert [type(v) for v in again[label]] == [type(v) for v in data[label]]


def test_pandas_range_index_and_repeated_labels_come_back(tmp_path):
    pd = pytest.importorskip("pandas")
    data = pd.DataFrame(np.arange(8).reshape(4, 2), columns=["a", "a"], index=range(10, 18, 2))
    again = there_and_back(make(data=data), tmp_path).data
    pd.testing.assert_frame_equal(again, data)
    assert again.index.equals(data.index) and type(again.index) is type(data.index)


def test_polars_data_comes_back(tmp_path):
    pl = pytest.importorskip("polars")
    day = datetime.date(2024, 1, 2)
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, 678)
    data = pl.DataFrame(
        [
            pl.Series("int8", [1, -2, None, 4], dtype=pl.Int8),
            pl.Series("big", [2**62 + 1, None, 3, 2**63], dtype=pl.UInt64),
            pl.Series("float", [1.5, float("nan"), None, -0.0]),
            pl.Series("bool", [True, None, False, True]),
            pl.Series("text", ["a", None, "", "b\0"]),
            pl.Series("category", ["v", None, "u", "v"], dtype=pl.Categorical),
            pl.Series("enum", ["v", None, "u", "v"], dtype=pl.Enum(["v", "u", "w"])),
            pl.Series("date", [day, None, day, day]),
            pl.Series("moment", [moment, None, moment, moment], dtype=pl.Datetime("us")),
            pl.Series("zoned", [moment] * 4, dtype=pl.Datetime("ms", "UTC")),
            pl.Series("span", [datetime.timedelta(seconds=1), None] * 2, dtype=pl.Duration("ns")),
        ]
    )
    again = there_and_back(make(data=data), tmp_path).data
    assert again.schema == data.schema
    assert again.equals(data, null_equal=True)
    assert np.signbit(again["float"][3]) and np.isnan(again["float"][1])


@pytest.mark.parametrize("what", ["array", "pandas", "polars"])
def test_nothing_in_the_file_needs_pickle(what, tmp_path):
    texts = {"a": ["u", None, "v", "w"]}
    data = np.array([[text] for text in texts["a"]], dtype=object)
    if what != "array":
        data = pytest.importorskip(what).DataFrame(texts)
    path = tmp_path / "e.npz"
    make(data=data, stats={"objects": np.array([None, "x"], dtype=object)}).save(path)
    with np.load(path, allow_pickle=False) as members:
        assert {"meta.json", "values.0"} <= set(members.files)
        for name in members.files:
            assert isinstance(members[name], np.ndarray | bytes)
        meta = json.loads(members["meta.json"])
    assert (meta["format"], meta["schema"]) == ("xaijax.Explanation", 1)


def test_equal_explanations_make_equal_files(tmp_path):
    make().save(tmp_path / "one.npz")
    make().save(str(tmp_path / "two.npz"))
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


class Zone(datetime.tzinfo):
    """A zone that no file can name."""


NAMED = datetime.timezone(datetime.timedelta(hours=1), "a name of its own")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"stats": {"model": object()}}, r"stats\['model'\].*object"),
        ({"provenance": {"a": [1, {"b": {1, 2}}]}}, r"provenance\['a'\]\[1\]\['b'\].*set"),
        ({"stats": {"m": np.ma.masked_equal([1, 2], 2)}}, "masked"),
        ({"data": np.array([[object()]] * 4)}, "data.*object"),
        ({"stats": {"t": datetime.time(tzinfo=Zone())}}, "time zone.*has no exact form"),
        ({"stats": {"t": datetime.time(tzinfo=NAMED)}}, "time zone.*has no exact form"),
    ],
)
def test_what_has_no_exact_form_is_refused_and_nothing_is_left(changes, text, tmp_path):
    path = tmp_path / "e.npz"
    path.write_bytes(b"the old file")
    with pytest.raises(InputError, match=text):
        make(**changes).save(path)
    assert path.read_bytes() == b"the old file" and os.listdir(tmp_path) == ["e.npz"]


def test_frames_that_have_no_exact_form_are_refused(tmp_path):
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    interval = pd.DataFrame({"bin": pd.cut([1, 2, 3, 4], 2)})
    for data, text in (
        (interval, "'bin'.*interval"),
        (pl.DataFrame({"lists": [[1], [2], [3], [4]]}), "'lists'.*List"),
    ):
        with pytest.raises(InputError, match=text):
            make(data=data).save(tmp_path / "e.npz")


def test_a_failure_while_writing_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "e.npz"
    make().save(path)
    old = path.read_bytes()

    def full(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(OSError, match="disk full"):
        make().save(path)
    assert path.read_bytes() == old and os.listdir(tmp_path) == ["e.npz"]


def test_bad_paths(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        make().save(tmp_path / "nowhere" / "e.npz")
    with pytest.raises(InputError, match="is a folder"):
        make().save(tmp_path)
    with pytest.raises(InputTypeError, match="int"):
        make().save(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.npz")


def test_files_of_others_are_refused(tmp_path):
    path = tmp_path / "x.npz"
    path.write_text("hello")
    with pytest.raises(InputError, match="no file of Explanation.save"):
        load(path)
    np.savez(path, values=np.zeros(3))
    with pytest.raises(InputError, match="no meta.json"):
        load(path)
    for meta, text in (
        ({"format": "other", "schema": 1}, "other"),
        ({"format": "xaijax.Explanation", "schema": 99}, "update xaijax"),
        ({"format": "xaijax.Explanation", "schema": 1, "fields": 3}, "damaged"),
        ([], "damaged"),
    ):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("meta.json", json.dumps(meta))
        with pytest.raises(InputError, match=text):
            load(path)


def test_a_flipped_byte_is_noticed(tmp_path):
    path = tmp_path / "e.npz"
    make().save(path)
    content = bytearray(path.read_bytes())
    position = bytes(content).index(make().values.tobytes())
    content[position + 5] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        load(path)
