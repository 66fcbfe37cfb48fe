"""Tests that two readers that share no code accept the same damaged files, refuse the same ones, and read the same
values.

SHARDPACK_MUTATIONS=100000 .venv/bin/python -m pytest tests/python/test_agreement.py     default 3000

The tests change random bytes and then correct the checksums, because otherwise both readers would refuse almost every
file for its checksum.
"""

import hashlib
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from zlib import crc32

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "format-spec"))

import reader  # noqa: E402

INTERESTING = [0, 1, 2, 63, 64, 127, 128, 255, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 8, 2**64 - 1]
TOKENS = ["{", "}", "[", "]", ",", ":", '"', "0", "-1", "1e999", "null", "true", '"a"', " ", "\\u0000", "\\ud800", "\ufeff", "é", "/", ".", "\n",
          '"samples": 3,', '"recipe": {},', "18446744073709551616", "1.0", "NaN"]
KINDS = ["arrays-coded", "golden", "scalars", "texts", "images", "arrays-raw", "transforms-raw", "empty", "no-fields"]


def put_crc(data, start, end, at):
    data[at:at + 4] = crc32(data[start:end]).to_bytes(4, "little")


def u64(data, at):
    return int.from_bytes(data[at:at + 8], "little")


def reseal(data, offsets, crc_column, index):
    """Correct the checksums of all parts that can still be found with the damaged lengths."""
    footer = len(data) - 128
    put_crc(data, 0, 60, 60)
    for i, at in enumerate(offsets):
        end = at + u64(data, at + 16)
        if at + 64 <= end <= footer:
            put_crc(data, at + 64, end, at + 28)
            data[crc_column + 4 * i:crc_column + 4 * i + 4] = data[at + 28:at + 32]
        put_crc(data, at, at + 60, at + 60)
    put_crc(data, index, footer, footer + 96)
    put_crc(data, footer, footer + 116, footer + 116)


def mutate(data, rng):
    data = bytearray(data)
    footer = len(data) - 128
    count, index = u64(data, footer + 72), u64(data, footer + 80)
    offset_column = index + 64 + reader.align(u64(data, index + 16))
    crc_column = offset_column + 2 * reader.align(8 * count)
    offsets = [u64(data, offset_column + 8 * i) for i in range(count)]
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        region = rng.choice([(0, 64), (footer, len(data)), (index, footer), (index, index + 64), (64, index)]
                            + [(at, at + 256) for at in offsets[:8]])
        at = rng.randrange(region[0], max(region[0] + 1, min(region[1], len(data))))
        choice = rng.randrange(4)
        if choice == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif choice == 1:
            data[at] = rng.randrange(256)
        else:
            width = rng.choice([1, 2, 4, 8])
            at -= at % width
            value = rng.choice(INTERESTING) if choice == 2 else int.from_bytes(data[at:at + width], "little") + rng.choice([-64, -1, 1, 64])
            data[at:at + width] = (value % 256 ** width).to_bytes(width, "little")
    if rng.random() < 0.95:
        reseal(data, offsets, crc_column, index)
    return bytes(data)


def mutate_text(text, rng):
    """Insert, remove or duplicate a token in the text of a manifest."""
    for _ in range(rng.choice([1, 1, 2])):
        start = rng.randrange(len(text))
        end = min(len(text), start + rng.choice([0, 1, 1, 2, 5, 12]))
        part = rng.choice(["", rng.choice(TOKENS), rng.choice(TOKENS), text[start:end] * 2])
        text = text[:start] + part + text[end:]
    return text


def spec_verdict(path):
    try:
        problems = reader.verify(path)
        if problems:
            return "refused", problems[0][-1]
        return "ok", hashlib.sha256("\n".join(reader.digest(path)).encode()).hexdigest()
    except Exception as e:  # any other exception is a bug of the reader
        return "crash", repr(e)


class Agreement(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # `cargo test --workspace --all-features` has already compiled the example, so use the same features here.
        build = ["cargo", "build", "--quiet", "--workspace", "--all-features", "--example", "verdicts"]
        subprocess.run(build, cwd=ROOT, check=True)

    def test_mutated_shards(self):
        sources = [(ROOT / "fixtures/valid" / f"{kind}.shard").read_bytes() for kind in KINDS]

        def make(path, rng):
            path.write_bytes(mutate(rng.choice(sources), rng))

        self.compare("{}.shard", make)

    def test_mutated_manifests(self):
        source = ROOT / "fixtures/valid/two-shards"
        text = (source / "manifest.json").read_text()

        def make(path, rng):
            path.mkdir()
            for shard in source.glob("*.shard"):
                (path / shard.name).symlink_to(shard)
            (path / "manifest.json").write_bytes(mutate_text(text, rng).encode())

        # Only manifests are mutated, so all mutants share the shards through links.
        with unittest.mock.patch("os.path.realpath", os.path.abspath):
            self.compare("{}", make)

    def compare(self, name, make):
        count = int(os.environ.get("SHARDPACK_MUTATIONS", "3000"))
        seed = int(os.environ.get("SHARDPACK_SEED", "20261120"))
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        rng, accepted = random.Random(seed), 0
        for start in range(0, count, 1000):
            folder = pathlib.Path(tempfile.mkdtemp())
            paths = [str(folder / name.format(i)) for i in range(min(1000, count - start))]
            for path in paths:
                make(pathlib.Path(path), rng)
            run = subprocess.run([target / "debug/examples/verdicts"], input="\n".join(paths), text=True,
                                 capture_output=True, check=True)
            for path, line in zip(paths, run.stdout.splitlines(), strict=True):
                verdict, detail = line.split("\t", 1)
                ours = ("ok", detail) if verdict == "ok" else ("refused", detail)
                theirs = spec_verdict(path)
                self.assertEqual((ours[0], ours[1] if ours[0] == "ok" else ""),
                                 (theirs[0], theirs[1] if theirs[0] == "ok" else ""),
                                 f"{path} (seed {seed}): Rust {ours}, specification {theirs}")
                accepted += verdict == "ok"
            shutil.rmtree(folder)
        self.assertTrue(0 < accepted < count, f"{accepted} of {count} accepted: the mutations are of no use")


if __name__ == "__main__":
    unittest.main()
