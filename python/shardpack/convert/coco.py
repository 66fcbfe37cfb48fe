"""Reads COCO datasets: a JSON annotation file and a folder of pictures."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

import numpy as np

from ._detection import check_inside, check_names, checked_size, folder, is_file, numbers, picture
from ._sizes import size_of
from ._source import ANY, Item, Problem, Sample, Source, SourceError, check_drop, option, shown
from ._values import parse_json

_OF_ANNOTATIONS = ("segmentation", "caption", "bbox", "category_id", "area", "iscrowd")
_IN_PIXELS = frozenset(["boxes", "area", "keypoints", "segmentation"])
"""Columns whose numbers depend on the size of the picture."""
_LOOKED_AT = 100
"""Maximum number of pictures to open to find their size, if the annotation file does not give it."""
_NEARLY_ALL = 0.95
_FEW = 8
"""Minimum number of boxes from which the format of the boxes is guessed."""
_LARGE = 1e9


def open(
    src: Union[str, "os.PathLike[str]"],
    *,
    drop: Collection[str] = (),
    images: Union[str, "os.PathLike[str]", None] = None,
    boxes: str | None = None,
    follow_links: bool = False,
) -> Source:
    """Open an annotation file, such as ``annotations/instances_val2017.json``.

    The key of a sample is its ``file_name``. Pictures without annotations also become samples. Columns: ``image``, the
    unchanged file; ``image_id``; ``boxes``, float32 ``[objects, 4]`` (left, top, width, height in pixels); ``classes``,
    int64 ``[objects]``, numbered from 0 in the order of the category ids (the names of the categories become the
    classes of the dataset); ``iscrowd``, which is 0 if the file does not give it; ``area``, if all annotations have
    one. Annotations without boxes have ``classes`` if they have a category. If the file has them, there are also
    ``keypoints``, float32 ``[objects, points, 3]``; ``segmentation`` as JSON, with a list of polygons or run lengths
    per object; and ``captions`` as JSON, a list of strings.

    Pixel coordinates refer to the upright picture, after its Exif orientation. A picture with such coordinates
    cannot be converted if the annotation file gives another ``width`` or ``height`` for it, or if a box lies wholly
    outside the picture.

    Parameters
    ----------
    src
        The JSON file.
    drop
        Columns to leave out.
    images
        The picture folder. Default: whichever of these folders contains the first picture: ``val2017`` (the last
        part of the file's name), ``images/val2017`` or ``images``, next to the file or next to its folder.
    boxes
        Format of a ``bbox``: ``"xywh"`` (left, top, width, height) or ``"xyxy"`` (left, top, right, bottom), which some
        programs write. Default: ``"xywh"``. It is an error if most boxes then extend beyond their pictures but would
        fit as ``"xyxy"``.
    follow_links
        Follow links that lead out of the picture folder. Default: they are refused.
    """
    if boxes not in (None, "xywh", "xyxy"):
        raise ValueError(f"boxes: expected 'xywh' or 'xyxy', found: {boxes!r}")
    path = Path(src)
    content = _read(path)
    pictures, annotations = content["images"], content.get("annotations", [])
    names, classes = _categories(path, content.get("categories", []))
    of_picture: defaultdict[int, list[Any]] = defaultdict(list)
    for annotation in annotations:
        if not isinstance(annotation, dict) or not _is_id(annotation.get("image_id")):
            raise SourceError(f"`{shown(path)}`: an annotation has no valid `image_id`: {str(annotation)[:100]}")
        of_picture[annotation["image_id"]].append(annotation)
    has = {name for name in _OF_ANNOTATIONS if any(name in one for one in annotations)}
    notes = []
    if without := sum("area" not in one for one in annotations):
        if "area" in has:
            notes.append(f"`{shown(path)}`: the areas are left out, because {without} of {len(annotations)} annotations have no area")
        has -= {"area"}
    points = _points(path, annotations)
    has |= {"keypoints"} if points else set()
    columns = ["image", "image_id"]
    located = "bbox" in has or not annotations
    columns += ["boxes"] if located else []
    columns += ["classes"] if located or "category_id" in has else []
    columns += ["area"] if "area" in has or not annotations else []
    columns += ["iscrowd"] if located or "iscrowd" in has else []
    columns += [name for name in ("keypoints", "segmentation") if name in has]
    columns += ["captions"] if "caption" in has else []
    check_drop(f"`{shown(path)}`", drop, columns)
    stray = set(of_picture) - {one.get("id") for one in pictures}
    if stray:
        raise SourceError(f"`{shown(path)}`: an annotation has an unknown `image_id` {min(stray, key=str)}")
    root = _folder(path, images, pictures, follow_links)
    if boxes is None and "boxes" in columns and "boxes" not in drop:
        _refuse_corners(path, root, pictures, of_picture, None if follow_links else root.resolve())
    reader = _Reader(root, columns, frozenset(drop), classes, points, boxes == "xyxy", follow_links)
    return Source(_samples(path, pictures, of_picture, reader), classes=names or None, total=len(pictures), notes=notes, numbered=frozenset(["classes"]))


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        if path.is_dir():
            raise SourceError(f"`{shown(path)}`: expected a COCO JSON file, found a folder\nhint: pass a JSON file of annotations")
        raise FileNotFoundError(2, "no such file", str(path))
    try:
        content = parse_json(path.read_bytes())
    except ValueError as error:
        raise SourceError(f"`{shown(path)}`: {error}") from None
    lists = ("images", "annotations", "categories")
    if not isinstance(content, dict) or not isinstance(content.get("images"), list):
        raise SourceError(f"`{shown(path)}`: not a COCO file: there is no `images` list")
    for name in lists:
        if not isinstance(content.get(name, []), list):
            raise SourceError(f"`{shown(path)}`: `{shown(name)}` must be a list, found: {type(content[name]).__name__}")
    for one in content["images"]:
        if not isinstance(one, dict) or not isinstance(one.get("file_name"), str) or not _is_id(one.get("id")):
            raise SourceError(f"`{shown(path)}`: a picture has no valid `id` or `file_name`: {str(one)[:100]}")
    for name in ("id", "file_name"):
        values = [one[name] for one in content["images"]]
        if len(set(values)) < len(values):
            twice = next(value for value in values if values.count(value) > 1)
            raise SourceError(f"`{shown(path)}`: two pictures have the same `{shown(name)}`: {twice!r}")
    if not content["images"]:
        raise SourceError(f"`{shown(path)}`: the `images` list is empty")
    return content


def _categories(path: Path, categories: Sequence[Any]) -> tuple[list[str], dict[Any, int]]:
    """Return the names of the classes, and a mapping from category id to class number."""
    for one in categories:
        if not isinstance(one, dict) or not isinstance(one.get("id"), int) or not isinstance(one.get("name"), str):
            raise SourceError(f"`{shown(path)}`: a category has no valid `id` or `name`: {str(one)[:100]}")
    ordered = sorted(categories, key=lambda one: one["id"])
    names = [one["name"] for one in ordered]
    ids = {one["id"]: number for number, one in enumerate(ordered)}
    if len(ids) < len(names) or len(set(names)) < len(names):
        raise SourceError(
            f"`{shown(path)}`: category ids and names must be unique (categories: {len(names)}, different ids: "
            f"{len(ids)}, different names: {len(set(names))})"
        )
    return check_names(names, f"`{shown(path)}`"), ids


def _is_id(value: object) -> bool:
    return isinstance(value, (int, str)) and not isinstance(value, bool)


def _points(path: Path, annotations: Sequence[Any]) -> int:
    """Return the number of keypoints per object, or 0 if there are none."""
    for one in annotations:
        points = one.get("keypoints")
        if points is not None and (not isinstance(points, list) or len(points) % 3):
            some = str(points)[:100]
            raise SourceError(f"`{shown(path)}`: `keypoints` must be a list with 3 numbers per point, found: {some}")
        if points:
            return len(points) // 3
    return 0


def _folder(
    path: Path, images: Union[str, "os.PathLike[str]", None], pictures: Sequence[Mapping[str, Any]], follow: bool
) -> Path:
    if images is not None:
        return folder(Path(images), "with the pictures (`images`)")
    split = path.stem.rpartition("_")[2]
    beside = [path.parent, path.parent.parent]
    places = [base / name for base in beside for name in (split, f"images/{split}", "images", "")]
    first = pictures[0]["file_name"]
    found = next((place for place in places if is_file(place / first)), None)
    if found is None:
        raise SourceError(
            f"`{shown(path)}`: cannot find the picture `{shown(first)}` next to this file, in the folder above, "
            f"or in `{shown(split)}`, `images` or `images/{shown(split)}` under these two folders\n"
            f"hint: pass the folder with the pictures: {option(images=ANY)}"
        )
    # The annotation file is in the dataset's folder or a subfolder of it, so accept links within the parent folder.
    return folder(found, "with the pictures", None if follow else path.parent.parent.resolve())


def _refuse_corners(
    path: Path, root: Path, pictures: Sequence[Mapping[str, Any]], of_picture: Mapping[Any, Sequence[Mapping[str, Any]]], inside: Path | None
) -> None:
    """Raise an error if the boxes of a file are most likely given as left, top, right, bottom."""
    found: list[list[float]] = []
    edges: list[tuple[Any, Any]] = []
    looked_at = 0
    for one in pictures:
        boxes = [annotation["bbox"] for annotation in of_picture.get(one["id"], ()) if _is_box(annotation.get("bbox"))]
        sides = (one.get("width"), one.get("height"))
        if boxes and not all(sides) and looked_at < _LOOKED_AT:
            looked_at += 1
            sides = _sides(root / one["file_name"], inside)
        if all(isinstance(side, (int, float)) and 0 < side < _LARGE for side in sides):
            found += boxes
            edges += [sides] * len(boxes)
    # Boxes of objects at the edge may extend beyond the picture, so a few such boxes prove nothing.
    if len(found) < _FEW:
        return
    numbers, edge = np.array(found, np.float64), np.array(edges, np.float64) + 1
    low, high = numbers[:, :2], numbers[:, 2:]
    beyond = int((low + high > edge).any(axis=1).sum())
    as_corners = ((high >= low) & (high <= edge)).all(axis=1).mean()
    if beyond > len(found) / 2 and as_corners >= _NEARLY_ALL:
        raise SourceError(
            f"`{shown(path)}`: {beyond} of {len(found)} boxes extend beyond their pictures if read as left, top, width, height\n"
            f"hint: pass {option(boxes='xyxy')} if they are left, top, right, bottom, or {option(boxes='xywh')} to convert them as they are"
        )


def _is_box(box: object) -> bool:
    return isinstance(box, list) and len(box) == 4 and all(isinstance(side, (int, float)) and abs(side) < _LARGE for side in box)


def _sides(file: Path, inside: Path | None) -> tuple[int, int] | tuple[None, None]:
    """Return the width and height of a picture, or ``(None, None)`` if it cannot be read."""
    try:
        size = size_of(picture(file, inside))
    except ValueError:
        # Reading the sample will raise the error.
        size = None
    return size.upright[::-1] if size is not None else (None, None)


class _Reader:

    def __init__(
        self, root: Path, columns: Sequence[str], drop: frozenset[str], classes: Mapping[Any, int], points: int, corners: bool, follow: bool
    ) -> None:
        self.root, self.columns, self.classes, self.points, self.corners = root, columns, classes, points, corners
        self.taken = frozenset(columns) - drop
        self.inside = None if follow else root.resolve()

    def read(self, one: Mapping[str, Any], annotations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        values: dict[str, Any] = {"image": picture(self.root / one["file_name"], self.inside), "image_id": one["id"]}
        size = None
        if annotations and self.taken & _IN_PIXELS:
            size = checked_size(values["image"], one.get("height"), one.get("width"))
        if "classes" in self.columns:
            for annotation in annotations:
                category = annotation.get("category_id")
                if not isinstance(category, int) or category not in self.classes:
                    raise ValueError(f"unknown `category_id`: {annotation.get('category_id')!r}")
            values["classes"] = np.array([self.classes[one["category_id"]] for one in annotations], np.int64)
        if "boxes" in self.columns:
            boxes = values["boxes"] = numbers([annotation.get("bbox") for annotation in annotations], 4, "a `bbox`")
            if self.corners:
                boxes[:, 2:] -= boxes[:, :2]
            if (boxes[:, 2:] < 0).any():
                row = int(np.argmax((boxes[:, 2:] < 0).any(axis=1)))
                wrong = "has x0 > x1 or y0 > y1" if self.corners else "has a negative width or height"
                raise ValueError(f"a `bbox` {wrong}: {annotations[row]['bbox']}")
            corners = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
            if "boxes" in self.taken:
                check_inside(corners, size, "a `bbox`", [annotation["bbox"] for annotation in annotations])
        if "iscrowd" in self.columns:
            for one in annotations:
                if one.get("iscrowd", 0) not in (0, 1):
                    raise ValueError(f"`iscrowd` must be 0 or 1, found: {one['iscrowd']!r}")
            values["iscrowd"] = np.array([one.get("iscrowd", 0) for one in annotations], np.uint8)
        if "area" in self.columns:
            values["area"] = numbers([[annotation["area"]] for annotation in annotations], 1, "an `area`")[:, 0]
        if "keypoints" in self.columns:
            width = self.points * 3
            points = [annotation.get("keypoints") or [0] * width for annotation in annotations]
            values["keypoints"] = numbers(points, width, "`keypoints`").reshape(-1, self.points, 3)
        if "segmentation" in self.columns:
            values["segmentation"] = [annotation.get("segmentation") for annotation in annotations]
        if "captions" in self.columns:
            captions = [annotation.get("caption", "") for annotation in annotations]
            for caption in captions:
                if not isinstance(caption, str):
                    raise ValueError(f"`caption` must be text, found: {str(caption)[:100]}")
            values["captions"] = captions
        return values


def _samples(
    path: Path, pictures: Sequence[Mapping[str, Any]], of_picture: Mapping[int, list[Any]], reader: _Reader
) -> Iterator[Item]:
    for one in pictures:
        where = f"`{shown(path)}`, picture `{shown(one['file_name'])}`"
        try:
            values = reader.read(one, of_picture.get(one["id"], []))
        except (ValueError, OSError) as error:
            yield Problem(f"{where}: {error}")
            continue
        yield Sample(one["file_name"], values, where)
