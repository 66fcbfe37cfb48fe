"""Tests `shardpack convert` and `shardpack export` on the command line."""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import io
import json
import os
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_support import content, jpeg

import shardpack as sp
from shardpack import _command
from shardpack.convert import FORMATS
from shardpack._command import _layout, _two
from shardpack._voice import ANY, is_command, option

h5py = pytest.importorskip("h5py")


def run(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, "-m", "shardpack", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["cube"] = np.arange(5 * 4 * 3 * 2, dtype=np.float32).reshape(5, 4, 3, 2) / 7
        file["kind_of"] = np.arange(5) % 2
        file["name"] = [f"row {i}" for i in range(5)]
        file["notes"] = ["x"] * 5
    return tmp_path / "a.h5"


def test_convert_is_the_function(rows: Path, tmp_path: Path) -> None:
    done = run(
        "convert", "hdf5", rows, tmp_path / "out", "--key", "name", "--label", "kind_of", "--drop", "notes",
        "--classes", "ant,bee", "--rename", "cube=scene", "--no-shuffle", "--shard-size", "4MiB", "--threads", 1, "--codec=raw",
    )  # fmt: skip
    assert f"converted 5 samples into `{tmp_path / 'out'}` in " in done.stdout and "  cube → scene\n" in done.stdout
    sp.convert(
        "hdf5", rows, tmp_path / "function", key="name", label="kind_of", drop=["notes"], classes=["ant", "bee"],
        rename={"cube": "scene"}, shuffle=False, shard_size="4MiB", threads=1, codec="raw",
    )  # fmt: skip
    for path in (tmp_path / "function").iterdir():
        if path.suffix == ".shard":
            assert path.stat().st_size == (tmp_path / "out" / path.name).stat().st_size
    first, second = content(tmp_path / "out"), content(tmp_path / "function")
    assert list(first) == [f"row {i}" for i in range(5)] == list(second)
    assert np.array_equal(first["row 3"]["scene"], second["row 3"]["scene"]) and first["row 3"]["label"] == 1


def test_errors_speak_the_command_line(rows: Path, tmp_path: Path) -> None:
    error = run("convert", "hdf5", rows, tmp_path / "out", "--key", "nome", code=2).stderr
    assert error.startswith("error: ") and "nome" in error
    assert "pass at least one SRC, then OUT" in run("convert", "hdf5", rows, code=2).stderr
    assert "invalid choice: 'hdf'" in run("convert", "hdf", rows, tmp_path / "out", code=2).stderr
    assert "unrecognized arguments: --group-by" in run("convert", "hdf5", rows, tmp_path / "out", "--group-by", "x", code=2).stderr
    assert "so the command line cannot convert it" in run("convert", "torchvision", "x", "y", code=2).stderr
    missing = run("convert", "webdataset", tmp_path / "no.tar", tmp_path / "out", code=2).stderr
    assert "no such file" in missing and str(tmp_path / "no.tar") in missing
    assert not (tmp_path / "out").exists()
    before = is_command.set(True)
    try:
        assert option(fields=["a", "b"]) == "--fields a --fields b" and option(drop=["-x"]) == "--drop=-x"
        assert shlex.split(option(drop=["a b", "c'd"])) == ["--drop", "a b", "--drop", "c'd"]
        assert option(drop=[ANY]) == "--drop …" and option(rename={"a": "b", "c": ANY}) == "--rename a=b --rename c=…"
        assert option(points=(17, 3)) == "--points 17,3" and option(on_bad_input="skip") == "--on-bad-input skip"
        assert option(uneven=True, own_process=False) == "--uneven --no-own-process" and option(drop=["a\nb"]) == r"--drop 'a\nb'"
    finally:
        is_command.reset(before)
    assert option(schema={"a": "array:int32"}, window=ANY, points=(17, 3)) == "schema={'a': 'array:int32'}, window=…, points=(17, 3)"


def test_messages_of_every_layer_speak_the_command_line(tmp_path: Path) -> None:
    path, out = tmp_path / "a.h5", tmp_path / "out"
    with h5py.File(path, "w") as file:
        file["x"] = np.full((2, 4), 1e30, np.float32)
        file["name"] = ["a", "b"]
    run("convert", "hdf5", path, out, "--key", "name")
    for options, said in (
        (["--append", "--key", "name"], f"`{path}`, row 0: the dataset already has a sample with this key\nhint: pass `--on-known-key skip`"),
        (["--append"], "hint: pass --drop name to leave the column out, or --rename name=… to"),
        (["--append", "--key", "name", "--no-shuffle"], "cannot append with --no-shuffle: the"),
        (["--force", "--key", "name", "--shard-size", "much"], "--shard-size: unknown unit `much`"),
        (["--force", "--key", "name", "--values", "f16"], "\nhint: use `--values fixed --max-error E` to"),
        (["--force", "--key", "name", "--values", "f16"], "\nhint: pass --on-bad-input skip to"),
        (["--force", "--key", "name", "--values", "f16"], f"error: `{path}`, row 0: field `x`: the value"),
    ):
        assert said in run("convert", "hdf5", path, out, *options, code=2).stderr
    with pytest.raises(sp.KnownKeyError, match=r"^sample `a`: the dataset already has .*\nhint: pass `on_known_key=\"skip\"`") as found:
        sp.Writer(out, append=True).write({"x": np.zeros(4, np.float32)}, key="a")
    assert found.value.without_key.startswith("the dataset already has a sample with this key\nhint: ")  # type: ignore[attr-defined]


def test_the_help_lists_the_formats_that_the_command_takes() -> None:
    said = " ".join(run("convert", "--help").stdout.split())
    assert "torchvision" not in said and ", ".join(name for name in FORMATS if name != "torchvision") in said


def test_the_usage_is_one_line() -> None:
    usages = {
        ("convert",): "usage: shardpack convert [OPTIONS] FORMAT SRC… OUT\n",
        ("convert", "coco"): "usage: shardpack convert coco [OPTIONS] SRC… OUT\n",
        ("export",): "usage: shardpack export [OPTIONS] DATASET FORMAT OUT\n",
    }
    for command, usage in usages.items():
        assert run(*command, "--help").stdout.startswith(usage)
        assert run(*command, code=2).stderr.startswith(usage)


def test_every_option_of_a_format_can_be_spelled(tmp_path: Path) -> None:
    for format in FORMATS:
        if format == "torchvision":
            continue
        opener = importlib.import_module(f"shardpack.convert.{format}").open
        said = run("convert", format, "--help").stdout
        for name in inspect.signature(opener).parameters:
            assert name == "src" or re.search(rf"^  --{name.replace('_', '-')}[ ,]", said, re.MULTILINE), f"{name} of {format}"
    assert _two("17,3") == (17, 3) and _layout("cube=float32:64,64,224") == ("cube", ("float32", (64, 64, 224)))
    assert _layout("cube=float32") == ("cube", "float32")
    for spell, wrong in ((_two, "17"), (_two, "17,x"), (_layout, "cube=float32:"), (_layout, "cube=float32:6,"), (_layout, "cube")):
        with pytest.raises(argparse.ArgumentTypeError, match="expected |is not a pair of numbers"):
            spell(wrong)


def test_names_of_classes_have_commas_between_them(tmp_path: Path) -> None:
    (tmp_path / "yolo" / "images").mkdir(parents=True)
    (tmp_path / "yolo" / "labels").mkdir()
    (tmp_path / "yolo" / "images" / "a.jpg").write_bytes(jpeg(1))
    (tmp_path / "yolo" / "labels" / "a.txt").write_text("2 0.5 0.5 0.2 0.2\n")
    for given, names in (
        (["red,green,blue"], ["red", "green", "blue"]), (["red", "green, light", "blue"], ["red", "green, light", "blue"]),
    ):  # fmt: skip
        for option in ("--names", "--classes"):
            run("convert", "yolo", tmp_path / "yolo", tmp_path / "out", "--force", *(word for name in given for word in (option, name)))
            assert sp.Dataset(tmp_path / "out").classes == names


def test_coco_takes_the_folder_of_its_pictures(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.jpg").write_bytes(jpeg(1))
    content = {
        "images": [{"id": 1, "file_name": "a.jpg", "width": 40, "height": 24}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 3, "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 0}],
        "categories": [{"id": 3, "name": "ant"}],
    }
    (tmp_path / "instances.json").write_text(json.dumps(content))
    hint = run("convert", "coco", tmp_path / "instances.json", tmp_path / "no", code=2).stderr
    assert "hint: pass the folder with the pictures: --images …" in hint
    run("convert", "coco", tmp_path / "instances.json", tmp_path / "out", "--images", tmp_path / "elsewhere")
    assert len(sp.Dataset(tmp_path / "out")) == 1


def test_what_is_left_out_is_exit_code_1(tmp_path: Path) -> None:
    import io
    import tarfile

    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name, data in (("1.jpg", jpeg(1)), ("1.cls", b"0"), ("2.jpg", jpeg(2)), ("2.cls", b"zero")):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    stopped = run("convert", "webdataset", tmp_path / "a.tar", tmp_path / "out", code=2)
    assert "pass --on-bad-input skip to leave out samples that cannot be converted" in stopped.stderr
    done = run("convert", "webdataset", tmp_path / "a.tar", tmp_path / "out", "--on-bad-input", "skip", "--json", code=1)
    report = json.loads(done.stdout)
    assert report["samples"] == 1 and report["samples_skipped"] == 1 and done.stderr.startswith("left out: ")
    assert "in all" not in done.stderr
    with tarfile.open(tmp_path / "a.tar") as tar:
        end = tar.getmember("2.cls").offset
    (tmp_path / "a.tar").write_bytes((tmp_path / "a.tar").read_bytes()[:end])
    done = run("convert", "webdataset", tmp_path / "a.tar", tmp_path / "cut", "--on-bad-input", "skip", code=1)
    assert "left out in total: at least 1 samples" in done.stderr


def test_export_and_back(rows: Path, tmp_path: Path) -> None:
    run("convert", "hdf5", rows, tmp_path / "out", "--key", "name")
    done = run("export", tmp_path / "out", "webdataset", tmp_path / "tars", "--fields", "cube", "--fields", "notes", "--shard-size", "1MiB", "--json")
    assert json.loads(done.stdout)["samples"] == 5
    run("convert", "webdataset", tmp_path / "tars", tmp_path / "again")
    first, again = content(tmp_path / "out"), content(tmp_path / "again")
    assert np.array_equal(first["row 2"]["cube"], again["row 2"]["cube"]) and again["row 2"]["notes"] == "x" and "label" not in again["row 2"]
    assert "the output folder is not empty" in run("export", tmp_path / "out", "webdataset", tmp_path / "tars", code=2).stderr
    assert "exported 5 samples to" in run("export", tmp_path / "out", "webdataset", tmp_path / "more").stdout


class Terminal(io.StringIO):
    """A terminal that keeps only the visible text, without cleared lines."""

    def isatty(self) -> bool:
        return True

    def shown(self) -> list[str]:
        return [line.rpartition("\x1b[K")[2] for line in self.getvalue().split("\n")]


@pytest.mark.parametrize("command", [["pack", "a", "b"], ["export", "a", "zarr", "b"]])
def test_ctrl_c_while_the_package_loads_is_no_traceback(tmp_path: Path, command: list[str]) -> None:
    # This stand-in for NumPy sends Ctrl-C, and then loads slowly.
    (tmp_path / "numpy.py").write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    script = tmp_path / "shardpack"
    script.write_text("from shardpack.__main__ import main\nraise SystemExit(main())\n")
    for start in (["-m", "shardpack"], [str(script)]):
        # Python searches the folder of the script first, and finds the stand-in there.
        done = subprocess.run([sys.executable, *start, *command], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, timeout=50)
        assert (done.returncode, done.stderr) == (130, "")
    program = subprocess.run([sys.executable, "-c", "import shardpack"], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, timeout=50)
    assert program.stderr.rstrip().endswith("KeyboardInterrupt"), "a program keeps its own handler"


def test_the_line_of_progress_is_gone_before_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def convert(*_: object, progress: Any, **__: object) -> None:
        progress({"phase": "convert", "samples": 3, "total": None, "skipped": 0, "seconds": 1.0})
        raise failure

    monkeypatch.setattr(_command, "convert", convert)
    for failure, said in ((ValueError("no"), "error: no"), (KeyboardInterrupt(), "interrupted: all unfinished output was removed")):
        monkeypatch.setattr(sys, "stderr", terminal := Terminal())
        _command.run(["convert", "mds", "a", "b"])
        assert terminal.shown() == [said, ""] and "converting 3, 3 samples/s" in terminal.getvalue()


def test_each_phase_has_its_own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    progress = _command._Progress("converting")
    for phase, samples, seconds in (("convert", 50, 5.0), ("convert", 100, 10.0), ("write", 100, 10.5)):
        progress({"phase": phase, "samples": samples, "total": 100, "skipped": 0, "seconds": seconds})
    lines = terminal.getvalue().split("\r\x1b[K")[1:]
    assert lines == ["converting 50 of 100, 10 samples/s", "converting 100 of 100, 10 samples/s", "writing 100 of 100, 200 samples/s"]


def test_notes_take_the_line_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with _command._Progress("converting") as progress:
        progress({"phase": "convert", "samples": 1, "total": 2, "skipped": 0, "seconds": 1.0})
        warnings.warn("a note\nhint: and its hint", UserWarning)
        progress({"phase": "convert", "samples": 2, "total": 2, "skipped": 0, "seconds": 2.0})
    assert terminal.shown() == ["note: a note", "hint: and its hint", ""]


@pytest.mark.parametrize("format", [name for name in FORMATS if name != "torchvision"])
def test_every_format_has_a_help(format: str) -> None:
    text = run("convert", format, "--help").stdout
    assert "SRC… OUT" in text and "--on-bad-input" in text and "--shard-size" in text and "examples:" in text
    assert "exit codes:" in run("export", "--help").stdout and "examples:" in run("convert", "--help").stdout
