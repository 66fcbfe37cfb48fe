"""Warnings that point to the line of the program that called the package."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def warn(text: str) -> None:
    """Warns at the innermost caller that is no part of the package."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __package__:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, UserWarning, stacklevel=level)


def of_rounding(report: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Says which fields of floats lost digits, unless the program has chosen how floats are stored."""
    if options.get("values") is not None or options.get("max_error") is not None:
        return
    for field, figures in report["fidelity"].items():
        # Figures of pictures have no such count.
        if figures.get("changed", 0) > 0:
            warn(
                f"field `{field}`: {figures['changed']:,} of {figures['values']:,} values were rounded to float16: "
                f"largest error {figures['max_abs_error']:.4g} (sample `{figures['worst_sample']}`)\n"
                'hint: values="keep" keeps every bit, max_error=… bounds the error; values="auto" says that this is meant'
            )


_ALL_BITS = (
    "hint: to load all bits, store the values as arrays: PNG and TIFF by themselves with kind=\"cubes\", or a Writer that "
    "is given uint16 arrays; dataset.raw(i, field) is the file as it came"
)


def of_lost_bits(fields: Iterable[str]) -> None:
    """Says that pictures have more bits than what was made of them."""
    names = ", ".join(f"`{field}`" for field in fields)
    warn(f"field {names}: pictures of more than 8 bits a sample are decoded to 8 bits\n{_ALL_BITS}")


def of_stored_bits(pictures: int) -> None:
    """Says that pictures were stored of which not all bits will be decoded."""
    if pictures > 0:
        have = "1 picture has" if pictures == 1 else f"{pictures:,} pictures have"
        warn(f"{have} more than 8 bits a sample: they are stored to the byte, but decoded to 8 bits\n{_ALL_BITS}")


def of_more_bands(pictures: int) -> None:
    """Says that pictures were stored of which not all bands will be decoded."""
    if pictures > 0:
        have, files = ("1 picture has", "file is") if pictures == 1 else (f"{pictures:,} pictures have", "files are")
        warn(f"{have} an alpha channel or another band beside the colours: the {files} stored unchanged, but loading drops it")


def of_odd(pictures: Sequence[Mapping[str, str]]) -> None:
    """Says that pictures have oddities that cost no pixel."""
    if pictures:
        first = pictures[0]
        what = f"`{first['key']}`: {first['what']}".splitlines()[0]
        if len(pictures) == 1:
            warn(f"1 picture has an oddity that decoders pass over: {what}")
        else:
            warn(
                f"{len(pictures):,} pictures have oddities that decoders pass over (first: {what})\n"
                'hint: report["odd_pictures"] names all'
            )
