"""Tests batches as ``jax.Array``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import shardpack as sp
from shardpack import _convert

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


def test_copies_hold_what_is_copied_until_they_are_done(photos: Path) -> None:
    """Sends host tensors to JAX in the way that the loader sends device tensors."""
    lent = _convert._Lent()
    with sp.Loader(sp.Dataset(photos), 20, image="center32", prefetch=2) as loader:
        for batch in loader:
            assert batch._core is not None
            copy = lent.copy(batch._core.tensor("image"))
            assert np.array_equal(copy, batch["image"])
            # The consumer may donate the copy.
            copy.delete()
            jax.block_until_ready(lent._held[-1][0])
            assert len(lent._held) == 1
            del batch
        assert loader.stats()["extra_slots"] == 0
