"""Values: strict JSON, arrays and codecs of shardpack 1.2 (sections 3, 4 and 5 of the specification), and the checks
that this module shares with reader.py (section 1).

numpy, zstandard and blosc2 are imported only when a value needs them. A `raw` value without a transform needs none
of them.
"""

import json
import re
import struct
from zlib import crc32

# ---- §1 Conventions
def align(n):
    return n + -n % 64


def check_crc(data, at, what):
    need(crc32(data[:at]) == int.from_bytes(data[at:at + 4], "little"), f"{what} CRC32: damaged")


class Bad(Exception):
    """The bytes violate the specification."""
    kind = "format"


class Limit(Bad):
    """The bytes may be valid, but they ask for more than this reader allows (§6)."""
    kind = "limit"


def need(condition, what):
    if not condition:
        raise Bad(what)


def within(value, limit, what):
    if value > limit:
        raise Limit(f"{what} is over the limit: {value} > {limit}")


class Cursor:
    """Reads a byte string from front to back. Reading past its end is a violation of the specification."""

    def __init__(self, data, what):
        self.data, self.what, self.pos = data, what, 0

    def take(self, n):
        need(self.pos + n <= len(self.data), f"{self.what}: {n} more bytes expected at {self.pos}, truncated")
        self.pos += n
        return self.data[self.pos - n:self.pos]

    def unpack(self, layout):
        return struct.unpack("<" + layout, self.take(struct.calcsize("<" + layout)))

    def pad(self):
        need(not any(self.take(-self.pos % 64)), f"{self.what}: padding before {self.pos} is not zero")


