"""Runs every example in a separate process, as its page describes, and checks the figures that it prints."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import shardpack as sp
from PIL import Image
from shardpack import _metrics

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def run(name: str, *arguments: str | Path) -> str:
    """Returns the output of an example. It runs with one thread per operation, because tests share the machine."""
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
    names = {path.stem for path in EXAMPLES.glob("*.py")} - {"tiny", "bars", "rates", "timeline", "unet"}
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
        pytest.skip("no sample data next to the repository")
    import shardpack

    for folder in sorted(photos.iterdir())[:60]:
        shutil.copytree(folder, tmp_path / "photos" / folder.name)
    shardpack.pack(tmp_path / "photos", tmp_path / "packed")
    output = run("classify", tmp_path / "packed")
    # With one picture per class, the model can fit the pictures but cannot generalise.
    assert losses(output)[-1] < losses(output)[0]
    assert "of 6 right, among 60 classes" in output


def test_imagenet_recipe(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    output = run("imagenet_recipe")
    assert losses(output)[-1] < losses(output)[0] and len(losses(output)) == 12
    right = int(re.findall(r"without augmentation: (\d+) of 150 right", output)[0])
    # There are three equally frequent classes, so random guesses would give 50.
    assert right > 90


def test_simclr_dino() -> None:
    pytest.importorskip("torch")
    output = run("simclr_dino")
    assert len(losses(output)) == 10 and losses(output)[-1] < losses(output)[0]
    right = int(re.findall(r"nearest neighbours: (\d+) of 150", output)[0])
    # There are three equally frequent classes, so random guesses would give 50.
    assert right > 60


def test_clips() -> None:
    pytest.importorskip("torch")
    output = run("clips")
    assert losses(output)[-1] < losses(output)[0] / 2
    right, all_of_them = re.findall(r"held out: (\d+) of (\d+)", output)[0]
    assert int(all_of_them) == 18 and int(right) >= 14
    assert re.search(r"loaded [1-9]\d* clips a second", output)


def test_own_transforms() -> None:
    pytest.importorskip("torch")
    output = run("own_transforms")
    for name, module in (("torchvision", "torchvision"), ("albumentations", "albumentations"), ("kornia", "kornia")):
        if importlib.util.find_spec(module):
            [counts] = re.findall(rf"{name}: (\d+) of 144 pictures changed, (\d+) the same in a resumed run", output)
            assert int(counts[0]) > 130 and int(counts[1]) == 144, output
        else:
            assert f"{name}: not installed" in output


def test_volumes_3d() -> None:
    pytest.importorskip("torch")
    output = run("volumes_3d")
    assert len(losses(output)) == 6 and losses(output)[-1] < 0.7 * losses(output)[0]
    [dice] = re.findall(r"held out: dice ([\d.]+)", output)
    assert float(dice) > 0.3
    assert re.search(r"shardpack, 2 threads: [1-9]\d* boxes a second", output)
    assert re.search(r"DataLoader, 2 workers with NumPy and SciPy: [1-9]\d* boxes a second", output)


def test_detect() -> None:
    pytest.importorskip("torch")
    output = run("detect")
    assert losses(output)[-1] < losses(output)[0]
    right, objects, claimed = map(int, re.findall(r"held out: (\d+) of (\d+) objects found, (\d+) claimed", output)[0])
    assert right > 0.7 * objects and claimed < 2 * objects


def rate_beside_torchvision(output: str) -> None:
    """Asserts that the output has the loader's rate, torchvision's rate if it is installed, and no refused row."""
    other = r"torchvision with \d+ workers: [\d,]+" if importlib.util.find_spec("torchvision") else "torchvision: not installed"
    assert re.search(rf"loaded [1-9][\d,]* pictures a second; {other}; refused \{{\}}", output), output


def test_detection() -> None:
    pytest.importorskip("torch")
    output = run("detection")
    assert losses(output)[-1] < losses(output)[0]
    right, objects, claimed = map(int, re.findall(r"held out: (\d+) of (\d+) objects found, (\d+) claimed", output)[0])
    assert right > 0.6 * objects and claimed < 2 * objects
    rate_beside_torchvision(output)


def test_segmentation() -> None:
    pytest.importorskip("torch")
    output = run("segmentation")
    assert losses(output)[-1] < losses(output)[0] / 2
    assert float(re.findall(r"mean intersection over union ([\d.]+)% of 4 classes", output)[0]) > 50
    rate_beside_torchvision(output)


def test_masked_autoencoder() -> None:
    pytest.importorskip("torch")
    output = run("masked_autoencoder")
    assert losses(output)[-1] < 0.95 * losses(output)[0]
    # There are three equally frequent classes, so random guesses would give 50.
    assert int(re.findall(r"nearest neighbours: (\d+) of 150", output)[0]) > 60
    rate_beside_torchvision(output)


def test_captions() -> None:
    pytest.importorskip("torch")
    output = run("captions")
    assert losses(output)[-1] < losses(output)[0] / 2
    found, count = map(int, re.findall(r"the caption of (\d+) of (\d+) pictures found", output)[0])
    assert count == 160 and found > 90
    assert re.search(r"crops of 224: \d+ a second, with captions \d+: \d+% of the rate of the pictures", output)


def test_segment() -> None:
    pytest.importorskip("torch")
    output = run("segment")
    assert losses(output)[-1] < losses(output)[0] / 3
    # Each epoch has four patches of 24 × 24 pixels from each of 24 scenes. The last figure covers all pixels.
    shares = [float(share) for share in re.findall(r"([\d.]+)% of 55296 pixels right", output)]
    assert len(shares) == 5 and shares[-2] > 90
    assert "24 whole scenes" in output and shares[-1] > 90


def test_segment_on_satellite_images(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    tiles = DATA / "hsi" / "enmap-potsdam-tiles"
    if not tiles.is_dir():
        pytest.skip("no sample data next to the repository")
    import shardpack

    shardpack.pack(tiles / "images", tmp_path / "tiles", masks=tiles / "labels")
    output = run("segment", tmp_path / "tiles")
    assert losses(output)[-1] < 0.8 * losses(output)[0]
    assert "18 whole scenes" in output


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


def test_telemetry() -> None:
    pytest.importorskip("opentelemetry.sdk")
    exported = json.loads(run("telemetry"))["resource_metrics"][0]["scope_metrics"][0]["metrics"]
    metrics = {metric["name"]: metric["data"] for metric in exported}
    samples, predicted = metrics["shardpack.loader.samples"], metrics["shardpack.loader.predicted_bytes"]
    assert samples["is_monotonic"] and samples["data_points"][0]["value"] == 144
    assert "is_monotonic" not in predicted and predicted["data_points"][0]["value"] > 0
    assert metrics["shardpack.loader.read"]["data_points"][0]["attributes"] == {"rank": 0}
    grows = {f"shardpack.loader.{name.removesuffix('_s')}" for name in (*_metrics.COUNTERS, "refused")}
    assert {name for name, data in metrics.items() if data.get("is_monotonic")} <= grows
    assert metrics.keys() - grows == {f"shardpack.loader.{name}" for name in _metrics.GAUGES}


def test_dataloader() -> None:
    pytest.importorskip("torch")
    output = run("dataloader")
    assert re.findall(r"map style, (\d) workers: (\d+) samples", output) == [("0", "150"), ("2", "150")]
    epochs = re.findall(r"iterable, (\d) workers, epoch (\d): (\d+) samples, (\d+) different, first (\S+)", output)
    assert [epoch[2:4] for epoch in epochs] == [("150", "150")] * 4
    # The other epoch must have a different order.
    assert epochs[0][4] != epochs[1][4]


@pytest.mark.parametrize("kind", ["pictures", pytest.param("cubes", marks=pytest.mark.long)])
def test_metric(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    source, masks = tmp_path / "in", tmp_path / "masks"
    masks.mkdir()
    for number in range(24):
        if kind == "pictures":
            # The classes are colours, so a linear model can separate them.
            (source / str(number % 3)).mkdir(parents=True, exist_ok=True)
            pixels = rng.integers(0, 80, (24, 24, 3), np.uint8)
            pixels[..., number % 3] += 120
            Image.fromarray(pixels).save(source / str(number % 3) / f"{number}.jpg", quality=95)
        else:
            source.mkdir(exist_ok=True)
            mask = rng.integers(0, 3, (20, 20), np.uint8)
            np.save(source / f"{number}.npy", (rng.random((20, 20, 6)) + np.eye(3, 6)[mask] * 2).astype(np.float32))
            np.save(masks / f"{number}.npy", mask)
    example = shlex.join([sys.executable, str(EXAMPLES / "metric.py")])
    options: dict[str, Any] = {"quality": [90]} if kind == "pictures" else {"masks": masks, "max_error": [0.01]}
    report = sp.report(source, metric=f"accuracy={example}", metric_baseline_runs=2, gallery=0, **options)
    [metric] = report["metrics"]
    assert "failures" not in metric
    assert len(metric["baseline"]) == 2 and len(metric["values"]) == len(report["candidates"]) > 1
    assert all(value > 0.9 for value in [*metric["baseline"], *(one["value"] for one in metric["values"])])
    sp.pack(source, tmp_path / "out", **({"masks": masks, "values": "auto"} if kind == "cubes" else {}))
    assert float(run("metric", tmp_path / "out", tmp_path / "out")) > 0.9


def test_poster(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("blosc2")
    size = ["--cubes", "9", "--shape", "40,60,12", "--epochs", "2", "--batch", "4", "--workers", "2"]
    output = run("poster", *size, "--device", "cpu", "--out", tmp_path, "--dir", tmp_path)
    report = json.loads((tmp_path / "poster.json").read_text())
    assert [step["step"] for step in report["steps"]] == [
        "original files, float32", "+ Blosc", "+ float16", "shardpack: decoding on the host",
    ]  # fmt: skip
    assert report["cubes_an_epoch"] == 8 and report["left_out"] == re.findall(r"left out, no GPU: (.*)", output)
    assert report["left_out"] == ["+ augmentation on the GPU", "+ ring of pinned memory"]
    for step in report["steps"]:
        assert len(step["epochs"]) == 2 and step["cubes_per_s"] * step["seconds"] == pytest.approx(8)
        assert step["step"] in output
    assert report["alone_cubes_per_s"] > 0 and "augmentation and model alone" in output
    stored = [step["bytes_on_disk"] for step in report["steps"]]
    assert stored[0] > stored[1] > stored[2] > 0
    drawing = ElementTree.parse(tmp_path / "poster.svg").getroot()
    words = [text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert [word for word in words if word in {step["step"] for step in report["steps"]}] == words[2::2]
    assert {path.name for path in tmp_path.iterdir()} == {"poster.json", "poster.svg"}


def test_the_unet_of_the_poster_keeps_the_resolution(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchvision")
    monkeypatch.syspath_prepend(EXAMPLES)
    import unet

    scores = unet.UNet(12)(torch.zeros(2, 12, 64, 72))
    assert scores.shape == (2, 19, 64, 72)
    scores.square().mean().backward()


def test_the_timeline_draws_an_area_for_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(EXAMPLES)
    import timeline

    with timeline.watched(torch.device("cpu")) as samples:
        assert samples == []
    picture = timeline.svg("title", "a < b", [("one", [(5.0, 0.5), (6.0, 1.0)]), ("two", [(9.0, 0.0), (13.0, 0.5)])])
    words = [text.text for text in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]
    assert words == ["title", "a < b", "one", "0.75", "two", "0.25", "4 s"]


def test_every_step_of_the_poster_gives_the_same_cubes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("blosc2")
    monkeypatch.syspath_prepend(EXAMPLES)
    import poster

    # Load more batches than the ring has slots, and run the GPU steps on the CPU.
    size = ["--cubes", "14", "--shape", "20,30,8", "--batch", "2", "--workers", "2", "--device", "cpu", "--codec", "zstd"]
    job = poster.prepare(poster.arguments(size), tmp_path)
    monkeypatch.setattr(poster, "augment", lambda cubes: cubes.permute(0, 3, 1, 2))
    cubes = [poster.synthetic(seed, (20, 30, 8)) for seed in range(14)]
    assert len({cube.tobytes() for cube in cubes}) == 14
    for step in poster.STEPS:
        kept = np.float32 if step.store in ("npy", "blosc32") else np.float16
        expected = sorted(cube.astype(kept).astype(np.float32).tobytes() for cube in cubes)
        with step.open(job) as epoch:
            for _ in range(2):
                batches = list(epoch())
                assert {(batch.shape, batch.dtype) for batch in batches} == {((2, 8, 20, 30), torch.float32)}
                found = [cube.permute(1, 2, 0).contiguous().numpy().tobytes() for batch in batches for cube in batch]
                assert sorted(found) == expected, step.name


def test_the_poster_turns_cubes_without_shearing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("blosc2")
    monkeypatch.syspath_prepend(EXAMPLES)
    import poster

    # A disc in a picture that is not square must stay a disc wherever it is moved.
    rows, columns = np.mgrid[:80, :120]
    disc = ((rows - 39.5) ** 2 + (columns - 59.5) ** 2 < 24**2).astype(np.float32)
    torch.manual_seed(3)
    for turned in poster.augment(torch.from_numpy(np.stack([disc[..., None]] * 16))).numpy()[:, 0] > 0.5:
        height, width = (np.ptp(np.flatnonzero(turned.any(axis=axis))) + 1 for axis in (1, 0))
        assert abs(height - width) <= 2 and 0.85 * 48 < height < 1.15 * 48


def test_cubes_of_the_user_for_the_poster(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("blosc2")
    (tmp_path / "mine").mkdir()
    for number in range(3):
        shape = (24, 30, 6) if number < 2 else (24, 30, 5)
        np.save(tmp_path / "mine" / f"{number}.npy", np.random.default_rng(number).random(shape, np.float32))
    small = ["--source", tmp_path / "mine", "--batch", "2", "--workers", "1", "--epochs", "1", "--model", "none", "--cold"]
    failed = subprocess.run(
        [sys.executable, EXAMPLES / "poster.py", *small, "--out", tmp_path, "--device", "cpu"], capture_output=True, text=True
    )
    assert failed.returncode == 1 and "(24, 30, 5)" in failed.stderr and "(24, 30, 6)" in failed.stderr
    (tmp_path / "mine" / "2.npy").unlink()
    run("poster", *small, "--out", tmp_path, "--device", "cpu")
    report = json.loads((tmp_path / "poster.json").read_text())
    assert report["source"] == "given" and report["shape"] == [24, 30, 6] and report["cubes_an_epoch"] == 2


def test_weekly(tmp_path: Path) -> None:
    lines = run("weekly", tmp_path).splitlines()
    assert lines[0] == "week 0: generation 1, 8 photos"
    assert lines[1] == "week 1: generation 2, 16 photos"
    assert lines[2] == "refused: the state is from generation 1, but the dataset is at generation 2"
    assert lines[3:5] == ["week 2: generation 3, 24 photos, new class wart", "week 3: generation 4, 32 photos"]
    # Each job finishes the previous job's epoch, and starts the next epoch on the newest generation.
    for epoch in range(4):
        assert lines[5 + epoch] == f"epoch {epoch} on generation {epoch + 1}: {8 * (epoch + 1)} photos, as without a stop: True"
    assert lines[9:] == ["generation 5: 28 photos; 4 older generations deleted", "whole: True"]


def test_sixteen_bits() -> None:
    pytest.importorskip("torch")
    output = run("sixteen_bits")
    assert "240 pictures of plain, spot packed in" in output and ": uint16" in output
    assert "0 pictures lost a level" in output
    sixteen, eight = map(int, re.findall(r"held out: (\d+)% right with 16 bits, (\d+)% if they had been cut to 8", output)[0])
    assert sixteen >= 95 and eight < 80


def test_detect_draws_what_it_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(EXAMPLES)
    import detect
    import tiny

    view = sp.view.random_resized_crop(detect.SIDE, scale=(0.4, 1))
    with sp.Loader(tiny.objects(tmp_path / "objects", 12), 12, image=view, **detect.OPTIONS) as loader:
        batch = next(iter(loader))
    detect.draw(batch, tmp_path / "batch.png")
    with Image.open(tmp_path / "batch.png") as file:
        sheet = np.asarray(file.convert("RGB"))
    # The sheet has two rows of pictures, and the second is half full.
    assert sheet.shape == (2 * detect.SIDE, 8 * detect.SIDE, 3) and not sheet[detect.SIDE :, 4 * detect.SIDE :].any()
    drawn = 0
    for row, boxes in enumerate(batch["boxes"]):
        top, left = row // 8 * detect.SIDE, row % 8 * detect.SIDE
        cell = sheet[top : top + detect.SIDE, left : left + detect.SIDE]
        for box in boxes.numpy():
            # The last pixel of a box is inside the edge of the box.
            x0, y0, x1, y1 = np.clip(np.ceil(box - np.float32([0.5, 0.5, 1.5, 1.5])).astype(int), 0, detect.SIDE - 1)
            for line in (cell[y0, x0 : x1 + 1], cell[y1, x0 : x1 + 1], cell[y0 : y1 + 1, x0], cell[y0 : y1 + 1, x1]):
                assert (line == detect.BOX).all()
            drawn += 1
    assert drawn > 12
