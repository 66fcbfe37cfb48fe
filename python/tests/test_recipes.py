"""Tests the names and the random draws of picture augmentations. If torchvision is installed, also tests their
results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardpack as sp
from conftest import pack
from numpy.typing import NDArray
from PIL import Image

TRAIN = [sp.augment.trivial_augment_wide(), sp.augment.random_erasing(p=0.5)]


@pytest.fixture(scope="module")
def lossless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packs 40 PNGs of 37 × 31 pixels, which every decoder decodes to the same levels."""
    source = tmp_path_factory.mktemp("lossless")
    random = np.random.default_rng(2)
    y, x = np.mgrid[:37, :31]
    for number in range(40):
        planes = np.stack([x * 5 + number, 220 - y * 4 - x, np.where(x > y, 70, 150) + number], axis=-1)
        levels = np.clip(planes + random.integers(-20, 20, planes.shape), 0, 255)
        Image.fromarray(levels.astype(np.uint8)).save(source / f"{number:03}.png")
    return pack(source, tmp_path_factory.mktemp("packed") / "lossless")


def rows(packed: Path, augment: Any = None, **options: Any) -> dict[int, NDArray[np.uint8]]:
    options = {"image": "resize37x31", "fields": ["image"], "batch_size": 8, "seed": 5} | options
    with sp.Loader(sp.Dataset(packed), augment=augment, **options) as loader:
        return {int(i): row.copy() for batch in loader for i, row in zip(batch.indices, batch["image"], strict=True)}


def test_names_are_written_by_functions() -> None:
    for found, expected in [
        (sp.augment.trivial_augment_wide(), "trivial_augment_wide"),
        (sp.augment.rand_augment(num_ops=3, magnitude=9), "rand_augment(num_ops=3)"),
        (sp.augment.color_jitter(0.4, hue=(-0.1, 0.2)), "color_jitter(brightness=0.4,hue=-0.1..0.2)"),
        (sp.augment.random_erasing(1, (0.1, 0.2), value=(1, 2, 3)), "random_erasing(p=1.0,scale=0.1..0.2,value=1:2:3)"),
        (sp.augment.gaussian_blur(5, 1.5), "gaussian_blur(kernel_size=5,sigma=1.5..1.5)"),
        (sp.augment.random_posterize(3), "random_posterize(bits=3)"),
        (sp.augment.random_solarize(128, p=0.2), "random_solarize(threshold=128.0,p=0.2)"),
        (sp.augment.random_grayscale(), "random_grayscale"),
        (sp.augment.random_affine(10), "random_affine(degrees=10.0)"),
        (
            sp.augment.random_affine((-5, 5), (0.1, 0), (0.5, 2), (1, 2, 3, 4), 0.5),
            "random_affine(degrees=-5.0..5.0,translate=0.1:0.0,scale=0.5..2.0,shear=1.0..2.0,shear_y=3.0..4.0,p=0.5)",
        ),
        (sp.augment.random_affine(0, scale=(1, 1), shear=5), "random_affine(degrees=0.0,shear=5.0)"),
        (sp.augment.random_rotation((0, 90), p=0.5), "random_rotation(degrees=0.0..90.0,p=0.5)"),
    ]:
        assert found == expected
    for wrong in (lambda: sp.augment.random_erasing(p="1"), lambda: sp.augment.rand_augment(num_ops=2.5)):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="expected a"):
            wrong()
    with pytest.raises(ValueError, match="scale: expected a lower and an upper bound"):
        sp.augment.random_erasing(scale=(0.1,))
    for shares in [(0.1,), "12"]:
        with pytest.raises(ValueError, match="translate: expected two fractions, for width and height"):
            sp.augment.random_affine(5, shares)
    with pytest.raises(ValueError, match="shear: expected a lower and an upper bound"):
        sp.augment.random_affine(5, shear=(1, 2, 3))
    with pytest.raises(sp.UsageError, match="`translate` in random_affine must be from 0 to 1"):
        sp.augment.random_affine(5, (0.5, 1.5))


