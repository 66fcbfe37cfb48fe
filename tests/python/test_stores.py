"""Tests the command on datasets behind URLs: reading, and the cache on the local disk."""

import http.server
import os
import threading
import unittest
from unittest import mock

from ranges import Server
from support import CommandTest, cubes, digests, pictures


class Stores(CommandTest):
    def setUp(self):
        super().setUp()
        self.dataset = self.tmp / "train"
        self.ok("pack", pictures(self.tmp / "photos", 12), self.dataset, "--shard-size", "16KiB")

    def test_every_reading_command_accepts_a_url(self):
        with Server(self.dataset) as server:
            here, there = (self.ok("inspect", path, "--json").json() for path in (self.dataset, server.url))
            self.assertEqual(here, there)
            self.assertGreater(len(here["shards"]), 1)
            for sample in ("0", "11"):
                here, there = (self.ok("cat", path, sample).bytes for path in (self.dataset, server.url))
                self.assertEqual(here, there)
            verified = self.ok("verify", server.url, "--deep", "--digest", "--json").json()
            self.assertTrue(verified["whole"])
            self.assertEqual(verified["samples"], 12)
            self.ok("unpack", self.dataset, self.tmp / "here")
            self.ok("unpack", server.url, self.tmp / "there")
            self.assertEqual(digests(self.tmp / "here"), digests(self.tmp / "there"))
            for options in (("--stream",), ("--image", "raw")):
                bench = self.ok("bench", server.url, "--epochs", "1", "--json", *options).json()
                self.assertEqual(bench["samples"], 12)
                self.assertGreater(bench["network"]["requests"], 2)
                self.assertEqual(bench["network"]["retried_requests"], 0)
                self.assertIn("network: ", self.ok("bench", server.url, "--epochs", "1", *options).out)
            shard = self.ok("inspect", f"{server.url}/shard-00000.shard", "--json").json()
            self.assertLess(shard["samples"], 12)
            self.assertIsNone(self.ok("bench", self.dataset, "--epochs", "1", "--json").json()["network"])
            self.ok("inspect", self.dataset.as_uri())

    def test_a_second_epoch_comes_from_the_cache(self):
        cache = self.tmp / "cache"
        expected = self.ok("cat", self.dataset, "3").bytes
        before = digests(self.dataset)
        with Server(self.dataset) as server, mock.patch.dict(os.environ, {"SHARDPACK_CACHE": str(cache), "SHARDPACK_CACHE_BYTES": "64MiB"}):
            first = self.ok("bench", server.url, "--epochs", "1", "--image", "raw", "--json").json()["network"]
            self.assertGreater(first["cache"]["misses"], 0)
            second = self.ok("bench", server.url, "--epochs", "1", "--image", "raw", "--json").json()["network"]
            self.assertEqual((second["cache"]["misses"], second["cache"]["dropped"]), (0, 0))
            self.assertGreater(second["cache"]["hits"], 0)
            self.assertLess(second["fetched_bytes"], first["fetched_bytes"])
            self.assertRegex(self.ok("bench", server.url, "--epochs", "1", "--image", "raw").out, r"cache: \d+ of \d+ blocks found, ")
            # A damaged block in the cache is fetched again from the server.
            for block in cache.glob("*.block"):
                data = bytearray(block.read_bytes())
                data[-1] ^= 1
                block.write_bytes(data)
            self.assertEqual(self.ok("cat", server.url, "3").bytes, expected)
            rotten = self.ok("verify", server.url, "--deep", "--json").json()
            self.assertTrue(rotten["whole"])
            # After an object changes on the server, its old blocks in the cache are not used.
            shard = self.dataset / "shard-00000.shard"
            kept, other = shard.read_bytes(), bytearray(shard.read_bytes())
            other[len(other) // 2] ^= 1
            shard.write_bytes(other)
            self.assertFalse(self.expect(1, "verify", server.url, "--json").json()["whole"])
            shard.write_bytes(kept)
            self.assertTrue(self.ok("verify", server.url, "--json").json()["whole"])
            # Options override environment variables.
            other = ("--cache", self.tmp / "other", "--cache-bytes", "64MiB")
            for command in (("inspect",), ("verify",), ("ls",), ("cat",), ("unpack",), ("bench", "--epochs", "1"), ("bench", "--epochs", "1", "--stream")):
                more = {"cat": ["3"], "unpack": [self.tmp / "unpacked"]}.get(command[0], [])
                self.ok(*command, server.url, *more, *other)
            self.assertTrue(list((self.tmp / "other").glob("*.block")))
            refused = self.expect(2, "inspect", server.url, "--cache", self.tmp / "photos")
            self.assertIn("cannot be used as a cache", refused.err)
            # A folder with other files is refused as a cache and stays unchanged.
            for foreign in (self.dataset, self.tmp / "photos"):
                with mock.patch.dict(os.environ, {"SHARDPACK_CACHE": str(foreign)}):
                    self.assertIn("cannot be used as a cache", self.expect(2, "inspect", server.url).err)
            with mock.patch.dict(os.environ, {"SHARDPACK_CACHE_BYTES": "much"}):
                self.assertIn("a size such as 500GB", self.expect(2, "inspect", server.url).err)
        self.assertEqual(digests(self.dataset), before)

    def test_the_cache_is_listed_checked_and_cleared(self):
        cache = self.tmp / "cache"
        with Server(self.dataset) as server:
            self.ok("verify", server.url, "--cache", cache)
            (found,) = self.ok("cache", "ls", cache, "--json").json()["datasets"]
            self.assertEqual(found["url"], server.url)
            self.assertIn(server.url, self.ok("cache", "ls", cache).out)
            block = next(cache.glob("*.block"))
            block.write_bytes(block.read_bytes()[:-1] + b"?")
            self.assertIn("were damaged and removed", self.expect(1, "cache", "verify", cache).out)
            self.assertEqual(self.ok("cache", "verify", cache, "--json").json()["damaged"], {"blocks": 0, "bytes": 0})
            removed = self.ok("cache", "clear", cache, "--url", server.url, "--json").json()["removed"]
            self.assertEqual(removed["blocks"], found["blocks"] - 1)
            self.assertEqual(self.ok("cache", "ls", cache).out, "the cache is empty\n")
        self.assertIn("is not a cache", self.expect(2, "cache", "clear", self.tmp).err)
        self.assertTrue(self.dataset.exists())

    def test_damage_is_found_over_the_network(self):
        shard = self.dataset / "shard-00001.shard"
        data = bytearray(shard.read_bytes())
        data[len(data) // 2] ^= 0x10
        shard.write_bytes(data)
        with Server(self.dataset) as server:
            here, there = (self.expect(1, "verify", path, "--json").json() for path in (self.dataset, server.url))
            place = {problem.pop("file") for problem in there["problems"]}
            self.assertEqual(place, {f"{server.url}/shard-00001.shard"})
            for problem in here["problems"]:
                problem.pop("file")
            self.assertEqual(here["problems"], there["problems"])

    def test_a_damaged_shard_is_salvaged_over_the_network(self):
        shard = self.dataset / "shard-00001.shard"
        data = bytearray(shard.read_bytes())
        data[len(data) // 2] ^= 0x10
        shard.write_bytes(data)
        with Server(self.dataset) as server:
            here, there = (
                self.expect(1, "salvage", f"{place}/shard-00001.shard", self.tmp / f"saved-{number}", "--json").json()
                for number, place in enumerate((self.dataset, server.url))
            )
        self.assertEqual(len(there["lost"]), 1)
        self.assertIn(f"{server.url}/shard-00001.shard", there["lost"][0])
        self.assertEqual((here["samples"], here["bytes_out"]), (there["samples"], there["bytes_out"]))
        self.assertEqual(digests(self.tmp / "saved-0"), digests(self.tmp / "saved-1"))
        self.assertIn("cannot connect", self.expect(2, "salvage", f"{server.url}/shard-00001.shard", self.tmp / "nothing").err)

    def test_a_report_on_a_dataset_reads_a_url(self):
        with Server(self.dataset) as server:
            here, there = (self.ok("report", place, "--json").json() for place in (self.dataset, server.url))
            for report in (here, there):
                del report["source"], report["provenance"]
            self.assertEqual(here, there)
        with Server(self.tmp / "photos") as server:
            self.assertIn("no manifest.json and no shards", self.expect(2, "report", server.url, "--json").err)

    def test_impossible_requests_are_refused(self):
        for args, hint in (
            (("salvage", self.dataset, "s3://bucket/train"), "use a local path"),
            (("unpack", self.dataset, "s3://bucket/train"), "use a local path"),
            (("cat", self.dataset, "0", "--output", "s3://bucket/train"), "use a local path"),
        ):
            refused = self.expect(2, *args).err
            self.assertRegex(refused, "writes only to local paths, not to URLs: `s3://bucket/train`")
            self.assertRegex(refused, f"\nhint: .*{hint}")
        packed = ("pack", cubes(self.tmp / "cubes"), "http://host/out")
        for args in (packed, ("merge", "https://host/out"), ("add", "http://host/out", self.tmp)):
            self.assertIn("is read-only; write to s3://, gs:// or az:// instead", self.expect(2, *args).err)
        for option in (("--spool", self.tmp), ("--take-over",)):
            for command in (("pack", self.tmp / "cubes", self.tmp / "out"), ("compact", self.dataset)):
                refused = self.expect(2, *command, *option)
                self.assertIn(f"`{option[0][2:].replace('-', '_')}` applies only if the output is a URL", refused.err)
        self.ok("pack", self.tmp / "cubes", (self.tmp / "by-url").as_uri())
        self.ok("inspect", self.tmp / "by-url")
        self.assertIn("storage option `cache` applies only to URLs, but the path is local", self.expect(2, "inspect", self.dataset, "--cache", self.tmp / "cache").err)
        self.assertIn("--cache", self.expect(2, "inspect", self.dataset, "--cache-bytes", "1GB").err)
        self.assertIn("ftp://", self.expect(2, "inspect", "ftp://host/train").err)
        secret = self.expect(2, "inspect", "https://user:hunter2@host/train").err
        self.assertIn("the URL contains a user name or a password", secret)
        self.assertNotIn("hunter2", secret)
        with Server(self.tmp) as server:
            self.assertIn("no manifest.json and no shards", self.expect(2, "inspect", server.url).err)
        self.assertIn("cannot connect", self.expect(2, "inspect", server.url).err)

    def test_a_server_without_ranges_is_refused(self):
        class Quiet(http.server.SimpleHTTPRequestHandler):
            def __init__(handler, *args):
                super().__init__(*args, directory=str(self.dataset))

            def log_message(self, *args):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        url = f"http://127.0.0.1:{server.server_port}"
        self.assertIn("the server does not support ranges", self.expect(2, "cat", url, "0").err)


if __name__ == "__main__":
    unittest.main()
