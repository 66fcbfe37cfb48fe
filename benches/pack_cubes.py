"""Packing float cubes against Blosc2's own compressor on all cores with the same settings. Goal: at least 0.9 of its rate.

Both sides take the same .npy files from the page cache and make the same Blosc2 chunks. Blosc2 alone reads the file, casts to float16 with NumPy where the
packer casts, compresses with `nthreads` = all cores, and writes nothing: it is the compressor, no more. The packer reads, checks ranges, casts, measures the
errors, compresses, checksums, writes and fsyncs.
"""

import os
from pathlib import Path

import blosc2
import numpy as np
from bench import SHARDPACK, arguments, build, finish, interleave, median, remove, run, scratch, seconds, tree_bytes, warm
from cubes import write

UNIT_BYTES = 4 << 20
CASES = [
    ("float32, lz4 + shuffle", "keep", "blosc2-lz4", None, np.float32),
    ("float32, zstd 1 + shuffle", "keep", "blosc2-zstd", 1, np.float32),
    ("float16, lz4 + shuffle", "f16", "blosc2-lz4", None, np.float16),
    ("float16, zstd 1 + shuffle", "f16", "blosc2-zstd", 1, np.float16),
]


def alone(files, codec, dtype):
    """Blosc2 on all cores, one chunk of 4 MiB after the other, blocks of 64 KiB a stream; returns seconds of compression alone, and the bytes."""
    typesize = np.dtype(dtype).itemsize
    parameters = {
        "codec": blosc2.Codec.LZ4 if codec == "blosc2-lz4" else blosc2.Codec.ZSTD,
        "clevel": 5 if codec == "blosc2-lz4" else 1,
        "typesize": typesize,
        "blocksize": (64 << 10) * typesize,
        "splitmode": blosc2.SplitMode.ALWAYS_SPLIT,
        "filters": [blosc2.Filter.SHUFFLE],
        "nthreads": len(os.sched_getaffinity(0)),
    }
    spent, size = 0.0, 0
    for path in files:
        data = np.load(path).astype(dtype, copy=False).reshape(-1).view(np.uint8)

        def work():
            nonlocal size
            for at in range(0, len(data), UNIT_BYTES):
                size += len(blosc2.compress2(data[at : at + UNIT_BYTES], **parameters))

        spent += seconds(work)
    return spent, size


def main():
    options = arguments(__doc__.splitlines()[0], cubes=(12, "number of cubes, 480 × 640 × 100 float32"))
    build()
    rows, kept = [], {}
    with scratch(options) as folder:
        folder = Path(folder)
        source = write(folder / "src", options.cubes)
        files = sorted(source.iterdir())
        size = tree_bytes(source)
        warm(source)
        for label, values, codec, level, dtype in CASES:
            out = folder / "packed"
            packing = ["--kind", "cubes", "--values", values, "--codec", codec, "--filter", "shuffle", "--layout", "as-given", "--band-difference", "off"]
            packing += ["--level", level] if level else []

            def pack():
                remove(out)
                return seconds(lambda: run(SHARDPACK, "pack", source, out, *packing, "--json"))

            pack()
            times = interleave(options.rounds, alone=lambda: alone(files, codec, dtype)[0], pack=pack)
            kept[label] = times
            base, packed = median(times["alone"]), median(times["pack"])
            alone_bytes = alone(files[:1], codec, dtype)[1] * len(files)
            rows.append({
                "stored as": label, "Blosc2 alone, MB/s": size / base / 1e6, "`pack`, MB/s": size / packed / 1e6, "rate ÷ Blosc2": base / packed,
                "bytes ÷ Blosc2": tree_bytes(out) / alone_bytes,
            })
    return finish("pack-cubes", options, {"source": f"{options.cubes} synthetic cubes 480 × 640 × 100 float32", "bytes": size, "times": kept}, rows)


if __name__ == "__main__":
    main()
