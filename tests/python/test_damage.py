"""Tests damaged datasets: `verify` must find and name the damage, other commands must never return wrong values, and
`salvage` must copy the intact samples."""

import json
import os
import shutil
import struct
import unittest
from pathlib import Path

import numpy as np
from shardfile import records
from support import CommandTest, cubes, digests, pictures, shardpack, shards


class Damage(CommandTest):
    def setUp(self):
        super().setUp()
        self.source = pictures(self.tmp / "src", 40)
        self.out = self.tmp / "out"
        self.ok("pack", self.source, self.out, "--jpeg", "keep", "--shard-size", "25KiB")
        self.assertGreaterEqual(len(shards(self.out)), 3)

    def flip(self, path, at):
        with path.open("r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 0x10]))

    def hurt_record(self, shard, which=1):
        """Flip a bit in the picture of one record, and return the record's key."""
        key, fields = list(records(shard))[which]
        at = shard.read_bytes().index(fields["image"].data)
        self.flip(shard, at + len(fields["image"].data) // 2)
        return key

    def test_verify_names_the_damaged_sample_and_continues(self):
        keys = [self.hurt_record(shards(self.out)[0]), self.hurt_record(shards(self.out)[2])]
        result = self.expect(1, "verify", self.out)
        for key in keys:
            self.assertIn(key, result.out + result.err)
        report = shardpack("verify", self.out, "--json").json()
        self.assertEqual(len(report["problems"]), 2, report)
        self.assertEqual(sorted(problem["key"] for problem in report["problems"]), sorted(keys))

    def test_verify_counts_the_samples_of_a_missing_shard(self):
        whole = shardpack("verify", self.out, "--json").json()["samples"]
        gone = shards(self.out)[1]
        lost = len(list(records(gone)))
        gone.unlink()
        self.assertIn(f"{lost} missing", self.expect(1, "verify", self.out).out)
        report = shardpack("verify", self.out, "--json").json()
        self.assertEqual((report["samples"], report["missing_samples"]), (whole - lost, lost))

    def test_a_damaged_sample_is_never_returned(self):
        key = self.hurt_record(shards(self.out)[0])
        self.assertEqual(self.expect(1, "cat", self.out, key).bytes, b"")
        self.expect(1, "unpack", self.out, self.tmp / "back")
        self.assertFalse((self.tmp / "back" / key).exists())

    def test_every_sampled_flip_is_found(self):
        shard = shards(self.out)[1]
        size = shard.stat().st_size
        for at in sorted({0, 7, 20, 63, 64, 70, 130, size - 1, size - 60, size - 128, size - 400, *range(0, size, size // 25)}):
            with self.subTest(at=at):
                self.flip(shard, at)
                self.expect(1, "verify", self.out)
                self.flip(shard, at)
        self.ok("verify", self.out, "--deep", "--digest")

    def test_cut_grown_swapped_and_missing_shards(self):
        first, second, *_ = shards(self.out)
        whole = first.read_bytes()
        cases = {
            "cut": whole[:-1],
            "cut in the middle": whole[: len(whole) // 2],
            "empty": b"",
            "grown": whole + b"\0",
            "twice": whole + whole,
            "another": second.read_bytes(),
            "a zip in front": b"PK\3\4" + whole,
        }
        for name, data in cases.items():
            with self.subTest(name):
                first.write_bytes(data)
                result = self.expect(1, "verify", self.out)
                self.assertIn(first.name, result.out + result.err)
        first.unlink()
        result = self.expect(1, "verify", self.out)
        self.assertIn(first.name, result.out + result.err)

    def test_a_shard_of_another_dataset_is_refused(self):
        self.ok("pack", pictures(self.tmp / "src2", 41), self.tmp / "other", "--shard-size", "25KiB")
        shutil.copy(shards(self.tmp / "other")[0], shards(self.out)[0])
        self.expect(1, "verify", self.out)
        self.assertIn(shardpack("unpack", self.out, self.tmp / "back").code, (1, 2))

    def test_hostile_manifests_are_refused(self):
        manifest = self.out / "manifest.json"
        text = manifest.read_text()
        name = shards(self.out)[0].name
        cases = {
            "a path upwards": text.replace(name, "../" + name),
            "an absolute path": text.replace(name, "/etc/passwd"),
            "a key twice": text.replace('"samples"', '"samples": 1, "samples"', 1),
            "an unknown key": text.replace('"samples"', '"sample_count": 1, "samples"', 1),
            "not JSON": text[: len(text) // 2],
            "another version": text.replace('"1.0"', '"2.0"'),
            "a wrong sum": text.replace('"samples": 40', '"samples": 41'),
            "deep": "[" * 100_000,
        }
        for what, hostile in cases.items():
            with self.subTest(what):
                self.assertNotEqual(hostile, text)
                manifest.write_text(hostile)
                for args in (["verify", self.out], ["inspect", self.out], ["unpack", self.out, self.tmp / "back"]):
                    self.assertIn(shardpack(*args).code, (1, 2))
        self.assertFalse((self.tmp / "back").exists() and digests(self.tmp / "back"))

    def test_a_shard_that_is_a_link_out_of_the_dataset_is_refused(self):
        first = shards(self.out)[0]
        shutil.move(first, self.tmp / "elsewhere.shard")
        first.symlink_to(self.tmp / "elsewhere.shard")
        self.assertIn(shardpack("verify", self.out).code, (1, 2))

    def test_pipes_and_devices_do_not_block(self):
        first = shards(self.out)[0]
        first.unlink()
        os.mkfifo(first)
        self.assertIn(shardpack("verify", self.out).code, (1, 2))
        self.expect(2, "verify", "/dev/zero")

    def test_a_lone_shard_explains_itself(self):
        lone = self.tmp / "lone.shard"
        shutil.copy(shards(self.out)[0], lone)
        self.ok("verify", lone, "--deep")
        self.assertIn("class 1", self.ok("inspect", lone).out)
        self.ok("unpack", lone, self.tmp / "back")
        for path, digest in digests(self.tmp / "back").items():
            self.assertEqual(digests(self.source)[path], digest)

    def salvage(self, *options):
        result = shardpack("salvage", self.out, self.tmp / "saved", *options)
        self.assertIn(result.code, (0, 1), repr(result))
        self.ok("verify", self.tmp / "saved", "--deep", "--digest")
        self.ok("unpack", self.tmp / "saved", self.tmp / "back")
        return digests(self.tmp / "back")

    def test_salvage_copies_every_undamaged_sample(self):
        hurt = self.hurt_record(shards(self.out)[0])
        expected = digests(self.source)
        del expected[hurt]
        self.assertEqual(self.salvage(), expected)

    def test_salvage_without_footers(self):
        for shard in shards(self.out):
            with shard.open("r+b") as file:
                file.truncate(shard.stat().st_size - 100)
        self.assertEqual(self.salvage(), digests(self.source))

    def test_salvage_without_a_manifest(self):
        (self.out / "manifest.json").unlink()
        first = "it is unknown which samples were removed"
        for out in (self.tmp / "saved", self.out):
            refused = self.expect(2, "salvage", self.out, out)
            self.assertIn(first, refused.err.splitlines()[0])
            self.assertIn("--all-generations", refused.err)
        self.assertIn("removed samples may come back", self.expect(2, "inspect", self.out).err)
        self.assertEqual(self.salvage("--all-generations"), digests(self.source))
        told = self.expect(0, "salvage", self.out, self.tmp / "again", "--all-generations")
        self.assertTrue(told.out.startswith("note: removed samples may be copied too"), told.out)

    def test_salvage_of_a_truncated_shard_keeps_the_samples_before_the_cut(self):
        shard = shards(self.out)[0]
        kept = list(records(shard))
        size = shard.stat().st_size
        (index_offset,) = struct.unpack_from("<Q", shard.read_bytes(), size - 128 + 80)
        with shard.open("r+b") as file:
            file.truncate(index_offset - 70)
        expected = digests(self.source)
        del expected[kept[-1][0]]
        self.assertEqual(self.salvage(), expected)


class Looking(CommandTest):
    def test_cat_gives_the_bytes_of_one_field(self):
        source = pictures(self.tmp / "src", 10)
        self.ok("pack", source, self.tmp / "out", "--jpeg", "keep")
        key = "class 1/0004.jpg"
        whole = (source / key).read_bytes()
        self.assertEqual(self.ok("cat", self.tmp / "out", key).bytes, whole)
        self.assertEqual(self.ok("cat", self.tmp / "out", key, "--field", "image").bytes, whole)
        self.ok("cat", self.tmp / "out", key, "-o", self.tmp / "one.jpg")
        self.assertEqual((self.tmp / "one.jpg").read_bytes(), whole)
        by_index = {self.ok("cat", self.tmp / "out", str(i)).bytes for i in range(10)}
        self.assertEqual(by_index, {path.read_bytes() for path in source.rglob("*.jpg")})
        self.assertIn(shardpack("cat", self.tmp / "out", "no/such.jpg").code, (1, 2))
        self.assertIn(shardpack("cat", self.tmp / "out", "10").code, (1, 2))
        self.assertIn(shardpack("cat", self.tmp / "out", key, "--field", "nothing").code, (1, 2))

    def test_cat_of_a_cube_is_a_npy_file(self):
        self.ok("pack", cubes(self.tmp / "src", 2), self.tmp / "out", "--values", "keep")
        self.ok("cat", self.tmp / "out", "cube001.npy", "-o", self.tmp / "one.npy")
        np.testing.assert_array_equal(np.load(self.tmp / "one.npy"), np.load(self.tmp / "src" / "cube001.npy"))

    def test_inspect_shows_fields_and_shapes(self):
        self.ok("pack", pictures(self.tmp / "src", 10), self.tmp / "out")
        text = self.ok("inspect", self.tmp / "out").out
        for word in ("10", "class 0", "class 2", "image", "label", "shard-00000.shard"):
            self.assertIn(word, text)
        info = self.ok("inspect", self.tmp / "out", "--json").json()
        self.assertEqual(info["samples"], 10)
        json.dumps(info)

    def test_unpack_overwrites_nothing(self):
        self.ok("pack", pictures(self.tmp / "src", 6), self.tmp / "out")
        back = self.tmp / "back"
        (back / "class 0").mkdir(parents=True)
        (back / "class 0" / "0000.jpg").write_text("mine")
        self.assertNotEqual(shardpack("unpack", self.tmp / "out", back).code, 0)
        self.assertEqual((back / "class 0" / "0000.jpg").read_text(), "mine")

    def test_bench_prints_rates(self):
        self.ok("pack", pictures(self.tmp / "src", 6), self.tmp / "out")
        self.assertRegex(self.ok("bench", self.tmp / "out").out, r"(?i)samples/s")
        self.ok("bench", self.tmp / "out", "--json").json()

    def test_a_folder_without_a_dataset_is_refused(self):
        Path(self.tmp / "empty").mkdir()
        for command in ("verify", "inspect", "bench"):
            result = self.expect(2, command, self.tmp / "empty")
            self.assertIn("manifest.json", result.err)


if __name__ == "__main__":
    unittest.main()
