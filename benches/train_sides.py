"""The models and the sides of `train.py`. A side is one way to feed batches to the model. The `ceiling` side measures
the model without any loading.
"""

import contextlib
import random
import threading
import time
from collections import namedtuple

from device_others import BATCH, MEAN, STD, Photos, WithLabels

# Number of decoded batches that stay on the device while the ceiling is measured. They are real photos, because a GPU
# computes faster on uniform batches.
CEILING_BATCHES = 40
CLASSES = 1000
# A side: its name in tables, the number of its loader threads (0 means one per core), the function that opens it, and
# True if the model trains in a stream of higher priority.
Side = namedtuple("Side", "name threads open urgent", defaults=[False])


def model_of(name):
    """Returns a torchvision model with random weights, and True if it runs faster with channels last."""
    from torchvision import models

    makers = {
        "resnet18": (models.resnet18, {}, True),
        "resnet50": (models.resnet50, {}, True),
        # This is ViT-S/16. torchvision has functions only for larger models of this class.
        "vit_s_16": (
            models.VisionTransformer,
            {"image_size": 224, "patch_size": 16, "num_layers": 12, "num_heads": 6, "hidden_dim": 384, "mlp_dim": 1536},
            False,
        ),
    }
    make, arguments, channels_last = makers[name]
    return make(num_classes=CLASSES, **arguments), channels_last


MODELS = ("resnet18", "resnet50", "vit_s_16")


