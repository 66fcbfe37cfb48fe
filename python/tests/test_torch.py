"""Tests tensors without copies, data loaders with and without workers, and ranks in PyTorch."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import shardpack as sp

torch = pytest.importorskip("torch")

STARTS = ("fork", "forkserver", "spawn")
torch.multiprocessing.set_forkserver_preload(["torch", "shardpack"])


@pytest.fixture(scope="module")
def dataset(squares: Path) -> sp.Dataset:
    return sp.Dataset(squares)


def test_tensors_share_the_memory_of_the_slot(dataset: sp.Dataset) -> None:
    for batch in sp.Loader(dataset, 8, image="rrc32", to="torch"):
        image, label = batch["image"], batch["label"]
        assert (image.dtype, image.shape, label.dtype) == (torch.uint8, (8, 32, 32, 3), torch.int64)
        core = batch._core
        assert core is not None
        for name in batch.keys():
            assert batch[name].data_ptr() == core.tensor(name).__array_interface__["data"][0], name
        assert image.is_contiguous() and torch.equal(image, torch.from_numpy(np.array(core.tensor("image"))))
        assert batch["gpu_jpeg"].dtype == torch.bool and batch["height"].dtype == torch.uint32
        assert batch.indices.dtype == torch.int64


def test_a_tensor_outlives_everything(dataset: sp.Dataset) -> None:
    loader = sp.Loader(dataset, 8, image="center32", shuffle=False, to="torch")
    kept = next(iter(loader))["image"]
    copy = kept.clone()
    list(loader)
    loader.close()
    del loader
    assert torch.equal(kept, copy)
    kept[0] = 9


def test_capsules_are_freed_once(dataset: sp.Dataset) -> None:
    """A slot is released once its tensors are freed, whether or not their capsules were consumed."""
    loader = sp.Loader(dataset, 4, image="center32", prefetch=2)
    for _ in range(20):
        for batch in loader:
            tensor = batch._core.tensor("image")  # type: ignore[union-attr]
            for version in (None, (1, 0), (2, 0), (0, 8)):
                tensor.__dlpack__(max_version=version)
                assert torch.from_dlpack(tensor.__dlpack__(max_version=version)).shape == (4, 32, 32, 3)
    assert loader.stats()["extra_slots"] == 0
    assert tensor.__dlpack_device__() == (1, 0)
    assert "versioned" in repr(tensor.__dlpack__(max_version=(1, 0))) and "versioned" not in repr(tensor.__dlpack__())
    for wrong in ({"dl_device": (2, 0)}, {"copy": True}):
        with pytest.raises(BufferError):
            tensor.__dlpack__(**wrong)


def test_masks_and_ragged_rows(photos: Path) -> None:
    *_, last = sp.Loader(sp.Dataset(photos), 16, end="pad", to="torch")
    assert last.mask.dtype == torch.bool and last.mask.sum() == 12
    assert last["image"][3].shape == tuple(last["image"].shapes[3])
    moved = last.to("cpu", torch.float32)
    assert moved["label"].dtype == torch.float32 and moved["image"][3].dtype == torch.float32
    assert moved.sample_keys == last.sample_keys and len(moved) == 16


def test_devices(dataset: sp.Dataset) -> None:
    batch = next(iter(sp.Loader(dataset, 8, image="center8", to="torch", device="meta")))
    assert batch["image"].device.type == "meta" and batch["image"].shape == (8, 8, 8, 3)


def test_a_state_is_saved_by_torch(dataset: sp.Dataset) -> None:
    loader = sp.Loader(dataset, 8)
    next(iter(loader))
    file = io.BytesIO()
    torch.save(loader.state_dict(), file)
    file.seek(0)
    loader.load_state_dict(torch.load(file))
    assert len(list(loader)) == 5


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("start", STARTS)
def test_map_style(dataset: sp.Dataset, start: str, workers: int) -> None:
    if workers == 0 and start != "fork":
        pytest.skip("no worker is started")
    context: Any = {"num_workers": workers, "multiprocessing_context": start if workers else None}
    subset = dataset.subset(slice(40))
    loader = torch.utils.data.DataLoader(subset, batch_size=8, shuffle=True, timeout=600 if workers else 0, **context)
    seen = []
    for batch in loader:
        assert batch["image"].shape == (8, 48, 48, 3) and batch["label"].dtype == torch.int64
        seen += batch["__key__"]
    assert sorted(seen) == sorted(subset.keys)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("start", STARTS)
def test_iterable_style(dataset: sp.Dataset, start: str, workers: int) -> None:
    if workers == 0 and start != "fork":
        pytest.skip("no worker is started")
    context: Any = {"num_workers": workers, "multiprocessing_context": start if workers else None}
    batches = sp.torch.IterableDataset(sp.Loader(dataset, 5, image="center16", threads=1, end="uneven", to="torch"))
    loader = torch.utils.data.DataLoader(batches, batch_size=None, timeout=600 if workers else 0, **context)
    epochs = []
    # Run only one epoch with spawned workers, because they import everything again.
    for epoch in range(2 if start == "fork" else 1):
        batches.set_epoch(epoch)
        epoch_keys = []
        for batch in loader:
            assert batch["image"].shape == (len(batch), 16, 16, 3)
            assert batch["label"].tolist() == [dataset[int(i)]["label"] for i in batch.indices]
            epoch_keys += batch.sample_keys
        assert sorted(epoch_keys) == sorted(dataset.keys)
        epochs.append(epoch_keys)
    assert len(epochs) == 1 or epochs[0] != epochs[1]


def test_persistent_workers_count_epochs(dataset: sp.Dataset) -> None:
    batches = sp.torch.IterableDataset(sp.Loader(dataset, 8, image="center16", threads=1, end="uneven", to="torch"))
    loader = torch.utils.data.DataLoader(batches, batch_size=None, num_workers=2, persistent_workers=True, timeout=600)
    epochs = [[key for batch in loader for key in batch.sample_keys] for _ in range(3)]
    assert all(sorted(epoch) == sorted(dataset.keys) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_a_worker_does_not_begin_where_somebody_peeked(dataset: sp.Dataset) -> None:
    loader = sp.Loader(dataset, 5, image="center16", threads=1, end="uneven", to="torch")
    next(iter(loader))
    there = pickle.loads(pickle.dumps(sp.torch.IterableDataset(loader)))
    assert sorted(key for batch in there for key in batch.sample_keys) == sorted(dataset.keys)


def test_a_worker_resumes_by_its_own_state(dataset: sp.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    info = SimpleNamespace(id=1, num_workers=2)
    monkeypatch.setattr(torch.utils.data, "get_worker_info", lambda: info)
    loader = sp.Loader(dataset, 5, image="center16", threads=1, end="uneven", to="torch")
    first, second = sp.torch.IterableDataset(loader), sp.torch.IterableDataset(loader)
    batches = iter(first)
    begun = [next(batches).sample_keys for _ in range(2)]
    second.load_state_dict(first.state_dict())
    rest = [batch.sample_keys for batch in second]
    assert rest == [batch.sample_keys for batch in batches] and len(begun + rest) == 5
    assert loader.state_dict()["samples_consumed"] == 0


def test_a_loader_that_has_begun_is_refused_in_a_fork(dataset: sp.Dataset) -> None:
    begun = sp.Loader(dataset, 8, image="center16", threads=1, to="torch")
    iteration = iter(begun)
    next(iteration)
    loader = torch.utils.data.DataLoader(
        Begun(begun), batch_size=None, num_workers=1, multiprocessing_context="fork", timeout=600
    )
    with pytest.raises(RuntimeError, match="cannot be used after a fork"):
        list(loader)
    assert len(list(iteration)) == 5, "and continues in the parent"


class Begun(torch.utils.data.IterableDataset):  # type: ignore[misc, name-defined]
    """A PyTorch dataset that iterates over a loader of the parent process."""

    def __init__(self, loader: sp.Loader) -> None:
        self.loader = loader

    def __iter__(self) -> Any:
        return iter(self.loader)


def test_a_loader_is_no_dataset_of_a_data_loader(dataset: sp.Dataset) -> None:
    loader = torch.utils.data.DataLoader(sp.Loader(dataset, 8), batch_size=None)
    with pytest.raises(TypeError, match="IterableDataset"):
        next(iter(loader))


def test_a_torch_subset_meets_a_hint(dataset: sp.Dataset) -> None:
    first, _ = torch.utils.data.random_split(dataset, [40, 8])
    with pytest.raises(TypeError, match=r"found Subset\nhint: .*part\.dataset\.subset\(part\.indices\)"):
        sp.Loader(first)
    assert len(dataset.subset(first.indices)) == 40


def test_tensors_are_indices(dataset: sp.Dataset) -> None:
    assert [sample["__key__"] for sample in dataset[torch.tensor([2, 1])]] == [dataset.keys[2], dataset.keys[1]]
    for two in (torch.tensor(2), np.array(2)):
        sample: Any = dataset[two]
        assert sample["__key__"] == dataset.keys[2]
    mask = torch.arange(48) < 2
    assert len(dataset[mask]) == 2 == len(dataset.subset(mask))


def double(sample: sp.Sample) -> tuple[Any, int]:
    return torch.from_numpy(sample["image"]).permute(2, 0, 1), 2 * sample["label"]


@pytest.mark.parametrize("workers", [0, 2])
def test_map_style_with_a_transform(dataset: sp.Dataset, workers: int) -> None:
    plain = sp.torch.MapDataset(dataset)
    assert isinstance(plain, torch.utils.data.Dataset) and len(plain) == 48
    assert plain[3]["__key__"] == dataset.keys[3] == plain.__getitems__([3])[0]["__key__"]
    doubled = sp.torch.MapDataset(dataset, double)
    assert doubled[-1][1] == 2 * dataset.labels[-1] and "double" in repr(doubled)
    loader = torch.utils.data.DataLoader(doubled, batch_size=8, num_workers=workers, timeout=600 if workers else 0)
    labels = []
    for images, twice in loader:
        assert images.shape == (8, 3, 48, 48)
        labels += twice.tolist()
    assert labels == (2 * dataset.labels).tolist()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_data_loader_keeps_batches_whole(dataset: sp.Dataset, workers: int) -> None:
    """If batches are ready-made, a DataLoader's default function copies mappings."""
    loader = sp.Loader(dataset, 10, image="center16", threads=1, end="pad", to="torch")
    through = torch.utils.data.DataLoader(
        sp.torch.IterableDataset(loader), batch_size=None, num_workers=workers, timeout=600 if workers else 0
    )
    count = 0
    for batch in through:
        assert isinstance(batch, sp.Batch) and list(batch.keys())[:2] == ["image", "label"] and len(batch.sample_keys) == 10
        assert batch.indices[batch.mask].tolist() == [dataset.index_of(key) for key in batch.sample_keys if key]
        count += int(batch.mask.sum())
    assert count == 48


