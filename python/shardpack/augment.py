"""Augmentations of pictures, and of the bands of cubes, for ``Loader(augment=…)``.

Each function returns a string, such as ``"rand_augment(magnitude=7)"``, which loaders and settings files accept. On
pictures, the results match torchvision's transforms of the same names for uint8 tensors, to within one level.
:func:`random_gain`, :func:`band_jitter`, :func:`band_dropout`, :func:`random_gamma` and :func:`gaussian_noise` change
the bands of arrays of three axes, and volumes, but not masks. The arrays must be float16, bfloat16 or float32, and
``mean`` and ``std`` are applied first. :func:`random_affine` and :func:`random_rotation` also move cubes and their
masks, if no picture is loaded. :func:`random_affine_3d` and :func:`random_low_resolution` are for boxes of volumes, and
:func:`nnunet` is the recipe of nnU-Net for them. The random draws depend on seed, epoch and sample, but not on threads,
so a resumed loader repeats them.

>>> import shardpack as sp
>>> sp.augment.random_erasing(p=0.1)
'random_erasing(p=0.1)'
>>> train = [sp.augment.trivial_augment_wide(), sp.augment.random_erasing(p=0.1, value=(124, 116, 104))]
>>> sp.Loader(sp.Dataset("train"), image="rrc224", fields=["image", "label"], augment=train)      # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsFloat, SupportsIndex

from shardpack import _numbers, _shardpack

__all__ = [
    "band_dropout",
    "band_jitter",
    "color_jitter",
    "cutmix",
    "gaussian_blur",
    "gaussian_noise",
    "mixup",
    "mosaic",
    "nnunet",
    "rand_augment",
    "random_adjust_sharpness",
    "random_affine",
    "random_affine_3d",
    "random_autocontrast",
    "random_equalize",
    "random_erasing",
    "random_gain",
    "random_gamma",
    "random_grayscale",
    "random_invert",
    "random_low_resolution",
    "random_posterize",
    "random_rotation",
    "random_solarize",
    "trivial_augment_wide",
]

Range = SupportsFloat | Sequence[SupportsFloat]
"""A number, or a lower and upper bound."""


def trivial_augment_wide(num_magnitude_bins: SupportsIndex = 31) -> str:
    """Apply one of 14 operations with a random magnitude.

    The operations are shear and translation along x and y, rotation, brightness, colour, contrast, sharpness,
    posterize, solarize, autocontrast, equalize, and none. Pixels from outside the picture are black.

    Parameters
    ----------
    num_magnitude_bins : int, default 31
        Number of magnitudes.
    """
    return _text("trivial_augment_wide", num_magnitude_bins=_integer("num_magnitude_bins", num_magnitude_bins, 31))


def rand_augment(num_ops: SupportsIndex = 2, magnitude: SupportsIndex = 9, num_magnitude_bins: SupportsIndex = 31) -> str:
    """Apply several of the 14 operations in turn, all with the same magnitude.

    Parameters
    ----------
    num_ops : int, default 2
        Number of operations, at most 64.
    magnitude : int, default 9
        Index of the magnitude, from 0.
    num_magnitude_bins : int, default 31
        Number of magnitudes.
    """
    return _text(
        "rand_augment",
        num_ops=_integer("num_ops", num_ops, 2),
        magnitude=_integer("magnitude", magnitude, 9),
        num_magnitude_bins=_integer("num_magnitude_bins", num_magnitude_bins, 31),
    )


def color_jitter(brightness: Range = 0, contrast: Range = 0, saturation: Range = 0, hue: Range = 0) -> str:
    """Change brightness, contrast, saturation and hue by random factors, in random order.

    Parameters
    ----------
    brightness, contrast, saturation : float or pair of float, default 0
        Largest distance of the factor from 1, or the range of the factor.
    hue : float or pair of float, default 0
        Largest shift of the hue in either direction, at most 0.5 (half the circle), or the range of the shift.
    """
    given = {"brightness": brightness, "contrast": contrast, "saturation": saturation, "hue": hue}
    # Leave out 0, because it is the default.
    return _text("color_jitter", **{name: _range(name, value) for name, value in given.items() if value != 0})


def random_erasing(
    p: SupportsFloat = 0.5,
    scale: Sequence[SupportsFloat] = (0.02, 0.33),
    ratio: Sequence[SupportsFloat] = (0.3, 3.3),
    value: SupportsIndex | Sequence[SupportsIndex] = 0,
) -> str:
    """Fill a random rectangle with one colour, before normalisation.

    Recipes for torchvision erase with 0 after normalisation. For the same effect, use the mean level here:
    ``value=(124, 116, 104)`` for ImageNet.

    Parameters
    ----------
    p : float, default 0.5
        Probability of erasing a rectangle.
    scale : pair of float, default (0.02, 0.33)
        Range of the rectangle's area, as a fraction of the picture's area.
    ratio : pair of float, default (0.3, 3.3)
        Range of the rectangle's height divided by its width.
    value : int or three, default 0
        Colour of the rectangle: one level, or red, green and blue.
    """
    several = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    levels = [_numbers.whole("value", level) for level in (value if several else [value])]  # type: ignore[union-attr]
    return _text(
        "random_erasing",
        p=_number("p", p, 0.5),
        scale=_range("scale", scale, (0.02, 0.33)),
        ratio=_range("ratio", ratio, (0.3, 3.3)),
        value=":".join(map(str, levels)) if levels != [0] else None,
    )


def gaussian_blur(kernel_size: SupportsIndex, sigma: Range = (0.1, 2.0), p: SupportsFloat = 1.0) -> str:
    """Blur with a Gaussian kernel of ``kernel_size`` × ``kernel_size`` pixels.

    Parameters
    ----------
    kernel_size : int
        Side of the kernel in pixels. It must be odd.
    sigma : float or pair of float, default (0.1, 2)
        Standard deviation in pixels, or its range.
    p : float, default 1
        Probability of blurring.
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
    fill: SupportsFloat = 0.0,
    mask_fill: SupportsFloat = 255,
) -> str:
    """Rotate, translate, scale and shear about the centre. This is torchvision's ``RandomAffine``, which has no ``p``.

    *Pictures* take the nearest pixels, and pixels from outside the picture are black. Aligned masks, boxes, keypoints
    and polygons (``align=``) move with the picture: masks take the nearest pixels, and boxes become the upright boxes
    around their moved corners. An array of the picture's size that is not aligned is refused.

    *Arrays* of two or three axes are moved if no picture is loaded. All arrays of a sample move in the same way, after
    patches are cut and before ``"hflip"``, ``"vflip"``, ``"dflip"`` and ``"rot90"``. Each value of a cube becomes a
    bilinear mean of four pixels, computed in float32 after ``mean`` and ``std`` and before noise. If one of the four is
    no-data, so is the mean. Cubes are loaded as float16, bfloat16 or float32; integers become float32. Masks, and
    integer arrays of two axes, take the nearest pixels.

    Parameters
    ----------
    degrees : float or pair of float
        Largest rotation in either direction, or the range of the clockwise rotation. 0 means no rotation.
    translate : pair of float, optional
        Largest translation in either direction, as fractions of width and height, from 0 to 1. It is rounded to
        whole pixels. Default: no translation.
    scale : pair of float, optional
        Range of the scale, which must be above 0. Default: no scaling.
    shear : float, pair or four of float, optional
        Shear in degrees, at most 89. One number is the largest shear along x in either direction, two are its range,
        and four are the ranges along x and y.
    p : float, default 1
        Probability of a transformation.
    fill : float, default 0
        Value of cubes outside the array, in the units of the batch (with ``std``, of normalised values).
    mask_fill : float, default 255
        Value outside the array or picture, for masks and other arrays that take the nearest pixels. Their type must be
        able to hold it. Masks of objects (:func:`shardpack.align.instance_masks`) are 0 outside.
    """
    if translate is not None and (isinstance(translate, (str, bytes)) or len(translate) != 2):
        raise ValueError(f"translate: expected two fractions, for width and height, found {translate!r}")
    both = [] if translate is None else [str(_number("translate", share)) for share in translate]
    along_x, along_y = _by_axis(shear)
    return _text(
        "random_affine",
        degrees=_range("degrees", degrees),
        translate=":".join(both) or None,
        scale=None if scale is None else _range("scale", scale, (1.0, 1.0)),
        shear=None if along_x is None else _range("shear", along_x),
        shear_y=None if along_y is None else _range("shear", along_y),
        p=_number("p", p, 1.0),
        fill=_number("fill", fill, 0.0),
        mask_fill=_number("mask_fill", mask_fill, 255.0),
    )


