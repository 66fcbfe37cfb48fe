"""Tests `Writer(…, append=True)`, which adds a program's samples to a dataset as its next generation."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_support import content, jpeg
from PIL import Image
from test_writer import files

import shardpack as sp

CLASSES = ["cat", "dog"]


def sample(number: int) -> dict[str, Any]:
    """Returns a sample with a field of each kind."""
    random = np.random.default_rng(number)
    return {
        "image": jpeg(number),
        "mask": random.integers(0, 5, (24, 40), np.uint8),
        "boxes": random.random((number % 3, 4), np.float32),
        "caption": "none" if number % 4 != 3 else None,
        "meta": {"number": number},
        "blob": bytes([number % 256] * 5),
        "label": CLASSES[number % 2],
        "score": number / 7,
    }


def write(path: Path, numbers: Iterable[int], **options: Any) -> dict[str, Any]:
    options = {"classes": CLASSES, "shard_size": "16KiB", "values": "keep"} | options if not options.get("append") else options
    with sp.Writer(path, **options) as writer:
        for number in numbers:
            writer.write(sample(number), key=f"s/{number:03}")
    assert writer.report is not None
    return writer.report


def whole(path: Path, generation: int | None = None) -> None:
    report = sp.verify(path, deep=True, digest=True, generation=generation)
    assert report["whole"], report["problems"]


def same(one: Any, other: Any) -> None:
    first, second = content(one, "image"), content(other, "image")
    assert sorted(first) == sorted(second)
    for key, values in first.items():
        assert values.keys() == second[key].keys()
        for field, value in values.items():
            np.testing.assert_equal(value, second[key][field], f"{key}: {field}")


@pytest.mark.parametrize("options", [{}, {"jpeg": "keep"}, {"shuffle": False}, {"jpeg": "reencode", "quality": 80}], ids=str)
def test_a_dataset_in_two_parts_has_the_samples_of_one(tmp_path: Path, options: dict[str, Any]) -> None:
    write(tmp_path / "one", range(20), **options)
    write(tmp_path / "two", range(12), **options)
    before = files(tmp_path / "two")
    report = write(tmp_path / "two", range(12, 20), append=True)
    assert (report["outcome"], report["samples"], report["samples_of_dataset"], report["generation"]) == ("complete", 8, 20, 2)
    assert (report["new_classes"], report["known"], report["notes"]) == ([], 0, [])
    after = files(tmp_path / "two")
    assert all(after[name] == held for name, held in before.items() if name != "manifest.json")
    one, two = sp.Dataset(tmp_path / "one"), sp.Dataset(tmp_path / "two")
    assert (one.schema, one.classes) == (two.schema, two.classes)
    same(one, two)
    assert len(sp.Dataset(tmp_path / "two", generation=1)) == 12
    for generation in (1, 2, None):
        whole(tmp_path / "two", generation)


def test_lists_tensors_and_pictures_become_what_the_dataset_has(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "out", {"boxes": "array:float32", "image": "image", "n": "int32"}, jpeg="keep") as writer:
        writer.write({"boxes": [[1, 2, 3, 4]], "image": jpeg(0), "n": 1})
    with sp.Writer(tmp_path / "out", append=True) as writer:
        assert writer.fields == {"boxes": "array:float32", "image": "image", "n": "int32"}
        assert writer.classes is None
        writer.write({"boxes": [[0.5, 2, 3, 4]], "image": Image.new("RGB", (8, 6)), "n": np.int64(2)})
        with pytest.raises(sp.UsageError, match=r"field `n`: expected int32, found the number 1099511627776"):
            writer.write({"boxes": [[0.5, 2, 3, 4]], "image": jpeg(1), "n": 1 << 40})
    added = sp.Dataset(tmp_path / "out").by_key("00000001")
    assert added["boxes"].dtype == np.float32 and added["image"].shape == (6, 8, 3) and added["n"] == 2


def test_classes_are_matched_by_name(tmp_path: Path) -> None:
    write(tmp_path / "out", range(2))
    with sp.Writer(tmp_path / "out", append=True, classes=["owl", "dog"]) as writer:
        assert writer.classes == ["cat", "dog", "owl"]
        for key, label in (("owl", 0), ("dog", 1), ("by name", "cat")):
            writer.write(sample(3) | {"label": label}, key=key)
        with pytest.raises(sp.UsageError, match="sample `x`: field `label`: expected a class number from 0 to 1, found 2"):
            writer.write(sample(3) | {"label": 2}, key="x")
    assert writer.report is not None and writer.report["new_classes"] == ["owl"]
    dataset = sp.Dataset(tmp_path / "out")
    assert dataset.classes == ["cat", "dog", "owl"]
    assert [dataset.by_key(key)["label"] for key in ("owl", "dog", "by name")] == [2, 1, 0]
    assert sp.Dataset(tmp_path / "out", generation=1).classes == CLASSES
    with sp.Writer(tmp_path / "out", append=True) as writer:
        writer.write(sample(3) | {"label": 2}, key="number of the dataset")
        with pytest.raises(sp.UsageError, match="there is no class `bat`\nhint: pass `classes` to add new classes"):
            writer.write(sample(3) | {"label": "bat"}, key="x")


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    write(tmp_path / "out", range(2))
    before = files(tmp_path / "out")
    changes: list[tuple[dict[str, Any], str]] = [
        ({"mask": np.zeros((24, 40), np.int32)}, "field `mask`: expected an array of uint8, found an array of int32"),
        ({"mask": np.zeros((24, 40, 1), np.uint8)}, "field `mask`: expected an array of uint8 with 2 axes (as in the dataset), found an array of uint8 with shape [24, 40, 1]"),
        ({"score": "high"}, "field `score`: expected float64, found text"),
        ({"score": None}, "field `score`: expected float64, found no value"),
        ({"image": "text"}, "field `image`: expected a complete JPEG, PNG, WebP, BMP or TIFF"),
        ({"more": 1}, "field `more`: the dataset has no such field, only image, mask, boxes, caption, meta, blob, label, score"),
    ]
    for change, words in changes:
        with pytest.raises(sp.UsageError, match=re.escape(f"sample `x`: {words}")), sp.Writer(tmp_path / "out", append=True) as writer:
            writer.write(sample(3) | change, key="x")
    less = sample(3)
    del less["caption"]
    with pytest.raises(sp.UsageError, match=r"sample `x`: field `caption`: the dataset has this field \(of kind text\), but the sample does not\nhint: pass None"):
        with sp.Writer(tmp_path / "out", append=True) as writer:
            writer.write(less, key="x")
    with pytest.raises(sp.UsageError, match="schema: the kind of the field `score` is float64 in the dataset, but text in the schema"):
        sp.Writer(tmp_path / "out", {"score": "text"}, append=True)
    assert files(tmp_path / "out") == before


def test_options_are_those_of_the_dataset(tmp_path: Path) -> None:
    write(tmp_path / "out", range(2), jpeg="reencode", quality=80, codec="zstd")
    for given, words in [
        ({"jpeg": "keep"}, "jpeg: the dataset was written with reencode, not keep"),
        ({"jpeg": "reencode", "quality": 90}, "quality: the dataset was written with 80, not 90"),
        ({"codec": "raw"}, "codec: the dataset was written with zstd, not raw"),
        ({"shard_size": "1GiB"}, "shard_size: the dataset was written with 16KiB, not 1GiB"),
        ({"shuffle": False}, "cannot append with shuffle=False: the existing dataset is shuffled"),
        ({"seed": 7}, "seed: the dataset was written with 0, not 7"),
    ]:
        with pytest.raises(sp.UsageError, match=re.escape(words)):
            sp.Writer(tmp_path / "out", append=True, **given)  # type: ignore[arg-type]
    sp.Writer(tmp_path / "out", append=True, jpeg="reencode", quality=80, codec="zstd", shard_size=16384, seed=0).abort()
    with pytest.raises(TypeError, match="on_known_key needs append=True"):
        sp.Writer(tmp_path / "new", on_known_key="skip")
    with pytest.raises(sp.UsageError, match="`take_over` applies only if the output is a URL"):
        sp.Writer(tmp_path / "out", append=True, take_over=True)
    with pytest.raises(sp.UsageError, match="is not a dataset: it has no manifest.json\nhint: omit `append=True` to create a new dataset there"):
        sp.Writer(tmp_path / "new", append=True)
    assert not (tmp_path / "new").exists()
    with pytest.raises(sp.UsageError, match="already contains a dataset of 2 samples\nhint: .*`append=True` to add to it"):
        sp.Writer(tmp_path / "out")


def test_keys_that_are_there(tmp_path: Path) -> None:
    write(tmp_path / "out", range(4))
    with pytest.raises(sp.UsageError, match='sample `s/003`: the dataset already has a sample with this key\nhint: pass `on_known_key="skip"`'):
        write(tmp_path / "out", range(3, 6), append=True)
    assert sp.Dataset(tmp_path / "out").generation == 1
    report = write(tmp_path / "out", range(3, 6), append=True, on_known_key="skip")
    assert (report["samples"], report["known"], report["samples_of_dataset"]) == (2, 1, 6)
    with pytest.warns(UserWarning, match="skipped 1 sample, although the dataset has different content.*`s/001`: field `score`"):
        with sp.Writer(tmp_path / "out", append=True, on_known_key="skip") as writer:
            writer.write(sample(1) | {"score": 99.0}, key="s/001")
    assert writer.report is not None
    assert (writer.report["outcome"], writer.report["samples"], writer.report["generation"]) == ("already-complete", 0, 2)


def test_the_same_call_once_more_is_complete(tmp_path: Path) -> None:
    write(tmp_path / "out", range(4))
    write(tmp_path / "out", range(4, 8), append=True)
    before = files(tmp_path / "out")
    report = write(tmp_path / "out", range(4, 8), append=True)
    assert (report["outcome"], report["samples"], report["known"], report["generation"]) == ("already-complete", 0, 4, 2)
    assert files(tmp_path / "out") == before


def test_an_exception_leaves_the_dataset_at_its_generation(tmp_path: Path) -> None:
    write(tmp_path / "out", range(4))
    before = files(tmp_path / "out")
    with pytest.raises(ZeroDivisionError), sp.Writer(tmp_path / "out", append=True) as writer:
        writer.write(sample(9), key="x")
        with pytest.raises(BlockingIOError, match="is being written by another packer"):
            sp.Writer(tmp_path / "out", append=True)
        1 / 0  # noqa: B018
    assert files(tmp_path / "out") == before

    def stop(now: dict[str, int]) -> None:
        raise RuntimeError("enough")

    writer = sp.Writer(tmp_path / "out", append=True)
    for number in range(4, 60):
        writer.write(sample(number), key=f"s/{number:03}")
    try:
        writer.close(progress=stop)
    except RuntimeError:
        writer.abort()
    assert sp.Dataset(tmp_path / "out").generation in (1, 2)
    assert not (tmp_path / "out" / ".shardpack-next").exists()
    whole(tmp_path / "out")


KILLED = """
import os, signal, sys, threading, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_append import sample
import shardpack as sp
writer = sp.Writer(sys.argv[1], append=True)
for number in range(4, 40):
    writer.write(sample(number), key=f"s/{number:03}")
