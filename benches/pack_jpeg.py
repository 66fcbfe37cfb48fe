"""Compares the rate of tiling and re-encoding JPEGs with libjpeg-turbo alone, on all cores. Goal: at least 0.9 of
libjpeg-turbo's rate.

The baseline transcodes (or decodes and encodes) the same photos in memory, with the same restart intervals and number
of threads. It does not read or write files, and computes no checksums.
"""

import os
import subprocess
from pathlib import Path

from bench import ROOT, SHARDPACK, arguments, build, finish, interleave, median, remove, run, scratch, seconds, tree_bytes, warm
from pack_keep import source

ALONE = ROOT / "target" / "release" / "examples" / "jpeg_pack_rates"
MODES = {"tile": ("--check-pixels", "none"), "reencode": ("--quality", "85", "--score", "none")}


def main():
    options = arguments(__doc__.splitlines()[0], megabytes=(110, "about the size of the tree"))
    build()
    subprocess.run(["cargo", "build", "--release", "--quiet", "-p", "shardpack-jpeg", "--example", "jpeg_pack_rates"], cwd=ROOT, check=True)
    cores = os.cpu_count()
    with scratch(options) as folder:
        folder = Path(folder)
        tree, what = source(folder, options.megabytes)
        size = tree_bytes(tree)
        warm(tree)

        def pack(mode):
            remove(folder / "packed")
            return seconds(lambda: run(SHARDPACK, "pack", tree, folder / "packed", "--jpeg", mode, *MODES[mode], "--json"))

        sides = {}
        for mode in MODES:
            sides[f"{mode} alone"] = lambda mode=mode: float(run(ALONE, tree, "alone", mode, cores))
            sides[f"pack {mode}"] = lambda mode=mode: pack(mode)
        times = interleave(options.rounds, **sides)
        photos = sum(1 for path in tree.rglob("*") if path.is_file())
    rows = [
        {
            "side": side,
            "seconds (median)": median(values),
            "photos/s": photos / median(values),
            "rate ÷ alone": median(times[f"{side.split()[-1]} alone"]) / median(values) if side.startswith("pack") else 1.0,
        }
        for side, values in times.items()
    ]
    return finish("pack-jpeg", options, {"source": what, "bytes": size, "times": times}, rows)


if __name__ == "__main__":
    main()
