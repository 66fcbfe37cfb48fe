"""Several patches of a scene, grids of them, and what puts predictions of these together."""

from __future__ import annotations

import json
import pickle
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardpack as sp
from numpy.typing import NDArray

SIZES = [(40, 50), (33, 50), (61, 37), (40, 40), (52, 64), (35, 90), (48, 48), (40, 50)]


@pytest.fixture(scope="module")
def values() -> list[NDArray[np.float32]]:
    """Cubes of several sizes and of six bands, that no rounding leaves alone."""
    rng = np.random.default_rng(5)
    return [rng.normal(0, 1, (*size, 6)).astype(np.float32) for size in SIZES]


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory, values: list[NDArray[np.float32]]) -> sp.Dataset:
    """The cubes and their masks; their sizes are in the index."""
    out = tmp_path_factory.mktemp("scenes") / "packed"
    schema = {"cube": "array", "mask": "array", "height": "uint32", "width": "uint32", "channels": "uint32"}
    with sp.Writer(out, schema, values="keep", shuffle=False) as writer:
        for number, cube in enumerate(values):
            mask = (np.arange(cube[..., 0].size).reshape(cube.shape[:2]) % 251).astype(np.uint8)
            height, width, channels = cube.shape
            writer.write(
                {"cube": cube, "mask": mask, "height": height, "width": width, "channels": channels}, key=f"s{number}"
            )
    return sp.Dataset(out)


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> sp.Dataset:
    """Scenes of one size."""
    out = tmp_path_factory.mktemp("alike") / "packed"
    rng = np.random.default_rng(6)
    with sp.Writer(out, values="keep", shuffle=False) as writer:
        for number in range(5):
            writer.write({"cube": rng.normal(0, 1, (45, 38, 4)).astype(np.float32)}, key=f"a{number}")
    return sp.Dataset(out)


OPTIONS: dict[str, Any] = {"cube": "patch16x12", "fields": ["cube", "mask"], "end": "uneven", "seed": 3, "open_scenes": 3}
Row = tuple[str, tuple[int, ...], bytes, bytes]


def rows(loader: sp.Loader) -> list[Row]:
    """All rows of an epoch: key, origin, and bytes of both fields."""
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
    # One of each scene is a small part of it, and forty show all pixels more than once.
    for each in (1, 2, 40):
        options: dict[str, Any] = {"patches_per_sample": each, "end": "uneven", "seed": 3}
        for batch in sp.Loader(dataset, 8, cube="patch16x12", **options):
            for row, ((y, x), index) in enumerate(zip(batch.origins.tolist(), batch.indices.tolist(), strict=True)):
                np.testing.assert_array_equal(batch["cube"][row], values[index][y : y + 16, x : x + 12])
                seen.append(each)
        # The same where something becomes of the values.
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
    # In the middle of scenes, with another batch size.
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
    # As a copy that travels to a worker.
    assert rows(pickle.loads(pickle.dumps(sp.Loader(scenes, 4, **options)))) == expected


def test_states_of_other_patches_are_refused(scenes: sp.Dataset) -> None:
    kinds: list[dict[str, Any]] = [{}, {"patches_per_sample": 5}, {"patches": "grid"}, {"patches": "grid", "overlap": 2}]
    options = {name: value for name, value in OPTIONS.items() if name != "open_scenes"}
    loaders = [sp.Loader(scenes, 4, **options, **kind) for kind in kinds]
    words = ["samples", "5 patches a sample", "grids of 16x12, overlap 0x0", "grids of 16x12, overlap 2x2"]
    for loader, own in zip(loaders, words, strict=True):
        for other, its in zip(loaders, words, strict=True):
            if loader is not other:
                with pytest.raises(sp.UsageError, match=f"state: expected one of {own}, found one of {its}"):
                    loader.load_state_dict(other.state_dict())
    assert "unit" not in loaders[0].state_dict()
    with pytest.raises(ValueError, match="what a state counts: expected .*, found `nonsense`"):
        loaders[1].load_state_dict(loaders[1].state_dict() | {"unit": "nonsense"})
    with pytest.raises(ValueError, match="unit: expected text, found 7"):
        loaders[1].load_state_dict(loaders[1].state_dict() | {"unit": 7})


