"""Shared by the formats of object detection: pictures by their names, boxes, classes."""

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
"""Bytes of a file of annotations of one picture: more is none."""


def folder(path: Path, what: str, inside: Path | None = None) -> Path:
    """A folder that has to be there.

    Raises
    ------
    SourceError
        If it is not, or a link leads out of `inside`, a resolved folder.
    """
    try:
        real = path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise SourceError(f"`{shown(path)}`: expected a name that can be looked up: {shown(error)}") from None
    if inside is not None and not real.is_relative_to(inside):
        raise SourceError(_elsewhere(path, inside, real))
    if not is_folder(path):
        raise SourceError(f"`{shown(path)}`: expected a folder, {what}, found {'a file' if is_file(path) else 'nothing'}")
    return path


def _elsewhere(path: Path, inside: Path, real: object) -> str:
    return (
        f"`{shown(path)}`: expected what is below `{shown(inside)}`, found: `{shown(real)}`\n"
        "hint: follow_links=True follows links out of it"
    )


def picture(path: Path, inside: Path | None = None) -> bytes:
    """The bytes of a picture.

    Raises
    ------
    ValueError
        If they are none, or cannot be read.
    """
    content = regular(path, None, inside)
    if picture_type(content) is None:
        start = content[:8].hex(" ") or "nothing"
        raise ValueError(f"expected a JPEG, PNG, WebP, BMP or TIFF picture in `{shown(path)}`, found bytes that begin with: {start}")
    return content


def regular(path: Path, most: int | None, inside: Path | None = None) -> bytes:
    """The bytes of a regular file. `inside` is a resolved folder; None: links are followed.

    Raises
    ------
    ValueError
        If there is none, it has more than `most` bytes, cannot be read, or is not in `inside`.
    """
    try:
        with open_regular(path) if inside is None else open_inside(inside, path.absolute()) as file:
            content = file.read() if most is None else file.read(most + 1)
    except Elsewhere as error:
        assert inside is not None
        raise ValueError(_elsewhere(path, inside, error.real)) from None
    except ValueError as error:
        # A name with a zero in it, or what is no file.
        raise ValueError(f"`{shown(path)}`: {error}") from None
    except OSError as error:
        found = "nothing" if isinstance(error, (FileNotFoundError, NotADirectoryError)) else f"{error.strerror}"
        raise ValueError(f"expected a file that can be read: `{shown(path)}`, found {found}") from None
    if most is not None and len(content) > most:
        raise ValueError(f"expected at most {most} bytes in `{shown(path)}`, found more")
    return content


def is_file(path: Path) -> bool:
    """True if there is a file of a name that data give. False for an invalid name."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """The same of a folder."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def checked_size(content: bytes, height: object, width: object) -> PictureSize | None:
    """The size of a picture, which its annotations may say: the numbers of their objects are meant for that size.

    Parameters
    ----------
    content
        The picture.
    height, width
        What its annotations say, in pixels; both None or 0 where they say nothing.

    Returns
    -------
    PictureSize or None
        None if the picture is damaged: the writer says so in its own words.

    Raises
    ------
    ValueError
        If they say another size than that of the upright picture, after its Exif orientation.
    """
    found = size_of(content)
    if found is None or all(not said or said == side for said, side in zip((height, width), found.upright, strict=True)):
        return found
    text = f"expected `height` {found.upright[0]} and `width` {found.upright[1]}, as the upright picture has, found {short(height)} and {short(width)}"
    if found.stored == (height, width):
        text += f"\n{_turned(found)}: turn its objects as it turns the picture"
    raise ValueError(text)


def check_inside(corners: NDArray[np.float32], size: PictureSize | None, what: str, values: Sequence[Any]) -> None:
    """Refuse boxes that lie wholly outside their picture. One that reaches beyond an edge is that of an object in part.

    Parameters
    ----------
    corners
        Left, top, right, bottom in pixels, float32 ``[objects, 4]``.
    size
        That of the picture; None: nothing is said.
    what
        What a box is called in its format.
    values
        The boxes as their file has them, for the message.

    Raises
    ------
    ValueError
        If one shows no pixel of the picture.
    """
    if size is None:
        return
    height, width = size.upright
    beyond = outside(corners, width, height)
    if beyond.any():
        found = short(values[int(np.argmax(beyond))])
        text = f"expected {what} in the upright picture, {width} wide and {height} high, found: {found}"
        raise ValueError(text if size.orientation < 5 else f"{text}\n{_turned(size)}: boxes are those of the upright picture")


def outside(corners: NDArray[np.float32], width: float, height: float) -> NDArray[np.bool_]:
    """Which boxes, ``[objects, 4]`` of left, top, right, bottom, have nothing in common with a picture of this size."""
    low, high, edge = corners[:, :2], corners[:, 2:], np.array([width, height])
    # A box without a width or a height may lie on an edge.
    apart = np.where(low == high, (high < 0) | (low > edge), (high <= 0) | (low >= edge))
    return np.asarray(apart.any(axis=1), np.bool_)


def _turned(size: PictureSize) -> str:
    return f"hint: the picture has the Exif orientation {size.orientation}"


def data(path: Path, inside: Path | None = None) -> bytes:
    """A small file of annotations.

    Raises
    ------
    ValueError
        If it is too large, or cannot be read.
    """
    return regular(path, MOST_TEXT, inside)


def text(path: Path, inside: Path | None = None) -> str:
    """The same, as text in UTF-8.

    Raises
    ------
    ValueError
        As :func:`data`; if it is no text.
    """
    try:
        return data(path, inside).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"expected text in UTF-8 in `{shown(path)}`, found others: {error}") from None


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
            raise ValueError(f"expected {width} numbers for {what}, found: {short(row)}")
    try:
        with np.errstate(over="ignore"):
            array = np.array(values, np.float64).reshape(-1, width).astype(np.float32)
    except OverflowError:
        raise ValueError(f"expected numbers that float32 holds for {what}, found a larger one") from None
    finite = np.isfinite(array).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(f"expected finite numbers that float32 holds for {what}, found: {short(values[row])}")
    return array


def check_names(names: object, what: str) -> list[str]:
    """Names of classes, each once.

    Raises
    ------
    SourceError
        If they are no list of texts, or one is there twice.
    """
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise SourceError(f"{what}: expected a list of names of classes, found: {short(names)}")
    if len(set(names)) < len(names) or any(not name.isprintable() for name in names):
        raise SourceError(f"{what}: expected names of classes, each once, of characters that can be printed, found: {short(names)}")
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


def short(value: object) -> str:
    # Not the whole text: YAML can name one list a million times in others.
    text = reprlib.repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"