def test_every_function_is_taken_by_the_loader(lossless: Path) -> None:
    needed = {"gaussian_blur": (5,), "random_affine": (5,), "random_rotation": (30,), "random_posterize": (2,), "random_solarize": (9,), "random_adjust_sharpness": (2,)}
    for name in set(sp.augment.__all__) - {"mixup", "cutmix", "mosaic", "random_gain", "band_jitter", "band_dropout", "random_gamma", "gaussian_noise", "random_affine_3d", "random_low_resolution", "nnunet"}:
        texts = [getattr(sp.augment, name)(*needed.get(name, ()))]
        assert len(rows(lossless, texts)) == 40, name


def test_what_is_none_is_refused_in_words(lossless: Path, cubes: Path) -> None:
    for augment, said in [
        ("mixup", "`mixup` mixes the samples of a batch, so it cannot augment single samples"),
        (["trivial_augment_wide", "random_erasing(p=2)"], "the probability of an augmentation must be from 0 to 1, but is 2"),
        ("rand_augment(ops=3)", "the option `ops` is unknown or repeated"),
    ]:
        with pytest.raises(sp.UsageError, match=said.replace("(", r"\(")):
            sp.Loader(sp.Dataset(lossless), augment=augment)
    with pytest.raises(sp.UsageError, match="needs a field with decoded pictures, but none is loaded"):
        sp.Loader(sp.Dataset(cubes), augment="random_invert")
    with pytest.raises(TypeError, match=r"shardpack\.augment"):
        sp.Loader(sp.Dataset(lossless), augment=[3])  # type: ignore[list-item]


def test_a_resumed_loader_draws_as_one_that_goes_on(photos: Path) -> None:
    options: dict[str, Any] = {"image": "rrc40", "fields": ["image"], "augment": TRAIN, "seed": 3, "batch_size": 7}
    with sp.Loader(sp.Dataset(photos), **options) as whole:
        expected = [batch["image"].copy() for batch in whole]
    with sp.Loader(sp.Dataset(photos), **options) as first:
        for _, batch in zip(range(3), first, strict=False):
            del batch
        state = first.state_dict()
    with sp.Loader(sp.Dataset(photos), threads=1, **options) as second:
        second.load_state_dict(state)
        rest = [batch["image"].copy() for batch in second]
    assert len(rest) == len(expected) - 3
    assert all(np.array_equal(a, b) for a, b in zip(rest, expected[3:], strict=True))


def test_epochs_and_samples_draw_for_themselves(lossless: Path) -> None:
    plain, first, second = rows(lossless), rows(lossless, TRAIN), rows(lossless, TRAIN, epoch=1)
    again = rows(lossless, TRAIN, batch_size=3, threads=1, end="uneven")
    assert all(np.array_equal(again[i], first[i]) for i in plain)
    assert sum(not np.array_equal(plain[i], first[i]) for i in plain) > 25
    assert sum(not np.array_equal(first[i], second[i]) for i in plain) > 25
    planes = rows(lossless, TRAIN, layout="chw")
    assert all(np.array_equal(planes[i], first[i].transpose(2, 0, 1)) for i in plain)


BATCHES = [sp.augment.mixup(0.2), sp.augment.cutmix()]


def test_batches_are_mixed_with_soft_labels(photos: Path) -> None:
    options: dict[str, Any] = {"image": "rrc24", "fields": ["image", "label"], "batch_size": 16, "seed": 6}
    ways = set()
    for epoch in range(4):
        plain = sp.Loader(sp.Dataset(photos), epoch=epoch, **options)
        mixed = sp.Loader(sp.Dataset(photos), epoch=epoch, augment_batch=BATCHES, **options)
        for before, after in zip(plain, mixed, strict=True):
            weights, own = after["label"], np.eye(3, dtype=np.float32)[before["label"]]
            assert weights.dtype == np.float32 and weights.shape == (16, 3)
            # All rows of a batch are mixed with the same weight.
            shares = {round(float(row[a]), 5) for row, a, b in zip(weights, before["label"], np.roll(before["label"], 1), strict=True) if a != b}
            (share,) = shares
            assert np.allclose(weights, own * share + np.roll(own, 1, axis=0) * (1 - share), atol=1e-5)
            first, second = before["image"].astype(float), np.roll(before["image"], 1, axis=0).astype(float)
            sums = np.abs(after["image"] - (first * share + second * (1 - share))).max() <= 0.51
            taken = ((after["image"] == first) | (after["image"] == second)).all()
            assert sums or taken
            ways.add("sum" if sums else "rectangle")
    assert ways == {"sum", "rectangle"}


