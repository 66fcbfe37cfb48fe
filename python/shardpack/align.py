"""Masks, boxes, keypoints and polygons that follow the view of their picture, for ``Loader(align=…)``.

Each function returns a text, such as ``"boxes,format=xywh"``. Each sample gets one view, which crops, scales and
mirrors the picture and these fields alike. Coordinates are in pixels from the left and upper edge of the upright
picture: the first pixel extends from 0 to 1.

>>> import shardpack as sp
>>> sp.align.boxes("xywh", visible=0.25)
'boxes,format=xywh,visible=0.25'
>>> align = {"mask": sp.align.mask(), "boxes": sp.align.boxes(), "classes": sp.align.rows_of("boxes")}
>>> sp.Loader(dataset, image="rrc224", align=align)                                          # doctest: +SKIP
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Literal, SupportsIndex

__all__ = ["boxes", "instance_masks", "keypoints", "mask", "polygons", "rows_of"]


def mask(picture: str | None = None, *, fill: float = 255) -> str:
    """A mask or depth map ``[height, width]`` or ``[height, width, channels]`` of the picture's size.

    In the batch it is a tensor of the view's height and width. Each pixel takes the value at its centre (nearest
    neighbour), so no new values appear.

    Parameters
    ----------
    picture : str, optional
        The picture field. Default: the only one among the fields.
    fill : float, default 255
        Value of the borders where the view pads the picture (``sp.view.pad``); the type in the batch must be able to
        hold it. Let the loss ignore it (``CrossEntropyLoss(ignore_index=255)``), or use the background's value.
    """
    return _text("mask", [("picture", picture), ("fill", None if fill == 255 else repr(float(fill)))])


def instance_masks(*, rows: str | None = None, picture: str | None = None) -> str:
    """Masks of objects, ``[masks, height, width]``, of the picture's size; their number may differ between samples.

    In the batch they are a list with one array per row, ``[masks, height, width]`` in the view's size and the stored
    type. Each pixel takes the value at its centre (nearest neighbour), or 0 in borders where the view pads the picture.

    Parameters
    ----------
    rows : str, optional
        The field of the boxes of these objects. Masks of removed boxes are removed. Default: all masks stay, even
        invisible ones.
    picture : str, optional
        The picture field. Default: the only one among the fields.
    """
    return _text("instances", [("rows", rows), ("picture", picture)])


def boxes(
    format: Literal["xyxy", "xywh", "cxcywh"] = "xyxy",
    *,
    relative: bool = False,
    visible: float = 0.0,
    picture: str | None = None,
) -> str:
    """Boxes ``[boxes, 4]``, moved and clipped at the borders of the view.

    Boxes of which too little is visible are removed. In the batch they are a list with one float32 array ``[boxes, 4]``
    per row, in the same format.

    Parameters
    ----------
    format : "xyxy", "xywh" or "cxcywh", default "xyxy"
        The four numbers: left, top, right, bottom; left, top, width, height (COCO); centre, width, height (YOLO).
    relative : bool, default False
        Coordinates are fractions of the width and height: of the picture as stored, and of the view in the batch.
        Default: pixels.
    visible : float, default 0
        Smallest visible fraction of a box's area. Boxes outside the view are always removed.
    picture : str, optional
        The picture field. Default: the only one among the fields.
    """
    if format not in ("xyxy", "xywh", "cxcywh"):
        raise ValueError(f"format: expected 'xyxy', 'xywh' or 'cxcywh', found {format!r}")
    given = [("format", None if format == "xyxy" else str(format)), ("unit", "relative" if relative else None)]
    share = float(visible)
    return _text("boxes", [*given, ("visible", repr(share) if share else None), ("picture", picture)])


def keypoints(
    *,
    swap: Sequence[tuple[SupportsIndex, SupportsIndex]] = (),
    rows: str | None = None,
    relative: bool = False,
    picture: str | None = None,
) -> str:
    """Points ``[points, 2 or 3]``, or for several objects ``[objects, points, 2 or 3]``: x, y and COCO's visibility.

    Points outside the view become ``0, 0, 0``, or NaN without visibility. In the batch they are a list with one float32
    array per row.

    Parameters
    ----------
    swap : sequence of pair of int, optional
        Pairs of points to exchange when the view is mirrored, such as left and right hand.
    rows : str, optional
        The field of the boxes of these objects. Points of removed boxes are removed.
    relative : bool, default False
        As in :func:`boxes`.
    picture : str, optional
        The picture field. Default: the only one among the fields.
    """
    pairs = "/".join(f"{operator.index(a)}-{operator.index(b)}" for a, b in swap)
    given = [("unit", "relative" if relative else None), ("swap", pairs or None)]
    return _text("keypoints", [*given, ("rows", rows), ("picture", picture)])


def polygons(*, rows: str | None = None, relative: bool = False, picture: str | None = None) -> str:
    """Polygons: an array ``[points, 2]`` or ``[polygons, points, 2]``, or JSON such as COCO's ``segmentation``.

    The JSON has a list per object, whose innermost lists are ``x, y, x, y, …``. In the batch, each row has a float32
    array of the same shape, or lists of the same form. A polygon keeps all points and is not clipped at the view, so
    clip it when drawing. Mirroring reverses its direction. In arrays, polygons with fewer points end in NaN. JSON
    objects without lists (``None``, or COCO's run lengths of crowds) become ``None``.

    Parameters
    ----------
    rows : str, optional
        The field of the boxes of these objects. Polygons of removed boxes are removed. Default: all
        stay, even invisible ones.
    relative : bool, default False
        As in :func:`boxes`.
    picture : str, optional
        The picture field. Default: the only one among the fields.
    """
    return _text("polygons", [("unit", "relative" if relative else None), ("rows", rows), ("picture", picture)])


def rows_of(boxes: str) -> str:
    """An array with one row per box, such as classes ``[boxes]``. Rows of removed boxes are removed.

    In the batch it is a list with one array of the stored type per row.

    Parameters
    ----------
    boxes : str
        The field of boxes.
    """
    return _text("rows", [("of", boxes)])


def _text(kind: str, options: Sequence[tuple[str, str | None]]) -> str:
    return ",".join([kind, *(f"{name}={value}" for name, value in options if value is not None)])
