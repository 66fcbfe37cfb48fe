"""Tests that decoding on a GPU gives the same batches as decoding on the host, bit for bit.

The tests need a GPU and PyTorch. If either is missing, they are skipped, with the reason.
"""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardpack as sp
from conftest import pack
from device_support import BIG, NORMALISED, big, compare, gpu, loader, on_host, same  # noqa: F401
from PIL import Image
from test_no_data import scenes


@pytest.mark.parametrize("layout", ["hwc", "chw"])
def test_cubes_are_turned_and_normalised_as_on_the_host(cubes: Path, layout: str) -> None:
    import torch

    options: dict[str, Any] = {"fields": ["cube", "mask"], "cube": "patch8x8", "augment": ["hflip", "vflip", "rot90"]}
    options["augment"] += [sp.augment.random_gain(0.2), sp.augment.band_jitter(0.1, 0.5), sp.augment.band_dropout(p=0.3)]
    options |= {"layout": layout, "dtype": {"cube": "bfloat16"}, "mean": {"cube": np.arange(8.0)}, "std": {"cube": 3}}
    with loader(cubes, 8, **options) as device, sp.Loader(sp.Dataset(cubes), 8, to="torch", **options) as host:
        for mine, theirs in zip(device, host, strict=True):
            assert mine["cube"].dtype == torch.bfloat16
            assert all(torch.equal(mine[name].cpu(), theirs[name]) for name in ("cube", "mask"))
        assert device.stats()["device_rows"] > 0


@pytest.mark.parametrize("layout", ["hwc", "chw"])
@pytest.mark.parametrize("floats", [{}, NORMALISED, {"dtype": {"image": "float32"}}], ids=["uint8", "float16", "float32"])
@pytest.mark.parametrize("image", ["rrc224", "center96", "rrc33"])
def test_crops_are_those_of_the_host(big: Path, image: str, floats: dict[str, Any], layout: str) -> None:
    compare(big, epochs=2, image=image, layout=layout, seed=11, **floats)


@pytest.mark.parametrize("floats", [{}, NORMALISED], ids=["uint8", "float16"])
@pytest.mark.parametrize("layout", ["hwc", "chw"])
def test_whole_pictures_are_those_of_the_host(big: Path, floats: dict[str, Any], layout: str) -> None:
    compare(big, layout=layout, **floats)


@pytest.mark.parametrize("layout", ["hwc", "chw"])
@pytest.mark.parametrize("floats", [{}, NORMALISED], ids=["uint8", "float16"])
@pytest.mark.parametrize("name", ["rrc96", "center64", "resize70x50", "pad96,fill=1:20:255,flip=0.5", "pad80x33"])
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic"])
def test_every_view_is_that_of_the_host(big: Path, name: str, interpolation: str, floats: dict[str, Any], layout: str) -> None:
    image = f"{name},interpolation={interpolation}"
    stats = compare(big, image=image, layout=layout, **floats)
    assert stats["device_rows"] >= BIG * 3 // 4, stats["refused"]
    if name.startswith("pad"):
        augment = [sp.augment.trivial_augment_wide(), sp.augment.gaussian_blur(5)]
        compare(big, image=image, layout=layout, augment=augment, fields=["image", "label"], resident=True, **floats)


@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize("floats", [{}, NORMALISED], ids=["uint8", "float16"])
def test_several_crops_are_those_of_the_host(big: Path, floats: dict[str, Any], resident: bool) -> None:
    large, small = sp.view.random_resized_crop(96, (0.25, 1), interpolation="bicubic"), "rrc48,scale=0.05..0.25"
    crops = [
        sp.view.crop(large, sp.augment.gaussian_blur(9)),
        sp.view.crop(large, sp.augment.random_solarize(128, p=0.2)),
        sp.view.crop(small, times=6, name="small"),
        "pad64",
    ]
    augment = [sp.augment.color_jitter(0.4, 0.4, 0.2, 0.1)]
    options: dict[str, Any] = {"crops": crops, "augment": augment, "fields": ["image", "label"], "layout": "chw", **floats}
    stats = compare(big, epochs=2, resident=resident, **options)
    assert stats["device_rows"] >= 9 * BIG, stats["refused"]
    assert stats["grown_slots"] == 0 and (not resident or stats["resident_values"] <= BIG)


