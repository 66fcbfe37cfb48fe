"""Reads FFCV files (`.beton`) without FFCV.

According to FFCV's `types.py` and `fields/`, a file consists of a header; a descriptor for each field; a row of
metadata for each sample, with numbers and the offsets of larger values; pages of values; and a table with the sizes of
all values at those offsets. All numbers are little-endian.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ._bounds import EXPANSION, Expansion, check_whole, on_disk
from ._files import Paths, list_files, open_regular
from ._source import Item, Problem, Sample, Source, SourceError, check_drop, shown
from ._values import DTYPES, first_bytes, looks_pickled, parse_json, picture_type

_VERSION = 2
_HEADER = np.dtype([("version", "<u2"), ("fields", "<u2"), ("page", "<u4"), ("samples", "<u8"), ("sizes_at", "<u8")])
_FIELD = np.dtype([("type", "u1"), ("name", "u1", 16), ("arguments", "u1", 1024)])
_VALUE = np.dtype([("sample", "<u8"), ("at", "<u8"), ("size", "<u8")])
"""Type of an entry in the table of sizes."""
_ARRAY = np.dtype([("shape", "<u8", 32), ("type_bytes", "<u8")])
"""Type of the arguments of an array field. The element type of the field follows them as JSON."""
_PICTURE = np.dtype([("mode", "u1"), ("width", "<u2"), ("height", "<u2"), ("at", "<u8")])
_BYTES = np.dtype([("at", "<u8"), ("size", "<u8")])
_JPEG, _RAW = 0, 1
_MOST_FIELDS = 1000
_ROWS = 4096


def open(src: Paths, *, drop: Collection[str] = (), max_sample_bytes: int = 1 << 30) -> Source:
    """Open FFCV files (.beton).

    Pictures that are stored as JPEG keep their bytes; raw pixels become PNG without loss. Integers and floats become
    64-bit scalars, arrays and tensors become arrays, JSON becomes JSON, and bytes stay bytes, or become a picture if
    they begin like one. Fields of a type that a program has added to FFCV are refused. Keys are running numbers, and
    the file has no class names: pass ``classes``.

    Parameters
    ----------
    src
        A file, a folder, a pattern, or a list. All files must have the same fields.
    drop
        Fields to leave out.
    max_sample_bytes
        Largest size of a value. Default 1 GiB. A larger value cannot be converted.
    """
    check_whole("max_sample_bytes", max_sample_bytes)
    files = [_Beton(file, drop, max_sample_bytes) for file in list_files(src, (".beton",), "FFCV")]
    first = files[0]
    for other in files[1:]:
        if other.described() != first.described():
            raise SourceError(f"{other.where}: the fields differ from those in `{shown(first.file)}`")
    kinds = {field.name: field.kind for field in first.fields if field.name not in drop and field.kind is not None}
    return Source(_samples(files, frozenset(drop)), kinds=kinds, total=sum(file.samples for file in files))


class _Values:
    """Reads the values of a file by their offsets."""

    def __init__(self, stream: BinaryIO, size: int, table: np.ndarray[Any, Any], most: int) -> None:
        self._stream = stream
        self._size = size
        order = np.argsort(table["at"], kind="stable")
        self._at = table["at"][order]
        self._sizes = table["size"][order]
        self._most = most

    def read(self, at: int, size: int | None = None) -> bytes:
        """Return the value at an offset. Without `size`, the size comes from the table of sizes."""
        if size is None:
            number = int(np.searchsorted(self._at, np.uint64(at)))
            if number == len(self._at) or int(self._at[number]) != at:
                raise ValueError(f"the file is damaged: the table of sizes has no value at offset {at}")
            size = int(self._sizes[number])
        if size > self._most:
            raise ValueError(f"a value takes {size} bytes, but the limit is {self._most}\nhint: raise max_sample_bytes")
        if at + size > self._size:
            raise ValueError(f"a value of {size} bytes at offset {at} extends beyond the end of the file, which has {self._size} bytes")
        self._stream.seek(at)
        data = self._stream.read(size)
        if len(data) != size:
            raise ValueError(f"the file is truncated: expected {size} bytes at offset {at}, found {len(data)}")
        return data


class _Field(NamedTuple):

    name: str
    kind: str | None
    """Kind of the field; None if the first value decides."""
    stored: np.dtype[Any]
    """Type of the field's part of a metadata row."""
    take: Callable[[Any, _Values], Any]
    """Returns the value that the field's part of a metadata row describes."""
    described: tuple[Any, ...]
    """Type of the field. For arrays, also the shape and the element type."""


