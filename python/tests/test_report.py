"""Tests the result, the page and the notebook view of `shardpack.report`."""

import json
from pathlib import Path

import pytest
import shardpack as sp
from test_pack import photos
from shardpack import _report, _shardpack
from shardpack._keywords import types_of


def test_the_table_of_options_is_the_commands() -> None:
    types = types_of(_report.ReportOptions)
    assert set(types) == set(_shardpack.option_names("report"))
    assert [types[name] for name in ("quality", "subsampling", "force", "gallery")] == [(int, list), (str, list), (bool,), (int,)]


def test_a_report_is_its_data_and_shows_itself(tmp_path: Path) -> None:
    source, page = photos(tmp_path / "photos"), tmp_path / "report.html"
    seen: list[dict[str, object]] = []
    found = sp.report(source, page, samples=5, gallery=1, quality=[90, 40], threads=2, progress=seen.append)
    assert [candidate["name"] for candidate in found["candidates"]] == ["tile", "q90", "q40"]
    assert len(found["samples"]) == 5 and found["whole"]["samples"] == 12
    assert json.loads(json.dumps(found)) == found
    assert page.read_text().startswith("<!DOCTYPE html>")
    html = found._repr_html_()
    assert found["verdict"]["sentence"].split(".")[0] in html and "<svg" in html and "<script" not in html
    assert repr(found).startswith("<shardpack.Report of ")
    # Pack with a candidate from the report page.
    packed = sp.pack(source, tmp_path / "out", recipe=f"{page}#3")
    assert packed["fidelity"]["image"]["quality"]["max"] == 40
    with pytest.warns(UserWarning, match=r"recipe: using candidate \d of `.*`, .*, which the report recommends"):
        sp.pack(source, tmp_path / "best", recipe=str(page))


def test_conditions_may_be_several_and_wrong_options_are_named(tmp_path: Path) -> None:
    source = photos(tmp_path / "photos")
    found = sp.report(source, samples=3, quality=40, want=["ssimulacra2>=99.9", "size<=1GB"])
    assert found["verdict"]["want"] == ["ssimulacra2>=99.9", "size<=1GB"] and found["verdict"]["chosen"] == 0
    assert not (tmp_path / "report.html").exists()
    with pytest.raises(TypeError, match="(?s)unexpected keyword argument 'qualty'.*'quality'"):
        sp.report(source, qualty=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="samples: expected int"):
        sp.report(source, samples="many")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a mean hides"):
        sp.report(source, want="ssimulacra2.mean>=80")
    with pytest.raises(OSError, match="nowhere"):
        sp.report(tmp_path / "nowhere")
