"""Tests that masks, boxes and keypoints are aligned with their picture, and that arrays of varying length are lists in
a batch.
"""

from __future__ import annotations

import io
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardpack as sp
from PIL import Image

COLOURS = np.array([[0, 0, 0], [210, 20, 20], [20, 210, 20], [20, 20, 210]], np.uint8)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> sp.Dataset:
    """Writes rectangles in three colours on black, with a mask of their class numbers and with their boxes."""
    rng = np.random.default_rng(3)
    out = tmp_path_factory.mktemp("scenes") / "packed"
    schema = {
        "image": "image", "mask": "array", "boxes": "array", "classes": "array", "points": "array", "caption": "text",
        "tokens": "array",
    }  # fmt: skip
    with sp.Writer(out, schema, shuffle=False) as writer:
        for number in range(24):
            height, width = (int(side) for side in rng.integers(150, 260, 2))
            mask = np.zeros((height, width), np.uint8)
            for colour in (1, 2, 3):
                left = int(rng.integers(0, width // 3 - 40)) + (colour - 1) * width // 3
                top = int(rng.integers(0, height - 60))
                mask[top : top + 50, left : left + 40] = colour
            boxes = [_sides(mask == colour) for colour in (1, 2, 3)]
            file = io.BytesIO()
            Image.fromarray(COLOURS[mask]).save(file, "JPEG", quality=95, subsampling=0)
            points = [[x + w / 2, y + h / 2, 2] for x, y, w, h in boxes]
            writer.write(
                {
                    "image": file.getvalue(), "mask": mask, "boxes": np.array(boxes, np.int32),
                    "classes": np.array([1, 2, 3], np.int64), "points": np.array(points, np.float64)[:, None],
                    "caption": f"scene {number}", "tokens": np.arange(number, dtype=np.int64),
                },
                key=f"{number:02}",
            )  # fmt: skip
    return sp.Dataset(out)


def _sides(seen: Any) -> list[int]:
    y, x = seen.nonzero()
    return [int(x.min()), int(y.min()), int(x.max() - x.min()) + 1, int(y.max() - y.min()) + 1]


ALIGN = {
    "mask": sp.align.mask(), "boxes": sp.align.boxes("xywh", visible=0.1), "classes": sp.align.rows_of("boxes"),
    "points": sp.align.keypoints(rows="boxes"),
}  # fmt: skip
FIELDS = ["image", "mask", "boxes", "classes", "points", "caption", "tokens"]


def test_alignments_are_texts() -> None:
    assert sp.align.mask() == "mask" and sp.align.mask("left") == "mask,picture=left"
    assert sp.align.mask(fill=255) == "mask" and sp.align.mask(fill=np.int64(0)) == "mask,fill=0.0"
    assert sp.align.boxes() == "boxes"
    with pytest.raises(ValueError, match="format: expected 'xyxy', 'xywh' or 'cxcywh', found 'yxyx'"):
        sp.align.boxes("yxyx")  # type: ignore[arg-type]
    assert sp.align.boxes("cxcywh", relative=True, visible=0.5) == "boxes,format=cxcywh,unit=relative,visible=0.5"
    assert sp.align.keypoints(swap=[(1, 2), (np.int64(3), 4)], rows="boxes") == "keypoints,swap=1-2/3-4,rows=boxes"
    assert sp.align.rows_of("boxes") == "rows,of=boxes"
    assert sp.align.instance_masks() == "instances" and sp.align.instance_masks(rows="boxes") == "instances,rows=boxes"
    assert sp.align.polygons(relative=True, rows="boxes", picture="left") == "polygons,unit=relative,rows=boxes,picture=left"
    with pytest.raises(TypeError):
        sp.align.keypoints(swap=[(1.5, 2)])  # type: ignore[list-item]


@pytest.mark.parametrize("image", ["rrc96", "rrc64x112,flip=1", "center96", "resize80x120,flip=0.5", "pad96x130,flip=0.5"])
def test_everything_shows_the_same_part(scenes: sp.Dataset, image: str) -> None:
    loader = sp.Loader(scenes, 5, image=image, align=ALIGN, fields=FIELDS, end="uneven", seed=5)
    seen = 0
    for epoch in range(2):
        loader.set_epoch(epoch)
        for batch in loader:
            images, masks, boxes, classes, points, captions, tokens = batch
            assert masks.shape == images.shape[:3] and masks.dtype == np.uint8
            views = batch.views()
            for row, index in enumerate(batch.indices):
                assert captions[row] == f"scene {index}" and tokens[row].tolist() == list(range(index))
                assert len(boxes[row]) == len(classes[row]) == len(points[row])
                assert boxes[row].dtype == points[row].dtype == np.float32 and classes[row].dtype == np.int64
                for box, number, point in zip(boxes[row], classes[row], points[row][:, 0]):
                    same = masks[row] == number
                    # If only a sliver of a box is visible, it may contain no pixel centre, and thus no mask pixel.
                    if not same.any():
                        assert min(box[2:]) <= 1
                        continue
                    np.testing.assert_allclose(box, _sides(same), atol=2)
                    # Away from the edges of the box, the picture must have the colour of the class.
                    inside = same.copy()
                    for axis in (0, 1):
                        for step in range(-4, 5):
                            inside &= np.roll(same, step, axis)
                    inside[:4] = inside[-4:] = False
                    inside[:, :4] = inside[:, -4:] = False
                    colours = images[row][inside].astype(int)
                    assert np.abs(colours - COLOURS[number]).max(initial=0) < 25
                    seen += len(colours)
                    stored = scenes[int(index)]["points"][number - 1, 0, :2]
                    there = views.from_source(row, stored)
                    if point[2]:
                        np.testing.assert_allclose(point[:2], there, atol=1e-3)
                    else:
                        assert point.tolist() == [0, 0, 0]
    assert seen > 10_000


def test_rows_of_boxes_that_do_not_follow_them_are_refused(tmp_path: Path) -> None:
    def dataset(name: str, counts: list[int]) -> sp.Dataset:
        """Writes pictures with the given numbers of boxes, arrays with one row per box, and other arrays."""
        schema = {"image": "image", **dict.fromkeys(("boxes", "classes", "points", "size", "words"), "array")}
        with sp.Writer(tmp_path / name, schema) as writer:
            for number, count in enumerate(counts):
                boxes = np.array([[0, 0, 8, 8], [20, 20, 39, 39], [4, 4, 16, 30]], np.float32)[:count]
                points = np.zeros((count, 5, 3), np.float32)
                values: dict[str, Any] = {"size": np.array([40, 40]), "words": np.arange(number + 1)}
                picture = np.zeros((40, 40, 3), np.uint8)
                writer.write({"image": picture, "boxes": boxes, "classes": np.arange(count), "points": points, **values})
        return sp.Dataset(tmp_path / name)

    def loader(dataset: sp.Dataset, fields: list[str] | None = None, **align: str | None) -> sp.Loader:
        return sp.Loader(dataset, 2, image="rrc16", fields=fields, align={"boxes": sp.align.boxes(), **align})

    some = dataset("some", [1, 2, 3, 0, 2, 1])
    expected = (
        r"^align: `classes` has one row for each box of `boxes` in the 6 samples checked, but is not aligned: .*\n"
        r"hint: pass align=\{'classes': sp.align.rows_of\('boxes'\)\} to remove the same rows, or pass align=\{'classes': None\} to keep all rows"
    )
    with pytest.raises(sp.UsageError, match=expected):
        loader(some, ["image", "boxes", "classes"])
    # The field is refused even if `fields` does not name it. `points` also has one row per box.
    with pytest.raises(sp.UsageError, match="`points` has one row for each box of `boxes`"):
        loader(some, classes=sp.align.rows_of("boxes"))
    # `size` always has two rows, and `words` has one row per box only in some samples, so neither is refused.
    follow = {"classes": sp.align.rows_of("boxes"), "points": sp.align.keypoints(rows="boxes")}
    for batch in loader(some, **follow):
        assert all(len(boxes) == len(kinds) for boxes, kinds in zip(batch["boxes"], batch["classes"], strict=True))
    # `None` keeps all rows. Fields that are not loaded are not checked.
    for batch in loader(some, ["image", "boxes", "classes"], classes=None):
        assert all(len(kinds) == len(some[int(i)]["classes"]) for i, kinds in zip(batch.indices, batch["classes"], strict=True))
    loader(some, ["image", "boxes", "size", "words"])
    # Without aligned boxes, no rows are removed, so nothing is refused.
    with pytest.warns(UserWarning, match="`boxes` is not aligned with its picture"):
        sp.Loader(some, 4, image="rrc16", fields=["image", "boxes", "classes"])
    # With one box and one class in every sample, the equal lengths may be a coincidence. With two of each, they are
    # not.
    loader(dataset("ones", [1, 1, 1]), ["image", "boxes", "classes"])
    with pytest.raises(sp.UsageError, match="`classes` has one row for each box of `boxes` in the 3 samples"):
        loader(dataset("twos", [2, 2, 2]), ["image", "boxes", "classes"])


def test_a_resumed_loader_goes_on_with_the_same(scenes: sp.Dataset) -> None:
    def told(batch: sp.Batch) -> list[Any]:
        return [[np.asarray(value).tolist() for value in batch[field]] for field in FIELDS]

    def loader(threads: int) -> sp.Loader:
        return sp.Loader(scenes, 4, image="rrc48", align=ALIGN, fields=FIELDS, threads=threads)

    first = loader(1)
    taken = iter(first)
    next(taken), next(taken)
    state = first.state_dict()
    expected = [told(batch) for batch in taken]
    second = loader(2)
    second.load_state_dict(state)
    assert [told(batch) for batch in second] == expected and len(expected) == 4


def test_whole_pictures_and_their_masks_are_mirrored_together(tmp_path: Path) -> None:
    y, x = np.mgrid[:40, :56].astype(np.uint8)
    with sp.Writer(tmp_path / "out", {"image": "image", "mask": "array"}) as writer:
        for number in range(8):
            writer.write({"image": np.stack([x * 4, y * 4, x], axis=2), "mask": x + y})
    dataset = sp.Dataset(tmp_path / "out")
    with pytest.raises(sp.UsageError, match="mirrored"):
        sp.Loader(dataset, 4, image="full,flip=0.5", fields=["image", "mask"], align={"mask": None})
    loader = sp.Loader(dataset, 8, image="full,flip=0.5", align={"mask": sp.align.mask()})
    (batch,) = loader
    flipped = batch.views().flipped
    assert 0 < flipped.sum() < 8
    for row in range(8):
        red = batch["image"][row][..., 0] // 4
        np.testing.assert_array_equal(red, x[:, ::-1] if flipped[row] else x)
        np.testing.assert_array_equal(batch["mask"][row], (x + y)[:, ::-1] if flipped[row] else x + y)


def test_what_is_not_aligned_is_said(scenes: sp.Dataset) -> None:
    with pytest.warns(UserWarning, match=r"field `boxes` is not aligned with its picture(.|\n)*sp.align.boxes"):
        sp.Loader(scenes, 4, image="rrc32", fields=["image", "boxes"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sp.Loader(scenes, 4, image="rrc32", fields=["image", "boxes"], align={"boxes": None})
        sp.Loader(scenes, 4, image="rrc32", fields=["image", "tokens", "caption"])
        sp.Loader(scenes, 4, fields=["image", "boxes"])
        (batch, *_) = sp.Loader(scenes, 4, image="rrc32", fields=["image", "boxes"], align={"boxes": None}, shuffle=False)
    assert batch["boxes"][0].tolist() == scenes[0]["boxes"].tolist()


def test_boxes_of_a_table_are_json_and_do_not_follow(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    lines = []
    for number in range(3):
        Image.new("RGB", (80, 60)).save(tmp_path / f"photos/{number}.png")
        lines.append(json.dumps({"key": f"{number}.png", "boxes": [[1, 2, 30, 40]] * (number + 1), "words": ["a"]}))
    (tmp_path / "boxes.jsonl").write_text("\n".join(lines))
    sp.pack(tmp_path / "photos", tmp_path / "out", labels=tmp_path / "boxes.jsonl")
    dataset = sp.Dataset(tmp_path / "out")
    hint = r'`boxes` is not aligned with its picture(.|\n)*hint: pass schema=\{\'boxes\': "array:float32"\} to sp.Writer.*align=\{\'boxes\': None\}'
    with pytest.warns(UserWarning, match=hint):
        sp.Loader(dataset, 2, image="rrc64", fields=["image", "boxes"])
    with pytest.raises(sp.UsageError, match=r"aligned field `boxes`: only array fields can be aligned, but this one is of kind `json`\nhint: write the values as arrays"):
        sp.Loader(dataset, 2, image="rrc64", fields=["image", "boxes"], align={"boxes": sp.align.boxes("xywh")})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sp.Loader(dataset, 2, image="rrc64", fields=["image", "boxes"], align={"boxes": None})
        sp.Loader(dataset, 2, image="rrc64", fields=["image", "words"])
        sp.Loader(dataset, 2, image="rrc64")
    # Store the boxes as arrays, as the error's hint says.
    with sp.Writer(tmp_path / "arrays", {"image": "image", "boxes": "array:float32"}) as writer:
        for number, sample in enumerate(dataset):
            writer.write({"image": dataset.raw(number, "image"), "boxes": sample["boxes"]}, key=sample["__key__"])
    align = {"boxes": sp.align.boxes("xywh")}
    (batch,) = sp.Loader(sp.Dataset(tmp_path / "arrays"), 3, image="resize30x40", align=align, shuffle=False)
    assert sorted(map(len, batch["boxes"])) == [1, 2, 3] and batch["boxes"][0][0].tolist() == [0.5, 1, 15, 20]


def test_what_photos_do_not_have_is_said(scenes: sp.Dataset) -> None:
    for augment, hint in (("hflip", r'mirror pictures with a view: (.|\n)*image="full,flip=0.5"'), ("rot90", "use `random_rotation` or `random_affine` to rotate pictures")):
        with pytest.raises(sp.UsageError, match=f"flips and rotations apply to arrays, but only pictures are loaded\nhint: {hint}"):
            sp.Loader(scenes, 2, image="full", fields=["image"], augment=augment)
    mixed: dict[str, Any] = {"augment_batch": sp.augment.mixup(), "num_classes": 3}
    with pytest.raises(sp.UsageError, match=r"mixing a batch needs a picture field, but none is loaded\nhint: add a picture field to `fields`"):
        sp.Loader(scenes, 2, image="rrc32", fields=["mask"], **mixed)
    with pytest.raises(sp.UsageError, match="mixing a batch needs decoded pictures of a fixed size\nhint: choose a view"):
        sp.Loader(scenes, 2, image="full", fields=["image"], **mixed)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"align": {"boxes": "box"}}, sp.UsageError, "expected mask, instances, boxes, keypoints, polygons"),
        ({"align": {"boxes": 3}}, TypeError, r"align\['boxes'\]: expected a string"),
        ({"align": ["boxes"]}, TypeError, "align: expected a mapping"),
        ({"align": ALIGN, "fields": ["image"]}, sp.UsageError, "`align` refers to the field 'mask', but the loader loads only image"),
        ({"align": {"caption": "mask"}}, sp.UsageError, "`align` refers to the field 'caption', but the loader loads only "),
        ({"align": {"mask": "mask"}, "fields": ["mask"]}, sp.UsageError, "no picture field is loaded"),
        (
            {"align": {"mask": "mask,picture=image"}, "fields": ["mask"], "augment": [sp.augment.random_affine(5)]},
            sp.UsageError,
            "pixels of this field's picture, but that picture is not loaded",
        ),
        ({"align": {"mask": "mask"}, "cube": "patch8x8"}, sp.UsageError, "whole arrays"),
        ({"align": {"classes": sp.align.rows_of("points")}}, sp.UsageError, "aligned as boxes"),
        ({"align": {"boxs": None}}, sp.UsageError, "`align` refers to the field 'boxs', but the loader loads only "),
        ({"align": {"mask": "mask"}, "augment": "hflip"}, sp.UsageError, "cannot be flipped or rotated without its picture"),
    ],
)
def test_what_cannot_be_aligned_is_refused(
    scenes: sp.Dataset, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with warnings.catch_warnings(), pytest.raises(error, match=said):
        warnings.simplefilter("ignore")
        sp.Loader(scenes, 4, **{"image": "rrc32", **options})


def test_a_sample_that_is_not_as_it_is_said_names_itself(tmp_path: Path) -> None:
    picture = np.zeros((20, 30, 3), np.uint8)
    with sp.Writer(tmp_path / "out", {"image": "image", "boxes": "array"}, shuffle=False) as writer:
        writer.write({"image": picture, "boxes": np.zeros((0, 4), np.float32)}, key="none")
        writer.write({"image": picture, "boxes": np.array([[1, 2, 3]], np.float32)}, key="three")
    loader = sp.Loader(sp.Dataset(tmp_path / "out"), 1, image="resize8", align={"boxes": "boxes"}, shuffle=False)
    batches = iter(loader)
    assert next(batches)["boxes"][0].shape == (0, 4)
    expected = r"^sample 1, `three`: field `boxes` \(xyxy boxes in pixels\): the shape must be \[boxes, 4\], but is \[1, 3\]"
    with pytest.raises(sp.UsageError, match=expected):
        next(batches)


def test_boxes_of_another_form_are_an_error_that_is_not_skipped(tmp_path: Path) -> None:
    picture = np.zeros((200, 400, 3), np.uint8)
    with sp.Writer(tmp_path / "out", {"image": "image", "boxes": "array"}, shuffle=False) as writer:
        writer.write({"image": picture, "boxes": np.array([[10, 10, 200, 150]], np.float32)}, key="good")
        # The boxes are stored as left, top, width, height.
        writer.write({"image": picture, "boxes": np.array([[300, 100, 50, 80]], np.float32)}, key="other")
    dataset = sp.Dataset(tmp_path / "out")
    options = {"image": "resize200x400", "align": {"boxes": sp.align.boxes()}, "shuffle": False}
    for skip_corrupt in (0, 100):
        loader = sp.Loader(dataset, 2, skip_corrupt=skip_corrupt, **options)
        expected = r'^sample \d+, `other`: field `boxes` \(xyxy boxes in pixels\): .* negative width or height: .*\n.*format="xywh"'
        with pytest.raises(sp.UsageError, match=expected):
            next(iter(loader))
        assert loader.stats()["skipped"] == 0


def test_a_box_that_is_none_can_be_skipped(tmp_path: Path) -> None:
    picture = np.zeros((200, 400, 3), np.uint8)
    with sp.Writer(tmp_path / "out", {"image": "image", "boxes": "array"}, shuffle=False) as writer:
        for key, width in (("good", 200), ("nan", np.nan), ("negative", -5)):
            writer.write({"image": picture, "boxes": np.array([[10, 10, width, 150]], np.float32)}, key=key)
    dataset = sp.Dataset(tmp_path / "out")
    options = {"image": "resize200x400", "align": {"boxes": sp.align.boxes("xywh")}, "shuffle": False}
    with pytest.raises(sp.FormatError, match="`nan`(.|\n)*finite"):
        next(iter(sp.Loader(dataset, 3, **options)))
    loader = sp.Loader(dataset, 3, skip_corrupt=2, **options)
    (batch,) = loader
    assert batch.mask.tolist() == [True, False, False] and batch["boxes"][1] is None
    assert loader.stats()["skipped"] == 2


def test_whole_pictures_that_are_turned_have_their_masks(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "out", {"image": "image", "mask": "array"}, shuffle=False) as writer:
        for number, orientation in enumerate((1, 6, 3, 8)):
            y, x = np.mgrid[:40, :56].astype(np.uint8)
            upright = np.stack([x * 4, y * 4, x], axis=2)
            # Store the picture rotated, so that its Exif orientation makes it upright.
            stored = Image.fromarray(upright).rotate({1: 0, 6: 90, 3: 180, 8: 270}[orientation], expand=True)
            exif = Image.Exif()
            exif[0x0112] = orientation
            file = io.BytesIO()
            stored.save(file, "JPEG", quality=100, subsampling=0, exif=exif)
            writer.write({"image": file.getvalue(), "mask": x + y}, key=f"{number}")
    for image in ("full", "full,flip=1"):
        (batch,) = sp.Loader(sp.Dataset(tmp_path / "out"), 4, image=image, align={"mask": sp.align.mask()}, shuffle=False)
        for row in range(4):
            assert batch["mask"][row].shape == batch["image"][row].shape[:2] == (40, 56)
            red, green = batch["image"][row][..., 0] / 4, batch["image"][row][..., 1] / 4
            assert np.abs(batch["mask"][row] - (red + green)).max() < 3


def test_masks_that_are_not_aligned_have_the_sides_of_the_picture_as_it_is_seen(tmp_path: Path) -> None:
    """The index gives the size of the stored picture, which may be rotated. The mask has the size of the upright
    picture.
    """
    (tmp_path / "photos").mkdir()
    (tmp_path / "masks").mkdir()
    rng = np.random.default_rng(1)
    masks = {}
    # The first picture is upright, and it decides the columns.
    for number, orientation in enumerate((1, 6, 3, 8)):
        mask = rng.integers(0, 9, (40 + 2 * number, 56), np.uint8)
        height, width = mask.shape
        stored = Image.new("RGB", (height, width) if orientation in (6, 8) else (width, height), (90, 80, 70))
        exif = Image.Exif()
        exif[0x0112] = orientation
        stored.save(tmp_path / f"photos/{number}.jpg", exif=exif)
        Image.fromarray(mask).save(tmp_path / f"masks/{number}.png")
        masks[f"{number}.jpg"] = mask
    sp.pack(tmp_path / "photos", tmp_path / "out", masks=tmp_path / "masks", no_shuffle=True)
    dataset = sp.Dataset(tmp_path / "out")
    for fields in (["image", "mask"], ["mask"]):
        (batch,) = sp.Loader(dataset, 4, image="full", fields=fields, shuffle=False)
        for key, mask in zip(batch.sample_keys, batch["mask"]):
            assert (np.asarray(mask) == masks[key]).all()
    # In a grid, the number of patches depends on the size of the scene.
    grid = sp.Loader(dataset, 1, cube="patch20x20", patches="grid", fields=["mask"], shuffle=False)
    assert len(grid) == sum(-(-mask.shape[0] // 20) * -(-mask.shape[1] // 20) for mask in masks.values())
    for batch in grid:
        (y, x), mask = batch.origins[0], masks[batch.sample_keys[0]]
        assert (batch["mask"][0] == mask[y : y + 20, x : x + 20]).all()


def test_masks_of_pictures_that_lie_on_their_side_alike_are_one_tensor(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "masks").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6
    for number in range(3):
        Image.new("RGB", (56, 40)).save(tmp_path / f"photos/{number}.jpg", exif=exif)
        Image.fromarray(np.full((56, 40), number, np.uint8)).save(tmp_path / f"masks/{number}.png")
    sp.pack(tmp_path / "photos", tmp_path / "out", masks=tmp_path / "masks")
    (batch,) = sp.Loader(sp.Dataset(tmp_path / "out"), 3, fields=["mask"])
    assert isinstance(batch["mask"], np.ndarray) and batch["mask"].shape == (3, 56, 40)
