"""Transforms of other libraries inside the loader: torchvision and albumentations row by row, kornia batch by batch.

    python own_transforms.py [DATASET]

A row's transform runs in the loader's threads. It is seeded by the row, so that a resumed run draws the same.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

import shardpack as sp
import tiny

torch.set_num_threads(1)  # the loader has threads enough


def by_torchvision() -> dict[str, Any]:
    from torchvision.transforms import v2

    distort = v2.ElasticTransform(alpha=30.0)

    def transform(row: sp.Row) -> dict[str, Any]:
        image = torch.from_numpy(row["image"]).permute(2, 0, 1)
        return {"image": distort(image).permute(1, 2, 0)}

    return {"transform": transform}


def by_albumentations() -> dict[str, Any]:
    import albumentations as A

    distort = A.Compose([A.GridDistortion(p=1.0), A.RandomBrightnessContrast(p=1.0)])

    def transform(row: sp.Row) -> dict[str, Any]:
        return {"image": distort(image=row["image"])["image"]}

    return {"transform": transform}


def by_kornia() -> dict[str, Any]:
    import kornia.augmentation as K

    distort = K.AugmentationSequential(K.RandomMotionBlur(5, 35.0, 0.5, p=1.0), K.RandomPlasmaShadow(p=1.0))

    def transform(batch: sp.Batch) -> None:
        batch["image"] = distort(batch["image"])

    return {"transform_batch": transform, "dtype": {"image": "float32"}, "layout": "chw"}


def main(dataset: sp.Dataset) -> None:
    options: dict[str, Any] = {"image": "rrc64", "fields": ["image", "label"], "to": "torch"}
    for name, make in (("torchvision", by_torchvision), ("albumentations", by_albumentations), ("kornia", by_kornia)):
        try:
            own = make()
        except ImportError:
            print(f"{name}: not installed")
            continue
        same = {key: own[key] for key in own if key in ("dtype", "layout")}
        with sp.Loader(dataset, 16, **options, **same) as plain, sp.Loader(dataset, 16, **options, **own) as changed:
            rows = sum(int((a["image"] != b["image"]).flatten(1).any(1).sum()) for a, b in zip(plain, changed, strict=True))
            print(f"{name}: {rows} of {16 * len(plain)} pictures changed")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sp.Dataset(sys.argv[1]) if len(sys.argv) > 1 else tiny.photos(Path(folder) / "photos"))