def random_rotation(
    degrees: Range, p: SupportsFloat = 1.0, fill: SupportsFloat = 0.0, mask_fill: SupportsFloat = 255
) -> str:
    """Rotate about the centre. This is torchvision's ``RandomRotation``, which has no ``p``.

    Pictures and arrays move as described for :func:`random_affine`.

    Parameters
    ----------
    degrees : float or pair of float
        Largest rotation in either direction, or the range of the counterclockwise rotation.
    p : float, default 1
        Probability of a rotation.
    fill, mask_fill : float, default 0 and 255
        Values outside an array, as in :func:`random_affine`.
    """
    return _text(
        "random_rotation",
        degrees=_range("degrees", degrees),
        p=_number("p", p, 1.0),
        fill=_number("fill", fill, 0.0),
        mask_fill=_number("mask_fill", mask_fill, 255.0),
    )


def random_affine_3d(
    degrees: Range | Sequence[Range] = 0.0,
    scale: Sequence[SupportsFloat] | Sequence[Sequence[SupportsFloat]] = (1.0, 1.0),
    translate: SupportsFloat | Sequence[SupportsFloat] = 0.0,
    isotropic: bool = True,
    p_rotation: SupportsFloat = 1.0,
    p_scaling: SupportsFloat = 1.0,
    p: SupportsFloat = 1.0,
    fill: SupportsFloat = 0.0,
    mask_fill: SupportsFloat = 255,
) -> str:
    """Rotate, scale and translate boxes of volumes about their centre, across their planes.

    All volumes and masks of a sample move in the same way. Voxels outside the box are read from the volume where it has
    them, so boxes need no margin. Each value of a volume becomes a trilinear mean of eight voxels, computed in float32
    after ``mean`` and ``std``; integers become float32. If one of the eight is no-data, so is the mean. Masks take the
    nearest voxels. The map is applied before ``"hflip"``, ``"vflip"``, ``"dflip"`` and ``"rot90"``.

    Parameters
    ----------
    degrees : float, pair of float, or three of them, default 0
        Largest rotation in either direction about each axis, or its range; one for all axes, or three for depth, height
        and width. Each axis draws its own angle. Voxels are rotated about the axis of width, then of height, then of
        depth, each like :func:`numpy.rot90` along the two other axes.
    scale : pair of float, or three pairs, default (1, 1)
        Range of the scale, which must be above 0. A scale above 1 enlarges. Three ranges are for depth, height and
        width, and need ``isotropic=False``.
    translate : float or three of float, default 0
        Largest translation in either direction, as fractions of depth, height and width of the box, from 0 to 1.
    isotropic : bool, default True
        Draw one scale for all axes. If false, each axis draws its own.
    p_rotation, p_scaling : float, default 1
        Probabilities that the box is rotated, and that it is scaled.
    p : float, default 1
        Probability that a box is transformed at all.
    fill : float, default 0
        Value outside the volume, in the units of the batch (with ``std``, of normalised values).
    mask_fill : float, default 255
        Value of masks outside the volume. Their type must be able to hold it.
    """
    if not isinstance(isotropic, bool):
        raise TypeError(f"isotropic: expected True or False, found {isotropic!r}")
    shares = list(translate) if isinstance(translate, Sequence) else [translate]
    if isinstance(translate, (str, bytes)) or len(shares) not in (1, 3):
        raise ValueError(f"translate: expected one fraction, or three for depth, height and width, found {translate!r}")
    moved = ":".join(str(_number("translate", share)) for share in shares)
    turned = _axes("degrees", degrees)
    scaled = _axes("scale", scale)
    if ":" in scaled and isotropic:
        raise ValueError("scale: a range for each axis needs isotropic=False")
    return _text(
        "random_affine_3d",
        degrees=None if turned == "0.0" else turned,
        scale=None if scaled == "1.0..1.0" else scaled,
        translate=None if moved == "0.0" else moved,
        isotropic=None if isotropic else "false",
        p_rotation=_number("p_rotation", p_rotation, 1.0),
        p_scaling=_number("p_scaling", p_scaling, 1.0),
        p=_number("p", p, 1.0),
        fill=_number("fill", fill, 0.0),
        mask_fill=_number("mask_fill", mask_fill, 255.0),
    )


