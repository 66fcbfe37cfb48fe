"""Train on 16-bit pictures without losing a level. The model finds differences that are invisible in 8 bits.

    python sixteen_bits.py [FOLDER]

FOLDER has class folders with grey 16-bit PNGs and TIFFs of one size, such as X-ray or microscope pictures. Without
FOLDER, the program makes some pictures. Half of them have a spot that is 60 of 65,536 levels brighter than its
surroundings.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

import shardpack as sp

SIDE = 48


def make(folder: Path, count: int = 240) -> Path:
    """Make pictures of 64 × 64 pixels in the class folders ``plain`` and ``spot``, alternately as PNG and TIFF."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:64, :64]
    for number in range(count):
        kind, suffix = ("plain", "spot")[number % 2], ("png", "tif")[number // 2 % 2]
        y, x = rng.integers(20, 44, 2)
        spot = 60 * ((rows - y) ** 2 + (columns - x) ** 2 < 64) * (kind == "spot")
        levels = rng.integers(2_000, 60_000) + spot + rng.normal(0, 12, (64, 64))
        (folder / kind).mkdir(parents=True, exist_ok=True)
        Image.fromarray(levels.astype(np.uint16)).save(folder / kind / f"{number:03}.{suffix}")
    return folder


def lost(folder: Path, dataset: sp.Dataset) -> int:
    """Return the number of pictures in the dataset that differ from their file in any pixel."""
    files = {path.relative_to(folder).with_suffix("").as_posix(): path for path in folder.glob("*/*.*")}
    assert len(files) == len(dataset)
    differ = 0
    for sample in dataset:
        with Image.open(files[sample["__key__"].rsplit(".", 1)[0]]) as file:
            differ += not np.array_equal(np.asarray(file, np.uint16), sample["cube"][..., 0])
    return differ


class Net(nn.Module):
    """Subtracts the mean of each picture, then applies two convolutions."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 5, 2), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 5, 2), nn.BatchNorm2d(32), nn.ReLU(),
            nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(32, classes),
        )  # fmt: skip

    def forward(self, pictures: Tensor) -> Tensor:
        logits: Tensor = self.body(pictures - pictures.mean((2, 3), keepdim=True))
        return logits


def train(dataset: sp.Dataset, level: int) -> float:
    """Return the held-out accuracy of a model that sees only every ``level``-th level."""
    torch.manual_seed(0)
    mean, deviation = 32_768.0, 30.0
    # The loader converts uint16 to floats, (level − mean) / std, and rounds only once.
    options: dict[str, Any] = {
        "cube": f"center{SIDE}x{SIDE}", "layout": "chw", "fields": ["cube", "label"], "dtype": {"cube": "float32"},
        "mean": {"cube": mean}, "std": {"cube": deviation}, "to": "torch",
    }  # fmt: skip
    last = len(dataset) // 4
    held_out, rest = dataset.subset(range(last)), dataset.subset(range(last, len(dataset)))
    model = Net(len(dataset.classes or ()))
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)

    def seen(pictures: Tensor) -> Tensor:
        levels = (pictures * deviation + mean).round()
        return ((levels / level).floor() * level - mean) / deviation

    with sp.Loader(rest, 20, augment=["hflip", "vflip"], **options) as loader:
        for _ in range(12):
            for batch in loader:
                loss = nn.functional.cross_entropy(model(seen(batch["cube"])), batch["label"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    model.eval()
    right = 0
    with sp.Loader(held_out, 20, shuffle=False, end="uneven", **options) as loader, torch.inference_mode():
        for batch in loader:
            right += int((model(seen(batch["cube"])).argmax(1) == batch["label"]).sum())
    return right / last


def main(folder: Path, out: Path) -> None:
    start = time.perf_counter()
    sp.pack(folder, out, kind="cubes", class_folders="on")
    dataset = sp.Dataset(out)
    seconds = time.perf_counter() - start
    print(f"{len(dataset)} pictures of {', '.join(dataset.classes or ())} packed in {seconds:.1f} s: {dataset[0]['cube'].dtype}")
    print(f"{lost(folder, dataset)} pictures lost a level")
    print(f"held out: {train(dataset, 1):.0%} right with 16 bits, {train(dataset, 256):.0%} if they had been cut to 8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else make(Path(scratch) / "pictures"), Path(scratch) / "packed")
