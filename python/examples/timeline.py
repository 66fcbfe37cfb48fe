"""Samples the utilisation of a GPU, and plots it over time as SVG."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

# Samples per second. NVIDIA's counter averages over at least a sixth of a second.
RATE = 10
WIDTH, LEFT, RIGHT, TOP, ROW = 880, 330, 80, 64, 64

Samples = list[tuple[float, float]]


@contextmanager
def watched(device: torch.device) -> Iterator[Samples]:
    """Append samples to a list while the block runs: a time in seconds, and the share of time, from 0 to 1, in which
    kernels ran. The list stays empty without a GPU, and without nvidia-ml-py.
    """
    import torch

    samples: Samples = []
    done = threading.Event()

    def sample() -> None:
        while not done.wait(1 / RATE):
            samples.append((time.perf_counter(), torch.cuda.utilization(device) / 100))

    thread = threading.Thread(target=sample)
    try:
        if device.type == "cuda":
            torch.cuda.utilization(device)
            thread.start()
    except ModuleNotFoundError:
        pass
    try:
        yield samples
    finally:
        done.set()
        if thread.ident is not None:
            thread.join()


def svg(title: str, subtitle: str, rows: Sequence[tuple[str, Sequence[tuple[float, float]]]]) -> str:
    """Return a chart with one area over time for each row, which is a label and its samples. All rows share one time
    scale, and each starts at its first sample. The text after an area is its mean.
    """
    longest = max(max(time for time, _ in samples) - samples[0][0] for _, samples in rows) or 1
    height = TOP + ROW * len(rows) + 28
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="system-ui, sans-serif" font-size="15">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="20" y="28" font-size="19" font-weight="600" fill="#1b1f24">{escape(title)}</text>',
        f'<text x="20" y="49" font-size="13" fill="#59636e">{escape(subtitle)}</text>',
    ]
    for number, (label, samples) in enumerate(rows):
        bottom = TOP + ROW * (number + 1) - 8
        places = [
            (LEFT + (WIDTH - LEFT - RIGHT) * (time - samples[0][0]) / longest, bottom - (ROW - 16) * share)
            for time, share in samples
        ]
        line = " ".join(f"L{x:.1f} {y:.1f}" for x, y in places)
        colour = "#0b7a75" if number + 1 == len(rows) else "#9aa7b4"
        mean = sum(share for _, share in samples) / len(samples)
        parts += [
            f'<text x="{LEFT - 12}" y="{bottom - 18}" text-anchor="end" fill="#1b1f24">{escape(label)}</text>',
            f'<path d="M{LEFT} {bottom} {line} L{places[-1][0]:.1f} {bottom} Z" fill="{colour}"/>',
            f'<path d="M{LEFT} {bottom} H{WIDTH - RIGHT}" stroke="#d9dee4"/>',
            f'<text x="{WIDTH - RIGHT + 10}" y="{bottom - 18}" font-size="13" fill="#59636e">{mean:.2f}</text>',
        ]
    parts.append(
        f'<text x="{WIDTH - RIGHT}" y="{height - 10}" text-anchor="end" font-size="12" fill="#59636e">{longest:.0f} s</text>'
    )
    return "\n".join([*parts, "</svg>", ""])