def random_posterize(bits: SupportsIndex, p: SupportsFloat = 0.5) -> str:
    """With probability ``p``, keep only the ``bits`` upper bits of each level."""
    return _text("random_posterize", bits=_integer("bits", bits), p=_number("p", p, 0.5))


def random_solarize(threshold: SupportsFloat, p: SupportsFloat = 0.5) -> str:
    """With probability ``p``, invert levels of at least ``threshold``."""
    return _text("random_solarize", threshold=_number("threshold", threshold), p=_number("p", p, 0.5))


def random_adjust_sharpness(factor: SupportsFloat, p: SupportsFloat = 0.5) -> str:
    """With probability ``p``, sharpen by ``factor``. 0 blurs the picture, and 1 leaves it unchanged."""
    return _text("random_adjust_sharpness", factor=_number("factor", factor), p=_number("p", p, 0.5))


def random_autocontrast(p: SupportsFloat = 0.5) -> str:
    """With probability ``p``, stretch each channel so that it uses all levels."""
    return _text("random_autocontrast", p=_number("p", p, 0.5))


def random_equalize(p: SupportsFloat = 0.5) -> str:
    """With probability ``p``, spread the levels of each channel evenly."""
    return _text("random_equalize", p=_number("p", p, 0.5))


def random_invert(p: SupportsFloat = 0.5) -> str:
    """With probability ``p``, replace each level by 255 minus the level."""
    return _text("random_invert", p=_number("p", p, 0.5))


