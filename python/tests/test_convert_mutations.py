"""Tests `convert` on sources with random changes to their structure. Checksums are corrected, so that they do not
reveal the changes. `convert` must either succeed or raise one of its own errors, within bounded time and memory.

    SHARDPACK_MUTATIONS=5000 SHARDPACK_SEED=7 python -m pytest python/tests/test_convert_mutations.py

Without SHARDPACK_MUTATIONS, there are 40 mutations for each format.
"""

from __future__ import annotations

import copy
import gzip
import io
import json
import os
import pickle
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import time
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

COUNT = int(os.environ.get("SHARDPACK_MUTATIONS", "40"))
SEED = int(os.environ.get("SHARDPACK_SEED", "20261126"))
_SECONDS = 20
"""Time limit for one conversion of a few samples."""
_MEMORY = 1 << 30
"""Number of bytes by which the memory of a run may grow."""


class Random(random.Random):
    calm = False
    """True to make few changes. Most sources with many changes fail the first check, and never reach later code."""


def chance(r: Random, share: float) -> bool:
    return r.random() < (share / 10 if r.calm else share)


BAD_CODECS = ["pickle", "numcodecs.pickle", "json2", "msgpack2", "categorize", "vlen-array", "zfpy", "numcodecs.zfpy", "imagecodecs_jpeg", "shardpack.bounded", "", "bytes", "base64"]


class Runs:
    """An object that makes a folder when its pickle is loaded."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.makedirs, (self.mark, 0o777, True)


Mutation = Callable[[Random, Path], "tuple[Any, dict[str, Any]]"]
"""A function that writes a changed source into a folder, and returns its format, path and options."""


def jpeg() -> bytes:
    from convert_support import jpeg

    return jpeg(1)


def png() -> bytes:
    from convert_support import pil

    out = io.BytesIO()
    pil.new("L", (40, 24), 1).save(out, "PNG")
    return out.getvalue()


TEXTS = [
    "", "a", "../../x", "/etc/passwd", "a\0b", "\ud800", "\x1b[2J\x07\u202e", "x" * 5000, "0", "-1", "1e999", "NaN", "é" * 300, "a/b/../c",
    "__key__", "é\u0301", "0 0 1 1", "true", " ", "\n", "*", "!!python/object/apply:os.system [x]", "\ufeff", "CON", "~", "//", "/dev/zero",
]  # fmt: skip
NUMBERS = [0, 1, -1, 2, 255, 256, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**30, 10**400, 0.5, -0.0, 1e308, 5e-324, float("inf"), float("nan")]
OTHERS = [None, True, False, [], {}, [[]], [None], {"a": 1}, [1, 2, 3, 4], {"": {"": []}}]


def anything(r: Random) -> Any:
    kind = r.randrange(10)
    if kind < 4:
        return r.choice(NUMBERS)
    if kind < 7:
        return r.choice(TEXTS)
    if kind < 9:
        return copy.deepcopy(r.choice(OTHERS))
    deep: Any = r.choice(NUMBERS)
    for _ in range(r.choice([5, 50, 300])):
        deep = [deep] if r.random() < 0.7 else {"x": deep}
    return deep


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Returns every pair of a container in a tree and one of its keys."""
    found: list[tuple[Any, Any]] = []
    left = [tree]
    while left:
        one = left.pop()
        for key, value in one.items() if isinstance(one, dict) else enumerate(one):
            found.append((one, key))
            if isinstance(value, (dict, list)):
                left.append(value)
    return found


def changed(r: Random, tree: Any) -> Any:
    """Returns a copy of a tree with one to four changes."""
    tree = copy.deepcopy(tree)
    for _ in range(r.choice([1, 1, 1, 2, 4])):
        found = places(tree)
        if not found:
            return anything(r)
        holder, key = r.choice(found)
        other, at = r.choice(found)
        how = r.randrange(9)
        if how < 4:
            holder[key] = anything(r)
        elif how == 4:
            del holder[key]
        elif how == 5:
            holder[key] = copy.deepcopy(other[at]) if not isinstance(other[at], (dict, list)) or r.random() < 0.5 else [holder[key]]
        elif how == 6 and isinstance(holder, list):
            holder.insert(r.randrange(len(holder) + 1), copy.deepcopy(holder[key]))
        elif how == 7 and isinstance(holder, dict):
            holder[r.choice(TEXTS)] = holder.pop(key)
        else:
            value = holder[key]
            holder[key] = value * r.choice([0, 2, 1000]) if isinstance(value, str) else -value if isinstance(value, (int, float)) else [value]
    return tree


def document(r: Random, tree: Any) -> bytes:
    """Returns a changed tree as JSON. Sometimes the text is changed too."""
    if r.calm and r.random() < 0.8:
        return json.dumps(tree).encode()
    text = bytearray(json.dumps(changed(r, tree), ensure_ascii=r.random() < 0.9).encode("utf-8", "surrogatepass"))
    if r.random() < 0.1 and text:
        at = r.randrange(len(text))
        text[at : at + r.randrange(3)] = r.choice([b"", b"\xff", b"{", b"\0", b"[" * 100_000, b'"', b"9" * 5000])
    return bytes(text)