RECIPES: dict[str, list[str]] = {
    "trivial": [sp.augment.trivial_augment_wide(), sp.augment.random_erasing(value=(1, 2, 250))],
    "rand": [sp.augment.rand_augment(num_ops=3)],
    "jitter": [sp.augment.color_jitter(0.4, 0.4, 0.4, 0.2), sp.augment.gaussian_blur(9, p=0.5), sp.augment.random_equalize()],
}


@pytest.mark.parametrize("recipe", list(RECIPES))
@pytest.mark.parametrize("options", [{"image": "rrc224", "layout": "chw", **NORMALISED}, {"image": "rrc65"}, {}], ids=["floats", "uint8", "whole"])
def test_pictures_are_augmented_as_on_the_host(big: Path, recipe: str, options: dict[str, Any]) -> None:
    for resident in (False, True):
        stats = compare(big, epochs=2, augment=RECIPES[recipe], fields=["image", "label"], resident=resident, **options)
        assert stats["device_rows"] > BIG, stats["refused"]
        assert options == {} or stats["grown_slots"] == 0, "what is needed was predicted"


@pytest.mark.parametrize("floats", [{}, NORMALISED, {"dtype": {"image": "bfloat16"}}], ids=["uint8", "float16", "bfloat16"])
def test_batches_are_mixed_as_on_the_host(big: Path, floats: dict[str, Any]) -> None:
    mixes = [sp.augment.mixup(alpha=0.4), sp.augment.cutmix()]
    for layout in ("hwc", "chw"):
        compare(big, epochs=3, image="rrc96", layout=layout, augment_batch=mixes, fields=["image", "label"], **floats)


