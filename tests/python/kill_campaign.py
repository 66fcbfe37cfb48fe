"""Kill `pack` at random moments until a run completes, and compare its dataset with that of an undisturbed run. This
takes a long time, so only `scripts/check.sh --long` runs it.

    kill_campaign.py [--rounds 200] [--seed 1]

The seed is printed to reproduce a failure, as far as timing allows.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support import COMMAND, cubes, digests, pictures, shards


def campaign(source, options, rounds, rng, folder):
    """Pack datasets, killing and resuming each until it is complete, and compare them with the undisturbed dataset.
    Return the number of kills and the number of datasets.
    """
    command = [COMMAND, "pack", source]
    subprocess.run([*command, folder / "reference", *options], check=True, capture_output=True)
    started = time.monotonic()
    subprocess.run([*command, folder / "timing", *options], check=True, capture_output=True)
    duration = time.monotonic() - started
    expected, out = digests(folder / "reference"), folder / "out"
    kills = finished = 0
    for _ in range(rounds):
        before = {path: path.stat().st_ino for path in shards(out)[:-1]}
        process = subprocess.Popen([*command, out, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            process.wait(rng.uniform(0, duration * 1.1))
        except subprocess.TimeoutExpired:
            process.kill()
            kills += 1
        _, err = process.communicate()
        if process.returncode not in (0, -9):
            sys.exit(f"after {kills} kills: exit code {process.returncode}: {err.decode()}")
        for path, inode in before.items():
            if path.stat().st_ino != inode:
                sys.exit(f"after {kills} kills: `{path.name}` was finished, and made again")
        for path in shards(out):
            if path.name in expected and digests(path.parent)[path.name] != expected[path.name]:
                sys.exit(f"after {kills} kills: `{path.name}` has its final name but other bytes")
        if (out / "manifest.json").exists() and process.returncode == 0:
            if digests(out) != expected:
                sys.exit(f"after {kills} kills: the dataset differs from the dataset of an undisturbed run")
            finished += 1
            shutil.rmtree(out)
    return kills, finished


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"seed {options.seed}")
    sources = {
        "pictures": (lambda folder: pictures(folder, 400), ["--shard-size", "60KiB"]),
        "cubes": (lambda folder: cubes(folder, 40, shape=(48, 48, 60)), ["--shard-size", "400KiB", "--codec", "blosc2-zstd", "--level", "9"]),
    }
    for name, (make, arguments) in sources.items():
        with tempfile.TemporaryDirectory(prefix="shardpack-kills-") as folder:
            folder = Path(folder)
            rng = random.Random(f"{options.seed} {name}")
            kills, finished = campaign(make(folder / "src"), arguments, options.rounds // 2, rng, folder)
            print(f"{name}: {kills} kills, {finished} datasets finished, each with the bytes of an undisturbed run")


if __name__ == "__main__":
    main()
