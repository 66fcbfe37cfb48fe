"""Reads source files in an object store, named by URLs such as ``s3://bucket/train-{000..012}.tar``."""

from __future__ import annotations

import fnmatch
import io
import os
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from .. import _shardpack
from .._url import is_url, settings
from ._files import Paths, expand_braces, list_files, of_one_split, refuse_gap
from ._source import SourceError, shown

_AHEAD = 64 << 20
"""Number of bytes to read ahead."""
_STEP = 4 << 20


class ObjectFile:
    """An object in a store, read sequentially."""

    def __init__(self, objects: _shardpack.Objects, url: str, key: str) -> None:
        self.objects, self.url, self.key = objects, url, key
        self.name = key.rpartition("/")[2]
        self.failed: OSError | None = None
        self._object: _shardpack.Object | None = None

    def __str__(self) -> str:
        return self.url

    def announce(self) -> None:
        if self._object is None:
            self._object = self.objects.open(self.key)
            self._object.announce(0, min(len(self._object), _STEP))

    def open(self) -> io.BufferedReader:
        found, self._object = self._object or self.objects.open(self.key), None
        return io.BufferedReader(_Raw(self, found), 1 << 20)

    def size(self) -> int:
        self._object = self._object or self.objects.open(self.key)
        return len(self._object)


class _Raw(io.RawIOBase):
    def __init__(self, file: ObjectFile, found: _shardpack.Object) -> None:
        self.file, self.found = file, found
        self.at = self.announced = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self.at, os.SEEK_END: len(self.found)}[whence]
        self.at = max(start + offset, 0)
        return self.at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        self.announced = max(self.announced, self.at)
        while self.announced < min(self.at + _AHEAD, len(self.found)):
            self.found.announce(self.announced, _STEP)
            self.announced += _STEP
        try:
            piece = self.found.read(self.at, len(view))
        except OSError as error:
            # Archive readers report any error as damage, so remember errors of the store in `failed`.
            self.file.failed = self.file.failed or error
            raise
        view[: len(piece)] = piece
        self.at += len(piece)
        return len(piece)


def list_objects(
    src: Paths, suffixes: Collection[str], what: str, storage_options: Mapping[str, Any] | None
) -> tuple[list[Any], Any]:
    """Return the files of `src` (from :func:`list_files`, or objects in stores), and the ``classes.json`` of its
    folder, if there is one.
    """
    many = [src] if isinstance(src, (str, os.PathLike)) else list(src)
    if not any(is_url(part) for part in many):
        if storage_options:
            raise SourceError(f"`storage_options` can be used only with URLs, but the {what} files are local")
        return list(list_files(src if isinstance(src, (str, os.PathLike)) else many, suffixes, what)), None
    stores: dict[str, _shardpack.Objects] = {}
    found: list[Any] = []
    classes = None
    for part in many:
        if not is_url(part):
            found += list_files(part, suffixes, what)
            continue
        folder, _, name = str(part).rpartition("/")
        if name.lower().endswith(tuple(suffixes)):
            store = stores.setdefault(folder, _shardpack.Objects(folder, settings(storage_options)))
            names = expand_braces(name)
            if any(letter in name for letter in "*?["):
                names = [each for each in _list(store, folder) if fnmatch.fnmatchcase(each, name)]
                if not names:
                    raise SourceError(f"{what}: no objects match the pattern {part!r}")
                refuse_gap(str(part), names, partial(fnmatch.fnmatchcase, pat=name))
        else:
            folder = str(part).rstrip("/")
            store = stores.setdefault(folder, _shardpack.Objects(folder, settings(storage_options)))
            inside = [each for each in _list(store, folder) if "/" not in each]
            names = of_one_split(folder, [each for each in inside if each.lower().endswith(tuple(suffixes))], suffixes, what)
            if "classes.json" in inside and len(many) == 1:
                classes = ObjectFile(store, f"{folder}/classes.json", "classes.json")
        found += [ObjectFile(store, f"{folder}/{each}", each) for each in names]
    return found, classes


def _list(store: _shardpack.Objects, folder: str) -> list[str]:
    names = store.list()
    if not names:
        raise SourceError(f"`{shown(folder)}`: no objects with this prefix")
    return names
