"""Checks the metadata of Zarr arrays before zarr-python reads them.

Only the codecs named here are accepted, because zarr-python has codecs that run a pickle. Decompressors are replaced by
bounded ones, because zarr-python has no limit on the unpacked size. Afterwards, :func:`refusal` checks the codecs that
zarr-python created, so that no document can add other codecs.
"""

from __future__ import annotations

import bz2
import json
import lzma
import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numcodecs
import numpy as np
from numcodecs.abc import Codec
from zarr.abc.codec import BytesBytesCodec
from zarr.codecs import ShardingCodec
from zarr.registry import register_codec

from ._source import SourceError
from ._values import DTYPES, shorten

_PACKED = frozenset(["blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd"])
_CHECKSUMS = frozenset(["adler32", "crc32", "crc32c", "fletcher32", "jenkins_lookup3"])
_NUMBERS = frozenset(["astype", "bitround", "delta", "fixedscaleoffset", "packbits", "quantize", "shuffle"])
_TEXT = frozenset(["vlen-bytes", "vlen-utf8"])
_PLAIN_V3 = frozenset(["bytes", "endian", "transpose", "crc32c"]) | _TEXT
_PACKED_V3 = frozenset(["blosc", "gzip", "zstd"])
_INDEX_V3 = frozenset(["bytes", "endian", "crc32c"])
_OF_NUMCODECS = "numcodecs."
_TYPES = ("dtype", "astype", "encode_dtype", "decode_dtype")
"""Codec settings that name an element type."""
_OWN = "shardpack.bounded"
_SLACK = 64
"""Maximum number of bytes that checksums add to a chunk."""
_MOST_CODECS = 16
_MOST_MEMORY = 128 << 20
"""Maximum size of the LZMA window in bytes."""
_MOST_STREAMS = 1000
"""Maximum number of consecutive compressed streams in a chunk, because even an empty stream takes time."""
_CLASSES_V3 = frozenset(["BytesCodec", "TransposeCodec", "Crc32cCodec", "VLenUTF8Codec", "VLenBytesCodec"])
_VERSIONS = {".zarray": 2, ".zgroup": 2, "zarr.json": 3}
"""Mapping from the name of a metadata document to its Zarr version."""


