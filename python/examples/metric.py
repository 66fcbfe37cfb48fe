"""Measure how much accuracy a classifier loses to lossy storage: a custom metric for ``shardpack report``.

    shardpack report PHOTOS --metric "accuracy=python metric.py"
    shardpack report CUBES --masks MASKS --metric "accuracy=python metric.py" --metric-baseline-runs 5

``shardpack report`` appends the paths of two datasets to the command: the original samples, and the same samples as
stored by a candidate. This program trains on the candidate and prints the accuracy on the original. It classifies
pictures, or the pixels of cubes by the classes in their masks. Half of the samples are for training. The number of the
run determines this half and the initial weights, so that several runs show the spread.

The model is a linear classifier in NumPy. Replace it with your own training.
"""

from __future__ import annotations

import os
import sys

import numpy as np
from numpy.typing import NDArray

import shardpack as sp

SIDE = 16  # pixels of a small picture
PIXELS = 400  # of a mask, at random
STEPS = 300

Examples = tuple[NDArray[np.float32], NDArray[np.int64]]


def pictures(dataset: sp.Dataset) -> dict[str, Examples]:
    """Return a thumbnail of each sample's picture, and its class, by key."""
    with sp.Loader(dataset, 64, image=f"center{SIDE}", shuffle=False, end="uneven", fields=["image", "label"]) as loader:
        return {
            key: (image.reshape(1, -1).astype(np.float32) / 255, np.array([label], np.int64))
            for batch in loader for key, image, label in zip(batch.sample_keys, batch["image"], batch["label"], strict=True)
        }  # fmt: skip


def spectra(dataset: sp.Dataset) -> dict[str, Examples]:
    """Return the spectra of some pixels of each sample, and the classes of these pixels, by key."""
    found: dict[str, Examples] = {}
    for index in range(len(dataset)):
        sample = dataset.get(index, ["cube", "mask"])
        cube, mask = np.asarray(sample["cube"], np.float32), np.asarray(sample["mask"]).ravel()
        # The fixed seed selects the same pixels in the original and in the candidate.
        at = np.random.default_rng(len(found)).integers(0, mask.size, PIXELS)
        values = np.nan_to_num(cube.reshape(mask.size, -1)[at])
        found[sample["__key__"]] = values, mask[at].astype(np.int64)
    return found


def train(examples: Examples, classes: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Train a softmax regression. Return its weights, and the mean and standard deviation of its inputs."""
    inputs, labels = examples
    mean, std = inputs.mean(0), inputs.std(0) + 1e-6
    rng = np.random.default_rng(seed)
    weights = rng.normal(0, 0.01, (inputs.shape[1] + 1, classes)).astype(np.float32)
    for step in range(STEPS):
        rows = rng.integers(0, len(labels), 256)
        x = np.c_[(inputs[rows] - mean) / std, np.ones(len(rows))].astype(np.float32)
        logits = x @ weights
        odds = np.exp(logits - logits.max(1, keepdims=True))
        odds /= odds.sum(1, keepdims=True)
        odds[np.arange(len(rows)), labels[rows]] -= 1
        weights -= 0.5 / (1 + step / 50) * x.T @ odds / len(rows)
    return weights, mean, std


def main(original: sp.Dataset, candidate: sp.Dataset, run: int) -> None:
    read = spectra if {"cube", "mask"} <= {field.name for field in original.schema} else pictures
    truth, stored = read(original), read(candidate)
    keys = sorted(truth)
    half = set(np.random.default_rng(run).permutation(keys)[: len(keys) // 2].tolist())

    def together(examples: dict[str, Examples], keys: list[str]) -> Examples:
        inputs, labels = zip(*(examples[key] for key in keys), strict=True)
        return np.concatenate(inputs), np.concatenate(labels)

    learned = together(stored, [key for key in keys if key in half])
    inputs, labels = together(truth, [key for key in keys if key not in half])
    classes = int(max(learned[1].max(), labels.max())) + 1
    weights, mean, std = train(learned, classes, run)
    predicted = (np.c_[(inputs - mean) / std, np.ones(len(labels))] @ weights).argmax(1)
    print(f"{(predicted == labels).mean():.4f}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: metric.py ORIGINAL CANDIDATE")
    main(sp.Dataset(sys.argv[1]), sp.Dataset(sys.argv[2]), int(os.environ.get("SHARDPACK_METRIC_RUN", "0")))
