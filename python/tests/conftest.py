"""Datasets that all tests share: pictures made with Pillow, and cubes made with NumPy."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import shardpack as sp

PHOTOS = 60
CUBES = 24
CLASSES = ("cat", "dog", "owl")
SIZES = [(40, 50), (33, 50), (61, 37), (40, 40), (52, 64), (35, 90), (48, 48), (40, 50)]

# Restore the default handler of Ctrl-C. A background job ignores Ctrl-C, and so would the programs that the tests
# start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def command() -> list[str]:
    """Returns the command from the environment variable, or else from the folder of this Python or from the path."""
    beside = Path(sys.executable).parent / "shardpack"
    found = os.environ.get("SHARDPACK_BIN") or (str(beside) if beside.exists() else shutil.which("shardpack"))
    if not found:
        raise RuntimeError("no `shardpack` command: install the package, or set SHARDPACK_BIN")
    return [found]


def pack(source: Path, out: Path, *options: str) -> Path:
    done = subprocess.run([*command(), "pack", str(source), str(out), *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def photo(number: int, height: int, width: int) -> Image.Image:
    """Returns a smooth picture that differs for each number."""
    y, x = np.mgrid[:height, :width]
    planes = [
        (x * (3 + number % 5) + y * 2 + number * 37) % 256,
        (x + y * (1 + number % 3)) % 256,
        (x * y // 40 + number) % 256,
    ]
    return Image.fromarray(np.stack(planes, axis=-1).astype(np.uint8))


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packs 60 JPEGs of several sizes in three classes."""
    source = tmp_path_factory.mktemp("photos")
    for number in range(PHOTOS):
        folder = source / CLASSES[number % 3]
        folder.mkdir(exist_ok=True)
        photo(number, 64 + number % 4 * 8, 80 + number % 3 * 16).save(folder / f"{number:03}.jpg", quality=90)
    return pack(source, tmp_path_factory.mktemp("packed") / "photos")


@pytest.fixture
def dataset(photos: Path) -> sp.Dataset:
    return sp.Dataset(photos)


@pytest.fixture(scope="session")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packs 48 JPEGs of one size in three classes of 36, 9 and 3 pictures."""
    source = tmp_path_factory.mktemp("squares")
    for number in range(48):
        folder = source / (CLASSES[0] if number < 36 else CLASSES[1] if number < 45 else CLASSES[2])
        folder.mkdir(exist_ok=True)
        photo(number, 48, 48).save(folder / f"{number:03}.jpg", quality=90)
    return pack(source, tmp_path_factory.mktemp("packed") / "squares")


@pytest.fixture(scope="session")
def cube_values() -> list[np.ndarray]:
    """Returns float32 cubes [20, 30, 8] whose values contain the cube's number, so that tests can tell them apart."""
    y, x, band = np.mgrid[:20, :30, :8]
    return [(np.sin(x / 9 + band) + y * 0.01 + number).astype(np.float32) for number in range(CUBES)]


@pytest.fixture(scope="session")
def cubes(tmp_path_factory: pytest.TempPathFactory, cube_values: list[np.ndarray]) -> Path:
    """Packs 24 float32 cubes without loss. Each has a mask filled with its number, except in the upper left pixel."""
    source, masks = tmp_path_factory.mktemp("cubes"), tmp_path_factory.mktemp("masks")
    for number, values in enumerate(cube_values):
        np.save(source / f"{number:03}.npy", values)
        mask = np.full(values.shape[:2], number, np.uint8)
        mask[0, 0] = 255
        np.save(masks / f"{number:03}.npy", mask)
    out = tmp_path_factory.mktemp("packed") / "cubes"
    return pack(source, out, "--values", "keep", "--masks", str(masks))


@pytest.fixture(scope="session")
def values() -> list[NDArray[np.float32]]:
    """Returns scenes of several sizes with six bands. Rounding would change their values."""
    rng = np.random.default_rng(5)
    return [rng.normal(0, 1, (*size, 6)).astype(np.float32) for size in SIZES]


@pytest.fixture(scope="session")
def scenes(tmp_path_factory: pytest.TempPathFactory, values: list[NDArray[np.float32]]) -> sp.Dataset:
    """Packs the scenes and their masks, with their sizes in the dataset's index."""
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


@pytest.fixture(scope="session")
def alike(tmp_path_factory: pytest.TempPathFactory) -> sp.Dataset:
    out = tmp_path_factory.mktemp("alike") / "packed"
    rng = np.random.default_rng(6)
    with sp.Writer(out, values="keep", shuffle=False) as writer:
        for number in range(5):
            writer.write({"cube": rng.normal(0, 1, (45, 38, 4)).astype(np.float32)}, key=f"a{number}")
    return sp.Dataset(out)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs the JAX tests last, because JAX's threads stay until the process ends, and other tests fork."""
    items.sort(key=lambda item: "jax" in item.name or item.path.name == "test_jax.py")
