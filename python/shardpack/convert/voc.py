"""Reads Pascal VOC: a folder with ``JPEGImages``, ``Annotations`` and ``ImageSets``."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Union
from xml.etree import ElementTree

import numpy as np

from ._detection import PICTURES, check_inside, check_names, checked_size, class_numbers, data, folder, is_file, numbers, picture, text
from ._source import Item, Problem, Sample, Source, SourceError, check_drop, shown

_CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog", "horse",
    "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip


def open(
    src: Union[str, "os.PathLike[str]"],
    *,
    drop: Collection[str] = (),
    split: str | None = None,
    names: Sequence[str] | None = None,
    masks: Union[str, None] = None,
    follow_links: bool = False,
) -> Source:
    """Open a folder such as ``VOCdevkit/VOC2012``.

    The key of a sample is the name of its picture. Columns: ``image``, the unchanged file; ``boxes``, float32
    ``[objects, 4]``: left, top, right, bottom in pixels from the left and upper edge (VOC counts pixels from 1, so 1 is
    subtracted from left and top); ``classes``, int64 ``[objects]``; ``difficult`` and ``truncated``, uint8
    ``[objects]``. With `masks` also ``mask``, uint8 ``[height, width]``: palette indices of the PNG (255 is the
    border).

    Pixel coordinates refer to the upright picture, after its Exif orientation. A picture with objects cannot be
    converted if its annotations give another ``size``, or if a box lies wholly outside the picture.

    Parameters
    ----------
    src
        The folder.
    drop
        Columns to leave out.
    split
        ``"train"``, ``"val"`` …: the name of a list in ``ImageSets/Main``, or with `masks` in
        ``ImageSets/Segmentation``. Default: all pictures that have annotations.
    names
        Class names in order. Default: the twenty class names of VOC.
    masks
        The folder of masks, ``"SegmentationClass"`` or ``"SegmentationObject"``. Only pictures with a mask are
        converted.
    follow_links
        Follow links that lead out of the folder. Default: they are refused.
    """
    root = folder(Path(src), "of a VOC dataset")
    inside = None if follow_links else root.resolve()
    pictures = folder(root / "JPEGImages", "with the pictures", inside)
    annotations = folder(root / "Annotations", "with the annotations", inside)
    if masks is not None:
        folder(root / masks, "of masks", inside)
    check_drop(f"`{shown(root)}`", drop, ["image", "boxes", "classes", "difficult", "truncated", *(["mask"] if masks else [])])
    classes = check_names(names or _CLASSES, "names")
    keys = _keys(root, annotations, split, masks, inside)
    numbered = {name: number for number, name in enumerate(classes)}
    reader = _Reader(pictures, annotations, numbered, masks and root / masks, "boxes" not in drop, inside)
    taken = frozenset(["mask"]) if masks and "mask" not in drop else None
    return Source(_samples(root, keys, reader), classes=classes, total=len(keys), masks=taken, numbered=frozenset(["classes"]))


def _keys(root: Path, annotations: Path, split: str | None, masks: str | None, inside: Path | None) -> list[str]:
    if split is not None:
        path = root / "ImageSets" / ("Segmentation" if masks else "Main") / f"{split}.txt"
        if not path.is_file():
            there = sorted(file.stem for file in path.parent.glob("*.txt") if "_" not in file.stem)
            hint = "omit `split` to convert all pictures with annotations"
            hint = f"pass one of these as `split`: {', '.join(there)}" if there else hint
            raise SourceError(f"`{shown(path)}`: no such list of pictures\nhint: {hint}")
        # The list of a class, such as `cat_train`, names all pictures, with -1 after pictures without the class.
        try:
            lines = [line.split() for line in text(path, inside).splitlines() if line.strip()]
        except ValueError as error:
            raise SourceError(f"`{shown(path)}`: {error}") from None
        keys = [words[0] for words in lines if words[-1] != "-1"]
    else:
        of = root / masks if masks else annotations
        keys = sorted(file.stem for file in of.iterdir() if file.suffix in (".xml", ".png"))
    if not keys:
        raise SourceError(
            f"`{shown(root)}`: found no pictures to convert\n"
            "hint: with `split`, check its list in `ImageSets`; without it, check that there are annotations"
        )
    return keys


class _Reader:

    def __init__(
        self, pictures: Path, annotations: Path, classes: dict[str, int], masks: Path | None | str, located: bool, inside: Path | None
    ) -> None:
        self.pictures, self.annotations, self.classes, self.located = pictures, annotations, classes, located
        self.masks = Path(masks) if masks else None
        self.inside = inside

    def read(self, key: str) -> tuple[str, dict[str, Any]]:
        if Path(key).name != key:
            raise ValueError(f"expected a picture name without a folder, found: {key!r}")
        file = next((path for path in (self.pictures / (key + suffix) for suffix in PICTURES) if is_file(path)), None)
        if file is None:
            raise ValueError(f"no picture `{shown(key)}.jpg` in `{shown(self.pictures)}`")
        objects, (height, width) = _objects(self.annotations / f"{key}.xml", self.inside)
        boxes = numbers([one[1] for one in objects], 4, "a `bndbox`")
        boxes[:, :2] -= 1
        if (boxes[:, 2:] < boxes[:, :2]).any():
            raise ValueError(f"a box in `{shown(key)}.xml` has `xmin` > `xmax` or `ymin` > `ymax`")
        content = picture(file, self.inside)
        if objects and self.located:
            size = checked_size(content, height, width)
            check_inside(boxes, size, "a `bndbox` (xmin, ymin, xmax, ymax)", [one[1] for one in objects])
        values: dict[str, Any] = {
            "image": content,
            "boxes": boxes,
            "classes": class_numbers([one[0] for one in objects], self.classes),
            "difficult": np.array([one[2] for one in objects], np.uint8),
            "truncated": np.array([one[3] for one in objects], np.uint8),
        }
        if self.masks is not None:
            values["mask"] = picture(self.masks / f"{key}.png", self.inside)
        return file.name, values


_Object = tuple[str, list[float], bool, bool]


def _objects(path: Path, inside: Path | None) -> tuple[list[_Object], tuple[float | None, float | None]]:
    """Return the class, box, and flags `difficult` and `truncated` of each object, and the height and width of the
    picture (None if not given).
    """
    # Parse bytes, because an XML file declares its own encoding.
    try:
        tree = ElementTree.fromstring(data(path, inside), ElementTree.XMLParser(target=_Plain()))
    except (ElementTree.ParseError, LookupError, UnicodeError) as error:
        raise ValueError(f"`{shown(path.name)}` is not valid XML: {error}") from None
    except _DocumentType:
        raise ValueError(
            f"`{shown(path.name)}` has a document type declaration (`<!DOCTYPE …>`), which is not supported\n"
            "hint: remove the declaration from the file"
        ) from None
    found = []
    for one in tree.iter("object"):
        name, box = one.findtext("name"), one.find("bndbox")
        if name is None or box is None:
            raise ValueError(f"an object in `{shown(path.name)}` lacks a `name` or a `bndbox`")
        sides = []
        for side in ("xmin", "ymin", "xmax", "ymax"):
            sides.append(_side(path, box, side))
        flags = [one.findtext(flag, "0").strip() == "1" for flag in ("difficult", "truncated")]
        found.append((name.strip(), sides, flags[0], flags[1]))
    said = tree.find("size")
    height, width = (None if said is None or not (said.findtext(name) or "").strip() else _side(path, said, name) for name in ("height", "width"))
    return found, (height, width)


class _DocumentType(Exception):
    """Raised for a document type declaration, in any encoding, before its entities are declared."""


class _Plain(ElementTree.TreeBuilder):
    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise _DocumentType


def _side(path: Path, parent: ElementTree.Element, name: str) -> float:
    try:
        found = float(parent.findtext(name, ""))
    except ValueError:
        given = parent.findtext(name)
        raise ValueError(f"`{shown(name)}` in `{shown(path.name)}` must be a number, found: {given!r}") from None
    return int(found) if found.is_integer() else found


def _samples(root: Path, keys: Sequence[str], reader: _Reader) -> Iterator[Item]:
    for key in keys:
        where = f"`{shown(root)}`, picture `{shown(key)}`"
        try:
            name, values = reader.read(key)
        except (ValueError, OSError) as error:
            yield Problem(f"{where}: {error}")
            continue
        yield Sample(name, values, where)
