"""Fields that follow their picture, for ``Loader(align=…)``: masks, boxes, keypoints, polygons go where its view goes.

Each function gives the text that names it, such as ``"boxes,format=xywh"``. A view is drawn once for a sample. It
crops, scales and mirrors the picture and these fields alike. All coordinates are those of the upright picture, in
pixels, from its left and upper edge: the first pixel reaches from 0 to 1.

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
    """An array ``[height, width]`` or ``[height, width, channels]`` as high and wide as the picture: classes of pixels,
    depths. In the batch it is a tensor of the view's height and width: for each pixel the value at its centre (nearest
    neighbour), so no value is made up.

    Parameters
    ----------
    picture : str, optional
        The field of the picture that it follows. Default: the only one among the fields.
    fill : float, default 255
        Value of the borders where the view pads the picture (``sp.view.pad``): one that the type of the batch can
        hold. Tell the loss to ignore it, as ``CrossEntropyLoss(ignore_index=255)`` does, or choose the background.
    """
    return _text("mask", [("picture", picture), ("fill", None if fill == 255 else repr(float(fill)))])


def instance_masks(*, rows: str | None = None, picture: str | None = None) -> str:
    """Masks of objects, ``[masks, height, width]``: as high and wide as the picture, and as many as the sample has. In
    the batch they are a list of arrays of their own type, ``[masks, height, width]`` of the view, one for each row. Each
    pixel has the value at its centre (nearest neighbour), and is 0 in the borders where the view pads the picture.

    Parameters
    ----------
    rows : str, optional
        The field of boxes that these are the masks of, one box for each: those of boxes that are left out are left out
        too. Default: all masks stay, also those of which the view shows nothing.
    picture : str, optional
        The field of the picture that they follow. Default: the only one among the fields.
    """
    return _text("instances", [("rows", rows), ("picture", picture)])


def boxes(
    format: Literal["xyxy", "xywh", "cxcywh"] = "xyxy",
    *,
    relative: bool = False,
    visible: float = 0.0,
    picture: str | None = None,
) -> str:
    """Boxes ``[boxes, 4]``: moved, and clipped at the borders of the view. Those of which too little is left are left
    out. In the batch they are a list of float32 arrays ``[boxes, 4]``, one for each row, in the same format.

    Parameters
    ----------
    format : "xyxy", "xywh" or "cxcywh", default "xyxy"
        The four numbers: left, top, right, bottom; left, top, width, height (COCO); centre, width, height (YOLO).
    relative : bool, default False
        Coordinates are shares of the width and height: of the picture, and in the batch of the view. Default: pixels.
    visible : float, default 0
        The least share of a box's area that the view has to show. Boxes of which it shows nothing are left out in any
        case.
    picture : str, optional
        The field of the picture that they follow. Default: the only one among the fields.
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
    """Points ``[points, 2]`` or ``[points, 3]``, or those of several objects, ``[objects, points, 2 or 3]``: x, y and, as
    COCO has it, whether the point is labelled and visible. Points outside the view become ``0, 0, 0`` where there are
    three numbers, else NaN. In the batch they are a list of float32 arrays, one for each row.

    Parameters
    ----------
    swap : sequence of pair of int, optional
        Numbers of points that change places where the view is mirrored, such as left and right hand.
    rows : str, optional
        The field of boxes that these are the points of, one box for each object: those of boxes that are left out are
        left out too.
    relative : bool, default False
        As in :func:`boxes`.
    picture : str, optional
        The field of the picture that they follow. Default: the only one among the fields.
    """
    pairs = "/".join(f"{operator.index(a)}-{operator.index(b)}" for a, b in swap)
    given = [("unit", "relative" if relative else None), ("swap", pairs or None)]
    return _text("keypoints", [*given, ("rows", rows), ("picture", picture)])


def polygons(*, rows: str | None = None, relative: bool = False, picture: str | None = None) -> str:
    """Polygons: an array ``[points, 2]`` or ``[polygons, points, 2]``, or JSON, such as COCO's ``segmentation``: a list
    for each object, whose innermost lists are ``x, y, x, y, …``. In the batch they are a list, one item for each row: a
    float32 array of the same shape, or lists of the same form.

    A polygon keeps all of its points, and is not clipped: it may reach beyond the view. Clip it when you draw it. Mirrored
    polygons turn the other way round. In an array, NaN stays NaN, behind polygons of fewer points. In JSON an object
    without lists (``None``, or the run lengths that COCO has for crowds) becomes ``None``.

    Parameters
    ----------
    rows : str, optional
        The field of boxes that these are the polygons of, one box for each object: those of boxes that are left out are
        left out too. Default: all stay, also those out of sight.
    relative : bool, default False
        As in :func:`boxes`.
    picture : str, optional
        The field of the picture that they follow. Default: the only one among the fields.
    """
    return _text("polygons", [("unit", "relative" if relative else None), ("rows", rows), ("picture", picture)])


def rows_of(boxes: str) -> str:
    """An array of which each row belongs to a box, such as their classes ``[boxes]``: rows of boxes that are left out are
    left out too. In the batch it is a list of arrays of its own type, one for each row.

    Parameters
    ----------
    boxes : str
        The field of boxes.
    """
    return _text("rows", [("of", boxes)])


def _text(kind: str, options: Sequence[tuple[str, str | None]]) -> str:
    return ",".join([kind, *(f"{name}={value}" for name, value in options if value is not None)])
