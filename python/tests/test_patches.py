"""Tests loading several patches of each scene, and grids of patches."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SIZES
from numpy.typing import NDArray

import shardpack as sp

OPTIONS: dict[str, Any] = {"cube": "patch16x12", "fields": ["cube", "mask"], "end": "uneven", "seed": 3, "open_scenes": 3}
Row = tuple[str, tuple[int, ...], bytes, bytes]


def rows(loader: sp.Loader) -> list[Row]:
    """Returns all rows of an epoch: key, origin, and the bytes of both fields."""
    found = []
    for batch in loader:
        for row in range(len(batch)):
            if batch.mask[row]:
                cube, mask = (np.asarray(batch[field][row]).tobytes() for field in ("cube", "mask"))
                found.append((batch.sample_keys[row], tuple(batch.origins[row].tolist()), cube, mask))
    return found


def test_patches_are_crops_of_their_scenes(scenes: sp.Dataset, values: list[NDArray[np.float32]]) -> None:
    loader = sp.Loader(scenes, 7, patches_per_sample=9, **OPTIONS)
    assert len(loader) == -(-9 * len(SIZES) // 7)
    places = set()
    count: Counter[int] = Counter()
    for batch in loader:
        assert batch.origins.dtype == np.int64 and batch.origins.shape == (len(batch), 2) == batch.scene_sizes.shape
        for row, ((y, x), index) in enumerate(zip(batch.origins.tolist(), batch.indices.tolist(), strict=True)):
            cube = values[index]
            assert tuple(batch.scene_sizes[row]) == cube.shape[:2]
            np.testing.assert_array_equal(batch["cube"][row], cube[y : y + 16, x : x + 12])
            assert batch["mask"][row][0, 0] == (y * cube.shape[1] + x) % 251
            places.add((index, y, x))
            count[index] += 1
    assert set(count.values()) == {9} and len(count) == len(SIZES)
    assert len(places) > 0.9 * 9 * len(SIZES)


@pytest.mark.parametrize("layout", ["band-major", "as-given"])
def test_few_patches_and_many_are_the_same_crops(layout: Any, values: list[NDArray[np.float32]], tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "out", values="keep", layout=layout, shuffle=False) as writer:
        for number, cube in enumerate(values):
            writer.write({"cube": cube}, key=f"s{number}")
    dataset = sp.Dataset(tmp_path / "out")
    seen = []
    # One patch covers a small part of a scene. Forty patches cover each of its pixels more than once on average.
    for each in (1, 2, 40):
        options: dict[str, Any] = {"patches_per_sample": each, "end": "uneven", "seed": 3}
        for batch in sp.Loader(dataset, 8, cube="patch16x12", **options):
            for row, ((y, x), index) in enumerate(zip(batch.origins.tolist(), batch.indices.tolist(), strict=True)):
                np.testing.assert_array_equal(batch["cube"][row], values[index][y : y + 16, x : x + 12])
                seen.append(each)
        # Load the same patches as normalised float16.
        more = {"dtype": "float16", "mean": {"cube": 0.5}, "std": {"cube": 2.0}}
        for batch in sp.Loader(dataset, 8, cube="patch16x12", **options, **more):
            for row, ((y, x), index) in enumerate(zip(batch.origins.tolist(), batch.indices.tolist(), strict=True)):
                expected = (values[index][y : y + 16, x : x + 12] - 0.5) / 2
                np.testing.assert_allclose(batch["cube"][row].astype(np.float32), expected, rtol=2e-3, atol=1e-3)
    assert len(seen) == 43 * len(values)


@pytest.mark.parametrize("kind", [{"patches_per_sample": 5}, {"patches": "grid", "overlap": (3, 5)}], ids=["random", "grid"])
def test_threads_ranks_and_resuming_change_nothing(scenes: sp.Dataset, kind: dict[str, Any]) -> None:
    options = OPTIONS | kind
    expected = rows(sp.Loader(scenes, 4, threads=1, **options))
    for threads in (2, 7):
        assert rows(sp.Loader(scenes, 4, threads=threads, **options)) == expected
    ranks = [rows(sp.Loader(scenes, 3, rank=rank, world_size=3, **options)) for rank in range(3)]
    assert sorted(sum(ranks, [])) == sorted(expected)
    # Stop in the middle of scenes, and use a different batch size.
    loader = sp.Loader(scenes, 4, **options)
    before: list[Row] = []
    for number, batch in enumerate(loader):
        before += [
            (key, tuple(origin), cube.tobytes(), mask.tobytes())
            for key, origin, cube, mask in zip(batch.sample_keys, batch.origins.tolist(), batch["cube"], batch["mask"], strict=True)
        ]
        if number == 3:
            break
    state = json.loads(json.dumps(loader.state_dict()))
    assert state["samples_consumed"] == 16 and ("patches a sample" in state["unit"] or "grids of 16x12" in state["unit"])
    again = sp.Loader(scenes, 5, threads=7, **options)
    again.load_state_dict(state)
    assert before + rows(again) == expected
    # A pickled loader, as sent to a worker, must yield the same rows.
    assert rows(pickle.loads(pickle.dumps(sp.Loader(scenes, 4, **options)))) == expected


def test_states_of_other_patches_are_refused(scenes: sp.Dataset) -> None:
    kinds: list[dict[str, Any]] = [{}, {"patches_per_sample": 5}, {"patches": "grid"}, {"patches": "grid", "overlap": 2}]
    options = {name: value for name, value in OPTIONS.items() if name != "open_scenes"}
    loaders = [sp.Loader(scenes, 4, **options, **kind) for kind in kinds]
    words = ["whole samples", "5 patches per sample", *(f"grid patches of size 16x12 with overlap {n}x{n}" for n in (0, 2))]
    for loader, own in zip(loaders, words, strict=True):
        for other, its in zip(loaders, words, strict=True):
            if loader is not other:
                with pytest.raises(sp.UsageError, match=f"the state was saved by a loader that loads {its}, but this loader loads {own}"):
                    loader.load_state_dict(other.state_dict())
    assert "unit" not in loaders[0].state_dict()
    with pytest.raises(ValueError, match="the `unit` of the state is `nonsense`, but must be `samples`"):
        loaders[1].load_state_dict(loaders[1].state_dict() | {"unit": "nonsense"})
    with pytest.raises(ValueError, match="'unit' must be a string, but is 7"):
        loaders[1].load_state_dict(loaders[1].state_dict() | {"unit": 7})


def test_options_that_make_no_sense_are_refused(scenes: sp.Dataset) -> None:
    for options, said in [
        ({"patches_per_sample": 0}, "patches_per_sample: expected"),
        ({"patches": "all"}, "patches: expected 'random', 'grid', 'balanced' or class weights, found 'all'"),
        ({"patches": "balanced"}, "drawing patches by class needs more than one patch per sample"),
        ({"patches": {1: -1}, "patches_per_sample": 3}, "the weight of class 1 must be finite and not negative, but is -1"),
        ({"patches": {}, "patches_per_sample": 3}, "drawing patches by class needs at least one class with a weight above 0"),
        ({"patches": "balanced", "patches_per_sample": 3, "fields": ["cube"]}, "drawing patches by class needs an integer mask, but none is loaded"),
        ({"patches": "grid", "patches_per_sample": 3}, "patches_per_sample=3 cannot be combined with patches=\"grid\""),
        ({"overlap": 3}, "overlap=3 needs patches=\"grid\""),
        ({"patches": "grid", "overlap": (1, 2, 3)}, "overlap: expected a number of pixels"),
        ({"patches": "grid", "overlap": 12}, "the overlap of patches (12 × 12) must be smaller than a patch (16 × 12)"),
        ({"open_scenes": 3}, "open_scenes=3 needs more than one patch"),
        ({"patches_per_sample": 3, "cube": "whole"}, "several patches per sample need a patch size"),
        ({"patches_per_sample": 3, "cube": "center8x8"}, "`center` cuts one patch from each sample, so it cannot be used with several patches per sample"),
        ({"patches_per_sample": 3, "batch_size": 100, "end": "drop"}, "a batch needs 100 patches, but an epoch has only 24"),
    ]:
        with pytest.raises(ValueError) as raised:
            sp.Loader(scenes, **({"cube": "patch16x12", "fields": ["cube", "mask"], "batch_size": 2} | options))  # type: ignore[arg-type]
        assert said in str(raised.value)


def test_patches_show_the_classes_that_are_asked_for(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    with sp.Writer(tmp_path / "rare", values="keep") as writer:
        for number in range(6):
            mask = np.zeros((60, 70), np.int16)
            if number < 5:
                y, x = rng.integers(0, 57), rng.integers(0, 67)
                mask[y : y + 3, x : x + 3] = 5
            writer.write({"cube": rng.normal(0, 1, (60, 70, 3)).astype(np.float32), "mask": mask}, key=f"{number}")
        writer.write({"cube": np.zeros((60, 70, 3), np.float32), "mask": None}, key="none")
    rare = sp.Dataset(tmp_path / "rare")

    def shares(**options: Any) -> dict[str, float]:
        shown: dict[str, list[bool]] = {}
        for batch in sp.Loader(rare, 8, patches_per_sample=40, **{**OPTIONS, **options}):
            for key, mask in zip(batch.sample_keys, batch["mask"], strict=True):
                shown.setdefault(key, []).append(bool((mask == 5).any()))
        return {key: float(np.mean(values)) for key, values in shown.items()}

    anywhere, balanced, only = shares(), shares(patches="balanced"), shares(patches={5: 2.0})
    assert set(only) == {*"012345", "none"}
    for number in range(5):
        assert anywhere[str(number)] < 0.35 and 0.3 < balanced[str(number)] < 0.8 and only[str(number)] == 1
    assert only["5"] == 0, "a scene without the class has patches anywhere"
    # The rows must not depend on the number of threads or ranks, or on a stop in the middle of an epoch.
    options = {**OPTIONS, "patches_per_sample": 5, "patches": {5: 2.0, 0: 1.0}}
    expected = rows(sp.Loader(rare, 4, threads=1, **options))
    assert rows(sp.Loader(rare, 4, threads=5, **options)) == expected
    ranks = [rows(sp.Loader(rare, 3, rank=rank, world_size=2, **options)) for rank in range(2)]
    assert sorted(sum(ranks, [])) == sorted(expected)
    loader = sp.Loader(rare, 4, **options)
    for _ in zip(range(3), loader):
        pass
    again = sp.Loader(rare, 4, **options)
    again.load_state_dict(loader.state_dict())
    assert rows(again) == expected[12:]


def test_what_cannot_be_is_said_when_the_loader_is_made(alike: sp.Dataset, tmp_path: Path) -> None:
    saved = sp.Loader(alike, 4, cube="patch16x12", patches_per_sample=4, open_scenes=3).state_dict()
    with pytest.raises(sp.UsageError, match="the state was saved with `open_scenes=3`, so pass that instead of 16"):
        sp.Loader(alike, 4, cube="patch16x12", patches_per_sample=4).load_state_dict(saved)
    with sp.Writer(tmp_path / "scene", values="keep") as writer:
        for number in range(3):
            cube = np.zeros((24 + number, 40, 8), np.float32)
            writer.write({"cube": cube, "mask": np.zeros((24 + number, 40), np.uint8)}, key=f"{number}")
    with pytest.raises(sp.UsageError, match=r"cannot cut field `mask`: its arrays are neither \[depth, height, width\] nor .*\nhint: use `patch16x3` for arrays with the shape \[height, width\] or "):
        sp.Loader(sp.Dataset(tmp_path / "scene"), 4, cube="patch8x16x3", patches_per_sample=4)


def test_origins_of_one_patch_and_of_none(scenes: sp.Dataset, values: list[NDArray[np.float32]]) -> None:
    batch = next(iter(sp.Loader(scenes, 16, cube="patch16x12", end="pad")))
    assert batch.origins[8:].tolist() == [[-1, -1]] * 8 == batch.scene_sizes[8:].tolist()
    for row, (y, x) in enumerate(batch.origins[:8].tolist()):
        np.testing.assert_array_equal(batch["cube"][row], values[int(batch.indices[row])][y : y + 16, x : x + 12])
    with pytest.raises(AttributeError, match="origins are not available, because the loader does not cut patches"):
        _ = next(iter(sp.Loader(scenes, 2, fields=["height"]))).origins
    kept = pickle.loads(pickle.dumps(batch))
    np.testing.assert_array_equal(kept.origins, batch.origins)
    with pytest.raises(AttributeError, match="batch.origins is not available: another library"):
        _ = sp.Batch(dict(batch)).origins


def test_memory_is_predicted_and_held(alike: sp.Dataset) -> None:
    for scenes in (1, 2, 5):
        loader = sp.Loader(alike, 4, cube="patch16x12", patches_per_sample=8, open_scenes=scenes, threads=1, end="uneven")
        assert sum(len(batch) for batch in loader) == 40
        stats = loader.stats()
        # Memory holds at most the open scenes and the scene being decoded, each as 8 patches of 16 × 12 × 4 floats.
        assert 8 * 16 * 12 * 4 * 4 <= stats["peak_run_bytes"] <= (scenes + 1) * 8 * 16 * 12 * 4 * 4
        assert stats["peak_run_bytes"] < loader.predicted_bytes


def test_volumes(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    volumes = [rng.normal(0, 1, (9, 20, 24)).astype(np.float32) for _ in range(4)]
    with sp.Writer(tmp_path / "out", values="keep", shuffle=False) as writer:
        for number, volume in enumerate(volumes):
            writer.write({"volume": volume, "mask": (volume > 0).astype(np.uint8)}, key=f"v{number}")
    dataset = sp.Dataset(tmp_path / "out")
    loader = sp.Loader(dataset, 8, cube="patch4x8x6", patches_per_sample=10, end="uneven")
    planes = set()
    for batch in loader:
        assert batch.origins.shape == (len(batch), 3) == batch.scene_sizes.shape
        for row, ((z, y, x), index) in enumerate(zip(batch.origins.tolist(), batch.indices.tolist(), strict=True)):
            np.testing.assert_array_equal(batch["volume"][row], volumes[index][z : z + 4, y : y + 8, x : x + 6])
            np.testing.assert_array_equal(batch["mask"][row], batch["volume"][row] > 0)
            planes.add(z)
    assert planes == set(range(6))
    for overlap in (0, (1, 4, 2)):
        grid = sp.Loader(dataset, 8, cube="patch4x8x6", patches="grid", overlap=overlap, shuffle=False, end="pad")
        with sp.stitch(grid) as stitcher:
            wholes = {}
            for batch in grid:
                both = np.stack([batch["volume"], -batch["volume"]], axis=-1)
                wholes |= {scene.index: scene.values for scene in stitcher.add(batch, both)}
        assert sorted(wholes) == [0, 1, 2, 3]
        for index, whole in wholes.items():
            np.testing.assert_array_equal(whole, np.stack([volumes[index], -volumes[index]], axis=-1))
    with pytest.raises(sp.UsageError, match="one for each of the 3 axes of 'patch4x8x6'"):
        sp.Loader(dataset, 8, cube="patch4x8x6", patches="grid", overlap=(1, 2))


def test_volumes_are_turned_balanced_and_jittered(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    with sp.Writer(tmp_path / "volumes", values="keep") as writer:
        for number in range(3):
            volume = rng.integers(100, 1000, (9, 20, 24, 2)).astype(np.uint16)
            mask = np.zeros((9, 20, 24), np.uint8)
            mask[8, 19, number] = 5  # one voxel of a rare class
            place = np.indices(mask.shape).transpose(1, 2, 3, 0).astype(np.int16)
            table = np.ones((5, 6), np.float32)
            writer.write({"volume": volume, "mask": mask, "place": place, "table": table}, key=f"v{number}")
    dataset = sp.Dataset(tmp_path / "volumes")
    options: dict[str, Any] = {"cube": "patch4x6x6", "patches_per_sample": 8, "end": "uneven", "seed": 3}
    seen = set()
    fields = ["volume", "mask", "place"]
    for batch in sp.Loader(dataset, 8, augment=["hflip", "vflip", "dflip", "rot90"], patches={5: 1.0}, fields=fields, **options):
        assert (batch["mask"] == 5).any(axis=(1, 2, 3)).all()
        for row, index in enumerate(batch.indices):
            # Each voxel contains its original position: planes keep or reverse their order, and all planes are turned
            # in the same way.
            z, y, x = batch["place"][row].transpose(3, 0, 1, 2)
            whole = dataset[int(index)]
            np.testing.assert_array_equal(batch["volume"][row], whole["volume"][z, y, x])
            np.testing.assert_array_equal(batch["mask"][row], whole["mask"][z, y, x])
            np.testing.assert_array_equal(z, z[:, :1, :1] + np.zeros_like(z))
            (step,) = set(np.diff(z[:, 0, 0]).tolist())
            seen.add((step, int(y[0, 1, 0] - y[0, 0, 0]), int(x[0, 0, 1] - x[0, 0, 0])))
    assert {step for step, _, _ in seen} == {1, -1}
    assert {(1, 0, 0), (-1, 0, 0)} & seen and len(seen) >= 6, seen  # transposed, too
    with pytest.raises(sp.UsageError, match="`dflip` mirrors the depth of volumes, but no volumes are loaded"):
        sp.Loader(dataset, 3, augment="dflip", fields=["mask"], cube="patch6x6")
    with pytest.raises(sp.UsageError, match="field `table` is not a volume, so it cannot be flipped or rotated with the volumes"):
        sp.Loader(dataset, 8, augment="hflip", fields=["volume", "table"], **options)
    bands = ["band_dropout(p=0.5,value=-1)"]
    batch = next(iter(sp.Loader(dataset, 24, augment=bands, dtype="float32", fields=["volume", "mask"], **options)))
    dropped = (batch["volume"] == -1).all(axis=(1, 2, 3))
    assert batch["mask"].dtype == np.uint8 and set(dropped.ravel().tolist()) == {False, True}
    assert ((batch["volume"] == -1).any(axis=(1, 2, 3)) == dropped).all()


@pytest.mark.parametrize("ranks", [1, 3])
def test_the_length_is_that_of_the_epoch(scenes: sp.Dataset, ranks: int) -> None:
    options: dict[str, Any] = {**OPTIONS, "patches": "grid", "weights": np.arange(8.0) ** 3, "world_size": ranks, "rank": 0}
    lengths = set()
    with sp.Loader(scenes, 8, **options) as loader:
        for epoch in range(4):
            loader.set_epoch(epoch)
            assert len(loader) == sum(1 for _ in loader), epoch
            lengths.add(len(loader))
    assert len(lengths) > 1, "scenes of several sizes, drawn anew"
    # After resuming within an epoch, `len` must still count the whole epoch.
    with sp.Loader(scenes, 8, epoch=3, **options) as loader:
        iteration = iter(loader)
        next(iteration)
        whole, state = len(loader), loader.state_dict()
    for epoch in range(3):
        with sp.Loader(scenes, 8, epoch=epoch, **options) as loader:
            loader.load_state_dict(state)
            assert len(loader) == whole and sum(1 for _ in loader) == whole - 1
            assert len(loader) == whole
            loader.set_epoch(epoch)
            assert len(loader) == sum(1 for _ in loader)


def test_volumes_beside_patches_of_two_sides_are_refused(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "volumes", values="keep") as writer:
        writer.write({"scan": np.zeros((20, 48, 40, 2), np.float32), "mask": np.zeros((20, 48, 40), np.uint8)}, key="a")
    dataset = sp.Dataset(tmp_path / "volumes")
    for options in ({}, {"patches_per_sample": 2}, {"patches": "grid"}):
        with pytest.raises(sp.UsageError, match=r"field `scan` has 4\n.*patchDxHxW"):
            sp.Loader(dataset, 1, cube="patch8x16", fields=["scan", "mask"], **options)


@pytest.mark.parametrize("name", ["patches_per_sample", "open_scenes", "overlap", "batch_size"])
def test_numbers_are_whole(scenes: sp.Dataset, name: str) -> None:
    for wrong in (2.5, "8"):
        with pytest.raises(TypeError, match=f"{name}: expected a whole number, found {wrong!r}"):
            sp.Loader(scenes, **{**OPTIONS, "patches": "grid" if name in ("overlap", "open_scenes") else "random", name: wrong})  # type: ignore[arg-type]


def test_scenes_of_several_numbers_of_bands_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for bands in (6, 4):
        np.save(tmp_path / f"src/{bands}.npy", np.ones((20, 20, bands), np.float32))
    sp.pack(tmp_path / "src", tmp_path / "out", values="keep")
    dataset = sp.Dataset(tmp_path / "out")
    options: dict[str, Any] = {"cube": "patch8x8", "patches_per_sample": 4, "fields": ["cube"]}
    with pytest.raises(sp.UsageError, match=r"from field `cube`: its samples have different numbers of bands\nhint: use `bands` to select bands that all samples have"):
        sp.Loader(dataset, 4, **options)
    assert next(iter(sp.Loader(dataset, 4, bands=slice(0, 4), **options)))["cube"].shape == (4, 8, 8, 4)
