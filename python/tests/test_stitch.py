"""Tests stitching predictions for the patches of a grid into scenes."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SIZES
from numpy.typing import NDArray

import shardpack as sp

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
                # Each scene ends before the next begins, so at most one is unfinished.
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
            # Use many channels, so that the scene dominates the memory use.
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
    # As documented, a scene takes memory for its sums and one weight per pixel.
    assert peaks["float64"] == pytest.approx(45 * 38 * 401 * 8, rel=0.05)
    for index in range(5):
        assert wholes["float32", index].dtype == np.float32 and wholes["float32", index].flags.c_contiguous
        np.testing.assert_allclose(wholes["float32", index], wholes["float64", index], rtol=1e-6, atol=1e-6)
    counted = sp.stitch(loader, dtype="float32")
    [first, *_] = (scene for batch in loader for scene in counted.add(batch, np.ones((len(batch), 20, 19), np.int64)))
    assert first.values.dtype == np.float32 and (first.values == 1).all()
    with pytest.raises(sp.UsageError, match="dtype: expected 'float64' or 'float32', found 'float16'"):
        sp.stitch(loader, dtype="float16")  # type: ignore[arg-type]


def test_seams_are_weighted_means(alike: sp.Dataset) -> None:
    loader = sp.Loader(alike, 4, cube="patch20x38", patches="grid", overlap=(10, 0), shuffle=False, end="uneven")
    for window in ("uniform", "hann"):
        whole = None
        stitcher = sp.stitch(loader, window=window)  # type: ignore[arg-type]
        for batch in loader:
            # Predict the patch's first row for all of its pixels.
            guess = np.broadcast_to(batch.origins[:, :1, None].astype(np.float64), (len(batch), 20, 38))
            for scene in stitcher.add(batch, guess):
                whole = scene.values
        assert whole is not None and whole.shape == (45, 38)
        # The patches begin at rows 0, 10, 20 and 25. The last is moved back from 30.
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
    with pytest.raises(sp.UsageError, match=r"scene 's0': the patch at \[0, 0\] was added twice"):
        stitcher.add(first, first["cube"])
    for wrong in (first["cube"][:3], first["cube"][:, :8], np.moveaxis(first["cube"], -1, 1), first["cube"][..., None]):
        with pytest.raises(ValueError, match=r"predictions: expected the shape \[6, 16, 12\] or \[6, 16, 12, channels\], found"):
            stitcher.add(first, wrong)
    second = next(batches)
    with pytest.raises(ValueError, match="scene 's0': the predictions have 2 channels, but those for earlier patches had 6 channels"):
        stitcher.add(second, second["cube"][..., :2])
    with pytest.raises(TypeError, match="predictions: expected numbers"):
        stitcher.add(second, np.full((6, 16, 12), "a"))
    with pytest.raises(sp.UsageError, match="patches are missing: 9 of 15 in scene 's0'"):
        stitcher.close()
    stitcher.close()
    with pytest.raises(sp.UsageError, match="patches are missing"), sp.stitch(loader) as stitcher:
        stitcher.add(first, first["cube"])
    # An error in the loop must stay visible.
    with pytest.raises(KeyError), sp.stitch(loader) as stitcher:
        stitcher.add(first, first["cube"])
        raise KeyError
    for options, said in [
        ({"patches": "random"}, 'must have patches="grid"'),
        ({"end": "drop"}, 'end="drop" would drop patches'),
        ({"rank": 0, "world_size": 2}, "rank 0 of 2 gets only some of the patches"),
        ({"augment": "hflip"}, "must be created without augment, but has augment='hflip'"),
        ({"weights": np.ones(len(SIZES))}, "must return each scene exactly once"),
    ]:
        with pytest.raises(sp.UsageError, match=said):
            sp.stitch(sp.Loader(scenes, 6, **(GRID | {"end": "uneven"} | options)))  # type: ignore[arg-type]
    with pytest.raises(sp.UsageError, match="window: expected 'uniform' or 'hann'"):
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
    with pytest.raises(sp.UsageError, match="patches are missing: 4 of 4 in scene 'd1'"):
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


def test_the_identity_on_real_scenes(tmp_path: Path) -> None:
    data = Path(__file__).resolve().parents[3] / "shared" / "data" / "hsi"
    if not data.is_dir():
        pytest.skip("no sample data beside the repository")
    # The two ENVI scenes differ in their bands, so make a dataset of each.
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


def test_scenes_without_the_array_are_left_out(alike: sp.Dataset, tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "scores") as writer:
        for number in range(3):
            writer.write({"score": number}, key=f"b{number}")
    both = sp.concat([alike, sp.Dataset(tmp_path / "scores")])
    options: dict[str, Any] = {"cube": "patch16x12", "patches": "grid", "fields": ["cube", "score"], "end": "uneven"}
    with sp.Loader(both, 8, shuffle=False, **options) as loader, sp.stitch(loader) as stitcher:
        whole = [scene.key for batch in loader for scene in stitcher.add(batch, batch["cube"])]
    assert whole == list(alike.keys)
