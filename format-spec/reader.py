#!/usr/bin/env python3
"""An independent reader of shardpack 1.0, laid out like the specification beside it (README.md): the section numbers are those.

Written to be read, not to be fast. Nothing but the standard library; sections 4 and 5, which need numpy, zstandard and blosc2 to
decode some values, are in values.py.

    reader.py verify PATH    check a dataset or a lone shard, every byte of it; exit code 0 if it is sound, 1 if not
    reader.py digest PATH    one line for each field of each sample: key, field, type, SHA-256 of the decoded value
"""

import hashlib
import json
import os
import re
import struct
import sys
from zlib import crc32

from values import JPEG, RAW, TYPES, ZSTD, BLOSC2, Bad, Cursor, Limit, decode, decode_array, need, parse_descriptor, within


def align(n):
    return n + -n % 64


def check_crc(data, at, what):
    need(crc32(data[:at]) == int.from_bytes(data[at:at + 4], "little"), f"{what} CRC32: damaged")


# ---- §2.1 Header and identity

def parse_identity(cursor):
    major, _minor, alignment, required, _optional, dataset_id, number = cursor.unpack("HHIQQ16sI")
    need(major == 1, f"format version: expected 1.x, found {major}")
    need(alignment == 64, f"record alignment: expected 64, found {alignment}")
    need(required == 0, f"required features: unknown bits {required:#x}")
    cursor.zeros(8)
    return dataset_id.hex(), number


def parse_header(data):
    cursor = Cursor(data, "header")
    need(cursor.take(8) == b"\x89SHRD\r\n\x1a", "header magic")
    check_crc(data, 60, "header")
    return parse_identity(cursor)


# ---- §2.2 Records

CODECS = {"image": (RAW, JPEG), "array": (RAW, ZSTD, BLOSC2)}  # of all other kinds: raw and zstd


def parse_frame(data):
    cursor = Cursor(data, "record frame")
    need(cursor.take(4) == b"SREC", "record magic")
    check_crc(data, 60, "record frame")
    shard, sample_id, record_bytes, head_bytes, body_crc, fields = cursor.unpack("IQQIIH")
    cursor.zeros(2)
    key_bytes, scalar_bytes = cursor.unpack("II")
    cursor.zeros(16)
    need(head_bytes >= 64 and head_bytes % 64 == 0 and head_bytes <= record_bytes, "record head bytes")
    return (shard, sample_id, record_bytes, body_crc), (head_bytes, fields, key_bytes, scalar_bytes)


def parse_record(data, schema):
    """Key, packed scalars, and for each stored field (codec, descriptor, decoded bytes, payload) or None."""
    (_, _, record_bytes, body_crc), (head_bytes, field_count, key_bytes, scalar_bytes) = parse_frame(data)
    need(crc32(data[64:record_bytes]) == body_crc, "record CRC32: damaged")
    stored = [field for field in schema if field["kind"] != "scalar"]
    need(field_count == len(stored), f"field count: expected {len(stored)}, found {field_count}")
    need(scalar_bytes == sum(TYPES[f["dtype"]][1] for f in schema if f["kind"] == "scalar"), "scalar bytes of the record")
    cursor, entries, values = Cursor(data[:record_bytes], "record"), [], []
    cursor.take(64)
    for _ in stored:
        (codec,) = cursor.unpack("B")
        cursor.zeros(3)
        descriptor_bytes, stored_bytes, decoded_bytes = cursor.unpack("IQQ")
        need(codec <= 4, f"codec code: {codec}")
        need(codec or not descriptor_bytes | stored_bytes | decoded_bytes, "absent field with lengths")
        need(codec not in (RAW, JPEG) or stored_bytes == decoded_bytes, "decoded bytes of codec raw or jpeg")
        entries.append((codec, descriptor_bytes, stored_bytes, decoded_bytes))
    scalars = cursor.take(scalar_bytes)
    descriptors = [cursor.take(descriptor_bytes) for _, descriptor_bytes, _, _ in entries]
    key = parse_key(cursor.take(key_bytes))
    cursor.pad()
    need(cursor.pos == head_bytes, f"record head bytes: expected {cursor.pos}, found {head_bytes}")
    for field, descriptor, (codec, _, stored_bytes, decoded_bytes) in zip(stored, descriptors, entries):
        if codec == 0:
            values.append(None)
            continue
        within(decoded_bytes, 1 << 30, "decoded field")
        cursor.pad()
        values.append((codec, descriptor, decoded_bytes, cursor.take(stored_bytes)))
        need(codec in CODECS.get(field["kind"], (RAW, ZSTD)), f"codec of field {field['name']!r}: {codec}")
        if field["kind"] == "array":
            need(parse_descriptor(descriptor)["stored_bytes"] == decoded_bytes, "decoded bytes of an array field")
        elif field["kind"] == "image":
            pattern = rb"image/jpeg" if codec == JPEG else rb"image/[a-z0-9.+-]{1,64}"
            need(re.fullmatch(pattern, descriptor), f"media type: {descriptor!r}")
        else:
            need(descriptor == b"", f"descriptor of field {field['name']!r}: expected none")
    need(cursor.pos == record_bytes, f"record bytes: expected {cursor.pos}, found {record_bytes}")
    return key, scalars, values


