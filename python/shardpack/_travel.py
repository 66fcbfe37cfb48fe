"""Pickles loaders. A pickle contains the loader's arguments and state, but no threads and no batches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardpack._dataset import Dataset
    from shardpack._loader import Loader
    from shardpack._prepared import LoaderKeywords


def travelling(loader: Loader, state: dict[str, int | str]) -> tuple[Any, ...]:
    # If the rank is known, pickle it, because a DataLoader worker cannot look it up. Otherwise the copy looks it up,
    # because it may be sent to processes that become ranks.
    asks = loader._core.asks and loader.world_size == 1
    rank, world_size = (None, None) if asks else (loader.rank, loader.world_size)
    keywords = replace(loader._keywords, rank=rank, world_size=world_size)
    return _made, (loader._dataset, keywords, state)


def next_state(loader: Loader) -> dict[str, int | str]:
    """Return the state from which the next iteration starts: after an unfinished epoch, the start of the next epoch."""
    state, phase = loader._state()
    if phase in ("running", "broken"):
        return state | {"epoch": int(state["epoch"]) + 1, "samples_consumed": 0}
    return state


def refuse_workers(loader: Loader) -> None:
    """Raise an error if this loader cannot run in DataLoader workers."""
    options = loader._core.options
    if options.stage is not None:
        raise RuntimeError(
            "a loader that puts its batches on a GPU cannot run in DataLoader workers\n"
            "hint: iterate over the loader directly, pass num_workers=0 to the DataLoader, or create the loader with "
            'device="cpu"'
        )
    if options.transform_workers:
        raise RuntimeError(
            f"transform_workers={options.transform_workers} cannot be used in DataLoader workers, which cannot start processes\n"
            "hint: iterate over the loader directly, or leave transform_workers out"
        )


def for_worker(loader: Loader, worker: int, workers: int) -> Loader:
    """Return a loader for one of several workers of this rank."""
    refuse_workers(loader)
    # Get the state first, because doing so determines the rank.
    state = next_state(loader)
    rank, world_size = loader.rank * workers + worker, loader.world_size * workers
    keywords = replace(loader._keywords, rank=rank, world_size=world_size)
    return _made(loader._dataset, keywords, state)


def _made(dataset: Dataset, keywords: LoaderKeywords, state: dict[str, Any]) -> Loader:
    from shardpack._loader import Loader  # it imports this module

    # Make a plain Loader: the constructor of a subclass may take other arguments.
    loader = Loader(dataset, **vars(keywords))
    loader.load_state_dict(state)
    return loader
