#!/usr/bin/env python3
"""Writes the results of torchvision v2's operations to crates/augment/tests: torchvision.txt for a small picture, and
torchvision_boxes.txt for boxes.

Needs torch and torchvision, whose versions the files record. The tests of the crate read the files and need neither.
Each line has an operation, its parameters and, after a tab, the pixels [height, width, 3] as hexadecimal digits, or a
box before and after the operation.
"""

import math
from pathlib import Path

import numpy as np
import torch
import torchvision
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F

HEIGHT, WIDTH = 18, 25
TARGET = Path(__file__).resolve().parents[1] / "crates/augment/tests/torchvision.txt"
BOXES = TARGET.with_name("torchvision_boxes.txt")


def picture() -> torch.Tensor:
    """Return a picture with gradients, an edge and noise. The channels differ, and none uses all levels."""
    random = np.random.default_rng(5)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    red = 20 + 7 * x + 2 * y
    green = 230 - 9 * y - 2 * x
    blue = np.where(x + 2 * y < 30, 60, 170)
    noise = random.integers(-14, 15, (HEIGHT, WIDTH, 3))
    levels = np.clip(np.stack([red, green, blue], -1) + noise, 3, 247).astype(np.uint8)
    return torch.from_numpy(levels).permute(2, 0, 1).contiguous()


def boxes() -> list[str]:
    """Return the lines for boxes, each before and after an operation. A box that has left the picture has no area."""
    random, lines = np.random.default_rng(6), []
    low = random.uniform(0, [WIDTH - 2, HEIGHT - 2], (8, 2))
    high = np.minimum(low + random.uniform(1, 12, (8, 2)), [WIDTH, HEIGHT])
    corners = np.concatenate([low, high], 1).round(3)
    made = lambda: tv_tensors.BoundingBoxes(torch.from_numpy(corners), format="XYXY", canvas_size=(HEIGHT, WIDTH))
    affine = lambda angle, x, y, scale, shear_x, shear_y: F.affine(made(), angle=angle, translate=[x, y], scale=scale, shear=[shear_x, shear_y])
    all_of = [(30.0, 0, 0, 1.0, 0.0, 0.0), (-12.5, 3, -2, 0.8, 0.0, 0.0), (7.25, -1, 4, 1.3, 10.0, 0.0), (101.0, 2, 1, 0.55, -8.0, 21.5), (180.0, 20, 0, 1.0, 0.0, 0.0)]
    results = [(f"affine {' '.join(map(str, given))}", affine(*given)) for given in all_of]
    results += [(f"rotate {angle}", F.rotate(made(), angle)) for angle in (-135.0, 4.5, 90.0)]
    results += [(f"shear_x {shear}", F.affine(made(), angle=0.0, translate=[0, 0], scale=1.0, shear=[math.degrees(math.atan(shear)), 0.0], center=[0, 0])) for shear in (-0.99, 0.231)]
    for name, result in results:
        for before, after in zip(corners.tolist(), result.tolist(), strict=True):
            lines.append(f"{name}\t{' '.join(map(str, before))}\t{' '.join(f'{x:.4f}' for x in after)}")
    return lines


def main() -> None:
    image = picture()
    degrees = lambda shear: math.degrees(math.atan(shear))
    affine = lambda translate=(0, 0), shear=(0.0, 0.0), center=None: F.affine(
        image, angle=0.0, translate=list(translate), scale=1.0, shear=list(shear), center=center
    )
    lines = [("picture", image)]
    for factor in (0.01, 0.5, 0.9, 1.0, 1.4, 1.99):
        lines += [
            (f"brightness {factor}", F.adjust_brightness(image, factor)),
            (f"contrast {factor}", F.adjust_contrast(image, factor)),
            (f"saturation {factor}", F.adjust_saturation(image, factor)),
            (f"sharpness {factor}", F.adjust_sharpness(image, factor)),
        ]
    lines += [(f"hue {by}", F.adjust_hue(image, by)) for by in (-0.5, -0.17, 0.0, 0.05, 0.33, 0.5)]
    lines += [(f"posterize {bits}", F.posterize(image, bits)) for bits in (0, 1, 3, 7, 8)]
    lines += [(f"solarize {level}", F.solarize(image, level)) for level in (0.0, 99.5, 128.0, 255.0)]
    lines += [("autocontrast", F.autocontrast(image)), ("equalize", F.equalize(image)), ("invert", F.invert(image))]
    lines += [("grayscale", F.rgb_to_grayscale(image, 3))]
    lines += [(f"shear_x {shear}", affine(shear=(degrees(shear), 0.0), center=[0, 0])) for shear in (-0.99, 0.231)]
    lines += [(f"shear_y {shear}", affine(shear=(0.0, degrees(shear)), center=[0, 0])) for shear in (-0.31, 0.99)]
    lines += [(f"translate {x} {y}", affine((x, y))) for x, y in ((3, 0), (-7, 0), (0, 5), (0, -18), (32, 0))]
    lines += [(f"rotate {angle}", F.rotate(image, angle)) for angle in (-135.0, -30.0, 4.5, 17.0, 88.0, 180.0)]
    # Parameters of RandomAffine: angle in degrees, translation in pixels, scale, and shear in degrees.
    for angle, (x, y), scale, shear in (
        (30.0, (0, 0), 1.0, (0.0, 0.0)),
        (-12.5, (3, -2), 0.8, (0.0, 0.0)),
        (7.25, (-1, 4), 1.3, (10.0, 0.0)),
        (101.0, (2, 1), 0.55, (-8.0, 21.5)),
    ):
        result = F.affine(image, angle=angle, translate=[x, y], scale=scale, shear=list(shear))
        lines.append((f"affine {angle} {x} {y} {scale} {shear[0]} {shear[1]}", result))
    lines += [(f"blur {size} {sigma}", F.gaussian_blur(image, size, sigma)) for size, sigma in ((3, 0.1), (5, 1.1), (17, 4.0))]
    lines += [("erase 2 3 9 4 7", F.erase(image, 2, 3, 9, 4, torch.tensor([7])[:, None, None]))]
    head = f"# torchvision {torchvision.__version__.split('+')[0]}: scripts/augment_vectors.py. {HEIGHT} rows, {WIDTH} columns.\n"
    with TARGET.open("w") as file:
        file.write(head)
        for name, result in lines:
            file.write(f"{name}\t{result.permute(1, 2, 0).contiguous().numpy().tobytes().hex()}\n")
    with BOXES.open("w") as file:
        file.write(head)
        file.writelines(f"{line}\n" for line in boxes())


if __name__ == "__main__":
    main()
