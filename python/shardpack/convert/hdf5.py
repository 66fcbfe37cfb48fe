"""Reads HDF5 files with h5py. Samples are the rows of datasets, or the groups inside a group."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any, Union

import numpy as np

from ._arrays import Column
from ._bounds import EXPANSION, MOST_CHUNK_BYTES, Expansion, check_whole, on_disk
from ._hdf5_filters import PACKERS, check_chunks, refused_filters
from ._masks import as_masks
from ._rows import open_tree
from ._source import Source, SourceError, library, shown
from ._values import shorten

_CLASS_ATTRIBUTES = ("classes", "class_names", "label_names")
_MOST_LINKS = 16
"""Maximum length of a chain of soft links."""
_MOST_PARTS = 1000
"""Maximum number of groups in the path of a link."""


def open(
    src: Union[str, os.PathLike[str]],
    *,
    drop: Collection[str] = (),
    group: str = "/",
    samples: str = "auto",
    key: str | None = None,
    attributes: bool = False,
    masks: Collection[str] = (),
    max_sample_bytes: int = 1 << 30,
    max_expansion: int = EXPANSION,
) -> Source:
    """Open an HDF5 file.

    Numbers become scalars, or arrays if a sample has several. Strings become text. Byte strings of varying length
    (`h5py.vlen_dtype("uint8")`, opaque types) become pictures if they begin like a picture, otherwise bytes. A group of
    datasets named 0, 1, 2 … becomes an array of varying shape. An attribute ``classes`` or ``class_names`` of the file
    or the group contains the class names. Links to other files, data in other files, and virtual datasets are refused,
    even if a link in this file leads to them. Datasets may be compressed once, by gzip or lzf, and use shuffle,
    fletcher32, nbit or scaleoffset. Other filters are refused.

    Parameters
    ----------
    src
        A file.
    drop
        Datasets to leave out.
    group
        The group of the samples.
    samples
        ``"rows"``: the first axis of each dataset counts the samples. ``"groups"``: each group (or dataset) inside
        `group` is a sample, and its name is the key. ``"auto"`` (default): rows if there are only datasets and their
        first axes have the same length, otherwise groups.
    key
        With rows: the string dataset that holds the keys. Default: ``__key__`` if there is such a dataset, otherwise
        keys are running numbers.
    attributes
        With groups: attributes of a sample's group, such as its label, also become columns. Default: they are left
        out, with a warning.
    masks
        Picture datasets that hold class numbers: ``masks=["seg"]``. They become arrays of these numbers, as with
        ``shardpack pack --masks``. It is an error if a mask is in colour, or if its size differs from the size of
        the upright picture.
    max_sample_bytes
        Largest decompressed size of a sample, counting all its values together. Default 1 GiB. A single chunk may
        decompress to the same size, or to 256 MiB if that is more.
    max_expansion
        Largest number of bytes in memory per byte of the file, limited because an unwritten dataset can claim any
        number of samples. The first GiB of all samples together is free. Each sample and each chunk counts as 10,000
        bytes more. Default 10,000.
    """
    h5py = library("h5py", "hdf5")
    check_whole("max_sample_bytes", max_sample_bytes)
    path = os.fspath(src)
    if not os.path.isfile(path):
        raise FileNotFoundError(2, "no such file", path)
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise SourceError(f"`{shown(path)}`: cannot open the HDF5 file: {error}") from error
    try:
        where = f"`{shown(path)}`" if group == "/" else f"`{shown(path)}`, group `{shown(group)}`"
        opened = _Opened(h5py, file, on_disk(os.stat(path)), max(max_sample_bytes, MOST_CHUNK_BYTES))
        root = opened.find(file["/"], group)
        if not isinstance(root, h5py.Group):
            raise SourceError(f"`{shown(path)}` has no group {group!r}")
        tree = _Group(opened, root, where)
        classes = _classes(file, root)
        expansion = Expansion(where, lambda most: min(most, opened.file_bytes), max_expansion)
        source = open_tree(where, tree, frozenset(drop), key, samples, classes, max_sample_bytes, expansion, attributes)
        source.masks = as_masks(masks)
    except BaseException as error:
        file.close()
        if isinstance(error, (SourceError, MemoryError)) or not isinstance(error, Exception):
            raise
        raise SourceError(f"`{shown(path)}`: cannot read the HDF5 file: {error}") from error
    source.close = file.close
    return source


class _Opened:
    """An open file in which links to other files are refused."""

    def __init__(self, h5py: Any, file: Any, file_bytes: int, most_chunk: int) -> None:
        self.h5py = h5py
        self.file = file
        self.file_bytes = file_bytes
        self.most_chunk = most_chunk
        self._checked: set[tuple[int, int, int]] = set()
        self._number = h5py.h5o.get_info(file.id).fileno

    def find(self, group: Any, path: str, links: int = _MOST_LINKS) -> Any:
        """Return the object at a path below a group, or None. Does not follow external links; HDF5 itself would open
        any file that they name.

        Raises
        ------
        SourceError
            If a link leads to another file, or if links form a loop.
        """
        node = self.file["/"] if path.startswith("/") else group
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if len(parts) > _MOST_PARTS:
            name = shown(shorten(path))
            raise SourceError(f"the path `{name}` has {len(parts)} components, but the limit is {_MOST_PARTS}")
        for part in parts:
            if not isinstance(node, self.h5py.Group):
                return None
            link = node.get(part, getlink=True)
            if link is None:
                return None
            if isinstance(link, self.h5py.SoftLink):
                if links == 0:
                    raise SourceError(
                        f"the link `{shown(part)}` is part of a loop, or of a chain of more than {_MOST_LINKS} links"
                    )
                node = self.find(node, link.path, links - 1)
            elif isinstance(link, self.h5py.HardLink):
                node = node[part]
            else:
                other = f", `{shown(link.filename)}`" if isinstance(link, self.h5py.ExternalLink) else ""
                raise SourceError(f"`{shown(part)}` is a link to another file{other}; such links are not followed")
        # Check the file again, because a hard link may also lead to another file.
        if node is not None and self.h5py.h5o.get_info(node.id).fileno != self._number:
            raise SourceError(f"`{shown(path)}` is stored in another file; shardpack reads only the given file")
        return node

    def column(self, dataset: Any) -> Column:
        """Return a dataset as a column. The column is refused if its data are in other files or have no size limit."""
        h5py = self.h5py
        layout = dataset.id.get_create_plist()
        # Check this first, because HDF5 reads even the shape of a virtual dataset from other files.
        if layout.get_layout() == h5py.h5d.VIRTUAL:
            return Column((), "a virtual dataset, whose data are in other datasets or files", "", dataset.__getitem__)
        if layout.get_external_count():
            file = os.fsdecode(layout.get_external(0)[0])
            return Column((), f"a dataset whose data are in another file: {file!r}", "", dataset.__getitem__)
        kind, dtype = _kind(h5py, dataset)
        shape, chunk = dataset.shape or (), dataset.chunks
        stored = dataset.id.get_type().get_size()
        filters = [layout.get_filter(n) for n in range(layout.get_nfilters())]
        chunk_bytes = int(np.prod(chunk or (), dtype=object)) * stored
        packed = bool(filters)
        if chunk is not None and packed and chunk_bytes > self.most_chunk:
            kind = f"a chunk takes {chunk_bytes} bytes, but the limit is {self.most_chunk} (raise max_sample_bytes)"
        of_any_size = dataset.id.get_type().detect_class(h5py.h5t.VLEN) or kind == "text" and dataset.dtype.kind == "O"
        if (why := refused_filters(filters, chunk_bytes)) is not None:
            kind = why
        packer = None if chunk is None else next((n for n, one in enumerate(filters) if one[0] in PACKERS), None)
        plain = dataset.asstr().__getitem__ if kind == "text" else dataset.__getitem__

        def read(index: Any) -> Any:
            if packer is not None:
                check_chunks(dataset, index, packer, filters[packer][0], chunk_bytes, self._checked)
            return plain(index)

        length = 0 if of_any_size else dataset.dtype.itemsize
        return Column(shape, kind, dtype, read, length, max(1, self.file_bytes), chunk)


class _Group(Mapping[str, Any]):
    """A group as a tree. Members are opened on access, because a file may have a million groups."""

    def __init__(self, opened: _Opened, group: Any, where: str) -> None:
        self._opened = opened
        self._group = group
        self._where = where

    def __len__(self) -> int:
        return len(self._group)

    def __iter__(self) -> Any:
        return iter(self._group)

    def __getitem__(self, name: str) -> Any:
        h5py = self._opened.h5py
        try:
            node = self._opened.find(self._group, name)
        except SourceError as error:
            raise SourceError(f"{self._where}: {error}") from None
        except MemoryError:
            raise
        except Exception as error:
            raise SourceError(
                f"{self._where}: cannot open `{shown(name)}`; the file may be damaged: {error}"
            ) from error
        if node is None:
            raise SourceError(f"{self._where}: `{shown(name)}` is a broken link, or the file is damaged")
        if isinstance(node, h5py.Group):
            return _Group(self._opened, node, f"{self._where}, `{shown(name)}`")
        if not isinstance(node, h5py.Dataset):
            raise SourceError(
                f"{self._where}: `{shown(name)}` is a named datatype, but only groups and datasets can be converted"
            )
        return self._opened.column(node)

    def attributes(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._group.attrs
        return found


def _kind(h5py: Any, dataset: Any) -> tuple[str, str]:
    dtype = dataset.dtype
    if dataset.shape is None:
        return "a dataset without data", ""
    if h5py.check_string_dtype(dtype) is not None:
        return "text", ""
    inner = h5py.check_vlen_dtype(dtype)
    if inner is not None:
        return ("bytes", "") if np.dtype(inner) == np.uint8 else (f"sequences of {inner} that vary in length", "")
    if dtype.kind == "V" and dtype.names is None and dtype.subdtype is None:
        return "bytes", ""
    if dtype.kind in "biuf":
        return "numbers", dtype.newbyteorder("=").name
    return f"unsupported element type {dtype}", ""


def _classes(*holders: Any) -> list[str] | None:
    for holder in holders:
        for name in _CLASS_ATTRIBUTES:
            if name in holder.attrs:
                values = np.asarray(holder.attrs[name]).ravel().tolist()
                return [value.decode("utf-8") if isinstance(value, bytes) else str(value) for value in values]
    return None
