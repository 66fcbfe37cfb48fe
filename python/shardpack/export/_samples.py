"""What is exported: the samples of a dataset in stored order, field by field."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

_SECONDS_BETWEEN_REPORTS = 0.1

# What a packer adds beside a picture, and beside a cube where there is no picture.
_OF_PICTURES = ("height", "width", "orientation", "gpu_jpeg", "icc")
_OF_CUBES = ("height", "width", "channels")


class Samples:
    """The samples of a dataset in stored order, and how far the export has come."""

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
        # With the figures of packing, which are no part of a sample but may be asked for.
        kinds |= {name: "scalar" for name in self.dataset.columns}
        for name in fields or ():
            if name not in kinds:
                raise ValueError(f"fields: expected some of {', '.join(kinds)}, found: {name!r}")
        chosen = set(kinds) - added(kinds) if fields is None else set(fields)
        self.kinds: dict[str, str] = {name: kind for name, kind in kinds.items() if name in chosen}
        """Field to kind: image, array, text, json, bytes or scalar."""
        self.classes: list[str] | None = self.dataset.classes
        self._progress = progress
        self._started = started
        self._reported = 0.0
        self._done = 0

    def __len__(self) -> int:
        return len(self.dataset)

    def files(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Key and fields of each sample: stored ones as bytes (`.npy` of arrays; a list of JPEGs of clips), None if
        missing; scalars with their type."""
        stored = [name for name, kind in self.kinds.items() if kind != "scalar"]
        columns = self._columns()
        for index, key in enumerate(self.dataset.keys):
            found = dict(zip(stored, self.dataset._core.files(self.dataset._stored(index), stored)))
            yield key, {name: columns[name][index] if name in columns else found[name] for name in self.kinds}
            self._advance()

    def values(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Key and fields of each sample: pictures as uint8 `[height, width, 3]`, scalars with their type."""
        columns = self._columns()
        decode = len(columns) < len(self.kinds)
        for index, key in enumerate(self.dataset.keys):
            found = self.dataset[index] if decode else {}
            yield key, {name: columns[name][index] if name in columns else found[name] for name in self.kinds}
            self._advance()

    def _columns(self) -> dict[str, Any]:
        return {name: self.dataset.column(name) for name, kind in self.kinds.items() if kind == "scalar"}

    def _advance(self) -> None:
        self._done += 1
        self.report()

    def report(self, last: bool = False) -> None:
        """Tell the caller how far it is."""
        seconds = time.monotonic() - self._started
        if self._progress is not None and (last or seconds - self._reported >= _SECONDS_BETWEEN_REPORTS):
            self._reported = seconds
            self._progress({"samples": self._done, "total": len(self), "seconds": seconds})


def added(kinds: dict[str, str]) -> set[str]:
    """The fields that a packer adds to describe others: sizes of pictures and cubes, figures such as
    `cube.max_abs_error`."""
    stored = [name for name, kind in kinds.items() if kind in ("image", "array")]
    of_sizes = _OF_PICTURES if "image" in kinds.values() else _OF_CUBES if stored else ()
    figures = {
        name
        for name, kind in kinds.items()
        if kind == "scalar" and any(name.startswith(f"{field}.") for field in stored)
    }
    return figures | {name for name in of_sizes if kinds.get(name) in ("scalar", "bytes")}