def coco(r: Random, folder: Path) -> Any:
    objects = [
        {"id": i, "image_id": i % 2, "category_id": 1 + i % 2, "bbox": [1, 2, 10, 8 + i], "area": 80.5, "iscrowd": 0,
         "keypoints": [1, 2, 2, 3, 4, 1], "segmentation": [[1, 2, 3, 4, 5, 6]], "caption": "x"}
        for i in range(4)
    ]  # fmt: skip
    tree = {
        "images": [{"id": i, "file_name": f"{i}.jpg", "height": 24, "width": 40} for i in range(2)],
        "annotations": objects * r.choice([1, 1, 3]),
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
    }
    (folder / "images").mkdir()
    for i in range(2):
        (folder / f"images/{i}.jpg").write_bytes(jpeg())
    (folder / "a.json").write_bytes(document(r, tree))
    return folder / "a.json", r.choice([{}, {"drop": ["segmentation"]}, {"boxes": "xyxy"}, {"images": str(folder / "images")}])


def element(r: Random, name: str, *inside: str) -> str:
    """Returns an XML element, sometimes changed."""
    share = r.random() * (10 if r.calm else 1)
    if share < 0.03:
        return ""
    name = r.choice(["a", "object", "bndbox", "name", "x" * 3000]) if share < 0.05 else name
    text = "".join(inside)
    if share < 0.12:
        text = r.choice([*TEXTS, *map(str, NUMBERS), "&amp;", "&lt;", "&#0;", "&#xD800;", "&x;", "<a/>" * 100, "<![CDATA[x]]>", "<a>" * 2000, f"<b>{text}</b>"])
    attribute = r.choice([' a="1"', ' xmlns="x"', ""]) if share < 0.2 else ""
    made = f"<{name}{attribute}>{text}</{name}>"
    return made * 2 if 0.98 < share < 1 else made


def voc(r: Random, folder: Path) -> Any:
    for part in ("JPEGImages", "Annotations", "ImageSets/Main", "SegmentationClass"):
        (folder / part).mkdir(parents=True)
    for i in range(2):
        (folder / f"JPEGImages/{i}.jpg").write_bytes(jpeg())
        sides = [element(r, side, str(value)) for side, value in (("xmin", 2), ("ymin", 2), ("xmax", 20), ("ymax", 20))]
        one = element(r, "object", element(r, "name", "cat"), element(r, "difficult", "0"), element(r, "bndbox", *sides))
        size = element(r, "size", element(r, "width", "40"), element(r, "height", "24"))
        text = element(r, "annotation", size, one, one)
        if r.random() < 0.1:
            more = "".join(f'<!ENTITY l{n} "{10 * ("&l" + str(n - 1) + ";")}">' for n in range(1, 9))
            entities = f'<!DOCTYPE a [<!ENTITY x "y"><!ENTITY z SYSTEM "file:///etc/passwd">{more}]>'
            text = entities + text
        encoding = "utf-8" if r.calm else r.choice(["utf-8"] * 6 + ["utf-16", "utf-7", "latin-1", "utf-32"])
        said = r.choice([encoding, "x", "utf-8", "koi8-r", "idna"])
        head = f'<?xml version="1.0" encoding="{said}"?>' if chance(r, 0.3) else ""
        (folder / f"Annotations/{i}.xml").write_bytes((head + text).encode(encoding, "replace"))
    names = ["0", "1"]
    if r.random() < 0.2:
        names.insert(0, r.choice(TEXTS))
    (folder / "ImageSets/Main/train.txt").write_bytes("\n".join(names).encode("utf-8", "surrogatepass"))
    return folder, {"names": ["cat", "dog"]} | r.choice([{}, {"split": "train"}, {"masks": "SegmentationClass"}])


YAMLS = [
    "a: &a [x, x]\nb: &b [*a, *a, *a]\nc: &c [*b, *b, *b]\nnames: *c\n", "names: &n [*n]\n", "names: !!python/object/apply:os.system [touch x]\n",
    "names: !!binary aGk=\n", "names: {0: cat, 0: dog}\n", "names: 2001-01-01\n", "<<: *x\n", "? [a]\n: b\n", "names: [cat, dog]\ntrain: [a, b]\n",
    "names: {cat: 0}\n", "kpt_shape: [1e9, 3]\nnames: [a]\n", "[" * 3000, "names: !!set {a, b}\n", "names: !!timestamp x\n", "&a x: *a\n",
    "names: " + "{a: " * 500 + "1" + "}" * 500, "names: 0o17\nnc: .nan\n", "- 1\n", "names: !!int x\n", "names: !!float 1_\n", "names: 190:20:30.15\n", "%YAML 9.9\n---\na",
    "a: &l0 [x]\n" + "".join("a%d: &l%d [%s]\n" % (n, n, ", ".join(["*l%d" % (n - 1)] * 9)) for n in range(1, 9)) + "names: *l8\n",
]  # fmt: skip


def yolo(r: Random, folder: Path) -> Any:
    for part in ("images/train", "labels/train"):
        (folder / part).mkdir(parents=True)
    for i in range(2):
        (folder / f"images/train/{i}.jpg").write_bytes(jpeg())
        rows = [["0", "0.5", "0.5", "0.25", "0.25"], ["1", "0.5", "0.5", "1", "1"]]
        for _ in range(r.choice([0, 1, 1, 2]) if chance(r, 1) else 0):
            row = r.choice(rows)
            row[r.randrange(len(row))] = r.choice([*TEXTS, *map(str, NUMBERS), "1_0", "٣", "0x1", "+0.5", "1e400", "-inf"])
        (folder / f"labels/train/{i}.txt").write_bytes("\n".join(map(" ".join, rows)).encode("utf-8", "surrogatepass"))
    if r.random() < 0.7:
        tree = {"path": ".", "train": "images/train", "nc": 2, "names": {"0": "cat", "1": "dog"} if r.random() < 0.5 else ["cat", "dog"]}
        text = r.choice(YAMLS).encode() if chance(r, 0.4) else document(r, tree)
        (folder / "data.yaml").write_bytes(text)
    return folder, r.choice([{}, {"split": "train"}, {"names": ["cat", "dog"]}, {"points": (2, 2)}])


