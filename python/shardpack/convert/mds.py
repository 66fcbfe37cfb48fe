"""Reads MDS, the format of MosaicML Streaming: an ``index.json`` and shards. Only shards compressed with zstd need a
library, `zstandard`.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import itertools
import os
import struct
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Union

from ._bounds import check_whole
from ._files import open_inside
from ._masks import as_masks
from ._mds_values import Decoder, decoder
from ._source import Item, Problem, Sample, Source, SourceError, check_drop, library, refuse_columns, shown
from ._values import parse_json, shorten


_CHUNK = 16 << 20


def open(
    src: Union[str, os.PathLike[str]],
    *,
    drop: Collection[str] = (),
    key: str | None = None,
    masks: Collection[str] = (),
    max_shard_bytes: int = 4 << 30,
) -> Source:
    """Open a local MDS dataset.

    Columns encoded as ``jpeg``, ``png`` and ``bytes`` keep their bytes. ``str`` and ``str_decimal`` become text, and
    ``json`` becomes JSON. ``int``, ``int8`` … ``float64``, ``str_int`` and ``str_float`` become scalars. ``ndarray``
    becomes an array, with or without a type and a shape. ``pil`` becomes an 8-bit grey or RGB picture. ``pkl`` is
    refused. Sizes are checked, and so are digests if the index has them.

    Parameters
    ----------
    src
        The local folder with ``index.json``.
    drop
        Columns to leave out.
    key
        A text column whose values become the keys of the samples. Default: keys are running numbers.
    masks
        Picture columns that hold class numbers: ``masks=["seg"]``. As with ``shardpack pack --masks``, they become
        arrays of palette indices (PNG) or grey values (PNG or TIFF, 8 or 16 bits). It is an error if a mask is in
        colour, or if its size differs from the size of the upright picture.
    max_shard_bytes
        Largest size of a shard, before and after decompression. Shards are held in memory whole. Default 4 GiB, the
        maximum of the format.
    """
    check_whole("max_shard_bytes", max_shard_bytes)
    folder = Path(src)
    index = _read_index(folder)
    shards = _entries(index, folder)
    columns = _columns(shards[0], folder)
    check_drop(f"`{shown(folder)}`", drop, columns)
    refused = {}
    decoders: dict[str, Decoder] = {}
    for column, encoding in columns.items():
        if column not in drop:
            try:
                decoders[column] = decoder(encoding)
            except ValueError as error:
                refused[column] = str(error)
    refuse_columns(f"`{shown(folder / 'index.json')}`", refused)
    if key is not None and (key not in decoders or decoders[key].kind != "text"):
        raise SourceError(f"`{shown(folder)}`: `key` must name a text column, found: {key!r}")
    total = sum(_count(shard, "samples", folder) for shard in shards)
    kinds = {name: d.kind for name, d in decoders.items() if d.kind is not None and name != key}
    items = _samples(folder, shards, columns, decoders, key, max_shard_bytes)
    return Source(items, kinds=kinds, total=total, masks=as_masks(masks))


def _read_index(folder: Path) -> Mapping[str, Any]:
    file = folder / "index.json"
    if not file.is_file():
        if not folder.is_dir():
            raise FileNotFoundError(2, "no such folder", str(folder))
        splits = sorted(p.parent.name for p in folder.glob("*/index.json"))
        hint = f"\nhint: convert its splits one at a time: {', '.join(splits)}" if splits else ""
        raise SourceError(f"`{shown(folder)}`: the folder has no `index.json`{hint}")
    try:
        index = parse_json(file.read_bytes())
    except ValueError as error:
        raise SourceError(f"`{shown(file)}`: {error}") from error
    if not isinstance(index, dict):
        raise SourceError(f"`{shown(file)}`: expected an MDS index (a JSON object), found: {type(index).__name__}")
    if (version := index.get("version")) != 2:
        raise SourceError(f"`{shown(file)}`: expected an MDS index of version 2, found version {version!r}")
    return index


def _entries(index: Mapping[str, Any], folder: Path) -> list[Mapping[str, Any]]:
    shards = index.get("shards")
    if not isinstance(shards, list) or not all(isinstance(shard, dict) for shard in shards):
        found = shorten(repr(shards))
        raise SourceError(f"`{shown(folder / 'index.json')}`: `shards` must be a list of JSON objects, found: {found}")
    if not shards:
        raise SourceError(f"`{shown(folder / 'index.json')}`: the list of shards is empty")
    for shard in shards:
        if shard.get("format") != "mds":
            raise SourceError(
                f"`{shown(folder / 'index.json')}`: expected shards in MDS format, "
                f"but `format` is {shard.get('format')!r}"
            )
    return shards


def _columns(shard: Mapping[str, Any], folder: Path) -> dict[str, str]:
    names, encodings = shard.get("column_names"), shard.get("column_encodings")
    if (
        not isinstance(names, list)
        or not isinstance(encodings, list)
        or len(names) != len(encodings)
        or not all(isinstance(text, str) for text in [*names, *encodings])
        or len(set(names)) != len(names)
    ):
        raise SourceError(
            f"`{shown(folder / 'index.json')}`: `column_names` must list each column once, and `column_encodings` must "
            f"have one encoding per column, found: {names} and {encodings}"
        )
    return dict(zip(names, encodings))


def _sizes(shard: Mapping[str, Any], decoders: dict[str, Decoder], folder: Path) -> list[int | None]:
    """Return the size in bytes of each column's values, or None for columns of varying size."""
    names, sizes = shard["column_names"], shard.get("column_sizes")
    if (
        not isinstance(sizes, list)
        or len(sizes) != len(names)
        or any(size is not None and (not isinstance(size, int) or size < 1) for size in sizes)
    ):
        raise SourceError(
            f"`{shown(folder / 'index.json')}`: `column_sizes` must list one size (a positive number or null) per "
            f"column, found: {sizes} for the columns {names}"
        )
    for name, size in zip(names, sizes):
        if name in decoders and decoders[name].size != size:
            raise SourceError(
                f"`{shown(folder / 'index.json')}`: column {name!r}: its encoding stores {_bytes(decoders[name].size)} "
                f"per value, but `column_sizes` says {_bytes(size)}"
            )
    return sizes


