"""Decoding on a GPU: the same batches as the host's, to the bit, and memory that nobody overwrites.

Each test needs a GPU and PyTorch, some JAX or CuPy as well; what is missing is said for each that is skipped.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import io
import json
import os
import pickle
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardpack as sp
from conftest import pack
from PIL import Image
from shardpack import _shardpack

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NORMALISED: dict[str, Any] = {"dtype": "float16", "mean": MEAN, "std": STD}
BIG = 96


def why_not() -> str | None:
    """Why there is no device to test with."""
    try:
        _shardpack.Stage(0)
    except _shardpack.NoDeviceError as error:
        return str(error).splitlines()[0]
    try:
        import torch
    except ModuleNotFoundError as error:
        return str(error)
    return None if torch.cuda.is_available() else "PyTorch finds no GPU"


@pytest.fixture(scope="module", autouse=True)
def gpu() -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(f"no GPU: {reason}")


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """96 JPEGs with much in them, of some 300 × 400 pixels, upright and across, grey and in colour."""
    source, rng = tmp_path_factory.mktemp("big"), np.random.default_rng(5)
    for number in range(BIG):
        folder = source / ("even", "odd")[number % 2]
        folder.mkdir(exist_ok=True)
        height, width = 260 + number % 7 * 16, 380 + number % 5 * 24
        coarse = rng.integers(0, 256, (height // 8, width // 8, 3)).astype(np.uint8)
        picture = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
        picture = picture.transpose(Image.Transpose.ROTATE_90) if number % 3 == 0 else picture
        picture = picture.convert("L") if number % 16 == 5 else picture
        picture.save(folder / f"{number:03}.jpg", quality=70 + number % 25, subsampling=number % 3)
    return pack(source, tmp_path_factory.mktemp("packed") / "big")


def loader(dataset: Path | sp.Dataset, rows: int = 16, **options: Any) -> sp.Loader:
    """One that decodes on the device, or fails."""
    dataset = dataset if isinstance(dataset, sp.Dataset) else sp.Dataset(dataset)
    return sp.Loader(dataset, rows, **{"to": "torch", "device": "cuda:0", "decode": "device"} | options)


def on_host(dataset: Path | sp.Dataset, rows: int = 16, **options: Any) -> sp.Loader:
    dataset = dataset if isinstance(dataset, sp.Dataset) else sp.Dataset(dataset)
    return sp.Loader(dataset, rows, **options)


def same(device: Any, host: Any) -> None:
    """A field of two batches: equal, to the bit."""
    if isinstance(host, list):
        assert device == host
        return
    if isinstance(host, sp.Ragged):
        assert np.array_equal(device.shapes, host.shapes)
        for mine, theirs in zip(device, host, strict=True):
            same(mine, theirs)
        return
    assert device.device.type == "cuda" and tuple(device.shape) == host.shape
    if host.dtype.name == "bfloat16":
        # PyTorch makes no NumPy array of it.
        import torch

        device, host = device.view(torch.int16), host.view(np.int16)
    mine = device.cpu().numpy()
    assert mine.dtype == host.dtype
    if mine.tobytes() != host.tobytes():
        wrong = np.argwhere((mine != host) | (np.isnan(mine) != np.isnan(host)))
        raise AssertionError(f"{len(wrong)} of {host.size} values differ, first at {wrong[:1].tolist()}")


def compare(dataset: Path | sp.Dataset, epochs: int = 1, rows: int = 16, **options: Any) -> dict[str, Any]:
    """The statistics of a loader whose batches were all equal to the host's."""
    hosts = {name: value for name, value in options.items() if name != "resident"}
    with loader(dataset, rows, **options) as device, on_host(dataset, rows, **hosts) as host:
        batches = 0
        for _ in range(epochs):
            for mine, theirs in zip(device, host, strict=True):
                assert list(mine.sample_keys) == list(theirs.sample_keys)
                assert np.array_equal(mine.indices.cpu().numpy(), theirs.indices)
                for name in theirs.keys():
                    same(mine[name], theirs[name])
                batches += 1
        assert batches > 0
        assert device.predicted_device_bytes > 0
        return device.stats()