def varint(value: int) -> bytes:
    value &= (1 << 70) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def message(r: Random, number: int, value: Any, share: float) -> bytes:
    """Returns a protobuf field, sometimes changed. Its value is bytes, a number, or a list of fields."""
    wire = 0 if isinstance(value, int) else 2
    if isinstance(value, list):
        value = b"".join(message(r, *one, share) for one in value)
    if r.random() < share:
        how = r.randrange(10)
        if how == 0:
            number = r.choice([0, 1, 2, 3, 4, 15, 16, 2**29 - 1, 2**40])
        elif how == 1:
            wire = r.randrange(8)
        elif how == 2:
            return b""
        elif how == 3:
            return message(r, number, value, 0) * r.choice([2, 3, 100])
        elif how == 4 and isinstance(value, bytes):
            return varint(number << 3 | 2) + varint(r.choice([0, 1, len(value) + 1, 2**31, 2**32, 2**63, 2**64 - 1])) + value
        elif how == 5:
            return varint(number << 3) + r.choice([b"\xff" * 9 + b"\x01", b"\xff" * 10, b"\x80" * 9 + b"\0", b"\x80" * 30, b"\x80"])
        elif how == 6:
            return varint(number << 3 | 3) * r.choice([1, 1000])
        elif how == 7:
            value = r.choice([0, 1, -1, 2**31, 2**63, 2**64 - 1]) if isinstance(value, int) else r.choice([b"", b"\xff" * 8, os.urandom(0), b"\n" * 50, r.randbytes(20)])
        elif how == 8 and isinstance(value, bytes):
            value = value[: r.randrange(len(value) + 1)]
        else:
            return r.randbytes(r.choice([1, 5, 50]))
    body = varint(value) if isinstance(value, int) else varint(len(value)) + value
    return varint(number << 3 | wire) + body


def tfrecord(r: Random, folder: Path) -> Any:
    crc32c = pytest.importorskip("crc32c").crc32c

    def masked(data: bytes) -> bytes:
        crc = crc32c(data)
        return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)

    out = b""
    share = r.choice([0, 0.02, 0.05, 0.2])
    for i in range(3):
        features = [
            ("image/encoded", [(1, [(1, jpeg())])]), ("image/class/label", [(3, [(1, i)])]), ("image/text", [(1, [(1, b"caption")])]),
            ("box", [(2, [(1, struct.pack("<4f", 0, 0.1, 1, float("nan") if r.random() < 0.1 else 1))])]), ("ids", [(3, [(1, varint(5) * 3)])]),
        ]  # fmt: skip
        r.shuffle(features)
        data = message(r, 1, [(1, [(1, r.choice(TEXTS).encode("utf-8", "surrogatepass") if r.random() < share else name.encode()), (2, value)]) for name, value in features], share)
        head = struct.pack("<Q", len(data) if r.random() > 0.03 else r.choice([0, 2**63, 2**40, len(data) + 1]))
        out += head + masked(head) + data + masked(data)
    out = gzip.compress(out) if r.random() < 0.2 else out
    (folder / "a.tfrecord").write_bytes(out)
    return folder, r.choice([{}, {"key": "image/text"}, {"arrays": {"box": "float32"}}, {"text": ["image/text"]}])


def npy(r: Random) -> bytes:
    out = io.BytesIO()
    np.save(out, np.zeros(12, r.choice(["f4", "u1", "i8", "c8", "S3", "U2", "M8[s]", "V5"])) if chance(r, 0.3) else np.zeros((2, 3), "f4"))
    data = out.getvalue()
    if chance(r, 0.6):
        header = r.choice([
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 64)}", "{'descr': '|O', 'fortran_order': False, 'shape': (2,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967295,)}",
            "{'descr': [('a', '<f4')], 'fortran_order': True, 'shape': (1,)}", "{'descr': 'f' * 9999999, 'shape': ()}", "(" * 300, "{'descr': '|S2147483647', 'fortran_order': False, 'shape': (9,)}",
            "{'descr': '<f4', 'fortran_order': 1, 'shape': (0, 9223372036854775807)}", "{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,)}", "\0", "{'descr': ('<f4', (9999999, 9999999)), 'fortran_order': False, 'shape': (1,)}",
        ]).encode() + b"\n"  # fmt: skip
        data = b"\x93NUMPY" + r.choice([b"\1\0", b"\2\0", b"\3\0", b"\xff\0"]) + struct.pack("<H", len(header)) + header + b"\0" * 8
    return data


