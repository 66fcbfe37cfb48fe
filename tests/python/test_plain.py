"""Tests that `scripts/plain.py` counts the listed phrases in comments, docs and messages, and never raises a
ceiling."""

import subprocess
import sys
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory

COUNT = Path(__file__).resolve().parents[2] / "scripts" / "plain.py"
PLAIN = "Frees a buffer of a different size, once for all rows of a batch, to stay within the limit.\n"
KNOTTED = "Whoever holds it goes on, one after the other, and nobody is told.\n"


class Plain(unittest.TestCase):
    def setUp(self):
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "scripts").mkdir()
        self.git("init", "--quiet")
        self.ceilings(0)

    def git(self, *arguments):
        subprocess.run(["git", "-C", self.root, *arguments], check=True, capture_output=True)

    def ceilings(self, docs):
        (self.root / "scripts" / "plain.txt").write_text(f"comments 0\ndocs {docs}\nmessages 0\n")

    def count(self, *options, **files):
        for name, text in files.items():
            (self.root / name.replace("_", ".")).write_text(text)
        self.git("add", ".")
        return subprocess.run([sys.executable, COUNT, self.root, *options], capture_output=True, text=True)

    def test_plain_text_has_no_turns(self):
        code = f"// {PLAIN}let text = \"{PLAIN.strip()}\";\n"
        done = self.count(a_md=f"# Title\n\n{PLAIN}\n```text\n{KNOTTED}```\n`{KNOTTED.strip()}`\n", a_rs=code)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_turns_are_found_in_each_kind_of_text(self):
        for kind, name, text in [
            ("docs", "a_md", f"# Title\n\n{KNOTTED}"),
            ("docs", "a_md", f"| a | b |\n|---|---|\n| x | {KNOTTED.strip()} |\n"),
            ("comments", "a_rs", f"/// {KNOTTED}"),
            ("comments", "a_py", f'"""{KNOTTED}"""\n'),
            ("messages", "a_py", f'print("{KNOTTED.strip()}")\n'),
        ]:
            with self.subTest(kind=kind, name=name):
                done = self.count("--worst", "1", **{name: text})
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"ERROR: {kind}: ", done.stdout)
                self.assertIn(name.replace("_", "."), done.stdout)
                (self.root / name.replace("_", ".")).unlink()

    def test_ceilings_only_fall(self):
        self.ceilings(9999)
        self.assertEqual(self.count(a_md=KNOTTED + 20 * PLAIN).returncode, 0)
        self.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "first")
        self.assertEqual(self.count("--lower").returncode, 0)
        self.assertNotIn("9999", (self.root / "scripts" / "plain.txt").read_text())
        self.assertEqual(self.count("--lower", a_md=2 * KNOTTED).returncode, 1)
        self.ceilings(10000)
        done = self.count(a_md=PLAIN)
        self.assertEqual((done.returncode, "docs: the ceiling was 9999" in done.stdout), (1, True), done.stdout)


if __name__ == "__main__":
    unittest.main()