# ---- §2.3 Index

def parse_index(data, record_count, index_offset):
    """Metadata; rows (offset, record bytes, CRC32, sample id, key); one column of packed values for each scalar field."""
    cursor = Cursor(data, "index")

    def section(size):
        content = cursor.take(size)
        cursor.pad()
        return content

    need(cursor.take(8) == b"SHRDINDX", "index magic")
    count, metadata_bytes, keys_bytes, scalar_count = cursor.unpack("QQQI")
    need(count == record_count, f"record count in index: expected {record_count}, found {count}")
    cursor.pad()
    within(metadata_bytes, 64 << 20, "shard metadata")
    metadata = parse_json(section(metadata_bytes), "shard metadata")
    check(metadata, METADATA, "shard metadata")
    check_schema(metadata["schema"])
    scalars = [field for field in metadata["schema"]["fields"] if field["kind"] == "scalar"]
    need(scalar_count == len(scalars), f"scalar count in index: expected {len(scalars)}, found {scalar_count}")
    offsets, lengths, crcs, ids = (struct.unpack(f"<{count}{code}", section(count * size))
                                   for code, size in (("Q", 8), ("Q", 8), ("I", 4), ("Q", 8)))
    columns = [section(count * TYPES[field["dtype"]][1]) for field in scalars]
    for field, column in zip(scalars, columns):
        need(field["dtype"] != "bool" or max(column, default=0) <= 1, f"bool scalar {field['name']!r}: not 0 or 1")
    key_ends, all_keys = struct.unpack(f"<{count}Q", section(count * 8)), section(keys_bytes)
    need(cursor.pos == len(data), "index: bytes after the keys")
    end, key_end, keys = 64, 0, []
    for i in range(count):
        need(offsets[i] == end and lengths[i] >= 64, f"record range of record {i}: hole, overlap or out of order")
        end = align(offsets[i] + lengths[i])
        need(end <= index_offset, f"record range of record {i}: ends past the index")
        need(key_end <= key_ends[i] <= keys_bytes, f"key end of record {i}")
        keys.append(parse_key(all_keys[key_end:key_ends[i]]))
        key_end = key_ends[i]
    need(end == index_offset, "end of the last record: a hole before the index")
    need(key_end == keys_bytes, "end of the last key")
    return metadata, list(zip(offsets, lengths, crcs, ids, keys)), columns


# ---- §2.4 Footer