def webdataset(r: Random, folder: Path) -> Any:
    out = b""
    for i in range(3):
        for extension, data in (("jpg", jpeg()), ("cls", b"1"), ("json", document(r, {"a": [1, {"b": "x"}]})), ("npy", npy(r)), ("txt", b"text"), ("seg.png", png() if r.calm else b"\x89PNG\r\n\x1a\n")):
            if chance(r, 0.3):
                continue
            info = tarfile.TarInfo(f"{i:03}.{extension}")
            info.size = len(data)
            if chance(r, 0.15):
                how = r.randrange(8)
                if how == 0:
                    info.type = r.choice([bytes([kind]) for kind in b"0123456789xgLKNSVDMX\0"])
                    info.linkname = r.choice(["000.jpg", "/etc/passwd", "../x"])
                elif how == 1:
                    info.name = r.choice(TEXTS).replace("\0", "") or "."
                elif how == 2:
                    pairs = {"path": r.choice(TEXTS), "size": r.choice(["0", "-1", "1e3", "999999999999999", "x"]), "linkpath": "x", "mtime": r.choice(["nan", "1e999", "x"]),
                             "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.map": r.choice(["0,1", "0,99999999999", "a,b", "0"]), "GNU.sparse.realsize": r.choice(["1", "1099511627776", "x"]),
                             "GNU.sparse.name": "s.txt", "GNU.sparse.size": "99999999999", "hdrcharset": "BINARY"}  # fmt: skip
                    info.pax_headers = {key: value for key, value in pairs.items() if r.random() < 0.4}
                elif how == 3:
                    info.size = r.choice([0, len(data) + 1, 2**33, 2**40])
                elif how == 4:
                    data = r.choice([b"", b"\xff\xfe", b"NaN", b"9" * 5000, b"\x80\x04.", b"\xd9\xa3", jpeg()[:30]])
                    info.size = len(data)
                elif how == 5:
                    info.name = f"{i:03}." + r.choice(["0", "000.jpg", "frame.000.jpg", "frame.999999999.jpg", "a" * 300, "é", "pyd", "cls"])
            try:
                head = info.tobuf(r.choice([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]), "utf-8", "surrogateescape")
            except (ValueError, UnicodeError):
                continue
            out += head + data + bytes(-len(data) % 512)
    out += bytes(1024)
    (folder / "a.tar").write_bytes(gzip.compress(out) if r.random() < 0.2 else out)
    if r.random() < 0.3:
        (folder / "classes.json").write_bytes(document(r, ["cat", "dog"]))
    return folder, r.choice([{}, {} if r.calm else {"frames": "frame"}, {"prefix_keys": True}, {"masks": ["seg"]}, {"max_sample_bytes": 4096}])


def mds(r: Random, folder: Path) -> Any:
    encodings = ["jpeg", "int", "str", "json", "ndarray", "ndarray:float32:2,3", "str_float", "str_int", "pil", "bytes", "float16", "str_decimal"]
    values = [jpeg(), struct.pack("<q", 1), b"text", b'{"a": 1}', b"\x22\x08\x02\x03" + bytes(24), bytes(24), b"1.5", b"7", struct.pack("<3I", 2, 2, 1) + b"L" + bytes(4), b"x", bytes(2), b"1.50"]
    sizes = [None, 8, None, None, None, 24, None, None, None, None, 2, None]
    chosen = r.sample(range(len(encodings)), r.choice([1, 3, 12]))
    samples = []
    for _ in range(3):
        parts = [values[i] for i in chosen]
        if chance(r, 0.4):
            at = r.randrange(len(parts))
            if sizes[chosen[at]] is None:
                parts[at] = r.choice([b"", r.randbytes(9), b"\xff\xff\xff\xff" * 4, document(r, {"a": 1}), b"nan", b"9" * 5000, b"\x22\x83" + b"\xff" * 24])
        samples.append(b"".join(struct.pack("<I", len(p)) for p, i in zip(parts, chosen) if sizes[i] is None) + b"".join(parts))
    offsets = np.cumsum([4 * 5, *map(len, samples)]).astype("<u4").tobytes()
    data = bytearray(struct.pack("<I", 3) + offsets + b"".join(samples))
    if chance(r, 0.2):
        struct.pack_into("<I", data, 4 * r.randrange(5), r.choice([0, 1, 2**31, 2**32 - 1, len(data)]))
    compression = r.choice([None, None, "gz"] if r.calm else [None, None, "gz", "bz2", "zstd:3", "x"])
    shard: dict[str, Any] = {
        "format": "mds", "version": 2, "column_names": [f"c{i}" for i in chosen], "column_encodings": [encodings[i] for i in chosen], "column_sizes": [sizes[i] for i in chosen],
        "compression": compression, "hashes": [], "samples": 3, "size_limit": 1 << 26,
        "raw_data": {"basename": "s.mds", "bytes": len(data), "hashes": {}}, "zip_data": {"basename": "s.mds.z", "bytes": 5, "hashes": {}},
    }  # fmt: skip
    if compression == "gz":
        (folder / "s.mds.z").write_bytes(gzip.compress(data))
    else:
        (folder / "s.mds").write_bytes(data)
    (folder / "index.json").write_bytes(document(r, {"version": 2, "shards": [shard, copy.deepcopy(shard)]}))
    return folder, r.choice([{}, {"max_shard_bytes": 4096}])


def beton(r: Random, folder: Path) -> Any:
    from test_convert_beton import FIELDS, sample, write_beton

    chosen = r.sample(range(len(FIELDS)), r.choice([1, 3, 7]))
    fields = {name: FIELDS[name] for name in (list(FIELDS)[i] for i in chosen)}
    file = write_beton(folder / "a.beton", fields, [[sample(number)[i] for i in chosen] for number in range(4)])
    data = bytearray(file.read_bytes())
    table = struct.unpack_from("<Q", data, 16)[0]
    # Change the header, descriptors, rows of metadata, and table of sizes.
    places = [*range(24), *range(24, 24 + 1041 * len(chosen), 13), *range(24 + 1041 * len(chosen), 24 + 1041 * len(chosen) + 400), *range(table, len(data))]
    for _ in range(r.choice([1, 1, 2]) if r.calm else r.randrange(1, 9)):
        data[r.choice(places)] = r.choice([0, 1, 6, 255, r.randrange(256)])
    if chance(r, 0.2):
        del data[r.randrange(len(data)) :]
    file.write_bytes(data)
    return file, r.choice([{}, {"max_sample_bytes": 4096}])


