"""The sides of `device.py`. Each side is one way to get batches onto a GPU, and runs in its own process."""

from device_others import (
    BATCH,
    CUBES,
    MEAN,
    STD,
    blosc2,
    bus,
    engines_whole,
    npy,
    nvcomp,
    recipe_workers,
    timed,
    torchvision_crops,
    torchvision_whole,
    workers,
)

CROPS, WHOLE, ARRAYS, BUS = (
    "crops 224, float16, normalised",
    "whole pictures, uint8",
    "cubes, float32",
    "bus, host to device",
)
RECIPE = "crops 224, TrivialAugmentWide, float16, normalised, erasing, Mixup or CutMix"


def loader(options, data, rows, **more):
    """`shardpack.Loader`, with every field of a batch as a tensor on the device."""
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
        return result | {
            "refused": stats["refused"],
            "device_bytes": stats["predicted_device_bytes"],
            "consumer_wait_s": stats["consumer_wait_s"],
        }


def crops(options):
    return loader(options, "pictures", BATCH, image="rrc224", layout="chw", dtype="float16", mean=MEAN, std=STD)


def crops_host(options):
    """The loader decodes and converts to floats on the host, and PyTorch copies the batch to the device."""
    return loader(
        options, "pictures", BATCH, image="rrc224", layout="chw", dtype="float16", mean=MEAN, std=STD, decode="host"
    )


def crops_resident(options):
    """The loader keeps the encoded pictures in device memory and decodes them from there in every epoch."""
    return loader(
        options,
        "pictures",
        BATCH,
        image="rrc224",
        layout="chw",
        dtype="float16",
        mean=MEAN,
        std=STD,
        resident=True,
        prefetch=24,
        fields=["image", "label"],
    )


def recipe(options, **more):
    """The loader applies the whole training recipe."""
    import shardpack.augment as augment

    erase = augment.random_erasing(p=0.1, value=tuple(round(255 * mean) for mean in MEAN))
    mixes = [augment.mixup(alpha=0.2), augment.cutmix()]
    return loader(
        options,
        "pictures",
        BATCH,
        image="rrc224",
        layout="chw",
        dtype="float16",
        mean=MEAN,
        std=STD,
        fields=["image", "label"],
        augment=[augment.trivial_augment_wide(), erase],
        augment_batch=mixes,
        **more,
    )


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


# For each side: its output, the kind of its samples, and its function.
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
