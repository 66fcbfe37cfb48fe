"""Tests that polygons and the masks of single objects are aligned with their picture."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardpack as sp
from PIL import Image, ImageDraw

FIELDS = ["image", "mask", "boxes", "masks", "segmentation", "quads"]
ALIGN = {
    "mask": sp.align.mask(fill=0), "boxes": sp.align.boxes("xywh"), "masks": sp.align.instance_masks(rows="boxes"),
    "segmentation": sp.align.polygons(rows="boxes"), "quads": sp.align.polygons(rows="boxes"),
}  # fmt: skip


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> sp.Dataset:
    """Writes 0 to 4 separate triangles per picture, stored as a common mask, as one mask per triangle, and as COCO
    polygons.
    """
    rng = np.random.default_rng(3)
    out = tmp_path_factory.mktemp("objects") / "packed"
    schema = {"image": "image", "mask": "array", "boxes": "array", "masks": "array", "segmentation": "json", "quads": "array"}
    with sp.Writer(out, schema, shuffle=False) as writer:
        for number in range(25):
            height, width, count = int(rng.integers(120, 200)), int(rng.integers(240, 300)), number % 5
            masks, boxes, polygons, quads = [], [], [], []
            for kind in range(count):
                x, y = int(rng.integers(10)) + kind * 60, int(rng.integers(height - 60))
                corners = [(x, y), (x + 45, y + 10), (x + 12, y + 50)]
                drawn = Image.new("L", (width, height))
                ImageDraw.Draw(drawn).polygon(corners, fill=1)
                masks.append(np.asarray(drawn).astype(bool))
                boxes.append([x, y, 45, 50])
                polygons.append([[coordinate for corner in corners for coordinate in corner]])
                quads.append([[x, y], [x + 45, y], [x + 45, y + 50], [x, y + 50]])
            mask = sum((of * (kind + 1) for kind, of in enumerate(masks)), np.zeros((height, width), np.uint8)).astype(np.uint8)
            writer.write(
                {
                    "image": np.stack([mask * 50] * 3, -1), "mask": mask, "boxes": np.array(boxes, np.int32).reshape(-1, 4),
                    "masks": np.array(masks, bool).reshape(-1, height, width), "segmentation": polygons,
                    "quads": np.array(quads, np.int32).reshape(-1, 4, 2),
                },
                key=f"{number:02}",
            )  # fmt: skip
    return sp.Dataset(out)


@pytest.mark.parametrize("image", ["rrc96", "rrc64x112,flip=1", "center96", "pad96x130,flip=0.5", "full,flip=0.5"])
def test_objects_are_where_the_picture_shows_them(scenes: sp.Dataset, image: str) -> None:
    align = ALIGN if image != "full,flip=0.5" else {**ALIGN, "mask": sp.align.mask()}
    loader = sp.Loader(scenes, 5, image=image, align=align, fields=FIELDS, end="uneven", seed=5)
    seen, beyond, left_out = 0, 0, 0
    for epoch in range(2):
        loader.set_epoch(epoch)
        for batch in loader:
            views = batch.views()
            for row, index in enumerate(batch.indices):
                _, mask, boxes, masks, polygons, quads = (batch[field][row] for field in FIELDS)
                height, width = mask.shape
                assert masks.dtype == bool and masks.shape == (len(boxes), height, width)
                assert len(polygons) == len(boxes) and quads.shape == (len(boxes), 4, 2) and quads.dtype == np.float32
                stored = scenes[int(index)]
                left_out += len(stored["boxes"]) - len(boxes)
                # The union of the object masks equals the common mask.
                classes = [int(mask[of].max()) for of in masks if of.any()]
                assert sorted(set(np.unique(mask)) - {0}) == sorted(classes)
                for of, polygon, box, quad in zip(masks, polygons, boxes, quads, strict=True):
                    low, high = quad.min(0), quad.max(0)
                    beyond += bool((low < 0).any() or (high > (width, height)).any())
                    sides = np.concatenate([np.clip(low, 0, (width, height)), np.clip(high, 0, (width, height))])
                    np.testing.assert_allclose([*box[:2], *(box[:2] + box[2:])], sides, atol=1e-3)
                    if not of.any():
                        continue
                    assert (mask[of] == mask[of][0]).all()
                    drawn = Image.new("L", (width, height))
                    ((corners,),) = (polygon,)
                    ImageDraw.Draw(drawn).polygon([(x - 0.5, y - 0.5) for x, y in zip(corners[::2], corners[1::2], strict=True)], fill=1)
                    # The drawn polygon and the mask differ only along the outline.
                    different = (np.asarray(drawn) > 0) != of
                    assert different.sum() <= 3 * (np.abs(np.diff(of.astype(int), axis=0)).sum() + np.abs(np.diff(of.astype(int), axis=1)).sum() + 8)
                    seen += int(of.sum())
                # The corners of visible objects must match the views of the batch.
                for kind, polygon in enumerate(polygons):
                    was = [views.from_source(row, np.reshape(one[0], (-1, 2))) for one in stored["segmentation"]]
                    assert any(np.allclose(np.reshape(polygon[0], (-1, 2)), there, atol=1e-3) for there in was), kind
    assert seen > 10_000 and (beyond > 0 or image.startswith(("pad", "full"))) and (left_out > 0 or image.startswith(("pad", "full", "center")))


def test_all_objects_stay_without_boxes(scenes: sp.Dataset) -> None:
    align = {"masks": sp.align.instance_masks(), "segmentation": sp.align.polygons()}
    # Aligned fields are loaded by default, even JSON.
    loader = sp.Loader(scenes, 5, image="rrc64,scale=0.05..0.1", align={**align, "mask": None, "boxes": None, "quads": None}, end="uneven")
    for batch in loader:
        for row, index in enumerate(batch.indices):
            count = len(scenes[int(index)]["boxes"])
            assert batch["masks"][row].shape == (count, 64, 64) and len(batch["segmentation"][row]) == count


def test_threads_and_batches_change_nothing(scenes: sp.Dataset) -> None:
    def told(**options: Any) -> dict[int, str]:
        loader = sp.Loader(scenes, image="rrc48", align=ALIGN, fields=FIELDS, end="uneven", **options)
        return {
            int(index): json.dumps([np.asarray(batch[field][row]).tolist() for field in FIELDS if field != "segmentation"])
            + json.dumps(batch["segmentation"][row])
            for batch in loader
            for row, index in enumerate(batch.indices)
        }

    assert told(batch_size=4, threads=1) == told(batch_size=7, threads=3)


def test_forms_of_polygons(tmp_path: Path) -> None:
    forms: list[Any] = [
        [[10, 20, 30, 20, 30, 40]],
        [[[10, 20], [30, 20], [30, 40]]],
        [[[10, 20, 30, 20, 30, 40], [2, 2, 4, 2, 4, 4]]],
        [{"size": [60, 80], "counts": [3, 9]}, None, [[10.5, 20.25, 30, 20, 30, 40]]],
        [],
    ]
    with sp.Writer(tmp_path / "out", {"image": "image", "segmentation": "json"}, shuffle=False) as writer:
        for number, form in enumerate(forms):
            writer.write({"image": np.zeros((60, 80, 3), np.uint8), "segmentation": form}, key=str(number))
        writer.write({"image": np.zeros((60, 80, 3), np.uint8), "segmentation": None}, key="none")
    dataset = sp.Dataset(tmp_path / "out")
    (batch,) = sp.Loader(dataset, 6, image="resize120x160", align={"segmentation": sp.align.polygons()}, shuffle=False)
    assert batch["segmentation"] == [
        [[20, 40, 60, 40, 60, 80]],
        [[[20, 40], [60, 40], [60, 80]]],
        [[[20, 40, 60, 40, 60, 80], [4, 4, 8, 4, 8, 8]]],
        [None, None, [[21, 40.5, 60, 40, 60, 80]]],
        [],
        None,
    ]
    (batch,) = sp.Loader(dataset, 6, image="resize60x80,flip=1", align={"segmentation": sp.align.polygons()}, shuffle=False)
    assert batch["segmentation"][0] == [[70, 20, 50, 20, 50, 40]]


def test_coco_from_annotations_to_batches(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    annotations = []
    for number in range(4):
        Image.new("RGB", (80, 60), (0, number, 0)).save(tmp_path / f"images/{number}.jpg")
        for at in range(number):
            x, y = 10 * at, 5 * at
            polygon = [[x, y, x + 20, y, x + 20, y + 30]]
            crowd = {"size": [60, 80], "counts": [0, 4800]}
            annotations.append({
                "id": len(annotations), "image_id": number, "category_id": 7, "bbox": [x, y, 20, 30], "area": 300,
                "iscrowd": int(at == 2), "segmentation": crowd if at == 2 else polygon,
            })  # fmt: skip
    images = [{"id": number, "file_name": f"{number}.jpg", "width": 80, "height": 60} for number in range(4)]
    document = {"images": images, "annotations": annotations, "categories": [{"id": 7, "name": "thing"}]}
    (tmp_path / "instances.json").write_text(json.dumps(document))
    sp.convert("coco", tmp_path / "instances.json", tmp_path / "out", images=tmp_path / "images")
    align = {
        "boxes": sp.align.boxes("xywh", visible=0.3), "segmentation": sp.align.polygons(rows="boxes"), "area": None,
        **dict.fromkeys(("classes", "iscrowd"), sp.align.rows_of("boxes")),
    }  # fmt: skip
    loader = sp.Loader(sp.Dataset(tmp_path / "out"), 4, image="rrc32", align=align)
    for epoch in range(4):
        loader.set_epoch(epoch)
        (batch,) = loader
        for boxes, classes, crowds, polygons in zip(*(batch[name] for name in ("boxes", "classes", "iscrowd", "segmentation")), strict=True):
            assert len(boxes) == len(classes) == len(polygons)
            assert [polygon is None for polygon in polygons] == crowds.astype(bool).tolist()


def test_what_does_not_follow_is_said(scenes: sp.Dataset) -> None:
    def says(field: str, how: str) -> Any:
        return pytest.warns(UserWarning, match=re.escape(f"align={{'{field}': sp.align.{how}}}"))

    with says("masks", "mask() | instance_masks()"):
        sp.Loader(scenes, 4, image="rrc32", fields=["image", "masks"])
    with says("segmentation", "polygons()"):
        sp.Loader(scenes, 4, image="rrc32", fields=["image", "segmentation"])
    with pytest.raises(sp.UsageError, match=re.escape("sp.align.instance_masks(rows='boxes')")), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sp.Loader(scenes, 4, image="rrc32", fields=["image", "boxes", "masks"], align={"boxes": sp.align.boxes("xywh")})
    for align, said in [
        ({"masks": sp.align.mask()}, r"the mask in field `masks` has the shape \[\d, \d+, \d+\], but the picture \(after Exif rotation\) is \d+ × \d+"),
        ({"mask": sp.align.instance_masks()}, "align it as `mask` if it is a single mask of the whole picture"),
        ({"segmentation": sp.align.boxes()}, "aligned field `segmentation`: only array fields can be aligned, but this one is of kind `json`"),
        ({"quads": sp.align.polygons(relative=True)}, r"field `quads` \(relative polygons\): relative polygons must be fractions"),
        ({"segmentation": sp.align.polygons(rows="quads")}, "aligned as boxes"),
    ]:
        with pytest.raises(sp.UsageError, match=said), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loader = sp.Loader(scenes, 5, image="rrc32", fields=["image", *align], align=align, shuffle=False)
            for _ in loader:
                pass