def checked(name: str, text: bytes, most_chunk: int) -> bytes:
    """Return a metadata document in which all codecs are bounded.

    A refused array is only marked for :func:`refusal`, so that `drop` can leave it out. Consolidated metadata are
    removed, so that each array is read from its own document.

    Parameters
    ----------
    name
        Name of the document, which determines its form: ``zarr.json``, ``.zarray`` or ``.zgroup``.
    text
        The document.
    most_chunk
        Largest size of a decoded chunk in bytes.

    Raises
    ------
    SourceError
        If the document is not metadata.
    """
    try:
        document = json.loads(text)
    except RecursionError:
        raise SourceError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise SourceError(f"not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise SourceError(f"the metadata must be a JSON object, found: {type(document).__name__}")
    version = _VERSIONS[name]
    if (found := document.get("zarr_format")) != version or isinstance(found, bool):
        raise SourceError(f"expected `zarr_format` {version}, found: {shorten(repr(found))}")
    document["zarr_format"] = version
    if name == ".zgroup":
        # Keep only the version of a group, because zarr-python would read a document with a shape as an array.
        document = {"zarr_format": version}
    elif name == ".zarray" or document.get("node_type") == "array":
        _bound(document, version, most_chunk)
    document.pop("consolidated_metadata", None)
    return json.dumps(document).encode("utf-8")


def refusal(metadata: Any) -> str | None:
    """Return the reason to refuse an array, or None if it can be read. `metadata` are zarr-python's parsed metadata."""
    if metadata.zarr_format == 2:
        return _refused_v2([*(metadata.filters or ()), *([] if metadata.compressor is None else [metadata.compressor])])
    return _refused_v3(metadata.codecs)


def _refused_v2(codecs: Iterable[Any]) -> str | None:
    for codec in codecs:
        kind = type(codec)
        if kind is _Bounded:
            if (why := _refused_inside(codec)) is not None:
                return why
        elif not kind.__module__.startswith("numcodecs.") or kind.codec_id not in _CHECKSUMS | _NUMBERS | _TEXT:
            return _not_supported(kind.__name__, _CHECKSUMS | _NUMBERS | _TEXT)
    return None


def _refused_v3(codecs: Iterable[Any]) -> str | None:
    for codec in codecs:
        kind = type(codec)
        if kind is _BoundedV3:
            if (why := _refused_inside(codec)) is not None:
                return why
        elif kind is ShardingCodec:
            if (why := _refused_v3([*codec.codecs, *codec.index_codecs])) is not None:
                return why
        elif kind.__module__.startswith("zarr.codecs.numcodecs."):
            if kind.codec_name.removeprefix(_OF_NUMCODECS) not in _CHECKSUMS | _NUMBERS:
                return _not_supported(kind.codec_name, _CHECKSUMS | _NUMBERS)
        elif not kind.__module__.startswith("zarr.codecs.") or kind.__name__ not in _CLASSES_V3:
            return _not_supported(kind.__name__, _CLASSES_V3)
    return None


def _refused_inside(codec: Any) -> str | None:
    """Return the reason to refuse a bounded codec. The reason depends on the codec that it wraps."""
    if codec.refused:
        return str(codec.refused)
    name = codec.codec["id"] if codec.codec else None
    return None if name is None or name in _PACKED else _not_supported(name, _PACKED)


def _not_supported(name: object, known: Iterable[str]) -> str:
    return f"unsupported codec {shorten(repr(name))}: expected one of {', '.join(sorted(known))}"


class _Refused(ValueError):
    """An array cannot be accepted. The message gives the reason."""


def _bound(document: dict[str, Any], version: int, most: int) -> None:
    """Replace the codecs in the metadata of an array by bounded codecs, in place."""
    v3 = version == 3
    try:
        (_bound_v3 if v3 else _bound_v2)(document, most)
    except _Refused as error:
        refused = {"codec": None, "most": 1, "count": None, "refused": str(error)}
        if v3:
            chunk = {"name": "regular", "configuration": {"chunk_shape": _ones(document)}}
            codecs = [{"name": "bytes"}, {"name": _OWN, "configuration": refused}]
            document |= {"data_type": "uint8", "fill_value": 0, "chunk_grid": chunk, "codecs": codecs}
        else:
            codec = {"id": _OWN, **refused}
            document |= {"dtype": "|u1", "fill_value": 0, "chunks": _ones(document), "filters": None, "compressor": codec}


def _ones(document: dict[str, Any]) -> list[int]:
    shape = document.get("shape")
    return [1] * len(shape) if isinstance(shape, list) else []


def _bound_v2(array: dict[str, Any], most: int) -> None:
    filters, compressor = array.get("filters") or [], array.get("compressor")
    if not isinstance(filters, list) or len(filters) > _MOST_CODECS:
        raise _Refused(f"filters: expected a list of at most {_MOST_CODECS} filters, found: {shorten(repr(filters))}")
    names = [_name(one, "id", _PACKED | _CHECKSUMS | _NUMBERS | _TEXT) for one in filters]
    size, count = _chunk(array.get("chunks"), array.get("dtype"), most)
    is_text = bool(_TEXT.intersection(names))
    if is_text and len(names) > 1 or not is_text and _is_object(array.get("dtype")):
        raise _Refused("arrays of Python objects are not supported")
    if _NUMBERS.intersection(names):
        size = max(size, count * 8)
    size += _SLACK
    if is_text:
        size = most
    elif names:
        array["filters"] = [
            {"id": _OWN, "codec": one, "most": size, "count": None, "refused": ""} if name in _PACKED else one
            for one, name in zip(filters, names, strict=True)
        ]
    if compressor is not None and _name(compressor, "id", _PACKED | _CHECKSUMS) in _CHECKSUMS:
        if is_text:
            raise _Refused(f"text with the compressor {compressor['id']!r} is not supported")
        return
    array["compressor"] = {"id": _OWN, "codec": compressor, "most": size, "count": count if is_text else None, "refused": ""}


def _bound_v3(array: dict[str, Any], most: int) -> None:
    grid = array.get("chunk_grid")
    settings = grid.get("configuration") if isinstance(grid, dict) else None
    if not isinstance(grid, dict) or grid.get("name") != "regular" or not isinstance(settings, dict):
        raise _Refused(f"chunks: expected a regular grid, found: {shorten(repr(grid))}")
    if array.get("storage_transformers"):
        raise _Refused("storage transformers are not supported")
    array["codecs"] = _bounded_v3(array.get("codecs"), settings.get("chunk_shape"), array.get("data_type"), most, True)


def _bounded_v3(codecs: Any, chunk: Any, dtype: Any, most: int, outermost: bool) -> list[dict[str, Any]]:
    if not isinstance(codecs, list) or not 0 < len(codecs) <= _MOST_CODECS:
        raise _Refused(f"codecs: expected a list of 1 to {_MOST_CODECS} codecs, found: {shorten(repr(codecs))}")
    codecs = [{"name": one} if isinstance(one, str) else one for one in codecs]
    of_numcodecs = {_OF_NUMCODECS + name for name in _PACKED | _CHECKSUMS | _NUMBERS}
    known = _PLAIN_V3 | _PACKED_V3 | {"sharding_indexed"} | of_numcodecs
    names = [_name(one, "name", known) for one in codecs]
    if len(codecs) == 1 and names[0] == "sharding_indexed" and outermost:
        # zarr-python reads a sharded array one inner chunk at a time, so only the inner chunks must be bounded.
        return [_sharded(codecs[0], chunk, dtype, most)]
    size, count = _chunk(chunk, dtype, most)
    is_text = bool(_TEXT.intersection(names))
    if any(name.startswith(_OF_NUMCODECS) for name in names):
        size = max(size, count * 8)
    size = most if is_text else size + _SLACK
    bounded: list[dict[str, Any]] = []
    for one, name in zip(codecs, names, strict=True):
        if name == "sharding_indexed":
            bounded.append(_sharded(one, chunk, dtype, most))
            continue
        plain = name.removeprefix(_OF_NUMCODECS)
        codec = {"id": plain, **_settings(one)}
        if plain not in _PACKED:
            bounded.append(one)
        else:
            bounded.append(_own_v3(codec, size, None))
        if name in _TEXT:
            # Decoding runs the codecs in reverse order, so this bound is checked just before the text codec runs.
            bounded.append(_own_v3(None, size, count))
    return bounded


def _sharded(codec: dict[str, Any], shard: Any, dtype: Any, most: int) -> dict[str, Any]:
    settings = dict(_settings(codec))
    inner = settings.get("chunk_shape")
    _, count = _chunk(shard, "uint8", None)
    _, of_chunk = _chunk(inner, "uint8", None)
    if count // max(1, of_chunk) * 16 > most:
        raise _Refused(
            f"the index of a shard with {count // max(1, of_chunk)} chunks is larger than the limit of {most} bytes "
            "(raise max_sample_bytes)"
        )
    index = settings.get("index_codecs")
    if not isinstance(index, list) or len(index) > _MOST_CODECS:
        raise _Refused(f"index_codecs: expected a list of at most {_MOST_CODECS} codecs, found: {shorten(repr(index))}")
    for one in index:
        _name({"name": one} if isinstance(one, str) else one, "name", _INDEX_V3)
    settings["codecs"] = _bounded_v3(settings.get("codecs"), inner, dtype, most, False)
    return {"name": "sharding_indexed", "configuration": settings}


def _own_v3(codec: dict[str, Any] | None, most: int, count: int | None) -> dict[str, Any]:
    return {"name": _OWN, "configuration": {"codec": codec, "most": most, "count": count, "refused": ""}}


def _settings(codec: dict[str, Any]) -> dict[str, Any]:
    found = codec.get("configuration") or {}
    if not isinstance(found, dict):
        raise _Refused(f"codecs: the settings of a codec must be a JSON object, found: {shorten(repr(found))}")
    return found


def _name(codec: Any, key: str, known: Iterable[str]) -> str:
    """Return the name of a codec. Raise an error unless it and the types in its settings are accepted."""
    name = codec.get(key) if isinstance(codec, dict) else None
    if not isinstance(name, str) or name not in known:
        raise _Refused(_not_supported(name, known))
    for settings in (codec, codec.get("configuration")):
        for type in _TYPES if isinstance(settings, dict) else ():
            if type in settings and _itemsize(settings[type]) > 8:
                found = shorten(repr(settings[type]))
                raise _Refused(f"codec {name!r}: `{type}` must be a numeric type, found: {found}")
    return name


def _chunk(shape: Any, dtype: Any, most: int | None) -> tuple[int, int]:
    """Return the number of bytes and the number of values in a chunk."""
    whole = isinstance(shape, list) and all(isinstance(side, int) and not isinstance(side, bool) and side >= 0 for side in shape)
    if not whole:
        raise _Refused(f"chunks: expected non-negative side lengths, found: {shorten(repr(shape))}")
    count = math.prod(shape)
    size = count * _itemsize(dtype)
    if most is not None and size > most:
        raise _Refused(f"a chunk takes {size} bytes, but the limit is {most} (raise max_sample_bytes)")
    return size, count


def _itemsize(dtype: Any) -> int:
    """Return the size of an element in bytes. The size of types that are not numeric does not matter, because they are
    refused later.
    """
    if isinstance(dtype, dict):
        settings = dtype.get("configuration")
        found = settings.get("length_bytes") if isinstance(settings, dict) else None
        return found if isinstance(found, int) and found > 0 else 16
    try:
        # Accept only type names, because structures could be nested without end.
        parsed = np.dtype(dtype) if isinstance(dtype, str) and len(dtype) < 64 else None
    except (TypeError, ValueError, SyntaxError, OverflowError):
        parsed = None
    if parsed is None or parsed.hasobject:
        return 16
    return parsed.itemsize if parsed.name in DTYPES else max(9, parsed.itemsize)


def _is_object(dtype: Any) -> bool:
    try:
        return bool(np.dtype(dtype).hasobject) if isinstance(dtype, str) else True
    except (TypeError, ValueError, SyntaxError):
        return True


def _decoded(data: Any, codec: dict[str, Any] | None, most: int, count: int | None, refused: str) -> Any:
    """Decode a chunk to at most `most` bytes, or, for text, to `count` strings."""
    if refused:
        raise ValueError(refused)
    if codec is not None:
        data = _unpacked(codec, bytes(data), most)
    if len(data) > most:
        raise ValueError(_too_large(most))
    if count is not None and (len(data) < 4 or int.from_bytes(bytes(data[:4]), "little") != count):
        raise ValueError(f"the chunk is damaged: it does not contain {count} strings")
    return data


def _unpacked(codec: dict[str, Any], data: bytes, most: int) -> bytes | Any:
    name = codec["id"]
    if name in ("gzip", "zlib"):
        return _all(lambda: zlib.decompressobj(31 if name == "gzip" else 15), data, most)
    if name == "bz2":
        return _all(bz2.BZ2Decompressor, data, most)
    if name == "lzma":
        form, filters = codec.get("format", lzma.FORMAT_XZ), codec.get("filters")
        _check_windows(filters, most)
        limit = None if form == lzma.FORMAT_RAW else _MOST_MEMORY + most
        return _all(lambda: lzma.LZMADecompressor(form, limit, filters), data, most)
    if name == "blosc":
        size = int.from_bytes(data[4:8], "little")
    elif name == "lz4":
        size = int.from_bytes(data[:4], "little")
    else:
        size = _zstd_size(data)
    if size > most:
        raise ValueError(_too_large(most))
    return numcodecs.get_codec({"id": name}).decode(data)


def _too_large(most: int) -> str:
    # The unpacked size of a zstd frame may be an estimate, and text may be larger than the limit.
    return f"the chunk is damaged, or may unpack to more than {most} bytes"


def _check_windows(filters: Any, most: int) -> None:
    for one in filters or ():
        if not isinstance(one, dict) or not isinstance(size := one.get("dict_size", 0), int) or size > _MOST_MEMORY + most:
            limit = _MOST_MEMORY + most
            raise ValueError(
                f"an LZMA filter is damaged or needs a window of more than {limit} bytes: {shorten(repr(one))}"
            )


def _all(begin: Any, data: bytes, most: int) -> bytes:
    """Unpack consecutive streams to at most `most` bytes in total."""
    out = bytearray()
    streams = 0
    while data:
        streams += 1
        if streams > _MOST_STREAMS:
            raise ValueError(f"the chunk has more than {_MOST_STREAMS} compressed streams")
        stream = begin()
        out += stream.decompress(data, most + 1 - len(out))
        if len(out) > most:
            raise ValueError(_too_large(most))
        if not stream.eof:
            raise ValueError("the chunk is truncated")
        data = stream.unused_data
    return bytes(out)


def _zstd_size(data: bytes) -> int:
    """Return the maximum unpacked size of zstd frames, from the sizes in their headers or from their blocks. Raise an
    error if a frame is truncated.
    """
    at = total = 0
    while at < len(data):
        magic = int.from_bytes(data[at : at + 4], "little")
        if magic & 0xFFFFFFF0 == 0x184D2A50:
            # This is a skippable frame.
            at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
            continue
        if magic != 0xFD2FB528 or at + 5 > len(data):
            raise ValueError("the chunk is damaged: it is not a zstd frame")
        flags = data[at + 4]
        single = flags >> 5 & 1
        at += 5 + (not single) + (0, 1, 2, 4)[flags & 3]
        width = (single, 2, 4, 8)[flags >> 6]
        said = int.from_bytes(data[at : at + width], "little") + (256 if width == 2 else 0) if width else None
        at += width
        unpacked, last = 0, False
        while not last:
            if at + 3 > len(data):
                raise ValueError("the chunk is truncated: it ends inside a zstd frame")
            head = int.from_bytes(data[at : at + 3], "little")
            last, kind, size = bool(head & 1), head >> 1 & 3, head >> 3
            # Raw and run-length blocks state their size. For other blocks, count the maximum block size.
            unpacked += size if kind in (0, 1) else 128 << 10
            at += 3 + (1 if kind == 1 else size)
        at += 4 * (flags >> 2 & 1)
        total += unpacked if said is None else said
    return total


class _Bounded(Codec):  # type: ignore[misc]
    """A Zarr v2 codec that unpacks a chunk to a bounded size."""

    codec_id = _OWN

    def __init__(self, codec: dict[str, Any] | None, most: int, count: int | None, refused: str) -> None:
        self.codec, self.most, self.count, self.refused = codec, most, count, refused

    def encode(self, buf: Any) -> Any:
        raise NotImplementedError

    def decode(self, buf: Any, out: Any = None) -> Any:
        return _decoded(numcodecs.compat.ensure_bytes(buf), self.codec, self.most, self.count, self.refused)


@dataclass(frozen=True)
class _BoundedV3(BytesBytesCodec):
    """A Zarr v3 codec that unpacks a chunk to a bounded size."""

    codec: Any
    most: int
    count: int | None
    refused: str
    is_fixed_size = False

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        return cls(**data["configuration"])

    def to_dict(self) -> dict[str, Any]:
        settings = {"codec": self.codec, "most": self.most, "count": self.count, "refused": self.refused}
        return {"name": _OWN, "configuration": settings}

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        decoded = _decoded(chunk_bytes.to_bytes(), self.codec, self.most, self.count, self.refused)
        return chunk_spec.prototype.buffer.from_bytes(bytes(decoded))

    async def _encode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        raise NotImplementedError

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        raise NotImplementedError


numcodecs.register_codec(_Bounded)
register_codec(_OWN, _BoundedV3)
