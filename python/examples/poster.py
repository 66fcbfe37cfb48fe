"""Measure six ways to load hyperspectral cubes onto a GPU. Each adds one improvement to the previous one.

    python poster.py                                     48 made-up cubes of 480 × 640 × 100: 16 GB below --dir
    python poster.py --cubes 12 --shape 120,160,100      smaller
    python poster.py --source FOLDER                     your cubes: .npy, ENVI, MATLAB v5, GeoTIFF, Tivita
    python poster.py --model both                        also with a realistic model, a U-Net (unet.py)

The first five steps come from a poster about training on surgical images (PyTorch Conference 2023,
github.com/IMSY-DKFZ/htc): original files, Blosc, float16, augmentation on the GPU, and a fixed ring of pinned
memory. They use NumPy, python-blosc2 and PyTorch. The sixth step decodes on the GPU. All steps have the same codec,
number of workers, augmentation and model. The last line of the table is the rate of augmentation and model alone, on a
batch that is already on the device.

Each step starts with one warm-up epoch. Then each round repeats the epoch for at least ``--seconds``. The result is the
median of ``--epochs`` rounds. ``--copies`` makes epochs longer with hard links to the files. The program prints a table
and writes ``poster.json`` and ``poster.svg``. It needs PyTorch and blosc2, and torchvision for the U-Net. Without a
GPU, it leaves out two steps, and shardpack decodes on the host. With nvidia-ml-py, it also plots the GPU utilisation of
each step over time, in ``poster-utilisation.svg``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import blosc2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

import bars
import shardpack as sp
import timeline

SLOTS = 4
# Codec, level and filter for python-blosc2, and the name of the codec in shardpack.
CODECS: dict[str, tuple[Any, int, Any, Literal["blosc2-lz4", "blosc2-zstd"]]] = {
    "lz4": (blosc2.Codec.LZ4, 5, blosc2.Filter.BITSHUFFLE, "blosc2-lz4"),
    "zstd": (blosc2.Codec.ZSTD, 1, blosc2.Filter.SHUFFLE, "blosc2-zstd"),
}
# An epoch yields batches on the device: float32 [cubes, height, width, channels], or channels first if the batch is
# already augmented.
Epoch = Callable[[], Iterator[Tensor]]


@dataclass
class Job:
    folder: Path
    shape: tuple[int, int, int]
    batch: int
    workers: int
    device: torch.device

    @property
    def cuda(self) -> bool:
        return self.device.type == "cuda"

    def paths(self, store: str) -> list[Path]:
        return sorted((self.folder / store).iterdir())


class Step(NamedTuple):
    """A way to load cubes. ``store`` is a folder in the job's folder, and ``open`` returns a function that runs one
    epoch.
    """

    name: str
    store: str
    needs_gpu: bool
    open: Callable[[Job], AbstractContextManager[Epoch]]


def augment(cubes: Tensor) -> Tensor:
    """Rotate, scale, shift and flip each cube at random. Takes float32 ``[n, height, width, channels]`` and returns
    channels first.
    """
    count, height, width, channels = cubes.shape
    angle = (torch.rand(count) * 2 - 1) * math.pi / 4
    size = 0.9 + 0.2 * torch.rand(count)
    flips = torch.randint(0, 2, (2, count)) * 2 - 1
    along, aside = flips * torch.cos(angle) / size, flips * torch.sin(angle) / size
    rows = torch.zeros(count, 2, 3)
    # Coordinates run from -1 to 1 along both sides. Without the aspect ratio, a rotation would shear the cube.
    rows[:, 0, 0], rows[:, 0, 1] = along[0], -aside[0] * height / width
    rows[:, 1, 0], rows[:, 1, 1] = aside[1] * width / height, along[1]
    rows[:, :, 2] = (torch.rand(count, 2) * 2 - 1) / 16
    grid = nn.functional.affine_grid(rows.to(cubes.device), [count, channels, height, width], align_corners=False)
    return nn.functional.grid_sample(cubes.permute(0, 3, 1, 2), grid, align_corners=False)


class Model:
    """Runs one training step per batch. The small model has a layer over the spectrum of each pixel, and a layer over
    the pixel's neighbours.
    """

    def __init__(self, name: str, channels: int, device: torch.device) -> None:
        body: nn.Module = nn.Sequential(nn.Conv2d(channels, 32, 1), nn.ReLU(), nn.Conv2d(32, 8, 3, padding=1))
        if name == "unet":
            import unet

            body = unet.UNet(channels)
        self.body, self.device = body.to(device), device
        self.optimizer = torch.optim.AdamW(self.body.parameters())

    def __call__(self, cubes: Tensor) -> None:
        with torch.autocast(self.device.type, torch.float16, enabled=self.device.type == "cuda"):
            loss = self.body(cubes).float().square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def read_npy(path: Path, shape: tuple[int, int, int]) -> Tensor:
    return torch.from_numpy(np.load(path))


def read_blosc(path: Path, shape: tuple[int, int, int]) -> Tensor:
    cube = np.empty(shape, np.float16 if path.suffix == ".b2h" else np.float32)
    blosc2.decompress2(path.read_bytes(), dst=cube, nthreads=1)
    return torch.from_numpy(cube)


class Cubes(TorchDataset[Tensor]):
    """A dataset of the cubes in a store, for a DataLoader. Its workers augment the cubes if ``augmented`` is true."""

    def __init__(self, job: Job, store: str, augmented: bool) -> None:
        self.paths, self.shape, self.augmented = job.paths(store), job.shape, augmented
        self.read = read_npy if store == "npy" else read_blosc

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, at: int) -> Tensor:
        cube = self.read(self.paths[at], self.shape)
        return augment(cube.float()[None])[0] if self.augmented else cube


def dataloader(store: str, augmented: bool) -> Callable[[Job], AbstractContextManager[Epoch]]:
    """Load with torch's DataLoader. Its worker processes read and decode the cubes, and augment them if ``augmented``
    is true.
    """

    @contextmanager
    def opened(job: Job) -> Iterator[Epoch]:
        batches: DataLoader[Tensor] = DataLoader(
            Cubes(job, store, augmented), job.batch, shuffle=True, drop_last=True, num_workers=job.workers,
            persistent_workers=True, pin_memory=job.cuda,
        )  # fmt: skip

        def epoch() -> Iterator[Tensor]:
            for batch in batches:
                there = batch.to(job.device, non_blocking=True)
                yield there if augmented else augment(there.float())

        yield epoch

    return opened


@contextmanager
def ring(job: Job) -> Iterator[Epoch]:
    """Decompress in threads into a ring of pinned batches, and copy them to the device on a separate stream."""
    slots = [torch.empty((job.batch, *job.shape), dtype=torch.float16, pin_memory=job.cuda) for _ in range(SLOTS)]
    rows = [slot.numpy() for slot in slots]
    copied = [torch.cuda.Event() if job.cuda else None for _ in slots]
    side = torch.cuda.Stream(job.device) if job.cuda else None
    paths = job.paths("blosc16")
    # Without this call, Blosc2 holds the GIL, and the other threads wait while one decompresses.
    blosc2.set_releasegil(True)

    def fill(path: Path, slot: int, row: int) -> None:
        data = path.read_bytes()
        if (event := copied[slot]) is not None:
            # Wait until the previous batch of this slot is copied. An event that was never recorded counts as done.
            event.synchronize()
        blosc2.decompress2(data, dst=rows[slot][row], nthreads=1)

    def copy(slot: int) -> Tensor:
        if side is None:
            return slots[slot].float()
        with torch.cuda.stream(side):
            there = slots[slot].to(job.device, non_blocking=True)
        copied[slot].record(side)  # type: ignore[union-attr]
        return there

    def use(there: Tensor) -> Tensor:
        if side is not None:
            now = torch.cuda.current_stream(job.device)
            now.wait_stream(side)
            there.record_stream(now)
        return augment(there.float())

    with ThreadPoolExecutor(job.workers) as pool:

        def epoch() -> Iterator[Tensor]:
            random.shuffle(paths)
            starts = range(0, len(paths) - job.batch + 1, job.batch)
            filling: deque[tuple[int, list[Future[None]]]] = deque()

            def begin(number: int) -> None:
                if number < len(starts):
                    some, slot = paths[starts[number] : starts[number] + job.batch], number % SLOTS
                    filling.append((slot, [pool.submit(fill, path, slot, row) for row, path in enumerate(some)]))

            # Fill all slots except the one being copied.
            for number in range(SLOTS - 1):
                begin(number)
            there: Tensor | None = None
            for number in range(len(starts)):
                slot, work = filling.popleft()
                for part in work:
                    part.result()
                following = copy(slot)
                begin(number + SLOTS - 1)
                # Copy one batch while the previous batch is in use.
                if there is not None:
                    yield use(there)
                there = following
            if there is not None:
                yield use(there)

        yield epoch


@contextmanager
def loader(job: Job) -> Iterator[Epoch]:
    """Load with shardpack. It copies the compressed bytes to the GPU and decodes them there."""
    with sp.Loader(
        sp.Dataset(job.folder / "packed"), job.batch, fields=["cube"], dtype="float32", to="torch",
        device=str(job.device), decode="device" if job.cuda else "host", threads=job.workers,
    ) as batches:  # fmt: skip

        def epoch() -> Iterator[Tensor]:
            for batch in batches:
                yield augment(batch["cube"])

        yield epoch


@contextmanager
def still(job: Job) -> Iterator[Epoch]:
    """Yield the same device batch over and over, without loading anything."""
    there = torch.rand((job.batch, *job.shape), device=job.device)

    def epoch() -> Iterator[Tensor]:
        for _ in range(len(job.paths("npy")) // job.batch):
            yield augment(there)

    yield epoch


STEPS = [
    Step("original files, float32", "npy", False, dataloader("npy", True)),
    Step("+ Blosc", "blosc32", False, dataloader("blosc32", True)),
    Step("+ float16", "blosc16", False, dataloader("blosc16", True)),
    Step("+ augmentation on the GPU", "blosc16", True, dataloader("blosc16", False)),
    Step("+ ring of pinned memory", "blosc16", True, ring),
    Step("shardpack: decoding on the GPU", "packed", False, loader),
]
# Upper limit of the rate for steps that augment on the device.
CEILING = Step("augmentation and model alone", "packed", False, still)


def synthetic(seed: int, shape: tuple[int, int, int]) -> NDArray[np.float32]:
    """Return mixtures of eight smooth spectra with 1 % noise. They compress about as well as real cubes."""
    height, width, channels = shape
    rng = np.random.default_rng(seed)
    knots = rng.random((8, 9))
    spectra = np.stack([np.interp(np.linspace(0, 8, channels), np.arange(9), row) for row in knots])
    coarse = torch.from_numpy(rng.random((1, 8, height // 40 + 2, width // 40 + 2), np.float32))
    shares = nn.functional.interpolate(coarse, (height, width), mode="bilinear")[0].numpy() ** 4 + 0.01
    shares /= shares.sum(axis=0)
    cube = np.moveaxis(shares, 0, 2) @ spectra
    noisy: NDArray[np.float32] = np.asarray(cube * (1 + 0.01 * rng.standard_normal(shape, np.float32)), np.float32)
    return noisy


def originals(options: argparse.Namespace, folder: Path) -> Iterator[NDArray[np.float32]]:
    """Yield the user's cubes, or ``--cubes`` synthetic cubes without ``--source``."""
    if options.source is None:
        yield from (synthetic(seed, options.shape) for seed in range(options.cubes))
        return
    sp.pack(options.source, folder / "source", values="keep", prefer="speed")
    for sample in sp.Dataset(folder / "source"):
        yield sample["cube"].astype(np.float32)


