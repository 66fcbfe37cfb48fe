"""How much may come out of a few bytes of a file: HDF5 and Zarr read what was never stored as fill values, and a chunk
is decoded whole for one value of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from ._source import SourceError

MOST_CHUNK_BYTES = 256 << 20
"""Bytes of a chunk, as decoded, that are taken in any case. More are taken where a sample may be larger."""
EXPANSION = 10_000
"""Default of ``max_expansion``."""
_FREE_BYTES = 1 << 30
_SAMPLE_BYTES = 10_000
"""A sample costs time even where it has few bytes: it counts as so many more."""


def check_whole(name: str, value: object) -> int:
    """A number that an option gives, at least 1.

    Raises
    ------
    ValueError
        If it is none.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}: expected a number of at least 1, found: {value!r}")
    return value


def on_disk(found: os.stat_result) -> int:
    """Bytes that a file takes on the disk: holes in it are none."""
    blocks: int | None = getattr(found, "st_blocks", None)
    return found.st_size if blocks is None else min(found.st_size, 512 * blocks)


class Expansion:
    """Compares what a source claims to hold with the bytes that are there."""

    def __init__(self, where: str, stored: Callable[[int], int], most: int) -> None:
        self._where = where
        self._stored = stored
        """The bytes that are there, or so many of them as are asked for."""
        self._most = check_whole("max_expansion", most)
        self._claimed = 0

    def add(self, samples: int, value_bytes: int) -> None:
        """Count samples and the bytes of their values, before they are read.

        Raises
        ------
        SourceError
            If all samples so far are more than the bytes that are there explain.
        """
        self._claimed += value_bytes + samples * _SAMPLE_BYTES
        beyond = self._claimed - _FREE_BYTES
        if beyond <= 0:
            return
        needed = -(-beyond // self._most)
        found = self._stored(needed)
        if found < needed:
            raise SourceError(
                f"{self._where}: expected at least {needed} stored bytes for samples of {self._claimed} bytes in memory, "
                f"found {found}\nhint: are nearly all values fill values? raise max_expansion"
            )
