"""Iterates over one epoch of a loader and calls ``transform_batch``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from shardpack._batch import Batch

if TYPE_CHECKING:
    from shardpack._loader import Loader


class Iteration(Iterator[Batch]):
    """Iterates over one epoch of a loader, or over the rest of an epoch after resuming."""

    def __init__(self, loader: Loader, turn: int) -> None:
        self._loader, self._turn, self._over = loader, turn, False

    def __next__(self) -> Batch:
        if self._over:
            raise StopIteration
        try:
            return self._loader._next(self._turn)
        except StopIteration:
            self._over = True
            raise


def changed(change: Callable[[Batch], Batch | None], batch: Batch) -> Batch:
    try:
        result = change(batch)
    except Exception as error:
        first = next(iter(batch.sample_keys), "")
        error.add_note(f"in transform_batch, for the batch that begins with sample {first!r}")
        raise
    if result is None:
        return batch
    if not isinstance(result, Batch):
        raise TypeError(f"transform_batch must return None or a batch, but returned {type(result).__name__}")
    return result
