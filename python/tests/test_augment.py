"""Tests flips, turns, normalisation and bfloat16 of arrays against NumPy."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardpack as sp
from numpy.typing import NDArray

ALL = ("hflip", "vflip", "rot90")
MEANS, STDS = np.linspace(-1, 20, 8), np.linspace(0.5, 4, 8)


def bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Returns the upper halves of float32 values, rounded to the nearest, with ties to even."""
    bits = values.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def normalised(values: NDArray[np.float32], means: Any, stds: Any) -> NDArray[np.float32]:
    """Returns the result of a fused multiply-add, computed in float64. The product is exact in float64, and rounding
    the sum there is far more precise than float32.
    """
    scale, bias = np.float32(1 / np.asarray(stds)), np.float32(-np.asarray(means) / stds)
    return (values.astype(np.float64) * scale + bias).astype(np.float32)


def turns(square: bool) -> list[tuple[bool, bool, int]]:
    return [(v, h, n) for v in (False, True) for h in (False, True) for n in (range(4) if square else (0, 2))]


def turned(values: NDArray[Any], turn: tuple[bool, bool, int]) -> NDArray[Any]:
    """Applies quarter turns and then flips to ``[height, width, …]``."""
    vertical, horizontal, quarters = turn
    values = np.rot90(values, quarters)
    values = values[::-1] if vertical else values
    return values[:, ::-1] if horizontal else values


@pytest.mark.parametrize("cube", ["whole", "center12x12"])
def test_a_cube_and_its_mask_are_turned_alike(cubes: Path, cube_values: list[np.ndarray], cube: str) -> None:
    options: dict[str, Any] = {"cube": cube, "fields": ["cube", "mask"], "batch_size": 8}
    seen = set()
    with sp.Loader(sp.Dataset(cubes), **options, augment=ALL) as loader:
        for _ in range(2):
            for batch in loader:
                for row, index in enumerate(batch.indices):
                    number = int(batch["mask"][row].max() if cube != "whole" else np.partition(batch["mask"][row], -2, None)[-2])
                    values, mask = cube_values[number], np.full((20, 30), number, np.uint8)
                    mask[0, 0] = 255
                    if cube != "whole":
                        values, mask = values[4:16, 9:21], mask[4:16, 9:21]
                    found = [
                        turn
                        for turn in turns(cube != "whole")
                        if np.array_equal(turned(values, turn), batch["cube"][row])
                        and np.array_equal(turned(mask, turn), batch["mask"][row])
                    ]
                    assert found, index
                    seen.add(found[0])
    # Flips along both axes equal a turn by 180 degrees, so only half of the combinations give different results.
    assert len(seen) == (8 if cube != "whole" else 4)


def test_a_resumed_loader_turns_as_one_that_goes_on(cubes: Path) -> None:
    options: dict[str, Any] = {"cube": "patch8x8", "fields": ["cube"], "augment": "rot90", "seed": 3}
    with sp.Loader(sp.Dataset(cubes), 4, **options) as whole:
        expected = {int(i): row.tobytes() for batch in whole for i, row in zip(batch.indices, batch["cube"], strict=True)}
    found: dict[int, bytes] = {}
    with sp.Loader(sp.Dataset(cubes), 4, **options) as first:
        for count, batch in enumerate(first, 1):
            found |= {int(i): row.tobytes() for i, row in zip(batch.indices, batch["cube"], strict=True)}
            if count == 2:
                break
        with pickle.loads(pickle.dumps(first)) as second:
            second.load_state_dict(first.state_dict())
            for batch in second:
                found |= {int(i): row.tobytes() for i, row in zip(batch.indices, batch["cube"], strict=True)}
    assert found == expected


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(("mean", "std"), [(MEANS, STDS), (2.5, None), (None, [0.5])])
def test_bands_are_normalised_by_their_own(
    cubes: Path, cube_values: list[np.ndarray], dtype: str, mean: Any, std: Any
) -> None:
    options: dict[str, Any] = {"fields": ["cube", "mask"], "shuffle": False, "bands": [5, 0], "dtype": {"cube": dtype}}
    options |= {name: {"cube": value} for name, value in (("mean", mean), ("std", std)) if value is not None}
    means = np.broadcast_to(0.0 if mean is None else mean, 8)[[5, 0]]
    stds = np.broadcast_to(1.0 if std is None else std, 8)[[5, 0]]
    with sp.Loader(sp.Dataset(cubes), 12, **options) as loader:
        for batch in loader:
            for row, mask in zip(batch["cube"], batch["mask"], strict=True):
                values = cube_values[int(mask[1, 1])][:, :, [5, 0]]
                assert row.dtype == dtype
                assert np.array_equal(row, normalised(values, means, stds).astype(dtype))


