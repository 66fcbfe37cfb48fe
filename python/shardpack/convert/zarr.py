"""Reads Zarr v3 and v2 with zarr-python. Samples are the rows of arrays, or one group or array each."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Union

import numpy as np

from ._arrays import Column
from ._bounds import EXPANSION, MOST_CHUNK_BYTES, Expansion, check_whole
from ._rows import open_tree
from ._source import Source, SourceError, library, shown

_CLASS_ATTRIBUTES = ("classes", "class_names", "label_names")
_NUMCODECS = (0, 16, 6)
"""Oldest accepted version of numcodecs. Older versions load pickles if an array's metadata request it."""
_LARGE_CHUNK_BYTES = 4 << 20
"""Chunk size above which chunks are requested one by one, because zarr-python would hold several in memory at once."""


def open(
    src: Union[str, os.PathLike[str]],
    *,
    drop: Collection[str] = (),
    group: str = "",
    samples: str = "auto",
    key: str | None = None,
    attributes: bool = False,
    max_sample_bytes: int = 1 << 30,
    max_expansion: int = EXPANSION,
) -> Source:
    """Open a Zarr group or array in a local folder or a .zip.

    Numbers become scalars, or arrays if a sample has several. Strings become text, or JSON if the attribute ``kind`` of
    the array is ``"json"``. A group of arrays named 0, 1, 2 … becomes an array of varying shape. An attribute
    ``classes`` or ``class_names`` of the group contains the class names. Zarr reads missing chunks as fill values, so
    lost chunks go unnoticed.

    These codecs are accepted: blosc, bz2, gzip, lz4, lzma, zlib, zstd; adler32, crc32, crc32c, fletcher32; astype,
    bitround, delta, fixedscaleoffset, packbits, quantize, shuffle; sharding, and text as ``vlen-utf8``. Other codecs
    are refused, because a codec can run code. Arrays of Python objects and links that lead out of the folder are
    refused too.

    Parameters
    ----------
    src
        A folder or a .zip.
    drop
        Arrays to leave out.
    group
        Path of the group of the samples.
    samples
        ``"rows"``: the first axis of each array counts the samples. ``"groups"``: each group (or array) inside
        `group` is a sample, and its name is the key. ``"auto"`` (default): rows if there are only arrays and their
        first axes have the same length, otherwise groups.
    key
        With rows: the string array that holds the keys. Default: ``__key__`` if there is such an array, otherwise
        keys are running numbers.
    attributes
        With groups: attributes of a sample's group, such as its label, also become columns. Default: they are left
        out, with a warning.
    max_sample_bytes
        Largest decompressed size of a sample, counting all its values together. Default 1 GiB. A single chunk may
        decompress to the same size, or to 256 MiB if that is more.
    max_expansion
        Largest number of bytes in memory per stored byte, limited because an unwritten array can claim any number of
        samples. The first GiB of all samples together is free. Each sample and each chunk counts as 10,000 bytes more.
        Default 10,000.
    """
    zarr = library("zarr", "zarr")
    _check_numcodecs(library("numcodecs", "zarr").__version__)
    check_whole("max_sample_bytes", max_sample_bytes)
    path = Path(src)
    if not path.exists():
        raise FileNotFoundError(2, "no such file or folder", str(path))
    where = f"`{shown(path)}`" if not group else f"`{shown(path)}`, group `{shown(group)}`"
    from ._zarr_store import CheckedStore

    store = None
    try:
        store = CheckedStore(path, max(max_sample_bytes, MOST_CHUNK_BYTES))
        node = zarr.open(store, mode="r", path=group or None)
        if isinstance(node, zarr.Array):
            name = node.basename or "array"
            tree: Any = {name: _column(node)}
            samples = "rows"
        else:
            tree = _Group(zarr, node, where)
        expansion = Expansion(where, store.stored, max_expansion)
        classes = _classes(node)
        source = open_tree(where, tree, frozenset(drop), key, samples, classes, max_sample_bytes, expansion, attributes)
    except BaseException as error:
        if store is not None:
            store.close()
        if isinstance(error, (SourceError, MemoryError)) or not isinstance(error, Exception):
            raise
        raise SourceError(f"{where}: cannot open the Zarr group or array: {error}") from error
    source.close = store.close
    return source


