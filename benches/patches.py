#!/usr/bin/env python3
"""Compares the rates of loading several patches per compressed scene, one patch per scene, and patches from a memmap of
raw scenes. Prints one JSON object.

    python benches/patches.py FOLDER [--scenes 12] [--side 600] [--bands 200] [--patch 32] [--each 64] [--rounds 5]
        [--codec blosc2-lz4 --layout as-given --values keep] [--seconds 3] [--device cuda:0] [--batch 32]

FOLDER contains the scenes, raw and packed. The bench creates them if they are missing. Every side fills batches of
float32 NumPy patches. --device adds three sides: `device` decodes on the GPU into PyTorch tensors, `resident` also
keeps the encoded scenes on the GPU, and `memmap-device` copies the memmap's patches to the GPU. Each side runs a first
epoch, then whole epochs for some seconds. A loader starts the next epoch early, so it has the same amount of data ready
at the start and at the end of the measurement. The rounds alternate between the sides. The bench reports ratios of
median rates, by wall clock and by the CPU time of all threads, which other programs disturb less. The page cache is
warm. With --cold, the files are dropped from it before each side runs, and the first epoch is measured.
"""

import argparse
import functools
import json
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import cubes
import shardpack as sp



def drop(folder: Path) -> None:
    """Drops the files of a folder from the page cache."""
    for file in folder.rglob("*"):
        if file.is_file():
            handle = os.open(file, os.O_RDONLY)
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


class Clock:
    def __init__(self) -> None:
        self.begun = time.perf_counter(), time.process_time()

    def rates(self, patches: int) -> tuple[float, float]:
        wall, processor = time.perf_counter() - self.begun[0], time.process_time() - self.begun[1]
        return patches / wall, patches / max(processor, 1e-9)


class Memmap:
    """Reads scenes without our loader: each row of a batch is a copy of a random patch of a random scene."""

    def __init__(self, files: list[Path], patch: int, patches: int, batch: int, device: str | None = None) -> None:
        self.batch, self.device = batch, device
        self.scenes = [np.load(file, mmap_mode="r") for file in files]
        self.patch, self.patches, self.rng = patch, patches, np.random.default_rng(0)

    def epoch(self) -> int:
        patch = self.patch
        for number in range(self.patches):
            if number % self.batch == 0:
                batch = np.empty((self.batch, patch, patch, self.scenes[0].shape[-1]), np.float32)
            scene = self.scenes[self.rng.integers(len(self.scenes))]
            y, x = (int(self.rng.integers(side - patch + 1)) for side in scene.shape[:2])
            batch[number % self.batch] = scene[y : y + patch, x : x + patch]
            if self.device and number % self.batch == self.batch - 1:
                import torch

                torch.from_numpy(batch).to(self.device)
        return self.patches

    def close(self) -> None:
        self.scenes = []


class Loaded:
    def __init__(self, loader: sp.Loader) -> None:
        self.loader = loader

    def epoch(self) -> int:
        return sum(len(batch["cube"]) for batch in self.loader)

    def close(self) -> None:
        self.loader.close()


def measured(open_side, seconds: float) -> dict[str, tuple[float, float]]:
    """Returns the rates by wall time and by CPU time: for the first epoch, and for whole epochs that together take
    `seconds`.
    """
    clock = Clock()
    side = open_side()
    first = clock.rates(side.epoch())
    # The loader has prepared equal parts of the next epoch at the start and at the end of the measurement, so the two
    # cancel out.
    clock, patches = Clock(), 0
    while time.perf_counter() - clock.begun[0] < seconds:
        patches += side.epoch()
    later = clock.rates(patches)
    side.close()
    return {"first": first, "later": later}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    for name, value in {"scenes": 12, "side": 600, "bands": 200, "patch": 32, "each": 64, "rounds": 5, "threads": 2, "batch": 32}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--device", help="a GPU, such as cuda:0")
    for name, value in {"codec": "auto", "layout": "auto", "values": "keep"}.items():
        parser.add_argument(f"--{name}", default=value)
    parser.add_argument("--sides", nargs="+")
    options = parser.parse_args()
    on_device = ["device", "resident", "memmap-device"] if options.device else []
    options.sides = options.sides or ["several", "grid", "one", "memmap", *on_device]
    raw = options.folder / "raw"
    packed = options.folder / f"packed-{options.values}-{options.codec}-{options.layout}"
    if not raw.exists():
        cubes.write(raw, options.scenes, (options.side, options.side, options.bands))
    if not packed.exists():
        sp.pack(raw, packed, values=options.values, codec=options.codec, layout=options.layout)
    files, dataset = sorted(raw.glob("*.npy")), sp.Dataset(packed)
    patch, each = f"patch{options.patch}x{options.patch}", options.each
    common = {"cube": patch, "fields": ["cube"], "threads": options.threads, "end": "uneven", "dtype": "float32"}
    loader = functools.partial(sp.Loader, dataset, options.batch, **common)
    there = {"patches_per_sample": each, "device": options.device, "decode": "device", "to": "torch"}
    openers = {
        "several": lambda: Loaded(loader(patches_per_sample=each)),
        "grid": lambda: Loaded(loader(patches="grid")),
        "one": lambda: Loaded(loader()),
        "device": lambda: Loaded(loader(**there)),
        "resident": lambda: Loaded(loader(**there, resident=True)),
        "memmap": lambda: Memmap(files, options.patch, len(files) * each, options.batch),
        "memmap-device": lambda: Memmap(files, options.patch, len(files) * each, options.batch, options.device),
    }
    rates = {name: [] for name in options.sides}
    for _ in range(options.rounds):
        for name in rates:
            if options.cold:
                drop(options.folder)
            else:
                for file in [*raw.rglob("*"), *packed.rglob("*")]:
                    file.is_file() and file.read_bytes()
            rates[name].append(measured(openers[name], 0 if options.cold else options.seconds))
    counts = "first" if options.cold else "later"
    wall, processor = (
        {name: statistics.median(rate[counts][which] for rate in values) for name, values in rates.items()} for which in (0, 1)
    )
    sizes = {name: sum(file.stat().st_size for file in folder.rglob("*")) for name, folder in {"raw": raw, "packed": packed}.items()}
    result = {
        "options": {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items() if name != "folder"},
        "bytes": sizes,
        "patches_a_second": {name: round(value, 1) for name, value in wall.items()},
        "patches_a_processor_second": {name: round(value, 1) for name, value in processor.items()},
        "predicted_bytes": loader(patches_per_sample=each).predicted_bytes,
        "rates": {
            name: [{of: [round(rate, 1) for rate in pair] for of, pair in round_.items()} for round_ in values]
            for name, values in rates.items()
        },
    }
    for name, of in (("by_memmap", "memmap"), ("by_one", "one")):
        if of in rates:
            result[name] = {side: round(wall[side] / wall[of], 2) for side in rates if side != of}
            result[f"{name}_of_processor_time"] = {side: round(processor[side] / processor[of], 2) for side in rates if side != of}
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
