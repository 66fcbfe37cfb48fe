"""Tests `pack`, `merge` and `verify` from Python, and the command."""

from __future__ import annotations

import inspect
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardpack as sp
from conftest import command
from shardpack import _pack, _shardpack
from shardpack._keywords import types_of


def photos(folder: Path, count: int = 12, side: int = 40) -> Path:
    random = np.random.default_rng(0)
    for number in range(count):
        path = folder / "ab"[number % 2] / f"{number:03}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (side, side, 3), np.uint8)).save(path, quality=90)
    return folder


def cubes(folder: Path, count: int, shape: tuple[int, ...]) -> Path:
    folder.mkdir()
    for number in range(count):
        np.save(folder / f"{number:03}.npy", np.random.default_rng(number).random(shape).astype(np.float32))
    return folder


def test_the_table_of_options_is_the_commands() -> None:
    names = set(_shardpack.option_names("pack"))
    assert set(types_of(_pack.PackOptions)) == names
    assert set(types_of(_pack.StorageOptions)) < names
    types = types_of(_pack.PackOptions)
    assert [types[name] for name in ("labels", "max_error", "spatial", "threads", "force", "codec")] == [
        (str, os.PathLike), (float, int), (tuple, str), (int,), (bool,), (str,)
    ]  # fmt: skip


def test_pack_and_what_it_returns(tmp_path: Path) -> None:
    source = photos(tmp_path / "photos")
    seen: list[dict[str, int]] = []
    report = sp.pack(source, tmp_path / "out", jpeg="keep", shard_size="16KiB", threads=2, progress=seen.append)
    assert report["outcome"] == "complete" and report["samples"] == 12 and report["classes"] == 2 and report["shards"] > 1
    assert report["skipped"] == [] and report["seconds"] > 0
    assert seen[-1]["samples"] == seen[-1]["samples_total"] == 12 and seen[-1]["shards"] == report["shards"]
    assert seen[-1]["bytes_sent"] == seen[-1]["bytes_to_send"] == 0, "a folder is no store"
    assert sp.pack(str(source), str(tmp_path / "out"), jpeg="keep", shard_size=16 << 10)["outcome"] == "already-complete"
    dataset = sp.Dataset(tmp_path / "out")
    assert dataset.raw(dataset.index_of("b/001.jpg"), "image") == (source / "b/001.jpg").read_bytes()


def test_segment_indexes_are_no_fields_and_change_no_pixel(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    y, x = np.mgrid[:96, :128]
    for number in range(4):
        pixels = np.stack([x * 2 + number, y * 2, x + y], axis=-1).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"src/{number}.jpg", quality=90)
    sp.pack(tmp_path / "src", tmp_path / "plain", jpeg="keep", no_segment_index=True)
    sp.pack(tmp_path / "src", tmp_path / "out", jpeg="keep")
    plain, dataset = sp.Dataset(tmp_path / "plain"), sp.Dataset(tmp_path / "out")
    assert [field.name for field in dataset.schema] == [field.name for field in plain.schema]
    assert dataset[0].keys() == plain[0].keys() and dataset.raw(0).keys() == plain.raw(0).keys()
    assert dataset.recipe["image"] == {"jpeg": "keep", "segment_index": True} and plain.recipe["image"] == {"jpeg": "keep"}
    # `raw` returns a segment index if its field is named.
    index = dataset.raw(0, "image.segments")
    assert index is not None and int.from_bytes(index[:4], "little") > 1
    options: dict[str, Any] = {"batch_size": 4, "image": sp.view.center_crop(32, short_side=96), "shuffle": False}
    rows = []
    for one in (plain, dataset):
        loader = sp.Loader(one, **options)
        (batch,) = loader
        assert not any("segments" in name for name in batch.keys())  # noqa: SIM118 - a batch without `fields` is not iterable
        rows.append(np.array(batch["image"]))
        assert loader.stats()["wrong_indexes"] == 0
    assert np.array_equal(*rows)


