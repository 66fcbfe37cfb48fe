"""Maps columns of a source to fields of the dataset, with their names, kinds and text labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._shardpack import is_mask
from ._masks import check_size, class_numbers
from ._source import ANY, Source, SourceError, option, refuse_columns, same, shown
from ._values import kind_of

IMAGE_NAMES = ("image", "images", "img", "jpg", "jpeg", "picture", "image/encoded", "image_raw", "pixels")
LABEL_NAMES = ("label", "labels", "cls", "class", "target", "targets", "image/class/label", "class_id")

_OF_PICTURES = ("height", "width", "orientation", "gpu_jpeg", "icc")
"""Names of the fields that the writer adds for a picture."""

_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass
class Fields:
    """Holds the caller's options for columns and, after the first sample, the field of each column."""

    rename: Mapping[str, str]
    image: str | None
    label: str | None
    drop: frozenset[str]
    schema: Mapping[str, str]
    classes: Sequence[str] | None
    convention: Callable[[str], str] = same
    """Returns the field name for a column, by the naming convention of the format."""
    names: dict[str, str] = field(default_factory=dict)
    """Mapping from column to field name."""
    kinds: dict[str, str] = field(default_factory=dict)
    """Mapping from field name to kind."""
    dropped: dict[str, int] = field(default_factory=dict)
    """For each column in `drop`, the number of samples that had it."""
    masks: dict[str, str] = field(default_factory=dict)
    """Mapping from each field that holds class numbers to its column."""
    mask_types: dict[str, np.dtype[Any]] = field(default_factory=dict)
    """Mapping from each field that holds class numbers to its element type, from `schema` or from the first sample."""
    whole_labels: bool = False
    """True if the source stores class numbers as floats."""
    notes: list[str] = field(default_factory=list)
    known: Mapping[str, str] | None = None
    """Mapping from field name to kind in the dataset being appended to. None for a new dataset."""

    def settle(self, source: Source, first: Mapping[str, Any], where: str) -> None:
        """Determine the names and kinds of the fields from the source's declarations and its first sample.

        Raises
        ------
        SourceError
            If columns cannot be stored (the message lists all of them), two columns get the same name, or a given
            name does not exist.
        """
        self.convention = source.field_name
        self.dropped = dict.fromkeys(sorted(self.drop), 0)
        columns = [c for c in [*source.kinds, *(c for c in first if c not in source.kinds)] if c not in self.drop]
        self.names = self._names(source, columns, where)
        if self.classes is None:
            self.classes = self._classes(source)
        for name in self.schema:
            if name not in self.names.values():
                raise SourceError(
                    f"{where}: `schema` names an unknown field {name!r}; the fields are {list(self.names.values())}"
                )
        if self.known is not None:
            self._fit(self.known, where)
        self.masks = self._masks(source.masks or frozenset(), where)
        refused: dict[str, str] = {}
        for column, name in self.names.items():
            if name in self.masks:
                self.kinds[name] = self.schema.get(name) or (self.known or {}).get(name) or "array"
                continue
            try:
                self.kinds[name] = self.schema.get(name) or self._known(source, column, name, first) or self._kind(source, column, name, first)
            except SourceError as error:
                refused[column] = str(error)
        refuse_columns(where, refused)
        self._refuse_reserved(where)
        self.notes += [
            _mask_note(column, name, source.masks is not None)
            for column, name in self.names.items()
            if self.kinds[name] == "image" and name not in self.schema and is_mask(name)
        ]

    def _fit(self, known: Mapping[str, str], where: str) -> None:
        """Raise an error unless the columns map exactly to the fields of the dataset being appended to."""
        for column, name in self.names.items():
            if name not in known:
                raise SourceError(
                    f"{where}: the dataset has no field `{shown(name)}` for the column {column!r}; its fields are {', '.join(known)}\n"
                    f"hint: pass {option(drop=[column])} to leave the column out, or {option(rename={column: ANY})} to store it in "
                    "another field"
                )
        for name, kind in known.items():
            if name not in self.names.values():
                found = ", ".join(repr(column) for column in self.names) or "none"
                raise SourceError(f"{where}: the dataset has a field `{shown(name)}` of kind {kind}, but the source has no column for it; the columns are {found}")

    def _known(self, source: Source, column: str, name: str, first: Mapping[str, Any]) -> str | None:
        """Return the kind of a field in the dataset being appended to."""
        kind = (self.known or {}).get(name)
        if kind is not None and name == "label" and "int" in kind and not isinstance(first.get(column), str):
            found = source.kinds.get(column) or kind_of(name, first.get(column))
            self.whole_labels = found.startswith("float")
        return kind

    def _masks(self, given: frozenset[str], where: str) -> dict[str, str]:
        """Return a mapping from field to column for the masks. The caller may name a mask by field or by column. Raise
        an error if a name is unknown, or if `schema` gives it another kind.
        """
        found: dict[str, str] = {}
        for mask in sorted(given):
            column = next((column for column, name in self.names.items() if mask in (column, name)), None)
            if column is None:
                known = ", ".join(map(repr, self.names)) or "none"
                raise SourceError(f"{where}: `masks` names an unknown column {mask!r}; the columns are {known}")
            name = self.names[column]
            if not self.schema.get(name, "array").startswith("array"):
                raise SourceError(f"{where}: `masks` stores {name!r} as an array, but `schema` says {self.schema[name]!r}")
            found[name] = column
        return found

    def decoded(self, sample: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a sample by field, with masks as class numbers. Raise an error if a value is not a mask or differs in
        size from its picture.
        """
        if not self.masks:
            return sample
        pictures = [sample[name] for name, kind in self.kinds.items() if kind == "image"]
        return dict(sample) | {name: self._mask(name, sample[name], pictures) for name in self.masks}

    def _mask(self, name: str, value: Any, pictures: Sequence[Any]) -> Any:
        numbers = class_numbers(self.masks[name], value)
        if numbers is None:
            return None
        check_size(self.masks[name], numbers, pictures)
        if name not in self.mask_types:
            # No lock is needed here, because the first sample is written before other threads start.
            said = self.kinds[name].partition(":")[2]
            self.mask_types[name] = np.dtype(said or numbers.dtype)
        wanted = self.mask_types[name]
        if not np.can_cast(numbers.dtype, wanted):
            wide = np.promote_types(numbers.dtype, wanted)
            hint = f"\nhint: pass {option(schema={name: f'array:{wide}'})} to store all masks as {wide}"
            raise SourceError(
                f"column {self.masks[name]!r}: the mask has {numbers.dtype} class numbers, but field `{shown(name)}` "
                f"stores {wanted}{hint if self.known is None else ''}"
            )
        return numbers.astype(wanted, copy=False)

    def _refuse_reserved(self, where: str) -> None:
        """Raise an error for columns whose names the writer uses for picture sizes."""
        if list(self.kinds.values()).count("image") != 1:
            return
        columns = [column for column, name in self.names.items() if name in _OF_PICTURES]
        if columns:
            renamed = {column: f"source_{self.names[column]}" for column in columns}
            raise SourceError(
                f"{where}: the source has columns whose fields have reserved names: {', '.join(columns)}; the fields "
                f"{', '.join(_OF_PICTURES)} are derived from the picture\n"
                f"hint: pass {option(drop=columns)} to leave the columns out, or {option(rename=renamed)}"
            )

    def _classes(self, source: Source) -> Sequence[str] | None:
        if not isinstance(source.classes, Mapping):
            return source.classes or None
        labels = [column for column, name in self.names.items() if name == "label"]
        return (source.classes.get(labels[0]) or None) if labels else None

    def _kind(self, source: Source, column: str, name: str, first: Mapping[str, Any]) -> str:
        if name == "label" and self.classes is not None and isinstance(first.get(column), str):
            return "int64"
        kind = source.kinds.get(column) or kind_of(name, first.get(column))
        if name == "label" and self.classes is not None and kind.startswith("float"):
            # Many programs store even class numbers as floats.
            self.whole_labels = True
            return "int64"
        return kind

    def _names(self, source: Source, columns: Sequence[str], where: str) -> dict[str, str]:
        said = {column: name for column, name in ((self.image, "image"), (self.label, "label")) if column is not None}
        said |= self.rename
        for column in said:
            if column in self.drop:
                raise SourceError(f"{where}: column {column!r} is in `drop`, so it cannot become field `{shown(said[column])}`")
            if column not in columns:
                none = ": `drop` leaves out all its columns" if self.drop else ": it has no columns at all"
                known = f"; its columns are {', '.join(map(repr, columns))}" if columns else none
                raise SourceError(f"{where}: the source has no column {column!r}{known}")
        names = {column: said.get(column) or field_name(source.field_name(column)) for column in columns}
        for name, usual in (("image", IMAGE_NAMES), ("label", LABEL_NAMES)):
            found = [column for column in columns if column in usual and column not in said]
            if name not in names.values() and len(found) == 1:
                names[found[0]] = name
        taken: dict[str, str] = {}
        for column, name in names.items():
            if name in taken:
                raise SourceError(
                    f"{where}: columns {taken[name]!r} and {column!r} would both become field `{shown(name)}`\n"
                    f"hint: pass {option(rename={column: f'{name}_2'})}{_if_masks(source, column, name)}"
                )
            taken[name] = column
        return names

    def take(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return one sample by field. Raise an error if a column is missing, or if the first sample did not have it."""
        sample: dict[str, Any] = {}
        for column, value in values.items():
            if column in self.drop:
                self.dropped[column] += 1
                continue
            name = self._name(column)
            if name in sample:
                other = next(c for c in values if c not in self.drop and self._name(c) == name)
                raise SourceError(f"columns {other!r} and {column!r} would both become field `{shown(name)}`")
            sample[name] = _whole(column, value) if self.whole_labels and name == "label" else value
        for column, name in self.names.items():
            if name not in sample:
                found = ", ".join(repr(column) for column in values) or "none"
                raise SourceError(
                    f"the first sample has a column {column!r}, but this sample does not (columns here: {found})"
                )
        return sample

    def _name(self, column: str) -> str:
        return self.names.get(column) or self._another_name(column)

    def _another_name(self, column: str) -> str:
        """Return the field for a column that was not in the first sample. For example, if the first sample had `jpg`,
        a `png` column belongs to the same field, `image`.
        """
        name = field_name(self.convention(column))
        if name in self.kinds:
            return name
        known = ", ".join(map(repr, self.names))
        raise SourceError(
            f"column {column!r} is not in the first sample, whose columns are {known}\n"
            f"hint: pass {option(drop=[column])} to leave it out"
        )


def _whole(column: str, value: Any) -> Any:
    if not isinstance(value, (float, np.floating)):
        return value
    if not float(value).is_integer():
        hint = f"pass {option(schema={'label': 'float64'})} to store numbers that are not classes"
        raise SourceError(f"column {column!r}: expected a class number or name, found {value}\nhint: {hint}")
    return int(value)


def _mask_note(column: str, name: str, has_option: bool) -> str:
    if has_option:
        hint = f"pass {option(masks=[column])} to store the class numbers"
    else:
        hint = "store the masks in the source as arrays of class numbers"
    return (
        f"field `{shown(name)}` is named like a mask, but is stored as pictures, which loaders convert to RGB and "
        "resize like photos\n"
        f"hint: {hint}, or pass {option(schema={name: 'image'})} if these are photos"
    )


def _if_masks(source: Source, column: str, name: str) -> str:
    if name != "image" or source.masks is None:
        return ""
    return f"; if column {column!r} contains masks, pass {option(rename={column: 'mask'})} and {option(masks=[column])}"


def field_name(column: str) -> str:
    """Return a column's name with ``_`` in place of characters that a field name cannot contain.

    >>> field_name("image/class/label")
    'image_class_label'
    """
    name = _NOT_ALLOWED.sub("_", column)
    return f"_{name}" if name[:1] in ("", ".", "-") else name