def random_grayscale(p: SupportsFloat = 0.1) -> str:
    """With probability ``p``, convert to grey, in three equal channels."""
    return _text("random_grayscale", p=_number("p", p, 0.1))


def random_gain(gain: Range, p: SupportsFloat = 1.0) -> str:
    """Multiply a cube by one random factor, as a change of illumination would.

    Parameters
    ----------
    gain : float or pair of float
        Largest distance of the factor from 1, or the range of the factor. The factor is at least 0.
    p : float, default 1
        Probability that a sample changes.
    """
    return _text("random_gain", gain=_range("gain", gain), p=_number("p", p, 1.0))


def band_jitter(gain: Range = 0, offset: Range = 0, p: SupportsFloat = 1.0) -> str:
    """Multiply each band of a cube by a random factor of its own, and add a random offset.

    Parameters
    ----------
    gain : float or pair of float, default 0
        Largest distance of the factors from 1, or the range of the factors. The factors are at least 0.
    offset : float or pair of float, default 0
        Largest offset in either direction, or the range of the offsets. It is in the units of the batch: with
        ``std``, these are the units of normalised values.
    p : float, default 1
        Probability that the bands of a sample change.
    """
    shift = None if offset == 0 else _range("offset", offset)
    return _text("band_jitter", gain=_range("gain", gain), offset=shift, p=_number("p", p, 1.0))


def band_dropout(p: SupportsFloat, value: SupportsFloat = 0.0) -> str:
    """Replace each band of a cube by a constant with probability ``p``, so that a model does not rely on any single
    band.

    Parameters
    ----------
    p : float
        Probability that a band is replaced.
    value : float, default 0
        Value that replaces all values of the band, including NaN. It is in the units of the batch, so 0 is the mean of
        normalised values.
    """
    return _text("band_dropout", p=_number("p", p), value=_number("value", value, 0.0))


def random_low_resolution(
    scale: Range = (0.5, 1.0), p: SupportsFloat = 1.0, p_per_channel: SupportsFloat = 1.0
) -> str:
    """Lower the resolution of channels of a volume's box, like nnU-Net's ``SimulateLowResolutionTransform``.

    Each side of the box is reduced to a share of its voxels by nearest-neighbour sampling (``nearest-exact`` in PyTorch),
    and enlarged again by trilinear interpolation. It is applied after :func:`random_affine_3d` and the augmentations of
    bands, and before gamma and noise. It applies to volumes, but not to their masks. Volumes must be cut to boxes
    (``cube="patchDxHxW"``).

    Parameters
    ----------
    scale : float or pair of float, default (0.5, 1)
        Share of each side, from 0.01 to 1, or the range from which each channel draws its own.
    p : float, default 1
        Probability that channels of a sample change.
    p_per_channel : float, default 1
        Probability that a channel changes, if its sample changes.
    """
    return _text(
        "random_low_resolution",
        scale=_range("scale", scale),
        p=_number("p", p, 1.0),
        p_per_channel=_number("p_per_channel", p_per_channel, 1.0),
    )


def random_gamma(gamma: Range, p: SupportsFloat = 1.0) -> str:
    """Apply a gamma curve between the smallest and the largest value of a cube, or of a box of a volume.

    A value becomes ``low + (high - low) * ((value - low) / (high - low)) ** gamma``, where ``low`` and ``high`` are the
    smallest and the largest finite value of the row. It is applied after all other augmentations of bands, and before
    noise. Infinities, NaN and replaced no-data are ignored and do not change. nnU-Net draws from ``(0.7, 1.5)`` with
    probability 0.3.

    Parameters
    ----------
    gamma : float or pair of float
        Exponent from 0.01 to 100, or a range from which it is drawn for each sample.
    p : float, default 1
        Probability of a change.
    """
    return _text("random_gamma", gamma=_range("gamma", gamma), p=_number("p", p, 1.0))