def test_indexes_are_added_to_an_older_dataset(tmp_path: Path) -> None:
    Image.effect_mandelbrot((160, 120), (-3, -2.5, 2, 2.5), 90).save(tmp_path / "a.jpg")
    with sp.Writer(tmp_path / "out", jpeg="keep", no_segment_index=True) as writer:
        writer.write({"__key__": "a", "photo": (tmp_path / "a.jpg").read_bytes(), "n": 1})
    before = sp.Dataset(tmp_path / "out")[0]
    report = sp.compact(tmp_path / "out", segment_index=True)
    assert report["generations"] == [1] and report["segment_index"]["indexed"] == 1
    after = sp.Dataset(tmp_path / "out")
    assert after.raw(0, "photo.segments") is not None and after[0].keys() == before.keys()
    assert np.array_equal(after[0]["photo"], before["photo"])
    again = sp.compact(tmp_path / "out", segment_index=True, force=True, max_record="1GiB")
    assert again["segment_index"]["shards"] == 0
    # Additions use the storage settings of the existing dataset.
    with sp.Writer(tmp_path / "out", append=True) as writer:
        writer.write({"__key__": "b", "photo": (tmp_path / "a.jpg").read_bytes(), "n": 2})
    grown = sp.Dataset(tmp_path / "out")
    assert grown.raw(grown.index_of("b"), "photo.segments") == after.raw(0, "photo.segments")
    assert sp.verify(tmp_path / "out", deep=True)["whole"]


def test_splits_are_datasets_with_the_same_classes(tmp_path: Path) -> None:
    photos(tmp_path / "src" / "train")
    photos(tmp_path / "src" / "val", 6)
    Image.new("RGB", (9, 9)).save(tmp_path / "src" / "val" / "a" / "deep.png")
    with pytest.warns(UserWarning, match=r"hint: pass `splits=True` to pack each folder into a separate dataset \(such as `OUT/train`\), all with the same classes"):
        sp.pack(tmp_path / "src", tmp_path / "one")
    seen: list[dict[str, int]] = []
    report = sp.pack(tmp_path / "src", tmp_path / "out", splits=True, jpeg="keep", progress=seen.append)
    assert {name: one["samples"] for name, one in report["splits"].items()} == {"train": 12, "val": 7} and report["samples"] == 19
    assert seen[-1]["samples"] == seen[-1]["samples_total"] == 7
    train, val = sp.Dataset(tmp_path / "out" / "train"), sp.Dataset(tmp_path / "out" / "val")
    assert train.classes == val.classes == ["a", "b"] and val.by_key("b/001.jpg")["label"] == 1
    cubes(tmp_path / "scenes", 2, (4, 4, 3))
    (tmp_path / "flights").mkdir()
    (tmp_path / "scenes").rename(tmp_path / "flights" / "train")
    with pytest.warns(UserWarning, match="values were rounded to float16"):
        sp.pack(tmp_path / "flights", tmp_path / "packed", splits=True)


def test_pack_is_the_command(tmp_path: Path) -> None:
    source = photos(tmp_path / "-photos")
    sp.pack(source, tmp_path / "one", no_shuffle=True, upright=True, keep_metadata=True, check_pixels="all")
    command = [sys.executable, "-m", "shardpack", "pack", str(source), str(tmp_path / "two")]
    done = subprocess.run([*command, "--no-shuffle", "--upright", "--keep-metadata", "--check-pixels=all"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "two").iterdir())
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in names)


def test_parts_are_merged(tmp_path: Path) -> None:
    source = cubes(tmp_path / "cubes", 6, (10, 10, 3))
    with pytest.raises(sp.UsageError, match="pack the parts first"):
        (tmp_path / "out").mkdir()
        sp.merge(tmp_path / "out")
    for part in (1, 2):
        report = sp.pack(source, tmp_path / "out", part=(part, 2), shard_size=3000, codec="raw", values="keep")
        assert report["outcome"] == "part-complete"
    (tmp_path / "out/shard-00001.shard").rename(tmp_path / "gone")
    with pytest.raises(sp.UsageError, match="part 1/2 is damaged") as caught:
        sp.merge(tmp_path / "out")
    assert caught.value.array == "1"  # type: ignore[attr-defined]
    (tmp_path / "gone").rename(tmp_path / "out/shard-00001.shard")
    merged = sp.merge(tmp_path / "out")
    assert merged["outcome"] == "complete" and merged["samples"] == 6
    assert len(sp.Dataset(tmp_path / "out")) == 6