def test_bands_are_changed_by_a_factor_and_a_summand(cubes: Path, cube_values: list[np.ndarray]) -> None:
    options: dict[str, Any] = {"fields": ["cube", "mask"], "shuffle": False, "dtype": {"cube": "float32"}, "threads": 2}
    options |= {"mean": {"cube": MEANS}, "std": {"cube": STDS}}
    changes = [sp.augment.random_gain(0.25), sp.augment.band_jitter(gain=0.1, offset=2), sp.augment.band_dropout(0.3, value=-9)]
    assert changes == ["random_gain(gain=0.25)", "band_jitter(gain=0.1,offset=2.0)", "band_dropout(p=0.3,value=-9.0)"]
    seen, dropped, masks = set(), 0, 0
    with sp.Loader(sp.Dataset(cubes), 12, augment=changes, **options) as loader:
        for batch in loader:
            for row, mask in zip(batch["cube"], batch["mask"], strict=True):
                masks += int(mask[0, 0] == 255)
                plain = normalised(cube_values[int(mask[1, 1])], MEANS, STDS)
                for band in range(8):
                    if (row[..., band] == -9).all():
                        dropped += 1
                        continue
                    x, y = plain[..., band].ravel().astype(np.float64), row[..., band].ravel().astype(np.float64)
                    factor, summand = np.polyfit(x, y, 1)
                    assert np.abs(x * factor + summand - y).max() < 1e-4
                    assert 0.75 * 0.9 - 1e-4 <= factor <= 1.25 * 1.1 + 1e-4 and abs(summand) <= 2 + 1e-3
                    seen.add(round(factor, 5))
    assert masks == len(cube_values), "masks are left alone"
    assert 0 < dropped < len(cube_values) * 8 and len(seen) > len(cube_values)


@pytest.mark.parametrize("options", [{}, {"cube": "patch8x8", "layout": "chw"}, {"bands": [3, 0]}])
def test_bands_are_drawn_by_seed_epoch_and_sample(cubes: Path, options: dict[str, Any]) -> None:
    given: dict[str, Any] = {"fields": ["cube"], "dtype": "float32", "augment": sp.augment.band_jitter(0.5), "seed": 4, **options}

    def rows(threads: int, batch: int, epoch: int) -> dict[int, bytes]:
        with sp.Loader(sp.Dataset(cubes), batch, threads=threads, **given) as loader:
            loader.set_epoch(epoch)
            return {int(i): row.tobytes() for b in loader for i, row in zip(b.indices, b["cube"], strict=True)}

    assert rows(1, 4, 0) == rows(3, 4, 0)
    assert rows(2, 2, 0).items() >= rows(2, 4, 0).items()
    assert rows(1, 4, 1) != rows(1, 4, 0)


def test_noise_is_normal_and_drawn_by_place(cubes: Path) -> None:
    options: dict[str, Any] = {"fields": ["cube", "mask"], "dtype": {"cube": "float32"}, "seed": 4, "shuffle": False}
    whole = {"mean": {"cube": MEANS}, "std": {"cube": STDS}, "augment": [sp.augment.gaussian_noise(0.5), sp.augment.random_gain((2, 2))]}

    def rows(threads: int, epoch: int = 0, **more: Any) -> np.ndarray:
        with sp.Loader(sp.Dataset(cubes), 12, threads=threads, epoch=epoch, **{**options, **whole, **more}) as loader:
            return np.concatenate([batch["cube"].copy() for batch in loader])

    with sp.Loader(sp.Dataset(cubes), 12, **options, **whole) as loader:
        masks = np.concatenate([batch["mask"].copy() for batch in loader])
    noisy, plain = rows(1), rows(1, augment=sp.augment.random_gain((2, 2)))
    noise = (noisy - plain).astype(np.float64)
    count = noise.size
    # Noise is added after the gain, regardless of their order in the list. Its mean must be 0 and its standard
    # deviation 0.5, each to within five standard errors.
    assert abs(noise.mean()) < 5 * 0.5 / count**0.5
    assert abs(noise.std() / 0.5 - 1) < 5 / (2 * count) ** 0.5 + 1e-3
    assert (rows(3) == noisy).all() and (masks >= 0).all()
    assert (rows(1, epoch=1) != noisy).mean() > 0.99
    assert (noise[0] != noise[1]).mean() > 0.99, "samples differ"
    # The noise depends on the position in [height, width, bands], not on the layout.
    assert (rows(2, layout="chw").transpose(0, 2, 3, 1) == noisy).all()
    assert sp.augment.gaussian_noise((0.1, 0.2)) == "gaussian_noise(sigma=0.1..0.2)"
    short = rows(1, dtype={"cube": "float16"})
    assert short.dtype == np.float16
    np.testing.assert_allclose(short.astype(np.float32), noisy, rtol=2e-3, atol=2e-3)
    with pytest.raises(sp.UsageError, match="must be float16, bfloat16 or float32"):
        sp.Loader(sp.Dataset(cubes), 12, fields=["cube"], dtype="float64", augment=sp.augment.gaussian_noise(1))