def gaussian_noise(sigma: Range, p: SupportsFloat = 1.0) -> str:
    """Add normally distributed noise to each value of a cube, after all other augmentations of bands.

    The draws depend only on seed, epoch, sample and the value's position, so all arrays of a sample get the same
    noise. If the batch is float16 or bfloat16, values are rounded after the noise is added. A GPU adds the same noise,
    to the bit.

    Parameters
    ----------
    sigma : float or pair of float
        Standard deviation in units of normalised values, or a range from which it is drawn for each sample.
    p : float, default 1
        Probability that a sample changes.
    """
    return _text("gaussian_noise", sigma=_range("sigma", sigma), p=_number("p", p, 1.0))


def nnunet(mirror: bool = True, mask_fill: SupportsFloat = 0) -> list[str]:
    """The augmentation of nnU-Net's default trainer for boxes of volumes, as far as the loader supports it.

    These are the steps, probabilities and ranges of ``nnUNetTrainer.get_training_transforms`` for isotropic 3-D patches
    (`nnU-Net 2 <https://github.com/MIC-DKFZ/nnUNet/blob/master/nnunetv2/training/nnUNetTrainer/nnUNetTrainer.py>`_):
    rotation by up to 30° about all axes (probability 0.2), scaling of objects by 1/1.4 to 1/0.7 (0.2), noise with a
    deviation of up to 0.1 (0.1), brightness 0.75 to 1.25 by channel (0.15), low resolution of 0.5 to 1 (0.25, half of the
    channels), gamma 0.7 to 1.5 (0.3), and mirroring along each axis.

    There are some differences from nnU-Net. Blur, contrast and the gamma of inverted values are left out. Gamma does not
    restore mean and deviation. Ranges are drawn uniformly (for scales, the scale itself, not its inverse). Masks take
    the nearest voxel, and noise is added last. Normalise with ``mean`` and ``std``, because nnU-Net expects normalised
    values.

    >>> import shardpack as sp
    >>> len(sp.augment.nnunet()), len(sp.augment.nnunet(mirror=False))
    (8, 5)

    Parameters
    ----------
    mirror : bool, default True
        Mirror along all three axes. Choose False if left and right are different classes.
    mask_fill : float, default 0
        Class of masks outside the volume.
    """
    steps = [
        random_affine_3d((-30, 30), (1 / 1.4, 1 / 0.7), p_rotation=0.2, p_scaling=0.2, mask_fill=mask_fill),
        gaussian_noise((0, 0.1), p=0.1),
        band_jitter((0.75, 1.25), p=0.15),
        random_low_resolution((0.5, 1), p=0.25, p_per_channel=0.5),
        random_gamma((0.7, 1.5), p=0.3),
    ]
    return ["dflip", "vflip", "hflip", *steps] if mirror else steps


def mixup(alpha: SupportsFloat = 1.0) -> str:
    """For ``Loader(augment_batch=…)``: mix each picture and its label with the previous row, using one weight.

    A row has the boxes, keypoints, polygons and masks of objects of both pictures (``align=``), and
    :meth:`Batch.weights` returns their weights. A mask of classes is refused, because classes have no weighted sum.

    Parameters
    ----------
    alpha : float, default 1
        Both parameters of the Beta distribution from which the weight is drawn, from 0.01 to 100. ImageNet recipes
        use 0.2.
    """
    return _text("mixup", alpha=_number("alpha", alpha, 1.0))


def cutmix(alpha: SupportsFloat = 1.0) -> str:
    """For ``Loader(augment_batch=…)``: replace a random rectangle of each picture by the same rectangle of the previous
    row's picture, and weight the two labels by area.

    Masks that follow the picture (``align=``) get the same rectangle. A row has the visible boxes, keypoints, polygons
    and masks of objects of both pictures. A box becomes the smallest box around its visible part, and is removed if a
    smaller fraction than the ``visible`` of :func:`shardpack.align.boxes` remains.

    Parameters
    ----------
    alpha : float, default 1
        Both parameters of the Beta distribution from which the remaining area is drawn, from 0.01 to 100.
    """
    return _text("cutmix", alpha=_number("alpha", alpha, 1.0))


