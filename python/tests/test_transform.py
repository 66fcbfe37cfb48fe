"""Tests transforms of rows, which the loader's threads call, and transforms of batches."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardpack as sp

OPTIONS: dict[str, Any] = {"image": "rrc32", "fields": ["image", "label"], "batch_size": 7, "end": "pad", "seed": 3}


def invert(row: sp.Row) -> None:
    row["image"][:] = 255 - row["image"]


def noise(row: sp.Row) -> dict[str, Any]:
    levels = np.random.default_rng(row.seed).integers(0, 256, row["image"].shape, np.uint8)
    return {"image": levels, "label": row["label"] + 100}


def test_a_row_is_changed_in_place(photos: Path) -> None:
    dataset = sp.Dataset(photos)
    seen: dict[int, tuple[str, int]] = {}

    def change(row: sp.Row) -> None:
        assert threading.current_thread() is not threading.main_thread()
        assert set(row) == {"image", "label"} and row["image"].flags.writeable
        assert row["image"].shape == (32, 32, 3) and row["label"].shape == ()
        invert(row)
        row["label"][...] += 10
        seen[row.index] = (row.key, row.epoch)

    plain = list(sp.Loader(dataset, **OPTIONS))
    with sp.Loader(dataset, transform=change, **OPTIONS) as changed:
        for before, after in zip(plain, changed, strict=True):
            there = before.mask
            assert np.array_equal(255 - before["image"][there], after["image"][there])
            assert np.array_equal(before["label"][there] + 10, after["label"][there])
            assert not after["image"][~there].any()
    assert seen == {int(i): (key, 0) for batch in plain for i, key in zip(batch.indices, batch.sample_keys, strict=True) if i >= 0}


def test_what_it_returns_is_written(photos: Path) -> None:
    def rows(epoch: int, **options: Any) -> dict[int, bytes]:
        with sp.Loader(sp.Dataset(photos), epoch=epoch, transform=noise, **OPTIONS | options) as loader:
            return {int(i): row.tobytes() for batch in loader for i, row in zip(batch.indices, batch["image"], strict=True)}

    first = rows(0)
    assert rows(0, threads=1, batch_size=4, end="uneven").items() <= first.items(), "drawn by key"
    assert rows(1)[0] != first[0] != first[1]


def test_ragged_pictures_floats_and_several_fields(photos: Path, cubes: Path) -> None:
    def halve(row: sp.Row) -> None:
        for name, array in row.items():
            if name in ("image", "cube"):
                row[name] = array / 2 if array.dtype == np.float32 else array // 2

    options: dict[str, Any] = {"image": "full", "fields": ["image"], "shuffle": False, "batch_size": 20, "dtype": {"image": "float32"}}
    plain = list(sp.Loader(sp.Dataset(photos), **options))
    for before, after in zip(plain, sp.Loader(sp.Dataset(photos), transform=halve, **options), strict=True):
        assert all(np.array_equal(a / 2, b) for a, b in zip(before["image"], after["image"], strict=True))
    options = {"fields": ["cube", "mask"], "shuffle": False, "cube": "center8x8", "batch_size": 8}
    plain = list(sp.Loader(sp.Dataset(cubes), **options))
    for before, after in zip(plain, sp.Loader(sp.Dataset(cubes), transform=halve, **options), strict=True):
        assert np.array_equal(before["cube"] / 2, after["cube"]) and np.array_equal(before["mask"], after["mask"])


def fails(row: sp.Row) -> None:
    if row.index == 20:
        raise ZeroDivisionError("by nothing")


@pytest.mark.parametrize(
    ("transform", "said"),
    [
        (fails, r"^sample 20, `.*`: transform failed: ZeroDivisionError: by nothing \(`.*test_transform.py`, line \d+\)"),
        (lambda row: {"image": row["image"][:8]}, r"field 'image': expected uint8 \[32, 32, 3\], found uint8 \[8, 32, 3\]"),
        (lambda row: {"image": row["image"] / 255}, r"expected uint8 \[32, 32, 3\], found float64 \[32, 32, 3\]"),
        (lambda row: {"picture": row["image"]}, "unknown field 'picture'; the fields are image, label"),
        (lambda row: row["image"], "transform must return None or a mapping from field to array, but returned ndarray"),
    ],
)
def test_what_goes_wrong_names_the_sample(photos: Path, transform: Any, said: str) -> None:
    with sp.Loader(sp.Dataset(photos), transform=transform, **OPTIONS | {"shuffle": False}) as loader:
        batches = iter(loader)
        with pytest.raises(sp.UsageError, match=said) as caught:
            list(batches)
        assert "sample " in str(caught.value)
        assert int(next(batches).indices[0]) == 21 if transform is fails else True


def test_no_function_is_refused(photos: Path) -> None:
    for name in ("transform", "transform_batch"):
        with pytest.raises(TypeError, match=f"{name}: expected a function, found 3"):
            sp.Loader(sp.Dataset(photos), **{name: 3})


def test_arrays_may_be_kept(photos: Path) -> None:
    kept: list[Any] = []

    def keep(row: sp.Row) -> None:
        invert(row)
        kept.append((row.index, row["image"]))

    with sp.Loader(sp.Dataset(photos), transform=keep, **OPTIONS) as loader:
        found = {int(i): row.copy() for batch in loader for i, row in zip(batch.indices, batch["image"], strict=True)}
    gc.collect()
    assert len(kept) == 60 and all(np.array_equal(found[index], array) for index, array in kept)


def test_a_loader_with_a_transform_can_be_copied_and_resumed(photos: Path) -> None:
    with sp.Loader(sp.Dataset(photos), transform=noise, **OPTIONS) as first:
        batches = iter(first)
        next(batches)
        with pickle.loads(pickle.dumps(first)) as second:
            second.load_state_dict(first.state_dict())
            assert all(np.array_equal(a["image"], b["image"]) for a, b in zip(batches, second, strict=True))


def test_a_loader_ends_while_threads_wait_for_the_interpreter(photos: Path) -> None:
    """The program must end even if the loader is only dropped, or is never closed."""
    program = f"""
