"""Draws the pictures of docs/tiled-jpeg.md, docs/performance.md and docs/training.md as SVG, from numbers alone.

    python3 docs/pictures/make.py            writes them
    python3 docs/pictures/make.py --check    exit code 1 if a file differs from what would be written
"""

import json
import random
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "python" / "examples"), str(ROOT / "benches")]

import bands  # noqa: E402
import bars  # noqa: E402
import timeline  # noqa: E402

TRAINING = ROOT / "benches" / "runs" / "2026-11-27-train.json"
ACCURACY = ROOT / "benches" / "runs" / "2026-11-28-accuracy.json"
POSTER = ROOT / "benches" / "runs" / "2026-11-24-poster.json"
UNET = ROOT / "benches" / "runs" / "2026-11-28-poster-unet.json"

# The tiled picture: 4:2:0, so that an MCU is 16 × 16, and 24 × 16 MCUs. K = 6: four tiles in each row of MCUs.
WIDTH, HEIGHT, MCU, INTERVAL = 384, 256, 16, 6
TILE_WIDTH, TILE_HEIGHT = INTERVAL * MCU, MCU
COLUMNS, ROWS = WIDTH // TILE_WIDTH, HEIGHT // TILE_HEIGHT

INK, QUIET, PAPER, EDGE = "#1f2933", "#616e7c", "#ffffff", "#d9dee4"
CROP, TOUCHED, MARGIN = "#e4572e", "#17728f", "#e0a100"
FONT = "font-family=\"'Segoe UI', 'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', 'Liberation Sans', sans-serif\""

# A landscape, in picture pixels.
SCENE = f"""
<linearGradient id="sky" x1="0" y1="0" x2="0" y2="1">
  <stop offset="0" stop-color="#3a6ea8"/><stop offset="0.55" stop-color="#9cc3dd"/><stop offset="1" stop-color="#f9e3c0"/>
</linearGradient>
<linearGradient id="lake" x1="0" y1="0" x2="0" y2="1">
  <stop offset="0" stop-color="#a9cbd9"/><stop offset="1" stop-color="#2f6f8f"/>
</linearGradient>
<clipPath id="frame"><rect width="{WIDTH}" height="{HEIGHT}"/></clipPath>
<g id="scene" clip-path="url(#frame)">
  <rect width="{WIDTH}" height="{HEIGHT}" fill="url(#sky)"/>
  <circle cx="286" cy="62" r="21" fill="#fff3cf"/>
  <g fill="#ffffff" opacity="0.85">
    <ellipse cx="86" cy="46" rx="34" ry="9"/><ellipse cx="108" cy="38" rx="24" ry="10"/><ellipse cx="196" cy="70" rx="28" ry="6"/>
  </g>
  <path d="M-10 172 L62 92 L104 134 L166 62 L238 142 L290 104 L400 178 V260 H-10 Z" fill="#6f8fae"/>
  <path d="M166 62 L186 84 L172 92 L160 84 L148 83 Z M62 92 L76 106 L64 110 L50 105 Z" fill="#f4f8fb"/>
  <path d="M-10 176 C60 136 120 176 180 164 S310 138 400 168 V260 H-10 Z" fill="#5d8a55"/>
  <path d="M120 200 C170 180 330 178 400 192 V260 H70 C70 236 84 214 120 200 Z" fill="url(#lake)"/>
  <path d="M-10 190 C40 176 96 190 116 216 S96 262 60 262 H-10 Z" fill="#41683c"/>
  <g stroke="#e8f4f8" stroke-width="1.6" stroke-linecap="round" opacity="0.75">
    <path d="M180 212 h46 M262 206 h34 M214 226 h70 M322 220 h36 M160 240 h52 M276 242 h60"/>
  </g>
  <path d="M226 204 h34 l-7 10 h-20 Z" fill="#8c3b2a"/><path d="M242 202 V168 L260 198 Z" fill="#fbf7ee"/><path d="M240 202 V176 L229 199 Z" fill="#efe6d2"/>
  <g fill="#2c4f33">
    <path d="M44 206 l14 -52 l14 52 Z"/><path d="M20 214 l12 -42 l12 42 Z"/><path d="M74 222 l10 -36 l10 36 Z"/>
  </g>
</g>"""


def text(x, y, words, size=14, fill=INK, anchor="start", weight=400, more=""):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" '
        f'font-weight="{weight}" {more}>{words}</text>'
    )


def rect(x, y, width, height, more):
    return f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" {more}/>'