def test_a_resumed_loader_mixes_as_one_that_goes_on(photos: Path) -> None:
    options: dict[str, Any] = {
        "image": "rrc24", "fields": ["image", "label"], "batch_size": 9, "augment": TRAIN, "augment_batch": BATCHES,
        "dtype": "float32", "mean": 0.5, "std": 0.25, "layout": "chw",
    }
    with sp.Loader(sp.Dataset(photos), **options) as first, sp.Loader(sp.Dataset(photos), threads=1, **options) as second:
        batches = iter(first)
        next(batches), next(batches)
        second.load_state_dict(first.state_dict())
        rest = [(a, b) for a, b in zip(batches, second, strict=True)]
        assert len(rest) == 4
        assert all(np.array_equal(a["image"], b["image"]) and np.array_equal(a["label"], b["label"]) for a, b in rest)


def test_what_cannot_be_mixed_is_refused(photos: Path, lossless: Path) -> None:
    dataset = sp.Dataset(photos)
    for options, said in [
        ({"augment_batch": "mixup"}, "mixing a batch needs decoded pictures of a fixed size"),
        ({"augment_batch": "mixup(alpha=0)", "image": "rrc24"}, "`alpha` in mixup or cutmix"),
        ({"augment_batch": ["blend"], "image": "rrc24"}, "mixup, cutmix or mosaic, with options"),
        ({"augment_batch": "mixup", "image": "rrc24", "fields": ["image"]}, "mixing a batch needs an integer field `label`, but none is loaded"),
        ({"num_classes": 3}, "num_classes has an effect only with augment_batch"),
    ]:
        with pytest.raises(sp.UsageError, match=said):
            sp.Loader(dataset, **options)
    with pytest.raises(sp.UsageError, match="the dataset has no class names"):
        sp.Loader(sp.Dataset(lossless), augment_batch="mixup", image="rrc24")
    with pytest.raises(sp.UsageError, match="sample 52, `owl/002.jpg`: the label is 2, but must be a class number below 2"):
        list(sp.Loader(dataset, augment_batch="mixup", image="rrc24", num_classes=2))


def tensor(row: NDArray[np.uint8]) -> Any:
    torch = pytest.importorskip("torch")
    return torch.from_numpy(row.transpose(2, 0, 1).copy())


def near(found: NDArray[np.uint8], expected: Any, moved: bool = False) -> bool:
    """True if the pictures agree to within one level. If the augmentation moves pixels, one pixel in a hundred may
    differ, because its source lies between two pixels.
    """
    apart = np.abs(found.astype(int) - expected.permute(1, 2, 0).numpy()) > 1
    return bool(apart.any(axis=-1).mean() <= (0.01 if moved else 0))


OPERATIONS: list[tuple[str, str, tuple[Any, ...]]] = [
    ("color_jitter(brightness=1.37..1.37)", "adjust_brightness", (1.37,)),
    ("color_jitter(contrast=0.55..0.55)", "adjust_contrast", (0.55,)),
    ("color_jitter(saturation=1.9..1.9)", "adjust_saturation", (1.9,)),
    ("color_jitter(hue=0.21..0.21)", "adjust_hue", (0.21,)),
    ("random_adjust_sharpness(factor=2.5,p=1)", "adjust_sharpness", (2.5,)),
    ("random_posterize(bits=3,p=1)", "posterize", (3,)),
    ("random_solarize(threshold=100,p=1)", "solarize", (100.0,)),
    ("random_autocontrast(p=1)", "autocontrast", ()),
    ("random_equalize(p=1)", "equalize", ()),
    ("random_invert(p=1)", "invert", ()),
    ("random_grayscale(p=1)", "rgb_to_grayscale", (3,)),
    ("gaussian_blur(kernel_size=7,sigma=1.3..1.3)", "gaussian_blur", ([7, 7], [1.3, 1.3])),
]


