"""Tests `shardpack pack`: which input it accepts and refuses, its messages, and that equal input produces equal
bytes."""

import json
import os
import shutil
import subprocess
import unittest

import numpy as np
import scipy.io
from PIL import Image
from support import COMMAND, CommandTest, cube, cubes, digests, jpeg, names, pictures, png, shardpack, shards, unpacked

SUMMARY_KEYS = {"samples", "classes", "bytes_in", "bytes_out", "seconds", "peak_rss_bytes", "fidelity"}


class Pictures(CommandTest):
    def test_round_trip_to_the_byte(self):
        source = pictures(self.tmp / "src")
        (source / "class 0" / "really a png.jpg").write_bytes(png(1))
        (source / "class 1" / "Größe 写真.png").write_bytes(png(2))
        (source / "class 2" / "deeper" / "still").mkdir(parents=True)
        (source / "class 2" / "deeper" / "still" / "-dash.JPEG").write_bytes(jpeg(99))
        result = self.ok("pack", source, self.tmp / "out", "--jpeg", "keep")
        self.assertIn("33", result.out, "the summary names the number of samples")
        self.assertNotRegex(result.err, "[\r\x1b]", "progress bars are for terminals")
        self.ok("verify", self.tmp / "out", "--deep", "--digest")
        self.ok("unpack", self.tmp / "out", self.tmp / "back")
        self.assertSameTree(source, self.tmp / "back")

    def test_json_is_one_object_on_stdout(self):
        summary = self.ok("pack", pictures(self.tmp / "src"), self.tmp / "out", "--json").json()
        self.assertLessEqual(SUMMARY_KEYS, set(summary))
        self.assertEqual((summary["samples"], summary["classes"]), (30, 3))
        total = sum(len(path.read_bytes()) for path in (self.tmp / "src").rglob("*.jpg"))
        self.assertEqual(summary["bytes_in"], total)
        self.assertEqual(summary["bytes_out"], sum(p.stat().st_size for p in shards(self.tmp / "out")))

    def test_only_shards_and_the_manifest_remain(self):
        self.ok("pack", pictures(self.tmp / "src"), self.tmp / "out", "--shard-size", "10KiB")
        expected = [f"shard-{i:05d}.shard" for i in range(len(shards(self.tmp / "out")))]
        self.assertGreater(len(expected), 2)
        self.assertEqual(names(self.tmp / "out"), sorted([*expected, "manifest.json"]))

    def test_any_number_of_threads_gives_the_same_bytes(self):
        source = pictures(self.tmp / "src", 60)
        for threads in (1, 2, 7):
            self.ok("pack", source, self.tmp / f"out{threads}", "--threads", threads, "--shard-size", "20KiB")
        self.assertSameTree(self.tmp / "out1", self.tmp / "out2")
        self.assertSameTree(self.tmp / "out1", self.tmp / "out7")

    def test_a_moved_and_touched_tree_gives_the_same_bytes(self):
        source = pictures(self.tmp / "src")
        self.ok("pack", source, self.tmp / "out1")
        shutil.copytree(source, self.tmp / "elsewhere")
        for path in (self.tmp / "elsewhere").rglob("*.jpg"):
            os.utime(path, (1, 1))
        environment = {**os.environ, "TZ": "Asia/Kathmandu", "LC_ALL": "C"}
        self.ok("pack", self.tmp / "elsewhere", self.tmp / "out2", env=environment)
        self.assertSameTree(self.tmp / "out1", self.tmp / "out2")

    def test_parts_and_merge_give_the_bytes_of_one_run(self):
        source = pictures(self.tmp / "src", 60)
        options = ["--shard-size", "15KiB"]
        self.ok("pack", source, self.tmp / "whole", *options)
        for i in (3, 1):
            self.ok("pack", source, self.tmp / "parts", *options, "--part", f"{i}/3")
        early = shardpack("merge", self.tmp / "parts")
        self.assertNotEqual(early.code, 0, "part 2 is missing")
        self.assertIn("2", early.err)
        self.assertNotIn("manifest.json", names(self.tmp / "parts"))
        self.ok("pack", source, self.tmp / "parts", *options, "--part", "2/3")
        self.ok("merge", self.tmp / "parts")
        self.assertSameTree(self.tmp / "whole", self.tmp / "parts")

    def test_no_shuffle_keeps_the_order_and_seeds_change_it(self):
        source = pictures(self.tmp / "src", 40, classes=1)

        def order(*options):
            out = self.tmp / "-".join(["out", *options]).replace("/", "")
            self.ok("pack", source, out, *options)
            return [json.loads(shardpack("cat", out, str(i), "--json").out)["key"] for i in range(40)]

        straight = order("--no-shuffle")
        self.assertEqual(straight, sorted(straight))
        mixed = order()
        self.assertEqual(sorted(mixed), straight)
        self.assertNotEqual(mixed, straight)
        self.assertEqual(mixed, order("--seed", "0"))
        self.assertNotEqual(mixed, order("--seed", "1"))

    def test_labels_from_a_table_become_fields(self):
        source = self.tmp / "src"
        source.mkdir()
        lines = ["key,label,score,caption"]
        for i in range(6):
            (source / f"{i}.jpg").write_bytes(jpeg(i))
            lines.append(f'{i}.jpg,{"cat" if i % 2 else "ant"},{i / 4},"a, ""picture"" {i}"')
        (self.tmp / "labels.csv").write_text("\n".join(lines) + "\n")
        self.ok("pack", source, self.tmp / "out", "--labels", self.tmp / "labels.csv")
        info = json.dumps(self.ok("inspect", self.tmp / "out", "--json").json())
        for word in ("score", "caption", "ant", "cat"):
            self.assertIn(word, info)
        self.assertEqual(self.ok("cat", self.tmp / "out", "3.jpg", "--field", "caption").out.rstrip("\n"), 'a, "picture" 3')

        (self.tmp / "other.csv").write_text("\n".join(["photo" + lines[0][3:], *(line.replace(".jpg", "") for line in lines[1:])]))
        guess = self.expect(2, "pack", source, self.tmp / "out1", "--labels", self.tmp / "other.csv")
        self.assertIn("hint: pass `--key-column NAME` to select the key column", guess.err)
        self.ok("pack", source, self.tmp / "out1", "--labels", self.tmp / "other.csv", "--key-column", "photo")
        # The recipes differ only in the name of the key column. `add` needs this name later.
        first, other = (self.ok("inspect", self.tmp / name, "--json").json()["recipe"]["labels"] for name in ("out", "out1"))
        self.assertEqual(other, first | {"key_column": "photo"})
        listed = [self.ok("ls", self.tmp / name, "--columns", "class,score,bytes").out for name in ("out", "out1")]
        self.assertEqual(listed[0], listed[1])

        (self.tmp / "labels.csv").write_text("\n".join(lines[:-1]) + "\n")
        short = shardpack("pack", source, self.tmp / "out2", "--labels", self.tmp / "labels.csv")
        self.assertIn(short.code, (1, 2))
        self.assertIn("5.jpg", short.err)
        self.assertFalse(shards(self.tmp / "out2"))

    def test_a_column_of_labels_is_named_or_guessed(self):
        source = pictures(self.tmp / "src", 4)
        names = sorted(path.relative_to(source).as_posix() for path in source.rglob("*.jpg"))
        flat = self.tmp / "flat"
        flat.mkdir()
        for number, name in enumerate(names):
            (source / name).rename(flat / f"{number}.jpg")
        table = self.tmp / "t.csv"
        table.write_text("filename,species,site\n" + "".join(f"{n}.jpg,{'owl' if n % 2 else 'fox'},{n}\n" for n in range(len(names))))
        guessed = self.ok("pack", flat, self.tmp / "guessed", "--labels", table)
        self.assertIn("note: the labels come from the column `species`", guessed.err)
        self.assertIn("the column `species` of", guessed.out)
        named = self.ok("pack", flat, self.tmp / "named", "--labels", table, "--label-column", "species")
        self.assertNotIn("took the column", named.err)
        fields = [
            {field["name"] for field in self.ok("inspect", self.tmp / out, "--json").json()["schema"]["fields"]} for out in ("guessed", "named")
        ]
        self.assertEqual(fields[0], fields[1] | {"species"})
        missing = self.expect(2, "pack", flat, self.tmp / "out", "--labels", table, "--label-column", "kind")
        self.assertIn("the table has no column `kind` for the labels; its columns are `species`, `site`", missing.err)
        # `add` uses the label column of the dataset, whether it was guessed or named.
        for number in range(2):
            (self.tmp / "more").mkdir(exist_ok=True)
            (self.tmp / "more" / f"new{number}.jpg").write_bytes((flat / "0.jpg").read_bytes())
        table.write_text("filename,species,site\nnew0.jpg,owl,7\nnew1.jpg,emu,8\n")
        for out in ("guessed", "named"):
            self.ok("add", self.tmp / out, self.tmp / "more", "--labels", table)
            classes = self.ok("inspect", self.tmp / out, "--json").json()["classes"]
            self.assertEqual([one["name"] for one in classes], ["fox", "owl", "emu"])

    def test_lists_of_a_table_become_json_and_come_back(self):
        source = self.tmp / "src"
        source.mkdir()
        boxes = ["[[1, 2.50, 3, 12345678901234567890123], []]", "[]", '{"a": [null, "ä"]}']
        rows = ""
        for i, value in enumerate(boxes):
            (source / f"{i}.jpg").write_bytes(jpeg(i))
            rows += f'{{"file_name": "{i}", "boxes": {value}, "n": {i}}}\n'
        (self.tmp / "t.jsonl").write_text(rows)
        self.ok("pack", source, self.tmp / "out", "--labels", self.tmp / "t.jsonl")
        self.ok("verify", self.tmp / "out", "--deep")
        self.assertEqual(self.ok("cat", self.tmp / "out", "2.jpg", "--field", "boxes").out.rstrip("\n"), boxes[2])
        self.ok("unpack", self.tmp / "out", self.tmp / "back")
        table = self.tmp / "back" / "labels.jsonl"
        back = {json.loads(line)["key"]: line for line in table.read_text().splitlines()}
        for i, value in enumerate(boxes):
            self.assertIn(f'"boxes":{value},', back[f"{i}.jpg"])
        table.rename(self.tmp / "again.jsonl")
        self.ok("pack", self.tmp / "back", self.tmp / "out2", "--labels", self.tmp / "again.jsonl")
        self.ok("unpack", self.tmp / "out2", self.tmp / "back2")
        self.assertEqual((self.tmp / "again.jsonl").read_text(), (self.tmp / "back2" / "labels.jsonl").read_text())

    def test_a_list_of_objects_is_a_table_and_comes_back_in_lines(self):
        source = self.tmp / "src"
        source.mkdir()
        rows = [{"image": f"{i}.jpg", "captions": ["one", f"[{i}] ü"], "n": i} for i in range(3)]
        for i in range(3):
            (source / f"{i}.jpg").write_bytes(jpeg(i))
        (self.tmp / "t.json").write_text(json.dumps(rows, indent=2, ensure_ascii=False))
        self.ok("pack", source, self.tmp / "out", "--labels", self.tmp / "t.json")
        self.ok("unpack", self.tmp / "out", self.tmp / "back")
        table = self.tmp / "back" / "labels.jsonl"
        back = {row["key"]: row for row in map(json.loads, table.read_text().splitlines())}
        self.assertEqual([(back[f"{i}.jpg"]["captions"], back[f"{i}.jpg"]["n"]) for i in range(3)], [(row["captions"], row["n"]) for row in rows])
        table.rename(self.tmp / "again.jsonl")
        self.ok("pack", self.tmp / "back", self.tmp / "out2", "--labels", self.tmp / "again.jsonl")

    def test_links_out_of_the_source_are_followed_on_request(self):
        source = pictures(self.tmp / "src", 4, classes=1)
        pictures(self.tmp / "elsewhere", 3, classes=1)
        (source / "linked").symlink_to(self.tmp / "elsewhere" / "class 0")
        refused = self.expect(2, "pack", source, self.tmp / "out")
        self.assertIn("`linked`: the link points outside the source", refused.err)
        self.assertIn("hint: pass `--follow-links` to follow it", refused.err)
        result = self.ok("pack", source, self.tmp / "out", "--follow-links")
        self.assertIn("note: followed 1 link that leads out of the source (first: `linked`)", result.err)
        self.assertEqual(len(self.ok("ls", self.tmp / "out").out.split()), 7 + 4)
        (source / "back").symlink_to(self.tmp)
        self.assertIn("`back`: the link points to a folder that contains it", self.expect(2, "pack", source, self.tmp / "out", "--follow-links").err)
        (source / "back").unlink()
        # The output may be in a folder that a link in the source leads to. It must not be packed as a source.
        (source / "linked").unlink()
        (self.tmp / "elsewhere" / "class 0").rename(self.tmp / "elsewhere" / "photos")
        (source / "other").symlink_to(self.tmp / "elsewhere")
        for outcome in ("complete", "already-complete"):
            report = self.ok("pack", source, self.tmp / "elsewhere" / "out", "--follow-links", "--json").json()
            self.assertEqual((report["outcome"], report["samples"]), (outcome, 7))

    def test_pictures_of_16_bits_come_back_with_all_bits(self):
        values = {f"{kind}/{i}": np.random.default_rng(i).integers(0, 1 << 16, (20, 30), np.uint16) for i, kind in enumerate(["ant", "bee", "ant"])}
        for key, value in values.items():
            (self.tmp / "src" / key).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(value).save(self.tmp / "src" / f"{key}.png")
        result = self.ok("pack", self.tmp / "src", self.tmp / "out")
        self.assertIn("note: 3 PNG pictures with 16 bits per sample are packed as uint16 arrays [height, width, channels]", result.err)
        self.ok("verify", self.tmp / "out", "--deep")
        self.assertEqual(self.ok("inspect", self.tmp / "out", "--json").json()["samples"], 3)
        listed = self.ok("ls", self.tmp / "out", "--columns", "class,height,width,channels").out
        self.assertIn("bee/1.png\tbee\t20\t30\t1", listed)
        self.ok("unpack", self.tmp / "out", self.tmp / "back")
        for key, value in values.items():
            back = np.load(self.tmp / "back" / f"{key}.png.npy")
            self.assertEqual(back.dtype, np.uint16)
            np.testing.assert_array_equal(back[:, :, 0], value)


