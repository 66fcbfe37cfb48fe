"""Tests that the Markdown link checker finds dead links, and accepts all links that work on a code host."""

import subprocess
import sys
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory

CHECK = Path(__file__).resolve().parents[2] / "scripts" / "check_links.py"
LIVE = """# A title, with `code` & signs
## Twice
## Twice
[here](#a-title-with-code--signs) [second](#twice-1) [other](docs/b.md#plain) [folder](docs) <a href="docs/b.md">b</a>
[away](https://example.invalid/x) ![picture](docs/p.svg) `[no link](nowhere.md)`
```text
[no link either](nowhere.md)
```
"""


class Links(unittest.TestCase):
    def check(self, page):
        with TemporaryDirectory() as folder:
            root = Path(folder)
            subprocess.run(["git", "init", "--quiet", root], check=True)
            (root / "docs").mkdir()
            (root / "docs" / "b.md").write_text("# Plain\n")
            (root / "docs" / "p.svg").write_text("<svg/>")
            (root / "a.md").write_text(page)
            return subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True)

    def test_live_links_are_accepted(self):
        done = self.check(LIVE)
        self.assertEqual((done.returncode, done.stdout), (0, "links: 2 pages, 0 dead links\n"), done.stderr)

    def test_dead_links_are_named_with_their_line(self):
        for link, wrong in [
            ("[x](docs/c.md)", "a.md:2: docs/c.md: no such file"),
            ("[x](docs/b.md#other)", "a.md:2: docs/b.md#other: no such heading"),
            ("[x](#plain)", "a.md:2: #plain: no such heading"),
            ("[x](../outside.md)", "a.md:2: ../outside.md: leads out of the repository"),
            ("![x](docs/q.svg)", "a.md:2: docs/q.svg: no such file"),
        ]:
            done = self.check(f"# Title\n{link}\n")
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"ERROR: {wrong}", done.stdout)


if __name__ == "__main__":
    unittest.main()
