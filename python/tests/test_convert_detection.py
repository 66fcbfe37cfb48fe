"""Tests conversion from COCO, Pascal VOC and YOLO, with the same objects in each format, and with bad input."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_support import content, jpeg, kinds

import shardpack as sp

Image = pytest.importorskip("PIL.Image")

NAMES = ["cat", "dog", "owl"]
# For each picture of 40 × 24 pixels: class number and (left, top, right, bottom) of each object.
OBJECTS: dict[str, list[tuple[int, tuple[int, int, int, int]]]] = {
    "a.jpg": [(0, (1, 2, 11, 22)), (2, (20, 0, 40, 24))],
    "b.jpg": [],
    "c.jpg": [(1, (5, 5, 6, 7))],
}


def pictures(folder: Path) -> None:
    folder.mkdir(parents=True)
    for number, name in enumerate(OBJECTS):
        (folder / name).write_bytes(jpeg(number))


def write_coco(root: Path, **change: Any) -> Path:
    pictures(root / "val2017")
    annotations: list[dict[str, Any]] = []
    for number, objects in enumerate(OBJECTS.values()):
        for of_class, (x0, y0, x1, y1) in objects:
            annotations.append({
                "id": len(annotations), "image_id": 70 + number, "category_id": 10 * of_class + 3,
                "bbox": [x0, y0, x1 - x0, y1 - y0], "area": (x1 - x0) * (y1 - y0) * 0.5, "iscrowd": 0,
                "segmentation": [[x0, y0, x1, y0, x1, y1]], "keypoints": [x0, y0, 2, 0, 0, 0],
            })  # fmt: skip
    whole = {
        "images": [{"id": 70 + number, "file_name": name} for number, name in enumerate(OBJECTS)],
        "annotations": annotations,
        # The ids have gaps and are in no particular order.
        "categories": [{"id": 10 * number + 3, "name": name} for number, name in reversed(list(enumerate(NAMES)))],
    }
    (root / "annotations").mkdir()
    path = root / "annotations" / "instances_val2017.json"
    path.write_text(json.dumps(whole | change))
    return path


def write_voc(root: Path) -> Path:
    pictures(root / "JPEGImages")
    for folder in ("Annotations", "ImageSets/Main", "ImageSets/Segmentation", "SegmentationClass"):
        (root / folder).mkdir(parents=True)
    for number, (name, objects) in enumerate(OBJECTS.items()):
        boxes = "".join(
            f"<object><name>{NAMES[of_class]}</name><difficult>{of_class % 2}</difficult><bndbox><xmin>{x0 + 1}</xmin>"
            f"<ymin>{y0 + 1}</ymin><xmax>{x1}</xmax><ymax>{y1}</ymax></bndbox></object>"
            for of_class, (x0, y0, x1, y1) in objects
        )
        (root / "Annotations" / f"{Path(name).stem}.xml").write_text(f"<annotation>{boxes}</annotation>")
        mask = Image.fromarray(np.full((24, 40), number, np.uint8))
        mask = mask.convert("P")
        mask.putdata([number] * 960)
        mask.save(root / "SegmentationClass" / f"{Path(name).stem}.png")
    (root / "ImageSets" / "Main" / "train.txt").write_text("a\nc\n")
    (root / "ImageSets" / "Segmentation" / "train.txt").write_text("c\n")
    return root


def write_yolo(root: Path, points: bool = False) -> Path:
    pictures(root / "images" / "train")
    (root / "labels" / "train").mkdir(parents=True)
    for name, objects in OBJECTS.items():
        lines = [
            f"{of_class} {(x0 + x1) / 80} {(y0 + y1) / 48} {(x1 - x0) / 40} {(y1 - y0) / 24}" + " 0.5 0.25 2" * points
            for of_class, (x0, y0, x1, y1) in objects
        ]
        # A picture without objects need not have a file.
        if lines:
            (root / "labels" / "train" / f"{Path(name).stem}.txt").write_text("\n".join(lines) + "\n")
    (root / "data.yaml").write_text("path: .\ntrain: images/train\nnames:\n  0: cat\n  1: dog\n  2: owl\n")
    return root


def check(out: Path, corners: Any) -> dict[str, dict[str, Any]]:
    """Asserts that pictures are unchanged and no object is missing, and returns the samples."""
    dataset = sp.Dataset(out)
    assert dataset.classes == NAMES
    found = content(dataset, "image")
    for number, (name, objects) in enumerate(OBJECTS.items()):
        if name not in found:
            continue
        sample = found[name]
        assert sample["image"] == jpeg(number)
        assert sample["classes"].tolist() == [of_class for of_class, _ in objects] and sample["classes"].dtype == np.int64
        assert sample["boxes"].dtype == np.float32 and sample["boxes"].shape == (len(objects), 4)
        np.testing.assert_allclose(corners(sample["boxes"]), np.array([box for _, box in objects]).reshape(-1, 4), atol=1e-4)
    return found


def test_coco(tmp_path: Path) -> None:
    report = sp.convert("coco", write_coco(tmp_path / "coco"), tmp_path / "out")
    assert report["samples_skipped"] == 0
    found = check(tmp_path / "out", lambda boxes: np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1))
    assert set(found) == set(OBJECTS)
    first = found["a.jpg"]
    assert first["image_id"] == 70 and first["area"].tolist() == [100, 240] and first["iscrowd"].tolist() == [0, 0]
    assert first["keypoints"].shape == (2, 2, 3) and first["keypoints"][0].tolist() == [[1, 2, 2], [0, 0, 0]]
    assert first["segmentation"][0] == [[1, 2, 11, 2, 11, 22]]
    assert found["b.jpg"]["keypoints"].shape == (0, 2, 3) and found["b.jpg"]["boxes"].shape == (0, 4)
    sp.convert("coco", tmp_path / "coco/annotations/instances_val2017.json", tmp_path / "few", drop=["segmentation", "keypoints"])
    assert kinds(tmp_path / "few") == {
        "image": "image", "image_id": "int64", "boxes": "array", "classes": "array", "area": "array", "iscrowd": "array",
    }  # fmt: skip


def test_inspect_counts_no_samples_of_classes_that_boxes_have(tmp_path: Path) -> None:
    sp.convert("coco", write_coco(tmp_path / "in"), tmp_path / "out")

    def said(*options: str) -> str:
        command = [sys.executable, "-m", "shardpack", "inspect", str(tmp_path / "out"), *options]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert re.search(r"\nclasses \(3\)\n +label +name *\n +0 +cat *\n +1 +dog *\n", said())
    assert json.loads(said("--json"))["classes"] == [{"name": name, "samples": None} for name in NAMES]


def test_captions_of_coco(tmp_path: Path) -> None:
    captions = [{"image_id": 70, "caption": "one"}, {"image_id": 72, "caption": "three"}, {"image_id": 70, "caption": "uno"}]
    path = write_coco(tmp_path / "coco", annotations=captions, categories=[])
    sp.convert("coco", path, tmp_path / "out", images=tmp_path / "coco" / "val2017")
    found = content(tmp_path / "out")
    assert {key: sample["captions"] for key, sample in found.items()} == {"a.jpg": ["one", "uno"], "b.jpg": [], "c.jpg": ["three"]}


def test_categories_of_coco_without_boxes(tmp_path: Path) -> None:
    annotations = [{"image_id": 70, "category_id": 23, "segmentation": [[0, 0, 1, 0, 1, 1]]}, {"image_id": 72, "category_id": 3}]
    path = write_coco(tmp_path / "coco", annotations=annotations)
    sp.convert("coco", path, tmp_path / "out")
    found = content(tmp_path / "out")
    assert {key: sample["classes"].tolist() for key, sample in found.items()} == {"a.jpg": [2], "b.jpg": [], "c.jpg": [0]}
    assert kinds(tmp_path / "out") == {"image": "image", "image_id": "int64", "classes": "array", "segmentation": "json"}
    path = write_coco(tmp_path / "some", annotations=[*annotations, {"image_id": 70, "segmentation": []}])
    with pytest.raises(sp.SourceError, match="a.jpg`: unknown `category_id`: None"):
        sp.convert("coco", path, tmp_path / "never")


def test_areas_of_coco_are_not_made_up(tmp_path: Path) -> None:
    def box(**more: Any) -> dict[str, Any]:
        return {"image_id": 70, "category_id": 3, "bbox": [0, 0, 4, 4], **more}

    sp.convert("coco", write_coco(tmp_path / "none", annotations=[box(), box()]), tmp_path / "out")
    assert "area" not in kinds(tmp_path / "out")
    path = write_coco(tmp_path / "some", annotations=[box(area=3), box(), box()])
    with pytest.warns(UserWarning, match="the areas are left out, because 2 of 3 annotations have no area"):
        report = sp.convert("coco", path, tmp_path / "two")
    assert "area" not in report["fields"] and len(report["notes"]) == 1
    sp.convert("coco", write_coco(tmp_path / "all", annotations=[box(area=3)]), tmp_path / "three")
    assert content(tmp_path / "three")["a.jpg"]["area"].tolist() == [3]


def grey_of_4_bits(number: int, width: int, height: int) -> bytes:
    """Returns a PNG filled with one class number, in fewer bits than Pillow would write."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = (b"\0" + bytes([number << 4 | number]) * (width // 2)) * height
    header = struct.pack(">2I5B", width, height, 4, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def test_voc(tmp_path: Path) -> None:
    root = write_voc(tmp_path / "voc")
    sp.convert("voc", root, tmp_path / "out", names=NAMES)
    found = check(tmp_path / "out", lambda boxes: boxes)
    assert set(found) == set(OBJECTS) and found["c.jpg"]["difficult"].tolist() == [1]
    sp.convert("voc", root, tmp_path / "train", split="train", names=NAMES)
    assert set(check(tmp_path / "train", lambda boxes: boxes)) == {"a.jpg", "c.jpg"}
    sp.convert("voc", root, tmp_path / "masks", split="train", names=NAMES, masks="SegmentationClass")
    (mask,) = content(tmp_path / "masks").values()
    (root / "ImageSets" / "Main" / "cat_train.txt").write_text("a  1\nb -1\nc  0\n")
    sp.convert("voc", root, tmp_path / "cats", split="cat_train", names=NAMES)
    assert set(content(tmp_path / "cats")) == {"a.jpg", "c.jpg"}
    with pytest.raises(sp.SourceError, match="a list of class names, found: 'cat'"):
        sp.convert("voc", root, tmp_path / "never", names="cat")
    assert mask["mask"].shape == (24, 40) and (mask["mask"] == 2).all()
    with pytest.raises(sp.SourceError, match="pass one of these as `split`: .*train"):
        sp.convert("voc", root, tmp_path / "never", split="val")

    # PNG optimisers store masks of few classes in fewer than 8 bits.
    (root / "SegmentationClass" / "c.png").write_bytes(grey_of_4_bits(5, width=40, height=24))
    sp.convert("voc", root, tmp_path / "bits", split="train", names=NAMES, masks="SegmentationClass")
    (sample,) = content(tmp_path / "bits").values()
    assert sample["mask"].dtype == np.uint8 and (sample["mask"] == 5).all()
    Image.fromarray(np.zeros((24, 40, 3), np.uint8)).save(root / "SegmentationClass" / "c.png")
    with pytest.raises(sp.SourceError, match="picture `c`: column 'mask': a label mask must be a grey or palette PNG, but this one has the colour type Rgb"):
        sp.convert("voc", root, tmp_path / "never", split="train", names=NAMES, masks="SegmentationClass")


def test_yolo(tmp_path: Path) -> None:
    root = write_yolo(tmp_path / "yolo")

    def corners(boxes: Any) -> Any:
        size = np.array([40, 24])
        return np.concatenate([(boxes[:, :2] - boxes[:, 2:] / 2) * size, (boxes[:, :2] + boxes[:, 2:] / 2) * size], 1)

    sp.convert("yolo", root, tmp_path / "out", split="train", names=NAMES)
    assert set(check(tmp_path / "out", corners)) == set(OBJECTS)
    pytest.importorskip("yaml")
    sp.convert("yolo", root / "data.yaml", tmp_path / "yaml", split="train")
    assert set(check(tmp_path / "yaml", corners)) == set(OBJECTS)
    poses = write_yolo(tmp_path / "poses", points=True)
    with pytest.raises(sp.SourceError, match=r"a.txt`, line 1: expected a class and 4 numbers, found 8 values\nhint: pass points="):
        sp.convert("yolo", poses, tmp_path / "never", split="train")
    sp.convert("yolo", poses, tmp_path / "points", split="train", points=(1, 3))
    assert content(tmp_path / "points")["a.jpg"]["keypoints"].tolist() == [[[0.5, 0.25, 2]]] * 2


def test_labels_of_yolo_without_a_picture_are_named(tmp_path: Path) -> None:
    root = write_yolo(tmp_path / "yolo")
    labels = root / "labels" / "train"
    (labels / "classes.txt").write_text("cat\n")
    (labels / "a2.txt").write_text("0 0.5 0.5 0.1 0.1\n")
    with pytest.raises(sp.SourceError, match=r"a2.txt`: these labels have no picture: there is no `a2` in `.*train`"):
        sp.convert("yolo", root, tmp_path / "never", split="train", names=NAMES)
    report = sp.convert("yolo", root, tmp_path / "out", split="train", names=NAMES, on_bad_input="skip")
    assert (report["samples"], report["samples_skipped"]) == (3, 1)
    # If no names matched, all pictures would seem to have no objects.
    for path in sorted(labels.glob("?.txt")):
        path.rename(path.with_name(f"{path.stem}_labels.txt"))
    with pytest.raises(sp.SourceError, match=r"no picture has a label file: expected files such as `.*a.txt`, found only files such as `.*a2.txt`\nhint: "):
        sp.convert("yolo", root, tmp_path / "never", split="train", names=NAMES, on_bad_input="skip")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"images": []}, "the `images` list is empty"),
        ({"images": 3}, "no `images` list"),
        ({"images": [{"id": 1}]}, "a picture has no valid `id` or `file_name`"),
        ({"annotations": [{"bbox": [0, 0, 1, 1]}]}, "an annotation has no valid `image_id`"),
        ({"annotations": [{"image_id": 5, "bbox": [0, 0, 1, 1]}]}, "`image_id` 5"),
        ({"categories": [{"id": 1, "name": "x"}, {"id": 1, "name": "y"}]}, "must be unique .categories: 2, different ids: 1, different names: 2."),
        ({"annotations": [{"image_id": 70, "category_id": 3, "bbox": [0, 0, 1]}]}, "a `bbox` must have 4 numbers"),
        ({"annotations": [{"image_id": 70, "category_id": 4, "bbox": [0, 0, 1, 1]}]}, "unknown `category_id`: 4"),
        ({"annotations": [{"image_id": 70, "category_id": 3, "bbox": [9, 9, -3, 4]}]}, r"a `bbox` has a negative width or height: \[9, 9, -3, 4\]"),
        ({"images": [{"id": 70, "file_name": "../../secret.jpg"}], "annotations": []}, "cannot find the picture .* next to this file, .* or in `val2017`, `images` or `images/val2017` under"),
        ({"annotations": [{"image_id": 70, "category_id": 3, "bbox": [10**400, 0, 1, 1]}]}, "a number in a `bbox` is too large for float32"),
        ({"annotations": [{"image_id": 70, "category_id": 3, "bbox": [1e300, 0, 1, 1]}]}, "a number in a `bbox` is too large for float32"),
        ({"annotations": [{"image_id": 70, "category_id": [1], "bbox": [0, 0, 1, 1]}]}, r"unknown `category_id`: \[1\]"),
        ({"annotations": [{"image_id": [1], "bbox": [0, 0, 1, 1]}]}, "an annotation has no valid `image_id`"),
        ({"annotations": [{"image_id": 70, "category_id": 3, "bbox": [0, 0, 1, 1], "keypoints": 5}]}, "`keypoints` must be a list"),
        ({"annotations": [{"image_id": 70, "category_id": 3, "bbox": [0, 0, 1, 1], "iscrowd": "no"}]}, "`iscrowd` must be 0 or 1"),
        ({"images": [{"id": 70, "file_name": "a.jpg"}, {"id": 70, "file_name": "b.jpg"}]}, "two pictures have the same `id`: 70"),
        ({"categories": [{"id": 3, "name": "\ud800"}]}, "class names"),
    ],
)
def test_odd_files_of_coco_are_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    path = write_coco(tmp_path / "coco", **change)
    with pytest.raises(sp.SourceError, match=said):
        sp.convert("coco", path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_lies_elsewhere_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.jpg").write_bytes(jpeg(1))
    images = [{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": "../../secret.jpg"}]
    path = write_coco(tmp_path / "coco", images=images, annotations=[])
    report = sp.convert("coco", path, tmp_path / "out", on_bad_input="skip")
    assert report["samples_skipped"] == 1 and "is outside `" in report["skipped"][0]["reason"]


def test_a_name_that_no_file_has_is_that_of_a_bad_sample(tmp_path: Path) -> None:
    images = [{"id": 70, "file_name": "a.jpg"}, {"id": 71, "file_name": "b\0.jpg"}]
    path = write_coco(tmp_path / "coco", images=images, annotations=[{"image_id": 71, "category_id": 3, "bbox": [0, 0, 1, 1]}])
    report = sp.convert("coco", path, tmp_path / "out", on_bad_input="skip")
    assert (report["samples"], report["samples_skipped"]) == (1, 1)


def test_odd_files_of_the_others_are_refused(tmp_path: Path) -> None:
    root = write_voc(tmp_path / "voc")
    path = root / "Annotations" / "a.xml"
    good = path.read_text()
    for bad, said in [
        (good.replace("<xmin>2<", "<xmin>two<"), "`xmin` in `a.xml` must be a number, found: 'two'"),
        (good.replace("cat", "cow"), "unknown class 'cow'; the classes are cat, dog, owl"),
        (good[:-4], "`a.xml` is not valid XML"),
        ('<!DOCTYPE x [<!ENTITY a "b">]>' + good, "has a document type"),
        ("<annotation><object/></annotation>", "an object in `a.xml` lacks a `name` or a `bndbox`"),
    ]:
        path.write_text(bad)
        with pytest.raises(sp.SourceError, match=said):
            sp.convert("voc", root, tmp_path / "out", names=NAMES)
        report = sp.convert("voc", root, tmp_path / "skipped", names=NAMES, on_bad_input="skip", force=True)
        assert report["samples_skipped"] == 1
    root = write_yolo(tmp_path / "yolo")
    path = root / "labels" / "train" / "a.txt"
    for bad, said in [
        ("0 0.1 0.2 0.3", "a.txt`, line 1: expected a class and 4 numbers, found 4 values"),
        ("0 0.1 0.2 0.3 x", "a.txt`, line 1: expected a class and 4 numbers, found: '0 0.1 0.2 0.3 x'"),
        ("3 0.1 0.2 0.3 0.4", "a class from 0 to 2, found: 3"),
        ("0 100 100 50 50", "fractions of the picture's width and height, from 0 to 1"),
        ("9" * 40 + " 0.1 0.2 0.3 0.4", "a class from 0 to 2"),
        ("0 0.1 0.2 0.3 nan", "fractions of the picture's width and height, from 0 to 1"),
        ("0.5 0.1 0.2 0.3 0.4", "expected a class and 4 numbers"),
    ]:
        path.write_text(bad)
        with pytest.raises(sp.SourceError, match=said):
            sp.convert("yolo", root, tmp_path / "other", split="train", names=NAMES)
    with pytest.raises(sp.SourceError, match="expected a folder with `images` and `labels`"):
        sp.convert("yolo", tmp_path / "nowhere", tmp_path / "other")
    with pytest.raises(sp.SourceError, match="needs|expected a mapping, as in a YOLO data.yaml|not valid YAML"):
        (root / "data.yaml").write_text("- 1\n")
        sp.convert("yolo", root / "data.yaml", tmp_path / "other")


def test_a_batch_of_coco_and_its_boxes(tmp_path: Path) -> None:
    sp.convert("coco", write_coco(tmp_path / "coco"), tmp_path / "out")
    align = {"boxes": sp.align.boxes("xywh"), "classes": sp.align.rows_of("boxes")}
    loader = sp.Loader(
        sp.Dataset(tmp_path / "out"), 3, image="resize48x80,flip=1", fields=["image", "boxes", "classes"], align=align,
        shuffle=False,
    )  # fmt: skip
    (batch,) = loader
    rows = {key: row for row, key in enumerate(batch.sample_keys)}
    # The picture is enlarged twice and mirrored, so columns 1 to 11 of 40 become columns 58 to 78 of 80.
    assert batch["boxes"][rows["a.jpg"]].tolist() == [[58, 4, 20, 40], [0, 0, 40, 48]]
    assert batch["classes"][rows["a.jpg"]].tolist() == [0, 2] and batch["boxes"][rows["b.jpg"]].shape == (0, 4)


@pytest.mark.parametrize("sides", [{}, {"width": 40, "height": 24}])
def test_corners_in_the_place_of_sizes_are_noticed(tmp_path: Path, sides: dict[str, int]) -> None:
    images = [{"id": 70, "file_name": "a.jpg", **sides}, {"id": 71, "file_name": "b.jpg", **sides}]
    corners = [[1, 2, 11, 22], [20, 0, 40, 24], [20, 12, 30, 20]] * 3
    annotations = [{"image_id": 70, "category_id": 3, "bbox": box} for box in corners]
    path = write_coco(tmp_path / "coco", images=images, annotations=annotations)
    said = r"2017.json`: 6 of 9 boxes extend beyond their pictures if read as left, top, width, height\nhint: pass boxes='xyxy'"
    for on_bad_input in ("stop", "skip"):
        with pytest.raises(sp.SourceError, match=said):
            sp.convert("coco", path, tmp_path / "never", on_bad_input=on_bad_input)
    sp.convert("coco", path, tmp_path / "out", boxes="xyxy")
    assert content(tmp_path / "out")["a.jpg"]["boxes"].tolist() == [[1, 2, 10, 20], [20, 0, 20, 24], [20, 12, 10, 8]] * 3
    sp.convert("coco", path, tmp_path / "kept", boxes="xywh")
    assert content(tmp_path / "kept")["a.jpg"]["boxes"].tolist() == corners
    sp.convert("coco", path, tmp_path / "none", drop=["boxes"])
    # Only a few boxes extend beyond their pictures. They may belong to objects at the edge.
    few = write_coco(tmp_path / "few", images=images, annotations=annotations[:3])
    sp.convert("coco", few, tmp_path / "parts")
    assert content(tmp_path / "parts")["a.jpg"]["boxes"].tolist() == corners[:3]
    with pytest.raises(sp.SourceError, match=r"a `bbox` has x0 > x1 or y0 > y1: \[20, 0, 5, 24\]"):
        boxes = [{"image_id": 70, "category_id": 3, "bbox": [20, 0, 5, 24]}]
        sp.convert("coco", write_coco(tmp_path / "turned", annotations=boxes), tmp_path / "never", boxes="xyxy")
    with pytest.raises(ValueError, match="boxes: expected 'xywh' or 'xyxy', found: 'corners'"):
        sp.convert("coco", path, tmp_path / "never", boxes="corners")


def add_split(root: Path, split: str) -> None:
    (root / "images" / split).mkdir()
    (root / "images" / split / "d.jpg").write_bytes(jpeg(9))
    (root / "labels" / split).mkdir()
    (root / "labels" / split / "d.txt").write_text("2 0.5 0.5 0.25 0.25\n")


def test_a_folder_of_yolo_is_read_with_its_data_yaml(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    root = write_yolo(tmp_path / "yolo")
    report = sp.convert("yolo", root, tmp_path / "one")
    assert sp.Dataset(tmp_path / "one").classes == NAMES and set(content(tmp_path / "one")) == set(OBJECTS) and report["notes"] == []
    add_split(root, "val")
    for names in ("[cat, dog, owl]", "{0: cat, 2: owl, 1: dog}"):
        # `path` is a folder on another machine and does not exist here.
        (root / "data.yaml").write_text(f"path: ../datasets/x\ntrain: ../images/train\nval: images/val\ntest:\nnames: {names}\n")
        for source in (root, root / "data.yaml"):
            with pytest.raises(sp.SourceError, match="data.yaml` lists several splits: train, val\nhint: pass split='train'"):
                sp.convert("yolo", source, tmp_path / "never")
            sp.convert("yolo", source, tmp_path / "val", split="val", force=True)
            assert sp.Dataset(tmp_path / "val").classes == NAMES and set(content(tmp_path / "val")) == {"d.jpg"}
    sp.convert("yolo", root, tmp_path / "train", split="train", names=["a", "b", "c"])
    assert sp.Dataset(tmp_path / "train").classes == ["a", "b", "c"] and set(content(tmp_path / "train")) == set(OBJECTS)
    # Two names for the same folder count as one split.
    (root / "data.yaml").write_text("train: images/train\nval: images/train\n")
    assert sp.convert("yolo", root, tmp_path / "same")["samples"] == len(OBJECTS)
    (root / "data.yaml").write_text("train: images/gone\n")
    with pytest.raises(sp.SourceError, match="images/gone` does not exist: expected a folder with the pictures for 'train'"):
        sp.convert("yolo", root, tmp_path / "never")


def test_a_data_yaml_without_pyyaml_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_yolo(tmp_path / "yolo")
    monkeypatch.setitem(sys.modules, "yaml", None)
    for source in (root, root / "data.yaml"):
        with pytest.raises(ImportError, match="cannot import `yaml`, which is needed for YOLO's data.yaml: .*\nhint: pip install pyyaml$"):
            sp.convert("yolo", source, tmp_path / "never", split="train")
    sp.convert("yolo", root, tmp_path / "out", split="train", names=NAMES)
    check(tmp_path / "out", lambda boxes: np.stack([boxes[:, 0] - boxes[:, 2] / 2, boxes[:, 1] - boxes[:, 3] / 2, boxes[:, 0] + boxes[:, 2] / 2, boxes[:, 1] + boxes[:, 3] / 2], 1) * [40, 24, 40, 24])


def test_splits_of_yolo_that_are_taken_together_are_a_note(tmp_path: Path) -> None:
    root = write_yolo(tmp_path / "yolo")
    (root / "data.yaml").unlink()
    add_split(root, "val")
    with pytest.warns(UserWarning, match="images`: all splits are converted into one dataset: train, val\nhint: pass split='train' to convert only one"):
        report = sp.convert("yolo", root, tmp_path / "all", names=NAMES)
    assert report["samples"] == len(OBJECTS) + 1 and len(report["notes"]) == 1
    assert sp.convert("yolo", root, tmp_path / "one", split="val", names=NAMES)["notes"] == []


@pytest.mark.skipif(os.name != "posix", reason="links and pipes")
def test_links_out_of_a_dataset_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret.jpg"
    secret.write_bytes(jpeg(1))
    coco, voc, yolo = write_coco(tmp_path / "coco"), write_voc(tmp_path / "voc"), write_yolo(tmp_path / "yolo")
    sources: list[tuple[str, Path, Path, dict[str, Any]]] = [
        ("coco", coco, next((tmp_path / "coco").rglob("c.jpg")), {}),
        ("voc", voc, next((tmp_path / "voc").rglob("c.jpg")), {"names": NAMES}),
        ("yolo", yolo, next((tmp_path / "yolo").rglob("c.jpg")), {"names": NAMES, "split": "train"}),
    ]
    for format, source, path, options in sources:
        whole = path.read_bytes()
        path.unlink()
        path.symlink_to(secret)
        secret.write_bytes(whole)
        with pytest.raises(sp.SourceError, match="c.jpg` is outside `.*: it leads to `.*secret.jpg`\nhint: pass follow_links=True"):
            sp.convert(format, source, tmp_path / "out", **options)
        sp.convert(format, source, tmp_path / format / "out", follow_links=True, **options)
        path.unlink()
        os.mkfifo(path)
        report = sp.convert(format, source, tmp_path / format / "pipe", on_bad_input="skip", **options)
        # For VOC and YOLO, either no picture with this name is found, or the name is ignored.
        assert report["samples_skipped"] <= 1
        path.unlink()
        path.write_bytes(whole)


@pytest.mark.skipif(os.name != "posix", reason="links and pipes")
def test_pipes_in_the_place_of_annotations(tmp_path: Path) -> None:
    root = write_voc(tmp_path / "voc")
    (root / "Annotations/a.xml").unlink()
    os.mkfifo(root / "Annotations/a.xml")
    report = sp.convert("voc", root, tmp_path / "v", names=NAMES, on_bad_input="skip")
    assert "a.xml`: expected a regular file, found a pipe" in report["skipped"][0]["reason"]
    root = write_yolo(tmp_path / "yolo")
    path = next(root.rglob("a.txt"))
    path.unlink()
    os.mkfifo(path)
    report = sp.convert("yolo", root, tmp_path / "y", names=NAMES, on_bad_input="skip")
    assert "a.txt`: expected a regular file, found a pipe" in report["skipped"][0]["reason"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_document_types_in_any_encoding(tmp_path: Path, encoding: str) -> None:
    root = write_voc(tmp_path / "voc")
    path = root / "Annotations/a.xml"
    path.write_bytes(('<!DOCTYPE x [<!ENTITY cat "cat">]>' + path.read_text()).encode(encoding))
    with pytest.raises(sp.SourceError, match="`a.xml` has a document type"):
        sp.convert("voc", root, tmp_path / "out", names=NAMES)


def test_a_data_yaml_leads_to_no_other_folder_and_names_no_million_names(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    root, other = write_yolo(tmp_path / "yolo"), write_yolo(tmp_path / "other")
    (root / "data.yaml").write_text(f"path: {other}\ntrain: {other}/images/train\nnames: {json.dumps(list(NAMES))}\n")
    with pytest.raises(sp.SourceError, match="data.yaml`: .*is outside `"):
        sp.convert("yolo", root, tmp_path / "out")
    sp.convert("yolo", root / "data.yaml", tmp_path / "out", root=other)
    nested = "a: &l0 [x]\n" + "".join("a%d: &l%d [%s]\n" % (n, n, ", ".join(["*l%d" % (n - 1)] * 9)) for n in range(1, 10))
    for bad in (nested + "names: *l9\n", "names: !!timestamp x\n", "names: [" + "a" * 3000 + ", {}]\n"):
        (root / "data.yaml").write_text("train: images/train\n" + bad)
        with pytest.raises(sp.SourceError, match="data.yaml`: (expected class names, found: |not valid YAML: )") as caught:
            sp.convert("yolo", root, tmp_path / "no")
        assert len(str(caught.value)) < 1000


def test_lists_that_are_no_text_are_named(tmp_path: Path) -> None:
    root = write_voc(tmp_path / "voc")
    (root / "ImageSets/Main/train.txt").write_bytes(b"a\n\xff\n")
    with pytest.raises(sp.SourceError, match=r"train.txt`: .*`.*train.txt` is not UTF-8 text"):
        sp.convert("voc", root, tmp_path / "out", split="train", names=NAMES)
