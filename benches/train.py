"""Measures training on one or more GPUs: the rate with each way of loading pictures, relative to a model that never
waits for data.

    python benches/train.py PHOTOS                                 needs shardpack, PyTorch, torchvision, nvidia-ml-py
    python benches/train.py PHOTOS --models resnet18 --devices 4   four ranks, DistributedDataParallel
    python benches/train.py PHOTOS --cores 16,4,2,1                with these numbers of cores for each rank
    python benches/train.py PHOTOS --sides ceiling device-1 ceiling+urgent device-1+urgent
                                                                   also in a stream of higher priority (`side_of`)
    python benches/train.py PHOTOS --trace                         also two epochs with validation and checkpoints

PHOTOS is a folder of class folders of JPEGs, which the bench packs `--copies` times with the defaults. The models are
compiled and train in bfloat16 with batches of 256. The sides take turns in one process group. Each round has a
different order, because the clock rates of the cards fall as the cards warm up. Each turn opens its loader, warms up
for `--warm` seconds, and trains for `--seconds`. The ceiling of a model is its rate with forty decoded batches kept on
the device. The table shows the medians over the rounds.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import bench
from device import prepare
from device_others import BATCH
from pack_keep import REAL
from peers import tree
from train_sides import MODELS, SIDES, Step, kernel_seconds, side_of, trace

# Samples per second of the GPU's utilisation, power and memory.
SAMPLES_PER_S = 5
PROFILED_STEPS = 20


def main():
    options = arguments()
    with bench.scratch(options) as folder:
        folder = Path(folder)
        facts = prepare(folder, options)
        rows, runs, traces = [], [], {}
        for model in options.models:
            for cores in options.cores:
                result = ranks_of(model, cores, folder, options)
                runs += result["turns"]
                rows += summary(model, cores, result)
                traces |= {model: result["trace"]} if result["trace"] else {}
                print(bench.table(rows[-len(options.sides) :]), file=sys.stderr, flush=True)
    facts |= {"batch": BATCH, "devices": options.devices, "seconds": options.seconds, "turns": runs, "traces": traces}
    bench.finish("train", options, facts, rows)
    if len(options.cores) > 1:
        print(f"\n{bench.table(by_cores(rows, options.cores))}")
    for model, steps in traces.items():
        print(f"\n{model}: {gaps(steps)}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    bench.add_photos(parser, REAL)
    all_cores = len(os.sched_getaffinity(0))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=[*MODELS], help="models (default all)")
    parser.add_argument("--sides", nargs="+", type=named_side, default=[*SIDES], help="sides (default all)")
    parser.add_argument("--devices", type=int, default=1, help="GPUs, one rank for each (default 1)")
    parser.add_argument(
        "--cores", type=numbers, default=[0], help="cores for each rank, as 16,4,2,1 (default: an equal share)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side (default 3)")
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds of a measured turn (default 4)")
    parser.add_argument("--warm", type=float, default=2.0, help="seconds of training before it (default 2)")
    parser.add_argument("--copies", type=int, default=12, help="copies of the photos to pack (default 12)")
    parser.add_argument("--trace", action="store_true", help="also trace two epochs with validation and checkpoints")
    parser.add_argument(
        "--dir", type=Path, default=bench.ROOT / "target" / "bench", help="folder for files (default target/bench)"
    )
    parser.add_argument("--no-save", action="store_true", help="do not write a file to benches/runs")
    options = parser.parse_args()
    if not options.photos.is_dir():
        parser.error(f"no folder of JPEGs: {options.photos}")
    if max(options.cores) * options.devices > all_cores:
        parser.error(f"--cores {max(options.cores)} for {options.devices} ranks, but there are {all_cores} cores")
    options.cores = [cores or all_cores // options.devices for cores in options.cores]
    # `device.prepare` needs these options, but this bench does not define them.
    options.cubes, options.device = 0, "cuda:0"
    return options


def named_side(text):
    """Returns the text if it names a side."""
    side_of(text)
    return text


def numbers(text):
    """Parses a list of core counts, such as 16,4,2,1."""
    found = [int(word) for word in text.split(",")]
    if min(found) < 1:
        raise argparse.ArgumentTypeError(f"expected at least one core, found: {text}")
    return found


def ranks_of(model, cores, folder, options):
    """Trains one model on all devices with one process per device. Returns the turns, as measured by the first rank."""
    import torch

    out = folder / f"{model}-{cores}.json"
    settings = {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()}
    torch.multiprocessing.spawn(rank, (model, cores, str(folder), str(out), settings), nprocs=options.devices)
    return json.loads(out.read_text())


def rank(number, model, cores, folder, out, settings):
    import torch
    import torch.distributed as distributed

    options = SimpleNamespace(**settings)
    mine = sorted(os.sched_getaffinity(0))[number * cores : (number + 1) * cores]
    os.sched_setaffinity(0, mine)
    torch.set_num_threads(1)
    # Without this preload, each worker process imports PyTorch itself. That takes a minute.
    multiprocessing.set_forkserver_preload(["device_others", "torchvision.io", "torchvision.transforms.v2"])
    device = torch.device("cuda", number)
    torch.cuda.set_device(device)
    if options.devices > 1:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517"}
        distributed.init_process_group("nccl", rank=number, world_size=options.devices, device_id=device)
    job = SimpleNamespace(
        torch=torch,
        device=device,
        rank=number,
        ranks=options.devices,
        cores=len(mine),
        data=Path(folder),
        still=[],
        refused=0,
    )
    step = Step(model, device, options.devices)
    job.channels_last = step.channels_last
    # PyTorch's default stream and the loader's streams have the lowest priority.
    job.streams = {False: torch.cuda.current_stream(device), True: torch.cuda.Stream(device, priority=-1)}
    meet = distributed.barrier if options.devices > 1 else lambda: None
    turns, kernels = [], {}
    for round_ in range(options.rounds):
        shift = round_ % len(options.sides)
        for side in [*options.sides[shift:], *options.sides[:shift]]:
            profiled = kernels if round_ + 1 == options.rounds else None
            turns.append({"model": model, "side": side} | turn(side, job, step, meet, options, profiled))
            if number == 0:
                rate = turns[-1]["pictures_per_s"]
                print(f"{round_ + 1}: {model}, {side}: {rate:.0f}/s", file=sys.stderr, flush=True)
    traced = watched_trace(job, step) if options.trace else None
    if number == 0:
        Path(out).write_text(json.dumps({"turns": turns, "kernels": kernels, "trace": traced}))
    if options.devices > 1:
        distributed.destroy_process_group()


def turn(side, job, step, meet, options, kernels):
    """Opens a side, trains with it, and closes it. With `kernels`, profiles some more steps afterwards."""
    torch = job.torch
    job.refused = 0
    how = side_of(side)
    torch.cuda.synchronize()
    with Watch(job.device.index) as watch, torch.cuda.stream(job.streams[how.urgent]):
        opened = time.perf_counter()
        with how.open(job, how.threads) as batches:
            first = next(batches)
            torch.cuda.synchronize()
            first_batch = time.perf_counter() - opened
            step(*first)
            train_for(options.warm, step, batches, torch, meet)
            watch.begin()
            steps, spent = train_for(options.seconds, step, batches, torch, meet)
            figures = watch.end()
            if kernels is not None:
                kernels[side] = kernel_seconds(torch, step, batches, PROFILED_STEPS)
    pictures = steps * BATCH * job.ranks
    return {
        "pictures_per_s": pictures / spent,
        "cores": figures["cpu_s"] / spent,
        "utilisation": figures["utilisation"],
        "watts": figures["joules"] / spent,
        "joules_per_1000": 1000 * figures["joules"] / (steps * BATCH),
        "first_batch_s": first_batch,
        "host_bytes": watch.host_bytes,
        "device_bytes": watch.device_bytes,
        "refused": job.refused,
    }


def train_for(seconds, step, batches, torch, meet):
    """Trains for about `seconds`, with the same number of steps on all ranks. Returns the number of steps and the exact
    seconds.
    """
    meet()
    torch.cuda.synchronize()
    start, steps, block = time.perf_counter(), 0, 10
    while True:
        for _ in range(block):
            step(*next(batches))
        steps += block
        torch.cuda.synchronize()
        over = torch.tensor([time.perf_counter() - start >= seconds], dtype=torch.int32, device="cuda")
        if torch.distributed.is_initialized():
            torch.distributed.all_reduce(over)
        if over.item():
            return steps, time.perf_counter() - start


class Watch(contextlib.AbstractContextManager):
    """Samples the GPU and the process tree in the background while the block runs."""

    def __init__(self, index):
        import pynvml

        pynvml.nvmlInit()
        self.nvml, self.handle = pynvml, pynvml.nvmlDeviceGetHandleByIndex(index)
        self.samples, self.done = [], threading.Event()
        self.host_bytes = self.device_bytes = 0
        self.thread = threading.Thread(target=self.sample)

    def sample(self):
        used_before = self.nvml.nvmlDeviceGetMemoryInfo(self.handle).used
        host_before = tree.memory_bytes(os.getpid())
        while True:
            rate = self.nvml.nvmlDeviceGetUtilizationRates(self.handle).gpu
            self.samples.append((time.monotonic(), rate))
            used = self.nvml.nvmlDeviceGetMemoryInfo(self.handle).used
            self.device_bytes = max(self.device_bytes, used - used_before)
            self.host_bytes = max(self.host_bytes, tree.memory_bytes(os.getpid()) - host_before)
            if self.done.wait(1 / SAMPLES_PER_S):
                return

    def begin(self):
        self.first = len(self.samples)
        self.cpu = tree.cpu_seconds(os.getpid())
        self.energy = self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle)

    def end(self):
        """Returns the measurements since `begin`."""
        rates = [rate for _, rate in self.samples[self.first :]] or [0]
        return {
            "cpu_s": tree.cpu_seconds(os.getpid()) - self.cpu,
            "joules": (self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle) - self.energy) / 1000,
            "utilisation": sum(rates) / len(rates),
        }

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()


def watched_trace(job, step):
    """Returns a trace with the utilisation of the GPU. Times are in seconds since the first step."""
    with Watch(job.device.index) as watch:
        traced = trace(job, step, 1)
    samples = [(moment - traced["started"], rate) for moment, rate in watch.samples]
    return {"steps": traced["steps"], "utilisation": [sample for sample in samples if sample[0] >= 0]}


def gaps(traced):
    """Returns a sentence about the GPU's pauses between steps."""
    steps = traced["steps"]
    pairs = zip(steps, steps[1:], strict=False)
    idle = sorted((after[1] - before[2], before[0], after[0]) for before, after in pairs)
    length = bench.median([end - begin for what, begin, end in steps if what == "train"])
    worst, before, after = idle[-1]
    return (
        f"step {1000 * length:.1f} ms; longest pause {1000 * worst:.1f} ms (from {before} to {after}); "
        f"all pauses {1000 * sum(pause for pause, *_ in idle):.0f} ms of {steps[-1][2]:.1f} s"
    )


