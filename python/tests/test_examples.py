"""Every example runs as its page says, in a process of its own, and its figures are right."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def run(name: str, *arguments: str | Path) -> str:
    """Output of an example; one thread for each operation, since tests share the machine."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", *arguments],
        capture_output=True, text=True, timeout=1200, env=environment,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def losses(output: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"loss ([\d.]+)", output)]


def test_every_example_is_tested() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")} - {"tiny"}
    source = Path(__file__).read_text()
    assert {name for name in names if f'run("{name}"' not in source} == set()


def test_classify() -> None:
    pytest.importorskip("torch")
    output = run("classify")
    assert losses(output)[-1] < losses(output)[0] / 3
    right, all_of_them = re.findall(r"held out: (\d+) of (\d+)", output)[0]
    assert int(all_of_them) == 15 and int(right) >= 11


def test_classify_photos(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    photos = DATA / "imagenet-sample"
    if not photos.is_dir():
        pytest.skip("no sample data beside the repository")
    import shardpack

    for folder in sorted(photos.iterdir())[:60]:
        shutil.copytree(folder, tmp_path / "photos" / folder.name)
    shardpack.pack(tmp_path / "photos", tmp_path / "packed")
    output = run("classify", tmp_path / "packed")
    # A picture for each class: there is something to fit, and nothing to learn.
    assert losses(output)[-1] < losses(output)[0]
    assert "of 6 right, among 60 classes" in output


def test_segment() -> None:
    pytest.importorskip("torch")
    output = run("segment")
    assert losses(output)[-1] < losses(output)[0] / 3
    shares = [float(share) for share in re.findall(r"([\d.]+)% of 24576 pixels right", output)]
    assert len(shares) == 5 and shares[-1] > 90


def test_segment_on_satellite_images(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    tiles = DATA / "hsi" / "enmap-potsdam-tiles"
    if not tiles.is_dir():
        pytest.skip("no sample data beside the repository")
    import shardpack

    shardpack.pack(tiles / "images", tmp_path / "tiles", masks=tiles / "labels")
    output = run("segment", tmp_path / "tiles")
    assert losses(output)[-1] < 0.8 * losses(output)[0]


def test_resume_after_a_kill() -> None:
    output = run("resume")
    assert "exit codes [-9, -9]" in output
    counts = re.findall(r"(\d+) samples before the save, (\d+) after it with 3 ranks, (\d+)", output)[0]
    before, after, samples = map(int, counts)
    assert before >= 48 and after > 0 and before + after == samples == 150
    assert "missing: 0, twice: 0" in output


def test_balanced() -> None:
    output = run("balanced")
    lines = re.findall(r"^(.*?): +\[(.*)\]", output, re.M)
    rows = {name: [int(number) for number in numbers.split()] for name, numbers in lines}
    assert rows["stored"] == [80, 15, 5] and rows["as stored"] == [320, 60, 20]
    assert sum(rows["balanced"]) == 400 and min(rows["balanced"]) > 100
    assert sum(rows["1 : 2 : 1"]) == 400 and 160 < rows["1 : 2 : 1"][1] < 240
    assert sum(rows["wide ones"]) == 400


def test_mixed() -> None:
    output = run("mixed")
    first, second = map(int, re.findall(r"drawn: (\d+) of the first, (\d+) of the second", output)[0])
    assert first + second == 200 and 0.66 <= first / (first + second) <= 0.74


def test_ddp() -> None:
    pytest.importorskip("torch")
    output = run("ddp")
    assert len(losses(output)) == 4 and losses(output)[-1] < losses(output)[0] / 2
    assert output.count("144 samples on 2 ranks") == 4


def test_lightning() -> None:
    pytest.importorskip("lightning")
    output = run("lightning_fit")
    first, last = re.findall(r"15 steps an epoch: loss ([\d.]+) in the first, ([\d.]+) in the last", output)[0]
    assert float(last) < float(first) / 2
    assert "evaluated: 600," in output


def test_accelerate() -> None:
    pytest.importorskip("accelerate")
    output = run("accelerate_train")
    assert len(losses(output)) == 3 and losses(output)[-1] < losses(output)[0] / 2
    assert "loaded: epoch 3 comes next" in output


def test_jax() -> None:
    pytest.importorskip("jax")
    output = run("jax_train")
    assert losses(output)[-1] < losses(output)[0] / 3
    assert "pixels: uint8 (10, 64, 64, 3) on " in output


def test_numpy_only() -> None:
    output = run("numpy_only")
    assert "150 samples" in output and "150 pictures" in output
    mean, deviation = re.findall(r"\[([\d.]+), ", output)
    assert 110 < float(mean) < 160 and 60 < float(deviation) < 100


def test_dataloader() -> None:
    pytest.importorskip("torch")
    output = run("dataloader")
    assert re.findall(r"map style, (\d) workers: (\d+) samples", output) == [("0", "150"), ("2", "150")]
    epochs = re.findall(r"iterable, (\d) workers, epoch (\d): (\d+) samples, (\d+) different, first (\S+)", output)
    assert [epoch[2:4] for epoch in epochs] == [("150", "150")] * 4
    # Another order in the other epoch.
    assert epochs[0][4] != epochs[1][4]
