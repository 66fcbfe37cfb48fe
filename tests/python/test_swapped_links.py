"""Tests that commands read and write nothing outside the given folders, even if a link is below the destination, or if
another process swaps folders with links while a command runs.
"""

import ctypes
import os
import random
import subprocess
import threading
import time
import unittest

import numpy as np
from support import COMMAND, CommandTest, pictures, shardpack

ROUNDS = int(os.environ.get("SHARDPACK_SWAPS", "6"))


LIBC = ctypes.CDLL(None, use_errno=True)


def exchange(one, other):
    """Swap the names of two files or folders in one atomic step."""
    at, swap = -100, 2
    if LIBC.renameat2(at, os.fsencode(one), at, os.fsencode(other), swap):
        raise OSError(ctypes.get_errno(), "renameat2")


class Swapper(threading.Thread):
    """Swaps `path` with a link to `outside` over and over until it is stopped."""

    def __init__(self, path, outside):
        super().__init__(daemon=True)
        self.path, self.link = path, path.with_name(f".{path.name}.link")
        self.link.symlink_to(outside)
        self.stopped, self.swaps = threading.Event(), 0

    def run(self):
        while not self.stopped.is_set():
            exchange(self.path, self.link)
            exchange(self.path, self.link)
            self.swaps += 1
            time.sleep(random.random() * 0.002)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.join()
        self.link.unlink()


def cubes(folder, count, seed):
    """Make cubes of noise. Noise does not compress, so the shards contain the values unchanged, and tests can search
    for them. All files have the same size and modification time.
    """
    folder.mkdir(parents=True)
    for number in range(count):
        path = folder / f"{number:04}.npy"
        np.save(path, np.random.default_rng([seed, number]).integers(0, 256, (16, 16, 8), dtype=np.uint8))
        os.utime(path, ns=(1_600_000_000_000_000_000, 1_600_000_000_000_000_000))


@unittest.skipUnless(hasattr(LIBC, "renameat2"), "needs renameat2")
class SwappedLinks(CommandTest):
    def test_unpack_never_writes_through_a_link_in_the_destination(self):
        self.ok("pack", pictures(self.tmp / "src"), self.tmp / "packed")
        outside, files = self.tmp / "outside", self.tmp / "files"
        outside.mkdir()
        files.mkdir()
        (files / "class 0").symlink_to(outside)
        result = self.expect(1, "unpack", self.tmp / "packed", files)
        self.assertIn("`class 0` in the path is a file or a symbolic link, not a folder", result.err)
        self.assertEqual(list(outside.iterdir()), [])
        self.assertEqual(len(list((files / "class 1").iterdir())), 10)
        # The destination itself may be a link, because the user named it.
        (self.tmp / "named").symlink_to(outside)
        self.ok("unpack", self.tmp / "packed", self.tmp / "named")
        self.assertEqual(len(list((outside / "class 0").iterdir())), 10)

    def test_unpack_while_a_folder_is_swapped_for_a_link(self):
        self.ok("pack", pictures(self.tmp / "src"), self.tmp / "packed")
        outside = self.tmp / "outside"
        outside.mkdir()
        swaps = 0
        for number in range(ROUNDS):
            files = self.tmp / f"files-{number}"
            (files / "class 0").mkdir(parents=True)
            with Swapper(files / "class 0", outside) as swapper:
                shardpack("unpack", self.tmp / "packed", files)
            swaps += swapper.swaps
            self.assertEqual(list(outside.iterdir()), [])
        self.assertGreater(swaps, 0)

    def test_pack_while_a_folder_is_swapped_for_a_link(self):
        """`pack` must not read files through the link, although they have the same names, sizes and times."""
        source, outside = self.tmp / "src", self.tmp / "outside"
        cubes(source / "a", 200, 1)
        cubes(outside, 200, 2)
        secrets = {np.load(path).tobytes()[:64] for path in outside.iterdir()}
        swaps = 0
        for number in range(ROUNDS):
            out = self.tmp / f"packed-{number}"
            with Swapper(source / "a", outside) as swapper:
                subprocess.run([COMMAND, "pack", source, out], capture_output=True, timeout=600)
            swaps += swapper.swaps
            packed = b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file())
            self.assertFalse(any(secret in packed for secret in secrets), f"round {number}")
        self.assertGreater(swaps, 0)
        self.ok("pack", source, self.tmp / "undisturbed")
        packed = (self.tmp / "undisturbed" / "shard-00000.shard").read_bytes()
        self.assertTrue(all(np.load(path).tobytes()[:64] in packed for path in (source / "a").iterdir()))

    def test_verify_and_salvage_while_a_shard_is_swapped_for_a_link(self):
        for name, seed in (("src", 1), ("other", 2)):
            cubes(self.tmp / name / "a", 50, seed)
            self.ok("pack", self.tmp / name, self.tmp / f"{name}-packed")
        dataset, other = self.tmp / "src-packed", self.tmp / "other-packed" / "shard-00000.shard"
        secrets = {np.load(path).tobytes()[:64] for path in (self.tmp / "other" / "a").iterdir()}
        swaps = 0
        for number in range(ROUNDS):
            with Swapper(dataset / "shard-00000.shard", other) as swapper:
                told = shardpack("verify", dataset)
                shardpack("salvage", dataset, self.tmp / f"saved-{number}")
            swaps += swapper.swaps
            self.assertNotIn("of dataset", told.out + told.err, repr(told))
            saved = b"".join(path.read_bytes() for path in (self.tmp / f"saved-{number}").rglob("*.shard"))
            self.assertFalse(any(secret in saved for secret in secrets), f"round {number}")
        self.assertGreater(swaps, 0)
        self.assertEqual(shardpack("verify", dataset).code, 0)
        self.ok("salvage", dataset, self.tmp / "undisturbed")


if __name__ == "__main__":
    unittest.main()
