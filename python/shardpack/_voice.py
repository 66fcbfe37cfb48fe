"""Spells options in messages: ``drop=['a']`` in a program, ``--drop a`` in the commands ``convert`` and ``export``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

is_command = ContextVar("is_command", default=False)
"""True while a command runs. Messages of Rust read it too."""


class _Any:
    def __repr__(self) -> str:
        return "…"


ANY: Any = _Any()
"""Stands for a value of the user's choice."""


def option(**options: Any) -> str:
    """Spell options with their values, for a message.

    >>> option(drop=["a", "b"], rename={"c": ANY})
    "drop=['a', 'b'], rename={'c': …}"
    >>> before = is_command.set(True)
    >>> option(drop=["a", "b"], rename={"c": ANY}, points=(17, 3), uneven=True)
    '--drop a --drop b --rename c=… --points 17,3 --uneven'
    >>> is_command.reset(before)
    """
    if not is_command.get():
        return ", ".join(f"{name}={value!r}" for name, value in options.items())
    return " ".join(part for name, value in options.items() for part in _arguments(name.replace("_", "-"), value))


def _arguments(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, Mapping):
        return [_argument(name, f"{key}={one}", one) for key, one in value.items()]
    if isinstance(value, tuple):
        value = ",".join(map(str, value))
    return [_argument(name, str(one), one) for one in (value if isinstance(value, list) else [value])]


def _argument(name: str, text: str, value: Any) -> str:
    """Return an option with its value, quoted for a shell."""
    # A value that begins with a dash would be taken for an option.
    separator = "=" if text.startswith("-") else " "
    return f"--{name}{separator}{text if value is ANY else shown(shlex.quote(text))}"


def shown(value: object) -> str:
    r"""Return a value of the source on one line, for use in a message. A line break in the value could otherwise fake a
    hint.

    >>> print(shown("x\nhint: …"))
    x\nhint: …
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)