def test_a_plan_and_its_listing(tmp_path: Path) -> None:
    source, listing = cubes(tmp_path / "cubes", 6, (10, 10, 3)), tmp_path / "listing"
    options: dict[str, Any] = {"shard_size": 3000, "codec": "raw", "values": "keep", "listing": listing}
    found = sp.plan(source, tmp_path / "out", 4, **options)
    assert found["samples"] == 6 and len(found["parts"]) == 4 and listing.exists()
    for part in found["parts"]:
        packed = sp.pack(source, tmp_path / "out", part=(part["part"], 4), **options)
        assert packed["samples"] == part["samples"] and packed["shards"] == part["shards"]
    assert sp.merge(tmp_path / "out")["samples"] == 6
    with pytest.raises(sp.UsageError, match="option `kind`"):
        sp.pack(source, tmp_path / "other", kind="cubes", **options)
    for wrong in ({"part": (1, 2)}, {"force": True}):
        with pytest.raises(sp.UsageError, match="this option is for `pack`, not for `plan`"):
            sp.plan(source, tmp_path / "out", 2, **wrong)  # type: ignore[arg-type]


def test_errors_speak_python(tmp_path: Path) -> None:
    source, out = photos(tmp_path / "photos"), tmp_path / "out"
    for options, error, text in [
        ({"shardsize": 3}, TypeError, "unexpected keyword argument 'shardsize'\nhint: did you mean 'shard_size'?"),
        ({"zzz": 3}, TypeError, "hint: choose one of band_difference, check_pixels"),
        ({"quality": "high"}, TypeError, "pack(): quality: expected int, found str 'high'"),
        ({"upright": 1}, TypeError, "upright: expected bool"),
        ({"threads": True}, TypeError, "threads: expected int, found bool"),
        ({"jpeg": "fast"}, sp.UsageError, "jpeg: expected tile, keep or reencode, found `fast`"),
        ({"quality": 80}, sp.UsageError, 'quality: the option has no effect if `jpeg` is tile\nhint: use the option with `jpeg="reencode"`'),
        ({"shard_size": "8 potatoes"}, sp.UsageError, "unknown unit"),
        ({"values": "f16"}, sp.UsageError, "the source has pictures"),
    ]:
        with pytest.raises(error) as caught:
            sp.pack(source, out, **options)  # type: ignore[arg-type]
        assert text in str(caught.value) and "--" not in str(caught.value)
    with pytest.raises(OSError):
        sp.pack(tmp_path / "nowhere", out)
    (source / "a/bad.jpg").write_bytes(b"\xff\xd8\xffnothing")
    with pytest.raises(ValueError, match="bad.jpg"):
        sp.pack(source, out)
    assert sp.pack(source, out, on_bad_input="skip")["skipped"][0]["key"] == "a/bad.jpg"
    with pytest.raises(sp.UsageError, match="force=True"):
        sp.pack(source, out, on_bad_input="skip", seed=1)


def test_verify_lists_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        sp.verify(tmp_path / "nowhere")
    with sp.Writer(tmp_path / "out") as writer:
        for number in range(5):
            writer.write({"noise": np.random.default_rng(number).bytes(2000)}, key=str(number))
    whole = sp.verify(tmp_path / "out", digest=True)
    assert whole["whole"] and whole["samples"] == 5 and whole["problems"] == []
    shard = tmp_path / "out/shard-00000.shard"
    content = bytearray(shard.read_bytes())
    content[1500] ^= 1
    shard.write_bytes(content)
    found = sp.verify(str(tmp_path / "out"), deep=True, threads=1)
    assert not found["whole"] and found["damaged_samples"] == 1 and len(found["problems"]) == 1
    assert found["problems"][0]["key"] in "01234"


def test_an_exception_of_progress_stops_the_run_which_then_goes_on(tmp_path: Path) -> None:
    source = cubes(tmp_path / "cubes", 30, (64, 64, 8))

    def stop(now: dict[str, int]) -> None:
        raise LookupError("enough")

    options = {"shard_size": "256KiB", "threads": 1, "codec": "raw", "values": "keep"}
    with pytest.raises(LookupError, match="enough"):
        sp.pack(source, tmp_path / "out", progress=stop, **options)  # type: ignore[arg-type]
    assert sp.pack(source, tmp_path / "out", **options)["samples"] == 30  # type: ignore[arg-type]


PACK = """
import sys, shardpack as sp
def say(now): print("packing", flush=True)
sp.pack(sys.argv[1], sys.argv[2], progress=say, threads=1, shard_size="4MiB", codec="blosc2-zstd", level=22, filter="shuffle", layout="as-given", band_difference="off", values="keep")
"""


