"""Lists the files of a source: a file, a folder, a list, a glob, or a brace pattern such as ``train-{000..012}.tar``.
"""

from __future__ import annotations

import errno
import fnmatch
import glob
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Union

from ._source import SourceError, shown

PathLike = Union[str, "os.PathLike[str]"]
Paths = Union[PathLike, Iterable[PathLike]]

_MOST_FILES = 1_000_000
SPLITS = ("train", "training", "val", "valid", "validation", "test", "testing")
"""Words in names that denote different splits."""
_NUMBERED = re.compile(r"-\d+-of-\d+$")
_OF_A_SET = re.compile(r"(.*-)(\d+)(-of-(\d+)(?:[.].*)?)", re.S)
"""Matches a file name in a numbered set: text before the number, number, text after it, size of the set."""
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def list_files(src: Paths, suffixes: Collection[str], what: str) -> list[Path]:
    """Return the files that `src` names, in order.

    Parameters
    ----------
    src
        A file, a folder, a glob, a brace pattern, or a list of any of them. A folder means the sorted files in it whose
        names end in one of `suffixes` or in a number such as ``-00000-of-00012``.
    suffixes
        Endings of file names, in lower case and with the dot.
    what
        Name of the format, for messages.

    Raises
    ------
    SourceError
        If a pattern is malformed, a folder has no such file or has files of several splits, a numbered set
        (``-of-00012``) in a folder or a glob is incomplete, or a name is a URL or belongs to a pipe or device.
    FileNotFoundError
        If a file does not exist.
    """
    if isinstance(src, (str, os.PathLike)):
        files = list(_expand(os.fspath(src), suffixes, what))
    else:
        files = [file for part in src for file in _expand(os.fspath(part), suffixes, what)]
        if not files:
            raise SourceError(f"{what}: the list of files is empty")
    for file in files:
        if not file.exists():
            raise FileNotFoundError(2, "no such file", str(file))
        # Reading a pipe could block forever, and reading a device might never end.
        if not file.is_file():
            found = "a folder" if file.is_dir() else "a pipe, socket or device"
            raise SourceError(f"`{shown(file)}`: expected a regular file, found {found}")
    return files


def open_regular(path: PathLike) -> BinaryIO:
    """Open a regular file without blocking. Opening a pipe would wait for a writer, and reading a device might never
    end.

    Raises
    ------
    ValueError
        If it is not a regular file, or its name is invalid.
    OSError
        If it does not exist, or cannot be read.
    """
    # Check the file only after opening it. Before that, another file could be moved to its name.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    return _regular(os.open(path, flags))


def _regular(opened: int) -> BinaryIO:
    """Make a file object from an open descriptor. If the file is not regular, close it and raise an error."""
    try:
        kind = os.fstat(opened).st_mode
        if not stat.S_ISREG(kind):
            found = "a folder" if stat.S_ISDIR(kind) else "a pipe, socket or device"
            raise ValueError(f"expected a regular file, found {found}")
        return os.fdopen(opened, "rb")
    except BaseException:
        os.close(opened)
        raise


class Elsewhere(ValueError):
    """A path leads out of its folder."""

    def __init__(self, real: object) -> None:
        super().__init__(f"a link points outside the folder, to `{shown(real)}`")
        self.real = real


def open_inside(root: Path, name: PathLike) -> BinaryIO:
    """Open a regular file in a folder by an untrusted name. Links are followed only within the folder.

    Parameters
    ----------
    root
        The folder, which the caller has resolved once.
    name
        A path below the folder, or a path that begins with the path of the folder.

    Raises
    ------
    Elsewhere
        If the file is outside the folder, even if only a link leads there.
    ValueError
        If it is not a regular file, or if its path was replaced by a link in the meantime.
    OSError
        As for :func:`open_regular`.
    """
    try:
        real = (root / name).resolve(strict=True)
    except RuntimeError as error:  # Before Python 3.13, a loop of links.
        raise ValueError(f"cannot read the file: {shown(error)}") from error
    if not real.is_relative_to(root):
        raise Elsewhere(real)
    parts = real.relative_to(root).parts
    if os.open not in os.supports_dir_fd or not parts:
        return open_regular(real)
    # The resolved path has no links. Open each part of it relative to the part before, and refuse parts that have
    # become links since.
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for part in parts[:-1]:
            inner = _open_part(part, os.O_DIRECTORY, folder)
            os.close(folder)
            folder = inner
        return _regular(_open_part(parts[-1], os.O_NONBLOCK, folder))
    finally:
        os.close(folder)


def _open_part(name: str, flags: int, folder: int) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | flags, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise ValueError(f"`{shown(name)}` was replaced by a link while it was being opened") from error
        raise