def _bytes(size: int | None) -> str:
    return "a varying number of bytes" if size is None else f"{size} bytes"


def _count(entry: Mapping[str, Any], name: str, folder: Path) -> int:
    value = entry.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise SourceError(f"`{shown(folder / 'index.json')}`: `{shown(name)}` must be a non-negative integer, found: {value!r}")
    return value


def _samples(
    folder: Path,
    shards: list[Mapping[str, Any]],
    columns: dict[str, str],
    decoders: dict[str, Decoder],
    key: str | None,
    max_bytes: int,
) -> Iterator[Item]:
    root = folder.resolve()
    for shard in shards:
        name = _file_name(shard.get("raw_data"), folder)
        if _columns(shard, folder) != columns:
            raise SourceError(
                f"`{shown(folder / 'index.json')}`: all shards must have the same columns, but the first has {columns} "
                f"and `{shown(name)}` has {_columns(shard, folder)}"
            )
        count = _count(shard, "samples", folder)
        try:
            data = _read_shard(root, shard, max_bytes)
            offsets = _offsets(data, count)
        except ValueError as error:
            # Report the number of samples only if it is possible: each sample takes at least 4 bytes of the shard.
            yield Problem(f"`{shown(folder / name)}`: {error}", samples=count if 4 * count <= max_bytes else None)
            continue
        sizes = _sizes(shard, decoders, folder)
        for number, (begin, end) in enumerate(itertools.pairwise(offsets)):
            where = f"`{shown(folder / name)}`, sample {number}"
            try:
                values = _decode(memoryview(data)[begin:end], columns, sizes, decoders)
            except ValueError as error:
                yield Problem(f"{where}: {error}")
                continue
            yield Sample(values.pop(key) if key is not None else None, values, where)


def _file_name(entry: object, folder: Path) -> str:
    name = entry.get("basename") if isinstance(entry, dict) else None
    if not isinstance(name, str) or Path(name).is_absolute() or ".." in Path(name).parts or not name:
        found = shorten(repr(name))
        raise SourceError(
            f"`{shown(folder / 'index.json')}`: the `basename` of each shard must name a file in the same "
            f"folder, found: {found}"
        )
    return name


def _read_shard(folder: Path, shard: Mapping[str, Any], max_bytes: int) -> bytes:
    raw, packed = shard.get("raw_data"), shard.get("zip_data")
    name = _file_name(raw, folder)
    assert isinstance(raw, dict)
    expected = _count(raw, "bytes", folder)
    if expected > max_bytes:
        raise ValueError(_too_large(max_bytes, expected))
    try:
        data = _read_file(folder, name, max_bytes)
        _check_digest(data, raw)
    except FileNotFoundError:
        if not isinstance(packed, dict):
            raise
        stored = _read_file(folder, _file_name(packed, folder), max_bytes)
        _check_digest(stored, packed)
        data = _unpack(stored, str(shard.get("compression")), expected)
    if len(data) != expected:
        raise ValueError(f"the shard is {len(data)} bytes long, but the index says {expected}")
    return data


