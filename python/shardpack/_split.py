"""Converts the arguments of ``Dataset.split`` for the Rust extension."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shardpack import _shardpack

if TYPE_CHECKING:
    from shardpack._dataset import Dataset

Attribute: TypeAlias = "str | Sequence[Any] | NDArray[Any]"
"""The name of a scalar field, or one value per sample: an integer, a boolean or a string."""


def parts(
    dataset: Dataset,
    shares: float | Sequence[float],
    stratify: Attribute | None,
    groups: Attribute | Callable[[str], Any] | None,
    seed: int,
    growing: bool,
) -> list[NDArray[np.uint64]]:
    """Return the sample numbers of each part. They refer to the whole dataset, even for a subset."""
    if isinstance(seed, bool) or not isinstance(seed, SupportsIndex) or not 0 <= operator.index(seed) < 1 << 64:
        raise ValueError(f"seed: expected an integer from 0 to 2**64 - 1, found {seed!r}")
    return dataset._core.split(
        _shares(shares),
        operator.index(seed),
        _attribute("stratify", stratify, dataset),
        _attribute("groups", groups, dataset),
        bool(growing),
        dataset._members,
    )


def _shares(given: float | Sequence[float]) -> list[float]:
    """Return the shares of the parts. A single number gives two parts."""
    if isinstance(given, str):
        raise TypeError(f"split: expected a fraction such as 0.8, or a list of fractions, found the string {given!r}")
    if not isinstance(given, Sequence | np.ndarray):
        share = float(given)
        if not 0 < share < 1:
            expected = "a fraction between 0 and 1, or fractions that sum to 1"
            raise _shardpack.UsageError(f"split: expected {expected}, found {given!r}")
        return [share, 1 - share]
    return [float(share) for share in given]


def _attribute(option: str, given: Attribute | Callable[[str], Any] | None, dataset: Dataset) -> str | list[str] | None:
    """Return the name of a scalar field, or one string for each sample."""
    if given is None:
        return None
    if isinstance(given, str):
        kinds = {field.name: field.kind for field in dataset.schema}
        if given not in kinds and given not in dataset.columns:
            scalars = ", ".join(name for name, kind in kinds.items() if kind == "scalar")
            known = f"; its scalar fields are {scalars}" if scalars else ": it has no scalar fields at all"
            raise _shardpack.UsageError(f"{option}: the dataset has no scalar field {given!r}{known}")
        if kinds.get(given, "scalar") != "scalar":
            raise _shardpack.UsageError(
                f"{option}: {given!r} must be a scalar field, but its kind is {kinds[given]}\n"
                f"hint: pass the values instead: {option}=[dataset.get(i, [{given!r}])[{given!r}] for i in range(len(dataset))]"
            )
        return given
    values = [given(key) for key in dataset.keys] if callable(given) else given
    return [_text(option, value) for value in (values.tolist() if isinstance(values, np.ndarray) else values)]


def _text(option: str, value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    try:
        return str(operator.index(value))
    except TypeError:
        expected = "an integer, a boolean or a string for each sample"
        raise TypeError(f"{option}: expected {expected}, found {value!r}") from None
