"""Prepare the pages of the documentation site, and check the links of the site after it is built.

    site.py source yes|no     all Markdown of the repository into target/site-source, with API pages next to it;
                              yes: with those of the Rust crates, which are in target/doc
    site.py check             every link in target/site leads to an existing file and anchor

The Markdown is written for a code host, so three things change for the site. Links to files that are not pages lead
to the code host, HTML around Markdown is marked as containing Markdown, and Sphinx roles in docstrings become
Markdown.
"""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from check_links import CODE, FENCE

ROOT = Path(__file__).resolve().parents[1]
SOURCE, API, SITE = (ROOT / "target" / name for name in ("site-source", "site-api", "site"))
PACKAGE = ROOT / "python" / "shardpack"
# Pages of the reference, with the subject and the package's names on each page. It is an error if a name is on no page.
PAGES = {
    "dataset": ("Datasets", ["Dataset", "Subset", "Concat", "concat", "Field", "Sample", "Row", "verify"]),
    "loader": ("Loaders and batches", ["Loader", "Batch", "Ragged", "Views", "stitch", "Stitcher", "Scene", "Shuffle", "Indices", "Weights"]),
    "pack": (
        "Packing and writing",
        ["pack", "plan", "merge", "add", "remove", "compact", "report", "Report", "Writer", "PackOptions", "AddOptions",
         "ReportOptions", "StorageOptions"],
    ),
    "convert": ("Converting and exporting", ["convert", "export"]),
    "modules": ("Views, augmentation, alignment, PyTorch, Ray", ["view", "augment", "align", "torch", "ray"]),
}  # fmt: skip
ERRORS = {"FormatError", "LimitError", "SourceError", "UsageError"}
LINK = re.compile(r"(\]\()([^)\s]+)(\))|(\b(?:href|src)=\")([^\"]+)(\")")
ROLE = re.compile(r":(?:class|func|meth|attr|mod|data|exc|obj):`~?\.?([^`]+)`")
HOLDER = re.compile(r"<(table|thead|tbody|tr|td|th)>")


def tracked() -> list[str]:
    """Return the files of the repository, including files that are not committed yet."""
    listed = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted({name for name in names if name and (ROOT / name).exists()})


def rewritten(page: str, text: str, pages: set[str], repository: str) -> str:
    def target(link: str) -> str:
        path, hash_sign, anchor = link.partition("#")
        if not path or re.match(r"[a-z][a-z0-9+.-]*:|//", link):
            return link
        goal = (ROOT / page).parent.joinpath(unquote(path)).resolve()
        name = goal.relative_to(ROOT).as_posix()
        if name in pages:
            return link
        if f"{name}/README.md" in pages:
            return f"{path.rstrip('/')}/README.md{hash_sign}{anchor}"
        if goal.suffix == ".svg":
            return link
        return f"{repository}/{'tree' if goal.is_dir() else 'blob'}/main/{name}{hash_sign}{anchor}"

    def code(span: re.Match[str]) -> str:
        # Escape the text, because a type such as `Arc<dyn Trait>` would otherwise be parsed as HTML.
        text = span.group().strip("`").strip()
        return f"<code>{escape(text, quote=False)}</code>" if re.search(r"<[a-zA-Z]", text) else span.group()

    def change(line: str) -> str:
        spans = [match.span() for match in CODE.finditer(line)]

        def link(match: re.Match[str]) -> str:
            if any(start <= match.start(2) < end for start, end in spans):
                return match.group()
            before, goal, after = (match.group(n) or match.group(n + 3) for n in (1, 2, 3))
            return before + target(goal) + after

        return CODE.sub(code, HOLDER.sub(r'<\1 markdown="1">', LINK.sub(link, line)))

    lines, fenced = [], False
    for line in text.splitlines():
        fence = bool(FENCE.match(line))
        if fence and not fenced:
            line = re.sub(r"^( *[`~]+\w+),.*", r"\1", line)  # ```rust,no_run
        lines.append(line if fenced or fence else change(line))
        # On the site, a list or a table needs an empty line before it.
        if not fenced and len(lines) > 1 and re.match(r"([-*]|\d+\.) |\|", line):
            before = lines[-2]
            if before.strip() and not re.match(r"\s*([-*]|\d+\.) |\||\s{2,}|<", before):
                lines.insert(-1, "")
        fenced ^= fence
    return "\n".join(lines) + "\n"