def prepare(options: argparse.Namespace, folder: Path) -> Job:
    """Write the same cubes to every store."""
    codec, level, shuffle, ours = CODECS[options.codec]
    for store in ("npy", "blosc32", "blosc16", "npy16"):
        (folder / store).mkdir()
    shape, count = None, 0
    for number, cube in enumerate(originals(options, folder)):
        shape, count = shape or cube.shape, number + 1
        if cube.ndim != 3 or cube.shape != shape:
            raise SystemExit(f"cube {number} of {options.source}: expected shape {shape}, three sides, found {cube.shape}")
        name, half = f"cube-{number:05}", cube.astype(np.float16)
        np.save(folder / "npy" / f"{name}.npy", cube)
        np.save(folder / "npy16" / f"{name}.npy", half)
        for array, store, suffix in ((cube, "blosc32", "b2f"), (half, "blosc16", "b2h")):
            packed = blosc2.compress2(
                array, codec=codec, clevel=level, filters=[shuffle], typesize=array.itemsize, nthreads=options.workers
            )
            (folder / store / f"{name}.{suffix}").write_bytes(packed)
    if shape is None or count < options.batch:
        raise SystemExit(f"expected at least a batch of {options.batch} cubes, found: {count}")
    for store in ("npy", "blosc32", "blosc16", "npy16"):
        for path in sorted((folder / store).iterdir()):
            for copy in range(1, options.copies):
                os.link(path, path.with_stem(f"{path.stem}-{copy}"))
    prefer: Literal["device", "speed"] = "device" if options.device.type == "cuda" else "speed"
    sp.pack(folder / "npy16", folder / "packed", values="keep", codec=ours, prefer=prefer)
    return Job(folder, shape, options.batch, options.workers, options.device)


