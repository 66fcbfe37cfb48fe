"""A store for zarr-python that checks metadata before they are parsed, and refuses links that lead out of the folder.
"""

from __future__ import annotations

import os
import threading
import zipfile
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

from zarr.abc.store import OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest

from ._bounds import on_disk
from ._files import open_inside
from ._source import SourceError
from ._zarr_codecs import checked

_METADATA = ("zarr.json", ".zarray", ".zgroup")
_ATTRIBUTES = ".zattrs"
_CONSOLIDATED = ".zmetadata"
"""File of consolidated metadata. It is not read, because each document is checked under its own name."""
_MOST_METADATA = 64 << 20
"""Maximum size of a metadata document in bytes."""


class CheckedStore(Store):
    supports_writes = False
    supports_deletes = False
    supports_listing = True

    def __init__(self, path: Path, most_chunk: int) -> None:
        super().__init__(read_only=True)
        self._path = path
        self._root = path.resolve()
        self._most_chunk = most_chunk
        self._zip = zipfile.ZipFile(path) if path.is_file() else None
        self._lock = threading.Lock()
        self._sizes = self._walk()
        self._stored = 0
        self._is_open = True

    def close(self) -> None:
        super().close()
        if self._zip is not None:
            self._zip.close()

    def stored(self, most: int) -> int:
        """Return the number of bytes that all files take on disk. Each file counts once, and counting stops at `most`.
        """
        while self._stored < most and (size := next(self._sizes, None)) is not None:
            self._stored += size
        return min(most, self._stored)

    def _walk(self) -> Iterator[int]:
        if self._zip is not None:
            yield on_disk(os.stat(self._path))
            return
        for folder, _, names in os.walk(self._path):
            for name in names:
                yield on_disk(os.lstat(os.path.join(folder, name)))

    def _read(self, key: str, range: Any = None) -> bytes | None:
        if key.rpartition("/")[2] == _CONSOLIDATED:
            return None
        if self._zip is None:
            try:
                with open_inside(self._root, key) as file:
                    return self._part(file, os.fstat(file.fileno()).st_size, key, range)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None
        with self._lock:
            try:
                info = self._zip.getinfo(key)
            except KeyError:
                return None
            try:
                # Deflate can expand a few bytes to any size.
                if info.compress_type != zipfile.ZIP_STORED and info.file_size > self._most_chunk:
                    raise ValueError(
                        f"`{self._path / key}` unpacks to {info.file_size} bytes, but the limit is {self._most_chunk}\n"
                        "hint: raise max_sample_bytes"
                    )
                with self._zip.open(info) as member:
                    return self._part(member, info.file_size, key, range)
            except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
                raise ValueError(f"`{self._path / key}`: this member of the .zip is damaged: {error}") from error

    def _part(self, file: Any, size: int, key: str, range: Any) -> bytes:
        begin, end = 0, size
        if isinstance(range, RangeByteRequest):
            begin, end = range.start, min(size, range.end)
        elif isinstance(range, OffsetByteRequest):
            begin = range.offset
        elif isinstance(range, SuffixByteRequest):
            begin = max(0, size - range.suffix)
        name = key.rpartition("/")[2]
        if name in (*_METADATA, _ATTRIBUTES) and size > _MOST_METADATA:
            raise SourceError(f"`{self._path / key}` has {size} bytes, but the limit for metadata is {_MOST_METADATA}")
        if begin:
            file.seek(begin)
        data: bytes = file.read(max(0, end - begin))
        if name not in _METADATA:
            return data
        try:
            return checked(name, data, self._most_chunk)
        except SourceError as error:
            raise SourceError(f"`{self._path / key}`: {error}") from None

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        data = self._read(key, byte_range)
        if prototype is None:
            from zarr.core.buffer import default_buffer_prototype

            prototype = default_buffer_prototype()
        return None if data is None else prototype.buffer.from_bytes(data)

    async def get_partial_values(self, prototype: Any, key_ranges: Iterable[tuple[str, Any]]) -> list[Any]:
        return [await self.get(key, prototype, range) for key, range in key_ranges]

    async def exists(self, key: str) -> bool:
        if key.rpartition("/")[2] == _CONSOLIDATED:
            return False
        if self._zip is not None:
            return key in self._zip.NameToInfo
        return (self._path / key).is_file()

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        prefix = prefix.strip("/")
        if self._zip is not None:
            begin = f"{prefix}/" if prefix else ""
            names = {name[len(begin) :].partition("/")[0] for name in self._zip.namelist() if name.startswith(begin)}
        else:
            try:
                names = set(os.listdir(self._path / prefix))
            except (FileNotFoundError, NotADirectoryError):
                names = set()
        for name in sorted(names - {""}):
            yield name

    async def list(self) -> AsyncIterator[str]:
        async for name in self.list_prefix(""):
            yield name

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        if self._zip is not None:
            for name in self._zip.namelist():
                if name.startswith(prefix):
                    yield name
            return
        for folder, _, names in os.walk(self._path / prefix):
            for name in names:
                yield (Path(folder) / name).relative_to(self._path).as_posix()

    async def set(self, key: str, value: Any) -> None:
        raise NotImplementedError

    async def delete(self, key: str) -> None:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CheckedStore) and self._path == other._path

    def __hash__(self) -> int:
        return hash(self._path)
