#!/usr/bin/env python3
"""Compares row transforms in Python, `Loader(transform=f)`, with torch's DataLoader, with the same function and number
of workers. Prints one JSON object.

    python benches/transform.py PHOTOS PACKED [--threads 2] [--rounds 3] [--batch 32] [--transforms numpy long]

PHOTOS is a folder of class folders, and PACKED is a dataset packed from it. All sides return random uint8 crops of 224
pixels and call one function per row:

- `nothing` shows the cost of a call.
- `numpy` adds noise from NumPy's generator, which releases the GIL.
- `python` runs 20,000 iterations of a Python loop, which holds the GIL. `long` runs 200,000, which take most of a
  row's time.

There are four sides. `ours` is the loader with `--threads` threads, and `ours_with_workers` is the loader with
`--threads` `transform_workers`. `ours_in_workers` runs one-thread loaders in DataLoader workers
(`shardpack.torch.IterableDataset`). `theirs` is a DataLoader over the files, which Pillow decodes and torchvision
crops. The rounds alternate between the sides, the first round is dropped, and the bench reports ratios of medians. The
page cache is warm. Run the bench with a free-threaded Python too.
"""

import argparse
import functools
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import shardpack as sp
import shardpack.torch
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

Change = Callable[[np.ndarray, int], np.ndarray]


def nothing(image: np.ndarray, seed: int) -> np.ndarray:
    return image


def numpy(image: np.ndarray, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).integers(-8, 9, image.shape, np.int16)
    return np.clip(image + noise, 0, 255).astype(np.uint8)


def python(image: np.ndarray, seed: int, steps: int = 20_000) -> np.ndarray:
    for _ in range(steps):
        seed = (seed * 5 + 1) & 0xFFFF
    image[0, 0, 0] = seed & 0xFF
    return image


CHANGES: dict[str, Change] = {
    "nothing": nothing,
    "numpy": numpy,
    "python": python,
    "long": functools.partial(python, steps=200_000),
}


class Row:
    """The row transform as our loader calls it."""

    def __init__(self, change: Change) -> None:
        self.change = change

    def __call__(self, row: sp.Row) -> None:
        row["image"][...] = self.change(row["image"], row.seed)


class Theirs:
    """The row transform as the DataLoader's dataset calls it."""

    def __init__(self, change: Change) -> None:
        self.change, self.crop = change, v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()])

    def __call__(self, image: Image.Image) -> np.ndarray:
        return self.change(np.array(self.crop(image)), 7)


def sides(photos: Path, packed: Path, change: Change, threads: int, batch: int) -> dict[str, object]:
    options = {"image": "rrc224", "fields": ["image", "label"], "transform": Row(change)}
    workers = {"num_workers": threads, "persistent_workers": True}
    ours = sp.Loader(sp.Dataset(packed), batch, threads=threads, **options)
    with_workers = sp.Loader(sp.Dataset(packed), batch, threads=threads, transform_workers=threads, **options)
    inner = shardpack.torch.IterableDataset(sp.Loader(sp.Dataset(packed), batch, threads=1, **options))
    theirs = ImageFolder(photos, Theirs(change))
    return {
        "ours": ours,
        "ours_with_workers": with_workers,
        "ours_in_workers": DataLoader(inner, batch_size=None, **workers),
        "theirs": DataLoader(theirs, batch, shuffle=True, drop_last=True, **workers),
    }


def rate(loader: object, seconds: float) -> float:
    """Returns the rows per second, measured over whole epochs that together take at least `seconds`."""
    begun, rows = time.perf_counter(), 0
    while (spent := time.perf_counter() - begun) < seconds or rows == 0:
        for images, _ in loader:
            rows += len(images)
    return rows / spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("packed", type=Path)
    for name, value in {"threads": 2, "rounds": 3, "batch": 32}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--transforms", nargs="+", choices=CHANGES, default=list(CHANGES))
    options = parser.parse_args()
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    result = {
        "python": f"{platform.python_version()}, {'with' if has_gil else 'without'} the GIL",
        "threads": options.threads,
        "rows_a_second": {},
        "by_theirs": {},
    }
    for name in options.transforms:
        change = CHANGES[name]
        loaders = sides(options.photos, options.packed, change, options.threads, options.batch)
        rates: dict[str, list[float]] = {side: [] for side in loaders}
        for number in range(options.rounds + 1):
            for side, loader in loaders.items():
                one = rate(loader, options.seconds)
                if number > 0:
                    rates[side].append(one)
        medians = {side: statistics.median(values) for side, values in rates.items()}
        result["rows_a_second"][name] = {side: round(value, 1) for side, value in medians.items()}
        result["by_theirs"][name] = {side: round(value / medians["theirs"], 2) for side, value in medians.items() if side != "theirs"}
        for side in ("ours", "ours_with_workers"):
            loaders[side].close()
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
