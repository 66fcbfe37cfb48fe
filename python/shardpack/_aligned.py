"""Fields that follow their picture: what a loader is told of them, and what it should have been told."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from shardpack import _shardpack
from shardpack._arguments import _text
from shardpack._dataset import Dataset, Sample
from shardpack._warn import warn


def align_texts(align: Mapping[str, str | None] | None) -> list[tuple[str, str]]:
    """Fields that follow their picture, and how."""
    if align is None:
        return []
    if not isinstance(align, Mapping):
        raise TypeError(f"align: expected a mapping such as {{'mask': sp.align.mask()}}, found {align!r}")
    given = [(str(name), text) for name, text in align.items() if text is not None]
    return [(name, _text(f"align[{name!r}]", text, "boxes,format=xywh")) for name, text in given]


# A box may be three things, and only who made it knows which.
_BOXES = 'boxes("xyxy" | "xywh" | "cxcywh")'
# Nor does the name tell one mask of several channels from one for each object.
_MASKS = "mask() | instance_masks()"


# Words of names of arrays that hold places in a picture.
_PLACES = {
    "mask": "mask()", "masks": _MASKS, "segmentation": "mask()", "box": _BOXES, "boxes": _BOXES, "bbox": _BOXES,
    "bboxes": _BOXES, "keypoint": "keypoints()", "keypoints": "keypoints()", "landmarks": "keypoints()",
    "polygon": "polygons()", "polygons": "polygons()",
}  # fmt: skip
# Words of names of JSON that holds polygons.
_POLYGONS = {"polygon", "polygons", "segmentation", "segmentations"}
# Masks of other things than pictures.
_ELSEWHERE = {"attention", "padding", "token", "loss"}


def check_aligned(image: str, chosen: Sequence[str], dataset: Dataset, align: Mapping[str, str | None] | None) -> None:
    """Warns of arrays and JSON that say by their names where things are in a picture, beside a view that moves them.
    Refuses names that are none of the fields.
    """
    for name, text in (align or {}).items():
        if name not in chosen:
            raise _shardpack.UsageError(f"align: expected fields out of {', '.join(chosen)}, found {name!r}, as {text!r}")
    if image in ("full", "raw"):
        return
    kinds = {field.name: field.kind for field in dataset.schema}
    if not any(kinds[name] == "image" for name in chosen if name in kinds):
        return
    for name in chosen:
        place = _of_name(name)
        if place is None or name in (align or {}):
            continue
        if kinds.get(name) == "array":
            moves = f"align={{{name!r}: sp.align.{place}}} moves it along"
        elif kinds.get(name) == "json" and _POLYGONS.intersection(_words(name)):
            moves = f"align={{{name!r}: sp.align.polygons()}} moves it along"
        elif kinds.get(name) == "json":
            # Lists of a table of labels are JSON.
            moves = f'sp.Writer with schema={{{name!r}: "array:float32"}} stores such lists as an array, which align={{…}} moves along'
        else:
            continue
        warn(
            f"field `{name}` comes as it is stored, beside pictures that the view {image!r} crops, scales or mirrors\n"
            f"hint: {moves}; align={{{name!r}: None}} says that this is meant"
        )


def _of_name(name: str) -> str | None:
    """How an array follows its picture that says by its name where things are in it."""
    words = _words(name)
    if _ELSEWHERE.intersection(words):
        return None
    return next((_PLACES[word] for word in words if word in _PLACES), None)


def _words(name: str) -> list[str]:
    return re.split("[^a-z]+", name.lower())


# How many samples are looked at to find arrays that have a row for each box.
_LOOKED_AT = 8


def check_rows(chosen: Sequence[str], dataset: Dataset, align: Mapping[str, str | None] | None) -> None:
    """Refuses arrays that have a row for each box and do not follow the boxes: boxes out of sight are left out, and the
    rows would belong to others, without a word.
    """
    arrays = {field.name for field in dataset.schema if field.kind == "array"}
    boxes = [name for name, text in (align or {}).items() if name in arrays and text and text.split(",")[0] == "boxes"]
    others = [name for name in chosen if name in arrays and name not in (align or {})]
    if not boxes or not others or len(dataset) == 0:
        return
    samples = _some(dataset, [*boxes, *others])
    for name in others:
        for of in boxes:
            if _has_a_row_for_each(samples, name, of):
                by_name = {
                    "keypoints()": f"keypoints(rows={of!r})", "polygons()": f"polygons(rows={of!r})",
                    _MASKS: f"instance_masks(rows={of!r})", _BOXES: _BOXES,
                }  # fmt: skip
                follows = by_name.get(_of_name(name) or "", f"rows_of({of!r})")
                raise _shardpack.UsageError(
                    f"align: expected `{name}` to follow `{of}`, since it has a row for each box in the {len(samples)} samples "
                    f"looked at, and boxes out of sight are left out; found `{name}` as it is stored\n"
                    f"hint: align={{{name!r}: sp.align.{follows}}} leaves the same rows out, align={{{name!r}: None}} says that all are meant"
                )


def _some(dataset: Dataset, fields: Sequence[str]) -> list[Sample]:
    """These fields of a few samples, from all over the dataset. What cannot be read is not reported here: the loader does
    it when it comes to the sample, or passes over it.
    """
    samples = []
    for index in np.unique(np.linspace(0, len(dataset) - 1, _LOOKED_AT).astype(np.int64)).tolist():
        try:
            samples.append(dataset.get(index, fields))
        except (_shardpack.FormatError, _shardpack.LimitError, OSError):
            continue
    return samples


def _has_a_row_for_each(samples: Sequence[Sample], name: str, boxes: str) -> bool:
    """Whether an array has as many rows as there are boxes, in every sample. Arrays of one row beside single boxes tell
    nothing.
    """
    both = [(sample[name], sample[boxes]) for sample in samples if sample[name] is not None and sample[boxes] is not None]
    counts = {len(those) for _, those in both if those.ndim > 0}
    return (len(counts) > 1 or max(counts, default=0) > 1) and all(
        these.ndim > 0 and len(these) == len(those) for these, those in both
    )
