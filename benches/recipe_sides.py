"""The recipes of `recipes.py`. A recipe has a dataset, the options of our loader, the same recipe for a DataLoader, and
the loss of its model. Recipes of the package's examples are imported from there.
"""

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import clips
import cubes
import numpy as np
import shardpack as sp
import torch
import volumes
from bench import ROOT
from device_others import MEAN, STD
from PIL import Image, ImageOps

# After the benches, because both folders have a module `clips`.
sys.path.append(str(ROOT / "python" / "examples"))
import detection
import imagenet_recipe
import masked_autoencoder
import recipe_models
import recipe_workers
import segmentation
import simclr_dino
import unet
import volumes_3d
from torch.nn import functional
from train_sides import CLASSES, model_of

LEVELS = {"dtype": "bfloat16", "mean": MEAN, "std": STD}
# Classes of the masks and boxes that are drawn on photos. Class 0 of a mask is the background.
KINDS = 20


class Recipe:
    """A training recipe. `unit` names the things that its rates count. `batches` has the rows of a batch of our loader,
    and of a batch of the DataLoader. The latter are small, so that a turn measures many of them.
    """

    memory_format = None

    def __init__(self, job):
        self.job = job
        self.batch, self.piece = (4, 2) if job.trial else self.batches

    def network(self):
        raise NotImplementedError

    def uploaded(self, batch):
        """Return a batch of the DataLoader as our loader gives it: on the device, and normalised there."""
        images, *others = batch
        images = recipe_workers.normalised(self.moved(images), MEAN, STD)
        is_last = self.memory_format == torch.channels_last
        return images.permute(0, 2, 3, 1) if is_last else images, *map(self.moved, others)

    def moved(self, values):
        return values.to(self.job.device, non_blocking=True)


class Classification(Recipe):
    name, model, unit, batches = "classification", "ResNet-50", "pictures", (256, 32)
    memory_format = torch.channels_last

    def pack(self):
        return pictures(self.job)

    def options(self):
        recipe = imagenet_recipe.recipe(self.job.size(224, 64))
        return recipe | LEVELS | {"layout": "hwc", "num_classes": CLASSES}

    def files(self):
        return recipe_workers.Files(self.job.photos, recipe_workers.Classified(self.job.size(224, 64)))

    def uploaded(self, batch):
        return recipe_workers.mixed(*super().uploaded(batch), CLASSES)

    def network(self):
        return model_of("resnet50")[0]

    def loss(self, network, images, labels):
        return functional.cross_entropy(network(images.permute(0, 3, 1, 2)), labels)


class SelfSupervised(Recipe):
    name, model, unit, batches = "self-supervised, ten crops", "ViT-S/16, DINO", "pictures", (64, 8)

    def pack(self):
        return pictures(self.job)

    def options(self):
        large, small = self.job.size((224, 96), (64, 32))
        recipe = simclr_dino.recipe(large)
        view = sp.view.random_resized_crop(small, scale=(0.05, 0.25), interpolation="bicubic")
        eight = sp.view.crop(view, sp.augment.gaussian_blur(5, p=0.5), times=8, name="small")
        return recipe | LEVELS | {"crops": [*recipe["crops"][:2], eight]}

    def files(self):
        return recipe_workers.Files(self.job.photos, recipe_workers.TenCrops(*self.job.size((224, 96), (64, 32))))

    def uploaded(self, batch):
        return tuple(recipe_workers.normalised(self.moved(crop), MEAN, STD) for crop in batch)

    def network(self):
        return recipe_models.Dino(self.job.size(recipe_models.PROTOTYPES, 256))

    def loss(self, network, *crops):
        return network(*crops)


class Autoencoder(Recipe):
    name, model, unit, batches = "masked autoencoder", "ViT-S/16, a quarter of the tiles", "pictures", (256, 32)

    def pack(self):
        return pictures(self.job)

    def options(self):
        view = sp.view.random_resized_crop(self.job.size(224, 64), scale=(0.2, 1), interpolation="bicubic")
        return masked_autoencoder.FLOATS | LEVELS | {"image": view, "fields": ["image"]}

    def files(self):
        return recipe_workers.Files(self.job.photos, recipe_workers.Cropped(self.job.size(224, 64)))

    def uploaded(self, batch):
        return (recipe_workers.normalised(self.moved(batch), MEAN, STD),)

    def network(self):
        return recipe_models.Masked(self.job.size(224, 64))

    def loss(self, network, images):
        return network(images.float())


class Segmentation(Recipe):
    name, model, unit, batches = "segmentation with masks", "FCN, ResNet-50", "pictures", (32, 4)
    memory_format = torch.channels_last

    def pack(self):
        return objects(self.job)

    def options(self):
        types = {"image": "bfloat16", "mask": "int64"}
        more = LEVELS | {"dtype": types, "layout": "hwc"}
        return sp.presets.segmentation(*self.job.size((480, 520), (64, 72))) | segmentation.FIELDS | more

    def files(self):
        masks = [mask_file(self.job, number) for number in range(len(self.job.photos))]
        return recipe_workers.Masks(self.job.photos, masks, *self.job.size((480, 520), (64, 72)))

    def uploaded(self, batch):
        images, masks = super().uploaded(batch)
        return images, masks.long()

    def network(self):
        return recipe_models.fcn()

    def loss(self, network, images, masks):
        return functional.cross_entropy(network(images.permute(0, 3, 1, 2))["out"], masks, ignore_index=255)


