"""Train an object detector. The loader crops boxes and their classes together with their picture.

    python detect.py [DATASET] [PICTURE]

DATASET has the fields ``image``, ``boxes`` ``[objects, 4]`` (left, top, right, bottom) and ``classes``
``[objects]``, for example from ``sp.convert("voc", …)``. PICTURE is the file to which a batch with its boxes is
drawn.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from PIL import Image, ImageDraw
from torch import Tensor, nn

import shardpack as sp
import tiny

SIDE, STEP = 96, 8
BOX = (255, 255, 0)
ALIGN = {"boxes": sp.align.boxes(visible=0.4), "classes": sp.align.rows_of("boxes")}
OPTIONS: dict[str, Any] = {"fields": ["image", "boxes", "classes"], "align": ALIGN, "layout": "chw", "to": "torch"}


class Net(nn.Module):
    """Predicts a centre score per class and one box for each cell of 8 × 8 pixels."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes
        sizes, layers = [3, 16, 32, 64, 64], []
        for number, (before, after) in enumerate(zip(sizes, sizes[1:], strict=False)):
            layers += [nn.Conv2d(before, after, 3, 2 if number < 3 else 1, 1), nn.BatchNorm2d(after), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.Conv2d(64, 64, 3, padding=2, dilation=2), nn.ReLU(), nn.Conv2d(64, classes + 4, 1))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        out = self.body(images.float() / 128 - 1)
        return out[:, : self.classes], out[:, self.classes :]


def targets(boxes: list[Tensor], classes: list[Tensor], like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the targets of the model: centres ``[rows, classes, cells, cells]``, boxes ``[rows, 4, cells, cells]``
    relative to their cell, and a mask of the cells that have a box.
    """
    centres = torch.zeros_like(like)
    sides, there = like.new_zeros(like.shape[0], 4, *like.shape[2:]), torch.zeros_like(like[:, :1])
    for row, (of_row, kinds) in enumerate(zip(boxes, classes, strict=True)):
        for (left, top, right, bottom), kind in zip(of_row.tolist(), kinds.tolist(), strict=True):
            y, x = (min(int(middle / STEP), like.shape[2] - 1) for middle in ((top + bottom) / 2, (left + right) / 2))
            centres[row, kind, y, x], there[row, 0, y, x] = 1, 1
            corner = torch.tensor([x, y, x, y]) * STEP
            sides[row, :, y, x] = (torch.tensor([left, top, right, bottom]) - corner) / 32
    return centres, sides, there


def found(centres: Tensor, sides: Tensor, least: float = 0.5) -> list[list[tuple[int, list[float]]]]:
    """Return the class and the box of each detected object, by row. An object is a peak of the predicted centre scores.
    """
    share = centres.sigmoid()
    peaks = (share == nn.functional.max_pool2d(share, 3, 1, 1)) & (share > least)
    rows: list[list[tuple[int, list[float]]]] = [[] for _ in range(len(share))]
    for row, kind, y, x in peaks.nonzero().tolist():
        box = sides[row, :, y, x] * 32 + torch.tensor([x, y, x, y]) * STEP
        rows[row].append((kind, box.tolist()))
    return rows


def overlap(a: list[float], b: list[float]) -> float:
    """Return the intersection over union of two boxes."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    both = max(width, 0) * max(height, 0)
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def draw(batch: sp.Batch, out: Path) -> None:
    """Draw a batch with its boxes, eight pictures per line."""
    sheet = Image.new("RGB", (8 * SIDE, -(-len(batch) // 8) * SIDE))
    for row, (image, boxes) in enumerate(zip(batch["image"], batch["boxes"], strict=True)):
        picture = Image.fromarray(image.permute(1, 2, 0).numpy())
        # Box edges lie between pixels, so the last pixel of a box is just left of its right edge.
        for left, top, right, bottom in (boxes - torch.tensor([0, 0, 1, 1])).sub(0.5).ceil().clamp(0, SIDE - 1).int().tolist():
            ImageDraw.Draw(picture).rectangle((left, top, max(left, right), max(top, bottom)), outline=BOX)
        sheet.paste(picture, (row % 8 * SIDE, row // 8 * SIDE))
    sheet.save(out)


def main(dataset: sp.Dataset, picture: Path | None) -> None:
    torch.manual_seed(0)
    classes = len(dataset.classes or ()) or 1 + max(int(sample["classes"].max(initial=0)) for sample in dataset)
    model = Net(classes)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    last = len(dataset) // 5
    train, test = dataset.subset(range(last, len(dataset))), dataset.subset(range(last))
    view = sp.view.random_resized_crop(SIDE, scale=(0.4, 1))
    with sp.Loader(train, 16, image=view, augment=[sp.augment.color_jitter(brightness=0.3)], **OPTIONS) as loader:
        if picture is not None:
            draw(next(iter(loader)), picture)
        for epoch in range(32):
            total = 0.0
            for batch in loader:
                images, boxes, kinds = batch["image"], batch["boxes"], batch["classes"]
                centres, sides = model(images)
                goal, box, there = targets(boxes, kinds, centres)
                hits = nn.functional.binary_cross_entropy_with_logits(centres, goal, pos_weight=torch.tensor(8.0))
                loss = 10 * hits + 2 * ((sides - box).abs() * there).sum() / (4 * there.sum() + 1)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
            if epoch % 8 == 7:
                print(f"epoch {epoch + 1}: loss {total / len(loader):.3f}")
    model.eval()
    right = objects = claimed = 0
    with sp.Loader(test, 16, image=sp.view.resize(SIDE), end="uneven", shuffle=False, **OPTIONS) as loader, torch.no_grad():
        for batch in loader:
            images, boxes, kinds = batch["image"], batch["boxes"], batch["classes"]
            for seen, of_row, of_kind in zip(found(*model(images)), boxes, kinds, strict=True):
                claimed += len(seen)
                for box, kind in zip(of_row.tolist(), of_kind.tolist(), strict=True):
                    objects += 1
                    right += any(kind == one and overlap(box, sides) > 0.5 for one, sides in seen)
    print(f"held out: {right} of {objects} objects found, {claimed} claimed")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        given = sp.Dataset(sys.argv[1]) if len(sys.argv) > 1 else tiny.objects(Path(folder) / "objects", 300)
        main(given, Path(sys.argv[2]) if len(sys.argv) > 2 else None)
