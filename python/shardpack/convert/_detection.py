"""Functions shared by the object detection formats. They read pictures and annotation files, and check boxes and
classes.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._files import Elsewhere, open_inside, open_regular
from ._sizes import PictureSize, size_of
from ._source import SourceError, option, shown
from ._values import not_picture, picture_type

PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")
MOST_TEXT = 16 << 20
"""Maximum size in bytes of an annotation file for one picture."""


def folder(path: Path, what: str, inside: Path | None = None) -> Path:
    """Return a folder. Raise an error if it does not exist, or if a link leads out of the resolved folder `inside`."""
    try:
        real = path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise SourceError(f"`{shown(path)}`: invalid path: {shown(error)}") from None
    if inside is not None and not real.is_relative_to(inside):
        raise SourceError(_elsewhere(path, inside, real))
    if not is_folder(path):
        problem = "is a file" if is_file(path) else "does not exist"
        raise SourceError(f"`{shown(path)}` {problem}: expected a folder {what}")
    return path


def _elsewhere(path: Path, inside: Path, real: object) -> str:
    return (
        f"`{shown(path)}` is outside `{shown(inside)}`: it leads to `{shown(real)}`\n"
        f"hint: pass {option(follow_links=True)} to read files outside this folder"
    )


def picture(path: Path, inside: Path | None = None) -> bytes:
    """Return the bytes of a picture. Raise an error if the file cannot be read or is not a picture."""
    content = regular(path, None, inside)
    if picture_type(content) is None:
        raise ValueError(f"`{shown(path)}` is {not_picture(content)}")
    return content


def regular(path: Path, most: int | None, inside: Path | None = None) -> bytes:
    """Return the bytes of a regular file of at most `most` bytes. The file must be in the resolved folder `inside`. If
    that is None, all links are followed.
    """
    try:
        with open_regular(path) if inside is None else open_inside(inside, path.absolute()) as file:
            content = file.read() if most is None else file.read(most + 1)
    except Elsewhere as error:
        assert inside is not None
        raise ValueError(_elsewhere(path, inside, error.real)) from None
    except ValueError as error:
        # The name contains a zero byte, or the file is not a regular file.
        raise ValueError(f"`{shown(path)}`: {error}") from None
    except OSError as error:
        why = "no such file" if isinstance(error, (FileNotFoundError, NotADirectoryError)) else f"{error.strerror}"
        raise ValueError(f"cannot read `{shown(path)}`: {why}") from None
    if most is not None and len(content) > most:
        raise ValueError(f"`{shown(path)}` is larger than the limit of {most} bytes")
    return content


def is_file(path: Path) -> bool:
    """True if a file of this name exists. False for an invalid name."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """True if a folder of this name exists. False for an invalid name."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def checked_size(content: bytes, height: object, width: object) -> PictureSize | None:
    """Check the size of a picture against the `height` and `width` in its annotations (None or 0 if unknown), and
    return the size.

    Returns None for a damaged picture; the writer raises the error. Raises an error if the annotated size differs from
    the size of the upright picture (after its Exif orientation).
    """
    found = size_of(content)
    if found is None or all(not said or said == side for said, side in zip((height, width), found.upright, strict=True)):
        return found
    text = (
        f"`height` and `width` are {short(height)} and {short(width)}, but the picture is {found.upright[0]} pixels "
        f"high and {found.upright[1]} wide{_if_turned(found)}"
    )
    if found.stored == (height, width):
        hint = f"apply orientation {found.orientation} to them"
        text += f"\nhint: the annotations fit the picture before Exif rotation: {hint}"
    raise ValueError(text)


def check_inside(corners: NDArray[np.float32], size: PictureSize | None, what: str, values: Sequence[Any]) -> None:
    """Refuse boxes that lie wholly outside their picture. A box may extend beyond an edge.

    `corners` are left, top, right, bottom in pixels, float32 ``[objects, 4]``. `values` are the boxes as written in the
    file, for the message.
    """
    if size is None:
        return
    height, width = size.upright
    beyond = outside(corners, width, height)
    if beyond.any():
        found = short(values[int(np.argmax(beyond))])
        sides = f"{width} pixels wide and {height} high{_if_turned(size)}"
        text = f"{what} lies outside the picture, which is {sides}: {found}"
        hint = f"\nhint: apply the picture's Exif orientation ({size.orientation}) to the boxes too"
        raise ValueError(text if size.orientation < 5 else text + hint)


def _if_turned(size: PictureSize) -> str:
    return "" if size.upright == size.stored else " after Exif rotation"


def outside(corners: NDArray[np.float32], width: float, height: float) -> NDArray[np.bool_]:
    """Return true for each box that lies wholly outside a picture of this size. The boxes are ``[objects, 4]``: left,
    top, right, bottom.
    """
    low, high, edge = corners[:, :2], corners[:, 2:], np.array([width, height])
    # A box of zero width or height that lies exactly on an edge of the picture does not count as outside.
    apart = np.where(low == high, (high < 0) | (low > edge), (high <= 0) | (low >= edge))
    return np.asarray(apart.any(axis=1), np.bool_)


def data(path: Path, inside: Path | None = None) -> bytes:
    """Return the bytes of a small annotation file. Raise an error if it is too large or cannot be read."""
    return regular(path, MOST_TEXT, inside)


def text(path: Path, inside: Path | None = None) -> str:
    """Same as :func:`data`, but return UTF-8 text."""
    try:
        return data(path, inside).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"`{shown(path)}` is not UTF-8 text: {error}") from None


def numbers(values: Sequence[Any], width: int, what: str) -> NDArray[np.float32]:
    """Return finite numbers as float32 ``[rows, width]``. Raise an error for any other values."""
    for row in values:
        good = isinstance(row, (list, tuple)) and len(row) == width
        if not good or any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in row):
            if width == 1:
                raise ValueError(f"{what} must be a number, found: {short(row[0])}")
            raise ValueError(f"{what} must have {width} numbers, found: {short(row)}")
    try:
        with np.errstate(over="ignore"):
            array = np.array(values, np.float64).reshape(-1, width).astype(np.float32)
    except OverflowError:
        raise ValueError(f"a number in {what} is too large for float32") from None
    finite = np.isfinite(array).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(f"a number in {what} is too large for float32 or not finite: {short(values[row])}")
    return array


def check_names(names: object, what: str) -> list[str]:
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise SourceError(f"{what}: expected a list of class names, found: {short(names)}")
    if len(set(names)) < len(names) or any(not name.isprintable() for name in names):
        raise SourceError(f"{what}: expected unique, printable class names, found: {short(names)}")
    return list(names)


def class_numbers(names: Sequence[str], known: Mapping[str, int]) -> NDArray[np.int64]:
    for name in names:
        if name not in known:
            raise ValueError(f"unknown class {name!r}; the classes are {', '.join(known)}")
    return np.array([known[name] for name in names], np.int64)


def short(value: object) -> str:
    # A plain `repr` could be huge, because a YAML file can repeat one list a million times.
    text = reprlib.repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"
