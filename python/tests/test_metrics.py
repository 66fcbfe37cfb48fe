"""Tests the figures of a loader as OpenMetrics text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import shardpack as sp
from shardpack import _metrics


@pytest.fixture
def loader(tmp_path: Path) -> sp.Loader:
    with sp.Writer(tmp_path / "numbers") as writer:
        for number in range(10):
            writer.write({"number": number})
    return sp.Loader(sp.Dataset(tmp_path / "numbers"), batch_size=5, rank=1, world_size=2)


def samples(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_every_figure_is_a_metric_with_its_type_and_help(loader: sp.Loader) -> None:
    assert len(list(loader)) == 1
    stats, text = loader.stats(), loader.metrics()
    assert stats.keys() - {"refused", "refused_first"} == _metrics.COUNTERS.keys() | _metrics.GAUGES.keys()
    found = samples(text)
    assert found['shardpack_loader_samples_total{rank="1"}'] == 5
    assert found['shardpack_loader_read_seconds_total{rank="1"}'] == stats["read_s"]
    assert found['shardpack_loader_predicted_bytes{rank="1"}'] == loader.predicted_bytes
    assert len(found) == len(stats) - 2
    assert text.endswith("\n# EOF\n") and text.count("# EOF") == 1
    for kind in ("TYPE", "HELP"):
        names = re.findall(rf"^# {kind} (\S+) \S", text, re.MULTILINE)
        assert len(names) == len(set(names)) == len(stats) - 1


def test_labels_and_reasons_are_escaped() -> None:
    stats = {"batches": 2, "refused": {'a "strange"\nname\\': 3}}
    text = _metrics.text(stats, {"rank": "0", "run": "a\\b"})
    assert 'shardpack_loader_batches_total{rank="0",run="a\\\\b"} 2\n' in text
    assert r'{rank="0",run="a\\b",reason="a \"strange\"\nname\\"} 3' + "\n" in text


def test_the_parser_of_prometheus_reads_it(loader: sp.Loader) -> None:
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    next(iter(loader))
    families = {family.name: family for family in parser.text_string_to_metric_families(loader.metrics({"run": 7}))}
    batches = families["shardpack_loader_batches"]
    assert batches.type == "counter" and batches.samples[0].value == 1
    assert batches.samples[0].labels == {"rank": "1", "run": "7"}
    assert families["shardpack_loader_decode_seconds"].unit == "seconds"


def test_a_label_must_have_a_valid_name(loader: sp.Loader) -> None:
    with pytest.raises(sp.UsageError, match="run-id"):
        loader.metrics({"run-id": "7"})
