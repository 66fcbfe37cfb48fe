"""Tests conversion from Parquet and Arrow files, including Hugging Face's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_support import content, jpeg, kinds, picture

import shardpack as sp

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

FEATURES = {
    "image": {"_type": "Image"},
    "label": {"_type": "ClassLabel", "names": ["cat", "dog"]},
    "coarse": {"_type": "ClassLabel", "names": ["pet"]},
}


def hugging_face(first: int, last: int) -> Any:
    rows = range(first, last)
    images = pa.array(
        [{"bytes": jpeg(i), "path": f"photos/{i}.jpg"} for i in rows],
        pa.struct({"bytes": pa.binary(), "path": pa.string()}),
    )
    table = pa.table({"image": images, "label": pa.array([i % 2 for i in rows]), "coarse": pa.array([0 for _ in rows])})
    return table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": FEATURES}})})


def test_hugging_face_pictures_with_classes(tmp_path: Path) -> None:
    for shard in range(2):
        pq.write_table(hugging_face(70 * shard, 70 * shard + 70), tmp_path / f"train-{shard:05d}-of-00002.parquet")
    report = sp.convert("parquet", tmp_path, tmp_path / "out", key="image.path")
    assert report["samples"] == 140
    assert kinds(tmp_path / "out") == {"coarse": "int64", "image": "image", "label": "int64"} and sp.Dataset(
        tmp_path / "out"
    ).classes == ["cat", "dog"]
    found = content(tmp_path / "out", "image")
    for i in range(140):
        sample = found[f"photos/{i}.jpg"]
        assert sample["image"] == jpeg(i) and sample["label"] == i % 2


def test_which_classes_depends_on_which_label(tmp_path: Path) -> None:
    pq.write_table(hugging_face(0, 2), tmp_path / "a.parquet")
    sp.convert("parquet", tmp_path / "a.parquet", tmp_path / "out", label="coarse", drop=["label"])
    assert sp.Dataset(tmp_path / "out").classes == ["pet"]


def test_files_that_count_into_other_classes_are_refused(tmp_path: Path) -> None:
    table = hugging_face(0, 2)
    pq.write_table(table, tmp_path / "a.parquet")
    features = FEATURES | {"label": {"_type": "ClassLabel", "names": ["dog", "cat"]}}
    for other, found in ((features, "'dog', 'cat'"), ({"label": {}, "coarse": FEATURES["coarse"]}, "no classes")):
        metadata = {"huggingface": json.dumps({"info": {"features": other}})}
        pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "b.parquet")
        message = rf"b.parquet`: column 'label' has .*{found}.*, but in `.*a.parquet` it has the classes \['cat', 'dog'\]"
        with pytest.raises(ValueError, match=message):
            sp.convert("parquet", tmp_path, tmp_path / "never", label="coarse")
    assert sp.convert("parquet", tmp_path, tmp_path / "out", label="coarse", drop=["label"])["samples"] == 4


@pytest.mark.parametrize("stream", [True, False])
def test_arrow_files_and_streams(tmp_path: Path, stream: bool) -> None:
    table = hugging_face(0, 100)
    writer = pa.ipc.new_stream if stream else pa.ipc.new_file
    with writer(tmp_path / "a.arrow", table.schema) as out:
        out.write_table(table, max_chunksize=70)
    sp.convert("parquet", tmp_path / "a.arrow", tmp_path / "out")
    found = content(tmp_path / "out", "image")
    assert all(found[f"{i:08d}"]["image"] == jpeg(i) for i in range(100))


def test_every_type(tmp_path: Path) -> None:
    table = pa.table(
        {
            "f32": pa.array([0.5, 1.5], pa.float32()),
            "u8": pa.array([1, 255], pa.uint8()),
            "flag": pa.array([True, False]),
            "text": pa.array(["a", None]),
            "blob": pa.array([b"\0", b"\1\2"]),
            "png": pa.array([picture(0, "PNG"), picture(1, "PNG")]),
            "vector": pa.array([[1.0, 2.0], [3.0]], pa.list_(pa.float32())),
            "matrix": pa.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], pa.list_(pa.list_(pa.int16()))),
            "fixed": pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)),
            "words": pa.array([["a", "b"], []], pa.list_(pa.string())),
            "struct": pa.array([{"x": 1, "y": [0.5]}, {"x": None, "y": []}]),
            "named": pa.array(["x", "y"]).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    sp.convert("parquet", tmp_path / "a.parquet", tmp_path / "out")
    assert kinds(tmp_path / "out") == {
        "f32": "float32",
        "u8": "uint8",
        "flag": "bool",
        "text": "text",
        "blob": "bytes",
        "png": "image",
        "vector": "array",
        "matrix": "array",
        "fixed": "array",
        "words": "json",
        "struct": "json",
        "named": "text",
    }
    found = content(tmp_path / "out", "png")
    a, b = found["00000000"], found["00000001"]
    assert (a["f32"], a["u8"], a["flag"], a["text"], bytes(a["blob"]), a["named"]) == (0.5, 1, True, "a", b"\0", "x")
    assert (
        b["text"] is None and b["png"] == picture(1, "PNG") and b["words"] == [] and b["struct"] == {"x": None, "y": []}
    )
    assert a["vector"].dtype == np.float32 and b["vector"].tolist() == [3.0]
    assert b["matrix"].dtype == np.int16 and b["matrix"].tolist() == [[5, 6], [7, 8]] and b["fixed"].tolist() == [3, 4]


def refuse(path: Path, message: str, **options: Any) -> None:
    with pytest.raises(ValueError, match=message):
        sp.convert("parquet", path, path.parent / "out", **options)
    assert not (path.parent / "out").exists()


def write(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_columns_that_cannot_be_taken_are_listed(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.parquet",
        x=[1],
        when=pa.array([0], pa.timestamp("s")),
        money=pa.array([None], pa.decimal128(5, 2)),
    )
    refuse(
        path,
        r"2 columns cannot be converted\n  when: the type timestamp\[.* is not supported\n  money: .*\nhint: pass drop=\['when', 'money'\]",
    )
    assert sp.convert("parquet", path, tmp_path / "out", drop=["when", "money"])["kinds"] == {"x": "int64"}


def test_values_that_cannot_be_taken_are_named(tmp_path: Path) -> None:
    pictures = pa.array([{"bytes": jpeg(0), "path": None}, {"bytes": None, "path": "/data/1.jpg"}])
    refuse(
        write(tmp_path / "a.parquet", image=pictures),
        r"row 1: column 'image': expected the picture's bytes, found only its path: '/data/1\.jpg'",
    )
    refuse(
        write(tmp_path / "b.parquet", v=pa.array([[[1], [2, 3]]])),
        r"row 0: column 'v': the lists differ in length",
    )
    refuse(write(tmp_path / "c.parquet", v=pa.array([[1, None]])), r"row 0: column 'v': a list of numbers contains nulls")
    refuse(
        write(tmp_path / "d.parquet", v=pa.array([b"\x80\x04}."])), r"row 0: column 'v': the value is a pickle"
    )
    refuse(write(tmp_path / "e.parquet", v=pa.array([1, None])), r"row 1: ")
    refuse(write(tmp_path / "f.parquet", v=pa.array([], pa.int64())), "the source has no samples")
    refuse(
        write(tmp_path / "g.parquet", v=[1]),
        r"`key` must be the name of a text column, or 'COLUMN.path' for the paths in a picture column, found: 'v'",
        key="v",
    )
    refuse(write(tmp_path / "h.parquet", k=["x", "x"], v=[1, 2]), r"row 1: sample key `x` occurs twice", key="k")


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    """A row becomes a dict, and a dict can hold only one of two columns with the same name."""
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]), tmp_path / "a.parquet")
    refuse(tmp_path / "a.parquet", "the column name 'a' occurs twice")


def test_damaged_files_are_named(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.parquet", x=np.random.default_rng(0).normal(size=5000)).read_bytes()
    for data in (b"", b"PAR1", whole[:-1], whole[: len(whole) // 2]):
        (tmp_path / "a.parquet").write_bytes(data)
        refuse(tmp_path / "a.parquet", r"a\.parquet`: cannot open the Parquet or Arrow file")
    damaged = bytearray(whole)
    damaged[4:60] = b"\xff" * 56
    (tmp_path / "a.parquet").write_bytes(damaged)
    refuse(tmp_path / "a.parquet", r"a\.parquet`, rows 0 to 4999: the data is damaged")


def not_utf8(count: int, bad: int) -> Any:
    """Returns strings `row 000` and so on, one of which is not UTF-8."""
    _, offsets, letters = pa.array([f"row {i:03}" for i in range(count)]).buffers()
    damaged = bytearray(letters.to_pybytes())
    damaged[7 * bad] = 0xFF
    return pa.Array.from_buffers(pa.string(), count, [None, offsets, pa.py_buffer(bytes(damaged))])


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_row_that_cannot_be_read_takes_no_other_with_it(tmp_path: Path, suffix: str) -> None:
    texts, path = not_utf8(300, 150), tmp_path / f"a.{suffix}"
    pictures = pa.StructArray.from_arrays([pa.array([picture(0, "PNG")] * 300), texts], ["bytes", "path"])
    table = pa.table({"text": texts, "image": pictures, "x": range(300)})
    if suffix == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as out:
            out.write_table(table)
    report = sp.convert("parquet", path, tmp_path / "out", on_bad_input="skip")
    assert (report["samples"], report["samples_skipped"], report["samples_skipped_exact"]) == (299, 1, True)
    assert f"a.{suffix}`, row 150: the data is damaged: " in report["skipped"][0]["reason"]
    assert set(sp.Dataset(tmp_path / "out").column("x").tolist()) == set(range(300)) - {150}


def test_a_damaged_row_group_takes_no_other_with_it(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": np.arange(500)}), path, row_group_size=100, use_dictionary=False)
    damaged = bytearray(path.read_bytes())
    begin = pq.ParquetFile(path).metadata.row_group(2).column(0).data_page_offset
    damaged[begin : begin + 40] = b"\xff" * 40
    path.write_bytes(damaged)
    report = sp.convert("parquet", path, tmp_path / "out", on_bad_input="skip")
    assert (report["samples"], report["samples_skipped"], report["samples_skipped_exact"]) == (400, 100, True)
    assert "a.parquet`, rows 200 to 299: the data is damaged" in report["skipped"][0]["reason"]


def test_files_with_other_columns_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", x=[1])
    write(tmp_path / "b.parquet", y=[1])
    with pytest.raises(ValueError, match=r"b\.parquet`: the columns are y, but in `.*a\.parquet` they are x"):
        sp.convert("parquet", tmp_path, tmp_path / "out")
