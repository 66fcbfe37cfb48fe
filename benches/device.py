"""Batches on a GPU: the loader that decodes there, against libraries that do, against workers on the CPU, and against the bus. One run, turn by turn.

    python benches/device.py PHOTOS                  with an interpreter that has shardpack and PyTorch; torchvision too, for its decoder on the GPU
    python benches/device.py PHOTOS --cubes 24       and that many synthetic cubes of 480 x 640 x 100

PHOTOS is a folder of class folders of JPEGs. The bench packs `--copies` of it, so that an epoch is long. Each side runs in a process of its own, from the page cache: one epoch to
warm up, then batches for `--seconds`, and at the end it waits for the device. Beside each rate stand the cores of the CPU that it kept busy. What cannot run is named with the reason.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bench
import numpy as np
from cubes import write
from pack_keep import REAL
from peers import tree

BATCH, CUBES, SHAPE = 256, 6, (480, 640, 100)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CROPS, WHOLE, ARRAYS, BUS = "crops 224, float16, normalised", "whole pictures, uint8", "cubes, float32", "bus, host to device"
RECIPE = "crops 224, TrivialAugmentWide, float16, normalised, erasing, Mixup or CutMix"
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
                        if "samples_per_s" in result:
                            runs.setdefault((what, side, count), []).append(result)
                        else:
                            notes.append((what, side, count))
                            facts.setdefault("not measured", []).append(f"{what}: {SIDE_NAMES[side]}: {result['error']}")
    rows = summary(runs)
    facts |= {"batch": BATCH, "batch of cubes": CUBES, "seconds": options.seconds, "runs": [{"what": what, "side": side, "threads": count, "results": results} for (what, side, count), results in runs.items()]}
    bench.finish("device", options, facts, rows)
    print("".join(f"\nnot measured: {note}" for note in facts.get("not measured", [])))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", nargs="?", type=Path, default=REAL, help="folder of class folders of JPEGs (default: the sample of ImageNet, where it is at hand)")
    parser.add_argument("--rounds", type=int, default=3, help="times that each side runs (default 3)")
    parser.add_argument("--seconds", type=float, default=3.0, help="least time of a run that counts (default 3)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads or worker processes of each side (default all cores); the loader is also measured with 4 and 1")
    parser.add_argument("--copies", type=int, default=16, help="times that the photos are packed (default 16)")
    parser.add_argument("--cubes", type=int, default=24, help="number of synthetic cubes; 0 leaves them out (default 24)")
    parser.add_argument("--cube-copies", type=int, default=4, help="times that they are packed, by hard links, so that an epoch is long (default 4)")
    parser.add_argument("--codec", default="blosc2-lz4", help="codec of the cubes (default blosc2-lz4)")
    parser.add_argument("--device", default="cuda:0", help="the GPU (default cuda:0)")
    parser.add_argument("--only", nargs="+", choices=[*SIDES], help="only these sides (default all)")
    parser.add_argument("--dir", type=Path, default=bench.ROOT / "target" / "bench", help="where to write (default target/bench)")
    parser.add_argument("--no-save", action="store_true", help="do not leave a file in benches/runs")
    parser.add_argument("--side", choices=[*SIDES], help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.photos.is_dir():
        parser.error(f"expected a folder of class folders of JPEGs, found nothing there: {options.photos}")
    return options


def prepare(folder, options):
    """Packs the photos and makes the cubes; says what they are."""
    import shardpack
    import torch

    jpegs = sorted(path for path in options.photos.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    if not jpegs:
        raise SystemExit(f"expected JPEGs in class folders, found none: {options.photos}")
    if len(jpegs) * options.copies < BATCH or 0 < options.cubes < CUBES:
        raise SystemExit(f"expected at least {BATCH} pictures and {CUBES} cubes, a batch of each, found: {len(jpegs) * options.copies} and {options.cubes}; --copies and --cubes give more")
    for copy in range(options.copies):
        for path in jpegs:
            to = folder / "photos" / path.parent.name / f"{copy:02}-{path.name}"
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)
    shardpack.pack(folder / "photos", folder / "pictures")
    facts = {"photos": len(jpegs) * options.copies, "bytes of photos": bench.tree_bytes(folder / "photos"), "bytes packed": bench.tree_bytes(folder / "pictures")}
    if options.cubes:
        for path in sorted(write(folder / "npy", options.cubes, SHAPE).iterdir()):
            np.save(path, np.load(path).astype(np.float16))
            for copy in range(1, options.cube_copies):
                os.link(path, path.with_stem(f"{path.stem}-{copy}"))
        shardpack.pack(folder / "npy", folder / "cubes", values="keep", codec=options.codec)
        try:
            import blosc2
        except ModuleNotFoundError as error:
            facts.setdefault("not measured", []).append(f"{ARRAYS}: {SIDE_NAMES['blosc2']}: {error}")
        else:
            (folder / "b2").mkdir()
            with ThreadPoolExecutor(options.threads) as pool:
                list(pool.map(lambda path: (folder / "b2" / path.name).write_bytes(in_blosc2(blosc2, path)), sorted((folder / "npy").iterdir())))
        try:
            in_nvcomp(folder, options)
        except (ImportError, RuntimeError) as error:
            facts.setdefault("not measured", []).append(f"{ARRAYS}: {SIDE_NAMES['nvcomp']}: {error}")
        facts |= {"cubes": options.cubes * options.cube_copies, "codec of cubes": options.codec, "bytes of cubes, float16": bench.tree_bytes(folder / "npy"), "bytes of cubes packed": bench.tree_bytes(folder / "cubes")}
    bench.warm(folder)
    return facts | {"device": torch.cuda.get_device_name(options.device), "torch": torch.__version__, "shardpack": shardpack.__version__}


def in_blosc2(blosc2, path):
    """A cube as one would store it with python-blosc2: LZ4 behind bitshuffle."""
    return blosc2.compress2(np.load(path), codec=blosc2.Codec.LZ4, clevel=5, filters=[blosc2.Filter.BITSHUFFLE], filters_meta=[0], typesize=2, nthreads=1)


def nvcomp_codec(device, **more):
    """LZ4 behind bitshuffle, in nvCOMP's own format."""
    from nvidia import nvcomp

    return nvcomp.Codec(algorithm="LZ4", data_type="<u2", bitshuffle_mode=nvcomp.BitshuffleMode.NVCOMP_BITSHUFFLE_MSB_FIRST, device_id=int(device.rpartition(":")[2] or 0), **more)


