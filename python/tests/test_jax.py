"""JAX: batches as ``jax.Array``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import shardpack as sp

jax = pytest.importorskip("jax")


def test_batches_are_arrays_of_jax(squares: Path) -> None:
    dataset = sp.Dataset(squares)
    kept = []
    for batch in sp.Loader(dataset, 8, image="rrc32", shuffle=False, end="pad", to="jax"):
        assert isinstance(batch["image"], jax.Array) and batch["image"].dtype == np.uint8
        assert batch["image"].shape == (8, 32, 32, 3)
        assert isinstance(batch["gpu_jpeg"], jax.Array) and batch["gpu_jpeg"].dtype == bool
        assert batch["label"].tolist() == dataset.labels[np.asarray(batch.indices)].tolist()
        kept.append(batch["image"])
    views = [batch["image"] for batch in sp.Loader(dataset, 8, image="rrc32", shuffle=False)]
    for array, view in zip(kept, views, strict=True):
        np.testing.assert_array_equal(np.asarray(array), view)


def test_nothing_is_copied(squares: Path) -> None:
    batch = next(iter(sp.Loader(sp.Dataset(squares), 8, image="rrc32", to="jax")))
    assert batch._core is not None
    assert batch["image"].unsafe_buffer_pointer() == batch._core.tensor("image").__array_interface__["data"][0]


def test_devices_are_those_of_jax(squares: Path) -> None:
    batch = next(iter(sp.Loader(sp.Dataset(squares), 8, image="rrc32", to="jax", device="cpu:0")))
    assert batch["image"].devices() == {jax.devices("cpu")[0]}
    *_, last = sp.Loader(sp.Dataset(squares), 10, image="rrc32", end="pad", to="jax")
    assert int(last.mask.sum()) == 8
