"""Compares the forms in which `pack` stores JPEGs: tiled, kept, kept with a segment index, and re-encoded.

    python benches/jpeg_forms.py PHOTOS                 packing, size, and loading on the host
    python benches/jpeg_forms.py PHOTOS --device        also loading on a GPU; needs PyTorch

PHOTOS is a folder of class folders of JPEGs, used `--copies` times, so that an epoch is long enough. In every round,
each form is packed, and then loaded for `--seconds` in each way. The table shows medians. Before the rounds, the bench
checks that all forms except the re-encoded one have equal pixels, and that `unpack` restores the kept files byte for
byte.
"""

import filecmp
import os
import shutil
import sys
import time
from pathlib import Path

import bench
import numpy as np
import shardpack

FORMS = {
    "tile": ["--jpeg", "tile"],
    "keep": ["--jpeg", "keep", "--no-segment-index"],
    "keep + index": ["--jpeg", "keep"],
    "re-encode 85": ["--jpeg", "reencode", "--quality", "85"],
}
EXACT = ["keep", "keep + index"]
WAYS = {"crops/s": "rrc224", "whole/s": "full"}
CROPS = 10
BATCH = 64
COMMAND = shutil.which("shardpack") or bench.SHARDPACK


def source(photos, folder, copies):
    """Make a tree with links to several copies of the photos."""
    for copy in range(copies):
        for path in sorted(photos.iterdir()):
            shutil.copytree(path, folder / "photos" / f"{copy}-{path.name}", copy_function=os.link)
    return folder / "photos"


def pack(photos, out, form, options):
    """Pack the photos and return the seconds until everything is on disk."""
    bench.remove(out)
    command = [COMMAND, "pack", photos, out, *FORMS[form], "--threads", options.threads, "--json"]
    return bench.seconds(lambda: bench.run(*command))


def rate(path, view, options, **more):
    """Load one batch, then batches for the given time, and return pictures per second."""
    settings = {"image": view, "fields": ["image"], "threads": options.threads} | more
    with shardpack.Loader(shardpack.Dataset(path), BATCH, **settings) as loader:
        count, start = 0, None
        while True:
            for batch in loader:
                if start is None:
                    start = time.perf_counter()
                    continue
                count += len(batch)
                if time.perf_counter() - start > options.seconds:
                    finish_device(more)
                    return count / (time.perf_counter() - start), loader.stats()


def finish_device(more):
    if "device" in more:
        import torch

        torch.cuda.synchronize()


def pixels(path, view, epoch):
    """Yield the pictures of an epoch in order."""
    settings = {"image": view, "fields": ["image"], "shuffle": False, "seed": 7, "end": "uneven"}
    with shardpack.Loader(shardpack.Dataset(path), BATCH, **settings) as loader:
        loader.set_epoch(epoch)
        for batch in loader:
            images = batch["image"]
            yield from (np.asarray(images[row]) for row in range(len(batch)))


def check(folder, photos):
    """Check that all forms have equal pixels, whole and in ten crops, and that unpacking restores the files."""
    for view, epoch in [("full", 0), *(("rrc224", epoch) for epoch in range(CROPS))]:
        sides = [pixels(folder / form, view, epoch) for form in ["tile", *EXACT]]
        for number, (tile, *others) in enumerate(zip(*sides, strict=True)):
            assert all(np.array_equal(tile, other) for other in others), f"{view}: picture {number} differs"
    out = folder / "unpacked"
    bench.run(COMMAND, "unpack", folder / "keep + index", out)
    names = [path.relative_to(photos) for path in photos.rglob("*") if path.is_file()]
    same, different, missing = filecmp.cmpfiles(photos, out, names, shallow=False)
    assert not different and not missing, f"unpacked: {different[:3]} {missing[:3]}"
    assert len(names) == sum(path.is_file() for path in out.rglob("*")), "unpack wrote more files"
    bench.remove(out)
    return len(same)


def main():
    parser = bench.parser(__doc__.splitlines()[0])
    parser.add_argument("photos", type=Path)
    parser.add_argument("--device", action="store_true", help="also load on a GPU")
    parser.add_argument("--copies", type=int, default=1, help="copies of each photo (default 1)")
    parser.add_argument("--threads", type=int, default=2, help="threads of packing and loading (default 2)")
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds of each measurement (default 3)")
    options = parser.parse_args()
    ways = {f"host {name}": (view, {}) for name, view in WAYS.items()}
    if options.device:
        on = {"to": "torch", "device": "cuda", "decode": "device"}
        ways |= {f"device {name}": (view, on) for name, view in WAYS.items()}
        ways["resident crops/s"] = ("rrc224", on | {"resident": True})
    found = {form: {"pack, photos/s": [], **{way: [] for way in ways}} for form in FORMS}
    refused = {}
    with bench.scratch(options) as folder:
        folder = Path(folder)
        photos = source(options.photos, folder, options.copies)
        bench.warm(photos)
        count, source_bytes = sum(path.is_file() for path in photos.rglob("*")), bench.tree_bytes(photos)
        for form in FORMS:
            pack(photos, folder / form, form, options)
        checked = check(folder, photos)
        sizes = {form: bench.tree_bytes(folder / form) for form in FORMS}
        for _ in range(options.rounds):
            for form in FORMS:
                found[form]["pack, photos/s"].append(count / pack(photos, folder / form, form, options))
            for way, (view, more) in ways.items():
                for form in FORMS:
                    per_second, stats = rate(folder / form, view, options, **more)
                    found[form][way].append(per_second)
                    refused[f"{form}, {way}"] = stats["refused"]
                    print(f"{form}, {way}: {per_second:.0f}", file=sys.stderr, flush=True)
    rows = []
    for form, of in found.items():
        medians = {name: bench.median(values) for name, values in of.items()}
        rows.append({"form": form, "bytes ÷ source": sizes[form] / source_bytes, **medians})
    data = {
        "photos": count,
        "bytes": source_bytes,
        "files equal after unpack": checked,
        "refused": refused,
        "threads": options.threads,
        "runs": found,
    }
    return bench.finish("jpeg-forms", options, data, rows)


if __name__ == "__main__":
    main()
