"""Runs every code block of docs/python/converting.md on sources that this file makes."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_support import jpeg, pixels

import shardpack as sp

PAGE = Path(__file__).parents[2] / "docs" / "python" / "converting.md"


def sections() -> dict[str, list[str]]:
    """Maps each heading to the code blocks below it."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^#+ ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        blocks = re.findall(r"^```python\n(.*?)^```", part, flags=re.MULTILINE | re.DOTALL)
        if blocks:
            found[part.partition("\n")[0]] = blocks
    return found


def helper(test: str, function: str) -> Callable[..., Any]:
    """Returns a function of another test file. The import skips the test if the format's library is missing."""
    found: Callable[..., Any] = getattr(importlib.import_module(test), function)
    return found


def tars(root: Path) -> None:
    for shard in range(2):
        rows = range(3 * shard, 3 * shard + 3)
        members = [
            m for i in rows for m in ((f"photos/{i:04d}.jpg", jpeg(i)), (f"photos/{i:04d}.cls", b"%d" % (i % 2)))
        ]
        helper("test_convert_webdataset", "write_tar")(root / f"train-{shard:03d}.tar", members)


def mds(root: Path) -> None:
    columns = {"image": ("jpeg", None), "label": ("int", 8), "name": ("str", None)}
    rows = [[jpeg(i), (i % 2).to_bytes(8, "little"), f"photo {i}".encode()] for i in range(4)]
    helper("test_convert_mds", "write_mds")(root / "mds-train", columns, [rows])


def beton(root: Path) -> None:
    fields = {"image": (2, b""), "label": (1, b"")}
    helper("test_convert_beton", "write_beton")(root / "train.beton", fields, [[jpeg(i), i] for i in range(2)])


def tfrecords(root: Path) -> None:
    example, write = helper("test_convert_tfrecord", "example"), helper("test_convert_tfrecord", "write")
    for shard in range(2):
        features = {
            "image__encoded": [jpeg(shard)],
            "image__class__label": [shard],
            "image__filename": [f"{shard}.jpg".encode()],
            "embedding": [np.ones((2, 3), np.float32).tobytes()],
        }
        write(root / f"train-{shard:05d}-of-00002", [example(**features)])


def hdf5(root: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(root / "cubes.h5", "w") as file:
        file["cube"] = np.random.default_rng(0).normal(size=(8, 16, 16, 10)).astype(np.float32)
        file["label"] = np.arange(8) % 2
        file["name"] = [f"scene {i}" for i in range(8)]
    with h5py.File(root / "scenes.h5", "w") as file:
        for i in range(3):
            file[f"train/scene-{i}/cube"] = np.zeros((5 + i, 5, 10), np.float32)
            file[f"train/scene-{i}/mask"] = np.zeros((5 + i, 5), np.uint8)


def zarr(root: Path) -> None:
    group = pytest.importorskip("zarr", minversion="3").open_group(root / "cubes.zarr", mode="w")
    group.create_array("cube", data=np.ones((4, 8, 8, 3), np.float32))
    group.create_array("label", data=np.arange(4))


def lmdb(root: Path) -> None:
    write = helper("test_convert_lmdb", "write")
    write(root / "photos.lmdb", {f"cat/{i}.jpg".encode(): jpeg(i) for i in range(3)})
    write(root / "labelled.lmdb", {b"%d" % i: bytes([i]) + jpeg(i) for i in range(3)})
    words = {f"image-{i:09d}".encode(): jpeg(i) for i in range(3)} | {
        f"label-{i:09d}".encode(): b"word %d" % i for i in range(3)
    }
    write(root / "words.lmdb", words)


def parquet(root: Path) -> None:
    table = helper("test_convert_parquet", "hugging_face")(0, 4)
    (root / "hub").mkdir()
    pytest.importorskip("pyarrow.parquet").write_table(table, root / "hub" / "train-00000-of-00001.parquet")


def lerobot(root: Path) -> None:
    pytest.importorskip("pyarrow")
    helper("lerobot_support", "write_lerobot")(root / "robot")


def torchvision(root: Path) -> None:
    pytest.importorskip("torchvision")
    for i in range(4):
        folder = root / "photos" / ("dog" if i % 2 else "cat")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i}.jpg").write_bytes(jpeg(i))


class Pets(list):  # type: ignore[type-arg]
    """A dataset of decoded pictures."""

    def __init__(self, root: Path) -> None:
        super().__init__((pixels(i), i % 2, np.zeros((24, 40), np.uint8)) for i in range(4))
        self.files = sorted((root / "photos").rglob("*.jpg"))


def detection(root: Path) -> None:
    for format, folder in (("coco", "coco"), ("voc", "VOC2012"), ("yolo", "yolo")):
        helper("test_convert_detection", f"write_{format}")(root / folder)


def going_back(root: Path) -> None:
    zarr(root)
    tars(root)
    hdf5(root)
    sp.convert("webdataset", "train-{000..001}.tar", "train")
    sp.convert("hdf5", "cubes.h5", "train-rows", key="name")


SOURCES: dict[str, Callable[[Path], None]] = {
    "Coming from another format, and going back": tars,
    "WebDataset": tars,
    "MosaicML Streaming (MDS)": mds,
    "FFCV": beton,
    "TFRecord": tfrecords,
    "HDF5": hdf5,
    "Zarr": zarr,
    "LMDB": lmdb,
    "Parquet, Arrow, Hugging Face": parquet,
    "LeRobot": lerobot,
    "torchvision and other map-style datasets": torchvision,
    "COCO, Pascal VOC, YOLO": detection,
    "Going back": going_back,
}


def test_every_section_with_code_is_known() -> None:
    assert set(sections()) == set(SOURCES)


@pytest.mark.parametrize("heading", SOURCES)
def test_the_blocks_of_a_section_run(heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    SOURCES[heading](tmp_path)
    names: dict[str, Any] = {"sp": sp, "pets": Pets(tmp_path)}
    for block in sections()[heading]:
        exec(compile(block, f"{PAGE.name}: {heading}", "exec"), names)
