"""Tests the commands that read (`unpack`, `cat`, `inspect` and `verify`) on intact and damaged datasets."""

import json
import os
import resource
import shutil
import signal
import stat
import unittest
from pathlib import Path

import numpy as np
from shardfile import records
from support import CommandTest, cube, cubes, digests, jpeg, names, pictures, png, shards, start, wait_until


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def hurt_record(shard, which=1):
    """Flip a bit in the first field of one record, and return the record's key."""
    key, fields = list(records(shard))[which]
    data = next(iter(fields.values())).data
    flip(shard, shard.read_bytes().index(data) + len(data) // 2)
    return key


def hurt_footer(shard):
    flip(shard, shard.stat().st_size - 60)


def small_files(limit):
    """Return options for a process that can write only files of up to `limit` bytes. This simulates a full disk."""
    return {
        "preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        # Python ignores SIGXFSZ. If the command inherits this, its write fails instead of killing it.
        "restore_signals": False,
    }


class Unpack(CommandTest):
    def pack(self, *options):
        self.source = pictures(self.tmp / "src", 40)
        self.out, self.back = self.tmp / "out", self.tmp / "back"
        self.ok("pack", self.source, self.out, "--jpeg", "keep", "--shard-size", "25KiB", *options)
        self.assertGreaterEqual(len(shards(self.out)), 3)

    def test_a_second_run_skips_existing_files(self):
        self.pack()
        self.ok("unpack", self.out, self.back)
        before = {path: path.stat().st_mtime_ns for path in self.back.rglob("*.jpg")}
        (self.back / "class 1" / "0001.jpg").unlink()
        summary = self.ok("unpack", self.out, self.back, "--json").json()
        self.assertEqual((summary["samples"], summary["files"], summary["already_there"]), (40, 1, 39))
        self.assertSameTree(self.source, self.back)
        after = {path: path.stat().st_mtime_ns for path in self.back.rglob("*.jpg")}
        self.assertEqual(sum(before[path] != after[path] for path in before), 1)
        self.assertIn("40 files already existed", self.ok("unpack", self.out, self.back).out)

    def test_leftovers_of_a_killed_run_are_replaced(self):
        self.pack()
        (self.back / "class 1").mkdir(parents=True)
        (self.back / "class 1" / ".0001.jpg.shardpack-tmp").write_bytes(b"half of it")
        self.ok("unpack", self.out, self.back)
        self.assertSameTree(self.source, self.back)

    def test_an_interrupted_run_continues(self):
        source = pictures(self.tmp / "src", 600)
        out = self.tmp / "out"
        self.ok("pack", source, out, "--jpeg", "keep")
        expected = digests(source)
        for how, codes in ((signal.SIGKILL, {-9, 0}), (signal.SIGINT, {130, 0})):
            with self.subTest(how.name):
                back = self.tmp / how.name
                process = start("unpack", out, back, "--threads", "2")
                self.assertTrue(wait_until(lambda: any(back.rglob("*.jpg")), process))
                process.send_signal(how)
                process.communicate(timeout=600)
                self.assertIn(process.returncode, codes)
                there = {name: digest for name, digest in digests(back).items() if not name.endswith(".shardpack-tmp")}
                self.assertLessEqual(there.items(), expected.items(), "a final name holds a whole file")
                self.ok("unpack", out, back)
                self.assertEqual(digests(back), expected)

    def test_damaged_samples_are_listed_and_the_others_unpacked(self):
        self.pack()
        keys = [hurt_record(shards(self.out)[0]), hurt_record(shards(self.out)[2])]
        expected = {key: value for key, value in digests(self.source).items() if key not in keys}
        result = self.expect(1, "unpack", self.out, self.back)
        for key in keys:
            self.assertIn(key, result.err)
        self.assertIn("38 of 40 samples", result.out)
        self.assertEqual(digests(self.back), expected)
        self.assertEqual(len(self.expect(1, "unpack", self.out, self.back, "--json").json()["damaged"]), 2)

    def test_shards_that_cannot_be_read_do_not_stop_the_others(self):
        self.pack()
        first, second, *_ = shards(self.out)
        lost = {key for shard in (first, second) for key, _ in records(shard)}
        hurt_footer(first)
        second.unlink()
        result = self.expect(1, "unpack", self.out, self.back)
        self.assertIn(first.name, result.err)
        self.assertIn(second.name, result.err)
        self.assertEqual(digests(self.back), {k: v for k, v in digests(self.source).items() if k not in lost})

    def test_files_with_other_content_are_named_and_kept(self):
        self.pack()
        mine, folder = self.back / "class 0" / "0000.jpg", self.back / "class 1" / "0001.jpg"
        folder.mkdir(parents=True)
        mine.parent.mkdir()
        mine.write_text("mine")
        result = self.expect(2, "unpack", self.out, self.back)
        self.assertIn("0000.jpg", result.err)
        self.assertIn("0001.jpg", result.err)
        self.assertEqual(mine.read_text(), "mine")
        expected = digests(self.source)
        del expected["class 1/0001.jpg"]
        expected["class 0/0000.jpg"] = digests(mine.parent)["0000.jpg"]
        self.assertEqual(digests(self.back), expected)

    def test_a_full_disk_leaves_no_partial_file(self):
        self.ok("pack", cubes(self.tmp / "src", 3), self.tmp / "out")
        result = self.expect(2, "unpack", self.tmp / "out", self.tmp / "back", **small_files(4096))
        self.assertIn("cube00", result.err)
        written = [name for name in names(self.tmp / "back") if not name.endswith(".json")]
        self.assertEqual(written, [])

    def test_keys_that_need_the_same_file_name(self):
        source = self.tmp / "src"
        source.mkdir()
        arrays = {name: cube(i) for i, name in enumerate(["a.tif", "a.tif.npy", "b.npy", "c"])}
        for name, array in arrays.items():
            with (source / name).open("wb") as file:
                np.save(file, array)
        self.ok("pack", source, self.tmp / "out", "--values", "keep")
        for _ in range(2):
            self.ok("unpack", self.tmp / "out", self.tmp / "back")
            expected = {"a.tif.cube.npy": "a.tif", "a.tif.npy.cube.npy": "a.tif.npy", "b.npy": "b.npy", "c.npy": "c"}
            found = [name for name in names(self.tmp / "back") if name.endswith(".npy")]
            self.assertEqual(found, sorted(expected))
            for name, key in expected.items():
                np.testing.assert_array_equal(np.load(self.tmp / "back" / name), arrays[key])

    def test_the_table_of_labels_comes_back_and_packs_again(self):
        source = pictures(self.tmp / "src", 6, classes=1)
        keys = [f"class 0/{i:04d}.jpg" for i in range(6)]
        rows = [{"key": key, "score": i / 4, "caption": f"picture {i}"} for i, key in enumerate(keys)]
        table = self.tmp / "labels.jsonl"
        table.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.ok("pack", source, self.tmp / "out", "--labels", table, "--no-shuffle")
        self.ok("unpack", self.tmp / "out", self.tmp / "back")
        again = self.ok("unpack", self.tmp / "out", self.tmp / "back", "--json").json()
        self.assertEqual((again["files"], again["already_there"]), (0, 7))
        back = [json.loads(line) for line in (self.tmp / "back" / "labels.jsonl").read_text().splitlines()]
        self.assertEqual([{k: row[k] for k in rows[0]} for row in back], rows)
        hurt = hurt_record(shards(self.tmp / "out")[0], 2)
        self.expect(1, "unpack", self.tmp / "out", self.tmp / "less")
        less = [json.loads(line)["key"] for line in (self.tmp / "less" / "labels.jsonl").read_text().splitlines()]
        self.assertEqual(less, [key for key in keys if key != hurt])


class Cat(CommandTest):
    def setUp(self):
        super().setUp()
        self.source = pictures(self.tmp / "src", 40)
        self.out = self.tmp / "out"
        self.ok("pack", self.source, self.out, "--jpeg", "keep", "--shard-size", "25KiB")

    def test_output_to_files_and_pipes(self):
        key = "class 1/0004.jpg"
        whole = (self.source / key).read_bytes()
        self.assertEqual(self.ok("cat", self.out, key, "-o", "-").bytes, whole)
        self.ok("cat", self.out, key, "-o", "/dev/null")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
        self.assertEqual(names(Path.cwd()).count("-"), 0)
        one = self.tmp / "one.jpg"
        self.ok("cat", self.out, key, "-o", one)
        self.assertEqual(one.read_bytes(), whole)
        one.write_text("mine")
        self.assertIn("one.jpg", self.expect(2, "cat", self.out, key, "-o", one).err)
        self.assertEqual(one.read_text(), "mine")
        self.expect(2, "cat", self.out, key, "-o", self.tmp)
        self.expect(2, "cat", self.out, key, "-o", self.tmp / "no such folder" / "one.jpg")

    def test_a_full_disk_leaves_no_partial_file(self):
        (self.tmp / "new").mkdir()
        self.expect(2, "cat", self.out, "0", "-o", self.tmp / "new" / "one.jpg", **small_files(512))
        self.assertEqual(names(self.tmp / "new"), [])

    def test_a_damaged_index_of_another_shard_does_not_matter(self):
        key, fields = next(records(shards(self.out)[0]))
        lost = next(records(shards(self.out)[1]))[0]
        hurt_footer(shards(self.out)[1])
        for sample in ("0", key):
            result = self.ok("cat", self.out, sample)
            self.assertEqual((result.bytes, result.err), (fields["image"].data, ""))
        unknown = self.expect(1, "cat", self.out, lost)
        self.assertIn(shards(self.out)[1].name, unknown.err)
        self.assertIn(lost, unknown.err)
        self.expect(1, "cat", self.out, "4000")

    def test_a_note_names_an_index_that_could_be_a_key(self):
        source = self.tmp / "numbers"
        source.mkdir()
        for i in range(40):
            (source / str(i + 100)).write_bytes(jpeg(i))
        self.ok("pack", source, self.tmp / "numbered", "--jpeg", "keep", "--shard-size", "25KiB", "--no-shuffle")
        hurt_footer(shards(self.tmp / "numbered")[1])
        result = self.ok("cat", self.tmp / "numbered", "0")
        self.assertEqual(result.bytes, jpeg(0))
        self.assertIn("note: 0 was taken as an index; it could also be a key, because some keys are numbers", result.err)
        self.assertEqual(self.ok("cat", self.tmp / "numbered", "101").bytes, jpeg(1))


class Inspect(CommandTest):
    def test_unreadable_shards_are_named_and_the_rest_is_shown(self):
        self.ok("pack", pictures(self.tmp / "src", 40), self.tmp / "out", "--shard-size", "25KiB")
        first, second, *_ = shards(self.tmp / "out")
        hurt_footer(first)
        second.unlink()
        result = self.expect(1, "inspect", self.tmp / "out")
        for words in ("40 samples", "class 2", "image", "recipe", first.name, second.name, "2 of"):
            self.assertIn(words, result.out)
        info = self.expect(1, "inspect", self.tmp / "out", "--json").json()
        self.assertEqual((info["samples"], len(info["problems"])), (40, 2))
        for shard in shards(self.tmp / "out"):
            shard.unlink()
        self.assertIn("40 samples", self.expect(1, "inspect", self.tmp / "out").out)

    def test_a_damaged_first_record_is_reported(self):
        self.ok("pack", cubes(self.tmp / "src", 4), self.tmp / "out")
        key = hurt_record(shards(self.tmp / "out")[0], 0)
        self.assertIn(key, self.expect(1, "inspect", self.tmp / "out").out)

    def test_arrays_and_wavelengths(self):
        source = self.tmp / "src"
        source.mkdir()
        for i, height in enumerate((9, 12)):
            array = cube(i, shape=(height, 10, 5))
            (source / f"scene{i}.img").write_bytes(array.transpose(2, 0, 1).tobytes())
            (source / f"scene{i}.hdr").write_text(
                f"ENVI\nsamples = 10\nlines = {height}\nbands = 5\ndata type = 4\ninterleave = bsq\nbyte order = 0\n"
                "header offset = 0\nwavelength units = Nanometers\nwavelength = {400.5, 500, 600, 700, 800.25}\n"
            )
        self.ok("pack", source, self.tmp / "out", "--codec", "zstd")
        text = self.ok("inspect", self.tmp / "out").out
        for words in ("[9 to 12, 10, 5]", "float32 as float16, zstd", "5 from 400.5 to 800.25 Nanometers"):
            self.assertIn(words, text)
        info = self.ok("inspect", self.tmp / "out", "--json").json()
        self.assertEqual(info["wavelengths"], {"count": 5, "min": 400.5, "max": 800.25, "unit": "Nanometers"})
        found = info["arrays"]["cube"]
        self.assertEqual(found["shape"], {"min": [9, 10, 5], "max": [12, 10, 5]})
        first = found["first_sample"]
        self.assertEqual((first["dtype"], first["stored_dtype"], first["codec"]), ("float32", "float16", "zstd"))

    def test_masks_and_user_columns_next_to_the_figures(self):
        source, masks = cubes(self.tmp / "src", 2), self.tmp / "masks"
        masks.mkdir()
        for i in range(2):
            np.save(masks / f"cube{i:03d}.npy", np.full((24, 20), i, np.uint8))
        table = self.tmp / "labels.csv"
        table.write_text("key,my.nan,mask.max_abs_error\ncube000.npy,7,0.5\ncube001.npy,9,1.5\n")
        self.ok("pack", source, self.tmp / "out", "--masks", masks, "--labels", table)
        text = self.ok("inspect", self.tmp / "out").out
        fields = text.split("\nfields\n")[1].split("\n\n")[0]
        self.assertRegex(fields, r"my\.nan +int64 +7 to 9")
        self.assertRegex(fields, r"mask\.max_abs_error +float64 +0\.5 to 1\.5")
        self.assertRegex(fields, r"mask +array +\[24, 20\] +uint8 as uint8")
        self.assertNotIn("cube.nan", fields)


class Verify(CommandTest):
    def test_other_files_are_not_damaged_datasets(self):
        stranger = self.tmp / "thesis.tex"
        stranger.write_text("\\documentclass{article}\n" * 50)
        for command in ("verify", "inspect", "bench"):
            result = self.expect(2, command, stranger)
            self.assertIn("not a dataset", result.err)
            self.assertNotIn("salvage", result.out + result.err)
        stranger.rename(self.tmp / "shard-00000.shard")
        self.expect(1, "verify", self.tmp / "shard-00000.shard")

    def test_pictures_that_were_damaged_before_they_were_packed(self):
        source = pictures(self.tmp / "src", 6)
        # `--jpeg keep` packs this broken picture: its markers are valid, and its data are read only for a segment
        # index.
        broken = bytearray((Path(__file__).parents[2] / "crates" / "jpeg" / "testdata" / "tiles.jpg").read_bytes())
        header = broken.index(b"\xFF\xDA") + 2
        scan = header + int.from_bytes(broken[header : header + 2], "big")
        broken[scan : scan + 2] = b"\xFE\xFE"
        (source / "class 0" / "broken.jpg").write_bytes(broken)
        self.assertIn("broken.jpg", self.expect(2, "pack", source, self.tmp / "out", "--jpeg", "keep").err)
        self.ok("pack", source, self.tmp / "out", "--jpeg", "keep", "--no-segment-index")
        self.ok("verify", self.tmp / "out")
        result = self.expect(1, "verify", self.tmp / "out", "--deep")
        self.assertIn("broken.jpg", result.out)
        self.assertIn("source", result.out)
        self.assertNotIn(f"{self.tmp / 'out'}` is damaged", result.out)
        self.assertNotIn("to copy the undamaged samples", result.out)
        self.assertEqual(self.expect(1, "verify", self.tmp / "out", "--deep", "--json").json()["undecodable_pictures"], 1)
        hurt_record(shards(self.tmp / "out")[0])
        self.assertIn("run `shardpack salvage` to copy the undamaged samples", self.expect(1, "verify", self.tmp / "out", "--deep").out)

    def test_pack_names_odd_kept_pictures_and_refuses_undecodable_ones(self):
        source = pictures(self.tmp / "src", 3)
        whole = (Path(__file__).parents[2] / "crates" / "jpeg" / "testdata" / "tiles.jpg").read_bytes()
        (source / "class 0" / "whole.jpg").write_bytes(whole)
        self.assertNotIn("flaw", self.ok("pack", source, self.tmp / "fine", "--jpeg", "keep").err)
        (source / "class 0" / "odd.jpg").write_bytes(whole[:20] + b"odd" + whole[20:])
        result = self.ok("pack", source, self.tmp / "odd", "--jpeg", "keep")
        self.assertIn("note: 1 picture has a flaw that decoders ignore: `class 0/odd.jpg`", result.err)
        self.ok("verify", self.tmp / "odd", "--deep")
        (source / "class 0" / "broken.jpg").write_bytes(whole.replace(b"\xFF\xD2", b"\xFF\xD5"))
        result = self.expect(2, "pack", source, self.tmp / "out", "--jpeg", "keep")
        self.assertIn("sample `class 0/broken.jpg`: cannot decode the picture: ", result.err)
        result = self.expect(1, "pack", source, self.tmp / "out", "--jpeg", "keep", "--on-bad-input", "skip")
        self.assertIn("broken.jpg", result.err)
        self.ok("verify", self.tmp / "out", "--deep")


class ExitCodes(CommandTest):
    def test_help_lists_exit_codes(self):
        text = self.ok("--help").out
        for code in ("0 ", "1 ", "2 ", "130 "):
            self.assertRegex(text, rf"(?m)^ +{code}")

    def test_damage_is_1_and_everything_else_2(self):
        self.ok("pack", pictures(self.tmp / "src", 6), self.tmp / "out")
        out, lone = self.tmp / "out", self.tmp / "lone.shard"
        shutil.copy(shards(out)[0], lone)
        hurt_footer(lone)
        (out / "manifest.json").write_text("{")
        for dataset in (out, lone):
            for args in (["inspect"], ["verify"], ["unpack", self.tmp / "back"], ["cat", "0"], ["bench"]):
                with self.subTest(args=args[0], dataset=dataset.name):
                    self.expect(1, args[0], dataset, *args[1:])
                    self.expect(2, args[0], self.tmp / "nowhere", *args[1:])


if __name__ == "__main__":
    unittest.main()
