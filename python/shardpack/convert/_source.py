"""The interface of all formats: a stream of samples, and the source's declarations about them."""

from __future__ import annotations

import importlib
import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from .._similar import did_you_mean
from .._voice import ANY as ANY
from .._voice import option as option
from .._voice import shown as shown

if TYPE_CHECKING:
    from ._same import SameType


_PACKAGES = {"yaml": "pyyaml", "PIL": "pillow"}
"""Mapping from module to the name of its `pip` package, where the two names differ."""


class SourceError(ValueError):
    """The source cannot be converted. The message names the file and the sample."""

    def __init__(self, message: object = "") -> None:
        super().__init__(bounded(printable(str(message))))


RAW = (UnicodeError, json.JSONDecodeError, RecursionError, OverflowError, struct.error)
"""Errors that parsers raise on bad input. MemoryError is left out, because valid input can cause it too."""


_MOST_LINE = 10_000
_MOST_MESSAGE = 20_000


def bounded(text: str) -> str:
    """Shorten a long text for a message. A name may be a megabyte long."""
    if len(text) <= _MOST_LINE:
        return text
    lines = (line if len(line) <= _MOST_LINE else f"{line[:_MOST_LINE]}…" for line in text.split("\n"))
    cut = "\n".join(lines)
    return cut if len(cut) <= _MOST_MESSAGE else f"{cut[:_MOST_MESSAGE]}…"


def printable(text: str) -> str:
    r"""Escape control characters and invalid Unicode in a whole message, which may have several lines. Values of the
    source are already escaped by :func:`shown`.

    >>> print(printable("a\x1b[2J"))
    a\x1b[2J
    """
    if text.isprintable():
        return text
    return "\n".join(map(shown, text.split("\n")))


class Sample(NamedTuple):

    key: str | None
    """Key of the sample. None means that its running number is the key."""
    values: Mapping[str, Any]
    """Mapping from column to value, in the form that a `Writer` accepts. Pictures stay encoded."""
    where: str
    """File and sample, as named in messages."""


class Problem(NamedTuple):
    """A sample that cannot be converted, or all samples in an unreadable part of a file. The stream continues after
    them.
    """

    message: str
    samples: int | None = 1
    """Number of samples, at least one. None if unknown."""


Item = Union[Sample, Problem]


def same(column: str) -> str:
    """Return the column's name as the field name, for formats without a convention."""
    return column


@dataclass
class Source:

    items: Iterable[Item]
    """Samples, in the order of the source."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Mapping from column to field kind, where the format declares it. The first sample decides the other kinds."""
    classes: Union[list[str], Mapping[str, list[str]], None] = None
    """Class names in the source, or None. If they differ between columns, a mapping from column to names."""
    total: int | None = None
    """Number of samples, if known in advance."""
    close: Callable[[], object] = lambda: None
    repeated_keys: str = ""
    """Hint for the error about repeated keys, if `Sample.where` names the key."""
    field_name: Callable[[str], str] = same
    """Function that returns the field name for a column, by the convention of the format."""
    masks: frozenset[str] | None = None
    """Columns or fields of pictures that hold class numbers. None if the format has no option `masks`."""
    dropped: frozenset[str] = frozenset()
    """Names in `drop` that are not columns and have already been left out, such as whole samples."""
    notes: list[str] = field(default_factory=list)
    """Notes for the user, complete once the first sample is read."""
    types: Sequence[SameType] = ()
    """Converters of array fields to one element type. With `append`, this is the type in the dataset."""
    numbered: frozenset[str] = frozenset()
    """Names of the array columns that hold class numbers."""


def library(module: str, extra: str) -> Any:
    """Import the library of a format. If it is not installed, raise an ImportError whose hint says how to install
    it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.split(".")[0]
        package = _PACKAGES.get(name, name)
        message = f"cannot import `{shown(name)}`, which is needed for {extra}: {error}\nhint: pip install {package}"
        raise ImportError(message, name=name) from error


def refuse_columns(where: str, refused: Mapping[str, str]) -> None:
    """Raise a single error that lists every column that cannot be stored.

    Parameters
    ----------
    where
        The file.
    refused
        Mapping from column to the reason.
    """
    if not refused:
        return
    listed = "\n".join(f"  {shown(column)}: {reason}" for column, reason in refused.items())
    count = "1 column cannot" if len(refused) == 1 else f"{len(refused)} columns cannot"
    them = "it" if len(refused) == 1 else "them"
    raise SourceError(f"{where}: {count} be converted\n{listed}\nhint: pass {option(drop=list(refused))} to leave {them} out")


def check_drop(where: str, drop: Iterable[str], columns: Iterable[str]) -> None:
    """Raise an error for an unknown column in `drop`, if the source knows its columns."""
    known = list(columns)
    for column in drop:
        if column not in known:
            raise SourceError(
                f"{where}: `drop` names an unknown column {column!r}; the columns are {known}"
                f"{did_you_mean(column, known)}"
            )


def dropped_nothing(drop: Iterable[str], columns: Iterable[str]) -> str:
    """Return extra lines for an error that a wrong name in `drop` may have caused, or an empty string. `columns` are
    the columns seen so far.
    """
    known = list(columns)
    return "".join(
        f"\n`drop` names an unknown column: {column!r}{did_you_mean(column, known)}" for column in sorted(drop) if column not in known
    )

