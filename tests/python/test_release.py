"""Tests that `scripts/release.sh` requires a clean working tree and a release date, except for a trial."""

import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
CARGO = '[workspace.package]\nversion = "1.2.3"\nedition = "2024"\n\n[workspace]\n'
READY = "# Changelog\n\n## 1.2.3 - 2026-11-30\n"
# Fake `licences.py`. `release.sh` runs it after the checks of the version and the tree. It ends the run before
# anything is built.
REACHED = 'raise SystemExit("would build")\n'


class Release(unittest.TestCase):
    def setUp(self):
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "scripts").mkdir()
        for name in ("release.sh", "environment.sh"):
            shutil.copy(SCRIPTS / name, self.root / "scripts" / name)
        (self.root / "scripts" / "licences.py").write_text(REACHED)
        (self.root / "Cargo.toml").write_text(CARGO)
        (self.root / ".gitignore").write_text("/target\n")
        (self.root / "target").mkdir()
        (self.root / "target" / "built").touch()

    def git(self, *args):
        names = ["-c", "user.name=a", "-c", "user.email=a@example.invalid", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *names, *args], cwd=self.root, check=True, capture_output=True)

    def commit(self, changelog=READY):
        (self.root / "CHANGELOG.md").write_text(changelog)
        self.git("init", "--quiet")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "a")

    def release(self, *args):
        # The temporary folder may be inside another checkout, which Git must not find.
        settings = os.environ | {"GIT_CEILING_DIRECTORIES": str(self.root.parent)}
        return subprocess.run(["bash", self.root / "scripts" / "release.sh", *args], capture_output=True, text=True, env=settings)

    def refused(self, text, *args):
        done = self.release(*args)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn(text, done.stderr)
        return done.stderr

    def goes_on(self, *args):
        done = self.release(*args)
        self.assertEqual((done.returncode, done.stderr), (1, "would build\n"), done.stdout)
        return done.stdout

    def test_a_version_with_its_day_is_built(self):
        self.commit()
        self.assertEqual(self.goes_on(), "")
        self.assertEqual(self.goes_on("--trial"), "")

    def test_a_version_without_a_day_is_refused(self):
        for heading in ("## 1.2.3 - not released yet", "## 1.2.3", "## 1.2.3 - 2026-11-3x"):
            with self.subTest(heading):
                self.commit(f"# Changelog\n\n{heading}\n\n## 1.2.2 - 2026-10-01\n")
                said = self.refused("release: CHANGELOG.md: expected the day of the release, as in `## 1.2.3 - ")
                self.assertIn(f"found: {heading}\nhint: --trial builds anyway, to try and not to publish\n", said)
                self.assertIn("release: a trial, not to publish: CHANGELOG.md: expected the day", self.goes_on("--trial"))

    def test_a_version_without_a_heading_is_refused_in_a_trial_too(self):
        self.commit("# Changelog\n\n## 1.2.30 - 2026-11-30\n\n## 1x2x3 - 2026-11-30\n")
        for trial in ([], ["--trial"]):
            self.refused("release: CHANGELOG.md: expected a heading for version 1.2.3, found none", *trial)

    def test_a_tree_with_changes_is_refused(self):
        for name, change, listed in (("Cargo.toml", CARGO + "\n", " M Cargo.toml"), ("new.rs", "", "?? new.rs")):
            with self.subTest(name):
                self.commit()
                (self.root / name).write_text(change)
                said = self.refused("release: expected a tree as it was committed, found changes:\n")
                self.assertIn(f"\n{listed}\nhint: --trial builds anyway", said)
                self.assertIn("release: a trial, not to publish: expected a tree as it was committed", self.goes_on("--trial"))

    def test_without_git_nothing_is_built(self):
        (self.root / "CHANGELOG.md").write_text(READY)
        for trial in ([], ["--trial"]):
            self.refused("release: expected a git checkout", *trial)

    def test_unknown_arguments_name_the_known_ones(self):
        self.commit()
        self.assertIn("--quick, --trial, --no-try", self.refused("release: unknown argument: --draft", "--draft"))


class Workflows(unittest.TestCase):
    FOLDER = SCRIPTS.parent / ".github" / "workflows"

    def test_every_action_is_pinned_by_its_commit(self):
        used = {}
        for file in sorted(self.FOLDER.glob("*.yml")):
            for action, version, rest in re.findall(r"uses: *([^@\s]+)@(\S+)(.*)", file.read_text()):
                self.assertRegex(version, "^[0-9a-f]{40}$", f"{file.name}: {action}")
                self.assertRegex(rest, r"^ # v\d+\.\d+\.\d+$", f"{file.name}: {action}")
                self.assertEqual(used.setdefault(action, version), version, f"{file.name}: {action} has two commits")
        self.assertIn("pypa/gh-action-pypi-publish", used)

    def test_only_a_tag_is_uploaded_and_only_with_an_approval(self):
        text = (self.FOLDER / "release.yml").read_text()
        jobs = dict(re.findall(r"^  (\w+):\n((?:    .*\n|\n|  #.*\n)+)", text.partition("\njobs:\n")[2], re.MULTILINE))
        self.assertEqual(list(jobs), ["linux", "macos", "collect", "pypi", "crates", "page"])
        for name in ("pypi", "crates", "page"):
            self.assertIn("    environment: release\n", jobs[name])
        for name in ("pypi", "crates"):
            self.assertIn("    if: github.event_name == 'push' && github.ref_type == 'tag'\n", jobs[name])
        self.assertIn("    needs: [pypi, crates]\n", jobs["page"])
        for name in ("linux", "macos", "collect"):
            self.assertNotRegex(jobs[name], "publish|contents: write|release create")

    def test_the_recipe_of_conda_has_the_version(self):
        root = SCRIPTS.parent
        version = re.search(r'^version = "(.+)"', (root / "Cargo.toml").read_text(), re.MULTILINE).group(1)
        self.assertIn(f'  version: "{version}"\n', (root / "packaging" / "conda" / "recipe.yaml").read_text())


if __name__ == "__main__":
    unittest.main()