def in_nvcomp(folder, options):
    """The cubes as nvCOMP stores them, a file each."""
    import torch
    from nvidia import nvcomp

    codec = nvcomp_codec(options.device)
    (folder / "nv").mkdir()
    for path in sorted((folder / "npy").iterdir()):
        cube = torch.from_numpy(np.load(path).view(np.int16)).to(options.device)
        (folder / "nv" / path.name).write_bytes(bytes(codec.encode(nvcomp.as_array(cube)).cpu()))


def one(side, threads, folder, options):
    """A side in a process of its own; or why it did not run."""
    command = [sys.executable, __file__, options.photos, "--side", side, "--data", folder, "--threads", threads, "--seconds", options.seconds, "--device", options.device]
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        return {"error": f"took more than {TIME_LIMIT_S} s"}
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith((" ", "hint:"))]
        return {"error": said[-1] if said else f"exit code {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def timed(epoch, options):
    """Warms up with an epoch, then counts batches until the time is over. `epoch` gives the number of samples of each batch, once it is under way."""
    import torch

    sum(epoch())
    torch.cuda.synchronize()
    samples, start, cpu = 0, time.perf_counter(), tree.cpu_seconds(os.getpid())
    while time.perf_counter() - start < options.seconds:
        for count in epoch():
            samples += count
            if time.perf_counter() - start >= options.seconds:
                break
    torch.cuda.synchronize()
    spent = time.perf_counter() - start
    return {"samples_per_s": samples / spent, "cores": (tree.cpu_seconds(os.getpid()) - cpu) / spent}


# The loader


def loader(options, data, rows, **more):
    """`shardpack.Loader`, every field of a batch asked for as a tensor on the device."""
    import shardpack

    options_of_it = {"threads": options.threads, "to": "torch", "device": options.device, "decode": "device"} | more
    with shardpack.Loader(shardpack.Dataset(options.data / data), rows, **options_of_it) as batches:
        def epoch():
            for batch in batches:
                for _, value in batch.items():
                    assert (value.values if isinstance(value, shardpack.Ragged) else value).is_cuda
                yield len(batch)

        result = timed(epoch, options)
        stats = batches.stats()
        return result | {"refused": stats["refused"], "device_bytes": stats["predicted_device_bytes"], "consumer_wait_s": stats["consumer_wait_s"]}


def crops(options):
    return loader(options, "pictures", BATCH, image="rrc224", layout="chw", dtype="float16", mean=MEAN, std=STD)


def crops_host(options):
    """The host decodes, and makes the floats; the framework copies."""
    return loader(options, "pictures", BATCH, image="rrc224", layout="chw", dtype="float16", mean=MEAN, std=STD, decode="host")


def crops_resident(options):
    """The encoded pictures stay on the device."""
    return loader(options, "pictures", BATCH, image="rrc224", layout="chw", dtype="float16", mean=MEAN, std=STD, resident=True, prefetch=24, fields=["image", "label"])


def recipe(options, **more):
    """All of it in the loader."""
    import shardpack.augment as augment

    erase = augment.random_erasing(p=0.1, value=tuple(round(255 * mean) for mean in MEAN))
    mixes = [augment.mixup(alpha=0.2), augment.cutmix()]
    return loader(options, "pictures", BATCH, image="rrc224", layout="chw", dtype="float16", mean=MEAN, std=STD, fields=["image", "label"], augment=[augment.trivial_augment_wide(), erase], augment_batch=mixes, **more)


def recipe_host(options):
    return recipe(options, decode="host")


def recipe_resident(options):
    return recipe(options, resident=True, prefetch=24)


def whole(options):
    return loader(options, "pictures", BATCH, image="full")


def cubes(options):
    return loader(options, "cubes", CUBES, dtype="float32", fields=["cube"])


def cubes_resident(options):
    return loader(options, "cubes", CUBES, dtype="float32", fields=["cube"], resident=True, prefetch=8)


# Others


def files(options):
    """The JPEGs in random order, in batches."""
    paths = sorted(str(path) for path in (options.data / "photos").rglob("*") if path.is_file())
    random.shuffle(paths)
    return [paths[start : start + BATCH] for start in range(0, len(paths) - BATCH + 1, BATCH)]


def ahead(pool, work, items, depth=3):
    """The results of `work`, computed by threads, `depth` items ahead."""
    pending = []
    for item in items:
        pending.append(pool.submit(work, item))
        if len(pending) > depth:
            yield pending.pop(0).result()
    for last in pending:
        yield last.result()


def on_gpu(options, view):
    """torchvision's decoder on the GPU (nvJPEG), files read by threads."""
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg, read_file

    with ThreadPoolExecutor(options.threads) as pool, ThreadPoolExecutor(4) as readers:
        def epoch():
            for data in ahead(readers, lambda paths: list(pool.map(read_file, paths)), files(options)):
                view(decode_jpeg(data, mode=ImageReadMode.RGB, device=torch.device(options.device)))
                yield len(data)

        return timed(epoch, options)


def torchvision_crops(options):
    import torch
    from torchvision.transforms import v2
    from torchvision.transforms.v2 import functional

    crop = v2.RandomResizedCrop(224, antialias=True)
    mean, std = (torch.tensor(one, device=options.device).view(3, 1, 1) for one in (MEAN, STD))

    def view(pictures):
        cut = [functional.horizontal_flip(picture) if random.random() < 0.5 else picture for picture in map(crop, pictures)]
        return torch.stack(cut).float().div_(255).sub_(mean).div_(std).half()

    return on_gpu(options, view)


def torchvision_whole(options):
    return on_gpu(options, lambda pictures: pictures)


def engines_whole(options):
    """nvImageCodec: the JPEG engines of nvJPEG where the GPU has some, its kernels for what they do not take; files read by threads."""
    import torch
    from nvidia import nvimgcodec

    kinds = nvimgcodec.BackendKind
    backends = [nvimgcodec.Backend(kind) for kind in (kinds.HW_GPU_ONLY, kinds.GPU_ONLY, kinds.HYBRID_CPU_GPU)]
    decoder = nvimgcodec.Decoder(device_id=torch.device(options.device).index or 0, max_num_cpu_threads=options.threads, backends=backends)
    with ThreadPoolExecutor(options.threads) as pool, ThreadPoolExecutor(4) as readers:
        def epoch():
            for data in ahead(readers, lambda paths: list(pool.map(lambda path: Path(path).read_bytes(), paths)), files(options)):
                pictures = decoder.decode([nvimgcodec.CodeStream(one) for one in data])
                assert all(picture is not None for picture in pictures)
                yield len(pictures)

        return timed(epoch, options)


class WithLabels:
    """Pictures of a dataset, each with its label."""

    def __init__(self, photos, labels):
        self.photos, self.labels = photos, labels

    def __len__(self):
        return len(self.photos)

    def __getitem__(self, index):
        return self.photos[index], self.labels[index]


class Photos:
    """JPEGs as crops of uint8, for a DataLoader; augmented by `change`."""

    def __init__(self, paths, change=None):
        self.paths, self.change = paths, change

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        import torch

        try:
            from torchvision.io import ImageReadMode, decode_jpeg, read_file
            from torchvision.transforms import v2
        except ModuleNotFoundError:
            return torch.from_numpy(with_pillow(self.paths[index])).permute(2, 0, 1)
        cut = v2.RandomResizedCrop(224, antialias=True)(decode_jpeg(read_file(self.paths[index]), mode=ImageReadMode.RGB))
        cut = v2.functional.horizontal_flip(cut) if random.random() < 0.5 else cut
        return self.change(cut) if self.change else cut


def with_pillow(path):
    """A random crop of 224 × 224 pixels by Pillow, cut while it scales."""
    from PIL import Image, ImageOps

    with Image.open(path) as picture:
        picture = picture.convert("RGB")
        area, ratio = picture.width * picture.height * random.uniform(0.08, 1), np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3)))
        width, height = min(picture.width, round((area * ratio) ** 0.5)), min(picture.height, round((area / ratio) ** 0.5))
        left, top = random.randint(0, picture.width - width), random.randint(0, picture.height - height)
        cut = picture.resize((224, 224), Image.Resampling.BILINEAR, (left, top, left + width, top + height))
        return np.array(ImageOps.mirror(cut) if random.random() < 0.5 else cut)


