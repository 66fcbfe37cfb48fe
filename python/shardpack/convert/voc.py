"""Pascal VOC: a folder with ``JPEGImages``, ``Annotations`` and ``ImageSets``."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Union
from xml.etree import ElementTree

import numpy as np

from ._detection import PICTURES, check_names, class_numbers, data, folder, numbers, picture, text
from ._source import Item, Problem, Sample, Source, SourceError, check_drop

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
) -> Source:
    """Open a folder such as ``VOCdevkit/VOC2012``.

    The key is the name of the picture. Columns: ``image``, to the byte; ``boxes``, float32 ``[objects, 4]``: left, top,
    right, bottom in pixels from the left and upper edge (VOC counts pixels from 1, so 1 is taken off left and top);
    ``classes``, int64 ``[objects]``; ``difficult`` and ``truncated``, uint8 ``[objects]``; with `masks` also ``mask``,
    uint8 ``[height, width]``, as the palette of the PNG numbers classes (255: border).

    Parameters
    ----------
    src
        The folder.
    drop
        Columns to leave out.
    split
        ``"train"``, ``"val"`` …: a list in ``ImageSets/Main`` (with `masks` in ``ImageSets/Segmentation``). Default: all
        pictures that have annotations.
    names
        Names of the classes, in order. Default: the twenty of VOC.
    masks
        The folder of masks, ``"SegmentationClass"`` or ``"SegmentationObject"``: pictures that have one.
    """
    root = folder(Path(src), "of VOC")
    pictures = folder(root / "JPEGImages", "of the pictures")
    annotations = folder(root / "Annotations", "of the annotations")
    if masks is not None:
        folder(root / masks, "of masks")
    check_drop(f"`{root}`", drop, ["image", "boxes", "classes", "difficult", "truncated", *(["mask"] if masks else [])])
    classes = check_names(names or _CLASSES, "names")
    keys = _keys(root, annotations, split, masks)
    reader = _Reader(pictures, annotations, {name: number for number, name in enumerate(classes)}, masks and root / masks)
    taken = frozenset(["mask"]) if masks and "mask" not in drop else None
    return Source(_samples(root, keys, reader), classes=classes, total=len(keys), masks=taken)


def _keys(root: Path, annotations: Path, split: str | None, masks: str | None) -> list[str]:
    if split is not None:
        path = root / "ImageSets" / ("Segmentation" if masks else "Main") / f"{split}.txt"
        if not path.is_file():
            there = sorted(file.stem for file in path.parent.glob("*.txt") if "_" not in file.stem)
            raise SourceError(f"`{path}`: expected a list of pictures, found none\nhint: split is one of {', '.join(there) or 'none'}")
        # The list of a class, `cat_train`, names all pictures, and says by -1 which have none.
        lines = [line.split() for line in text(path).splitlines() if line.strip()]
        keys = [words[0] for words in lines if words[-1] != "-1"]
    else:
        of = root / masks if masks else annotations
        keys = sorted(file.stem for file in of.iterdir() if file.suffix in (".xml", ".png"))
    if not keys:
        raise SourceError(f"`{root}`: expected pictures with annotations, found none")
    return keys


class _Reader:
    """Makes the values of a picture."""

    def __init__(self, pictures: Path, annotations: Path, classes: dict[str, int], masks: Path | None | str) -> None:
        self.pictures, self.annotations, self.classes = pictures, annotations, classes
        self.masks = Path(masks) if masks else None

    def read(self, key: str) -> tuple[str, dict[str, Any]]:
        if Path(key).name != key:
            raise ValueError(f"expected the name of a picture, found: {key!r}")
        file = next((path for path in (self.pictures / (key + suffix) for suffix in PICTURES) if path.is_file()), None)
        if file is None:
            raise ValueError(f"expected a picture `{key}.jpg` in `{self.pictures}`, found none")
        objects = _objects(self.annotations / f"{key}.xml")
        boxes = numbers([one[1] for one in objects], 4, "a `bndbox`")
        boxes[:, :2] -= 1
        if (boxes[:, 2:] < boxes[:, :2]).any():
            raise ValueError(f"expected `xmin` and `ymin` below `xmax` and `ymax` in `{key}.xml`, found others")
        values: dict[str, Any] = {
            "image": picture(file),
            "boxes": boxes,
            "classes": class_numbers([one[0] for one in objects], self.classes),
            "difficult": np.array([one[2] for one in objects], np.uint8),
            "truncated": np.array([one[3] for one in objects], np.uint8),
        }
        if self.masks is not None:
            values["mask"] = (self.masks / f"{key}.png").read_bytes()
        return file.name, values


def _objects(path: Path) -> list[tuple[str, list[float], bool, bool]]:
    """Class, box, difficult, truncated of each object."""
    # Not as text: XML says itself how it is encoded.
    content = data(path)
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise ValueError(f"expected plain XML in `{path.name}`, found a document type, which may stand for anything")
    try:
        tree = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise ValueError(f"expected XML in `{path.name}`, found: {error}") from None
    found = []
    for one in tree.iter("object"):
        name, box = one.findtext("name"), one.find("bndbox")
        if name is None or box is None:
            raise ValueError(f"expected objects with `name` and `bndbox` in `{path.name}`, found one without")
        sides = []
        for side in ("xmin", "ymin", "xmax", "ymax"):
            try:
                sides.append(float(box.findtext(side, "")))
            except ValueError:
                raise ValueError(f"expected a number `{side}` in `{path.name}`, found: {box.findtext(side)!r}") from None
        flags = [one.findtext(flag, "0").strip() == "1" for flag in ("difficult", "truncated")]
        found.append((name.strip(), sides, flags[0], flags[1]))
    return found


def _samples(root: Path, keys: Sequence[str], reader: _Reader) -> Iterator[Item]:
    for key in keys:
        where = f"`{root}`, picture `{key}`"
        try:
            name, values = reader.read(key)
        except (ValueError, OSError) as error:
            yield Problem(f"{where}: {error}")
            continue
        yield Sample(name, values, where)