def test_options_that_make_no_sense_are_refused(scenes: sp.Dataset) -> None:
    for options, said in [
        ({"patches_per_sample": 0}, "patches_per_sample: expected"),
        ({"patches": "all"}, "patches: expected random, grid, balanced or weights of classes, found 'all'"),
        ({"patches": "balanced"}, "patches: by class: expected several of each sample, found one"),
        ({"patches": {1: -1}, "patches_per_sample": 3}, "patches by class: expected finite weights from 0 on, found -1 for class 1"),
        ({"patches": {}, "patches_per_sample": 3}, "patches by class: expected a class with a weight above 0, found none"),
        ({"patches": "balanced", "patches_per_sample": 3, "fields": ["cube"]}, "expected a mask of integers among the fields"),
        ({"patches": "grid", "patches_per_sample": 3}, "expected none beside patches=\"grid\""),
        ({"overlap": 3}, "overlap: expected patches=\"grid\""),
        ({"patches": "grid", "overlap": (1, 2, 3)}, "overlap: expected a number of pixels"),
        ({"patches": "grid", "overlap": 12}, "overlap of patches: expected less than a patch, 16 × 12, found 12 × 12"),
        ({"open_scenes": 3}, "open_scenes: expected several patches"),
        ({"patches_per_sample": 3, "cube": "whole"}, "expected a size of patches"),
        ({"patches_per_sample": 3, "cube": "center8x8"}, "places of their own"),
        ({"patches_per_sample": 3, "batch_size": 100, "end": "drop"}, "at most the patches of an epoch, 24, found 100"),
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
    # Threads, ranks and a stop in the middle change nothing.
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
    with pytest.raises(sp.UsageError, match="saved with `open_scenes=3`, and here it is 16: give the same number"):
        sp.Loader(alike, 4, cube="patch16x12", patches_per_sample=4).load_state_dict(saved)
    with sp.Writer(tmp_path / "scene", values="keep") as writer:
        for number in range(3):
            cube = np.zeros((24 + number, 40, 8), np.float32)
            writer.write({"cube": cube, "mask": np.zeros((24 + number, 40), np.uint8)}, key=f"{number}")
    with pytest.raises(sp.UsageError, match=r"`mask`, which is none\nhint: `patch16x3` cuts \[height, width\]"):
        sp.Loader(sp.Dataset(tmp_path / "scene"), 4, cube="patch8x16x3", patches_per_sample=4)


def test_origins_of_one_patch_and_of_none(scenes: sp.Dataset, values: list[NDArray[np.float32]]) -> None:
    batch = next(iter(sp.Loader(scenes, 16, cube="patch16x12", end="pad")))
    assert batch.origins[8:].tolist() == [[-1, -1]] * 8 == batch.scene_sizes[8:].tolist()
    for row, (y, x) in enumerate(batch.origins[:8].tolist()):
        np.testing.assert_array_equal(batch["cube"][row], values[int(batch.indices[row])][y : y + 16, x : x + 12])
    with pytest.raises(AttributeError, match="origins: expected a loader that cuts patches"):
        _ = next(iter(sp.Loader(scenes, 2, fields=["height"]))).origins
    kept = pickle.loads(pickle.dumps(batch))
    np.testing.assert_array_equal(kept.origins, batch.origins)
    with pytest.raises(AttributeError, match="made from its fields"):
        _ = sp.Batch(dict(batch)).origins


GRID: dict[str, Any] = {"cube": "patch16x12", "patches": "grid", "fields": ["cube", "mask"]}


@pytest.mark.parametrize("layout", ["hwc", "chw"])
@pytest.mark.parametrize("window", ["uniform", "hann"])
@pytest.mark.parametrize(("overlap", "shuffle", "end"), [(0, False, "uneven"), ((9, 7), True, "pad"), (11, "full", "pad")])
def test_the_identity_gives_the_scenes_back(
    scenes: sp.Dataset, values: list[NDArray[np.float32]], layout: Any, window: Any, overlap: Any, shuffle: Any, end: Any
) -> None:
    loader = sp.Loader(scenes, 6, layout=layout, overlap=overlap, shuffle=shuffle, end=end, **GRID)
    found = {}
    with sp.stitch(loader, window=window) as stitcher:
        for batch in loader:
            for scene in stitcher.add(batch, batch["cube"]):
                assert scene.key == f"s{scene.index}" and scene.index not in found
                found[scene.index] = scene.values
            if shuffle is False:
                # One scene after the other: no more than one is begun.
                assert len(stitcher.missing) <= 1
    assert sorted(found) == list(range(len(SIZES)))
    for index, whole in found.items():
        expected = values[index] if layout == "hwc" else np.moveaxis(values[index], -1, 0)
        assert whole.dtype == np.float32 and whole.shape == expected.shape
        if window == "uniform":
            np.testing.assert_array_equal(whole, expected)
        else:
            np.testing.assert_array_max_ulp(whole, expected, 1)


def test_stitching_of_other_types_and_channels(scenes: sp.Dataset, values: list[NDArray[np.float32]]) -> None:
    loader = sp.Loader(scenes, 6, overlap=(8, 6), end="uneven", **GRID)
    makes: dict[str, Any] = {
        "mask": lambda batch: batch["mask"],
        "half": lambda batch: batch["cube"].astype(np.float16)[..., :1],
        "double": lambda batch: batch["cube"].astype(np.float64).sum(-1),
        "many": lambda batch: np.repeat(batch["cube"], 5, axis=-1),
    }
    for name, make in makes.items():
        stitcher = sp.stitch(loader)
        wholes = {scene.index: scene.values for batch in loader for scene in stitcher.add(batch, make(batch))}
        stitcher.close()
        for index, whole in wholes.items():
            cube = values[index]
            if name == "mask":
                assert whole.dtype == np.float64
                np.testing.assert_array_equal(whole, np.arange(cube[..., 0].size).reshape(cube.shape[:2]) % 251)
            elif name == "half":
                np.testing.assert_array_equal(whole, cube.astype(np.float16)[..., :1])
            elif name == "double":
                np.testing.assert_array_max_ulp(whole, cube.astype(np.float64).sum(-1), 1)
            else:
                np.testing.assert_array_equal(whole, np.repeat(cube, 5, axis=-1))


@pytest.mark.parametrize("layout", ["hwc", "chw"])
def test_sums_in_float32_take_half_of_the_memory(alike: sp.Dataset, layout: Any) -> None:
    options: dict[str, Any] = {"cube": "patch20x19", "patches": "grid", "overlap": 10, "shuffle": False, "end": "uneven"}
    loader = sp.Loader(alike, 8, layout=layout, **options)
    peaks, wholes = {}, {}
    for dtype in ("float64", "float32"):
        stitcher = sp.stitch(loader, window="hann", dtype=dtype)  # type: ignore[arg-type]
        tracemalloc.start()
        for number, batch in enumerate(loader):
            # Many channels, so that the scene takes more than everything else.
            guess = np.repeat(batch["cube"], 100, axis=-1 if layout == "hwc" else 1)
            if number == 0:
                stitcher.add(batch, guess)
                peaks[dtype] = tracemalloc.get_traced_memory()[0] - guess.nbytes
            else:
                for scene in stitcher.add(batch, guess):
                    wholes[dtype, scene.index] = scene.values
        tracemalloc.stop()
        stitcher.close()
    assert 0.45 < peaks["float32"] / peaks["float64"] < 0.55, peaks
    # Sums, and a weight for each pixel: what the page says.
    assert peaks["float64"] == pytest.approx(45 * 38 * 401 * 8, rel=0.05)
    for index in range(5):
        assert wholes["float32", index].dtype == np.float32 and wholes["float32", index].flags.c_contiguous
        np.testing.assert_allclose(wholes["float32", index], wholes["float64", index], rtol=1e-6, atol=1e-6)
    counted = sp.stitch(loader, dtype="float32")
    [first, *_] = (scene for batch in loader for scene in counted.add(batch, np.ones((len(batch), 20, 19), np.int64)))
    assert first.values.dtype == np.float32 and (first.values == 1).all()
    with pytest.raises(sp.UsageError, match="dtype: expected float64 or float32, found 'float16'"):
        sp.stitch(loader, dtype="float16")  # type: ignore[arg-type]


def test_seams_are_weighted_means(alike: sp.Dataset) -> None:
    loader = sp.Loader(alike, 4, cube="patch20x38", patches="grid", overlap=(10, 0), shuffle=False, end="uneven")
    for window in ("uniform", "hann"):
        whole = None
        stitcher = sp.stitch(loader, window=window)  # type: ignore[arg-type]
        for batch in loader:
            # Each patch is predicted as the row it begins in.
            guess = np.broadcast_to(batch.origins[:, :1, None].astype(np.float64), (len(batch), 20, 38))
            for scene in stitcher.add(batch, guess):
                whole = scene.values
        assert whole is not None and whole.shape == (45, 38)
        # Rows begin at 0, 10, 20, and, moved back, 25.
        assert whole[5, 3] == 0 and whole[44, 3] == 25
        weight = np.ones(20) if window == "uniform" else np.sin(np.pi * (np.arange(20) + 0.5) / 20) ** 2
        assert whole[12, 3] == pytest.approx(10 * weight[2] / (weight[12] + weight[2]))
        of = {start: weight[28 - start] for start in (10, 20, 25)}
        assert whole[28, 7] == pytest.approx(sum(start * w for start, w in of.items()) / sum(of.values()))


def test_what_is_missing_is_said(scenes: sp.Dataset) -> None:
    loader = sp.Loader(scenes, 6, end="uneven", shuffle=False, **GRID)
    stitcher = sp.stitch(loader)
    batches = iter(loader)
    first = next(batches)
    stitcher.add(first, first["cube"])
    assert list(stitcher.missing) == ["s0"] and stitcher.missing["s0"] == 3 * 5 - 6
    with pytest.raises(sp.UsageError, match=r"patches of 's0': expected each once, found the one at \[0, 0\] twice"):
        stitcher.add(first, first["cube"])
    for wrong in (first["cube"][:3], first["cube"][:, :8], np.moveaxis(first["cube"], -1, 1), first["cube"][..., None]):
        with pytest.raises(ValueError, match=r"predictions: expected \[6, 16, 12\] or \[6, 16, 12, channels\], found"):
            stitcher.add(first, wrong)
    second = next(batches)
    with pytest.raises(ValueError, match=r"predictions of 's0': expected \[6\] channels as for its other patches, found \[2\]"):
        stitcher.add(second, second["cube"][..., :2])
    with pytest.raises(TypeError, match="predictions: expected numbers"):
        stitcher.add(second, np.full((6, 16, 12), "a"))
    with pytest.raises(sp.UsageError, match="expected all, found scenes that are not whole: 's0' lacks 9 of 15"):
        stitcher.close()
    stitcher.close()
    with pytest.raises(sp.UsageError, match="not whole"), sp.stitch(loader) as stitcher:
        stitcher.add(first, first["cube"])
    # An error of the loop is not covered up by it.
    with pytest.raises(KeyError), sp.stitch(loader) as stitcher:
        stitcher.add(first, first["cube"])
        raise KeyError
    for options, said in [
        ({"patches": "random"}, 'expected a loader with patches="grid"'),
        ({"end": "drop"}, "expected a loader that drops no patch"),
        ({"rank": 0, "world_size": 2}, "found rank 0 of 2"),
        ({"augment": "hflip"}, "expected patches as they were cut"),
        ({"weights": np.ones(len(SIZES))}, "expected each scene once"),
    ]:
        with pytest.raises(sp.UsageError, match=said):
            sp.stitch(sp.Loader(scenes, 6, **(GRID | {"end": "uneven"} | options)))  # type: ignore[arg-type]
    with pytest.raises(sp.UsageError, match="window: expected uniform or hann"):
        sp.stitch(loader, window="flat")  # type: ignore[arg-type]


def test_damaged_scenes_are_skipped_and_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    with sp.Writer(tmp_path / "out", values="keep", shuffle=False) as writer:
        for number in range(3):
            writer.write({"cube": rng.normal(0, 1, (32, 24, 2)).astype(np.float32)}, key=f"d{number}")
    shard = tmp_path / "out" / "shard-00000.shard"
    data = bytearray(shard.read_bytes())
    data[data.find(b"d1") + 2000] ^= 0xFF
    shard.write_bytes(data)
    dataset = sp.Dataset(tmp_path / "out")
    options: dict[str, Any] = {"cube": "patch16x12", "patches": "grid", "shuffle": False, "end": "uneven"}
    with pytest.raises(sp.FormatError, match="d1"):
        list(sp.Loader(dataset, 4, **options))
    loader = sp.Loader(dataset, 4, skip_corrupt=4, **options)
    stitcher = sp.stitch(loader)
    wholes = [scene.key for batch in loader for scene in stitcher.add(batch, batch["cube"])]
    assert wholes == ["d0", "d2"] and loader.stats()["skipped"] == 4
    assert stitcher.missing == {"d1": 4}
    with pytest.raises(sp.UsageError, match="expected all, found scenes that are not whole: 'd1' lacks 4 of 4"):
        stitcher.close()


def test_torch(scenes: sp.Dataset, values: list[NDArray[np.float32]]) -> None:
    torch = pytest.importorskip("torch")
    loader = sp.Loader(scenes, 6, layout="chw", overlap=4, end="uneven", to="torch", **GRID)
    with sp.stitch(loader) as stitcher:
        for batch in loader:
            batch = batch.to(torch.float32)
            prediction = torch.nn.Identity()(batch["cube"]).requires_grad_()
            for scene in stitcher.add(batch, prediction):
                np.testing.assert_array_equal(scene.values, np.moveaxis(values[scene.index], -1, 0))


def test_memory_is_predicted_and_held(alike: sp.Dataset) -> None:
    for scenes in (1, 2, 5):
        loader = sp.Loader(alike, 4, cube="patch16x12", patches_per_sample=8, open_scenes=scenes, threads=1, end="uneven")
        assert sum(len(batch) for batch in loader) == 40
        stats = loader.stats()
        # The open scenes, and one that is decoded meanwhile.
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


def test_the_identity_on_real_scenes(tmp_path: Path) -> None:
    data = Path(__file__).resolve().parents[3] / "shared" / "data" / "hsi"
    if not data.is_dir():
        pytest.skip("no sample data beside the repository")
    # The two ENVI scenes differ in their bands: a dataset of each.
    sources = {"enmap": [*(data / "enmap-potsdam-tiles" / "images").iterdir()]}
    sources |= {name: [*(data / "envi").glob(f"{name}*")] for name in ("corn", "cubus")}
    for name, files in sources.items():
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file.name).write_bytes(file.read_bytes())
        sp.pack(tmp_path / name, tmp_path / f"{name}-packed", values="keep")
        dataset = sp.Dataset(tmp_path / f"{name}-packed")
        loader = sp.Loader(dataset, 7, cube="patch9x7", patches="grid", overlap=(4, 3), fields=["cube"], end="uneven")
        with sp.stitch(loader) as stitcher:
            wholes = {scene.key: scene.values for batch in loader for scene in stitcher.add(batch, batch["cube"])}
        assert len(wholes) == len(dataset) == (18 if name == "enmap" else 1)
        for key, whole in wholes.items():
            np.testing.assert_array_equal(whole, dataset[dataset.index_of(key)]["cube"])


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
    # Also where it goes on in the middle of another epoch than its first.
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


