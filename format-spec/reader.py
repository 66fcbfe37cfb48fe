#!/usr/bin/env python3
"""An independent reader of shardpack 1.3. Its parts have the order and the numbers of the specification (README.md).

It is written to be read, not to be fast, and needs only the standard library. Values (JSON, arrays, codecs) are in
values.py, which needs numpy, zstandard and blosc2 to decode some of them.

    reader.py verify PATH    check every byte of a dataset or a lone shard; exit code 0 if there is
                             no problem, 1 otherwise
    reader.py digest PATH    one line for each field of each sample: key, field, type, SHA-256 of the decoded value
"""

import contextlib
import hashlib
import os
import re
import struct
import sys
from collections import namedtuple
from zlib import crc32

from values import (BLOSC2, JPEG, RAW, TYPES, ZSTD, Bad, Cursor, align, check, check_crc, check_segments, decode_field, need, parse_descriptor,
                    parse_json, parse_text, same, within)


# ---- §2.1 Header and identity
def parse_identity(data):
    major, _minor, alignment, required, optional, dataset_id, number, reserved = struct.unpack("<HHIQQ16sI8s", data)
    need(major == 1, f"format version: expected 1.x, found {major}")
    need(alignment == 64, f"record alignment: expected 64, found {alignment}")
    need(required == 0, f"required features: unknown bits {required:#x}")
    need(not any(reserved), "identity: reserved bytes")
    return dataset_id.hex(), number, optional


def check_header(data, footer):
    need(data[:8] == b"\x89SHRD\r\n\x1a", "header magic")
    check_crc(data, 60, "header")
    need(data[8:60] == footer[8:60], "identity in header and footer")


# ---- §2.2 Records
CODECS = {"image": (RAW, JPEG), "array": (RAW, ZSTD, BLOSC2)}  # of all other kinds: raw and zstd


def parse_record(data, fields, shard_number, row):
    """Returns the scalar fields and the stored fields. A scalar field has its value; a stored field has (codec,
    descriptor, decoded bytes, stored bytes), or None if it is absent.
    """
    cursor = Cursor(data, "record")
    need(cursor.take(4) == b"SREC", "record magic")
    check_crc(data, 60, "record frame")
    number, sample_id, record_bytes, head_bytes, body_crc, field_count, reserved = cursor.unpack("IQQIIH2s")
    key_bytes, scalar_bytes, reserved_too, _crc = cursor.unpack("II16sI")
    need(not any(reserved + reserved_too), "record frame: reserved bytes")
    need((number, record_bytes, body_crc, sample_id) == (shard_number, *row[1:4]), "record frame: differs from the index")
    need(crc32(data[64:]) == body_crc, "record CRC32: damaged")
    stored = [field for field in fields if field["kind"] != "scalar"]
    sizes = [TYPES[field["dtype"]][1] for field in fields if field["kind"] == "scalar"]
    need((field_count, scalar_bytes) == (len(stored), sum(sizes)), "field count or scalar bytes of the record: not the schema's")
    entries = [cursor.unpack("B3sIQQ") for _ in stored]
    scalars = [cursor.take(size) for size in sizes]
    need(scalars == row.scalars, "scalars of the record: differ from the index")
    descriptors = [cursor.take(entry[2]) for entry in entries]
    need(parse_key(cursor.take(key_bytes)) == row.key, "sample key: differs from the index")
    cursor.pad()
    need(cursor.pos == head_bytes, f"record head bytes: expected {cursor.pos}, found {head_bytes}")
    values = []
    for field, descriptor, (codec, reserved, descriptor_bytes, stored_bytes, decoded_bytes) in zip(stored, descriptors, entries):
        need(not any(reserved), "field table: reserved bytes")
        if codec == 0:
            need(not descriptor_bytes | stored_bytes | decoded_bytes, "absent field with lengths")
            values.append(None)
            continue
        within(decoded_bytes, 1 << 30, "decoded field")
        cursor.pad()
        values.append((codec, descriptor, decoded_bytes, cursor.take(stored_bytes)))
        need(codec in CODECS.get(field["kind"], (RAW, ZSTD)), f"codec of field {field['name']!r}: {codec}")
        need(codec not in (RAW, JPEG) or stored_bytes == decoded_bytes, "decoded bytes of codec raw or jpeg")
        if field["kind"] == "array":
            need(parse_descriptor(descriptor)["stored_bytes"] == decoded_bytes, "decoded bytes of an array field")
        elif field["kind"] == "image":
            pattern = rb"image/jpeg" if codec == JPEG else rb"image/[a-z0-9.+-]{1,64}"
            need(re.fullmatch(pattern, descriptor), f"media type: {descriptor!r}")
        else:
            need(descriptor == b"", f"descriptor of field {field['name']!r}: expected none")
    need(cursor.pos == record_bytes, f"record bytes: expected {cursor.pos}, found {record_bytes}")
    scalars, values = iter(scalars), iter(values)
    return [next(scalars if field["kind"] == "scalar" else values) for field in fields]


