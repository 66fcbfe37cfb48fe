"""Decodes values in all MDS encodings except pickle."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._values import not_picture, parse_int, parse_json, picture_type

_NUMBERS = {
    name: np.dtype(name).newbyteorder("<")
    for name in (
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "float32",
        "float64",
    )
}
# Element type of an array by its first byte. Arrays have this byte only if their encoding does not name the type.
_ARRAY_CODES = {
    8: "uint8", 9: "int8", 16: "uint16", 17: "int16", 18: "float16", 32: "uint32", 33: "int32", 34: "float32",
    64: "uint64", 65: "int64", 66: "float64",
}  # fmt: skip
_SHAPE_CODES = ("<u1", "<u2", "<u4", "<u8")


@dataclass(frozen=True)
class Decoder:
    kind: str | None
    """Kind of the field, or None if the first value decides the kind."""
    size: int | None
    """Size of a value in bytes, or None if values vary in size."""
    decode: Callable[[bytes], Any]


def decoder(encoding: str) -> Decoder:
    """Return the decoder for a column's encoding. Raise an error if the encoding is unknown, or is pickle."""
    name, _, options = encoding.partition(":")
    if name in _NUMBERS:
        return _number(name)
    if name == "int":
        return _number("int64")
    if name == "ndarray":
        return _array(options)
    if name in _SIMPLE:
        return _SIMPLE[name]
    if name == "pkl":
        raise ValueError("pickle, which is not loaded because it can run code")
    raise ValueError(f"unknown encoding: {encoding!r}")


def _number(name: str) -> Decoder:
    dtype = _NUMBERS[name]
    return Decoder(name, dtype.itemsize, lambda data: np.frombuffer(data, dtype)[0].astype(name))


def _picture(data: bytes) -> bytes:
    if picture_type(data) is None:
        raise ValueError(not_picture(data))
    return data


def _pil(data: bytes) -> np.ndarray[Any, Any]:
    if len(data) < 12:
        raise ValueError(f"the value is truncated: it has {len(data)} of the 12 bytes of a picture header")
    width, height, length = struct.unpack_from("<3I", data)
    mode = data[12 : 12 + length].decode("utf-8")
    shapes = {"L": (height, width), "RGB": (height, width, 3)}
    if mode not in shapes:
        raise ValueError(f"expected a picture of mode L or RGB, found: {mode!r}")
    return _reshape(data[12 + length :], "uint8", shapes[mode])


def _reshape(data: bytes, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    expected = math.prod(shape) * np.dtype(dtype).itemsize
    if len(data) != expected:
        raise ValueError(
            f"the value is damaged: an array of {dtype} with shape {list(shape)} takes {expected} bytes, but "
            f"{len(data)} are stored"
        )
    return np.frombuffer(data, _NUMBERS[dtype]).reshape(shape).astype(dtype, copy=False)


def _array(options: str) -> Decoder:
    dtype, _, dims = options.partition(":")
    if dtype and dtype not in _ARRAY_CODES.values():
        raise ValueError(f"unknown element type: {dtype!r}")
    shape = tuple(int(dim) for dim in dims.split(",")) if dims else None
    size = math.prod(shape) * np.dtype(dtype).itemsize if dtype and shape is not None else None

    def decode(data: bytes) -> np.ndarray[Any, Any]:
        name, at = dtype, 0
        if not name:
            code = data[0] if data else -1
            if code not in _ARRAY_CODES:
                raise ValueError(f"the value is damaged: unknown element type code {code}")
            name, at = _ARRAY_CODES[code], 1
        dims = shape
        if dims is None:
            if len(data) <= at:
                raise ValueError("the value is truncated: it ends before the shape of the array")
            axes, code = data[at] >> 2, data[at] & 3
            stored = np.dtype(_SHAPE_CODES[code])
            end = at + 1 + axes * stored.itemsize
            if len(data) < end:
                raise ValueError(
                    f"the value is truncated: an array shape with {axes} axes takes {end - at} bytes, but only "
                    f"{len(data) - at} are left"
                )
            dims, at = tuple(int(dim) for dim in np.frombuffer(data[at + 1 : end], stored)), end
        return _reshape(data[at:], name, dims)

    return Decoder("array", size, decode)


_SIMPLE = {
    "bytes": Decoder(None, None, lambda data: data),
    "str": Decoder("text", None, lambda data: data.decode("utf-8")),
    "json": Decoder("json", None, parse_json),
    "jpeg": Decoder("image", None, _picture),
    "png": Decoder("image", None, _picture),
    "pil": Decoder("image", None, _pil),
    "str_int": Decoder("int64", None, lambda data: parse_int(data.decode("utf-8"))),
    "str_float": Decoder("float64", None, lambda data: float(data.decode("utf-8"))),
    "str_decimal": Decoder("text", None, lambda data: data.decode("utf-8")),
}
