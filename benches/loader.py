"""Compares the loader with the limits of the machine and with other loaders, with the same samples and cores.

    .venv/bin/python benches/loader.py PHOTOS            everything; installs the peers into
                                                         benches/.venv-peers (9 GB with CUDA)
    .venv/bin/python benches/loader.py --peers none      shardpack and the limits that need no package

PHOTOS is a folder of class folders of JPEGs. The sides take turns, each in its own process: first a warm-up epoch,
then whole epochs for `--seconds`. Data come from the page cache, or from the disk with `--cold`. Each side uses
`--threads` threads or worker processes. Memory means the memory of the process and its children without mapped
files. For shardpack, it is the peak RSS.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import bench
import numpy as np
from cubes import write
from pack_keep import REAL
from peers import environment, registry, stores, tree
from peers.registry import LEFT_OUT, LIMITS, PEERS, SIDES

BENCHES = Path(__file__).resolve().parent
BATCH = {"pictures": 64, "cubes": 2}
# For each mode: the kind of sample, the name in the table, and the options of `shardpack bench`.
MODES = {
    "rrc224": ("pictures", "random-resized-crop 224", ("--image", "rrc224")),
    "full": ("pictures", "whole pictures", ("--image", "full")),
    "raw": ("pictures", "stored bytes", ("--image", "raw")),
    "compressed": ("cubes", "cubes, compressed", ("--cube", "whole")),
    "uncompressed": ("cubes", "cubes, uncompressed", ("--cube", "whole")),
}
# shardpack datasets of the samples: the modes that read them, the name in the table, and the options of `shardpack
# pack`.
DATASETS = {
    "tiled": (registry.PICTURES, "shardpack, tiled as `pack` does", ()),
    "kept": (registry.PICTURES, "shardpack, files kept to the byte", ("--jpeg", "keep")),
    "packed": (registry.COMPRESSED, "shardpack, codec as `pack` chooses", ("--values", "keep")),
    "plain": (registry.UNCOMPRESSED, "shardpack, `--codec raw`", ("--values", "keep", "--codec", "raw", "--layout", "as-given", "--band-difference", "off")),
}
TIME_LIMIT_S = 900


class Failed(Exception):
    """A side failed. The message is the last line that the side printed."""


def main():
    options = arguments()
    command = options.shardpack or built()
    interpreter, chosen, notes = choose(options)
    for note in notes:
        environment.say(note)
    with bench.scratch(options) as folder:
        data, facts = prepare(Path(folder), options, command, interpreter, chosen, notes)
        runs = measure(options, command, interpreter, chosen, data, facts, notes)
    rows = summary(runs)
    facts |= {"threads": options.threads, "page cache": "cold" if options.cold else "warm", "seconds": options.seconds, "batch": BATCH, "notes": notes, "versions": environment.versions(interpreter), "runs": runs}
    name = ["loader", *(options.modes if options.modes != list(MODES) else []), *(["cold"] if options.cold else [])]
    result = bench.finish("-".join(name), options, facts, rows)
    print("\n" + "\n".join(f"- {note}" for note in notes))
    return result


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    bench.add_photos(parser, REAL)
    peers = ", ".join(side.name for side in PEERS)
    parser.add_argument("--peers", default="all", help=f"all, none, or comma-separated names: {peers} (default all)")
    parser.add_argument("--python", type=Path, help="interpreter of the peers (default: a new environment)")
    parser.add_argument("--shardpack", type=Path, help="command to measure (default: build one)")
    parser.add_argument("--modes", default=",".join(MODES), help=f"comma-separated modes (default {','.join(MODES)})")
    parser.add_argument("--rounds", type=int, default=3, help="runs per side (default 3)")
    parser.add_argument("--seconds", type=float, default=3.0, help="minimum seconds of a measured run (default 3)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads or worker processes of each side (default all cores)")
    parser.add_argument("--cold", action="store_true", help="drop the files from the page cache before each epoch")
    parser.add_argument("--cubes", type=int, default=6, help="number of synthetic cubes (default 6)")
    parser.add_argument("--cube-shape", default="480x640x100", help="height x width x channels (default 480x640x100)")
    parser.add_argument(
        "--dir", type=Path, default=bench.ROOT / "target" / "bench",
        help="folder for files, on the disk to measure (default target/bench)",
    )  # fmt: skip
    parser.add_argument("--no-save", action="store_true", help="do not write a file to benches/runs")
    options = parser.parse_args()
    options.modes = options.modes.split(",")
    wrong = set(options.modes) - set(MODES)
    if wrong:
        parser.error(f"--modes: unknown: {', '.join(sorted(wrong))}; the modes are {', '.join(MODES)}")
    wrong = set(options.peers.split(",")) - {side.name for side in PEERS} - {"all", "none"}
    if wrong:
        parser.error(f"--peers: unknown: {', '.join(sorted(wrong))}; the peers are {peers}, all or none")
    # Make the paths absolute, because the peers run in another folder. Do not use `resolve`: the interpreter in a
    # virtual environment is a link to an interpreter outside it.
    options.python, options.shardpack = (path and path.absolute() for path in (options.python, options.shardpack))
    options.dir = options.dir.absolute()
    options.shape = tuple(map(int, options.cube_shape.split("x")))
    if len(options.shape) != 3:
        parser.error(f"--cube-shape: expected height x width x channels, found: {options.cube_shape}")
    if not options.photos.is_dir() and "pictures" in {MODES[mode][0] for mode in options.modes}:
        parser.error(f"no folder of JPEGs: {options.photos}")
    return options


def built():
    bench.build()
    return bench.SHARDPACK


def choose(options):
    """Returns the Python interpreter for the peers, the sides that can run, and the reasons why the others cannot."""
    names = {"all": [side.name for side in PEERS], "none": []}.get(options.peers, options.peers.split(","))
    peers = [SIDES[name] for name in names if set(SIDES[name].modes) & set(options.modes)]
    limits = [side for side in LIMITS if set(side.modes) & set(options.modes)]
    interpreter = options.python or (environment.python() if peers else Path(sys.executable))
    lacking = environment.missing(interpreter, {module for side in peers + limits for module in side.imports})
    notes = [f"not measured: {name}: {reason}" for name, reason in LEFT_OUT.items() if options.peers == "all"]
    chosen = []
    for side in peers + limits:
        reasons = [f"{module}: {lacking[module]}" for module in side.imports if module in lacking]
        notes += [f"not measured: {side.name}: {reasons[0]}"] if reasons else []
        chosen += [] if reasons else [side]
    return interpreter, chosen, notes


def prepare(folder, options, command, interpreter, chosen, notes):
    """Stores the samples in every form that the sides need, and returns the paths by name."""
    kinds = {MODES[mode][0] for mode in options.modes}
    data, facts = {}, {"sizes": {}}
    if "pictures" in kinds:
        data["folder"] = options.photos.resolve()
        pictures = stores.jpegs(options.photos)
        if not pictures:
            raise SystemExit(f"no JPEGs in class folders: {options.photos}")
        facts |= {"pictures": len(pictures), "source": f"{len(pictures)} pictures of {sum(path.stat().st_size for path, _ in pictures) / 1e6:.0f} MB"}
        facts["sizes"]["folder"] = sum(path.stat().st_size for path, _ in pictures)
    if "cubes" in kinds:
        environment.say(f"making {options.cubes} cubes")
        # Make the cubes float16 before packing, because arrays keep their type and all sides must deliver the same
        # bytes.
        for path in write(folder / "cubes", options.cubes, options.shape).iterdir():
            np.save(path, np.load(path).astype(np.float16))
        said = f"{options.cubes} synthetic cubes of {' × '.join(map(str, options.shape))}"
        facts |= {"cubes": options.cubes, "source": f"{facts['source']}; {said}" if "source" in facts else said}
    sources = {"pictures": data.get("folder"), "cubes": folder / "cubes"}
    for name, (modes, _, packing) in DATASETS.items():
        if set(modes) & set(options.modes):
            kind = MODES[modes[0]][0]
            environment.say(f"packing `{name}`")
            bench.run(command, "pack", sources[kind], folder / name, "--kind", "images" if kind == "pictures" else "cubes", *packing, "--json")
            data[name] = folder / name
    for side in list(chosen):
        if side.store not in data:
            environment.say(f"converting `{side.store}`")
            kind = MODES[side.modes[0]][0]
            try:
                worker(interpreter, "convert", side.store, sources[kind], folder / side.store)
                data[side.store] = folder / side.store
            except Failed as failure:
                notes.append(f"not measured: {side.name}: converting failed: {failure}")
                chosen.remove(side)
    for name, path in data.items():
        facts["sizes"].setdefault(name, bench.tree_bytes(path))
        bench.warm(path)
    # Flush dirty pages now: they cannot be dropped from the page cache, and flushing them later would disturb the
    # measurement.
    bench.run("sync", "-f", folder)
    return data, facts


def measure(options, command, interpreter, chosen, data, facts, notes):
    """Returns all runs as dictionaries. The sides of a mode take turns, so that load from other programs affects all of
    them."""
    runs, epochs, broken = [], {}, set()
    for mode in options.modes:
        kind = MODES[mode][0]
        common = {"mode": mode, "batch": BATCH[kind], "threads": options.threads, "seconds": options.seconds, "samples": facts[kind], "cold": ["--cold"] if options.cold else []}
        for turn in range(options.rounds):
            for name, (modes, label, _) in DATASETS.items():
                if mode in modes:
                    result = shardpack(command, data[name], name, common, epochs)
                    runs.append({"mode": mode, "side": name, "label": label, "role": "shardpack", "round": turn, **result})
            for side in chosen:
                if mode not in side.modes or (mode, side.name) in broken:
                    continue
                try:
                    result = peer(interpreter, side, data[side.store], common)
                except Failed as failure:
                    broken.add((mode, side.name))
                    notes.append(f"not measured: {side.name}, {MODES[mode][1]}: {failure}")
                    environment.say(notes[-1])
                    continue
                role = "limit" if side in LIMITS else "peer"
                runs.append({"mode": mode, "side": side.name, "label": side.label, "role": role, "round": turn, **result})
            environment.say(f"{MODES[mode][1]}: round {turn + 1} of {options.rounds}")
    return runs


def shardpack(command, dataset, name, common, epochs):
    """Runs `shardpack bench` once. The command takes a number of epochs rather than a time, so the first run only
    determines how many epochs fill the time, and its result is dropped.
    """
    mode = common["mode"]
    args = [command, "bench", dataset, *MODES[mode][2], "--batch-size", common["batch"], "--threads", common["threads"], *common["cold"], "--json", "--epochs"]
    if (mode, name) not in epochs:
        start = time.perf_counter()
        report = json.loads(bench.run(*args, 3))
        an_epoch = min(report["samples"] / report["samples_per_s"], time.perf_counter() - start)
        # Add one epoch for the warm-up.
        epochs[mode, name] = 1 + max(2, math.ceil(common["seconds"] / an_epoch))
    report, others, _ = watched([*args, epochs[mode, name]])
    report = json.loads(report)
    # Compute the rate over all epochs, as the peers do. The command itself reports its median epoch.
    samples, seconds, cpu = report["samples"] * len(report["epochs"]), *(sum(epoch[name] for epoch in report["epochs"]) for name in ("seconds", "cpu_s"))
    return {
        "samples_per_s": samples / seconds, "cpu_s_per_sample": cpu / samples, "peak_bytes": report["peak_rss_bytes"],
        "others": others, "epochs": epochs[mode, name] - 1, "output_mb_per_s": report["output_mb_per_s"] / report["samples_per_s"] * samples / seconds,
        **{name: report[name] for name in ("limit", "advice", "predicted_bytes", "thread_s")},
    }


def peer(interpreter, side, data, common):
    """Runs a peer or a limit once, in its own process."""
    numbers = [f"--{name}={common[name]}" for name in ("threads", "batch", "seconds")]
    output, others, peak = watched([interpreter, "-m", "peers.worker", "run", side.name, common["mode"], data, *numbers, *common["cold"]])
    try:
        # Some libraries also write to stdout, so only the last line is the result.
        report = json.loads(output.splitlines()[-1])
    except (IndexError, ValueError):
        raise Failed(f"printed no result: {output[-200:]!r}") from None
    # A peer may drop an incomplete last batch, but nothing else.
    if not 0 <= common["samples"] - report["samples_an_epoch"] < common["batch"]:
        raise Failed(f"an epoch had {report['samples_an_epoch']} of {common['samples']} samples")
    return {
        "samples_per_s": report["samples"] / report["seconds"], "cpu_s_per_sample": report["cpu_seconds"] / report["samples"], "peak_bytes": max(peak, report["memory_bytes"]),
        "others": others, "epochs": report["epochs"], "samples_an_epoch": report["samples_an_epoch"], "output_mb_per_s": report["bytes"] / report["seconds"] / 1e6,
    }


def worker(interpreter, *args):
    """Run a peer's process without measuring it."""
    return watched([interpreter, "-m", "peers.worker", *args])[0]


