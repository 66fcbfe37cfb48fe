"""Writes the figures of a loader as OpenMetrics text, the format that Prometheus reads.

Source of the format: https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from shardpack import _shardpack

PREFIX = "shardpack_loader_"

# Figures of `Loader.stats` that only grow, with their help texts.
COUNTERS = {
    "batches": "Batches handed out.",
    "samples": "Samples handed out.",
    "read_bytes": "Bytes read from the dataset.",
    "output_bytes": "Bytes of the tensors handed out.",
    "skipped": "Damaged samples skipped.",
    "narrowed_pictures": "Pictures with more than 8 bits per sample, decoded to 8 bits.",
    "wrong_indexes": "Pictures whose segment index was wrong, decoded without it.",
    "extra_slots": "Batch slots added because the program held on to all others.",
    "grown_slots": "Batch slots that needed more memory than predicted.",
    "device_rows": "Values decoded on the device.",
    "requests": "Requests to the store, by all loaders of the dataset.",
    "retried_requests": "Requests repeated after an error or a timeout.",
    "hedged_requests": "Requests sent a second time because the first was slow.",
    "fetched_bytes": "Bytes received from the store.",
    "cache_hits": "Blocks found in the cache on the local disk.",
    "cache_misses": "Blocks not found in the cache on the local disk.",
    "cache_hit_bytes": "Bytes read from the cache on the local disk.",
    "cache_evicted": "Blocks removed from the cache to make room.",
    "cache_dropped": "Damaged blocks removed from the cache.",
    "cache_failed_writes": "Writes to the cache that failed.",
    "read_s": "Time spent reading, summed over the threads.",
    "crc_s": "Time spent computing checksums, summed over the threads.",
    "decode_s": "Time spent decoding, summed over the threads.",
    "idle_for_consumer_s": "Time spent waiting for a free slot, summed over the threads.",
    "idle_for_data_s": "Time spent waiting for data, summed over the threads.",
    "consumer_wait_s": "Time that the program spent waiting for batches.",
}

# Figures that can fall, and maxima.
GAUGES = {
    "resident_values": "Values that stay on the device.",
    "peak_run_bytes": "Largest size of the read buffers.",
    "peak_rss_bytes": "Peak resident memory of the process.",
    "predicted_bytes": "Memory that the loader was predicted to need.",
    "predicted_device_bytes": "Device memory that the loader was predicted to need.",
    "window_in_page_cache": "1 if the current epoch uses the page cache as its window.",
    "peak_requests_in_flight": "Largest number of requests in flight.",
    "peak_fetched_bytes_held": "Largest number of received bytes held in memory at once.",
    "queue_fill": "Average number of batches that were ready when the program asked for one.",
}

REFUSED = "Values that the host decoded because the device could not, by reason."


def text(stats: Mapping[str, Any], labels: Mapping[str, object]) -> str:
    """Return the figures of ``Loader.stats`` as an OpenMetrics exposition."""
    for name in labels:
        if not re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", name) or name == "reason":
            raise _shardpack.UsageError(
                f"metrics: {name!r} cannot be used as a label name\n"
                "hint: use only letters, digits and _, and do not begin with a digit; the name `reason` is reserved"
            )
    return "\n".join([*_lines(stats, labels), "# EOF", ""])


def _lines(stats: Mapping[str, Any], labels: Mapping[str, object]) -> Iterator[str]:
    for name, value in stats.items():
        if name in COUNTERS:
            yield from _head(name, "counter", COUNTERS[name])
            yield _sample(_metric(name) + "_total", labels, value)
        elif name in GAUGES:
            yield from _head(name, "gauge", GAUGES[name])
            yield _sample(_metric(name), labels, value)
    yield from _head("refused", "counter", REFUSED)
    for reason, rows in stats["refused"].items():
        yield _sample(_metric("refused") + "_total", {**labels, "reason": reason}, rows)


def _metric(name: str) -> str:
    """Return the metric name. OpenMetrics writes out the unit at its end: ``read_s`` becomes ``read_seconds``."""
    return PREFIX + (f"{name[:-2]}_seconds" if name.endswith("_s") else name)


def _head(name: str, kind: str, meaning: str) -> Iterator[str]:
    metric = _metric(name)
    yield f"# TYPE {metric} {kind}"
    yield from (f"# UNIT {metric} {unit}" for unit in ("bytes", "seconds") if metric.endswith("_" + unit))
    yield f"# HELP {metric} {meaning}"


def _sample(metric: str, labels: Mapping[str, object], value: float) -> str:
    pairs = ",".join(f'{name}="{_escaped(str(text))}"' for name, text in labels.items())
    return f"{metric}{{{pairs}}} {value}" if pairs else f"{metric} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
