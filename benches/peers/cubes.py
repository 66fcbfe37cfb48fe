"""Loads whole cubes with each peer: float16, `[batch, height, width, channels]`. Reuses one buffer if the peer allows
it.
"""

import random
from concurrent.futures import ThreadPoolExecutor


def batches(items, size):
    """Shuffles the items and yields them in batches."""
    random.shuffle(items)
    for at in range(0, len(items), size):
        yield items[at : at + size]


def npy(mode, job):
    """Threads read uncompressed files directly into the batch. A compressed format should be faster."""
    import numpy as np

    paths = sorted(job.data.glob("*.npy"))
    shape, dtype = (first := np.load(paths[0], mmap_mode="r")).shape, first.dtype
    header = first.offset
    buffer = np.empty((job.batch, *shape), dtype)
    pool = ThreadPoolExecutor(job.threads)

    def read(path, row):
        with open(path, "rb", buffering=0) as file:
            file.seek(header)
            view = memoryview(row).cast("B")
            while view and (done := file.readinto(view)):
                view = view[done:]
        if view:
            raise SystemExit(f"{path}: {len(view)} bytes too short")

    def epoch():
        for some in batches(paths, job.batch):
            list(pool.map(read, some, buffer))
            yield buffer[: len(some)]

    return epoch


def npy_dataloader(mode, job):
    import numpy as np
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Cubes(Dataset):
        paths = sorted(job.data.glob("*.npy"))

        def __len__(self):
            return len(self.paths)

        def __getitem__(self, at):
            return torch.from_numpy(np.load(self.paths[at]))

    loader = DataLoader(Cubes(), batch_size=job.batch, shuffle=True, num_workers=job.threads, persistent_workers=True)
    return lambda: iter(loader)


def blosc2_frames(mode, job):
    """Decompresses into the batch chunk by chunk. All Blosc2 threads work on each chunk."""
    import blosc2
    import numpy as np

    blosc2.set_nthreads(job.threads)
    paths = sorted(job.data.glob("*.b2frame"))
    shape = tuple(map(int, paths[0].with_suffix(".shape").read_text().split()))
    buffer = np.empty((job.batch, *shape), np.float16)

    def epoch():
        for some in batches(paths, job.batch):
            for row, path in zip(buffer, some):
                frame = blosc2.open(str(path), mode="r", dparams={"nthreads": job.threads})
                flat = row.reshape(-1).view(np.uint8)
                for i in range(frame.nchunks):
                    frame.decompress_chunk(i, dst=flat[i * frame.chunksize : (i + 1) * frame.chunksize])
            yield buffer[: len(some)]

    return epoch


blosc2_lz4 = blosc2_zstd = blosc2_frames


def hdf5(mode, job):
    import os

    os.environ["BLOSC_NTHREADS"] = str(job.threads)
    import h5py
    import hdf5plugin  # noqa: F401 (registers the filter)
    import numpy as np

    file = h5py.File(job.data / "cubes.h5", "r")
    names = sorted(file)
    buffer = np.empty((job.batch, *file[names[0]].shape), np.float16)

    def epoch():
        for some in batches(names, job.batch):
            for row, name in zip(buffer, some):
                file[name].read_direct(row)
            yield buffer[: len(some)]

    return epoch


def zarr(mode, job):
    import zarr as library

    library.config.set({"threading.max_workers": job.threads})
    paths = sorted(job.data.iterdir())

    def epoch():
        for some in batches(paths, job.batch):
            yield [library.open_array(str(path), mode="r")[:] for path in some]

    return epoch