def watched(command):
    """Runs a program. Returns its stdout, the share of the CPU time that other programs used meanwhile, and the peak
    memory of its process tree.
    """
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}
    start, busy, own = time.perf_counter(), tree.busy_seconds(), children_seconds()
    process = subprocess.Popen(list(map(str, command)), cwd=BENCHES, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)
    with tree.PeakMemory(process.pid) as peak:
        try:
            out, words = process.communicate(timeout=TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Failed(f"took more than {TIME_LIMIT_S} s") from None
    if process.returncode:
        raise Failed((words.strip().splitlines() or [f"exit code {process.returncode}"])[-1])
    spent = time.perf_counter() - start
    others = tree.busy_seconds() - busy - (children_seconds() - own)
    return out, max(0.0, others / spent / (os.cpu_count() or 1)), peak.bytes


def children_seconds():
    """Returns the CPU time of this process and all its children so far."""
    times = os.times()
    return sum(times[:4])


def summary(runs):
    """Returns a row for each mode and side: the medians over the rounds, and the ratios for which the project has
    goals."""
    rows = []
    for mode in dict.fromkeys(run["mode"] for run in runs):
        sides = {}
        for run in runs:
            if run["mode"] == mode:
                sides.setdefault(run["side"], []).append(run)
        rates = {name: bench.median(run["samples_per_s"] for run in some) for name, some in sides.items()}
        best = max((rates[name] for name, some in sides.items() if some[0]["role"] == "peer"), default=None)
        used = {name: bench.median(run["cpu_s_per_sample"] for run in some) for name, some in sides.items()}
        least = min((used[name] for name, some in sides.items() if some[0]["role"] == "peer"), default=None)
        limit = next((rates[name] for name, some in sides.items() if some[0]["role"] == "limit"), None)
        for name in sorted(rates, key=rates.get, reverse=True):
            some = sides[name]
            rows.append({
                "load": MODES[mode][1], "side": some[0]["label"], "samples/s": rates[name],
                "min … max": " … ".join(bench.show(float(pick(run["samples_per_s"] for run in some))) for pick in (min, max)),
                "MB/s": bench.median(run["output_mb_per_s"] for run in some),
                "÷ best peer": rates[name] / best if best else "", "÷ limit": rates[name] / limit if limit else "",
                # Without measurable CPU time, there is no ratio.
                "CPU ms/sample": 1e3 * used[name],
                "least CPU of a peer ÷ own": least / used[name] if least and used[name] else "",
                "peak MB": max(run["peak_bytes"] for run in some) / 1e6,
                "others' share of the cores": bench.median(run["others"] for run in some),
            })
    return rows


if __name__ == "__main__":
    main()
