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
    content = path.read_bytes()
    if picture_type(content) is None:
        start = content[:8].hex(" ") or "nothing"
        raise ValueError(f"expected a JPEG, PNG, WebP, BMP or TIFF picture in `{path}`, found bytes that begin with: {start}")
    return content


def data(path: Path) -> bytes:
    """A small file of annotations.

    Raises
    ------
    ValueError, OSError
        If it is too large, or cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(MOST_TEXT + 1)
    if len(content) > MOST_TEXT:
        raise ValueError(f"expected at most {MOST_TEXT} bytes in `{path}`, found more")
    return content


def text(path: Path) -> str:
    """The same, as text in UTF-8.

    Raises
    ------
    ValueError, OSError
        As :func:`data`; if it is no text.
    """
    return data(path).decode("utf-8-sig")


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
    try:
        with np.errstate(over="ignore"):
            array = np.array(values, np.float64).reshape(-1, width).astype(np.float32)
    except OverflowError:
        raise ValueError(f"expected numbers that float32 holds for {what}, found a larger one") from None
    finite = np.isfinite(array).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(f"expected finite numbers that float32 holds for {what}, found: {_short(values[row])}")
    return array


def check_names(names: object, what: str) -> list[str]:
    """Names of classes, each once.

    Raises
    ------
    SourceError
        If they are no list of texts, or one is there twice.
    """
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise SourceError(f"{what}: expected a list of names of classes, found: {_short(names)}")
    if len(set(names)) < len(names) or any(not name.isprintable() for name in names):
        raise SourceError(f"{what}: expected names of classes, each once, of characters that can be printed, found: {_short(names)}")
    return list(names)


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
