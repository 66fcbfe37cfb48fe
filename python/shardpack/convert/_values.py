"""Recognises pictures by their first bytes, reads `.npy` files without pickle, and determines the field kind of a
value.
"""

from __future__ import annotations

import io
import json
import math
import re
from typing import Any

import numpy as np

from ._source import ANY, SourceError, option

DTYPES = frozenset(
    ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64"]
)
"""Element types of arrays and of scalars, by their NumPy names."""


def picture_type(data: bytes) -> str | None:
    """Return the media type of a picture by its first bytes, or None.

    >>> picture_type(b"\\xff\\xd8\\xff\\xe0")
    'jpeg'
    """
    head = bytes(data[:12])
    if head.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "webp"
    if head[:4] in (b"II*\0", b"MM\0*"):
        return "tiff"
    if head[:2] == b"BM" and len(data) > 54 and data[14] in (12, 40, 52, 56, 64, 108, 124):
        return "bmp"
    return None


def not_picture(data: bytes) -> str:
    """Return the message for data that are not a picture."""
    return f"not a JPEG, PNG, WebP, BMP or TIFF picture: {first_bytes(data)}"


def first_bytes(data: bytes) -> str:
    """Return a clause that says how data begin, for messages."""
    return f"it begins with the bytes {data[:8].hex(' ')}" if data else "it is empty"


def looks_pickled(data: bytes) -> bool:
    """True if the bytes begin and end like a Python pickle of protocol 2 or later."""
    return len(data) > 3 and data[0] == 0x80 and 2 <= data[1] <= 5 and data[-1:] == b"."


def parse_npy(data: bytes) -> np.ndarray[Any, Any]:
    """Return the array of a `.npy` file.

    Raises
    ------
    ValueError
        If the file is damaged, contains Python objects (pickles can run code), or has an unsupported element type.
    """
    try:
        _check_npy(data)
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except ValueError:
        raise
    except MemoryError:
        raise
    except Exception as error:
        # The header is Python source, so damage can raise any exception.
        raise ValueError(f"the .npy file is damaged: {error}") from error
    if not isinstance(array, np.ndarray):
        raise ValueError("expected a .npy array, found an .npz archive")
    return check_array(array)


def _check_npy(data: bytes) -> None:
    """Raise an error if a .npy file claims more data than it has, before NumPy allocates memory for them."""
    file = io.BytesIO(data)
    if not data.startswith(b"\x93NUMPY"):
        return
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        return
    shape, _, dtype = read(file)
    found = len(data) - file.tell()
    if not dtype.hasobject and math.prod(shape) * dtype.itemsize > found:
        raise ValueError(
            f"the .npy file is truncated: an array of {dtype} with shape {list(shape)} takes "
            f"{math.prod(shape) * dtype.itemsize} bytes, but only {found} follow the header"
        )


def check_array(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array in native byte order. Raise an error if its element type is not supported."""
    if array.dtype.name not in DTYPES:
        raise ValueError(f"unsupported element type {array.dtype}: expected bool or numbers of at most 64 bits")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def parse_json(data: bytes) -> Any:
    """Parse a JSON document strictly: neither NaN nor repeated keys in an object are allowed."""

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not valid JSON")

    try:
        return json.loads(data.decode("utf-8"), parse_constant=refuse, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON: {error}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict, and refuse repeated keys. A plain dict would silently keep only the last."""
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {shorten(twice)!r} occurs twice in a JSON object")
    return value


_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
_MOST_DIGITS = 4300


def parse_int(text: str) -> int:
    """Parse a whole number in ASCII digits. ``int`` alone would also accept ``1_0`` and digits of other scripts."""
    if _WHOLE_NUMBER.fullmatch(text) is None or len(text) > _MOST_DIGITS:
        raise ValueError(f"expected a whole number, found: {shorten(text)!r}")
    return int(text)


def shorten(text: str, most: int = 100) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def is_picture_object(value: object) -> bool:
    """True if a value is a PIL image. Checks the attributes instead of the class, because PIL may not be installed.
    """
    return all(hasattr(value, name) for name in ("mode", "size", "tobytes", "getbands"))


def kind_of(field: str, value: Any) -> str:
    """Return the field kind for a value: `image`, `array`, `text`, `json`, `bytes`, or the type of a number. Raise an
    error if no kind fits.
    """
    if isinstance(value, str):
        return "text"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "image" if picture_type(bytes(value[:64])) else "bytes"
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    if isinstance(value, int):
        return "int64"
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype.name not in DTYPES:
        raise SourceError(f"unsupported element type {value.dtype}: expected bool or numbers of at most 64 bits")
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return str(value.dtype.name)
    if isinstance(value, float):
        return "float64"
    if isinstance(value, np.ndarray):
        return "image" if field == "image" and is_pixels(value) else "array"
    if isinstance(value, (list, tuple)) and value and all(isinstance(one, bytes) for one in value):
        return "frames"
    if isinstance(value, (dict, list, tuple)):
        return "json"
    if is_picture_object(value):
        return "image"
    if value is None:
        raise SourceError(
            f"the first sample has None here, which could be any kind of field: pass {option(schema={field: ANY})}"
        )
    raise SourceError(f"expected a picture, an array, a number, text, JSON or bytes, found: {type(value).__name__}")


def is_pixels(value: np.ndarray[Any, Any]) -> bool:
    """True if the array can be the pixels of a picture: uint8 `[height, width]`, or `[height, width, 1 | 3]`."""
    return value.dtype == np.uint8 and (value.ndim == 2 or (value.ndim == 3 and value.shape[2] in (1, 3)))
