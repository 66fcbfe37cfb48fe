"""Measures the rate of the loader for several numbers of threads. Needs a packed dataset, and no Python packages.

    python3 benches/scaling.py DATASET [--shardpack target/release/shardpack] [--threads 1,2,4,8,16]

The thread counts take turns, and the table shows medians over `--rounds`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

LOADS = {
    "random crops 224": ("--image", "rrc224", "--batch-size", "256"),
    "whole pictures": ("--image", "full", "--batch-size", "64"),
    "stored bytes": ("--image", "raw", "--batch-size", "256"),
    "stored bytes, window in memory": ("--image", "raw", "--batch-size", "256", "--window", "memory"),
    "whole cubes": ("--cube", "whole", "--batch-size", "4"),
}


def main():
    cores = len(os.sched_getaffinity(0))
    powers = [2**k for k in range(12) if 2**k <= cores]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("--shardpack", default="target/release/shardpack", help="the command (default: the release build)")
    parser.add_argument(
        "--threads", default=",".join(map(str, powers)),
        help="comma-separated thread counts (default: powers of two up to the cores)",
    )  # fmt: skip
    parser.add_argument("--rounds", type=int, default=3, help="runs per thread count (default 3)")
    parser.add_argument("--epochs", type=int, default=4, help="epochs of a run; the first does not count (default 4)")
    options = parser.parse_args()
    threads = [int(number) for number in options.threads.split(",")]

    def run(load, number):
        command = [options.shardpack, "bench", options.dataset, *LOADS[load], "--threads", str(number), "--epochs", str(options.epochs), "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else None

    print(f"{cores} cores\n\n| load | threads | samples/s | GB/s of batches | × one thread | CPU per sample | peak MB ÷ predicted |\n|---|---|---|---|---|---|---|")
    for load in LOADS:
        reports = {number: [] for number in threads}
        for _ in range(options.rounds):
            for number in threads:
                report = run(load, number)
                if report is None:
                    break
                reports[number].append(report)
        if not all(reports.values()):
            # The dataset has no samples of this kind (pictures or cubes), so there is nothing to measure.
            continue
        middle = {number: statistics.median_low(report["samples_per_s"] for report in some) for number, some in reports.items()}
        for number, some in reports.items():
            report = next(report for report in some if report["samples_per_s"] == middle[number])
            cpu, memory = report["cpu_s_per_sample"] * 1e6, report["peak_rss_bytes"] / report["predicted_bytes"]
            print(f"| {load} | {number} | {middle[number]:,.0f} | {report['output_mb_per_s'] / 1e3:.2f} | {middle[number] / middle[threads[0]]:.2f} | {cpu:,.1f} µs | {memory:.2f} |")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
