"""Compares `verify` and raw streaming with a plain sequential read of the same files. Goal: at least 0.9 of its rate.

The plain read is `examples/plain_read.rs`, which reads 1 MiB at a time with one thread and discards the bytes. "Warm"
means that the files are in the page cache. "Cold" means that their pages are dropped before each turn
(`posix_fadvise`), so the data come from the disk.
"""

import json
import os
from pathlib import Path

from bench import (
    PLAIN_READ,
    SHARDPACK,
    arguments,
    build,
    finish,
    interleave,
    median,
    run,
    scratch,
    seconds,
    tree_bytes,
)
from pack_keep import source


def drop(files):
    """Drop the pages of these files from the page cache. The files must already be on disk."""
    for path in files:
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def plain(files):
    """Returns the seconds of one plain read. The program measures them itself, so its start-up time is excluded."""
    return json.loads(run(PLAIN_READ, *files))["seconds"]


def stream(dataset):
    """Returns the seconds of one raw streaming pass, as measured by the command itself."""
    report = json.loads(run(SHARDPACK, "bench", dataset, "--stream", "--epochs", "1", "--json"))
    return float(report["seconds"])


def main():
    options = arguments(__doc__.splitlines()[0], megabytes=(1600, "about the size of the dataset"))
    build()
    rows, kept = [], {}
    with scratch(options) as folder:
        folder = Path(folder)
        tree, what = source(folder, options.megabytes)
        run(SHARDPACK, "pack", tree, folder / "packed", "--shard-size", "256MiB")
        files = sorted((folder / "packed").glob("*.shard"))
        size = tree_bytes(folder / "packed")
        for name, before in [("warm", lambda: None), ("cold", lambda: drop(files))]:

            def turn(side):
                before()
                return side()

            times = interleave(
                options.rounds,
                plain=lambda: turn(lambda: plain(files)),
                stream=lambda: turn(lambda: stream(folder / "packed")),
                # Time the whole process, because a user also waits for its start-up.
                verify=lambda: turn(lambda: seconds(lambda: run(SHARDPACK, "verify", folder / "packed"))),
            )
            kept[name] = times
            base = median(times["plain"])
            for side, label in [("plain", "plain read loop"), ("stream", "raw streaming, CRC on"), ("verify", "`verify`, whole process")]:
                rows.append({"page cache": name, "side": label, "seconds (median)": median(times[side]), "MB/s": size / median(times[side]) / 1e6, "rate ÷ plain read": base / median(times[side])})
    return finish("stream", options, {"source": what, "bytes": size, "times": kept}, rows)


if __name__ == "__main__":
    main()
