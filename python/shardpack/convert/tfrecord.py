"""Reads TFRecord files of `tf.train.Example` without TensorFlow. Every record is checked with `crc32c`."""

from __future__ import annotations

import builtins
import gzip
import struct
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from ._example import parse_example
from ._files import Paths, list_files
from ._masks import as_masks
from ._source import ANY, Item, Problem, Sample, Source, SourceError, library, option, shown
from ._values import picture_type

_SUFFIXES = (".tfrecord", ".tfrecords", ".tfrecord.gz", ".tfrec", ".record")
_MOST_RECORD_BYTES = 1 << 32


def open(
    src: Paths,
    *,
    drop: Collection[str] = (),
    key: str | None = None,
    arrays: Mapping[str, Any] | None = None,
    text: Collection[str] | None = None,
    masks: Collection[str] = (),
) -> Source:
    """Open TFRecord files of `tf.train.Example`.

    A single integer or float becomes a scalar (int64, float32). Several become an array of one axis. A single byte
    string becomes a picture, text (if it is UTF-8 in the first sample) or bytes. Several byte strings must be text and
    become JSON. The CRC32C of every length and every record is checked. The integer feature `label` (or the feature
    that `label=` names) becomes the labels. The numbers do not change; in many ImageNet files they count from 1.

    Parameters
    ----------
    src
        A file (also .gz), a folder, a pattern such as ``"train-{00000..01023}-of-01024"``, a glob, or a list.
    drop
        Features to leave out.
    key
        A text feature whose values become the keys of the samples, such as ``"image/filename"``. Default: keys are
        running numbers.
    arrays
        Mapping from a feature of raw little-endian bytes to its element type, or to ``(type, shape)``: ``{"cube":
        ("float32", (64, 64, 224))}``.
    text
        Byte-string features that are text. Default: the features that are UTF-8 in the first sample.
    masks
        Picture features that hold class numbers: ``masks=["seg"]``. As with ``shardpack pack --masks``, they become
        arrays of palette indices (PNG) or grey values (PNG or TIFF, 8 or 16 bits). It is an error if a mask is in
        colour, or if its size differs from the size of the upright picture.
    """
    files = list_files(src, _SUFFIXES, "TFRecord")
    crc32c = library("crc32c", "tfrecord").crc32c
    layouts = {name: _layout(name, layout) for name, layout in (arrays or {}).items()}
    features = _Features(frozenset(drop), key, layouts, None if text is None else frozenset(text))
    return Source(_samples(files, features, crc32c), masks=as_masks(masks))


def _layout(name: str, layout: Any) -> tuple[np.dtype[Any], tuple[int, ...] | None]:
    dtype, shape = (layout, None) if isinstance(layout, (str, type, np.dtype)) else layout
    try:
        return np.dtype(dtype).newbyteorder("<"), None if shape is None else tuple(int(axis) for axis in shape)
    except (TypeError, ValueError) as error:
        raise SourceError(
            f"`arrays[{name!r}]` must be an element type such as 'float32', or a pair such as ('float32', (64, 64)), "
            f"found: {layout!r}"
        ) from error


def _samples(files: list[Path], features: _Features, crc32c: Callable[[bytes], int]) -> Iterator[Item]:
    for file in files:
        number = -1
        try:
            for number, record in enumerate(_records(file, crc32c)):
                where = f"`{shown(file)}`, record {number}"
                try:
                    if record is None:
                        raise ValueError("the record is damaged: its CRC32C does not match")
                    key, values = features.take(parse_example(record))
                except ValueError as error:
                    yield Problem(f"{where}: {error}")
                    continue
                yield Sample(key, values, where)
        except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            yield Problem(f"`{shown(file)}`: cannot read record {number + 1} and later records: {error}", samples=None)


