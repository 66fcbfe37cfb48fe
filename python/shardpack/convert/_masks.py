"""Converts masks stored as pictures to arrays of class numbers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from .. import _shardpack
from ._sizes import size_of
from ._source import SourceError
from ._values import is_picture_object, picture_type


def as_masks(masks: Collection[str]) -> frozenset[str]:
    """Check that the option ``masks`` is a list of names, not a single name, and return the names."""
    if isinstance(masks, str):
        raise TypeError(f"masks: expected a list of columns, found: {masks!r}\nhint: pass masks=[{masks!r}]")
    return frozenset(masks)


def class_numbers(column: str, value: Any) -> Any:
    """Return the class numbers of a mask as integers or booleans `[height, width]`, as ``shardpack pack --masks``
    stores them.

    `value` is the bytes of a PNG or TIFF, a PIL picture that is grey or has a palette, an array of integers or
    booleans, or None. The numbers are palette indices, or grey values of up to 16 bits. Anything else is an error,
    for example a colour picture, or a JPEG, because JPEG compression changes numbers.
    """
    if value is None:
        return None
    if isinstance(value, np.ndarray):
        if value.ndim != 2 or value.dtype.kind not in "iub":
            shown = f"{value.dtype} {list(value.shape)}"
            raise SourceError(f"column {column!r}: expected a mask of integers [height, width], found {shown}")
        return value
    if is_picture_object(value):
        if value.mode not in ("1", "L", "P", "I", "I;16"):
            hint = "save the class numbers, not their colours"
            raise SourceError(f"column {column!r}: expected a mask in greyscale or with a palette, found a picture of mode {value.mode}\nhint: {hint}")
        return np.asarray(value)
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise SourceError(f"column {column!r}: expected a mask as PNG or TIFF, found {type(value).__name__}")
    content = bytes(value)
    found = picture_type(content)
    if found not in ("png", "tiff"):
        shown = {"jpeg": "a JPEG, whose compression changes the numbers", "webp": "WebP", "bmp": "BMP"}.get(
            found or "", f"bytes that begin with {content[:8].hex(' ') or 'nothing'}"
        )
        raise SourceError(f"column {column!r}: expected a mask as PNG or TIFF, found {shown}")
    try:
        return _shardpack.mask_of(column, content)
    except ValueError as error:
        raise SourceError(f"column {str(error).replace(f'`{column}`', repr(column), 1)}") from error


def check_size(column: str, mask: np.ndarray[Any, Any], pictures: Collection[Any]) -> None:
    """Refuse a mask that differs in size from its upright picture (after Exif orientation), because the loader could
    not align the two.

    The mask, `[height, width]`, belongs to one of `pictures`. If the size of one of them is unknown, nothing is
    checked.
    """
    sizes = [size for picture in pictures if (size := size_of(picture)) is not None]
    if not sizes or len(sizes) < len(pictures) or any(size.upright == mask.shape for size in sizes):
        return
    whose = "the upright picture" if len(sizes) == 1 else "one of the upright pictures"
    expected = " or ".join(dict.fromkeys(f"{size.upright[0]} × {size.upright[1]}" for size in sizes))
    turned = next((size.orientation for size in sizes if size.stored == mask.shape), None)
    found = f"{mask.shape[0]} × {mask.shape[1]}"
    if turned is not None:
        found += f"\nhint: apply the picture's Exif orientation ({turned}) to the mask too"
    raise SourceError(f"column {column!r}: expected a mask of {expected} pixels, the size of {whose}, found {found}")
