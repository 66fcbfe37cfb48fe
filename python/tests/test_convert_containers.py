"""Tests that HDF5, Zarr and LMDB files cannot run code, read other files, hang or kill a process, or fill memory."""

from __future__ import annotations

import bz2
import json
import lzma
import os
import pickle
import re
import struct
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_support import bounded, content, jpeg

import shardpack as sp

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr", minversion="3")
numcodecs = pytest.importorskip("numcodecs")
lmdb = pytest.importorskip("lmdb")

posix = pytest.mark.skipif(os.name != "posix", reason="links and pipes")


class Runs:
    """An object that makes a file when its pickle is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def v2(folder: Path, chunk: bytes | None, **changes: Any) -> Path:
    """Makes a version 2 group with one array of three numbers."""
    array = {"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "<i4", "fill_value": 0, "order": "C"}
    array |= {"compressor": None, "filters": None} | changes
    (folder / "x").mkdir(parents=True)
    (folder / ".zgroup").write_text('{"zarr_format": 2}')
    (folder / "x/.zarray").write_text(json.dumps(array))
    if chunk is not None:
        (folder / "x" / ".".join("0" for _ in array["shape"])).write_bytes(chunk)
    return folder


def v3(folder: Path, chunk: bytes | None, **changes: Any) -> Path:
    """Makes a version 3 group with one array of three numbers."""
    array = {"zarr_format": 3, "node_type": "array", "shape": [3], "data_type": "int32", "fill_value": 0}
    array |= {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3]}}, "attributes": {}}
    array |= {"chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}
    (folder / "x/c").mkdir(parents=True)
    (folder / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {}}')
    (folder / "x/zarr.json").write_text(json.dumps(array | changes))
    if chunk is not None:
        (folder / "x/c/0").write_bytes(chunk)
    return folder


THREE = np.arange(3, dtype="<i4").tobytes()
STRING = {"dtype": "|O", "fill_value": ""}
PICKLES: dict[str, dict[str, Any]] = {
    "second filter": STRING | {"filters": [{"id": "vlen-utf8"}, {"id": "pickle"}]},
    "first filter": STRING | {"filters": [{"id": "pickle"}, {"id": "vlen-utf8"}]},
    "compressor": STRING | {"filters": [{"id": "vlen-utf8"}], "compressor": {"id": "pickle"}},
    "objects": STRING | {"filters": [{"id": "pickle"}]},
    "numbers": {"filters": [{"id": "delta", "dtype": "<i4"}, {"id": "pickle"}]},
    "inside of ours": {"compressor": {"id": "shardpack.bounded", "codec": {"id": "pickle"}, "most": 100, "count": None, "refused": ""}},
}


@pytest.mark.parametrize("place", ["array", "consolidated", "sample", "zip"])
@pytest.mark.parametrize("case", PICKLES)
def test_a_pickle_in_zarr_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, place: str) -> None:
    # Older versions of numcodecs lack this switch and always unpickle.
    monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    mark, source, options = tmp_path / "ran", tmp_path / "a.zarr", {}
    v2(source / "s" if place == "sample" else source, pickle.dumps(Runs(mark)), **PICKLES[case])
    if place == "sample":
        (source / ".zgroup").write_text('{"zarr_format": 2}')
        options = {"samples": "groups"}
    if place == "consolidated":
        documents = {name: json.loads((source / name).read_text()) for name in (".zgroup", "x/.zarray")}
        (source / ".zmetadata").write_text(json.dumps({"zarr_consolidated_format": 1, "metadata": documents}))
    if place == "zip":
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
            for path in sorted(source.rglob("*")):
                file.write(path, path.relative_to(source))
        source = tmp_path / "a.zip"
    with pytest.raises(ValueError, match="x: (unsupported codec '|codec '|arrays of Python objects)"):
        sp.convert("zarr", source, tmp_path / "out", **options)
    assert not mark.exists() and not (tmp_path / "out").exists()


HIDDEN = ["extra key", "consolidated", "inline .zattrs", "inline .zgroup", "zarr.json of version 2", "shape in .zgroup", "bool"]


@pytest.mark.parametrize("case", HIDDEN)
def test_no_name_or_extra_key_hides_a_codec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    mark, source = tmp_path / "ran", tmp_path / "a.zarr"
    v2(source, pickle.dumps(Runs(mark)), **PICKLES["compressor"])
    array = json.loads((source / "x/.zarray").read_text())
    if case in ("extra key", "bool"):
        (source / "x/.zarray").write_text(json.dumps(array | ({"codecs": 1} if case == "extra key" else {"zarr_format": True})))
    elif case == "consolidated":
        documents = {".zgroup": {"zarr_format": 2}, "x/.zarray": array, "x/.zattrs": {}}
        (source / ".zmetadata").write_text(json.dumps({"zarr_format": 2, "zarr_consolidated_format": 1, "metadata": documents}))
        (source / "x/.zarray").unlink()
    elif case.startswith("inline"):
        name = case.split()[1]
        (source / ".zgroup").unlink()
        (source / "x").rename(source / name)
        nodes = {"kind": "inline", "must_understand": False, "metadata": {name: array | {"attributes": {}}}}
        group = {"zarr_format": 3, "node_type": "group", "attributes": {}, "consolidated_metadata": nodes}
        (source / "zarr.json").write_text(json.dumps(group))
    elif case == "shape in .zgroup":
        (source / "x/.zarray").rename(source / "x/.zgroup")
    else:
        (source / "x/.zarray").unlink()
        (source / ".zgroup").unlink()
        (source / "x/zarr.json").write_text(json.dumps(array | {"node_type": "array", "attributes": {}}))
        (source / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {}}')
    for options in ({}, {"samples": "groups"}):
        with pytest.raises(ValueError, match="zarr"):
            sp.convert("zarr", source, tmp_path / "out", **options)
    assert not mark.exists() and not (tmp_path / "out").exists()


def test_codecs_are_checked_again_once_zarr_has_made_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from shardpack.convert import _zarr_store

    # Skip the check of the metadata document, so that only the check of the codecs is left.
    monkeypatch.setattr(_zarr_store, "checked", lambda name, text, most: text)
    settings = {"chunk_shape": [3], "codecs": [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 1}}], "index_codecs": [{"name": "bytes"}]}
    sources = [v2(tmp_path / f"{number}.zarr", b"", **PICKLES[case]) for number, case in enumerate(("second filter", "compressor", "inside of ours"))]
    sources += [
        v2(tmp_path / "c.zarr", b"", compressor={"id": "zlib"}),
        v3(tmp_path / "3.zarr", b"", codecs=[{"name": "bytes"}, {"name": "numcodecs.zlib", "configuration": {}}]),
        v3(tmp_path / "s.zarr", b"", codecs=[{"name": "sharding_indexed", "configuration": settings}]),
    ]
    for source in sources:
        with pytest.raises(ValueError, match="x: unsupported codec '.*': expected one of "):
            sp.convert("zarr", source, tmp_path / "out")


def test_an_old_numcodecs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numcodecs, "__version__", "0.16.5")
    with pytest.raises(ImportError, match=r"needs `numcodecs` 0.16.6 or later, found 0.16.5\nhint: pip install"):
        sp.convert("zarr", v2(tmp_path / "a.zarr", THREE), tmp_path / "out")


def test_a_chunk_of_empty_streams(tmp_path: Path) -> None:
    for number, one in enumerate((zlib.compress(b""), bz2.compress(b""), lzma.compress(b""))):
        source = v2(tmp_path / f"{number}.zarr", one * 1001 + THREE, compressor={"id": ("zlib", "bz2", "lzma")[number]})
        assert "row 0: the chunk has more than 1000 compressed streams" in bounded("zarr", source)


def test_stored_bytes_are_counted_once_and_without_holes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from shardpack.convert import _zarr_store

    source, walks = v2(tmp_path / "a.zarr", THREE), []
    walk = os.walk
    monkeypatch.setattr(_zarr_store.os, "walk", lambda *given: walks.append(given) or walk(*given))
    store = _zarr_store.CheckedStore(source, 1 << 20)
    found = [store.stored(most) for most in (1, 10, 1 << 40, 1 << 40)]
    assert found[:2] == [1, 10] and found[2] == found[3] < 10_000 and len(walks) == 1
    with (source / "hole").open("wb") as file:
        file.truncate(1 << 40)
    assert _zarr_store.CheckedStore(source, 1 << 20).stored(1 << 41) < 1 << 20


@pytest.mark.parametrize(
    "codecs",
    [
        [{"name": "bytes"}, {"name": "numcodecs.pickle"}],
        [{"name": "bytes"}, "imagecodecs_jpeg"],
        [{"name": "sharding_indexed", "configuration": {"chunk_shape": [3], "codecs": [{"name": "numcodecs.pickle"}], "index_codecs": []}}],
        [{"name": "sharding_indexed", "configuration": {"chunk_shape": [3], "codecs": [{"name": "bytes"}], "index_codecs": ["gzip"]}}],
        [{"name": "bytes"}, {"name": "shardpack.bounded", "configuration": {}}],
        [{"name": "numcodecs.astype", "configuration": {"encode_dtype": "S1000000000", "decode_dtype": "i4"}}],
        [],
        {"name": "bytes"},
    ],
)
def test_codecs_of_version_3_that_are_none_of_ours(tmp_path: Path, codecs: Any) -> None:
    source = v3(tmp_path / "a.zarr", THREE, codecs=codecs)
    with pytest.raises(ValueError, match="1 column cannot be converted\n  x: (unsupported codec|codec|index_codecs|codecs)"):
        sp.convert("zarr", source, tmp_path / "out")
    v3_group = zarr.open_group(source, mode="a")
    v3_group.create_array("y", data=np.arange(3))
    assert sp.convert("zarr", source, tmp_path / "out", drop=["x"])["samples"] == 3


COMPRESSORS = [numcodecs.Blosc(), numcodecs.BZ2(), numcodecs.GZip(), numcodecs.LZ4(), numcodecs.LZMA(), numcodecs.Zlib(), numcodecs.Zstd()]
FILTERS = [
    numcodecs.Delta("<i4"), numcodecs.Shuffle(4), numcodecs.FixedScaleOffset(0, 1, "<i4", "<i4"), numcodecs.AsType("<i8", "<i4"),
    numcodecs.CRC32(), numcodecs.Adler32(), numcodecs.Fletcher32(), numcodecs.Zlib(),
]  # fmt: skip


def test_the_codecs_that_are_taken_give_their_values(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(-1000, 1000, (40, 5), np.int32)
    group = zarr.open_group(tmp_path / "2.zarr", mode="w", zarr_format=2)
    for number, compressor in enumerate(COMPRESSORS):
        group.create_array(f"c{number}", data=values, chunks=(7, 5), compressors=compressor)
    for number, one in enumerate(FILTERS):
        group.create_array(f"f{number}", data=values, chunks=(7, 5), filters=[one], compressors=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        group.create_array("text", shape=(40,), chunks=(7,), dtype="string")[:] = np.array([f"r{i}" for i in range(40)], object)
        group.create_array("plain", shape=(40,), chunks=(7,), dtype="string", compressors=None)[:] = np.array(["x"] * 40, object)
    zarr.consolidate_metadata(str(tmp_path / "2.zarr"))
    group = zarr.open_group(tmp_path / "3.zarr", mode="w")
    from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, ZstdCodec, numcodecs as of_numcodecs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        more = [of_numcodecs.Zlib(), of_numcodecs.LZ4(), of_numcodecs.BZ2(), of_numcodecs.LZMA(), of_numcodecs.Blosc()]
        for number, codec in enumerate([BloscCodec(), GzipCodec(), ZstdCodec(checksum=True), Crc32cCodec(), *more]):
            group.create_array(f"c{number}", data=values, chunks=(7, 5), compressors=[codec])
            group.create_array(f"s{number}", data=values, chunks=(7, 5), shards=(14, 5), compressors=[codec])
        group.create_array("text", shape=(40,), chunks=(7,), dtype="string")[:] = np.array([f"r{i}" for i in range(40)], object)
    for version in "23":
        sp.convert("zarr", tmp_path / f"{version}.zarr", tmp_path / version, key="text")
        found = content(tmp_path / version)
        for row in range(40):
            sample = found[f"r{row}"]
            arrays = [value for name, value in sample.items() if name[0] in "cfs"]
            assert len(arrays) == (15 if version == "2" else 18)
            assert all(np.array_equal(array, values[row]) for array in arrays)


def zeros(size: int, wbits: int = 15) -> bytes:
    """Returns zeros compressed by zlib, with a wrong checksum at the end."""
    packer = zlib.compressobj(1, wbits=wbits)
    head = packer.compress(bytes(1)) + packer.flush(zlib.Z_FULL_FLUSH)
    # Each piece can be unpacked independently.
    piece = packer.compress(bytes(1 << 24)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + piece * (size >> 24) + packer.flush()


def zstd(size: int, said: bool) -> bytes:
    """Returns a zstd frame of zeros in run-length blocks. The header states the size if `said`."""
    blocks = size >> 17
    frame = struct.pack("<I", 0xFD2FB528) + (b"\xe0" + struct.pack("<Q", size) if said else b"\x00\x58")
    return frame + b"".join(struct.pack("<I", (1 << 17) << 3 | 1 << 1 | (n == blocks - 1))[:3] + b"\0" for n in range(blocks))


BOMBS = {
    "gzip": lambda: zeros(1 << 32, 31),
    "zlib": lambda: zeros(1 << 32),
    "bz2": lambda: bz2.compress(bytes(1 << 24)) * 256,
    "lzma": lambda: lzma.compress(bytes(1 << 24), preset=0) * 256,
    "zstd": lambda: zstd(4 << 30, True),
    "lz4": lambda: struct.pack("<I", (1 << 31) - 1) + b"\0" * 100,
    "blosc": lambda: struct.pack("<BBBBIII", 2, 1, 0x33, 1, (1 << 31) - 17, 1 << 20, 100) + bytes(84),
}


@pytest.mark.parametrize(
    "codec", ["gzip", "zstd", *(pytest.param(c, marks=pytest.mark.long) for c in BOMBS if c not in ("gzip", "zstd"))]
)
def test_a_chunk_of_zarr_that_unpacks_to_gibibytes(tmp_path: Path, codec: str) -> None:
    data = BOMBS[codec]()
    out = bounded("zarr", v2(tmp_path / "2.zarr", data, compressor={"id": codec}))
    assert "row 0: " in out and "sample" not in out.replace("a sample", "")
    if codec == "zstd":
        out = bounded("zarr", v2(tmp_path / "u.zarr", zstd(4 << 30, False), compressor={"id": codec}))
        assert "the chunk is damaged, or may unpack to more than 76 bytes" in out
    name = codec if codec in ("gzip", "zstd", "blosc") else f"numcodecs.{codec}"
    out = bounded("zarr", v3(tmp_path / "3.zarr", data, codecs=[{"name": "bytes"}, {"name": name}]))
    assert "row 0: " in out


@pytest.mark.parametrize("count", [2**32 - 1, 4, 2])
def test_text_of_zarr_that_counts_more_strings_than_a_chunk_has(tmp_path: Path, count: int) -> None:
    text = struct.pack("<I", count) + struct.pack("<I", 1) * 3 + b"a"
    string = STRING | {"filters": [{"id": "vlen-utf8"}]}
    for number, packed in enumerate([{}, {"compressor": {"id": "zlib"}}]):
        source = v2(tmp_path / f"{number}.zarr", zlib.compress(text) if packed else text, **string, **packed)
        assert "row 0: the chunk is damaged: it does not contain 3 strings" in bounded("zarr", source)
    source = v3(tmp_path / "3.zarr", text, data_type="string", fill_value="", codecs=[{"name": "vlen-utf8"}])
    assert "row 0: the chunk is damaged: it does not contain 3 strings" in bounded("zarr", source)


MANY = 1 << 40


def test_rows_that_no_byte_stands_for(tmp_path: Path) -> None:
    message = r"times the \d+ bytes of the source\nhint: raise max_expansion if nearly all values are fill values"
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (MANY,), "u1", chunks=(1 << 20,), compression="gzip")
    with h5py.File(tmp_path / "groups.h5", "w") as file:
        # Each of the 100 samples is a hard link to the same dataset, which is a gibibyte of fill values.
        file.create_dataset("pool", (1 << 28,), "f4", chunks=(1 << 20,))
        for number in range(100):
            file[f"data/s{number}/x"] = file["pool"]
    sources = [
        ("hdf5", tmp_path / "a.h5"),
        ("zarr", v2(tmp_path / "2.zarr", None, shape=[MANY], chunks=[1 << 20])),
        ("zarr", v3(tmp_path / "3.zarr", None, shape=[MANY])),
        # This array is a single sample of 2^27 chunks, none of which is stored.
        ("zarr", v2(tmp_path / "chunks.zarr", None, shape=[1, 1 << 27], chunks=[1, 1])),
    ]
    for format, source in sources:
        with pytest.raises(ValueError, match=message):
            sp.convert(format, source, tmp_path / "out")
    out = bounded("hdf5", tmp_path / "groups.h5", group="data")
    assert 0 < out.count("sample s") < 5 and re.search(message, out)


def test_fill_values_are_values(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("mask", (300, 64, 64), "u1", chunks=(1, 64, 64), fillvalue=7)
        file["label"] = np.arange(300)
    sp.convert("hdf5", tmp_path / "a.h5", tmp_path / "h")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("mask", shape=(300, 64, 64), dtype="u1", chunks=(1, 64, 64), fill_value=7)
    group.create_array("label", data=np.arange(300))
    sp.convert("zarr", tmp_path / "a.zarr", tmp_path / "z")
    for out in ("h", "z"):
        dataset = sp.Dataset(tmp_path / out)
        assert len(dataset) == 300 and (dataset[299]["mask"] == 7).all()
    # `max_expansion` allows an array that consists only of fill values.
    v2(tmp_path / "b.zarr", None, shape=[200_000], chunks=[200_000], dtype="|u1")
    with pytest.raises(ValueError, match="raise max_expansion"):
        sp.convert("zarr", tmp_path / "b.zarr", tmp_path / "out")
    items = sp.convert.__globals__["importlib"].import_module("shardpack.convert.zarr").open(tmp_path / "b.zarr", max_expansion=10**9)
    assert items.total == 200_000
    with pytest.raises(ValueError, match="max_expansion: expected a positive integer, found: 0"):
        sp.convert("zarr", tmp_path / "b.zarr", tmp_path / "out", max_expansion=0)


def test_a_small_sample_in_a_chunk_of_gibibytes(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("x", (4, 4), "f4", maxshape=(None, None), chunks=(1 << 14, 1 << 15), compression="gzip")
        data.id.write_direct_chunk((0, 0), zeros(1 << 31))
    out = bounded("hdf5", tmp_path / "a.h5", max_sample_bytes=1 << 20)
    assert "x: a chunk takes 2147483648 bytes, but the limit is 268435456" in out
    chunk = numcodecs.Zstd().encode(bytes(1 << 20))
    source = v2(tmp_path / "a.zarr", chunk, shape=[4, 4], chunks=[1 << 14, 1 << 15], dtype="<f4", compressor={"id": "zstd"})
    assert "x: a chunk takes 2147483648 bytes, but the limit is 268435456" in bounded("zarr", source, max_sample_bytes=1 << 20)
    shards = {"chunk_shape": [1 << 29], "codecs": [{"name": "bytes"}], "index_codecs": [{"name": "bytes"}]}
    grid = {"name": "regular", "configuration": {"chunk_shape": [1 << 29]}}
    source = v3(tmp_path / "3.zarr", None, chunk_grid=grid, codecs=[{"name": "sharding_indexed", "configuration": shards}])
    assert "x: a chunk takes 2147483648 bytes, but the limit is 1073741824" in bounded("zarr", source)


def test_a_stored_chunk_of_hdf5_that_unpacks_to_gibibytes(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("x", (4,), "f4", chunks=(4,), compression="gzip")
        data.id.write_direct_chunk((0,), zeros(1 << 32))
        file["y"] = np.arange(4)
    out = bounded("hdf5", tmp_path / "a.h5")
    assert "row 0: the chunk at [0] is damaged: it unpacks to more than 80 bytes" in out


@pytest.mark.parametrize("times", [2, 3])
def test_a_chunk_of_hdf5_that_is_compressed_more_than_once(tmp_path: Path, times: int) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        settings.set_chunk((1024,))
        for _ in range(times):
            settings.set_deflate(9)
        made = h5py.h5d.create(file.id, b"x", h5py.h5t.STD_U8LE, h5py.h5s.create_simple((1024,)), settings)
        packed = zeros(300 << 20)
        for _ in range(times - 1):
            packed = zlib.compress(packed, 9)
        made.write_direct_chunk((0,), packed)
    assert (tmp_path / "a.h5").stat().st_size < 10_000
    assert "x: filter 'gzip' after compression is not supported" in bounded("hdf5", tmp_path / "a.h5")


def test_filters_of_hdf5(tmp_path: Path) -> None:
    x = np.arange(400, dtype="i4").reshape(100, 4)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for compression in (None, "gzip", "lzf"):
            for more in ({}, {"shuffle": True}, {"fletcher32": True}, {"shuffle": True, "fletcher32": True}, {"scaleoffset": 0}):
                if "fletcher32" not in more or compression != "lzf":
                    file.create_dataset(f"{compression}{list(more)}", data=x, chunks=(7, 4), compression=compression, **more)
        names = list(file)
    assert sp.convert("hdf5", tmp_path / "a.h5", tmp_path / "out")["samples"] == 100
    assert all(value.tolist() == [396, 397, 398, 399] for value in content(tmp_path / "out")["00000099"].values()) and len(names) > 10
    with h5py.File(tmp_path / "b.h5", "w") as file:
        for number, filters in enumerate(([1, 2], [4], [32015], [32000, 1], [6], [32000])):
            settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            settings.set_chunk((8,))
            for one in filters:
                values = {6: (0, 0, 1 << 20, 0, 4), 32000: (4, 261, 1 << 30 if len(filters) == 1 else 32), 4: (141, 8)}.get(one, (4,))
                settings.set_filter(one, h5py.h5z.FLAG_OPTIONAL, values)
            try:
                h5py.h5d.create(file.id, b"x%d" % number, h5py.h5t.STD_I32LE, h5py.h5s.create_simple((8,)), settings)
            except (RuntimeError, ValueError, OSError):
                continue
    out = bounded("hdf5", tmp_path / "b.h5")
    assert "x0: filter 'shuffle' after compression is not supported" in out and "filter 'gzip' after compression" in out, out
    assert ": expected one of fletcher32, gzip, lzf, nbit, scaleoffset, shuffle" in out, out


def test_a_chunk_of_lzf_that_unpacks_to_more(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("x", (4,), "f4", chunks=(4,), compression="lzf")
        # The stream is one zero, then copies of 264 bytes from a distance of one byte.
        data.id.write_direct_chunk((0,), b"\0\0" + b"\xe0\xff\0" * (4 << 20))
    assert "row 0: the chunk at [0] is damaged: it unpacks to more than 80 bytes" in bounded("hdf5", tmp_path / "a.h5")


def test_a_large_chunk_of_hdf5_is_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from shardpack.convert import _hdf5_filters

    x = np.random.default_rng(1).integers(0, 256, (1 << 20, 2), np.uint8)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(1 << 19, 2), compression="gzip")
    checked, inflates = [], _hdf5_filters._inflates
    monkeypatch.setattr(_hdf5_filters, "_inflates", lambda data, most: checked.append(1) or inflates(data, most))
    from shardpack.convert import hdf5

    items = hdf5.open(tmp_path / "a.h5").items
    for _ in range(9000):
        next(items)
    assert len(checked) == 1


def many_times(path: Path, shape: tuple[int, ...], data: bytes) -> None:
    """Makes a dataset of strings that all refer to the same bytes in the file."""
    with h5py.File(path, "w") as file:
        text = file.create_dataset("s/text", shape, h5py.string_dtype())
        text[(0,) * len(shape)] = data
        at = text.id.get_offset()
    with path.open("r+b") as raw:
        raw.seek(at)
        one = raw.read(16)
        raw.seek(at)
        raw.write(one * int(np.prod(shape)))


@pytest.mark.long
def test_one_large_text_many_times(tmp_path: Path) -> None:
    many_times(tmp_path / "a.h5", (60,), b"x" * (64 << 20))
    out = bounded("hdf5", tmp_path / "a.h5", group="s")
    assert out.count("sample None") == 60


@pytest.mark.parametrize(
    "shape", [(200,), pytest.param((1, 200), marks=pytest.mark.long), pytest.param((2, 200), marks=pytest.mark.long)]
)
def test_texts_of_one_sample_that_name_one_place(tmp_path: Path, shape: tuple[int, ...]) -> None:
    # Read the source in three ways: by groups, by rows, and as an array of varying shape.
    many_times(tmp_path / "a.h5", shape, b"x" * (4 << 20))
    message = "the sample is larger than the limit of 1048576 bytes"
    for options in ({"samples": "groups"}, {"group": "s", "samples": "rows"}):
        out = bounded("hdf5", tmp_path / "a.h5", max_sample_bytes=1 << 20, **options)
        assert message in out and "sample s" not in out and "sample None" not in out
    many_times(tmp_path / "b.h5", shape, b"x" * (8 << 20))
    with h5py.File(tmp_path / "b.h5", "r+") as file:
        file["g/0"] = file["s/text"]
    out = bounded("hdf5", tmp_path / "b.h5", samples="rows", drop=["s"], max_sample_bytes=1 << 20)
    assert message in out and "sample None" not in out
    many_times(tmp_path / "c.h5", shape, b"abc")
    assert "sample s" in bounded("hdf5", tmp_path / "c.h5", samples="groups", max_sample_bytes=1 << 16)


def test_texts_of_rows_that_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from shardpack.convert import _arrays, hdf5
    from shardpack.convert import zarr as ours

    texts = np.array([[f"{row}-{column}" * 3 for column in range(5)] for row in range(23)], object)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("t", data=texts, dtype=h5py.string_dtype(), chunks=(4, 2))
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("t", shape=(23, 5), dtype=str, chunks=(4, 2))[:] = texts
    for most in (1, 1 << 16, 1 << 28):
        monkeypatch.setattr(_arrays, "_MOST_BLOCK_BYTES", most)
        for module, source in ((hdf5, tmp_path / "a.h5"), (ours, tmp_path / "a.zarr")):
            assert [item.values["t"] for item in module.open(source, samples="rows").items] == texts.tolist()
            items = module.open(source, samples="groups").items
            assert [item.values["array"] for item in items] == [texts.tolist()]


@pytest.mark.parametrize("rows", [1, 1000])
def test_a_fill_value_of_zarr_that_every_row_repeats(tmp_path: Path, rows: int) -> None:
    text = {"data_type": "string", "fill_value": "x" * (1 << 20), "codecs": [{"name": "vlen-utf8"}], "shape": [1000]}
    grid = {"name": "regular", "configuration": {"chunk_shape": [rows]}}
    source = v3(tmp_path / "a.zarr", None, chunk_grid=grid, **text)
    out = bounded("zarr", source, max_sample_bytes=1 << 21, memory=1 << 30)
    if rows == 1:
        assert out.count("sample None") == 1000
    else:
        assert "row 999: a chunk filled with the array's fill value would take 1048576000 bytes, but the limit is 268435456" in out


@posix
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("place", ["metadata", "chunk"])
@pytest.mark.parametrize("case", ["link", "pipe", "device"])
def test_a_file_of_zarr_that_is_none_of_its_folder(tmp_path: Path, case: str, place: str, version: int) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secretsecret")
    source = (v2 if version == 2 else v3)(tmp_path / "a.zarr", THREE)
    names = {"metadata": ("x/.zarray", "x/zarr.json"), "chunk": ("x/0", "x/c/0")}
    path = source / names[place][version - 2]
    path.unlink()
    if case == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(secret if case == "link" else "/dev/zero")
    out = bounded("zarr", source)
    assert "expected a regular file, found a pipe" in out if case == "pipe" else "a link points outside the folder, to `" in out
    assert "sample" not in out


def test_a_zip_of_zarr_that_unpacks_to_gibibytes(tmp_path: Path) -> None:
    source = v3(tmp_path / "a.zarr", None)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for path in source.rglob("zarr.json"):
            file.write(path, path.relative_to(source))
        with file.open("x/c/0", "w", force_zip64=True) as member:
            for _ in range(300):
                member.write(bytes(1 << 20))
    out = bounded("zarr", tmp_path / "a.zip", max_sample_bytes=1 << 20)
    assert "a.zip/x/c/0` unpacks to 314572800 bytes, but the limit is 268435456" in out


def linked(path: Path) -> dict[str, Path]:
    """Makes HDF5 files whose data are in another file."""
    secret = path / "secret"
    secret.write_bytes(b"secret of the user")
    with h5py.File(path / "other.h5", "w") as file:
        file["x"] = np.frombuffer(secret.read_bytes(), np.uint8)
    found = {name: path / f"{name}.h5" for name in ("virtual", "hidden", "soft", "chain", "virtual-same")}
    layout = h5py.VirtualLayout((18,), "u1")
    layout[:] = h5py.VirtualSource(path / "other.h5", "x", (18,))
    with h5py.File(found["virtual"], "w") as file:
        file.create_virtual_dataset("x", layout)
    with h5py.File(found["hidden"], "w") as file:
        file.create_dataset(".hidden", (18,), "u1", external=[(str(secret), 0, 18)])
        layout = h5py.VirtualLayout((18,), "u1")
        layout[:] = h5py.VirtualSource(".", ".hidden", (18,))
        file.create_virtual_dataset("group/x", layout)
    with h5py.File(found["soft"], "w") as file:
        file["away"] = h5py.ExternalLink(str(path / "other.h5"), "/")
        file["group/x"] = h5py.SoftLink("/away/x")
    with h5py.File(found["chain"], "w") as file:
        file["away"] = h5py.ExternalLink(str(path / "other.h5"), "/")
        file["one"] = h5py.SoftLink("/away")
        file["group/two"] = h5py.SoftLink("/one")
        file["group/x"] = h5py.SoftLink("two/x")
    with h5py.File(found["virtual-same"], "w") as file:
        file["data/y"] = np.arange(18)
        layout = h5py.VirtualLayout((18,), "i8")
        layout[:] = h5py.VirtualSource(".", "data/y", (18,))
        file.create_virtual_dataset("group/x", layout)
    return found


@pytest.mark.parametrize("samples", ["auto", "groups"])
def test_data_of_other_files_behind_links_of_hdf5(tmp_path: Path, samples: str) -> None:
    for name, path in linked(tmp_path).items():
        group = "/" if name == "virtual" else "/group"
        with pytest.raises(ValueError, match="virtual dataset|link to another") as caught:
            sp.convert("hdf5", path, tmp_path / "out", group=group, samples=samples)
        assert str(path) in str(caught.value)
    for group in ("away", "one", "group/two"):
        with pytest.raises(ValueError, match="`away` is a link to another file, `.*other.h5`"):
            sp.convert("hdf5", tmp_path / "chain.h5", tmp_path / "out", group=group)
    assert not (tmp_path / "out").exists()


@posix
def test_a_link_to_a_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["away"] = h5py.ExternalLink(str(tmp_path / "pipe"), "/")
        file["group/x"] = h5py.SoftLink("/away/x")
    assert "`away` is a link to another file" in bounded("hdf5", tmp_path / "a.h5", group="group")


def test_links_within_the_file_are_followed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["data/cube"] = np.arange(12).reshape(3, 4)
        file["data/label"] = np.arange(3)
        file["view/cube"] = h5py.SoftLink("/data/cube")
        file["view/label"] = h5py.SoftLink("../view/other")
        file["now"] = h5py.SoftLink("data")
        file["loop/a"], file["loop/b"] = h5py.SoftLink("/loop/b"), h5py.SoftLink("/loop/a")
    with pytest.raises(ValueError, match="`label` is a broken link, or the file is damaged"):
        sp.convert("hdf5", tmp_path / "a.h5", tmp_path / "out", group="view")
    with pytest.raises(ValueError, match="is part of a loop, or of a chain of more than 16 links"):
        sp.convert("hdf5", tmp_path / "a.h5", tmp_path / "out", group="loop")
    assert sp.convert("hdf5", tmp_path / "a.h5", tmp_path / "out", group="now")["samples"] == 3
    assert content(tmp_path / "out")["00000002"]["cube"].tolist() == [8, 9, 10, 11]


def test_a_changed_byte_of_an_lmdb_ends_no_program(tmp_path: Path) -> None:
    env = lmdb.open(str(tmp_path / "a"), map_size=1 << 22)
    with env.begin(write=True) as transaction:
        for number in range(20):
            transaction.put(b"%03d" % number, jpeg(number, 200, 100))
    env.close()
    file = tmp_path / "a/data.mdb"
    whole = bytearray(file.read_bytes())
    # The node of a large value has its size in two halves, the flag for large values, the size of the key, and the key.
    at = whole.rindex(b"\x01\x00\x03\x00" + b"012") - 4
    whole[at + 3] = 0x20
    whole[at + 2] = 0
    file.write_bytes(whole)
    # The file grows without being allocated more disk blocks, so only the page after its end is missing.
    with pytest.raises(ValueError, match=r"a`, after key `011`: .*damaged|SIGBUS|SIGSEGV"):
        sp.convert("lmdb", tmp_path / "a", tmp_path / "out")
    report = sp.convert("lmdb", tmp_path / "a", tmp_path / "out", on_bad_input="skip")
    assert report["samples"] == 12 and report["samples_skipped_exact"] is False
