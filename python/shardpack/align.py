"""Masks, boxes, keypoints and polygons that follow the view of their picture, for ``Loader(align=…)``.

Each function returns a string, such as ``"boxes,format=xywh"``. The picture of a sample and its aligned fields are
cropped, scaled and mirrored by the same view, and moved by the same draw of each augmentation. Coordinates are in
pixels from the left and upper edge of the upright picture, so the first pixel extends from 0 to 1.

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

    In the batch, masks are a tensor with the height and width of the view. Each pixel takes the value at its centre
    (nearest neighbour), so no new values appear.

    Parameters
    ----------
    picture : str, optional
        Name of the picture field. Default: the only picture field that is loaded.
    fill : float, default 255
        Value for borders that the view adds (``sp.view.pad``), and for the area outside the picture after
        ``trivial_augment_wide`` and ``rand_augment`` moved it (``random_affine`` has ``mask_fill``). The type in the
        batch must be able to hold it. Make the loss ignore this value (``CrossEntropyLoss(ignore_index=255)``), or use
        the value of the background.
    """
    return _text("mask", [("picture", picture), ("fill", None if fill == 255 else repr(float(fill)))])


def instance_masks(*, rows: str | None = None, picture: str | None = None) -> str:
    """Masks of objects, ``[masks, height, width]``, of the picture's size. Samples may differ in their number of masks.

    In the batch they are a list with one array per row: ``[masks, height, width]`` in the size of the view and with
    the stored type. Each pixel takes the value at its centre (nearest neighbour). Borders where the view pads the
    picture are 0.

    Parameters
    ----------
    rows : str, optional
        Name of the field with the boxes of these objects. If a box is removed, its mask is removed too. Default: all
        masks stay, even those that are not visible.
    picture : str, optional
        Name of the picture field. Default: the only picture field that is loaded.
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

    If an augmentation turns or shears a box, the result is the upright box around its moved corners. Boxes whose
    visible fraction is too small are removed. In the batch they are a list with one float32 array ``[boxes, 4]`` per
    row, in the same format.

    Parameters
    ----------
    format : "xyxy", "xywh" or "cxcywh", default "xyxy"
        Meaning of the four numbers. ``"xyxy"``: left, top, right, bottom. ``"xywh"``: left, top, width, height, as
        in COCO. ``"cxcywh"``: centre, width, height, as in YOLO.
    relative : bool, default False
        Coordinates are fractions of width and height: of the picture as stored, of the view in the batch. Default:
        coordinates are in pixels.
    visible : float, default 0
        Boxes with a smaller visible fraction of their area are removed. The fraction is the product of the fractions
        left by the view and by each augmentation. Boxes outside the view are always removed.
    picture : str, optional
        Name of the picture field. Default: the only picture field that is loaded.
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

    Points outside the view become ``0, 0, 0``, or NaN if they have no visibility. In the batch, points are a list
    with one float32 array per row.

    Parameters
    ----------
    swap : sequence of pair of int, optional
        Pairs of points that are exchanged when the view is mirrored, such as the left and the right hand.
    rows : str, optional
        Name of the field with the boxes of these objects. If a box is removed, its points are removed too.
    relative : bool, default False
        As in :func:`boxes`.
    picture : str, optional
        Name of the picture field. Default: the only picture field that is loaded.
    """
    pairs = "/".join(f"{operator.index(a)}-{operator.index(b)}" for a, b in swap)
    given = [("unit", "relative" if relative else None), ("swap", pairs or None)]
    return _text("keypoints", [*given, ("rows", rows), ("picture", picture)])


def polygons(*, rows: str | None = None, relative: bool = False, picture: str | None = None) -> str:
    """Polygons: an array ``[points, 2]`` or ``[polygons, points, 2]``, or JSON such as COCO's ``segmentation``.

    JSON has one list per object, and its innermost lists are ``x, y, x, y, …``. In the batch, each row has a float32
    array of the same shape, or lists of the same form. Polygons keep all their points and are not clipped at the
    borders of the view, so clip them when you draw them. Mirroring reverses the direction of a polygon. In arrays,
    polygons with fewer points end in NaN. In JSON, objects without lists (``None``, or the run lengths that COCO uses
    for crowds) become ``None``.

    Parameters
    ----------
    rows : str, optional
        Name of the field with the boxes of these objects. If a box is removed, its polygons are removed too.
        Default: all polygons stay, even those that are not visible.
    relative : bool, default False
        As in :func:`boxes`.
    picture : str, optional
        Name of the picture field. Default: the only picture field that is loaded.
    """
    return _text("polygons", [("unit", "relative" if relative else None), ("rows", rows), ("picture", picture)])


def rows_of(boxes: str) -> str:
    """An array with one row per box, such as classes ``[boxes]``. If a box is removed, its row is removed too.

    In the batch it is a list with one array of the stored type per row.

    Parameters
    ----------
    boxes : str
        Name of the field with the boxes.
    """
    return _text("rows", [("of", boxes)])


def _text(kind: str, options: Sequence[tuple[str, str | None]]) -> str:
    return ",".join([kind, *(f"{name}={value}" for name, value in options if value is not None)])