def test_ctrl_c_ends_pack_on_its_way(tmp_path: Path) -> None:
    source = cubes(tmp_path / "cubes", 60, (100, 100, 16))
    program = subprocess.Popen([sys.executable, "-c", PACK, str(source), str(tmp_path / "out")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert program.stdout and program.stdout.readline() == "packing\n"
    program.send_signal(signal.SIGINT)
    _, stderr = program.communicate(timeout=600)
    assert program.returncode == -signal.SIGINT and stderr.rstrip().endswith("KeyboardInterrupt")
    assert not (tmp_path / "out/manifest.json").exists()
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.endswith(".tmp")]


SLOW = "--codec=blosc2-zstd --level=22 --filter=shuffle --layout=as-given --band-difference=off --values=keep --shard-size=4MiB".split()


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_the_command(tmp_path: Path, signal_number: signal.Signals) -> None:
    source = cubes(tmp_path / "cubes", 60, (100, 100, 16))
    command = [sys.executable, "-m", "shardpack", "pack", str(source), str(tmp_path / "out"), "--threads=1", *SLOW]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert program.stderr
    for line in program.stderr:
        if line.startswith("packing"):
            break
    program.send_signal(signal_number)
    _, stderr = program.communicate(timeout=600)
    assert program.returncode == 130 and "run the same command again" in stderr


def test_exit_codes_pass_through(tmp_path: Path) -> None:
    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "shardpack", *map(str, arguments)], capture_output=True, text=True)

    version = run("--version")
    assert version.returncode == 0 and version.stdout == f"shardpack {sp.__version__}\n"
    assert "Usage: shardpack " in run("pack").stderr
    assert run("pack").returncode == 2 and run("inspect", tmp_path / "nowhere").returncode == 2
    with sp.Writer(tmp_path / "out") as writer:
        writer.write({"text": "hello"}, key="a")
    inspected = run("inspect", tmp_path / "out")
    assert inspected.returncode == 0 and "text" in inspected.stdout
    assert run("cat", tmp_path / "out", "a").stdout == "hello"
    shard = tmp_path / "out/shard-00000.shard"
    os.truncate(shard, shard.stat().st_size - 1)
    assert run("verify", tmp_path / "out").returncode == 1


