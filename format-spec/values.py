"""Arrays and codecs of shardpack 1.0, sections 4 and 5 of the specification, and the checks that reader.py shares with them.

numpy, zstandard and blosc2 are imported where a value needs them; a `raw` value that was not transformed needs none.
"""

import struct

# ---- §1 Conventions


class Bad(Exception):
    """The bytes break the specification."""


class Limit(Bad):
    """The bytes may be right, but ask for more than this reader gives (§6)."""


def need(condition, what):
    if not condition:
        raise Bad(what)


def within(value, limit, what):
    if value > limit:
        raise Limit(f"{what} is over the limit: {value} > {limit}")


class Cursor:
    """Reads a byte string from front to back; running out of bytes is a violation."""

    def __init__(self, data, what):
        self.data, self.what, self.pos = data, what, 0

    def take(self, n):
        need(self.pos + n <= len(self.data), f"{self.what}: {n} more bytes expected at {self.pos}, truncated")
        self.pos += n
        return self.data[self.pos - n:self.pos]

    def unpack(self, layout):
        return struct.unpack("<" + layout, self.take(struct.calcsize("<" + layout)))

    def zeros(self, n):
        need(not any(self.take(n)), f"{self.what}: reserved bytes or padding before {self.pos} are not zero")

    def pad(self):
        self.zeros(-self.pos % 64)


# ---- §4.1 Element types: name → code, bytes, NumPy's spelling

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
    need(width <= 4 or not present, "reserved codes of a stored type above 4 bytes")
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
    """The values' bytes, little-endian, C-contiguous in the order of the shape."""
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
    """Undoes the codec. Everything is walked before anything is decoded; `item` is the size of a stored element."""
    if codec in (RAW, JPEG):
        return payload
    walk, undo = (walk_zstd, decode_zstd) if codec == ZSTD else (walk_blosc2, decode_blosc2)
    parts, pos, work = [], 0, 0
    for start in range(0, decoded_bytes, UNIT):
        length, coded = walk(payload[pos:], min(UNIT, decoded_bytes - start), item)
        parts.append(payload[pos:pos + length])
        pos, work = pos + length, work + coded
    need(pos == len(payload), "bytes after the last unit")
    if decoded_bytes > 1 << 20:
        within(work, 1000 * len(payload), "expansion")
    result = b"".join(map(undo, parts))
    need(len(result) == decoded_bytes, f"decoded bytes: expected {decoded_bytes}, found {len(result)}")
    return result


# ---- §5.2 zstd

def walk_zstd(data, content_bytes, _item=1):
    """Length of the frame at the start of `data`, and the number of bytes that decoding makes."""
    cursor = Cursor(data, "zstd frame")
    need(cursor.take(4) == b"\x28\xb5\x2f\xfd", "zstd magic")
    (descriptor,) = cursor.unpack("B")
    need(descriptor & 15 == 0, "zstd frame with a checksum, a dictionary or a reserved bit")
    single, size_code = descriptor >> 5 & 1, descriptor >> 6
    need(single or size_code, "zstd content size: absent")
    window = 0 if single else cursor.take(1)[0]
    size = int.from_bytes(cursor.take((1, 2, 4, 8)[size_code]), "little") + 256 * (size_code == 1)
    need((size if single else (8 + (window & 7) << 7 + (window >> 3))) <= 8 << 20, "zstd window")
    need(size == content_bytes, f"zstd content size: expected {content_bytes}, found {size}")
    last = 0
    while not last:
        header = int.from_bytes(cursor.take(3), "little")
        last, kind, block = header & 1, header >> 1 & 3, header >> 3
        need(kind != 3 and block <= 128 << 10, "zstd block")
        cursor.take(1 if kind == 1 else block)
    return cursor.pos, content_bytes


def decode_zstd(frame):
    import zstandard
    try:
        return zstandard.ZstdDecompressor().decompress(frame)
    except zstandard.ZstdError as e:
        raise Bad(f"zstd frame: {e}") from None


# ---- §5.3 blosc2

def walk_blosc2(data, unit, item):
    """Length of the chunk at the start of `data`, and the number of bytes that the coder of its streams makes."""
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
        return length, 0
    need((flags >> 5, coder) in ((1, 1), (1, 2), (4, 5)) and not flags & 16, "blosc2 coder or split mode")
    used = [(f, m) for f, m in zip(filters, metas) if f]
    need([f for f, _ in used] in ([], [1], [2], [35], [1, 35]), f"blosc2 filters: {used}")
    need(all(m == item for f, m in used if f == 35), f"blosc2 filter parameters: {used}")
    need(block == min(item << 16, unit), "blosc2 block size")
    cursor = Cursor(data[:length], "blosc2 chunk")
    cursor.take(32)
    starts, work = cursor.unpack(f"{-(-unit // block)}I"), 0
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
                work += m
                need(coder != 5 or walk_zstd(stream, m)[0] == c, "blosc2 stream: bytes after the zstd frame")
    need(cursor.pos == length, "blosc2 chunk size")
    return length, work


def decode_blosc2(chunk):
    import blosc2
    try:
        return blosc2.decompress2(chunk)
    except (RuntimeError, ValueError, TypeError) as e:
        raise Bad(f"blosc2 chunk: {e}") from None
