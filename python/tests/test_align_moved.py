"""Tests against torchvision that augmentations move masks, boxes, keypoints and polygons with their picture."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardpack as sp
from numpy.typing import NDArray
from PIL import Image

HEIGHT, WIDTH = 90, 120
# Ranges that contain a single value, so that the draw is known.
KNOWN = [
    {"degrees": (25, 25), "scale": (1.2, 1.2), "shear": (7, 7)},
    {"degrees": (-70, -70), "scale": (0.6, 0.6), "shear": (-10, -10, 12, 12)},
    {"degrees": 0, "scale": (1.6, 1.6)},
]
ALIGN = {
    "mask": sp.align.mask(), "boxes": sp.align.boxes("xyxy"), "classes": sp.align.rows_of("boxes"),
    "points": sp.align.keypoints(), "polygons": sp.align.polygons(),
}  # fmt: skip


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> sp.Dataset:
    """Writes coarse noise with a mask (one class per block), boxes of all sizes, points, and a polygon."""
    rng, out = np.random.default_rng(2), tmp_path_factory.mktemp("moved") / "packed"
    schema = {"image": "image", **dict.fromkeys(["mask", "boxes", "classes", "points", "polygons"], "array")}
    with sp.Writer(out, schema, shuffle=False) as writer:
        for number in range(12):
            mask = rng.integers(0, 200, (HEIGHT // 6, WIDTH // 6)).repeat(6, 0).repeat(6, 1).astype(np.uint8)
            file = io.BytesIO()
            Image.fromarray(np.stack([mask, 255 - mask, mask // 2], -1)).save(file, "PNG")
            low = rng.uniform(0, [WIDTH - 4, HEIGHT - 4], (20, 2))
            high = np.minimum(low + rng.uniform(2, 60, (20, 2)), [WIDTH, HEIGHT])
            points = np.concatenate([rng.uniform(0, [WIDTH, HEIGHT], (30, 2)), np.full((30, 1), 2)], 1)
            writer.write(
                {
                    "image": file.getvalue(), "mask": mask, "boxes": np.concatenate([low, high], 1),
                    "classes": np.arange(20), "points": points, "polygons": points[:9, :2],
                },
                key=f"{number:02}",
            )  # fmt: skip
    return sp.Dataset(out)


def rows(dataset: sp.Dataset, **options: Any) -> list[dict[str, Any]]:
    options = {"image": "full", "align": ALIGN, "shuffle": False, "end": "uneven", "batch_size": 5} | options
    names = ["image", *options["align"]]
    found = []
    with sp.Loader(dataset, fields=names, **options) as loader:
        for batch in loader:
            for row in range(len(batch.indices)):
                found.append({name: np.array(batch[name][row]) for name in names})
    return found


def parameters(known: dict[str, Any]) -> dict[str, Any]:
    shear = known.get("shear", (0, 0))
    return {
        "angle": known["degrees"][0] if known["degrees"] else 0, "translate": [0, 0], "scale": known["scale"][0],
        "shear": [shear[0], shear[2] if len(shear) == 4 else 0],
    }  # fmt: skip


@pytest.mark.parametrize("known", KNOWN, ids=["turned", "small", "large"])
@pytest.mark.parametrize("image", ["full", "center60x80"])
def test_moved_fields_are_those_of_torchvision(scenes: sp.Dataset, image: str, known: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchvision")
    from torchvision import tv_tensors
    from torchvision.transforms.v2 import functional

    given = parameters(known)
    plain = rows(scenes, image=image)
    moved = rows(scenes, image=image, augment=[sp.augment.random_affine(**known, mask_fill=250)])
    apart = gone = 0
    for before, after in zip(plain, moved, strict=True):
        size = before["mask"].shape
        picture = functional.affine(tv_tensors.Image(torch.from_numpy(before["image"]).permute(2, 0, 1)), **given)
        mask = functional.affine(tv_tensors.Mask(torch.from_numpy(before["mask"])), **given, fill=250)
        boxes = tv_tensors.BoundingBoxes(torch.from_numpy(before["boxes"]), format="XYXY", canvas_size=size)
        boxes = functional.affine(boxes, **given)
        # torchvision may round positions on the border between two pixels differently. Wherever our picture differs
        # from torchvision's, our mask must differ too.
        apart += int((mask.numpy() != after["mask"]).sum())
        differs = (picture.permute(1, 2, 0).numpy() != after["image"]).any(-1)
        assert (differs <= (mask.numpy() != after["mask"])).all()
        shown = ((boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])).numpy()
        gone += int((~shown).sum())
        np.testing.assert_allclose(after["boxes"], boxes.numpy()[shown], atol=2e-3)
        assert after["classes"].tolist() == before["classes"][shown].tolist()
        seen = before["points"][:, 2] > 0
        if hasattr(tv_tensors, "KeyPoints"):
            points = tv_tensors.KeyPoints(torch.from_numpy(before["points"][:, :2]), canvas_size=size)
            expected = functional.affine(points, **given).numpy()
            # Depending on its version, torchvision moves points from outside the picture to its border, or leaves them
            # there.
            inside = seen & (after["points"][:, 2] > 0)
            np.testing.assert_allclose(after["points"][inside, :2], expected[inside], atol=2e-3)
            edge = ((expected <= 0) | (expected >= np.array(size[::-1]) - 1)).any(1)
            assert (inside | ~seen | edge).all()
    total = sum(row["mask"].size for row in plain)
    assert apart < total / 500 and (gone > 0 or known is not KNOWN[2]), (apart, total, gone)


def test_masks_show_the_class_of_the_moved_picture(scenes: sp.Dataset) -> None:
    turn = sp.augment.random_affine(60, translate=(0.3, 0.2), scale=(0.5, 1.6), shear=20, mask_fill=0)
    for augment in ([turn], [sp.augment.random_rotation(180, mask_fill=0)], ["trivial_augment_wide"]):
        align = ALIGN | {"mask": sp.align.mask(fill=0)}
        found = rows(scenes, image="full,flip=0.5", align=align, augment=augment, seed=4)
        changed = 0
        for row in found:
            # The red level of a pixel is its class, and the outside is black. TrivialAugment may also change the red.
            same = row["image"][..., 0] == row["mask"]
            if augment != ["trivial_augment_wide"]:
                assert same.all()
            outside = (row["image"] == 0).all(-1)
            changed += int(outside.sum())
        assert changed > 0


def test_boxes_contain_the_moved_objects(scenes: sp.Dataset) -> None:
    align = {"mask": sp.align.mask(fill=255), "boxes": sp.align.boxes()}
    turn = sp.augment.random_affine(90, translate=(0.2, 0.2), scale=(0.7, 1.3))
    objects: list[NDArray[Any]] = []
    for row in rows(scenes, align=align, augment=[turn], seed=9):
        height, width = row["mask"].shape
        assert (row["boxes"][:, :2] >= 0).all() and (row["boxes"][:, 2:] <= [width, height]).all()
        assert (row["boxes"][:, 2:] > row["boxes"][:, :2]).all()
        objects.append(row["boxes"])
    assert len({len(boxes) for boxes in objects}) > 1, "some boxes have left the view"


def test_a_mask_fill_that_the_type_lacks_is_refused(scenes: sp.Dataset) -> None:
    for augment, said in [
        (sp.augment.random_affine(5, mask_fill=-1), "field `mask`: uint8 cannot represent `mask_fill` -1"),
        (sp.augment.random_affine(5, fill=1), "`fill` applies only to arrays"),
    ]:
        with pytest.raises(sp.UsageError, match=said):
            rows(scenes, augment=[augment])
    with pytest.raises(sp.UsageError, match="pixels of this field's picture, but that picture is not loaded"):
        sp.Loader(
            scenes, 4, image="full", fields=["mask"], align={"mask": sp.align.mask("image")},
            augment=[sp.augment.random_affine(5)],
        )  # fmt: skip


def test_boxes_beside_a_moved_picture_are_warned_about(scenes: sp.Dataset) -> None:
    options: dict[str, Any] = {"image": "full", "fields": ["image", "boxes"]}
    with pytest.warns(UserWarning, match=r"`boxes` is not aligned with its picture, which `random_rotation` transforms\n"):
        sp.Loader(scenes, 2, **options, augment=[sp.augment.color_jitter(0.1), sp.augment.random_rotation(5)])


def test_a_draw_repeats(scenes: sp.Dataset, tmp_path: Path) -> None:
    augment = [sp.augment.random_affine(45, scale=(0.5, 1.5)), sp.augment.random_rotation(20, p=0.5)]
    one, other = (rows(scenes, augment=augment, seed=3, threads=threads) for threads in (1, 3))
    for mine, theirs in zip(one, other, strict=True):
        assert all(np.array_equal(mine[name], theirs[name], equal_nan=True) for name in mine)
