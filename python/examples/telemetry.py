"""Export the statistics of a loader with OpenTelemetry, one metric for each figure of ``Loader.stats``.

    python telemetry.py [DATASET]      needs opentelemetry-sdk

The figures are read when an exporter asks for them, so training does no extra work. This example prints them. To send
them to a collector, replace ``ConsoleMetricExporter`` by ``OTLPMetricExporter`` from opentelemetry-exporter-otlp.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader

import shardpack as sp
import tiny

# Beginnings of the names of figures that may fall, and of maxima. All other figures only grow until the loader is closed.
GAUGES = ("peak_", "predicted_", "resident_", "window_", "queue_")


def observe(meter: Meter, loader: sp.Loader) -> None:
    """Register an observable instrument for each figure of the loader's statistics."""
    attributes = {"rank": loader.rank}

    def instrument(name: str) -> None:
        def read(_: CallbackOptions) -> Iterator[Observation]:
            yield Observation(loader.stats()[name], attributes)

        unit = "By" if "bytes" in name else "s" if name.endswith("_s") else "1"
        make = meter.create_observable_gauge if name.startswith(GAUGES) else meter.create_observable_counter
        make(f"shardpack.loader.{name.removesuffix('_s')}", [read], unit)

    def refused(_: CallbackOptions) -> Iterator[Observation]:
        for reason, rows in loader.stats()["refused"].items():
            yield Observation(rows, attributes | {"reason": reason})

    for name, value in loader.stats().items():
        if isinstance(value, (int, float)):
            instrument(name)
    meter.create_observable_counter("shardpack.loader.refused", [refused])


def main(dataset: sp.Dataset) -> None:
    reader = PeriodicExportingMetricReader(ConsoleMetricExporter(), export_interval_millis=10_000)
    provider = MeterProvider([reader])
    with sp.Loader(dataset, 16, image="rrc64", fields=["image", "label"]) as loader:
        observe(provider.get_meter("shardpack"), loader)
        for _ in loader:
            pass
        # Exports the figures a last time, while the loader is open.
        provider.shutdown()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sp.Dataset(sys.argv[1]) if len(sys.argv) > 1 else tiny.photos(Path(folder) / "photos"))