@pytest.mark.parametrize(("augment", "name", "arguments"), OPERATIONS, ids=[name for _, name, _ in OPERATIONS])
def test_an_operation_is_torchvisions(lossless: Path, augment: str, name: str, arguments: tuple[Any, ...]) -> None:
    functional = pytest.importorskip("torchvision.transforms.v2.functional")
    plain, found = rows(lossless), rows(lossless, augment)
    changed = 0
    for index, row in plain.items():
        assert near(found[index], getattr(functional, name)(tensor(row), *arguments)), index
        changed += not np.array_equal(found[index], row)
    assert changed > 30


AFFINE: list[tuple[str, str, dict[str, Any]]] = [
    (sp.augment.random_rotation((33, 33)), "rotate", {"angle": 33.0}),
    (sp.augment.random_affine((17, 17)), "affine", {"angle": 17.0}),
    (sp.augment.random_affine(0, scale=(0.7, 0.7)), "affine", {"scale": 0.7}),
    (sp.augment.random_affine(0, shear=(12, 12)), "affine", {"shear": [12.0, 0.0]}),
    (sp.augment.random_affine((-9, -9), scale=(1.25, 1.25), shear=(4, 4, -7, -7)), "affine", {"angle": -9.0, "scale": 1.25, "shear": [4.0, -7.0]}),
]


@pytest.mark.parametrize(("augment", "name", "options"), AFFINE, ids=[text for text, _, _ in AFFINE])
def test_a_map_is_torchvisions(lossless: Path, augment: str, name: str, options: dict[str, Any]) -> None:
    functional = pytest.importorskip("torchvision.transforms.v2.functional")
    if name == "affine":
        options = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0]} | options
    for index, row in rows(lossless, augment).items():
        assert near(row, getattr(functional, name)(tensor(rows(lossless)[index]), **options), moved=True), index


def choices(transform: Any, bins: range, size: tuple[int, int]) -> list[tuple[str, Callable[[Any], Any]]]:
    """Returns all possible results of one of torchvision's augmentation policies."""
    found = []
    for name, (magnitudes, signed) in transform._AUGMENTATION_SPACE.items():
        table = magnitudes(transform.num_magnitude_bins, *size)
        values = [0.0] if table is None else [float(table[at]) for at in bins]
        for value in values + [-value for value in values if signed]:
            apply = functools.partial(
                transform._apply_image_or_video_transform, transform_id=name, magnitude=value,
                interpolation=transform.interpolation, fill=transform._fill,
            )
            found.append((name, apply))
    return found


MOVE = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")


@pytest.mark.parametrize("policy", ["TrivialAugmentWide", "RandAugment"])
def test_a_policy_does_what_torchvisions_may_do(lossless: Path, policy: str) -> None:
    transforms = pytest.importorskip("torchvision.transforms.v2")
    if policy == "TrivialAugmentWide":
        augment, bins = sp.augment.trivial_augment_wide(num_magnitude_bins=4), range(4)
        twin = transforms.TrivialAugmentWide(num_magnitude_bins=4)
    else:
        augment, bins = sp.augment.rand_augment(num_ops=1, magnitude=17), range(17, 18)
        twin = transforms.RandAugment(num_ops=1, magnitude=17)
    plain, candidates, seen = rows(lossless), choices(twin, bins, (37, 31)), set()
    for epoch in range(3):
        for index, row in rows(lossless, augment, epoch=epoch).items():
            image = tensor(plain[index])
            matching = {name for name, apply in candidates if near(row, apply(image), name in MOVE)}
            assert matching, (epoch, index)
            # With magnitude 0, several operations give the same picture.
            seen |= matching if len(matching) == 1 else set()
    assert seen == set(twin._AUGMENTATION_SPACE) - (set() if policy == "RandAugment" else {"Identity"}), seen