def drop(folder: Path) -> None:
    """Drop the pages of the files from the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(step: Step, job: Job, options: argparse.Namespace, busy: timeline.Samples) -> list[float]:
    """Run a warm-up, then return the seconds per epoch of each round. The warm-up's utilisation samples are dropped."""
    expected = len(job.paths("npy")) // job.batch * job.batch
    model = Model(options.model, job.shape[2], job.device) if options.model != "none" else None
    seconds = []
    with step.open(job) as epoch:
        for round_number in range(options.epochs + 1):
            # The warm-up is a single epoch. With a cold cache, each round is a single epoch too.
            least = 0.0 if options.cold or round_number == 0 else options.seconds
            if options.cold:
                drop(job.folder / step.store)
            cubes, rounds, start = 0, 0, time.perf_counter()
            while rounds == 0 or time.perf_counter() - start < least:
                for batch in epoch():
                    cubes += len(batch)
                    if model is not None:
                        model(batch)
                rounds += 1
            if job.cuda:
                torch.cuda.synchronize(job.device)
            seconds.append((time.perf_counter() - start) / rounds)
            if round_number == 0:
                busy.clear()
            if cubes != expected * rounds:
                raise SystemExit(f"{step.name}: expected {expected * rounds} cubes in {rounds} epochs, found {cubes}")
    return seconds[1:]


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    def shape(words: str) -> tuple[int, ...]:
        sides = tuple(map(int, words.split(",")))
        if len(sides) != 3 or min(sides) < 1:
            raise argparse.ArgumentTypeError(f"expected height,width,channels, found: {words}")
        return sides

    def positive(words: str) -> int:
        if int(words) < 1:
            raise argparse.ArgumentTypeError(f"expected at least 1, found: {words}")
        return int(words)

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--source", type=Path, help="folder of cubes (default: make cubes)")
    parser.add_argument("--cubes", type=positive, default=48, help="cubes to make (default 48)")
    parser.add_argument("--shape", type=shape, default=(480, 640, 100), help="their shape (default 480,640,100)")
    parser.add_argument("--copies", type=positive, default=1, help="times that each cube comes in an epoch (default 1)")
    parser.add_argument("--epochs", type=positive, default=3, help="measured rounds (default 3)")
    parser.add_argument("--seconds", type=float, default=2.0, help="least time of a round, in whole epochs (default 2)")
    parser.add_argument("--batch", type=positive, default=6, help="cubes in a batch (default 6)")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--workers", type=positive, default=cores, help="processes or threads (default all cores)")
    parser.add_argument("--codec", choices=CODECS, default="lz4", help="lz4 (default), or zstd as on the poster")
    models = ["small", "unet", "both", "none"]
    parser.add_argument("--model", choices=models, default="small", help="model to train (default small)")
    parser.add_argument("--cold", action="store_true", help="drop the files from the page cache before each epoch")
    default = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", type=torch.device, default=default, help="default cuda, or cpu without a GPU")
    parser.add_argument("--dir", type=Path, help="disk to measure (default: the folder for temporary files)")
    parser.add_argument("--out", type=Path, default=Path(), help="folder of poster.json and poster.svg (default: here)")
    return parser.parse_args(words)


