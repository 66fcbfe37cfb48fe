"""Arrays of a file, and how those are read whose elements may be of any size: part by part, and no further than a bound."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._values import DTYPES

_MOST_BLOCK_BYTES = 256 << 20
"""Most bytes of a block of elements of any size, if each is as large as it can be."""
USUAL_BYTES = 1 << 16
"""Bytes that an element of any size is taken for."""
_REFERENCE_BYTES = 64
"""Bytes that an element of any size takes even if it is empty."""


@dataclass(frozen=True)
class Column:
    """One array of a file."""

    shape: tuple[int, ...]
    kind: str
    """``numbers``, ``text``, ``bytes`` (one string of them in each element), ``json``, ``ragged`` (an array in each),
    or why it cannot be taken."""
    dtype: str
    """NumPy name of the elements, of ``numbers``."""
    read: Callable[[Any], Any]
    """An index (a slice of the first axis, or of each axis, or ``...``) to the values."""
    element_bytes: int = 0
    """Bytes of an element; 0: they vary."""
    most_element_bytes: int = USUAL_BYTES
    """The most that an element may have, where they vary."""
    chunk: tuple[int, ...] | None = None
    """Shape of the parts that are read as a whole; None: any part can be read."""
    by_chunk: bool = False
    """Elements that vary are bounded by the chunk, not each by `most_element_bytes`."""

    @property
    def refused(self) -> str | None:
        """Why it cannot be taken, or None."""
        if self.kind not in ("numbers", "text", "json", "bytes", "ragged"):
            return self.kind
        if self.kind == "numbers" and self.dtype not in DTYPES:
            return f"elements of type {self.dtype}"
        return None

    def bytes_of(self, axes: int) -> int:
        """Bytes of the values behind the first `axes` axes; of elements that vary, the least that they can have."""
        return math.prod(self.shape[axes:]) * (self.element_bytes or _REFERENCE_BYTES)

    def chunks(self) -> int:
        """How many parts there are to read."""
        if self.chunk is None:
            return 0
        return math.prod(-(-side // max(1, part)) for side, part in zip(self.shape, self.chunk, strict=True))


Tree = Mapping[str, Any]
"""Name to `Column`, or to a tree."""


class Varying:
    """Elements of any size of the rows of a block, of which few are in memory at a time: each may be as large as it can
    be. Numbers beside them are read by the block, as a chunk is decoded for each read.
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
            # Whole chunks, after the first.
            last = min(row + self._at_once - row % self._at_once, self._end)
            try:
                self._values = self._read(row, last)
            except MemoryError:
                raise
            except Exception:
                if last == row + 1:
                    raise
                # Those beside a row that cannot be read are not lost.
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
    return f"expected samples of at most {max_bytes} bytes, found more\nhint: raise max_sample_bytes"


def gathered(column: Column, rows: slice | None, most: int) -> Any:
    """Elements of any size of some rows, or of all, read part by part.

    Raises
    ------
    ValueError
        If they have more than `most` bytes together.
    """
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
    """Indices of parts of an array of elements of any size, each small enough to be read at once."""
    if not sides or any(begin >= end for begin, end in sides):
        yield tuple(slice(*side) for side in sides) if sides else ...
        return
    if column.by_chunk and column.chunk:
        steps = tuple(max(1, part) for part in column.chunk)
    else:
        left = max(1, _MOST_BLOCK_BYTES // max(1, column.most_element_bytes))
        lengths = []
        # Whole last axes, as far as they fit.
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
    """Bytes of an element of any size, or of several."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "OT":
        return sum(map(length, value.ravel().tolist()))
    return value.nbytes if isinstance(value, np.ndarray) else len(value) if isinstance(value, (str, bytes)) else 0