print("writing", flush=True)
if sys.argv[3] == "before":
    sys.stdin.read()
next = Path(sys.argv[1]) / ".shardpack-next"

def kill_at_the_first_shard():
    while not list(next.glob("shard-*.shard")):
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)

threading.Thread(target=kill_at_the_first_shard, daemon=True).start()
writer.close()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("when", ["before", "during"])
def test_a_killed_program_leaves_the_dataset_and_the_same_call_succeeds(tmp_path: Path, when: str) -> None:
    out = tmp_path / "out"
    write(out, range(4))
    program = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(out), str(Path(__file__).parent), when], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert program.stdout and program.stdout.readline() == "writing\n"
    if when == "before":
        program.kill()
    program.wait(timeout=60)
    assert sp.Dataset(out).generation == 1 or when == "during"
    whole(out)
    whole(out, 1)
    assert len(sp.Dataset(out, generation=1)) == 4
    report = write(out, range(4, 40), append=True)
    # If the program was killed at the very end, the generation may already exist.
    assert report["outcome"] in ("complete", "already-complete") if when == "during" else report["outcome"] == "complete"
    assert (report["generation"], report["samples_of_dataset"]) == (2, 40)
    write(tmp_path / "one", range(40))
    same(out, tmp_path / "one")
    whole(out)


