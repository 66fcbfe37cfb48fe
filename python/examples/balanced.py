"""Draw the classes of an unbalanced dataset equally often, or draw samples by your own weights.

    python balanced.py [DATASET]

An epoch of weighted draws has as many samples as the dataset. A rare sample is drawn several times, each time with a
different random crop.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import shardpack as sp
import tiny


def drawn(dataset: sp.Dataset, weights: str | dict[int, float] | NDArray[np.float64] | None) -> NDArray[np.int64]:
    """Return the number of samples drawn from each class in four epochs."""
    labels: list[NDArray[np.int64]] = []
    with sp.Loader(dataset, 10, image="rrc32", weights=weights, fields=["label"]) as loader:
        for _ in range(4):
            labels += [batch["label"].copy() for batch in loader]
    return np.bincount(np.concatenate(labels), minlength=len(dataset.classes or []))


def main(dataset: sp.Dataset) -> None:
    # Labels are columns, so no picture is read here.
    print("stored:    ", np.bincount(dataset.labels)[:10])
    print("as stored: ", drawn(dataset, None)[:10])
    print("balanced:  ", drawn(dataset, "balanced")[:10])
    print("1 : 2 : 1: ", drawn(dataset, {0: 1.0, 1: 2.0, 2: 1.0})[:10])
    # One weight per sample. Pictures less than 80 pixels wide have weight 0, so they are never drawn.
    wide = dataset.columns["width"] >= 80
    print("wide ones: ", drawn(dataset, wide.astype(np.float64))[:10])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sp.Dataset(sys.argv[1]) if len(sys.argv) > 1 else tiny.photos(Path(folder) / "photos", (80, 15, 5)))
