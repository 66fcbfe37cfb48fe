"""Tests `shardpack add`, `remove` and `compact`. The independent reader must also read every generation."""

import json
import pathlib
import signal
import sys
import unittest

from support import CommandTest, digests, pictures, start, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "format-spec"))
import reader  # noqa: E402


class GrowTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.data = self.tmp / "data"
        self.expect(0, "pack", pictures(self.tmp / "in", 30), self.data, "--shard-size", "40KiB")
        self.week = pictures(self.tmp / "week", 20, classes=4)
        for path in sorted(self.week.rglob("*.jpg")):
            path.rename(path.with_name(f"week-{path.name}"))

    def check(self, newest):
        """Assert that both readers accept every generation."""
        for generation in range(1, newest + 1):
            report = self.expect(0, "verify", self.data, "--deep", "--digest", "--generation", generation, "--json").json()
            self.assertTrue(report["whole"], report)
            self.assertEqual(reader.verify(str(self.data / f"manifest-{generation:04}.json")), [])
        self.assertEqual(reader.verify(str(self.data)), [])

    def test_weeks_and_a_withdrawn_patient(self):
        before = digests(self.data)
        added = self.expect(0, "add", self.data, self.week).out
        self.assertIn("added 20 samples", added)
        self.assertIn("generation 2 with 50 samples", added)
        self.assertIn("1 new class, numbered after the others: `class 3`", added)
        after = digests(self.data)
        self.assertEqual({name: after[name] for name in before if name != "manifest.json"},
                         {name: value for name, value in before.items() if name != "manifest.json"})
        self.assertEqual(after["manifest-0001.json"], before["manifest.json"])
        self.check(2)
        self.assertEqual(self.expect(0, "inspect", self.data, "--generation", "1", "--json").json()["samples"], 30)
        self.assertEqual(self.expect(0, "inspect", self.data, "--json").json()["generation"], 2)
        self.expect(0, "bench", self.data, "--generation", "1", "--epochs", "1", "--json")
        self.assertEqual([len(self.expect(0, "ls", self.data, *of).out.splitlines()) for of in ((), ("--generation", "1"))], [50, 30])
        new = "class 3/week-0003.jpg"
        self.assertIn("index", self.expect(0, "cat", self.data, new, "--json").json())
        self.expect(2, "cat", self.data, new, "--json", "--generation", "1")
        for generation, count in ((1, 30), (2, 50)):
            files = self.tmp / f"files of {generation}"
            self.expect(0, "unpack", self.data, files, "--generation", generation)
            self.assertEqual(len(list(files.rglob("*.jpg"))), count)
        self.assertIn("has no generation 3: the newest is 2", self.expect(2, "ls", self.data, "--generation", "3").err)

        keys = self.tmp / "keys.txt"
        keys.write_text("class 3/week-0003.jpg\nno such key\n")
        refused = self.expect(2, "remove", self.data, "--keys", keys).err
        self.assertIn("1 of 2 keys are not in the dataset, so nothing was removed: `no such key`", refused)
        keys.write_text("class 3/week-0003.jpg\n")
        self.assertIn("generation 3 with 49 samples", self.expect(0, "remove", self.data, "--keys", keys).out)
        self.check(3)
        self.assertTrue(any(b"week-0003" in path.read_bytes() for path in self.data.iterdir()))
        self.assertIn("deleted 2 older generations", self.expect(0, "compact", self.data).out)
        self.assertFalse(any(b"week-0003" in path.read_bytes() for path in self.data.iterdir()))
        self.expect(0, "verify", self.data, "--deep", "--digest")
        self.assertEqual(reader.verify(str(self.data)), [])
        self.assertIn("nothing to delete", self.expect(0, "compact", self.data).out)

    def test_packing_again_removes_the_name_of_a_class(self):
        keys = self.tmp / "keys.txt"
        listed = self.expect(0, "ls", self.data, "--where", "class=class 1").out
        keys.write_text(listed)
        removed = self.expect(0, "remove", self.data, "--keys", keys).out
        self.assertIn("1 class without samples, whose name stays in the manifest and in every shard: `class 1`", removed)
        self.assertIn("1 class without samples", self.expect(0, "compact", self.data).out)
        self.assertEqual(self.expect(0, "compact", self.data, "--json").json()["empty_classes"], ["class 1"])

        def holding(folder, needle):
            return sorted(path.name for path in folder.iterdir() if needle in path.read_bytes())

        self.assertEqual(holding(self.data, b"class 1/"), [])
        self.assertIn("manifest.json", holding(self.data, b"class 1"))
        self.expect(0, "unpack", self.data, self.tmp / "files")
        self.expect(0, "pack", self.tmp / "files", self.tmp / "anew")
        self.assertEqual(holding(self.tmp / "anew", b"class 1"), [])

    def test_known_keys_and_a_repeated_command(self):
        self.expect(0, "add", self.data, self.week)
        self.assertIn("nothing to add", self.expect(0, "add", self.data, self.week).out)
        refused = self.expect(2, "add", self.data, self.tmp / "in")
        self.assertIn("30 of 30 new samples have keys that the dataset already has", refused.err)
        self.assertIn("--on-known-key skip", refused.err)
        self.assertIn("is not a dataset", self.expect(2, "add", self.tmp / "in", self.week).err)

    def test_salvage_finds_the_classes_of_every_generation(self):
        self.expect(0, "add", self.data, self.week)
        classes = [f"class {n}" for n in range(4)]
        (self.data / "shard-00002.shard").write_bytes(b"lost")
        for lost in ("shard-00002.shard", "manifest.json"):
            (self.data / lost).unlink()
            out = self.tmp / f"without {lost}"
            # Salvage must find all classes in `manifest-0002.json`, even if `manifest.json` is lost too.
            self.expect(1, "salvage", self.data, out)
            manifest = json.loads((out / "manifest.json").read_text())
            self.assertEqual(manifest["classes"], classes)
            listed = self.expect(0, "ls", out, "--columns", "label", "--json").out.splitlines()
            for sample in map(json.loads, listed):
                self.assertEqual(classes[sample["label"]], sample["key"].split("/")[0])

    def test_removed_samples_do_not_come_back_with_a_lost_manifest(self):
        (self.tmp / "keys").write_text("class 0/0000.jpg\n")
        self.expect(0, "remove", self.data, "--keys", self.tmp / "keys")
        key = lambda out: "class 0/0000.jpg" in self.expect(0, "ls", out).out.splitlines()
        (self.data / "manifest.json").write_text('{"format": "shar')
        told = self.expect(0, "salvage", self.data, self.tmp / "saved").out
        self.assertIn("left out 1 shard of older generations", told)
        self.assertIn("hint: pass `--all-generations` to copy them too", told)
        self.assertFalse(key(self.tmp / "saved"))
        told = self.expect(0, "salvage", self.data, self.tmp / "all", "--all-generations").out
        self.assertTrue(told.startswith("note: samples are also copied from 1 shard of older generations, including removed samples"), told)
        self.assertTrue(key(self.tmp / "all"))
        for path in self.data.glob("manifest*"):
            path.unlink()
        refused = self.expect(2, "salvage", self.data, self.tmp / "refused")
        self.assertIn("it is unknown which samples were removed", refused.err.splitlines()[0])
        self.assertFalse((self.tmp / "refused").exists())

    def test_keys_from_a_text_file_of_another_system(self):
        keys = self.tmp / "keys.txt"
        keys.write_bytes(b"\xef\xbb\xbfclass 0/0000.jpg\r\nclass 1/0001.jpg\r\n\r\nclass 1/0001.jpg\r\n")
        self.assertIn("removed 2 samples", self.expect(0, "remove", self.data, "--keys", keys).out)
        # A run that is killed at the very end leaves the same state, so repeating the call must succeed.
        again = self.expect(0, "remove", self.data, "--keys", keys).out
        self.assertIn("nothing to remove: ", again)
        self.assertIn("generation 2 with 28 samples", again)
        keys.write_text("class 0/0000.jpg\n")
        self.assertIn("not in the dataset", self.expect(2, "remove", self.data, "--keys", keys).err)

    def test_generations_without_the_newest_manifest_are_not_packed_over(self):
        self.expect(0, "add", self.data, self.week)
        (self.data / "manifest.json").unlink()
        before = digests(self.data)
        for command in (("pack", self.week, self.data), ("pack", self.tmp / "in", self.data, "--shard-size", "40KiB")):
            refused = self.expect(2, *command).err
            self.assertIn("contains generation 2 of a dataset (50 samples), but no manifest.json", refused)
            self.assertIn("copy `manifest-0002.json` to manifest.json", refused)
        self.assertIn("copy `manifest-0002.json`", self.expect(2, "add", self.data, self.week).err)
        self.assertEqual(digests(self.data), before)
        (self.data / "manifest.json").write_bytes((self.data / "manifest-0002.json").read_bytes())
        self.check(2)

    def test_indexes_are_added_after_the_unfinished_files_of_an_addition_are_discarded(self):
        many = pictures(self.tmp / "many", 300)
        for path in sorted(many.rglob("*.jpg")):
            path.rename(path.with_name(f"many-{path.name}"))
        kept = ("--jpeg", "keep", "--no-segment-index", "--shard-size", "40KiB", "--force")
        next_folder = self.data / ".shardpack-next"
        while not any(next_folder.glob("*.shard")):
            # Begin again if the addition ended before it could be killed.
            self.expect(0, "pack", self.tmp / "in", self.data, *kept)
            process = start("add", self.data, many, "--threads", "1")
            wait_until(lambda: any(next_folder.glob("*.shard")), process)
            process.kill()
            process.communicate()
        self.expect(2, "compact", self.data, "--force")
        refused = self.expect(2, "compact", self.data, "--segment-index").err
        self.assertIn("contains unfinished files from an interrupted `add`, `remove`, `compact` or `add_columns`", refused)
        self.assertIn("hint: repeat the interrupted command to continue, or run this one with `--force`", refused)
        self.assertIn("added segment indexes", self.expect(0, "compact", self.data, "--segment-index", "--force").out)
        self.assertFalse(next_folder.exists())
        self.expect(0, "verify", self.data, "--deep", "--digest")
        self.assertEqual(self.expect(0, "inspect", self.data, "--json").json()["samples"], 30)

    def test_a_killed_addition_keeps_the_old_generation_and_continues(self):
        many = pictures(self.tmp / "many", 300)
        for path in sorted(many.rglob("*.jpg")):
            path.rename(path.with_name(f"many-{path.name}"))
        before = digests(self.data)
        process = start("add", self.data, many, "--threads", "1")
        next_folder = self.data / ".shardpack-next"
        wait_until(lambda: process.poll() is not None or any(next_folder.glob("*.shard")), process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        now = {name: value for name, value in digests(self.data).items() if name in before}
        if json.loads((self.data / "manifest.json").read_text())["version"] == "1.0":
            self.assertEqual(now, before)
            self.expect(0, "verify", self.data, "--digest")
        self.expect(0, "add", self.data, many)
        self.assertEqual(self.expect(0, "inspect", self.data, "--json").json()["samples"], 330)
        self.assertFalse(next_folder.exists())
        self.check(2)


if __name__ == "__main__":
    unittest.main()
