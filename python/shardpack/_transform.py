"""Calls the user's function that transforms rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Row", "Transform"]


class Row(dict[str, "NDArray[Any]"]):
    """One row of a batch, with a writable NumPy array for each field."""

    __slots__ = ("epoch", "index", "key", "seed")

    index: int
    """Number of the sample in the whole dataset."""
    key: str
    """Key of the sample."""
    epoch: int
    """Number of the epoch, as for ``Loader.set_epoch``."""
    seed: int
    """A random number below 2⁵³ for ``numpy.random.default_rng(row.seed)``. It depends only on seed, epoch and sample.
    """


Transform: TypeAlias = "Callable[[Row], Mapping[str, Any] | None]"
"""Changes a row in place, or returns a mapping of new arrays."""


class Rows:
    """Calls a transform and writes its result into the batch."""

    __slots__ = ("function",)

    def __init__(self, function: Transform) -> None:
        self.function = function

    def __call__(self, arrays: dict[str, NDArray[Any]], index: int, key: str, epoch: int, seed: int) -> None:
        row = Row(arrays)
        row.index, row.key, row.epoch, row.seed = index, key, epoch, seed
        result = self.function(row)
        if result is None:
            result = row
        elif not isinstance(result, Mapping):
            raise TypeError(f"transform must return None or a mapping from field to array, but returned {type(result).__name__}")
        for name, value in result.items():
            if name not in arrays:
                raise ValueError(f"transform returned an unknown field {name!r}; the fields are {', '.join(arrays)}")
            into = arrays[name]
            if value is into:
                continue
            found = np.asarray(value)
            if found.shape != into.shape or found.dtype != into.dtype:
                raise ValueError(
                    f"transform changed the type or shape of field {name!r}: expected {into.dtype} {list(into.shape)}, found {found.dtype} {list(found.shape)}"
                )
            into[...] = found
