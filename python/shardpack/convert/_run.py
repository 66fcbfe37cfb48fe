"""One conversion: samples out of a source, into a writer."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypedDict, Union

from ._fields import Fields
from ._source import Item, Problem, Sample, Source, SourceError

_LISTED_PROBLEMS = 100
_SECONDS_BETWEEN_REPORTS = 0.1


class Progress(TypedDict):
    """What a progress callback is given."""

    samples: int
    """Samples written."""
    total: int | None
    """Samples of the source, where it says so."""
    skipped: int
    """Samples left out."""
    seconds: float
    """Since the beginning."""


class Run:
    """One conversion."""

    def __init__(
        self, format: str, source: Source, fields: Fields, *, skip: bool, progress: Callable[[Progress], object] | None
    ) -> None:
        self.format = format
        self.source = source
        self.fields = fields
        self.skip = skip
        self.progress = progress
        self.samples = 0
        self.skipped = 0
        self.problems: list[str] = []
        self.started = time.monotonic()
        self.reported = 0.0

    def write(self, out: Union[str, os.PathLike[str]], options: dict[str, Any]) -> dict[str, Any]:
        """Write every sample; see `convert`."""
        try:
            report = self._write_all(out, options)
        finally:
            # A generator holds what it reads from: a cursor of a database that is being closed.
            if isinstance(self.source.items, Generator):
                self.source.items.close()
            self.source.close()
        self._report(last=True)
        return report | {
            "format": self.format,
            "fields": dict(self.fields.names),
            "kinds": dict(self.fields.kinds),
            "skipped": self.skipped,
            "problems": self.problems,
            "dropped": dict(self.fields.dropped),
        }

    def _write_all(self, out: Union[str, os.PathLike[str]], options: dict[str, Any]) -> dict[str, Any]:
        from .. import Writer

        items = iter(self.source.items)
        first = self._first(items)
        self.fields.settle(self.source, first.values, first.where)
        options = {"jpeg": "keep", "values": "keep"} | options
        with Writer(out, dict(self.fields.kinds), classes=self.fields.classes, **options) as writer:
            for item in itertools.chain([first], items):
                self._write(writer, item)
            if self.samples == 0:
                raise SourceError(
                    f"{self.format}: expected samples, found none that can be taken; the first "
                    f"problem: {self.problems[0]}"
                )
            return dict(writer.close())

    def _first(self, items: Iterator[Item]) -> Sample:
        for item in items:
            if isinstance(item, Sample):
                return item
            self._problem(item.message)
        found = f"none that can be taken; the first problem: {self.problems[0]}" if self.problems else "none"
        raise SourceError(f"{self.format}: expected samples, found {found}")

    def _write(self, writer: Any, item: Item) -> None:
        if isinstance(item, Problem):
            self._problem(item.message)
            return
        try:
            writer.write(self.fields.take(item.values), key=item.key)
        except (ValueError, TypeError) as error:
            hint = self.source.repeated_keys
            text = f"{error}\nhint: {hint}" if hint and "each once" in str(error) else str(error)
            self._problem(f"{item.where}: {text}", error)
            return
        self.samples += 1
        self._report()

    def _problem(self, message: str, cause: Exception | None = None) -> None:
        if not self.skip:
            hint = "" if "hint:" in message else "\nhint: on_bad_input='skip' leaves such samples out"
            raise SourceError(message + hint) from cause
        self.skipped += 1
        if len(self.problems) < _LISTED_PROBLEMS:
            self.problems.append(message)
        self._report()

    def _report(self, last: bool = False) -> None:
        if self.progress is None:
            return
        seconds = time.monotonic() - self.started
        if last or seconds - self.reported >= _SECONDS_BETWEEN_REPORTS:
            self.reported = seconds
            self.progress(
                {"samples": self.samples, "total": self.source.total, "skipped": self.skipped, "seconds": seconds}
            )
