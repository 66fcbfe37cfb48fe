"""The recipes of `recipes.py` as datasets for a DataLoader. Its workers decode and augment with torchvision, or with
PyTorch if torchvision lacks the operation. The device normalises and mixes the batches.
"""

import random

import numpy as np
import torch
from PIL import Image, ImageOps
from torch.nn import functional
from torchvision import tv_tensors
from torchvision.io import ImageReadMode, decode_jpeg, read_file
from torchvision.transforms import v2

BICUBIC = v2.InterpolationMode.BICUBIC
# Number of samples of a dataset. It is large, because workers would wait for each other at the end of an epoch.
ENDLESS = 1 << 20


class Samples(torch.utils.data.Dataset):
    """Files, repeated without end. The classes below define how a file becomes a sample."""

    def __init__(self, paths):
        self.paths = [str(path) for path in paths]

    def __len__(self):
        return ENDLESS

    def __getitem__(self, number):
        return self.sample(number % len(self.paths))


def decoded(path):
    return decode_jpeg(read_file(path), mode=ImageReadMode.RGB)


class Files(Samples):
    """Photos, transformed by `change`, which gets a photo and its number."""

    def __init__(self, paths, change):
        super().__init__(paths)
        self.change = change

    def sample(self, number):
        return self.change(decoded(self.paths[number]), number)


class Classified:
    """Crops with TrivialAugmentWide and erasing, and labels."""

    def __init__(self, size):
        steps = [v2.RandomResizedCrop(size, antialias=True), v2.RandomHorizontalFlip(), v2.TrivialAugmentWide()]
        self.steps = v2.Compose([*steps, v2.RandomErasing(p=0.1)])

    def __call__(self, picture, number):
        return self.steps(picture), number


class Cropped:
    """Crops of 20 to 100 % of the area, bicubic."""

    def __init__(self, size):
        crop = v2.RandomResizedCrop(size, (0.2, 1), interpolation=BICUBIC, antialias=True)
        self.steps = v2.Compose([crop, v2.RandomHorizontalFlip()])

    def __call__(self, picture, number):
        return self.steps(picture)


class TenCrops:
    """The crops of DINO: two large ones and eight small ones, each with its own draws."""

    def __init__(self, large, small):
        def crop(size, scale, *last):
            cut = v2.RandomResizedCrop(size, scale, interpolation=BICUBIC, antialias=True)
            colours = [v2.ColorJitter(0.4, 0.4, 0.2, 0.1), v2.RandomGrayscale(0.2)]
            return v2.Compose([cut, v2.RandomHorizontalFlip(), *colours, *last])

        def blur(kernel, p):
            return v2.RandomApply([v2.GaussianBlur(kernel)], p)

        first = crop(large, (0.25, 1), blur(9, 1.0))
        second = crop(large, (0.25, 1), blur(9, 0.1), v2.RandomSolarize(128, 0.2))
        self.crops = [first, second, *[crop(small, (0.05, 0.25), blur(5, 0.5))] * 8]

    def __call__(self, picture, number):
        return tuple(crop(picture) for crop in self.crops)


class Masks(Samples):
    """Photos with masks, by the transforms of `segmentation.py` in the examples."""

    def __init__(self, paths, masks, crop, base):
        super().__init__(paths)
        self.masks, self.crop, self.base = [str(path) for path in masks], crop, base

    def sample(self, number):
        import segmentation

        image = ImageOps.exif_transpose(Image.open(self.paths[number])).convert("RGB")
        mask = torch.from_numpy(np.array(Image.open(self.masks[number])))
        image, mask = segmentation.changed(image, {"mask": mask}, self.crop, self.base)
        return image, mask.as_subclass(torch.Tensor)


