"""A dataset: samples by index, columns, what is known of it."""

from __future__ import annotations

import os
from pathlib import Path

from shardpack import _shardpack


class Dataset:
    """A packed dataset: a folder with a manifest, or a lone shard.

    Parameters
    ----------
    path : str or os.PathLike
        The dataset's folder, its manifest, or one shard.
    verify_crc : bool, default True
        Whether the CRC32 of each record is compared before it is handed out.

    Raises
    ------
    OSError
        A file cannot be read; ``FileNotFoundError`` if there is none.
    UsageError
        The path is no dataset.
    FormatError, LimitError
        The manifest is damaged, or asks for more than the limits allow.
    """

    def __init__(self, path: str | os.PathLike[str], *, verify_crc: bool = True) -> None:
        self._path = Path(path)
        self._verify_crc = verify_crc
        self._inner = _shardpack.Dataset(self._path, verify_crc)

    def __len__(self) -> int:
        return len(self._inner)

    def __repr__(self) -> str:
        return f"shardpack.Dataset({str(self._path)!r}, {len(self)} samples)"
