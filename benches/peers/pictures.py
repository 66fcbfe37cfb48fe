"""Loaders of pictures. Each function takes a mode and a job and returns an epoch, which is a function that yields
batches.

The modes are `rrc224`: random crops of 224 × 224, randomly flipped, uint8, in one dense batch; `full`: all pixels,
uint8, in a list; `raw`: the bytes of the files, in a list. Libraries with worker processes use them, except for raw
bytes, which cost more to send through a pipe than to read.
"""

from pathlib import Path

SIZE = 224
BUFFER = 1000


def worker_processes(mode, job):
    return 0 if mode == "raw" else job.threads


def torch_decoder(mode):
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    if mode == "raw":
        return bytes
    change = v2.Compose([v2.RandomResizedCrop(SIZE, antialias=True), v2.RandomHorizontalFlip()]) if mode == "rrc224" else lambda image: image

    def decode(data):
        return change(decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), mode=ImageReadMode.RGB))

    return decode


def stack(mode):
    """Returns the function that turns decoded pictures into a batch."""
    import torch

    return torch.stack if mode == "rrc224" else list


def loader_epoch(dataset, mode, job, **options):
    """A torch DataLoader whose worker processes persist between epochs."""
    from torch.utils.data import DataLoader

    processes = worker_processes(mode, job)
    loader = DataLoader(dataset, num_workers=processes, persistent_workers=processes > 0, **options)
    return lambda: iter(loader)


def torchvision(mode, job):
    from torchvision.datasets import ImageFolder

    decode, collate = torch_decoder(mode), stack(mode)
    dataset = ImageFolder(job.data, loader=lambda path: decode(Path(path).read_bytes()))
    return loader_epoch(dataset, mode, job, batch_size=job.batch, shuffle=True, collate_fn=lambda rows: collate([image for image, _ in rows]))


def webdataset(mode, job):
    import webdataset as wds

    decode, collate = torch_decoder(mode), stack(mode)
    urls = [str(path) for path in sorted(job.data.glob("*.tar"))]
    dataset = wds.WebDataset(urls, shardshuffle=len(urls), empty_check=False).shuffle(BUFFER).to_tuple("jpg", "cls").map_tuple(decode, int)
    dataset = dataset.batched(job.batch, collation_fn=lambda rows: collate([image for image, _ in rows]))
    return loader_epoch(dataset, mode, job, batch_size=None)


def mds(mode, job):
    from streaming import StreamingDataset

    decode, collate = torch_decoder(mode), stack(mode)

    class Pictures(StreamingDataset):
        def __getitem__(self, at):
            return decode(super().__getitem__(at)["image"])

    dataset = Pictures(local=str(job.data), shuffle=True, batch_size=job.batch)
    return loader_epoch(dataset, mode, job, batch_size=job.batch, collate_fn=collate)


def dali(mode, job):
    """Loads with DALI. Its reader never ends, so an epoch is as many batches as the samples fill completely."""
    import numpy as np
    from nvidia.dali import fn, pipeline_def

    @pipeline_def(batch_size=job.batch, num_threads=job.threads, device_id=None, prefetch_queue_depth=2)
    def build():
        paths = [str(path) for path in sorted(job.data.glob("*.tar"))]
        image = fn.readers.webdataset(paths=paths, ext=["jpg"], random_shuffle=True, initial_fill=BUFFER, name="reader")
        if mode == "rrc224":
            image = fn.resize(fn.decoders.image_random_crop(image, device="cpu"), resize_x=SIZE, resize_y=SIZE)
            image = fn.flip(image, horizontal=fn.random.coin_flip())
        elif mode == "full":
            image = fn.decoders.image(image, device="cpu")
        return image

    pipeline = build()
    pipeline.build()
    batches = max(1, pipeline.epoch_size("reader") // job.batch)

    def epoch():
        for _ in range(batches):
            (out,) = pipeline.run()
            # Raw records are views of a mapped file that has not been read yet. All other loaders copy their records,
            # so copy these too.
            yield [np.copy(out.at(i)) for i in range(len(out))] if mode == "raw" else out.as_array() if mode == "rrc224" else [out.at(i) for i in range(len(out))]

    return epoch


def spdl(mode, job):
    """Loads with SPDL and our decode function, because SPDL's own decoder needs an installed FFmpeg."""
    import random

    from spdl.pipeline import PipelineBuilder

    from .stores import jpegs

    decode, collate = torch_decoder(mode), stack(mode)
    paths = [path for path, _ in jpegs(job.data)]

    def make_batch(rows):
        # Wrap `collate` in a function, because SPDL would index `list` itself.
        return collate(rows)

    def epoch():
        random.shuffle(paths)
        builder = PipelineBuilder().add_source(paths).pipe(lambda path: decode(path.read_bytes()), concurrency=job.threads)
        pipeline = builder.aggregate(job.batch).pipe(make_batch).add_sink(2).build(num_threads=job.threads)
        with pipeline.auto_stop():
            yield from pipeline.get_iterator()

    return epoch


def tf_data(mode, job):
    """tf.data decodes only the crop, but parses the entropy-coded data of the whole picture. It chooses the number of
    parallel calls itself, which is faster than one call per thread.
    """
    import tensorflow as tf

    tf.config.threading.set_inter_op_parallelism_threads(job.threads)
    tf.config.threading.set_intra_op_parallelism_threads(job.threads)
    whole = tf.constant([[[0.0, 0.0, 1.0, 1.0]]])

    def decode(record):
        data = tf.io.parse_single_example(record, {"image": tf.io.FixedLenFeature([], tf.string)})["image"]
        if mode == "raw":
            return data
        if mode == "full":
            return tf.io.decode_jpeg(data, channels=3)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(data), whole, area_range=(0.08, 1.0), aspect_ratio_range=(3 / 4, 4 / 3), max_attempts=10, use_image_if_no_bounding_boxes=True
        )
        window = tf.concat([begin[:2], size[:2]], axis=0)
        image = tf.image.resize(tf.io.decode_and_crop_jpeg(data, window, channels=3), (SIZE, SIZE))
        return tf.image.random_flip_left_right(tf.cast(tf.round(image), tf.uint8))

    files = [str(path) for path in sorted(job.data.glob("*.tfrecord"))]
    dataset = tf.data.TFRecordDataset(files, num_parallel_reads=tf.data.AUTOTUNE).shuffle(BUFFER).map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    if mode != "full":
        dataset = dataset.batch(job.batch)
    dataset = dataset.prefetch(tf.data.AUTOTUNE if mode != "full" else job.batch)

    def epoch():
        # Pictures of different sizes cannot form one tensor.
        for batch in dataset.as_numpy_iterator():
            yield [batch] if mode == "full" else batch if mode == "rrc224" else list(batch)

    return epoch