def page(width, height, title, body):
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" {FONT} role="img">',
            f"<title>{title}</title>",
            f"<defs>{SCENE}\n</defs>",
            rect(0.5, 0.5, width - 1, height - 1, f'rx="14" fill="{PAPER}" stroke="{EDGE}"'),
            *body,
            "</svg>\n",
        ]
    )


def grid(scale, x, y, stroke="#ffffff", opacity=0.75):
    """Returns the borders of all tiles."""
    lines = [f"M{x + c * TILE_WIDTH * scale:.1f} {y:.1f}v{HEIGHT * scale:.1f}" for c in range(1, COLUMNS)]
    lines += [f"M{x:.1f} {y + r * TILE_HEIGHT * scale:.1f}h{WIDTH * scale:.1f}" for r in range(1, ROWS)]
    return f'<path d="{"".join(lines)}" stroke="{stroke}" stroke-opacity="{opacity}" stroke-width="1" fill="none"/>'


def tile_grid():
    """Draws a grid of tiles over the picture, with the marker that ends each."""
    scale, x, y = 2.0, 36, 86
    tall = HEIGHT * scale
    body = [
        text(36, 42, "A tiled JPEG", 22, weight=600),
        text(36, 64, f"{WIDTH} × {HEIGHT} pixels, 4:2:0: MCUs of 16 × 16, {WIDTH // MCU} in a row. A restart marker follows every {INTERVAL}: {COLUMNS} × {ROWS} tiles.", 14, QUIET),
        f'<use href="#scene" transform="translate({x} {y}) scale({scale})"/>',
        grid(scale, x, y),
    ]
    for index in range(COLUMNS * ROWS):
        column, row = index % COLUMNS, index // COLUMNS
        label = f"RST{index % 8}" if index + 1 < COLUMNS * ROWS else "EOI"
        right, bottom = x + (column + 1) * TILE_WIDTH * scale, y + (row + 1) * TILE_HEIGHT * scale
        body.append(rect(right - 39, bottom - 22, 34, 13, 'rx="3" fill="#10202e" fill-opacity="0.55"'))
        body.append(text(right - 22, bottom - 12.2, label, 9.5, "#ffffff", "middle", 600))
    column, row = 3, 5
    left, top = x + column * TILE_WIDTH * scale, y + row * TILE_HEIGHT * scale
    wide, high = TILE_WIDTH * scale, TILE_HEIGHT * scale
    ticks = "".join(f"M{left + i * MCU * scale:.1f} {top}v{high}" for i in range(1, INTERVAL))
    body += [
        rect(left, top, wide, high, f'fill="{CROP}" fill-opacity="0.22" stroke="{CROP}" stroke-width="2.5"'),
        f'<path d="{ticks}" stroke="{CROP}" stroke-width="1.2" stroke-dasharray="3 3" fill="none"/>',
    ]
    # The explanation next to the picture.
    side, middle = x + WIDTH * scale + 30, top + high / 2
    body += [
        f'<path d="M{left + wide} {middle}H{side - 8}" stroke="{CROP}" stroke-width="2" fill="none"/>',
        f'<circle cx="{side - 8}" cy="{middle}" r="3.5" fill="{CROP}"/>',
        text(side, middle - 8, "one tile", 16, CROP, weight=600),
        text(side, middle + 13, f"K = {INTERVAL} MCUs, {TILE_WIDTH} × {TILE_HEIGHT} pixels"),
        text(side, middle + 33, "one restart segment:"),
        text(side, middle + 53, "it decodes on its own"),
        text(side, y + tall - 62, "Row by row in the file;", 14, QUIET),
        text(side, y + tall - 42, "the label is the marker", 14, QUIET),
        text(side, y + tall - 22, "that ends the segment.", 14, QUIET),
    ]
    return page(1040, 634, "A grid of tiles over a picture", body)


