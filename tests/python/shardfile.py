"""Reads a shard without using the project's code, for tests that decode stored bytes with other libraries.

Checks little, because `format-spec/reader.py` checks everything.
"""

import json
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

DTYPES = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64"]
CODECS = {1: "raw", 2: "zstd", 3: "blosc2", 4: "jpeg"}
UNIT_BYTES = 4 << 20


@dataclass
class Descriptor:

    decoded: np.dtype
    stored: np.dtype
    transform: int
    band_difference: bool
    band_major: bool
    bits: int
    no_data: float | None
    codes: list
    shape: tuple
    scale: np.ndarray | None = None
    offset: np.ndarray | None = None

    @classmethod
    def parse(cls, data):
        decoded, stored, transform, difference, layout, rank, flags, bits = data[:8]
        (no_data,) = struct.unpack_from("<d", data, 8)
        codes = [c if flags >> (i + 1) & 1 else None for i, c in enumerate(struct.unpack_from("<4I", data, 16))]
        shape = struct.unpack_from(f"<{rank}Q", data, 32)
        out = cls(
            np.dtype(DTYPES[decoded - 1]), np.dtype(DTYPES[stored - 1]), transform, bool(difference), bool(layout), bits,
            no_data if flags & 1 else None, codes, shape,
        )
        if transform == 3:
            out.scale, out.offset = np.frombuffer(data, "<f4", offset=32 + 8 * rank).reshape(2, shape[-1])
        return out

    def values(self, payload):
        stored = np.frombuffer(payload, self.stored.newbyteorder("<"))
        if self.band_major:
            stored = np.moveaxis(stored.reshape(self.shape[-1], *self.shape[:-1]), 0, -1)
        stored = stored.reshape(self.shape)
        if self.band_difference:
            bits = 8 * self.stored.itemsize
            unsigned = np.dtype(f"u{self.stored.itemsize}")
            zigzag = stored.view(unsigned) if stored.flags.c_contiguous else np.ascontiguousarray(stored).view(unsigned)
            step = (zigzag >> 1) ^ (0 - (zigzag & 1)).astype(unsigned)
            stored = (np.cumsum(step.astype(np.uint64), axis=-1) & ((1 << bits) - 1)).astype(unsigned).view(self.stored)
        out = stored
        if self.transform == 3:
            out = self.offset + stored.astype(np.float32) * self.scale
        out = np.array(out, dtype=self.decoded)
        if any(code is not None for code in self.codes):
            pattern = np.ascontiguousarray(stored).view(f"u{self.stored.itemsize}")
            for code, value in zip(self.codes, [np.nan, self.no_data, np.inf, -np.inf]):
                if code is not None:
                    out[pattern == code] = value
        return out


@dataclass
class Field:
    codec: str
    decoded_bytes: int
    descriptor: bytes
    data: bytes


def records(path):
    """Yields the key and the stored fields, by name, of each record in a shard."""
    data = Path(path).read_bytes()
    footer = data[-128:]
    record_count, index_offset, _ = struct.unpack_from("<3Q", footer, 72)
    (metadata_bytes,) = struct.unpack_from("<Q", data, index_offset + 16)
    metadata = json.loads(data[index_offset + 64 : index_offset + 64 + metadata_bytes])
    stored = [field["name"] for field in metadata["schema"]["fields"] if field["kind"] != "scalar"]
    at = 64
    for _ in range(record_count):
        magic, _, _, record_bytes, head_bytes, _, field_count, key_bytes, scalar_bytes = struct.unpack_from("<4sIQQIIH2xII", data, at)
        assert magic == b"SREC" and field_count == len(stored)
        entries = [struct.unpack_from("<B3xIQQ", data, at + 64 + 24 * i) for i in range(field_count)]
        position = at + 64 + 24 * field_count + scalar_bytes
        descriptors = []
        for _, descriptor_bytes, _, _ in entries:
            descriptors.append(data[position : position + descriptor_bytes])
            position += descriptor_bytes
        key = data[position : position + key_bytes].decode()
        end, fields = at + head_bytes, {}
        for name, descriptor, (codec, _, stored_bytes, decoded_bytes) in zip(stored, descriptors, entries):
            if codec:
                end = -(-end // 64) * 64
                fields[name] = Field(CODECS[codec], decoded_bytes, descriptor, data[end : end + stored_bytes])
                end += stored_bytes
        yield key, fields
        at += -(-record_bytes // 64) * 64


def blosc2_chunks(payload):
    """Yields the chunks of a `blosc2` payload. Bytes 12 to 15 of a chunk contain its size."""
    while payload:
        (size,) = struct.unpack_from("<i", payload, 12)
        yield payload[:size]
        payload = payload[size:]


def with_value(data, value):
    """Return the bytes of a shard in which `value` replaces the stored bytes of the only field of the only record. The
    shard must have no scalars, and the new bytes must have the same codec and decoded size. All lengths and checksums
    are corrected.
    """
    footer = bytearray(data[-128:])
    (index_offset, index_bytes) = struct.unpack_from("<2Q", footer, 80)
    index, frame = bytearray(data[index_offset : index_offset + index_bytes]), bytearray(data[64:128])
    (head_bytes,) = struct.unpack_from("<I", frame, 24)
    head = bytearray(data[128 : 64 + head_bytes])
    struct.pack_into("<Q", head, 8, len(value))
    body, record_bytes = bytes(head) + value, head_bytes + len(value)
    struct.pack_into("<Q", frame, 16, record_bytes)
    struct.pack_into("<I", frame, 28, zlib.crc32(body))
    struct.pack_into("<I", frame, 60, zlib.crc32(frame[:60]))
    (metadata_bytes,) = struct.unpack_from("<Q", index, 16)
    # The index has three aligned columns (offset, length, CRC32), each with one row.
    at = 64 + -(-metadata_bytes // 64) * 64
    struct.pack_into("<Q", index, at + 64, record_bytes)
    struct.pack_into("<I", index, at + 128, zlib.crc32(body))
    out = data[:64] + frame + body
    out += bytes(-len(out) % 64)
    struct.pack_into("<2Q", footer, 64, len(out) + len(index) + 128, 1)
    struct.pack_into("<2Q", footer, 80, len(out), len(index))
    struct.pack_into("<I", footer, 96, zlib.crc32(index))
    struct.pack_into("<I", footer, 116, zlib.crc32(footer[:116]))
    return bytes(out + index + footer)
