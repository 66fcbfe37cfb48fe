"""Tests `pack --splits`, which packs each split folder into its own dataset, all with the same classes."""

import os
import shutil

from support import CommandTest, cubes, jpeg, names


class Splits(CommandTest):
    def source(self):
        """Make split folders: train has three classes, val has two of them, and test has none."""
        files = {"train": ["ant/1", "bee/2", "cat/3", "cat/4"], "val": ["bee/5", "cat/6"], "test": ["7", "8"]}
        for split, keys in files.items():
            for number, key in enumerate(keys):
                path = self.tmp / "src" / split / f"{key}.jpg"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(jpeg(number))
        return self.tmp / "src"

    def test_a_dataset_for_each_split_with_the_same_classes(self):
        result = self.ok("pack", self.source(), self.tmp / "out", "--splits")
        self.assertIn("packed 4 samples into", result.out)
        self.assertIn("note: `test`: no labels: the samples are not in class folders", result.err)
        self.assertEqual(names(self.tmp / "out"), ["test", "train", "val"])
        for split, keys in (("train", ["ant/1.jpg 0", "bee/2.jpg 1", "cat/3.jpg 2", "cat/4.jpg 2"]), ("val", ["bee/5.jpg 1", "cat/6.jpg 2"])):
            self.ok("verify", self.tmp / "out" / split, "--deep", "--digest")
            listed = self.ok("ls", self.tmp / "out" / split, "--columns", "label").out.splitlines()
            self.assertEqual(sorted(" ".join(line.split()) for line in listed if ".jpg" in line), keys)
            classes = self.ok("inspect", self.tmp / "out" / split, "--json").json()["classes"]
            self.assertEqual([one["name"] for one in classes], ["ant", "bee", "cat"])
        self.assertNotIn("label", self.ok("ls", self.tmp / "out" / "test", "--json").out)

    def test_json_has_each_split(self):
        report = self.ok("pack", self.source(), self.tmp / "out", "--splits", "--json").json()
        self.assertEqual((report["samples"], report["skipped"]), (8, []))
        self.assertEqual({split: one["samples"] for split, one in report["splits"].items()}, {"train": 4, "val": 2, "test": 2})
        again = self.ok("pack", self.source(), self.tmp / "out", "--splits", "--json").json()
        self.assertEqual({one["outcome"] for one in again["splits"].values()}, {"already-complete"})

    def test_a_split_alone_has_the_same_bytes_where_the_classes_are_the_same(self):
        source = self.source()
        self.ok("pack", source, self.tmp / "out", "--splits")
        self.ok("pack", source / "train", self.tmp / "alone")
        self.assertSameTree(self.tmp / "alone", self.tmp / "out" / "train")

    def test_cubes_of_all_splits_are_stored_alike(self):
        cubes(self.tmp / "src" / "train", 4)
        cubes(self.tmp / "src" / "val", 3, dtype="<u2")
        report = self.ok("pack", self.tmp / "src", self.tmp / "out", "--splits", "--json").json()
        settings = [one["settings"] for one in report["splits"].values()]
        self.assertEqual(settings[0], settings[1])
        self.ok("verify", self.tmp / "out" / "val", "--deep")

    def test_skipped_files_are_listed_with_their_split(self):
        source = self.source()
        (source / "val" / "bee" / "broken.jpg").write_bytes(jpeg(1)[:40])
        (source / "beside.jpg").write_bytes(jpeg(1))
        stopped = self.expect(2, "pack", source, self.tmp / "out", "--splits")
        self.assertIn("`beside.jpg`: this sample is not in any split", stopped.err)
        self.assertFalse((self.tmp / "out").exists())
        report = self.expect(1, "pack", source, self.tmp / "out", "--splits", "--on-bad-input", "skip", "--json")
        self.assertEqual([one["key"] for one in report.json()["skipped"]], ["beside.jpg"])
        self.assertEqual([one["key"] for one in report.json()["splits"]["val"]["skipped"]], ["bee/broken.jpg"])
        self.assertIn("`val`: `bee/broken.jpg`", report.err)

    def test_impossible_requests_are_refused(self):
        source = self.source()
        self.ok("pack", source / "train", self.tmp / "one")
        self.assertIn("is already a dataset, so the splits cannot be written into it", self.expect(2, "pack", source, self.tmp / "one", "--splits").err)
        planned = self.expect(2, "plan", source, self.tmp / "out", "--splits", "--parts", 2)
        self.assertIn("--splits: a plan describes one dataset", planned.err)
        listing = self.expect(2, "pack", source, self.tmp / "out", "--splits", "--listing", self.tmp / "l")
        self.assertIn("--splits: cannot be combined with `listing`", listing.err)
        shutil.rmtree(source / "val")
        shutil.rmtree(source / "test")
        os.rename(source / "train" / "ant", source / "train" / "a")
        self.assertEqual(self.ok("pack", source, self.tmp / "out", "--splits", "--json").json()["splits"]["train"]["classes"], 3)

    def test_the_warning_names_the_option(self):
        source = self.source()
        shutil.rmtree(source / "test")
        result = self.ok("pack", source, self.tmp / "out")
        self.assertIn("`train`, `val` look like splits, not classes", result.err)
        self.assertIn("hint: pass `--splits` to pack each folder into a separate dataset (such as `OUT/train`), all with the same classes", result.err)
