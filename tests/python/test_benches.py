"""What the benches share."""

import contextlib
import io
import os
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
    def test_in_a_checkout_it_is_named(self):
        try:
            subprocess.run(["git", "rev-parse"], cwd=ROOT, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest(f"git does not work here: {error}")
        self.assertRegex(self.result()["commit"], "^[0-9a-f]{12}[+]?$")


if __name__ == "__main__":
    unittest.main()
