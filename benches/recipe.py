#!/usr/bin/env python3
"""Compares our loader with torch's DataLoader and torchvision's transforms in loading pictures for an ImageNet recipe,
with the same number of threads or workers. Prints one JSON object.

    python benches/recipe.py PHOTOS PACKED [--threads 2] [--rounds 3] [--batch 64]

PHOTOS is a folder of class folders, and PACKED is a dataset packed from it. The recipe consists of random crops of 224
pixels, flips, TrivialAugmentWide, normalised float32, erasing with probability 0.1, and Mixup or CutMix. The epochs
alternate between the sides, and the best epoch of each side is reported. The page cache is warm.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import torch
import torchvision
from torch.utils.data import DataLoader, default_collate
from torchvision.transforms import v2

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "examples"))
import imagenet_recipe
import shardpack as sp


class Collate:
    def __init__(self, classes: int) -> None:
        kinds = [v2.MixUp(alpha=0.2, num_classes=classes), v2.CutMix(alpha=1.0, num_classes=classes)]
        self.mix = v2.RandomChoice(kinds)

    def __call__(self, samples: list) -> tuple:
        return self.mix(*default_collate(samples))


def theirs(photos: Path, batch: int, workers: int, tensors: bool) -> DataLoader:
    """Returns a DataLoader with the transforms of torchvision's reference scripts, applied to Pillow pictures or
    tensors."""
    steps = [v2.PILToTensor()] if tensors else []
    steps += [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(), v2.TrivialAugmentWide()]
    steps += [] if tensors else [v2.PILToTensor()]
    steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(imagenet_recipe.MEAN, imagenet_recipe.STD)]
    dataset = torchvision.datasets.ImageFolder(photos, v2.Compose([*steps, v2.RandomErasing(p=0.1)]))
    collate = Collate(len(dataset.classes))
    return DataLoader(
        dataset, batch, shuffle=True, num_workers=workers, collate_fn=collate, drop_last=True, persistent_workers=True
    )


def rate(loader: object, batch: int) -> float:
    begun, rows = time.perf_counter(), 0
    for images, labels in loader:
        assert images.shape == (batch, 3, 224, 224) and labels.ndim == 2
        rows += batch
    return rows / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photos", type=Path)
    parser.add_argument("packed", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args()
    torch.set_num_threads(1)
    recipe = imagenet_recipe.recipe(224) | {"threads": options.threads, "to": "torch"}
    plain = {name: value for name, value in recipe.items() if not name.startswith("augment")}
    dataset = sp.Dataset(options.packed)
    loaders = {
        "shardpack": sp.Loader(dataset, options.batch, **recipe),
        "shardpack, without augmentation": sp.Loader(dataset, options.batch, **plain | {"fields": ["image", "label"]}),
        "DataLoader, Pillow": theirs(options.photos, options.batch, options.threads, tensors=False),
        "DataLoader, tensors": theirs(options.photos, options.batch, options.threads, tensors=True),
    }
    best = dict.fromkeys(loaders, 0.0)
    for _ in range(options.rounds + 1):  # the first one warms up
        for name, loader in loaders.items():
            if name == "shardpack, without augmentation":
                begun = time.perf_counter()
                rows = sum(len(batch["image"]) for batch in loader)
                best[name] = max(best[name], rows / (time.perf_counter() - begun))
            else:
                best[name] = max(best[name], rate(loader, options.batch))
    print(json.dumps({
        "pictures_per_s": {name: round(value, 1) for name, value in best.items()},
        "threads": options.threads, "batch": options.batch, "rounds": options.rounds,
        "versions": {"torch": torch.__version__, "torchvision": torchvision.__version__, "shardpack": sp.__version__},
    }, indent=2))


if __name__ == "__main__":
    main()