def _check_numcodecs(version: str) -> None:
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if found < _NUMCODECS:
        needed = ".".join(map(str, _NUMCODECS))
        raise ImportError(
            f"converting Zarr needs `numcodecs` {needed} or later, found {version}\n"
            f"hint: pip install 'numcodecs>={needed}'",
            name="numcodecs",
        )


class _Group(Mapping[str, Any]):
    """A group as a tree. Members are opened on access."""

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
        except MemoryError:
            raise
        except Exception as error:
            raise SourceError(f"{self._where}: cannot open `{shown(name)}`: {error}") from error
        if isinstance(node, self._zarr.Array):
            return _column(node)
        return _Group(self._zarr, node, f"{self._where}, `{shown(name)}`")

    def attributes(self) -> Mapping[str, Any]:
        return dict(self._group.attrs)


def _column(array: Any) -> Column:
    from ._zarr_codecs import refusal

    kind, dtype = _kind(array.dtype)
    if kind == "text" and array.attrs.get("kind") == "json":
        kind = "json"
    if (why := refusal(array.metadata)) is not None:
        kind = why
    varying = array.dtype.kind in "TO"
    size = 0 if varying else array.dtype.itemsize
    fill = array.fill_value
    # Missing chunks are read as fill values, so count the size of the fill values too.
    filled = len(fill) * math.prod(array.chunks) if varying and isinstance(fill, (str, bytes)) else 0

    def read(index: Any) -> Any:
        try:
            if filled > MOST_CHUNK_BYTES:
                raise ValueError(
                    f"a chunk filled with the array's fill value would take {filled} bytes, but the limit is "
                    f"{MOST_CHUNK_BYTES}\nhint: rewrite the array with smaller chunks or a shorter fill value"
                )
            if array.ndim and math.prod(array.chunks) * size > _LARGE_CHUNK_BYTES:
                return _by_chunks(array, index)
            return array[index]
        except (OSError, ValueError):
            raise
        except MemoryError:
            raise
        except Exception as error:
            # Codecs raise exceptions of many types.
            raise ValueError(str(error) or type(error).__name__) from error

    return Column(tuple(array.shape), kind, dtype, read, size, chunk=tuple(array.chunks), by_chunk=varying)


def _by_chunks(array: Any, index: Any) -> np.ndarray[Any, Any]:
    """Return ``array[index]``, reading one chunk at a time."""
    rows = range(array.shape[0]) if index is ... else range(*index.indices(array.shape[0]))
    sides = [(rows.start, rows.stop), *((0, side) for side in array.shape[1:])]
    out = np.empty([end - begin for begin, end in sides], array.dtype)
    corners = [range(begin - begin % part, end, part) for (begin, end), part in zip(sides, array.chunks, strict=True)]
    for corner in itertools.product(*corners):
        part = [
            slice(max(begin, at), min(end, at + length))
            for (begin, end), at, length in zip(sides, corner, array.chunks, strict=True)
        ]
        out[tuple(slice(one.start - begin, one.stop - begin) for one, (begin, _) in zip(part, sides, strict=True))] = array[tuple(part)]
    return out


def _kind(dtype: Any) -> tuple[str, str]:
    if dtype.kind in "TUOS":
        return "text", ""
    if dtype.kind in "biuf":
        return "numbers", dtype.newbyteorder("=").name
    return f"unsupported element type {dtype}", ""


def _classes(node: Any) -> list[str] | None:
    for name in _CLASS_ATTRIBUTES:
        values = node.attrs.get(name)
        if isinstance(values, list) and all(isinstance(value, str) for value in values):
            return values
    return None
