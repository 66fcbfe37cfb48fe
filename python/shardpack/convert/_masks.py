"""Converts masks stored as pictures to arrays of class numbers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from .. import _shardpack
from ._sizes import size_of
from ._source import SourceError, option
from ._values import is_picture_object, picture_type


def as_masks(masks: Collection[str]) -> frozenset[str]:
    """Check that the option ``masks`` is a list of names, not a single name, and return the names."""
    if isinstance(masks, str):
        raise TypeError(f"masks: expected a list of columns, found: {masks!r}\nhint: pass {option(masks=[masks])}")
    return frozenset(masks)


def class_numbers(column: str, value: Any) -> Any:
    """Return the class numbers of a mask as integers or booleans `[height, width]`, as ``shardpack pack --masks``
    stores them.

    `value` is the bytes of a PNG or TIFF, a PIL image that is grey or has a palette, an array of integers or
    booleans, or None. The numbers are palette indices, or grey values of up to 16 bits. Anything else is an error,
    for example a colour picture, or a JPEG, because JPEG compression changes numbers.
    """
    if value is None:
        return None
    if isinstance(value, np.ndarray):
        if value.ndim != 2 or value.dtype.kind not in "iub":
            raise SourceError(
                f"column {column!r}: masks must be integer arrays of shape [height, width], but this one is "
                f"{value.dtype} of shape {list(value.shape)}"
            )
        return value
    if is_picture_object(value):
        if value.mode not in ("1", "L", "P", "I", "I;16"):
            hint = "save the class numbers, not their colours"
            raise SourceError(
                f"column {column!r}: masks must be greyscale or palette pictures, but this one has mode {value.mode}\n"
                f"hint: {hint}"
            )
        return np.asarray(value)
    if not isinstance(value, (bytes, bytearray, memoryview)):
        kind = type(value).__name__
        raise SourceError(f"column {column!r}: masks must be arrays, PNG or TIFF files, but this one is of type {kind}")
    content = bytes(value)
    found = picture_type(content)
    if found not in ("png", "tiff"):
        of_picture = {"jpeg": "is a JPEG, whose compression changes class numbers", "webp": "is WebP", "bmp": "is BMP"}
        of_bytes = f"begins with the bytes {content[:8].hex(' ')}" if content else "is empty"
        problem = of_picture.get(found or "", of_bytes)
        raise SourceError(f"column {column!r}: masks must be PNG or TIFF, but this one {problem}")
    try:
        return _shardpack.mask_of(column, content)
    except ValueError as error:
        raise SourceError(f"column {column!r}: {error}") from error


def check_size(column: str, mask: np.ndarray[Any, Any], pictures: Collection[Any]) -> None:
    """Refuse a mask that differs in size from its upright picture (after Exif orientation), because the loader could
    not align the two.

    The mask, `[height, width]`, belongs to one of `pictures`. If the size of one of them is unknown, nothing is
    checked.
    """
    sizes = [size for picture in pictures if (size := size_of(picture)) is not None]
    if not sizes or len(sizes) < len(pictures) or any(size.upright == mask.shape for size in sizes):
        return
    whose = "its picture has" if len(sizes) == 1 else "the pictures have"
    expected = " or ".join(dict.fromkeys(f"{size.upright[0]} × {size.upright[1]}" for size in sizes))
    if any(size.upright != size.stored for size in sizes):
        expected += " after Exif rotation"
    turned = next((size.orientation for size in sizes if size.stored == mask.shape), None)
    hint = "" if turned is None else f"\nhint: apply the picture's Exif orientation ({turned}) to the mask too"
    found = f"{mask.shape[0]} × {mask.shape[1]}"
    raise SourceError(f"column {column!r}: the mask has {found} pixels (height × width), but {whose} {expected}{hint}")
