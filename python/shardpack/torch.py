"""Adapters for using a loader or a dataset in PyTorch's ``torch.utils.data.DataLoader``.

You probably do not need this module. A :class:`shardpack.Loader` is already an iterable of batches and needs no
worker processes. This module is for programs that require a ``DataLoader``.
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
    ``torch.utils.data.Dataset``, and a function to apply to each sample, such as a torchvision transform written for
    ``ImageFolder``. If you do not need such a function, use a :class:`shardpack.Loader`, which decodes only the visible
    part of a picture and sends nothing between processes.

    Parameters
    ----------
    dataset : Dataset
        The samples.
    transform : callable, optional
        Function that takes a sample, which is a dict with ``"__key__"`` and every field, and returns its
        replacement. If workers are spawned, the function must be picklable.

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
        """Return the samples of a batch, for ``DataLoader``. Neighbouring samples are read together."""
        samples = self.dataset.get_many(indices)
        return samples if self.transform is None else [self.transform(sample) for sample in samples]

    def __repr__(self) -> str:
        return f"MapDataset({self.dataset!r}, transform={self.transform!r})"


class IterableDataset(_Base):
    """The batches of a loader, for ``DataLoader(IterableDataset(loader), batch_size=None, num_workers=…)``.

    Each worker makes its own loader with its own threads. Worker ``w`` of ``W`` workers on rank ``r`` is rank ``r·W +
    w`` of ``world_size·W``. So each sample is still loaded once per epoch, but ``W`` affects which samples share a
    batch and which ones ``end="drop"`` leaves out. Pass ``threads`` to the loader, because otherwise each worker starts
    a thread for every core.

    Workers that are restarted for each epoch cannot count epochs. Call :meth:`set_epoch` before each epoch, as for a
    ``DistributedSampler``. With ``persistent_workers=True`` the workers count epochs themselves, and later calls of
    :meth:`set_epoch` do not reach them.

    The number of batches depends on the workers, so ``len(DataLoader(…))`` raises ``TypeError``. ``len(loader)`` is
    exact only for the loader without workers.

    The position is kept in the workers, so ``state_dict()`` of the original loader does not change. To resume within an
    epoch, use the loader itself, or torchdata's ``StatefulDataLoader``. That class saves and restores the
    :meth:`state_dict` of each worker, provided that the number of workers is the same.

    Parameters
    ----------
    loader : Loader
        The loader. If workers are forked, the threads of this loader must not have started. A loader that decodes on
        a device cannot have workers.
    """

    def __init__(self, loader: Loader) -> None:
        super().__init__()
        self.loader = loader
        self._own: Loader | None = None

    def set_epoch(self, epoch: int) -> None:
        """Start the next iteration at the beginning of ``epoch``."""
        self.loader.set_epoch(epoch)

    def _here(self) -> Loader:
        """Return the loader of this worker, or the original loader if there is no worker."""
        worker = torch.utils.data.get_worker_info()
        if worker is None:
            return self.loader
        if self._own is None:
            self._own = for_worker(self.loader, worker.id, worker.num_workers)
        return self._own

    def __iter__(self) -> Iterator[Batch]:
        # The default `collate_fn` iterates over a batch to get field names, so make iteration yield names.
        return map(collated, iter(self._here()))

    def state_dict(self) -> dict[str, int | str]:
        """Return the position of this process's loader. See :meth:`shardpack.Loader.state_dict`."""
        return self._here().state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state of this worker. See :meth:`shardpack.Loader.load_state_dict`."""
        self._here().load_state_dict(state)

    def __reduce__(self) -> tuple[Any, ...]:
        # A spawned worker starts where the next iteration of this loader would.
        refuse_workers(self.loader)
        return _wrapped, travelling(self.loader, next_state(self.loader))

    def __repr__(self) -> str:
        return f"IterableDataset({self.loader!r})"


def _wrapped(make: Callable[..., Loader], arguments: tuple[Any, ...]) -> IterableDataset:
    return IterableDataset(make(*arguments))