class Mosaics(Samples):
    """Mosaics of four photos with boxes, as in trainers of YOLO: a random centre, scale and shift, then colours and
    mirroring of the result.
    """

    def __init__(self, paths, found, size):
        super().__init__(paths)
        self.found, self.size = [(boxes, classes) for boxes, classes, _ in found], size
        self.last = v2.Compose([v2.ColorJitter(0.4, saturation=0.7, hue=0.015), v2.RandomHorizontalFlip()])

    def scaled(self, number):
        """Return a photo that just fits into the size, and its boxes."""
        picture, (boxes, classes) = decoded(self.paths[number]), self.found[number]
        scale = self.size / max(picture.shape[1:])
        sides = [round(side * scale) for side in picture.shape[1:]]
        return v2.functional.resize(picture, sides, antialias=True), torch.from_numpy(boxes * scale), classes

    def sample(self, number):
        size, wide = self.size, 2 * self.size
        canvas = torch.full((3, wide, wide), 114, dtype=torch.uint8)
        x, y = (random.randint(size // 2, 3 * size // 2) for _ in range(2))
        boxes, classes = [], []
        for place, one in enumerate([number, *random.choices(range(len(self.paths)), k=3)]):
            picture, found, kinds = self.scaled(one)
            height, width = picture.shape[1:]
            left, top = x - width * (place % 2 == 0), y - height * (place < 2)
            # The part of the picture that lies on the canvas.
            (x0, y0), (x1, y1) = (max(left, 0), max(top, 0)), (min(left + width, wide), min(top + height, wide))
            canvas[:, y0:y1, x0:x1] = picture[:, y0 - top : y1 - top, x0 - left : x1 - left]
            boxes.append(found + torch.tensor([left, top, left, top]))
            classes.append(torch.as_tensor(kinds))
        return self.shown(canvas, torch.cat(boxes), torch.cat(classes))

    def shown(self, canvas, boxes, classes):
        """Return a part of the canvas in the size of the row, and the boxes that are visible there."""
        scale, wide = random.uniform(0.5, 1.5), 2 * self.size
        side = round(self.size / scale)
        left, top = (round((wide - side) / 2 + random.uniform(-0.1, 0.1) * side) for _ in range(2))
        # Borders of grey, where the part reaches beyond the canvas.
        border = [max(-left, 0), max(-top, 0), max(left + side - wide, 0), max(top + side - wide, 0)]
        canvas = v2.functional.pad(canvas, border, fill=[114.0])
        at = (top + border[1], left + border[0])
        picture = v2.functional.resized_crop(canvas, *at, side, side, [self.size] * 2, antialias=False)
        share = self.size / side
        areas = (boxes[:, 2:] - boxes[:, :2]).prod(1) * share**2
        boxes = ((boxes - torch.tensor([left, top, left, top])) * share).clamp(0, self.size)
        sides = boxes[:, 2:] - boxes[:, :2]
        kept = (sides.prod(1) >= 0.3 * areas) & (sides > 1).all(1)
        boxes = tv_tensors.BoundingBoxes(boxes[kept], format="XYXY", canvas_size=(self.size, self.size))
        picture, boxes = self.last(tv_tensors.Image(picture), boxes)
        return picture.as_subclass(torch.Tensor), boxes.as_subclass(torch.Tensor).float(), classes[kept]

    @staticmethod
    def collate(rows):
        """Return pictures, the boxes and classes of all of them, and the number of boxes of each."""
        pictures, boxes, classes = zip(*rows, strict=True)
        return torch.stack(pictures), torch.cat(boxes), torch.cat(classes), [len(one) for one in boxes]


class Windows(Samples):
    """Frames in a row of clips that are folders of JPEGs, all with the same crop."""

    def __init__(self, folders, frames, taken, size):
        super().__init__(folders)
        self.frames, self.taken = frames, taken
        self.steps = v2.Compose([v2.RandomResizedCrop(size, antialias=True), v2.RandomHorizontalFlip()])

    def sample(self, number):
        first = random.randint(0, self.frames - self.taken)
        frames = [decoded(f"{self.paths[number]}/{time}.jpg") for time in range(first, first + self.taken)]
        return self.steps(torch.stack(frames)), number


class Boxes(Samples):
    """Boxes of volumes in `.npy` files, with the probabilities and ranges of `sp.augment.nnunet()`."""

    def __init__(self, paths, side, std):
        super().__init__(paths)
        self.side, self.std = side, std

    def sample(self, number):
        values, mask = (
            np.load(self.paths[number].replace(".npy", end), mmap_mode="r") for end in (".npy", "-mask.npy")
        )
        rotates, scales = random.random() < 0.2, random.random() < 0.2
        origin = [random.randint(0, length - self.side) for length in values.shape]
        if rotates or scales:
            box, mask = self.moved(values, mask, origin, rotates, scales)
        else:
            part = tuple(slice(at, at + self.side) for at in origin)
            box, mask = torch.from_numpy(values[part].astype(np.float32)), torch.from_numpy(mask[part].copy())
        axes = [axis for axis in range(3) if random.random() < 0.5]
        return self.changed(box / self.std).flip(axes), mask.flip(axes)

    def moved(self, values, mask, origin, rotates, scales):
        """Return a box that is rotated about all axes and scaled, trilinear, and its mask by the nearest voxel."""
        turn = torch.eye(3) * (random.uniform(0.7, 1.4) if scales else 1)
        for one, other in [(1, 2), (0, 2), (0, 1)] if rotates else []:
            angle, axis = torch.tensor(random.uniform(-30, 30)).deg2rad(), torch.eye(3)
            axis[one, one] = axis[other, other] = angle.cos()
            axis[one, other], axis[other, one] = angle.sin(), -angle.sin()
            turn = turn @ axis
        # Sides of volumes are equal, so one factor converts from the box to the volume.
        share = self.side / values.shape[0]
        middle = torch.tensor([2 * (at + self.side / 2) / values.shape[0] - 1 for at in reversed(origin)])
        grid = functional.affine_grid(
            torch.cat([turn * share, middle[:, None]], 1)[None], [1, 1, *[self.side] * 3], align_corners=False
        )
        both = [(values, "bilinear"), (mask, "nearest")]
        values, mask = (
            functional.grid_sample(torch.from_numpy(one.astype(np.float32))[None, None], grid, how, align_corners=False)
            for one, how in both
        )
        return values[0, 0], mask[0, 0].to(torch.uint8)

    def changed(self, box):
        """Return a box after brightness, low resolution, gamma and noise."""
        if random.random() < 0.15:
            box = box * random.uniform(0.75, 1.25)
        if random.random() < 0.25 * 0.5:
            small = [round(self.side * random.uniform(0.5, 1))] * 3
            low = functional.interpolate(box[None, None], small, mode="nearest-exact")
            box = functional.interpolate(low, box.shape, mode="trilinear")[0, 0]
        if random.random() < 0.3:
            least, most = box.aminmax()
            box = least + (most - least) * ((box - least) / (most - least)) ** random.uniform(0.7, 1.5)
        if random.random() < 0.1:
            box = box + random.uniform(0, 0.1) * torch.randn_like(box)
        return box


class Moved(Samples):
    """Cubes in `.npy` files, rotated, scaled, shifted and flipped with their masks, channels first as float16."""

    def sample(self, number):
        files = [self.paths[number].replace(".npy", end) for end in (".npy", "-mask.npy")]
        values, mask = (torch.from_numpy(np.load(file)) for file in files)
        height, width, channels = values.shape
        angle, size = torch.tensor(random.uniform(-45, 45)).deg2rad(), random.uniform(0.9, 1.1)
        along, aside = angle.cos() / size, angle.sin() / size
        row = torch.zeros(1, 2, 3)
        row[0, 0, 0], row[0, 0, 1] = along, -aside * height / width
        row[0, 1, 0], row[0, 1, 1] = aside * width / height, along
        row[0, :, 2] = (torch.rand(2) * 2 - 1) / 8
        row *= torch.tensor([random.choice([-1, 1]), random.choice([-1, 1])])[:, None]
        grid = functional.affine_grid(row, [1, channels, height, width], align_corners=False)
        moved = functional.grid_sample(values.permute(2, 0, 1)[None].float(), grid, align_corners=False)
        # 255 outside: the nearest pixel of the mask minus 255, where outside is 0.
        shown = functional.grid_sample(mask[None, None].float() - 255, grid, "nearest", align_corners=False)
        return moved[0].half(), (shown[0, 0] + 255).to(torch.uint8)


def normalised(images, mean, std, axes=2):
    """Return uint8 pictures as bfloat16. `axes` axes follow the channels."""
    mean, std = (torch.tensor(values, device=images.device).view(3, *[1] * axes) * 255 for values in (mean, std))
    return images.float().sub_(mean).div_(std).bfloat16()


def mixed(images, labels, classes):
    """Return a batch of pictures, channels last, after Mixup or CutMix."""
    kinds = [v2.MixUp(alpha=0.2, num_classes=classes), v2.CutMix(alpha=1.0, num_classes=classes)]
    images, labels = v2.RandomChoice(kinds)(images.permute(0, 3, 1, 2), labels)
    return images.permute(0, 2, 3, 1), labels