def test_the_device_decodes_the_pictures(big: Path) -> None:
    stats = compare(big, image="rrc224", epochs=2)
    refused = sum(stats["refused"].values())
    print("refused:", stats["refused"], stats["refused_first"])
    # Two epochs were loaded, and at most one more was prefetched.
    assert 2 * BIG <= stats["device_rows"] + refused <= 3 * BIG, "every row was decoded by one of the two"
    assert refused <= BIG // 4, f"the host decoded {refused} of {2 * BIG} rows: {stats['refused']}"
    assert set(stats["refused"]) == set(stats["refused_first"])
    assert all(0 < len(keys) <= 3 for keys in stats["refused_first"].values())


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packs 24 clips of 3 to 12 frames of 144 × 200 pixels in tiles. Frame 2 of clip 5 is a progressive JPEG."""
    out, rng = tmp_path_factory.mktemp("clips") / "packed", np.random.default_rng(9)
    with sp.Writer(out) as writer:
        for number in range(24):
            frames = []
            for frame in range(3 + number % 10):
                coarse = rng.integers(0, 256, (18, 25, 3)).astype(np.uint8)
                jpeg = io.BytesIO()
                picture = Image.fromarray(coarse).resize((200, 144), Image.Resampling.BICUBIC)
                picture.save(jpeg, "JPEG", quality=85, subsampling=number % 3, progressive=(number, frame) == (5, 2))
                frames.append(jpeg.getvalue())
            writer.write({"clip": frames, "label": number}, key=f"{number}")
    return out


CHANGED: dict[str, Any] = {"augment": [sp.augment.trivial_augment_wide(), sp.augment.random_erasing()]}


@pytest.mark.parametrize("resident", [False, True], ids=["read", "resident"])
@pytest.mark.parametrize("layout", ["hwc", "chw", "cthw"])
@pytest.mark.parametrize(
    "options",
    [
        {"image": "rrc112", "frames": 8, **NORMALISED},
        {"image": "center96", "frames": "window4,every=2", "dtype": {"clip": "bfloat16"}},
        {"image": "rrc64", "frames": 16, **CHANGED},
        {"frames": "all", **CHANGED},
        {},
    ],
    ids=["floats", "window", "changed", "all changed", "all"],
)
def test_clips_are_those_of_the_host(clips: Path, options: dict[str, Any], layout: str, resident: bool) -> None:
    with loader(clips, 8, layout=layout, resident=resident, **options) as device:
        assert device.stats()["resident_values"] == (24 if resident else 0)
    stats = compare(clips, epochs=2, rows=8, layout=layout, resident=resident, **options)
    assert stats["refused"] == {} and stats["device_rows"] >= 48
    assert options.get("frames", "all") == "all" or stats["grown_slots"] == 0, "what is needed was predicted"


def test_clips_that_only_the_host_decodes(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "odd", jpeg="keep") as writer:
        for number in range(16):
            jpeg = io.BytesIO()
            Image.fromarray(np.full((640, 800, 3), number * 9, np.uint8)).save(jpeg, "JPEG")
            writer.write({"clip": [jpeg.getvalue()] * 3}, key=f"{number}")
    stats = compare(tmp_path / "odd", rows=4, image="rrc64", frames=2)
    assert set(stats["refused"]) == {"too few restart markers, and no segment index"}


@pytest.mark.parametrize("options", [{"image": "rrc224", **NORMALISED}, {}], ids=["crops", "whole"])
def test_pictures_that_stay_on_the_device(big: Path, options: dict[str, Any]) -> None:
    with loader(big, resident=True, **options) as device:
        before = device.stats()["read_bytes"]
        assert device.stats()["resident_values"] > BIG * 3 // 4
        assert device.predicted_device_bytes > loader(big, **options).predicted_device_bytes
    stats = compare(big, epochs=3, resident=True, **options)
    rows = sum(stats["refused"].values())
    assert 3 * BIG <= stats["device_rows"] + rows <= 4 * BIG
    # After the start, only rows that the host decodes may be read from disk.
    assert stats["read_bytes"] == before or rows > 0


def test_cubes_that_stay_on_the_device(cubes: Path) -> None:
    stats = compare(cubes, epochs=2, rows=6, resident=True)
    assert stats["device_rows"] > 0
    compare(cubes, epochs=2, rows=6, cube="patch16x16", resident=True)


def test_a_dataset_that_stays_on_the_device_goes_on_in_the_middle(big: Path) -> None:
    options: dict[str, Any] = {"image": "rrc64", "seed": 3, "resident": True}
    with loader(big, **options) as device:
        epoch = iter(device)
        next(epoch)
        state = device.state_dict()
        expected = [batch["image"].cpu() for batch in epoch]
    with loader(big, **options) as device:
        device.load_state_dict(state)
        found = [batch["image"].cpu() for batch in device]
    assert len(found) == len(expected) > 0
    assert all((a == b).all() for a, b in zip(found, expected, strict=True))


def _streets(out: Path, codec: str) -> sp.Dataset:
    """Writes pictures with a class mask, a mask of two channels, boxes, points and a polygon."""
    rng = np.random.default_rng(8)
    schema = {"image": "image", **dict.fromkeys(["mask", "depth", "boxes", "points", "polygon"], "array")}
    with sp.Writer(out, schema, shuffle=False, codec=codec) as writer:
        for number in range(48):
            height, width = 260 + number % 7 * 16, 380 + number % 5 * 24
            coarse = rng.integers(0, 20, (height // 8 + 1, width // 8 + 1)).astype(np.uint8)
            mask = coarse.repeat(8, 0).repeat(8, 1)[:height, :width]
            file = io.BytesIO()
            Image.fromarray(np.stack([mask * 12, 255 - mask, mask], -1)).save(file, "JPEG", quality=90)
            low = rng.uniform(0, [width - 40, height - 40], (9, 2))
            points = np.concatenate([low, np.full((9, 1), 2)], 1)
            depth = np.stack([mask.astype(np.uint16) * 300, np.arange(height * width, dtype=np.uint16).reshape(height, width)], -1)
            boxes = np.concatenate([low, low + rng.uniform(4, 40, (9, 2))], 1)
            writer.write({"image": file.getvalue(), "mask": mask, "depth": depth, "boxes": boxes, "points": points, "polygon": low})
    return sp.Dataset(out)


MASKS: dict[str, Any] = {
    "align": {
        "mask": sp.align.mask(), "depth": sp.align.mask(fill=9), "boxes": sp.align.boxes(visible=0.1),
        "points": sp.align.keypoints(), "polygon": sp.align.polygons(),
    },
    "fields": ["image", "mask", "depth"],
}  # fmt: skip


@pytest.mark.parametrize("resident", [False, True], ids=["read", "resident"])
@pytest.mark.parametrize("layout", ["hwc", "chw"])
@pytest.mark.parametrize("image", ["rrc224,flip=0.5", "center96x130", "full", "short60..200,step=20,max=240"])
@pytest.mark.parametrize("codec", ["blosc2-lz4", "blosc2-zstd"])
def test_masks_are_moved_with_their_picture_as_on_the_host(
    tmp_path: Path, codec: str, image: str, layout: str, resident: bool
) -> None:
    dataset = _streets(tmp_path / "streets", codec)
    turn = sp.augment.random_affine(30, translate=(0.1, 0.1), scale=(0.7, 1.4), shear=10, mask_fill=77)
    for augment in ([], [sp.augment.color_jitter(0.4), turn], ["trivial_augment_wide"]):
        align = {name: MASKS["align"][name] for name in ("mask", "depth")}
        options: dict[str, Any] = MASKS | {"align": align, "image": image, "layout": layout, "augment": augment or None}
        options["dtype"] = {"mask": "int64"} if layout == "chw" else None
        stats = compare(dataset, epochs=2, resident=resident, **options)
        assert stats["refused"] == {} and stats["device_rows"] >= 2 * 48 * 3, stats


@pytest.mark.parametrize("image", ["rrc224,flip=0.5", "ioucrop120", "ioucrop96,zoom=1..4", "short60..200,step=20,max=240"])
def test_boxes_and_points_beside_masks_are_those_of_the_host(tmp_path: Path, image: str) -> None:
    dataset = _streets(tmp_path / "streets", "blosc2-lz4")
    options: dict[str, Any] = MASKS | {"image": image, "augment": [sp.augment.random_affine(30, scale=(0.7, 1.4))]}
    options["fields"] = ["image", *MASKS["align"]]
    with loader(dataset, **options) as device, on_host(dataset, **options) as host:
        for mine, theirs in zip(device, host, strict=True):
            same(mine["image"], theirs["image"])
            same(mine["mask"], theirs["mask"])
            for name in ("boxes", "points", "polygon"):
                for one, other in zip(mine[name], theirs[name], strict=True):
                    one = one.cpu() if hasattr(one, "cpu") else one
                    assert np.array_equal(np.asarray(one), np.asarray(other), equal_nan=True), name
        assert (device.stats()["refused"], device.stats()["grown_slots"]) == ({}, 0)


def test_small_pictures_of_several_sizes(photos: Path) -> None:
    for options in ({"image": "rrc64", "epochs": 3}, {}):
        assert compare(photos, **options)["device_rows"] > 0, options


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dtype": "float32"},
        {"dtype": {"cube": "float32", "mask": "int64"}},
        {"layout": "chw"},
        {"cube": "patch8x12"},
        {"cube": "center8x8", "bands": "2..6"},
        {"cube": "cycle8x8", "bands": [5, 1, 2], "layout": "chw"},
        {"cube": "raw"},
    ],
    ids=str,
)
def test_cubes_and_masks_are_those_of_the_host(cubes: Path, options: dict[str, Any]) -> None:
    stats = compare(cubes, epochs=2, rows=6, **options)
    if options.get("cube") == "raw":
        return
    assert (stats["refused"], stats["device_rows"] > 0) == ({}, True)


@pytest.mark.parametrize("resident", [False, True], ids=["read", "resident"])
@pytest.mark.parametrize(
    "options",
    [
        {"patches_per_sample": 5},
        {"patches": "grid", "overlap": 3},
        {"patches_per_sample": 4, "patches": "balanced", "layout": "chw"},
        {"patches_per_sample": 4, "augment": [*"hflip vflip".split(), sp.augment.gaussian_noise(0.3)], "dtype": {"cube": "float32"}},
    ],
    ids=str,
)
def test_patches_of_scenes_are_those_of_the_host(cubes: Path, options: dict[str, Any], resident: bool) -> None:
    fields = ["cube", "mask"]
    stats = compare(cubes, epochs=2, rows=6, cube="patch6x6", fields=fields, resident=resident, **options)
    assert (stats["refused"], stats["device_rows"] > 0) == ({}, True)
    assert not resident or stats["resident_values"] > 0


@pytest.fixture(scope="module", params=[(), (2,)], ids=["one channel", "two channels"])
def volumes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out, rng = tmp_path_factory.mktemp("volumes") / "packed", np.random.default_rng(4)
    with sp.Writer(out, values="keep") as writer:
        for number in range(8):
            volume = rng.normal(0, 100, (20, 48, 40, *request.param)).astype(np.int16)
            mask = (volume.reshape(20, 48, 40, -1)[..., 0] > 50).astype(np.uint8)
            writer.write({"volume": volume, "mask": mask}, key=f"v{number}")
    return out


VOLUME_CHANGES = [sp.augment.random_gain(0.2), sp.augment.band_jitter(offset=0.3), sp.augment.random_gamma((0.7, 1.5)), sp.augment.gaussian_noise(0.2)]


@pytest.mark.parametrize("resident", [False, True], ids=["read", "resident"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"patches_per_sample": 5},
        {"patches_per_sample": 5, "patches": "balanced", "augment": ["hflip", "vflip", "dflip", "rot90"]},
        {"patches": "grid", "overlap": 3},
        {"patches_per_sample": 4, "mean": {"volume": 3}, "std": {"volume": 90}, "augment": ["dflip", *VOLUME_CHANGES]},
        {"patches_per_sample": 4, "augment": ["dflip", "rot90", sp.augment.random_affine(30, scale=(0.7, 1.4))]},
        {"patches_per_sample": 4, "augment": ["dflip", "rot90", sp.augment.random_affine_3d(30, (0.7, 1.4), 0.1, p=0.8)]},
        {"patches_per_sample": 4, "mean": {"volume": 3}, "std": {"volume": 90}, "augment": [*sp.augment.nnunet(), sp.augment.random_low_resolution()]},
    ],
    ids=["one", "several", "turned", "grid", "changed", "moved", "moved across planes", "nnunet"],
)
def test_boxes_of_volumes_are_those_of_the_host(volumes: Path, options: dict[str, Any], resident: bool) -> None:
    stats = compare(volumes, epochs=2, rows=6, cube="patch8x16x16", resident=resident, **options)
    assert (stats["refused"], stats["device_rows"] > 0) == ({}, True)
    assert not resident or stats["resident_values"] > 0


def test_whole_volumes_are_those_of_the_host(volumes: Path) -> None:
    stats = compare(volumes, epochs=2, rows=4, dtype={"volume": "float32"})
    assert (stats["refused"], stats["device_rows"] > 0) == ({}, True)


def test_no_data_is_filled_as_on_the_host(tmp_path: Path) -> None:
    options: dict[str, Any] = {"no_data": -1.0, "mean": {"cube": 2.0}, "std": {"cube": 3.0}, "dtype": {"cube": "float16"}}
    stats = compare(scenes(tmp_path, "int16"), epochs=2, rows=4, fields=["cube"], **options)
    assert (stats["refused"], stats["device_rows"] > 0) == ({}, True)


def test_cubes_as_they_are_packed_for_a_device(tmp_path: Path, cube_values: list[np.ndarray]) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number, values in enumerate(cube_values):
        np.save(source / f"{number:03}.npy", values.astype(np.float16))
    for codec in ("blosc2-lz4", "blosc2-zstd", "zstd", "raw"):
        out = pack(source, tmp_path / codec, "--values", "keep", "--codec", codec)
        stats = compare(out, rows=6, dtype="float32")
        # The host decodes plain zstd.
        rows = 0 if codec == "zstd" else len(cube_values) // 6 * 6
        assert (stats["refused"], stats["device_rows"]) == ({}, rows), codec


def test_fields_that_the_device_does_not_decode(big: Path, tmp_path: Path) -> None:
    compare(big, image="raw")
    buffer = io.BytesIO()
    Image.fromarray(np.zeros((80, 90, 3), np.uint8) + 7).save(buffer, "JPEG")
    with sp.Writer(tmp_path / "mixed") as writer:
        for number in range(20):
            sample = {"image": buffer.getvalue(), "caption": f"number {number}", "label": number, "x": np.arange(number % 3)}
            writer.write(sample, key=f"{number:02}")
    with loader(tmp_path / "mixed", 5, image="rrc32", fields=["image", "label", "caption", "x"]) as device:
        for images, labels, captions, lists in device:
            assert images.is_cuda and labels.is_cuda
            assert captions == [f"number {number}" for number in labels.tolist()]
            assert [one.tolist() for one in lists] == [list(range(number % 3)) for number in labels.tolist()]


def test_png_and_unusual_jpegs_are_decoded_by_the_host_and_counted(tmp_path: Path) -> None:
    source, rng = tmp_path / "source" / "all", np.random.default_rng(3)
    source.mkdir(parents=True)
    for number in range(24):
        picture = Image.fromarray(rng.integers(0, 256, (50, 70, 3)).astype(np.uint8))
        match number % 3:
            case 0:
                picture.save(source / f"{number:02}.jpg", quality=90)
            case 1:
                picture.save(source / f"{number:02}.png")
            case _:
                picture.convert("CMYK").save(source / f"{number:02}.jpg", quality=90)
    stats = compare(pack(source.parent, tmp_path / "packed"), rows=8, image="rrc48")
    assert sum(stats["refused"].values()) >= 16, stats["refused"]


@pytest.mark.parametrize("layout", ["hwc", "chw"])
@pytest.mark.parametrize("floats", [{}, NORMALISED, {"dtype": {"image": "bfloat16"}}], ids=["uint8", "float16", "bfloat16"])
@pytest.mark.parametrize("image", ["rrc224", "pad96", "full", "short60..200,step=20"])
def test_rows_that_the_host_decodes(big: Path, image: str, floats: dict[str, Any], layout: str) -> None:
    options = {"image": image, "layout": layout, "decode": "host", **floats}
    compare(big, **options)
    with loader(big, **options) as device:
        next(iter(device))
        stats = device.stats()
        assert (stats["device_rows"], stats["refused"]) == (0, {}) and stats["predicted_device_bytes"] > 0


def test_cubes_that_the_host_decodes(cubes: Path) -> None:
    compare(cubes, 4, decode="host", dtype={"cube": "float32"}, augment=["hflip", "rot90"])
    compare(cubes, 4, decode="host", cube="patch16x16", patches_per_sample=3)


def test_a_transform_changes_rows_before_they_go_to_the_device(big: Path) -> None:
    def invert(row: sp.Row) -> None:
        row["image"][...] = 255 - row["image"]

    options: dict[str, Any] = {"image": "rrc64", "seed": 2, "transform": invert}
    with loader(big, decode="auto", **options) as device, on_host(big, **options) as host:
        for mine, theirs in zip(device, host, strict=True):
            same(mine["image"], theirs["image"])
            same(mine["label"], theirs["label"])


def test_padding_is_zero_and_marked(big: Path) -> None:
    with loader(big, 40, image="center64", end="pad") as device:
        *_, last = device
        assert last.mask.is_cuda and last.mask.tolist() == [True] * 16 + [False] * 24
        assert last["image"][16:].count_nonzero() == 0 and last["image"][:16].count_nonzero() > 0
        assert last.present("image").tolist() == last.mask.tolist()


def test_a_damaged_picture_harms_no_other(big: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(big, copy)
    stored = sp.Dataset(big).raw(7, "image")
    assert stored is not None
    shard = next(shard for shard in copy.glob("*.shard") if stored in shard.read_bytes())
    content = bytearray(shard.read_bytes())
    middle = content.index(stored) + len(stored) // 2
    content[middle : middle + 40] = bytes(byte ^ 0x5A for byte in content[middle : middle + 40])
    shard.write_bytes(content)
    # With checksums, the host finds the damage. Without them, the device does.
    for check in (True, False):
        damaged = sp.Dataset(copy, verify_crc=check)
        with (
            loader(damaged, image="center64", shuffle=False, skip_corrupt=5) as device,
            on_host(big, image="center64", shuffle=False) as host,
        ):
            for number, (mine, theirs) in enumerate(zip(device, host, strict=True)):
                others = [row for row in range(16) if number * 16 + row != 7]
                same(mine["image"][others], theirs["image"][others])
            stats = device.stats()
            assert stats["device_rows"] > 0
            if check:
                assert stats["skipped"] == 1
            else:
                # The device finds the damage, or the host does when it searches for markers. No other row is refused.
                assert sum(stats["refused"].values()) == 1, stats["refused"]