class Detection(Recipe):
    name, model, unit, batches = "detection with mosaics", "FCOS, ResNet-50 FPN", "pictures", (32, 4)

    def pack(self):
        return objects(self.job)

    def options(self):
        recipe = sp.presets.yolo(self.job.size(640, 96))
        return recipe | detection.FIELDS | {"dtype": {"image": "bfloat16"}}

    def files(self):
        found = [boxes_of(path, number) for number, path in enumerate(self.job.photos)]
        return recipe_workers.Mosaics(self.job.photos, found, self.job.size(640, 96))

    def uploaded(self, batch):
        images, boxes, classes, counts = batch
        images = self.moved(images).float().div_(255).bfloat16()
        return images, self.moved(boxes).split(counts), self.moved(classes).split(counts)

    def network(self):
        return recipe_models.fcos(self.job.size(640, 96))

    def loss(self, network, images, boxes, classes):
        goals = recipe_models.targets(images.device, boxes, classes)
        return sum(network(list(images), goals).values())


class Clips(Recipe):
    name, model, unit, batches = "clips of 16 frames", "R3D-18", "clips", (32, 4)
    memory_format = torch.channels_last_3d

    def pack(self):
        return moving(self.job)

    def options(self):
        return clips.VIEW | LEVELS | {"image": f"rrc{self.job.size(112, 48)}", "fields": ["clip", "label"]}

    def files(self):
        count = self.job.size(64, 4)
        folders = [self.job.folder / "frames" / f"{number}" for number in range(count)]
        return recipe_workers.Windows(folders, clips.FRAMES, clips.TAKEN, self.job.size(112, 48))

    def uploaded(self, batch):
        frames, labels = batch
        frames = recipe_workers.normalised(self.moved(frames).transpose(1, 2), MEAN, STD, axes=3)
        return frames, self.moved(labels)

    def network(self):
        return recipe_models.r3d()

    def loss(self, network, frames, labels):
        return functional.cross_entropy(network(frames), labels)


class Volumes(Recipe):
    name, model, unit, batches = "boxes of volumes", "U-Net of three levels", "boxes", (16, 2)

    def pack(self):
        folder, side, count = self.job.folder / "volumes", self.job.size(128, 40), self.job.size(8, 2)
        raw = folder / "raw"
        raw.mkdir(parents=True)

        def make(number):
            for values, end in zip(volumes.volume(number, side), ("", "-mask"), strict=True):
                np.save(raw / f"{number}{end}.npy", values)
                for copy in range(1, self.job.size(8, 2)):
                    os.link(raw / f"{number}{end}.npy", raw / f"{number + copy * count}{end}.npy")

        threads(self.job, make, range(count))
        volumes.make(
            folder, SimpleNamespace(volumes=count * self.job.size(8, 2), side=side, codec="blosc2-lz4", folder=folder)
        )
        return folder / "packed-blosc2-lz4"

    def options(self):
        side = self.job.size(64, 16)
        return {
            "cube": f"patch{side}x{side}x{side}",
            "patches_per_sample": 4,
            "fields": ["volume", "mask"],
            "dtype": {"volume": "bfloat16"},
            "mean": {"volume": 0.0},
            "std": {"volume": 500.0},
            "augment": sp.augment.nnunet(),
        }

    def files(self):
        raw, count = self.job.folder / "volumes" / "raw", self.job.size(8, 2)
        return recipe_workers.Boxes([raw / f"{number}.npy" for number in range(count)], self.job.size(64, 16), 500.0)

    def uploaded(self, batch):
        values, masks = map(self.moved, batch)
        return values.bfloat16(), masks

    def network(self):
        return volumes_3d.UNet(volumes_3d.CLASSES, self.job.size(32, 4))

    def loss(self, network, values, masks):
        return functional.cross_entropy(network(values), masks.long())


