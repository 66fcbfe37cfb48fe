"""Parses sizes in bytes, given as numbers or as strings."""

from __future__ import annotations

from typing import SupportsIndex, TypeAlias

from shardpack import _shardpack

Size: TypeAlias = "SupportsIndex | str"
"""A number of bytes, or a string such as ``"4GiB"``."""


def size(name: str, value: Size) -> int:
    if isinstance(value, str):
        try:
            return _shardpack.size(value)
        except ValueError as error:
            raise _shardpack.UsageError(f"{name}: {error}") from None
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f'{name}: expected a number of bytes, or a string such as "4GiB", found {value!r}')
    number = int(value.__index__())
    if not 1 <= number <= 1 << 63:
        raise _shardpack.UsageError(f"{name}: expected a size from 1 to 2^63 bytes, found {number}")
    return number
