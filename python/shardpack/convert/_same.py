"""Converts the arrays of a field to one element type."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._source import SourceError, option, shown
from ._values import DTYPES


class SameType:
    """Converts all arrays of a field to the requested type. Without a requested type, they get the type of the first
    array.

    Values never change, with one exception: floats are rounded to a requested float type.
    """

    def __init__(self, field: str, dtype: str | None = None) -> None:
        if dtype is not None and dtype not in DTYPES:
            raise ValueError(f"dtype: expected one of {', '.join(sorted(DTYPES))}, found: {dtype!r}")
        self._field = field
        self._asked = dtype is not None
        self._follows = False
        self._dtype = None if dtype is None else np.dtype(dtype)

    @property
    def field(self) -> str:
        return self._field

    def follow(self, dtype: str) -> None:
        """Use the element type from the dataset being appended to, unless a type was requested."""
        if not self._asked and dtype:
            self._dtype, self._follows = np.dtype(dtype), True

    def __call__(self, where: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the array with the common element type. Raise an error if the conversion would change a value."""
        if self._dtype is None:
            self._dtype = array.dtype
        if array.dtype == self._dtype:
            return array
        with np.errstate(invalid="ignore", over="ignore"):
            made = array.astype(self._dtype)
        if self._asked and array.dtype.kind == "f" and self._dtype.kind == "f":
            return made
        if not np.array_equal(made.astype(array.dtype), array, equal_nan=array.dtype.kind == "f"):
            of = "" if self._asked else f" (the type of {'this field in the dataset' if self._follows else 'the first sample'})"
            # A hint to pass float64 would not help if the values do not fit float64.
            hint = "" if self._follows or self._dtype == np.float64 else f"\nhint: pass {option(dtype='float64')} to store all samples as float64"
            raise SourceError(
                f"{where}: field `{shown(self._field)}`: cannot store {array.dtype} values from {array.min():g} to "
                f"{array.max():g} exactly as {self._dtype}{of}{hint}"
            )
        return made
