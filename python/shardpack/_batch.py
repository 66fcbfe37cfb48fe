"""A batch: fields of many samples, views into memory of the loader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardpack import _shardpack
from shardpack._convert import Convert


class Ragged:
    """A field whose rows differ in size: whole pictures, cubes of several shapes, stored bytes.

    ``ragged[i]`` is row ``i`` in its own shape, a view of :attr:`values`.
    """

    __slots__ = ("offsets", "shapes", "values")

    values: Any
    """All elements of all rows on one axis. Between rows there may be elements that belong to none."""
    offsets: NDArray[np.int64]
    """Where each row begins in :attr:`values`, in elements: ``[rows]``."""
    shapes: NDArray[np.int64]
    """Shape of each row: ``[rows, axes]``, zero for padding and for samples that were skipped."""

    def __init__(self, values: Any, offsets: NDArray[np.int64], shapes: NDArray[np.int64]) -> None:
        self.values, self.offsets, self.shapes = values, offsets, shapes

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, row: int) -> Any:
        """Row ``row``, in its own shape; negative numbers count from the end."""
        if not -len(self) <= row < len(self):
            raise IndexError(f"row: expected one from {-len(self)} to {len(self) - 1}, found {row}")
        shape = tuple(int(axis) for axis in self.shapes[row])
        start = int(self.offsets[row])
        return self.values[start : start + int(np.prod(shape, dtype=np.int64))].reshape(shape)

    def __iter__(self) -> Iterator[Any]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        return f"Ragged({len(self)} rows of {self.shapes.shape[1]} axes, {self.values.dtype})"

    def to(self, *args: Any, **kwargs: Any) -> Ragged:
        """Torch only: the same rows elsewhere, as ``torch.Tensor.to``."""
        return Ragged(self.values.to(*args, **kwargs), self.offsets, self.shapes)

    def pin_memory(self, *args: Any) -> Ragged:
        """Torch only: the same rows in pinned memory."""
        return Ragged(self.values.pin_memory(*args), self.offsets, self.shapes)


class Batch:
    """A batch: from the name of a field to the values of its rows, a tensor ``[rows, …]`` or a :class:`Ragged`.

    Tensors are views into a slot of the loader: nothing is copied, and the slot is used again when the batch and
    every tensor made of it are gone. Batches may be kept, all of an epoch if there is memory: the loader makes
    another slot when all are taken (``stats()["extra_slots"]`` counts them). Tensors may be written into.

    ``list(batch)`` gives the names of its fields; ``batch.items()`` gives name and value; ``dict(batch.items())`` is
    a plain dict. :attr:`keys`, :attr:`mask` and :attr:`indices` are attributes, so that no field can clash with them.
    """

    __slots__ = ("_convert", "_core", "_indices", "_keys", "_mask", "_names", "_rows", "_values")

    def __init__(self, core: _shardpack.Batch, convert: Convert) -> None:
        self._core: _shardpack.Batch | None = core
        self._convert: Convert | None = convert
        self._names = core.names()
        self._rows = len(core)
        self._values: dict[str, Any] = {}
        self._keys: list[str] | None = None
        self._mask: Any = None
        self._indices: Any = None

    def __len__(self) -> int:
        """Rows, padding included."""
        return self._rows

    def __contains__(self, field: object) -> bool:
        return field in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __getitem__(self, field: str) -> Any:
        """The values of a field; converted when they are first asked for."""
        value = self._values.get(field)
        if value is None:
            value = self._values[field] = self._make(field)
        return value

    def _make(self, field: str) -> Any:
        core, convert = self._core, self._convert
        if core is None or convert is None:
            raise KeyError(field)
        tensor = convert(core.tensor(field))
        if not core.is_ragged(field):
            return tensor
        offsets, shapes = core.rows(field)
        return Ragged(tensor, offsets, shapes.reshape(len(offsets), -1))

    def items(self) -> Iterator[tuple[str, Any]]:
        """Name and values of every field."""
        return ((name, self[name]) for name in self._names)

    @property
    def keys(self) -> list[str]:
        """Key of the sample of each row; empty for padding."""
        if self._keys is None:
            assert self._core is not None
            self._keys = self._core.keys()
        return self._keys

    @property
    def mask(self) -> Any:
        """For each row whether it holds a sample, bool ``[rows]``; ``None`` if every row does. False for padding
        (``end="pad"``) and for damaged samples that were skipped.
        """
        if self._mask is None and self._core is not None and self._convert is not None:
            mask = self._core.mask()
            self._mask = None if mask is None else self._convert(mask)
        return self._mask

    @property
    def indices(self) -> Any:
        """For each row the number of its sample in the dataset, int64 ``[rows]``; -1 for padding."""
        if self._indices is None:
            assert self._core is not None and self._convert is not None
            self._indices = self._convert(self._core.indices())
        return self._indices

    def __repr__(self) -> str:
        more = [f"{len(self._names) - 4} more"] if len(self._names) > 5 else self._names[4:]
        return f"Batch({self._rows} rows: {', '.join(self._names[:4] + more)})"

    def to(self, *args: Any, **kwargs: Any) -> Batch:
        """Torch only: a batch of the same rows elsewhere, every tensor by ``torch.Tensor.to``. Lightning and
        Accelerate move batches by it.
        """
        return self._mapped(lambda value: value.to(*args, **kwargs))

    def pin_memory(self, *args: Any) -> Batch:
        """Torch only: a batch of the same rows in pinned memory. A ``DataLoader`` with ``pin_memory=True`` calls it."""
        return self._mapped(lambda value: value.pin_memory(*args))

    def _mapped(self, change: Callable[[Any], Any]) -> Batch:
        values = {name: change(value) for name, value in self.items()}
        mask = None if self.mask is None else change(self.mask)
        return _loose(self._names, self._rows, values, self.keys, mask, change(self.indices))

    def __reduce__(self) -> tuple[Any, ...]:
        # To another process: what a worker of a DataLoader sends is no view of the loader's memory any more.
        return _loose, (self._names, self._rows, dict(self.items()), self.keys, self.mask, self.indices)


def _loose(names: list[str], rows: int, values: dict[str, Any], keys: list[str], mask: Any, indices: Any) -> Batch:
    """A batch of values that belong to no loader."""
    batch = Batch.__new__(Batch)
    batch._core = batch._convert = None
    batch._names, batch._rows, batch._values = names, rows, values
    batch._keys, batch._mask, batch._indices = keys, mask, indices
    return batch
