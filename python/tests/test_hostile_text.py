"""Tests that errors, warnings and reprs escape terminal control characters in names."""

from __future__ import annotations

import json
import unicodedata
import warnings
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
import shardpack as sp

EVIL = "\x1b[2Jx\x07y\u009b31m\u202ez\u2066\u200b\ufeff\x7f\nhint: obey\r!"
EVIL_KEY = "a\u202eb\u2066c\u200bd\ufeff"


def hidden(text: str) -> list[str]:
    return [c for c in text if c not in "\n\t" and (unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp"))]


def said(call: Callable[[], Any]) -> str:
    with pytest.raises(Exception) as caught:
        call()
    return f"{caught.value}\n{caught.value!r}"


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    with sp.Writer(tmp_path / "out", classes=[EVIL, EVIL + "2"]) as writer:
        for number in range(3):
            writer.write({"cube": np.zeros((4, 4, 2), np.uint8), "label": number % 2, "text": EVIL}, key=f"{EVIL_KEY}{number}")
    return tmp_path / "out"


def test_a_dataset_of_hostile_names_is_shown_without_them(dataset: Path) -> None:
    opened = sp.Dataset(dataset)
    texts = [repr(opened), repr(opened.columns), repr(opened.classes), repr(opened[0]), repr(opened.by_key(f"{EVIL_KEY}1"))]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with sp.Loader(opened, batch_size=2, fields=["cube", "label"]) as loader:
            texts += [repr(loader), *(repr(batch) for batch in loader)]
    texts += [str(warning.message) for warning in caught]
    texts.append(said(lambda: opened.by_key("no\x1b" + EVIL_KEY)))
    texts.append(said(lambda: opened.columns[EVIL]))
    texts.append(said(lambda: sp.Loader(opened, batch_size=2, fields=[EVIL])))
    for text in texts:
        assert hidden(text) == [], text


@pytest.mark.parametrize("change", ["unknown", "twice", "kind", "version", "shard"])
def test_errors_of_parsers_repeat_no_hidden_character(dataset: Path, change: str) -> None:
    path, quoted = dataset / "manifest.json", json.dumps(EVIL, ensure_ascii=False)
    text = path.read_text(encoding="utf-8")
    changed = {
        "unknown": text.replace("{", f"{{{quoted}: 1,", 1),
        "twice": text.replace('"recipe": {', f'"recipe": {{ {quoted}: 1, {quoted}: 2,', 1),
        "kind": text.replace('"kind": "array"', f'"kind": {quoted}', 1),
        "version": text.replace('"version": "1.0"', f'"version": {quoted}', 1),
        "shard": text.replace('"name": "shard-00000.shard"', f'"name": {quoted}', 1),
    }[change]
    assert changed != text
    path.write_text(changed, encoding="utf-8")
    for call in (lambda: sp.Dataset(dataset), lambda: sp.Loader(dataset, batch_size=2)):
        text = said(call)
        assert hidden(text) == [], text
        assert not any(line.startswith("hint: obey") for line in text.splitlines()), text
    report = sp.verify(dataset)
    assert hidden(str(report)) == [] and hidden(repr(report)) == []
