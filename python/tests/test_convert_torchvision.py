"""Tests conversion from map-style datasets like torchvision's, without torchvision."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from convert_support import content, jpeg, kinds, pixels

import shardpack as sp

Image = pytest.importorskip("PIL.Image")


def folder(root: Path) -> Path:
    for i in range(6):
        (root / f"class {i % 2}").mkdir(parents=True, exist_ok=True)
        (root / f"class {i % 2}" / f"{i}.jpg").write_bytes(jpeg(i))
    return root


class Folder:
    """Has the relevant attributes of `ImageFolder`."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.classes = ["class 0", "class 1"]
        self.samples = [(str(path), int(path.parent.name[-1])) for path in sorted(root.rglob("*.jpg"))]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        raise AssertionError("the files are to be read, not decoded")


class Items(list):  # type: ignore[type-arg]
    """A dataset of the given items."""


def check_folder(out: Path) -> None:
    dataset = sp.Dataset(out)
    assert dataset.classes == ["class 0", "class 1"]
    found = content(dataset, "image")
    assert set(found) == {f"class {i % 2}/{i}.jpg" for i in range(6)}
    for i in range(6):
        assert found[f"class {i % 2}/{i}.jpg"]["image"] == jpeg(i) and found[f"class {i % 2}/{i}.jpg"]["label"] == i % 2


def test_folders_of_pictures_keep_their_bytes(tmp_path: Path) -> None:
    sp.convert("torchvision", Folder(folder(tmp_path / "src")), tmp_path / "out")
    check_folder(tmp_path / "out")


def test_torchvision_s_own_folder_and_subset(tmp_path: Path) -> None:
    datasets = pytest.importorskip("torchvision.datasets")
    utils = pytest.importorskip("torch.utils.data")
    dataset = datasets.ImageFolder(str(folder(tmp_path / "src")))
    sp.convert("torchvision", dataset, tmp_path / "out")
    check_folder(tmp_path / "out")
    sp.convert(
        "torchvision", utils.Subset(utils.Subset(dataset, [5, 3, 1]), [2, 0]), tmp_path / "subset", shuffle=False
    )
    assert list(sp.Dataset(tmp_path / "subset").keys) == ["class 0/2.jpg", "class 1/5.jpg"]


def test_pictures_and_labels_as_items(tmp_path: Path) -> None:
    items = Items((Image.fromarray(pixels(i)), i) for i in range(3))
    sp.convert("torchvision", items, tmp_path / "out")
    found = content(tmp_path / "out")
    for i in range(3):
        assert np.array_equal(found[f"{i:08d}"]["image"], pixels(i)) and found[f"{i:08d}"]["label"] == i


def test_dicts_tuples_and_single_values(tmp_path: Path) -> None:
    sp.convert(
        "torchvision", Items({"cube": np.full((2, 3), i, np.float32), "id": i} for i in range(2)), tmp_path / "dicts"
    )
    assert content(tmp_path / "dicts")["00000001"]["cube"].tolist() == [[1, 1, 1], [1, 1, 1]]
    triples = Items((pixels(i), i, np.ones((2, 2), np.uint8)) for i in range(2))
    with pytest.raises(
        ValueError, match=r"`Items`, sample 0: expected 2 values \(image, label\), found: 3\nhint: pass a name for every value, such as columns="
    ):
        sp.convert("torchvision", triples, tmp_path / "out")
    sp.convert("torchvision", triples, tmp_path / "triples", columns=("image", "label", "mask"))
    assert kinds(tmp_path / "triples") == {"image": "image", "label": "int64", "mask": "array"}
    sp.convert("torchvision", Items([pixels(0)]), tmp_path / "single", key=lambda index: f"photo {index}")
    assert np.array_equal(content(tmp_path / "single")["photo 0"]["image"], pixels(0))


def test_tensors(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    items = Items((torch.full((3, 2, 2), i, dtype=torch.float32), torch.tensor(i)) for i in range(2))
    sp.convert("torchvision", items, tmp_path / "out")
    found = content(tmp_path / "out")["00000001"]
    assert found["image"].shape == (3, 2, 2) and (found["image"] == 1).all() and found["label"] == 1


def test_files_named_by_the_caller_keep_their_bytes(tmp_path: Path) -> None:
    paths = sorted(folder(tmp_path / "src").rglob("*.jpg"))
    items = Items((Image.open(path), i) for i, path in enumerate(paths))
    sp.convert("torchvision", items, tmp_path / "out", paths=paths)
    found = content(tmp_path / "out", "image")
    assert sorted(sample["image"] for sample in found.values()) == sorted(path.read_bytes() for path in paths)


def test_what_cannot_be_taken_is_named(tmp_path: Path) -> None:
    for source in (SimpleNamespace(), str(tmp_path), iter([1])):
        with pytest.raises(ValueError, match=r"expected a dataset that supports `len\(dataset\)` and `dataset\[i\]`, found: "):
            sp.convert("torchvision", source, tmp_path / "out")
    with pytest.raises(ValueError, match="the source has no samples"):
        sp.convert("torchvision", Items(), tmp_path / "out")
    with pytest.raises(
        ValueError,
        match=r"1 column cannot be converted\n  image: expected a picture.*found: object\nhint: pass drop=\['image'\]",
    ):
        sp.convert("torchvision", Items([(object(), 1)]), tmp_path / "out")
    src = folder(tmp_path / "src")
    (src / "class 0" / "0.jpg").write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"class 0/0\.jpg`: not a JPEG"):
        sp.convert("torchvision", Folder(src), tmp_path / "out")
    (src / "class 0" / "0.jpg").unlink()
    (src / "class 0" / "2.jpg").unlink()
    dataset = Folder(src)
    (src / "class 0" / "4.jpg").unlink()
    report = sp.convert("torchvision", dataset, tmp_path / "out", on_bad_input="skip")
    assert (report["samples"], len(report["skipped"])) == (3, 1)
    assert "4.jpg" in report["skipped"][0]["reason"]
