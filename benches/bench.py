"""Common code of the benches.

Every bench alternates between the measured command and its baseline in one run (A B A B …) and reports the ratio of
their medians. Load from other programs on the machine then affects both.
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / "benches" / "runs"
SHARDPACK = ROOT / "target" / "release" / "shardpack"
PLAIN_READ = ROOT / "target" / "release" / "examples" / "plain_read"


def build():
    subprocess.run(["cargo", "build", "--release", "--quiet", "--bin", "shardpack", "--example", "plain_read"], cwd=ROOT, check=True)


def run(*args, **options):
    """Run a program. If it fails, print its output and exit."""
    done = subprocess.run([str(arg) for arg in args], capture_output=True, text=True, **options)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, args))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def seconds(action):
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def interleave(rounds, **sides):
    """Time each side once per round. A side is a function. If it returns a number of seconds, that number is used. If
    it returns None, the call itself is timed.
    """
    times = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            start = time.perf_counter()
            own = side()
            times[name].append(own if own is not None else time.perf_counter() - start)
    return times


def median(values):
    return statistics.median(values)


def remove(path):
    shutil.rmtree(path, ignore_errors=True)


def tree_bytes(path):
    """Return the size of a file in bytes, or the total size of all files below a folder."""
    return path.stat().st_size if path.is_file() else sum(p.stat().st_size for p in path.rglob("*") if p.is_file())


def warm(path):
    """Read all files once to bring them into the page cache."""
    for file in sorted(path.rglob("*")):
        if file.is_file():
            file.read_bytes()


def machine():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "memory_gib": round(memory / 2**30, 1), "system": platform.system(), "kernel": platform.release()}


def commit():
    """Return the measured commit, with a `+` if the working tree has uncommitted changes. Return None without git or
    outside a checkout.
    """
    command = ["git", "describe", "--always", "--dirty=+", "--abbrev=12"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout.strip() or None


def scratch(options):
    """Make a folder for the files of this run on the disk that is measured."""
    options.dir.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="bench-", dir=options.dir)


def parser(description):
    """Return a parser for the common options of all benches."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=5, help="runs per side (default 5)")
    parser.add_argument(
        "--dir", type=Path, default=ROOT / "target" / "bench",
        help="folder for files, on the disk to measure (default target/bench)",
    )  # fmt: skip
    parser.add_argument("--no-save", action="store_true", help="do not write a file to benches/runs")
    return parser


def add_photos(parser, default):
    """Add the argument `photos`."""
    text = "folder of class folders of JPEGs (default: the sample of ImageNet, if present)"
    parser.add_argument("photos", nargs="?", type=Path, default=default, help=text)


def arguments(description, **more):
    """Parse the command line: the common options of all benches, and those in `more`."""
    shared = parser(description)
    for name, (default, text) in more.items():
        shared.add_argument(f"--{name}", type=type(default), default=default, help=f"{text} (default {default})")
    return shared.parse_args()


def finish(name, options, data, rows):
    """Print a bench's table and record the run. `rows` are dictionaries with the same keys."""
    measured = commit()
    result = {
        "bench": name,
        "date": datetime.date.today().isoformat(),
        **({"commit": measured} if measured else {}),
        "machine": machine(),
        "rounds": options.rounds,
        "data": data,
        "rows": rows,
    }
    print(table(rows))
    if not options.no_save:
        RUNS.mkdir(exist_ok=True)
        (RUNS / f"{result['date']}-{name}.json").write_text(json.dumps(result, indent=2) + "\n")
    return result


def table(rows):
    heads = list(rows[0])
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(show(row[head]) for head in heads) + " |" for row in rows]
    return "\n".join(lines)


def show(value):
    """Format a number with three digits."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
