"""The loader against the limits of the machine and against other loaders: the same samples, the same cores, one run, turn by turn.

    .venv/bin/python benches/loader.py PHOTOS            everything; installs the peers into benches/.venv-peers, some 9 GB with CUDA
    .venv/bin/python benches/loader.py --peers none      shardpack and those limits that need no package

PHOTOS is a folder of class folders of JPEGs. Each side runs in a process of its own: one epoch to warm up, then whole epochs for `--seconds`; all sides once a round. Everything comes
from the page cache (or, with `--cold`, from the disk), on `--threads` threads or worker processes. Memory is that of the process and its children, files that are mapped not counted (shardpack's own is its peak RSS).
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
# What is loaded: of which samples, its name in the table, and the options of `shardpack bench`.
MODES = {
    "rrc224": ("pictures", "random-resized-crop 224", ("--image", "rrc224")),
    "full": ("pictures", "whole pictures", ("--image", "full")),
    "raw": ("pictures", "stored bytes", ("--image", "raw")),
    "compressed": ("cubes", "cubes, compressed", ("--cube", "whole")),
    "uncompressed": ("cubes", "cubes, uncompressed", ("--cube", "whole")),
}
# shardpack's own datasets of the samples: what they are loaded as, their label, and the options of `shardpack pack`.
DATASETS = {
    "tiled": (registry.PICTURES, "shardpack, tiled as `pack` does", ()),
    "kept": (registry.PICTURES, "shardpack, files kept to the byte", ("--jpeg", "keep")),
    "packed": (registry.COMPRESSED, "shardpack, codec as `pack` chooses", ("--values", "keep")),
    "plain": (registry.UNCOMPRESSED, "shardpack, `--codec raw`", ("--values", "keep", "--codec", "raw", "--layout", "as-given", "--band-difference", "off")),
}
TIME_LIMIT_S = 900


class Failed(Exception):
    """A side that did not run; what it said last."""


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
    parser.add_argument("photos", nargs="?", type=Path, default=REAL, help="folder of class folders of JPEGs (default: the sample of ImageNet, where it is at hand)")
    parser.add_argument("--peers", default="all", help="all, none, or names with commas: " + ", ".join(side.name for side in PEERS) + " (default all)")
    parser.add_argument("--python", type=Path, help="run the peers with this interpreter instead of making an environment for them")
    parser.add_argument("--shardpack", type=Path, help="measure this command instead of building one")
    parser.add_argument("--modes", default=",".join(MODES), help=f"what to load, with commas (default {','.join(MODES)})")
    parser.add_argument("--rounds", type=int, default=3, help="times that each side runs (default 3)")
    parser.add_argument("--seconds", type=float, default=3.0, help="least time of a run that counts (default 3)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads or worker processes of each side (default all cores)")
    parser.add_argument("--cold", action="store_true", help="drop the files that are read from the page cache before each epoch")
    parser.add_argument("--cubes", type=int, default=6, help="number of synthetic cubes (default 6)")
    parser.add_argument("--cube-shape", default="480x640x100", help="height x width x channels (default 480x640x100)")
    parser.add_argument("--dir", type=Path, default=bench.ROOT / "target" / "bench", help="where to write: the disk that is measured (default target/bench)")
    parser.add_argument("--no-save", action="store_true", help="do not leave a file in benches/runs")
    options = parser.parse_args()
    options.modes = options.modes.split(",")
    wrong = set(options.modes) - set(MODES)
    if wrong:
        parser.error(f"--modes: expected some of {', '.join(MODES)}, found: {', '.join(sorted(wrong))}")
    wrong = set(options.peers.split(",")) - {side.name for side in PEERS} - {"all", "none"}
    if wrong:
        parser.error(f"--peers: expected all, none, or some of {', '.join(side.name for side in PEERS)}, found: {', '.join(sorted(wrong))}")
    # The peers run in another folder. Not `resolve`: the interpreter of an environment is a link to one that is not.
    options.python, options.shardpack = (path and path.absolute() for path in (options.python, options.shardpack))
    options.dir = options.dir.absolute()
    options.shape = tuple(map(int, options.cube_shape.split("x")))
    if len(options.shape) != 3:
        parser.error(f"--cube-shape: expected height x width x channels, found: {options.cube_shape}")
    if not options.photos.is_dir() and "pictures" in {MODES[mode][0] for mode in options.modes}:
        parser.error(f"expected a folder of class folders of JPEGs, found nothing there: {options.photos}")
    return options


def built():
    bench.build()
    return bench.SHARDPACK


def choose(options):
    """The interpreter of the peers, the sides that can run, and why others do not."""
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
    """Every form of the samples, each made once; where it is, by its name."""
    kinds = {MODES[mode][0] for mode in options.modes}
    data, facts = {}, {"sizes": {}}
    if "pictures" in kinds:
        data["folder"] = options.photos.resolve()
        pictures = stores.jpegs(options.photos)
        if not pictures:
            raise SystemExit(f"expected JPEGs in class folders, found none: {options.photos}")
        facts |= {"pictures": len(pictures), "source": f"{len(pictures)} pictures of {sum(path.stat().st_size for path, _ in pictures) / 1e6:.0f} MB"}
        facts["sizes"]["folder"] = sum(path.stat().st_size for path, _ in pictures)
    if "cubes" in kinds:
        environment.say(f"making {options.cubes} cubes")
        # float16 from the beginning: an array comes back in the type in which it was given, and all sides shall deliver the same bytes.
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
    # Pages that are not on the disk yet cannot be dropped, and writing them would disturb what is measured.
    bench.run("sync", "-f", folder)
    return data, facts


def measure(options, command, interpreter, chosen, data, facts, notes):
    """All runs: a dictionary each. Sides take turns within a mode, so that all meet the same weather."""
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
    """One run of `shardpack bench`. It counts epochs, not seconds: the first run finds out how many fill the time, and does not count."""
    mode = common["mode"]
    args = [command, "bench", dataset, *MODES[mode][2], "--batch-size", common["batch"], "--threads", common["threads"], *common["cold"], "--json", "--epochs"]
    if (mode, name) not in epochs:
        start = time.perf_counter()
        report = json.loads(bench.run(*args, 3))
        an_epoch = min(report["samples"] / report["samples_per_s"], time.perf_counter() - start)
        # One more than fills the time: the first of several epochs warms up.
        epochs[mode, name] = 1 + max(2, math.ceil(common["seconds"] / an_epoch))
    report, others, _ = watched([*args, epochs[mode, name]])
    report = json.loads(report)
    # The command's own figures are those of its median epoch. The peers' are of all epochs together, and so are these.
    samples, seconds, cpu = report["samples"] * len(report["epochs"]), *(sum(epoch[name] for epoch in report["epochs"]) for name in ("seconds", "cpu_s"))
    return {
        "samples_per_s": samples / seconds, "cpu_s_per_sample": cpu / samples, "peak_bytes": report["peak_rss_bytes"],
        "others": others, "epochs": epochs[mode, name] - 1, "output_mb_per_s": report["output_mb_per_s"] / report["samples_per_s"] * samples / seconds,
        **{name: report[name] for name in ("limit", "advice", "predicted_bytes", "thread_s")},
    }


def peer(interpreter, side, data, common):
    """One run of a peer or a limit in a process of its own."""
    numbers = [f"--{name}={common[name]}" for name in ("threads", "batch", "seconds")]
    output, others, peak = watched([interpreter, "-m", "peers.worker", "run", side.name, common["mode"], data, *numbers, *common["cold"]])
    try:
        # Some libraries talk on stdout: the result is the last line.
        report = json.loads(output.splitlines()[-1])
    except (IndexError, ValueError):
        raise Failed(f"expected a result, found: {output[-200:]!r}") from None
    # A loader may leave out a last batch that is not full, but nothing more.
    if not 0 <= common["samples"] - report["samples_an_epoch"] < common["batch"]:
        raise Failed(f"samples of an epoch: expected {common['samples']}, found: {report['samples_an_epoch']}")
    return {
        "samples_per_s": report["samples"] / report["seconds"], "cpu_s_per_sample": report["cpu_seconds"] / report["samples"], "peak_bytes": max(peak, report["memory_bytes"]),
        "others": others, "epochs": report["epochs"], "samples_an_epoch": report["samples_an_epoch"], "output_mb_per_s": report["bytes"] / report["seconds"] / 1e6,
    }


def worker(interpreter, *args):
    """Run a peer's process to its end, unmeasured."""
    return watched([interpreter, "-m", "peers.worker", *args])[0]


