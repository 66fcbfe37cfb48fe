"""Tests conversion from LMDB environments."""

from __future__ import annotations

import os
import pickle
import signal
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from convert_support import content, jpeg, kinds, picture, pixels

import shardpack as sp
from shardpack.convert import _lmdb_entries
from shardpack.convert.lmdb import open as open_lmdb

lmdb = pytest.importorskip("lmdb")


def write(path: Path, entries: dict[bytes, bytes], subdir: bool = True) -> Path:
    env = lmdb.open(str(path), map_size=1 << 24, subdir=subdir)
    with env.begin(write=True) as transaction:
        for key, value in entries.items():
            transaction.put(key, value)
    env.close()
    return path


def datum(
    image: np.ndarray | None = None, encoded: bytes = b"", label: int = 0, floats: tuple[float, ...] = ()
) -> bytes:
    """Returns Caffe's `Datum`, with pixels stored as [channels, height, width] in BGR."""
    out = b""
    if image is not None:
        planes = image[..., ::-1].transpose(2, 0, 1) if image.ndim == 3 else image[None]
        out += b"".join(bytes([tag << 3, size]) for tag, size in zip((1, 2, 3), planes.shape))
        encoded = planes.tobytes()
    if floats:
        out += bytes([8, 1, 16, 1, 24, len(floats)]) + b"".join(b"\x35" + struct.pack("<f", value) for value in floats)
    if encoded:
        length = len(encoded)
        out += b"\x22" + bytes([length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14]) + encoded
    return out + bytes([5 << 3, label])


@pytest.mark.parametrize("subdir", [True, False])
def test_pictures_under_their_keys(tmp_path: Path, subdir: bool) -> None:
    entries = {f"cat/{i}".encode(): jpeg(i) for i in range(3)} | {
        b"\xff\x00": picture(3, "PNG"),
        b"__len__": pickle.dumps(4),
    }
    sp.convert("lmdb", write(tmp_path / "a.lmdb", entries, subdir), tmp_path / "out")
    found = content(tmp_path / "out", "image")
    assert {key: sample["image"] for key, sample in found.items()} == {f"cat/{i}": jpeg(i) for i in range(3)} | {
        "ff00": picture(3, "PNG")
    }


def test_caffe_datums(tmp_path: Path) -> None:
    entries = {
        b"0": datum(pixels(0, 5, 4), label=3),
        b"1": datum(pixels(1, 5, 4)[..., 0], label=1),
        b"2": datum(encoded=jpeg(2), label=2),
    }
    sp.convert("lmdb", write(tmp_path / "a", entries), tmp_path / "out")
    found = content(tmp_path / "out", "image")
    assert [found[key]["label"] for key in "012"] == [3, 1, 2] and found["2"]["image"] == jpeg(2)
    assert np.array_equal(sp.Dataset(tmp_path / "out").by_key("0")["image"], pixels(0, 5, 4))
    sp.convert("lmdb", write(tmp_path / "b", {b"0": datum(floats=(0.5, 1.5), label=1)}), tmp_path / "floats")
    assert content(tmp_path / "floats")["0"]["array"].tolist() == [[[0.5, 1.5]]]


def test_entries_that_a_function_takes_apart(tmp_path: Path) -> None:
    entries = {f"{i}".encode(): bytes([i]) + jpeg(i) for i in range(3)}
    sp.convert(
        "lmdb",
        write(tmp_path / "a", entries),
        tmp_path / "out",
        value=lambda key, value: {"image": value[1:], "label": value[0]},
    )
    found = content(tmp_path / "out", "image")
    assert [(found[key]["image"], found[key]["label"]) for key in "012"] == [(jpeg(i), i) for i in range(3)]


def test_one_entry_for_each_column(tmp_path: Path) -> None:
    entries = {b"num-samples": b"2"}
    for i in range(2):
        entries |= {f"image-{i:09d}".encode(): jpeg(i), f"label-{i:09d}".encode(): f"wörd {i}".encode()}
    src = write(tmp_path / "a", entries)
    sp.convert("lmdb", src, tmp_path / "out", prefixes={"image": "image-", "text": "label-"})
    assert kinds(tmp_path / "out") == {"image": "image", "text": "text"}
    found = content(tmp_path / "out", "image")
    assert found["000000001"]["image"] == jpeg(1) and found["000000001"]["text"] == "wörd 1"
    with pytest.raises(
        ValueError, match=r"sample `000000000`: column 'text' has no value, because the key `word-000000000` is missing"
    ):
        sp.convert("lmdb", src, tmp_path / "other", prefixes={"image": "image-", "text": "word-"})
    with pytest.raises(ValueError, match="the source has no samples"):
        sp.convert("lmdb", src, tmp_path / "other", prefixes={"image": "photo-"})