def workers(options):
    """torch's DataLoader: worker processes decode and cut on the CPU, a pinned copy, normalised on the device."""
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    photos = Photos([path for paths in files(options) for path in paths])
    batches = DataLoader(photos, BATCH, shuffle=True, drop_last=True, num_workers=options.threads, persistent_workers=True, pin_memory=True, prefetch_factor=4)
    mean, std = (torch.tensor(one, device=options.device).view(3, 1, 1) for one in (MEAN, STD))

    def epoch():
        for batch in batches:
            batch.to(options.device, non_blocking=True).float().div_(255).sub_(mean).div_(std).half()
            yield len(batch)

    return timed(epoch, options)


def recipe_workers(options):
    """The same with the recipe: TrivialAugmentWide and erasing by the workers, the rest on the device."""
    import torch
    from torch.utils.data import DataLoader
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    photos = Photos([path for paths in files(options) for path in paths], v2.Compose([v2.TrivialAugmentWide(), v2.RandomErasing(p=0.1)]))
    labels = [int(number) for number in torch.randint(2, (len(photos),))]
    batches = DataLoader(WithLabels(photos, labels), BATCH, shuffle=True, drop_last=True, num_workers=options.threads, persistent_workers=True, pin_memory=True, prefetch_factor=4)
    mix = v2.RandomChoice([v2.MixUp(alpha=0.2, num_classes=2), v2.CutMix(num_classes=2)])
    mean, std = (torch.tensor(one, device=options.device).view(3, 1, 1) for one in (MEAN, STD))

    def epoch():
        for images, classes in batches:
            images, classes = images.to(options.device, non_blocking=True), classes.to(options.device, non_blocking=True)
            mix(images.float().div_(255).sub_(mean).div_(std).half(), classes)
            yield len(images)

    return timed(epoch, options)


