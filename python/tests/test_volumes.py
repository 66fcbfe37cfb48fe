"""Tests boxes of volumes that are moved across planes or lowered in resolution, against SciPy and NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardpack as sp
from numpy.typing import NDArray

ndimage = pytest.importorskip("scipy.ndimage")

SIDES, BOX = (18, 30, 26), (8, 12, 12)
ANGLES = (25.0, -20.0, 35.0)
FIELDS = ["volume", "mask"]


@pytest.fixture(scope="module", params=[(), (2,)], ids=["no channels", "two channels"])
def volumes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out, rng = tmp_path_factory.mktemp("volumes") / "packed", np.random.default_rng(4)
    with sp.Writer(out, values="keep") as writer:
        for number in range(6):
            volume = rng.normal(0, 100, (*SIDES, *request.param)).astype(np.int16)
            writer.write({"volume": volume, "mask": rng.integers(0, 5, SIDES).astype(np.uint8)}, key=f"v{number}")
    return out


def rows(path: Path, **options: Any) -> list[tuple[NDArray[Any], NDArray[Any], NDArray[Any], int]]:
    options = {"fields": FIELDS, "shuffle": False, "cube": "patch8x12x12", "patches_per_sample": 3} | options
    with sp.Loader(sp.Dataset(path), 6, **options) as loader:
        return [
            (batch["volume"][row].copy(), batch["mask"][row].copy(), batch.origins[row].copy(), int(batch.indices[row]))
            for batch in loader for row in range(len(batch))
        ]


def matrix(scale: float) -> NDArray[np.float64]:
    """Returns the matrix that maps an offset in the output to an offset in the volume. Both are measured from the
    centre of the box, as (depth, height, width).
    """
    inverse = np.eye(3)
    # Undo the last rotation, about the axis of depth, first.
    for (first, second), angle in zip([(1, 2), (0, 2), (0, 1)], ANGLES, strict=True):
        turn, angle = np.eye(3), np.radians(angle)
        turn[second, second], turn[second, first] = np.cos(angle), -np.sin(angle)
        turn[first, second], turn[first, first] = np.sin(angle), np.cos(angle)
        inverse = turn @ inverse
    return inverse / scale


def moved(values: NDArray[Any], origin: NDArray[Any], scale: float, order: int, fill: float) -> NDArray[Any]:
    turn, half = matrix(scale), (np.array(BOX) - 1) / 2
    offset = origin + half - turn @ half
    # Pad with the fill, so that SciPy mixes edge voxels with it as the loader does.
    around = np.pad(values, 1, constant_values=fill)
    return ndimage.affine_transform(around, turn, offset + 1, BOX, order=order, mode="constant", cval=fill)


@pytest.mark.parametrize("scale", [1.0, 1.3, 0.75])
def test_boxes_are_those_of_scipy(volumes: Path, scale: float) -> None:
    angles = [(angle, angle) for angle in ANGLES]
    augment = sp.augment.random_affine_3d(angles, (scale, scale), fill=0.5, mask_fill=99)
    scaling: dict[str, Any] = {"mean": {"volume": 3}, "std": {"volume": 90}}
    with sp.Loader(sp.Dataset(volumes), 1, shuffle=False, fields=FIELDS, dtype="float32") as loader:
        whole = [(batch["volume"][0].copy(), batch["mask"][0].copy()) for batch in loader]
    found = rows(volumes, augment=augment, **scaling)
    plain = rows(volumes, **scaling)
    assert len(found) == 18
    outside = same = 0
    for (box, mask, origin, index), (still, _, there, _) in zip(found, plain, strict=True):
        assert np.array_equal(origin, there) and box.shape == still.shape and box.dtype == np.float32
        values = ((whole[index][0].astype(np.float64) - 3) / 90).reshape(*SIDES, -1)
        for channel, moved_box in enumerate(np.moveaxis(box.reshape(*BOX, -1), -1, 0)):
            expected = moved(values[..., channel], origin, scale, 1, 0.5)
            # Allow for the loader's rounding, because it computes weights, products and sums in float32.
            assert np.abs(moved_box - expected).max() <= 2**-20 * np.abs(values).max()
        classes = moved(whole[index][1], origin, scale, 0, 99)
        same += int((mask == classes).sum())
        outside += int((mask == 99).sum())
    # SciPy may choose a different voxel only for positions halfway between two voxels.
    assert same >= 0.999 * 18 * np.prod(BOX) and outside > 100


def test_a_low_resolution_is_that_of_pytorch(volumes: Path) -> None:
    plain = rows(volumes, dtype="float32")
    lowered = rows(volumes, dtype="float32", augment=sp.augment.random_low_resolution(0.5))

    def axis(side: int) -> NDArray[np.float64]:
        """Returns the weights of values along an axis, by the definitions of ``nearest-exact`` and ``trilinear``."""
        low, weights = round(side * 0.5), np.zeros((side, side))
        taken = [int((n + 0.5) * side / low) for n in range(low)]
        for at in range(side):
            place = max((at + 0.5) * low / side - 0.5, 0)
            first = int(place)
            weights[at, taken[first]] += 1 - (place - first)
            weights[at, taken[min(first + 1, low - 1)]] += place - first
        return weights

    for (values, mask, *_), (found, found_mask, *_) in zip(plain, lowered, strict=True):
        expected = np.einsum("ai,bj,ck,ijk...->abc...", *map(axis, BOX), values.astype(np.float64))
        assert np.abs(found - expected).max() <= 2**-20 * np.abs(values).max()
        assert np.array_equal(mask, found_mask)


def test_a_low_resolution_is_that_of_torch_itself(volumes: Path) -> None:
    torch = pytest.importorskip("torch")
    plain = rows(volumes, dtype="float32")
    for (values, *_), (found, *_) in zip(plain, rows(volumes, dtype="float32", augment=sp.augment.random_low_resolution(0.5)), strict=True):
        box = torch.from_numpy(values.reshape(*BOX, -1)).permute(3, 0, 1, 2)[None]
        low = torch.nn.functional.interpolate(box, [round(side * 0.5) for side in BOX], mode="nearest-exact")
        expected = torch.nn.functional.interpolate(low, BOX, mode="trilinear")[0].permute(1, 2, 3, 0).numpy()
        assert np.abs(found.reshape(*BOX, -1) - expected).max() <= 2**-19 * np.abs(values).max()


def test_the_recipe_of_nnunet_is_drawn_by_key(volumes: Path) -> None:
    options: dict[str, Any] = {"mean": {"volume": 0}, "std": {"volume": 100}, "seed": 3, "augment": sp.augment.nnunet()}
    first, again = rows(volumes, **options), rows(volumes, **options, threads=1)
    later, plain = rows(volumes, **options, epoch=1), rows(volumes, **(options | {"augment": None}))
    for one, other in zip(first, again, strict=True):
        assert np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1])
    assert any(not np.array_equal(one[0], other[0]) for one, other in zip(first, later, strict=True))
    assert any(not np.array_equal(one[0], other[0]) for one, other in zip(first, plain, strict=True))
    assert {one[0].dtype for one in first} == {np.dtype(np.float32)} and {one[1].dtype for one in first} == {np.dtype(np.uint8)}
    assert max(one[1].max() for one in first) <= 4, "outside the volume is class 0"
    assert len(sp.augment.nnunet(mirror=False)) == 5


def test_volumes_alone_are_moved_across_planes(volumes: Path, cubes: Path, photos: Path) -> None:
    with pytest.raises(sp.UsageError, match="`random_affine_3d` applies only to volumes, but field `.*` is not one"):
        sp.Loader(sp.Dataset(cubes), 2, augment=sp.augment.random_affine_3d(10))
    with pytest.raises(sp.UsageError, match="`random_low_resolution` applies only to volumes, but field `cube` is not one"):
        sp.Loader(sp.Dataset(cubes), 2, fields=["cube"], dtype="float32", augment=sp.augment.random_low_resolution())
    with pytest.raises(sp.UsageError, match="`random_affine_3d` applies only to volumes"):
        sp.Loader(sp.Dataset(photos), 2, image="rrc32", fields=["image"], augment=sp.augment.random_affine_3d(10))
    with pytest.raises(sp.UsageError, match="`mask_fill`"):
        rows(volumes, augment=sp.augment.random_affine_3d(10, mask_fill=300))
    with pytest.raises(ValueError, match="a range for each axis needs isotropic=False"):
        sp.augment.random_affine_3d(scale=((1, 2), (1, 2), (1, 2)))
    with pytest.raises(ValueError, match="translate: expected one fraction, or three"):
        sp.augment.random_affine_3d(translate=(0.1, 0.1))
    assert sp.augment.random_affine_3d() == "random_affine_3d"
    assert sp.augment.random_affine_3d((10, 20, 30), ((1, 2), 1, 1), (0, 0, 0.5), isotropic=False) == (
        "random_affine_3d(degrees=10.0:20.0:30.0,scale=1.0..2.0:1.0:1.0,translate=0.0:0.0:0.5,isotropic=false)"
    )
