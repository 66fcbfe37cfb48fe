"""Train with a modern ImageNet recipe: random crops, TrivialAugment, erasing, Mixup and CutMix, and averaged weights.

The loader decodes and augments the pictures, on a GPU if there is one. The pixels are the same with and without a GPU.

    python imagenet_recipe.py [DATASET] [SIZE] [EPOCHS]

A second run with the same seed gets exactly the same pixels.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import shardpack as sp
import tiny

# Mean and standard deviation of ImageNet, as fractions of 255.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def recipe(size: int) -> dict[str, Any]:
    mean_levels = [round(255 * mean) for mean in MEAN]
    return {
        "image": sp.view.random_resized_crop(size),
        # Fill erased areas with the mean level. Normalisation turns it into 0.
        "augment": [sp.augment.trivial_augment_wide(), sp.augment.random_erasing(p=0.1, value=mean_levels)],
        "augment_batch": [sp.augment.mixup(alpha=0.2), sp.augment.cutmix(alpha=1.0)],
        "fields": ["image", "label"],
        "layout": "chw",
        "dtype": "float32",
        "mean": MEAN,
        "std": STD,
    }


class Network(nn.Sequential):
    def __init__(self, classes: int) -> None:
        def block(channels: int, out: int) -> nn.Module:
            return nn.Sequential(nn.Conv2d(channels, out, 3, 2, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU())

        super().__init__(block(3, 24), block(24, 48), block(48, 48), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.append(nn.Linear(48, classes))


def main(dataset: sp.Dataset, size: int, epochs: int) -> None:
    torch.manual_seed(0)
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    model = Network(len(dataset.classes or [])).to(device)
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=2e-5)
    # Labels are soft: each is one float32 weight per class.
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    with sp.Loader(dataset, 32, to="torch", device=device, **recipe(size)) as loader:
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))
        for epoch in range(epochs):
            total, begun = 0.0, time.perf_counter()
            for images, labels in loader:
                loss: Tensor = criterion(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                average.update_parameters(model)
                total += loss.item()
            rate = 32 * len(loader) / (time.perf_counter() - begun)
            print(f"epoch {epoch}: loss {total / len(loader):.3f}, {rate:,.0f} pictures/s")
    right = 0
    average.eval()
    view = sp.view.center_crop(size)
    options: dict[str, Any] = {"fields": ["image", "label"], "layout": "chw", "dtype": "float32", "mean": MEAN, "std": STD}
    with sp.Loader(dataset, 32, shuffle=False, image=view, end="uneven", to="torch", device=device, **options) as loader:
        for images, labels in loader:
            with torch.inference_mode():
                right += int((average(images).argmax(1) == labels).sum())
    print(f"without augmentation: {right} of {len(dataset)} right")


if __name__ == "__main__":
    size, epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 48, int(sys.argv[3]) if len(sys.argv) > 3 else 12
    with tempfile.TemporaryDirectory() as folder:
        main(sp.Dataset(sys.argv[1]) if len(sys.argv) > 1 else tiny.photos(Path(folder) / "photos"), size, epochs)
