"""Suggests a known word for a word that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def similar(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the question `did you mean …?` with the most similar known word, or an empty string if none is similar."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"did you mean {near[0]!r}?" if near else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint line with the most similar known word, or an empty string."""
    text = similar(word, known)
    return f"\nhint: {text}" if text else ""
