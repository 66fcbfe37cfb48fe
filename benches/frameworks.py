"""Measures the rate of the loader with arrays of PyTorch, JAX and CuPy on a GPU.

    python benches/frameworks.py PHOTOS                needs shardpack and PyTorch; JAX and CuPy if installed

PHOTOS is a folder of class folders of JPEGs, which the bench packs `--copies` times with the defaults. The consumer
waits for every batch of normalised crops of 224 x 224 and does nothing else. The frameworks take turns. The table shows
medians over the rounds. If JAX or CuPy is not installed, the bench prints the reason.
"""

import argparse
import importlib
import os
import sys
import time
from pathlib import Path

import bench
from device import prepare
from device_others import BATCH, MEAN, STD
from pack_keep import REAL
from peers import tree

FRAMEWORKS = ("torch", "jax", "cupy")


def main():
    options = arguments()
    # JAX otherwise takes three quarters of the GPU's memory when it starts.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    present = [name for name in FRAMEWORKS if is_present(name)]
    sides = [(to, decode) for decode in ("device", "host") for to in present]
    turns = {side: [] for side in sides}
    with bench.scratch(options) as folder:
        facts = prepare(Path(folder), options)
        for _ in range(options.rounds):
            for side in sides:
                turns[side].append(turn(Path(folder) / "pictures", *side, options))
                print(*side, bench.show(turns[side][-1]["crops a second"]), file=sys.stderr, flush=True)
    rows = [
        {"arrays": to, "decoded on": decode}
        | {name: bench.median([one[name] for one in turns[to, decode]]) for name in turns[to, decode][0]}
        for to, decode in sides
    ]
    bench.finish("frameworks", options, facts | {"batch": BATCH, "seconds": options.seconds}, rows)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("photos", nargs="?", type=Path, default=REAL, help="folder of class folders of JPEGs")
    add("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads of the loader (default all cores)")
    add("--rounds", type=int, default=3, help="turns of each framework (default 3)")
    add("--seconds", type=float, default=2.0, help="seconds of a turn (default 2)")
    add("--copies", type=int, default=12, help="copies of the photos to pack (default 12)")
    add("--device", default="cuda:0", help="the GPU (default cuda:0)")
    add("--dir", type=Path, default=bench.ROOT / "target" / "bench", help="folder for files (default target/bench)")
    add("--no-save", action="store_true", help="do not write a file to benches/runs")
    options = parser.parse_args()
    if not options.photos.is_dir():
        parser.error(f"no folder of JPEGs: {options.photos}")
    # `device.prepare` needs this option, but this bench measures no cubes.
    options.cubes = 0
    return options


def is_present(name):
    try:
        importlib.import_module(name)
    except ImportError as why:
        print(f"{name}: {why}", file=sys.stderr)
        return False
    return True


def turn(data, to, decode, options):
    """Loads one epoch to warm up, then counts crops until the time is up."""
    import shardpack as sp

    view = {"image": "rrc224", "layout": "chw", "dtype": "float16", "mean": MEAN, "std": STD}
    where = {"threads": options.threads, "to": to, "device": options.device, "decode": decode}
    with sp.Loader(sp.Dataset(data), BATCH, fields=["image", "label"], **view, **where) as batches:
        for batch in batches:
            wait_for(to, batch["image"])
        crops, start, cpu = 0, time.perf_counter(), tree.cpu_seconds(os.getpid())
        while time.perf_counter() - start < options.seconds:
            for batch in batches:
                wait_for(to, batch["image"])
                crops += len(batch)
        spent, refused = time.perf_counter() - start, batches.stats()["refused"]
    cores = (tree.cpu_seconds(os.getpid()) - cpu) / spent
    return {"crops a second": crops / spent, "cores busy": round(cores, 1), "rows refused": sum(refused.values())}


def wait_for(to, images):
    """Waits until the GPU has finished a batch."""
    if to == "torch":
        sys.modules["torch"].cuda.synchronize()
    elif to == "jax":
        images.block_until_ready()
    else:
        sys.modules["cupy"].cuda.get_current_stream().synchronize()


if __name__ == "__main__":
    main()
