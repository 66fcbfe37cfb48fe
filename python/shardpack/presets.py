"""Well-known training recipes as loader options: ``sp.Loader(dataset, 16, **sp.presets.yolo(640), align=…)``.

Each function returns a mapping of keywords for :class:`shardpack.Loader`. Add your own keywords, such as ``fields``,
``align``, ``dtype`` or ``to``. To change a part of a recipe, change the mapping: ``sp.presets.yolo(640) | {"image":
"pad640"}``.

>>> import shardpack as sp
>>> sp.presets.lsj(1024)
{'image': 'jitter1024'}
>>> sp.presets.segmentation(480, base_size=520)
{'image': 'randcrop480,short=260..1040'}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsFloat, SupportsIndex

from shardpack import augment, view
from shardpack._numbers import whole
from shardpack.view import Size

__all__ = ["detection", "lsj", "multiscale", "segmentation", "ssd", "ssdlite", "yolo"]


def detection(hflip: float = 0.5) -> dict[str, Any]:
    """The recipe ``hflip`` of torchvision's detection reference: whole pictures, mirrored with probability ``hflip``.

    Pictures keep their size, so ``batch["image"]`` is a :class:`shardpack.Ragged`, whose rows can be passed to
    torchvision's detectors as a list of tensors.
    """
    return {"image": view.whole(hflip=hflip)}


def lsj(
    size: Size = 1024,
    scale: Sequence[float] = (0.1, 2.0),
    fill: SupportsIndex | Sequence[SupportsIndex] = (114, 114, 114),
    hflip: float = 0.5,
) -> dict[str, Any]:
    """The recipe ``lsj`` of torchvision's detection reference: large-scale jitter, crop or border, mirroring.

    The parameters are the same as in :func:`shardpack.view.scale_jitter`. torchvision's reference fills borders with ``(123, 117,
    104)``.
    """
    return {"image": view.scale_jitter(size, scale, fill, hflip)}


def multiscale(
    short: SupportsIndex | Sequence[SupportsIndex] = range(480, 801, 32),
    max_size: SupportsIndex | None = 1333,
    hflip: float = 0.5,
) -> dict[str, Any]:
    """The recipe ``multiscale`` of torchvision's detection reference: a random size, mirroring.

    The parameters are the same as in :func:`shardpack.view.random_shortest_size`. Every picture gets a size of its own, so
    ``batch["image"]`` is a :class:`shardpack.Ragged`, as with :func:`detection`.
    """
    return {"image": view.random_shortest_size(short, max_size, hflip)}


def ssd(
    size: Size = 300,
    zoom_out: Sequence[float] = (1.0, 4.0),
    fill: SupportsIndex | Sequence[SupportsIndex] = (123, 117, 104),
    hflip: float = 0.5,
) -> dict[str, Any]:
    """The recipe ``ssd`` of torchvision's detection reference: colours, zooming out, a crop by boxes, mirroring.

    The parameters are the same as in :func:`shardpack.view.iou_crop`. Align the boxes of the pictures:
    ``align={"boxes": sp.align.boxes(), "labels": sp.align.rows_of("boxes")}``.

    There are four differences. Pictures are resized to ``size`` here, which torchvision's SSD does in the model, without
    antialiasing. Colours change after the crop, also those of the canvas. Brightness, contrast, saturation and hue change
    in each picture and in a random order, by the ranges of ``RandomPhotometricDistort``; torchvision changes each of them
    in half of the pictures. Its permutation of the channels is left out.
    """
    return {
        "image": view.iou_crop(size, zoom_out=zoom_out, fill=fill, hflip=hflip),
        "augment": [augment.color_jitter(brightness=0.125, contrast=0.5, saturation=0.5, hue=0.05)],
    }


def ssdlite(size: Size = 320, hflip: float = 0.5) -> dict[str, Any]:
    """The recipe ``ssdlite`` of torchvision's detection reference: a crop by boxes, mirroring.

    Align the boxes of the pictures, as for :func:`ssd`. Pictures are resized to ``size`` here, which torchvision's
    SSDlite does in the model, without antialiasing.
    """
    return {"image": view.iou_crop(size, hflip=hflip)}


def segmentation(
    crop_size: Size = 480,
    base_size: SupportsIndex = 520,
    fill: SupportsIndex | Sequence[SupportsIndex] = (114, 114, 114),
    hflip: float = 0.5,
) -> dict[str, Any]:
    """The recipe of torchvision's segmentation reference: a random size, a random crop, mirroring.

    The shorter side becomes half to twice ``base_size`` pixels. Use ``align={"mask": sp.align.mask()}``, which fills
    borders with 255, as in the reference.
    """
    side = whole("base_size", base_size, "a whole number of pixels")
    return {"image": view.random_crop(crop_size, (side // 2, 2 * side), fill, hflip)}


def yolo(
    size: Size = 640,
    mosaic: SupportsFloat = 1.0,
    scale: SupportsFloat = 0.5,
    translate: SupportsFloat = 0.1,
    degrees: SupportsFloat = 0.0,
    shear: SupportsFloat = 0.0,
    hsv: Sequence[SupportsFloat] = (0.015, 0.7, 0.4),
    hflip: float = 0.5,
) -> dict[str, Any]:
    """The recipe of YOLO trainers: mosaics of four letterboxed pictures with a random affine map, colours, mirroring.

    Names and defaults are the same as in Ultralytics' settings, with two differences. Colours and mirroring are drawn
    for each of the four pictures before they are combined. ``hsv`` sets the hue, saturation and brightness of
    :func:`shardpack.augment.color_jitter`, whose saturation mixes with grey instead of scaling the S of HSV. Trainers
    usually stop the mosaics some epochs before the end. To do so, continue with a loader of ``yolo(mosaic=0)`` and
    ``load_state_dict``.

    Parameters
    ----------
    size : int or pair of int, default 640
        Height and width of the result in pixels.
    mosaic : float, default 1
        Probability that a row becomes a mosaic. With 0 there are no mosaics, and no affine maps.
    scale : float, default 0.5
        Largest change of the scale: 0.5 draws from 0.5 to 1.5.
    translate, degrees, shear : float, default 0.1, 0 and 0
        As in :func:`shardpack.augment.mosaic`.
    hsv : three of float, default (0.015, 0.7, 0.4)
        Largest change of hue, saturation and brightness.
    hflip : float, default 0.5
        Probability of mirroring left to right.
    """
    hue, saturation, brightness = (float(change) for change in hsv)
    change = float(scale)
    mix = augment.mosaic((1 - change, 1 + change), translate, degrees, shear, mosaic)
    return {
        "image": view.pad(size, hflip=hflip),
        "augment": [augment.color_jitter(brightness=brightness, saturation=saturation, hue=hue)],
        "augment_batch": [mix] if float(mosaic) > 0 else [],
    }
