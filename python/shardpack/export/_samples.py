"""Reads the samples of a dataset for an export, in stored order."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SECONDS_BETWEEN_REPORTS = 0.1

# Columns that packing adds. They describe the picture or, in a dataset without pictures, the array.
_OF_PICTURES = {"height": "uint32", "width": "uint32", "orientation": "uint8", "gpu_jpeg": "bool", "icc": "bytes"}
_OF_SHAPES = ("height", "width", "channels")
_LOOKED_AT = 8
"""Number of samples to read to find the array whose shape is in the columns."""


class Samples:
    """Reads the samples of a dataset in stored order, and reports the progress of the export."""

    def __init__(
        self,
        dataset: Any,
        fields: Collection[str] | None,
        progress: Callable[[dict[str, Any]], object] | None,
        started: float,
    ) -> None:
        from .. import Dataset

        self.dataset = dataset if hasattr(dataset, "schema") else Dataset(dataset)
        kinds = {field.name: field.kind for field in self.dataset.schema}
        # The caller may also request packing figures. They are not part of a sample.
        kinds |= {name: "scalar" for name in self.dataset.columns}
        for name in fields or ():
            if name not in kinds:
                raise ValueError(f"fields: the dataset has no field {name!r}; its fields are {', '.join(kinds)}")
        own = {field.name for field in self.dataset.schema}
        chosen = own - added(self.dataset) if fields is None else set(fields)
        if not chosen:
            raise ValueError(f"fields: pass at least one of {', '.join(kinds)}")
        self.kinds: dict[str, str] = {name: kind for name, kind in kinds.items() if name in chosen}
        """Mapping from field to kind: image, array, text, json, bytes or scalar."""
        self.classes: list[str] | None = self.dataset.classes
        self._progress = progress
        self._started = started
        self._reported = 0.0
        self._done = 0

    def __len__(self) -> int:
        return len(self.dataset)

    def files(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the key and the fields of each sample as file contents: stored values are bytes (a `.npy` file for an
        array, a list of JPEGs for a clip), scalars keep their type, and missing values are None.
        """
        stored = [name for name, kind in self.kinds.items() if kind != "scalar"]
        for (index, key), numbers in zip(enumerate(self.dataset.keys), self._numbers()):
            found = dict(zip(stored, self.dataset._core.files(self.dataset._stored(index), stored)))
            yield key, {name: numbers[name] if name in numbers else found[name] for name in self.kinds}
            self._advance()

    def values(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the key and the decoded fields of each sample. Pictures are uint8 `[height, width, 3]`, scalars keep
        their type, and missing values are None."""
        decoded = [name for name, kind in self.kinds.items() if kind != "scalar"]
        for (index, key), numbers in zip(enumerate(self.dataset.keys), self._numbers()):
            found = self.dataset.get(index, decoded) if decoded else {}
            yield key, {name: numbers[name] if name in numbers else found[name] for name in self.kinds}
            self._advance()

    def _numbers(self) -> Iterator[dict[str, Any]]:
        """Yield the scalars of each sample. In a concat, a scalar is None if the sample's dataset lacks the field
        (columns would have −1 or NaN).
        """
        columns = {name: self.dataset.column(name) for name, kind in self.kinds.items() if kind == "scalar"}
        lacking = {name: lacks for name in columns if (lacks := self._lacking(name)) is not None}
        for index in range(len(self)):
            stored = self.dataset._stored(index) if lacking else index
            yield {
                name: None if name in lacking and lacking[name][stored] else column[index]
                for name, column in columns.items()
            }

    def _lacking(self, name: str) -> NDArray[np.bool_] | None:
        """Return a mask of the samples in a concat that lack this scalar, or None if all samples have it."""
        parts = getattr(getattr(self.dataset, "_whole", self.dataset), "_parts", None) or ()
        lacks = [name not in set(part.columns) for part in parts]
        return np.repeat(lacks, [len(part) for part in parts]) if any(lacks) else None

    def _advance(self) -> None:
        self._done += 1
        self.report()

    def report(self, last: bool = False) -> None:
        seconds = time.monotonic() - self._started
        if self._progress is not None and (last or seconds - self._reported >= _SECONDS_BETWEEN_REPORTS):
            self._reported = seconds
            self._progress({"samples": self._done, "total": len(self), "seconds": seconds})


def added(dataset: Any) -> set[str]:
    """Return the fields that packing adds to describe other fields: the size and orientation of the only picture, the
    shape of an array, the number of frames of a clip. The user's own fields with such names are not included.
    """
    kinds = {field.name: field.kind if field.dtype is None else field.dtype.name for field in dataset.schema}
    images = [name for name, kind in kinds.items() if kind == "image"]
    found = {f"{name}.frames" for name in images if kinds.get(f"{name}.frames") == "uint32"}
    if images:
        # These names are reserved if there is one picture field. A dataset with several picture fields has no such
        # columns.
        return found | {name for name, kind in _OF_PICTURES.items() if len(images) == 1 and kinds.get(name) == kind}
    named = [name for name in _OF_SHAPES if kinds.get(name) == "uint32"]
    arrays = [name for name, kind in kinds.items() if kind == "array"]
    return found | next((set(names) for array in arrays if (names := _describing(dataset, array, named))), set())


def _describing(dataset: Any, array: str, named: list[str]) -> list[str]:
    """Return the columns of `named` that hold the shape of an array, judging by the first samples."""
    names: list[str] = []
    for index in range(min(_LOOKED_AT, len(dataset)) if named else 0):
        sample = dataset.get(index, [array, *named])
        if sample[array] is None:
            continue
        shape = sample[array].shape
        names = list(_OF_SHAPES[: len(shape)])
        if not 2 <= len(shape) <= 3 or not set(names) <= set(named) or [sample[name] for name in names] != list(shape):
            return []
    return names