# ---- §2.3 Index
Row = namedtuple("Row", "offset length crc sample_id key scalars")


def parse_index(data, record_count, index_offset):
    """Returns the metadata and a row for each record."""
    def section(size):
        content = cursor.take(size)
        cursor.pad()
        return content

    cursor = Cursor(data, "index")
    need(cursor.take(8) == b"SHRDINDX", "index magic")
    count, metadata_bytes, keys_bytes, scalar_count = cursor.unpack("QQQI")
    cursor.pad()
    need(count == record_count, f"record count in index: expected {record_count}, found {count}")
    within(metadata_bytes, 64 << 20, "shard metadata")
    metadata = parse_document(section(metadata_bytes), METADATA, "shard metadata")
    types = [field["dtype"] for field in metadata["schema"]["fields"] if field["kind"] == "scalar"]
    need(scalar_count == len(types), f"scalar count in index: expected {len(types)}, found {scalar_count}")
    numbers = lambda code, size: struct.unpack(f"<{count}{code}", section(count * size))
    offsets, lengths, crcs, ids = numbers("Q", 8), numbers("Q", 8), numbers("I", 4), numbers("Q", 8)
    columns = [(section(count * TYPES[dtype][1]), TYPES[dtype][1]) for dtype in types]
    need(all(max(column, default=0) <= 1 for (column, _), dtype in zip(columns, types) if dtype == "bool"), "bool scalar: not 0 or 1")
    key_ends, all_keys = numbers("Q", 8), section(keys_bytes)
    need(cursor.pos == len(data), "index: bytes after the keys")
    end, key_end, rows = 64, 0, []
    for i in range(count):
        need(offsets[i] == end and lengths[i] >= 64, f"record range of record {i}: hole, overlap or out of order")
        end = align(offsets[i] + lengths[i])
        need(end <= index_offset, f"record range of record {i}: ends past the index")
        need(key_end <= key_ends[i] <= keys_bytes, f"key end of record {i}")
        key, key_end = parse_key(all_keys[key_end:key_ends[i]]), key_ends[i]
        rows.append(Row(offsets[i], lengths[i], crcs[i], ids[i], key, [column[i * n:i * n + n] for column, n in columns]))
    need((end, key_end) == (index_offset, keys_bytes), "end of the last record or key: a hole before the index or in the keys")
    return metadata, rows


# ---- §2.4 Footer
def parse_footer(data, file_bytes):
    need(data[:8] == b"SHRDFOOT" and data[120:] == b"\x1a\n\rDRHS\x89", "footer magic (truncated, or bytes after it)")
    check_crc(data, 116, "footer")
    identity = parse_identity(data[8:60])
    reserved, stated_bytes, count, index_offset, index_bytes, index_crc, reserved_too = struct.unpack("<4sQQQQI16s", data[60:116])
    need(not any(reserved + reserved_too), "footer: reserved bytes")
    need(stated_bytes == file_bytes == index_offset + index_bytes + 128, f"shard size: {file_bytes} bytes")
    need(index_offset >= 64 and index_offset % 64 == 0 and index_bytes % 64 == 0, "index range")
    within(index_bytes, 1 << 30, "index")
    within(count, 1 << 31, "records")
    return identity, count, index_offset, index_bytes, index_crc


# ---- §3.1 Schema, §3.2 Shard metadata, §3.3 Manifest: their shapes in the form that `check` takes
SCHEMA = {"fields": [{"name": r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}", "kind": r"image|array|text|json|bytes|scalar",
                      "dtype?": "|".join(TYPES)}]}
METADATA = {"schema": SCHEMA, "classes?": [".*"], "recipe": {}, "shards?": 1 << 32}
ENTRY = {"name": ".*", "bytes": 1 << 64, "samples": 1 << 64, "footer_crc32": "[0-9a-f]{8}", "sha256": "[0-9a-f]{64}"}
MANIFEST = {"format": "shardpack", "version": r"1\.(0|[1-9][0-9]{0,4})", "dataset_id": "[0-9a-f]{32}", "samples": 1 << 64,
            "schema": SCHEMA, "classes?": [".*"], "recipe": {}, "fidelity": {},
            "shards": [ENTRY]}


def parse_document(data, shape, what):
    document = parse_json(data, what)
    check(document, shape, what)
    check_fields(document["schema"]["fields"])
    return document


def check_fields(fields):
    within(len(fields), 1024, "fields")
    for field in fields:
        need((field["kind"] == "scalar") == ("dtype" in field), f"field {field['name']!r}: a dtype for scalars only")
    need(len({field["name"] for field in fields}) == len(fields), "field name: each once")


