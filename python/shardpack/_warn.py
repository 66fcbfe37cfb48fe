"""Issues warnings that point to the line of the user's program that called the package."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shardpack._voice import ANY, option


def warn(text: str) -> None:
    """Issue a warning that points to the innermost caller outside the package."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __package__:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, UserWarning, stacklevel=level)


def of_notes(notes: Iterable[str]) -> None:
    """Issue each note of a call as a warning."""
    for note in notes:
        warn(note)


def of_rounding(report: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Warn about fields whose floats were rounded, unless the user chose how floats are stored."""
    if options.get("values") is not None or options.get("max_error") is not None:
        return
    for field, figures in report["fidelity"].items():
        # The report does not count changed values for pictures.
        if figures.get("changed", 0) > 0:
            warn(
                f"field `{field}`: {figures['changed']:,} of {figures['values']:,} values were rounded to float16, "
                f"by up to {figures['max_abs_error']:.4g} (sample `{figures['worst_sample']}`)\n"
                f'hint: pass {option(values="keep")} to keep every bit, {option(max_error=ANY)} to bound the error, or {option(values="auto")} to turn this warning off'
            )


def _with_all_bits(text: str) -> str:
    arrays = f"pack PNG and TIFF files as arrays ({option(kind='cubes')}), or write uint16 arrays with a Writer"
    return f"{text}\nhint: to keep all bits, {arrays}; dataset.raw(i, field) returns the original file"


def of_lost_bits(fields: Iterable[str]) -> None:
    """Warn that pictures of more than 8 bits were decoded to 8 bits."""
    names = [f"`{field}`" for field in fields]
    where = f"field {names[0]}" if len(names) == 1 else f"fields {', '.join(names)}"
    warn(_with_all_bits(f"{where}: pictures with more than 8 bits per channel are decoded to 8 bits"))


def of_stored_bits(pictures: int) -> None:
    """Warn that stored pictures of more than 8 bits will be decoded to 8 bits."""
    if pictures > 0:
        have, they = ("1 picture has", "it is") if pictures == 1 else (f"{pictures:,} pictures have", "they are")
        text = f"{have} more than 8 bits per channel: {they} stored unchanged, but decoded to 8 bits when loaded"
        warn(_with_all_bits(text))


def of_more_bands(pictures: int) -> None:
    """Warn that loading drops an extra band of stored pictures, such as an alpha channel."""
    if pictures > 0:
        have, files = ("1 picture has", "file is") if pictures == 1 else (f"{pictures:,} pictures have", "files are")
        stored = f"the {files} stored unchanged, but loaders drop these bands"
        warn(f"{have} extra bands, such as an alpha channel: {stored}")


def of_odd(pictures: Sequence[Mapping[str, str]]) -> None:
    """Warn about irregularities in picture files that do not affect their pixels."""
    if pictures:
        first = pictures[0]
        what = f"`{first['key']}`: {first['what']}".splitlines()[0]
        if len(pictures) == 1:
            warn(f"1 picture has a flaw that decoders ignore: {what}")
        else:
            warn(
                f"{len(pictures):,} pictures have flaws that decoders ignore (first: {what})\n"
                'hint: see report["odd_pictures"] for all of them'
            )
