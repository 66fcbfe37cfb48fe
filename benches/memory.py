"""Peak memory of `pack` on twelve cubes of 480 × 640 × 100 float32, for several numbers of threads and cube sizes.

The documentation gives the peak as a multiple of a cube's size. That factor must hold for any number of threads, and
must not grow with the number of cubes.
"""

import json
import os
from pathlib import Path

from bench import SHARDPACK, arguments, build, finish, remove, scratch, tree_bytes
from cubes import write


def peak(*args):
    """Returns the peak resident bytes of one run, as counted by the kernel, and the report that it printed."""
    read, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write_end, 1)
        os.execv(args[0], [str(arg) for arg in args])
    os.close(write_end)
    with os.fdopen(read) as stream:
        report = stream.read()
    _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"{' '.join(map(str, args))}: status {status}")
    return usage.ru_maxrss * 1024, json.loads(report)


def main():
    options = arguments(__doc__.splitlines()[0])
    build()
    rows, figures = [], []
    with scratch(options) as folder:
        folder = Path(folder)
        source = write(folder / "src", 12)
        files = sorted(source.iterdir())
        cube_bytes = files[0].stat().st_size
        for count, threads in [(3, 1), (12, 1), (12, 2), (12, 4)]:
            part = folder / f"src{count}"
            if not part.exists():
                part.mkdir()
                for path in files[:count]:
                    os.link(path, part / path.name)
            for values in ("auto", "keep"):
                remove(folder / "packed")
                bytes_, report = peak(str(SHARDPACK), "pack", part, folder / "packed", "--threads", threads, "--values", values, "--json")
                figures.append({"cubes": count, "threads": threads, "values": values, "peak_bytes": bytes_, "own_count": report["peak_rss_bytes"]})
                rows.append({
                    "cubes": count, "threads": threads, "values": values, "peak, MiB": bytes_ / 2**20, "threads × cube, MiB": threads * cube_bytes / 2**20,
                    "factor": bytes_ / (threads * cube_bytes),
                })
        total = tree_bytes(source)
    return finish("memory", options, {"source": "synthetic cubes 480 × 640 × 100 float32", "bytes": total, "figures": figures}, rows)


if __name__ == "__main__":
    main()
