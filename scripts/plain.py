"""Count turns of phrase that make prose hard to read, per 10,000 words, and compare the counts with ceilings.

    plain.py [ROOT]              the counts of comments, docs and messages; exit code 1 if one is above its ceiling
    plain.py [ROOT] --worst N    the same, and N places to begin with
    plain.py [ROOT] --lower      write lower counts into the table of ceilings, which no option raises

The ceilings are in `scripts/plain.txt`. They may only fall: a number higher than in the committed table is an error.
The count is only a hint. Avoiding a word does not untangle a sentence.
"""

import argparse
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

TURNS = {
    name: re.compile(pattern)
    for name, pattern in {
        "opens with a question word": r"(?:^|\. )(?:What|Whether|Whoever|Who|How (?:many|much|far|long))\b(?![^.]*\?)",
        "a clause for a noun (what is)": r"(?<![.?!:] )(?<!^)\bwhat (?:is|was|it|they|has|had|comes|came|a|of|the)\b",
        "programs as persons (who)": r"(?<!people )(?<!patient )(?<!anyone )\b(?:who|whoever|whom|nobody|somebody)\b",
        "a number without a noun (so many)": r"\b(?:so|as) (?:many|much)\b(?!(?: \S+){0,5} as\b)(?! \S+ a second)",
        "a pronoun for a noun (those of)": r"\b(?:that|those) of\b|\bthe ones?\b(?! (?:that|which|\w+ing)\b)",
        "the object first (Of a plane)": r"(?:^|[.:;] )Of [a-z]",
        "passive speech (is said)": r"\b(?:is|are|was|were) (?:told|said|asked|begun|meant)\b",
        "things that stand or go": r"\bgo(?:es)? (?:on|by)\b|\bstands? (?:in|at|beside|under|behind|where|there)\b",
        "one after the other, beside": r"\bone after the other\b|\bbeside\b",
    }.items()
}
MARK = {".rs": r"//[/!]?", ".cu": r"//[/!]?", ".cuh": r"//[/!]?", ".h": r"//[/!]?", ".py": r"#(?!!)", ".sh": r"#(?!!)"}
KINDS = ("comments", "docs", "messages")
EXAMPLES = ("plain.py", "test_plain.py")  # they quote turns of phrase
FENCED = re.compile(r"^ *```.*?^ *```", re.M | re.S)
CODE = re.compile(r"``.*?``|`[^`]*`")
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def comments(path: Path, lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the line number and the text of each run of comment lines with the same mark."""
    mark = re.compile(rf"\s*({MARK[path.suffix]})\s?(.*)")
    run, last = list[str](), ""
    for number, line in enumerate([*lines, ""], 1):
        found = mark.match(line)
        if run and (not found or found[1] != last):
            yield number - len(run), " ".join(run)
            run = []
        if found:
            run, last = [*run, found[2].strip()], found[1]


def passages(path: Path, text: str) -> Iterator[tuple[str, int, str]]:
    """Yield the kind, the line number and the text of each passage of a file."""
    if path.suffix == ".md":
        text = FENCED.sub(lambda code: "\n" * code[0].count("\n"), text)
        for block in re.finditer(r"(?:^(?!\||\s*$).*\n?)+|^\|.*$", text, re.M):
            yield "docs", text[: block.start()].count("\n") + 1, block[0]
        return
    for number, run in comments(path, text.split("\n")):
        yield "comments", number, FENCED.sub(" X ", run)
    if path.suffix == ".py":
        for found in re.finditer(r'"""(.*?)"""', text, re.S):
            yield "comments", text[: found.start()].count("\n") + 1, found[1]
        text = re.sub(r'""".*?"""', lambda doc: "\n" * doc[0].count("\n"), text, flags=re.S)
    if path.suffix in (".py", ".rs"):
        for number, line in enumerate(text.split("\n"), 1):
            for found in STRING.finditer(re.sub(r"^\s*(?://|#).*", "", line)):
                yield "messages", number, re.sub(r"\{[^}]*\}", "X", found[1])


def count(root: Path) -> tuple[dict[str, float], Counter[str], list[tuple[float, str]]]:
    """Return the turns per 10,000 words by kind of text, the turns by name, and all passages with turns, densest
    first.
    """
    names = subprocess.run(["git", "-C", root, "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    words, turns, hits, dense = Counter[str](), Counter[str](), Counter[str](), list[tuple[float, str]]()
    for path in (root / name for name in names.split("\0")):
        if path.suffix not in (*MARK, ".md") or path.name in EXAMPLES or not path.is_file():
            continue
        for kind, line, raw in passages(path, path.read_text(encoding="utf-8")):
            text = " ".join(CODE.sub("X", raw).split())
            if (length := len(text.split())) < (4 if kind == "messages" else 3):
                continue
            found = {name: len(pattern.findall(text)) for name, pattern in TURNS.items()}
            words[kind] += length
            turns[kind] += sum(found.values())
            hits.update(found)
            if any(found.values()):
                dense.append((sum(found.values()) / (length + 12), f"{path.relative_to(root)}:{line}: {text[:160]}"))
    return {kind: 1e4 * turns[kind] / max(words[kind], 1) for kind in KINDS}, hits, sorted(dense, reverse=True)


def numbers(table: str) -> dict[str, float]:
    return {kind: float(ceiling) for kind, ceiling in map(str.split, table.splitlines())}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parents[1])
    options.add_argument("--worst", type=int, default=0, metavar="N", help="print N places to begin with")
    options.add_argument("--lower", action="store_true", help="lower the ceilings to the counts")
    chosen = options.parse_args()
    table = chosen.root / "scripts" / "plain.txt"
    ceilings = numbers(table.read_text())
    show = ["git", "-C", chosen.root, "show", "HEAD:scripts/plain.txt"]
    before = ceilings | numbers(subprocess.run(show, capture_output=True, text=True).stdout)
    counts, hits, dense = count(chosen.root)
    print("\n".join([f"{name:36}{hits[name]:6}" for name in TURNS] + [place for _, place in dense[: chosen.worst]]))
    if chosen.lower:
        ceilings = {kind: min(ceilings[kind], round(counts[kind] + 0.05, 1)) for kind in KINDS}
        table.write_text("".join(f"{kind} {ceilings[kind]}\n" for kind in KINDS))
    wrong = [f"{kind}: {counts[kind]:.1f} turns of phrase" for kind in KINDS if counts[kind] > ceilings[kind]]
    wrong += [f"{kind}: the ceiling was {before[kind]}" for kind in KINDS if ceilings[kind] > before[kind]]
    print("".join(f"ERROR: {line} (scripts/plain.py --worst 20 names places)\n" for line in wrong), end="")
    print("plain: " + ", ".join(f"{kind} {counts[kind]:.1f} of {ceilings[kind]}" for kind in KINDS))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
