"""What is exported: samples of a dataset, field by field, pictures as their stored bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

_SECONDS_BETWEEN_REPORTS = 0.1


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
        for name in fields or ():
            if name not in kinds:
                raise ValueError(f"fields: expected some of {', '.join(kinds)}, found: {name!r}")
        self.kinds: dict[str, str] = {name: kind for name, kind in kinds.items() if fields is None or name in fields}
        """Field to kind: image, array, text, json, bytes or scalar."""
        self.classes: list[str] | None = self.dataset.classes
        self._progress = progress
        self._started = started
        self._reported = 0.0
        self._done = 0

    def __len__(self) -> int:
        return len(self.dataset)

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Key and fields of each sample, pictures as their stored bytes, scalars as NumPy scalars of their type."""
        encoded = [name for name, kind in self.kinds.items() if kind == "image"]
        return self._walk(encoded)

    def decoded(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The same with pictures as uint8 `[height, width, 3]`."""
        return self._walk([])

    def _walk(self, encoded: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        columns = {name: self.dataset.column(name) for name, kind in self.kinds.items() if kind == "scalar"}
        # A sample is decoded as a whole: not where pictures and numbers are all there is.
        decode = any(name not in columns and name not in encoded for name in self.kinds)
        for index, key in enumerate(self.dataset.keys):
            values = self.dataset[index] if decode else {}
            sample: dict[str, Any] = {}
            for name in self.kinds:
                if name in columns:
                    sample[name] = columns[name][index]
                elif name in encoded:
                    sample[name] = self.dataset.raw(index, name)
                else:
                    sample[name] = values[name]
            yield key, sample
            self._done += 1
            self.report()

    def report(self, last: bool = False) -> None:
        """Tell the caller how far it is."""
        seconds = time.monotonic() - self._started
        if self._progress is not None and (last or seconds - self._reported >= _SECONDS_BETWEEN_REPORTS):
            self._reported = seconds
            self._progress({"samples": self._done, "total": len(self), "seconds": seconds})