def summary(model, cores, result):
    """Returns the medians of each side, and its share of the model's ceiling."""
    by_side = {}
    for one in result["turns"]:
        by_side.setdefault(one["side"], []).append(one)
    middle = {
        side: {name: bench.median([one[name] for one in turns]) for name in turns[0] if name not in ("model", "side")}
        for side, turns in by_side.items()
    }
    rows, own = [], set().union(*(result["kernels"].get(side, ()) for side in ("ceiling", "ceiling+urgent")))
    for side, figures in middle.items():
        how = side_of(side)
        still = how.urgent and middle.get("ceiling+urgent") or middle.get("ceiling")
        rates = [one["pictures_per_s"] for one in by_side[side]]
        loading = {name: spent for name, spent in result["kernels"].get(side, {}).items() if name not in own}
        rows.append({
            "model": model, "side": how.name, "threads": how.threads or cores, "cores": cores,
            "pictures a second": figures["pictures_per_s"],
            "lowest to highest": f"{bench.show(min(rates))} to {bench.show(max(rates))}",
            "share of the ceiling": round(figures["pictures_per_s"] / still["pictures_per_s"], 3) if still else "–",
            "cores busy": round(figures["cores"], 2), "GPU busy, %": figures["utilisation"], "W": figures["watts"],
            "J for 1,000 pictures": figures["joules_per_1000"],
            "loading on the GPU, ms a step": round(1000 * sum(loading.values()) / PROFILED_STEPS, 2),
            "first batch, s": figures["first_batch_s"],
            "host memory, MB": round(figures["host_bytes"] / 1e6),
            "GPU memory, MB": round(figures["device_bytes"] / 1e6),
            "rows refused": figures["refused"],
        })  # fmt: skip
    return rows


def by_cores(rows, cores):
    """Returns a row for each side of a model: for each number of cores, the pictures per second and the share of the
    ceiling.
    """
    table = {}
    for row in rows:
        line = table.setdefault((row["model"], row["side"]), {"model": row["model"], "side": row["side"]})
        share = row["share of the ceiling"]
        shown = f" ({share:.3f})" if isinstance(share, float) else ""
        line[f"{row['cores']} cores"] = bench.show(row["pictures a second"]) + shown
    heads = ["model", "side", *(f"{count} cores" for count in cores)]
    return [{head: line.get(head, "–") for head in heads} for line in table.values()]


if __name__ == "__main__":
    main()
