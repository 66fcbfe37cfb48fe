"""Zarr v3 (and v2), read with zarr-python: arrays whose first axis counts the samples, or one group or array for each
sample."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any, Union

from ._rows import Column, open_tree
from ._source import Source, SourceError, library

_CLASS_ATTRIBUTES = ("classes", "class_names", "label_names")


def open(
    src: Union[str, os.PathLike[str]],
    *,
    drop: Collection[str] = (),
    group: str = "",
    samples: str = "auto",
    key: str | None = None,
    attributes: bool = False,
    max_sample_bytes: int = 1 << 30,
) -> Source:
    """Open a Zarr group or array in a local folder or a .zip.

    Numbers of one value for each sample are scalars, others arrays; strings are text (JSON, if the array's attribute
    ``kind`` is ``"json"``). A group of arrays named 0, 1, 2 … is an array of varying shape. An attribute ``classes`` or
    ``class_names`` of the group names the classes. Zarr reads a missing chunk as fill values. It cannot tell a lost
    chunk from one that was never written, and neither can we.

    Parameters
    ----------
    src
        A folder or a .zip.
    drop
        Arrays to leave out.
    group
        Path of the group that holds the samples.
    samples
        ``"rows"``: arrays whose first axis counts the samples. ``"groups"``: each group (or array) inside `group` is a
        sample, its name the key. ``"auto"`` (default): rows if there are only arrays and their first axes are equally
        long, else groups.
    key
        With rows: the array of strings that holds the keys. Default: ``__key__`` if there is one, else the running
        number.
    attributes
        With groups: attributes of a sample's group, such as its label, become columns of the sample, too. Without this
        they are not taken, and a warning says so.
    max_sample_bytes
        Largest size of the numbers of one sample together, after decompression. Default 1 GiB.
    """
    zarr = library("zarr", "zarr")
    path = os.fspath(src)
    if not os.path.exists(path):
        raise FileNotFoundError(2, "no such file or folder", path)
    where = f"`{path}`" if not group else f"`{path}`, group `{group}`"
    try:
        store = zarr.storage.ZipStore(path, mode="r") if os.path.isfile(path) else path
        node = zarr.open(store, mode="r", path=group or None)
        if isinstance(node, zarr.Array):
            name = node.basename or "array"
            tree: Any = {name: _column(node)}
            samples = "rows"
        else:
            tree = _Group(zarr, node, where)
        return open_tree(where, tree, frozenset(drop), key, samples, _classes(node), max_sample_bytes, attributes)
    except SourceError:
        raise
    except Exception as error:
        raise SourceError(f"{where}: expected a Zarr group or array, found none, or damage: {error}") from error


class _Group(Mapping[str, Any]):
    """A group as a tree whose members are opened when they are looked at."""

    def __init__(self, zarr: Any, group: Any, where: str) -> None:
        self._zarr = zarr
        self._group = group
        self._where = where
        self._names = sorted(group.keys())

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Any:
        return iter(self._names)

    def __getitem__(self, name: str) -> Any:
        try:
            node = self._group[name]
        except Exception as error:
            raise SourceError(f"{self._where}: expected a readable member `{name}`, found damage: {error}") from error
        if isinstance(node, self._zarr.Array):
            return _column(node)
        return _Group(self._zarr, node, f"{self._where}, `{name}`")

    def attributes(self) -> Mapping[str, Any]:
        """What is said of the group itself."""
        return dict(self._group.attrs)


def _column(array: Any) -> Column:
    kind, dtype = _kind(array.dtype)
    if kind == "text" and array.attrs.get("kind") == "json":
        kind = "json"

    def read(index: Any) -> Any:
        try:
            return array[index]
        except (OSError, ValueError):
            raise
        except Exception as error:
            # Codecs have exceptions of their own.
            raise ValueError(str(error) or type(error).__name__) from error

    return Column(tuple(array.shape), kind, dtype, read)


def _kind(dtype: Any) -> tuple[str, str]:
    if dtype.kind in "TUOS":
        return "text", ""
    if dtype.kind in "biuf":
        return "numbers", dtype.newbyteorder("=").name
    return f"elements of type {dtype}", ""


def _classes(node: Any) -> list[str] | None:
    for name in _CLASS_ATTRIBUTES:
        values = node.attrs.get(name)
        if isinstance(values, list) and all(isinstance(value, str) for value in values):
            return values
    return None
