"""Cuts a rectangle out of a tiled JPEG by copying bytes: docs/tiled-jpeg.md, step by step. It is meant for reading and
porting, not for speed.

    python3 docs/cut_jpeg.py IN.jpg X Y WIDTH HEIGHT OUT.jpg
"""

import sys
from pathlib import Path


def segments_of_header(jpeg):
    """Yields (marker, offset, end offset) of each header segment, up to and including SOS."""
    if jpeg[:2] != b"\xff\xd8":
        raise ValueError("not a JPEG")
    at, marker = 2, None
    while marker != 0xDA:
        if jpeg[at] != 0xFF:
            raise ValueError(f"offset {at}: expected a marker, found {jpeg[at]:02x}")
        if jpeg[at + 1] == 0xFF:  # a fill byte
            at += 1
            continue
        marker = jpeg[at + 1]
        end = at + 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")
        yield marker, at, end
        at = end


def segments_of_scan(jpeg, at):
    """Yields the bytes of each restart segment, and checks the numbers of the markers."""
    count, start = 0, at
    while True:
        at = jpeg.index(b"\xff", at)
        following = jpeg[at + 1]
        if following == 0x00:  # entropy-coded data
            at += 2
        elif following == 0xFF:  # a fill byte
            at += 1
        else:
            yield jpeg[start:at]
            if not 0xD0 <= following <= 0xD7:
                return
            if following != 0xD0 + count % 8:
                raise ValueError(f"offset {at}: expected RST{count % 8}, found RST{following - 0xD0}")
            count, at = count + 1, at + 2
            start = at


def cut(jpeg, x, y, width, height):
    """Returns the cut and the (x, y, width, height) that it shows, or the picture itself if it has no grid."""
    interval, header = 0, list(segments_of_header(jpeg))
    for marker, at, _ in header:
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            process, frame = marker, at
        elif marker == 0xDD:
            interval = int.from_bytes(jpeg[at + 4 : at + 6], "big")
    full_height, full_width = (int.from_bytes(jpeg[frame + i : frame + i + 2], "big") for i in (5, 7))
    components = jpeg[frame + 9]
    factors = [divmod(jpeg[frame + 11 + 3 * i], 16) for i in range(components)]
    if components == 1:
        factors = [(1, 1)]
    most_h, most_v = max(h for h, _ in factors), max(v for _, v in factors)
    whole = jpeg, (0, 0, full_width, full_height)
    per_row = -(-full_width // (8 * most_h))
    if process not in (0xC0, 0xC1) or jpeg[frame + 4] != 8 or jpeg[header[-1][1] + 4] != components or not interval:
        return whole
    if per_row % interval and interval % per_row:
        return whole
    tile_width = 8 * most_h * min(interval, per_row)
    tile_height = 8 * most_v * max(interval // per_row, 1)
    columns, rows = -(-full_width // tile_width), -(-full_height // tile_height)

    # Step 1: add one pixel on the sides where chroma is interpolated. Steps 2 and 3: take whole tiles, not too narrow.
    halves = {(most_h // h, most_v // v) for h, v in factors if most_h % h == 0 and most_v % v == 0}
    beside, above = bool(halves & {(2, 1), (2, 2)}), bool(halves & {(1, 2), (2, 2)})
    left, right = max(x - beside, 0) // tile_width, min(-(-(x + width + beside) // tile_width), columns)
    top, bottom = max(y - above, 0) // tile_height, min(-(-(y + height + above) // tile_height), rows)
    if beside and left and min(right * tile_width, full_width) - left * tile_width < 5:
        left -= 1
    shown = left * tile_width, top * tile_height
    size = min(right * tile_width, full_width) - shown[0], min(bottom * tile_height, full_height) - shown[1]

    # Step 4: the header.
    out = bytearray(b"\xff\xd8")
    for marker, at, end in header:
        metadata = 0xE0 <= marker <= 0xEF or marker == 0xFE
        if metadata and not (marker, jpeg[at + 4 : at + 9]) in ((0xE0, b"JFIF\0"), (0xEE, b"Adobe")):
            continue
        segment = bytearray(jpeg[at:end])
        if at == frame:
            segment[5:7], segment[7:9] = size[1].to_bytes(2, "big"), size[0].to_bytes(2, "big")
        out += segment

    # Steps 5 to 7: the scan.
    tiles = list(segments_of_scan(jpeg, header[-1][2]))
    if len(tiles) != columns * rows:
        raise ValueError(f"expected {columns * rows} segments, found {len(tiles)}")
    kept = [tiles[row * columns + column] for row in range(top, bottom) for column in range(left, right)]
    for number, tile in enumerate(kept):
        out += tile + (bytes([0xFF, 0xD0 + number % 8]) if number + 1 < len(kept) else b"\xff\xd9")
    return bytes(out), (*shown, *size)


def main():
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    source, target = Path(sys.argv[1]), Path(sys.argv[6])
    out, shown = cut(source.read_bytes(), *map(int, sys.argv[2:6]))
    target.write_bytes(out)
    print("shows {2} × {3} pixels from ({0}, {1})".format(*shown))


if __name__ == "__main__":
    main()
