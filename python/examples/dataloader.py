"""Load samples or batches through a ``torch.utils.data.DataLoader``, for programs that require one.

    python dataloader.py [DATASET]

Map style: ``shardpack.Dataset`` with your own collate function. Iterable style: ``shardpack.torch.IterableDataset``
around a loader; each worker loads its part of every epoch. A ``shardpack.Loader`` without a DataLoader does the same
with threads instead of worker processes.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import DataLoader

import shardpack as sp
import tiny


def collate(samples: list[sp.Sample]) -> tuple[Tensor, Tensor]:
    """Return the central 48 × 48 pixels of the pictures, and their labels."""
    images = []
    for sample in samples:
        height, width, _ = sample["image"].shape
        top, left = (height - 48) // 2, (width - 48) // 2
        images.append(torch.from_numpy(sample["image"][top : top + 48, left : left + 48]))
    return torch.stack(images), torch.tensor([sample["label"] for sample in samples])


def main(dataset: sp.Dataset) -> None:
    for workers in (0, 2):
        # The dataset has all methods of a map-style dataset. It does not inherit from torch's class, because shardpack
        # does not depend on torch.
        map_style: DataLoader[sp.Sample] = DataLoader(
            dataset, 8, shuffle=True, num_workers=workers, collate_fn=collate  # type: ignore[arg-type]
        )
        count = sum(len(labels) for _, labels in map_style)
        print(f"map style, {workers} workers: {count} samples")

    for workers in (0, 2):
        loader = sp.Loader(dataset, 8, image="rrc48", layout="chw", end="uneven", to="torch", threads=1)
        iterable = sp.torch.IterableDataset(loader)
        # batch_size=None, because the loader already makes batches.
        batches: DataLoader[sp.Batch] = DataLoader(iterable, batch_size=None, num_workers=workers)
        for epoch in range(2):
            iterable.set_epoch(epoch)
            keys = [key for batch in batches for key in batch.sample_keys]
            counts = f"{len(keys)} samples, {len(set(keys))} different"
            print(f"iterable, {workers} workers, epoch {epoch}: {counts}, first {keys[0]}")
        loader.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sp.Dataset(sys.argv[1]) if len(sys.argv) > 1 else tiny.photos(Path(folder) / "photos"))