def test_what_a_killed_program_began_keeps_no_other_addition_out(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, range(4))
    program = subprocess.run([sys.executable, "-c", KILLED, str(out), str(Path(__file__).parent), "during"], capture_output=True, check=False, timeout=60)
    assert program.returncode == -9, program.stderr
    newest = sp.Dataset(out)
    report = write(out, range(50, 53), append=True)
    assert report["samples_of_dataset"] == len(newest) + 3
    whole(out)


def photos(folder: Path, names: list[str]) -> Path:
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(jpeg(number + len(name)))
    return folder


def test_a_packed_dataset_gets_samples_of_a_program_too(tmp_path: Path) -> None:
    out = tmp_path / "out"
    sp.pack(photos(tmp_path / "first", ["a/0.jpg", "b/1.jpg"]), out)
    with sp.Writer(out, append=True, classes=["b", "c"]) as writer:
        assert writer.fields == {"image": "image", "label": "int64"}
        writer.write({"image": jpeg(7), "label": "c"}, key="c/7.jpg")
        writer.write({"image": jpeg(8), "label": 0}, key="b/8.jpg")
    sp.add(out, photos(tmp_path / "week", ["a/w.jpg", "d/w.jpg"]))
    sp.remove(out, ["b/1.jpg"])
    with sp.Writer(out, append=True) as writer:
        writer.write({"image": jpeg(9), "label": "d"}, key="d/9.jpg")
    dataset = sp.Dataset(out)
    assert (dataset.generation, dataset.classes, len(dataset)) == (5, ["a", "b", "c", "d"], 6)
    assert {key: values["label"] for key, values in content(out).items()} == {
        "a/0.jpg": 0, "c/7.jpg": 2, "b/8.jpg": 1, "a/w.jpg": 0, "d/w.jpg": 3, "d/9.jpg": 3,
    }  # fmt: skip
    for generation in range(1, 6):
        whole(out, generation)
    assert sp.compact(out)["generations"] == [1, 2, 3, 4]
    with sp.Writer(out, append=True) as writer:
        writer.write({"image": jpeg(1), "label": "b"}, key="b/1.jpg")
    whole(out)
    # Packing a folder of such files gives the same fields.
    sp.pack(photos(tmp_path / "third", ["c/7.jpg"]), tmp_path / "again")
    assert sp.Dataset(tmp_path / "again").schema == dataset.schema


