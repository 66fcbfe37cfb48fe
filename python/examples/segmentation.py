"""Segment photos with the recipe of torchvision's segmentation reference: a random size, a random crop, and mirroring.
The mask is transformed like its picture.

    python segmentation.py [DATASET] [CROP]

DATASET has the fields ``image`` and ``mask`` ``[height, width]``, in which 255 is ignored, for example from ``shardpack
pack photos/ OUT --masks masks/``. At the end, the program compares the loading rate with the same transforms in
torchvision.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import rates
import shardpack as sp
import tiny

BATCH = 16
FIELDS: dict[str, Any] = {
    "fields": ["image", "mask"], "align": {"mask": sp.align.mask()}, "dtype": {"mask": "int64"}, "layout": "chw", "to": "torch",
}  # fmt: skip


class Net(nn.Module):
    """Halves the resolution twice, applies dilated convolutions of two sizes, and upsamples the class scores."""

    def __init__(self, classes: int) -> None:
        def block(channels: int, out: int, stride: int = 1, hole: int = 1) -> nn.Module:
            return nn.Sequential(nn.Conv2d(channels, out, 3, stride, hole, hole), nn.BatchNorm2d(out), nn.ReLU())

        super().__init__()
        self.body = nn.Sequential(block(3, 24, 2), block(24, 48, 2), block(48, 48, hole=2), block(48, 48, hole=4), nn.Conv2d(48, classes, 1))

    def forward(self, images: Tensor) -> Tensor:
        return nn.functional.interpolate(self.body(images.float() / 128 - 1), images.shape[2:], mode="bilinear")


def changed(image: Any, sample: dict[str, Any], crop: int, base: int) -> Any:
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    steps = [
        v2.PILToTensor(), v2.RandomResize(base // 2, 2 * base, antialias=True), v2.RandomHorizontalFlip(),
        v2.RandomCrop(crop, pad_if_needed=True, fill={tv_tensors.Mask: 255, "others": 114}),
    ]  # fmt: skip
    return v2.Compose(steps)(image, tv_tensors.Mask(sample["mask"]))


def main(dataset: sp.Dataset, crop: int) -> None:
    torch.manual_seed(0)
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    classes = 1 + max(int(sample["mask"][sample["mask"] != 255].max(initial=0)) for sample in dataset)
    last, base = len(dataset) // 5, round(crop * 520 / 480)
    training, held_out = dataset.subset(range(last, len(dataset))), dataset.subset(range(last))
    model = Net(classes).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    with sp.Loader(training, BATCH, device=device, **sp.presets.segmentation(crop, base), **FIELDS) as loader:
        for epoch in range(16):
            total = 0.0
            for images, masks in loader:
                loss = nn.functional.cross_entropy(model(images), masks, ignore_index=255)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
            if epoch % 4 == 3:
                print(f"epoch {epoch + 1}: loss {total / len(loader):.3f}")
        rates.compare(loader, training, partial(changed, crop=crop, base=base), ["mask"], BATCH)
    model.eval()
    both, either = torch.zeros(classes), torch.zeros(classes)
    with sp.Loader(held_out, BATCH, image=sp.view.pad(crop), end="uneven", shuffle=False, device=device, **FIELDS) as loader, torch.no_grad():
        for images, masks in loader:
            found = model(images).argmax(1)
            for kind in range(classes):
                seen, there = (found == kind) & (masks != 255), masks == kind
                both[kind] += (seen & there).sum().cpu()
                either[kind] += (seen | there).sum().cpu()
    shares = both / either.clamp(min=1)
    print(f"held out: mean intersection over union {shares.mean():.1%} of {classes} classes")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        given = sp.Dataset(sys.argv[1]) if len(sys.argv) > 1 else tiny.objects(Path(folder) / "objects", 200)
        main(given, int(sys.argv[2]) if len(sys.argv) > 2 else 96)
