"""Converts the values given to a writer for the Rust extension. See ``WriterValue`` in python/src/writer.rs."""

from __future__ import annotations

import json
import os
import re
import stat
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from shardpack import _shardpack
from shardpack._voice import option

if TYPE_CHECKING:
    from collections.abc import Sequence

Given: TypeAlias = "tuple[Any, ...] | bytes | None"

_DTYPES = frozenset(
    "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64".split()
)  # fmt: skip
_TO_KNOWN = "convert it to bool, an integer type, float16, float32 or float64"

_PICTURE_FIELDS = frozenset("image images img imgs picture pictures photo photos pixels".split())
_PICTURE_FILES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")
# Signatures of the picture files that can be stored.
_PICTURES = re.compile(rb"\xff\xd8\xff|\x89PNG\r\n|RIFF....WEBP|BM.{4}\0{4}|II\*\0|MM\0\*", re.S)

# Signatures of AVIF, HEIF, GIF, JPEG 2000, JPEG XL, Photoshop and OpenEXR. The Rust extension refuses these files with
# a message that names the format.
_OTHER_PICTURES = re.compile(
    rb".{4}ftyp(avi[fs]|hei[cmsx]|hevc|mif1|msf1)|GIF8[79]a|\0{3}\x0c(jP  |JXL )|\xff\x4f\xff\x51|\xff\x0a|8BPS\0[\1\2]|\x76\x2f\x31\x01", re.S
)


def given(field: str, value: Any, kind: str | None) -> Given:
    if value is None:
        return None
    if isinstance(value, os.PathLike):
        value = _file(field, value)
    if isinstance(value, bytes):
        return _picture_file(field, value, kind)
    if isinstance(value, str):
        return (_utf8(field, _no_name(field, value, kind)), False)
    if isinstance(value, np.generic):
        return _number(field, value)
    if isinstance(value, (bool, int, float)):
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
            raise _shardpack.UsageError(f"field {field!r}: expected an integer of at most 64 bits, found {value}")
        return (value, None)
    if isinstance(value, (bytearray, memoryview)):
        return _picture_file(field, bytes(value), kind)
    if isinstance(value, np.ndarray):
        return _array(field, _no_tensor(field, value, kind), False)
    if isinstance(value, (list, tuple)) and (kind == "frames" or (kind is None and _are_files(value))):
        return ([_frame(field, frame) for frame in value],)
    if isinstance(value, (dict, list, tuple)):
        if kind is not None and kind.startswith("array"):
            return _array(field, _listed(field, value, kind.partition(":")[2]), False)
        # The Rust extension refuses NaN with an error that names the sample and the field.
        return (_utf8(field, json.dumps(value, default=partial(_json, field), ensure_ascii=False)), True)
    if all(hasattr(value, name) for name in ("mode", "size", "tobytes", "convert")):
        if kind is None and _is_mask(field):
            raise _mask_as_picture(field, f"a PIL image of mode {value.mode}", "np.asarray(picture)")
        return _picture(field, value)
    if hasattr(value, "__array__"):
        # The value is a PyTorch or JAX tensor, or a similar array type.
        return _array(field, _no_tensor(field, np.asarray(value), kind), False)
    expected = "bytes, str, a Path, a number, an array, a PIL image, a dict, a list or None"
    raise TypeError(f"field {field!r}: expected {expected}, found {type(value).__name__}")


def _listed(field: str, value: Any, dtype: str) -> np.ndarray[Any, Any]:
    """Convert a list to an array of this element type. Floats may be rounded. All other values must fit exactly."""
    try:
        found = np.asarray(value)
    except ValueError as error:
        raise _shardpack.UsageError(f"field {field!r}: the lists differ in length: {error}") from None
    if found.dtype.kind not in "biuf":
        large = "an integer of more than 64 bits"
        odd = (type(each).__name__ for each in found.flat if not isinstance(each, (int, float, np.number)))
        plain = {"U": "str", "S": "bytes"}.get(found.dtype.kind, found.dtype.name)
        what = plain if found.dtype != object else next(odd, large).replace("NoneType", "None")
        raise _shardpack.UsageError(f"field {field!r}: expected a list of numbers, but the list contains {what}")
    if not dtype:
        return found
    kind = np.dtype(dtype)
    with np.errstate(all="ignore"):
        if found.dtype.kind == "f" and (np.abs(found) >= 2**53).any():
            # NumPy turns a mix of small and very large integers into floats, so check them one by one.
            found = np.asarray(value, object)
            fits = np.asarray(np.frompyfunc(lambda each: _fits(np.asarray(each), kind).all(), 1, 1)(found), np.bool_)
        else:
            fits = _fits(found, kind)
        if not fits.all():
            first = np.asarray(found[~fits].flat[0]).item()
            raise _shardpack.UsageError(
                f"field {field!r}: expected values that fit {dtype}, but the list contains {first!r}\n"
                "hint: round or clip the values first, or set another type in `schema`"
            )
        return np.asarray(value, kind)


