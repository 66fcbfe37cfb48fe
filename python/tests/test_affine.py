"""Tests affine maps of cubes and their masks against NumPy and torch's ``grid_sample``."""

from __future__ import annotations

from math import cos, radians, sin, tan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardpack as sp
from numpy.typing import NDArray

ANGLE, SCALE, SHEAR = 25.0, 1.2, 7.0
MOVED = sp.augment.random_affine((ANGLE, ANGLE), scale=(SCALE, SCALE), shear=(SHEAR, SHEAR), fill=0.5, mask_fill=99)
SCALING: dict[str, Any] = {"mean": {"cube": 2.5}, "std": {"cube": 4.0}}


def places(height: int, width: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the source column and row of each pixel by torchvision's definition, from the upper left corner."""
    turn, shear = radians(ANGLE), radians(SHEAR)
    a, b, c, d = cos(turn), -cos(turn) * tan(shear) - sin(turn), sin(turn), -sin(turn) * tan(shear) + cos(turn)
    y, x = np.meshgrid(np.arange(height) + 0.5 - height / 2, np.arange(width) + 0.5 - width / 2, indexing="ij")
    return (d * x - b * y) / SCALE + width / 2, (-c * x + a * y) / SCALE + height / 2


def bilinear(values: NDArray[np.float32], fill: float) -> NDArray[np.float64]:
    """Returns bilinear means of four pixels of ``[height, width, bands]``, in float64."""
    height, width, _ = values.shape
    x, y = places(height, width)
    around = np.full((height + 4, width + 4, values.shape[2]), fill)
    around[2:-2, 2:-2] = values
    x, y = np.clip(x - 0.5, -1.5, width + 0.5), np.clip(y - 0.5, -1.5, height + 0.5)
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    right_weight, bottom_weight = (x - left)[..., None], (y - top)[..., None]
    upper = around[top + 2, left + 2] * (1 - right_weight) + around[top + 2, left + 3] * right_weight
    lower = around[top + 3, left + 2] * (1 - right_weight) + around[top + 3, left + 3] * right_weight
    return upper * (1 - bottom_weight) + lower * bottom_weight


def nearest(values: NDArray[Any], fill: int) -> NDArray[Any]:
    x, y = places(*values.shape[:2])
    inside = (x >= 0) & (x < values.shape[1]) & (y >= 0) & (y < values.shape[0])
    moved = np.full_like(values, fill)
    moved[inside] = values[y[inside].astype(int), x[inside].astype(int)]
    return moved


def bound(values: NDArray[np.float32]) -> float:
    """Returns the error bound of a bilinear mean in float32, 8 · 2⁻²⁴ times the largest value."""
    return float(2**-21 * max(np.abs(values).max(), 0.5))


def rows(cubes: Path, **options: Any) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    options = {"fields": ["cube", "mask"], "shuffle": False, "end": "uneven", "batch_size": 5} | options
    with sp.Loader(sp.Dataset(cubes), **options) as loader:
        return [(cube.copy(), mask.copy()) for batch in loader for cube, mask in zip(batch["cube"], batch["mask"], strict=True)]


@pytest.mark.parametrize("layout", ["hwc", "chw"])
@pytest.mark.parametrize("cube", ["whole", "patch12x9"])
def test_cubes_are_means_of_four_pixels_and_masks_the_nearest(cubes: Path, cube: str, layout: str) -> None:
    plain, moved = (rows(cubes, cube=cube, layout=layout, **SCALING, augment=augment) for augment in (None, MOVED))
    assert len(plain) == len(moved) > 0
    for (values, mask), (found, found_mask) in zip(plain, moved, strict=True):
        if layout == "chw":
            values, found = values.transpose(1, 2, 0), found.transpose(1, 2, 0)
        assert found.dtype == np.float32
        assert np.abs(found - bilinear(values, 0.5)).max() <= bound(values)
        assert np.array_equal(found_mask, nearest(mask, 99)) and 99 in found_mask


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_cubes_are_those_of_grid_sample(cubes: Path, precision: str) -> None:
    torch = pytest.importorskip("torch")
    moved = sp.augment.random_affine((ANGLE, ANGLE), scale=(SCALE, SCALE), shear=(SHEAR, SHEAR))
    dtype = getattr(torch, precision)
    for (values, _), (found, _) in zip(rows(cubes, **SCALING), rows(cubes, **SCALING, augment=moved), strict=True):
        height, width, _ = values.shape
        x, y = places(height, width)
        grid = torch.from_numpy(np.stack([2 * x / width - 1, 2 * y / height - 1], axis=-1))[None].to(dtype)
        picture = torch.from_numpy(values.transpose(2, 0, 1))[None].to(dtype)
        expected = torch.nn.functional.grid_sample(picture, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
        # A float32 grid rounds positions to about 2⁻²³ of the side.
        most = bound(values) if precision == "float64" else bound(values) * max(height, width)
        assert np.abs(found - expected[0].numpy().transpose(1, 2, 0)).max() <= most


def test_flips_come_after_the_map_and_noise_after_both(cubes: Path) -> None:
    moved = rows(cubes, **SCALING, augment=MOVED)
    flipped = rows(cubes, **SCALING, augment=["hflip", MOVED])
    count = 0
    for (values, mask), (found, found_mask) in zip(moved, flipped, strict=True):
        is_flipped = np.array_equal(found, values[:, ::-1]) and np.array_equal(found_mask, mask[:, ::-1])
        assert is_flipped or (np.array_equal(found, values) and np.array_equal(found_mask, mask))
        count += is_flipped
    assert 0 < count < len(moved)
    noisy = rows(cubes, **SCALING, augment=[MOVED, sp.augment.gaussian_noise(0.001)])
    for (values, mask), (found, found_mask) in zip(moved, noisy, strict=True):
        assert np.array_equal(mask, found_mask)
        assert 0.0005 < (found - values).std() < 0.0015


def test_a_random_map_is_drawn_by_key(cubes: Path) -> None:
    augment = sp.augment.random_affine(30, translate=(0.2, 0.1), scale=(0.8, 1.3), p=0.8)
    options: dict[str, Any] = {"augment": augment, "dtype": {"cube": "float16"}, "seed": 4} | SCALING
    first, again, later = rows(cubes, **options), rows(cubes, **options, threads=1), rows(cubes, **options, epoch=1)
    assert all(np.array_equal(a, b) for one, other in zip(first, again, strict=True) for a, b in zip(one, other, strict=True))
    assert any(not np.array_equal(one[0], other[0]) for one, other in zip(first, later, strict=True))
    assert first[0][0].dtype == np.float16
    # With `p=0.8`, about a fifth of the samples must stay unchanged.
    plain = rows(cubes, **(options | {"augment": None}))
    stays = sum(np.array_equal(one[0], other[0]) for one, other in zip(plain, first, strict=True))
    assert 0 < stays < len(plain) / 2


def test_quarter_turns_change_no_value(cubes: Path) -> None:
    for quarters in range(4):
        turn = sp.augment.random_rotation((90 * quarters, 90 * quarters))
        pairs = zip(rows(cubes, cube="center12x12"), rows(cubes, cube="center12x12", augment=turn), strict=True)
        for (values, mask), (found, found_mask) in pairs:
            assert np.array_equal(found, np.rot90(values, quarters))
            assert np.array_equal(found_mask, np.rot90(mask, quarters))


def test_what_cannot_be_moved_is_refused(cubes: Path, photos: Path) -> None:
    assert sp.augment.random_rotation(5, mask_fill=0) == "random_rotation(degrees=5.0,mask_fill=0.0)"
    assert sp.augment.random_affine(5, fill=-1.5) == "random_affine(degrees=5.0,fill=-1.5)"
    for options, said in [
        ({"augment": [MOVED, MOVED]}, "to move the pixels of arrays, pass a single `random_affine`"),
        ({"augment": sp.augment.random_rotation(5, mask_fill=256)}, "field `mask`: uint8 cannot represent `mask_fill` 256"),
        ({"augment": MOVED, "dtype": {"cube": "float64"}}, "is float64, but must be float16, bfloat16 or float32 for interpolation"),
        ({"augment": MOVED, "fields": ["height"]}, "a decoded picture, or an array with two or three axes, but none is loaded"),
    ]:
        with pytest.raises(sp.UsageError, match=said):
            rows(cubes, **options)
    with pytest.raises(sp.UsageError, match="`fill` and `mask_fill` apply only to arrays"):
        sp.Loader(sp.Dataset(photos), image="rrc32", fields=["image"], augment=MOVED)
