"""Checks the option ``align=``, which names the fields that are cropped and scaled with their picture."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from shardpack import _shardpack
from shardpack._arguments import _text
from shardpack._dataset import Dataset, Sample
from shardpack._warn import warn


def align_texts(align: Mapping[str, str | None] | None) -> list[tuple[str, str]]:
    """Return the ``align`` mapping as (field, text) pairs. Fields set to ``None`` are left out."""
    if align is None:
        return []
    if not isinstance(align, Mapping):
        raise TypeError(f"align: expected a mapping such as {{'mask': sp.align.mask()}}, found {align!r}")
    given = [(str(name), text) for name, text in align.items() if text is not None]
    return [(name, _text(f"align[{name!r}]", text, "boxes,format=xywh")) for name, text in given]


# The format of a box cannot be told from its four numbers.
_BOXES = 'boxes("xyxy" | "xywh" | "cxcywh")'
# The field name does not tell whether an array is one mask with several channels, or one mask per object.
_MASKS = "mask() | instance_masks()"


# Words in field names that suggest an array in picture coordinates.
_PLACES = {
    "mask": "mask()", "masks": _MASKS, "segmentation": "mask()", "box": _BOXES, "boxes": _BOXES, "bbox": _BOXES,
    "bboxes": _BOXES, "keypoint": "keypoints()", "keypoints": "keypoints()", "landmarks": "keypoints()",
    "polygon": "polygons()", "polygons": "polygons()",
}  # fmt: skip
# Words in field names that suggest polygons in JSON.
_POLYGONS = {"polygon", "polygons", "segmentation", "segmentations"}
# If a name has one of these words, its "mask" is not a picture mask.
_ELSEWHERE = {"attention", "padding", "token", "loss"}


# Prefixes of the augmentations that move pixels.
_MOVES = ("random_affine", "random_rotation", "trivial_augment_wide", "rand_augment")


def check_aligned(
    image: str,
    augment: str | None,
    chosen: Sequence[str],
    dataset: Dataset,
    align: Mapping[str, str | None] | None,
) -> None:
    """Warn about fields named like ``boxes`` that are not aligned, although the view or an augmentation moves the
    pixels of their picture.

    Raises ``UsageError`` if ``align`` names a field that is not loaded.
    """
    for name in align or {}:
        if name not in chosen:
            raise _shardpack.UsageError(f"`align` refers to the field {name!r}, but the loader loads only {', '.join(chosen)}")
    moving = next((word for word in _MOVES if word in (augment or "")), None)
    if image == "raw" or (image == "full" and moving is None):
        return
    kinds = {field.name: field.kind for field in dataset.schema}
    if not any(kinds[name] == "image" for name in chosen if name in kinds):
        return
    changed = f"`{moving}` transforms" if image == "full" else f"the view {image!r} crops, scales or mirrors"
    for name in chosen:
        place = _of_name(name)
        if place is None or name in (align or {}):
            continue
        if kinds.get(name) == "array":
            moves = f"pass align={{{name!r}: sp.align.{place}}} to align it"
        elif kinds.get(name) == "json" and _POLYGONS.intersection(_words(name)):
            moves = f"pass align={{{name!r}: sp.align.polygons()}} to align it"
        elif kinds.get(name) == "json":
            # Packing stores lists from a table of labels as JSON. Only polygons can be aligned as JSON.
            moves = f'pass schema={{{name!r}: "array:float32"}} to sp.Writer to store the field as an array, so that align={{…}} can align it'
        else:
            continue
        warn(
            f"field `{name}` is not aligned with its picture, which {changed}\n"
            f"hint: {moves}, or pass align={{{name!r}: None}} to turn this warning off"
        )


def _of_name(name: str) -> str | None:
    """Return the ``sp.align`` function that a field name suggests, or ``None``."""
    words = _words(name)
    if _ELSEWHERE.intersection(words):
        return None
    return next((_PLACES[word] for word in words if word in _PLACES), None)


def _words(name: str) -> list[str]:
    return re.split("[^a-z]+", name.lower())


# Number of samples to read when looking for arrays with one row per box.
_LOOKED_AT = 8


def check_rows(chosen: Sequence[str], dataset: Dataset, align: Mapping[str, str | None] | None) -> None:
    """Refuse arrays with one row per box unless they are aligned with the boxes.

    Boxes outside the view are removed, so the rows of such an array would silently belong to other boxes.
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
                    f"align: `{name}` has one row for each box of `{of}` in the {len(samples)} samples checked, but is not aligned: "
                    f"the loader removes boxes outside the view, so the rows of `{name}` would no longer match the boxes\n"
                    f"hint: pass align={{{name!r}: sp.align.{follows}}} to remove the same rows, or pass align={{{name!r}: None}} to keep all rows"
                )


def _some(dataset: Dataset, fields: Sequence[str]) -> list[Sample]:
    """Read these fields from a few samples spread over the dataset. Skip unreadable samples, because the loader handles
    them later.
    """
    samples = []
    for index in np.unique(np.linspace(0, len(dataset) - 1, _LOOKED_AT).astype(np.int64)).tolist():
        try:
            samples.append(dataset.get(index, fields))
        except (_shardpack.FormatError, _shardpack.LimitError, OSError):
            continue
    return samples


def _has_a_row_for_each(samples: Sequence[Sample], name: str, boxes: str) -> bool:
    """True if the array has one row per box in every sample, and at least one sample has several boxes."""
    both = [(sample[name], sample[boxes]) for sample in samples if sample[name] is not None and sample[boxes] is not None]
    counts = {len(those) for _, those in both if those.ndim > 0}
    return (len(counts) > 1 or max(counts, default=0) > 1) and all(
        these.ndim > 0 and len(these) == len(those) for these, those in both
    )
