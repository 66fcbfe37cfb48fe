"""Tests conversion from FFCV files. FFCV can no longer be installed, so this file writes them field by field, in the
layout of FFCV's `types.py` and `fields/`.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_support import bounded, content, jpeg, kinds, pixels

import shardpack as sp

PAGE = 1 << 21


def array_arguments(dtype: str, *shape: int) -> bytes:
    described = json.dumps([["", dtype]]).encode()
    return struct.pack("<32Q", *shape, *[0] * (32 - len(shape))) + struct.pack("<Q", len(described)) + described


FIELDS = {
    "image": (2, b""),
    "label": (1, b""),
    "score": (0, b""),
    "text": (3, b""),
    "cube": (4, array_arguments("<i2", 2, 3)),
    "meta": (5, b""),
    "tensor": (6, array_arguments(">f4", 4)),
}


def write_beton(file: Path, fields: dict[str, tuple[int, bytes]], samples: list[list[Any]], version: int = 2) -> Path:
    """Writes an FFCV file. Pictures are JPEG bytes or pixels, and arrays are bytes."""
    descriptors = b"".join(
        bytes([kind]) + name.encode().ljust(16, b"\0") + arguments.ljust(1024, b"\0") for name, (kind, arguments) in fields.items()
    )
    # A picture takes 13 unaligned bytes. The other parts are aligned to 8 bytes.
    offsets, end = [], 0
    for kind, _ in fields.values():
        at = end if kind == 2 else -(-end // 8) * 8
        offsets.append(at)
        end = at + {0: 8, 1: 8, 2: 13, 3: 16, 4: 8, 5: 16, 6: 8, 255: 8}[kind]
    row_size = -(-end // 8) * 8
    pages = -(-(24 + len(descriptors) + row_size * len(samples)) // PAGE) * PAGE
    rows, values, sizes = bytearray(row_size * len(samples)), bytearray(), []

    def put(sample: int, data: bytes) -> int:
        at = pages + len(values)
        values.extend(data)
        sizes.append((sample, at, len(data)))
        return at

    for number, sample in enumerate(samples):
        for value, at, (kind, _) in zip(sample, offsets, fields.values()):
            at += number * row_size
            if kind == 0:
                struct.pack_into("<d", rows, at, value)
            elif kind == 1:
                struct.pack_into("<q", rows, at, value)
            elif kind == 2 and isinstance(value, bytes):
                struct.pack_into("<BHHQ", rows, at, 0, 40, 24, put(number, value))
            elif kind == 2:
                struct.pack_into("<BHHQ", rows, at, 1, value.shape[1], value.shape[0], put(number, value.tobytes()))
            elif kind in (3, 5):
                data = value if kind == 3 else json.dumps(value).encode() + b"\0"
                struct.pack_into("<QQ", rows, at, put(number, data), len(data))
            else:
                struct.pack_into("<Q", rows, at, put(number, value))
    values.extend(bytes(-len(values) % PAGE))
    # FFCV's workers finish in any order, so the table is not sorted.
    table = b"".join(struct.pack("<QQQ", *one) for one in reversed(sizes))
    head = struct.pack("<HHIQQ", version, len(fields), PAGE, len(samples), pages + len(values))
    file.write_bytes((head + descriptors + rows).ljust(pages, b"\0") + values + table)
    return file


def sample(i: int) -> list[Any]:
    picture: Any = jpeg(i) if i % 2 else pixels(i)
    array = (np.arange(6, dtype="<i2") + i).tobytes()
    return [picture, i % 3 - 1, i / 2, f"text {i}".encode(), array, {"number": i}, np.full(4, i, ">f4").tobytes()]


def test_every_field(tmp_path: Path) -> None:
    write_beton(tmp_path / "train.beton", FIELDS, [sample(i) for i in range(7)])
    report = sp.convert("beton", tmp_path / "train.beton", tmp_path / "out")
    assert report["samples"] == 7 and report["samples_skipped"] == 0
    assert kinds(tmp_path / "out") == {
        "cube": "array", "image": "image", "label": "int64", "meta": "json", "score": "float64", "tensor": "array", "text": "bytes",
    }  # fmt: skip
    found, stored = content(tmp_path / "out"), content(tmp_path / "out", "image")
    for i in range(7):
        key = next(key for key in found if int(key) == i)
        one = found[key]
        if i % 2:
            assert stored[key]["image"] == jpeg(i), "JPEGs keep their bytes"
        else:
            assert (one["image"] == pixels(i)).all(), "raw pixels lose nothing"
        assert (one["label"], one["score"], one["meta"]) == (i % 3 - 1, i / 2, {"number": i})
        assert bytes(one["text"]) == f"text {i}".encode()
        assert one["cube"].dtype == np.int16 and (one["cube"] == np.arange(6).reshape(2, 3) + i).all()
        assert one["tensor"].dtype == np.float32 and (one["tensor"] == i).all()


def test_several_files_and_classes(tmp_path: Path) -> None:
    fields = {"image": (2, b""), "label": (1, b"")}
    for part in range(2):
        write_beton(tmp_path / f"part-{part}.beton", fields, [[jpeg(10 * part + i), i] for i in range(2)])
    sp.convert("beton", tmp_path, tmp_path / "out", classes=["cat", "dog"])
    assert len(sp.Dataset(tmp_path / "out")) == 4 and sp.Dataset(tmp_path / "out").classes == ["cat", "dog"]
    write_beton(tmp_path / "part-2.beton", {"image": (2, b"")}, [[jpeg(1)]])
    with pytest.raises(ValueError, match="the fields differ"):
        sp.convert("beton", tmp_path, tmp_path / "other")


def test_fields_of_other_programs_are_refused(tmp_path: Path) -> None:
    write_beton(tmp_path / "a.beton", {"image": (2, b""), "own": (255, b"")}, [])
    with pytest.raises(ValueError, match="own: a custom field type, which is not part of FFCV"):
        sp.convert("beton", tmp_path / "a.beton", tmp_path / "out")
    write_beton(tmp_path / "b.beton", {"cube": (4, array_arguments("|O", 2))}, [])
    with pytest.raises(ValueError, match=r"cube: unsupported element type '\|O': expected bool"):
        sp.convert("beton", tmp_path / "b.beton", tmp_path / "out")


def test_a_bad_sample_is_named_or_left_out(tmp_path: Path) -> None:
    samples = [sample(i) for i in range(5)]
    samples[3][0] = b"no picture"
    write_beton(tmp_path / "a.beton", FIELDS, samples)
    with pytest.raises(ValueError, match=r"a.beton`, sample 3: field 'image': not a JPEG"):
        sp.convert("beton", tmp_path / "a.beton", tmp_path / "out")
    report = sp.convert("beton", tmp_path / "a.beton", tmp_path / "out", on_bad_input="skip")
    assert (report["samples"], report["samples_skipped"]) == (4, 1)


@pytest.mark.parametrize(
    ("at", "changed", "said"),
    [
        (0, b"\x01\x00", "version 1"),
        (2, b"\xff\xff", "fields"),
        (8, b"\xff" * 8, "bytes in memory, more than 10000 times"),
        (8, b"\xff\xff\x00", "table of sizes"),
        (16, b"\xff" * 8, "table of sizes"),
        (16, b"\x00" * 8, "table of sizes"),
        (24, b"\x63", "unknown field type: 99"),
        (24 + 1 * 1041 + 1, b"image\0", "two fields have the name 'image'"),
        (24 + 4 * 1041 + 17, b"\xff" * 8, "at offset|but the limit is"),
        (24 + 4 * 1041 + 17 + 256, b"\xff" * 8, "cannot read the type of the array"),
    ],
)
def test_a_hostile_head_is_an_error(tmp_path: Path, at: int, changed: bytes, said: str) -> None:
    file = write_beton(tmp_path / "a.beton", FIELDS, [sample(i) for i in range(3)])
    data = bytearray(file.read_bytes())
    data[at : at + len(changed)] = changed
    file.write_bytes(data)
    with pytest.raises(ValueError, match=said):
        sp.convert("beton", file, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_hostile_rows_and_holes_take_neither_memory_nor_time(tmp_path: Path) -> None:
    file = write_beton(tmp_path / "a.beton", FIELDS, [sample(i) for i in (1, 2, 3)])
    rows = 24 + len(FIELDS) * 1041
    data = bytearray(file.read_bytes())
    # Damage the offset of the first picture, its mode and its sides.
    for at, changed, said in ((5, b"\xff" * 8, "value at offset"), (0, b"\x07", "mode 7"), (0, b"\x01\xff\xff\xff\xff\0\0\0\0\0\0\0\0", "but the limit is|extends beyond the end of the file")):
        damaged = bytearray(data)
        damaged[rows + at : rows + at + len(changed)] = changed
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=said):
            sp.convert("beton", file, tmp_path / "out")
    with (tmp_path / "hole.beton").open("wb") as hole:
        hole.write(struct.pack("<HHIQQ", 2, 1, PAGE, 1 << 34, 1 << 38) + bytes([1]) + bytes(1040))
        hole.truncate(1 << 39)
    assert "bytes in memory, more than 10000 times" in bounded("beton", tmp_path / "hole.beton")
    for length in (0, 23, 500, len(data) - 30):
        file.write_bytes(data[:length])
        with pytest.raises(ValueError):
            sp.convert("beton", file, tmp_path / "out")


def test_random_damage_gives_errors_only(tmp_path: Path) -> None:
    data = write_beton(tmp_path / "a.beton", FIELDS, [sample(i) for i in range(3)]).read_bytes()
    draws = np.random.default_rng(1)
    heads = 24 + len(FIELDS) * 1041 + 3 * 96
    for _ in range(60):
        damaged = bytearray(data)
        for at in draws.integers(0, heads, 3):
            damaged[at] = draws.integers(256)
        (tmp_path / "a.beton").write_bytes(damaged)
        try:
            sp.convert("beton", tmp_path / "a.beton", tmp_path / "out", force=True)
        except ValueError:
            pass