def test_ranges_are_checked_where_they_are_written() -> None:
    for make, said in [
        (lambda: sp.augment.random_erasing(p=1.5), "the probability of an augmentation must be from 0 to 1, but is 1.5"),
        (lambda: sp.augment.band_dropout(p=-0.1), "`p` in band_dropout"),
        (lambda: sp.augment.gaussian_noise(-1), "`sigma` in gaussian_noise"),
        (lambda: sp.augment.random_posterize(9), "`bits` in posterize"),
        (lambda: sp.augment.mixup(0), "mixup"),
    ]:
        with pytest.raises(sp.UsageError, match=said):
            make()


def test_pictures_take_their_own_mean_by_name(photos: Path) -> None:
    options: dict[str, Any] = {"image": "center32", "fields": ["image"], "shuffle": False, "dtype": "float32"}
    with (
        sp.Loader(sp.Dataset(photos), 20, **options, mean={"image": 0.5}, std={"image": [0.1, 0.2, 0.3]}) as named,
        sp.Loader(sp.Dataset(photos), 20, **options, mean=0.5, std=[0.1, 0.2, 0.3]) as plain,
    ):
        for mine, theirs in zip(named, plain, strict=True):
            assert np.array_equal(mine["image"], theirs["image"])


def test_bfloat16_goes_to_torch(cubes: Path, photos: Path, cube_values: list[np.ndarray]) -> None:
    torch = pytest.importorskip("torch")
    with sp.Loader(sp.Dataset(cubes), 12, fields=["cube", "mask"], dtype=torch.bfloat16, to="torch") as loader:
        for batch in loader:
            assert batch["cube"].dtype == torch.bfloat16
            for row, mask in zip(batch["cube"], batch["mask"], strict=True):
                expected = bfloat16(cube_values[int(mask[1, 1])])
                assert np.array_equal(row.view(torch.uint16).numpy(), expected)
    options: dict[str, Any] = {"image": "center32", "mean": 0.5, "std": 0.25, "shuffle": False, "to": "torch"}
    with (
        sp.Loader(sp.Dataset(photos), 20, **options, dtype="bfloat16") as short,
        sp.Loader(sp.Dataset(photos), 20, **options, dtype="float32") as long,
    ):
        for mine, theirs in zip(short, long, strict=True):
            assert torch.equal(mine["image"], theirs["image"].to(torch.bfloat16))


