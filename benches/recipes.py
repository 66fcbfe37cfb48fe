"""Compares whole training recipes: how fast they load, and how close training comes to a model that never waits.

    python benches/recipes.py PHOTOS                                    needs shardpack, PyTorch and torchvision
    python benches/recipes.py PHOTOS --recipes classification cubes     only these recipes
    python benches/recipes.py PHOTOS --rounds 1 --seconds 1             shorter

PHOTOS is a folder of class folders of JPEGs. Masks, boxes, clips, volumes and cubes are made up, always the same ones.
Each recipe runs in its own process, and its sides take turns there:

- host: our loader alone, decoding and augmenting with all cores, to batches on the GPU, which mixes them;
- device: our loader alone, decoding and augmenting on the GPU;
- workers: a DataLoader alone, with a worker for each core. Its workers decode and augment, and the GPU normalises and
  mixes. They read files from the page cache. The rate covers whole cycles, and in each cycle every worker brings one
  batch;
- ceiling: training steps in bfloat16 with eight decoded batches that stay on the GPU;
- trained: the same steps, fed by our loader from the GPU.

The table has the medians over the rounds, and the share of the ceiling that training reached. Without CUDA, the bench
runs a trial: tiny samples, the sides host and workers, and one step of each model.
"""

import argparse
import contextlib
import json
import multiprocessing
import multiprocessing.forkserver
import os
import random
import signal
import sys
import time
import traceback
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import bench
from pack_keep import REAL
from peers import tree

NAMES = (
    "classification",
    "self-supervised",
    "autoencoder",
    "segmentation",
    "detection",
    "clips",
    "volumes",
    "cubes",
)
SIDES = ("ceiling", "host", "device", "workers", "trained")
# Decoded batches that stay on the device while the ceiling is measured.
CEILING_BATCHES = 8
# Least warm-up of a side, in batches and in seconds.
WARM_BATCHES, WARM_S = 3, 0.5
# Batches that a worker of the DataLoader makes ahead.
AHEAD = 2
# Training steps that may wait on the device at a time.
QUEUED_STEPS = 4
# A recipe that takes longer is stopped.
TIME_LIMIT_S = 180


def main():
    options = arguments()
    begun, rows, failed, left_out, facts = time.monotonic(), [], {}, [], {"turns": {}}
    with bench.scratch(options) as folder:
        for name in options.recipes:
            if time.monotonic() - begun >= options.limit:
                left_out.append(name)
                continue
            result = in_a_process(name, Path(folder), options)
            for side, error in result["failed"].items():
                failed[f"{name}, {side}"] = error
                print(f"failed: {name}, {side}: {error}", file=sys.stderr, flush=True)
            if "row" not in result:
                continue
            facts |= result["facts"]
            facts["turns"][name] = result["turns"]
            rows.append(result["row"])
            spent = f"{time.monotonic() - begun:.0f} s so far"
            print(f"{bench.table(rows[-1:])}\n{spent}", file=sys.stderr, flush=True)
    facts |= {"seconds": options.seconds, "copies": options.copies, "failed": failed, "left out": left_out}
    if rows:
        # The rates of a trial say nothing.
        options.no_save |= facts["device"] == "none"
        bench.finish("recipes", options, facts, rows)
    for name, error in failed.items():
        print(f"\nfailed: {name}: {error.splitlines()[-1]}")
    if left_out:
        print(f"\nleft out after {options.limit:.0f} s: {', '.join(left_out)}")
    sys.exit(1 if failed else 0)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    bench.add_photos(parser, REAL)
    parser.add_argument("--recipes", nargs="+", choices=NAMES, default=[*NAMES], help="recipes (default all)")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each side (default 2)")
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds of a measured turn (default 2)")
    parser.add_argument(
        "--limit", type=float, default=420, help="seconds after which no further recipe starts (default 420)"
    )
    parser.add_argument("--copies", type=int, default=40, help="copies of the photos to pack (default 40)")
    parser.add_argument("--compile", action="store_true", help="compile the models")
    parser.add_argument(
        "--dir", type=Path, default=bench.ROOT / "target" / "bench", help="folder for files (default target/bench)"
    )
    parser.add_argument("--no-save", action="store_true", help="do not write a file to benches/runs")
    options = parser.parse_args()
    if not options.photos.is_dir():
        parser.error(f"no folder of JPEGs: {options.photos}")
    return options