def watched(command):
    """Run a program: its stdout, the share of the machine that other programs took meanwhile, and the peak memory of its tree."""
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}
    start, busy, own = time.perf_counter(), tree.busy_seconds(), children_seconds()
    process = subprocess.Popen(list(map(str, command)), cwd=BENCHES, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)
    with tree.PeakMemory(process.pid) as peak:
        try:
            out, words = process.communicate(timeout=TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Failed(f"did not end within {TIME_LIMIT_S} s") from None
    if process.returncode:
        raise Failed((words.strip().splitlines() or [f"exit code {process.returncode}"])[-1])
    spent = time.perf_counter() - start
    others = tree.busy_seconds() - busy - (children_seconds() - own)
    return out, max(0.0, others / spent / (os.cpu_count() or 1)), peak.bytes


def children_seconds():
    """Processor time of all children so far, and of this process, which looks at them."""
    times = os.times()
    return sum(times[:4])


def summary(runs):
    """A row for each mode and side: medians over the rounds, and the ratios that the goals are about."""
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
                # A short run may take less processor time than its clock can tell: it has no ratio.
                "CPU ms/sample": 1e3 * used[name], "least CPU of a peer ÷ own": least / used[name] if least and used[name] else "",
                "peak MB": max(run["peak_bytes"] for run in some) / 1e6,
                "others' share of the cores": bench.median(run["others"] for run in some),
            })
    return rows


if __name__ == "__main__":
    main()
