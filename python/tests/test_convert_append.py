"""Tests adding new deliveries with `convert(…, append=True)` and `shardpack convert … --append`."""

from __future__ import annotations

import io
import json
import tarfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_support import content, jpeg
from test_append import same, whole

import shardpack as sp
from shardpack._command import run


def tar(path: Path, numbers: range, labels: list[str] | None = None, **more: bytes) -> Path:
    with tarfile.open(path, "w") as file:
        for number in numbers:
            label = str(number % 2) if labels is None else labels[number % len(labels)]
            for name, data in ({"jpg": jpeg(number), "cls": label.encode(), "txt": f"text {number}".encode()} | more).items():
                info = tarfile.TarInfo(f"photos/{number:03}.{name}")
                info.size = len(data)
                file.addfile(info, io.BytesIO(data))
    return path


def test_tars_of_two_weeks_are_those_of_one(tmp_path: Path) -> None:
    one, two, both = (tar(tmp_path / f"{name}.tar", numbers) for name, numbers in
                      (("one", range(6)), ("two", range(6, 10)), ("both", range(10))))
    options: dict[str, Any] = {"classes": ["cat", "dog"]}
    sp.convert("webdataset", both, tmp_path / "both", **options)
    sp.convert("webdataset", one, tmp_path / "out", **options)
    report = sp.convert("webdataset", two, tmp_path / "out", append=True, **options)
    assert (report["samples"], report["samples_of_dataset"], report["generation"]) == (4, 10, 2)
    assert (report["new_classes"], report["known"], report["skipped"], report["format"]) == ([], 0, [], "webdataset")
    same(tmp_path / "both", tmp_path / "out")
    assert len(sp.Dataset(tmp_path / "out", generation=1)) == 6
    whole(tmp_path / "out")
    # Without `classes`, labels refer to the dataset's classes, and unknown names become new classes.
    three = tar(tmp_path / "three.tar", range(20, 23), ["owl", "dog", "cat"])
    report = sp.convert("webdataset", three, tmp_path / "out", append=True, classes=["owl", "cat", "dog"])
    assert report["new_classes"] == ["owl"]
    dataset = sp.Dataset(tmp_path / "out")
    assert dataset.classes == ["cat", "dog", "owl"]
    assert [dataset.by_key(f"photos/{number:03}")["label"] for number in (20, 21, 22)] == [0, 2, 1]


def test_keys_that_are_there(tmp_path: Path) -> None:
    sp.convert("webdataset", tar(tmp_path / "one.tar", range(4)), tmp_path / "out")
    again = tar(tmp_path / "again.tar", range(3, 6))
    for skip in ("stop", "skip"):
        with pytest.raises(ValueError, match="photos/003.*the dataset already has a sample with this key"):
            sp.convert("webdataset", again, tmp_path / "out", append=True, on_bad_input=skip)
    assert sp.Dataset(tmp_path / "out").generation == 1
    report = sp.convert("webdataset", again, tmp_path / "out", append=True, on_known_key="skip")
    assert (report["samples"], report["known"], report["samples_of_dataset"]) == (2, 1, 6)
    report = sp.convert("webdataset", again, tmp_path / "out", append=True, on_known_key="skip")
    assert (report["outcome"], report["samples"], report["known"]) == ("already-complete", 0, 3)