def test_scenes_without_the_array_are_left_out(alike: sp.Dataset, tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "scores") as writer:
        for number in range(3):
            writer.write({"score": number}, key=f"b{number}")
    both = sp.concat([alike, sp.Dataset(tmp_path / "scores")])
    options: dict[str, Any] = {"cube": "patch16x12", "patches": "grid", "fields": ["cube", "score"], "end": "uneven"}
    with sp.Loader(both, 8, shuffle=False, **options) as loader, sp.stitch(loader) as stitcher:
        whole = [scene.key for batch in loader for scene in stitcher.add(batch, batch["cube"])]
    assert whole == list(alike.keys)


def test_volumes_beside_patches_of_two_sides_are_refused(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "volumes", values="keep") as writer:
        writer.write({"scan": np.zeros((20, 48, 40, 2), np.float32), "mask": np.zeros((20, 48, 40), np.uint8)}, key="a")
    dataset = sp.Dataset(tmp_path / "volumes")
    for options in ({}, {"patches_per_sample": 2}, {"patches": "grid"}):
        with pytest.raises(sp.UsageError, match=r"`scan` of 4 axes.*\n.*patchDxHxW"):
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
    with pytest.raises(sp.UsageError, match=r"expected as many in each scene, found several numbers of bands, of `cube`\nhint: `bands`"):
        sp.Loader(dataset, 4, **options)
    assert next(iter(sp.Loader(dataset, 4, bands=slice(0, 4), **options)))["cube"].shape == (4, 8, 8, 4)
