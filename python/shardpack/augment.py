"""Augmentations of pictures, and of the bands of cubes, for ``Loader(augment=…)``.

Each function gives the text that names its augmentation, such as ``"rand_augment(magnitude=7)"``: the loader and a file
of settings take the same text. The definitions are those of torchvision's transforms of the same names for uint8
tensors, and the results are theirs within one level. Those of bands, :func:`random_gain`, :func:`band_jitter`,
:func:`band_dropout` and :func:`gaussian_noise`, change arrays of three axes that come as float16, bfloat16 or float32, after ``mean`` and ``std``,
and leave masks alone. All are drawn from seed, epoch and sample, so they do not depend on
threads, and a resumed loader goes on with the same draws.

>>> import shardpack as sp
>>> sp.augment.random_erasing(p=0.1)
'random_erasing(p=0.1)'
>>> train = [sp.augment.trivial_augment_wide(), sp.augment.random_erasing(p=0.1, value=(124, 116, 104))]
>>> sp.Loader(sp.Dataset("train"), image="rrc224", fields=["image", "label"], augment=train)      # doctest: +SKIP
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import SupportsFloat, SupportsIndex

from shardpack import _shardpack

__all__ = [
    "band_dropout",
    "band_jitter",
    "color_jitter",
    "cutmix",
    "gaussian_blur",
    "gaussian_noise",
    "mixup",
    "rand_augment",
    "random_adjust_sharpness",
    "random_affine",
    "random_autocontrast",
    "random_equalize",
    "random_erasing",
    "random_gain",
    "random_grayscale",
    "random_invert",
    "random_posterize",
    "random_rotation",
    "random_solarize",
    "trivial_augment_wide",
]

Range = SupportsFloat | Sequence[SupportsFloat]
"""A number, or the lower and the upper end."""


def trivial_augment_wide(num_magnitude_bins: SupportsIndex = 31) -> str:
    """One of 14 operations, of a random magnitude: shear and translation along x and y, rotation, brightness, colour,
    contrast, sharpness, posterize, solarize, autocontrast, equalize, or none. What comes from outside is black.

    Parameters
    ----------
    num_magnitude_bins : int, default 31
        How many magnitudes there are.
    """
    return _text("trivial_augment_wide", num_magnitude_bins=_integer("num_magnitude_bins", num_magnitude_bins, 31))


def rand_augment(num_ops: SupportsIndex = 2, magnitude: SupportsIndex = 9, num_magnitude_bins: SupportsIndex = 31) -> str:
    """Some of the 14 operations, one after the other, all of one magnitude.

    Parameters
    ----------
    num_ops : int, default 2
        How many, at most 64.
    magnitude : int, default 9
        Which of the magnitudes, from 0 on.
    num_magnitude_bins : int, default 31
        How many magnitudes there are.
    """
    return _text(
        "rand_augment",
        num_ops=_integer("num_ops", num_ops, 2),
        magnitude=_integer("magnitude", magnitude, 9),
        num_magnitude_bins=_integer("num_magnitude_bins", num_magnitude_bins, 31),
    )


def color_jitter(brightness: Range = 0, contrast: Range = 0, saturation: Range = 0, hue: Range = 0) -> str:
    """Brightness, contrast, saturation and hue by random factors, in random order.

    Parameters
    ----------
    brightness, contrast, saturation : float or pair of float, default 0
        How far the factor may be from 1, or its range.
    hue : float or pair of float, default 0
        How far the hue may be turned either way, at most 0.5, half the circle; or its range.
    """
    given = {"brightness": brightness, "contrast": contrast, "saturation": saturation, "hue": hue}
    # Nothing around the centre is the default.
    return _text("color_jitter", **{name: _range(name, value) for name, value in given.items() if value != 0})


def random_erasing(
    p: SupportsFloat = 0.5,
    scale: Sequence[SupportsFloat] = (0.02, 0.33),
    ratio: Sequence[SupportsFloat] = (0.3, 3.3),
    value: SupportsIndex | Sequence[SupportsIndex] = 0,
) -> str:
    """A random rectangle of one colour. It is erased before floats are made: to erase by 0 after a normalisation, as
    recipes for torchvision do, give the mean as levels, ``value=(124, 116, 104)`` for ImageNet.

    Parameters
    ----------
    p : float, default 0.5
        Probability.
    scale : pair of float, default (0.02, 0.33)
        Range of its share of the area.
    ratio : pair of float, default (0.3, 3.3)
        Range of its height over its width.
    value : int or three, default 0
        Level, or red, green and blue.
    """
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        levels = [operator.index(level) for level in value]
    else:
        levels = [operator.index(value)]  # type: ignore[arg-type]
    return _text(
        "random_erasing",
        p=_number("p", p, 0.5),
        scale=_range("scale", scale, (0.02, 0.33)),
        ratio=_range("ratio", ratio, (0.3, 3.3)),
        value=":".join(map(str, levels)) if levels != [0] else None,
    )


def gaussian_blur(kernel_size: SupportsIndex, sigma: Range = (0.1, 2.0), p: SupportsFloat = 1.0) -> str:
    """Gaussian blur by a kernel of ``kernel_size`` × ``kernel_size`` pixels, an odd number.

    Parameters
    ----------
    kernel_size : int
        Pixels of a side of the kernel.
    sigma : float or pair of float, default (0.1, 2)
        Standard deviation in pixels, or its range.
    p : float, default 1
        Probability.
    """
    ends = sigma if isinstance(sigma, Sequence) else (sigma, sigma)
    return _text(
        "gaussian_blur",
        kernel_size=_integer("kernel_size", kernel_size),
        sigma=_range("sigma", ends, (0.1, 2.0)),
        p=_number("p", p, 1.0),
    )


def random_affine(
    degrees: Range,
    translate: Sequence[SupportsFloat] | None = None,
    scale: Sequence[SupportsFloat] | None = None,
    shear: Range | None = None,
    p: SupportsFloat = 1.0,
) -> str:
    """Turned, moved, enlarged and sheared about the centre, in one step that takes the nearest pixel: torchvision's
    ``RandomAffine``, which has no ``p``. What comes from outside is black.

    Masks, boxes and keypoints would not fit any more: beside them it is refused.

    Parameters
    ----------
    degrees : float or pair of float
        How far it is turned at most, either way; or the range, clockwise. 0 leaves it upright.
    translate : pair of float, optional
        Share of the width, and of the height, by which it is moved at most, either way, from 0 to 1; by whole pixels.
        Default: not at all.
    scale : pair of float, optional
        Range of the enlargement, above 0. Default: none.
    shear : float, pair or four of float, optional
        Degrees of shear along x at most, either way; or their range; or that, and the range along y. At most 89.
    p : float, default 1
        Probability.
    """
    if translate is not None and (isinstance(translate, (str, bytes)) or len(translate) != 2):
        raise ValueError(f"translate: expected two shares, of the width and of the height, found {translate!r}")
    both = [] if translate is None else [str(_number("translate", share)) for share in translate]
    four = isinstance(shear, Sequence) and not isinstance(shear, (str, bytes)) and len(shear) == 4
    along_x, along_y = (shear[:2], shear[2:]) if four else (shear, None)  # type: ignore[index]
    return _text(
        "random_affine",
        degrees=_range("degrees", degrees),
        translate=":".join(both) or None,
        scale=None if scale is None else _range("scale", scale, (1.0, 1.0)),
        shear=None if along_x is None else _range("shear", along_x),
        shear_y=None if along_y is None else _range("shear", along_y),
        p=_number("p", p, 1.0),
    )


def random_rotation(degrees: Range, p: SupportsFloat = 1.0) -> str:
    """Turned about the centre, by the nearest pixels: torchvision's ``RandomRotation``, which has no ``p``. What comes
    from outside is black. Refused beside masks, boxes and keypoints, as :func:`random_affine` is.

    Parameters
    ----------
    degrees : float or pair of float
        How far it is turned at most, either way; or the range, counterclockwise.
    p : float, default 1
        Probability.
    """
    return _text("random_rotation", degrees=_range("degrees", degrees), p=_number("p", p, 1.0))


def random_posterize(bits: SupportsIndex, p: SupportsFloat = 0.5) -> str:
    """With probability ``p``, only the ``bits`` upper bits of each level are left."""
    return _text("random_posterize", bits=_integer("bits", bits), p=_number("p", p, 0.5))


def random_solarize(threshold: SupportsFloat, p: SupportsFloat = 0.5) -> str:
    """With probability ``p``, levels from ``threshold`` on are inverted."""
    return _text("random_solarize", threshold=_number("threshold", threshold), p=_number("p", p, 0.5))


def random_adjust_sharpness(factor: SupportsFloat, p: SupportsFloat = 0.5) -> str:
    """With probability ``p``, sharpened by ``factor``: 0 blurs, 1 changes nothing."""
    return _text("random_adjust_sharpness", factor=_number("factor", factor), p=_number("p", p, 0.5))


def random_autocontrast(p: SupportsFloat = 0.5) -> str:
    """With probability ``p``, each channel is stretched to all levels."""
    return _text("random_autocontrast", p=_number("p", p, 0.5))


def random_equalize(p: SupportsFloat = 0.5) -> str:
    """With probability ``p``, the levels of each channel are spread evenly."""
    return _text("random_equalize", p=_number("p", p, 0.5))


def random_invert(p: SupportsFloat = 0.5) -> str:
    """With probability ``p``, each level becomes 255 minus itself."""
    return _text("random_invert", p=_number("p", p, 0.5))


def random_grayscale(p: SupportsFloat = 0.1) -> str:
    """With probability ``p``, gray, in three channels."""
    return _text("random_grayscale", p=_number("p", p, 0.1))


def random_gain(gain: Range) -> str:
    """The values of a cube times one random factor, as under another illumination.

    Parameters
    ----------
    gain : float or pair of float
        How far the factor may be from 1, or its range. Not below 0.
    """
    return _text("random_gain", gain=_range("gain", gain))


def band_jitter(gain: Range = 0, offset: Range = 0) -> str:
    """Each band of a cube times a random factor of its own, and plus a random summand.

    Parameters
    ----------
    gain : float or pair of float, default 0
        How far the factors may be from 1, or their range. Not below 0.
    offset : float or pair of float, default 0
        How far the summands may be from 0, or their range, in the units of the batch: of normalised values where
        there is a ``std``.
    """
    return _text("band_jitter", gain=_range("gain", gain), offset=None if offset == 0 else _range("offset", offset))


def band_dropout(p: SupportsFloat, value: SupportsFloat = 0.0) -> str:
    """Each band of a cube becomes one value with probability ``p``, so that a model does not lean on any of them.

    Parameters
    ----------
    p : float
        Probability, of each band alone.
    value : float, default 0
        What it becomes, in the units of the batch: 0 is the mean of normalised values. NaN in the band becomes it, too.
    """
    return _text("band_dropout", p=_number("p", p), value=_number("value", value, 0.0))


def gaussian_noise(sigma: Range) -> str:
    """Noise for cubes: each value plus a normal deviate of its own, after all other changes of bands, whatever the order.

    It is drawn from seed, epoch, sample and the place of the value in the row, so it depends on nothing else; arrays of
    a sample get the same. Values of float16 and bfloat16 are rounded after it. A device does not decode cubes that get
    noise: the host does, and ``stats()["refused"]`` counts them.

    Parameters
    ----------
    sigma : float or pair of float
        Its standard deviation, in units of what ``mean`` and ``std`` make; or a range, out of which each sample draws.
    """
    return _text("gaussian_noise", sigma=_range("sigma", sigma))


def mixup(alpha: SupportsFloat = 1.0) -> str:
    """For ``Loader(augment_batch=…)``: each picture is a weighted sum with the one before it in the batch, and so is its
    label.

    Parameters
    ----------
    alpha : float, default 1
        Both parameters of the Beta distribution of the weight, 0.01 to 100. Recipes for ImageNet take 0.2.
    """
    return _text("mixup", alpha=_number("alpha", alpha, 1.0))


def cutmix(alpha: SupportsFloat = 1.0) -> str:
    """For ``Loader(augment_batch=…)``: a random rectangle of each picture comes from the one before it in the batch, and
    its label counts by the area.

    Parameters
    ----------
    alpha : float, default 1
        Both parameters of the Beta distribution of the share that is left, 0.01 to 100.
    """
    return _text("cutmix", alpha=_number("alpha", alpha, 1.0))


def _text(name: str, **options: str | None) -> str:
    given = ",".join(f"{option}={value}" for option, value in options.items() if value is not None)
    text = f"{name}({given})" if given else name
    # What is out of range is said here, and not only by a loader.
    _shardpack.check_augmentation(text)
    return text


def _integer(name: str, value: SupportsIndex, default: int | None = None) -> str | None:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected a whole number, found {value!r}") from None
    return None if number == default else str(number)


def _number(name: str, value: object, default: float | None = None) -> str | None:
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{name}: expected a number, found {value!r}")
    try:
        number = float(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name}: expected a number, found {value!r}") from None
    return None if number == default else repr(number)


def _range(name: str, value: object, default: tuple[float, float] | None = None) -> str | None:
    """``LOW..HIGH``, or a number where one will do."""
    if default is None and not isinstance(value, Sequence):
        return _number(name, value)
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)) or len(value) != 2:
        raise ValueError(f"{name}: expected two numbers, the lower and the upper end, found {value!r}")
    low, high = (_number(name, end) for end in value)
    return None if default is not None and (float(value[0]), float(value[1])) == default else f"{low}..{high}"