class _Beton:
    """The fields of a file, and the offsets of its parts."""

    def __init__(self, file: Path, drop: Collection[str], most: int) -> None:
        self.file = file
        self.where = f"`{shown(file)}`"
        self._most = most
        try:
            with open_regular(file) as stream:
                self._size = os.fstat(stream.fileno()).st_size
                stored = on_disk(os.fstat(stream.fileno()))
                header = _read(stream, _HEADER, 1, self._size)[0]
                if header["version"] != _VERSION:
                    raise ValueError(f"expected an FFCV file of version {_VERSION}, found version {header['version']}")
                if not 0 < header["fields"] <= _MOST_FIELDS:
                    raise ValueError(f"expected 1 to {_MOST_FIELDS} fields, found {header['fields']}")
                described = _read(stream, _FIELD, int(header["fields"]), self._size)
        except ValueError as error:
            raise SourceError(f"{self.where}: {error}") from error
        self.fields = self._fields(described, drop)
        names = [field.name for field in self.fields]
        check_drop(self.where, drop, names)
        self.samples = int(header["samples"])
        self._rows_at = _HEADER.itemsize + described.nbytes
        # FFCV aligns the row, but nested types keep their own layout.
        self._row = np.dtype([(f"f{number}", field.stored) for number, field in enumerate(self.fields)], align=True)
        self._sizes_at = int(header["sizes_at"])
        Expansion(self.where, lambda needed: min(needed, stored), EXPANSION, has_option=False).add(self.samples, 0)
        rows_end = self._rows_at + self.samples * self._row.itemsize
        if not rows_end <= self._sizes_at <= self._size:
            raise SourceError(
                f"{self.where}: the file is damaged or incomplete: the table of sizes must begin between offsets "
                f"{rows_end} and {self._size}, but begins at {self._sizes_at}\n"
                "hint: write the file again; the program that wrote it was probably interrupted"
            )

    def _fields(self, described: np.ndarray[Any, Any], drop: Collection[str]) -> list[_Field]:
        fields, refused = [], {}
        for one in described:
            name = one["name"].tobytes().partition(b"\0")[0].decode("ascii", "backslashreplace")
            try:
                fields.append(_field(name, int(one["type"]), one["arguments"]))
            except ValueError as error:
                # Dropping a field of unknown type would not help, because the positions of the following fields are
                # unknown too.
                refused[name] = str(error)
        if refused:
            listed = "\n".join(f"  {shown(name)}: {reason}" for name, reason in refused.items())
            hint = "write a new file without these fields, or with supported field types"
            raise SourceError(f"{self.where}: some fields cannot be read\n{listed}\nhint: {hint}")
        twice = next((field.name for number, field in enumerate(fields) if field.name in [other.name for other in fields[:number]]), None)
        if twice is not None:
            raise SourceError(f"{self.where}: two fields have the name {twice!r} (FFCV keeps only the first 16 characters of a name)")
        return fields

    def described(self) -> list[tuple[str, tuple[Any, ...]]]:
        return [(field.name, field.described) for field in self.fields]

    def samples_of(self, drop: frozenset[str]) -> Iterator[Item]:
        with open_regular(self.file) as stream:
            # Each value has an entry in the table, and each field of a sample has at most one value.
            entries = min((self._size - self._sizes_at) // _VALUE.itemsize, self.samples * len(self.fields))
            stream.seek(self._sizes_at)
            values = _Values(stream, self._size, _read(stream, _VALUE, entries, self._size), self._most)
            for begin in range(0, self.samples, _ROWS):
                stream.seek(self._rows_at + begin * self._row.itemsize)
                for number, row in enumerate(_read(stream, self._row, min(_ROWS, self.samples - begin), self._size), begin):
                    yield self._sample(number, row, values, drop)

    def _sample(self, number: int, row: Any, values: _Values, drop: frozenset[str]) -> Item:
        where = f"{self.where}, sample {number}"
        sample: dict[str, Any] = {}
        for at, field in enumerate(self.fields):
            if field.name in drop:
                sample[field.name] = None
                continue
            try:
                sample[field.name] = field.take(row[at], values)
            except ValueError as error:
                return Problem(f"{where}: field {field.name!r}: {error}")
        return Sample(None, sample, where)


def _read(stream: BinaryIO, kind: np.dtype[Any], count: int, size: int) -> np.ndarray[Any, Any]:
    """Read `count` values from a file of `size` bytes. Check that the file is large enough before allocating memory.
    """
    needed = count * kind.itemsize
    if stream.tell() + needed > size:
        at = stream.tell()
        raise ValueError(f"the file is truncated: expected {needed} bytes at offset {at}, but the file ends at {size}")
    return np.frombuffer(stream.read(needed), kind)


def _samples(files: list[_Beton], drop: frozenset[str]) -> Iterator[Item]:
    for file in files:
        try:
            yield from file.samples_of(drop)
        except ValueError as error:
            yield Problem(f"{file.where}: {error}", samples=None)


def _field(name: str, type: int, arguments: np.ndarray[Any, Any]) -> _Field:
    """Return the field for a type number of FFCV."""
    if type == 0:
        return _Field(name, "float64", np.dtype("<f8"), lambda value, values: float(value), (type,))
    if type == 1:
        return _Field(name, "int64", np.dtype("<i8"), lambda value, values: int(value), (type,))
    if type == 2:
        return _Field(name, "image", _PICTURE, _picture, (type,))
    if type == 3:
        return _Field(name, None, _BYTES, _bytes, (type,))
    if type in (4, 6):
        dtype, shape = _array_type(arguments)
        size = math.prod(shape) * dtype.itemsize

        def array(at: Any, values: _Values) -> np.ndarray[Any, Any]:
            data = np.frombuffer(values.read(int(at), size), dtype).reshape(shape)
            return data.astype(dtype.newbyteorder("="), copy=True)

        return _Field(name, "array", np.dtype("<u8"), array, (type, dtype.str, shape))
    if type == 5:
        return _Field(name, "json", _BYTES, _json, (type,))
    raise ValueError("a custom field type, which is not part of FFCV" if type == 255 else f"unknown field type: {type}")


def _picture(row: Any, values: _Values) -> Any:
    mode, height, width = int(row["mode"]), int(row["height"]), int(row["width"])
    if mode == _RAW:
        data = values.read(int(row["at"]), height * width * 3)
        return np.frombuffer(data, np.uint8).reshape(height, width, 3)
    if mode != _JPEG:
        raise ValueError(f"expected a picture of mode {_JPEG} (JPEG) or {_RAW} (raw), found mode {mode}")
    data = values.read(int(row["at"]))
    if picture_type(data) != "jpeg":
        raise ValueError(f"not a JPEG: {first_bytes(data)}")
    return data


def _bytes(row: Any, values: _Values) -> bytes:
    data = values.read(int(row["at"]), int(row["size"]))
    if looks_pickled(data):
        raise ValueError("the value is a pickle, which is not loaded because it can run code")
    return data


def _json(row: Any, values: _Values) -> Any:
    # A zero byte ends the text.
    return parse_json(values.read(int(row["at"]), int(row["size"])).partition(b"\0")[0])


def _array_type(arguments: np.ndarray[Any, Any]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    head = np.frombuffer(arguments.tobytes()[: _ARRAY.itemsize], _ARRAY)[0]
    length = int(head["type_bytes"])
    try:
        described = json.loads(arguments.tobytes()[_ARRAY.itemsize :][:length].decode("ascii"))
        ((_, text),) = described
        dtype = np.dtype(text) if isinstance(text, str) else None
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"cannot read the type of the array: {error}") from error
    if dtype is None or dtype.name not in DTYPES:
        raise ValueError(f"unsupported element type {text!r}: expected bool or numbers of at most 64 bits")
    shape = [int(length) for length in head["shape"]]
    while shape and shape[-1] == 0:
        shape.pop()
    if math.prod(shape) == 0:
        raise ValueError(f"arrays without elements are not supported: shape {shape}")
    return dtype, tuple(shape)
