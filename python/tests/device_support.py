"""Functions shared by the tests of decoding on a GPU. They make pictures, and loaders for host and device."""

from __future__ import annotations

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
    """Returns the reason why no device can be tested, or None."""
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
    """Packs 96 detailed JPEGs of about 300 × 400 pixels, grey or in colour. Some are stored rotated."""
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
    """Makes a loader that decodes on the device, or fails."""
    dataset = dataset if isinstance(dataset, sp.Dataset) else sp.Dataset(dataset)
    return sp.Loader(dataset, rows, **{"to": "torch", "device": "cuda:0", "decode": "device"} | options)


def on_host(dataset: Path | sp.Dataset, rows: int = 16, **options: Any) -> sp.Loader:
    dataset = dataset if isinstance(dataset, sp.Dataset) else sp.Dataset(dataset)
    return sp.Loader(dataset, rows, **options)


def same(device: Any, host: Any) -> None:
    """Asserts that a field is equal in two batches, bit for bit."""
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
        # PyTorch cannot convert bfloat16 to a NumPy array, so compare the bits.
        import torch

        device, host = device.view(torch.int16), host.view(np.int16)
    mine = device.cpu().numpy()
    assert mine.dtype == host.dtype
    if mine.tobytes() != host.tobytes():
        wrong = np.argwhere((mine != host) | (np.isnan(mine) != np.isnan(host)))
        raise AssertionError(f"{len(wrong)} of {host.size} values differ, first at {wrong[:1].tolist()}")


def compare(dataset: Path | sp.Dataset, epochs: int = 1, rows: int = 16, **options: Any) -> dict[str, Any]:
    """Asserts that all batches of a loader equal the host's batches, and returns the statistics of the loader."""
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