# The device that a thread works on


def current() -> int:
    """The driver's context of this thread; 0 if it has none."""
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert driver.cuCtxGetCurrent(ctypes.byref(context)) == 0
    return context.value or 0


def test_the_callers_device_stays_the_current_one(big: Path) -> None:
    seen: list[int] = []

    def work() -> None:
        seen.append(current())
        # Without a framework that would choose a device: the bytes are not looked at.
        stage = _shardpack.Stage(0)
        seen.append(current())
        device = loader(big, 16, image="rrc32")
        seen.append(current())
        batch = next(iter(device))
        batch.used_on(1)
        seen.append(current())
        del batch
        device.close()
        del device, stage
        seen.append(current())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [0] * 5, "the thread has no device of its own"


def test_a_loader_of_another_device_does_not_choose_it(big: Path) -> None:
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("one device only")
    torch.cuda.set_device(1)
    try:
        with loader(big, 16, image="rrc32") as device:
            for batch in device:
                del batch
                assert torch.cuda.current_device() == 1
    finally:
        torch.cuda.set_device(0)


# What is in a batch


@pytest.mark.parametrize("layout", ["hwc", "chw"])
def test_cubes_are_turned_and_normalised_as_on_the_host(cubes: Path, layout: str) -> None:
    import torch

    options: dict[str, Any] = {"fields": ["cube", "mask"], "cube": "patch8x8", "augment": ["hflip", "vflip", "rot90"]}
    options["augment"] += [sp.augment.random_gain(0.2), sp.augment.band_jitter(0.1, 0.5), sp.augment.band_dropout(p=0.3)]
    options |= {"layout": layout, "dtype": {"cube": "bfloat16"}, "mean": {"cube": np.arange(8.0)}, "std": {"cube": 3}}
    with loader(cubes, 8, **options) as device, sp.Loader(sp.Dataset(cubes), 8, to="torch", **options) as host:
        for mine, theirs in zip(device, host, strict=True):
            assert mine["cube"].dtype == torch.bfloat16
            assert all(torch.equal(mine[name].cpu(), theirs[name]) for name in ("cube", "mask"))
        assert device.stats()["device_rows"] > 0


@pytest.mark.parametrize("layout", ["hwc", "chw"])
@pytest.mark.parametrize("floats", [{}, NORMALISED, {"dtype": {"image": "float32"}}], ids=["uint8", "float16", "float32"])
@pytest.mark.parametrize("image", ["rrc224", "center96", "rrc33"])
def test_crops_are_those_of_the_host(big: Path, image: str, floats: dict[str, Any], layout: str) -> None:
    compare(big, epochs=2, image=image, layout=layout, seed=11, **floats)


@pytest.mark.parametrize("floats", [{}, NORMALISED], ids=["uint8", "float16"])
@pytest.mark.parametrize("layout", ["hwc", "chw"])
def test_whole_pictures_are_those_of_the_host(big: Path, floats: dict[str, Any], layout: str) -> None:
    compare(big, layout=layout, **floats)


RECIPES: dict[str, list[str]] = {
    "trivial": [sp.augment.trivial_augment_wide(), sp.augment.random_erasing(value=(1, 2, 250))],
    "rand": [sp.augment.rand_augment(num_ops=3)],
    "jitter": [sp.augment.color_jitter(0.4, 0.4, 0.4, 0.2), sp.augment.gaussian_blur(9, p=0.5), sp.augment.random_equalize()],
}


@pytest.mark.parametrize("recipe", list(RECIPES))
@pytest.mark.parametrize("options", [{"image": "rrc224", "layout": "chw", **NORMALISED}, {"image": "rrc65"}, {}], ids=["floats", "uint8", "whole"])
def test_pictures_are_augmented_as_on_the_host(big: Path, recipe: str, options: dict[str, Any]) -> None:
    for resident in (False, True):
        stats = compare(big, epochs=2, augment=RECIPES[recipe], fields=["image", "label"], resident=resident, **options)
        assert stats["device_rows"] > BIG, stats["refused"]
        assert options == {} or stats["grown_slots"] == 0, "what is needed was predicted"