def test_a_datasets_columns_of_figures_are_not_shown_as_the_users(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "out") as writer:
        writer.write({"radiance": np.random.default_rng(0).random((4, 5, 6)).astype(np.float32), "photo": Image.new("RGB", (8, 9))})
    shown = subprocess.run([sys.executable, "-m", "shardpack", "inspect", str(tmp_path / "out")], capture_output=True, text=True).stdout
    assert "radiance.max_abs_error" not in shown and "photo.source_bytes" not in shown and "fidelity" in shown
    rebuilt = tmp_path / "rebuilt"
    shutil.copytree(tmp_path / "out", rebuilt)
    (rebuilt / "manifest.json").unlink()
    done = subprocess.run([sys.executable, "-m", "shardpack", "salvage", str(rebuilt), str(rebuilt), "--all-generations"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = {**(sp.Dataset(tmp_path / "out").fidelity or {})}
    found = sp.Dataset(rebuilt).fidelity or {}
    # No column stores why a picture was kept unchanged.
    expected["photo"] = {name: value for name, value in expected["photo"].items() if name != "kept_because"}
    assert found == expected


def test_functions_are_documented() -> None:
    for thing in (sp.pack, sp.merge, sp.verify, sp.Writer, sp.Writer.write, sp.Writer.close):
        text = inspect.getdoc(thing)
        assert text and ("Raises" in text or "Returns" in text)


def test_what_is_no_path_meets_a_hint(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r'found list\nhint: .*shardpack.convert\("torchvision"'):
        sp.pack([1], tmp_path / "out")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["png", "webp", "tiff", "jpeg"])
def test_pictures_of_every_kind_come_upright(kind: str, tmp_path: Path) -> None:
    from PIL import ImageOps

    (tmp_path / "source").mkdir()
    (tmp_path / "masks").mkdir()
    random = np.random.default_rng(3)
    for orientation in range(1, 9):
        picture = Image.fromarray(np.repeat(np.repeat(random.integers(0, 256, (3, 5, 3), np.uint8), 16, 0), 16, 1))
        exif = Image.Exif()
        exif[0x0112] = orientation
        more: dict[str, Any] = {"lossless": True} if kind == "webp" else {"quality": 100} if kind == "jpeg" else {}
        file = tmp_path / "source" / f"{orientation}.{kind}"
        picture.save(file, kind, exif=exif, **more)
        upright = ImageOps.exif_transpose(Image.open(file))
        np.save(tmp_path / "masks" / f"{orientation}.npy", np.asarray(upright)[..., 0])
    sp.pack(tmp_path / "source", tmp_path / "packed", kind="images", masks=tmp_path / "masks")
    with sp.Writer(tmp_path / "written") as writer:
        for file in sorted((tmp_path / "source").iterdir()):
            writer.write({"image": file}, key=file.name)
    for name in ("packed", "written"):
        dataset = sp.Dataset(tmp_path / name)
        loaded = {key: picture for batch in sp.Loader(dataset, 4, fields=["image"], end="uneven") for key, picture in zip(batch.sample_keys, batch["image"])}
        for orientation in range(1, 9):
            key = f"{orientation}.{kind}"
            expected = np.asarray(ImageOps.exif_transpose(Image.open(tmp_path / "source" / key)).convert("RGB"))
            sample = dataset.by_key(key)
            assert sample["orientation"] == orientation
            for found in (sample["image"], loaded[key]):
                assert found.shape == expected.shape
                assert np.abs(found.astype(int) - expected.astype(int)).max() <= (6 if kind == "jpeg" else 0)


def test_samples_without_masks_come_back_from_unpack(tmp_path: Path) -> None:
    for name, value in (("photos", np.full((24, 32, 3), 90, np.uint8)), ("cubes", np.ones((6, 7, 5), np.float32))):
        field = "image" if name == "photos" else "cube"
        with sp.Writer(tmp_path / name, schema={field: "image" if name == "photos" else "array", "mask": "array"}) as writer:
            for number in range(20):
                mask = np.full(value.shape[:2], number, np.uint8) if number == 17 else None
                writer.write({field: value, "mask": mask}, key=f"{number:02}" + (".png" if name == "photos" else ""))
        files = tmp_path / f"{name}-files"
        subprocess.run([*command(), "unpack", tmp_path / name, files], check=True, capture_output=True)
        with pytest.warns(UserWarning, match="19 of 20 samples have no mask, and are packed without one"):
            sp.pack(files, tmp_path / f"{name}-again")
        again = sp.Dataset(tmp_path / f"{name}-again")
        assert sum(sample["mask"] is not None for sample in again) == 1


def test_of_several_variables_each_file_gives_its_first(tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    one, two = (np.full((4, 3, 2), value, np.uint8) for value in (1, 2))
    np.savez(source / "a.npz", cube=one, other=two)
    np.savez(source / "b.npz", pines_corrected=two, raw=one)
    sp.pack(source, tmp_path / "out", variable=["cube", "*_corrected"])
    dataset = sp.Dataset(tmp_path / "out")
    assert [int(dataset.by_key(key)["cube"][0, 0, 0]) for key in ("a.npz", "b.npz")] == [1, 2]
    assert dataset.recipe["variable"] == ["cube", "*_corrected"]
    with pytest.raises(sp.UsageError, match=r"no numeric array is named `x`, `y\*`; the file has `cube` .*, `other`"):
        sp.pack(source, tmp_path / "none", variable=["x", "y*"])
    week = tmp_path / "week"
    week.mkdir()
    np.savez(week / "c.npz", raw=one, lake_corrected=two)
    sp.add(tmp_path / "out", week)
    assert int(sp.Dataset(tmp_path / "out").by_key("c.npz")["cube"][0, 0, 0]) == 2



def test_columns_of_labels_are_named_where_none_can_be_guessed(tmp_path: Path) -> None:
    source, table = cubes(tmp_path / "src", 4, (4, 3, 2)), tmp_path / "t.csv"
    table.write_text("filename,species,site\n" + "".join(f"{n:03}.npy,{'ab'[n % 2]},{'xy'[n // 2]}\n" for n in range(4)))
    with pytest.warns(UserWarning, match="no labels: .* its columns are `species`, `site`\nhint: pass `label_column=NAME`"):
        sp.pack(source, tmp_path / "none", labels=table, values="keep")
    with pytest.raises(sp.UsageError, match="there is no field `label`\n.*pack with `label_column=NAME` .*`species`, `site`"):
        sp.Dataset(tmp_path / "none").labels  # noqa: B018
    sp.pack(source, tmp_path / "out", labels=table, label_column="species", values="keep")
    dataset = sp.Dataset(tmp_path / "out")
    assert dataset.classes == ["a", "b"] and dataset.labels.tolist() == [dataset[n]["label"] for n in range(4)]
    assert dataset[0]["site"] in "xy" and "species" not in dataset[0]
