"""Tests that `convert` refuses damaged sources, and sources built to hang it, to exhaust memory or to lose a value
silently. Cases that could take unbounded time or memory run in a separate process with limits on both.
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
import struct
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_support import bounded

import shardpack as sp
from shardpack.convert import mds, webdataset
from shardpack.convert._source import Problem, Sample
from shardpack.convert._values import parse_int, parse_json

def header(name: bytes, size: int, kind: bytes = b"0") -> bytes:
    """Returns the header of a tar member. A negative size is written in binary, as GNU tar does it."""
    length = b"%011o\0" % size if size >= 0 else b"\xff" * 4 + struct.pack(">q", size)
    head = bytearray(512)
    fields = ((0, name), (100, b"0000644\0"), (124, length), (136, b"0" * 11), (156, kind), (257, b"ustar\x0000"))
    for at, value in fields:
        head[at : at + len(value)] = value
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


def member(name: bytes, data: bytes, kind: bytes = b"0") -> bytes:
    return header(name, len(data), kind) + data + bytes(-len(data) % 512)


GOOD = member(b"a.txt", b"hello") + member(b"a.cls", b"1")
"""Tar members of the valid sample `a`."""
END = bytes(1024)


def damaged_gz(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=31)
    # End with a deflate block of an invalid type.
    return packer.compress(data[: len(data) // 2]) + packer.flush(zlib.Z_FULL_FLUSH) + b"\xff" * 100


def damaged_xz(data: bytes) -> bytes:
    packed = bytearray(lzma.compress(data))
    middle = len(packed) // 2
    packed[middle : middle + 100] = bytes(byte ^ 0x55 for byte in packed[middle : middle + 100])
    return bytes(packed)


@pytest.mark.parametrize(
    ("packer", "damaged", "suffix"), [(gzip.compress, damaged_gz, "gz"), (lzma.compress, damaged_xz, "xz")]
)
def test_damage_in_compressed_tars_ends_that_tar_alone(
    tmp_path: Path, packer: Any, damaged: Any, suffix: str
) -> None:
    noise = np.random.default_rng(1).integers(97, 105, 400_000, np.uint8).tobytes()
    hurt = damaged(GOOD + member(b"b.txt", noise) + member(b"b.cls", b"2") + END)
    (tmp_path / f"0.tar.{suffix}").write_bytes(hurt)
    (tmp_path / f"1.tar.{suffix}").write_bytes(packer(member(b"c.txt", b"c") + member(b"c.cls", b"3") + END))
    with pytest.raises(ValueError, match=rf"0\.tar\.{suffix}`: the tar is damaged after sample `"):
        sp.convert("webdataset", tmp_path, tmp_path / "out")
    report = sp.convert("webdataset", tmp_path, tmp_path / "out", on_bad_input="skip")
    assert (report["samples"], report["samples_skipped"]) == (2, 1)


def test_a_window_of_gibibytes(tmp_path: Path) -> None:
    packed = bytearray(lzma.compress(GOOD + END, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 20}]))
    assert packed[14:16] == b"\x21\x01"
    packed[16] = 40  # The code of 4 GiB less one byte.
    end = 12 + (packed[12] + 1) * 4
    packed[end - 4 : end] = struct.pack("<I", zlib.crc32(packed[12 : end - 4]))
    (tmp_path / "t.tar.xz").write_bytes(packed)
    out = bounded("webdataset", tmp_path / "t.tar.xz")
    assert ": the tar is damaged " in out and "Memory usage limit exceeded" in out


def test_a_lack_of_memory_drops_no_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.tar").write_bytes(GOOD + member(b"b.txt", b"x") + END)

    def fails(*_: Any, **__: Any) -> Any:
        raise MemoryError

    for holder, name in ((webdataset, "_one_tar"), (webdataset._Tar, "next"), (sp.Writer, "write")):
        with monkeypatch.context() as patch:
            patch.setattr(holder, name, fails)
            with pytest.raises(MemoryError):
                sp.convert("webdataset", tmp_path / "t.tar", tmp_path / "out", on_bad_input="skip")


@pytest.mark.parametrize("kind", [b"x", b"g"])
def test_headers_before_headers(tmp_path: Path, kind: bytes) -> None:
    (tmp_path / "t.tar").write_bytes(GOOD + member(b"h", b"", kind) * 3000 + member(b"b.txt", b"x") + END)
    (problem,) = webdataset.open(tmp_path / "t.tar").items
    assert "after sample `a`: the next file has more than 16 extended headers" in str(problem)


def test_headers_for_all_members_that_add_up(tmp_path: Path) -> None:
    def record(number: int) -> bytes:
        text = b"k%04d=" % number + b"x" * 300_000 + b"\n"
        return b"%d " % (len(text) + 7) + text

    members = [member(b"g", record(i), b"g") + member(b"%d.txt" % i, b"x") for i in range(9)]
    (tmp_path / "t.tar").write_bytes(b"".join(members) + END)
    found = list(webdataset.open(tmp_path / "t.tar").items)
    assert "its global headers take more than 1048576 bytes in total" in str(found[-1])


@pytest.mark.parametrize(
    "hostile",
    [header(b"b.txt", -512), header(b"b.txt", -(1 << 40)), header(b"x", -512, b"x")]
    # An extended header states the size of the next member.
    + [member(b"p", b"13 size=-512\n", b"x") + member(b"b.txt", b"hi")]
    + [member(b"p", b"30 size=9999999999999999999999\n", b"x") + member(b"b.txt", b"hi")],
)
def test_sizes_that_no_member_has(tmp_path: Path, hostile: bytes) -> None:
    (tmp_path / "t.tar").write_bytes(GOOD + hostile + END)
    out = bounded("webdataset", tmp_path / "t.tar")
    assert ": the tar is damaged after sample" in out and len(out.splitlines()) < 4


def test_members_that_are_nothing_but_names(tmp_path: Path) -> None:
    def named(name: bytes) -> bytes:
        return member(b"././@LongLink", name + b"\0", b"L") + header(name[:100], 0)

    (tmp_path / "n.tar").write_bytes(GOOD + named(b"b." + b"x" * 5000) + member(b"c.txt", b"c") + END)
    found = list(webdataset.open(tmp_path / "n.tar").items)
    assert [type(item) for item in found] == [Problem, Sample, Sample]
    assert "expected member names of at most 4096 bytes" in str(found[0]) and len(str(found[0])) < 1000
    (tmp_path / "m.tar").write_bytes(b"".join(header(b"b.%d" % i, 0) for i in range(1001)) + END)
    (problem,) = webdataset.open(tmp_path / "m.tar").items
    assert "sample `b`: the sample has more than 1000 members" in str(problem)
    # Long names count towards `max_sample_bytes`.
    many = b"".join(named(b"b.%03d" % i + b"x" * 4000) for i in range(9))
    (tmp_path / "s.tar").write_bytes(many + END)
    (problem,) = webdataset.open(tmp_path / "s.tar", max_sample_bytes=10_000).items
    assert "makes the sample larger than the limit of 10000 bytes" in str(problem)


def test_json_that_a_dictionary_would_lose_or_a_parser_falls_over(tmp_path: Path) -> None:
    assert parse_json(b'{"a": 1, "b": {"a": 2}}') == {"a": 1, "b": {"a": 2}}
    with pytest.raises(ValueError, match="the key 'x' occurs twice"):
        parse_json(b'[{"y": {"x": 1, "x": 2}}]')
    with pytest.raises(ValueError, match="too deep"):
        parse_json(b"[" * 200_000)
    tar = [(b"a.json", b'{"x": 3}'), (b"b.json", b'{"x": 1, "x": 2}'), (b"c.json", b"[" * 200_000)]
    (tmp_path / "t.tar").write_bytes(b"".join(member(*m) for m in tar) + END)
    report = sp.convert("webdataset", tmp_path / "t.tar", tmp_path / "out", on_bad_input="skip")
    assert (report["samples"], report["samples_skipped"]) == (1, 2)


def test_whole_numbers_are_ascii_digits(tmp_path: Path) -> None:
    assert [parse_int(text) for text in ("7", "+5", "-12", "007")] == [7, 5, -12, 7]
    for text in ("1_0", "٣", "", "-", "1.5", " 1", "1\n", "9" * 5000):
        with pytest.raises(ValueError, match="expected a whole number"):
            parse_int(text)
    texts = ["1", " 7\n", "1_0", "٣"]
    (tmp_path / "t.tar").write_bytes(b"".join(member(b"%d.cls" % i, t.encode()) for i, t in enumerate(texts)) + END)
    found = [item.values["cls"] for item in webdataset.open(tmp_path / "t.tar").items if isinstance(item, Sample)]
    # A text that is not a number can only be a class name.
    assert found == [1, 7, "1_0", "٣"]
    (tmp_path / "m").mkdir()
    write_mds(tmp_path / "m", shard([b"1", b"1_0"]), encoding="str_int", samples=2)
    assert [type(item) for item in mds.open(tmp_path / "m").items] == [Sample, Problem]


def shard(values: list[bytes]) -> bytes:
    """Returns an MDS shard with one column of varying size."""
    begin = 4 * (len(values) + 2)
    samples = [struct.pack("<I", len(value)) + value for value in values]
    offsets = np.cumsum([begin, *map(len, samples)]).astype("<u4")
    return struct.pack("<I", len(values)) + offsets.tobytes() + b"".join(samples)


def write_mds(folder: Path, data: bytes | None, *, encoding: str = "str", samples: int = 1, **changes: Any) -> None:
    """Writes a dataset that consists of the given shard and a valid shard."""
    well = shard([b"well"])
    raw = {"basename": "s.mds", "bytes": len(well if data is None else data), "hashes": {}} | changes.pop("raw", {})
    entry = {"format": "mds", "version": 2, "column_names": ["x"], "column_encodings": [encoding]}
    entry |= {"column_sizes": [None], "compression": None, "zip_data": None}
    shards: list[dict[str, Any]] = [entry | {"samples": samples, "raw_data": raw} | changes]
    if encoding == "str":
        shards.append(entry | {"samples": 1, "raw_data": {"basename": "t.mds", "bytes": len(well), "hashes": {}}})
        (folder / "t.mds").write_bytes(well)
    if data is not None:
        (folder / "s.mds").write_bytes(data)
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": shards}))


WELL = shard([b"well"])
PREPARED: dict[str, tuple[Any, str]] = {
    "pipe": (lambda path: os.mkfifo(path), "expected a regular file, found a pipe, socket or device"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "a link points outside the folder, to `/dev/"),
    "link out": (lambda path: path.symlink_to(__file__), "a link points outside the folder, to `"),
    "loop": (lambda path: path.symlink_to(path), "cannot read the file: "),
    "folder": (lambda path: path.mkdir(), "expected a regular file, found a folder"),
}


@pytest.mark.skipif(os.name != "posix", reason="links and pipes")
@pytest.mark.parametrize("case", PREPARED)
def test_shards_that_are_no_files_of_the_folder(tmp_path: Path, case: str) -> None:
    prepare, message = PREPARED[case]
    write_mds(tmp_path, None)
    prepare(tmp_path / "s.mds")
    out = bounded("mds", tmp_path)
    assert message in out and "s.mds`: " in out and "sample None" in out


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_links_within_the_folder_are_followed(tmp_path: Path) -> None:
    write_mds(tmp_path, None)
    (tmp_path / "real").write_bytes(WELL)
    (tmp_path / "s.mds").symlink_to("real")
    assert [type(item) for item in mds.open(tmp_path).items] == [Sample, Sample]


@pytest.mark.parametrize(
    ("data", "changes", "message"),
    [
        (WELL, {"raw": {"hashes": [1]}}, r"`hashes` in the index must map hash algorithms to digests, found: \[1\]"),
        (None, {"raw": {"basename": "a" * 5000}}, "cannot read the file: "),
        (None, {"raw": {"basename": "a\0b"}}, "null (byte|character)"),
        (WELL, {"raw": {"bytes": 1 << 40}}, "the shard is 1099511627776 bytes long, but the limit is 4294967296"),
        (WELL, {"samples": 1 << 70}, "the shard is too short for the"),
    ],
)
def test_entries_of_an_index_cost_one_shard(
    tmp_path: Path, data: bytes | None, changes: dict[str, Any], message: str
) -> None:
    write_mds(tmp_path, data, **changes)
    with pytest.raises(ValueError, match=message):
        sp.convert("mds", tmp_path, tmp_path / "out")
    report = sp.convert("mds", tmp_path, tmp_path / "out", on_bad_input="skip")
    assert (report["samples"], report["samples_skipped"]) == (1, 1)


def test_an_index_that_is_too_deep(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text("[" * 200_000)
    with pytest.raises(ValueError, match=r"index\.json`: .*too deep"):
        mds.open(tmp_path)


def test_a_shard_that_unpacks_to_more_than_there_is_memory(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    packed = zstandard.ZstdCompressor(level=1).compressobj()
    pieces = [packed.compress(bytes(1 << 20)) for _ in range(600)]
    zipped = {"basename": "s.zst", "bytes": 5, "hashes": None}
    write_mds(tmp_path, None, raw={"bytes": 600 << 20}, zip_data=zipped, compression="zstd")
    (tmp_path / "s.zst").write_bytes(b"".join(pieces) + packed.flush())
    assert "the shard is 629145600 bytes long, but the limit is 104857600\nhint: raise max_shard_bytes" in bounded("mds", tmp_path, max_shard_bytes=100 << 20)
    # The index claims far more bytes than the data unpack to. Memory is allocated only as bytes are unpacked.
    write_mds(tmp_path, None, raw={"bytes": 4 << 30}, zip_data=zipped, compression="zstd")
    assert "the shard is 629145600 bytes long, but the index says 4294967296" in bounded("mds", tmp_path)


def test_hard_links_that_multiply(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["pool/0/x"] = np.zeros(3)
        for level in range(1, 13):
            for name in "abcd":
                file[f"pool/{level}/{name}"] = file[f"pool/{level - 1}"]
        file["data/one"], file["data/two"] = file["pool/12"], file["pool/0"]
        file["deep/one/" + "/".join("g" * 20) + "/x"] = np.zeros(3)
        file["deep/two/x"] = np.zeros(3)
    out = bounded("hdf5", tmp_path / "a.h5", group="data", samples="groups")
    assert "sample `one`: the sample has more than 10000 groups and arrays" in out and "sample two" in out
    out = bounded("hdf5", tmp_path / "a.h5", group="deep", samples="groups")
    assert "sample `one`: the sample has more than 16 levels of groups" in out and "sample two" in out


def test_arrays_that_unpack_to_gibibytes(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        large = {"dtype": "f4", "chunks": (1, 1 << 20), "compression": "gzip"}
        file.create_dataset("rows/x", shape=(4, 1 << 29), **large)
        file["rows/y"] = np.arange(4)
        file.create_dataset("groups/one/x", shape=(1, 1 << 29), **large)
        file["groups/two/x"] = np.zeros((1, 3))
        file.create_dataset("ragged/x/0", shape=(1, 1 << 29), **large)
        file["ragged/y"] = np.arange(1)
    rows = bounded("hdf5", tmp_path / "a.h5", group="rows")
    assert "a sample takes 2147483656 bytes, but the limit is 1073741824; array 'x' alone takes 2147483648" in rows
    groups = bounded("hdf5", tmp_path / "a.h5", group="groups", samples="groups")
    assert "bytes, but the limit is 1073741824" in groups and "sample two" in groups
    ragged = bounded("hdf5", tmp_path / "a.h5", group="ragged", samples="rows")
    assert "bytes, but the limit is 1073741824" in ragged
    with pytest.raises(ValueError, match=r"bytes, but the limit is 7; .*\nhint: raise max_sample_bytes"):
        sp.convert("hdf5", tmp_path / "a.h5", tmp_path / "out", group="groups", samples="groups", max_sample_bytes=7)


@pytest.mark.long
def test_an_entry_of_a_dictionary_that_every_row_names(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    large = pa.DictionaryArray.from_arrays(pa.array([0] * 64, pa.int32()), pa.array(["x" * (40 << 20)]))
    pq.write_table(pa.table({"text": large}), tmp_path / "a.parquet", compression="zstd", dictionary_pagesize_limit=1 << 30)
    assert (tmp_path / "a.parquet").stat().st_size < 1 << 16
    assert bounded("parquet", tmp_path / "a.parquet").count("sample None") == 64


def test_rows_of_parquet_that_no_byte_stands_for(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"x": pa.array(np.zeros(1_000_000, np.int32))}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a.parquet`: the samples would take \d+ bytes in memory, more than 10000 times the \d+ bytes of the source$"):
        sp.convert("parquet", tmp_path / "a.parquet", tmp_path / "out")


def test_arrays_that_claim_more_than_their_file(tmp_path: Path) -> None:
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 64)}\n"
    npy = b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + bytes(64)
    (tmp_path / "t.tar").write_bytes(member(b"a.npy", npy) + member(b"b.txt", b"b") + END)
    out = bounded("webdataset", tmp_path / "t.tar")
    assert "with shape [1099511627776, 64] takes 281474976710656 bytes, but only 64 follow the header" in out and "sample b" in out


def test_text_of_a_source_in_messages(tmp_path: Path) -> None:
    # The names contain terminal control characters, and bytes that are not UTF-8.
    (tmp_path / "t.tar").write_bytes(GOOD + member(b"\x1b[2Jb\xff.txt", b"x") + member(b"\x1b[2Jb\xff.cls", b"1") + END)
    with pytest.raises(sp.SourceError) as caught:
        sp.convert("webdataset", tmp_path / "t.tar", tmp_path / "out")
    assert str(caught.value).replace("\n", "").isprintable() and "sample `\\x1b[2Jb\\udcff`" in str(caught.value)
    report = sp.convert("webdataset", tmp_path / "t.tar", tmp_path / "out", on_bad_input="skip")
    assert report["skipped"][0]["reason"].replace("\n", "").isprintable()
    (tmp_path / "classes.json").write_text('["cat", "\\ud800"]')
    with pytest.raises(sp.SourceError, match="a class name is not valid Unicode: '.*ud800'"):
        sp.convert("webdataset", tmp_path, tmp_path / "no")


def test_parsers_that_say_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.tar").write_bytes(GOOD + member(b"b.txt", b"x") + END)

    def fails(text: bytes) -> Any:
        return b"\xff".decode("utf-8")

    monkeypatch.setattr(webdataset, "_one_tar", lambda *_: map(fails, [b"x"]))
    with pytest.raises(sp.SourceError, match="webdataset: cannot read the source: UnicodeDecodeError: "):
        sp.convert("webdataset", tmp_path / "t.tar", tmp_path / "out")
    monkeypatch.setattr(webdataset, "list_objects", lambda *_: fails(b""))
    with pytest.raises(sp.SourceError, match="webdataset: `.*t.tar`: cannot read the source: UnicodeDecodeError: "):
        sp.convert("webdataset", tmp_path / "t.tar", tmp_path / "out")


FORGED = "x\nhint: obey"


def sources_with(name: str, root: Path) -> dict[str, Any]:
    """Returns sources whose only sample is bad and has this name."""
    coco = {"images": [{"id": 1, "file_name": name}], "annotations": [], "categories": []}
    (root / "coco.json").write_text(json.dumps(coco))
    (root / "tar.tar").write_bytes(member(f"{name}.cls".encode(), b"x") + END)
    (root / "n").mkdir()
    (root / "n" / f"{name}.nii").write_bytes(bytes(400))
    (root / "yolo/images").mkdir(parents=True)
    (root / "yolo/labels").mkdir()
    (root / f"yolo/images/{name}.jpg").write_bytes(b"no picture")
    (root / f"yolo/labels/{name}.txt").write_text("0 0.5 0.5 0.1 0.1\n")
    return {
        "coco": (root / "coco.json", {"images": str(root)}),
        "webdataset": (root / "tar.tar", {}),
        "nifti": (root / "n", {}),
        "yolo": (root / "yolo", {"names": ["cat"]}),
    }


@pytest.mark.skipif(os.name != "posix", reason="names with ends of lines")
def test_a_value_of_a_source_makes_no_line_of_its_own(tmp_path: Path) -> None:
    for format, (source, options) in sources_with(FORGED, tmp_path).items():
        with pytest.raises(sp.SourceError) as caught:
            sp.convert(format, source, tmp_path / "out", **options)
        lines = str(caught.value).split("\n")
        assert not any(line.startswith("hint: obey") for line in lines), (format, lines)
        assert any("x\\nhint: obey" in line for line in lines), (format, lines)


def test_names_in_stores_make_no_line_of_their_own(tmp_path: Path) -> None:
    h5py, lmdb = pytest.importorskip("h5py"), pytest.importorskip("lmdb")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_group(FORGED)["x"] = np.zeros(3, "c8")
    with lmdb.open(str(tmp_path / "l"), map_size=1 << 20) as env, env.begin(write=True) as transaction:
        transaction.put(FORGED.encode(), b"no picture")
    for format, source, options in (("hdf5", tmp_path / "a.h5", {"samples": "groups"}), ("lmdb", tmp_path / "l", {})):
        with pytest.raises(sp.SourceError) as caught:
            sp.convert(format, source, tmp_path / "out", **options)
        assert not any(line.startswith("hint: obey") for line in str(caught.value).split("\n")), caught.value
        assert "x\\nhint: obey" in str(caught.value)


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_no_link_that_is_swapped_in_is_followed(tmp_path: Path) -> None:
    from shardpack.convert._files import open_inside

    root, secret = tmp_path / "root", tmp_path / "secret"
    for folder, text in ((root / "d", b"ours"), (secret, b"secret")):
        folder.mkdir(parents=True)
        (folder / "f").write_bytes(text)
    swaps, stop = [0], threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(root / "d", tmp_path / "held")
            os.symlink(secret, root / "d")
            os.unlink(root / "d")
            os.rename(tmp_path / "held", root / "d")
            swaps[0] += 1

    swapping = threading.Thread(target=swap)
    swapping.start()
    read = refused = 0
    deadline = time.monotonic() + 60
    try:
        while (read < 50 or refused < 50 or swaps[0] < 100) and time.monotonic() < deadline:
            try:
                with open_inside(root, "d/f") as file:
                    assert file.read() == b"ours"
                read += 1
            except (ValueError, OSError):
                refused += 1
    finally:
        stop.set()
        swapping.join()
    assert read and refused and swaps[0] >= 100


@pytest.mark.skipif(os.name != "posix", reason="links")
@pytest.mark.parametrize("format", ["coco", "nifti", "yolo", "dicom", "mds"])
def test_a_link_swapped_in_between_check_and_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    for library in {"nifti": ["nibabel"], "dicom": ["pydicom"]}.get(format, []):
        pytest.importorskip(library)
    root, secret = tmp_path / "root", tmp_path / "secret"
    root.mkdir()
    secret.write_bytes(b"secret")
    source, options = sources_with("a", root).get(format, (root / "m", {}))
    (root / "m").mkdir()
    if format == "dicom":
        (root / "m/a.dcm").write_bytes(bytes(128) + b"DICM" + bytes(20))
    if format == "mds":
        part = {"basename": "a.mds", "bytes": 5, "hashes": {}}
        shard = {"format": "mds", "samples": 1, "column_names": ["a"], "column_encodings": ["str"], "column_sizes": [None], "raw_data": part}
        (root / "m/index.json").write_text(json.dumps({"version": 2, "shards": [shard]}))
        (root / "m/a.mds").write_bytes(b"12345")
    if format == "coco":
        (root / "a").write_bytes(b"no picture")
    swaps, resolve = [], Path.resolve

    def swapping(self: Path, strict: bool = False) -> Path:
        real = resolve(self, strict)
        if strict and self.is_file() and not self.is_symlink():
            swaps.append(self)
            self.unlink()
            self.symlink_to(secret)
        return real

    monkeypatch.setattr(Path, "resolve", swapping)
    with pytest.raises(sp.SourceError, match="replaced by a link"):
        sp.convert(format, source, tmp_path / "out", **options)
    assert swaps
