#!/usr/bin/env python3
"""Patches of compressed scenes: several a scene, beside a memmap of the raw scenes and beside one a scene. Prints one
JSON object.

    python benches/patches.py FOLDER [--scenes 12] [--side 600] [--bands 200] [--patch 32] [--each 64] [--rounds 5]
        [--codec blosc2-lz4 --layout as-given]

FOLDER takes the scenes, raw and packed: made when they are not there. Every side fills batches of 32 patches, float32
NumPy. The memmap copies each patch into its row, in one process, from places drawn at random, scene by scene drawn at
random: what people write. Rounds are alternated, medians of the rates divided: those of the wall clock, and of processor
time of all threads, which other programs on the machine change less. The page cache is warm, unless --cold, which drops
the files from it before each round.
"""

import argparse
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

BATCH = 32


def drop(folder: Path) -> None:
    """Lets the page cache forget the files of a folder."""
    for file in folder.rglob("*"):
        if file.is_file():
            handle = os.open(file, os.O_RDONLY)
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


class Clock:
    """Wall and processor time."""

    def __init__(self) -> None:
        self.begun = time.perf_counter(), time.process_time()

    def rates(self, patches: int) -> tuple[float, float]:
        return patches / (time.perf_counter() - self.begun[0]), patches / (time.process_time() - self.begun[1])


def memmap(files: list[Path], patch: int, patches: int, rng: np.random.Generator) -> tuple[float, float]:
    scenes = [np.load(file, mmap_mode="r") for file in files]
    clock = Clock()
    batch = np.empty((BATCH, patch, patch, scenes[0].shape[-1]), np.float32)
    for number in range(patches):
        scene = scenes[rng.integers(len(scenes))]
        y, x = (int(rng.integers(side - patch + 1)) for side in scene.shape[:2])
        batch[number % BATCH] = scene[y : y + patch, x : x + patch]
    return clock.rates(patches)


def loaded(loader: sp.Loader) -> tuple[float, float]:
    clock = Clock()
    return clock.rates(sum(len(batch["cube"]) for batch in loader))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    for name, value in {"scenes": 12, "side": 600, "bands": 200, "patch": 32, "each": 64, "rounds": 5, "threads": 2}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--cold", action="store_true")
    for name in ("codec", "layout"):
        parser.add_argument(f"--{name}", default="auto")
    options = parser.parse_args()
    raw, packed = options.folder / "raw", options.folder / f"packed-{options.codec}-{options.layout}"
    if not raw.exists():
        cubes.write(raw, options.scenes, (options.side, options.side, options.bands))
    if not packed.exists():
        sp.pack(raw, packed, values="keep", codec=options.codec, layout=options.layout)
    files, dataset = sorted(raw.glob("*.npy")), sp.Dataset(packed)
    patch, each = f"patch{options.patch}x{options.patch}", options.each
    common = {"cube": patch, "fields": ["cube"], "threads": options.threads, "end": "uneven", "dtype": "float32"}
    sides = {
        "several": sp.Loader(dataset, BATCH, patches_per_sample=each, **common),
        "grid": sp.Loader(dataset, BATCH, patches="grid", **common),
        "one": sp.Loader(dataset, BATCH, **common),
    }
    rng, rates = np.random.default_rng(0), {name: [] for name in (*sides, "memmap")}
    if not options.cold:
        for file in [*raw.rglob("*"), *packed.rglob("*")]:
            file.is_file() and file.read_bytes()
    for number in range(options.rounds + 1):
        for name in rates:
            if options.cold:
                drop(options.folder)
            rate = loaded(sides[name]) if name in sides else memmap(files, options.patch, len(files) * each, rng)
            # The first round fills what is made once.
            if number > 0:
                rates[name].append(rate)
    medians = {name: statistics.median(wall for wall, _ in values) for name, values in rates.items()}
    by_processor = {name: statistics.median(cpu for _, cpu in values) for name, values in rates.items()}
    sizes = {name: sum(file.stat().st_size for file in folder.rglob("*")) for name, folder in {"raw": raw, "packed": packed}.items()}
    result = {
        "options": {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items() if name != "folder"},
        "bytes": sizes,
        "patches_a_second": {name: round(value, 1) for name, value in medians.items()},
        "patches_a_processor_second": {name: round(value, 1) for name, value in by_processor.items()},
        "by_memmap": {name: round(medians[name] / medians["memmap"], 2) for name in sides},
        "by_memmap_of_processor_time": {name: round(by_processor[name] / by_processor["memmap"], 2) for name in sides},
        "several_by_one": round(medians["several"] / medians["one"], 2),
        "predicted_bytes": {name: loader.predicted_bytes for name, loader in sides.items()},
        "rates": {name: [[round(rate, 1) for rate in pair] for pair in values] for name, values in rates.items()},
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
