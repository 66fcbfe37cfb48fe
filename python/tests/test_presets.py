"""Tests large-scale jitter, random crops, mosaics, Mixup and CutMix with masks and boxes, and the recipes that combine
them. Compares with torchvision if it is installed.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardpack as sp
from numpy.typing import NDArray
from PIL import Image

ALIGN = {
    "mask": sp.align.mask(), "boxes": sp.align.boxes(visible=0.1), "classes": sp.align.rows_of("boxes"),
    "masks": sp.align.instance_masks(rows="boxes"), "segmentation": sp.align.polygons(rows="boxes"),
}  # fmt: skip
FIELDS = ["image", *ALIGN, "caption"]


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> sp.Dataset:
    """Writes pictures of several sizes: two bright squares on a colour that shows the number of the picture, with a
    mask of their classes, and with their boxes, instance masks and polygons. No square touches the border of its
    picture.
    """
    rng, out = np.random.default_rng(4), tmp_path_factory.mktemp("presets") / "packed"
    schema = {
        "image": "image", "mask": "array", "boxes": "array", "classes": "array", "masks": "array",
        "segmentation": "json", "caption": "text",
    }  # fmt: skip
    with sp.Writer(out, schema, shuffle=False) as writer:
        for number in range(20):
            height, width = (int(side) for side in rng.integers(70, 150, 2))
            mask, boxes, masks = np.zeros((height, width), np.uint8), [], []
            for kind in (1, 2):
                side = int(rng.integers(14, 26))
                left = int(rng.integers(2, width // 2 - side - 1)) + (kind - 1) * (width // 2)
                top = int(rng.integers(2, height - side - 2))
                mask[top : top + side, left : left + side] = kind
                boxes.append([left, top, left + side, top + side])
                masks.append(mask == kind)
            picture = np.array([[20, 10 * number, 40], [250, 240, 230], [150, 250, 160]], np.uint8)[mask]
            file = io.BytesIO()
            Image.fromarray(picture).save(file, "PNG")
            polygons = [[[a, b, c, b, c, d, a, d]] for a, b, c, d in boxes]
            writer.write(
                {
                    "image": file.getvalue(), "mask": mask, "boxes": np.array(boxes, np.float32),
                    "classes": np.array([1, 2], np.int64), "masks": np.stack(masks), "segmentation": polygons,
                    "caption": f"scene {number}",
                },
                key=f"{number:02}",
            )  # fmt: skip
    return sp.Dataset(out)


def tight(seen: NDArray[np.bool_]) -> list[int]:
    y, x = seen.nonzero()
    return [int(x.min()), int(y.min()), int(x.max()) + 1, int(y.max()) + 1]


def check_objects(batch: sp.Batch, tolerance: float, *, has_whole_polygons: bool = False) -> int:
    """Compares the boxes, masks and polygons of objects with each other and with the mask of classes. Returns the
    number of objects. Whole polygons may reach beyond their boxes, because mosaics do not clip them to their picture.
    """
    count = 0
    for row in range(len(batch)):
        boxes, classes, masks = (batch[name][row] for name in ("boxes", "classes", "masks"))
        assert len(boxes) == len(classes) == len(masks) == len(batch["segmentation"][row])
        height, width = batch["mask"].shape[1:]
        for box, kind, mask, polygons in zip(boxes, classes, masks, batch["segmentation"][row], strict=True):
            if not mask.any():
                assert min(box[2] - box[0], box[3] - box[1]) < 1.5
                continue
            assert np.abs(np.array(tight(mask)) - box).max() <= tolerance, (row, tight(mask), box)
            x, y = np.array(polygons[0]).reshape(-1, 2).T.clip(0, [[width], [height]])
            beyond = np.array([box[0] - x.min(), box[1] - y.min(), x.max() - box[2], y.max() - box[3]])
            assert beyond.min() >= -tolerance and (has_whole_polygons or beyond.max() <= tolerance), (row, beyond)
            assert (batch["mask"][row][mask] == kind).mean() > 0.95
            count += 1
    return count


def test_views_of_a_random_size_are_texts() -> None:
    view = sp.view
    assert view.scale_jitter(640) == "jitter640"
    assert view.scale_jitter((64, 96), (0.5, 1.5), 0, hflip=0) == "jitter64x96,scale=0.5..1.5,fill=0:0:0,flip=0.0"
    assert view.random_crop(480, (260, 1040)) == "randcrop480,short=260..1040"
    assert view.random_crop(8, 9, interpolation="nearest") == "randcrop8,short=9,interpolation=nearest"
    with pytest.raises(ValueError, match="short_side: expected one length, or a lower and an upper bound"):
        view.random_crop(8, (1, 2, 3))
    with pytest.raises(TypeError, match="short_side: expected a whole number of pixels"):
        view.random_crop(8, 1.5)  # type: ignore[arg-type]
    assert sp.augment.mosaic() == "mosaic"
    mosaic = sp.augment.mosaic((0.5, 2), (0.1, 0), 10, (1, 2, 3, 4), 0.5, 0)
    assert mosaic == "mosaic(scale=0.5..2.0,translate=0.1:0.0,degrees=10.0,shear=1.0..2.0,shear_y=3.0..4.0,p=0.5,fill=0:0:0)"
    with pytest.raises(sp.UsageError, match="`p` in mosaic must be from 0 to 1, but is 2"):
        sp.augment.mosaic(p=2)
    with pytest.raises(ValueError, match="translate: expected one fraction, or two for width and height"):
        sp.augment.mosaic(translate=(1, 2, 3))


@pytest.mark.parametrize("image", ["jitter96x80,scale=0.2..1.9", "randcrop72,short=50..160", "jitter64,interpolation=bicubic"])
def test_everything_follows_a_random_size(scenes: sp.Dataset, image: str) -> None:
    count = padded = 0
    with sp.Loader(scenes, 5, image=image, align=ALIGN, fields=FIELDS, seed=3) as loader:
        for batch in loader:
            count += check_objects(batch, 1.2)
            padded += int((batch["mask"] == 255).any(axis=(1, 2)).sum())
            # Borders are grey, and the mask is 255 there.
            border = batch["mask"] == 255
            assert (batch["image"][border] == 114).all()
    assert count > 15 and padded > 3


@pytest.mark.parametrize("image", ["jitter96x80,scale=0.2..1.9", "randcrop72,short=50..160"])
def test_random_sizes_are_those_of_torchvision(scenes: sp.Dataset, image: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchvision")
    from torchvision import tv_tensors
    from torchvision.transforms.v2 import InterpolationMode, functional

    align = {"mask": sp.align.mask(), "boxes": sp.align.boxes()}
    cropped = padded = 0
    with sp.Loader(scenes, 5, image=image, align=align, fields=["image", "mask", "boxes"], seed=3) as loader:
        for batch in loader:
            views = batch.views()
            for row, index in enumerate(batch.indices):
                sample = scenes[int(index)]
                (height, width), (rows, columns) = views.source[row], views.size[row]
                left, top, wide, high = views.crop[row]
                # Compute the size of the whole picture before the crop. torchvision rounds both sides down.
                size = [int(np.floor(height * rows / high + 1e-6)), int(np.floor(width * columns / wide + 1e-6))]
                size = [max(1, side) for side in size]
                at = [round(top * size[0] / height), round(left * size[1] / width)]
                picture = torch.from_numpy(np.array(sample["image"])).permute(2, 0, 1)
                boxes = tv_tensors.BoundingBoxes(torch.from_numpy(sample["boxes"]), format="XYXY", canvas_size=(height, width))
                mask = torch.from_numpy(sample["mask"])[None]
                picture = functional.resize(picture, size, antialias=True)
                mask = functional.resize(mask, size, InterpolationMode.NEAREST_EXACT)
                boxes = functional.resize(boxes, size)
                borders = [max(0, -at[1]), max(0, -at[0]), max(0, at[1] + columns - size[1]), max(0, at[0] + rows - size[0])]
                if any(borders):
                    picture, mask = functional.pad(picture, borders, fill=114), functional.pad(mask, borders, fill=255)
                    boxes = functional.pad(boxes, borders)
                start = [max(0, at[0]), max(0, at[1]), int(rows), int(columns)]
                picture, mask, boxes = (functional.crop(value, *start) for value in (picture, mask, boxes))
                if views.flipped[row]:
                    picture, mask, boxes = (functional.horizontal_flip(value) for value in (picture, mask, boxes))
                apart = np.abs(batch["image"][row].astype(int) - picture.permute(1, 2, 0).numpy())
                assert apart.max() <= 1, (index, apart.max())
                assert (batch["mask"][row] == mask[0].numpy()).mean() > 0.999, index
                boxes = boxes[(boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])].numpy()
                assert np.abs(batch["boxes"][row] - boxes).max(initial=0) < 1e-3, index
                padded += any(borders)
                cropped += size[0] > rows or size[1] > columns
    assert cropped > 5 and padded > 5, (cropped, padded)


def test_views_of_other_sizes_and_crops_by_boxes_are_texts() -> None:
    view = sp.view
    assert view.random_shortest_size(range(480, 801, 32), 1333) == "short480..800,step=32,max=1333"
    assert view.random_shortest_size([800, 640], hflip=0) == "short640..800,step=160,flip=0.0"
    assert view.random_shortest_size(800, 1333, interpolation="bicubic") == "short800,max=1333,interpolation=bicubic"
    assert view.random_shortest_size(range(9, 12)) == "short9..11"
    with pytest.raises(ValueError, match="short: expected evenly spaced lengths, such as range"):
        view.random_shortest_size([480, 512, 800])
    with pytest.raises(ValueError, match="short: expected evenly spaced lengths, such as range"):
        view.random_shortest_size([])
    with pytest.raises(ValueError, match="short: expected evenly spaced lengths, such as range"):
        view.random_shortest_size([480, 480, 800])
    with pytest.raises(ValueError, match="short: expected evenly spaced lengths, such as range"):
        view.random_shortest_size([480, 480])
    with pytest.raises(TypeError, match="short: expected whole numbers of pixels, found '480'"):
        view.random_shortest_size("480")  # type: ignore[arg-type]
    assert view.iou_crop(300) == "ioucrop300"
    zoomed = view.iou_crop((30, 40), (0.5, 1), (1, 1), (1, 4), 0, 0)
    assert zoomed == "ioucrop30x40,scale=0.5..1.0,ratio=1.0..1.0,zoom=1.0..4.0,fill=0:0:0,flip=0.0"
    assert view.iou_crop(30, fill=(1, 2, 3)) == "ioucrop30", "there is no canvas"


def test_everything_follows_a_picture_of_its_own_size(scenes: sp.Dataset) -> None:
    options: dict[str, Any] = {"align": ALIGN, "fields": FIELDS, "image": "short40..200,step=20,max=260", "seed": 3}
    sizes, count = set(), 0
    with sp.Loader(scenes, 5, **options) as loader, sp.Loader(scenes, 5, threads=1, **options) as other:
        for epoch in range(8):
            loader.set_epoch(epoch)
            other.set_epoch(epoch)
            for batch, same in zip(loader, other, strict=True):
                views = batch.views()
                for row, index in enumerate(batch.indices):
                    image, mask = batch["image"][row], batch["mask"][row]
                    assert image.shape == (*mask.shape, 3) and tuple(views.size[row]) == mask.shape
                    assert np.array_equal(image, same["image"][row]) and np.array_equal(mask, same["mask"][row])
                    height, width = scenes[int(index)]["mask"].shape
                    shorts = (short for short in range(40, 201, 20))
                    assert mask.shape in {tuple(shortest([height, width], short, 260)) for short in shorts}
                    sizes.add(min(mask.shape))
                    for box, kind in zip(batch["boxes"][row], batch["classes"][row], strict=True):
                        assert np.abs(np.array(tight(mask == kind)) - box).max() <= max(1.2, min(mask.shape) / 60)
                        count += 1
        assert loader.stats()["grown_slots"] == 0, "what is needed was predicted"
        whole = sp.Loader(scenes, 5, **options | {"image": "full"})
        # Each batch of five rows has a slot for the largest sizes that can be drawn.
        sides = [list(scenes[index]["mask"].shape) for index in range(len(scenes))]
        pixels = [np.mean([np.prod(size) for size in of]) for of in ([shortest(size, 200, 260) for size in sides], sides)]
        assert loader.predicted_bytes > whole.predicted_bytes + 2 * 5 * 4 * (pixels[0] - pixels[1])
    assert len(sizes) >= 8 and count > 200, (sizes, count)


def shortest(size: list[int], short: int, longest: int) -> list[int]:
    scale = min(short / min(size), longest / max(size))
    return [int(side * scale) for side in size]


def test_pictures_of_their_own_size_are_those_of_torchvision(scenes: sp.Dataset) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchvision")
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    align = {"mask": sp.align.mask(), "boxes": sp.align.boxes()}
    options: dict[str, Any] = {"align": align, "fields": ["image", "mask", "boxes"], "seed": 3}
    with sp.Loader(scenes, 5, **options, **sp.presets.multiscale(range(48, 181, 12), 220)) as loader:
        lengths = []
        for batch in loader:
            views = batch.views()
            for row, index in enumerate(batch.indices):
                sample = scenes[int(index)]
                rows, columns = batch["mask"][row].shape
                height, width = sample["mask"].shape
                # The drawn length is the only one that gives this size, unless the longer side is at its maximum.
                drawn = [short for short in range(48, 181, 12) if shortest([height, width], short, 220) == [rows, columns]]
                lengths.append(drawn[0])
                resize = v2.RandomShortestSize([drawn[0]], max_size=220)
                boxes = tv_tensors.BoundingBoxes(torch.from_numpy(sample["boxes"]), format="XYXY", canvas_size=(height, width))
                picture = tv_tensors.Image(torch.from_numpy(np.array(sample["image"])).permute(2, 0, 1))
                mask = tv_tensors.Mask(torch.from_numpy(sample["mask"])[None])
                picture, boxes, mask = resize(picture, boxes, mask)
                if views.flipped[row]:
                    picture, boxes, mask = (v2.functional.horizontal_flip(value) for value in (picture, boxes, mask))
                apart = np.abs(batch["image"][row].astype(int) - picture.permute(1, 2, 0).numpy())
                assert apart.max() <= 1, (index, apart.max())
                assert np.abs(batch["boxes"][row] - boxes.numpy()).max(initial=0) < 1e-3, index
                # torchvision's `nearest` takes the pixel to the left or above for masks.
                assert (batch["mask"][row] == mask[0].numpy()).mean() > 0.9, index
    assert len(set(lengths)) > 5, lengths


def test_crops_by_boxes_are_those_of_torchvision(scenes: sp.Dataset) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchvision")
    from torchvision import tv_tensors
    from torchvision.ops import box_iou
    from torchvision.transforms import v2

    options: dict[str, Any] = {"align": ALIGN, "fields": FIELDS, "seed": 3}
    found: list[tuple[bool, float]] = []
    with sp.Loader(scenes, 5, **options, **sp.presets.ssdlite((90, 110))) as loader:
        for epoch in range(30):
            loader.set_epoch(epoch)
            for batch in loader:
                views = batch.views()
                for row, index in enumerate(batch.indices):
                    sample = scenes[int(index)]
                    height, width = sample["mask"].shape
                    left, top, wide, high = (int(side) for side in views.crop[row])
                    assert [left, top, wide, high] == views.crop[row].tolist(), "whole pixels"
                    boxes = tv_tensors.BoundingBoxes(torch.from_numpy(sample["boxes"]), format="XYXY", canvas_size=(height, width))
                    x, y = 0.5 * (boxes[:, 0] + boxes[:, 2]), 0.5 * (boxes[:, 1] + boxes[:, 3])
                    inside = (left < x) & (x < left + wide) & (top < y) & (y < top + high)
                    is_whole = (wide, high) == (width, height)
                    assert inside.any()
                    crop = torch.tensor([[left, top, left + wide, top + high]], dtype=torch.float32)
                    found.append((is_whole, float(box_iou(boxes.as_subclass(torch.Tensor)[inside], crop).max())))
                    # The transform gets the same crop, and so leaves the same boxes.
                    transform = v2.RandomIoUCrop()
                    params = {"top": top, "left": left, "height": high, "width": wide, "is_within_crop_area": inside}
                    picture = tv_tensors.Image(torch.from_numpy(np.array(sample["image"])).permute(2, 0, 1))
                    cropped = [transform.transform(value, params) for value in (picture, boxes)]
                    picture, boxes = (v2.functional.resize(value, [90, 110], antialias=True) for value in cropped)
                    if views.flipped[row]:
                        boxes = v2.functional.horizontal_flip(boxes)
                        picture = v2.functional.horizontal_flip(picture)
                    # As SanitizeBoundingBoxes does, drop the boxes that the crop has marked.
                    boxes = boxes.as_subclass(torch.Tensor)[inside].numpy()
                    assert np.abs(batch["boxes"][row] - boxes).max(initial=0) < 2e-3 and len(batch["boxes"][row]) == len(boxes)
                    assert np.array_equal(batch["classes"][row], sample["classes"][inside.numpy()])
                    if epoch < 3:
                        apart = np.abs(batch["image"][row].astype(int) - picture.permute(1, 2, 0).numpy())
                        assert apart.max() <= 1, (index, apart.max())
            assert check_objects(batch, 4) > 0
    # Compare the distribution with torchvision's own draws, for the same pictures.
    torch.manual_seed(1)
    theirs: list[tuple[bool, float]] = []
    for _ in range(30):
        for index in range(len(scenes)):
            sample = scenes[index]
            height, width = sample["mask"].shape
            boxes = tv_tensors.BoundingBoxes(torch.from_numpy(sample["boxes"]), format="XYXY", canvas_size=(height, width))
            params = v2.RandomIoUCrop().make_params([tv_tensors.Image(torch.zeros(3, height, width)), boxes])
            inside = params.get("is_within_crop_area", torch.ones(len(boxes), dtype=torch.bool))
            left, top = params.get("left", 0), params.get("top", 0)
            sides = params.get("width", width), params.get("height", height)
            crop = torch.tensor([[left, top, left + sides[0], top + sides[1]]], dtype=torch.float32)
            theirs.append((not params, float(box_iou(boxes.as_subclass(torch.Tensor)[inside], crop).max())))
    assert len(found) == len(theirs) == 600
    for least in (0.0, 0.05, 0.1, 0.15, 0.2):
        share, other = (np.mean([not is_whole and iou >= least for is_whole, iou in all_of]) for all_of in (found, theirs))
        assert abs(share - other) < 0.1, (least, share, other)


def test_zoomed_out_pictures_follow_their_boxes(scenes: sp.Dataset) -> None:
    bordered, cropped, whole, count, total = 0, 0, 0, 0, 0
    with sp.Loader(scenes, 5, align=ALIGN, fields=FIELDS, image="ioucrop96,zoom=1..4,fill=7", seed=3) as loader:
        for epoch in range(6):
            loader.set_epoch(epoch)
            for batch in loader:
                views = batch.views()
                border = batch["mask"] == 255
                assert (batch["image"][border] == 7).all()
                bordered += int(border.any(axis=(1, 2)).sum())
                total += len(batch)
                for row in range(len(batch)):
                    height, width = views.source[row]
                    _, _, wide, high = views.crop[row]
                    whole += int(wide >= width and high >= height)
                    cropped += int(wide < width)
                    for box, mask in zip(batch["boxes"][row], batch["masks"][row], strict=True):
                        if mask.any():
                            assert np.abs(np.array(tight(mask)) - box).max() <= max(1.2, 0.8 * 96 / min(wide, high))
                            count += 1
    assert total == 120 and 25 < bordered < 75 and cropped > 30 and whole > 10 and count > 100, (bordered, cropped, whole, count)


def test_crops_need_boxes(scenes: sp.Dataset, photos: Path, tmp_path: Path) -> None:
    message = "picture `image` is cropped around its boxes, but no field with boxes is aligned with it\nhint: align the boxes"
    with pytest.raises(sp.UsageError, match=message):
        sp.Loader(scenes, 5, image="ioucrop64", fields=["image"])
    with pytest.raises(sp.UsageError, match=message):
        sp.Loader(sp.Dataset(photos), 5, image="ioucrop64")
    with pytest.raises(sp.UsageError, match="crops: a view that depends on boxes needs aligned boxes"):
        sp.Loader(scenes, 5, crops=[sp.view.crop("ioucrop64")], fields=["image"])
    both = {"boxes": sp.align.boxes(), "classes": sp.align.boxes()}
    with pytest.raises(sp.UsageError, match="several fields with boxes are aligned with it: boxes, classes"):
        sp.Loader(scenes, 5, image="ioucrop64", fields=["image", "boxes", "classes"], align=both)
    # Values that are no boxes are an error of the sample.
    for align, said in (
        ({"boxes": sp.align.boxes(relative=True)}, "field `boxes` .relative xyxy boxes.: relative boxes must be fractions"),
        ({"classes": sp.align.boxes()}, "field `classes` .xyxy boxes in pixels.: the shape must be .boxes, 4., but is .2."),
    ):
        with (
            sp.Loader(scenes, 5, image="ioucrop64", fields=["image", *align], align=align) as loader,
            pytest.raises(sp.UsageError, match=said),
        ):
            next(iter(loader))
    # An unaligned mask would not match the resized picture.
    with pytest.raises(sp.UsageError, match="picture `image` is cut, scaled or mirrored, but `mask` is not"):
        sp.Loader(scenes, 5, image="short40,flip=0", fields=["image", "mask"], align={"mask": None})
    # A sample without boxes shows the whole picture.
    file = io.BytesIO()
    Image.fromarray(np.full((40, 60, 3), 9, np.uint8)).save(file, "PNG")
    with sp.Writer(tmp_path / "none", {"image": "image", "boxes": "array"}) as writer:
        writer.write({"image": file.getvalue(), "boxes": np.zeros((0, 4), np.float32)}, key="empty")
    empty = sp.Dataset(tmp_path / "none")
    with sp.Loader(empty, 1, image="ioucrop32,zoom=2..2,flip=0", fields=["image", "boxes"], align={"boxes": sp.align.boxes()}) as loader:
        shown = set()
        for epoch in range(10):
            loader.set_epoch(epoch)
            batch = next(iter(loader))
            assert batch["boxes"][0].shape == (0, 4)
            shown.add(int((batch["image"][0] == 9).all(-1).sum()))
    assert shown == {32 * 32, 16 * 16}


@pytest.mark.parametrize("image", ["pad96", "jitter80x96", "rrc72x88,flip=0.5"])
@pytest.mark.parametrize("augment", ["mosaic", "mosaic(degrees=20,scale=0.6..1.2)", "cutmix", "mosaic or cutmix"])
def test_everything_follows_a_mix(scenes: sp.Dataset, image: str, augment: str) -> None:
    count = 0
    turned = "degrees" in augment
    texts = augment.split(" or ")
    with sp.Loader(scenes, 5, image=image, align=ALIGN, fields=FIELDS, augment_batch=texts, seed=2) as loader:
        for batch in loader:
            # The upright box of a rotated object is larger than the object.
            if turned:
                for boxes, masks in zip(batch["boxes"], batch["masks"], strict=True):
                    for box, mask in zip(boxes, masks, strict=True):
                        if mask.any():
                            seen = tight(mask)
                            near = np.array([box[0] - seen[0], box[1] - seen[1], seen[2] - box[2], seen[3] - box[3]])
                            assert near.max() <= 1.2, (seen, box)
                            count += 1
            elif "cutmix" not in augment:
                count += check_objects(batch, 1.2, has_whole_polygons=True)
            else:
                for boxes, classes, masks in zip(batch["boxes"], batch["classes"], batch["masks"], strict=True):
                    assert len(boxes) == len(classes) == len(masks)
                    for box, mask in zip(boxes, masks, strict=True):
                        if mask.any() and min(box[2] - box[0], box[3] - box[1]) > 2:
                            assert np.abs(np.array(tight(mask)) - box).max() <= 1.2
                            count += 1
            assert all(weights.tolist() == [1] * len(boxes) for weights, boxes in zip(batch.weights("boxes"), batch["boxes"], strict=True))
            assert [text.split()[0] for text in batch["caption"]] == ["scene"] * 5
    assert count > 20


def test_mosaics_leave_out_the_borders_of_letterboxes(scenes: sp.Dataset) -> None:
    options: dict[str, Any] = {"image": "pad96", "fields": ["image", "mask"], "align": {"mask": sp.align.mask()}, "seed": 1}
    mosaic = sp.augment.mosaic(scale=(1, 1), translate=0, fill=9)
    grey = 0
    with sp.Loader(scenes, 5, augment_batch=mosaic, **options) as loader, sp.Loader(scenes, 5, **options) as plain:
        for batch, still in zip(loader, plain, strict=True):
            assert (still["image"] == 114).all(-1).any(), "letterboxes have borders"
            assert not (batch["image"] == 114).all(-1).any()
            assert ((batch["image"] == 9).all(-1) == (batch["mask"] == 255)).all()
            grey += int((batch["mask"] == 255).sum())
    assert grey > 0


def test_mixup_gives_weights(scenes: sp.Dataset) -> None:
    align = {"boxes": sp.align.boxes(), "classes": sp.align.rows_of("boxes")}
    fields = ["image", "boxes", "classes"]
    options: dict[str, Any] = {"image": "resize64", "align": align, "fields": fields, "seed": 1}
    with sp.Loader(scenes, 5, augment_batch=sp.augment.mixup(4), **options) as loader, sp.Loader(scenes, 5, **options) as plain:
        for batch, still in zip(loader, plain, strict=True):
            for row, weights in enumerate(batch.weights("boxes")):
                both = np.concatenate([still["boxes"][row], still["boxes"][row - 1]])
                assert np.array_equal(batch["boxes"][row], both) and weights is not None
                assert weights[0] == weights[1] and abs(weights[0] + weights[2] - 1) < 1e-6 and weights.dtype == np.float32
            with pytest.raises(KeyError, match="image"):
                batch.weights("image")
    with pytest.raises(AttributeError, match="batch.weights is not available: another library"):
        sp.Batch({"image": np.zeros(3)}).weights("image")


def test_what_cannot_be_mixed_is_refused(scenes: sp.Dataset, photos: Path) -> None:
    options: dict[str, Any] = {"image": "resize64", "align": {"mask": sp.align.mask()}, "fields": ["image", "mask"]}
    with pytest.raises(sp.UsageError, match="mixup cannot blend the classes of the mask `mask`\nhint: use cutmix"):
        sp.Loader(scenes, 5, augment_batch=["mixup", "cutmix"], **options)
    with pytest.raises(sp.UsageError, match="a mosaic shows four pictures, which have no common `label`"):
        sp.Loader(sp.Dataset(photos), 5, image="rrc32", fields=["image", "label"], augment_batch=["mosaic", "mixup"])
    # With mosaics alone, the label stays a number.
    with sp.Loader(sp.Dataset(photos), 5, image="rrc32", fields=["image", "label"], augment_batch="mosaic") as loader:
        assert next(iter(loader))["label"].dtype == np.int64


def test_a_resumed_loader_makes_the_same_mosaics(scenes: sp.Dataset) -> None:
    options: dict[str, Any] = {"align": ALIGN, "fields": FIELDS} | sp.presets.yolo(64)
    with sp.Loader(scenes, 4, **options) as first, sp.Loader(scenes, 4, threads=1, **options) as second:
        batches = iter(first)
        next(batches), next(batches)
        second.load_state_dict(first.state_dict())
        rest = list(zip(batches, second, strict=True))
        assert len(rest) == 3
        for a, b in rest:
            assert np.array_equal(a["image"], b["image"]) and np.array_equal(a["mask"], b["mask"])
            assert all(np.array_equal(x, y) for x, y in zip(a["boxes"], b["boxes"], strict=True))


def test_presets_are_options(scenes: sp.Dataset) -> None:
    presets = sp.presets
    assert presets.detection() == {"image": "full,flip=0.5"}
    assert presets.lsj(1024, fill=(123, 117, 104)) == {"image": "jitter1024,fill=123:117:104"}
    assert presets.segmentation() == {"image": "randcrop480,short=260..1040"}
    assert presets.multiscale() == {"image": "short480..800,step=32,max=1333"}
    ssd = {"image": "ioucrop300,zoom=1.0..4.0,fill=123:117:104"}
    assert presets.ssd() == ssd | {"augment": ["color_jitter(brightness=0.125,contrast=0.5,saturation=0.5,hue=0.05)"]}
    assert presets.ssdlite(320, hflip=0) == {"image": "ioucrop320,flip=0.0"}
    assert presets.yolo(hsv=(0, 0, 0.4), mosaic=0.5)["augment_batch"] == ["mosaic(p=0.5)"]
    assert presets.yolo(scale=0.9, degrees=5)["augment_batch"][0].startswith("mosaic(scale=0.0")
    all_presets = (
        presets.detection(), presets.lsj(64), presets.segmentation(48, 52), presets.yolo(64), presets.yolo(64, mosaic=0),
        presets.multiscale(range(40, 90, 8)), presets.ssd(60), presets.ssdlite(64),
    )  # fmt: skip
    for preset in all_presets:
        with sp.Loader(scenes, 5, align=ALIGN, fields=FIELDS, **preset) as loader:
            batches = list(loader)
            assert len(batches) == 4 and loader.stats()["refused"] == {}
