"""Tests the code that the benches share."""

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from support import ROOT

sys.path.insert(0, str(ROOT / "benches"))
import bench


class Commit(unittest.TestCase):
    def result(self):
        with contextlib.redirect_stdout(io.StringIO()):
            return bench.finish("nothing", SimpleNamespace(rounds=1, no_save=True), {}, [{"figure": 1.0}])

    def test_without_git_a_run_leaves_the_commit_out(self):
        with tempfile.TemporaryDirectory() as empty, mock.patch.dict(os.environ, PATH=empty):
            self.assertNotIn("commit", self.result())

    def test_outside_a_checkout_a_run_leaves_the_commit_out(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(bench, "ROOT", Path(folder)):
            self.assertNotIn("commit", self.result())

    @unittest.skipUnless((ROOT / ".git").exists(), "no checkout of git")
    def test_in_a_checkout_a_run_names_the_commit(self):
        try:
            subprocess.run(["git", "rev-parse"], cwd=ROOT, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest(f"git does not work here: {error}")
        self.assertRegex(self.result()["commit"], "^[0-9a-f]{12}[+]?$")


class Examples(unittest.TestCase):
    def test_every_named_example_exists_in_its_package(self):
        named = re.compile(r'-p"?,? "?shardpack-([a-z-]+)"?,? "?--example"?,? "?([a-z_]+)')
        files = [path for folder in ("benches", "docs", "scripts") for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md", ".sh")]
        found = {(path.relative_to(ROOT), *match) for path in files for match in named.findall(path.read_text())}
        self.assertGreater(len(found), 5)
        for path, crate, example in sorted(found):
            with self.subTest(path=str(path), example=example):
                examples = ROOT / "crates" / crate / "examples"
                self.assertTrue((examples / f"{example}.rs").exists() or (examples / example / "main.rs").exists())


if __name__ == "__main__":
    unittest.main()