def test_bfloat16_goes_to_numpy_by_ml_dtypes(cubes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    options: dict[str, Any] = {"fields": ["cube"], "shuffle": False}
    with (
        sp.Loader(sp.Dataset(cubes), 12, **options, dtype="bfloat16") as short,
        sp.Loader(sp.Dataset(cubes), 12, **options) as long,
    ):
        for mine, theirs in zip(short, long, strict=True):
            assert mine["cube"].dtype == ml_dtypes.bfloat16
            assert np.array_equal(mine["cube"].view(np.uint16), bfloat16(theirs["cube"]))
    monkeypatch.setattr("shardpack._arguments.find_spec", lambda _: None)
    with pytest.raises(sp.UsageError, match='NumPy has no bfloat16\nhint: pass to="torch"'):
        sp.Loader(sp.Dataset(cubes), dtype={"cube": "bfloat16"})


def test_bfloat16_goes_to_jax(cubes: Path) -> None:
    jax = pytest.importorskip("jax")
    with sp.Loader(sp.Dataset(cubes), 12, fields=["cube"], shuffle=False, dtype="bfloat16", to="jax") as loader:
        batch = next(iter(loader))
        assert batch["cube"].dtype == jax.numpy.bfloat16


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"augment": "flip"}, "unknown augmentation `flip`: expected one of hflip, vflip, dflip, rot90, random_gain, band_jitter, band_dropout, random_low_resolution, random_gamma, gaussian_noise for arrays, or one of trivial_augment_wide"),
        ({"augment": [sp.augment.mixup()]}, r"`mixup.*` mixes the samples of a batch, .*\nhint: use `augment_batch` to mix"),
        ({"augment": "cutmix(alpha=0.5)"}, "\nhint: use `augment_batch` to mix"),
        ({"mean": 0.5}, r"mean and std without a field name apply to pictures, but `cube` is an array\nhint: name .*: mean=\{\"cube\": …\}"),
        ({"mean": [1, 2, 3]}, r'mean is 2, but must be at most 1: .*\nhint: .*if the numbers are for an array field, name the field: mean=\{"FIELD": …\}'),
        ({"augment": "band_dropout(p=2)"}, "`p` in band_dropout must be from 0 to 1, but is 2"),
        ({"augment": "band_dropout"}, "band augmentation `band_dropout`: expected p=NUMBER"),
        ({"augment": sp.augment.random_gain(0.5), "dtype": "float64"}, "`cube` is float64, but must be float16, bfloat16 or float32 for band augmentation"),
        ({"augment": sp.augment.random_gain(0.5), "fields": ["mask"]}, "band augmentation needs a decoded array with three axes"),
        ({"augment": ["hflip", "hflip"]}, "invalid augmentation `hflip,hflip`: expected any of hflip"),
        ({"mean": {"cube": 1}}, None),
        ({"mean": {"cube": [1, 2]}}, r"field `cube`: expected one mean and std, or one per band \(8\), found 2"),
        ({"mean": {"cube": [1, 2]}, "std": {"cube": [1, 2, 3]}}, "field `cube`: found 2 means and 3 standard deviations: pass as many means as standard deviations, or a single number for one of them"),
        ({"mean": {"mask": 1}}, "`mask` is uint8, but must be float16, bfloat16 or float32 to be normalised with mean and std"),
        ({"mean": {"cub": 1}}, "mean and std cannot be applied to field `cub`: it is not loaded as a decoded array"),
        ({"std": {"cube": 0}}, "field `cube`: the std must be a finite number above 0, but is 0"),
        ({"std": {"cube": -1}}, "field `cube`: the std must be a finite number above 0, but is -1"),
        ({"std": {"cube": [1, 1, 0, 1, 1, 1, 1, 1]}}, "field `cube`: band 2: the std must be a finite number above 0, but is 0"),
        ({"mean": [1.0] * 8, "std": 1.0}, r"mean must be one number, or three for .*, not 8\nhint: if the numbers are for an array field, name the field: mean={"),
        ({"std": {"cube": np.nan}}, "field `cube`: the std must be a finite number above 0, but is NaN"),
        ({"mean": {"cube": np.inf}}, "field `cube`: the mean must be a finite number, but is inf"),
        ({"mean": {"cube": 1}, "dtype": "float64"}, "is float64, but must be float16, bfloat16 or float32"),
    ],
)
def test_arguments_that_do_not_fit(cubes: Path, options: dict[str, Any], match: str | None) -> None:
    if match is None:
        sp.Loader(sp.Dataset(cubes), 8, **options).close()
        return
    with pytest.raises(sp.UsageError, match=match):
        sp.Loader(sp.Dataset(cubes), 8, **options)


@pytest.mark.parametrize(
    "options", [{"augment": [1]}, {"mean": {"cube": "white"}}, {"mean": {"cube": 1}, "std": 2.0}, {"mean": {"cube": [[1]]}}]
)
def test_arguments_of_other_types(cubes: Path, options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="augment: expected augmentations|mean of cube: expected a number|pass mean and std in the same form"):
        sp.Loader(sp.Dataset(cubes), **options)


def test_cupy_has_no_bfloat16(cubes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", object())
    with pytest.raises(sp.UsageError, match='CuPy has no bfloat16\nhint: pass to="torch"'):
        sp.Loader(sp.Dataset(cubes), dtype="bfloat16", to="cupy", device="cuda")