class Refusals(CommandTest):
    def test_wrong_usage_is_exit_code_2_with_nothing_on_stdout(self):
        source = cubes(self.tmp / "src", 1)
        wrong = [
            ["pack", source],
            ["pack", source, self.tmp / "o", "--no-such-option"],
            ["pack", source, self.tmp / "o", "--shard-size", "12parsecs"],
            ["pack", source, self.tmp / "o", "--part", "5/4"],
            ["pack", source, self.tmp / "o", "--values", "fixed"],
            ["pack", source, self.tmp / "o", "--values", "fixed", "--max-error", "-1"],
            ["pack", source, self.tmp / "o", "--codec", "blosc2-zstd", "--level", "2"],
            ["pack", self.tmp / "nowhere", self.tmp / "o"],
            ["verify", self.tmp / "nowhere"],
            ["inspect", self.tmp / "src"],
            ["unpack", self.tmp / "nowhere", self.tmp / "o"],
            ["cat", self.tmp / "nowhere", "0"],
            ["merge", self.tmp / "nowhere"],
            ["salvage", self.tmp / "nowhere", self.tmp / "o"],
            ["bench", self.tmp / "nowhere"],
            ["fly"],
        ]
        for args in wrong:
            with self.subTest(args=" ".join(map(str, args[:1] + args[3:]))):
                result = self.expect(2, *args)
                self.assertEqual(result.out, "")
                self.assertNotEqual(result.err, "")
                self.assertFalse(shards(self.tmp / "o"))

    def test_every_command_has_json_and_help(self):
        for command in ("pack", "inspect", "ls", "verify", "unpack", "cat", "salvage", "merge", "bench"):
            with self.subTest(command=command):
                self.assertIn("--json", self.ok(command, "--help").out)

    def test_bad_inputs_stop_the_run_before_it_starts(self):
        source = pictures(self.tmp / "src", 6)
        (source / "class 0" / "notes.bin").write_text("not a picture")
        (source / "class 0" / "README.txt").write_text("about the pictures")
        (source / "class 1" / "cut.jpg").write_bytes(jpeg(1)[:200])
        (source / "class 2" / "empty.jpg").write_bytes(b"")
        result = shardpack("pack", source, self.tmp / "out")
        self.assertIn(result.code, (1, 2))
        for name in ("notes.bin", "cut.jpg", "empty.jpg", "--on-bad-input skip"):
            self.assertIn(name, result.err)
        self.assertFalse(shards(self.tmp / "out"))

        skipped = self.expect(1, "pack", source, self.tmp / "out", "--on-bad-input", "skip")
        self.assertIn("notes.bin", skipped.out + skipped.err)
        self.assertIn("ignored 1 file that is not a sample: `class 0/README.txt`", skipped.err)
        self.ok("verify", self.tmp / "out", "--deep")
        self.assertEqual(self.ok("inspect", self.tmp / "out", "--json").json()["samples"], 6)

    def test_an_empty_source_is_refused(self):
        (self.tmp / "src").mkdir()
        result = shardpack("pack", self.tmp / "src", self.tmp / "out")
        self.assertIn(result.code, (1, 2))
        self.assertFalse(shards(self.tmp / "out"))

    def test_a_mixed_source_requires_a_kind(self):
        source = pictures(self.tmp / "src", 3)
        np.save(source / "class 0" / "cube.npy", cube(1))
        result = shardpack("pack", source, self.tmp / "out")
        self.assertIn(result.code, (1, 2))
        self.assertIn("--kind", result.err)

    def test_foreign_files_are_never_overwritten(self):
        source = pictures(self.tmp / "src", 3)
        (self.tmp / "out").mkdir()
        (self.tmp / "out" / "thesis.tex").write_text("precious")
        for options in ([], ["--force"]):
            self.expect(2, "pack", source, self.tmp / "out", *options)
            self.assertEqual((self.tmp / "out" / "thesis.tex").read_text(), "precious")
            self.assertEqual([n for n in names(self.tmp / "out") if not n.startswith(".")], ["thesis.tex"])

    def test_a_dataset_is_replaced_only_by_force(self):
        first, second = pictures(self.tmp / "a", 3), pictures(self.tmp / "b", 5)
        self.ok("pack", first, self.tmp / "out")
        before = digests(self.tmp / "out")
        self.expect(2, "pack", second, self.tmp / "out")
        self.assertEqual(digests(self.tmp / "out"), before)
        again = self.ok("pack", first, self.tmp / "out")
        self.assertEqual(digests(self.tmp / "out"), before, repr(again))
        self.ok("pack", second, self.tmp / "out", "--force")
        self.ok("verify", self.tmp / "out", "--deep")
        self.assertEqual(self.ok("inspect", self.tmp / "out", "--json").json()["samples"], 5)

    def test_output_within_the_source_is_not_packed(self):
        source = pictures(self.tmp / "src", 3)
        before = digests(source)
        shardpack("pack", source, source / "class 0" / "out")
        result = shardpack("pack", source, source)
        self.assertEqual(result.code, 2)
        after = digests(source)
        self.assertEqual({k: v for k, v in after.items() if "out/" not in k}, before)

    def test_special_files_do_not_block(self):
        source = pictures(self.tmp / "src", 3)
        os.mkfifo(source / "class 0" / "pipe.jpg")
        (source / "class 1" / "loop").symlink_to("../class 1")
        (source / "class 2" / "outside.jpg").symlink_to("/etc/hostname")
        result = shardpack("pack", source, self.tmp / "out", "--on-bad-input", "skip")
        self.assertIn(result.code, (0, 1))
        self.ok("verify", self.tmp / "out")
        self.assertEqual(self.ok("inspect", self.tmp / "out", "--json").json()["samples"], 3)

    def test_a_closed_pipe_ends_the_run_quietly(self):
        self.ok("pack", pictures(self.tmp / "src", 3), self.tmp / "out")
        read, write = os.pipe()
        os.close(read)
        for args in (["inspect"], ["inspect", "--json"], ["verify"]):
            done = subprocess.run([COMMAND, args[0], self.tmp / "out", *args[1:]], stdout=write, stderr=subprocess.PIPE)
            self.assertNotIn(b"panicked", done.stderr)
        os.close(write)


