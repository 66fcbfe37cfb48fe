"""Several datasets as one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from shardpack import _shardpack
from shardpack._columns import Columns
from shardpack._dataset import Dataset


class Concat(Dataset):
    """Several datasets as one; made by :func:`concat`."""

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        for number, dataset in enumerate(datasets):
            if not isinstance(dataset, Dataset):
                raise TypeError(
                    f"dataset {number} to take as one: expected a shardpack.Dataset, found {type(dataset).__name__}\n"
                    "hint: open it: shardpack.Dataset(path)"
                )
            if dataset._members is not None:
                raise _shardpack.UsageError(
                    f"dataset {number} to take as one: expected a whole dataset, found {dataset!r}\n"
                    "hint: take the subset of what `concat` makes"
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
        """The datasets, in order."""
        return list(self._parts)

    def __reduce__(self) -> tuple[Any, ...]:
        return Concat, (self._parts,)

    def __repr__(self) -> str:
        return f"Concat({len(self._parts)} datasets, {len(self)} samples)"


def concat(datasets: Sequence[Dataset]) -> Concat:
    """Several datasets as one, where they are: nothing is packed again.

    Fields are matched by name, and the result has those of all. Samples of a dataset without a field have no value for
    it: ``None`` in a sample, ``batch.present(field)`` false in a batch, whose rows are zeros there; for a number −1, NaN,
    false, or the largest of an unsigned type, in batches as in :attr:`Dataset.columns`.

    Classes are matched by name too: those of the first dataset keep their numbers, new ones come behind, and labels are
    numbers of that list, ``concat(…).classes``. Labels below 0 stay as they are.

    Parameters
    ----------
    datasets : sequence of Dataset
        Whole datasets.

    Returns
    -------
    Concat
        A dataset of all samples, those of the first dataset first. A :class:`Loader` mixes them all; its ``mix`` says
        how often each dataset comes.

    Raises
    ------
    UsageError
        The list is empty; a field is of another kind or type in one of them; or labels count into named classes in one
        and into none in another: the message says where.
    """
    return Concat(datasets)