class Step:
    """A compiled training step in bfloat16. With several ranks, the model is wrapped in DistributedDataParallel."""

    def __init__(self, model, device, ranks):
        import torch

        self.torch, self.device = torch, device
        network, self.channels_last = model_of(model)
        network = network.to(device)
        if self.channels_last:
            network = network.to(memory_format=torch.channels_last)
        if ranks > 1:
            network = torch.nn.parallel.DistributedDataParallel(
                network, device_ids=[device.index], gradient_as_bucket_view=True
            )
        self.network = network
        self.compiled = torch.compile(network)
        self.optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, fused=True)
        self.loss = torch.nn.CrossEntropyLoss()

    def __call__(self, images, labels):
        with self.torch.autocast("cuda", dtype=self.torch.bfloat16):
            loss = self.loss(self.compiled(images), labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def evaluate(self, images):
        with self.torch.no_grad(), self.torch.autocast("cuda", dtype=self.torch.bfloat16):
            return self.compiled(images).argmax(1)


def shardpack_loader(job, threads, image="rrc224", **more):
    """A loader of normalised bfloat16 pictures and labels. The pixels are in channels-last order if the model runs
    faster with it.
    """
    import shardpack

    options = {"decode": "device", "shuffle": True} | more
    return shardpack.Loader(
        shardpack.Dataset(job.data / "pictures"),
        BATCH,
        image=image,
        layout="hwc" if job.channels_last else "chw",
        dtype="bfloat16",
        mean=MEAN,
        std=STD,
        fields=["image", "label"],
        threads=threads or job.cores,
        rank=job.rank,
        world_size=job.ranks,
        to="torch",
        device=str(job.device),
        **options,
    )


@contextlib.contextmanager
def shardpack_side(job, threads, **more):
    with shardpack_loader(job, threads, **more) as loader:

        def forever():
            while True:
                for images, labels in loader:
                    yield images.permute(0, 3, 1, 2) if job.channels_last else images, labels

        yield forever()
        job.refused = sum(loader.stats()["refused"].values())


@contextlib.contextmanager
def ceiling(job, threads):
    """Reuses decoded batches that stay on the device, to measure the model without any loading."""
    if not job.still:
        with shardpack_side(job, threads) as batches:
            for _, (images, labels) in zip(range(CEILING_BATCHES), batches, strict=False):
                job.still.append((images.clone(memory_format=job.torch.preserve_format), labels.clone()))

    def forever():
        while True:
            random.shuffle(job.still)
            yield from job.still

    yield forever()


@contextlib.contextmanager
def workers(job, threads):
    """PyTorch's DataLoader: worker processes decode and crop to uint8, and the device normalises the batches after
    copying them from pinned memory.
    """
    torch = job.torch
    from torch.utils.data import DataLoader
    from torch.utils.data.distributed import DistributedSampler

    paths = sorted(path for path in (job.data / "photos").rglob("*") if path.is_file())
    classes = {name: number for number, name in enumerate(sorted({path.parent.name for path in paths}))}
    photos = WithLabels(Photos([str(path) for path in paths]), [classes[path.parent.name] for path in paths])
    sampler = DistributedSampler(photos, job.ranks, job.rank, drop_last=True)
    batches = DataLoader(
        photos,
        BATCH,
        sampler=sampler,
        drop_last=True,
        num_workers=threads or job.cores,
        persistent_workers=True,
        pin_memory=True,
        prefetch_factor=4,
        multiprocessing_context="forkserver",
    )
    mean, std = (torch.tensor(values, device=job.device).view(3, 1, 1) * 255 for values in (MEAN, STD))
    order = torch.channels_last if job.channels_last else torch.contiguous_format

    def forever():
        epoch = 0
        while True:
            sampler.set_epoch(epoch)
            for images, labels in batches:
                images = images.to(job.device, non_blocking=True, memory_format=order)
                yield images.float().sub_(mean).div_(std).bfloat16(), labels.to(job.device, non_blocking=True)
            epoch += 1

    endless = forever()
    yield endless
    # Stop the worker processes. They would otherwise stay alive during the next turn.
    endless.close()


def device(job, threads):
    return shardpack_side(job, threads)


def resident(job, threads):
    return shardpack_side(job, threads, resident=True, prefetch=8)


def host(job, threads):
    return shardpack_side(job, threads, decode="host")


SIDES = {
    "ceiling": Side("forty decoded batches that stay on the device", 0, ceiling),
    "device-all": Side("shardpack, decoded on the device", 0, device),
    "device-4": Side("shardpack, decoded on the device", 4, device),
    "device-1": Side("shardpack, decoded on the device", 1, device),
    "resident-1": Side("shardpack, encoded on the device, decoded there", 1, resident),
    "host": Side("shardpack, decoded on the host", 0, host),
    "workers": Side("DataLoader with worker processes, normalised on the device", 0, workers),
}


def side_of(text):
    """Returns the side with this name: a key of SIDES, optionally followed by `+urgent` for a model that trains in a
    stream of higher priority.
    """
    name = text.removesuffix("+urgent")
    if name not in SIDES:
        raise ValueError(f"unknown side: {text}")
    side = SIDES[name]
    return side if name == text else side._replace(name=f"{side.name}, training goes first", urgent=True)


def kernel_seconds(torch, step, batches, steps):
    """Returns the seconds that the device spends in each kernel and each copy during `steps` steps, by name."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for _, (images, labels) in zip(range(steps), batches, strict=False):
            step(images, labels)
        torch.cuda.synchronize()
    spent = {}
    for event in profiled.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            spent[event.name] = spent.get(event.name, 0) + event.device_time * 1e-6
    return spent


def trace(job, step, threads, epochs=2, validation=8):
    """Returns the start and end times of the steps of some epochs. A validation pass and a checkpoint follow each
    epoch.
    """
    torch = job.torch
    marks, writers = [], []
    origin = torch.cuda.Event(enable_timing=True)
    with (
        shardpack_loader(job, threads) as train,
        shardpack_loader(job, threads, image="center224", shuffle=False) as check,
    ):

        def timed(what, action, images):
            images = images.permute(0, 3, 1, 2) if job.channels_last else images
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            action(images)
            end.record()
            marks.append((what, begin, end))

        for images, labels in train:
            timed("warm-up", lambda images, labels=labels: step(images, labels), images)
        for images, _ in check:
            timed("warm-up", step.evaluate, images)
            break
        torch.cuda.synchronize()
        marks.clear()
        origin.record()
        wall = time.monotonic()
        for _ in range(epochs):
            for images, labels in train:
                timed("train", lambda images, labels=labels: step(images, labels), images)
            for number, (images, _) in enumerate(check):
                timed("validate", step.evaluate, images)
                if number + 1 == validation:
                    break
            # The device makes this copy between two steps. A thread waits for it, then writes the checkpoint to disk.
            copy = {name: value.detach().clone() for name, value in step.network.state_dict().items()}
            ready = torch.cuda.Event()
            ready.record()
            state = train.state_dict()

            def write(copy=copy, ready=ready, state=state):
                ready.synchronize()
                torch.save({"model": copy, "loader": state}, job.data / f"checkpoint-{job.rank}.pt")

            writers.append(threading.Thread(target=write))
            writers[-1].start()
        torch.cuda.synchronize()
    for writer in writers:
        writer.join()
    return {
        "started": wall,
        "steps": [
            (what, origin.elapsed_time(begin) / 1e3, origin.elapsed_time(end) / 1e3) for what, begin, end in marks
        ],
    }