def test_columns_must_be_the_fields_of_the_dataset(tmp_path: Path) -> None:
    sp.convert("webdataset", tar(tmp_path / "one.tar", range(4)), tmp_path / "out")
    more = tar(tmp_path / "more.tar", range(4, 6), json=b"{}")
    with pytest.raises(ValueError, match=r"photos/004.*: the dataset has no field `json` .*\nhint: pass drop=\['json'\]"):
        sp.convert("webdataset", more, tmp_path / "out", append=True)
    with pytest.raises(ValueError, match=r"photos/004.*: the dataset has a field `text` of kind text, but the source has no column for it"):
        sp.convert("webdataset", more, tmp_path / "out", append=True, drop=["txt", "json"])
    with pytest.raises(ValueError, match=r"photos/004.*: field `text`: expected text, found"):
        sp.convert("webdataset", more, tmp_path / "out", append=True, drop=["txt"], rename={"json": "text"})
    with pytest.raises(ValueError, match="jpeg: the dataset was written with keep, not tile"):
        sp.convert("webdataset", more, tmp_path / "out", append=True, drop=["json"], jpeg="tile")
    assert sp.Dataset(tmp_path / "out").generation == 1
    sp.convert("webdataset", more, tmp_path / "out", append=True, drop=["json"])
    assert len(sp.Dataset(tmp_path / "out")) == 6


def test_no_dataset_and_one_too_many(tmp_path: Path) -> None:
    one = tar(tmp_path / "one.tar", range(2))
    with pytest.raises(ValueError, match="is not a dataset: it has no manifest.json\nhint: omit `append=True`"):
        sp.convert("webdataset", one, tmp_path / "out", append=True)
    sp.convert("webdataset", one, tmp_path / "out")
    with pytest.raises(ValueError, match="`append=True` to add to it"):
        sp.convert("webdataset", one, tmp_path / "out")
    with pytest.raises(TypeError, match="on_known_key needs append=True"):
        sp.convert("webdataset", one, tmp_path / "out", on_known_key="skip")


def coco(root: Path, names: list[str], objects: dict[int, list[str]]) -> Path:
    """Writes pictures by number, with the classes of their objects."""
    (root / "annotations").mkdir(parents=True)
    (root / "val2017").mkdir()
    ids = {name: 3 + 10 * number for number, name in enumerate(names)}
    annotations: list[dict[str, Any]] = []
    for number, of in objects.items():
        (root / "val2017" / f"{number}.jpg").write_bytes(jpeg(number))
        for name in of:
            annotations.append({
                "id": len(annotations), "image_id": number, "category_id": ids[name], "bbox": [1, 2, 3, 4], "area": 12.0, "iscrowd": 0,
            })  # fmt: skip
    path = root / "annotations" / "instances_val2017.json"
    path.write_text(json.dumps({
        "images": [{"id": number, "file_name": f"{number}.jpg"} for number in objects],
        "annotations": annotations, "categories": [{"id": number, "name": name} for name, number in ids.items()],
    }))  # fmt: skip
    return path


def test_coco_of_another_week_counts_its_classes_otherwise(tmp_path: Path) -> None:
    first = coco(tmp_path / "first", ["cat", "dog"], {1: ["cat", "dog"], 2: ["dog"]})
    week = coco(tmp_path / "week", ["owl", "dog", "cat"], {3: ["owl", "cat"], 4: [], 5: ["dog"]})
    sp.convert("coco", first, tmp_path / "out")
    report = sp.convert("coco", week, tmp_path / "out", append=True)
    assert (report["samples"], report["new_classes"]) == (3, ["owl"])
    dataset = sp.Dataset(tmp_path / "out")
    assert dataset.classes == ["cat", "dog", "owl"]
    found = {key: [dataset.classes[number] for number in values["classes"]] for key, values in content(dataset).items()}
    assert found == {"1.jpg": ["cat", "dog"], "2.jpg": ["dog"], "3.jpg": ["owl", "cat"], "4.jpg": [], "5.jpg": ["dog"]}
    whole(tmp_path / "out")