def npy(options):
    """float16 `.npy` files, read by threads."""

    def read(path, cube):
        with open(path, "rb", buffering=0) as file:
            file.seek(path.stat().st_size - cube.nbytes)
            view, done = memoryview(cube).cast("B"), 0
            while done < len(view):
                done += file.readinto(view[done : done + (1 << 20)])

    return pinned_ring(options, "npy", read)


def blosc2(options):
    """One Blosc2 chunk a file, read and decompressed by threads, a cube each."""
    import blosc2

    blosc2.set_nthreads(1)
    # Else one thread decompresses, and all others wait for it.
    blosc2.set_releasegil(True)
    return pinned_ring(options, "b2", lambda path, cube: blosc2.decompress2(path.read_bytes(), dst=cube, nthreads=1))


def nvcomp(options):
    """nvCOMP: files read by threads into pinned memory, copied, decompressed, cast."""
    import torch
    from nvidia import nvcomp

    codec = nvcomp_codec(options.device, cuda_stream=torch.cuda.current_stream().cuda_stream)
    paths = sorted((options.data / "nv").iterdir())
    most = max(path.stat().st_size for path in paths)
    ring = [[torch.empty(most, dtype=torch.uint8, pin_memory=True) for _ in range(CUBES)] for _ in range(4)]
    copied = [torch.cuda.Event() for _ in ring]

    def read(path, memory):
        with open(path, "rb", buffering=0) as file:
            view, done = memoryview(memory.numpy()), 0
            while count := file.readinto(view[done : done + (1 << 20)]):
                done += count
        return memory[:done]

    with ThreadPoolExecutor(options.threads) as pool, ThreadPoolExecutor(2) as readers:
        def fill(job):
            slot, chosen = job
            copied[slot].synchronize()
            return slot, list(pool.map(read, chosen, ring[slot]))

        def epoch():
            random.shuffle(paths)
            jobs = [(number % len(ring), paths[start : start + CUBES]) for number, start in enumerate(range(0, len(paths) - CUBES + 1, CUBES))]
            for slot, cubes in ahead(readers, fill, jobs, depth=2):
                there = [nvcomp.as_array(cube.to(options.device, non_blocking=True)) for cube in cubes]
                copied[slot].record()
                for cube in there:
                    torch.from_dlpack(codec.decode(cube, data_type="<f2")).float()
                yield CUBES

        return timed(epoch, options)


