"""Tests the functions that describe views of pictures, and the views that a batch reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardpack as sp
from conftest import pack
from PIL import Image


@pytest.fixture(scope="module")
def ramps(tmp_path_factory: pytest.TempPathFactory) -> sp.Dataset:
    """Packs pictures whose colours are their coordinates: red is x, and green is y. Every third picture is stored
    rotated.
    """
    source = tmp_path_factory.mktemp("ramps")
    for number in range(12):
        height, width = 120 + number * 5, 180 - number * 7
        y, x = np.mgrid[:height, :width].astype(np.uint8)
        picture = Image.fromarray(np.stack([x, y, np.full_like(x, number)], axis=2))
        if number % 3:
            picture.save(source / f"{number:02}.png")
            continue
        exif = Image.Exif()
        exif[0x0112] = 6  # to be turned clockwise
        picture.transpose(Image.Transpose.ROTATE_90).save(source / f"{number:02}.jpg", quality=100, subsampling=0, exif=exif)
    return sp.Dataset(pack(source, tmp_path_factory.mktemp("packed") / "ramps"))


def test_views_are_texts() -> None:
    view = sp.view
    assert view.random_resized_crop(224) == "rrc224"
    assert view.random_resized_crop((96, 128), scale=(0.25, 1), ratio=(1, 1), hflip=0) == "rrc96x128,scale=0.25..1.0,ratio=1.0..1.0,flip=0.0"
    assert view.random_resized_crop(np.int64(8), hflip=np.float32(0.25)) == "rrc8,flip=0.25"
    assert view.center_crop(224) == "center224"
    assert view.center_crop([224, 160], short_side=256, hflip=1) == "center224x160,short=256,flip=1.0"
    assert view.resize((32, 32)) == "resize32"
    assert view.whole(hflip=0.5) == "full,flip=0.5"
    assert view.pad(640) == view.pad(640, (114, 114, 114)) == view.pad((640, 640), 114) == "pad640"
    assert view.pad((480, 640), fill=np.uint8(0), hflip=0.5) == "pad480x640,fill=0:0:0,flip=0.5"
    assert view.pad(8, fill=[1, 20, 255]) == "pad8,fill=1:20:255"
    assert view.random_resized_crop(8, interpolation="bicubic") == "rrc8,interpolation=bicubic"
    assert view.center_crop(8, 9, interpolation="nearest") == "center8,short=9,interpolation=nearest"
    assert view.resize(8, 1, "bilinear") == "resize8,flip=1.0"
    assert view.pad(8, 0, interpolation="bicubic") == "pad8,fill=0:0:0,interpolation=bicubic"


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: sp.view.resize(1.5), TypeError, "size: expected a whole number of pixels, found 1.5"),
        (lambda: sp.view.resize("224"), TypeError, "size: expected a whole number"),
        (lambda: sp.view.resize((1, 2, 3)), ValueError, "size: expected one number, or two for height and width, found 3"),
        (lambda: sp.view.random_resized_crop(8, scale=0.5), ValueError, "scale: expected a lower and an upper bound"),
        (lambda: sp.view.random_resized_crop(8, ratio=("a", "b")), TypeError, "ratio: expected a number, found 'a'"),
        (lambda: sp.view.random_resized_crop(8, hflip="yes"), TypeError, "hflip: expected a number, found 'yes'"),
        (lambda: sp.view.resize(8, interpolation="lanczos"), ValueError, "interpolation: expected 'nearest'"),  # type: ignore[arg-type]
        (lambda: sp.view.pad(8, fill=(1, 2)), ValueError, "fill: expected one number, or three for red, green and blue"),
        (lambda: sp.view.pad(8, fill="red"), ValueError, "fill: expected one number, or three for red, green and blue"),
        (lambda: sp.view.pad(8, fill=0.5), TypeError, "fill: expected a whole number, found 0.5"),
        (lambda: sp.view.center_crop(8, short_side=8.5), TypeError, "short_side: expected a whole number"),
    ],
)
def test_what_is_no_view_is_refused(make: Callable[[], str], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        make()


def test_the_loader_says_which_numbers_are_allowed(ramps: sp.Dataset) -> None:
    for text, said in [
        (sp.view.random_resized_crop(8, scale=(0.9, 0.1)), "scale of a random crop"),
        (sp.view.random_resized_crop(8, hflip=2), "probability of a flip"),
        (sp.view.center_crop(64, short_side=32), "centre crop"),
        (sp.view.resize(0), "such as rrc224"),
        (sp.view.pad(8, fill=256), "fill=RED:GREEN:BLUE"),
        ("rrc8,interpolation=lanczos", "expected `interpolation` to be nearest, bilinear or bicubic"),
        ("full,interpolation=bicubic", "the option `interpolation=bicubic` is repeated or does not apply to this view"),
    ]:
        with pytest.raises(sp.UsageError, match=said):
            sp.Loader(ramps, 4, image=text)


VIEWS = {
    "crop": sp.view.random_resized_crop((40, 56), scale=(0.2, 0.6)),
    "narrow": sp.view.random_resized_crop(32, ratio=(0.4, 0.5), hflip=0),
    "centre": sp.view.center_crop((24, 40), short_side=48, hflip=0.5),
    "resize": sp.view.resize((50, 30), hflip=1),
    "nearest": sp.view.resize((90, 70), interpolation="nearest"),
    "bicubic": sp.view.random_resized_crop(64, scale=(0.5, 1), interpolation="bicubic"),
    "whole": sp.view.whole(hflip=0.5),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_say_which_part_each_row_shows(ramps: sp.Dataset, name: str) -> None:
    flipped = 0
    for epoch in range(2):
        for batch in sp.Loader(ramps, 5, image=VIEWS[name], seed=3, epoch=epoch, end="pad"):
            views = batch.views()
            for row, key in enumerate(batch.sample_keys):
                if not key:
                    assert views.source[row].tolist() == views.size[row].tolist() == [0, 0] and not views.flipped[row]
                    continue
                number = int(key[:2])
                assert views.source[row].tolist() == [120 + number * 5, 180 - number * 7]
                pixels = np.asarray(batch["image"][row], np.float64)
                assert views.size[row].tolist() == list(pixels.shape[:2])
                left, top, width, height = views.crop[row]
                assert left >= 0 and top >= 0 and left + width <= 180 - number * 7 and top + height <= 120 + number * 5
                # The colour of each pixel of the row encodes the position of its centre.
                y, x = np.mgrid[3 : pixels.shape[0] - 3, 3 : pixels.shape[1] - 3] + 0.5
                there = views.to_source(row, np.stack([x, y], axis=-1))
                found = pixels[3:-3, 3:-3, :2] + 0.5
                assert np.abs(there - found).max() < 4, key
                assert np.abs(there - found).mean() < 0.7, key
                np.testing.assert_allclose(views.from_source(row, there)[..., 0], x, atol=1e-9)
                np.testing.assert_allclose(views.from_source(row, there)[..., 1], y, atol=1e-9)
                flipped += int(views.flipped[row])
    expected: dict[str, Any] = {"crop": range(1, 24), "narrow": [0], "centre": range(1, 24), "resize": [24], "nearest": [0], "bicubic": range(1, 24), "whole": range(1, 24)}
    assert flipped in expected[name]


@pytest.mark.parametrize("size", [64, (50, 200), (201, 51)])
def test_what_is_predicted_in_a_padded_picture_is_put_back(ramps: sp.Dataset, size: Any) -> None:
    mirrored = 0
    for batch in sp.Loader(ramps, 5, image=sp.view.pad(size, fill=(0, 0, 255), hflip=0.5), seed=3, end="uneven"):
        views = batch.views()
        for row in range(len(batch)):
            pixels = np.asarray(batch["image"][row], np.float64)
            height, width = views.source[row]
            rows, columns = pixels.shape[:2]
            left, top, covered, high = views.crop[row]
            assert left <= 0 and top <= 0 and left + covered >= width - 1e-9 and top + high >= height - 1e-9
            # The borders are blue, so pixels with little blue belong to the picture.
            inside = np.argwhere(pixels[..., 2] < 128)
            (y0, x0), (y1, x1) = inside.min(0), inside.max(0) + 1
            assert y1 - y0 == rows or x1 - x0 == columns
            corners = views.to_source(row, [[x0, y0], [x1, y1]])
            corners = corners if not views.flipped[row] else np.stack([[corners[1, 0], corners[0, 1]], [corners[0, 0], corners[1, 1]]])
            np.testing.assert_allclose(corners, [[0, 0], [width, height]], atol=1e-9)
            boxes = np.random.default_rng(row).uniform([0, 0], [width, height], (9, 2, 2))
            there = views.from_source(row, boxes)
            np.testing.assert_allclose(views.to_source(row, there), boxes, atol=1e-9)
            # Red is x and green is y in the whole picture, wherever the picture is in the row.
            y, x = np.mgrid[y0 + 2 : y1 - 2, x0 + 2 : x1 - 2]
            back = views.to_source(row, np.stack([x, y], axis=-1) + 0.5)
            assert np.abs(back - pixels[y, x, :2] - 0.5).max() < 4
            mirrored += int(views.flipped[row])
    assert 0 < mirrored < 12


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(40, 56), (300, 301), (120, 17)])
def test_interpolation_is_torchvisions_and_pillows(interpolation: Any, size: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    noise = Image.fromarray(random.integers(0, 256, (83, 111, 3), dtype=np.uint8))
    (tmp_path / "source").mkdir()
    noise.save(tmp_path / "source" / "noise.png")
    dataset = sp.Dataset(pack(tmp_path / "source", tmp_path / "packed"))
    (batch,) = sp.Loader(dataset, 1, image=sp.view.resize(size, interpolation=interpolation), end="uneven")
    found = np.asarray(batch["image"][0], int)
    apart = np.abs(found - np.asarray(noise.resize(size[::-1], Image.Resampling[interpolation.upper()]), int))
    assert apart.max() <= {"nearest": 0, "bilinear": 1, "bicubic": 2}[interpolation]
    assert (apart > 1).mean() < 1e-5, "torchvision and Pillow are not nearer to each other"
    torch, vision = pytest.importorskip("torch"), pytest.importorskip("torchvision.transforms.v2")
    mode = vision.InterpolationMode["NEAREST_EXACT" if interpolation == "nearest" else interpolation.upper()]
    picture = torch.from_numpy(np.asarray(noise).transpose(2, 0, 1).copy())
    expected = vision.functional.resize(picture, list(size), interpolation=mode, antialias=True).permute(1, 2, 0).numpy()
    assert np.abs(found - expected.astype(int)).max() <= (0 if interpolation == "nearest" else 1)


def test_views_of_what_is_no_picture(ramps: sp.Dataset, cubes: Path) -> None:
    batch = next(iter(sp.Loader(ramps, 4, image="raw")))
    with pytest.raises(sp.UsageError, match="field `image` has no views: only fields with decoded pictures have views"):
        batch.views()
    with pytest.raises(KeyError, match="nothing"):
        batch.views("nothing")
    with pytest.raises(ValueError, match="needs a picture field, but this batch has none"):
        next(iter(sp.Loader(sp.Dataset(cubes), 4))).views()
    with pytest.raises(RuntimeError, match="not on a copy of it"):
        sp.Batch({"image": np.zeros(3)}).views("image")
    views = next(iter(sp.Loader(ramps, 4, image="rrc8"))).views("image")
    with pytest.raises(ValueError, match=r"points: expected shape \[…, 2\], with x and y on the last axis, found shape"):
        views.to_source(0, [1.0, 2.0, 3.0])


def test_views_of_a_subset_and_of_several_epochs(ramps: sp.Dataset) -> None:
    part = ramps.subset(np.arange(len(ramps)) % 2 == 0)
    with sp.Loader(part, 3, image="rrc16", shuffle=False) as loader:
        first = [batch.views().crop.tolist() for batch in loader]
        second = [batch.views().crop.tolist() for batch in loader]
    assert len(first) == 2 and first != second, "drawn anew"
