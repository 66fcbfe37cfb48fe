"""Train two encoders to match pictures with their captions.

    python captions.py [DATASET]

DATASET has the fields ``image`` and ``caption`` (text), for example from ``sp.pack(…, labels="captions.jsonl")``.
Without DATASET, the program packs coloured shapes on coloured backgrounds. At the end it prints the loading rate
with captions and without them.
"""

from __future__ import annotations

import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import shardpack as sp
import tiny

SIDE, WORDS, LENGTH = 48, 4096, 16
OPTIONS: dict[str, Any] = {"fields": ["image", "caption"], "layout": "chw", "to": "torch", "batch_size": 32}


def tokens(captions: list[str | None]) -> Tensor:
    """Return the numbers of the words, ``[rows, LENGTH]``, padded with 0. A real program would use a tokenizer."""
    rows = torch.zeros(len(captions), LENGTH, dtype=torch.int64)
    for row, caption in enumerate(captions):
        numbers = [1 + zlib.crc32(word.encode()) % (WORDS - 1) for word in (caption or "").lower().split()[:LENGTH]]
        rows[row, : len(numbers)] = torch.tensor(numbers, dtype=torch.int64)
    return rows


class Net(nn.Module):
    """Encodes pictures and captions as unit vectors. A learned scale multiplies their similarities."""

    def __init__(self, size: int = 64) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in ((3, 16), (16, 32), (32, 64)):
            layers += [nn.Conv2d(before, after, 3, 2, 1), nn.BatchNorm2d(after), nn.ReLU()]
        self.pictures = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * (SIDE // 8) ** 2, size))
        self.words = nn.Embedding(WORDS, size, padding_idx=0)
        self.texts = nn.GRU(size, size, batch_first=True)
        self.scale = nn.Parameter(torch.tensor(3.0))

    def forward(self, images: Tensor, captions: Tensor) -> Tensor:
        """Return the similarity of each picture to each caption, ``[rows, rows]``."""
        pictures = nn.functional.normalize(self.pictures(images.float() / 128 - 1), dim=1)
        texts = nn.functional.normalize(self.texts(self.words(captions))[0][:, -1], dim=1)
        return self.scale.exp() * pictures @ texts.T


def right(model: Net, dataset: sp.Dataset) -> tuple[int, int]:
    """Return the number of held-out pictures that match their own caption best, and the number of all held-out
    pictures.
    """
    model.eval()
    with sp.Loader(dataset, image=sp.view.resize(SIDE), shuffle=False, end="uneven", **OPTIONS) as loader, torch.no_grad():
        batches = [(batch["image"], batch["caption"]) for batch in loader]
    images = torch.cat([images for images, _ in batches])
    captions = [caption for _, captions in batches for caption in captions]
    choices = sorted(set(captions))
    best = [choices[number] for number in model(images, tokens(choices)).argmax(1)]
    return sum(mine == own for mine, own in zip(best, captions, strict=True)), len(captions)


def rate(dataset: sp.Dataset, fields: list[str]) -> float:
    """Return the samples per second of the loader alone, as the median of five epochs."""
    rates = []
    with sp.Loader(dataset, image="rrc224", **{**OPTIONS, "fields": fields}) as loader:
        for _ in range(5):
            start, count = time.perf_counter(), 0
            for batch in loader:
                count += len(batch)
            rates.append(count / (time.perf_counter() - start))
    return sorted(rates)[2]


def main(dataset: sp.Dataset) -> None:
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    last = len(dataset) // 5
    train, test = dataset.subset(range(last, len(dataset))), dataset.subset(range(last))
    with sp.Loader(train, image=sp.view.random_resized_crop(SIDE, scale=(0.8, 1)), **OPTIONS) as loader:
        for epoch in range(20):
            total = 0.0
            for batch in loader:
                captions = batch["caption"]
                scores = model(batch["image"], tokens(captions))
                # Pictures with the same caption also match each other's caption.
                own = torch.tensor([[float(a == b) for b in captions] for a in captions])
                goal = own / own.sum(1, keepdim=True)
                loss = nn.functional.cross_entropy(scores, goal) + nn.functional.cross_entropy(scores.T, goal)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
            print(f"epoch {epoch + 1}: loss {total / len(loader):.3f}")
    found, count = right(model, test)
    print(f"held out: the caption of {found} of {count} pictures found")
    alone, both = rate(dataset, ["image"]), rate(dataset, ["image", "caption"])
    print(f"crops of 224: {alone:.0f} a second, with captions {both:.0f}: {both / alone:.0%} of the rate of the pictures")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sp.Dataset(sys.argv[1]) if len(sys.argv) > 1 else tiny.captions(Path(folder), 800))