def parse_footer(data, file_bytes):
    cursor = Cursor(data, "footer")
    need(cursor.take(8) == b"SHRDFOOT" and data[120:] == b"\x1a\n\rDRHS\x89", "footer magic (truncated, or bytes after it)")
    check_crc(data, 116, "footer")
    identity = parse_identity(cursor)
    cursor.zeros(4)
    stated_bytes, record_count, index_offset, index_bytes, index_crc = cursor.unpack("QQQQI")
    cursor.zeros(16)
    need(stated_bytes == file_bytes == index_offset + index_bytes + 128, f"shard size: {file_bytes} bytes")
    need(index_offset >= 64 and index_offset % 64 == 0 and index_bytes % 64 == 0, "index range")
    within(index_bytes, 1 << 30, "index")
    within(record_count, 1 << 31, "records")
    return identity, record_count, index_offset, index_bytes, index_crc


# ---- §3 JSON

def parse_json(data, what):
    def unique(pairs):
        need(len(dict(pairs)) == len(pairs), f"{what}: duplicate key")
        return dict(pairs)

    def number(text, whole=False):
        need(abs(float(text)) != float("inf"), f"{what}: number out of range")
        return int(text) if whole and text != "-0" else float(text)

    def walk(value, depth):
        depth += isinstance(value, (dict, list))
        need(depth <= 16, f"{what}: nested too deeply")
        if isinstance(value, str):
            value.encode()  # fails on unpaired surrogates
        for part in [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ():
            walk(part, depth)

    try:  # NaN and Infinity are handed to parse_constant, which finds them out of range
        value = json.loads(data.decode(), object_pairs_hook=unique, parse_float=number, parse_int=lambda t: number(t, True),
                           parse_constant=lambda t: number("inf"))
        walk(value, 0)
        return value
    except (ValueError, RecursionError) as e:
        raise Bad(f"{what}: not strict JSON: {e}") from None


def check(value, shape, what):
    """Compares with a shape: a dict of keys ('?' marks optional ones), a list of one shape, a pattern, or a bound of integers."""
    if isinstance(shape, dict):
        need(type(value) is dict, f"{what}: expected an object")
        if shape:
            unknown = set(value) - {key.rstrip("?") for key in shape}
            need(not unknown, f"{what}: unknown keys {unknown}")
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


# ---- §3.1 Schema, §3.2 Shard metadata, §3.3 Manifest

SCHEMA = {"fields": [{"name": r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}", "kind": r"image|array|text|json|bytes|scalar",
                      "dtype?": "|".join(TYPES)}]}
METADATA = {"schema": SCHEMA, "classes?": [".*"], "recipe": {}, "shards?": 1 << 32}
MANIFEST = {"format": "shardpack", "version": r"1\.(0|[1-9][0-9]{0,4})", "dataset_id": "[0-9a-f]{32}", "samples": 1 << 64,
            "schema": SCHEMA, "classes?": [".*"], "recipe": {}, "fidelity": {},
            "shards": [{"name": ".*", "bytes": 1 << 64, "samples": 1 << 64, "footer_crc32": "[0-9a-f]{8}",
                        "sha256": "[0-9a-f]{64}"}]}


def check_schema(schema):
    within(len(schema["fields"]), 1024, "fields")
    for field in schema["fields"]:
        need((field["kind"] == "scalar") == ("dtype" in field), f"field {field['name']!r}: a dtype for scalars only")
    need(len({field["name"] for field in schema["fields"]}) == len(schema["fields"]), "field name: each once")


def parse_manifest(data):
    within(len(data), 64 << 20, "manifest")
    manifest = parse_json(data, "manifest")
    check(manifest, MANIFEST, "manifest")
    need(int(manifest["version"][2:]) < 65536, "manifest version")
    shards = manifest["shards"]
    within(len(shards), 1_000_000, "shards")
    check_schema(manifest["schema"])
    for shard in shards:
        check_shard_name(shard["name"])
        need(shard["bytes"] >= 192, f"bytes of {shard['name']}: expected at least 192")
    need(len({shard["name"].lower() for shard in shards}) == len(shards), "shard name: each once, in any case of letters")
    total = sum(shard["samples"] for shard in shards)
    need(total == manifest["samples"], f"samples of the dataset: expected {total}, found {manifest['samples']}")
    return manifest