@pytest.mark.parametrize("floats", [{}, NORMALISED, {"dtype": {"image": "bfloat16"}}], ids=["uint8", "float16", "bfloat16"])
def test_batches_are_mixed_as_on_the_host(big: Path, floats: dict[str, Any]) -> None:
    mixes = [sp.augment.mixup(alpha=0.4), sp.augment.cutmix()]
    for layout in ("hwc", "chw"):
        compare(big, epochs=3, image="rrc96", layout=layout, augment_batch=mixes, fields=["image", "label"], **floats)


def test_the_device_decodes_the_pictures(big: Path) -> None:
    stats = compare(big, image="rrc224", epochs=2)
    refused = sum(stats["refused"].values())
    print("refused:", stats["refused"], stats["refused_first"])
    assert stats["device_rows"] == 2 * BIG - refused, "every row was decoded by one of the two"
    assert refused <= BIG // 4, f"the host decoded {refused} of {2 * BIG} rows: {stats['refused']}"
    assert set(stats["refused"]) == set(stats["refused_first"])
    assert all(0 < len(keys) <= 3 for keys in stats["refused_first"].values())


@pytest.mark.parametrize("options", [{"image": "rrc224", **NORMALISED}, {}], ids=["crops", "whole"])
def test_pictures_that_stay_on_the_device(big: Path, options: dict[str, Any]) -> None:
    with loader(big, resident=True, **options) as device:
        before = device.stats()["read_bytes"]
        assert device.stats()["resident_values"] > BIG * 3 // 4
        assert device.predicted_device_bytes > loader(big, **options).predicted_device_bytes
    stats = compare(big, epochs=3, resident=True, **options)
    rows = sum(stats["refused"].values())
    assert stats["device_rows"] == 3 * BIG - rows
    # What the host has decoded was read for it, and nothing else.
    assert stats["read_bytes"] == before or rows > 0


def test_cubes_that_stay_on_the_device(cubes: Path) -> None:
    stats = compare(cubes, epochs=2, rows=6, resident=True)
    assert stats["device_rows"] > 0
    compare(cubes, epochs=2, rows=6, cube="patch16x16", resident=True)


def test_a_dataset_that_stays_on_the_device_goes_on_in_the_middle(big: Path) -> None:
    options: dict[str, Any] = {"image": "rrc64", "seed": 3, "resident": True}
    with loader(big, **options) as device:
        epoch = iter(device)
        next(epoch)
        state = device.state_dict()
        expected = [batch["image"].cpu() for batch in epoch]
    with loader(big, **options) as device:
        device.load_state_dict(state)
        found = [batch["image"].cpu() for batch in device]
    assert len(found) == len(expected) > 0
    assert all((a == b).all() for a, b in zip(found, expected, strict=True))


def test_small_pictures_of_several_sizes(photos: Path) -> None:
    compare(photos, image="rrc64", epochs=3)
    compare(photos)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dtype": "float32"},
        {"dtype": {"cube": "float32", "mask": "int64"}},
        {"layout": "chw"},
        {"cube": "patch8x12"},
        {"cube": "center8x8", "bands": "2..6"},
        {"cube": "grid8x8", "bands": [5, 1, 2], "layout": "chw"},
        {"cube": "raw"},
    ],
    ids=str,
)
def test_cubes_and_masks_are_those_of_the_host(cubes: Path, options: dict[str, Any]) -> None:
    compare(cubes, epochs=2, rows=6, **options)


