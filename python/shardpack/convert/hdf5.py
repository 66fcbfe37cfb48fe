"""HDF5, read with h5py: datasets whose first axis counts the samples, or one group for each sample."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any, Union

import numpy as np

from ._masks import as_masks
from ._rows import Column, open_tree
from ._source import Source, SourceError, library

_CLASS_ATTRIBUTES = ("classes", "class_names", "label_names")


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
) -> Source:
    """Open an HDF5 file.

    Numbers of one value for each sample are scalars, others arrays; strings are text; byte strings of varying length
    (`h5py.vlen_dtype("uint8")`, opaque types) are pictures if they begin as such, else bytes. A group of datasets named
    0, 1, 2 … is an array of varying shape. An attribute ``classes`` or ``class_names`` of the file or the group names
    the classes. Links to other files, and data in other files, are refused.

    Parameters
    ----------
    src
        A file.
    drop
        Datasets to leave out.
    group
        The group that holds the samples.
    samples
        ``"rows"``: datasets whose first axis counts the samples. ``"groups"``: each group (or dataset) inside `group`
        is a sample, its name the key. ``"auto"`` (default): rows if there are only datasets and their first axes are
        equally long, else groups.
    key
        With rows: the dataset of strings that holds the keys. Default: ``__key__`` if there is one, else the running
        number.
    attributes
        With groups: attributes of a sample's group, such as its label, become columns of the sample, too. Without this
        they are not taken, and a warning says so.
    masks
        Datasets of pictures that hold class numbers: ``masks=["seg"]``. They become arrays of these numbers, as of
        ``shardpack pack --masks``. A picture of colours is no mask, and an error. So is one of another size
        than its upright picture.
    max_sample_bytes
        Largest size of the numbers of one sample together, after decompression. Default 1 GiB.
    """
    h5py = library("h5py", "hdf5")
    path = os.fspath(src)
    if not os.path.isfile(path):
        raise FileNotFoundError(2, "no such file", path)
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise SourceError(f"`{path}`: expected an HDF5 file: {error}") from error
    try:
        if group not in file or not isinstance(file[group], h5py.Group):
            raise SourceError(f"`{path}`: expected a group, found none of that name: {group!r}")
        where = f"`{path}`" if group == "/" else f"`{path}`, group `{group}`"
        tree = _Group(h5py, file[group], where)
        classes = _classes(file, file[group])
        source = open_tree(where, tree, frozenset(drop), key, samples, classes, max_sample_bytes, attributes)
        source.masks = as_masks(masks)
    except BaseException as error:
        file.close()
        if isinstance(error, SourceError) or not isinstance(error, Exception):
            raise
        raise SourceError(f"`{path}`: expected a whole HDF5 file, found damage: {error}") from error
    source.close = file.close
    return source


class _Group(Mapping[str, Any]):
    """A group as a tree whose members are opened when they are looked at: a file may hold a million groups."""

    def __init__(self, h5py: Any, group: Any, where: str) -> None:
        self._h5py = h5py
        self._group = group
        self._where = where

    def __len__(self) -> int:
        return len(self._group)

    def __iter__(self) -> Any:
        return iter(self._group)

    def __getitem__(self, name: str) -> Any:
        link = self._group.get(name, getlink=True)
        if isinstance(link, self._h5py.ExternalLink):
            raise SourceError(
                f"{self._where}: expected data in this file, found a link to another: `{name}` → `{link.filename}`"
            )
        try:
            node = self._group[name]
        except Exception as error:
            raise SourceError(
                f"{self._where}: expected a readable member `{name}`, found damage or a dead link: {error}"
            ) from error
        if isinstance(node, self._h5py.Group):
            return _Group(self._h5py, node, f"{self._where}, `{name}`")
        if not isinstance(node, self._h5py.Dataset):
            raise SourceError(f"{self._where}: expected a group or a dataset, found a named type: `{name}`")
        if node.external:
            raise SourceError(
                f"{self._where}: expected data in this file, found data in others: `{name}` → `{node.external[0][0]}`"
            )
        return _column(self._h5py, node)

    def attributes(self) -> Mapping[str, Any]:
        """What is said of the group itself."""
        found: Mapping[str, Any] = self._group.attrs
        return found


def _column(h5py: Any, dataset: Any) -> Column:
    kind, dtype = _kind(h5py, dataset)
    read = dataset.asstr().__getitem__ if kind == "text" else dataset.__getitem__
    return Column(dataset.shape or (), kind, dtype, read)


def _kind(h5py: Any, dataset: Any) -> tuple[str, str]:
    dtype = dataset.dtype
    if dataset.shape is None:
        return "a dataset without data", ""
    if h5py.check_string_dtype(dtype) is not None:
        return "text", ""
    inner = h5py.check_vlen_dtype(dtype)
    if inner is not None:
        return ("bytes", "") if np.dtype(inner) == np.uint8 else (f"sequences of {inner}, of varying length", "")
    if dtype.kind == "V" and dtype.names is None and dtype.subdtype is None:
        return "bytes", ""
    if dtype.kind in "biuf":
        return "numbers", dtype.newbyteorder("=").name
    return f"elements of type {dtype}", ""


def _classes(*holders: Any) -> list[str] | None:
    for holder in holders:
        for name in _CLASS_ATTRIBUTES:
            if name in holder.attrs:
                values = np.asarray(holder.attrs[name]).ravel().tolist()
                return [value.decode("utf-8") if isinstance(value, bytes) else str(value) for value in values]
    return None
