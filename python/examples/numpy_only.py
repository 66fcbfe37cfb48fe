"""Compute dataset statistics with NumPy alone, without a framework.

    python numpy_only.py [DATASET]

Computes the mean and standard deviation of each channel over all pixels of all pictures. The pictures keep their own
sizes, so the field is ragged.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import shardpack as sp
import tiny


def main(dataset: sp.Dataset) -> None:
    print(f"{len(dataset)} samples, {dataset.nbytes:,} bytes, classes: {(dataset.classes or [])[:3]}")
    widths = dataset.columns["width"]
    print(f"widths: {widths.min()} to {widths.max()} pixels, without reading a picture")
    sample = dataset[0]
    print(f"sample 0: {sample['__key__']}, {sample['image'].shape}, label {sample['label']}")

    pixels, sums, squares, samples = 0, np.zeros(3), np.zeros(3), 0
    with sp.Loader(dataset, 16, shuffle=False, end="uneven", fields=["image"]) as loader:
        for batch in loader:
            for picture in batch["image"]:
                values = picture.reshape(-1, 3).astype(np.float64)
                pixels, sums, squares = pixels + len(values), sums + values.sum(0), squares + (values**2).sum(0)
            samples += len(batch)
    mean = sums / pixels
    deviation = np.sqrt(squares / pixels - mean**2)
    print(f"{samples} pictures, {pixels:,} pixels")
    print(f"mean {mean.round(1).tolist()}, standard deviation {deviation.round(1).tolist()}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sp.Dataset(sys.argv[1]) if len(sys.argv) > 1 else tiny.photos(Path(folder) / "photos"))
