"""Helpers for the tests of the command. They find and run it, and make small sources to pack."""

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import numpy as np
from PIL import Image

# Restore the default handling of Ctrl-C. If the tests run in the background of a shell, Ctrl-C is ignored, and the
# commands started here would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"


def command_path():
    """Return the path of the built command: the debug build of this checkout, or the release build if it is newer."""
    built = [ROOT / "target" / profile / "shardpack" for profile in ("debug", "release")]
    built = [path for path in built if path.exists()]
    if not built:
        raise SystemExit("no built command: run `cargo build` first")
    return max(built, key=lambda path: path.stat().st_mtime)


COMMAND = str(command_path())


class Result:
    """The result of one run: exit code, stdout and stderr as text, and the raw stdout as `bytes`."""

    def __init__(self, args, done):
        self.args, self.code, self.bytes = args, done.returncode, done.stdout
        self.out, self.err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def json(self):
        value = json.loads(self.out)
        if not isinstance(value, dict):
            raise AssertionError(f"expected one JSON object on stdout, found: {self.out[:200]}")
        return value

    def __repr__(self):
        return f"shardpack {' '.join(self.args)}\nexit code {self.code}\nstdout: {self.out[-3000:]}\nstderr: {self.err[-3000:]}"


def shardpack(*args, **options):
    """Run the command and wait for it to end. A panic fails the test."""
    args = [str(arg) for arg in args]
    done = subprocess.run([COMMAND, *args], capture_output=True, timeout=600, **options)
    result = Result(args, done)
    if "panicked" in result.err or result.code < 0 or result.code == 101:
        raise AssertionError(f"the command panicked or died:\n{result!r}")
    return result


class CommandTest(unittest.TestCase):
    """A test case with a temporary folder for each test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="shardpack-test-", dir=os.environ.get("TMPDIR"))
        self.addCleanup(folder.cleanup)
        self.tmp = Path(folder.name)

    def ok(self, *args, **options):
        return self.expect(0, *args, **options)

    def expect(self, code, *args, **options):
        result = shardpack(*args, **options)
        self.assertEqual(result.code, code, repr(result))
        return result

    def assertSameTree(self, left, right):
        self.assertEqual(digests(left), digests(right))

    def assertCloseAsFloat16(self, source, got):
        """Assert that every value equals the source up to float16's rounding, and that NaN and infinities are in the
        same places.
        """
        source, got = source.astype(np.float64), got.astype(np.float64)
        self.assertEqual(source.shape, got.shape)
        np.testing.assert_array_equal(np.isfinite(source), np.isfinite(got))
        finite = np.isfinite(source)
        np.testing.assert_array_equal(source[~finite], got[~finite])
        bound = np.maximum(np.abs(source[finite]) * 2.0**-11, 2.0**-25)
        self.assertTrue(np.all(np.abs(source[finite] - got[finite]) <= bound))


def digests(folder):
    folder = Path(folder)
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def names(folder):
    """Return the sorted names of a folder's entries, including hidden files."""
    return sorted(path.name for path in Path(folder).iterdir())


def jpeg(seed, height=64, width=96, **options):
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (height // 8, width // 8, 3), dtype=np.uint8)
    picture = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=90, **options)
    return out.getvalue()


def png(seed):
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (9, 11, 3), dtype=np.uint8)).save(out, "PNG")
    return out.getvalue()


def pictures(folder, count=30, classes=3):
    """Make a folder with `count` JPEGs in class folders, and return it."""
    for i in range(count):
        path = folder / f"class {i % classes}" / f"{i:04d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(i))
    return folder


def cube(seed, shape=(24, 20, 17), dtype=np.float32):
    """Return a smooth cube with noise, [height, width, channels], with values between 0 and 1."""
    rng = np.random.default_rng(seed)
    height, width, channels = shape
    y, x, c = np.ogrid[:height, :width, :channels]
    waves = np.sin(y / 7.0 + seed) * np.cos(x / 5.0) * np.sin(c / 9.0 + seed)
    return (0.5 + 0.4 * waves + rng.normal(0, 0.01, shape)).clip(0.01, 1).astype(dtype)


def cubes(folder, count=8, **options):
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        np.save(folder / f"cube{i:03d}.npy", cube(i, **options))
    return folder


def unpacked(folder, stem, field="cube"):
    """Return the array that `unpack` wrote for the sample with this stem."""
    found = [path for path in Path(folder).rglob("*.npy") if path.name.split(".")[0] == stem]
    masks = [path for path in found if path.name.endswith(".mask.npy")]
    found = masks if field == "mask" else [path for path in found if path not in masks]
    if len(found) != 1:
        raise AssertionError(f"expected one unpacked array for {stem!r}, found: {found} in {names(folder)}")
    return np.load(found[0])


def wait_until(condition, process=None, seconds=600):
    """Wait for a condition. Return False if the process ends or the time runs out first."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        if process is not None and process.poll() is not None:
            return condition()
        time.sleep(0.002)
    return False


def catches(process, number):
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (number - 1) & 1)


def shards(folder):
    """Return the finished shards in a folder, or an empty list if there is no folder."""
    return sorted(Path(folder).glob("shard-*.shard"))


def start(*args, **options):
    return subprocess.Popen([COMMAND, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


if __name__ == "__main__":
    sys.exit("this module holds no tests: .venv/bin/python -m pytest tests/python")