import time, shardpack as sp
def slow(row):
    for _ in range(2000): pass
def loader():
    return sp.Loader(sp.Dataset({str(photos)!r}), image="rrc32", fields=["image"], batch_size=2, threads=4, transform=slow)
for _ in range(20):
    one = loader()
    next(iter(one))
    del one
kept = loader()
batches = iter(kept)
next(batches)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stderr == "", done.stderr


def test_a_batch_is_changed(photos: Path) -> None:
    def change(batch: sp.Batch) -> None:
        batch["image"][:] = 0
        batch["weight"] = np.ones(batch.rows)

    with sp.Loader(sp.Dataset(photos), transform_batch=change, **OPTIONS) as loader:
        for batch in loader:
            assert not batch["image"].any() and batch["weight"].sum() == 7
    replaced = sp.Batch({"x": 1})
    with sp.Loader(sp.Dataset(photos), transform_batch=lambda batch: replaced, **OPTIONS) as loader:
        assert all(batch is replaced for batch in loader)


def test_what_goes_wrong_with_a_batch_is_said(photos: Path) -> None:
    def change(batch: sp.Batch) -> None:
        raise ValueError("no")

    with sp.Loader(sp.Dataset(photos), transform_batch=change, **OPTIONS | {"shuffle": False}) as loader:
        with pytest.raises(ValueError, match="no") as caught:
            list(loader)
        assert caught.value.__notes__[0].startswith("in transform_batch, for the batch that begins with sample '")
    wrong: Any = lambda batch: 3
    with sp.Loader(sp.Dataset(photos), transform_batch=wrong, **OPTIONS) as loader:
        with pytest.raises(TypeError, match="transform_batch must return None or a batch, but returned int"):
            list(loader)