def in_a_process(name, folder, options):
    """Measure a recipe in its own process. Return its result, or what failed."""
    out = folder / f"{name}.json"
    settings = {key: str(value) if isinstance(value, Path) else value for key, value in vars(options).items()}
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=measured, args=(name, str(folder), str(out), settings))
    process.start()
    process.join(TIME_LIMIT_S)
    late = process.is_alive()
    for pid in tree.processes(process.pid) if late else ():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.join()
    # A process that ends early has written the turns before.
    result = json.loads(out.read_text()) if out.exists() else {"failed": {}}
    if late or process.exitcode:
        ended = f"took more than {TIME_LIMIT_S} s" if late else f"exit code {process.exitcode}"
        result["failed"]["a later side" if "row" in result else "all sides"] = ended
    return result


def measured(name, folder, out, settings):
    """Measure a recipe. After each turn, write the results and the errors until then to a file."""
    # Without this, each worker process imports PyTorch itself. The import begins while the data are packed.
    multiprocessing.set_forkserver_preload(["torch", "torchvision.io", "torchvision.transforms.v2", "shardpack"])
    multiprocessing.forkserver.ensure_running()

    def write(result):
        Path(f"{out}.new").write_text(json.dumps(result))
        os.replace(f"{out}.new", out)

    try:
        for result in turns_of(name, Path(folder), SimpleNamespace(**settings)):
            write(result)
    except Exception:
        write({"failed": {"all sides": traceback.format_exc()}})


def turns_of(name, folder, options):
    """Pack the data of a recipe, and let its sides take turns. Yield the results so far after each turn."""
    import recipe_sides
    import shardpack
    import torch

    job = job_of(torch, folder, options)
    recipe, begun = recipe_sides.RECIPES[name](job), time.monotonic()
    recipe.path = recipe.pack()
    print(f"{name}: packed in {time.monotonic() - begun:.1f} s", file=sys.stderr, flush=True)
    facts = {
        "device": "none" if job.trial else torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "shardpack": shardpack.__version__,
        "threads and workers": job.cores,
    }
    sides, turns, failed = Sides(job, recipe, options), {}, {}
    with contextlib.ExitStack() as sides.open_until_the_end:
        for number, side in order(options.rounds, ("host", "workers", "step") if job.trial else SIDES):
            if side in failed:
                continue
            try:
                turns.setdefault(side, []).append(getattr(sides, side)())
                print(f"{number}: {name}, {side}: {bench.show(turns[side][-1])}", file=sys.stderr, flush=True)
            except Exception:
                # The rates of the other sides are still worth having.
                failed[side] = traceback.format_exc()
            row = row_of(recipe, {side: found for side, found in turns.items() if found}, sides.refused)
            yield {"facts": facts, "turns": turns, "row": row, "failed": failed}


def order(rounds, sides):
    """Return the number and the side of each turn. Each round begins with another side."""
    return [
        (number + 1, side)
        for number in range(rounds)
        for side in (*sides[number % len(sides) :], *sides[: number % len(sides)])
    ]


