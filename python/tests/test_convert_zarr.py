"""Tests conversion from Zarr groups."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_support import content, kinds, pixels

import shardpack as sp

zarr = pytest.importorskip("zarr", minversion="3")


def strings(group: Any, name: str, values: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        group.create_array(name, shape=(len(values),), dtype="string")[:] = np.array(values, np.dtypes.StringDType())


def cubes() -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).normal(size=(5, 4, 3, 6)).astype(np.float32)


@pytest.mark.parametrize("version", [2, 3])
def test_rows(tmp_path: Path, version: int) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=version)
    group.create_array("cube", data=cubes(), chunks=(2, 4, 3, 6))
    group.create_array("label", data=np.arange(5, dtype=np.int16) % 2)
    group.create_array("image", data=np.stack([pixels(i) for i in range(5)]))
    group.attrs["classes"] = ["soil", "water"]
    sp.convert("zarr", tmp_path / "a.zarr", tmp_path / "out")
    assert kinds(tmp_path / "out") == {"cube": "array", "image": "image", "label": "int16"}
    assert sp.Dataset(tmp_path / "out").classes == ["soil", "water"]
    found = content(tmp_path / "out")
    for i in range(5):
        sample = found[f"{i:08d}"]
        assert (
            np.array_equal(sample["cube"], cubes()[i])
            and sample["label"] == i % 2
            and np.array_equal(sample["image"], pixels(i))
        )


def test_keys_text_and_arrays_of_varying_shape(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    strings(group, "__key__", ["a", "b", "c"])
    strings(group, "caption", ["x", "grün", ""])
    for i in range(3):
        group.create_array(f"cube/{i:02d}", data=np.full((i + 1, 2), i, np.uint16))
    sp.convert("zarr", tmp_path / "a.zarr", tmp_path / "out")
    found = content(tmp_path / "out")
    for i, key in enumerate("abc"):
        assert (
            np.array_equal(found[key]["cube"], np.full((i + 1, 2), i)) and found[key]["caption"] == ["x", "grün", ""][i]
        )


def test_one_array_and_one_array_or_group_for_each_sample(tmp_path: Path) -> None:
    zarr.create_array(str(tmp_path / "one.zarr"), data=cubes())
    sp.convert("zarr", tmp_path / "one.zarr", tmp_path / "rows")
    assert np.array_equal(content(tmp_path / "rows")["00000003"]["array"], cubes()[3])

    group = zarr.open_group(tmp_path / "arrays.zarr", mode="w")
    for i in range(3):
        group.create_array(f"cube {i}", data=np.full((i + 1, 2), i, np.uint16))
    sp.convert("zarr", tmp_path / "arrays.zarr", tmp_path / "arrays")
    assert content(tmp_path / "arrays")["cube 2"]["array"].shape == (3, 2)

    group = zarr.open_group(tmp_path / "groups.zarr", mode="w")
    for i in range(3):
        group.create_array(f"s{i}/cube", data=np.full((i + 1, 2), i, np.uint16))
        group.create_array(f"s{i}/mask", data=np.full((i + 1,), True))
    sp.convert("zarr", tmp_path / "groups.zarr", tmp_path / "groups", rename={"mask": "valid"})
    assert content(tmp_path / "groups")["s1"]["valid"].tolist() == [True, True]


def test_attributes_of_samples_are_columns_or_a_note(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    for i in range(2):
        sample = group.create_group(f"s{i}")
        sample.create_array("cube", data=np.full((2, 2), i, np.float32))
        sample.attrs["label"] = i
    with pytest.warns(UserWarning, match="group attributes are not converted: 'label'"):
        sp.convert("zarr", tmp_path / "a.zarr", tmp_path / "out")
    sp.convert("zarr", tmp_path / "a.zarr", tmp_path / "taken", attributes=True)
    assert [content(tmp_path / "taken")[f"s{i}"]["label"] for i in range(2)] == [0, 1]


def test_a_zip(tmp_path: Path) -> None:
    store = zarr.storage.ZipStore(tmp_path / "a.zarr.zip", mode="w")
    zarr.open_group(store, mode="w").create_array("cube", data=cubes())
    store.close()
    sp.convert("zarr", tmp_path / "a.zarr.zip", tmp_path / "out")
    assert np.array_equal(content(tmp_path / "out")["00000004"]["cube"], cubes()[4])


def test_what_cannot_be_taken_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot open the Zarr group or array"):
        sp.convert("zarr", tmp_path, tmp_path / "out")
    with pytest.raises(FileNotFoundError):
        sp.convert("zarr", tmp_path / "missing", tmp_path / "out")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    with pytest.raises(ValueError, match=r"found neither arrays nor groups"):
        sp.convert("zarr", tmp_path / "a.zarr", tmp_path / "out")
    group.create_array("x", data=np.zeros((3, 2), np.complex64))
    with pytest.raises(
        ValueError, match=r"1 column cannot be converted\n  x: unsupported element type complex64\nhint: pass drop=\['x'\]"
    ):
        sp.convert("zarr", tmp_path / "a.zarr", tmp_path / "out")


def test_a_damaged_chunk_is_named(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("x", data=cubes(), chunks=(5, 4, 3, 6))
    (chunk,) = (path for path in (tmp_path / "a.zarr/x").rglob("*") if path.is_file() and path.name != "zarr.json")
    for data in (b"", chunk.read_bytes()[:-5]):
        chunk.write_bytes(data)
        with pytest.raises(ValueError, match=r"a\.zarr`, row 0: "):
            sp.convert("zarr", tmp_path / "a.zarr", tmp_path / "out")


def test_a_damaged_chunk_takes_no_other_with_it(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("x", data=np.arange(50), chunks=(5,))
    (tmp_path / "a.zarr/x/c/3").write_bytes(b"")
    report = sp.convert("zarr", tmp_path / "a.zarr", tmp_path / "out", on_bad_input="skip")
    assert (report["samples"], report["samples_skipped"], report["samples_skipped_exact"]) == (45, 5, True)
