"""PyTorch: a loader, or a dataset, inside a ``torch.utils.data.DataLoader``.

You probably do not need this module: a :class:`shardpack.Loader` is already an iterable of batches and needs no worker
processes. This module is for programs that require a ``DataLoader``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch.utils.data

from shardpack._batch import Batch, collated
from shardpack._dataset import Dataset, Sample
from shardpack._loader import Loader
from shardpack._travel import for_worker, next_state, refuse_workers, travelling

if TYPE_CHECKING:
    _Base = torch.utils.data.IterableDataset[Batch]
    _MapBase = torch.utils.data.Dataset[Any]
else:
    _Base = torch.utils.data.IterableDataset
    _MapBase = torch.utils.data.Dataset

__all__ = ["IterableDataset", "MapDataset"]


class MapDataset(_MapBase):
    """The samples of a dataset, for ``DataLoader(MapDataset(dataset, transform), batch_size=…, num_workers=…)``.

    A :class:`shardpack.Dataset` already works in a ``DataLoader``. This class adds the type
    ``torch.utils.data.Dataset`` and a function applied to single samples, such as a torchvision transform written for
    ``ImageFolder``. Without such a function use a :class:`shardpack.Loader`, which decodes only the visible part of a
    picture and sends nothing between processes.

    Parameters
    ----------
    dataset : Dataset
        The samples.
    transform : callable, optional
        Takes a sample, a dict with ``"__key__"`` and every field, and returns its replacement. Spawned workers need a
        picklable function.

    Examples
    --------
    >>> augment = torchvision.transforms.v2.RandomResizedCrop(224)             # doctest: +SKIP
    >>> def pair(sample):                                                      # doctest: +SKIP
    ...     return augment(torch.from_numpy(sample["image"]).permute(2, 0, 1)), sample["label"]
    >>> loader = torch.utils.data.DataLoader(                                  # doctest: +SKIP
    ...     sp.torch.MapDataset(sp.Dataset("train"), pair), batch_size=64, shuffle=True, num_workers=8
    ... )
    """

    def __init__(self, dataset: Dataset, transform: Callable[[Sample], Any] | None = None) -> None:
        self.dataset = dataset
        self.transform = transform

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        sample = self.dataset[index]
        return sample if self.transform is None else self.transform(sample)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """The samples of a batch, for ``DataLoader``; neighbouring samples are read together."""
        samples = self.dataset.get_many(indices)
        return samples if self.transform is None else [self.transform(sample) for sample in samples]

    def __repr__(self) -> str:
        return f"MapDataset({self.dataset!r}, transform={self.transform!r})"


class IterableDataset(_Base):
    """The batches of a loader, for ``DataLoader(IterableDataset(loader), batch_size=None, num_workers=…)``.

    Each worker makes its own loader, with its own threads: worker ``w`` of ``W`` on rank ``r`` is rank ``r·W + w`` of
    ``world_size·W``. All samples of an epoch therefore come once, but ``W`` changes the samples of each batch and the
    samples that ``end="drop"`` leaves out. Pass ``threads`` to the loader, or each worker starts a thread for every
    core.

    Workers that are restarted for each epoch do not know the epoch: call :meth:`set_epoch` before each one, as for a
    ``DistributedSampler``. With ``persistent_workers=True`` the workers count epochs themselves, and later calls do not
    reach them.

    The number of batches depends on the workers, so ``len(DataLoader(…))`` is a ``TypeError``; ``len(loader)`` is exact
    for the loader alone.

    Only the workers know their position, so ``state_dict()`` of the original loader does not change. To resume within
    an epoch, use the loader itself, or torchdata's ``StatefulDataLoader``, which saves and restores the
    :meth:`state_dict` of each worker for the same number of workers.

    Parameters
    ----------
    loader : Loader
        The loader. With forked workers, its threads must not have started. A loader that decodes on a device cannot
        have workers.
    """

    def __init__(self, loader: Loader) -> None:
        super().__init__()
        self.loader = loader
        self._own: Loader | None = None

    def set_epoch(self, epoch: int) -> None:
        """Start the next iteration at the beginning of ``epoch``."""
        self.loader.set_epoch(epoch)

    def _here(self) -> Loader:
        """Return the loader of this worker, or of the process itself."""
        worker = torch.utils.data.get_worker_info()
        if worker is None:
            return self.loader
        if self._own is None:
            self._own = for_worker(self.loader, worker.id, worker.num_workers)
        return self._own

    def __iter__(self) -> Iterator[Batch]:
        # The default `collate_fn` iterates over the names of a batch's fields.
        return map(collated, iter(self._here()))

    def state_dict(self) -> dict[str, int | str]:
        """Return the position of this process's loader; see :meth:`shardpack.Loader.state_dict`."""
        return self._here().state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state of this worker: :meth:`shardpack.Loader.load_state_dict`."""
        self._here().load_state_dict(state)

    def __reduce__(self) -> tuple[Any, ...]:
        # Spawned workers start where the next iteration would.
        refuse_workers(self.loader)
        return _wrapped, travelling(self.loader, next_state(self.loader))

    def __repr__(self) -> str:
        return f"IterableDataset({self.loader!r})"


def _wrapped(make: Callable[..., Loader], arguments: tuple[Any, ...]) -> IterableDataset:
    return IterableDataset(make(*arguments))