# ---- §3.4 Names and keys

def check_shard_name(name):
    need(name.count("/") <= 1, f"shard name: {name!r}")
    for part in name.split("/"):
        need(re.fullmatch(r"(?!\.)[A-Za-z0-9._-]{1,255}(?<!\.)", part), f"shard name: {name!r}")
        need(not re.fullmatch(r"con|prn|aux|nul|(com|lpt)[1-9]", part.split(".")[0].lower()), f"shard name: {name!r}")


def parse_key(data):
    need(1 <= len(data) <= 4096, "sample key: 1 to 4096 bytes")
    try:
        key = data.decode()
    except UnicodeDecodeError:
        raise Bad("sample key: not UTF-8") from None
    need(not re.search(r"[\x00-\x1f\x7f-\x9f]", key), f"sample key: control characters in {key!r}")
    need(not {"", ".", ".."} & {*key.split("/")}, f"sample key: not a plain relative path: {key!r}")
    return key


# ---- Files

class Shard:
    """An open shard: header, footer and index are checked; records are read one by one."""

    def __init__(self, path, manifest=None, number=0):
        need(os.path.isfile(path), f"shard: expected a regular file: {path}")
        self.path, size = path, os.path.getsize(path)
        need(size >= 192, f"shard size: expected at least 192 bytes, found {size} (truncated)")
        footer, header = self.read(size - 128, 128), self.read(0, 64)
        (dataset_id, self.number), count, index_offset, index_bytes, index_crc = parse_footer(footer, size)
        parse_header(header)
        need(header[8:60] == footer[8:60], "identity in header and footer")
        index = self.read(index_offset, index_bytes)
        need(crc32(index) == index_crc, "index CRC32: damaged")
        self.metadata, self.rows, self.columns = parse_index(index, count, index_offset)
        self.fields = self.metadata["schema"]["fields"]
        if manifest:
            entry, crc = manifest["shards"][number], f"{int.from_bytes(footer[116:120], 'little'):08x}"
            need((dataset_id, self.number) == (manifest["dataset_id"], number), "dataset id or shard number: not the manifest's")
            need((size, count, crc) == (entry["bytes"], entry["samples"], entry["footer_crc32"]), "manifest and shard disagree")
            need(self.metadata["schema"] == manifest["schema"], "schema: not the manifest's")

    def read(self, offset, size):
        with open(self.path, "rb") as file:
            file.seek(offset)
            return file.read(size)

    def record(self, i):
        """Record i: for each field (name, type, value bytes or None)."""
        offset, length, crc, sample_id, key = self.rows[i]
        within(length, 1 << 30, "record")
        data = self.read(offset, length)
        need(parse_frame(data)[0] == (self.number, sample_id, length, crc), "record frame and index disagree")
        found_key, scalars, values = parse_record(data, self.fields)
        need(found_key == key, "sample key: record and index disagree")
        columns, values, scalars = iter(self.columns), iter(values), Cursor(scalars, "scalars")
        for field in self.fields:
            if field["kind"] == "scalar":
                size = TYPES[field["dtype"]][1]
                value = scalars.take(size)
                need(value == next(columns)[i * size:(i + 1) * size], "scalars: record and index disagree")
                yield field["name"], field["dtype"], value
            else:
                yield field["name"], *decode_field(field["kind"], next(values))


def decode_field(kind, stored):
    """Type and value of a stored field."""
    if stored is None:
        return "absent", None
    codec, descriptor, decoded_bytes, payload = stored
    if kind == "array":
        d = parse_descriptor(descriptor)
        value = decode_array(d, decode(codec, payload, decoded_bytes, TYPES[d["stored"]][1]))
        return f"{d['decoded']}[{','.join(map(str, d['shape']))}]", value
    value = decode(codec, payload, decoded_bytes)
    if kind == "json":
        parse_json(value, "JSON")
    if kind == "text":
        try:
            value.decode()
        except UnicodeDecodeError as e:
            raise Bad(f"text: not UTF-8: {e}") from None
    return descriptor.decode() if kind == "image" else kind, value


