"""Segment hyperspectral scenes: train on several patches of each scene, then stitch predicted patches into whole
scenes.

    python segment.py [DATASET]

DATASET has a field ``cube``, ``[height, width, bands]``, and a field ``mask``, ``[height, width]``, for example from
``shardpack pack images/ OUT --masks labels/``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import shardpack as sp
import tiny


class Net(nn.Module):
    """Applies a layer to the spectrum of each pixel, then two layers to the pixel's neighbours."""

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
    # Estimate the mean and standard deviation from a few samples. Count the classes over all masks.
    some = dataset.get_many(range(min(8, len(dataset))))
    values = np.concatenate([sample["cube"].reshape(-1, sample["cube"].shape[-1]) for sample in some])
    classes = 1 + max(int(sample["mask"].max()) for sample in dataset)
    model = Net(values.shape[-1], classes, float(values.mean()), float(values.std()))
    optimizer = torch.optim.AdamW(model.parameters(), 5e-3)
    # Load four random patches of each scene per epoch, at the same places in cube and mask. PyTorch's losses require
    # int64 masks.
    side = min(24, *(min(sample["mask"].shape) for sample in some))
    options: dict[str, Any] = {"cube": f"patch{side}x{side}", "layout": "chw", "fields": ["cube", "mask"], "dtype": {"mask": "int64"}}
    loader = sp.Loader(dataset, 8, patches_per_sample=4, to="torch", **options)
    with loader:
        for epoch in range(10):
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
            if epoch % 3 == 0:
                print(f"epoch {epoch}: loss {total / len(loader):.3f}, {right / pixels:.1%} of {pixels} pixels right")
    predict(dataset, model.eval(), options)


def predict(dataset: sp.Dataset, model: Net, options: dict[str, Any]) -> None:
    """Predict whole scenes, stitched from overlapping patches."""
    side = int(options["cube"].split("x")[-1])
    grid: dict[str, Any] = {"patches": "grid", "overlap": side // 2, "shuffle": False, "end": "uneven"}
    loader = sp.Loader(dataset, 16, to="torch", **grid, **options)
    right = pixels = scenes = 0
    with torch.inference_mode(), loader, sp.stitch(loader, window="hann") as stitcher:
        for batch in loader:
            for scene in stitcher.add(batch, model(batch["cube"]).softmax(1)):
                mask = dataset[scene.index]["mask"]
                right += int((scene.values.argmax(0) == mask).sum())
                pixels, scenes = pixels + mask.size, scenes + 1
    print(f"{scenes} whole scenes: {right / pixels:.1%} of {pixels} pixels right")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sp.Dataset(sys.argv[1]) if len(sys.argv) > 1 else tiny.cubes(Path(folder) / "cubes"))