class Cubes(Recipe):
    name, model, unit, batches = "hyperspectral cubes", "U-Net, EfficientNet-b5", "cubes", (8, 1)
    memory_format = torch.channels_last

    def pack(self):
        folder, shape = self.job.folder / "cubes", self.job.size((240, 320, 100), (64, 64, 8))
        folder.mkdir()

        def make(number):
            cube = cubes.cube(number, shape).astype(np.float16)
            mask = (cube[..., 2] > np.median(cube[..., 2])) + 2 * (cube[..., 5] > np.median(cube[..., 5]))
            np.save(folder / f"{number}.npy", cube)
            np.save(folder / f"{number}-mask.npy", mask.astype(np.uint8))
            return {"cube": cube, "mask": mask.astype(np.uint8)}

        made = threads(self.job, make, range(self.job.size(12, 3)))
        copies = self.job.size(6, 3)
        samples = [(f"{number}-{copy}", sample) for number, sample in enumerate(made) for copy in range(copies)]
        return written(self.job, "cubes-packed", samples, values="keep", codec="blosc2-lz4", prefer="device")

    def options(self):
        move = sp.augment.random_affine(45, translate=(1 / 16, 1 / 16), scale=(0.9, 1.1), mask_fill=255)
        return {
            "fields": ["cube", "mask"],
            "dtype": {"cube": "bfloat16"},
            "mean": {"cube": 0.5},
            "std": {"cube": 0.25},
            "augment": ["hflip", "vflip", move],
        }

    def files(self):
        folder = self.job.folder / "cubes"
        return recipe_workers.Moved([folder / f"{number}.npy" for number in range(self.job.size(12, 3))])

    def uploaded(self, batch):
        values, masks = map(self.moved, batch)
        return values.float().sub_(0.5).div_(0.25).bfloat16().permute(0, 2, 3, 1), masks

    def network(self):
        return unet.UNet(self.job.size(100, 8))

    def loss(self, network, values, masks):
        return functional.cross_entropy(network(values.permute(0, 3, 1, 2)), masks.long(), ignore_index=255)


RECIPES = {
    "classification": Classification,
    "self-supervised": SelfSupervised,
    "autoencoder": Autoencoder,
    "segmentation": Segmentation,
    "detection": Detection,
    "clips": Clips,
    "volumes": Volumes,
    "cubes": Cubes,
}


def threads(job, work, items):
    """Return the results of `work`, computed by a thread for each core."""
    with ThreadPoolExecutor(job.cores) as pool:
        return list(pool.map(work, items))


def written(job, name, samples, schema=None, **options):
    """Write samples with their keys as a dataset. Threads encode them, but not the first, which decides the coding."""
    with sp.Writer(job.folder / name, schema, **options) as writer:
        for key, sample in samples[:1]:
            writer.write(sample, key=key)
        threads(job, lambda one: writer.write(one[1], key=one[0]), samples[1:])
    return job.folder / name


def pictures(job):
    """Pack copies of the photos in class folders. Return the dataset, which several recipes share."""
    photos, out = job.folder / "photos", job.folder / "pictures"
    if not photos.exists():
        for path in job.photos:
            to = photos / path.parent.name / path.name
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)
            for copy in range(1, job.copies):
                os.link(to, to.with_stem(f"{to.stem}-{copy:02}"))
        sp.pack(photos, out)
    return out


def objects(job):
    """Write photos with a mask and boxes of made-up objects. Return the dataset, which several recipes share."""
    out = job.folder / "objects"
    if out.exists():
        return out
    (job.folder / "masks").mkdir()

    def sample(number):
        path = job.photos[number]
        boxes, classes, size = boxes_of(path, number)
        mask = mask_of(boxes, classes, size)
        Image.fromarray(mask).save(mask_file(job, number))
        return {"image": path.read_bytes(), "mask": mask, "boxes": boxes, "classes": classes}

    made = threads(job, sample, range(len(job.photos)))
    copies = max(1, job.copies // 4)
    keyed = [(f"{number}-{copy}", one) for number, one in enumerate(made) for copy in range(copies)]
    return written(job, "objects", keyed)


def mask_file(job, number):
    return job.folder / "masks" / f"{number}.png"


def boxes_of(path, number):
    """Return the boxes, classes and size (height, width) of made-up objects on a photo. They are always the same."""
    rng = np.random.default_rng(number)
    with Image.open(path) as file:
        width, height = ImageOps.exif_transpose(file).size
    sides = rng.uniform(0.1, 0.6, (rng.integers(2, 8), 2))
    corners = rng.uniform(0, 1, sides.shape) * (1 - sides)
    boxes = np.concatenate([corners, corners + sides], 1) * [width, height, width, height]
    return boxes.astype(np.float32), rng.integers(1, KINDS + 1, len(boxes)), (height, width)


def mask_of(boxes, classes, size):
    """Return a mask with an ellipse in each box."""
    rows, columns = np.ogrid[: size[0], : size[1]]
    mask = np.zeros(size, np.uint8)
    for (left, top, right, bottom), kind in zip(boxes, classes, strict=True):
        across, down = (columns - (left + right) / 2) / (right - left), (rows - (top + bottom) / 2) / (bottom - top)
        mask[across**2 + down**2 <= 0.25] = kind
    return mask


def moving(job):
    """Write clips of windows that move over the photos, packed, and as files for the DataLoader."""
    frames = job.folder / "frames"

    def make(number):
        jpegs = clips.encoded(clips.frames_of(job.photos, number))
        (frames / f"{number}").mkdir(parents=True)
        for time, jpeg in enumerate(jpegs):
            (frames / f"{number}" / f"{time}.jpg").write_bytes(jpeg)
        return jpegs

    made = threads(job, make, range(job.size(64, 4)))
    copies = job.size(8, 2)
    samples = [{"clip": jpegs, "label": number} for number, jpegs in enumerate(made)]
    keyed = [(f"{one['label']}-{copy}", one) for one in samples for copy in range(copies)]
    return written(job, "clips", keyed)
