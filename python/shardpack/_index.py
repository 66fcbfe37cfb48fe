"""Converts a dataset index (a number, slice, list or mask) to sample numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

Indices: TypeAlias = "slice | Sequence[int] | NDArray[Any]"
"""Several samples: a slice, numbers (negative ones count from the end), or a boolean mask ``[samples]``."""


def is_one(index: object) -> TypeGuard[SupportsIndex]:
    """True if the index is the number of a single sample. Checking for ``__index__`` is not enough, because PyTorch and
    NumPy arrays of any shape have it.
    """
    return isinstance(index, SupportsIndex) and not getattr(index, "ndim", 0)


def _of_a_key(expected: str, found: str) -> TypeError:
    """Return the error for a string index, because the caller probably meant a key."""
    hint = f"use by_key({found!r}) to get a sample by key, or columns[{found!r}] for the values of a scalar field"
    return TypeError(f"{expected}, found the string {found!r}\nhint: {hint}")


def one(index: SupportsIndex, length: int) -> int:
    """Return the number of the sample ``index``. Negative indexes count from the end. Raises ``IndexError`` if there is
    no such sample.
    """
    if isinstance(index, str):
        raise _of_a_key("sample index: expected a number", index)
    number = index.__index__()
    if not -length <= number < length:
        raise IndexError(f"sample index {number} is out of range for a dataset of length {length}")
    return number % length


def many(indices: Indices, length: int) -> NDArray[np.uint64]:
    """Return the numbers of the samples that ``indices`` selects out of ``length`` samples, in the given order, as
    uint64 ``[n]``.
    """
    if isinstance(indices, slice):
        return np.arange(length, dtype=np.int64)[indices].astype(np.uint64)
    if isinstance(indices, str):
        raise _of_a_key("sample indices: expected numbers, a slice or a mask", indices)
    numbers = np.asarray(indices)
    if numbers.ndim != 1:
        raise TypeError(f"the array of sample indices must be one-dimensional, but has {numbers.ndim} dimensions")
    if numbers.dtype == np.bool_:
        if len(numbers) != length:
            raise IndexError(f"sample mask: expected {length} values, one for each sample, found {len(numbers)}")
        return np.flatnonzero(numbers).astype(np.uint64)
    if len(numbers) == 0:
        return np.empty(0, np.uint64)
    if not np.issubdtype(numbers.dtype, np.integer):
        hint = "\nhint: use index_of(key) to get the number of a sample" if numbers.dtype.kind == "U" else ""
        raise TypeError(f"sample indices: expected integers or a boolean mask, found {numbers.dtype}{hint}")
    outside = (numbers >= length) | ((numbers < 0) & (numbers.astype(np.int64) < -length))
    if outside.any():
        raise IndexError(f"sample index {numbers[outside][0]} is out of range for a dataset of length {length}")
    return np.where(numbers < 0, numbers.astype(np.int64) + length, numbers.astype(np.int64)).astype(np.uint64)