def _records(file: Path, crc32c: Callable[[bytes], int]) -> Iterator[bytes | None]:
    """Yield the records of a file. A record is its length as u64, the masked CRC of the length, the data, and their
    masked CRC. Damaged data are yielded as None, because the length still leads to the next record.
    """
    with builtins.open(file, "rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        stream = cast(BinaryIO, gzip.GzipFile(fileobj=plain)) if packed else plain
        while head := stream.read(12):
            if len(head) < 12:
                raise ValueError(f"the file is truncated: it ends after {len(head)} bytes of a 12-byte record header")
            length, crc = struct.unpack("<QI", head)
            if _mask(crc32c(head[:8])) != crc:
                raise ValueError("the file is damaged or not a TFRecord: the CRC32C of a record header does not match")
            if length > _MOST_RECORD_BYTES:
                raise ValueError(f"the record is {length} bytes long, but the limit is {_MOST_RECORD_BYTES}")
            data = stream.read(length)
            tail = stream.read(4)
            if len(data) < length or len(tail) < 4:
                found = len(data) + len(tail)
                raise ValueError(
                    f"the file is truncated: it ends after {found} of {length + 4} bytes of a record and its CRC32C"
                )
            yield data if _mask(crc32c(data)) == struct.unpack("<I", tail)[0] else None


def _mask(crc: int) -> int:
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


class _Features:
    """Converts features. The first record decides how each feature is converted in all records."""

    def __init__(
        self,
        drop: frozenset[str],
        key: str | None,
        layouts: dict[str, tuple[np.dtype[Any], tuple[int, ...] | None]],
        text: frozenset[str] | None,
    ) -> None:
        self.drop = drop
        self.key = key
        self.layouts = layouts
        self.text = text
        self.rules: dict[str, Callable[[list[Any]], Any]] = {}

    def take(self, features: dict[str, list[Any] | np.ndarray[Any, Any]]) -> tuple[str | None, dict[str, Any]]:
        values: dict[str, Any] = {}
        for name, stored in features.items():
            if name in self.drop:
                values[name] = None
                continue
            try:
                if name not in self.rules:
                    self.rules[name] = self._rule(name, stored)
                values[name] = self.rules[name](cast("list[Any]", stored))
            except ValueError as error:
                raise ValueError(f"feature {name!r}: {error}") from error
        if self.key is None:
            return None, values
        key = values.pop(self.key, None)
        if key is None:
            why = "left out by `drop`" if self.key in self.drop else "missing"
            raise ValueError(f"feature {self.key!r}, which holds the key of a sample, is {why}")
        if not isinstance(key, str):
            raise ValueError(f"feature {self.key!r}: expected text as the sample's key, found: {key!r}")
        return key, values

    def _rule(self, name: str, stored: list[Any] | np.ndarray[Any, Any]) -> Callable[[list[Any]], Any]:
        if name in self.layouts:
            dtype, shape = self.layouts[name]
            return lambda stored: _raw_array(_one(stored), dtype, shape)
        if isinstance(stored, np.ndarray):
            dtype = stored.dtype
            return (
                (lambda stored: _number(stored, dtype))
                if len(stored) == 1
                else (lambda stored: _numbers(stored, dtype))
            )
        if not stored:
            raise ValueError(
                "cannot tell the type of this feature, because its first list of values is empty\n"
                f"hint: pass {option(drop=[name])} to leave the feature out"
            )
        is_text = name in self.text if self.text is not None else all(_is_text(value) for value in stored)
        if name == self.key:
            is_text = True
        if len(stored) == 1:
            return (lambda stored: _one(stored).decode("utf-8")) if is_text else _one
        if not is_text:
            raise ValueError(
                f"found {len(stored)} byte strings, but only lists of text are supported\n"
                f"hint: pass {option(drop=[name])} to leave the feature out"
            )
        return lambda stored: [value.decode("utf-8") for value in _strings(stored)]


def _is_text(value: bytes) -> bool:
    if picture_type(value) is not None or b"\0" in value:
        return False
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _strings(stored: Any) -> list[bytes]:
    if isinstance(stored, np.ndarray):
        raise ValueError(f"expected byte strings as in the first record, found numbers of type {stored.dtype}")
    return cast("list[bytes]", stored)


def _one(stored: Any) -> bytes:
    strings = _strings(stored)
    if len(strings) != 1:
        raise ValueError(f"expected one byte string, found {len(strings)}")
    return strings[0]


def _numbers(stored: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if not isinstance(stored, np.ndarray) or stored.dtype != dtype:
        found = f"numbers of type {stored.dtype}" if isinstance(stored, np.ndarray) else "byte strings"
        raise ValueError(f"expected numbers of type {dtype} as in the first record, found {found}")
    return stored


def _number(stored: Any, dtype: np.dtype[Any]) -> Any:
    numbers = _numbers(stored, dtype)
    if len(numbers) != 1:
        raise ValueError(
            f"expected one number as in the first record, found {len(numbers)}\n"
            f"hint: leave the feature out with {option(drop=[ANY])}, or write the same number of values in every record"
        )
    return numbers[0]


def _raw_array(data: bytes, dtype: np.dtype[Any], shape: tuple[int, ...] | None) -> np.ndarray[Any, Any]:
    try:
        array = np.frombuffer(data, dtype)
        return (array if shape is None else array.reshape(shape)).astype(dtype.newbyteorder("="), copy=False)
    except ValueError:
        of_shape = "" if shape is None else f" of shape {list(shape)}"
        raise ValueError(f"{len(data)} bytes cannot be read as an array of {dtype.name}{of_shape}") from None
