"""The other sides of `device.py`: other GPU libraries, CPU workers, reads into pinned memory, and the bus."""

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from peers import tree

BATCH, CUBES, SHAPE = 256, 6, (480, 640, 100)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def in_blosc2(blosc2, path):
    """Compresses a cube with python-blosc2: bitshuffle, then LZ4."""
    return blosc2.compress2(
        np.load(path),
        codec=blosc2.Codec.LZ4,
        clevel=5,
        filters=[blosc2.Filter.BITSHUFFLE],
        filters_meta=[0],
        typesize=2,
        nthreads=1,
    )


def nvcomp_codec(device, **more):
    """Returns nvCOMP's codec for bitshuffle followed by LZ4, in nvCOMP's own format."""
    from nvidia import nvcomp

    return nvcomp.Codec(
        algorithm="LZ4",
        data_type="<u2",
        bitshuffle_mode=nvcomp.BitshuffleMode.NVCOMP_BITSHUFFLE_MSB_FIRST,
        device_id=int(device.rpartition(":")[2] or 0),
        **more,
    )


def timed(epoch, options):
    """Runs one warm-up epoch, then counts samples until the time is up. `epoch` yields the size of each batch as soon
    as work on that batch has been queued.
    """
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


def files(options):
    """Yields batches of JPEG files in random order."""
    paths = sorted(str(path) for path in (options.data / "photos").rglob("*") if path.is_file())
    random.shuffle(paths)
    return [paths[start : start + BATCH] for start in range(0, len(paths) - BATCH + 1, BATCH)]


def ahead(pool, work, items, depth=3):
    """Yields the results of `work` in order. Threads compute up to `depth` items ahead."""
    pending = []
    for item in items:
        pending.append(pool.submit(work, item))
        if len(pending) > depth:
            yield pending.pop(0).result()
    for last in pending:
        yield last.result()


def on_gpu(options, view):
    """Decodes with torchvision's GPU decoder (nvJPEG). Threads read the files."""
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
        cut = [
            functional.horizontal_flip(picture) if random.random() < 0.5 else picture for picture in map(crop, pictures)
        ]
        return torch.stack(cut).float().div_(255).sub_(mean).div_(std).half()

    return on_gpu(options, view)


def torchvision_whole(options):
    return on_gpu(options, lambda pictures: pictures)


def engines_whole(options):
    """Decodes with nvImageCodec, which uses the JPEG engines of the GPU if it has any, and kernels for other pictures.
    Threads read the files.
    """
    import torch
    from nvidia import nvimgcodec

    kinds = nvimgcodec.BackendKind
    backends = [nvimgcodec.Backend(kind) for kind in (kinds.HW_GPU_ONLY, kinds.GPU_ONLY, kinds.HYBRID_CPU_GPU)]
    decoder = nvimgcodec.Decoder(
        device_id=torch.device(options.device).index or 0, max_num_cpu_threads=options.threads, backends=backends
    )
    with ThreadPoolExecutor(options.threads) as pool, ThreadPoolExecutor(4) as readers:

        def epoch():
            for data in ahead(
                readers, lambda paths: list(pool.map(lambda path: Path(path).read_bytes(), paths)), files(options)
            ):
                pictures = decoder.decode([nvimgcodec.CodeStream(one) for one in data])
                assert all(picture is not None for picture in pictures)
                yield len(pictures)

        return timed(epoch, options)


class WithLabels:

    def __init__(self, photos, labels):
        self.photos, self.labels = photos, labels

    def __len__(self):
        return len(self.photos)

    def __getitem__(self, index):
        return self.photos[index], self.labels[index]


class Photos:
    """JPEGs as uint8 crops for a DataLoader. `change` augments each crop."""

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
        cut = v2.RandomResizedCrop(224, antialias=True)(
            decode_jpeg(read_file(self.paths[index]), mode=ImageReadMode.RGB)
        )
        cut = v2.functional.horizontal_flip(cut) if random.random() < 0.5 else cut
        return self.change(cut) if self.change else cut


def with_pillow(path):
    """Crops at random and resizes to 224 × 224 pixels in one step, with Pillow."""
    from PIL import Image, ImageOps

    with Image.open(path) as picture:
        picture = picture.convert("RGB")
        area, ratio = (
            picture.width * picture.height * random.uniform(0.08, 1),
            np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3))),
        )
        width, height = (
            min(picture.width, round((area * ratio) ** 0.5)),
            min(picture.height, round((area / ratio) ** 0.5)),
        )
        left, top = random.randint(0, picture.width - width), random.randint(0, picture.height - height)
        cut = picture.resize((224, 224), Image.Resampling.BILINEAR, (left, top, left + width, top + height))
        return np.array(ImageOps.mirror(cut) if random.random() < 0.5 else cut)


