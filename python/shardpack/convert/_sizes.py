"""Reads the size of a picture from its header, without decoding and without libraries. ``pack`` uses the same rules."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ._values import is_picture_object, picture_type

_MOST_HEADER = 16 << 20
"""Maximum number of bytes to search for the frame header of a JPEG."""
_MOST_CHUNKS = 1000
"""Maximum number of chunks of a PNG or WebP to search for Exif data."""
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC} | {0xDE}
"""Markers of JPEG frame headers. A frame header contains the size of the picture."""


class PictureSize(NamedTuple):
    """The size of a picture as it is stored, and its orientation."""

    height: int
    width: int
    orientation: int = 1
    """Exif orientation, 1 to 8."""

    @property
    def stored(self) -> tuple[int, int]:
        """Height and width before the Exif orientation."""
        return self.height, self.width

    @property
    def upright(self) -> tuple[int, int]:
        """Height and width of the upright picture, after the Exif orientation."""
        return (self.width, self.height) if self.orientation >= 5 else (self.height, self.width)


def size_of(value: Any) -> PictureSize | None:
    """Return the size of a picture.

    Parameters
    ----------
    value
        The bytes of a JPEG, PNG, WebP, BMP or TIFF; pixels `[height, width]` or `[height, width, channels]`; or a
        PIL image, whose pixels are stored as they are.

    Returns
    -------
    PictureSize or None
        None if the value is something else or is damaged. The writer then raises the error.
    """
    if isinstance(value, np.ndarray):
        return PictureSize(*value.shape[:2]) if value.ndim in (2, 3) else None
    if is_picture_object(value):
        width, height = value.size
        return PictureSize(height, width)
    if not isinstance(value, (bytes, bytearray, memoryview)):
        return None
    content = bytes(value)
    parse = _PARSERS.get(picture_type(content) or "")
    try:
        return parse(content) if parse is not None else None
    except (struct.error, IndexError):
        # The file is truncated.
        return None


def _jpeg(data: bytes) -> PictureSize | None:
    sides: tuple[int, int] | None = None
    at, orientation = 2, 1
    data = data[:_MOST_HEADER]
    while True:
        at = data.find(b"\xff", at)
        if at < 0:
            return None
        while data[at] == 0xFF:
            at += 1
        marker = data[at]
        at += 1
        if marker in (0x00, 0x01) or 0xD0 <= marker <= 0xD7:
            continue
        if marker in (0xD8, 0xD9):
            return None
        (length,) = struct.unpack_from(">H", data, at)
        if marker in _FRAMES:
            sides = struct.unpack_from(">HH", data, at + 3)
        if marker == 0xDE and sides is not None:
            # This is a hierarchical JPEG. No decoder here supports it, so its Exif orientation does not matter.
            return PictureSize(*sides)
        if marker == 0xDA:
            return PictureSize(*sides, orientation) if sides is not None else None
        if marker == 0xE1 and data.startswith(b"Exif\0", at + 2):
            orientation = _exif(data[at + 8 : at + length]) or orientation
        at += length


def _png(data: bytes) -> PictureSize:
    width, height = struct.unpack_from(">II", data, 16)
    at = 33
    for _ in range(_MOST_CHUNKS):
        name = data[at + 4 : at + 8]
        if name in (b"IDAT", b"IEND") or len(name) < 4:
            break
        (length,) = struct.unpack_from(">I", data, at)
        if name == b"eXIf":
            return PictureSize(height, width, _exif(data[at + 8 : at + 8 + length]) or 1)
        # Each chunk has 12 bytes for its length, name and CRC32.
        at += length + 12
    return PictureSize(height, width)


def _webp(data: bytes) -> PictureSize | None:
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return PictureSize(height & 0x3FFF, width & 0x3FFF)
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return PictureSize((bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1)
    if kind != b"VP8X":
        return None
    width, height = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (24, 27))
    at = 12 if data[20] & 8 else len(data)
    for _ in range(_MOST_CHUNKS):
        if at + 8 > len(data):
            break
        (length,) = struct.unpack_from("<I", data, at + 4)
        if data.startswith(b"EXIF", at):
            # Some programs write the prefix of a JPEG's Exif segment before the Exif data.
            exif = data[at + 8 : at + 8 + length].removeprefix(b"Exif\0\0")
            return PictureSize(height, width, _exif(exif) or 1)
        at += 8 + length + length % 2
    return PictureSize(height, width)


def _bmp(data: bytes) -> PictureSize:
    # A negative height means that rows start at the top.
    width, height = struct.unpack_from("<HH" if data[14] == 12 else "<ii", data, 18)
    return PictureSize(abs(height), abs(width))


def _tiff(data: bytes) -> PictureSize | None:
    order = "<" if data[:2] == b"II" else ">"
    (at,) = struct.unpack_from(f"{order}I", data, 4)
    (count,) = struct.unpack_from(f"{order}H", data, at)
    found: dict[int, int] = {}
    for entry in range(at + 2, at + 2 + 12 * count, 12):
        tag, kind = struct.unpack_from(f"{order}HH", data, entry)
        if tag in (256, 257, 274) and kind in (1, 3, 4):
            (found[tag],) = struct.unpack_from(order + {1: "B", 3: "H", 4: "I"}[kind], data, entry + 8)
    if 256 not in found or 257 not in found:
        return None
    orientation = found.get(274, 1)
    return PictureSize(found[257], found[256], orientation if 1 <= orientation <= 8 else 1)


def _exif(tiff: bytes) -> int | None:
    """Return the orientation in Exif data, from 1 to 8, or None."""
    order = {b"II": "<", b"MM": ">"}.get(tiff[:2])
    if order is None:
        return None
    try:
        (at,) = struct.unpack_from(f"{order}I", tiff, 4)
        (count,) = struct.unpack_from(f"{order}H", tiff, at)
        for entry in range(at + 2, at + 2 + 12 * count, 12):
            if struct.unpack_from(f"{order}H", tiff, entry) == (274,):
                (orientation,) = struct.unpack_from(f"{order}H", tiff, entry + 8)
                return orientation if 1 <= orientation <= 8 else None
    except struct.error:
        # The Exif data are truncated.
        pass
    return None


_PARSERS: dict[str, Callable[[bytes], PictureSize | None]] = {
    "jpeg": _jpeg, "png": _png, "webp": _webp, "bmp": _bmp, "tiff": _tiff,
}  # fmt: skip
