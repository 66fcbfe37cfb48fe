"""Common code of the formats of object detection: pictures by name, boxes, classes."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._files import Elsewhere, open_inside, open_regular
from ._sizes import PictureSize, size_of
from ._source import SourceError, shown
from ._values import picture_type

PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")
MOST_TEXT = 16 << 20
"""Most bytes of the annotations of one picture."""


def folder(path: Path, what: str, inside: Path | None = None) -> Path:
    """Check that a folder exists, and return it.

    Raises
    ------
    SourceError
        If it does not exist, or a link leads out of `inside`, a resolved folder.
    """
    try:
        real = path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise SourceError(f"`{shown(path)}`: invalid path: {shown(error)}") from None
    if inside is not None and not real.is_relative_to(inside):
        raise SourceError(_elsewhere(path, inside, real))
    if not is_folder(path):
        raise SourceError(f"`{shown(path)}`: expected a folder, {what}, found {'a file' if is_file(path) else 'nothing'}")
    return path


def _elsewhere(path: Path, inside: Path, real: object) -> str:
    return (
        f"`{shown(path)}` leads out of `{shown(inside)}`, to `{shown(real)}`\n"
        "hint: follow_links=True follows such links"
    )


def picture(path: Path, inside: Path | None = None) -> bytes:
    """The bytes of a picture.

    Raises
    ------
    ValueError
        If it is not a picture, or cannot be read.
    """
    content = regular(path, None, inside)
    if picture_type(content) is None:
        start = content[:8].hex(" ") or "nothing"
        raise ValueError(f"expected a JPEG, PNG, WebP, BMP or TIFF picture in `{shown(path)}`, found bytes that begin with: {start}")
    return content


def regular(path: Path, most: int | None, inside: Path | None = None) -> bytes:
    """The bytes of a regular file. `inside` is a resolved folder, or None to follow all links.

    Raises
    ------
    ValueError
        If it does not exist, has more than `most` bytes, cannot be read, or is outside of `inside`.
    """
    try:
        with open_regular(path) if inside is None else open_inside(inside, path.absolute()) as file:
            content = file.read() if most is None else file.read(most + 1)
    except Elsewhere as error:
        assert inside is not None
        raise ValueError(_elsewhere(path, inside, error.real)) from None
    except ValueError as error:
        # A name with a zero byte, or not a regular file.
        raise ValueError(f"`{shown(path)}`: {error}") from None
    except OSError as error:
        found = "nothing" if isinstance(error, (FileNotFoundError, NotADirectoryError)) else f"{error.strerror}"
        raise ValueError(f"cannot read `{shown(path)}`: found {found}") from None
    if most is not None and len(content) > most:
        raise ValueError(f"expected at most {most} bytes in `{shown(path)}`, found more")
    return content


def is_file(path: Path) -> bool:
    """True if a file of this name exists. False for an invalid name."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """As :func:`is_file`, for a folder."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def checked_size(content: bytes, height: object, width: object) -> PictureSize | None:
    """The size of a picture, compared with its annotations, whose objects refer to that size.

    Parameters
    ----------
    content
        The picture.
    height, width
        Size in the annotations, in pixels; both None or 0 if they have none.

    Returns
    -------
    PictureSize or None
        None if the picture is damaged; the writer then raises the error.

    Raises
    ------
    ValueError
        If the annotations have another size than the upright picture, after its Exif orientation.
    """
    found = size_of(content)
    if found is None or all(not said or said == side for said, side in zip((height, width), found.upright, strict=True)):
        return found
    text = f"expected `height` {found.upright[0]} and `width` {found.upright[1]}, as the upright picture has, found {short(height)} and {short(width)}"
    if found.stored == (height, width):
        text += f"\n{_turned(found)}: turn its objects in the same way"
    raise ValueError(text)


def check_inside(corners: NDArray[np.float32], size: PictureSize | None, what: str, values: Sequence[Any]) -> None:
    """Refuse boxes that lie wholly outside their picture. A box may reach beyond an edge.

    Parameters
    ----------
    corners
        Left, top, right, bottom in pixels, float32 ``[objects, 4]``.
    size
        Size of the picture; None if unknown.
    what
        Name of a box in its format.
    values
        The boxes in the numbers of the file, for the message.

    Raises
    ------
    ValueError
        If a box contains no pixel of the picture.
    """
    if size is None:
        return
    height, width = size.upright
    beyond = outside(corners, width, height)
    if beyond.any():
        found = short(values[int(np.argmax(beyond))])
        text = f"expected {what} in the upright picture, {width} wide and {height} high, found: {found}"
        raise ValueError(text if size.orientation < 5 else f"{text}\n{_turned(size)}: boxes refer to the upright picture")


def outside(corners: NDArray[np.float32], width: float, height: float) -> NDArray[np.bool_]:
    """True for boxes, ``[objects, 4]`` of left, top, right, bottom, wholly outside a picture of this size."""
    low, high, edge = corners[:, :2], corners[:, 2:], np.array([width, height])
    # A box without a width or a height may lie on an edge.
    apart = np.where(low == high, (high < 0) | (low > edge), (high <= 0) | (low >= edge))
    return np.asarray(apart.any(axis=1), np.bool_)


def _turned(size: PictureSize) -> str:
    return f"hint: the picture has the Exif orientation {size.orientation}"


def data(path: Path, inside: Path | None = None) -> bytes:
    """The bytes of a small file of annotations.

    Raises
    ------
    ValueError
        If it is too large, or cannot be read.
    """
    return regular(path, MOST_TEXT, inside)


def text(path: Path, inside: Path | None = None) -> str:
    """As :func:`data`, as text in UTF-8.

    Raises
    ------
    ValueError
        As :func:`data`; if it is not text.
    """
    try:
        return data(path, inside).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"`{shown(path)}` is not UTF-8 text: {error}") from None


def numbers(values: Sequence[Any], width: int, what: str) -> NDArray[np.float32]:
    """Rows of numbers, ``[rows, width]``, float32.

    Raises
    ------
    ValueError
        If a row has another length, or a value is not a finite number.
    """
    for row in values:
        good = isinstance(row, (list, tuple)) and len(row) == width
        if not good or any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in row):
            raise ValueError(f"expected {width} numbers for {what}, found: {short(row)}")
    try:
        with np.errstate(over="ignore"):
            array = np.array(values, np.float64).reshape(-1, width).astype(np.float32)
    except OverflowError:
        raise ValueError(f"expected numbers within float32 for {what}, found a larger one") from None
    finite = np.isfinite(array).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(f"expected finite numbers within float32 for {what}, found: {short(values[row])}")
    return array


def check_names(names: object, what: str) -> list[str]:
    """Check a list of unique names of classes.

    Raises
    ------
    SourceError
        If it is not a list of texts, or a name occurs twice.
    """
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise SourceError(f"{what}: expected a list of names of classes, found: {short(names)}")
    if len(set(names)) < len(names) or any(not name.isprintable() for name in names):
        raise SourceError(f"{what}: expected unique, printable names of classes, found: {short(names)}")
    return list(names)


def class_numbers(names: Sequence[str], known: Mapping[str, int]) -> NDArray[np.int64]:
    """Numbers of classes.

    Raises
    ------
    ValueError
        If a name is unknown.
    """
    for name in names:
        if name not in known:
            raise ValueError(f"unknown class {name!r}; the classes are {', '.join(known)}")
    return np.array([known[name] for name in names], np.int64)


def short(value: object) -> str:
    # repr of the whole could be huge: YAML can repeat one list a million times.
    text = reprlib.repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"
