"""Finds the files of a format below a folder, at any depth, and determines the keys of their samples."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Union

from ._files import open_inside, open_regular
from ._source import SourceError, option, shown

PathLike = Union[str, "os.PathLike[str]"]


Open = Callable[[Path], BinaryIO]


def find(
    src: Union[PathLike, Iterable[PathLike]], what: str, accepts: Callable[[Path], bool], follow_links: bool
) -> tuple[list[tuple[str, Path]], Open]:
    """Return the key and the path of every file of `src` (a file, a folder or a list), sorted by key, and a function
    that opens the files. The function refuses links that were created after the listing and lead out of the folder.

    A file that is named directly is accepted regardless of `accepts`, and its key is its name. The key of a file below
    a folder is its path relative to the folder. Links to folders are not followed.

    Raises
    ------
    SourceError
        If there is no such file, two files have the same key, or a link to a file leads out of its folder.
    FileNotFoundError
        If a path does not exist.
    """
    found: dict[str, Path] = {}
    roots: dict[Path, Path] = {}
    for text in [src] if isinstance(src, (str, os.PathLike)) else src:
        start = Path(text)
        if not start.exists():
            raise FileNotFoundError(2, "no such file or folder", str(start))
        root = start.resolve()
        for path in _below(start) if start.is_dir() else [start]:
            if path != start and not path.is_file():
                continue
            if path != start and path.is_symlink() and not follow_links and not path.resolve().is_relative_to(root):
                raise SourceError(
                    f"`{shown(path)}` is a link that points outside `{shown(start)}`, to `{shown(path.resolve())}`\n"
                    f"hint: pass {option(follow_links=True)} to follow such links"
                )
            if path != start and not accepts(path):
                continue
            if path == start and not path.is_file():
                raise SourceError(f"`{shown(path)}`: expected a regular file, found a pipe, socket or device")
            key = path.relative_to(start).as_posix() if path != start else path.name
            if key in found:
                raise SourceError(f"{what}: two files have the key {key!r}: `{shown(found[key])}` and `{shown(path)}`")
            found[key] = path
            if path != start and not follow_links:
                roots[path] = root
    if not found:
        raise SourceError(f"`{shown(src)}`: found no {what} files")

    def open_found(path: Path) -> BinaryIO:
        return open_inside(roots[path], path.absolute()) if path in roots else open_regular(path)

    return sorted(found.items()), open_found


def _below(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(parent, name) for name in sorted(names) if not name.startswith("."))
