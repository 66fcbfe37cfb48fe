"""Compares the rate of a loader with the rate of a torch ``DataLoader`` whose workers run the same recipe."""

from __future__ import annotations

import importlib.util
import io
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

import shardpack as sp


def rate(batches: Iterable[Any], rows: int) -> float:
    """Return the rows per second of one pass. The clock starts when the first batch arrives."""
    batches = iter(batches)
    next(batches)
    begun = time.perf_counter()
    count = sum(1 for _ in batches)
    return count * rows / (time.perf_counter() - begun)


class Samples(Dataset[Any]):
    """The stored pictures of a dataset. A worker decodes each picture and transforms it with ``change``."""

    def __init__(self, dataset: sp.Dataset, change: Callable[[Any, dict[str, Any]], Any], fields: list[str]) -> None:
        self.stored = [dataset.raw(number, "image") for number in range(len(dataset))]
        self.others = [{field: torch.from_numpy(dataset[number][field]) for field in fields} for number in range(len(dataset))]
        self.change = change

    def __len__(self) -> int:
        return len(self.stored)

    def __getitem__(self, number: int) -> Any:
        image = Image.open(io.BytesIO(self.stored[number])).convert("RGB")
        return self.change(image, self.others[number])


def compare(
    loader: sp.Loader, dataset: sp.Dataset, change: Callable[[Any, dict[str, Any]], Any], fields: list[str], batch: int
) -> None:
    """Print both rates, and the number of rows that the device could not decode."""
    loader.set_epoch(1000)
    own = rate(loader, batch)
    refused = loader.stats()["refused"]
    if not importlib.util.find_spec("torchvision"):
        print(f"loaded {own:,.0f} pictures a second; torchvision: not installed; refused {refused}")
        return
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    other = DataLoader(Samples(dataset, change, fields), batch, shuffle=True, drop_last=True, num_workers=workers, collate_fn=list)
    print(f"loaded {own:,.0f} pictures a second; torchvision with {workers} workers: {rate(other, batch):,.0f}; refused {refused}")
