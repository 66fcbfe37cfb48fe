"""What the formats of object detection share: pictures by their names, boxes, classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._source import SourceError
from ._values import picture_type

PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")
MOST_TEXT = 16 << 20
"""Bytes of a file of annotations of one picture: more is none."""


def folder(path: Path, what: str) -> Path:
    """A folder that has to be there.

    Raises
    ------
    SourceError
        If it is not.
    """
    if not path.is_dir():
        raise SourceError(f"`{path}`: expected a folder, {what}, found {'a file' if path.exists() else 'nothing'}")
    return path


def picture(path: Path) -> bytes:
    """The bytes of a picture.

    Raises
    ------
    ValueError, OSError
        If they are none, or cannot be read.
    """
    if not path.is_file():
        raise ValueError(f"expected the picture `{path}`, found {'no regular file' if path.exists() else 'nothing'}")
    data = path.read_bytes()
    if picture_type(data) is None:
        start = data[:8].hex(" ") or "nothing"
        raise ValueError(f"expected a JPEG, PNG, WebP, BMP or TIFF picture in `{path}`, found bytes that begin with: {start}")
    return data


def text(path: Path) -> str:
    """A small file of annotations.

    Raises
    ------
    ValueError, OSError
        If it is too large, no text, or cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(MOST_TEXT + 1)
    if len(data) > MOST_TEXT:
        raise ValueError(f"expected at most {MOST_TEXT} bytes in `{path}`, found more")
    return data.decode("utf-8-sig")


def numbers(values: Sequence[Any], width: int, what: str) -> NDArray[np.float32]:
    """Rows of numbers, ``[rows, width]``, float32.

    Raises
    ------
    ValueError
        If a row has another length, or something in it is no finite number.
    """
    for row in values:
        good = isinstance(row, (list, tuple)) and len(row) == width
        if not good or any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in row):
            raise ValueError(f"expected {width} numbers for {what}, found: {_short(row)}")
    array = np.array(values, np.float64).reshape(-1, width)
    if not np.isfinite(array).all():
        raise ValueError(f"expected finite numbers for {what}, found: {_short(array[~np.isfinite(array).all(1)][0].tolist())}")
    return array.astype(np.float32)


def class_numbers(names: Sequence[str], known: Mapping[str, int]) -> NDArray[np.int64]:
    """Numbers of classes.

    Raises
    ------
    ValueError
        If one is unknown.
    """
    for name in names:
        if name not in known:
            raise ValueError(f"expected a class out of {', '.join(known)}, found: {name!r}")
    return np.array([known[name] for name in names], np.int64)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"
