"""Compares the rate of packing float cubes with Blosc2's own compressor, on all cores and with the same settings. Goal:
at least 0.9 of Blosc2's rate.

All sides read the same .npy files from the page cache and write the same Blosc2 chunks. *Blosc2 alone* only compresses
arrays that are already in memory and cast. *The same job* reads, casts with NumPy, compresses with `nthreads` = all
cores, writes and fsyncs. Unlike the packer, it does not check ranges, measure errors or compute checksums. The bench
runs once in memory (`/dev/shm`) and once on disk.
"""

import os
import shutil
from pathlib import Path

import blosc2
import numpy as np
from bench import (
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
from cubes import write

UNIT_BYTES = 4 << 20
CASES = [
    ("float32, lz4 + shuffle", "keep", "blosc2-lz4", None, np.float32),
    ("float32, zstd 1 + shuffle", "keep", "blosc2-zstd", 1, np.float32),
    ("float16, lz4 + shuffle", "f16", "blosc2-lz4", None, np.float16),
    ("float16, zstd 1 + shuffle", "f16", "blosc2-zstd", 1, np.float16),
]


def parameters(codec, dtype):
    """Returns the settings with which python-blosc2 makes the same chunks as the packer."""
    typesize = np.dtype(dtype).itemsize
    return {
        "codec": blosc2.Codec.LZ4 if codec == "blosc2-lz4" else blosc2.Codec.ZSTD,
        "clevel": 5 if codec == "blosc2-lz4" else 1,
        "typesize": typesize,
        "blocksize": (64 << 10) * typesize,
        "splitmode": blosc2.SplitMode.ALWAYS_SPLIT,
        "filters": [blosc2.Filter.SHUFFLE],
        "nthreads": len(os.sched_getaffinity(0)),
    }


def chunks(array, settings):
    data = array.reshape(-1).view(np.uint8)
    for at in range(0, len(data), UNIT_BYTES):
        yield blosc2.compress2(data[at : at + UNIT_BYTES], **settings)


def alone(files, codec, dtype):
    spent, settings = 0.0, parameters(codec, dtype)
    for path in files:
        array = np.load(path).astype(dtype, copy=False)
        spent += seconds(lambda: sum(map(len, chunks(array, settings))))
    return spent


def same_job(files, codec, dtype, out):
    """Returns the total seconds for reading, casting, compressing, writing and one final fsync."""
    out.unlink(missing_ok=True)

    def work():
        with out.open("wb") as file:
            for path in files:
                file.writelines(chunks(np.load(path).astype(dtype, copy=False), parameters(codec, dtype)))
            file.flush()
            os.fsync(file.fileno())

    return seconds(work)


def measure(place, folder, options, kept):
    """Returns the table rows of all cases, measured in one folder."""
    source = write(folder / "src", options.cubes)
    files = sorted(source.iterdir())
    size = tree_bytes(source)
    warm(source)
    out, rows = folder / "packed", []
    for label, values, codec, level, dtype in CASES:
        packing = ["--kind", "cubes", "--values", values, "--codec", codec, "--filter", "shuffle", "--layout", "as-given", "--band-difference", "off"]
        packing += ["--level", level] if level else []

        def pack():
            remove(out)
            return seconds(lambda: run(SHARDPACK, "pack", source, out, *packing, "--json"))

        pack()
        times = interleave(
            options.rounds,
            alone=lambda: alone(files, codec, dtype),
            same_job=lambda: same_job(files, codec, dtype, folder / "chunks"),
            pack=pack,
        )
        kept[f"{place}: {label}"] = times
        base, job, packed = (median(times[side]) for side in ("alone", "same_job", "pack"))
        rows.append({
            "place": place, "stored as": label, "Blosc2 alone, MB/s": size / base / 1e6, "the same job, MB/s": size / job / 1e6, "`pack`, MB/s": size / packed / 1e6,
            "rate ÷ alone": base / packed, "rate ÷ the same job": job / packed, "bytes ÷ Blosc2": tree_bytes(out) / (folder / "chunks").stat().st_size,
        })
    return rows, size


def main():
    options = arguments(__doc__.splitlines()[0], cubes=(12, "number of cubes, 480 × 640 × 100 float32"))
    build()
    rows, kept, size = [], {}, 0
    places = {"disk": options.dir}
    memory = Path("/dev/shm")
    if memory.is_dir() and shutil.disk_usage(memory).free > options.cubes * 300e6:
        places = {"memory": memory, **places}
    for place, folder in places.items():
        options.dir = folder
        with scratch(options) as name:
            more, size = measure(place, Path(name), options, kept)
            rows += more
    return finish("pack-cubes", options, {"source": f"{options.cubes} synthetic cubes 480 × 640 × 100 float32", "bytes": size, "times": kept}, rows)


if __name__ == "__main__":
    main()