def _too_large(max_bytes: int, found: int) -> str:
    return f"the shard is {found} bytes long, but the limit is {max_bytes}\nhint: raise max_shard_bytes"


def _read_file(folder: Path, name: str, max_bytes: int) -> bytes:
    """Return the content of a regular file in the folder. The index is not trusted, so its names must not lead to other
    files.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        If it is not a regular file, is too large, or cannot be read.
    """
    try:
        with open_inside(folder, name) as file:
            size = os.fstat(file.fileno()).st_size
            if size > max_bytes:
                raise ValueError(_too_large(max_bytes, size))
            return file.read(size)
    except FileNotFoundError:
        raise FileNotFoundError(2, "no such file", str(folder / name)) from None
    except OSError as error:
        raise ValueError(f"cannot read the file: {error}") from error


def _check_digest(data: bytes, entry: Mapping[str, Any]) -> None:
    hashes = entry.get("hashes") or {}
    if not isinstance(hashes, dict):
        raise ValueError(f"`hashes` in the index must map hash algorithms to digests, found: {shorten(repr(hashes))}")
    for name, expected in hashes.items():
        if name in hashlib.algorithms_guaranteed and not name.startswith("shake"):
            found = hashlib.new(name, data).hexdigest()
            if found != expected:
                raise ValueError(f"the file is damaged: its {name} is {found}, but the index says {expected}")


def _unpack(data: bytes, compression: str, size: int) -> bytes:
    algorithm = compression.partition(":")[0]
    try:
        if algorithm == "zstd":
            # Unpack one byte beyond the limit, to detect a longer stream.
            with library("zstandard", "mds").ZstdDecompressor().stream_reader(data) as stream:
                return _read_all(stream, size + 1)
        if algorithm == "gz":
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as unpacked:
                return _read_all(unpacked, size + 1)
        if algorithm == "bz2":
            return bz2.BZ2Decompressor().decompress(data, size + 1)
    except ImportError:
        raise
    except MemoryError:
        raise
    except Exception as error:
        raise ValueError(f"the {algorithm} file is damaged: {error}") from error
    raise ValueError(f"the compression of a shard must be zstd, gz or bz2, found: {compression!r}")


def _read_all(stream: Any, most: int) -> bytes:
    """Read at most `most` bytes in pieces, because the index may claim more than fits in memory."""
    data = bytearray()
    while len(data) < most and (piece := stream.read(min(_CHUNK, most - len(data)))):
        data += piece
    return bytes(data)


def _offsets(data: bytes, samples: int) -> tuple[int, ...]:
    """Return the start of each sample and the end of the last."""
    head = 4 * (samples + 2)
    if len(data) < head:
        raise ValueError(
            f"the shard is too short for the {samples} samples in the index: their offsets take {head} bytes, but the "
            f"shard is only {len(data)} bytes long"
        )
    count, *offsets = struct.unpack_from(f"<{samples + 2}I", data)
    if count != samples:
        raise ValueError(f"the shard has {count} samples, but the index says {samples}")
    if offsets[0] < head or offsets[-1] != len(data) or any(a > b for a, b in itertools.pairwise(offsets)):
        raise ValueError("the shard is damaged: the offsets of its samples are out of order or point outside the shard")
    return tuple(offsets)


def _decode(
    data: memoryview, columns: dict[str, str], sizes: list[int | None], decoders: dict[str, Decoder]
) -> dict[str, Any]:
    """Decode one sample: the lengths of the varying columns, followed by all values."""
    varying = sum(size is None for size in sizes)
    if len(data) < 4 * varying:
        raise ValueError(f"the sample is truncated: it is {len(data)} bytes long, but needs at least {4 * varying}")
    lengths = iter(struct.unpack_from(f"<{varying}I", data))
    at = 4 * varying
    values: dict[str, Any] = {}
    for column, size in zip(columns, sizes):
        length = next(lengths) if size is None else size
        if at + length > len(data):
            raise ValueError(f"column {column!r}: expected {length} bytes, found {len(data) - at}")
        if column in decoders:
            try:
                values[column] = decoders[column].decode(bytes(data[at : at + length]))
            except ValueError as error:
                raise ValueError(f"column {column!r}: {error}") from error
        else:
            values[column] = None
        at += length
    if at != len(data):
        raise ValueError(f"the sample is damaged: it is {len(data)} bytes long, but its columns take only {at}")
    return values
