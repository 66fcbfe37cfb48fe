"""Reads the arrays in a file. Arrays whose elements vary in size, such as strings, are read in parts, up to a limit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._values import DTYPES

_MOST_BLOCK_BYTES = 256 << 20
"""Maximum size in bytes of a block of elements that vary in size. Each element counts with its maximum size."""
USUAL_BYTES = 1 << 16
"""Assumed size in bytes of an element of varying size, if the file gives no maximum."""
_REFERENCE_BYTES = 64
"""Memory in bytes that even an empty element of varying size takes."""


@dataclass(frozen=True)
class Column:
    shape: tuple[int, ...]
    kind: str
    """``numbers``, ``text``, ``bytes`` (each element is a byte string), ``json``, ``ragged`` (each element is an
    array), or, if the array is refused, the reason.
    """
    dtype: str
    """For ``numbers``: NumPy name of the element type."""
    read: Callable[[Any], Any]
    """Reads the values at an index (a slice of the first axis, or of each axis, or ``...``)."""
    element_bytes: int = 0
    """Bytes per element; 0 if they vary."""
    most_element_bytes: int = USUAL_BYTES
    """Maximum size in bytes of an element, if the sizes vary."""
    chunk: tuple[int, ...] | None = None
    """Shape of the chunks. A chunk can only be read whole. None if any part can be read."""
    by_chunk: bool = False
    """True if the size limit applies to the varying elements of a chunk together. Otherwise `most_element_bytes` limits
    each element.
    """

    @property
    def refused(self) -> str | None:
        """The reason why the array is refused, or None."""
        if self.kind not in ("numbers", "text", "json", "bytes", "ragged"):
            return self.kind
        if self.kind == "numbers" and self.dtype not in DTYPES:
            return f"unsupported element type {self.dtype}"
        return None

    def bytes_of(self, axes: int) -> int:
        """Return the size in bytes of the values along all axes except the first `axes`. For varying elements, this is
        a minimum.
        """
        return math.prod(self.shape[axes:]) * (self.element_bytes or _REFERENCE_BYTES)

    def chunks(self) -> int:
        if self.chunk is None:
            return 0
        return math.prod(-(-side // max(1, part)) for side, part in zip(self.shape, self.chunk, strict=True))


Tree = Mapping[str, Any]
"""A mapping from name to `Column` or tree."""


class Varying:
    """Reads the rows of a block with elements of varying size. Only a few elements are in memory at a time, because
    each may be large.
    """

    def __init__(self, column: Column, begin: int, end: int, max_bytes: int) -> None:
        self._column = column
        self._begin, self._end = begin, end
        self._max_bytes = max_bytes
        if column.by_chunk and column.chunk:
            self._at_once = max(1, column.chunk[0])
        else:
            self._at_once = max(1, _MOST_BLOCK_BYTES // max(1, column.most_element_bytes * math.prod(column.shape[1:])))
        self._first = self._last = begin
        self._values: Any = ()

    def __getitem__(self, number: int) -> Any:
        row = self._begin + number
        if not self._first <= row < self._last:
            # End at a chunk border, so that later reads take whole chunks.
            last = min(row + self._at_once - row % self._at_once, self._end)
            try:
                self._values = self._read(row, last)
            except MemoryError:
                raise
            except Exception:
                if last == row + 1:
                    raise
                # Some of these rows may be readable, so read row by row from now on.
                self._at_once, last = 1, row + 1
                self._values = self._read(row, last)
            self._first, self._last = row, last
        value = self._values[row - self._first]
        if self._column.kind != "ragged" and length(value) > self._max_bytes:
            raise ValueError(too_large(self._max_bytes))
        return value

    def _read(self, begin: int, end: int) -> Any:
        rows = slice(begin, end)
        if self._column.kind == "ragged":
            return self._column.read(rows)
        most = self._max_bytes if end - begin == 1 else max(_MOST_BLOCK_BYTES, self._max_bytes)
        return gathered(self._column, rows, most)


def too_large(max_bytes: int) -> str:
    return f"the sample is larger than the limit of {max_bytes} bytes\nhint: raise max_sample_bytes"


def gathered(column: Column, rows: slice | None, most: int) -> Any:
    """Read the varying elements of some or all rows, in parts. Raise an error if together they exceed `most` bytes."""
    sides = [(0, side) for side in column.shape]
    if rows is not None:
        sides[0] = (rows.start, rows.stop)
    out: Any = None
    found = 0
    for part in _parts(column, sides):
        values = column.read(part)
        found += length(values)
        if found > most:
            raise ValueError(too_large(most))
        if part is ... or all((one.start, one.stop) == side for one, side in zip(part, sides, strict=True)):
            return values
        if out is None:
            out = np.empty([end - begin for begin, end in sides], object)
        out[tuple(slice(one.start - begin, one.stop - begin) for one, (begin, _) in zip(part, sides, strict=True))] = values
    return out


def _parts(column: Column, sides: list[tuple[int, int]]) -> Iterator[Any]:
    """Yield indices that divide an array with varying elements into parts, each small enough to be read at once."""
    if not sides or any(begin >= end for begin, end in sides):
        yield tuple(slice(*side) for side in sides) if sides else ...
        return
    if column.by_chunk and column.chunk:
        steps = tuple(max(1, part) for part in column.chunk)
    else:
        left = max(1, _MOST_BLOCK_BYTES // max(1, column.most_element_bytes))
        lengths = []
        # Make the parts as long as the limit allows along the last axis, then along the axis before it, and so on.
        for begin, end in reversed(sides):
            lengths.append(max(1, min(end - begin, left)))
            left //= lengths[-1]
        steps = tuple(reversed(lengths))
    starts = [
        range(begin - begin % step if column.by_chunk else begin, end, step) for (begin, end), step in zip(sides, steps, strict=True)
    ]
    for corner in itertools.product(*starts):
        yield tuple(
            slice(max(begin, at), min(end, at + step)) for (begin, end), at, step in zip(sides, corner, steps, strict=True)
        )


def length(value: Any) -> int:
    """Return the size in bytes of one element of varying size, or the total size of several."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "OT":
        return sum(map(length, value.ravel().tolist()))
    return value.nbytes if isinstance(value, np.ndarray) else len(value) if isinstance(value, (str, bytes)) else 0
