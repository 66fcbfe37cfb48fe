"""Learn without labels from several crops of each picture: two large crops as in SimCLR, and four small crops as in
DINO.

The loader reads each picture once, and decodes it once for all of its crops, on a GPU if there is one. Each crop is
drawn and augmented independently.

    python simclr_dino.py [DATASET] [SIZE] [EPOCHS]

The loss compares each crop with the large crops of all pictures in the batch. The large crops of its own picture should
be the most similar. Labels are used only at the end, to count the pictures whose nearest neighbour has the same class.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import shardpack as sp
import tiny

BATCH = 50
FLOATS: dict[str, Any] = {"layout": "chw", "dtype": "float32", "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


def recipe(size: int) -> dict[str, Any]:
    """Return the loader options for training: the crops and augmentations of DINO."""
    large = sp.view.random_resized_crop(size, scale=(0.25, 1), interpolation="bicubic")
    small = sp.view.random_resized_crop(size // 2, scale=(0.05, 0.25), interpolation="bicubic")
    blur, solarize = sp.augment.gaussian_blur, sp.augment.random_solarize
    return {
        # These augmentations apply to all crops. Each crop below adds its own.
        "augment": [sp.augment.color_jitter(0.4, 0.4, 0.2, 0.1), sp.augment.random_grayscale(p=0.2)],
        "crops": [
            sp.view.crop(large, blur(9), name="first"),
            sp.view.crop(large, [blur(9, p=0.1), solarize(128, p=0.2)], name="second"),
            sp.view.crop(small, blur(5, p=0.5), times=4, name="small"),
        ],
        "fields": ["image"],
        **FLOATS,
    }


class Network(nn.Module):
    """Computes features of pictures of any size, and projects them to the vectors that the loss compares."""

    def __init__(self) -> None:
        def block(channels: int, out: int) -> nn.Module:
            return nn.Sequential(nn.Conv2d(channels, out, 3, 2, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU())

        super().__init__()
        self.features = nn.Sequential(block(3, 24), block(24, 48), block(48, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))

    def forward(self, pictures: Tensor) -> Tensor:
        return functional.normalize(self.head(self.features(pictures)), dim=1)


def contrast(crops: list[Tensor], others: list[Tensor], temperature: float = 0.2) -> Tensor:
    """Return the mean loss over all pairs of a crop and a large crop. ``crops`` begins with the large crops."""
    of_same_picture = torch.arange(len(crops[0]), device=crops[0].device)
    pairs = [(crop, other) for n, crop in enumerate(crops) for m, other in enumerate(others) if n != m]
    losses = [functional.cross_entropy(crop @ other.T / temperature, of_same_picture) for crop, other in pairs]
    return torch.stack(losses).mean()


def main(dataset: sp.Dataset, size: int, epochs: int) -> None:
    torch.manual_seed(0)
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    model = Network().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    with sp.Loader(dataset, BATCH, to="torch", device=device, **recipe(size)) as loader:
        for epoch in range(epochs):
            total, begun = 0.0, time.perf_counter()
            for first, second, *small in loader:
                # Run the model once per crop size.
                parts = [model(torch.cat(part)) for part in ([first, second], small)]
                crops = [crop for part in parts for crop in part.split(len(first))]
                loss = contrast(crops, crops[:2])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
            rate = 6 * BATCH * len(loader) / (time.perf_counter() - begun)
            print(f"epoch {epoch}: loss {total / len(loader):.3f}, {rate:,.0f} crops/s")
    model.eval()
    features, labels = [], []
    view = sp.view.center_crop(size)
    with sp.Loader(dataset, BATCH, image=view, end="uneven", fields=["image", "label"], to="torch", device=device, **FLOATS) as loader:
        for images, classes in loader:
            with torch.inference_mode():
                features.append(functional.normalize(model.features(images), dim=1))
                labels.append(classes.clone())
    similar, label = torch.cat(features) @ torch.cat(features).T, torch.cat(labels)
    nearest = similar.fill_diagonal_(-1).argmax(1)
    print(f"nearest neighbours: {int((label[nearest] == label).sum())} of {len(dataset)} of the same class")


if __name__ == "__main__":
    size, epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 48, int(sys.argv[3]) if len(sys.argv) > 3 else 10
    with tempfile.TemporaryDirectory() as folder:
        main(sp.Dataset(sys.argv[1]) if len(sys.argv) > 1 else tiny.photos(Path(folder) / "photos"), size, epochs)
