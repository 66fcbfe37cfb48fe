"""Tests conversion from NIfTI files."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_support import content, kinds

import shardpack as sp

nibabel = pytest.importorskip("nibabel")


def volume(seed: int, shape: tuple[int, ...] = (6, 5, 4), dtype: Any = np.int16) -> np.ndarray[Any, Any]:
    """Returns values in nibabel's order, `[x, y, z]`."""
    return np.random.default_rng(seed).integers(-1000, 1000, shape).astype(dtype)


AFFINE = np.diag([0.5, 0.75, 2.0, 1.0])


def save(
    path: Path, values: np.ndarray[Any, Any], *, slope: float | None = None, intercept: float = 0.0, affine: Any = AFFINE
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = nibabel.Nifti1Image(values, affine, dtype=values.dtype)
    image.header.set_xyzt_units("mm", "sec")
    image.header["descrip"] = b"a phantom"
    if slope is not None:
        image.header.set_slope_inter(slope, intercept)
    nibabel.save(image, path)


def test_volumes_keep_every_bit_and_their_place(tmp_path: Path) -> None:
    save(tmp_path / "src" / "a.nii", volume(0))
    save(tmp_path / "src" / "deep" / "b.nii.gz", volume(1, (3, 4, 5)))
    (tmp_path / "src" / "README.txt").write_text("no volume")
    report = sp.convert("nifti", tmp_path / "src", tmp_path / "out")
    assert report["samples"] == 2
    assert kinds(tmp_path / "out") == {"affine": "array", "meta": "json", "volume": "array"}
    found = content(tmp_path / "out")
    assert sorted(found) == ["a.nii", "deep/b.nii.gz"]
    for key, seed, shape in (("a.nii", 0, (6, 5, 4)), ("deep/b.nii.gz", 1, (3, 4, 5))):
        stored = found[key]["volume"]
        assert stored.dtype == np.int16 and np.array_equal(stored, volume(seed, shape).T)
    assert np.array_equal(found["a.nii"]["affine"], np.diag([0.5, 0.75, 2.0, 1.0]))
    meta = found["a.nii"]["meta"]
    assert meta == {"axes": ["z", "y", "x"], "zooms": [2.0, 0.75, 0.5], "units": ["mm", "sec"], "description": "a phantom"}


def test_channels_stand_where_they_are_asked_for(tmp_path: Path) -> None:
    """One file has several modalities, as in BraTS and the Medical Segmentation Decathlon."""
    values = volume(0, (6, 5, 4, 3))
    save(tmp_path / "src" / "a.nii", values)
    save(tmp_path / "labels" / "a.nii", volume(1) % 3)
    options: dict[str, Any] = {"masks": str(tmp_path / "labels")}
    with pytest.warns(UserWarning, match=r"field `volume`: the file does not say .*, so it is treated as time: \[t = 3, z = 4, y = 5, x = 6\] \(`.*a.nii`\)"):
        report = sp.convert("nifti", tmp_path / "src", tmp_path / "time", **options)
    assert len(report["notes"]) == 1 and "pass channels='last' to store [z, y, x, c]" in report["notes"][0]
    found = content(tmp_path / "time")["a.nii"]
    assert np.array_equal(found["volume"], values.T) and found["meta"]["axes"] == ["t", "z", "y", "x"]
    save(tmp_path / "src" / "b.nii", volume(2, (6, 5, 4)))
    save(tmp_path / "labels" / "b.nii", volume(1) % 3)
    for channels, axes, move in (("last", ["z", "y", "x", "c"], -1), ("first", ["c", "z", "y", "x"], 0)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            report = sp.convert("nifti", tmp_path / "src", tmp_path / channels, channels=channels, **options)
        found = content(tmp_path / channels)
        assert report["notes"] == [] and np.array_equal(found["a.nii"]["volume"], np.moveaxis(values.T, 0, move))
        assert np.array_equal(found["b.nii"]["volume"], np.expand_dims(volume(2).T, move))
        for key in ("a.nii", "b.nii"):
            assert found[key]["meta"]["axes"] == axes and len(found[key]["meta"]["zooms"]) == 4
            assert found[key]["meta"]["zooms"][axes.index("z")] == 2.0 and found[key]["mask"].shape == (4, 5, 6)
    # A loader must be able to cut boxes along the spatial axes.
    save(tmp_path / "boxes" / "a.nii", values)
    sp.convert("nifti", tmp_path / "boxes", tmp_path / "boxed", channels="last", **options)
    batch = next(iter(sp.Loader(sp.Dataset(tmp_path / "boxed"), 2, cube="patch3x4x4", patches_per_sample=2)))
    assert batch["volume"].shape == (2, 3, 4, 4, 3) and batch["mask"].shape == (2, 3, 4, 4)


def test_vectors_are_channels_too(tmp_path: Path) -> None:
    values = volume(0, (6, 5, 4, 1, 3))
    save(tmp_path / "a.nii", values)
    sp.convert("nifti", tmp_path / "a.nii", tmp_path / "out", channels="last")
    assert np.array_equal(content(tmp_path / "out")["a.nii"]["volume"], np.moveaxis(values[:, :, :, 0].T, 0, -1))
    save(tmp_path / "b.nii", volume(0, (6, 5, 4, 2, 3)))
    with pytest.raises(ValueError, match=r"b.nii`: channels='\w+' needs a volume with 3 or 4 axes, but this volume has shape \[3, 2, 4, 5, 6\]"):
        sp.convert("nifti", tmp_path / "b.nii", tmp_path / "b", channels="last")
    with pytest.raises(ValueError, match="channels: expected 'first' or 'last', found: 'end'"):
        sp.convert("nifti", tmp_path / "a.nii", tmp_path / "b", channels="end")


def test_scaled_values_are_nibabels(tmp_path: Path) -> None:
    path = tmp_path / "a.nii"
    save(path, np.zeros((4, 3, 2), np.int16))
    # Slope and intercept are at byte 112 of the header, and the values start at byte 352.
    data = bytearray(path.read_bytes())
    data[112:120] = np.array([0.5, -3.0], "<f4").tobytes()
    numbers = volume(3, (4, 3, 2))
    data[352:] = numbers.astype("<i2").tobytes(order="F")
    path.write_bytes(bytes(data))
    sp.convert("nifti", path, tmp_path / "out")
    scaled = content(tmp_path / "out")["a.nii"]["volume"]
    assert scaled.dtype == np.float64 and np.array_equal(scaled, (numbers * 0.5 - 3.0).T)
    assert np.array_equal(scaled, np.asanyarray(nibabel.load(path).dataobj).T)
    sp.convert("nifti", path, tmp_path / "raw", scaled=False)
    raw = content(tmp_path / "raw")["a.nii"]
    assert raw["volume"].dtype == np.int16 and np.array_equal(raw["volume"], numbers.T)
    assert (raw["meta"]["slope"], raw["meta"]["intercept"]) == (0.5, -3.0)


def test_masks_of_another_folder(tmp_path: Path) -> None:
    for name in ("liver_1", "liver_2"):
        save(tmp_path / "imagesTr" / f"{name}_0000.nii.gz", volume(1))
        # Many tools write labels as floats.
        save(tmp_path / "labelsTr" / f"{name}.nii.gz", (volume(2) % 3).astype(np.float32))
    sp.convert("nifti", tmp_path / "imagesTr", tmp_path / "out", masks=str(tmp_path / "labelsTr"), drop=["affine"])
    found = content(tmp_path / "out")
    assert "affine" not in found["liver_1_0000.nii.gz"] and "mask" in found["liver_1_0000.nii.gz"]
    mask = found["liver_2_0000.nii.gz"]["mask"]
    assert mask.dtype == np.uint8 and np.array_equal(mask, (volume(2) % 3).T)
    loader = sp.Loader(sp.Dataset(tmp_path / "out"), batch_size=2, fields=["volume", "mask"])
    batch = next(iter(loader))
    assert batch["volume"].shape == batch["mask"].shape == (2, 4, 5, 6)

    save(tmp_path / "labelsTr" / "liver_2.nii.gz", np.full((6, 5, 4), 0.5, np.float32))
    with pytest.raises(ValueError, match="class numbers must be integers, found 0.5"):
        sp.convert("nifti", tmp_path / "imagesTr", tmp_path / "b", masks=str(tmp_path / "labelsTr"))
    save(tmp_path / "labelsTr" / "liver_2.nii.gz", np.zeros((6, 5, 3), np.uint8))
    with pytest.raises(ValueError, match=r"the mask has shape \[3, 5, 6\], but its volume has shape \[4, 5, 6\]"):
        sp.convert("nifti", tmp_path / "imagesTr", tmp_path / "b", masks=str(tmp_path / "labelsTr"))
    (tmp_path / "labelsTr" / "liver_2.nii.gz").unlink()
    report = sp.convert("nifti", tmp_path / "imagesTr", tmp_path / "b", masks=str(tmp_path / "labelsTr"), on_bad_input="skip")
    assert report["samples"] == 1 and "`liver_2_0000.nii.gz`: this volume has no mask: expected a file such as" in report["skipped"][0]["reason"]


def test_a_mask_lies_where_its_volume_does(tmp_path: Path) -> None:
    save(tmp_path / "images" / "a.nii", volume(1))
    save(tmp_path / "images" / "b.nii", volume(2))
    save(tmp_path / "labels" / "a.nii", (volume(3) % 3).astype(np.uint8))
    options: dict[str, Any] = {"masks": str(tmp_path / "labels"), "force": True}
    moved = AFFINE.copy()
    moved[0, 3] = 0.4
    for other in (np.diag([-0.5, 0.75, 2.0, 1.0]), np.diag([0.5, 0.75, 2.5, 1.0]), np.eye(4), moved):
        save(tmp_path / "labels" / "b.nii", (volume(4) % 3).astype(np.uint8), affine=other)
        with pytest.raises(sp.SourceError) as raised:
            sp.convert("nifti", tmp_path / "images", tmp_path / "out", **options)
        said = str(raised.value)
        assert "b.nii`: the mask is not aligned with its volume `" in said
        assert "images/b.nii`: their affines place the corners up to " in said
        assert "(mask: [[" in said and "volume: [[0.5, 0, 0, 0], [0, 0.75, 0, 0], [0, 0, 2, 0]])" in said
        assert "hint: resample the mask" in said and not (tmp_path / "out").exists()
        report = sp.convert("nifti", tmp_path / "images", tmp_path / "some", on_bad_input="skip", **options)
        assert (report["samples"], report["samples_skipped"]) == (1, 1)
        sp.convert("nifti", tmp_path / "images", tmp_path / "any", any_affine=True, **options)
        assert np.array_equal(content(tmp_path / "any")["b.nii"]["mask"], (volume(4) % 3).T)
    # Accept affines that are rounded, or stored as quaternions.
    turn = np.eye(4)
    turn[:2, :2] = [[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]]
    save(tmp_path / "images" / "b.nii", volume(2), affine=turn @ AFFINE)
    image = nibabel.Nifti1Image((volume(4) % 3).astype(np.uint8), None)
    image.set_qform(np.round(turn @ AFFINE, 4), code=1)
    nibabel.save(image, tmp_path / "labels" / "b.nii")
    assert sp.convert("nifti", tmp_path / "images", tmp_path / "out", **options)["samples"] == 2


def test_bad_files_are_named(tmp_path: Path) -> None:
    save(tmp_path / "src" / "a.nii", volume(0))
    whole = (tmp_path / "src" / "a.nii").read_bytes()
    huge = bytearray(whole)
    huge[40:48] = np.array([3, 30000, 30000, 30000], "<i2").tobytes()
    bad = {
        "cut.nii": (whole[:-7], "cannot read the NIfTI file"),
        "empty.nii": (b"", "cannot read the NIfTI file"),
        "huge.nii": (bytes(huge), "a sample needs 54000000000000 bytes, but max_sample_bytes is 4294967296"),
        "text.nii.gz": (gzip.compress(b"hello"), "cannot read the NIfTI file"),
    }
    for name, (data, _) in bad.items():
        (tmp_path / "src" / name).write_bytes(data)
    report = sp.convert("nifti", tmp_path / "src", tmp_path / "out", on_bad_input="skip")
    assert report["samples"] == 1 and report["samples_skipped"] == len(bad)
    for (name, (_, expected)), skipped in zip(sorted(bad.items()), report["skipped"], strict=True):
        assert f"{name}`: {expected}" in skipped["reason"]
    with pytest.raises(ValueError, match=r"cut.nii`: cannot read the NIfTI file"):
        sp.convert("nifti", tmp_path / "src" / "cut.nii", tmp_path / "b")
    assert not (tmp_path / "b").exists()
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match="found no NIfTI files"):
        sp.convert("nifti", tmp_path / "none", tmp_path / "b")
    with pytest.raises(FileNotFoundError):
        sp.convert("nifti", tmp_path / "nowhere", tmp_path / "b")
    with pytest.raises(ValueError, match="`drop` names an unknown column"):
        sp.convert("nifti", tmp_path / "src", tmp_path / "b", drop=["mask"])


def test_pictures_of_two_axes_have_masks_too(tmp_path: Path) -> None:
    save(tmp_path / "src" / "a.nii", volume(0, (6, 5)))
    save(tmp_path / "labels" / "a.nii", volume(1, (6, 5)) % 3)
    sp.convert("nifti", tmp_path / "src", tmp_path / "out", masks=tmp_path / "labels")
    assert content(tmp_path / "out")["a.nii"]["mask"].shape == (5, 6)
