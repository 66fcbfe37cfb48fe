#!/usr/bin/env python3
"""Lists the licences of the Rust crates compiled into the wheel and the command, in python/LICENSE-THIRD-PARTY.

    scripts/licences.py            rewrites the last part of that file, from Cargo.lock
    scripts/licences.py --check    fails if that would change the file

For crates with several licences, MIT is chosen if the crate contains its text. Crates with the same licence text are
listed together.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "python" / "LICENSE-THIRD-PARTY"
HEADING = "==== Rust crates ===="
OPENING = """It also contains the Rust standard library, Copyright (c) The Rust Project contributors, under MIT OR Apache-2.0, and the
following Rust crates. After the names of crates comes their licence, and its text as they have it."""
TARGETS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]
NAMES = re.compile(r"(licen[cs]e|copying|copyright|unlicense|notice)([-_.].*)?", re.IGNORECASE)


def cargo(*arguments: str) -> str:
    return subprocess.run(["cargo", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def compiled_in() -> set[tuple[str, str]]:
    """Return the name and version of each crate that is not part of the project."""
    tree = ["tree", "--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}"]
    packages = ["--package", "shardpack", "--package", "shardpack-python", "--features", "shardpack/hdf5,shardpack-python/hdf5,shardpack-python/cli"]
    targets = [word for target in TARGETS for word in ("--target", target)]
    lines = cargo(*tree, *packages, *targets).splitlines()
    found = {tuple(line.split()[:2]) for line in lines if line and "(/" not in line}
    return {(name, version.removeprefix("v")) for name, version in found}


def texts_of(folder: Path, expression: str, license_file: str | None) -> list[str]:
    files = sorted(path for path in folder.iterdir() if path.is_file() and NAMES.fullmatch(path.name))
    if license_file and (folder / license_file) not in files:
        files.append(folder / license_file)
    if " AND " not in expression and re.search(r"\bMIT\b", expression):
        mit = [path for path in files if re.search(r"\bmit\b", path.name.replace("_", "-"), re.IGNORECASE)]
        notices = [path for path in files if path.name.lower().startswith("notice")]
        files = mit + notices if mit else files
    texts = ("\n".join(line.rstrip() for line in path.read_text(errors="replace").splitlines()).strip() for path in files)
    return [text for text in texts if text]


def part() -> str:
    arguments = [word for target in TARGETS for word in ("--filter-platform", target)]
    packages = json.loads(cargo("metadata", "--locked", "--all-features", "--format-version", "1", *arguments))["packages"]
    by_name = {(package["name"], package["version"]): package for package in packages}
    crates_of: dict[str, list[str]] = {}
    for name, version in sorted(compiled_in()):
        package = by_name[name, version]
        expression = (package["license"] or "see below").replace("/", " OR ")
        texts = texts_of(Path(package["manifest_path"]).parent, expression, package["license_file"])
        authors = ", ".join(package["authors"]) or f"the authors of {name}"
        text = "\n\n".join(texts) or f"(It comes without a text. Copyright (c) {authors}.)"
        crates_of.setdefault(text, []).append(f"{name} {version}: {expression}")
    sections = ("\n".join(f"---- {crate} ----" for crate in crates) + f"\n\n{text}" for text, crates in crates_of.items())
    return "\n\n\n".join([HEADING, OPENING, *sections]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    before = FILE.read_text()
    after = before.split(HEADING)[0].rstrip() + "\n\n\n" + part()
    if before == after:
        return 0
    if check:
        print(f"licences: `{FILE.relative_to(ROOT)}`: expected the crates of Cargo.lock, found different ones", file=sys.stderr)
        print("hint: scripts/licences.py", file=sys.stderr)
        return 1
    FILE.write_text(after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
