"""Segment CT-like volumes: train a small 3-D U-Net on 3-D patches, with the augmentation of nnU-Net.

    python volumes_3d.py [DATASET] [--device cuda:0] [--epochs 6]

DATASET has arrays ``volume`` and ``mask``, both ``[depth, height, width]``. Without DATASET, the program makes some
volumes. At the end, it compares the loading rate with a PyTorch ``DataLoader`` whose workers do the same with NumPy and
SciPy, and with MONAI if it is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import shardpack as sp

BOX = (24, 32, 32)
SIDES = (40, 56, 48)
CLASSES = 3
MEAN, STD = 40.0, 300.0


def volume(number: int) -> tuple[NDArray[np.int16], NDArray[np.uint8]]:
    """Return a noisy volume that contains an ellipsoid (class 1) with a ball inside (class 2), and its mask."""
    rng = np.random.default_rng(number)
    axes = np.meshgrid(*(np.arange(side, dtype=np.float32) for side in SIDES), indexing="ij")
    centre = [rng.uniform(0.35, 0.65) * side for side in SIDES]
    radii = [rng.uniform(0.25, 0.35) * side for side in SIDES]
    far = np.sum([((axis - at) / radius) ** 2 for axis, at, radius in zip(axes, centre, radii, strict=True)], axis=0)
    shift = rng.uniform(-3, 3, 3)
    ball = np.sum([(axis - at - by) ** 2 for axis, at, by in zip(axes, centre, shift, strict=True)], axis=0)
    mask = (far < 1).astype(np.uint8) + (ball < 36).astype(np.uint8)
    values = np.array([-500, 100, 500])[mask] + rng.normal(0, 150, SIDES)
    return values.astype(np.int16), mask


def make(folder: Path, count: int = 12) -> None:
    with sp.Writer(folder, values="keep") as writer:
        for number in range(count):
            values, mask = volume(number)
            writer.write({"volume": values, "mask": mask}, key=f"v{number:02}")


class Block(nn.Sequential):
    def __init__(self, inside: int, outside: int) -> None:
        layers: list[nn.Module] = []
        for channels in (inside, outside):
            layers += [nn.Conv3d(channels, outside, 3, padding=1), nn.InstanceNorm3d(outside, affine=True), nn.LeakyReLU(0.01)]
        super().__init__(*layers)


class UNet(nn.Module):
    def __init__(self, classes: int, width: int = 8) -> None:
        super().__init__()
        self.first, self.second, self.third = Block(1, width), Block(width, 2 * width), Block(2 * width, 4 * width)
        self.up_second, self.up_first = nn.ConvTranspose3d(4 * width, 2 * width, 2, 2), nn.ConvTranspose3d(2 * width, width, 2, 2)
        self.back_second, self.back_first = Block(4 * width, 2 * width), Block(2 * width, width)
        self.head = nn.Conv3d(width, classes, 1)

    def forward(self, volumes: Tensor) -> Tensor:
        half = nn.functional.max_pool3d
        first = self.first(volumes[:, None])
        second = self.second(half(first, 2))
        third = self.third(half(second, 2))
        second = self.back_second(torch.cat([second, self.up_second(third)], 1))
        logits: Tensor = self.head(self.back_first(torch.cat([first, self.up_first(second)], 1)))
        return logits


def options(device: str | None) -> dict[str, Any]:
    where: dict[str, Any] = {"device": device, "to": "torch"} if device else {"to": "torch"}
    box = "x".join(map(str, BOX))
    return {"cube": f"patch{box}", "fields": ["volume", "mask"], "mean": {"volume": MEAN}, "std": {"volume": STD}, **where}


def dice(predicted: Tensor, mask: Tensor) -> float:
    """Return the mean Dice coefficient of all classes except the background."""
    scores: list[float] = []
    for number in range(1, CLASSES):
        one, other = predicted == number, mask == number
        scores.append(2 * (one & other).sum().item() / max((one.sum() + other.sum()).item(), 1))
    return sum(scores) / len(scores)


def main(dataset: sp.Dataset, device: str | None, epochs: int) -> None:
    torch.manual_seed(0)
    held_out = max(1, len(dataset) // 4)
    train, test = dataset.subset(range(held_out, len(dataset))), dataset.subset(range(held_out))
    model = UNet(CLASSES).to(device or "cpu")
    optimizer = torch.optim.AdamW(model.parameters(), 4e-3)
    loader = sp.Loader(train, 6, patches_per_sample=4, augment=sp.augment.nnunet(), **options(device))
    with loader:
        for epoch in range(epochs):
            total = 0.0
            for batch in loader:
                loss = nn.functional.cross_entropy(model(batch["volume"]), batch["mask"].long())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
            print(f"epoch {epoch}: loss {total / len(loader):.3f}")
    model.eval()
    # Evaluate the central box of each volume that the model has not seen.
    middle = options(device) | {"cube": "center" + "x".join(map(str, BOX))}
    with torch.no_grad(), sp.Loader(test, 2, shuffle=False, end="uneven", **middle) as loader:
        scores = [dice(model(batch["volume"]).argmax(1), batch["mask"]) for batch in loader]
    print(f"held out: dice {sum(scores) / len(scores):.3f}")
    rates(dataset, device)


def rates(dataset: sp.Dataset, device: str | None) -> None:
    """Print the number of boxes loaded and augmented per second, without a model."""
    with sp.Loader(dataset, 4, patches_per_sample=4, threads=2, augment=sp.augment.nnunet(), **options(device)) as loader:
        ours = rate(loader)
    rows = [("shardpack, 2 threads", ours), ("DataLoader, 2 workers with NumPy and SciPy", rate(workers(Boxes(dataset))))]
    if importlib.util.find_spec("monai"):
        rows.append(("MONAI, 2 workers", rate(workers(Monai(dataset)))))
    for name, boxes in rows:
        print(f"{name}: {boxes:.0f} boxes a second")


def workers(boxes: torch.utils.data.Dataset[Any]) -> Iterable[Any]:
    batches: Iterable[Any] = torch.utils.data.DataLoader(boxes, 4, shuffle=True, num_workers=2, persistent_workers=True)
    return batches


def rate(batches: Iterable[Any]) -> float:
    """Return the boxes per second in batches of 4, after one warm-up epoch."""
    sum(1 for _ in batches)
    start = time.perf_counter()
    count = sum(1 for _ in range(2) for _ in batches)
    return 4 * count / (time.perf_counter() - start)


class Boxes(torch.utils.data.Dataset[tuple[NDArray[np.float32], NDArray[np.uint8]]]):
    """Cuts boxes from volumes in memory, and augments them with the same probabilities in ``DataLoader`` workers."""

    def __init__(self, dataset: sp.Dataset) -> None:
        with sp.Loader(dataset, 1, shuffle=False, fields=["volume", "mask"], cube="whole") as loader:
            self.volumes = [(batch["volume"][0].copy(), batch["mask"][0].copy()) for batch in loader]

    def __len__(self) -> int:
        return 4 * len(self.volumes)

    def __getitem__(self, number: int) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
        from scipy import ndimage

        rng, (values, mask) = np.random.default_rng(), self.volumes[number // 4]
        origin = np.array([rng.integers(0, side - box + 1) for side, box in zip(values.shape, BOX, strict=True)])
        rotates, scales = rng.random(2) < 0.2
        part = tuple(slice(at, at + box) for at, box in zip(origin, BOX, strict=True))
        if rotates or scales:
            turn = np.eye(3)
            for axes in [(1, 2), (0, 2), (0, 1)] if rotates else []:
                angle, one = np.radians(rng.uniform(-30, 30)), np.eye(3)
                one[np.ix_(axes, axes)] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
                turn = turn @ one
            turn = turn * (rng.uniform(0.7, 1.4) if scales else 1)
            half = (np.array(BOX) - 1) / 2
            offset = origin + half - turn @ half
            box = ndimage.affine_transform(values.astype(np.float32), turn, offset, BOX, order=1, mode="constant")
            mask = ndimage.affine_transform(mask, turn, offset, BOX, order=0, mode="constant")
        else:
            box, mask = values[part].astype(np.float32), mask[part]
        box = (box - MEAN) / STD
        if rng.random() < 0.1:
            box = box + rng.normal(0, rng.uniform(0, 0.1), BOX)
        if rng.random() < 0.15:
            box = box * rng.uniform(0.75, 1.25)
        if rng.random() < 0.25 * 0.5:
            share = rng.uniform(0.5, 1)
            low = ndimage.zoom(box, share, order=0)
            box = ndimage.zoom(low, np.array(BOX) / low.shape, order=1)
        if rng.random() < 0.3:
            least, most = box.min(), box.max()
            box = least + (most - least) * ((box - least) / (most - least)) ** rng.uniform(0.7, 1.5)
        for axis in range(3):
            if rng.random() < 0.5:
                box, mask = np.flip(box, axis), np.flip(mask, axis)
        return np.ascontiguousarray(box, np.float32), np.ascontiguousarray(mask)


class Monai(Boxes):
    """The same boxes, augmented with MONAI's transforms."""

    def __getitem__(self, number: int) -> Any:
        from monai import transforms as t

        keys = ["volume", "mask"]
        steps = t.Compose([
            t.RandSpatialCropd(keys, BOX, random_size=False),
            t.RandAffined(keys, prob=0.36, rotate_range=(np.pi / 6,) * 3, scale_range=(0.35,) * 3, mode=["bilinear", "nearest"], padding_mode="zeros"),
            t.RandGaussianNoised("volume", 0.1, 0.0, 0.1), t.RandScaleIntensityd("volume", 0.25, 0.15),
            t.RandSimulateLowResolutiond("volume", 0.125, zoom_range=(0.5, 1.0)), t.RandAdjustContrastd("volume", 0.3, (0.7, 1.5)),
            *(t.RandFlipd(keys, 0.5, axis) for axis in range(3)),
        ])  # fmt: skip
        values, mask = self.volumes[number // 4]
        done = steps({"volume": (values[None].astype(np.float32) - MEAN) / STD, "mask": mask[None]})
        return done["volume"][0], done["mask"][0]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Segment volumes by 3-D patches, with the augmentation of nnU-Net.")
    parser.add_argument("dataset", nargs="?")
    parser.add_argument("--device")
    parser.add_argument("--epochs", type=int, default=6)
    given = parser.parse_args()
    if given.dataset:
        main(sp.Dataset(given.dataset), given.device, given.epochs)
    else:
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder) / "packed")
            main(sp.Dataset(Path(folder) / "packed"), given.device, given.epochs)
