"""Tests commands that are run a second time: with a different option after a stop, on parts, on complete datasets, and
on unpacked files.
"""

import json

import numpy as np
from support import CommandTest, cube, cubes, jpeg, pictures, shardpack, shards, unpacked


def damaged_jpeg(seed):
    """Return a JPEG with an intact header and an invalid scan."""
    data = bytearray(jpeg(seed))
    middle = len(data) // 2
    data[middle : middle + 200] = bytes(37 * i & 0x7F for i in range(200))
    return bytes(data)


class SecondTry(CommandTest):
    def test_the_hint_of_a_damaged_picture_can_be_followed(self):
        source = pictures(self.tmp / "src", 6)
        (source / "class 0" / "bad.jpg").write_bytes(damaged_jpeg(7))
        stopped = self.expect(2, "pack", source, self.tmp / "out")
        self.assertIn("sample `class 0/bad.jpg`: cannot decode the picture: ", stopped.err)
        self.assertIn("pass `--on-bad-input skip` to skip it", stopped.err)
        skipped = self.expect(1, "pack", source, self.tmp / "out", "--on-bad-input", "skip")
        self.assertIn("left out 1 file:", skipped.err)
        self.assertIn("packed 6 samples", skipped.out)

    def test_options_changed_after_a_finished_shard_are_refused_with_a_hint(self):
        source = pictures(self.tmp / "src", 30)
        self.ok("pack", source, self.tmp / "out", "--shard-size", "20KiB", "--part", "1/2")
        refused = self.expect(2, "pack", source, self.tmp / "out", "--shard-size", "20KiB", "--part", "1/2", "--jpeg", "keep")
        self.assertIn("contains an unfinished dataset with a different setting of `jpeg`: \"tile\" before, \"keep\" now", refused.err)
        self.assertIn("hint: repeat the command with the same options and unchanged sources to continue, or add `--force` to start over", refused.err)

    def test_changed_cubes_are_reported_in_one_line(self):
        source = cubes(self.tmp / "src", 3)
        self.ok("pack", source, self.tmp / "out")
        first = sorted(source.rglob("*.npy"))[0]
        np.save(first, np.arange(60 * 50 * 9, dtype=np.int16).reshape(60, 50, 9))
        refused = self.expect(2, "pack", source, self.tmp / "out")
        self.assertIn("already contains a dataset of 3 samples, packed from files with different names, sizes, labels or contents\n", refused.err)
        self.assertIn("hint: use `--force` to replace it", refused.err)
        self.assertLess(len(refused.err), 400)
        other = self.expect(2, "pack", source, self.tmp / "out", "--values", "keep")
        self.assertIn("packed with a different setting of `values`: \"auto\" before, \"keep\" now", other.err)

    def test_a_cube_beyond_float16_is_skipped_and_listed(self):
        source = cubes(self.tmp / "src", 5)
        paths = sorted(source.rglob("*.npy"))
        # Packing first tries the codecs on a few cubes. `paths[0]` is one of them, and `paths[3]` is not.
        for path in (paths[0], paths[3]):
            values = np.load(path).astype(np.float32)
            values[0] = 1e6 + 0.5
            np.save(path, values)
        values[:] = 1e6 + 0.5
        np.save(paths[0], values)
        stopped = self.expect(2, "pack", source, self.tmp / "out")
        self.assertIn("outside float16's range", stopped.err)
        skipped = self.expect(1, "pack", source, self.tmp / "out", "--on-bad-input", "skip")
        self.assertIn("left out 2 files:", skipped.err)
        for path in (paths[0], paths[3]):
            self.assertIn(f"{path.relative_to(source)}: the value ", skipped.err)
        self.assertIn("note: left out 2 cubes with values outside the range of float16", skipped.err)
        self.assertIn("`--values keep` to store the values unchanged", skipped.err)
        self.assertIn("packed 3 samples", skipped.out)
        self.ok("pack", source, self.tmp / "kept", "--values", "keep")

    def test_complete_datasets_are_reported_as_complete(self):
        source = pictures(self.tmp / "src", 3)
        self.ok("pack", source, self.tmp / "out")
        again = self.ok("pack", source, self.tmp / "out")
        self.assertTrue(again.out.startswith("already packed: "), again)
        self.assertNotIn("packing", again.err)
        merged = self.ok("merge", self.tmp / "out")
        self.assertIn("contains 3 samples in 1 shard", merged.out)
        self.assertIn("nothing was left to merge", merged.out)
        other = self.expect(2, "pack", source, self.tmp / "out", "--jpeg", "keep")
        text = "` already contains a dataset of 3 samples, packed with a different setting of `jpeg`: \"tile\" before, \"keep\" now"
        self.assertIn(text, other.err)
        (source / "class 0" / "more.jpg").write_bytes(jpeg(9))
        more = self.expect(2, "pack", source, self.tmp / "out")
        self.assertIn("` already contains a dataset of 3 samples, but the source has 4 samples\nhint: use `--force`", more.err)

    def test_reading_an_unfinished_dataset_gives_a_hint_to_continue(self):
        source = pictures(self.tmp / "src", 6, classes=1)
        last = source / "class 0" / "0005.jpg"
        whole = last.read_bytes()
        last.write_bytes(damaged_jpeg(5))
        options = ["--jpeg", "reencode", "--no-shuffle", "--shard-size", "4KiB", "--threads", "1"]
        self.expect(2, "pack", source, self.tmp / "out", *options)
        for command in ("inspect", "ls", "bench"):
            told = shardpack(command, self.tmp / "out")
            self.assertNotEqual(told.code, 0)
            self.assertIn("packing was interrupted or is still running\nhint: run the same `shardpack pack` command again", told.err)
        last.write_bytes(whole)
        self.ok("pack", source, self.tmp / "out", *options, "--force")
        self.ok("inspect", self.tmp / "out")

    def test_more_parts_than_shards_give_a_note(self):
        source = pictures(self.tmp / "src", 3)
        part = self.ok("pack", source, self.tmp / "out", "--part", "1/2")
        self.assertIn("note: the dataset has only 1 shard, so some of the 2 parts would be empty\nhint: choose a smaller `--shard-size`", part.err)
        early = self.expect(2, "merge", self.tmp / "out")
        self.assertIn("1 of 1 shard is missing: part 2/2 is missing (0 of 1 shard)\nhint: pack part 2 again, then merge", early.err)
        self.ok("pack", source, self.tmp / "out", "--part", "2/2")
        self.ok("merge", self.tmp / "out")

    def test_unpacked_cubes_pack_again_with_masks_and_metadata(self):
        source = cubes(self.tmp / "src", 2)
        (self.tmp / "masks").mkdir()
        for number in range(2):
            np.save(self.tmp / "masks" / f"cube{number:03d}.npy", np.full((24, 20), number, np.uint8))
        np.savez(source / "cube001.npz", cube=cube(1), wavelengths=np.arange(17.0))
        (source / "cube001.npy").unlink()
        self.ok("pack", source, self.tmp / "first", "--masks", self.tmp / "masks", "--values", "keep")
        self.ok("unpack", self.tmp / "first", self.tmp / "files")
        self.ok("pack", self.tmp / "files", self.tmp / "second", "--values", "keep")
        self.ok("unpack", self.tmp / "second", self.tmp / "again")
        for stem in ("cube000", "cube001"):
            for field in ("cube", "mask"):
                left, right = (unpacked(self.tmp / folder, stem, field) for folder in ("files", "again"))
                self.assertEqual(left.dtype, right.dtype)
                np.testing.assert_array_equal(left, right)
        metas = [next((self.tmp / folder).glob("cube001*.meta.json")).read_text() for folder in ("files", "again")]
        self.assertEqual(metas[0], metas[1])
        self.assertEqual(json.loads(metas[0])["wavelengths"], list(range(17)))
        (next((self.tmp / "files").glob("cube001*.meta.json"))).write_text("[1, 2]")
        bad = self.expect(2, "pack", self.tmp / "files", self.tmp / "third")
        self.assertIn("metadata `cube001.npz.meta.json`: ", bad.err)

    def test_an_error_names_its_cube(self):
        source = cubes(self.tmp / "src", 2)
        np.save(source / "large.npy", cube(5) * np.float32(1e6))
        error = self.expect(2, "pack", source, self.tmp / "out")
        self.assertIn("cannot choose how to store the cube of `large.npy`: the value ", error.err)

    def test_a_recipe_names_the_columns_of_its_table(self):
        source = pictures(self.tmp / "src", 3)
        rows = "".join(f"class {i}/{i:04d}.jpg,{i},x\n" for i in range(3))
        (self.tmp / "labels.csv").write_text("key,age,label\n" + rows)
        self.ok("pack", source, self.tmp / "out", "--labels", self.tmp / "labels.csv")
        self.assertRegex(self.ok("inspect", self.tmp / "out").out, r"labels +columns label, age\n")

    def test_damage_is_reported_briefly(self):
        self.ok("pack", pictures(self.tmp / "src", 3), self.tmp / "out")
        (self.tmp / "out" / "manifest.json").rename(self.tmp / "manifest.json")
        gone = self.expect(1, "verify", self.tmp / "out")
        self.assertIn("manifest.json` is missing\n", gone.out + gone.err)
        (self.tmp / "manifest.json").rename(self.tmp / "out" / "manifest.json")
        shard = shards(self.tmp / "out")[0]
        data = bytearray(shard.read_bytes())
        data[len(data) // 3] ^= 1
        shard.write_bytes(data)
        saved = self.expect(1, "salvage", self.tmp / "out", self.tmp / "saved")
        lost = next(line for line in saved.out.splitlines() if line.startswith("lost: `"))
        self.assertEqual((lost.count("shard-00000"), lost.count("sample `")), (1, 1), lost)
