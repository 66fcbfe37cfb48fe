"""Tests `shardpack plan`, and that `pack` checks the file list that `plan` writes."""

import shutil
import unittest

from support import CommandTest, cubes, jpeg, pictures


class Plan(CommandTest):
    def test_pack_writes_the_planned_parts(self):
        source = pictures(self.tmp / "src", 60)
        options = ["--shard-size", "15KiB", "--seed", "5"]
        plan = self.ok("plan", source, self.tmp / "out", "--parts", "4", "--json", *options).json()
        self.assertFalse((self.tmp / "out").exists())
        self.assertEqual((plan["samples"], sum(part["samples"] for part in plan["parts"])), (60, 60))
        self.assertEqual(sum(part["source_bytes"] for part in plan["parts"]), plan["source_bytes"])
        self.assertEqual(plan["source_bytes"], sum(path.stat().st_size for path in source.rglob("*.jpg")))
        self.assertEqual(plan["empty_parts"], "")
        self.assertGreater(plan["measured"]["samples"], 0)
        self.assertAlmostEqual(sum(part["seconds"] for part in plan["parts"]), plan["seconds"])
        for part in plan["parts"]:
            packed = self.ok("pack", source, self.tmp / "out", *options, "--part", f"{part['part']}/4", "--json").json()
            found = {name: packed[name] for name in ("samples", "shards", "bytes_in")}
            self.assertEqual(found, {"samples": part["samples"], "shards": part["shards"], "bytes_in": part["source_bytes"]})
            self.assertLess(abs(packed["bytes_out"] - part["stored_bytes"]), 0.5 * part["stored_bytes"])
            self.assertEqual(packed["memory_bytes"], plan["memory_bytes"])

    def test_text(self):
        source = pictures(self.tmp / "src", 6)
        told = self.ok("plan", source, self.tmp / "out", "--parts", "30").out
        self.assertIn("6 samples (", told)
        self.assertIn("into 1 shard", told)
        self.assertIn(" 1/30", told)
        self.assertIn("… and 18 more (--json lists all)", told)
        self.assertRegex(told, r"empty parts +1-29: a smaller --shard-size makes more shards")
        self.assertRegex(told, r"measured on +6 samples: .* not counting the time for writing")
        self.assertRegex(told, r"listing .*for each part, or once for all parts with --listing FILE")
        for option in (["--part", "1/2"], ["--force"]):
            refused = self.expect(2, "plan", source, self.tmp / "out", "--parts", "3", *option)
            self.assertIn(f"{option[0]}: this option is for `pack`, not for `plan`", refused.err)
        self.expect(2, "plan", source, self.tmp / "out", "--parts", "0")

    def test_parts_with_a_listing_have_the_bytes_of_one_run_without(self):
        for kind, source in (("pictures", pictures(self.tmp / "pictures", 40)), ("cubes", cubes(self.tmp / "cubes", 8))):
            listing, out = self.tmp / f"{kind}.listing", self.tmp / f"{kind}-out"
            options = ["--shard-size", "20KB"]
            self.ok("plan", source, out, "--parts", "3", "--listing", listing, *options)
            for part in (2, 1, 3):
                self.ok("pack", source, out, "--listing", listing, "--part", f"{part}/3", *options)
            self.ok("merge", out)
            self.ok("pack", source, self.tmp / f"{kind}-whole", *options)
            self.assertSameTree(self.tmp / f"{kind}-whole", out)

    def test_a_listing_is_checked_against_the_source(self):
        source, listing, out = pictures(self.tmp / "src", 12), self.tmp / "listing", self.tmp / "out"
        self.ok("plan", source, out, "--parts", "2", "--listing", listing)
        # An added file is ignored, because `pack` does not scan the source again.
        (source / "added.jpg").write_bytes(jpeg(99))
        packed = self.ok("pack", source, out, "--listing", listing, "--json").json()
        self.assertEqual(packed["samples"], 12)
        # A file that has changed or disappeared since the listing is an error.
        first = sorted(path for path in source.rglob("*.jpg") if path.name != "added.jpg")[0]
        first.write_bytes(jpeg(98))
        changed = self.expect(2, "pack", source, self.tmp / "out2", "--listing", listing)
        self.assertIn(f"{first.name}` has changed since it was listed: ", changed.err)
        first.unlink()
        gone = self.expect(2, "pack", source, self.tmp / "out3", "--listing", listing)
        self.assertIn(first.name, gone.err)
        # `pack` refuses a listing for other options or another source, and a damaged or missing listing. `plan` must
        # not overwrite a file that is not a listing.
        other = self.expect(2, "pack", source, self.tmp / "out4", "--listing", listing, "--class-folders", "off")
        self.assertIn("the option `class_folders` was not set for the listing, but is false now\nhint: use the same options as for `shardpack plan`", other.err)
        shutil.copytree(source, self.tmp / "copy")
        self.assertIn("this is a listing of ", self.expect(2, "pack", self.tmp / "copy", self.tmp / "out5", "--listing", listing).err)
        text = listing.read_bytes()
        listing.write_bytes(text[:-100])
        self.assertIn("listing `", self.expect(2, "pack", source, self.tmp / "out6", "--listing", listing).err)
        self.assertIn("cannot open `", self.expect(2, "pack", source, self.tmp / "out7", "--listing", self.tmp / "none").err)
        (source / "added.jpg").unlink()
        (self.tmp / "notes").write_text("personal notes that must not be overwritten\n")
        kept = self.expect(2, "plan", source, out, "--parts", "2", "--listing", self.tmp / "notes")
        self.assertIn("the file exists and is not a listing", kept.err)


if __name__ == "__main__":
    unittest.main()