def parse_manifest(data):
    within(len(data), 64 << 20, "manifest")
    manifest = parse_document(data, MANIFEST, "manifest")
    need(int(manifest["version"][2:]) < 65536, "manifest version")
    shards = manifest["shards"]
    within(len(shards), 1_000_000, "shards")
    additions = take_columns(manifest)
    files = [*shards, *(file for addition in additions for file in addition["files"])]
    for shard in files:
        check_shard_name(shard["name"])
        need(shard["bytes"] >= 192, f"bytes of {shard['name']}: expected at least 192")
    need(len({shard["name"].lower() for shard in files}) == len(files), "shard name: each once, in any case of letters")
    need(sum(shard["samples"] for shard in shards) == manifest["samples"], "samples of the dataset: not the sum over the shards")
    return manifest


# ---- §3.4 Names and keys
def check_shard_name(name):
    need(name.count("/") <= 1, f"shard name: {name!r}")
    for part in name.split("/"):
        need(re.fullmatch(r"(?!\.)[A-Za-z0-9._-]{1,255}(?<!\.)", part), f"shard name: {name!r}")
        need(not re.fullmatch(r"con|prn|aux|nul|(com|lpt)[1-9]", part.split(".")[0].lower()), f"shard name: {name!r}")


def parse_key(data):
    need(1 <= len(data) <= 4096, "sample key: 1 to 4096 bytes")
    key = parse_text(data, "sample key")
    need(not re.search(r"[\x00-\x1f\x7f-\x9f]", key), f"sample key: control characters in {key!r}")
    need(not {"", ".", ".."} & {*key.split("/")}, f"sample key: not a plain relative path: {key!r}")
    return key


# ---- Files
class Shard:
    """An open shard whose header, footer and index are checked. Records are read one by one. With an addition, it is a
    columns file.
    """

    def __init__(self, path, manifest=None, number=0, addition=None):
        files = addition["files"] if addition else manifest["shards"] if manifest else [{"name": ""}]
        entry = files[number if manifest else 0]
        need(os.path.realpath(path).startswith(path.removesuffix(entry["name"])), f"shard name: leads out of the folder: {path}")
        need(os.path.isfile(path), f"shard: expected a regular file: {path}")
        self.path, size = path, os.path.getsize(path)
        need(size >= 192, f"shard size: expected at least 192 bytes, found {size} (truncated)")
        footer = self.read(size - 128, 128)
        (dataset_id, self.number, self.optional), count, index_offset, index_bytes, index_crc = parse_footer(footer, size)
        check_header(self.read(0, 64), footer)
        index = self.read(index_offset, index_bytes)
        need(crc32(index) == index_crc, "index CRC32: damaged")
        self.metadata, self.rows = parse_index(index, count, index_offset)
        if manifest:
            need((dataset_id, self.number) == (manifest["dataset_id"], number), "dataset id or shard number: not the manifest's")
            found = size, count, footer[116:120][::-1].hex()
            need(found == (entry["bytes"], entry["samples"], entry["footer_crc32"]), f"differs from the manifest: {found}")
            need(self.metadata["schema"] == (addition or manifest)["schema"], "schema: not the manifest's")
        need(not addition or self.optional & 2, "feature bit of columns files: missing")

    def read(self, offset, size):
        with open(self.path, "rb") as file:
            file.seek(offset)
            return file.read(size)

    def record(self, row):
        """Returns the name, the type and the value of each field. The value is None if the field is absent."""
        within(row.length, 1 << 30, "record")
        fields = self.metadata["schema"]["fields"]
        values = parse_record(self.read(row.offset, row.length), fields, self.number, row)
        return [(field["name"], *decode_field(field, value)) for field, value in zip(fields, values)]


def open_dataset(path):
    """Returns the manifest and the paths of the shards. A lone shard has no manifest, so it is None."""
    if not os.path.isdir(path) and not path.endswith(".json"):
        return None, [os.path.realpath(path)]
    path = os.path.join(path, "manifest.json") if os.path.isdir(path) else path
    with open(path, "rb") as file:
        manifest = parse_manifest(file.read((64 << 20) + 1))
    folder = folder_of(path)
    return manifest, [os.path.join(folder, shard["name"]) for shard in manifest["shards"]]


def folder_of(path):
    return os.path.realpath(path if os.path.isdir(path) else os.path.dirname(os.path.realpath(path)))


# ---- §3.5 Generations
def generation(manifest):
    number = manifest["recipe"].get("shardpack_generation") if manifest["version"] != "1.0" else None
    return number if type(number) is int and number > 1 else 1