def test_samples_without_keys_are_counted_on(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for name, values in (("one", [1.0, 2.0]), ("two", [3.0])):
        pq.write_table(pa.table({"x": values}), tmp_path / f"{name}.parquet")
    sp.convert("parquet", tmp_path / "one.parquet", tmp_path / "out")
    sp.convert("parquet", tmp_path / "two.parquet", tmp_path / "out", append=True)
    assert {key: values["x"] for key, values in content(tmp_path / "out").items()} == {"00000000": 1.0, "00000001": 2.0, "00000002": 3.0}


def test_volumes_of_another_week_have_the_type_of_the_first(tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel")

    def save(path: Path, values: np.ndarray[Any, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        nibabel.save(nibabel.Nifti1Image(values, np.eye(4), dtype=values.dtype), path)

    random = np.random.default_rng(0)
    volumes: dict[str, Any] = {f"{name}.nii": random.integers(0, 200, (4, 5, 6)).astype(dtype) for name, dtype in (("a", np.int16), ("b", np.uint8), ("c", np.int16))}
    for name, values in volumes.items():
        for folder in ("all", "first" if name == "a.nii" else "week"):
            save(tmp_path / folder / name, values)
            save(tmp_path / f"{folder}-masks" / name, (values > 100).astype(np.uint8))
    for folder in ("all", "first", "week"):
        out = tmp_path / ("whole" if folder == "all" else "out")
        sp.convert("nifti", tmp_path / folder, out, masks=str(tmp_path / f"{folder}-masks"), append=folder == "week")
    found = content(tmp_path / "out")
    assert {values["volume"].dtype.name for values in found.values()} == {"int16"}
    assert all(np.array_equal(found[key]["volume"], values.T) for key, values in volumes.items())
    assert content(tmp_path / "whole").keys() == found.keys()
    save(tmp_path / "wide" / "d.nii", np.full((4, 5, 6), 1e9, np.float32))
    save(tmp_path / "wide-masks" / "d.nii", np.zeros((4, 5, 6), np.uint8))
    with pytest.raises(ValueError, match="d.nii`: field `volume`: cannot store float32 values from .* exactly as int16 .the type of this field in the dataset."):
        sp.convert("nifti", tmp_path / "wide", tmp_path / "out", masks=str(tmp_path / "wide-masks"), append=True)
    whole(tmp_path / "out")


def test_the_command_adds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = tar(tmp_path / "one.tar", range(4)), tar(tmp_path / "two.tar", range(3, 6), ["0", "1"])
    out = str(tmp_path / "out")
    assert run(["convert", "webdataset", str(one), out, "--append"]) == 2
    assert "hint: omit `--append` to create a new dataset there" in capsys.readouterr().err
    assert run(["convert", "webdataset", str(one), out, "--classes", "cat,dog"]) == 0
    assert run(["convert", "webdataset", str(two), out]) == 2
    assert "`--append` to add to it" in capsys.readouterr().err
    assert run(["convert", "webdataset", str(two), out, "--append"]) == 2
    error = capsys.readouterr().err
    assert "photos/003" in error and "hint: pass `--on-known-key skip` to skip samples whose keys are already in the dataset" in error
    assert run(["convert", "webdataset", str(two), out, "--append", "--on-known-key", "skip", "--classes", "owl,dog"]) == 0
    said = capsys.readouterr().out
    assert f"added 2 samples to `{out}`" in said and "generation 2 with 6 samples" in said
    assert "new classes: owl" in said and "left out because the dataset already has their keys: 1" in said
    assert run(["convert", "webdataset", str(two), out, "--append", "--on-known-key", "skip", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "already-complete"


def test_switches_that_are_on_can_be_turned_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(["convert", "nifti", "--help"])
    assert "--scaled, --no-scaled" in capsys.readouterr().out
    nibabel = pytest.importorskip("nibabel")
    image = nibabel.Nifti1Image(np.arange(24, dtype=np.int16).reshape(2, 3, 4), np.eye(4))
    image.header.set_slope_inter(2.0, 1.0)
    nibabel.save(image, tmp_path / "a.nii")
    for number, (options, dtype) in enumerate([([], "float64"), (["--scaled"], "float64"), (["--no-scaled"], "int16")]):
        out = tmp_path / f"out-{number}"
        with warnings.catch_warnings():
            assert run(["convert", "nifti", str(tmp_path / "a.nii"), str(out), *options]) == 0
        assert sp.Dataset(out)[0]["volume"].dtype.name == dtype