def exported() -> list[str]:
    for node in ast.parse((PACKAGE / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and any(getattr(name, "id", "") == "__all__" for name in node.targets):
            return list(ast.literal_eval(node.value))
    raise SystemExit("site: expected `__all__` in python/shardpack/__init__.py, found none")


def source(with_rust: bool) -> None:
    repository = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["repository"]
    for folder in (SOURCE, API):
        shutil.rmtree(folder, ignore_errors=True)
    names = tracked()
    # The site includes the pages about the format. Pages about crates and benches stay with the code.
    pages = {name for name in names if name.endswith(".md") and name.split("/")[0] in ("docs", "format-spec") or
             name.endswith(".md") and "/" not in name}  # fmt: skip
    for name in pages | {name for name in names if name.startswith("docs/") and name.endswith(".svg")}:
        to = SOURCE / name
        to.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".md"):
            to.write_text(rewritten(name, (ROOT / name).read_text(encoding="utf-8"), pages, repository), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / name, to)
    for name in names:
        if name.startswith("python/shardpack/") and name.endswith((".py", ".pyi")):
            to = API / name.removeprefix("python/")
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_text(ROLE.sub(r"`\1`", (ROOT / name).read_text(encoding="utf-8")), encoding="utf-8")
    listed = {name for _, names in PAGES.values() for name in names}
    missing = set(exported()) - listed - ERRORS - {"__version__"}
    if missing:
        raise SystemExit(f"site: expected each public name on a page of PAGES, found none for: {', '.join(sorted(missing))}")
    (SOURCE / "api").mkdir()
    for page, (title, members) in PAGES.items():
        body = "".join(f"\n::: shardpack.{name}\n" for name in members)
        (SOURCE / "api" / f"{page}.md").write_text(f"# {title}\n{body}")
    crates = sorted(name.split("/")[1] for name in names if re.fullmatch(r"crates/[^/]+/Cargo\.toml", name))
    # Use HTML links, because MkDocs checks Markdown links before the pages of the crates exist.
    lines = [f'- <a href="../../rust/shardpack_{crate.replace("-", "_")}/index.html">shardpack-{crate}</a>' for crate in crates]
    body = "\n".join(lines) if with_rust else "This copy of the site was built without them: `cargo doc --workspace --no-deps`."
    (SOURCE / "api" / "rust.md").write_text(f"# Rust crates\n\nThe reference of each crate, as `cargo doc` makes it.\n\n{body}\n")


class Page(HTMLParser):
    """Collects the links and anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key in ("id", "name") and value:
                self.anchors.add(value)
            elif key in ("href", "src") and value:
                self.links.append(value)


def check() -> int:
    """Check the links of all pages except the Rust reference, because `cargo doc` has already checked it."""
    pages: dict[Path, Page] = {}
    wrong, followed = set(), 0
    own = [path for path in sorted(SITE.rglob("*.html")) if SITE / "rust" not in path.parents and path.name != "404.html"]
    for path in own:
        for link in pages.setdefault(path, Page(path)).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            goal = goal / "index.html" if goal.is_dir() else goal
            followed += 1
            if not goal.exists():
                wrong.add(f"{path.relative_to(SITE)}: {link}: no such page")
            elif parts.fragment and goal.suffix == ".html" and goal in own:
                if unquote(parts.fragment) not in pages.setdefault(goal, Page(goal)).anchors:
                    wrong.add(f"{path.relative_to(SITE)}: {link}: no such anchor")
    for line in sorted(wrong):
        print(f"ERROR: {line}")
    print(f"site: {len(own)} pages, {followed} links within it, {len(wrong)} dead")
    return 1 if wrong or not own else 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["source", "yes" | "no" as with_rust]:
            source(with_rust == "yes")
        case ["check"]:
            sys.exit(check())
        case _:
            raise SystemExit("site: expected source yes, source no, or check")
