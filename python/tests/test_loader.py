"""Tests batches, views, epochs, options and threads of loaders, with NumPy tensors."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loader_support import keys

import shardpack as sp
from shardpack import _arguments


def test_a_batch_is_rows_of_fields(dataset: sp.Dataset) -> None:
    loader = sp.Loader(dataset, 16, image="rrc32")
    assert len(loader) == 3
    for batch in loader:
        assert len(batch) == 16 and list(batch.keys())[:2] == ["image", "label"]
        assert batch["image"].shape == (16, 32, 32, 3) and batch["image"].dtype == np.uint8
        assert batch["label"].dtype == np.int64
        assert batch["label"].tolist() == [dataset[int(i)]["label"] for i in batch.indices]
        assert batch.sample_keys == [dataset.keys[int(i)] for i in batch.indices]
        assert batch.mask.all() and len(batch.mask) == len(batch), "there in every batch"
        assert "image" in batch and "nothing" not in batch
        assert batch["image"] is batch["image"] is dict(batch.items())["image"]
        assert list(batch.keys()) == [field.name for field in dataset.schema], "without figures of packing"
        with pytest.raises(KeyError, match="nothing"):
            batch["nothing"]
    assert repr(batch) == "Batch(16 rows: image, label, height, width, 2 more)"
    assert repr(loader).endswith("batch_size=16, rank 0 of 1)")


def test_no_device_is_the_cpu(dataset: sp.Dataset) -> None:
    batch = next(iter(sp.Loader(dataset, 16, image="rrc32", device=None)))
    assert isinstance(batch["image"], np.ndarray)


def test_tensors_are_views_that_keep_their_memory(dataset: sp.Dataset) -> None:
    with sp.Loader(dataset, 4, image="center16", prefetch=2) as loader:
        kept = [batch["image"] for batch in loader]
        assert loader.stats()["extra_slots"] > 0, "tensors that are kept keep their slots"
        assert len({array.__array_interface__["data"][0] for array in kept}) == len(kept) == 15
        fresh = [batch["image"].copy() for batch in sp.Loader(dataset, 4, image="center16")]
    for old, new in zip(kept, fresh, strict=True):
        np.testing.assert_array_equal(old, new)
    kept[0][:] = 7
    assert (kept[0] == 7).all() and not (kept[1] == 7).all(), "and may be written into"


def test_whole_pictures_are_ragged(dataset: sp.Dataset) -> None:
    batch = next(iter(sp.Loader(dataset, 12)))
    images = batch["image"]
    assert isinstance(images, sp.Ragged) and len(images) == len(list(images)) == 12
    for row, index in enumerate(batch.indices):
        np.testing.assert_array_equal(images[row], dataset[int(index)]["image"])
        assert images[row].base is not None, "a view"
    np.testing.assert_array_equal(images[-1], images[11])
    assert images.shapes.shape == (12, 3) and images.offsets[0] == 0
    with pytest.raises(IndexError):
        images[12]
    assert repr(images) == "Ragged(12 rows of 3 axes, uint8)"


def test_stored_bytes_come_as_they_are(dataset: sp.Dataset) -> None:
    batch = next(iter(sp.Loader(dataset, 12, image="raw", fields=["image"])))
    assert list(batch.keys()) == ["image"]
    assert [bytes(row) for row in batch["image"]] == [dataset.raw(int(i), "image") for i in batch.indices]


def test_cubes_in_whole_and_in_part(cubes: Path, cube_values: list[np.ndarray]) -> None:
    dataset = sp.Dataset(cubes)
    for batch in sp.Loader(dataset, 8):
        for key, cube in zip(batch.sample_keys, batch["cube"], strict=True):
            np.testing.assert_array_equal(cube, cube_values[int(Path(key).stem)])
    batch = next(iter(sp.Loader(dataset, 8, cube="center6x10", bands=[5, 2])))
    for key, cube, mask in zip(batch.sample_keys, batch["cube"], batch["mask"], strict=True):
        number = int(Path(key).stem)
        np.testing.assert_array_equal(cube, cube_values[number][7:13, 10:20][..., [5, 2]])
        assert mask.shape == (6, 10) and (mask == number).all()
    shapes: list[tuple[dict[str, Any], tuple[int, ...]]] = [
        ({"cube": "patch6x10", "bands": "2..5"}, (8, 6, 10, 3)),
        ({"cube": "cycle6x10", "bands": slice(4)}, (8, 6, 10, 4)),
        ({"cube": "patch6x10", "layout": "chw", "bands": range(1, 8, 3)}, (8, 3, 6, 10)),
        ({"layout": "chw"}, (8, 8, 20, 30)),
        ({"dtype": {"mask": "int64"}}, (8, 20, 30, 8)),
    ]
    for options, shape in shapes:
        assert next(iter(sp.Loader(dataset, 8, **options)))["cube"].shape == shape
    typed = next(iter(sp.Loader(dataset, 8, dtype={"mask": np.int64, "cube": "float64"})))
    assert (typed["mask"].dtype, typed["cube"].dtype) == (np.int64, np.float64)
    assert next(iter(sp.Loader(dataset, 8, dtype=np.float64)))["cube"].dtype == np.float64


def test_a_view_of_pictures_needs_pictures(cubes: Path) -> None:
    with pytest.raises(sp.UsageError, match=r"a picture view needs pictures, but the dataset has none\nhint: to cut patches from arrays, use `cube=\"patch224x224\"`"):
        sp.Loader(sp.Dataset(cubes), 2, image="rrc32")
    sp.Loader(sp.Dataset(cubes), 2, image="full")


def test_each_iteration_is_the_next_epoch(dataset: sp.Dataset) -> None:
    loader = sp.Loader(dataset, 16, seed=3)
    epochs = [keys(loader) for _ in range(3)]
    assert loader.epoch == 3, "between two iterations, the next epoch"
    assert all(sorted(epoch) != sorted(epochs[0]) or epoch != epochs[0] for epoch in epochs[1:])
    assert [keys(sp.Loader(dataset, 16, seed=3, epoch=e)) for e in range(3)] == epochs
    for epoch in (1, 0, 2, 2):
        loader.set_epoch(epoch)
        assert loader.epoch == epoch and keys(loader) == epochs[epoch]
    loader.set_epoch(0)
    next(iter(loader))
    assert loader.epoch == 0 and keys(loader) == epochs[1], "after a break, too"
    assert iter(loader) and keys(loader) == epochs[2], "an iterator that was not used takes no epoch"


def test_an_iterator_ends_when_another_begins(dataset: sp.Dataset) -> None:
    loader = sp.Loader(dataset, 16)
    first = iter(loader)
    next(first)
    second = iter(loader)
    with pytest.raises(RuntimeError, match="a newer one was started"):
        next(first)
    assert len(list(second)) == 3 and list(second) == []


@pytest.mark.parametrize("shuffle", [True, "windowed", "full", False])
def test_every_order_has_every_sample_once(dataset: sp.Dataset, shuffle: Any) -> None:
    found = keys(sp.Loader(dataset, 7, shuffle=shuffle, end="uneven"))
    assert sorted(found) == sorted(dataset.keys)
    assert (found == list(dataset.keys)) == (shuffle is False)


def test_ends(dataset: sp.Dataset) -> None:
    def rows(end: Any) -> list[int]:
        loader = sp.Loader(dataset, 16, image="center8", end=end)
        found = [len(batch) for batch in loader]
        assert len(found) == len(loader)
        return found

    assert rows("drop") == [16, 16, 16]
    assert rows("uneven") == [16, 16, 16, 12]
    assert rows("pad") == [16, 16, 16, 16]
    first, *_, last = sp.Loader(dataset, 16, image="center8", end="pad")
    assert first.mask.all() and first.mask.shape == (16,) and first.mask.dtype == np.bool_, "there in every batch"
    assert last.mask.tolist() == [True] * 12 + [False] * 4
    assert last.indices[12:].tolist() == [-1] * 4 and last.sample_keys[12:] == [""] * 4
    assert not last["image"][12:].any()
    with pytest.raises(sp.UsageError, match="every batch would be dropped: a batch needs 64 samples, but an epoch has only 60\nhint"):
        sp.Loader(dataset, 64)
    assert rows("drop") and len(sp.Loader(dataset, 64, end="pad")) == 1


def test_a_loader_is_made_while_a_debugger_looks(squares: Path) -> None:
    def trace(frame: Any, *_: Any) -> Any:
        # Debuggers call `locals()` at each line. In Python 3.12, that writes into the result.
        len(frame.f_locals)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        loader = sp.Loader(sp.Dataset(squares), 8, image="center8")
    finally:
        sys.settrace(before)
    assert len(loader) == 6


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"batch_size": 0}, "batch_size: expected a number from 1 to"),
        ({"image": "rrc"}, "such as rrc224"),
        ({"cube": "patch9"}, "`patch64x64`"),
        ({"bands": "a"}, "such as 10..50"),
        ({"dtype": {"image": "int64"}}, "pictures can be loaded as uint8, float16, bfloat16 or float32, but not as int64"),
        ({"dtype": "complex64"}, "invalid element type `complex64`: expected one of"),
        ({"layout": "cwh"}, "layout: expected hwc, chw or cthw"),
        ({"end": "keep"}, "end: expected drop, pad or uneven"),
        ({"shuffle": "no"}, "shuffle: expected"),
        ({"fields": ["picture"]}, "no field `picture`: expected one of "),
        ({"to": "tf"}, "expected 'numpy', 'torch', 'jax' or 'cupy'"),
        ({"device": "cuda"}, "NumPy arrays are always on the CPU"),
        ({"seed": -1}, "seed: expected a number from 0 to"),
        ({"prefetch": 0}, "prefetch: expected a number from 1 to"),
    ],
)
def test_options_are_checked_at_once(dataset: sp.Dataset, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        sp.Loader(dataset, **options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"image": 224}, "image: expected a string such as 'rrc224', found 224"),
        ({"cube": (16, 16)}, r"cube: expected a string such as 'patch64x64', found \(16, 16\)"),
        ({"layout": None}, "layout: expected a string"),
        ({"bands": [True, False, True]}, r"bands: expected band numbers, found a boolean mask\nhint: pass bands=np.flatnonzero\(mask\)"),
        ({"bands": np.arange(4) > 1}, "found a boolean mask"),
        ({"end": True}, "end: expected a string"),
        ({"fields": "image"}, r"found the string 'image'\nhint: pass fields=\['image'\]"),
        ({"num_workers": 4}, "keyword argument 'num_workers'\nhint: pass threads="),
        ({"drop_last": True}, '\nhint: pass end="drop"'),
        ({"pin_memory": True}, '\nhint: pass to="torch" and device="cuda"'),
        ({"collate_fn": abs}, r"\nhint: remove this argument: the values of a batch are already tensors"),
        ({"prefetch_size": 2}, "\nhint: did you mean 'prefetch'?"),
        ({"zzz": 2}, r"\nhint: see help\(shardpack.Loader\)"),
        ({"normalize": True}, '\nhint: pass dtype="float32", mean='),
        ({"batch": 2}, "\nhint: did you mean 'batch_size'?"),
        ({"batchsize": 2}, "\nhint: did you mean 'batch_size'?"),
    ],
)
def test_habits_meet_a_hint(dataset: sp.Dataset, options: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        sp.Loader(dataset, **options)


def test_a_dataset_without_samples_is_a_warning(dataset: sp.Dataset) -> None:
    with pytest.warns(UserWarning, match="no samples, so the loader returns no batches"):
        loader = sp.Loader(dataset.subset(dataset.labels == 99), 8, image="rrc32")
    assert len(loader) == 0 and list(loader) == []


def test_what_is_no_dataset_meets_a_hint(dataset: sp.Dataset) -> None:
    for path in (dataset.path, str(dataset.path)):
        with pytest.raises(TypeError, match=r"expected a shardpack.Dataset, found \w+\nhint: pass shardpack.Dataset\('"):
            sp.Loader(path)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="found list$"):
        sp.Loader([dataset])  # type: ignore[arg-type]


def test_damage_is_an_error_or_skipped(photos: Path, tmp_path: Path) -> None:
    for file in photos.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    shard = next(tmp_path.glob("*.shard"))
    data = bytearray(shard.read_bytes())
    raw = sp.Dataset(photos).raw(5, "image")
    assert raw is not None
    data[data.index(raw) + 100] ^= 1
    shard.write_bytes(data)
    dataset = sp.Dataset(tmp_path)
    with pytest.raises(sp.FormatError, match=dataset.keys[5]):
        list(sp.Loader(dataset, 10, image="center8", shuffle=False))
    batches = list(sp.Loader(dataset, 10, image="center8", shuffle=False, skip_corrupt=1))
    assert batches[0].mask.tolist() == [i != 5 for i in range(10)] and batches[1].mask.all()


def test_a_closed_loader_says_so(dataset: sp.Dataset) -> None:
    with sp.Loader(dataset, 16, image="center8") as loader:
        batch = next(iter(loader))
    with pytest.raises(RuntimeError, match="closed"):
        next(iter(loader))
    assert "closed" in repr(loader) and batch["image"].shape == (16, 8, 8, 3), "batches stay valid"
    loader.close()


def test_stats_and_memory(dataset: sp.Dataset) -> None:
    loader = sp.Loader(dataset, 16, image="rrc32")
    assert loader.predicted_bytes > 3 * 16 * 32 * 32 * 3
    list(loader)
    stats = loader.stats()
    assert (stats["batches"], stats["samples"], stats["extra_slots"]) == (3, 48, 0)
    assert stats["decode_s"] > 0 and stats["predicted_bytes"] == loader.predicted_bytes
    assert loader.dataset is dataset and (loader.batch_size, loader.rank, loader.world_size) == (16, 0, 1)


def test_the_window_changes_no_batch(dataset: sp.Dataset) -> None:
    batches = {}
    for window in ("auto", "memory", "page-cache"):
        loader = sp.Loader(dataset, 7, window=window, seed=3, end="uneven")
        batches[window] = [(list(batch.sample_keys), batch["label"].tolist()) for batch in loader]
        stats = loader.stats()
        assert stats["window_in_page_cache"] == (window == "page-cache")
    assert batches["auto"] == batches["memory"] == batches["page-cache"]
    with pytest.raises(sp.UsageError, match="window: expected `auto`, `memory` or `page-cache`, found `disk`"):
        sp.Loader(dataset, window="disk")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ranks", "cores", "affinity", "launcher", "expected"),
    [
        (None, 8, 8, 8, 0), ("1", 8, 8, 8, 0), ("x", 8, 8, 8, 0), ("4", 8, 8, 8, 2), ("16", 8, 8, 8, 1),
        # Four ranks on eight cores. Each rank is bound to two cores, or each pair of ranks shares four cores.
        ("4", 2, 2, 8, 0), ("4", 4, 4, 8, 1),
        # A container has 8 of 64 cores, and no rank is bound to cores.
        ("8", 8, 8, 8, 1),
        # A quota limits the container to fewer cores than its affinity, so the core count from Rust applies.
        ("2", 6, 64, 64, 3), ("4", 2, 16, 64, 1),
        # The launcher has ended, so its affinity is unknown.
        ("4", 2, 2, None, 1),
    ],
)  # fmt: skip
def test_ranks_of_a_machine_share_its_cores(
    monkeypatch: pytest.MonkeyPatch, ranks: str | None, cores: int, affinity: int, launcher: int | None, expected: int
) -> None:
    def affinity_of(process: int) -> set[int]:
        if process == 0:
            return set(range(affinity))
        assert process == os.getppid()
        if launcher is None:
            raise ProcessLookupError
        return set(range(launcher))

    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setenv("RANK", "1")
    if ranks is not None:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
    monkeypatch.setattr(os, "sched_getaffinity", affinity_of)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(_arguments._shardpack, "cores", lambda: cores)
    assert _arguments._threads(None, 0) == expected
    assert _arguments._threads(3, 0) == 3
    # There must be at least one thread per worker.
    assert _arguments._threads(None, 1) == expected
    assert _arguments._threads(None, 64) == 64


def test_the_first_rank_says_once_that_cores_are_shared(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_arguments._shardpack, "cores", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")

    def told(rank: str, **options: Any) -> list[str]:
        monkeypatch.setenv("RANK", rank)
        _arguments._say_share.cache_clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                sp.Loader(sp.Dataset(photos), 4, **options).close()
        assert all(warning.filename == __file__ for warning in caught)
        return [str(warning.message) for warning in caught]

    [text] = told("0")
    assert text.startswith("the loader of each rank uses threads=2, because 4 ranks share 8 cores (LOCAL_WORLD_SIZE)\nhint: to silence this warning, pass threads=2 ")
    assert told("1") == [] and told("0", threads=2) == []


def test_a_loader_starts_as_many_threads_as_it_may() -> None:
    # The test does not simulate a container's quota. Without a quota, the affinity applies.
    assert 1 <= _arguments._shardpack.cores() <= len(os.sched_getaffinity(0))
