"""Options of the compiled loader as plain values. :class:`shardpack.Loader` describes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shardpack import _shardpack
from shardpack._workers import Workers
from shardpack.view import Crop

State: TypeAlias = "tuple[str, int, int, int, str]"
"""Fingerprint, seed, epoch, samples consumed, and the unit of that count: ``samples``, or a kind of patches."""
Numbers: TypeAlias = "list[float]"
"""One number, or one per channel or band."""


@dataclass(frozen=True)
class Options:
    batch_size: int
    seed: int
    epoch: int
    rank: int
    world_size: int
    order: str
    lanes: int
    end: str
    image: str
    crops: list[Crop]
    frames: str
    cube: str
    patches: int
    overlap: tuple[int, int, int]
    open_scenes: int
    patches_balanced: bool
    patch_weights: dict[int, float] | None
    layout: str
    bands: str | list[int] | None
    dtype: str | None
    scaling: tuple[Numbers, Numbers] | None
    normalise: list[tuple[str, Numbers, Numbers]]
    no_data: float | list[tuple[str, float]] | None
    augment: str | None
    mix_batch: tuple[list[str], int] | None
    transform: Callable[..., None] | Workers | None
    transform_workers: int
    fields: list[str] | None
    objects: list[str]
    align: list[tuple[str, str]]
    members: NDArray[np.uint64] | None
    weights: NDArray[np.float64] | None
    class_weights: dict[int, float] | None
    balanced: bool
    mix: list[tuple[_shardpack.Dataset, float]] | None
    threads: int
    slots: int | None
    window: str
    max_batch: int
    skip_corrupt: int
    stage: _shardpack.Stage | None
    resident: bool