def open_dataset(path):
    """The manifest (None for a lone shard), and for each shard its path and a function that opens it."""
    if not os.path.isdir(path) and not path.endswith(".json"):
        return None, [(path, lambda: Shard(path))]
    path = os.path.join(path, "manifest.json") if os.path.isdir(path) else path
    folder = os.path.dirname(os.path.realpath(path))
    with open(path, "rb") as file:
        manifest = parse_manifest(file.read((64 << 20) + 1))

    def opener(number, name):
        target = os.path.join(folder, name)

        def open_shard():
            need(os.path.realpath(target).startswith(folder + os.sep), f"shard name: leads out of the folder: {name}")
            return Shard(target, manifest, number)
        return target, open_shard
    return manifest, [opener(number, entry["name"]) for number, entry in enumerate(manifest["shards"])]


# ---- §8 What a reader does on each violation

def verify(path):
    """Every problem of a dataset or a lone shard: [(kind, file, record or None, message)]."""
    problems, seen, shared = [], set(), None

    def attempt(file, record, action):
        try:
            return action()
        except Bad as e:
            problems.append(("limit" if isinstance(e, Limit) else "format", file, record, str(e)))

    manifest, shards = attempt(path, None, lambda: open_dataset(path)) or (None, [])
    common = lambda document: [document.get(key) for key in ("schema", "classes", "recipe")]
    for number, (file, open_shard) in enumerate(shards):
        shard = attempt(file, None, open_shard)
        if shard is None:
            continue
        shared = shared or common(manifest or shard.metadata)
        attempt(file, None, lambda: need(common(shard.metadata) == shared, "schema, classes or recipe: not the same everywhere"))
        if manifest:
            with open(file, "rb") as whole:
                sha256 = hashlib.file_digest(whole, "sha256").hexdigest()
            attempt(file, None, lambda: need(sha256 == manifest["shards"][number]["sha256"], "SHA-256 of the shard"))
            stated = shard.metadata.get("shards", len(shards))
            attempt(file, None, lambda: need(stated == len(shards), f"number of shards: {stated}"))
        for i, (offset, length, _, sample_id, key) in enumerate(shard.rows):
            padding = shard.read(offset + length, -length % 64)
            attempt(file, i, lambda: need(not any(padding), "padding after the record: not zero"))
            attempt(file, i, lambda: need(not {key, sample_id} & seen, f"sample key or id twice: {key!r}, {sample_id}"))
            seen |= {key, sample_id}
            for name, dtype, value in attempt(file, i, lambda: list(shard.record(i))) or []:
                if name == "label" and "int" in dtype and "classes" in shard.metadata:
                    label = int.from_bytes(value, "little", signed=dtype.startswith("int"))
                    attempt(file, i, lambda: need(0 <= label < len(shard.metadata["classes"]), f"label: {label}"))
    return problems


def digest(path):
    """One line for each field of each sample."""
    for _, open_shard in open_dataset(path)[1]:
        shard = open_shard()
        for i, row in enumerate(shard.rows):
            for name, kind, value in shard.record(i):
                yield "\t".join((row[4], name, kind, "-" if value is None else hashlib.sha256(value).hexdigest()))


def main(arguments):
    if len(arguments) != 2 or arguments[0] not in ("verify", "digest"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        if arguments[0] == "verify":
            problems = verify(arguments[1])
            for kind, file, record, message in problems:
                print(f"{file}: " + (f"record {record}: " if record is not None else "") + f"{message} ({kind})")
            return int(bool(problems))
        for line in digest(arguments[1]):
            print(line)
        return 0
    except Bad as e:
        print(f"{arguments[1]}: {e}", file=sys.stderr)
        return 1
    except OSError as e:
        print(e, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