def _expand(text: str, suffixes: Collection[str], what: str) -> Iterator[Path]:
    path = Path(text)
    if path.is_dir():
        yield from _folder(path, suffixes, what)
    elif path.exists():
        yield path
    elif "://" in text or text.startswith("pipe:"):
        raise SourceError(
            f"{what}: expected local files, found: {text!r}\n"
            "hint: download the files first; only the webdataset format can be read from s3://, gs:// and az://"
        )
    elif "{" in text or "}" in text:
        yield from map(Path, expand_braces(text))
    elif glob.has_magic(text):
        matches = sorted(glob.glob(text))
        if not matches:
            raise SourceError(f"{what}: no files match the pattern {text!r}")
        # A pattern such as `train-0000?-of-00100` selects a part of the set on purpose.
        refuse_gap(text, matches, lambda name: fnmatch.fnmatch(name, text))
        yield from map(Path, matches)
    else:
        yield path


def _folder(folder: Path, suffixes: Collection[str], what: str) -> list[Path]:
    found = sorted(
        file
        for file in folder.iterdir()
        if (file.name.lower().endswith(tuple(suffixes)) or _NUMBERED.search(file.name)) and file.is_file()
    )
    of_one_split(folder, [file.name for file in found], suffixes, what)
    return found


def of_one_split(folder: PathLike, names: list[str], suffixes: Collection[str], what: str) -> list[str]:
    """Return the names of the files in a folder. Raise an error if there are none, if they belong to several splits, or
    if a numbered set is incomplete.
    """
    if not names:
        raise SourceError(
            f"no {what} files in the folder `{shown(folder)}`: expected names ending in {' or '.join(suffixes)}"
        )
    splits = sorted({word for name in names for word in re.split(r"[^a-z]+", name.lower()) if word in SPLITS})
    if len(splits) > 1:
        raise SourceError(
            f"`{shown(folder)}` contains several splits: {', '.join(splits)}\n"
            f"hint: convert one split at a time, for example '{folder}/{splits[0]}*'"
        )
    refuse_gap(str(folder), names, lambda name: True)
    return names


def refuse_gap(where: str, names: Iterable[str], is_meant: Callable[[str], bool]) -> None:
    """Raise an error if a file of a numbered set ``-00000-of-00012`` that `is_meant` selects is missing."""
    sets: dict[tuple[str, str], dict[int, str]] = {}
    for name in names:
        if found := _OF_A_SET.fullmatch(name):
            sets.setdefault((found[1], found[3]), {})[int(found[2])] = name
    for (before, after), numbers in sets.items():
        found = _OF_A_SET.fullmatch(numbers[min(numbers)])
        assert found is not None
        count, width = int(found[4]), len(found[2])
        # Some sets are numbered from 1.
        first = 1 if 0 not in numbers and count in numbers else 0
        # Try one number more than there are files, so that at least one is missing. Trying all numbers could take
        # forever, because a name may claim billions of files.
        missing = (n for n in range(first, first + min(count, len(numbers) + 1)) if n not in numbers)
        lost = next((name for n in missing if is_meant(name := f"{before}{n:0{width}}{after}")), None)
        if lost is not None:
            raise SourceError(
                f"`{shown(where)}`: `{shown(lost)}` is missing: found only {len(numbers)} of the {count} files of this "
                "set\n"
                "hint: to convert only some of the files, pass a list, or a pattern such as {00000..00003}"
            )


def expand_braces(text: str) -> list[str]:
    """Return every name of a brace pattern.

    >>> expand_braces("train-{08..10}.tar")
    ['train-08.tar', 'train-09.tar', 'train-10.tar']
    >>> expand_braces("{a,b}-{0..1}")
    ['a-0', 'a-1', 'b-0', 'b-1']

    Raises
    ------
    SourceError
        If a brace is not closed, holds neither a range nor a list, or names more than a million files.
    """
    names = [""]
    rest = text
    while rest:
        plain, brace, rest = rest.partition("{")
        if "}" in plain:
            raise SourceError(f"the pattern {text!r} has a closing brace without an opening brace")
        names = [name + plain for name in names]
        if not brace:
            break
        inside, closing, rest = rest.partition("}")
        if not closing:
            raise SourceError(f"the pattern {text!r} has an opening brace without a closing brace")
        if "{" in inside:
            raise SourceError(f"the pattern {text!r} has nested braces, which are not supported")
        choices = _choices(inside, text)
        if len(names) * len(choices) > _MOST_FILES:
            raise SourceError(f"the pattern {text!r} expands to more than {_MOST_FILES} files")
        names = [name + choice for name in names for choice in choices]
    return names


def _choices(inside: str, text: str) -> list[str]:
    numbers = _RANGE.fullmatch(inside)
    if numbers:
        first, last = numbers.groups()
        low, high = int(first), int(last)
        if high < low or high - low >= _MOST_FILES:
            raise SourceError(
                f"each range in the pattern {text!r} must be ascending and have at most {_MOST_FILES} numbers"
            )
        width = len(first) if first.startswith("0") or len(first) == len(last) else 0
        return [str(number).zfill(width) for number in range(low, high + 1)]
    if "," in inside:
        return inside.split(",")
    raise SourceError(
        f"the pattern {text!r} contains {{{inside}}}, which is neither a range such as {{000..012}} nor a list "
        "such as {a,b}"
    )
