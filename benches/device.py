"""Compares ways to get batches onto a GPU: our loader, other libraries that decode on the GPU, and CPU workers. Also
measures the bandwidth of the bus.

    python benches/device.py PHOTOS                  needs shardpack and PyTorch, and torchvision for its GPU decoder
    python benches/device.py PHOTOS --cubes 24       with 24 synthetic cubes of 480 x 640 x 100

PHOTOS is a folder of class folders of JPEGs. The bench packs them `--copies` times, so that an epoch is long enough.
The sides take turns, each in its own process with a warm page cache. Each side runs a warm-up epoch, loads batches for
`--seconds`, and then waits until the device has finished. The table shows the rates and the number of busy CPU cores.
Sides that cannot run are listed with the reason.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bench
import numpy as np
from cubes import write
from device_others import BATCH, CUBES, SHAPE, in_blosc2, nvcomp_codec
from device_sides import ARRAYS, SIDE_NAMES, SIDES
from pack_keep import REAL

TIME_LIMIT_S = 300


def main():
    options = arguments()
    if options.side:
        print(json.dumps(SIDES[options.side][2](options)), flush=True)
        return
    threads = sorted({options.threads, *(count for count in (4, 1) if count < options.threads)}, reverse=True)
    notes, runs = [], {}
    with bench.scratch(options) as folder:
        facts = prepare(Path(folder), options)
        for turn in range(options.rounds):
            for side, (what, kind, _) in SIDES.items():
                if kind == "cubes" and not options.cubes or options.only and side not in options.only:
                    continue
                for count in threads if side == "device" else [options.threads]:
                    if (what, side, count) not in notes:
                        result = one(side, count, Path(folder), options)
                        said = bench.show(result["samples_per_s"]) if "samples_per_s" in result else result["error"]
                        print(f"{turn + 1}: {what}: {SIDE_NAMES[side]}, {count} threads: {said}", file=sys.stderr, flush=True)
                        if "samples_per_s" in result:
                            runs.setdefault((what, side, count), []).append(result)
                        else:
                            notes.append((what, side, count))
                            facts.setdefault("not measured", []).append(
                                f"{what}: {SIDE_NAMES[side]}: {result['error']}"
                            )
    rows = summary(runs)
    facts |= {
        "batch": BATCH,
        "batch of cubes": CUBES,
        "seconds": options.seconds,
        "runs": [
            {"what": what, "side": side, "threads": count, "results": results}
            for (what, side, count), results in runs.items()
        ],
    }
    bench.finish("device", options, facts, rows)
    print("".join(f"\nnot measured: {note}" for note in facts.get("not measured", [])))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    bench.add_photos(parser, REAL)
    parser.add_argument("--rounds", type=int, default=3, help="runs per side (default 3)")
    parser.add_argument("--seconds", type=float, default=3.0, help="minimum seconds of a measured run (default 3)")
    parser.add_argument(
        "--threads",
        type=int,
        default=len(os.sched_getaffinity(0)),
        help="threads or worker processes of each side (default all cores); the loader is also measured with 4 and 1",
    )
    parser.add_argument("--copies", type=int, default=16, help="copies of the photos to pack (default 16)")
    parser.add_argument(
        "--cubes", type=int, default=24, help="number of synthetic cubes, 0 for none (default 24)"
    )
    parser.add_argument(
        "--cube-copies",
        type=int,
        default=4,
        help="copies of the cubes to pack, as hard links (default 4)",
    )
    parser.add_argument("--codec", default="blosc2-lz4", help="codec of the cubes (default blosc2-lz4)")
    parser.add_argument("--device", default="cuda:0", help="the GPU (default cuda:0)")
    parser.add_argument("--only", nargs="+", choices=[*SIDES], help="only these sides (default all)")
    parser.add_argument(
        "--dir", type=Path, default=bench.ROOT / "target" / "bench", help="folder for files (default target/bench)"
    )
    parser.add_argument("--no-save", action="store_true", help="do not write a file to benches/runs")
    parser.add_argument("--side", choices=[*SIDES], help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.photos.is_dir():
        parser.error(f"no folder of JPEGs: {options.photos}")
    return options


def prepare(folder, options):
    """Packs the photos and makes the cubes. Returns facts about the data, such as their sizes, as a dictionary."""
    import shardpack
    import torch

    jpegs = sorted(path for path in options.photos.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    if not jpegs:
        raise SystemExit(f"no JPEGs in class folders: {options.photos}")
    if len(jpegs) * options.copies < BATCH or 0 < options.cubes < CUBES:
        raise SystemExit(
            f"fewer than a batch: {len(jpegs) * options.copies} of {BATCH} pictures, {options.cubes} of {CUBES} cubes\n"
            "hint: raise --copies or --cubes"
        )
    for copy in range(options.copies):
        for path in jpegs:
            to = folder / "photos" / path.parent.name / f"{copy:02}-{path.name}"
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)
    shardpack.pack(folder / "photos", folder / "pictures")
    facts = {
        "photos": len(jpegs) * options.copies,
        "bytes of photos": bench.tree_bytes(folder / "photos"),
        "bytes packed": bench.tree_bytes(folder / "pictures"),
    }
    if options.cubes:
        for path in sorted(write(folder / "npy", options.cubes, SHAPE).iterdir()):
            np.save(path, np.load(path).astype(np.float16))
            for copy in range(1, options.cube_copies):
                os.link(path, path.with_stem(f"{path.stem}-{copy}"))
        shardpack.pack(folder / "npy", folder / "cubes", values="keep", codec=options.codec, prefer="device")
        try:
            import blosc2
        except ModuleNotFoundError as error:
            facts.setdefault("not measured", []).append(f"{ARRAYS}: {SIDE_NAMES['blosc2']}: {error}")
        else:
            (folder / "b2").mkdir()
            with ThreadPoolExecutor(options.threads) as pool:
                list(
                    pool.map(
                        lambda path: (folder / "b2" / path.name).write_bytes(in_blosc2(blosc2, path)),
                        sorted((folder / "npy").iterdir()),
                    )
                )
        try:
            in_nvcomp(folder, options)
        except (ImportError, RuntimeError) as error:
            facts.setdefault("not measured", []).append(f"{ARRAYS}: {SIDE_NAMES['nvcomp']}: {error}")
        facts |= {
            "cubes": options.cubes * options.cube_copies,
            "codec of cubes": options.codec,
            "bytes of cubes, float16": bench.tree_bytes(folder / "npy"),
            "bytes of cubes packed": bench.tree_bytes(folder / "cubes"),
        }
    bench.warm(folder)
    return facts | {
        "device": torch.cuda.get_device_name(options.device),
        "torch": torch.__version__,
        "shardpack": shardpack.__version__,
    }


def in_nvcomp(folder, options):
    """Writes each cube to a file in nvCOMP's format."""
    import torch
    from nvidia import nvcomp

    codec = nvcomp_codec(options.device)
    (folder / "nv").mkdir()
    for path in sorted((folder / "npy").iterdir()):
        cube = torch.from_numpy(np.load(path).view(np.int16)).to(options.device)
        (folder / "nv" / path.name).write_bytes(bytes(codec.encode(nvcomp.as_array(cube)).cpu()))


def one(side, threads, folder, options):
    """Runs a side in its own process. Returns its result, or the error message."""
    command = [
        sys.executable,
        __file__,
        options.photos,
        "--side",
        side,
        "--data",
        folder,
        "--threads",
        threads,
        "--seconds",
        options.seconds,
        "--device",
        options.device,
    ]
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        return {"error": f"took more than {TIME_LIMIT_S} s"}
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith((" ", "hint:"))]
        return {"error": said[-1] if said else f"exit code {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def summary(runs):
    """Returns the median of each side, and its slowdown relative to the first side of its kind."""
    rows, first = [], {}
    for (what, side, threads), results in runs.items():
        rate = bench.median([result["samples_per_s"] for result in results])
        first.setdefault(what, rate)
        refused = {reason: rows_of for result in results for reason, rows_of in result.get("refused", {}).items()}
        rows.append({
            "what": what, "side": SIDE_NAMES[side], "threads": threads, "a second": rate,
            "cores": round(bench.median([result["cores"] for result in results]), 2),
            "first ÷ this": round(first[what] / rate, 2),
            "refused to the host": "; ".join(f"{reason}: {count}" for reason, count in refused.items()) or "–",
        })  # fmt: skip
    return rows


if __name__ == "__main__":
    main()