def test_packed_cubes_and_masks_get_more(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / "src").mkdir()
    (tmp_path / "masks").mkdir()
    random = np.random.default_rng(0)
    for name in "ab":
        np.save(tmp_path / "src" / f"{name}.npy", random.random((6, 5, 4), np.float32))
        np.save(tmp_path / "masks" / f"{name}.npy", random.integers(0, 3, (6, 5), np.uint8))
    sp.pack(tmp_path / "src", out, masks=tmp_path / "masks", values="keep")
    cube = random.random((7, 5, 4), np.float32)
    with sp.Writer(out, append=True) as writer:
        assert writer.fields == {"cube": "array:float32", "mask": "array:uint8", "meta": "json"}
        writer.write({"cube": cube, "mask": np.zeros((7, 5), np.uint8), "meta": None}, key="c.npy")
    added = sp.Dataset(out).by_key("c.npy")
    assert np.array_equal(added["cube"], cube) and (added["height"], added["width"], added["channels"]) == (7, 5, 4)
    whole(out)


def test_clips_are_added(tmp_path: Path) -> None:
    for jpegs in ("tile", "keep"):
        out = tmp_path / jpegs
        with sp.Writer(out, jpeg=jpegs) as writer:
            writer.write({"clip": [jpeg(0), jpeg(1)]}, key="a")
        with sp.Writer(out, append=True) as writer:
            writer.write({"clip": [jpeg(2), jpeg(3), jpeg(4)]}, key="b")
        assert sp.Dataset(out).columns["clip.frames"].tolist() == [2, 3]
        whole(out)