def pinned_ring(options, folder, read):
    """Cubes into a ring of pinned batches by `read`, copied, and cast on the device."""
    import torch

    paths = sorted((options.data / folder).iterdir())
    ring = [torch.empty((CUBES, *SHAPE), dtype=torch.float16, pin_memory=True) for _ in range(4)]
    copied = [torch.cuda.Event() for _ in ring]

    with ThreadPoolExecutor(options.threads) as pool, ThreadPoolExecutor(2) as readers:
        def fill(job):
            slot, chosen = job
            copied[slot].synchronize()
            list(pool.map(read, chosen, ring[slot].numpy()))
            return slot

        def epoch():
            random.shuffle(paths)
            jobs = [(number % len(ring), paths[start : start + CUBES]) for number, start in enumerate(range(0, len(paths) - CUBES + 1, CUBES))]
            # Two ahead: a slot is asked for again only after its copy was begun.
            for slot in ahead(readers, fill, jobs, depth=2):
                there = ring[slot].to(options.device, non_blocking=True)
                copied[slot].record()
                there.float()
                yield CUBES

        return timed(epoch, options)


def bus(options):
    """Copies of 64 MiB from pinned memory; a sample is a gigabyte."""
    import torch

    size = 64 << 20
    here, there = torch.empty(size, dtype=torch.uint8, pin_memory=True), torch.empty(size, dtype=torch.uint8, device=options.device)

    def epoch():
        for _ in range(32):
            there.copy_(here, non_blocking=True)
            yield size / 1e9
        torch.cuda.synchronize()

    return timed(epoch, options)


