"""Classify pictures with a small ResNet in plain PyTorch.

    python classify.py [DATASET]

Batches stay uint8 until they reach the model, because this takes a quarter of the bytes of float32. The first line of
the model converts them to floats.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import shardpack as sp
import tiny


class Block(nn.Module):
    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, out, 3, 2, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        self.shortcut = nn.Conv2d(channels, out, 1, 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(Block(3, 16), Block(16, 32), Block(32, 32), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(32, classes)

    def forward(self, pixels: Tensor) -> Tensor:
        x = pixels.float() / 127.5 - 1
        logits: Tensor = self.head(self.body(x))
        return logits


def main(dataset: sp.Dataset) -> None:
    torch.manual_seed(0)
    classes = dataset.classes or []
    # Every tenth sample is for evaluation. Packing shuffled the samples, so this split is random.
    number = torch.arange(len(dataset)).numpy()
    train, held_out = dataset.subset(number % 10 != 0), dataset.subset(number % 10 == 0)
    model = ResNet(len(classes))
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    with sp.Loader(train, 16, image="rrc64", layout="chw", to="torch") as loader:
        for epoch in range(6):
            total = 0.0
            for batch in loader:
                loss = nn.functional.cross_entropy(model(batch["image"]), batch["label"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
            print(f"epoch {epoch}: loss {total / len(loader):.3f}")

    model.eval()
    right = 0
    # With "uneven", the last batch is shorter, so that every sample is used exactly once.
    with sp.Loader(held_out, 16, shuffle=False, image="center64", layout="chw", end="uneven", to="torch") as loader:
        for batch in loader:
            with torch.inference_mode():
                right += int((model(batch["image"]).argmax(1) == batch["label"]).sum())
    print(f"held out: {right} of {len(held_out)} right, among {len(classes)} classes")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sp.Dataset(sys.argv[1]) if len(sys.argv) > 1 else tiny.photos(Path(folder) / "photos"))
