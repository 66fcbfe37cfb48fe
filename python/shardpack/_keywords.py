"""Checks lists of names, and the keywords of the packing functions against their typed dicts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from shardpack._similar import similar


@cache
def types_of(options: type) -> dict[str, tuple[type, ...]]:
    """Return the types that each option of a typed dict accepts, in order of preference. They include ``list`` if
    several values are allowed.
    """
    return {name: tuple(dict.fromkeys(_types(hint))) for name, hint in get_type_hints(options).items()}


def _types(hint: Any) -> list[type]:
    if hint is type(None):
        return []
    if hint is float:
        return [float, int]
    origin = get_origin(hint)
    if origin is None:
        return [hint]
    if origin is Literal:
        return [type(word) for word in get_args(hint)]
    if origin is Sequence:
        return [list]
    if isinstance(origin, type) and issubclass(origin, (tuple, os.PathLike)):
        return [origin]
    return [one for part in get_args(hint) for one in _types(part)]


def names(option: str, given: Iterable[str] | None) -> list[str] | None:
    """Return the names that an option lists. A single string is an error, because it would be a list of its letters."""
    if isinstance(given, str):
        raise TypeError(f"{option}: expected a sequence of names, found the string {given!r}\nhint: pass {option}=[{given!r}]")
    return None if given is None else list(given)


def keywords(function: str, given: Mapping[str, object], options: type) -> dict[str, object]:
    """Check the given options, and return all options that are not ``None``. ``None`` means the default.

    Raises
    ------
    TypeError
        An option is unknown, or its value has the wrong type.
    """
    known = types_of(options)
    out: dict[str, object] = {}
    for name, value in given.items():
        if name not in known:
            hint = similar(name, known) or f"choose one of {', '.join(sorted(known))}"
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}\nhint: {hint}")
        if value is None:
            continue
        several = list in known[name] and isinstance(value, (list, tuple))
        values = list(value) if several else [value]  # type: ignore[call-overload]
        for one in values:
            _check(function, name, one, tuple(kind for kind in known[name] if kind is not list))
        out[name] = values if several else value
    return out


def _check(function: str, name: str, value: object, types: tuple[type, ...]) -> None:
    # A bool is also an int in Python, but a bool given for a number is a mistake.
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        expected = " or ".join("path" if one is os.PathLike else one.__name__ for one in types)
        raise TypeError(f"{function}(): {name}: expected {expected}, found {type(value).__name__} {value!r}")
