"""Reads LMDB environments with one picture per key, Caffe's `Datum`, or records that the caller's function parses."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Union

import numpy as np

from ._lmdb_entries import Damage, Entry, Failed, read, read_in_child
from ._example import messages, signed, wire_fields
from ._masks import as_masks
from ._source import Item, Problem, Sample, Source, SourceError, library, option, shown
from ._values import first_bytes, looks_pickled, not_picture, picture_type

_NOT_SAMPLES = frozenset([b"__len__", b"__keys__", b"num-samples", b"length"])
"""Keys under which common scripts store the number of samples."""


def open(
    src: Union[str, os.PathLike[str]],
    *,
    drop: Collection[str] = (),
    value: Union[str, Callable[[bytes, bytes], Mapping[str, Any]]] = "auto",
    prefixes: Mapping[str, str] | None = None,
    masks: Collection[str] = (),
    own_process: bool = True,
) -> Source:
    """Open an LMDB environment, read-only and without a lock.

    The key of an entry becomes the key of the sample. If it is not UTF-8, its hexadecimal digits are used. Pickles are
    refused. LMDB trusts its file, so damage can kill the reading process. Therefore a separate process reads the file,
    and an error is raised if that process is killed.

    Parameters
    ----------
    src
        The folder of ``data.mdb``, or the file itself.
    drop
        Columns to leave out.
    value
        Content of an entry. ``"image"``: an encoded picture. ``"datum"``: Caffe's `Datum`, which is a picture or an
        array of floats, with its label. The picture is encoded, or it is raw `[channels, height, width]` in BGR,
        which becomes RGB. ``"bytes"``: bytes. ``"auto"`` (default): ``"image"`` or ``"datum"``, as the first entry
        suggests. It may also be a function that takes an entry's key and value and returns columns: ``lambda key,
        value: {"image": value[8:], "label": value[0]}``.
    prefixes
        For databases with one entry per *column* of a sample: a mapping from column to key prefix, such as ``{"image":
        "image-", "text": "label-"}``. Entries whose keys are equal after the prefix form one sample, and the key
        without the prefix is its key. Entries that are not pictures are text.
    masks
        Picture columns that hold class numbers: ``masks=["seg"]``. As with ``shardpack pack --masks``, they become
        arrays of palette indices (PNG) or grey values (PNG or TIFF, 8 or 16 bits). It is an error if a mask is in
        colour, or if its size differs from the size of the upright picture.
    own_process
        ``False``: read the environment in this process, for systems that cannot start another process. Damage may then
        kill the process.
    """
    library("lmdb", "lmdb")
    path = os.fspath(src)
    if not os.path.exists(path):
        raise FileNotFoundError(2, "no such file or folder", path)
    if not callable(value) and value not in ("auto", "image", "datum", "bytes"):
        raise ValueError(f"value: expected 'auto', 'image', 'datum', 'bytes' or a function, found: {value!r}")
    if prefixes is not None and (value != "auto" or not prefixes):
        raise ValueError("`prefixes` must name at least one column, and cannot be combined with `value`")
    beginnings = None if prefixes is None else [prefix.encode() for prefix in prefixes.values()]
    try:
        if own_process:
            total, entries, close = _started(path, beginnings)
        else:
            (total, entries), close = read(path, beginnings), _nothing
    except (Damage, Failed) as error:
        raise SourceError(f"`{shown(path)}`: {error}") from error
    if prefixes is not None and beginnings is not None:
        items = _joined(_whole(entries, path), path, list(prefixes), beginnings)
        return Source(items, close=close, masks=as_masks(masks))
    return Source(
        _entries(_whole(entries, path), path, value),
        total=None if callable(value) else total,
        close=close,
        masks=as_masks(masks),
    )


def _nothing() -> None:
    """Do nothing, for sources that have nothing to close."""


def _started(path: str, prefixes: list[bytes] | None) -> tuple[int, Iterator[Entry], Callable[[], None]]:
    try:
        return read_in_child(path, prefixes)
    except OSError as error:
        raise SourceError(
            f"`{shown(path)}`: cannot start a process to read the database: {error}\n"
            f"hint: pass {option(own_process=False)} to read it in this process instead; damaged data may then crash this process"
        ) from error


def _whole(entries: Iterator[Entry], path: str) -> Iterator[Union[Entry, Problem]]:
    """Yield the entries, and a problem if they end early."""
    last = None
    try:
        for entry in entries:
            last = entry[0]
            yield entry
    except (Damage, Failed) as error:
        place = "" if last is None else f", after key `{shown(_text_key(last))}`"
        if isinstance(error, Failed):
            # This is not bad input, so `on_bad_input` does not apply.
            raise SourceError(f"`{shown(path)}`{place}: {error}") from error
        yield Problem(f"`{shown(path)}`{place}: {error}", samples=None)


def _entries(
    entries: Iterator[Union[Entry, Problem]], path: str, value: Union[str, Callable[[bytes, bytes], Mapping[str, Any]]]
) -> Iterator[Item]:
    for entry in entries:
        if isinstance(entry, Problem):
            yield entry
            continue
        raw_key, data = entry[0] or b"", entry[1] or b""
        if raw_key in _NOT_SAMPLES and not callable(value):
            continue
        key = _text_key(raw_key)
        where = f"`{shown(path)}`, key `{shown(key)}`"
        try:
            if callable(value):
                yield Sample(key, value(raw_key, data), where)
                continue
            if value == "auto":
                value = "image" if picture_type(data) else "datum"
            values = _value(value, data)
        except ValueError as error:
            yield Problem(f"{where}: {error}")
            continue
        yield Sample(key, values, where)


def _text_key(key: bytes) -> str:
    try:
        return key.decode("utf-8")
    except UnicodeDecodeError:
        return key.hex()


def _value(kind: str, data: bytes) -> dict[str, Any]:
    if kind == "bytes":
        return {"bytes": data}
    if kind == "image" and picture_type(data):
        return {"image": data}
    if looks_pickled(data):
        raise ValueError(
            "the value is a pickle, and pickles are not loaded because they can run code\n"
            "hint: in Python, pass your own function as `value` to decode the entries"
        )
    if kind == "image":
        raise ValueError(not_picture(data))
    try:
        return parse_datum(data)
    except ValueError as error:
        raise ValueError(
            f"the value is neither a picture nor a valid Caffe Datum: {error}\n"
            "hint: in Python, pass your own function as `value` to decode the entries"
        ) from error


def parse_datum(data: bytes) -> dict[str, Any]:
    """Parse Caffe's `Datum`. Its fields have these numbers: ``channels = 1, height = 2, width = 3, data = 4, label = 5,
    repeated float_data = 6, encoded = 7``.
    """
    numbers: dict[int, int] = {}
    view = memoryview(data)
    for number, _wire, found in wire_fields(view):
        if isinstance(found, int) and number in (1, 2, 3, 5, 7):
            numbers[number] = signed(found)
    pixels = b"".join(messages(view, 4))
    values: dict[str, Any] = {"label": numbers.get(5, 0)}
    if picture_type(pixels):
        return {"image": pixels} | values
    shape = (numbers.get(1, 0), numbers.get(2, 0), numbers.get(3, 0))
    if pixels:
        if shape[0] not in (1, 3):
            raise ValueError(f"expected 1 or 3 channels, found {shape[0]}")
        if len(pixels) != math.prod(shape):
            size = math.prod(shape)
            raise ValueError(f"expected {size} bytes for pixels of shape {list(shape)}, found {len(pixels)}")
        planes = np.frombuffer(pixels, np.uint8).reshape(shape)
        image = planes[0] if shape[0] == 1 else planes[::-1].transpose(1, 2, 0)
        return {"image": np.ascontiguousarray(image)} | values
    floats = _floats(view)
    if not len(floats):
        raise ValueError("the record has neither pixels nor floats")
    if len(floats) != math.prod(shape):
        raise ValueError(f"expected {math.prod(shape)} floats for an array of shape {list(shape)}, found {len(floats)}")
    return {"array": floats.reshape(shape)} | values


def _floats(data: memoryview) -> np.ndarray[Any, Any]:
    parts = [
        found.to_bytes(4, "little") if isinstance(found, int) else bytes(found)
        for number, _, found in wire_fields(data)
        if number == 6
    ]
    joined = b"".join(parts)
    if len(joined) % 4:
        raise ValueError(f"`float_data` is {len(joined)} bytes long, which is not a multiple of 4")
    return np.frombuffer(joined, "<f4").astype(np.float32, copy=False)


def _joined(
    entries: Iterator[Union[Entry, Problem]], path: str, columns: list[str], prefixes: list[bytes]
) -> Iterator[Item]:
    for entry in entries:
        if isinstance(entry, Problem):
            yield entry
            continue
        end = entry[0] or b""
        key = _text_key(end)
        where = f"`{shown(path)}`, sample `{shown(key)}`"
        values: dict[str, Any] = {}
        try:
            for column, prefix, data in zip(columns, prefixes, entry[1:], strict=True):
                if data is None:
                    name = shown(_text_key(prefix + end))
                    raise ValueError(f"column {column!r} has no value, because the key `{name}` is missing")
                values[column] = data if picture_type(data) else _text(column, data)
        except ValueError as error:
            yield Problem(f"{where}: {error}")
            continue
        yield Sample(key, values, where)


def _text(column: str, data: bytes) -> str:
    if looks_pickled(data):
        raise ValueError(
            f"column {column!r}: the value is a pickle, and pickles are not loaded because they can run code\n"
            f"hint: remove {column!r} from `prefixes` to leave the column out"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(
            f"column {column!r}: the value is neither a picture nor UTF-8 text: {first_bytes(data)}"
        ) from None
