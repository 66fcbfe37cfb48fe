"""Limits how far a source can expand. HDF5 and Zarr return fill values for data that were never written, so a few bytes
can claim any size.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from ._source import SourceError

MOST_CHUNK_BYTES = 256 << 20
"""Maximum size of a decoded chunk in bytes. If the limit for a sample is higher, that limit applies instead."""
EXPANSION = 10_000
"""Default of ``max_expansion``."""
_FREE_BYTES = 1 << 30
_SAMPLE_BYTES = 10_000
"""Bytes counted for each sample in addition to its values, because reading even an empty sample takes time."""


def check_whole(name: str, value: object) -> int:
    """Check that an option is a number of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}: expected a positive integer, found: {value!r}")
    return value


def on_disk(found: os.stat_result) -> int:
    """Return the number of bytes that a file takes on disk, without its holes."""
    blocks: int | None = getattr(found, "st_blocks", None)
    return found.st_size if blocks is None else min(found.st_size, 512 * blocks)


class Expansion:
    """Compares the size that a source claims with the bytes that it stores."""

    def __init__(self, where: str, stored: Callable[[int], int], most: int, has_option: bool = True) -> None:
        self._where = where
        self._stored = stored
        """Function that returns the number of stored bytes. It stops counting at a given limit."""
        self._most = check_whole("max_expansion", most)
        self._claimed = 0
        self._hint = "\nhint: raise max_expansion if nearly all values are fill values" if has_option else ""

    def add(self, samples: int, value_bytes: int) -> None:
        """Count samples and the bytes of their values before they are read. Raise an error if they are too many for the
        stored bytes.
        """
        self._claimed += value_bytes + samples * _SAMPLE_BYTES
        beyond = self._claimed - _FREE_BYTES
        if beyond <= 0:
            return
        needed = -(-beyond // self._most)
        found = self._stored(needed)
        if found < needed:
            raise SourceError(
                f"{self._where}: the samples would take {self._claimed} bytes in memory, more than {self._most} times "
                f"the {found} bytes of the source{self._hint}"
            )
