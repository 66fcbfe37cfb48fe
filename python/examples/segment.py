"""Label every pixel of hyperspectral scenes: patches of cubes, their masks cut alike.

    python segment.py [DATASET]

A dataset with a field ``cube``, ``[height, width, bands]``, and a field ``mask``, ``[height, width]``, made by
``shardpack pack images/ OUT --masks labels/``, for example.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import shardpack as sp
import tiny


class Net(nn.Module):
    """A layer over the spectrum of each pixel, then two that look at its neighbours."""

    def __init__(self, bands: int, classes: int, mean: float, deviation: float) -> None:
        super().__init__()
        self.mean, self.deviation = mean, deviation
        self.body = nn.Sequential(
            nn.Conv2d(bands, 32, 1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
            nn.Conv2d(32, classes, 3, padding=1),
        )  # fmt: skip

    def forward(self, cube: Tensor) -> Tensor:
        logits: Tensor = self.body((cube.float() - self.mean) / self.deviation)
        return logits


def main(dataset: sp.Dataset) -> None:
    torch.manual_seed(0)
    # A few samples say what the values are like. The labels of all pixels are not known in advance: count them.
    some = dataset.get_many(range(min(8, len(dataset))))
    values = np.stack([sample["cube"] for sample in some])
    classes = 1 + max(int(sample["mask"].max()) for sample in dataset)
    model = Net(values.shape[-1], classes, float(values.mean()), float(values.std()))
    optimizer = torch.optim.AdamW(model.parameters(), 5e-3)
    # Patches lie elsewhere in every epoch; that of a mask always lies where that of its cube does. A loss wants masks
    # as int64.
    loader = sp.Loader(
        dataset, 6, cube="patch32x32", layout="chw", fields=["cube", "mask"], dtype={"mask": "int64"}, to="torch"
    )
    with loader:
        for epoch in range(20):
            total, right, pixels = 0.0, 0, 0
            for batch in loader:
                cube, mask = batch["cube"], batch["mask"]
                logits = model(cube)
                loss = nn.functional.cross_entropy(logits, mask)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
                right += int((logits.argmax(1) == mask).sum())
                pixels += mask.numel()
            if epoch % 5 == 4 or epoch == 0:
                print(f"epoch {epoch}: loss {total / len(loader):.3f}, {right / pixels:.1%} of {pixels} pixels right")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sp.Dataset(sys.argv[1]) if len(sys.argv) > 1 else tiny.cubes(Path(folder) / "cubes"))
