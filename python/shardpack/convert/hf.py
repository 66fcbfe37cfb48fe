"""Reads Parquet datasets on the Hugging Face Hub with huggingface_hub and pyarrow. No whole file is downloaded."""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Collection
from typing import Any, NamedTuple

from ._files import refuse_gap
from ._source import Source, SourceError, library, option, shown
from .parquet import Table, of_tables

_MOST_FILES = 100_000
_NAME = re.compile(r"(?:hf://datasets/|datasets/)?([\w.-]+/[\w.-]+)(?:@([^/\s]+))?(?:/(.*))?")
_FILE = re.compile(r"(.+?)(?:-\d+-of-\d+(?:-[0-9a-f]+)?)?\.parquet")


def open(
    src: str,
    *,
    drop: Collection[str] = (),
    split: str | None = None,
    config: str | None = None,
    key: str | None = None,
    masks: Collection[str] = (),
) -> Source:
    """Open a dataset in Parquet on the Hugging Face Hub: ``"OWNER/NAME"``.

    Columns are read as from local Parquet files: pictures, numbers, text and lists. The revision is resolved to a
    commit at the start, and all requests read that commit. Only the columns that are converted are read, one row group
    at a time, and nothing is stored on the local disk. For private and gated datasets, the token comes from
    ``HF_TOKEN`` or from ``hf auth login``. ``HF_ENDPOINT`` names another hub.

    Parameters
    ----------
    src
        ``"OWNER/NAME"``, or with a revision (branch, tag or commit) and a folder or file:
        ``"OWNER/NAME@REVISION/PATH"``. The prefix ``hf://datasets/`` is optional. Write ``/`` in a revision as ``%2F``.
    drop
        Columns to leave out.
    split
        The split to convert, such as ``"train"``, if the dataset has several. The name of a file begins with its split
        (``train-00000-of-00004.parquet``), or its folder has the name of the split (``train/0000.parquet``).
    config
        The folder of files to convert, if the dataset has several (often called subsets).
    key
        A text column whose values become the keys of the samples, or the path of a picture: ``"image.path"``.
        Default: keys are running numbers.
    masks
        Picture columns that hold class numbers: ``masks=["seg"]``, as for local Parquet files.
    """
    library("pyarrow", "parquet")
    hub = library("huggingface_hub", "hf")
    matched = _NAME.fullmatch(src) if isinstance(src, str) else None
    if matched is None:
        raise SourceError(f"hf: expected OWNER/NAME, or OWNER/NAME@REVISION/PATH, found: {src!r}")
    name, revision, path = matched[1], (matched[2] or "main").replace("%2F", "/"), (matched[3] or "").strip("/")
    server = {"endpoint": os.environ.get("HF_ENDPOINT") or None, "token": os.environ.get("HF_TOKEN") or None}
    commit, listed = _list(hub, hub.HfApi(**server), name, revision)
    where = f"hf://datasets/{name}@{commit}"
    files = _choose([file for file in listed if _is_below(file.path, path)], where, split, config)
    system = hub.HfFileSystem(**server, skip_instance_cache=True)
    tables = []
    for file in files:
        stream = _Stream(system, f"datasets/{name}@{commit}/{file.path}", file.size)
        tables.append(Table(f"{where}/{file.path}", stream, file.size))
    return of_tables(tables, drop, key, masks)


class _File(NamedTuple):

    path: str
    size: int
    """Size in bytes."""


def _list(hub: Any, api: Any, name: str, revision: str) -> tuple[str, list[_File]]:
    """Return the commit of a revision, and its Parquet files."""
    try:
        commit = api.dataset_info(name, revision=revision).sha
        if not isinstance(commit, str) or not re.fullmatch("[0-9a-f]{40}", commit):
            raise SourceError(
                f"hf: cannot resolve the revision `{shown(revision)}` of `{shown(name)}`: expected a commit hash "
                f"from the hub, found {commit!r}"
            )
        files = []
        for entry in api.list_repo_tree(name, repo_type="dataset", revision=commit, recursive=True):
            path, size = str(entry.path), getattr(entry, "size", None)
            if isinstance(size, int) and size >= 0 and path.endswith(".parquet") and ".." not in path.split("/"):
                files.append(_File(path, size))
            if len(files) > _MOST_FILES:
                raise SourceError(f"hf: `{shown(name)}` has more than {_MOST_FILES} Parquet files")
    except (hub.errors.HfHubHTTPError, hub.errors.HFValidationError) as error:
        raise SourceError(
            f"hf: cannot list the files of the dataset `{shown(name)}` at `{shown(revision)}`: {error}\n"
            "hint: check the name, and set HF_TOKEN for a private or gated dataset"
        ) from error
    return commit, sorted(files)


def _is_below(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def _choose(files: list[_File], where: str, split: str | None, config: str | None) -> list[_File]:
    """Return the files of one split in one folder, in order."""
    if not files:
        raise SourceError(f"`{shown(where)}`: found no Parquet files")
    groups: dict[tuple[str, str], list[_File]] = {}
    for file in files:
        groups.setdefault(_group(file.path), []).append(file)
    for name, at, chosen in (("config", 0, config), ("split", 1, split)):
        known = sorted({group[at] for group in groups})
        if chosen is None and len(known) > 1:
            some = ", ".join(map(repr, known[:20])) + (", …" if len(known) > 20 else "")
            raise SourceError(
                f"`{shown(where)}` has several {name}s: {some}\nhint: pass one of them, such as {option(**{name: known[-1]})}"
            )
        if chosen is not None and chosen not in known:
            some = ", ".join(map(repr, known[:20])) + (", …" if len(known) > 20 else "")
            raise SourceError(f"`{shown(where)}` has no {name} {chosen!r}; its {name}s are {some}")
        groups = {group: found for group, found in groups.items() if chosen in (None, group[at])}
    (found,) = groups.values()
    refuse_gap(where, (file.path for file in found), lambda name: True)
    return found


def _group(path: str) -> tuple[str, str]:
    """Return the folder and the split of a file."""
    folder, _, name = path.rpartition("/")
    stem = _FILE.fullmatch(name)
    split = name if stem is None else stem[1]
    if not split.isdecimal():
        return folder, split
    # The hub's own conversions are called CONFIG/SPLIT/0000.parquet.
    folder, _, split = folder.rpartition("/")
    return folder, split


class _Stream(io.RawIOBase):
    """A file on the hub as a stream. Every read requests only the bytes that it returns.

    A failed request raises an `OSError` with an error number. It is not damage, so ``on_bad_input`` does not skip it.
    """

    def __init__(self, system: Any, path: str, size: int) -> None:
        self._path = path
        self._size = size
        self._at = 0
        self._file = system.open(path, "rb", cache_type="none", size=size)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._size, self._at + size)
        if end <= self._at:
            return b""
        try:
            data = bytes(self._file._fetch_range(self._at, end))
        except Exception as error:
            why = f"the hub did not return bytes {self._at} to {end}: {error}"
            raise OSError(errno.EIO, why, self._path) from error
        if len(data) != end - self._at:
            raise OSError(errno.EIO, f"the hub returned {len(data)} bytes instead of {end - self._at}", self._path)
        self._at = end
        return data