def test_cubes_as_they_are_packed_for_a_device(tmp_path: Path, cube_values: list[np.ndarray]) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number, values in enumerate(cube_values):
        np.save(source / f"{number:03}.npy", values.astype(np.float16))
    for codec in ("blosc2-lz4", "blosc2-zstd", "zstd", "raw"):
        out = pack(source, tmp_path / codec, "--values", "keep", "--codec", codec)
        stats = compare(out, rows=6, dtype="float32")
        # One cube of each sample that is in a batch, and nothing is left to the host.
        assert (stats["refused"], stats["device_rows"]) == ({}, len(cube_values) // 6 * 6), codec


def test_fields_that_the_device_does_not_decode(big: Path, tmp_path: Path) -> None:
    compare(big, image="raw")
    buffer = io.BytesIO()
    Image.fromarray(np.zeros((80, 90, 3), np.uint8) + 7).save(buffer, "JPEG")
    with sp.Writer(tmp_path / "mixed") as writer:
        for number in range(20):
            sample = {"image": buffer.getvalue(), "caption": f"number {number}", "label": number, "x": np.arange(number % 3)}
            writer.write(sample, key=f"{number:02}")
    with loader(tmp_path / "mixed", 5, image="rrc32", fields=["image", "label", "caption", "x"]) as device:
        for images, labels, captions, lists in device:
            assert images.is_cuda and labels.is_cuda
            assert captions == [f"number {number}" for number in labels.tolist()]
            assert [one.tolist() for one in lists] == [list(range(number % 3)) for number in labels.tolist()]


def test_png_and_unusual_jpegs_are_decoded_by_the_host_and_counted(tmp_path: Path) -> None:
    source, rng = tmp_path / "source" / "all", np.random.default_rng(3)
    source.mkdir(parents=True)
    for number in range(24):
        picture = Image.fromarray(rng.integers(0, 256, (50, 70, 3)).astype(np.uint8))
        match number % 3:
            case 0:
                picture.save(source / f"{number:02}.jpg", quality=90)
            case 1:
                picture.save(source / f"{number:02}.png")
            case _:
                picture.convert("CMYK").save(source / f"{number:02}.jpg", quality=90)
    stats = compare(pack(source.parent, tmp_path / "packed"), rows=8, image="rrc48")
    assert sum(stats["refused"].values()) >= 16, stats["refused"]


def test_padding_is_zero_and_marked(big: Path) -> None:
    with loader(big, 40, image="center64", end="pad") as device:
        *_, last = device
        assert last.mask.is_cuda and last.mask.tolist() == [True] * 16 + [False] * 24
        assert last["image"][16:].count_nonzero() == 0 and last["image"][:16].count_nonzero() > 0
        assert last.present("image").tolist() == last.mask.tolist()


def test_a_damaged_picture_harms_no_other(big: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(big, copy)
    stored = sp.Dataset(big).raw(7, "image")
    assert stored is not None
    shard = next(shard for shard in copy.glob("*.shard") if stored in shard.read_bytes())
    content = bytearray(shard.read_bytes())
    middle = content.index(stored) + len(stored) // 2
    content[middle : middle + 40] = bytes(byte ^ 0x5A for byte in content[middle : middle + 40])
    shard.write_bytes(content)
    # With sums the host finds the damage; without them the device meets it.
    for check in (True, False):
        damaged = sp.Dataset(copy, verify_crc=check)
        with (
            loader(damaged, image="center64", shuffle=False, skip_corrupt=5) as device,
            on_host(big, image="center64", shuffle=False) as host,
        ):
            for number, (mine, theirs) in enumerate(zip(device, host, strict=True)):
                others = [row for row in range(16) if number * 16 + row != 7]
                same(mine["image"][others], theirs["image"][others])
            if check:
                assert device.stats()["skipped"] == 1


# Whose memory it is


def test_slots_are_not_overwritten_while_a_stream_works_with_them(big: Path) -> None:
    import torch

    options: dict[str, Any] = {"image": "rrc128", "seed": 2, "prefetch": 2}
    with on_host(big, **options) as host:
        expected = [batch["image"].copy() for batch in host]
    side = torch.cuda.Stream()
    for asks_in_side_stream in (True, False):
        seen = []
        with loader(big, **options) as device:
            for batch in device:
                if asks_in_side_stream:
                    with torch.cuda.stream(side):
                        image = batch["image"]
                else:
                    image = batch["image"]
                    batch.used_on(side)
                with torch.cuda.stream(side):
                    # Some 100 ms: the loader could decode the rest of the epoch meanwhile.
                    torch.cuda._sleep(150_000_000)
                    seen.append(image.clone())
                del image, batch
            assert device.stats()["extra_slots"] == 0
        side.synchronize()
        for mine, theirs in zip(seen, expected, strict=True):
            same(mine, theirs)


def test_batches_may_be_kept(big: Path) -> None:
    options: dict[str, Any] = {"image": "rrc64", "prefetch": 2}
    with on_host(big, **options) as host, loader(big, **options) as device:
        expected = [batch["image"].copy() for batch in host]
        kept = list(device)
        tensors = [batch["image"] for batch in kept]
        assert len({tensor.data_ptr() for tensor in tensors}) == len(tensors)
        del kept
        for mine, theirs in zip(tensors, expected, strict=True):
            same(mine, theirs)
        assert device.stats()["extra_slots"] > 0
        last = tensors[-1]
        del tensors
        for _ in device:
            pass
    # Longer than the loader.
    same(last, expected[-1])


def test_addresses_stay_and_graphs_can_be_captured(big: Path) -> None:
    import torch

    graphs: dict[int, tuple[Any, Any]] = {}
    replayed = 0
    with loader(big, image="rrc64", layout="chw", prefetch=2, **NORMALISED) as device:
        for _ in range(3):
            for batch in device:
                image = batch["image"]
                eager = image.float().square().mean(dim=(1, 2, 3))
                place = image.data_ptr()
                if place not in graphs:
                    torch.cuda.synchronize()
                    graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                        out = image.float().square().mean(dim=(1, 2, 3))
                    graphs[place] = graph, out
                graph, out = graphs[place]
                graph.replay()
                assert torch.equal(out, eager)
                replayed += 1
                del image, batch
    assert replayed == 18 and len(graphs) <= 2, f"{len(graphs)} addresses for two slots"


def test_memory_stays_flat_over_many_batches(big: Path) -> None:
    import torch

    many = int(os.environ.get("SHARDPACK_BATCHES", "350"))

    def taken() -> tuple[int, int]:
        gc.collect()
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return total - free, pages * os.sysconf("SC_PAGE_SIZE")

    sums = torch.zeros((), device="cuda")
    with loader(big, image="rrc128", **NORMALISED) as device:
        before, after, batches = (0, 0), (0, 0), 0
        while batches < many:
            for batch in device:
                sums += batch["image"].float().mean() + batch["label"].float().mean()
                batches += 1
                if batches == 50:
                    before = taken()
        after = taken()
    assert torch.isfinite(sums)
    assert after[0] - before[0] <= 8 << 20, f"device memory grew by {after[0] - before[0]:,} bytes"
    assert after[1] - before[1] <= 48 << 20, f"host memory grew by {after[1] - before[1]:,} bytes"


# Other libraries


def test_dlpack_for_a_device(squares: Path) -> None:
    with loader(squares, image="rrc32", seed=1) as device, on_host(squares, image="rrc32", seed=1) as host:
        core, expected = next(iter(device))._core, next(iter(host))["image"]
        assert core is not None and core.device() == (2, 0)
        tensor = core.tensor("image")
        assert tensor.__dlpack_device__() == (2, 0)
        for stream in (None, -1, 1, 2):
            assert "dltensor" in repr(tensor.__dlpack__(stream=stream))
        assert "dltensor_versioned" in repr(tensor.__dlpack__(max_version=(1, 0), dl_device=(2, 0)))
        with pytest.raises(ValueError, match="stream: .*found 0\nhint"):
            tensor.__dlpack__(stream=0)
        with pytest.raises(ValueError, match="stream: .*found -2"):
            tensor.__dlpack__(stream=-2)
        for wrong in ({"copy": True}, {"dl_device": (1, 0), "copy": False}, {"dl_device": (2, 9)}):
            with pytest.raises(BufferError, match="DLPack"):
                tensor.__dlpack__(**wrong)  # type: ignore[arg-type]
        assert np.array_equal(np.from_dlpack(_OnHost(tensor)), expected)
        assert np.array_equal(tensor.to_host(), expected)
        assert not hasattr(tensor, "__array_interface__")


class _OnHost:
    """Asks a tensor of a device for a copy on the host."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: Any) -> Any:
        return self.tensor.__dlpack__(dl_device=(1, 0))


def test_the_cuda_array_interface(squares: Path) -> None:
    import torch

    with loader(squares, image="rrc32", **NORMALISED) as device:
        batch = next(iter(device))
        core = batch._core
        assert core is not None
        tensor = core.tensor("image")
        interface = tensor.__cuda_array_interface__
        assert (interface["version"], interface["typestr"], interface["stream"]) == (3, "<f2", None)
        assert interface["shape"] == (16, 32, 32, 3) and interface["data"] == (batch["image"].data_ptr(), False)
        assert torch.equal(torch.as_tensor(tensor, device="cuda"), batch["image"])


def test_cupy(big: Path) -> None:
    cupy = pytest.importorskip("cupy")
    options: dict[str, Any] = {"image": "rrc64", "seed": 4, "prefetch": 2, **NORMALISED}
    side = cupy.cuda.Stream(non_blocking=True)
    with on_host(big, **options) as host:
        expected = [(batch["image"].copy(), batch["label"].copy()) for batch in host]
    with loader(big, to="cupy", device="cuda", **options) as device:
        seen = []
        for batch in device:
            with side:
                image, label = batch["image"], batch["label"]
                assert isinstance(image, cupy.ndarray) and image.device.id == 0
                seen.append((image.copy(), label.copy()))
            assert isinstance(batch.indices, cupy.ndarray)
            del image, label, batch
        side.synchronize()
    for mine, theirs in zip(seen, expected, strict=True):
        for one, other in zip(mine, theirs, strict=True):
            assert one.get().tobytes() == other.tobytes()
    # The interface alone.
    with loader(big, **options) as device:
        core = next(iter(device))._core
        assert core is not None
        tensor = core.tensor("image")
        assert cupy.asarray(tensor).get().tobytes() == tensor.to_host().tobytes()


def test_cupy_from_the_host(squares: Path) -> None:
    cupy = pytest.importorskip("cupy")
    with loader(squares, to="cupy", decode="host", image="rrc32") as device, on_host(squares, image="rrc32") as host:
        mine, theirs = next(iter(device))["image"], next(iter(host))["image"]
        assert isinstance(mine, cupy.ndarray) and np.array_equal(mine.get(), theirs)


def test_jax(big: Path, cubes: Path) -> None:
    jax = pytest.importorskip("jax")
    try:
        gpu = jax.devices("cuda")[0]
    except RuntimeError as error:
        pytest.skip(f"JAX finds no GPU: {error}")
    square = jax.jit(lambda x: (x.astype("float32") ** 2).sum())
    options: dict[str, Any] = {"image": "rrc64", "seed": 4, "prefetch": 2, **NORMALISED}
    with on_host(big, **options) as host:
        expected = [(batch["image"].copy(), batch["label"].copy()) for batch in host]
    with loader(big, to="jax", **options) as device:
        seen, sums = [], []
        for batch in device:
            image, label = batch["image"], batch["label"]
            assert image.devices() == {gpu} and label.dtype == "int32"
            sums.append(square(image))
            seen.append((image, label))
            del batch
        assert len(seen) == len(expected)
        for (image, label), (their_image, their_label) in zip(seen, expected, strict=True):
            assert np.asarray(image).tobytes() == their_image.tobytes()
            assert np.array_equal(np.asarray(label), their_label)
        assert all(np.isfinite(float(one)) for one in sums)
    with loader(cubes, 6, to="jax") as device, on_host(cubes, 6) as host:
        for mine, theirs in zip(device, host, strict=True):
            assert np.asarray(mine["cube"]).tobytes() == theirs["cube"].tobytes()
            assert np.asarray(mine["mask"]).tobytes() == theirs["mask"].tobytes()


def test_a_data_loader_takes_it_without_workers(squares: Path, big: Path) -> None:
    import torch

    with loader(squares, image="rrc32") as device:
        wrapped = torch.utils.data.DataLoader(sp.torch.IterableDataset(device), batch_size=None)
        batches = list(wrapped)
        assert len(batches) == 3 and all(batch["image"].is_cuda for batch in batches)
        pinned = batches[0].pin_memory()
        assert pinned["image"].data_ptr() == batches[0]["image"].data_ptr() and pinned.indices.is_cuda
        many = torch.utils.data.DataLoader(sp.torch.IterableDataset(device), batch_size=None, num_workers=1)
        with pytest.raises(RuntimeError, match="expected a loader that decodes on the host"):
            next(iter(many))
    with loader(big) as device:
        assert next(iter(device)).pin_memory()["image"].values.is_cuda


# Life and end


def test_two_loaders_at_a_time(big: Path, cubes: Path) -> None:
    pictures: dict[str, Any] = {"image": "rrc64", "seed": 8, "threads": 2}
    with (
        loader(big, 12, **pictures) as first, loader(cubes, 3, threads=2) as second,
        on_host(big, 12, **pictures) as third, on_host(cubes, 3) as fourth,
    ):  # fmt: skip
        for a, b, c, d in zip(first, second, third, fourth, strict=True):
            same(a["image"], c["image"])
            same(b["cube"], d["cube"])


def test_another_device(big: Path) -> None:
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    with loader(big, image="rrc64", device="cuda:1") as one, loader(big, image="rrc64") as zero:
        for a, b in zip(one, zero, strict=True):
            assert (a["image"].device.index, b["image"].device.index) == (1, 0)
            assert torch.equal(a["image"].cpu(), b["image"].cpu())
    torch.cuda.set_device(1)
    try:
        with loader(big, image="rrc64", device="cuda") as chosen:
            torch.cuda.set_device(0)
            assert next(iter(chosen))["image"].device.index == 1
    finally:
        torch.cuda.set_device(0)


RANK = """
    import hashlib, json, sys
    import shardpack as sp
    dataset, rank, steps, state, device = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
    with sp.Loader(sp.Dataset(dataset), 8, image="rrc64", seed=4, rank=rank, world_size=2, to="torch", device=device, decode="device", fields=["image"]) as loader:
        seen = {}
        for step, batch in enumerate(loader, 1):
            for key, image in zip(batch.sample_keys, batch["image"], strict=True):
                seen[key] = hashlib.sha256(image.cpu().numpy()).hexdigest()
            if step == steps:
                break
        if rank == 0:
            open(state, "w").write(json.dumps(loader.state_dict()))
    print(json.dumps(seen))
"""


def test_two_ranks_with_a_device_each_and_going_on_with_one(big: Path, tmp_path: Path) -> None:
    import torch

    last = torch.cuda.device_count() - 1
    state, steps = tmp_path / "state.json", 3
    command = [sys.executable, "-c", textwrap.dedent(RANK), str(big)]
    ranks = [subprocess.Popen([*command, str(rank), str(steps), str(state), f"cuda:{min(rank, last)}"], stdout=subprocess.PIPE, text=True) for rank in range(2)]
    seen: dict[str, str] = {}
    for rank in ranks:
        out, _ = rank.communicate(timeout=120)
        assert rank.returncode == 0
        mine = json.loads(out.splitlines()[-1])
        assert len(mine) == steps * 8 and not seen.keys() & mine.keys()
        seen |= mine
    with loader(big, 6, image="rrc64", seed=4, fields=["image"]) as device, on_host(big, 6, image="rrc64", seed=4, fields=["image"]) as host:
        for one in (device, host):
            one.load_state_dict(json.loads(state.read_text()))
        for mine, theirs in zip(device, host, strict=True):
            same(mine["image"], theirs["image"])
            for key, image in zip(theirs.sample_keys, theirs["image"], strict=True):
                assert key not in seen, f"{key} comes twice"
                seen[key] = hashlib.sha256(image.tobytes()).hexdigest()
    assert len(seen) == BIG
    with on_host(big, 16, image="rrc64", seed=4, fields=["image"]) as host:
        pixels = {key: hashlib.sha256(image.tobytes()).hexdigest() for batch in host for key, image in zip(batch.sample_keys, batch["image"], strict=True)}
    assert seen == pixels


def test_a_device_that_is_not_there(squares: Path) -> None:
    with pytest.raises(RuntimeError, match="cannot decode on cuda:77: "):
        loader(squares, device="cuda:77")


def test_going_on_in_the_middle_of_an_epoch(big: Path) -> None:
    options: dict[str, Any] = {"image": "rrc64", "seed": 6}
    with loader(big, **options) as device, on_host(big, **options) as host:
        iterator = iter(device)
        for _ in range(2):
            next(iterator)
        with pickle.loads(pickle.dumps(device)) as copy:
            rest = list(host)[2:]
            for mine, theirs in zip(copy, rest, strict=True):
                same(mine["image"], theirs["image"])


def test_breaking_off_and_beginning_again(big: Path) -> None:
    with loader(big, image="rrc64", prefetch=4) as device:
        for epoch in range(6):
            device.set_epoch(epoch)
            for number, batch in enumerate(device):
                if number == epoch % 3:
                    break
                del batch
        with on_host(big, image="rrc64", epoch=9) as host:
            device.set_epoch(9)
            for mine, theirs in zip(device, host, strict=True):
                same(mine["image"], theirs["image"])


ENDS = {
    "open": "batch = next(iter(loader))",
    "kept": "batches = [batch for batch, _ in zip(loader, range(3))]; images = [batch['image'] for batch in batches]",
    "busy": "image = next(iter(loader))['image']; torch.cuda._sleep(300_000_000); total = image.sum()",
    "thread": "import threading; threading.Thread(target=drain, daemon=True).start(); time.sleep(0.5)",
    "dropped": "batch = next(iter(loader)); image = batch['image']; del loader",
}


@pytest.mark.parametrize("how", ENDS)
def test_the_program_may_end_with_work_in_flight(big: Path, how: str) -> None:
    program = f"""
        import sys, time
        import torch
        import shardpack as sp
        loader = sp.Loader(sp.Dataset(sys.argv[1]), 16, image="rrc224", to="torch", device="cuda:0", decode="device", prefetch=4)

        def drain():
            try:
                for _ in range(10_000):
                    for batch in loader:
                        pass
            except RuntimeError:
                pass  # the end of the program has closed it

        {ENDS[how]}
        print("ended")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(big)], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")


def test_a_fork_is_refused_in_words(squares: Path) -> None:
    program = """
        import os, sys
        import shardpack as sp
        options = {"image": "rrc32", "to": "torch", "device": "cuda:0", "decode": "device"}
        fresh, begun = (sp.Loader(sp.Dataset(sys.argv[1]), 16, **options) for _ in range(2))
        batch = next(iter(begun))
        child = os.fork()
        for loader in (fresh, begun) if child == 0 else ():
            try:
                next(iter(loader))
            except RuntimeError as error:
                print("expected the process that made it, found a fork of that process" in str(error))
            else:
                print("no error")
        if child == 0:
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(sum(len(batch) for batch in fresh))
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program), str(squares)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\nTrue\n48\n", "")


def test_closing_while_batches_are_on_their_way(big: Path) -> None:
    for taken in (0, 1, 3):
        device = loader(big, image="rrc224", prefetch=4)
        iterator: Iterator[sp.Batch] = iter(device)
        batches = [next(iterator) for _ in range(taken)]
        device.close()
        for batch in batches:
            assert batch["image"].is_cuda and batch["image"].sum().item() > 0
        with pytest.raises(RuntimeError, match="found one that was closed"):
            device.stats()
