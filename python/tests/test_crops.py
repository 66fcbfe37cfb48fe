"""Tests loading several crops of each picture, each in its own field."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardpack as sp

# The seeds of two consecutive crops differ by this number.
BETWEEN = 0x9E3779B97F4A7C15


def test_crops_are_values() -> None:
    crop = sp.view.crop("rrc96", [sp.augment.gaussian_blur(5), sp.augment.random_solarize(128)], times=np.int64(8), name="local")
    assert (crop.view, crop.times, crop.name) == ("rrc96", 8, "local")
    assert crop.augment == f"{sp.augment.gaussian_blur(5)},{sp.augment.random_solarize(128)}"
    assert sp.view.crop("rrc96", []) == sp.view.crop("rrc96") == sp.view.Crop("rrc96")
    assert pickle.loads(pickle.dumps(crop)) == crop


def test_each_crop_is_the_picture_of_a_loader_with_its_seed(photos: Path) -> None:
    dataset, common = sp.Dataset(photos), [sp.augment.color_jitter(0.4, 0.4, 0.2, 0.1)]
    large, small = sp.view.random_resized_crop(32, (0.25, 1), interpolation="bicubic"), "rrc16,scale=0.05..0.25"
    blur = sp.augment.gaussian_blur(3)
    crops: list[Any] = [large, sp.view.crop(large, blur), sp.view.crop(small, times=2, name="local"), sp.view.crop("pad24", name="all")]
    options: dict[str, Any] = {"shuffle": False, "augment": common, "end": "uneven"}
    with sp.Loader(dataset, 7, crops=crops, fields=["label", "image"], seed=5, **options) as loader:
        batches = list(loader)
    names = ["image_0", "image_1", "local_0", "local_1", "all"]
    assert list(batches[0].keys()) == ["label", *names]
    assert [values.shape for values in batches[0]] == [(7,), (7, 32, 32, 3), (7, 32, 32, 3), *[(7, 16, 16, 3)] * 2, (7, 24, 24, 3)]
    views = [large, large, small, small, "pad24"]
    for number, (name, view) in enumerate(zip(names, views, strict=True)):
        seed = (5 + number * BETWEEN) % 2**64
        augment = [*common, blur] if name == "image_1" else common
        with sp.Loader(dataset, 7, image=view, seed=seed, fields=["image"], **options | {"augment": augment}) as alone:
            for mine, theirs in zip(batches, alone, strict=True):
                assert np.array_equal(mine[name], theirs["image"])
                assert np.array_equal(mine.views(name).crop, theirs.views().crop)
    assert not np.array_equal(batches[0]["local_0"], batches[0]["local_1"])


def test_order_and_states_do_not_depend_on_crops(photos: Path) -> None:
    dataset = sp.Dataset(photos)
    with sp.Loader(dataset, 8, crops=["rrc16", "rrc16"]) as crops, sp.Loader(dataset, 8, image="rrc16") as single:
        assert len(crops) == len(single)
        for mine, theirs in zip(crops, single, strict=True):
            assert np.array_equal(mine.indices, theirs.indices) and crops.state_dict() == single.state_dict()
            assert np.array_equal(mine["image_0"], theirs["image"])


def test_floats_name_the_picture(photos: Path) -> None:
    options: dict[str, Any] = {"shuffle": False, "dtype": {"image": "float16"}, "mean": 0.5, "std": 0.25, "layout": "chw"}
    with sp.Loader(sp.Dataset(photos), 8, crops=["center16", "center16"], **options) as loader:
        batch = next(iter(loader))
    assert batch["image_0"].shape == (8, 3, 16, 16) and batch["image_0"].dtype == np.float16
    assert np.array_equal(batch["image_0"], batch["image_1"])


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda _: sp.view.crop(224), TypeError, "view: expected a string such as 'rrc96', found 224"),  # type: ignore[arg-type]
        (lambda _: sp.view.crop("rrc8", times=0), ValueError, "times: expected at least 1, found 0"),
        (lambda _: sp.view.crop("rrc8", times=1.5), TypeError, "times: expected a whole number, found 1.5"),  # type: ignore[arg-type]
        (lambda _: sp.view.crop("rrc8", [1]), TypeError, "augment: expected augmentations such as 'hflip'"),  # type: ignore[list-item]
        (lambda _: sp.view.crop("rrc8", name=1), TypeError, "name: expected a string, found 1"),  # type: ignore[arg-type]
        (lambda data: sp.Loader(data, crops="rrc8"), TypeError, "crops: expected a list of views"),
        (lambda data: sp.Loader(data, crops=[8]), TypeError, "crops: expected a view such as 'rrc224'"),  # type: ignore[list-item]
        (lambda data: sp.Loader(data, crops=[]), sp.UsageError, "crops: the list is empty"),
        (lambda data: sp.Loader(data, crops=["rrc8"], image="rrc8"), sp.UsageError, "crops: each crop has its own view"),
        (lambda data: sp.Loader(data, crops=["raw"]), sp.UsageError, "crops: `raw` returns stored bytes"),
        (lambda data: sp.Loader(data, crops=["rcr8"]), sp.UsageError, "invalid picture view `rcr8`: expected"),
        (lambda data: sp.Loader(data, crops=[sp.view.crop("rrc8", "hflip")]), sp.UsageError, "crops: a crop can have only augmentations for pictures"),
        (lambda data: sp.Loader(data, crops=["rrc8"], fields=["label"]), sp.UsageError, "crops need a picture field, but none is loaded"),
        (lambda data: sp.Loader(data, crops=[sp.view.crop("rrc8", name="label")]), sp.UsageError, "two fields have the name `label`"),
    ],
)
def test_wrong_crops_are_refused(photos: Path, make: Callable[[sp.Dataset], Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said.replace("(", r"\(")):
        made = make(sp.Dataset(photos))
        len(made)
