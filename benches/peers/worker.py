"""The process in which the bench runs one peer.

    python -m peers.worker convert STORE SOURCE OUT
    python -m peers.worker run NAME MODE DATA --threads 2 --batch 64 --seconds 3 [--cold]

`run` prints one JSON object: the number of samples and bytes delivered, seconds, CPU seconds, and the memory of the
process and its children. It runs one warm-up epoch, then whole epochs until the time is up.
"""

import argparse
import importlib
import json
import os
import resource
import time
from pathlib import Path
from types import SimpleNamespace

from .registry import SIDES
from .stores import WRITERS
from .tree import cpu_seconds, memory_bytes


def amount(batch):
    """Returns the number of samples and bytes in a batch, which is a dense array, a list of rows, or, for a limit,
    these two numbers.
    """
    if isinstance(batch, tuple):
        return batch
    if hasattr(batch, "nbytes"):
        return len(batch), batch.nbytes
    return len(batch), sum(row.nbytes if hasattr(row, "nbytes") else len(row) for row in batch)


def go_through(epoch):
    samples = total = 0
    for batch in epoch():
        rows, size = amount(batch)
        samples, total = samples + rows, total + size
    return samples, total


def drop(folder):
    """Drop the pages of all files below a folder from the page cache. The files must already be on disk."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(name, mode, job, seconds, cold):
    """Warm up, then count epochs. With `cold`, drop the pages of the store before each epoch, outside the measured
    time. Mapped and prefetched pages stay in memory.
    """
    function = getattr(importlib.import_module(f"peers.{SIDES[name].module}"), name.replace("-", "_"))
    epoch = function(mode, job)
    expected, _ = go_through(epoch)
    samples = total = epochs = spent = used = 0
    while epochs == 0 or spent < seconds:
        if cold:
            drop(job.data)
        start, cpu = time.perf_counter(), cpu_seconds(os.getpid())
        rows, size = go_through(epoch)
        spent, used = spent + time.perf_counter() - start, used + cpu_seconds(os.getpid()) - cpu
        if rows != expected:
            raise SystemExit(f"an epoch had {rows} samples, the first one {expected}")
        samples, total, epochs = samples + rows, total + size, epochs + 1
    # Measure the memory here too, because the bench samples this process only four times a second and may miss a short
    # run.
    memory = memory_bytes(os.getpid())
    return {"memory_bytes": memory, "samples": samples, "bytes": total, "epochs": epochs, "samples_an_epoch": expected, "seconds": spent, "cpu_seconds": used}


def main():
    parser = argparse.ArgumentParser(prog="peers.worker", description="One peer in one process.")
    commands = parser.add_subparsers(dest="command", required=True)
    convert = commands.add_parser("convert")
    convert.add_argument("store", choices=WRITERS)
    convert.add_argument("source", type=Path)
    convert.add_argument("out", type=Path)
    run = commands.add_parser("run")
    run.add_argument("name", choices=SIDES)
    run.add_argument("mode")
    run.add_argument("data", type=Path)
    run.add_argument("--threads", type=int, required=True)
    run.add_argument("--batch", type=int, required=True)
    run.add_argument("--seconds", type=float, required=True)
    run.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    if options.command == "convert":
        WRITERS[options.store](options.source, options.out)
        return
    # A torch DataLoader keeps a file descriptor open for each picture of a batch.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    result = measure(options.name, options.mode, SimpleNamespace(data=options.data, threads=options.threads, batch=options.batch), options.seconds, options.cold)
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
