"""Draws an SVG chart with one band for each side. A band spans the results of the side's runs. Needs no library."""

import statistics
from html import escape

WIDTH, LEFT, RIGHT, TOP, ROW = 880, 330, 110, 70, 44


def overlap(values, others):
    """Returns True if the ranges of two lists of numbers overlap."""
    return min(values) <= max(others) and min(others) <= max(values)


def svg(title, subtitle, rows, show):
    """Returns a chart with one band for each row, from its smallest to its largest value. Each value is a dot, and the
    median is a bar across the band.

    Each row is a label and its values, and `show` formats a value. The axis begins a tenth of the range below the
    smallest value rather than at 0, to make differences visible. Its first and last values are written below the bands.
    """
    everything = [value for _, values in rows for value in values]
    margin = (max(everything) - min(everything)) / 10 or 0.01
    first, last = min(everything) - margin, max(everything) + margin
    height = TOP + ROW * len(rows) + 34

    def at(value):
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - first) / (last - first)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="system-ui, sans-serif" font-size="15">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="20" y="28" font-size="19" font-weight="600" fill="#1b1f24">{escape(title)}</text>',
        f'<text x="20" y="49" font-size="13" fill="#59636e">{escape(subtitle)}</text>',
    ]
    bottom = TOP + ROW * len(rows)
    for edge in (first, last):
        parts += [
            f'<path d="M{at(edge):.1f} {TOP - 6} V{bottom}" stroke="#d9dee4"/>',
            f'<text x="{at(edge):.1f}" y="{bottom + 18}" text-anchor="middle" font-size="12" fill="#59636e">'
            f"{escape(show(edge))}</text>",
        ]
    for number, (label, values) in enumerate(rows):
        y = TOP + ROW * number + ROW / 2
        low, high, middle = min(values), max(values), statistics.median(values)
        colour = "#0b7a75" if number else "#59636e"
        parts += [
            f'<text x="{LEFT - 14}" y="{y + 5}" text-anchor="end" fill="#1b1f24">{escape(label)}</text>',
            f'<rect x="{at(low):.1f}" y="{y - 11}" width="{max(1.0, at(high) - at(low)):.1f}" height="22" rx="3" '
            f'fill="{colour}" opacity="0.25"/>',
            f'<path d="M{at(middle):.1f} {y - 14} v28" stroke="{colour}" stroke-width="3"/>',
            *(f'<circle cx="{at(value):.1f}" cy="{y}" r="3.5" fill="{colour}"/>' for value in values),
            f'<text x="{WIDTH - RIGHT + 14}" y="{y + 5}" font-size="13" fill="#59636e">{escape(show(middle))}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
