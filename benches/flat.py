"""Checks that a loader does not leak memory over many batches.

    python benches/flat.py PHOTOS                    10,000 batches that the host decodes, on the GPU; needs PyTorch
    python benches/flat.py PHOTOS --decode device    that the GPU decodes
    python benches/flat.py PHOTOS --device cpu       without a GPU

PHOTOS is a folder of class folders of JPEGs, which the bench packs with the defaults. A consumer sums every batch,
sometimes keeps it for a while, and leaves some epochs early. The table shows the memory of the process and of the GPU at
twenty points in time. The exit code is 1 if either grew by more than `--most` MB after the first fifth.
"""

import argparse
import gc
import os
import time
from pathlib import Path

import bench
from device_others import MEAN, STD
from pack_keep import REAL


def main():
    options = arguments()
    with bench.scratch(options) as folder:
        import shardpack as sp

        sp.pack(options.photos, Path(folder) / "pictures")
        rows = run(sp.Dataset(Path(folder) / "pictures"), options)
    print(bench.table([{name: round(value) for name, value in row.items()} for row in rows]))
    settled = rows[len(rows) // 5]
    grown = {name: rows[-1][name] - settled[name] for name in ("host, MB", "GPU, MB")}
    print("\ngrown since the first fifth: " + ", ".join(f"{name}: {value:.1f}" for name, value in grown.items()))
    if max(grown.values()) > options.most:
        raise SystemExit(f"memory grew by more than {options.most} MB")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("photos", nargs="?", type=Path, default=REAL, help="folder of class folders of JPEGs")
    add("--batches", type=int, default=10_000, help="batches to load (default 10000)")
    add("--batch", type=int, default=64, help="rows of a batch (default 64)")
    add("--image", default="rrc224", help="view of the pictures (default rrc224)")
    add("--decode", choices=["host", "device"], default="host", help="what decodes (default host)")
    add("--device", default="cuda:0", help="device of the batches (default cuda:0)")
    add("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads of the loader (default all cores)")
    add("--most", type=float, default=48, help="MB that memory may grow by (default 48)")
    add("--dir", type=Path, default=bench.ROOT / "target" / "bench", help="folder for files (default target/bench)")
    return parser.parse_args()


def memory(device):
    """Returns the memory of the process without mapped files, and the memory in use on the device, in megabytes."""
    import torch

    gc.collect()
    _, resident, shared, *_ = map(int, Path("/proc/self/statm").read_text().split())
    free = total = 0
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
        free, total = torch.cuda.mem_get_info(device)
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE") / 1e6, (total - free) / 1e6


def run(dataset, options):
    """Loads the batches. Returns the memory at twenty points in time."""
    import shardpack as sp
    import torch

    rows, count, kept, began = [], 0, [], time.perf_counter()
    every = max(1, options.batches // 20)
    sums = torch.zeros((), device=options.device)
    with sp.Loader(
        dataset, options.batch, image=options.image, layout="chw", dtype="float16", mean=MEAN, std=STD,
        fields=["image", "label"], to="torch", device=options.device, decode=options.decode, threads=options.threads,
    ) as loader:  # fmt: skip
        while count < options.batches:
            for batch in loader:
                sums += batch["image"].float().mean() + batch["label"].float().mean()
                count += 1
                kept = [*kept, batch][-2:] if count % 97 < 5 else []
                if count % 499 == 0:
                    time.sleep(0.05)
                if count % every == 0:
                    host, device = memory(options.device)
                    spent = time.perf_counter() - began
                    rows.append({"batches": count, "seconds": spent, "host, MB": host, "GPU, MB": device})
                if count >= options.batches or count % 1201 == 0:
                    break
    if not torch.isfinite(sums):
        raise SystemExit("the batches hold values that are not finite")
    return rows


if __name__ == "__main__":
    main()
