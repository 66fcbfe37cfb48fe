"""Tests that `pack` can be stopped at any moment: finished shards stay, unfinished shards are never visible, and a
second run completes the dataset with the same bytes as an undisturbed run.
"""

import errno
import os
import signal
import subprocess
import time
import unittest

import numpy as np
from support import CommandTest, cube, digests, names, pictures, shardpack, shards, start, wait_until

# Use the slowest encoder, so that the tests have time to interrupt a run.
SLOW = ["--codec", "blosc2-zstd", "--level", "22", "--filter", "bitshuffle", "--shard-size", "300KiB", "--threads", "2"]


class Interruption(CommandTest):
    def setUp(self):
        super().setUp()
        self.source = self.tmp / "src"
        self.source.mkdir()
        # The cubes are small, because an interrupted worker must finish its cube within two seconds.
        for i in range(240):
            np.save(self.source / f"cube{i:03d}.npy", cube(i, shape=(20, 20, 60)))
        self.out = self.tmp / "out"

    def start(self, *options):
        """Start packing, and wait until one or two shards are finished."""
        process = start("pack", self.source, self.out, *SLOW, *options)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertTrue(wait_until(lambda: len(shards(self.out)) >= 2, process), "two shards were finished")
        return process

    def reference(self):
        self.ok("pack", self.source, self.tmp / "reference", *SLOW)
        return digests(self.tmp / "reference")

    def interrupt(self, number):
        process = self.start()
        process.send_signal(number)
        _, err = process.communicate(timeout=600)
        self.assertNotIn("manifest.json", names(self.out), "stops before its end")
        return process.returncode, err.decode()

    def finish(self, kept):
        """Run the same command again. Assert that finished shards stay, and that the result is the same as after an
        undisturbed run.
        """
        self.assertNotIn("manifest.json", names(self.out))
        self.ok("pack", self.source, self.out, *SLOW)
        for path, inode in kept.items():
            self.assertEqual(path.stat().st_ino, inode, f"{path.name} was made again")
        self.assertEqual(digests(self.out), self.reference())

    def test_ctrl_c_ends_cleanly_and_a_second_run_continues(self):
        code, err = self.interrupt(signal.SIGINT)
        self.assertEqual(code, 130, err)
        self.assertNotIn("panicked", err)
        self.assertFalse([n for n in names(self.out) if n.endswith(".tmp")], "no unfinished shard is left")
        self.finish({path: path.stat().st_ino for path in shards(self.out)})

    def test_sigterm_is_like_ctrl_c(self):
        code, err = self.interrupt(signal.SIGTERM)
        self.assertIn(code, (130, 143), err)
        self.finish({})

    def test_sigkill_loses_no_finished_shard(self):
        code, _ = self.interrupt(signal.SIGKILL)
        self.assertEqual(code, -signal.SIGKILL)
        # The last shard may not be in the journal yet. It is then written again, with the same bytes.
        self.finish({path: path.stat().st_ino for path in shards(self.out)[:-1]})

    def test_killed_again_and_again(self):
        rounds = 0
        while rounds < 30:
            process = start("pack", self.source, self.out, *SLOW)
            before = len(shards(self.out))
            wait_until(lambda: len(shards(self.out)) > before + rounds % 2, process)
            time.sleep(0.003 * (rounds % 7))
            process.kill()
            process.communicate()
            rounds += 1
            if (self.out / "manifest.json").exists():
                break
        self.ok("pack", self.source, self.out, *SLOW)
        self.assertEqual(digests(self.out), self.reference())

    def test_a_second_packer_is_refused(self):
        process = self.start()
        process.send_signal(signal.SIGSTOP)  # it keeps the lock of the folder on any machine
        second = self.expect(2, "pack", self.source, self.out, *SLOW)
        self.assertIn(str(process.pid), second.err)
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=600)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(digests(self.out), self.reference())

    def test_other_options_are_not_mixed_with_finished_shards(self):
        self.interrupt(signal.SIGKILL)
        before = digests(self.out)
        result = self.expect(2, "pack", self.source, self.out, *SLOW, "--seed", "5")
        self.assertIn("--force", result.err)
        self.assertEqual({k: v for k, v in digests(self.out).items() if k.endswith(".shard")}, {k: v for k, v in before.items() if k.endswith(".shard")})
        self.ok("pack", self.source, self.out, "--force", "--codec", "raw")
        self.ok("verify", self.out, "--deep", "--digest")

    def test_sources_that_changed_in_between_are_noticed(self):
        self.interrupt(signal.SIGKILL)
        np.save(self.source / "cube003.npy", cube(77, shape=(20, 20, 60)))
        os.utime(self.source / "cube003.npy", (2e9, 2e9))
        result = self.expect(2, "pack", self.source, self.out, *SLOW)
        self.assertIn("--force", result.err)

    def test_a_shard_that_was_damaged_in_between_is_written_again(self):
        self.interrupt(signal.SIGKILL)
        first = shards(self.out)[0]
        with first.open("r+b") as file:
            file.truncate(first.stat().st_size // 2)
        self.finish({})


class FullDisk(CommandTest):
    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("needs root, to mount a small file system")
        self.disk = self.tmp / "disk"
        self.disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", self.disk], capture_output=True)
        if mounted.returncode:
            self.skipTest(f"cannot mount: {mounted.stderr.decode().strip()}")
        self.addCleanup(subprocess.run, ["umount", self.disk], check=True)

    def test_a_full_disk_is_reported_and_a_second_run_continues(self):
        source = pictures(self.tmp / "src", 300)
        options = ["--shard-size", "100KiB"]
        out = self.disk / "out"
        result = self.expect(2, "pack", source, out, *options)
        self.assertIn(os.strerror(errno.ENOSPC).lower()[:8], result.err.lower())
        self.assertFalse([n for n in names(out) if n.endswith(".tmp")], "the unfinished shard is gone")
        self.assertNotIn("manifest.json", names(out))
        kept = {path: path.stat().st_ino for path in shards(out)}
        self.assertTrue(kept, "shards that fit are kept")
        subprocess.run(["mount", "-o", "remount,size=64m", self.disk], check=True)
        self.ok("pack", source, out, *options)
        for path, inode in kept.items():
            self.assertEqual(path.stat().st_ino, inode)
        self.ok("pack", source, self.tmp / "reference", *options)
        self.assertSameTree(self.tmp / "reference", out)

    def test_unpack_reports_a_full_disk(self):
        self.ok("pack", pictures(self.tmp / "src", 300), self.tmp / "out")
        result = shardpack("unpack", self.tmp / "out", self.disk / "back")
        self.assertEqual(result.code, 2, repr(result))
        self.assertIn("no space", result.err.lower())


if __name__ == "__main__":
    unittest.main()