def measured(job: Job, options: argparse.Namespace) -> dict[str, Any]:
    """Measure all steps with one model. Print a table, and return its rows."""
    rows: list[dict[str, Any]] = []
    used = len(job.paths("npy")) // job.batch * job.batch
    sizes = {step.store: sum(path.stat().st_size for path in job.folder.glob(f"{step.store}/**/*")) for step in STEPS}
    print(f"{'step':34} {'s an epoch':>10} {'cubes/s':>9} {'times the first':>15} {'GB on disk':>10} {'GPU busy':>8}")
    for step in STEPS:
        if step.needs_gpu and not job.cuda:
            continue
        name = step.name if job.cuda else step.name.replace("decoding on the GPU", "decoding on the host")
        with timeline.watched(job.device) as busy:
            times = measure(step, job, options, busy)
        middle = statistics.median(times)
        rows.append({
            "step": name, "seconds": middle, "cubes_per_s": used / middle,
            "times_the_first": (rows[0]["seconds"] if rows else middle) / middle,
            "bytes_on_disk": sizes[step.store], "epochs": times, "busy": list(busy),
        })  # fmt: skip
        mean = f"{statistics.mean(share for _, share in busy):8.2f}" if busy else f"{'–':>8}"
        figures = f"{middle:10.3g} {rows[-1]['cubes_per_s']:9.1f} {rows[-1]['times_the_first']:14.1f}x"
        print(f"{name:34} {figures} {sizes[step.store] / 1e9:10.2f} {mean}", flush=True)
    ceiling = used / statistics.median(measure(CEILING, job, options, []))
    print(f"{CEILING.name:34} {used / ceiling:10.3g} {ceiling:9.1f}")
    return {"model": options.model, "cubes_an_epoch": used, "alone_cubes_per_s": ceiling, "steps": rows}


