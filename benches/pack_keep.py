"""Compares packing JPEGs unchanged (`--jpeg keep`) with copying the same tree to the same disk. Goal: at least 0.8 of
the copy's rate.

Both sides read from the page cache and end with everything on disk. The bench measures two kinds of copy. The goal
refers to the cheapest durable one: `cp -r` and a single `syncfs`. The other is `cp -r` and an fsync of each file. Tiling
the same photos runs in the same rounds.

The bench also reports the processor time of a photo, which other programs on the machine change less than the rate.
"""

import os
import shutil
import subprocess
from pathlib import Path

from bench import (
    ROOT,
    SHARDPACK,
    arguments,
    build,
    finish,
    interleave,
    median,
    remove,
    run,
    scratch,
    seconds,
    tree_bytes,
    warm,
)

REAL = ROOT.parent / "shared" / "data" / "imagenet-sample"


def source(folder, megabytes):
    """Makes a tree of about `megabytes` MB from copies of the photos, or of the demo's pictures if there are no photos.
    Each copy has its own class folders."""
    if REAL.is_dir():
        origin, what = REAL, "1000 ImageNet photos"
    else:
        run(ROOT / ".venv/bin/python", ROOT / "scripts/make_demo.py", folder / "demo")
        origin, what = folder / "demo" / "pictures", "the demo's 300 pictures"
    copies = max(1, round(megabytes * 1e6 / tree_bytes(origin)))
    for i in range(copies):
        for path in origin.iterdir():
            shutil.copytree(path, folder / "src" / f"{i}-{path.name}")
    return folder / "src", f"{what}, {copies} times"


def copy(source, out, each_file):
    """Copy a tree to disk. Removing an older copy is not timed."""
    remove(out)

    def work():
        subprocess.run(["cp", "-r", source, out], check=True)
        if each_file:
            files = subprocess.run(["find", out, "-print0"], capture_output=True, check=True).stdout
            subprocess.run(["xargs", "-0", "sync"], input=files, check=True)
        else:
            subprocess.run(["sync", "-f", out], check=True)

    return seconds(work)


def pack(source, out, mode, spent):
    """Pack a tree, and append the processor time to `spent`. The command returns once everything is on disk."""
    remove(out)
    subprocess.run(["sync", "-f", source], check=True)
    before = os.times()
    took = seconds(lambda: run(SHARDPACK, "pack", source, out, "--jpeg", mode, "--json"))
    after = os.times()
    spent.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return took


def main():
    options = arguments(__doc__.splitlines()[0], megabytes=(800, "about the size of the tree, to have work for seconds"))
    build()
    with scratch(options) as folder:
        folder = Path(folder)
        tree, what = source(folder, options.megabytes)
        size = tree_bytes(tree)
        warm(tree)
        photos = sum(1 for path in tree.rglob("*") if path.is_file())
        pack(tree, folder / "packed", "keep", [])
        spent = {"pack": [], "tile": []}
        times = interleave(
            options.rounds,
            copy=lambda: copy(tree, folder / "copy", False),
            pack=lambda: pack(tree, folder / "packed", "keep", spent["pack"]),
            tile=lambda: pack(tree, folder / "packed", "tile", spent["tile"]),
        )
        # Time this copy only once. Thousands of fsyncs take minutes, their time varies little, and the goal does not
        # depend on it.
        times |= interleave(1, careful=lambda: copy(tree, folder / "copy", True))
    base = median(times["copy"])
    labels = {"copy": "`cp -r`, then one syncfs", "careful": "`cp -r`, then fsync of each file", "pack": "`shardpack pack --jpeg keep`", "tile": "`shardpack pack --jpeg tile`"}
    rows = [
        {"side": label, "seconds (median)": median(times[side]), "MB/s": size / median(times[side]) / 1e6, "photos/s": photos / median(times[side]), "rate ÷ copy": base / median(times[side]), "CPU µs of a photo": median(spent[side]) / photos * 1e6 if side in spent else ""}
        for side, label in labels.items()
    ]
    return finish("pack-keep", options, {"source": what, "bytes": size, "times": times, "processor_s": spent}, rows)


if __name__ == "__main__":
    main()
