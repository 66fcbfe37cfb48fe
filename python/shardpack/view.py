"""Views of pictures, described by their parameters, for ``Loader(image=…)``.

Each function returns a string, such as ``"rrc224,scale=0.25..1"``, which the loader, ``shardpack bench --image`` and
settings files accept. The views match torchvision's transforms of the same names. Pictures are turned upright before
they are cropped, and are resized with antialiasing. The interpolation is bilinear by default, or
``interpolation="bicubic"``. Both give the result of torchvision with ``antialias=True`` to within one level. Pillow's
bilinear interpolation also agrees to within one level; its bicubic interpolation differs by two levels in a few values.
``"nearest"`` takes the pixel that contains the centre of the new pixel, like torchvision's ``NEAREST_EXACT``.

>>> import shardpack as sp
>>> sp.view.random_resized_crop(224, scale=(0.25, 1))
'rrc224,scale=0.25..1.0'
>>> sp.view.center_crop((224, 160), short_side=256)
'center224x160,short=256'
>>> sp.view.pad(640)
'pad640'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, SupportsIndex

from shardpack import _numbers

__all__ = [
    "Crop", "center_crop", "crop", "iou_crop", "pad", "random_crop", "random_resized_crop", "random_shortest_size",
    "resize", "scale_jitter", "whole",
]  # fmt: skip

Size = SupportsIndex | Sequence[SupportsIndex]
"""Size in pixels: one number for a square, or (height, width)."""

Interpolation = Literal["nearest", "bilinear", "bicubic"]
"""Interpolation between pixels."""


def random_resized_crop(
    size: Size,
    scale: Sequence[float] = (0.08, 1.0),
    ratio: Sequence[float] = (3 / 4, 4 / 3),
    hflip: float = 0.5,
    interpolation: Interpolation = "bilinear",
) -> str:
    """A random part of the picture, resized. For training.

    Parameters
    ----------
    size : int or pair of int
        Height and width of the result in pixels, or one number for both.
    scale : pair of float, default (0.08, 1)
        Range of the part's area, as a fraction of the picture's area.
    ratio : pair of float, default (3/4, 4/3)
        Range of the part's width divided by its height.
    hflip : float, default 0.5
        Probability of mirroring left to right.
    interpolation : "nearest", "bilinear" or "bicubic", default "bilinear"
        Interpolation between pixels.

    Raises
    ------
    TypeError, ValueError
        A value is not a number, or the number of values is wrong. The loader checks whether they are in range.
    """
    given = [("scale", _range("scale", scale), "0.08..1.0"), ("ratio", _range("ratio", ratio), f"{3 / 4!r}..{4 / 3!r}")]
    return _text("rrc", size, [*given, ("flip", _number("hflip", hflip), "0.5"), _interpolation(interpolation)])


def center_crop(
    size: Size, short_side: SupportsIndex | None = None, hflip: float = 0.0, interpolation: Interpolation = "bilinear"
) -> str:
    """The centre of the picture, after its shorter side is resized to ``short_side``. For evaluation.

    Parameters
    ----------
    size : int or pair of int
        Height and width of the result in pixels, or one number for both.
    short_side : int, optional
        Length of the shorter side in pixels before the crop. It must be at least as long as the crop. Default: 8/7
        of the larger side of the crop, such as 256 for 224.
    hflip : float, default 0
        Probability of mirroring left to right.
    interpolation : "nearest", "bilinear" or "bicubic", default "bilinear"
        Interpolation between pixels.
    """
    short = "" if short_side is None else str(_pixels("short_side", short_side))
    options = [("short", short, ""), ("flip", _number("hflip", hflip), "0.0"), _interpolation(interpolation)]
    return _text("center", size, options)


def resize(size: Size, hflip: float = 0.0, interpolation: Interpolation = "bilinear") -> str:
    """The whole picture at a given height and width, which may change its proportions.

    Parameters
    ----------
    size : int or pair of int
        Height and width of the result in pixels, or one number for both.
    hflip : float, default 0
        Probability of mirroring left to right.
    interpolation : "nearest", "bilinear" or "bicubic", default "bilinear"
        Interpolation between pixels.
    """
    return _text("resize", size, [("flip", _number("hflip", hflip), "0.0"), _interpolation(interpolation)])


def pad(
    size: Size,
    fill: SupportsIndex | Sequence[SupportsIndex] = (114, 114, 114),
    hflip: float = 0.0,
    interpolation: Interpolation = "bilinear",
) -> str:
    """The whole picture at its own proportions, centred on one colour (a letterbox). For detection.

    The picture fills one side of the result. Its other side is rounded to the nearest pixel. If the two borders
    differ in width, the right or lower border is a pixel wider. Aligned boxes and keypoints move with the picture,
    masks are filled with ``sp.align.mask(fill=)`` in the borders, and ``batch.views()`` maps predictions back.

    Parameters
    ----------
    size : int or pair of int
        Height and width of the result in pixels, or one number for both.
    fill : int or three of int, default (114, 114, 114)
        Red, green and blue of the borders, 0 to 255, or one level for all three. The default grey is usual for
        detection.
    hflip : float, default 0
        Probability of mirroring left to right.
    interpolation : "nearest", "bilinear" or "bicubic", default "bilinear"
        Interpolation between pixels.
    """
    return _text("pad", size, [_fill(fill), ("flip", _number("hflip", hflip), "0.0"), _interpolation(interpolation)])


def scale_jitter(
    size: Size,
    scale: Sequence[float] = (0.1, 2.0),
    fill: SupportsIndex | Sequence[SupportsIndex] = (114, 114, 114),
    hflip: float = 0.5,
    interpolation: Interpolation = "bilinear",
) -> str:
    """The picture at a random size (large-scale jitter). For training detectors.

    The picture is resized to a random multiple of the size that just fits. Where it is larger than the result, a random
    part is shown. Where it is smaller, a border is added at the right or below. This is torchvision's ``ScaleJitter``,
    followed by ``FixedSizeCrop``, whose crops lie on the diagonal, and by ``RandomHorizontalFlip``. Borders are filled
    as in :func:`pad`.

    Parameters
    ----------
    size : int or pair of int
        Height and width of the result in pixels, or one number for both.
    scale : pair of float, default (0.1, 2)
        Range of the multiple, at most 16.
    fill : int or three of int, default (114, 114, 114)
        Colour of the borders, as in :func:`pad`.
    hflip : float, default 0.5
        Probability of mirroring left to right.
    interpolation : "nearest", "bilinear" or "bicubic", default "bilinear"
        Interpolation between pixels.
    """
    options = [("scale", _range("scale", scale), "0.1..2.0"), _fill(fill)]
    return _text("jitter", size, [*options, ("flip", _number("hflip", hflip), "0.5"), _interpolation(interpolation)])


def random_crop(
    size: Size,
    short_side: SupportsIndex | Sequence[SupportsIndex],
    fill: SupportsIndex | Sequence[SupportsIndex] = (114, 114, 114),
    hflip: float = 0.5,
    interpolation: Interpolation = "bilinear",
) -> str:
    """A random crop, after the shorter side is resized to a random length. For training segmentation.

    This is torchvision's ``RandomResize``, ``RandomCrop(pad_if_needed=True)`` and ``RandomHorizontalFlip``. A picture
    smaller than the crop is placed at random, with borders as in :func:`pad`.

    Parameters
    ----------
    size : int or pair of int
        Height and width of the result in pixels, or one number for both.
    short_side : int or pair of int
        Length of the shorter side in pixels before the crop, or its range with both ends. torchvision's reference draws
        from half to twice 520 pixels for crops of 480.
    fill : int or three of int, default (114, 114, 114)
        Colour of the borders, as in :func:`pad`.
    hflip : float, default 0.5
        Probability of mirroring left to right.
    interpolation : "nearest", "bilinear" or "bicubic", default "bilinear"
        Interpolation between pixels.
    """
    ends = list(short_side) if isinstance(short_side, Sequence) else [short_side] * 2
    if isinstance(short_side, (str, bytes)) or len(ends) != 2:
        raise ValueError(f"short_side: expected one length, or a lower and an upper bound, found {short_side!r}")
    low, high = (_pixels("short_side", end) for end in ends)
    options = [("short", str(low) if low == high else f"{low}..{high}", ""), _fill(fill)]
    return _text("randcrop", size, [*options, ("flip", _number("hflip", hflip), "0.5"), _interpolation(interpolation)])


def random_shortest_size(
    short: SupportsIndex | Sequence[SupportsIndex],
    max_size: SupportsIndex | None = None,
    hflip: float = 0.5,
    interpolation: Interpolation = "bilinear",
) -> str:
    """The whole picture at its own proportions, with a random length of its shorter side. For training detectors.

    This is torchvision's ``RandomShortestSize``, followed by ``RandomHorizontalFlip``. Pictures get different sizes, so
    batches are ragged.

    Parameters
    ----------
    short : int or sequence of int
        Lengths of the shorter side in pixels, such as ``range(480, 801, 32)``. One of them is drawn for each picture.
        They must be evenly spaced, and none may be repeated.
    max_size : int, optional
        Maximum length of the longer side in pixels. A picture with a longer one becomes smaller.
    hflip : float, default 0.5
        Probability of mirroring left to right.
    interpolation : "nearest", "bilinear" or "bicubic", default "bilinear"
        Interpolation between pixels.
    """
    if isinstance(short, (str, bytes)):
        raise TypeError(f"short: expected whole numbers of pixels, found {short!r}")
    lengths = sorted(_pixels("short", side) for side in (short if isinstance(short, Sequence) else [short]))
    steps = sorted({b - a for a, b in zip(lengths, lengths[1:], strict=False)})
    # torchvision draws a repeated length more often, which the view cannot express.
    if not lengths or len(steps) > 1 or 0 in steps:
        raise ValueError(f"short: expected evenly spaced lengths, such as range(480, 801, 32), found {short!r}")
    longest = "" if max_size is None else str(_pixels("max_size", max_size))
    name = f"short{lengths[0]}" if len(lengths) == 1 else f"short{lengths[0]}..{lengths[-1]}"
    options = [("step", str(steps[0]) if steps else "1", "1"), ("max", longest, "")]
    return _text(name, None, [*options, ("flip", _number("hflip", hflip), "0.5"), _interpolation(interpolation)])


def iou_crop(
    size: Size,
    scale: Sequence[float] = (0.3, 1.0),
    ratio: Sequence[float] = (0.5, 2.0),
    zoom_out: Sequence[float] | None = None,
    fill: SupportsIndex | Sequence[SupportsIndex] = (114, 114, 114),
    hflip: float = 0.5,
    interpolation: Interpolation = "bilinear",
) -> str:
    """A random part that is chosen by its overlap with the boxes of the picture, resized. For training detectors.

    This is torchvision's ``RandomIoUCrop``, before it ``RandomZoomOut`` if ``zoom_out`` is given, and then ``Resize`` to
    ``size`` without keeping the proportions, and ``RandomHorizontalFlip``. A least overlap (intersection over union) of
    0, 0.1, 0.3, 0.5, 0.7, 0.9 or 1 is drawn, then 40 parts are tried. A part is shown if it contains the centre of at
    least one box, and overlaps such a box at least that much. With an overlap of 1, the whole picture is shown; after 40
    parts in vain, another overlap is drawn. Boxes with their centre outside the part are left out.

    The boxes are those of the one field that is aligned with the picture as boxes: ``align={"boxes":
    sp.align.boxes()}``. A sample without boxes shows the whole picture.

    Parameters
    ----------
    size : int or pair of int
        Height and width of the result in pixels, or one number for both.
    scale : pair of float, default (0.3, 1)
        Range of the part's height and width, as fractions of the picture's.
    ratio : pair of float, default (0.5, 2)
        Range of the part's width divided by its height.
    zoom_out : pair of float, optional
        Range of the sides of a canvas, as a multiple of the picture's sides, at most 16. Half of the pictures are placed
        on such a canvas, at random, before the part is chosen. The border begins at a whole pixel of the result.
    fill : int or three of int, default (114, 114, 114)
        Colour of the canvas, as in :func:`pad`. Without ``zoom_out`` there is none.
    hflip : float, default 0.5
        Probability of mirroring left to right.
    interpolation : "nearest", "bilinear" or "bicubic", default "bilinear"
        Interpolation between pixels.
    """
    options = [("scale", _range("scale", scale), "0.3..1.0"), ("ratio", _range("ratio", ratio), "0.5..2.0")]
    canvas = _fill(fill)
    if zoom_out is not None:
        options += [("zoom", _range("zoom_out", zoom_out), ""), canvas]
    return _text("ioucrop", size, [*options, ("flip", _number("hflip", hflip), "0.5"), _interpolation(interpolation)])


def whole(hflip: float = 0.0) -> str:
    """The whole picture at its own size. Batches are ragged.

    Parameters
    ----------
    hflip : float, default 0
        Probability of mirroring left to right.
    """
    return _text("full", None, [("flip", _number("hflip", hflip), "0.0")])


@dataclass(frozen=True)
class Crop:
    """One or several crops of each picture, each in its own field. Made by :func:`crop`."""

    view: str
    """Name of the view, such as ``"rrc96"``."""
    augment: str | None = None
    """Additional augmentations of these crops, as a string."""
    times: int = 1
    """Number of crops of each picture."""
    name: str | None = None
    """Name of the field, or the prefix of several field names."""


def crop(
    view: str, augment: str | Sequence[str] | None = None, *, times: SupportsIndex = 1, name: str | None = None
) -> Crop:
    """One or several crops of each picture, each in its own field, for ``Loader(crops=[…])``.

    Parameters
    ----------
    view : str
        The view, such as ``"rrc96,scale=0.05..0.25"`` or a result of another function of this module.
    augment : str or sequence of str, optional
        Picture augmentations from :mod:`shardpack.augment`, for these crops alone. They follow the loader's
        ``augment``, which applies to all crops.
    times : int, default 1
        Number of crops with this view and these augmentations, each drawn independently.
    name : str, optional
        Name of the field. With ``times=2``, ``name="local"`` gives ``local_0`` and ``local_1``. Default: the name of
        the picture field and the crop's number among all crops, such as ``image_0``.

    Examples
    --------
    >>> import shardpack as sp
    >>> sp.view.crop(sp.view.random_resized_crop(96, scale=(0.05, 0.25)), times=8, name="local")
    Crop(view='rrc96,scale=0.05..0.25', augment=None, times=8, name='local')
    """
    if not isinstance(view, str):
        raise TypeError(f"view: expected a string such as 'rrc96', found {view!r}")
    words = [] if augment is None else [augment] if isinstance(augment, str) else list(augment)
    if not all(isinstance(word, str) for word in words):
        raise TypeError(
            f"augment: expected augmentations such as 'hflip' or shardpack.augment.color_jitter(...), found {augment!r}"
        )
    if not (name is None or isinstance(name, str)):
        raise TypeError(f"name: expected a string, found {name!r}")
    count = _numbers.whole("times", times)
    if count < 1:
        raise ValueError(f"times: expected at least 1, found {count}")
    return Crop(view, ",".join(words) or None, count, name)


def _text(name: str, size: Size | None, options: Sequence[tuple[str, str, str]]) -> str:
    sides = [] if size is None else _sides(size)
    same = len(set(sides)) == 1
    words = [name + "x".join(str(side) for side in (sides[:1] if same else sides))]
    return ",".join([*words, *(f"{option}={value}" for option, value, default in options if value != default)])


def _fill(fill: SupportsIndex | Sequence[SupportsIndex]) -> tuple[str, str, str]:
    return "fill", _numbers.color("fill", fill), "114:114:114"


def _interpolation(name: Interpolation) -> tuple[str, str, str]:
    if name not in ("nearest", "bilinear", "bicubic"):
        raise ValueError(f"interpolation: expected 'nearest', 'bilinear' or 'bicubic', found {name!r}")
    return "interpolation", str(name), "bilinear"


def _sides(size: Size) -> list[int]:
    if isinstance(size, Sequence) and not isinstance(size, (str, bytes)):
        sides = [_pixels("size", side) for side in size]
    else:
        sides = [_pixels("size", size)] * 2
    if len(sides) != 2:
        raise ValueError(f"size: expected one number, or two for height and width, found {len(sides)} numbers")
    return sides


def _pixels(name: str, value: object) -> int:
    return _numbers.whole(name, value, "a whole number of pixels")


def _number(name: str, value: object) -> str:
    return repr(_numbers.decimal(name, value))


def _range(name: str, pair: Sequence[float]) -> str:
    if isinstance(pair, (str, bytes)) or not hasattr(pair, "__len__") or len(pair) != 2:
        raise ValueError(f"{name}: expected a lower and an upper bound, found {pair!r}")
    low, high = pair
    return f"{_number(name, low)}..{_number(name, high)}"
