#!/usr/bin/env python3
"""Loads boxes of volumes with their masks, flipped along three axes and rotated, with random gain and noise. Compares
our loader on a GPU and on the host with MONAI and a PyTorch DataLoader that read `.npy` files. Prints one JSON object.

    python benches/volumes.py FOLDER [--volumes 12] [--side 256] [--box 128] [--each 4] [--batch 2] [--rounds 3]
        [--seconds 5] [--threads 16] [--device cuda:0] [--codec blosc2-lz4]

FOLDER contains the volumes, as files and packed. The bench creates them if they are missing. The sides alternate in
each round, and the bench prints their median rates in boxes per second. `resident` keeps the encoded volumes on the
GPU. A side whose package or device is missing is skipped and listed in `missing`.
"""

import argparse
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import shardpack as sp


def volume(number: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns a smooth int16 volume with noise, similar to a CT scan, and its mask of three classes."""
    rng = np.random.default_rng(number)
    axis = np.linspace(-1, 1, side, dtype=np.float32)
    far = axis[:, None, None] ** 2 + axis[:, None] ** 2 + axis**2
    values = (1000 * np.cos(4 * far) + rng.normal(0, 20, far.shape)).astype(np.int16)
    return values, (far < 0.6).astype(np.uint8) + (far < 0.2).astype(np.uint8)


def make(folder: Path, options: argparse.Namespace) -> None:
    raw, packed = folder / "raw", folder / f"packed-{options.codec}"
    raw.mkdir(parents=True, exist_ok=True)
    for number in range(options.volumes):
        if not (raw / f"{number}-mask.npy").exists():
            values, mask = volume(number, options.side)
            np.save(raw / f"{number}.npy", values)
            np.save(raw / f"{number}-mask.npy", mask)
    if not packed.exists():
        with sp.Writer(packed, values="keep", codec=options.codec, layout="as-given") as writer:
            for number in range(options.volumes):
                sample = {"volume": np.load(raw / f"{number}.npy"), "mask": np.load(raw / f"{number}-mask.npy")}
                writer.write(sample, key=f"{number}")


def ours(options: argparse.Namespace, **more: Any) -> Iterator[int]:
    box = options.box
    loader = sp.Loader(
        sp.Dataset(options.folder / f"packed-{options.codec}"), options.batch, cube=f"patch{box}x{box}x{box}",
        patches_per_sample=options.each, threads=options.threads, mean={"volume": 0}, std={"volume": 500},
        augment=["hflip", "vflip", "dflip", "rot90", sp.augment.random_gain(0.25), sp.augment.gaussian_noise(0.1)], **more,
    )  # fmt: skip
    with loader:
        while True:
            for batch in loader:
                if "device" in more:
                    batch["volume"].sum().item()
                yield len(batch)


def monai(options: argparse.Namespace) -> Iterator[int]:
    from monai.data import DataLoader, Dataset, list_data_collate
    from monai import transforms as t

    keys, box = ["volume", "mask"], [options.box] * 3
    steps = [
        t.LoadImaged(keys), t.EnsureChannelFirstd(keys, channel_dim="no_channel"),
        t.ScaleIntensityRanged(["volume"], 0, 500, 0, 1), t.RandSpatialCropSamplesd(keys, box, options.each, random_size=False),
        *(t.RandFlipd(keys, 0.5, axis) for axis in range(3)), t.RandRotate90d(keys, 0.75, spatial_axes=(1, 2)),
        t.RandScaleIntensityd(["volume"], 0.25, 1.0), t.RandGaussianNoised(["volume"], 1.0, 0.0, 0.1),
    ]  # fmt: skip
    raw = options.folder / "raw"
    files = [{"volume": raw / f"{n}.npy", "mask": raw / f"{n}-mask.npy"} for n in range(options.volumes)]
    rows = max(1, options.batch // options.each)
    data = Dataset(files, t.Compose(steps))
    while True:
        for batch in DataLoader(data, rows, shuffle=True, num_workers=options.threads, collate_fn=list_data_collate):
            yield len(moved(options, batch["volume"]))


def torch_workers(options: argparse.Namespace) -> Iterator[int]:
    import torch

    raw, side = options.folder / "raw", options.box

    class Boxes(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return options.volumes * options.each

        def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
            rng = np.random.default_rng()
            both = [np.load(raw / f"{number // options.each}{end}.npy", mmap_mode="r") for end in ("", "-mask")]
            at = [int(rng.integers(length - side + 1)) for length in both[0].shape]
            cut = tuple(slice(start, start + side) for start in at)
            axes, turns = [axis for axis in range(3) if rng.random() < 0.5], int(rng.integers(4))
            values, mask = (torch.from_numpy(np.array(one[cut])).flip(axes).rot90(turns, (1, 2)) for one in both)
            values = values.float() / 500 * rng.uniform(0.75, 1.25)
            return values + 0.1 * torch.randn_like(values), mask.contiguous()

    while True:
        for values, _ in torch.utils.data.DataLoader(Boxes(), options.batch, shuffle=True, num_workers=options.threads):
            yield len(moved(options, values))


def moved(options: argparse.Namespace, values: Any) -> Any:
    return values.to(options.device) if options.device else values


def rate(side: Iterator[int], seconds: float) -> float:
    """Returns the boxes per second, not counting the first batches."""
    for _ in range(3):
        next(side)
    begun, boxes = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        boxes += next(side)
    return boxes / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    for name, value in {"volumes": 12, "side": 256, "box": 128, "each": 4, "batch": 2, "rounds": 3, "threads": 16}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--codec", default="blosc2-lz4")
    parser.add_argument("--device", help="a GPU, such as cuda:0")
    options = parser.parse_args()
    make(options.folder, options)
    on_device = {"device": options.device, "to": "torch", "decode": "device"}
    sides: dict[str, Callable[[], Iterator[int]]] = {"host": lambda: ours(options)}
    missing = [name for name in ("torch", "monai") if importlib.util.find_spec(name) is None]
    if options.device:
        sides["device"] = lambda: ours(options, **on_device)
        sides["resident"] = lambda: ours(options, **on_device, resident=True)
    else:
        missing.append("device")
    if "torch" not in missing:
        sides["torch"] = lambda: torch_workers(options)
        if "monai" not in missing:
            sides["monai"] = lambda: monai(options)
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(options.rounds):
        for name, side in sides.items():
            rates[name].append(rate(side(), options.seconds))
            print(f"round {number}: {name}: {rates[name][-1]:.1f} boxes a second", file=sys.stderr)
    medians = {name: round(statistics.median(found), 2) for name, found in rates.items()}
    given = {name: str(value) for name, value in vars(options).items() if name != "folder"}
    print(json.dumps({"options": given, "boxes_per_second": medians, "rounds": rates, "missing": missing}, indent=2))


if __name__ == "__main__":
    main()
