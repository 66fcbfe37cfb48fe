"""Loaders on their way to other processes: what travels is how one was made and where it stands; no threads, no batches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardpack._dataset import Dataset
    from shardpack._loader import Loader
    from shardpack._prepared import LoaderKeywords


def travelling(loader: Loader, state: dict[str, int | str]) -> tuple[Any, ...]:
    """The loader at this state, for pickle."""
    # A place that was found travels: a worker of a DataLoader cannot ask for it. Where there was none yet, the copy
    # asks again: it may be on its way to the processes that become the ranks.
    asks = loader._core.asks and loader.world_size == 1
    rank, world_size = (None, None) if asks else (loader.rank, loader.world_size)
    keywords = replace(loader._keywords, rank=rank, world_size=world_size)
    return _made, (loader._dataset, keywords, state)


def next_state(loader: Loader) -> dict[str, int | str]:
    """The state at which the next iteration begins; after a broken-off epoch, the start of the next epoch."""
    state, phase = loader._state()
    if phase in ("running", "broken"):
        return state | {"epoch": int(state["epoch"]) + 1, "samples_consumed": 0}
    return state


def refuse_workers(loader: Loader) -> None:
    """Raises if a worker of a DataLoader cannot have a loader like this one."""
    options = loader._core.options
    if options.stage is not None:
        raise RuntimeError(
            "workers of a DataLoader: expected a loader that decodes on the host, found one that decodes on a device: "
            "one process does that for each device\n"
            'hint: iterate over the loader itself, or use num_workers=0; decode="host" lets workers decode'
        )
    if options.transform_workers:
        raise RuntimeError(
            f"workers of a DataLoader: expected transform_workers=0, found {options.transform_workers}: a worker may not "
            "start processes\n"
            "hint: iterate over the loader itself, which has its own workers, or leave transform_workers out"
        )


def for_worker(loader: Loader, worker: int, workers: int) -> Loader:
    """A loader for one of several workers of this rank."""
    refuse_workers(loader)
    # First the state, which asks for the place among the ranks.
    state = next_state(loader)
    rank, world_size = loader.rank * workers + worker, loader.world_size * workers
    keywords = replace(loader._keywords, rank=rank, world_size=world_size)
    return _made(loader._dataset, keywords, state)


def _made(dataset: Dataset, keywords: LoaderKeywords, state: dict[str, Any]) -> Loader:
    from shardpack._loader import Loader  # it imports this module

    # A subclass may take other arguments: what travels is the loader alone.
    loader = Loader(dataset, **vars(keywords))
    loader.load_state_dict(state)
    return loader
