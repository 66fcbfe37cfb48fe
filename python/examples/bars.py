"""Draws SVG bar charts without a plotting library."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

WIDTH, LEFT, RIGHT, TOP, ROW = 880, 330, 150, 64, 40


def svg(title: str, subtitle: str, rows: Sequence[tuple[str, float, str]], accent: int | None = None) -> str:
    """Return a chart of horizontal bars that start at zero. Each row is a label, a length, and a text to put after the
    bar.

    Parameters
    ----------
    accent : int, optional
        Number of the row whose bar is highlighted.
    """
    longest = max(length for _, length, _ in rows)
    height = TOP + ROW * len(rows) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="system-ui, sans-serif" font-size="15">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="20" y="28" font-size="19" font-weight="600" fill="#1b1f24">{escape(title)}</text>',
        f'<text x="20" y="49" font-size="13" fill="#59636e">{escape(subtitle)}</text>',
    ]
    for number, (label, length, words) in enumerate(rows):
        y = TOP + ROW * number
        wide = max(1.0, (WIDTH - LEFT - RIGHT) * length / longest)
        colour = "#0b7a75" if number == accent else "#9aa7b4"
        parts += [
            f'<text x="{LEFT - 12}" y="{y + 23}" text-anchor="end" fill="#1b1f24">{escape(label)}</text>',
            f'<rect x="{LEFT}" y="{y + 6}" width="{wide:.1f}" height="{ROW - 14}" rx="2" fill="{colour}"/>',
            f'<text x="{LEFT + wide + 8:.1f}" y="{y + 23}" font-size="13" fill="#59636e">{escape(words)}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