def main(options: argparse.Namespace) -> None:
    options.out.mkdir(parents=True, exist_ok=True)
    models = ["small", "unet"] if options.model == "both" else [options.model]
    with tempfile.TemporaryDirectory(prefix="poster-", dir=options.dir) as folder:
        job = prepare(options, Path(folder))
        tables = [measured(job, argparse.Namespace(**vars(options) | {"model": model})) for model in models]
    left_out = [step.name for step in STEPS if step.needs_gpu and not job.cuda]
    for name in left_out:
        print(f"left out, no GPU: {name}")
    device = torch.cuda.get_device_name(job.device) if job.cuda else "no GPU"
    cubes = " × ".join(map(str, job.shape))
    about = {
        "device": device, "torch": torch.__version__, "blosc2": blosc2.__version__, "shardpack": sp.__version__,
        "python": sys.version.split()[0], "shape": job.shape, "copies": options.copies, "batch": job.batch,
        "workers": job.workers, "codec": options.codec, "cold": options.cold,
        "source": "given" if options.source else "made", "left_out": left_out,
    }  # fmt: skip
    # The top level holds the table of the first model, and ``others`` the tables of the other models.
    (options.out / "poster.json").write_text(json.dumps({**about, **tables[0], "others": tables[1:]}, indent=2) + "\n")
    subtitle = f"{cubes}, batches of {job.batch}, {job.workers} workers, {options.codec}, {device}; medians of {options.epochs} rounds"
    for number, table in enumerate(tables):
        rows, suffix = table["steps"], f"-{table['model']}" if number else ""
        drawn = [(row["step"], row["cubes_per_s"], f"{row['cubes_per_s']:.3g} ({row['times_the_first']:.1f}×)") for row in rows]
        (options.out / f"poster{suffix}.svg").write_text(bars.svg("Cubes a second", subtitle, drawn, accent=len(drawn) - 1))
        if all(row["busy"] for row in rows):
            lines = [(row["step"], row["busy"]) for row in rows]
            picture = timeline.svg("Share of time in which the GPU computes", subtitle, lines)
            (options.out / f"poster{suffix}-utilisation.svg").write_text(picture)


if __name__ == "__main__":
    main(arguments())
