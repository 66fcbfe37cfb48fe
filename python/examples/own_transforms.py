"""Use transforms of other libraries in the loader: torchvision and albumentations by row, kornia by batch.

    python own_transforms.py [DATASET]

Row transforms run in the loader's threads, several at a time. Each uses its own generator, seeded with ``row.seed``, so
a resumed run draws the same numbers with any number of threads.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import zlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import shardpack as sp
import tiny

torch.set_num_threads(1)  # the loader has enough threads


def by_torchvision() -> dict[str, Any]:
    from torchvision.transforms.v2 import functional as F

    # The class ElasticTransform cannot be seeded per row, because it draws from PyTorch's global generator, and all
    # threads share that. The function for the same transform takes the drawn numbers as arguments.
    def transform(row: sp.Row) -> dict[str, Any]:
        image = torch.from_numpy(row["image"]).permute(2, 0, 1)
        generator = torch.Generator().manual_seed(row.seed)
        shifts = F.gaussian_blur(torch.rand(2, *image.shape[1:], generator=generator) * 2 - 1, [31, 31], [5.0, 5.0])
        return {"image": F.elastic(image, shifts.permute(1, 2, 0)[None]).permute(1, 2, 0)}

    return {"transform": transform}


def by_albumentations() -> dict[str, Any]:
    import albumentations as A

    # A pipeline owns its generators, so each thread needs its own pipeline. The transform seeds it for every row.
    of_thread = threading.local()

    def transform(row: sp.Row) -> dict[str, Any]:
        if not hasattr(of_thread, "distort"):
            of_thread.distort = A.Compose([A.GridDistortion(p=1.0), A.RandomBrightnessContrast(p=1.0)])
        of_thread.distort.set_random_seed(row.seed)
        return {"image": of_thread.distort(image=row["image"])["image"]}

    return {"transform": transform}


def by_kornia() -> dict[str, Any]:
    import kornia.augmentation as K

    distort = K.AugmentationSequential(K.RandomMotionBlur(5, 35.0, 0.5, p=1.0), K.RandomPlasmaShadow(p=1.0))

    # kornia draws from PyTorch's global generator in the thread of the training loop. Nothing else draws during this
    # call, so seed the generator from the sample keys of the batch and restore it afterwards. A resumed run draws the
    # same numbers if it has the same batches.
    def transform(batch: sp.Batch) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(zlib.crc32("\n".join(batch.sample_keys).encode()))
            batch["image"] = distort(batch["image"])

    return {"transform_batch": transform, "dtype": {"image": "float32"}, "layout": "chw"}


def pictures(batches: sp.Loader, count: int | None = None) -> list[Tensor]:
    """Return the pictures of the next ``count`` batches, or of the rest of the epoch. A real program would train a
    model here. Training would also draw from the global generator.
    """
    seen: list[Tensor] = []
    for number, batch in enumerate(batches):
        seen += batch["image"].clone()
        torch.rand(3)
        if number + 1 == count:
            break
    return seen


def main(dataset: sp.Dataset) -> None:
    options: dict[str, Any] = {"batch_size": 16, "image": "rrc64", "fields": ["image", "label"], "to": "torch"}
    for name, make in (("torchvision", by_torchvision), ("albumentations", by_albumentations), ("kornia", by_kornia)):
        try:
            own = make()
        except ImportError:
            print(f"{name}: not installed")
            continue
        plain = {key: own[key] for key in own if key in ("dtype", "layout")}
        with sp.Loader(dataset, **options, **plain) as before, sp.Loader(dataset, **options, **own) as after:
            expected = pictures(after)
            changed = sum(int((a != b).any()) for a, b in zip(pictures(before), expected, strict=True))
        # Stop after three batches, and resume with a different number of threads.
        with sp.Loader(dataset, threads=2, **options, **own) as stopped, sp.Loader(dataset, threads=1, **options, **own) as rest:
            seen = pictures(stopped, 3)
            rest.load_state_dict(stopped.state_dict())
            seen += pictures(rest)
        same = sum(int(torch.equal(a, b)) for a, b in zip(seen, expected, strict=True))
        print(f"{name}: {changed} of {len(expected)} pictures changed, {same} the same in a resumed run")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sp.Dataset(sys.argv[1]) if len(sys.argv) > 1 else tiny.photos(Path(folder) / "photos"))
