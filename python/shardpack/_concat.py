"""Combines several datasets into one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from shardpack import _shardpack
from shardpack._columns import Columns
from shardpack._dataset import Dataset


class Concat(Dataset):
    """Several datasets combined into one. Made by :func:`concat`."""

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        for number, dataset in enumerate(datasets):
            if not isinstance(dataset, Dataset):
                raise TypeError(
                    f"concat: dataset {number} must be a shardpack.Dataset, but is a {type(dataset).__name__}\n"
                    "hint: pass shardpack.Dataset(path)"
                )
            if dataset._members is not None:
                raise _shardpack.UsageError(
                    f"concat: dataset {number} must be a whole dataset, but is a subset: {dataset!r}\n"
                    "hint: concatenate the whole datasets, then take a subset of the result"
                )
        self._parts: list[Dataset] = []
        for dataset in datasets:
            self._parts += dataset._parts if isinstance(dataset, Concat) else [dataset]
        self._opened = _shardpack.Dataset.concat([part._core for part in self._parts])
        self._pid = os.getpid()
        self._path, self._verify_crc = self._opened.path, all(part._verify_crc for part in self._parts)
        self._max_record = max((part._max_record for part in self._parts), default=_shardpack.MAX_RECORD_BYTES)
        self._columns = Columns(self)

    @property
    def _core(self) -> _shardpack.Dataset:
        if os.getpid() != self._pid:
            self._opened = _shardpack.Dataset.concat([part._core for part in self._parts])
            self._pid = os.getpid()
        return self._opened

    @property
    def parts(self) -> list[Dataset]:
        """The datasets, in their order."""
        return list(self._parts)

    def __reduce__(self) -> tuple[Any, ...]:
        return Concat, (self._parts,)

    def __repr__(self) -> str:
        return f"Concat({len(self._parts)} datasets, {len(self)} samples)"


def concat(datasets: Sequence[Dataset]) -> Concat:
    """Combine several datasets into one, without packing again.

    Fields are matched by name, and the result has the fields of all datasets. A field is ``None`` in the samples of a
    dataset that lacks it. In a batch, the rows of these samples are zeros and ``batch.present(field)`` is false. A
    missing scalar is −1, NaN, false, or the maximum of an unsigned type, both in batches and in
    :attr:`Dataset.columns`.

    Classes are matched by name. The classes of the first dataset keep their numbers. Classes that appear only in later
    datasets get the next numbers. Labels refer to ``concat(…).classes``. Labels below 0 do not change.

    Parameters
    ----------
    datasets : sequence of Dataset
        Whole datasets.

    Returns
    -------
    Concat
        A dataset of all samples, in the order of ``datasets``. A :class:`Loader` mixes all of them. Its option
        ``mix`` sets how often each dataset is drawn.

    Raises
    ------
    UsageError
        The list is empty, a field differs in kind or type, or only some of the datasets name the classes of their
        labels. The message names the dataset.
    """
    return Concat(datasets)
