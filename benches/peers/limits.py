"""Measures the work that no loader can avoid, on all cores: reading records in file order, and decoding from memory.
"""

import multiprocessing
from pathlib import Path

READ_BYTES = 1 << 20


def divided(work, items, job):
    """Runs an epoch in `job.threads` processes. They persist between epochs, and each holds its share of the items in
    memory.
    """
    context = multiprocessing.get_context("fork")
    pipes = []
    for i in range(job.threads):
        ours, theirs = context.Pipe()
        context.Process(target=serve, args=(work, items[i :: job.threads], theirs), daemon=True).start()
        pipes.append(ours)

    def epoch():
        for pipe in pipes:
            pipe.send(True)
        for pipe in pipes:
            yield pipe.recv()

    return epoch


def serve(work, items, pipe):
    while pipe.recv():
        pipe.send((len(items), sum(map(work, items))))


def libjpeg_turbo(mode, job):
    import simplejpeg

    from .stores import jpegs

    return divided(lambda data: simplejpeg.decode_jpeg(data, strict=False).nbytes, [path.read_bytes() for path, _ in jpegs(job.data)], job)


def plain_read(mode, job):
    """Reads in file order, with one thread, into one buffer. Each record counts as a sample."""
    paths = sorted(job.data.glob("*.shard"))
    samples = sum(len(shard.rows) for shard in open_shards(job.data))
    buffer = memoryview(bytearray(READ_BYTES))

    def epoch():
        total = 0
        for path in paths:
            with open(path, "rb", buffering=0) as file:
                while done := file.readinto(buffer):
                    total += done
        yield samples, total

    return epoch


plain_read_cubes = plain_read


def open_shards(dataset):
    """Opens the shards of a dataset with the reader in format-spec."""
    import sys

    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "format-spec"))
    import reader

    manifest, paths = reader.open_dataset(str(dataset))
    return [reader.Shard(path, manifest, number) for number, path in enumerate(paths)]


def blosc2(mode, job):
    """Decompresses the dataset's chunks into one buffer per process, without undoing casts and band differences."""
    import struct

    import blosc2 as library
    import numpy as np

    library.set_nthreads(1)
    cubes = []
    for shard in open_shards(job.data):
        import reader

        fields = shard.metadata["schema"]["fields"]
        for row in shard.rows:
            values = dict(zip([field["name"] for field in fields], reader.parse_record(shard.read(row.offset, row.length), fields, shard.number, row)))
            codec, _, _, stored = values["cube"]
            if codec != reader.BLOSC2:
                raise SystemExit("the cubes of this dataset are not Blosc2 chunks")
            chunks = []
            while stored:
                decoded, _, size = struct.unpack_from("<3i", stored, 4)
                chunks.append((bytes(stored[:size]), decoded))
                stored = stored[size:]
            cubes.append(chunks)
    buffer = np.empty(max(decoded for chunks in cubes for _, decoded in chunks), np.uint8)

    def decode(chunks):
        for chunk, decoded in chunks:
            library.decompress2(chunk, dst=buffer[:decoded])
        return sum(decoded for _, decoded in chunks)

    return divided(decode, cubes, job)