def test_samples_without_the_first_column_are_named(tmp_path: Path) -> None:
    entries = {f"image-{i}".encode(): jpeg(i) for i in range(3)}
    entries |= {f"label-{i}".encode(): b"x" for i in range(1, 5)} | {f"note-{i}".encode(): b"y" for i in range(4, 6)}
    src = write(tmp_path / "a", entries)
    columns = {"image": "image-", "text": "label-"}
    report = sp.convert("lmdb", src, tmp_path / "out", prefixes=columns, on_bad_input="skip")
    assert (report["samples"], report["samples_skipped"]) == (2, 3)
    reasons = [skipped["reason"].partition(", ")[2] for skipped in report["skipped"]]
    assert reasons == [
        "sample `0`: column 'text' has no value, because the key `label-0` is missing",
        "sample `3`: column 'image' has no value, because the key `image-3` is missing",
        "sample `4`: column 'image' has no value, because the key `image-4` is missing",
    ]
    # Each sample must be yielded once, regardless of its columns.
    columns = {"note": "note-", "text": "label-", "image": "image-"}
    with pytest.raises(ValueError, match="no sample could be converted"):
        sp.convert("lmdb", src, tmp_path / "no", prefixes=columns, on_bad_input="skip")
    assert len(list(open_lmdb(src, prefixes=columns).items)) == 6


def test_a_prefix_that_begins_as_another_does(tmp_path: Path) -> None:
    entries = {f"image-{i}".encode(): jpeg(i) for i in range(3)} | {f"image-text-{i}".encode(): b"x" for i in range(3)}
    src = write(tmp_path / "a", entries)
    for number, columns in enumerate([{"image": "image-", "text": "image-text-"}, {"text": "image-text-", "image": "image-"}]):
        assert sp.convert("lmdb", src, tmp_path / str(number), prefixes=columns)["samples"] == 3


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({}, "the source has no samples"),
        ({b"a": pickle.dumps((b"x", 1))}, r"key `a`: the value is a pickle, and pickles are not loaded because they can run code\nhint: in Python, pass your own function as `value`"),
        ({b"a": jpeg(1), b"b": b"text"}, r"key `b`: not a JPEG.* picture: it begins with the bytes 74 65 78 74"),
        ({b"a": b"\x08"}, r"key `a`: the value is neither a picture nor a valid Caffe Datum: "),
        ({b"../a": jpeg(1)}, r"key `\.\./a`"),
    ],
)
def test_what_cannot_be_taken_is_named(tmp_path: Path, entries: dict[bytes, bytes], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sp.convert("lmdb", write(tmp_path / "a", entries), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_cut_short_does_not_kill_the_process(tmp_path: Path) -> None:
    data = write(tmp_path / "a", {f"{i}".encode(): jpeg(i, 200, 100) for i in range(50)}) / "data.mdb"
    whole = data.read_bytes()
    for length in (len(whole) // 2, 8192, 4096, 100, 0):
        data.write_bytes(whole[:length])
        with pytest.raises(
            ValueError, match="is cut short: expected|not an LMDB environment|the source has no samples"
        ):
            sp.convert("lmdb", tmp_path / "a", tmp_path / "out")


@pytest.mark.parametrize("skip", ["stop", "skip"])
def test_a_child_that_cannot_load_lmdb_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skip: str) -> None:
    write(tmp_path / "a", {b"0": jpeg(0)})
    # The child process inherits this path.
    monkeypatch.setattr(_lmdb_entries.sys, "path", [path for path in sys.path if "site-packages" not in path])
    with pytest.raises(sp.SourceError, match="cannot read the environment: ModuleNotFoundError: No module named 'lmdb'") as caught:
        sp.convert("lmdb", tmp_path / "a", tmp_path / "out", on_bad_input=skip)
    assert "damage" not in str(caught.value)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_killed_child_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a", {b"%d" % number: jpeg(number) + bytes(2 << 20) for number in range(5)})
    started, start = [], subprocess.Popen
    monkeypatch.setattr(_lmdb_entries.subprocess, "Popen", lambda *a, **k: started.append(start(*a, **k)) or started[-1])
    source = open_lmdb(tmp_path / "a")
    os.kill(started[0].pid, signal.SIGKILL)
    with pytest.raises(sp.SourceError, match="was killed by SIGKILL, perhaps for lack of memory"):
        list(source.items)


@pytest.mark.skipif(sys.platform == "win32", reason="a script that is a program")
def test_the_end_of_what_a_child_said_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a", {b"0": jpeg(0)})
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho no room >&2\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setattr(_lmdb_entries.sys, "executable", str(script))
    with pytest.raises(sp.SourceError, match="ended with exit code 3: no room"):
        sp.convert("lmdb", tmp_path / "a", tmp_path / "out")


def test_wrong_arguments(tmp_path: Path) -> None:
    src = write(tmp_path / "a", {b"0": jpeg(0)})
    with pytest.raises(
        ValueError, match="value: expected 'auto', 'image', 'datum', 'bytes' or a function, found: 'jpeg'"
    ):
        sp.convert("lmdb", src, tmp_path / "out", value="jpeg")
    with pytest.raises(FileNotFoundError):
        sp.convert("lmdb", tmp_path / "missing", tmp_path / "out")
