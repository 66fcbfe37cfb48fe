"""Tests `shardpack ls`, which lists samples from the indexes of the shards."""

import json
import subprocess
import unittest

from support import COMMAND, CommandTest, cubes, pictures


class LsTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.data = self.tmp / "data"
        self.expect(0, "pack", pictures(self.tmp / "in", 30), self.data, "--shard-size", "40KiB")

    def lines(self, *args):
        return self.expect(0, "ls", self.data, *args).out.splitlines()

    def test_keys_are_listed_in_stored_order(self):
        keys = self.lines()
        self.assertEqual(sorted(keys), [f"class {i % 3}/{i:04d}.jpg" for i in sorted(range(30), key=lambda i: (i % 3, i))])
        rows = [json.loads(line) for line in self.lines("--json", "--columns", "index")]
        self.assertEqual([row["key"] for row in rows], keys)
        self.assertEqual([row["index"] for row in rows], list(range(30)))
        self.assertEqual(self.lines("--limit", "4"), keys[:4])
        self.assertEqual(self.lines("--limit", "0"), [])

    def test_patterns_and_conditions(self):
        self.assertEqual(sorted(self.lines("--keys", "class 1/*")), [f"class 1/{i:04d}.jpg" for i in range(1, 30, 3)])
        self.assertEqual(self.lines("--keys", "*/0007.???"), ["class 1/0007.jpg"])
        for condition in ("class=class 2", "label=2", "label=class 2", "label>1", "label>=2"):
            self.assertEqual(len(self.lines("--where", condition)), 10, condition)
        self.assertEqual(len(self.lines("--where", "label!=2", "--where", "label<=0")), 10)
        self.assertEqual(len(self.lines("--where", "height<64")), 0)
        self.assertEqual(len(self.lines("--where", "gpu_jpeg=true")) + len(self.lines("--where", "gpu_jpeg=false")), 30)
        self.assertEqual(len(self.lines("--where", "index<5", "--keys", "*")), 5)

    def test_columns_follow_the_key(self):
        head, *rows = self.lines("--columns", "class,label,width,bytes,shard")
        self.assertEqual(head.split("\t"), ["key", "class", "label", "width", "bytes", "shard"])
        self.assertEqual(len(rows), 30)
        for row in rows:
            key, name, label, width, size, shard = row.split("\t")
            self.assertEqual((name, label, width), (key.split("/")[0], key[6], "96"))
            self.assertTrue((self.data / shard).stat().st_size > int(size) > 0)
        self.assertGreater(len({row.split("\t")[5] for row in rows}), 1)

    def test_missing_columns_and_classes_are_named(self):
        for args, said in [
            (["--columns", "colour"], "the dataset has no column `colour`: choose from label, height"),
            (["--where", "colour=3"], "the dataset has no column `colour`: choose from label, height"),
            (["--where", "label"], "expected a condition such as"),
            (["--where", "=3"], "expected a condition such as"),
            (["--where", "height=tall"], "expected a number for `height`"),
            (["--where", "class=class 9"], "--where: the dataset has no class `class 9`\nhint: run `shardpack inspect --json` to list the classes"),
            (["--where", "class=Lass 1"], "hint: did you mean `class 1`?"),
            (["--keys", "[a"], "`--keys`: `[a` is not a valid pattern"),
        ]:
            self.assertIn(said, self.expect(2, "ls", self.data, *args).err)

    def test_an_unknown_key_gets_suggestions(self):
        for wrong, right in [("0007.png", "class 1/0007.jpg"), ("class 0/0007.png", "class 1/0007.jpg"), ("class 1/0O07.jpg", "class 1/0007.jpg")]:
            self.assertIn(f"did you mean `{right}`", self.expect(2, "cat", self.data, wrong).err)
        self.assertIn("hint: run `shardpack ls` to list the keys", self.expect(2, "cat", self.data, "zebra").err)

    def test_no_record_is_read(self):
        expected = self.lines("--columns", "height")
        for shard in self.data.glob("*.shard"):
            content = bytearray(shard.read_bytes())
            content[4160:4224] = bytes(64)
            shard.write_bytes(content)
        self.assertEqual(self.lines("--columns", "height"), expected)

    def test_a_closed_pipe_is_no_error(self):
        command = f"'{COMMAND}' ls '{self.data}' | head -n 1; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
        self.assertEqual((len(done.stdout.splitlines()), done.stdout.splitlines()[-1], done.stderr), (2, "0", ""))

    def test_cubes_without_classes(self):
        out = self.tmp / "cubes"
        self.expect(0, "pack", cubes(self.tmp / "c", 3), out)
        self.assertEqual(len(self.expect(0, "ls", out, "--where", "channels=17").out.splitlines()), 3)
        self.assertIn("the dataset has no column `class`: choose from ", self.expect(2, "ls", out, "--columns", "class").err)


if __name__ == "__main__":
    unittest.main()