def mosaic(
    scale: Sequence[SupportsFloat] = (0.5, 1.5),
    translate: SupportsFloat | Sequence[SupportsFloat] = 0.1,
    degrees: Range = 0.0,
    shear: Range = 0.0,
    p: SupportsFloat = 1.0,
    fill: SupportsIndex | Sequence[SupportsIndex] = (114, 114, 114),
) -> str:
    """For ``Loader(augment_batch=…)``: combine four pictures, as YOLO training does.

    Each row becomes a mosaic of itself and the three rows before it. A batch of one row stays unchanged. On a canvas
    of twice the height and width, the pictures touch a random centre with one corner each, without the borders of
    :func:`shardpack.view.pad`. A random affine map shows a part of the canvas in the size of the row. Pixels are
    bilinear means of four pixels. Masks take the nearest pixel, and the ``fill`` of :func:`shardpack.align.mask`
    outside the pictures. A row has the boxes, keypoints, polygons and masks of objects of all four pictures
    (``align=``). Boxes are clipped, and removed if a smaller fraction than the ``visible`` of
    :func:`shardpack.align.boxes` remains. Each row draws its own centre and map.

    Parameters
    ----------
    scale : pair of float, default (0.5, 1.5)
        Range of the scale, from 0.01 to 100. At 0.5 all four pictures are visible.
    translate : float or pair of float, default 0.1
        Largest translation in either direction, as fractions of width and height, from 0 to 1.
    degrees : float or pair of float, default 0
        Largest rotation in either direction, or the range of the clockwise rotation.
    shear : float, pair or four of float, default 0
        Shear in degrees, as in :func:`random_affine`.
    p : float, default 1
        Probability that a row becomes a mosaic.
    fill : int or three of int, default (114, 114, 114)
        Red, green and blue outside the pictures, 0 to 255, or one level for all three.
    """
    shares = [translate] * 2 if not isinstance(translate, Sequence) else list(translate)
    if isinstance(translate, (str, bytes)) or len(shares) != 2:
        raise ValueError(f"translate: expected one fraction, or two for width and height, found {translate!r}")
    both = ":".join(str(_number("translate", share)) for share in shares)
    color = _numbers.color("fill", fill)
    along_x, along_y = _by_axis(shear)
    return _text(
        "mosaic",
        scale=_range("scale", scale, (0.5, 1.5)),
        translate=None if both == "0.1:0.1" else both,
        degrees=None if degrees == 0 else _range("degrees", degrees),
        shear=None if along_x == 0 else _range("shear", along_x),
        shear_y=None if along_y is None else _range("shear", along_y),
        p=_number("p", p, 1.0),
        fill=None if color == "114:114:114" else color,
    )


def _text(name: str, **options: str | None) -> str:
    given = ",".join(f"{option}={value}" for option, value in options.items() if value is not None)
    text = f"{name}({given})" if given else name
    # Check the ranges here, so that this call raises the error instead of the loader.
    _shardpack.check_augmentation(text)
    return text


def _integer(name: str, value: SupportsIndex, default: int | None = None) -> str | None:
    number = _numbers.whole(name, value)
    return None if number == default else str(number)


def _number(name: str, value: object, default: float | None = None) -> str | None:
    number = _numbers.decimal(name, value)
    return None if number == default else repr(number)


def _by_axis(shear: Range | None) -> tuple[Range | None, Range | None]:
    """Return the shear along x, and along y if the shear has four numbers."""
    if isinstance(shear, Sequence) and not isinstance(shear, (str, bytes)) and len(shear) == 4:
        return shear[:2], shear[2:]
    return shear, None


def _axes(name: str, value: object) -> str:
    """Return one range, or the ranges of three axes separated by colons."""
    ends = list(value) if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) else None
    if ends is not None and len(ends) == 3:
        return ":".join(str(_range(name, axis)) for axis in ends)
    return str(_range(name, value))


def _range(name: str, value: object, default: tuple[float, float] | None = None) -> str | None:
    """Return a range as the string ``LOW..HIGH``, or a single number as a string."""
    if default is None and not isinstance(value, Sequence):
        return _number(name, value)
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)) or len(value) != 2:
        raise ValueError(f"{name}: expected a lower and an upper bound, found {value!r}")
    low, high = (_number(name, end) for end in value)
    return None if default is not None and (float(value[0]), float(value[1])) == default else f"{low}..{high}"