def lerobot(r: Random, folder: Path) -> Any:
    from lerobot_support import write_lerobot

    pytest.importorskip("av")
    write_lerobot(folder, r.choice(["v2.1", "v3.0"]), (4, 2, 3), r.choice(["image", "video", None]))
    of_meta = sorted(folder.glob("meta/*.json*"))
    others = [file for file in sorted(folder.rglob("*")) if file.suffix in (".parquet", ".mp4")]
    for file in of_meta:
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        if r.random() < 0.4:
            file.write_bytes(b"\n".join(document(r, line) for line in lines))
    for file in r.sample(others, r.choice([0, 0, 1] if r.calm else [0, 1, 2])):
        data = bytearray(file.read_bytes())
        for _ in range(r.choice([1, 3, 20])):
            # The tables of a video and of a Parquet file are at its end.
            at = r.randrange(max(0, len(data) - 1500), len(data)) if r.random() < 0.6 else r.randrange(len(data))
            data[at] = r.choice([0, 255, r.randrange(256)])
        if chance(r, 0.2):
            del data[r.randrange(len(data)) :]
        file.write_bytes(data)
    if chance(r, 0.2):
        (file := r.choice(others)).unlink()
        if r.random() < 0.5:
            file.symlink_to(r.choice(["/etc/passwd", "/dev/zero", file.name, "."]))
    return folder, r.choice([{}, {}, {"window": 2}, {"episodes": "1:"}, {"max_sample_bytes": 9300}, {"follow_links": True}])


def parquet(r: Random, folder: Path) -> Any:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = {
        "image": pa.array([{"bytes": jpeg(), "path": "a.jpg"}, {"bytes": r.choice([jpeg(), None, b"", b"x"]), "path": r.choice(["b", None])}]),
        "label": pa.array([0, r.choice([1, None, 5])]),
        "list": pa.array([[[1.0], [2.0]], r.choice([[[1.0], []], None, [[None]]])]),
        "text": pa.array([r.choice(["a", "", "\x1b", "x" * 3000]), "b"]),
        "json": pa.array([{"a": [{"b": 1}]}, None]),
        "odd": r.choice([pa.array([b"x", None]), pa.array([1, 2], pa.decimal128(5)), pa.array([1, 2], pa.timestamp("s")), pa.array(["a", "b"]).dictionary_encode(), pa.nulls(2), pa.array([True, None]), pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64()))]),
    }  # fmt: skip
    names = r.sample(sorted(table), r.choice([1, 3, 6]))
    made = pa.table({name: table[name] for name in names})
    features = {"info": {"features": {"label": {"_type": "ClassLabel", "names": ["cat", "dog"]}, "image": {"_type": "Image"}}}}
    made = made.replace_schema_metadata({b"huggingface": document(r, features) if r.random() < 0.7 else json.dumps(features).encode()})
    out = io.BytesIO()
    if r.random() < 0.5:
        pq.write_table(made, out, compression=r.choice(["snappy", "zstd", "none"]), use_dictionary=r.random() < 0.5)
    else:
        with (pa.ipc.new_file if r.random() < 0.5 else pa.ipc.new_stream)(out, made.schema) as writer:
            writer.write_table(made)
    data = bytearray(out.getvalue())
    if r.random() < 0.3:
        for _ in range(r.choice([1, 3])):
            # Make most changes in the footer.
            at = r.randrange(max(0, len(data) - 600), len(data)) if r.random() < 0.6 else r.randrange(len(data))
            data[at] = r.choice([0, 255, r.randrange(256)])
    (folder / "a.parquet").write_bytes(data)
    return folder, r.choice([{}, {}, {"key": "text"}, {"key": "image.path"}, {"drop": ["odd"]}]) if "odd" in names and "text" in names and "image" in names else {}


def nifti(r: Random, folder: Path) -> Any:
    nibabel = pytest.importorskip("nibabel")
    image = nibabel.Nifti1Image(np.arange(60, dtype=r.choice(["i2", "f4", "u1", "c8"])).reshape(3, 4, 5), np.eye(4))
    data = bytearray(image.to_bytes())
    fields = [(0, "i"), (39, "b"), *((40 + 2 * i, "h") for i in range(8)), (70, "h"), (72, "h"), *((76 + 4 * i, "f") for i in range(8)), (108, "f"), (112, "f"), (116, "f"), (123, "b"), (252, "h"), (254, "h"), *((256 + 4 * i, "f") for i in range(18)), (344, "i"), (348, "i"), (352, "i"), (356, "i")]  # fmt: skip
    for _ in range(r.choice([0, 1, 1, 2, 5])):
        at, kind = r.choice(fields)
        limits = {"b": 127, "h": 2**15 - 1, "i": 2**31 - 1}
        value = r.choice([0.0, 1.0, -1.0, float("nan"), float("inf"), 1e30, 352.5, -1e9]) if kind == "f" else r.choice([0, 1, -1, 2, 4, 7, 8, 16, 32, 64, 128, 256, 512, 768, 1024, 1536, 1792, 2048, 2304, limits[kind], -limits[kind]])
        value = value if kind == "f" else max(-limits[kind], min(limits[kind], int(value)))
        struct.pack_into("<" + kind, data, at, value)
    if r.random() < 0.2:
        data = data[: r.randrange(len(data))]
    packed = r.random() < 0.3
    (folder / ("a.nii.gz" if packed else "a.nii")).write_bytes(gzip.compress(data) if packed else data)
    return folder, r.choice([{}, {"scaled": False}, {"channels": "last"}, {"dtype": "float32"}, {"max_sample_bytes": 100}])


