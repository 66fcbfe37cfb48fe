"""Check the links in all Markdown files of the repository to files, folders, and the anchors that a code host creates.

    check_links.py [ROOT]     prints each dead link as FILE:LINE with the reason; exit code 1 if there is one

Links to other sites are not checked.
"""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

FENCE = re.compile(r"^ {0,3}(```|~~~)")
HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
# Matches [text](target), ![picture](target "title"), and [name]: target
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+[\"'][^)]*)?\)|^ {0,3}\[[^\]]+\]:\s+<?(\S+?)>?\s*$")
HTML = re.compile(r"<(?:a|img)\b[^>]*?\b(?:href|src)=[\"']([^\"']+)", re.I)
HTML_ANCHOR = re.compile(r"<[a-z][^>]*?\b(?:id|name)=[\"']([^\"']+)", re.I)


def slug(heading: str) -> str:
    """Return the anchor of a heading: in lower case, with hyphens in place of spaces, and without other punctuation."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    text = re.sub(r"<[^>]+>", "", text)
    text = re.sub(r"(?<![^\W_])[*_]+(?=\S)|(?<=\S)[*_]+(?![^\W_])", "", text)
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def prose(text: str) -> list[str]:
    """Return the lines of a page, with empty lines in place of code blocks."""
    lines, fence = [], ""
    for line in text.splitlines():
        mark = FENCE.match(line)
        if mark and not fence:
            fence = mark.group(1)
        elif mark and line.strip() == fence:
            fence = ""
        elif not fence:
            lines.append(line)
            continue
        lines.append("")
    return lines


def anchors(page: Path, known: dict[Path, set[str]]) -> set[str]:
    if page not in known:
        found: set[str] = set()
        for line in prose(page.read_text(encoding="utf-8")):
            found.update(HTML_ANCHOR.findall(line))
            heading = HEADING.match(line)
            if heading:
                name = base = slug(heading.group(2))
                again = 0
                while name in found:
                    again += 1
                    name = f"{base}-{again}"
                found.add(name)
        known[page] = found
    return known[page]


def targets(line: str) -> list[str]:
    line = CODE.sub(lambda code: " " * len(code.group()), line)
    return [one or other for one, other in LINK.findall(line)] + HTML.findall(line)


def dead_links(root: Path, pages: list[Path]) -> list[str]:
    wrong = []
    known: dict[Path, set[str]] = {}
    for page in pages:
        for number, line in enumerate(prose(page.read_text(encoding="utf-8")), 1):
            for target in targets(line):
                if re.match(r"[a-z][a-z0-9+.-]*:|//", target, re.I):
                    continue
                name, _, anchor = target.partition("#")
                goal = (page.parent / unquote(name)).resolve() if name else page.resolve()
                where = f"{page.relative_to(root)}:{number}: {target}"
                if not goal.is_relative_to(root):
                    wrong.append(f"{where}: leads out of the repository")
                elif not goal.exists():
                    wrong.append(f"{where}: no such file")
                elif anchor and goal.suffix == ".md" and unquote(anchor) not in anchors(goal, known):
                    near = [name for name in sorted(anchors(goal, known)) if anchor.split("-")[0] in name]
                    hint = f"; there is {', '.join('#' + name for name in near[:3])}" if near else ""
                    wrong.append(f"{where}: no such heading{hint}")
    return wrong


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]).resolve()
    listed = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\0")
    pages = [root / name for name in names if name and (root / name).exists()]
    wrong = dead_links(root, pages)
    for line in wrong:
        print(f"ERROR: {line}")
    print(f"links: {len(pages)} pages, {len(wrong)} dead links")
    return 1 if wrong or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
