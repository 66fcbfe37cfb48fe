"""Reads the scalar fields and the keys of all samples of a dataset."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from shardpack._dataset import Dataset


class Columns(Mapping[str, "NDArray[Any]"]):
    """The scalar fields of a dataset. Each column is read on first use, then cached."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._loaded: dict[str, NDArray[Any]] = {}
        self._labels: NDArray[np.int64] | None = None

    def __getitem__(self, name: str, /) -> NDArray[Any]:
        if name not in self._loaded and name not in iter(self):
            raise UnknownColumn(name, list(self))
        return self.load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._dataset._core.scalars())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"Columns({', '.join(self)})"

    def load(self, name: str) -> NDArray[Any]:
        """Return one column. Raises ``UsageError`` if no column has this name."""
        if name not in self._loaded:
            self._loaded[name] = self._own(self._dataset._core.column(name))
        return self._loaded[name]

    @property
    def labels(self) -> NDArray[np.int64]:
        """The labels, converted to int64 from any stored type."""
        if self._labels is None:
            self._labels = self._own(self._dataset._core.labels())
        return self._labels

    def _own(self, column: NDArray[Any]) -> NDArray[Any]:
        members = self._dataset._members
        column = column if members is None else column[members]
        column.flags.writeable = False
        return column


class UnknownColumn(KeyError):
    """No scalar field has this name. The message suggests similar names, or lists all names."""

    def __init__(self, name: object, known: Sequence[str]) -> None:
        super().__init__(name)
        self._known = known

    def __str__(self) -> str:
        (name,) = self.args
        near = difflib.get_close_matches(str(name), self._known, cutoff=0.6)
        known = f"; its columns are {', '.join(self._known)}" if self._known else ": it has no columns at all"
        what = f"the dataset has no column {name!r}{known}"
        return f"{what}\nhint: did you mean {' or '.join(map(repr, near))}?" if near else what

    def __reduce__(self) -> tuple[Any, ...]:
        return UnknownColumn, (*self.args, self._known)


class Keys(Sequence[str]):
    """The keys of a dataset. Each access looks up its key."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    @overload
    def __getitem__(self, index: int, /) -> str: ...
    @overload
    def __getitem__(self, index: slice, /) -> list[str]: ...
    def __getitem__(self, index: int | slice, /) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        return self._dataset._core.key(self._dataset._stored(index))

    def __len__(self) -> int:
        return len(self._dataset)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._dataset._place_of(key) is not None

    def __repr__(self) -> str:
        return f"Keys({len(self)} of {str(self._dataset.path)!r})"


class UnknownKey(KeyError):
    """No sample has this key. The message suggests similar keys. The search for them reads every key, so it runs only
    when the message is printed.
    """

    def __init__(self, key: str, dataset: Dataset) -> None:
        super().__init__(key)
        self._dataset = dataset

    def __str__(self) -> str:
        (key,) = self.args
        what = f"no sample has the key {key!r}"
        if self._dataset._core.index_of(key) is not None:
            return f"{what} in this subset of the dataset"
        near = [repr(like) for like in self._dataset._core.keys_like(key) if like in self._dataset.keys]
        return f"{what}\nhint: did you mean {' or '.join(near)}?" if near else what

    def __reduce__(self) -> tuple[Any, ...]:
        # The dataset need not be pickled with the error, so pickle only the message.
        return KeyError, (str(self),)