def dicom(r: Random, folder: Path) -> Any:
    pydicom = pytest.importorskip("pydicom")
    from pydicom.dataset import Dataset, FileMetaDataset

    for number in range(2):
        one, meta = Dataset(), FileMetaDataset()
        meta.TransferSyntaxUID = "1.2.840.10008.1.2.1" if r.calm else r.choice(["1.2.840.10008.1.2.1"] * 4 + ["1.2.840.10008.1.2", "1.2.840.10008.1.2.5", "1.2.840.10008.1.2.1.99", "1.2.3", "1.2.840.10008.1.2.4.50"])
        meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = "1.2.840.10008.5.1.4.1.1.2", f"1.2.{number}"
        one.file_meta = meta
        values: dict[str, Any] = {
            "SOPInstanceUID": f"1.2.{number}", "SeriesInstanceUID": "1.2.3", "Modality": "CT", "Rows": 4, "Columns": 5, "BitsAllocated": 16, "BitsStored": 12, "HighBit": 11, "PixelRepresentation": 0,
            "SamplesPerPixel": 1, "PhotometricInterpretation": "MONOCHROME2", "RescaleSlope": "2", "RescaleIntercept": "-1024", "InstanceNumber": str(number),
            "ImagePositionPatient": ["0", "0", str(number)], "ImageOrientationPatient": ["1", "0", "0", "0", "1", "0"], "PixelSpacing": ["1", "1"], "WindowCenter": "40", "PixelData": bytes(40),
        }  # fmt: skip
        for _ in range(r.choice([0, 1, 1, 3]) if chance(r, 1) else 0):
            values[r.choice(sorted(values))] = r.choice([None, 0, 1, 3, 65535, 32, "", "nan", "1e400", "x" * 100, ["1"], ["1"] * 9, "inf", "-1", b"", bytes(7), "\x1b[2J"])
        if chance(r, 0.2):
            values["NumberOfFrames"] = r.choice(["2", "0", "-1", "2147483647", "x"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                for name, value in values.items():
                    setattr(one, name, value)
                out = io.BytesIO()
                one.save_as(out, enforce_file_format=False, little_endian=True, implicit_vr=meta.TransferSyntaxUID == "1.2.840.10008.1.2")
                data = out.getvalue()
            except Exception:  # What pydicom itself does not write.
                data = b""
        head = bytes(128) + b"DICM"
        if not data.startswith(head):
            explicit = b"\x02\x00\x10\x00UI\x14\x001.2.840.10008.1.2.1\0"
            data = head + b"\x02\x00\x00\x00UL\x04\x00" + struct.pack("<I", len(explicit)) + explicit + data
        raw = bytearray(data)
        if chance(r, 0.4):
            for _ in range(r.choice([1, 1, 4])):
                at = r.randrange(132, len(raw))
                raw[at] = r.choice([0, 255, r.randrange(256), raw[at] ^ 1])
        if chance(r, 0.1):
            # Append nested sequences of undefined length.
            raw += (b"\x08\x00\x40\x11SQ\0\0\xff\xff\xff\xff" + b"\xfe\xff\x00\xe0\xff\xff\xff\xff") * r.choice([3, 300, 5000])
        (folder / f"{number}.dcm").write_bytes(raw)
    return folder, r.choice([{}, {"samples": "files"}, {"uneven": True}, {"max_sample_bytes": 1000}])


def bad_codecs(r: Random, *arrays: dict[str, Any]) -> None:
    """Puts an unsupported codec into some of the arrays, and adds keys of the other Zarr version."""
    for array in arrays:
        if not chance(r, 0.3):
            continue
        name, at = r.choice(BAD_CODECS), r.choice([0, 1])
        if array["zarr_format"] == 2:
            array["filters"] = [*array["filters"]]
            array["filters"].insert(at, {"id": name})
            array |= r.choice([{}, {"codecs": 1}, {"node_type": "array"}, {"compressor": {"id": name}, "filters": None}])
        else:
            array["codecs"] = [*array["codecs"]]
            array["codecs"].insert(at, r.choice([name, {"name": name}, {"name": name, "configuration": {"codec": {"id": "pickle"}}}]))
            array |= r.choice([{}, {"zarr_format": 2, "filters": [{"id": name}], "compressor": None, "dtype": "|O", "chunks": [2]}])


def zarr(r: Random, folder: Path) -> Any:
    pytest.importorskip("zarr", minversion="3")
    chunk = np.arange(6, dtype="<i4").tobytes()
    text = struct.pack("<I", 2) + b"".join(struct.pack("<I", 1) + b"1" for _ in range(2))
    root: dict[str, dict[str, Any]] = {}
    if r.random() < 0.5:
        array: dict[str, Any] = {"zarr_format": 2, "shape": [4, 3], "chunks": [2, 3], "dtype": "<i4", "fill_value": 0, "order": "C", "compressor": {"id": "zlib", "level": 1}, "filters": [{"id": "delta", "dtype": "<i4"}], "dimension_separator": "."}
        string = array | {"shape": [4], "chunks": [2], "dtype": "|O", "fill_value": "", "compressor": None, "filters": [{"id": "vlen-utf8"}]}
        root = {".zgroup": {"zarr_format": 2}, ".zattrs": {"classes": ["a"]}, "x/.zarray": array, "t/.zarray": string, "g/.zgroup": {"zarr_format": 2}, "g/0/.zarray": array}
        bad_codecs(r, array, string)
        if r.random() < 0.3:
            root[".zmetadata"] = {"zarr_consolidated_format": 1, "metadata": {name: value for name, value in root.items()}}
            root[".zmetadata"] |= r.choice([{}, {"zarr_format": 2}])
        chunks = {"x/0.0": zlib.compress(chunk), "x/1.0": zlib.compress(chunk), "t/0": text, "t/1": text}
    else:
        codecs = r.choice([
            [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "gzip", "configuration": {"level": 1}}],
            *([] if r.calm else [[{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 3], "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}], "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}], "index_location": "end"}}]]),
            [{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "bytes", "configuration": {"endian": "little"}}],
        ])  # fmt: skip
        array = {"zarr_format": 3, "node_type": "array", "shape": [4, 3], "data_type": "int32", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}}, "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": 0, "codecs": codecs, "attributes": {"kind": "json"}, "dimension_names": ["a", "b"]}
        string = {**array, "shape": [4], "data_type": "string", "fill_value": "", "codecs": [{"name": "vlen-utf8"}], "dimension_names": None, "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}}
        bad_codecs(r, array, string)
        group = {"zarr_format": 3, "node_type": "group", "attributes": {"classes": ["a", "b"]}}
        if r.random() < 0.3:
            group["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": {r.choice(["x", "x", ".zattrs", "x/.zgroup"]): array, "t": string}}
        root = {"zarr.json": group, "x/zarr.json": array, "t/zarr.json": string}
        chunks = {"x/c/0/0": gzip.compress(chunk) if codecs[-1]["name"] == "gzip" else chunk + r.randbytes(0 if r.calm else r.choice([0, 36])), "t/c/0": text, "t/c/1": text}
    for name, value in root.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(document(r, value) if r.random() < 1.2 / len(root) and not r.calm else json.dumps(value).encode())
    for name, data in chunks.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(r.choice([b"", data[:-1], r.randbytes(len(data)), data + b"x", pickle.dumps(Runs(str(folder.parent / "ran")))]) if chance(r, 0.25) else data)
    if r.calm:
        return folder, {"drop": ["g"]} if "x/.zarray" in root else {}
    return folder, r.choice([{}, {"samples": "rows"}, {"samples": "groups"}, {"key": "t", "drop": ["g"]}, {"drop": ["g", "t"]}, {"attributes": True, "samples": "groups"}])


def hdf5(r: Random, folder: Path) -> Any:
    h5py = pytest.importorskip("h5py")
    path = folder / "a.h5"
    with h5py.File(path, "w", libver=r.choice(["earliest", "latest"])) as file:
        for number in range(r.choice([1, 3])):
            name = r.choice(["x", "label", "0", "1", "__key__", "g/x", "g/y", "train/x", "é", "a" * 300, "\x1b[2J"])
            name = f"x{number}" if r.calm else f"{name}{number}"
            kind = r.choice([4, 5, 5, 11]) if r.calm else r.randrange(12)
            if kind == 0:
                file.create_dataset(name, r.choice([(3, 2), (1 << 40,), (0,), (), (3, 1 << 30), (1 << 20, 1 << 20)]), r.choice(["u1", "f4", "f8"]))
            elif kind == 1:
                file.create_dataset(name, (3,), h5py.string_dtype(r.choice(["ascii", "utf-8"]), r.choice([None, 5, 1 << 20])))[:2] = r.choice([b"\xff", b"a", b""])
            elif kind == 2:
                file.create_dataset(name, (3,), h5py.vlen_dtype(r.choice(["u1", "f4"])))[0] = np.arange(5)
            elif kind == 3:
                file[name] = r.choice([h5py.SoftLink("/x"), h5py.SoftLink(f"/{name}"), h5py.SoftLink("."), h5py.SoftLink("/" + "a/" * 2000), h5py.ExternalLink("/dev/zero", "/"), h5py.ExternalLink(str(path), "/x")])
            elif kind == 4:
                file[name] = np.zeros(3, r.choice([[("a", "f4")], "c8", "S4", "V3", "?", "<f2", ">u2"])) if r.random() < 0.7 else h5py.Empty("f4")
            elif kind == 5:
                file.create_dataset(name, (3, 4), "f4", chunks=r.choice([(1, 4), (3, 4)]), compression=r.choice(["gzip", "lzf", None]), shuffle=True, fletcher32=r.random() < 0.5)[0] = 1
            elif kind == 6:
                layout = h5py.VirtualLayout((3,), "u1")
                layout[:] = h5py.VirtualSource(r.choice([".", "/etc/passwd", "/dev/zero"]), "x", (3,))
                file.create_virtual_dataset(name, layout)
            elif kind == 7:
                file.create_dataset(name, (3,), "u1", external=[(r.choice(["/etc/passwd", "/dev/zero"]), 0, 3)])
            elif kind == 8:
                file[name] = np.dtype(r.choice(["f4", "S3"]))
            elif kind == 9:
                file.create_dataset(name, (3,), h5py.ref_dtype)[0] = file.ref
            elif kind == 10:
                group = file.require_group(name)
                group[r.choice(["self", "0", "x"])] = file
                group.attrs[r.choice(["label", "classes", "é", "x" * 100])] = r.choice(["a", b"\xff", 1, [1, 2], np.float32(1), h5py.Empty("f4"), ["a", "b"], file.ref])
            else:
                file[name] = np.arange(12).reshape(3, 4)
        if chance(r, 0.3):
            file.attrs[r.choice(["classes", "class_names"])] = r.choice(["a", b"\xff", 1, [1, 2], ["a", "a"], ["a", "b"], h5py.Empty("f4"), file.ref])
    return path, r.choice([{}, {"samples": "rows"}, {"samples": "groups"}, {"samples": "groups", "attributes": True}, {"group": "g"}, {"key": "label0"}])


def lmdb(r: Random, folder: Path) -> Any:
    library = pytest.importorskip("lmdb")
    env = library.open(str(folder), map_size=1 << 20)
    with env.begin(write=True) as transaction:
        for number in range(6):
            key = r.choice([b"%d" % number, b"image-%d" % number, b"text-%d" % number, b"\xff%d" % number, b"../%d" % number, b"\x1b[2J%d" % number])
            floats = [(6, b"\0" * 8), (1, 1), (2, 1), (3, 2)]
            pixels = [(1, 3), (2, 2), (3, 2), (4, bytes(12)), (5, number)]
            data = b"".join(message(r, *one, 0.1) for one in (floats if r.random() < 0.3 else pixels))
            transaction.put(key, r.choice([data, jpeg(), b"text", b"", b"\x80\x04N."]))
    env.close()
    file = folder / "data.mdb"
    raw = bytearray(file.read_bytes())
    for _ in range(r.choice([0, 1, 2])):
        page = r.randrange(len(raw) // 4096) * 4096
        at = page + r.choice([r.randrange(64), r.randrange(4096)])
        raw[at] = r.choice([0, 255, r.randrange(256)])
    file.write_bytes(raw)
    return folder, r.choice([{}, {"value": "bytes"}, {"value": "datum"}, {"value": "image"}, {"prefixes": {"image": "image-", "text": "text-"}}])


FORMATS: dict[str, Mutation] = {
    one.__name__: one for one in (coco, voc, yolo, tfrecord, webdataset, mds, beton, lerobot, parquet, nifti, dicom, zarr, hdf5, lmdb)
}  # fmt: skip


def run(format: str, count: int, seed: int, root: Path) -> None:
    """Converts `count` changed sources in this process. Prints every result except successes and the package's own
    errors.
    """
    import resource

    import shardpack as sp
    from shardpack.convert import SourceError

    sys.path.insert(0, str(Path(__file__).parent))
    warnings.simplefilter("ignore")
    own = (SourceError, sp.UsageError, sp.FormatError, sp.LimitError)

    class Late(BaseException):
        pass

    def late(*_: object) -> None:
        raise Late

    signal.signal(signal.SIGALRM, late)
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    done = refused = 0
    for number in range(seed, seed + count):
        r = Random(f"{format} {number}")
        r.calm = number % 10 < 3
        shutil.rmtree(root, ignore_errors=True)
        (root / "source").mkdir(parents=True)
        source, options = FORMATS[format](r, root / "source")
        print(f"at {number}", flush=True)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        signal.alarm(_SECONDS)
        try:
            sp.convert(format, source, root / "out", on_bad_input=r.choice(["stop", "skip"]), threads=1, **options)
            done += 1
            assert len(sp.Dataset(root / "out")) > 0
        except own as error:
            refused += 1
            text = str(error)
            if str(root) not in text and format not in text:
                print(f"FOUND {number}: names no file: {text[:300]!r}")
            if any(not one.isprintable() for one in text.replace("\n", "")):
                print(f"FOUND {number}: not printable: {text[:300]!r}")
            if len(text) > 20_000:
                print(f"FOUND {number}: {len(text)} characters: {text[:300]!r}")
        except FileNotFoundError as error:
            refused += 1
            if not str(error.filename).startswith(str(root)):
                print(f"FOUND {number}: {error!r}")
        except Late:
            print(f"FOUND {number}: more than {_SECONDS} s")
        except BaseException as error:
            print(f"FOUND {number}: {type(error).__module__}.{type(error).__name__}: {str(error)[:300]!r}")
        finally:
            signal.alarm(0)
        if (root / "ran").exists():
            print(f"FOUND {number}: ran a pickle of the source")
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        if grown * 1024 > _MEMORY:
            print(f"FOUND {number}: {grown >> 10} MiB")
    print(f"converted {done}, refused {refused} of {count}")


@pytest.mark.skipif(os.name != "posix", reason="limits of a process")
@pytest.mark.parametrize("format", FORMATS)
def test_changed_sources_are_converted_or_refused(tmp_path: Path, format: str) -> None:
    needed = {"tfrecord": ["crc32c"], "lerobot": ["pyarrow", "av"], "parquet": ["pyarrow"], "nifti": ["nibabel"], "dicom": ["pydicom"], "zarr": ["zarr"], "hdf5": ["h5py"], "lmdb": ["lmdb"], "yolo": ["yaml"]}
    for library in needed.get(format, []):
        pytest.importorskip(library)
    command = [sys.executable, __file__, format, str(COUNT), str(SEED), str(tmp_path / "w")]
    started = time.monotonic()
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "RUST_BACKTRACE": "0", "NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60 + COUNT * _SECONDS)
    lines = ended.stdout.splitlines()
    found = [line for line in lines if line.startswith("FOUND")]
    assert ended.returncode == 0, f"{lines[-1:]}: {ended.returncode}\n{ended.stderr[-3000:]}"
    assert not found, "\n".join(found)
    converted, refused, count = map(int, re.findall(r"\d+", lines[-1]))
    # At least a tenth of the sources must be converted, and some refused. Otherwise the changes are too severe or have
    # no effect.
    assert count < 40 or converted * 10 >= count and refused > 0, lines[-1]
    print(f"{format}: {lines[-1]}, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