def workers(options):
    """torch's DataLoader: worker processes decode and crop on the CPU. The batch is then copied from pinned memory and
    normalised on the device.
    """
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    photos = Photos([path for paths in files(options) for path in paths])
    batches = DataLoader(
        photos,
        BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=options.threads,
        persistent_workers=True,
        pin_memory=True,
        prefetch_factor=4,
    )
    mean, std = (torch.tensor(one, device=options.device).view(3, 1, 1) for one in (MEAN, STD))

    def epoch():
        for batch in batches:
            batch.to(options.device, non_blocking=True).float().div_(255).sub_(mean).div_(std).half()
            yield len(batch)

    return timed(epoch, options)


def recipe_workers(options):
    """torch's DataLoader with the whole training recipe: the workers also apply TrivialAugmentWide and erasing, and the
    device does the rest.
    """
    import torch
    from torch.utils.data import DataLoader
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    photos = Photos(
        [path for paths in files(options) for path in paths],
        v2.Compose([v2.TrivialAugmentWide(), v2.RandomErasing(p=0.1)]),
    )
    labels = [int(number) for number in torch.randint(2, (len(photos),))]
    batches = DataLoader(
        WithLabels(photos, labels),
        BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=options.threads,
        persistent_workers=True,
        pin_memory=True,
        prefetch_factor=4,
    )
    mix = v2.RandomChoice([v2.MixUp(alpha=0.2, num_classes=2), v2.CutMix(num_classes=2)])
    mean, std = (torch.tensor(one, device=options.device).view(3, 1, 1) for one in (MEAN, STD))

    def epoch():
        for images, classes in batches:
            images, classes = (
                images.to(options.device, non_blocking=True),
                classes.to(options.device, non_blocking=True),
            )
            mix(images.float().div_(255).sub_(mean).div_(std).half(), classes)
            yield len(images)

    return timed(epoch, options)


def npy(options):
    """Reads float16 `.npy` files with threads."""

    def read(path, cube):
        with open(path, "rb", buffering=0) as file:
            file.seek(path.stat().st_size - cube.nbytes)
            view, done = memoryview(cube).cast("B"), 0
            while done < len(view):
                done += file.readinto(view[done : done + (1 << 20)])

    return pinned_ring(options, "npy", read)


def blosc2(options):
    """Reads cubes from files of one Blosc2 chunk each. Each thread reads and decompresses a whole cube."""
    import blosc2

    blosc2.set_nthreads(1)
    # Without this call, Blosc2 holds the GIL, and the threads decompress one at a time.
    blosc2.set_releasegil(True)
    return pinned_ring(options, "b2", lambda path, cube: blosc2.decompress2(path.read_bytes(), dst=cube, nthreads=1))


def nvcomp(options):
    """Uses nvCOMP: threads read the files into pinned memory, and the device decompresses and casts the copies."""
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
            jobs = [
                (number % len(ring), paths[start : start + CUBES])
                for number, start in enumerate(range(0, len(paths) - CUBES + 1, CUBES))
            ]
            for slot, cubes in ahead(readers, fill, jobs, depth=2):
                there = [nvcomp.as_array(cube.to(options.device, non_blocking=True)) for cube in cubes]
                copied[slot].record()
                for cube in there:
                    torch.from_dlpack(codec.decode(cube, data_type="<f2")).float()
                yield CUBES

        return timed(epoch, options)


def pinned_ring(options, folder, read):
    """Reads cubes into a ring of pinned batches, copies them to the device, and casts them there."""
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
            jobs = [
                (number % len(ring), paths[start : start + CUBES])
                for number, start in enumerate(range(0, len(paths) - CUBES + 1, CUBES))
            ]
            # Read only two batches ahead, because a slot may be refilled only after its copy has started.
            for slot in ahead(readers, fill, jobs, depth=2):
                there = ring[slot].to(options.device, non_blocking=True)
                copied[slot].record()
                there.float()
                yield CUBES

        return timed(epoch, options)


def bus(options):
    """Copies 64 MiB at a time from pinned memory to measure the bus. In the table, a "sample" is a gigabyte."""
    import torch

    size = 64 << 20
    here, there = (
        torch.empty(size, dtype=torch.uint8, pin_memory=True),
        torch.empty(size, dtype=torch.uint8, device=options.device),
    )

    def epoch():
        for _ in range(32):
            there.copy_(here, non_blocking=True)
            yield size / 1e9
        torch.cuda.synchronize()

    return timed(epoch, options)
