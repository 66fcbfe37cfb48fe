"""Tests conversion from MosaicML's MDS, on sources written by this file and, if installed, by `mosaicml-streaming`."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_support import content, jpeg, kinds, picture

import shardpack as sp

COLUMNS = {"image": ("jpeg", None), "label": ("int", 8), "caption": ("str", None), "cube": ("ndarray", None)}


def encoded_array(array: np.ndarray[Any, Any]) -> bytes:
    """Encodes an array without its type and shape. Supports int16 and float32, and axes shorter than 256."""
    code = {"int16": 17, "float32": 34}[array.dtype.name]
    return bytes([code, array.ndim << 2, *array.shape]) + array.tobytes()


def row(i: int) -> list[bytes]:
    return [jpeg(i), struct.pack("<q", i - 1), f"number {i}".encode(), encoded_array(cube(i))]


def cube(i: int) -> np.ndarray[Any, Any]:
    return np.arange(12, dtype=np.int16).reshape(2, 3, 2) + i


def write_mds(
    folder: Path,
    columns: dict[str, tuple[str, int | None]],
    shards: list[list[list[bytes]]],
    compression: str | None = None,
) -> Path:
    folder.mkdir(exist_ok=True)
    entries = []
    for number, rows in enumerate(shards):
        config = json.dumps({"column_names": list(columns)}).encode()
        samples = []
        for values in rows:
            lengths = [len(value) for value, (_, size) in zip(values, columns.values()) if size is None]
            samples.append(struct.pack(f"<{len(lengths)}I", *lengths) + b"".join(values))
        begin = 4 * (len(samples) + 2) + len(config)
        offsets = np.cumsum([begin, *map(len, samples)]).astype("<u4")
        data = struct.pack("<I", len(samples)) + offsets.tobytes() + config + b"".join(samples)
        name = f"shard.{number:05d}.mds"
        entry = {
            "format": "mds",
            "version": 2,
            "samples": len(rows),
            "hashes": ["sha1"],
            "compression": compression,
            "zip_data": None,
            "column_names": list(columns),
            "column_encodings": [e for e, _ in columns.values()],
            "column_sizes": [s for _, s in columns.values()],
            "raw_data": {"basename": name, "bytes": len(data), "hashes": {"sha1": hashlib.sha1(data).hexdigest()}},
        }
        if compression is None:
            (folder / name).write_bytes(data)
        else:
            packed = pack(data, compression)
            (folder / f"{name}.x").write_bytes(packed)
            entry["zip_data"] = {
                "basename": f"{name}.x",
                "bytes": len(packed),
                "hashes": {"md5": hashlib.md5(packed).hexdigest()},
            }
        entries.append(entry)
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": entries}))
    return folder


def pack(data: bytes, compression: str) -> bytes:
    if compression.startswith("zstd"):
        return bytes(pytest.importorskip("zstandard").compress(data))
    return gzip.compress(data) if compression == "gz" else bz2.compress(data)


def dataset(folder: Path, **options: Any) -> Path:
    return write_mds(folder, COLUMNS, [[row(0), row(1), row(2)], [row(3)]], **options)


@pytest.mark.parametrize("compression", [None, "zstd:7", "gz", "bz2"])
def test_all_columns_arrive(tmp_path: Path, compression: str | None) -> None:
    report = sp.convert("mds", dataset(tmp_path / "src", compression=compression), tmp_path / "out")
    assert report["samples"] == 4
    assert kinds(tmp_path / "out") == {"image": "image", "label": "int64", "caption": "text", "cube": "array"}
    found = content(tmp_path / "out", "image")
    for i in range(4):
        sample = found[f"{i:08d}"]
        assert sample["image"] == jpeg(i) and sample["label"] == i - 1 and sample["caption"] == f"number {i}"
        assert np.array_equal(sample["cube"], cube(i)) and sample["cube"].dtype == np.int16


def test_every_encoding(tmp_path: Path) -> None:
    floats = np.array([[0.1, -np.inf]], np.float32)
    columns: dict[str, tuple[str, int | None]] = {
        "a": ("uint8", 1),
        "b": ("float64", 8),
        "c": ("str_int", None),
        "d": ("str_float", None),
        "e": ("str_decimal", None),
        "f": ("json", None),
        "g": ("png", None),
        "h": ("pil", None),
        "i": ("bytes", None),
        "j": ("ndarray:float32:1,2", 8),
        "k": ("ndarray:float32", None),
    }
    pixels = np.arange(2 * 3 * 3, dtype=np.uint8)
    raw = struct.pack("<3I", 3, 2, 3) + b"RGB" + pixels.tobytes()
    values = [
        b"\xff",
        struct.pack("<d", 1e300),
        b"-12",
        b"0.5",
        b"1.10",
        b'{"x": [1]}',
        picture(1, "PNG"),
        raw,
        b"\0\1",
        floats.tobytes(),
        bytes([2 << 2, 1, 2]) + floats.tobytes(),
    ]
    sp.convert("mds", write_mds(tmp_path / "src", columns, [[values]]), tmp_path / "out")
    found = content(tmp_path / "out", "g")["00000000"]
    assert (found["a"], found["b"], found["c"], found["d"], found["e"]) == (255, 1e300, -12, 0.5, "1.10")
    assert found["f"] == {"x": [1]} and found["g"] == picture(1, "PNG") and bytes(found["i"]) == b"\0\1"
    assert np.array_equal(found["h"], pixels.reshape(2, 3, 3))
    assert np.array_equal(found["j"], floats) and np.array_equal(found["k"], floats)


def test_a_column_of_keys_and_columns_left_out(tmp_path: Path) -> None:
    sp.convert("mds", dataset(tmp_path / "src"), tmp_path / "out", key="caption", drop=["cube"])
    found = content(tmp_path / "out", "image")
    assert found["number 2"]["image"] == jpeg(2) and "cube" not in found["number 2"]
    with pytest.raises(ValueError, match=r"`drop` names an unknown column 'cubes'"):
        sp.convert("mds", tmp_path / "src", tmp_path / "other", drop=["cubes"])


def test_pickle_and_unknown_encodings_are_listed_together(tmp_path: Path) -> None:
    columns: dict[str, tuple[str, int | None]] = {"a": ("pkl", None), "b": ("int", 8), "c": ("video", None)}
    src = write_mds(tmp_path / "src", columns, [[[b"\x80\x04.", struct.pack("<q", 1), b"x"]]])
    with pytest.raises(
        ValueError,
        match=r"2 columns cannot be converted\n  a: pickle.*\n  c: unknown encoding: 'video'\nhint: pass drop=\['a', 'c'\]",
    ):
        sp.convert("mds", src, tmp_path / "out")
    sp.convert("mds", src, tmp_path / "out", drop=["a", "c"])
    assert kinds(tmp_path / "out") == {"b": "int64"}


def test_damaged_shards_are_named(tmp_path: Path) -> None:
    shard = dataset(tmp_path / "src") / "shard.00000.mds"
    whole = shard.read_bytes()
    for damaged in (
        whole[:-1],
        whole[:10],
        whole + b"x",
        whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:],
        b"\xff" * len(whole),
    ):
        shard.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"shard\.00000\.mds`: the file is damaged: its sha1 is"):
            sp.convert("mds", tmp_path / "src", tmp_path / "out")
    report = sp.convert("mds", tmp_path / "src", tmp_path / "out", on_bad_input="skip")
    assert (report["samples"], report["samples_skipped"], report["samples_skipped_exact"]) == (1, 3, True)


def test_damage_without_digests(tmp_path: Path) -> None:
    src = dataset(tmp_path / "src")
    index = json.loads((src / "index.json").read_text())
    for shard in index["shards"]:
        shard["raw_data"]["hashes"] = {}
    (src / "index.json").write_text(json.dumps(index))
    whole = (src / "shard.00000.mds").read_bytes()
    begin = struct.unpack_from("<I", whole, 4)[0]
    cases = {
        r"the shard is \d+ bytes long, but the index says": whole[:-1],
        r"the shard has 4 samples, but the index says 3": b"\4" + whole[1:],
        r"the offsets of its samples are out of order": whole[:4] + b"\xff\xff" + whole[6:],
        r"sample 0: column 'image': expected 4294967295 bytes": whole[:begin] + b"\xff" * 4 + whole[begin + 4 :],
    }
    for message, damaged in cases.items():
        (src / "shard.00000.mds").write_bytes(damaged)
        with pytest.raises(ValueError, match=message):
            sp.convert("mds", src, tmp_path / "out")


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("{", "index.json`: "),
        ("[]", r"expected an MDS index \(a JSON object\), found: list"),
        ('{"version": 2, "shards": []}', "the list of shards is empty"),
        ('{"version": 2, "shards": [{"format": "json"}]}', "expected shards in MDS format, but `format` is 'json'"),
        (
            '{"version": 2, "shards": [{"format": "mds", "column_names": ["a"], "column_encodings": ["int"], "samples": 1,'
            ' "raw_data": {"basename": "../../etc/passwd", "bytes": 1}}]}',
            r"the `basename` of each shard must name a file in the same folder, found: '\.\./\.\./etc/passwd'",
        ),
    ],
)
def test_indexes_that_cannot_be_taken(tmp_path: Path, index: str, message: str) -> None:
    (tmp_path / "index.json").write_text(index)
    with pytest.raises(ValueError, match=message):
        sp.convert("mds", tmp_path, tmp_path / "out")


def test_a_folder_of_splits_is_said(tmp_path: Path) -> None:
    dataset(tmp_path / "train")
    with pytest.raises(ValueError, match="convert its splits one at a time: train"):
        sp.convert("mds", tmp_path, tmp_path / "out")
    with pytest.raises(FileNotFoundError):
        sp.convert("mds", tmp_path / "missing", tmp_path / "out")


def test_what_the_streaming_library_wrote(tmp_path: Path) -> None:
    streaming = pytest.importorskip("streaming", exc_type=ImportError)
    columns = {
        "x": "int",
        "text": "str",
        "cube": "ndarray",
        "fixed": "ndarray:float32:2,2",
        "meta": "json",
        "data": "bytes",
    }
    src = str(tmp_path / "src")
    with streaming.MDSWriter(
        out=src, columns=columns, compression="zstd", hashes=["sha1", "xxh64"], size_limit=2000
    ) as out:
        for i in range(50):
            fixed = np.full((2, 2), i, np.float32)
            out.write({"x": i, "text": f"t{i}", "cube": cube(i), "fixed": fixed, "meta": {"i": i}, "data": bytes([i])})
    report = sp.convert("mds", src, tmp_path / "out", key="text")
    assert report["samples"] == 50
    found = content(tmp_path / "out")
    for i in range(50):
        sample = found[f"t{i}"]
        assert sample["x"] == i and sample["meta"] == {"i": i} and bytes(sample["data"]) == bytes([i])
        assert np.array_equal(sample["cube"], cube(i)) and np.array_equal(sample["fixed"], np.full((2, 2), i))