class Cubes(CommandTest):
    def pack(self, array, *options, code=0):
        source = self.tmp / "src"
        source.mkdir(exist_ok=True)
        np.save(source / "a.npy", array)
        return self.expect(code, "pack", source, self.tmp / "out", "--force", *options)

    def back(self):
        shutil.rmtree(self.tmp / "back", ignore_errors=True)
        self.ok("verify", self.tmp / "out", "--deep")
        self.ok("unpack", self.tmp / "out", self.tmp / "back")
        return unpacked(self.tmp / "back", "a")

    def test_auto_is_float16_within_its_rounding(self):
        source = cube(1)
        self.pack(source)
        self.assertCloseAsFloat16(source, self.back())

    def test_keep_is_equal_to_the_bit(self):
        for dtype in (np.float32, np.float64):
            source = cube(1, dtype=dtype)
            source[0, 0, :4] = [np.nan, np.inf, -np.inf, -0.0]
            self.pack(source, "--values", "keep")
            got = self.back()
            self.assertEqual(got.dtype, source.dtype)
            self.assertEqual(got.tobytes(), source.tobytes())

    def test_integers_are_exact_by_default(self):
        for dtype in (np.uint8, np.int16, np.uint16, np.int32, np.float32, np.float64):
            with self.subTest(dtype=dtype):
                source = (cube(1, dtype=np.float64) * 120).astype(np.int64).astype(dtype)
                self.pack(source)
                got = self.back()
                self.assertEqual(got.dtype, source.dtype)
                np.testing.assert_array_equal(got, source)

    def test_specials_survive_float16(self):
        source = cube(1)
        source[3, 4, :6] = [np.nan, np.inf, -np.inf, -0.0, 65504, -65519]
        self.pack(source)
        got = self.back()
        self.assertCloseAsFloat16(source[:3], got[:3])
        self.assertTrue(np.isnan(got[3, 4, 0]) and got[3, 4, 1] == np.inf and got[3, 4, 2] == -np.inf)
        self.assertTrue(np.signbit(got[3, 4, 3]) and got[3, 4, 3] == 0)
        self.assertEqual((got[3, 4, 4], got[3, 4, 5]), (65504, -65504))

    def test_values_that_would_become_infinite_stop_the_run(self):
        source = cube(1)
        source[5, 6, 7] = 70000.25
        result = shardpack(*["pack", self.write(source), self.tmp / "out"])
        self.assertIn(result.code, (1, 2))
        for words in ("a.npy", "70000.25", "5, 6, 7", "--values"):
            self.assertIn(words, result.err)
        self.assertNotIn("manifest.json", names(self.tmp / "out") if (self.tmp / "out").exists() else [])

    def write(self, array):
        (self.tmp / "src").mkdir(exist_ok=True)
        np.save(self.tmp / "src" / "a.npy", array)
        return self.tmp / "src"

    def test_fixed_point_keeps_the_bound_and_states_it(self):
        source = cube(1)
        for bound in (0.01, 0.0001):
            result = self.pack(source, "--values", "fixed", "--max-error", bound, "--json")
            error = np.abs(self.back().astype(np.float64) - source)
            self.assertLessEqual(error.max(), bound)
            stated = result.json()["fidelity"]["cube"]["max_abs_error"]
            self.assertAlmostEqual(stated, error.max(), delta=1e-9)

    def test_reported_errors_are_the_measured_ones(self):
        source = cube(1, shape=(30, 31, 32))
        fidelity = self.pack(source, "--json").json()["fidelity"]["cube"]
        error = np.abs(self.back().astype(np.float64) - source)
        self.assertAlmostEqual(fidelity["max_abs_error"], error.max(), delta=1e-12)
        manifest = json.loads((self.tmp / "out" / "manifest.json").read_text())
        self.assertEqual(manifest["fidelity"]["cube"]["max_abs_error"], fidelity["max_abs_error"])

    def test_shapes(self):
        self.pack(cube(1)[:, :, 0])
        self.assertEqual(self.back().shape, (24, 20, 1), "a 2-D array is a cube of one band")
        for shape in [(2, 3, 4, 5), (0, 3, 4), (7,)]:
            with self.subTest(shape=shape):
                result = shardpack("pack", self.write(np.ones(shape, np.float32)), self.tmp / "out", "--force")
                self.assertIn(result.code, (1, 2))
                self.assertIn("a.npy", result.err)

    def test_python_objects_are_refused(self):
        source = self.write(np.zeros(1))
        np.save(source / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
        result = shardpack("pack", source, self.tmp / "out")
        self.assertIn(result.code, (1, 2))
        self.assertIn("object", result.err)

    def test_bands_by_pixels_in_matlabs_column_order(self):
        source = self.tmp / "src"
        source.mkdir()
        scene = cube(2, shape=(6, 9, 5), dtype=np.float64)
        flat = scene.transpose(2, 1, 0).reshape(5, 54)  # pixel p is row p mod 6, column p div 6
        scipy.io.savemat(source / "a.mat", {"Y": flat, "other": np.arange(3.0)})
        self.ok("pack", source, self.tmp / "out", "--variable", "Y", "--spatial", "6x9", "--values", "keep")
        np.testing.assert_array_equal(self.back(), scene)

    def test_masks_are_paired_by_stem_and_exact(self):
        source = cubes(self.tmp / "src", 3)
        masks = self.tmp / "masks"
        masks.mkdir()
        labels = {f"cube{i:03d}": np.random.default_rng(i).integers(0, 9, (24, 20)).astype(np.uint8) for i in range(3)}
        for stem, label in labels.items():
            np.save(masks / f"{stem}.npy", label)
        self.ok("pack", source, self.tmp / "out", "--masks", masks)
        self.ok("unpack", self.tmp / "out", self.tmp / "back")
        for stem, label in labels.items():
            np.testing.assert_array_equal(unpacked(self.tmp / "back", stem, "mask"), label)
        (masks / "cube001.npy").unlink()
        result = shardpack("pack", source, self.tmp / "out2", "--masks", masks)
        self.assertIn(result.code, (1, 2))
        self.assertIn("cube001", result.err)

    def test_any_number_of_threads_gives_the_same_bytes(self):
        source = cubes(self.tmp / "src", 12)
        for threads in (1, 2, 7):
            self.ok("pack", source, self.tmp / f"out{threads}", "--threads", threads, "--shard-size", "50KiB")
        self.assertGreater(len(shards(self.tmp / "out1")), 2)
        self.assertSameTree(self.tmp / "out1", self.tmp / "out2")
        self.assertSameTree(self.tmp / "out1", self.tmp / "out7")


if __name__ == "__main__":
    unittest.main()
