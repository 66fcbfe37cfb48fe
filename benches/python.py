"""Compares the Python loader with the Rust loader and torch's DataLoader, with the same photos and cores.

    .venv-package/bin/python benches/python.py PHOTOS

PHOTOS is a folder of class folders of JPEGs. The sides take turns, each in its own process: first a warm-up epoch, then
whole epochs for `--seconds`. `DataLoader` is torchvision's ImageFolder with `decode_jpeg`, RandomResizedCrop(224) and
RandomHorizontalFlip in `--threads` persistent worker processes. Memory includes the process and its children, with
shared pages counted once.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import bench
from pack_keep import REAL
from peers import tree

BATCH = {"pictures": 64, "cubes": 2}
VIEW = {"pictures": ("--image", "rrc224"), "cubes": ("--cube", "whole")}
SIDES = ["python", "rust", "dataloader"]


def main():
    options = arguments()
    if options.side:
        print(json.dumps(SIDE[options.side](options)), flush=True)
        return
    bench.build()
    with bench.scratch(options) as folder:
        folder = Path(folder)
        bench.run(bench.SHARDPACK, "pack", options.photos, folder / "pictures")
        if options.cubes:
            cubes(folder, options)
        runs = {kind: rounds(kind, folder, options) for kind in ("pictures", "cubes") if (folder / kind).is_dir()}
        overhead = one("overhead", "pictures", folder, options)
    rows = [row for kind, sides in runs.items() for row in summary(kind, sides)]
    facts = {"threads": options.threads, "batch": BATCH, "per batch over a batch that is ready, µs": overhead["microseconds"], "runs": runs}
    bench.finish("python", options, facts, rows)
    print(
        f"\na finished batch costs {overhead['microseconds']:.0f} µs in Python: `next`, and `image` and `label` as "
        f"torch tensors (median of {overhead['batches']})"
    )


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    bench.add_photos(parser, REAL)
    parser.add_argument("--rounds", type=int, default=3, help="runs per side (default 3)")
    parser.add_argument("--seconds", type=float, default=4.0, help="minimum seconds of a measured run (default 4)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads or worker processes of each side (default all cores)")
    parser.add_argument(
        "--cubes", type=int, default=6, help="number of synthetic cubes of 480 x 640 x 100, 0 for none (default 6)"
    )
    parser.add_argument(
        "--dir", type=Path, default=bench.ROOT / "target" / "bench",
        help="folder for files, on the disk to measure (default target/bench)",
    )  # fmt: skip
    parser.add_argument("--no-save", action="store_true", help="do not write a file to benches/runs")
    parser.add_argument("--side", choices=[*SIDE], help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=[*BATCH], help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def cubes(folder, options):
    """Makes synthetic cubes and packs them with the defaults of `pack`."""
    from cubes import write

    write(folder / "sources", options.cubes, (480, 640, 100))
    bench.run(bench.SHARDPACK, "pack", folder / "sources", folder / "cubes")


def rounds(kind, folder, options):
    runs = {}
    for _ in range(options.rounds):
        for side in SIDES if kind == "pictures" else SIDES[:2]:
            result = rust(kind, folder, options) if side == "rust" else one(side, kind, folder, options)
            runs.setdefault(side, []).append(result)
    return runs


def one(side, kind, folder, options):
    data = options.photos if side == "dataloader" else folder / kind
    command = [sys.executable, __file__, options.photos, "--side", side, "--kind", kind, "--data", data, "--threads", options.threads, "--seconds", options.seconds]
    return json.loads(bench.run(*command))


def rust(kind, folder, options):
    """`shardpack bench`, which uses the same loader without Python."""
    once = json.loads(bench.run(bench.SHARDPACK, "bench", folder / kind, *VIEW[kind], "--batch-size", BATCH[kind], "--threads", options.threads, "--epochs", 4, "--json"))
    return {"samples_per_s": once["samples_per_s"], "cpu_s_per_sample": once["cpu_s_per_sample"], "memory_bytes": once["peak_rss_bytes"]}


def timed(epoch, seconds):
    """Warm up, then count whole epochs."""
    epoch()
    samples = spent = used = 0
    with tree.PeakMemory(os.getpid()) as memory:
        while spent < seconds:
            start, cpu = time.perf_counter(), tree.cpu_seconds(os.getpid())
            samples += epoch()
            spent, used = spent + time.perf_counter() - start, used + tree.cpu_seconds(os.getpid()) - cpu
    return {"samples_per_s": samples / spent, "cpu_s_per_sample": used / samples, "memory_bytes": memory.bytes}


def python(options):
    """`shardpack.Loader`, with every field of a batch as a torch tensor."""
    import shardpack

    with shardpack.Loader(shardpack.Dataset(options.data), BATCH[options.kind], image="rrc224", end="uneven", threads=options.threads, to="torch") as loader:
        return timed(lambda: sum(len(batch) for batch in loader if all(value is not None for _, value in batch.items())), options.seconds)


def overhead(options):
    """Measures the CPU time that the consumer spends to receive a finished batch. The consumer is deliberately slow, so
    every batch is ready before it is requested.
    """
    import shardpack

    times = []
    with shardpack.Loader(shardpack.Dataset(options.data), BATCH[options.kind], image="rrc224", threads=options.threads, to="torch") as loader:
        for _ in range(6):
            batches = iter(loader)
            while True:
                time.sleep(0.1)
                start = time.thread_time()
                batch = next(batches, None)
                if batch is None:
                    break
                batch["image"], batch["label"]
                times.append(time.thread_time() - start)
    return {"microseconds": 1e6 * statistics.median(times), "batches": len(times)}


def dataloader(options):
    """torch's DataLoader over torchvision's ImageFolder."""
    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    dataset = ImageFolder(options.data, transform=v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()]), loader=lambda path: decode_jpeg(read(path), mode=ImageReadMode.RGB))

    def read(path):
        return torch.frombuffer(bytearray(Path(path).read_bytes()), dtype=torch.uint8)

    loader = DataLoader(dataset, batch_size=BATCH["pictures"], shuffle=True, num_workers=options.threads, persistent_workers=True)
    return timed(lambda: sum(len(labels) for _, labels in loader), options.seconds)


SIDE = {"python": python, "dataloader": dataloader, "overhead": overhead}
NAMES = {"python": "`shardpack.Loader`", "rust": "the Rust loader", "dataloader": "`DataLoader`, torchvision"}


def summary(kind, sides):
    """Returns a row for each side, with the medians and the ratio of the Python loader to that side."""
    middle = {side: {figure: bench.median([run[figure] for run in runs]) for figure in runs[0]} for side, runs in sides.items()}
    ours = middle["python"]
    return [
        {
            "samples": kind,
            "side": NAMES[side],
            "samples/s": figures["samples_per_s"],
            "CPU ms/sample": 1e3 * figures["cpu_s_per_sample"],
            "peak MB": figures["memory_bytes"] / 1e6,
            "rate: `shardpack.Loader` ÷ this": ours["samples_per_s"] / figures["samples_per_s"],
            "CPU": ours["cpu_s_per_sample"] / figures["cpu_s_per_sample"],
            "memory": ours["memory_bytes"] / figures["memory_bytes"],
        }
        for side, figures in middle.items()
    ]


if __name__ == "__main__":
    main()
