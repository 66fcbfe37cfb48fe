"""Learn the direction of motion in clips: several JPEGs per sample, read as ``[rows, time, height, width, 3]``.

    python clips.py [DATASET]

DATASET has clips with labels. ``shardpack pack clips/ OUT --clips`` makes such a dataset from files like
``left/clip7/0.jpg``.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor, nn

import shardpack as sp
import tiny

FRAMES = 8


class Net(nn.Module):
    """Applies a few convolutions over time, height and width."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv3d(3, 16, (3, 5, 5), stride=(1, 2, 2), padding=(1, 2, 2)), nn.BatchNorm3d(16), nn.ReLU(),
            nn.Conv3d(16, 32, (3, 5, 5), stride=(2, 2, 2), padding=(1, 2, 2)), nn.BatchNorm3d(32), nn.ReLU(),
            nn.AdaptiveMaxPool3d((FRAMES // 2, 1, 6)), nn.Flatten(), nn.LazyLinear(classes),
        )  # fmt: skip

    def forward(self, clips: Tensor) -> Tensor:
        # [rows, time, height, width, 3] to [rows, 3, time, height, width]
        logits: Tensor = self.body(clips.permute(0, 4, 1, 2, 3) / 255)
        return logits


def main(dataset: sp.Dataset) -> None:
    torch.manual_seed(0)
    held_out = len(dataset) // 5
    train, test = dataset.subset(range(held_out, len(dataset))), dataset.subset(range(held_out))
    model = Net(len(dataset.classes or [0]))
    # Load eight frames of each clip, regardless of its length. All frames of a clip get the same crop. They are not
    # mirrored, because that would swap left and right.
    view = sp.view.random_resized_crop((32, 48), scale=(0.6, 1), hflip=0)
    loader = sp.Loader(train, 12, image=view, frames=FRAMES, fields=["image", "label"], to="torch")
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    with loader:
        for epoch in range(8):
            total = 0.0
            for batch in loader:
                loss = nn.functional.cross_entropy(model(batch["image"]), batch["label"].long())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
            print(f"epoch {epoch}: loss {total / len(loader):.3f}")
    model.eval()
    right = 0
    with torch.no_grad(), sp.Loader(test, 12, image="resize32x48", frames=FRAMES, fields=["image", "label"], end="uneven", to="torch") as loader:
        for clips, labels in loader:
            right += int((model(clips).argmax(1) == labels).sum())
    print(f"held out: {right} of {len(test)} right")
    with sp.Loader(dataset, 12, image=view, frames="window8", fields=["image"], end="uneven") as loader:
        sum(len(batch) for batch in loader)
        start = time.perf_counter()
        rows = sum(len(batch) for _ in range(5) for batch in loader)
        rate = rows / (time.perf_counter() - start)
    print(f"loaded {rate:.0f} clips a second, {rate * FRAMES:.0f} frames")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sp.Dataset(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            tiny.clips(Path(folder) / "clips")
            sp.pack(Path(folder) / "clips", Path(folder) / "packed", clips=True)
            main(sp.Dataset(Path(folder) / "packed"))
