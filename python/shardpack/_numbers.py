"""Reads the numbers of views and augmentations, with errors that name the parameter."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any


def whole(name: str, value: Any, expected: str = "a whole number") -> int:
    """Return an integer. Anything else is an error, even 2.0."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected {expected}, found {value!r}") from None


def decimal(name: str, value: Any) -> float:
    """Return a float. A string is an error."""
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{name}: expected a number, found {value!r}")
    try:
        return float(value)
    except TypeError:
        raise TypeError(f"{name}: expected a number, found {value!r}") from None


def color(name: str, value: Any) -> str:
    """Return a colour as ``RED:GREEN:BLUE``, from these three levels or from one level for all of them."""
    levels = value if isinstance(value, Sequence) else [value] * 3
    if isinstance(value, (str, bytes)) or len(levels) != 3:
        raise ValueError(f"{name}: expected one number, or three for red, green and blue, found {value!r}")
    return ":".join(str(whole(name, level)) for level in levels)