# ---- §3.6 Added columns
def take_columns(manifest):
    """Returns the additions, and moves them out of the recipe."""
    additions = manifest["recipe"].pop("shardpack_columns", []) if manifest["version"] != "1.0" else []
    check(additions, [{"schema": SCHEMA, "files": [ENTRY]}], "added columns")
    fields = [field for addition in additions for field in addition["schema"]["fields"]]
    need(all(field["kind"] in ("scalar", "array") for field in fields), "kind of an added field: scalar or array")
    check_fields(manifest["schema"]["fields"] + fields)
    samples = [shard["samples"] for shard in manifest["shards"]]
    need(all([file["samples"] for file in addition["files"]] == samples for addition in additions), "columns files: other samples than in the shards")
    manifest["additions"] = additions
    return additions


def columns_files(manifest, folder, shard, number):
    """Yields each columns file of a shard, with its entry in the manifest."""
    for addition in manifest["additions"] if manifest else ():
        path = os.path.join(folder, addition["files"][number]["name"])
        file = Shard(path, manifest, number, addition)
        samples = [[(row.key, row.sample_id) for row in rows] for rows in (shard.rows, file.rows)]
        need(samples[0] == samples[1], f"samples of {path}: other samples than in the shard")
        yield file, addition["files"][number]


# ---- §8 Problems that a reader must report
def verify(path):
    """Returns the problems of a dataset or a lone shard as a list of (kind, place, message)."""
    problems, seen, paths = [], set(), []

    @contextlib.contextmanager
    def noting(place):
        try:
            yield
        except Bad as e:
            problems.append((e.kind, place, str(e)))

    with noting(path):
        manifest, paths = open_dataset(path)
    for number, file in enumerate(paths):
        shard = None
        with noting(file):
            shard = Shard(file, manifest, number)
        if manifest and shard:
            with noting(file), open(file, "rb") as whole:
                later, recipe = generation(manifest) > 1, {**manifest["recipe"]}
                classes, known = shard.metadata.get("classes"), manifest.get("classes")
                if later:
                    del recipe["shardpack_generation"]
                    known = known and classes and known[: len(classes)]
                need(classes == known, "classes: not the manifest's")
                need(same(shard.metadata["recipe"], recipe), "recipe: not the manifest's")
                count = shard.metadata.get("shards", len(paths))
                need(count == len(paths) or (later and count < len(paths)), "number of shards")
                sha256 = hashlib.file_digest(whole, "sha256").hexdigest()
                need(sha256 == manifest["shards"][number]["sha256"], "SHA-256 of the shard")
        for i, row in enumerate(shard.rows if shard else ()):
            with noting(f"{file}: record {i}"):
                twice = {row.key, row.sample_id} & seen
                seen |= {row.key, row.sample_id}
                need(not twice, f"sample key or id twice: {twice}")
            with noting(f"{file}: record {i}"):
                need(not any(shard.read(row.offset + row.length, -row.length % 64)), "padding after the record: not zero")
                values = shard.record(row)
                for name, dtype, value in values:
                    if shard.optional & 1 and name.endswith(".segments") and dtype == "bytes":
                        picture = {field: found for field, *found in values}.get(name.removesuffix(".segments"), ("", None))
                        check_segments(value, *picture)
                    if name == "label" and dtype in TYPES and "int" in dtype and "classes" in shard.metadata:
                        label = int.from_bytes(value, "little", signed=dtype.startswith("int"))
                        need(0 <= label < len(shard.metadata["classes"]), f"label: {label}")
        with noting(f"{file}: columns files"):
            for added, entry in columns_files(manifest, folder_of(path), shard, number) if shard else ():
                with noting(added.path), open(added.path, "rb") as whole:
                    need(hashlib.file_digest(whole, "sha256").hexdigest() == entry["sha256"], "SHA-256 of the columns file")
                for i, row in enumerate(added.rows):
                    with noting(f"{added.path}: record {i}"):
                        need(not any(added.read(row.offset + row.length, -row.length % 64)), "padding after the record: not zero")
                        added.record(row)
    return problems


def digest(path):
    """Yields one line for each field of each sample."""
    manifest, paths = open_dataset(path)
    for number, file in enumerate(paths):
        shard = Shard(file, manifest, number)
        added = [one for one, _ in columns_files(manifest, folder_of(path), shard, number)]
        for i, row in enumerate(shard.rows):
            values = [value for part in (shard, *added) for value in part.record(part.rows[i])]
            for name, kind, value in values:
                yield "\t".join((row.key, name, kind, "-" if value is None else hashlib.sha256(value).hexdigest()))


def main(arguments):
    commands = {"verify": verify, "digest": digest}
    if len(arguments) != 2 or arguments[0] not in commands:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        lines = list(commands[arguments[0]](arguments[1]))
    except (Bad, OSError) as e:
        print(f"{arguments[1]}: {e}", file=sys.stderr)
        return 1 if isinstance(e, Bad) else 2
    for line in lines:
        print(line if isinstance(line, str) else "{1}: {2} ({0})".format(*line))
    return int(arguments[0] == "verify" and bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