def test_a_profile_that_the_dataset_has_no_field_for_is_refused(tmp_path: Path) -> None:
    from PIL import ImageCms

    with sp.Writer(tmp_path / "out") as writer:
        writer.write({"image": jpeg(0)}, key="a")
    path = tmp_path / "profile.jpg"
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    Image.new("RGB", (40, 24)).save(path, icc_profile=profile)
    with pytest.raises(sp.UsageError, match="sample `b`: field `image`: the picture has a colour profile, but the dataset has no field `icc`"):
        with sp.Writer(tmp_path / "out", append=True) as writer:
            writer.write({"image": path}, key="b")
    # A dataset with the field accepts pictures with and without a profile.
    with sp.Writer(tmp_path / "with") as writer:
        writer.write({"image": path}, key="a")
    with sp.Writer(tmp_path / "with", append=True) as writer:
        writer.write({"image": jpeg(0)}, key="b")
    dataset = sp.Dataset(tmp_path / "with")
    assert dataset.by_key("b")["icc"] is None and dataset.by_key("a")["icc"] is not None
    whole(tmp_path / "with")


def test_adding_files_says_how_such_a_dataset_grows(tmp_path: Path) -> None:
    write(tmp_path / "out", range(2))
    with pytest.raises(sp.UsageError, match=r"hint: use `shardpack convert .*--append.*`Writer\(…, append=True\)`"):
        sp.add(tmp_path / "out", photos(tmp_path / "week", ["a.jpg"]))


def test_columns_of_a_table_stand_behind_those_of_the_picture(tmp_path: Path) -> None:
    """The fields keep the order of the dataset, even if a program gives its own fields first."""
    from PIL import ImageCms

    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    out, pictures = tmp_path / "out", []
    for name in "ab":
        path = tmp_path / name / f"{name}.jpg"
        path.parent.mkdir()
        Image.fromarray(np.random.default_rng(ord(name)).integers(0, 256, (24, 40, 3), np.uint8)).save(path, icc_profile=profile)
        pictures.append(path)
    (tmp_path / "table.csv").write_text("key,label,age,who\na.jpg,x,1.5,Ann\n")
    (tmp_path / "both.csv").write_text("key,label,age,who\na/a.jpg,x,1.5,Ann\nb/b.jpg,y,2.5,Ben\n")
    sp.pack(tmp_path / "a", out, labels=tmp_path / "table.csv")
    with sp.Writer(out, append=True, classes=["y"]) as writer:
        assert writer.fields == {"image": "image", "label": "int64", "age": "float64", "who": "text"}
        writer.write({"who": "Ben", "image": pictures[1], "age": 2.5, "label": 0}, key="b.jpg")
    (tmp_path / "all").mkdir()
    for name in "ab":
        (tmp_path / name).rename(tmp_path / "all" / name)
    sp.pack(tmp_path / "all", tmp_path / "whole", labels=tmp_path / "both.csv")
    whole(out)
    one, two = content(tmp_path / "whole", "image"), content(out, "image")
    for key in ("a", "b"):
        for field, value in one[f"{key}/{key}.jpg"].items():
            np.testing.assert_equal(two[f"{key}.jpg"][field], value, f"{key}: {field}")
    assert sp.Dataset(out).schema == sp.Dataset(tmp_path / "whole").schema
    (tmp_path / "week").mkdir()
    (tmp_path / "all" / "a" / "a.jpg").rename(tmp_path / "week" / "c.jpg")
    (tmp_path / "week.csv").write_text("key,label,age,who\nc.jpg,y,3.5,Cem\n")
    assert sp.add(out, tmp_path / "week", labels=tmp_path / "week.csv")["samples_of_dataset"] == 3