def cut():
    """Draws a rectangle, the tiles that it needs, and the bytes that are copied."""
    x0, y0, width, height = (104, 112, 172, 108)
    touched = {
        (column, row)
        for row in range(y0 // TILE_HEIGHT, -(-(y0 + height) // TILE_HEIGHT))
        for column in range(x0 // TILE_WIDTH, -(-(x0 + width) // TILE_WIDTH))
    }
    # One more pixel on each side, within the picture.
    kept = {
        (column, row)
        for row in range(max(y0 - 1, 0) // TILE_HEIGHT, -(-min(y0 + height + 1, HEIGHT) // TILE_HEIGHT))
        for column in range(max(x0 - 1, 0) // TILE_WIDTH, -(-min(x0 + width + 1, WIDTH) // TILE_WIDTH))
    }
    margin = kept - touched
    assert margin and {row for _, row in margin} == {y0 // TILE_HEIGHT - 1}, "the rectangle starts at the top of a tile"
    left, top = min(c for c, _ in kept) * TILE_WIDTH, min(r for _, r in kept) * TILE_HEIGHT
    right, bottom = (max(c for c, _ in kept) + 1) * TILE_WIDTH, (max(r for _, r in kept) + 1) * TILE_HEIGHT

    scale, x, y = 1.5, 36, 112
    cut_x, cut_y = 690, y + top * scale
    body = [
        text(36, 42, "A cut", 22, weight=600),
        text(36, 64, f"The rectangle {width} × {height} at ({x0}, {y0}) touches {len(touched)} tiles. Its first row is the first of a tile: interpolating its chroma takes the row above,", 14, QUIET),
        text(36, 84, f"so the {len(margin)} tiles there are kept too. The other {COLUMNS * ROWS - len(kept)} of {COLUMNS * ROWS} are left out.", 14, QUIET),
        f'<use href="#scene" transform="translate({x} {y}) scale({scale})"/>',
    ]
    for row in range(ROWS):
        for column in range(COLUMNS):
            if (column, row) not in kept:
                place = (x + column * TILE_WIDTH * scale, y + row * TILE_HEIGHT * scale, TILE_WIDTH * scale, TILE_HEIGHT * scale)
                body.append(rect(*place, 'fill="#f3f5f7" fill-opacity="0.74"'))
    body.append(grid(scale, x, y, "#8895a3", 0.55))

    def marked(origin_x, origin_y, from_x, from_y):
        for column, row in sorted(kept, key=lambda tile: (tile in margin, tile)):
            color = MARGIN if (column, row) in margin else TOUCHED
            place = (
                origin_x + (column * TILE_WIDTH - from_x) * scale,
                origin_y + (row * TILE_HEIGHT - from_y) * scale,
                TILE_WIDTH * scale,
                TILE_HEIGHT * scale,
            )
            fill = 0.42 if (column, row) in margin else 0
            body.append(rect(*place, f'fill="{color}" fill-opacity="{fill}" stroke="{color}" stroke-width="1.6"'))
        place = (origin_x + (x0 - from_x) * scale, origin_y + (y0 - from_y) * scale, width * scale, height * scale)
        body.append(rect(*place, f'fill="none" stroke="{CROP}" stroke-width="3.2"'))

    marked(x, y, 0, 0)
    body += [
        f'<clipPath id="shown"><rect x="{left}" y="{top}" width="{right - left}" height="{bottom - top}"/></clipPath>',
        f'<g transform="translate({cut_x - left * scale} {cut_y - top * scale}) scale({scale})" clip-path="url(#shown)"><use href="#scene"/></g>',
    ]
    marked(cut_x, cut_y, left, top)
    arrow_y = cut_y + (bottom - top) * scale / 2
    arrow_from, arrow_to = x + WIDTH * scale + 14, cut_x - 14
    body += [
        f'<path d="M{arrow_from} {arrow_y}H{arrow_to - 9}" stroke="{INK}" stroke-width="2.5"/>',
        f'<path d="M{arrow_to} {arrow_y}l-12 -6.5v13Z" fill="{INK}"/>',
        text(cut_x, cut_y - 12, f"a JPEG of {right - left} × {bottom - top} pixels", 14, INK, weight=600),
    ]
    # The legend.
    legend_y = y + 14
    for i, (color, fill, words) in enumerate(
        [(CROP, 0, "the requested rectangle"), (TOUCHED, 0, "tiles that it touches"), (MARGIN, 0.42, "tiles that interpolation needs")]
    ):
        body.append(rect(cut_x + 1, legend_y + 26 * i - 12, 22, 14, f'fill="{color}" fill-opacity="{fill}" stroke="{color}" stroke-width="2.4"'))
        body.append(text(cut_x + 34, legend_y + 26 * i, words))

    # The bytes: segments of various lengths, first all of them, then those that are copied.
    strip_x, strip_y, strip_width, strip_height = 36, y + HEIGHT * scale + 62, 968, 30
    numbers = random.Random(3)
    lengths = [numbers.uniform(0.6, 1.5) for _ in range(COLUMNS * ROWS)]
    head = 36.0
    unit = (strip_width - head - 12) / sum(lengths)
    second_y = strip_y + 96
    body.append(text(strip_x, strip_y - 12, "the file", 14, INK, weight=600))
    body.append(text(strip_x, second_y + strip_height + 22, "the cut", 14, INK, weight=600))

    def plain(px, py, wide, color):
        return rect(px, py, wide, strip_height, f'fill="{color}" stroke="#ffffff" stroke-width="1"')

    body += [plain(strip_x, strip_y, head, INK), plain(strip_x, second_y, head, INK)]
    at, out = strip_x + head, strip_x + head
    run = None
    for index, length in enumerate(lengths):
        tile, wide = (index % COLUMNS, index // COLUMNS), length * unit
        if tile in kept:
            color = MARGIN if tile in margin else TOUCHED
            body.append(
                f'<path d="M{at:.1f} {strip_y + strip_height}h{wide:.1f}L{out + wide:.1f} {second_y}h{-wide:.1f}Z" fill="{color}" fill-opacity="0.20"/>'
            )
            body.append(plain(out, second_y, wide, color))
            out += wide
        else:
            color = "#cfd6dd"
        body.append(plain(at, strip_y, wide, color))
        at += wide
    body += [plain(at, strip_y, 12, INK), plain(out, second_y, 12, INK)]
    body.append(
        text(out + 28, second_y + 20, "header with the new size · segments as they are · markers counted from RST0 · end of image", 13.5, QUIET)
    )
    return page(1040, int(second_y + strip_height + 44), "A rectangle cut out of a tiled JPEG", body)


def poster():
    """Draws the steps of python/examples/poster.py, from the run that docs/performance.md quotes."""
    run = json.loads(POSTER.read_text(encoding="utf-8"))
    rows = [
        (step["step"], step["cubes_per_s"], f"{step['cubes_per_s']:.3g} ({step['times_the_first']:.1f}×)")
        for step in run["steps"]
    ]
    shape = " × ".join(map(str, run["shape"]))
    under = f"{shape}, batches of {run['batch']}, {run['workers']} workers, {run['codec']}, {run['device']}; {run['cubes_an_epoch']} cubes an epoch"
    return bars.svg("Cubes a second", under, rows, accent=len(rows) - 1)


def utilisation():
    """Draws the utilisation of the GPU in the steps of the poster with a U-Net."""
    run = json.loads(UNET.read_text(encoding="utf-8"))
    shape = " × ".join(map(str, run["shape"]))
    under = f"U-Net with EfficientNet-b5, {shape}, batches of {run['batch']}, {run['workers']} workers, {run['device']}"
    rows = [(step["step"], step["busy"]) for step in run["steps"]]
    return timeline.svg("Share of time in which the GPU computes", under, rows)


def training():
    """Draws the rates of ResNet-18 from the run of benches/train.py that docs/training.md quotes."""
    run = json.loads(TRAINING.read_text(encoding="utf-8"))
    labels = {
        "forty decoded batches that stay on the device": "the model alone",
        "shardpack, decoded on the device": "shardpack on the GPU, 1 thread",
        "shardpack, encoded on the device, decoded there": "shardpack, resident, 1 thread",
        "shardpack, decoded on the host": "shardpack on the host, 16 threads",
        "DataLoader with worker processes, normalised on the device": "DataLoader, 16 workers",
    }
    rows = [
        (
            labels[row["side"]],
            row["pictures a second"],
            f"{row['pictures a second']:,.0f}, {row['cores busy']:.1f} cores",
        )
        for row in run["rows"]
        if row["model"] == "resnet18"
    ]
    under = f"{run['data']['device']}, 16 cores; bfloat16, batches of {run['data']['batch']}, random crops of 224 × 224"
    return bars.svg("Training ResNet-18: pictures a second", under, rows, accent=1)


def accuracy():
    """Draws the accuracies of all seeds from the run of benches/accuracy.py that docs/training.md quotes."""
    run = json.loads(ACCURACY.read_text(encoding="utf-8"))
    facts = run["data"]
    under = f"{facts['classes']} classes, {facts['epochs']} epochs, {run['rounds']} seeds; {facts['device']}"
    title = "Accuracy on parts of photos that the model has not seen"
    return bands.svg(title, under, list(facts["accuracies"].items()), lambda share: f"{100 * share:.1f} %")


def main():
    here = Path(__file__).parent
    differs = []
    drawings = {
        "tile-grid.svg": tile_grid(),
        "tile-cut.svg": cut(),
        "poster.svg": poster(),
        "poster-utilisation.svg": utilisation(),
        "train.svg": training(),
        "accuracy.svg": accuracy(),
    }
    for name, drawing in drawings.items():
        path = here / name
        if "--check" in sys.argv[1:]:
            if not path.is_file() or path.read_text(encoding="utf-8") != drawing:
                differs.append(name)
        else:
            path.write_text(drawing, encoding="utf-8", newline="\n")
    if differs:
        sys.exit(f"out of date: {', '.join(differs)}\nhint: run python3 docs/pictures/make.py")


if __name__ == "__main__":
    main()