def job_of(torch, folder, options):
    """Return what all recipes share. `size` returns its first argument, and its second one without a GPU."""
    trial = not torch.cuda.is_available()
    files = sorted(path for path in Path(options.photos).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    if not files:
        raise SystemExit(f"no JPEGs in class folders: {options.photos}")
    torch.set_num_threads(1)
    if not trial:
        torch.cuda.set_device(0)
    return SimpleNamespace(
        trial=trial,
        device="cpu" if trial else "cuda:0",
        cores=len(os.sched_getaffinity(0)),
        folder=folder,
        photos=files[:16] if trial else files,
        copies=1 if trial else options.copies,
        size=lambda usual, tiny: tiny if trial else usual,
        wait=(lambda: None) if trial else torch.cuda.synchronize,
    )


class Sides:
    """The sides of a recipe. Each measures one turn and returns its rate."""

    def __init__(self, job, recipe, options):
        self.job, self.recipe, self.options = job, recipe, options
        self.still, self.refused, self.made, self.from_workers = [], {}, None, None

    @contextlib.contextmanager
    def loaded(self, decode):
        """Our loader: batches without end."""
        import shardpack

        where = {"to": "torch", "device": self.job.device, "decode": decode, "threads": self.job.cores}
        dataset = shardpack.Dataset(self.recipe.path)
        with shardpack.Loader(dataset, self.recipe.batch, **self.recipe.options() | where) as loader:

            def forever():
                while True:
                    for batch in loader:
                        yield tuple(batch)

            batches = forever()
            yield batches
            batches.close()
            if decode == "device":
                for reason, rows in loader.stats()["refused"].items():
                    self.refused[reason] = self.refused.get(reason, 0) + rows

    def host(self):
        with self.loaded("host") as batches:
            return self.rate(lambda: next(batches), self.recipe.batch)

    def device(self):
        with self.loaded("device") as batches:
            return self.rate(lambda: next(batches), self.recipe.batch)

    def workers(self):
        """A DataLoader. Its workers live until the end, because their start takes seconds. They wait in other turns."""
        import torch

        if self.from_workers is None:
            files, cores = self.recipe.files(), self.job.cores
            loader = torch.utils.data.DataLoader(
                files,
                self.recipe.piece,
                shuffle=True,
                drop_last=True,
                num_workers=cores,
                persistent_workers=True,
                pin_memory=not self.job.trial,
                prefetch_factor=AHEAD,
                multiprocessing_context="forkserver",
                collate_fn=getattr(files, "collate", None),
            )
            self.from_workers = (self.recipe.uploaded(batch) for batch in loader)
            self.open_until_the_end.callback(self.from_workers.close)
        # Workers bring their batches in turn. Those that they made ahead do not count.
        for _ in range(AHEAD * self.job.cores):
            next(self.from_workers)

        def cycle():
            for _ in range(self.job.cores):
                next(self.from_workers)

        return self.rate(cycle, self.job.cores * self.recipe.piece, warm=False)

    def ceiling(self):
        if not self.still:
            with self.loaded("device") as batches:
                self.still = [kept(next(batches)) for _ in range(CEILING_BATCHES)]

        def forever():
            while True:
                random.shuffle(self.still)
                yield from self.still

        return self.steps(forever())

    def trained(self):
        with self.loaded("device") as batches:
            return self.steps(batches)

    def steps(self, batches):
        """Train with the batches, with only some steps ahead of the device."""
        import torch

        step, running = self.made_step(), deque()

        def one():
            step(*next(batches))
            running.append(torch.cuda.Event())
            running[-1].record()
            if len(running) > QUEUED_STEPS:
                running.popleft().synchronize()

        return self.rate(one, self.recipe.batch)

    def step(self):
        """Try a step with a batch of each loader. Return the loss."""
        with self.loaded("host") as batches:
            losses = [self.made_step()(*next(batches)), self.made_step()(*next(self.from_workers))]
        if not all(loss.isfinite() for loss in losses):
            raise ValueError(f"loss: expected a finite number, found {losses}")
        return losses[0].item()

    def made_step(self):
        import recipe_models

        if self.made is None:
            self.made = recipe_models.Step(self.recipe, self.job.device, self.options.compile)
        return self.made

    def rate(self, bring, rows, warm=True):
        """Return the rows per second, measured over at least `--seconds`. Each call of `bring` loads `rows` rows."""
        begun, count = time.perf_counter(), 0
        while warm and (count < WARM_BATCHES or time.perf_counter() - begun < WARM_S):
            bring()
            count += 1
        self.job.wait()
        begun, count = time.perf_counter(), 0
        while count == 0 or time.perf_counter() - begun < self.options.seconds:
            bring()
            count += 1
        self.job.wait()
        return count * rows / (time.perf_counter() - begun)


def kept(parts):
    """Return copies of the parts of a batch: tensors, and lists of arrays of several lengths."""
    import torch

    return [
        part.clone() if isinstance(part, torch.Tensor) else [torch.as_tensor(one).clone() for one in part]
        for part in parts
    ]


def row_of(recipe, turns, refused):
    """Return the medians of the sides, and the share of the ceiling."""
    middle = {side: float(bench.median(found)) for side, found in turns.items()}

    def ratio(one, other):
        return middle[one] / middle[other] if one in middle and other in middle else "–"

    share = ratio("trained", "ceiling")
    by_reason = "; ".join(f"{reason}: {rows}" for reason, rows in refused.items() if rows)
    return {
        "recipe": recipe.name, "model": recipe.model, "unit": recipe.unit, "batch": recipe.batch,
        "host a second": middle.get("host", "–"), "device a second": middle.get("device", "–"),
        "DataLoader a second": middle.get("workers", "–"), "device ÷ DataLoader": ratio("device", "workers"),
        "ceiling a second": middle.get("ceiling", "–"), "trained a second": middle.get("trained", "–"),
        "share of the ceiling": share if share == "–" else round(share, 3),
        "rows refused": by_reason or (0 if "device" in middle else "–"),
    }  # fmt: skip


if __name__ == "__main__":
    main()
