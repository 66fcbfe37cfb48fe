"""Tests that the command writes datasets to S3, on moto's server if it is installed."""

import os
import signal
import subprocess
import time
import unittest
import zlib
from unittest import mock

import numpy as np
from support import COMMAND, CommandTest, cubes, digests, pictures, start, wait_until

try:
    import boto3
    from moto.server import ThreadedMotoServer
except ImportError:
    ThreadedMotoServer = None

# Many small shards, so that the tests have time to interrupt a run.
PHOTOS = ("--jpeg", "keep", "--no-segment-index", "--shard-size", "8KiB")


@unittest.skipIf(ThreadedMotoServer is None, "moto[s3,server] is not installed")
class Buckets(CommandTest):
    def setUp(self):
        super().setUp()
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
        server.start()
        self.addCleanup(server.stop)
        self.endpoint = "http://{}:{}".format(*server.get_host_and_port())
        environment = {
            "AWS_ENDPOINT": self.endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": "hunter2hunter2",
        }  # fmt: skip
        patch = mock.patch.dict(os.environ, environment)
        patch.start()
        self.addCleanup(patch.stop)
        # moto keeps its buckets after its server has ended, so each test has its own bucket.
        self.bucket = f"bucket-{os.getpid()}-{zlib.crc32(self.id().encode()):08x}"
        self.client = boto3.client("s3", endpoint_url=self.endpoint, region_name="us-east-1")
        self.client.create_bucket(Bucket=self.bucket)
        self.url = f"s3://{self.bucket}/data/train"
        self.spool = self.tmp / "spool"
        self.spool.mkdir()
        self.source = cubes(self.tmp / "cubes", 12)
        self.here = self.tmp / "here"
        self.ok("pack", self.source, self.here, "--shard-size", "64KiB")

    def names(self):
        return [found["Key"] for found in self.client.list_objects_v2(Bucket=self.bucket).get("Contents", [])]

    def read(self, name):
        return self.client.get_object(Bucket=self.bucket, Key=f"data/train/{name}")["Body"].read()

    def assert_the_same(self):
        files = sorted(path.name for path in self.here.iterdir())
        self.assertEqual(self.names(), [f"data/train/{name}" for name in files])
        for name in files:
            self.assertEqual(self.read(name), (self.here / name).read_bytes(), name)
        self.assertEqual(list(self.spool.iterdir()), [])

    def pack(self, *options):
        return self.ok("pack", self.source, self.url, "--shard-size", "64KiB", "--spool", self.spool, *options)

    def test_objects_are_the_files_of_a_folder(self):
        done = self.pack()
        self.assertIn(f"packed 12 samples into `{self.url}`", done.out)
        self.assertIn(f"shards wait in `{self.spool}/shardpack-spool-", done.err)
        self.assert_the_same()
        self.assertTrue(self.ok("verify", self.url, "--deep", "--digest", "--json").json()["whole"])
        again = self.pack("--json").json()
        self.assertEqual((again["outcome"], again["samples"]), ("already-complete", 12))
        other = ("pack", self.source, self.url, "--shard-size", "128KiB", "--spool", self.spool)
        self.assertIn("already contains a dataset of 12 samples", self.expect(2, *other).err)
        self.assert_the_same()
        self.ok(*other, "--force")
        self.ok("pack", self.source, self.here, "--shard-size", "128KiB", "--force")
        self.assert_the_same()

    def test_parts_are_merged(self):
        for part in ("1/2", "2/2"):
            self.pack("--part", part)
        self.ok("merge", self.url, "--spool", self.spool)
        self.assert_the_same()

    def test_a_killed_run_continues_here_and_can_be_taken_over_elsewhere(self):
        for elsewhere in (False, True):
            while True:
                command = [COMMAND, "pack", self.source, self.url, "--shard-size", "64KiB", "--spool", self.spool]
                running = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                while running.poll() is None and not any(name.endswith(".shard") for name in self.names()):
                    time.sleep(0.001)
                running.send_signal(signal.SIGKILL)
                running.wait()
                if any(name.endswith("/.shardpack-lock") for name in self.names()):
                    break
                # The run finished before it could be killed. Start again with an empty bucket.
                self.remove_all()
            spool = self.spool
            if elsewhere:
                self.spool = self.tmp / "elsewhere"
                refused = self.expect(2, "pack", self.source, self.url, "--shard-size", "64KiB", "--spool", self.spool)
                self.assertIn("is being written by another packer: process ", refused.err)
                self.assertIn("--take-over", refused.err)
                self.assertNotIn("hunter2", refused.err)
                self.pack("--take-over")
            else:
                self.pack()
            self.assert_the_same()
            self.spool = spool
            self.remove_all()

    def test_ctrl_c_releases_the_lock_of_a_change(self):
        photos = pictures(self.tmp / "photos", 60)
        keys = self.tmp / "keys"
        keys.write_text("class 0/0000.jpg\n")
        to = ("--spool", self.spool)
        more = pictures(self.tmp / "more", 60)
        for path in sorted(more.rglob("*.jpg")):
            path.rename(path.with_name(f"more-{path.name}"))
        changes = (
            ("add", self.url, more),
            ("remove", self.url, "--keys", keys),
            ("compact", self.url, "--segment-index"),
            ("compact", self.url),
        )
        is_locked = lambda: any(name.endswith("/.shardpack-lock") for name in self.names())
        for change in changes:
            while True:
                self.ok("pack", photos, self.url, *PHOTOS, "--force", *to)
                if change[2:] == ():
                    self.ok("remove", self.url, "--keys", keys, *to)
                running = start(*change, *to)
                wait_until(is_locked, running)
                running.send_signal(signal.SIGINT)
                _, err = running.communicate(timeout=60)
                self.assertFalse(is_locked(), err)
                if running.returncode != 0:
                    break
            self.assertEqual(running.returncode, 130, err)
            self.assertIn(b"interrupted: ", err)
            # Another machine has another spool. It need not take over.
            self.ok(*change, "--spool", self.tmp / "elsewhere")
            self.assertTrue(self.ok("verify", self.url, "--deep", "--digest", "--json").json()["whole"])
            self.remove_all()

    def remove_all(self):
        for name in self.names():
            self.client.delete_object(Bucket=self.bucket, Key=name)

    def test_impossible_requests_are_refused_without_credentials(self):
        for url, words in (
            (f"s3://no-{self.bucket}/train", "there is no such bucket or container"),
            (f"s3://{self.bucket}/train/manifest.json", "not a folder in a store"),
        ):
            refused = self.expect(2, "pack", self.source, url, "--spool", self.spool)
            self.assertIn(words, refused.err)
            self.assertNotIn("hunter2", refused.err)
        self.assertEqual((self.names(), list(self.spool.iterdir())), ([], []))
        with mock.patch.dict(os.environ, {"AWS_ENDPOINT": "http://127.0.0.1:1"}):
            refused = self.expect(2, "pack", self.source, self.url, "--spool", self.spool)
        self.assertIn("cannot connect", refused.err)
        self.assertNotIn("hunter2", refused.err)

    def test_photos_are_unpacked_from_a_bucket(self):
        photos = pictures(self.tmp / "photos", 4)
        self.ok("pack", photos, self.url, "--jpeg", "keep", "--spool", self.spool)
        self.ok("unpack", self.url, self.tmp / "back", "--cache", self.tmp / "cache", "--cache-bytes", "64MiB")
        kept = set(digests(photos).values())
        self.assertLessEqual(kept, set(digests(self.tmp / "back").values()))
        self.assertTrue((self.tmp / "cache").is_dir())

    def put(self, folder, prefix):
        for path in folder.rglob("*"):
            if path.is_file():
                self.client.upload_file(str(path), self.bucket, f"{prefix}/{path.relative_to(folder)}")

    def test_a_folder_of_a_bucket_is_packed_like_a_local_folder(self):
        sources = {"photos": pictures(self.tmp / "photos", 40), "cubes": self.source}
        for name, source in sources.items():
            self.put(source, name)
            self.ok("pack", source, self.tmp / f"{name} here", "--shard-size", "64KiB")
            done = self.ok("pack", f"s3://{self.bucket}/{name}", self.tmp / f"{name} there", "--shard-size", "64KiB", "--json").json()
            self.assertEqual(digests(self.tmp / f"{name} there"), digests(self.tmp / f"{name} here"))
            self.assertEqual(done["bytes_in"], sum(path.stat().st_size for path in source.rglob("*") if path.is_file()))
        inside = self.expect(2, "pack", f"s3://{self.bucket}/photos", f"s3://{self.bucket}/photos/train")
        self.assertIn("overlaps the source", inside.err)

    def test_masks_and_labels_come_from_a_bucket(self):
        masks, labels = self.tmp / "masks", self.tmp / "labels.csv"
        masks.mkdir()
        for path in self.source.iterdir():
            np.save(masks / path.name, np.zeros((24, 20), np.uint8))
        labels.write_text("key,label\n" + "".join(f"{path.name},{i % 2}\n" for i, path in enumerate(self.source.iterdir())))
        self.put(self.source, "all/cubes")
        self.put(masks, "all/masks")
        self.client.upload_file(str(labels), self.bucket, "all/labels.csv")
        there = f"s3://{self.bucket}/all"
        self.ok("pack", self.source, self.tmp / "a", "--masks", masks, "--labels", labels)
        self.ok("pack", f"{there}/cubes", self.tmp / "b", "--masks", f"{there}/masks", "--labels", f"{there}/labels.csv")
        self.assertEqual(digests(self.tmp / "b"), digests(self.tmp / "a"))

    def test_parts_read_one_listing_and_refuse_what_has_changed(self):
        self.put(self.source, "cubes")
        source, listing = f"s3://{self.bucket}/cubes", self.tmp / "listing"
        options = ("--shard-size", "64KiB", "--listing", listing)
        self.ok("plan", source, self.url, "--parts", "2", *options)
        for part in ("1/2", "2/2"):
            self.ok("pack", source, self.url, "--part", part, "--spool", self.spool, *options)
        self.ok("merge", self.url, "--spool", self.spool)
        for name in (path.name for path in self.here.iterdir()):
            self.assertEqual(self.read(name), (self.here / name).read_bytes(), name)
        # Change the file within the same second, without changing its size.
        body = bytearray((self.source / "cube005.npy").read_bytes())
        body[-1] ^= 1
        self.client.put_object(Bucket=self.bucket, Key="cubes/cube005.npy", Body=bytes(body))
        for more in ((), ("--on-bad-input", "skip")):
            if more:
                self.ok("plan", source, self.url, "--parts", "2", *options, *more)
                self.client.put_object(Bucket=self.bucket, Key="cubes/cube005.npy", Body=(self.source / "cube005.npy").read_bytes())
            refused = self.expect(2, "pack", source, self.tmp / "changed", *options, *more)
            self.assertIn(f"`{source}/cube005.npy` has changed since it was listed", refused.err)

    def test_a_killed_run_on_a_bucket_continues(self):
        self.put(self.source, "cubes")
        out = self.tmp / "out"
        command = [COMMAND, "pack", f"s3://{self.bucket}/cubes", out, "--shard-size", "64KiB"]
        running = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while running.poll() is None and not list(out.glob("*.shard")):
            time.sleep(0.001)
        running.send_signal(signal.SIGKILL)
        running.wait()
        self.ok(*command[1:])
        self.assertEqual(digests(out), digests(self.here))

    def test_a_missing_source_is_named(self):
        for url, words in (
            (f"s3://{self.bucket}/nothing", "the store has no objects with this prefix"),
            (f"s3://no-{self.bucket}/photos", "there is no such bucket or container"),
        ):
            refused = self.expect(2, "pack", url, self.tmp / "out")
            self.assertIn(words, refused.err)
            self.assertIn(url, refused.err)
            self.assertNotIn("hunter2", refused.err)


if __name__ == "__main__":
    unittest.main()