def _fits(found: np.ndarray[Any, Any], kind: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return a mask of the numbers that this element type can hold."""
    if kind.kind == "f":
        if found.dtype.kind == "f":
            return np.asarray(np.isfinite(found.astype(kind)) | ~np.isfinite(found))
        bits = 63 if found.dtype.kind == "i" else 64
        back = found.astype(kind).astype(np.float64)
        inside = (back >= -(2.0**bits)) & (back < 2.0**bits)
        return np.asarray(inside & (np.where(inside, back, 0).astype(found.dtype) == found))
    low, high = (0, 1) if kind.kind == "b" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    if found.dtype.kind == "f":
        return np.asarray((found == np.trunc(found)) & (found >= low) & (found < high + 1))
    bounds = np.iinfo(found.dtype) if found.dtype.kind != "b" else np.iinfo(np.uint8)
    wide = found.astype(np.uint8) if found.dtype.kind == "b" else found
    return np.asarray((wide >= max(low, int(bounds.min))) & (wide <= min(high, int(bounds.max))))


def _are_files(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(value, (bytes, bytearray, memoryview, os.PathLike)) for value in values)


def _frame(field: str, value: Any) -> bytes:
    if isinstance(value, os.PathLike):
        return _file(field, value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(
        f"field {field!r}: each frame must be a JPEG, as bytes or as a pathlib.Path, but one is of type {type(value).__name__}"
    )


def _file(field: str, path: os.PathLike[Any]) -> bytes:
    """Read a regular file. Other kinds of files are refused: reading a pipe, for example, could block forever."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _shardpack.UsageError(f"field {field!r}: not a regular file: {path}")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def _no_name(field: str, text: str, kind: str | None) -> str:
    is_meant = kind == "image" or (kind is None and _is_picture(field))
    if not is_meant or not text[-5:].lower().endswith(_PICTURE_FILES):
        return text
    keep = "" if kind else f', or {option(schema={field: "text"})} to store the name'
    raise _shardpack.UsageError(
        f"field {field!r}: expected a picture, found the name of a file: {text}\n"
        f"hint: pass pathlib.Path({text!r}) to store the picture{keep}"
    )


def _picture_file(field: str, content: bytes, kind: str | None) -> bytes:
    """Refuse pictures in a mask field, because a loader would scale them as RGB. Refuse other bytes in a picture field,
    because they would turn it into a bytes field."""
    if kind is not None:
        return content
    is_picture = _PICTURES.match(content) is not None
    if is_picture and _is_mask(field):
        raise _mask_as_picture(field, f"a picture of {len(content)} bytes", "np.asarray(PIL.Image.open(file))")
    if not is_picture and _is_picture(field) and not _OTHER_PICTURES.match(content):
        found = f"{len(content)} bytes that begin with: {content[:8].hex(' ')}" if content else "no bytes"
        raise _shardpack.UsageError(
            f"field {field!r}: expected a JPEG, PNG, WebP, BMP or TIFF picture, found {found}\n"
            f'hint: pass pixels as an array, uint8 [height, width, 3], or {option(schema={field: "bytes"})} to store bytes of any kind'
        )
    return content


def _mask_as_picture(field: str, found: str, how: str) -> Exception:
    return _shardpack.UsageError(
        f"field {field!r}: expected a mask as an array, found {found}, which loaders would convert to RGB and scale like a photo\n"
        f'hint: pass the class numbers as an array, {how}, or pass {option(schema={field: "image"})} to store a picture'
    )


@lru_cache(maxsize=256)
def _is_picture(field: str) -> bool:
    """True for field names such as ``image``, ``left_image`` and ``image_2``, but not ``image_path``."""
    words = re.findall("[a-z]+", field.lower())
    return bool(words) and words[-1] in _PICTURE_FIELDS


# The writer must use the loader's rule. Otherwise it could store a mask as a picture, and the loader would refuse to
# scale it.
_is_mask = lru_cache(maxsize=256)(_shardpack.is_mask)


def _no_tensor(field: str, array: np.ndarray[Any, Any], kind: str | None) -> np.ndarray[Any, Any]:
    """Refuse model inputs (floats, channels first) in a picture field. They would be stored as arrays and could not be
    loaded as pictures.
    """
    if field != "image" or kind not in (None, "image"):
        return array
    keep = f'; to store the array unchanged, pass {option(schema={"image": "array"})}'
    shape, found = array.shape, f"{array.dtype.name} of shape {list(array.shape)}"
    if np.issubdtype(array.dtype, np.floating):
        hint = "pass the picture file as a pathlib.Path or its pixels as uint8"
    elif array.dtype == np.uint8 and len(shape) == 3 and shape[0] in (1, 3) and shape[2] not in (1, 3):
        hint = "put the channels last with array.transpose(1, 2, 0) (in PyTorch: tensor.permute(1, 2, 0))"
    else:
        return array
    expected = "pixels of a picture, uint8 [height, width], [height, width, 1] or [height, width, 3]"
    raise _shardpack.UsageError(f"field {field!r}: expected {expected}, found {found}\nhint: {hint}{keep}")


def no_fraction(field: str, taken: Given) -> None:
    if isinstance(taken, tuple) and isinstance(taken[0], float):
        hint = f'pass int(label), or pass {option(schema={field: "float64"})} to store numbers that are not classes'
        raise _shardpack.UsageError(f"field {field!r}: expected a class number or name, found {taken[0]}\nhint: {hint}")


def _utf8(field: str, text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise _shardpack.UsageError(f"field {field!r}: the text is not valid Unicode: {error}") from None
    return str(text)


def _number(field: str, value: np.generic) -> Given:
    name = value.dtype.name
    if name not in _DTYPES:
        raise TypeError(f"field {field!r}: a value of type {name} cannot be stored\nhint: {_TO_KNOWN}")
    return (value.item(), name)


def _array(field: str, array: np.ndarray[Any, Any], is_picture: bool) -> Given:
    if np.ma.isMaskedArray(array):
        hint = "fill masked values first with array.filled(value), or write the mask as a separate field"
        raise TypeError(f"field {field!r}: masked arrays cannot be stored\nhint: {hint}")
    name = array.dtype.name
    if name not in _DTYPES:
        hint = "pass array.tolist() to store the strings" if array.dtype.kind == "U" else _TO_KNOWN
        raise TypeError(f"field {field!r}: an array of type {name} cannot be stored\nhint: {hint}")
    if array.ndim == 0 and not is_picture:
        return (array.item(), name)
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return (little.reshape(-1).view(np.uint8), name, array.shape, is_picture)


_READY = {"L": 1, "RGB": 3}
_CONVERTED = {"1": "L", "P": "RGB", "CMYK": "RGB", "YCbCr": "RGB"}


def _picture(field: str, picture: Any) -> Given:
    """Return the pixels of a PIL image as RGB or grey, converted without visible loss. Does not import PIL."""
    mode = picture.mode
    if mode in _CONVERTED and not (mode == "P" and "transparency" in getattr(picture, "info", {})):
        mode = _CONVERTED[mode]
        picture = picture.convert(mode)
    if mode not in _READY:
        hint = 'pass picture.convert("RGB") to store it as 8-bit RGB, or np.asarray(picture) in a field of kind "array" to keep its values'
        found = f"{mode} with transparency" if mode in _CONVERTED else mode
        modes = ", ".join([*_READY, *_CONVERTED])
        raise TypeError(f"field {field!r}: a PIL image of mode {found} cannot be stored (supported modes: {modes})\nhint: {hint}")
    width, height = picture.size
    pixels = np.frombuffer(picture.tobytes(), np.uint8)
    return _array(field, pixels.reshape((height, width, _READY[mode])), True)


def _json(field: str, value: object) -> object:
    """Convert NumPy values inside a document to JSON values."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(
        f"field {field!r}: the value is stored as JSON, which cannot contain a Python object of type {type(value).__name__}"
    )
