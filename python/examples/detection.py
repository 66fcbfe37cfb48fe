"""Detect objects with the recipe of YOLO trainers: each picture is a mosaic of four, and its boxes move with it.

    python detection.py [DATASET] [PICTURE]

DATASET has the fields ``image``, ``boxes`` ``[objects, 4]`` (left, top, right, bottom) and ``classes`` ``[objects]``,
for example from ``sp.convert("voc", …)``. PICTURE is the file to which a batch with its boxes is drawn. The model is
that of ``detect.py``. At the end, the program compares the loading rate with torchvision's transforms, without mosaics.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import detect
import rates
import shardpack as sp
import tiny

SIDE, BATCH = detect.SIDE, 16
ALIGN = {"boxes": sp.align.boxes(visible=0.3), "classes": sp.align.rows_of("boxes")}
FIELDS: dict[str, Any] = {"fields": ["image", "boxes", "classes"], "align": ALIGN, "layout": "chw", "to": "torch"}
# Shrink the pictures only a little, because their objects are already small.
RECIPE = sp.presets.yolo(SIDE, scale=0.3)


def train(model: detect.Net, dataset: sp.Dataset, device: str, epochs: int) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    with sp.Loader(dataset, BATCH, device=device, **RECIPE, **FIELDS) as loader:
        for epoch in range(epochs):
            total = 0.0
            for images, boxes, kinds in loader:
                centres, sides = model(images)
                goal, box, there = (part.to(device) for part in detect.targets(boxes, kinds, centres.cpu()))
                hits = nn.functional.binary_cross_entropy_with_logits(centres, goal, pos_weight=torch.tensor(8.0, device=device))
                loss = 10 * hits + 2 * ((sides - box).abs() * there).sum() / (4 * there.sum() + 1)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
            if epoch % 8 == 7:
                print(f"epoch {epoch + 1}: loss {total / len(loader):.3f}")
        rates.compare(loader, dataset, changed, ["boxes", "classes"], BATCH)


def changed(image: Any, sample: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
    """Apply the recipe with torchvision, without the mosaic: colours, mirroring and a letterbox."""
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    boxes = tv_tensors.BoundingBoxes(sample["boxes"], format="XYXY", canvas_size=(image.height, image.width))
    scale = SIDE / max(image.height, image.width)
    height, width = round(image.height * scale), round(image.width * scale)
    steps = [
        v2.PILToTensor(), v2.ColorJitter(0.4, saturation=0.7, hue=0.015), v2.RandomHorizontalFlip(),
        v2.Resize((height, width), antialias=True), v2.Pad([0, 0, SIDE - width, SIDE - height], fill=114),
    ]  # fmt: skip
    picture, boxes = v2.Compose(steps)(image, boxes)
    return picture, boxes, sample["classes"]


def test(model: detect.Net, dataset: sp.Dataset, device: str) -> None:
    model.eval()
    right = objects = claimed = 0
    options = {"image": sp.view.pad(SIDE), "end": "uneven", "shuffle": False, "device": device}
    with sp.Loader(dataset, BATCH, **options, **FIELDS) as loader, torch.no_grad():
        for images, boxes, kinds in loader:
            seen = detect.found(*(part.cpu() for part in model(images)))
            for of_row, box_row, kind_row in zip(seen, boxes, kinds, strict=True):
                claimed += len(of_row)
                for box, kind in zip(box_row.tolist(), kind_row.tolist(), strict=True):
                    objects += 1
                    right += any(kind == one and detect.overlap(box, sides) > 0.5 for one, sides in of_row)
    print(f"held out: {right} of {objects} objects found, {claimed} claimed")


def main(dataset: sp.Dataset, picture: Path | None) -> None:
    torch.manual_seed(0)
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    classes = len(dataset.classes or ()) or 1 + max(int(sample["classes"].max(initial=0)) for sample in dataset)
    last = len(dataset) // 5
    training = dataset.subset(range(last, len(dataset)))
    if picture is not None:
        with sp.Loader(training, BATCH, **RECIPE, **FIELDS) as loader:
            detect.draw(next(iter(loader)), picture)
    model = detect.Net(classes).to(device)
    train(model, training, device, 40)
    test(model, dataset.subset(range(last)), device)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        given = sp.Dataset(sys.argv[1]) if len(sys.argv) > 1 else tiny.objects(Path(folder) / "objects", 300)
        main(given, Path(sys.argv[2]) if len(sys.argv) > 2 else None)