# What it delivers, the samples it takes, and how.
SIDES = {
    "device": (CROPS, "pictures", crops),
    "device-resident": (CROPS, "pictures", crops_resident),
    "host": (CROPS, "pictures", crops_host),
    "torchvision": (CROPS, "pictures", torchvision_crops),
    "workers": (CROPS, "pictures", workers),
    "recipe": (RECIPE, "pictures", recipe),
    "recipe-resident": (RECIPE, "pictures", recipe_resident),
    "recipe-host": (RECIPE, "pictures", recipe_host),
    "recipe-workers": (RECIPE, "pictures", recipe_workers),
    "device-whole": (WHOLE, "pictures", whole),
    "engines-whole": (WHOLE, "pictures", engines_whole),
    "torchvision-whole": (WHOLE, "pictures", torchvision_whole),
    "device-cubes": (ARRAYS, "cubes", cubes),
    "device-cubes-resident": (ARRAYS, "cubes", cubes_resident),
    "npy": (ARRAYS, "cubes", npy),
    "nvcomp": (ARRAYS, "cubes", nvcomp),
    "blosc2": (ARRAYS, "cubes", blosc2),
    "bus": (BUS, "pictures", bus),
}
SIDE_NAMES = {
    "device": "shardpack, decoded on the device",
    "device-resident": "shardpack, encoded on the device, decoded there",
    "host": "shardpack, decoded on the host",
    "torchvision": "torchvision: decode_jpeg on the device, then crop, resize, normalise",
    "workers": "DataLoader with workers, pinned copy, normalised on the device",
    "recipe": "shardpack, all of it on the device",
    "recipe-resident": "shardpack, encoded on the device, all of it there",
    "recipe-host": "shardpack, all of it on the host",
    "recipe-workers": "DataLoader with workers: torchvision on tensors; normalised and mixed on the device",
    "device-whole": "shardpack, decoded on the device",
    "engines-whole": "nvImageCodec: nvJPEG's engines",
    "torchvision-whole": "torchvision: decode_jpeg on the device",
    "device-cubes": "shardpack, decoded on the device",
    "device-cubes-resident": "shardpack, encoded on the device, decoded there",
    "blosc2": "python-blosc2, float16, into pinned memory, copied, cast",
    "nvcomp": "nvCOMP, float16, LZ4 behind bitshuffle, from pinned memory, decompressed on the device, cast",
    "npy": "float16 .npy into pinned memory, copied, cast",
    "bus": "pinned memory, 64 MiB at a time, GB/s",
}


def summary(runs):
    """The median of each side, and how many times the first of its kind it is slower."""
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