# ---- §3 JSON
def parse_json(data, what):
    def unique(pairs):
        need(len(dict(pairs)) == len(pairs), f"{what}: duplicate key")
        return dict(pairs)

    def number(text):
        need(abs(float(text)) != float("inf"), f"{what}: number out of range")
        return int(text) if text.lstrip("-").isdigit() and text != "-0" and -1 << 63 <= int(text) < 1 << 64 else float(text)

    nodes = 0

    def walk(value, depth):
        nonlocal nodes
        nodes += 9 if isinstance(value, dict) else 1
        need(nodes <= 1 << 22, f"{what}: too many nodes")
        depth += isinstance(value, (dict, list))
        need(depth <= 16, f"{what}: nested too deeply")
        if isinstance(value, str):
            value.encode()  # fails on unpaired surrogates
        for part in [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ():
            walk(part, depth)

    try:  # NaN and Infinity are numbers to Python's parser: out of range, here
        value = json.loads(data.decode(), object_pairs_hook=unique, parse_float=number, parse_int=number,
                           parse_constant=lambda _: number("inf"))
        walk(value, 0)
        return value
    except (ValueError, RecursionError) as e:
        raise Bad(f"{what}: not strict JSON: {e}") from None


def parse_text(data, what):
    try:
        return data.decode()
    except UnicodeDecodeError as e:
        raise Bad(f"{what}: not UTF-8: {e}") from None


def same(a, b):
    """Compares JSON values. The order of keys has no meaning. 1, 1.0 and true are three different values."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def check(value, shape, what):
    """Checks a value against a shape: a dict of keys ('?' marks optional keys), a list of one shape, a pattern for
    text, or a bound for integers.
    """
    if isinstance(shape, dict):
        need(type(value) is dict, f"{what}: expected an object")
        need(not shape or {*value} <= {key.rstrip("?") for key in shape}, f"{what}: unknown keys")
        for key, inner in shape.items():
            name = key.rstrip("?")
            need(name in value or name != key, f"{what}: key {name!r} is missing")
            if name in value:
                check(value[name], inner, f"{what}: {name}")
    elif isinstance(shape, list):
        need(type(value) is list, f"{what}: expected an array")
        for part in value:
            check(part, shape[0], what)
    elif isinstance(shape, int):
        need(type(value) is int and 0 <= value < shape, f"{what}: expected an integer, found {value!r}")
    else:
        need(type(value) is str and re.fullmatch(shape, value, re.DOTALL), f"{what}: {value!r}")


# ---- §4.1 Element types: name → code, size in bytes, NumPy's name
TYPES = {name: (code, int(spelling[-1]), spelling) for code, (name, spelling) in enumerate((
    ("bool", "<u1"), ("uint8", "<u1"), ("int8", "<i1"), ("uint16", "<u2"), ("int16", "<i2"), ("uint32", "<u4"),
    ("int32", "<i4"), ("uint64", "<u8"), ("int64", "<i8"), ("float16", "<f2"), ("float32", "<f4"), ("float64", "<f8")), 1)}
NAMES = list(TYPES)


# ---- §4.2 Array descriptor
NONE, F16, INTEGER, FIXED = range(4)


def parse_descriptor(data):
    cursor = Cursor(data, "array descriptor")
    decoded, stored, transform, difference, layout, rank, flags, bits, no_data, *codes = cursor.unpack("8Bd4I")
    need(1 <= decoded <= 12 and 1 <= stored <= 12, f"dtype code: {decoded}, {stored}")
    need(max(difference, layout) <= 1 and rank <= 8 and flags < 32 and transform <= 3, "array descriptor: unknown value")
    need(transform == FIXED or bits == 0, "array bits without fixed point")
    need(flags & 1 or data[8:16] == bytes(8), "no-data value without its flag")
    shape = cursor.unpack(f"{rank}Q")
    within(max(shape, default=0), (1 << 31) - 1, "array axis")
    decoded, stored, width = NAMES[decoded - 1], NAMES[stored - 1], TYPES[NAMES[stored - 1]][1]
    scale = offset = ()
    if transform == FIXED:
        bands = shape[-1] if shape else 1
        need(8 * bands <= len(data) - cursor.pos, "band table: truncated")
        scale, offset = cursor.unpack(f"{bands}f"), cursor.unpack(f"{bands}f")
        need(all(0 <= s < float("inf") for s in scale) and all(abs(o) < float("inf") for o in offset), "band table")
        need(rank > 0 and (bits == 8 if stored == "uint8" else 9 <= bits <= 16), f"fixed-point bits: {bits}")
    need(cursor.pos == len(data), "array descriptor: bytes after its end")
    fits = {NONE: stored == decoded, F16: stored == "float16" and decoded in ("float16", "float32"),
            INTEGER: "int" in stored and decoded not in ("bool", stored),
            FIXED: stored in ("uint8", "uint16") and decoded == "float32"}
    need(fits[transform], f"array dtypes: {stored} stored for {decoded}")
    need(not difference or width <= 2 and stored != "bool" and rank > 0, "band difference")
    need(layout == 0 or rank >= 2, "band-major layout")
    present = {i: code for i, code in enumerate(codes) if flags >> i + 1 & 1}
    need(not any(code for i, code in enumerate(codes) if i not in present), "reserved code without its flag")
    need(not present or transform != NONE and decoded.startswith("float"), "reserved codes")
    need(1 not in present or flags & 1, "no-data code without a no-data value")
    need(width <= 4 or not present, "reserved codes in a stored type wider than 4 bytes")
    need(all(c < 1 << (bits or 8 * width) for c in present.values()) and len({*present.values()}) == len(present), "reserved code")
    product = 1
    for axis in shape:
        product *= axis or 1
    largest = max(width, TYPES[decoded][1])
    need(product * largest < 1 << 64, f"array shape: {shape}")
    elements = 0 if 0 in shape else product
    within(elements * largest, 1 << 30, "decoded array")
    return {"decoded": decoded, "stored": stored, "transform": transform, "difference": difference, "layout": layout,
            "bits": bits, "shape": shape, "no_data": no_data, "codes": present, "scale": scale, "offset": offset,
            "stored_bytes": elements * width}


# ---- §4.3 Transforms, §4.4 Band difference
def decode_array(d, payload):
    """Returns the bytes of the values: little-endian, C-contiguous, in the order of the shape."""
    need(d["stored"] != "bool" or not payload.strip(b"\0\1"), "bool array: bytes other than 0 and 1")
    if (d["transform"], d["difference"], d["layout"]) == (NONE, 0, 0) or not payload:
        return payload
    import numpy as np
    shape, decoded = d["shape"], TYPES[d["decoded"]][2]
    q = np.frombuffer(payload, f"<u{TYPES[d['stored']][1]}")
    if d["layout"]:
        q = np.moveaxis(q.reshape(shape[-1], *shape[:-1]), 0, -1)
    if d["difference"]:
        q = np.cumsum((q.reshape(shape) >> 1) ^ -(q.reshape(shape) & 1), axis=-1, dtype=q.dtype)
    q = np.ascontiguousarray(q).reshape(shape)
    need(d["transform"] != FIXED or int(q.max()) < 1 << d["bits"], "fixed-point element: 2^bits or more")
    values = q.view(TYPES[d["stored"]][2])
    with np.errstate(all="ignore"):
        if d["transform"] == FIXED:
            values = np.array(d["offset"], "<f4") + values.astype("<f4") * np.array(d["scale"], "<f4")
        elif d["transform"] == INTEGER and decoded == "<f2":
            values = values.astype("<f8").astype("<f2")  # exact, then rounded once; NumPy's own way rounds twice
        elif d["transform"] == F16 and decoded == "<f4":
            quiet = np.isnan(values) * np.uint32(0x400000)
            values = (values.astype("<f4").view("<u4") | quiet).view("<f4")
        else:
            values = values.astype(decoded)
        for i, code in d["codes"].items():
            value = np.array((np.nan, d["no_data"], np.inf, -np.inf)[i])
            values[q == code] = np.nan if np.isnan(value) else value.astype(decoded)
    return values.tobytes()


# ---- §5 Codecs
RAW, ZSTD, BLOSC2, JPEG = 1, 2, 3, 4
UNIT = 4 << 20


def decode(codec, payload, decoded_bytes, item=1):
    """Undoes the codec. `item` is the size in bytes of a stored element."""
    if codec in (RAW, JPEG):
        return payload
    undo, values, rest, coded = undo_zstd if codec == ZSTD else undo_blosc2, [], payload, 0
    for start in range(0, decoded_bytes, UNIT):
        value, rest, made = undo(rest, min(UNIT, decoded_bytes - start), item)
        values.append(value)
        coded += made
        if decoded_bytes > 1 << 20:
            within(coded, 1000 * len(payload), "expansion")
    need(not rest, "bytes after the last unit")
    return b"".join(values)


# ---- §5.2 zstd
def undo_zstd(data, size, _item=1):
    """Returns the value of the frame at the start of `data`, the bytes after the frame, and the number of bytes that
    the decoder made.
    """
    import zstandard
    need(data[:4] == b"\x28\xb5\x2f\xfd", "zstd magic")
    need(len(data) > 4 and data[4] & 15 == 0, "zstd frame: cut, or with a checksum, a dictionary or a reserved bit")
    try:
        header = zstandard.get_frame_parameters(data)
        need(header.content_size == size, f"zstd content size: expected {size}, found {header.content_size}")
        need(header.window_size <= 8 << 20, "zstd window")
        frame = zstandard.ZstdDecompressor().decompressobj()
        value = frame.decompress(data)
    except zstandard.ZstdError as e:
        raise Bad(f"zstd frame: {e}") from None
    need(frame.eof and len(value) == size, "zstd frame: cut, or of another size")
    return value, frame.unused_data, size


# ---- §5.3 blosc2
def undo_blosc2(data, unit, item):
    """Returns the value of the chunk at the start of `data`, the bytes after the chunk, and the number of bytes that
    its stream coder made.
    """
    import blosc2
    coded, length = walk_blosc2(data, unit, item)
    try:
        value = blosc2.decompress2(data[:length])
    except (RuntimeError, ValueError, TypeError) as e:
        raise Bad(f"blosc2 chunk: {e}") from None
    need(len(value) == unit, f"blosc2 chunk: expected {unit} bytes, found {len(value)}")
    return value, data[length:], coded


def walk_blosc2(data, unit, item):
    cursor = Cursor(data, "blosc2 chunk")
    version, coder_version, flags, size, nbytes, block, length = cursor.unpack("4B3I")
    filters, coder, parameter, metas, second, third = cursor.unpack("6sBB6sBB")
    need((version, coder_version, size, nbytes, parameter, second) == (5, 1, item, unit, 0, 0), "blosc2 header")
    need(flags & 0x0D == 5 and third & 0x8F == 0 and unit % item == 0, "blosc2 flags")
    need(32 <= length <= len(data), "blosc2 chunk size")
    special = third >> 4
    if special or flags & 2:
        need(length - 32 == {0: unit, 1: 0, 2: 0, 3: item}.get(special), "blosc2 special or stored chunk")
        need(special != 2 or item >= 4, "blosc2 chunk of NaN")
        return 0, length
    need((flags >> 5, coder) in ((1, 1), (1, 2), (4, 5)) and not flags & 16, "blosc2 coder or split mode")
    used = [(f, m) for f, m in zip(filters, metas) if f]
    need([f for f, _ in used] in ([], [1], [2], [35], [1, 35]), f"blosc2 filters: {used}")
    need(all(m == item for f, m in used if f == 35), f"blosc2 filter parameters: {used}")
    need(block == min(item << 16, unit), "blosc2 block size")
    cursor = Cursor(data[:length], "blosc2 chunk")
    cursor.take(32)
    starts, coded = cursor.unpack(f"{-(-unit // block)}I"), 0
    for i, start in enumerate(starts):
        need(start == cursor.pos, "blosc2 block start")
        here = min(block, unit - i * block)
        streams = item if here == block else 1
        m = here // streams
        for _ in range(streams):
            (c,) = cursor.unpack("i")
            need(-255 <= c <= m, f"blosc2 stream size: {c}")
            stream = cursor.take(c if c >= 0 else 1)
            need(c >= 0 or stream == b"\1", "blosc2 run")
            if 0 < c < m:
                coded += m
                need(coder != 5 or not undo_zstd(stream, m)[1], "blosc2 stream: bytes after the zstd frame")
    need(cursor.pos == length, "blosc2 chunk size")
    return coded, length


# ---- A field's value
def decode_field(field, stored):
    """Returns the type and value of a field."""
    kind = field["kind"]
    if kind == "scalar" or stored is None:
        return field.get("dtype", "absent"), stored
    codec, descriptor, decoded_bytes, payload = stored
    if kind == "array":
        d = parse_descriptor(descriptor)
        value = decode_array(d, decode(codec, payload, decoded_bytes, TYPES[d["stored"]][1]))
        return f"{d['decoded']}[{','.join(map(str, d['shape']))}]", value
    value = decode(codec, payload, decoded_bytes)
    if kind in ("text", "json"):
        (parse_text if kind == "text" else parse_json)(value, kind)
    return descriptor.decode() if kind == "image" else kind, value


# ---- §5.5 Segment indexes
SAMPLINGS = {(1, 1): 3, (2, 1): 4, (1, 2): 4, (2, 2): 6}  # blocks of an MCU of three components


def parse_jpeg(jpeg):
    """Returns the number of MCUs, MCUs in a row, blocks of an MCU, restart interval, components, and the bytes after the
    header of the first scan.
    """
    cursor, restart, frame = Cursor(jpeg, "JPEG"), 0, None
    need(cursor.take(2) == b"\xff\xd8", "JPEG: its first marker")
    while True:
        fill, marker = cursor.take(2)
        need(fill == 0xFF, "JPEG: bytes outside segments")
        if marker == 0xFF:
            cursor.pos -= 1
            continue
        body = cursor.take(int.from_bytes(cursor.take(2), "big") - 2)
        if marker == 0xDD:
            restart = int.from_bytes(body, "big")
        elif marker in (0xC0, 0xC1):
            frame = struct.unpack(">BHHB", body[:6]) + (tuple(divmod(body[7], 16)), body[10::3])
        elif marker == 0xDA:
            break
    need(frame, "segment index: the picture is not baseline")
    precision, height, width, count, (h, v), others = frame
    need(precision == 8 and count in (1, 3) and body[0] == count, "segment index: the picture allows none")
    h, v = (1, 1) if count == 1 else (h, v)
    need(count == 1 or (h, v) in SAMPLINGS and set(others) == {0x11}, "segment index: the subsampling of the picture")
    columns, rows = -(-width // (8 * h)), -(-height // (8 * v))
    restart = restart if restart < columns * rows else 0
    return columns * rows, columns, 1 if count == 1 else SAMPLINGS[h, v], restart, count, len(jpeg) - cursor.pos


def check_segments(index, media_type, jpeg):
    """Checks the rules of the table. Only decoding the picture could show whether the numbers match it."""
    if index is None:
        return
    need(media_type == "image/jpeg", "segment index: without a JPEG")
    mcus, columns, _, restart, count, after = parse_jpeg(jpeg)
    cursor = Cursor(index, "segment index")
    segments, interval, components, length_bits, d0, d1, d2, reserved = cursor.unpack("IHBBBBBB")
    *bases, reserved_too, scan_bytes = cursor.unpack("hhhHI")
    (crc,) = cursor.unpack("I")
    need(crc == crc32(index[:24] + index[28:]), "segment index CRC32: damaged")
    need(components == count, f"segment index: {components} components, {count} in the picture")
    need(1 <= interval <= min(64, columns) and restart % interval == 0, f"segment index: interval {interval}")
    need(segments == -(-mcus // interval) >= 2, f"segment index: {segments} segments")
    need(not reserved | reserved_too, "segment index: reserved bytes")

    def numbers(n, bits):
        packed = int.from_bytes(cursor.take(-(-n * bits // 8)), "little")
        need(packed >> n * bits == 0, "segment index: padding")
        return [packed >> i * bits & (1 << bits) - 1 for i in range(n)]

    lengths = numbers(segments, length_bits)
    need(length_bits == max(1, max(lengths).bit_length()) <= 32, f"segment index: {length_bits} bits of a length")
    need(-(-sum(lengths) // 8) == scan_bytes <= after - 2, f"segment index: {sum(lengths)} bits in {scan_bytes} bytes")
    for component, (bits, base) in enumerate(zip((d0, d1, d2), bases)):
        if component >= components:
            need((bits, base) == (0, 0), "segment index: numbers for a component that does not exist")
            continue
        found = numbers(segments + 1, bits)
        need(min(found) == 0 and bits == max(found).bit_length() <= 16, f"segment index: {bits} bits of a DC coefficient")
        need(base + max(found) < 1 << 15, "segment index: a DC coefficient out of range")
        need(base + found[0] == 0, "segment index: first DC coefficient")
    need(cursor.pos == len(index), "segment index: bytes after its end")