def test_default_collate_takes_batches(dataset: sp.Dataset) -> None:
    batches = list(sp.Loader(dataset, 8, image="center16", to="torch", fields=["image", "label"]))
    # `default_collate` iterates over a mapping to get names, but a batch yields its values.
    with pytest.raises(TypeError, match=r"expected the name of a field, found Tensor\nhint: use batch\['image'\]"):
        torch.utils.data.default_collate(batches)
    stacked = torch.utils.data.default_collate([dict(batch) for batch in batches])
    assert stacked["image"].shape == (6, 8, 16, 16, 3) and list(stacked.keys()) == ["image", "label"]


def ranked(rank: int, address: str, path: Path, results: Any) -> None:
    """Runs one process of a process group."""
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{address}", rank=rank, world_size=2)
    loader = sp.Loader(sp.Dataset(path), 4, image="center8", to="torch")
    results.put((loader.rank, loader.world_size, [key for batch in loader for key in batch.sample_keys]))
    dist.destroy_process_group()


def test_ranks_come_from_torch_distributed(dataset: sp.Dataset, tmp_path: Path) -> None:
    context = torch.multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [
        context.Process(target=ranked, args=(rank, tmp_path / "store", dataset.path, results)) for rank in range(2)
    ]
    for process in processes:
        process.start()
    found = sorted(results.get(timeout=600) for _ in processes)
    for process in processes:
        process.join()
    assert [(rank, world) for rank, world, _ in found] == [(0, 2), (1, 2)]
    assert sorted(found[0][2] + found[1][2]) == sorted(dataset.keys)
