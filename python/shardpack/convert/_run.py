"""Runs a conversion from a source to a writer."""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Union

import numpy as np

from .. import _warn
from .._shardpack import KnownKeyError, RepeatedKeyError, cores, option_names
from .._similar import did_you_mean
from ._fields import Fields
from ._source import RAW, Item, Problem, Sample, Source, SourceError, bounded, dropped_nothing, option, printable

_LISTED = 1000
_SECONDS_BETWEEN_REPORTS = 0.1


Progress = Callable[[dict[str, Any]], object]
"""Called about ten times a second with a dict: ``phase`` (``"convert"`` reads and encodes samples, then ``"write"``
writes them in their final order), ``samples`` and ``total`` (None if unknown) of this phase, ``skipped``, ``seconds``
since the start.
"""


class Run:
    def __init__(
        self,
        format: str,
        source: Source,
        fields: Fields,
        *,
        skip: bool,
        progress: Progress | None,
    ) -> None:
        self.format = format
        self.source = source
        self.fields = fields
        self.skip = skip
        self.progress = progress
        self.taken = 0
        self.samples = 0
        self.first_number = 0
        self.numbers: np.ndarray[Any, Any] | None = None
        """Class numbers in the dataset, indexed by class number in the source. None if the dataset had no classes."""
        self.skipped = 0
        self.skipped_exact = True
        self.listed: list[dict[str, str | None]] = []
        self.started = time.monotonic()
        self.reported = 0.0

    def write(self, out: Union[str, os.PathLike[str]], options: Mapping[str, Any]) -> dict[str, Any]:
        try:
            report = self._write_all(out, options)
        finally:
            # Close the generator first, because it holds a cursor of the database.
            if isinstance(self.source.items, Generator):
                self.source.items.close()
            self.source.close()
        return report | {
            "format": self.format,
            "fields": dict(self.fields.names),
            "kinds": dict(self.fields.kinds),
            "skipped": self.listed,
            "samples_skipped": self.skipped,
            "samples_skipped_exact": self.skipped_exact,
            "dropped": dict(self.fields.dropped),
            "notes": [*report.get("notes", ()), *self.fields.notes],
            "seconds": time.monotonic() - self.started,
        }

    def _write_all(self, out: Union[str, os.PathLike[str]], options: Mapping[str, Any]) -> dict[str, Any]:
        from .. import Writer

        for same in self.source.types:
            same.follow((self.fields.known or {}).get(same.field, "").partition(":")[2])
        items = self._items()
        first = self._first(items)
        try:
            self.fields.settle(self.source, first.values, first.where)
        except SourceError as error:
            raise SourceError(f"{error}{dropped_nothing(self.fields.drop - self.source.dropped, first.values)}") from error.__cause__
        self._refuse_shrinking(options)
        self.fields.notes = [printable(note) for note in [*self.fields.notes, *self.source.notes]]
        # Warn now, not at the end, so that the user can stop a wrong conversion early.
        _warn.of_notes(self.fields.notes)
        classes = None if self.fields.classes is None else list(self.fields.classes)
        self._check_names(classes)
        threads = options.get("threads") or cores()
        with Writer(out, dict(self.fields.kinds), classes=classes, **options) as writer:
            self.first_number = writer._inner.first_number()
            if self.fields.known is not None and classes is not None and writer.classes is not None:
                numbers = {name: number for number, name in enumerate(writer.classes)}
                self.numbers = np.array([numbers[name] for name in classes], np.int64)
            ordered = writer._inner.keeps_order()
            # The first sample decides how arrays are coded, so write it before any other. The same samples then give
            # the same dataset.
            pending: deque[tuple[Sample, Future[None]]] = deque()
            with ThreadPoolExecutor(threads, "shardpack-convert") as pool:
                try:
                    for item in itertools.chain([first], items):
                        self._begin(writer, pool, pending, item, ordered)
                        while len(pending) > (threads if self.samples else 0):
                            self._end(*pending.popleft())
                    while pending:
                        self._end(*pending.popleft())
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
            self._report("convert", self.samples, self.source.total, last=True)
            if self.samples == 0:
                raise self._no_samples()
            self._note_dropped()
            return dict(writer.close(progress=self._written if self.progress is not None else None))

    def _check_names(self, classes: list[str] | None) -> None:
        for name in classes or ():
            try:
                name.encode("utf-8")
            except UnicodeEncodeError:
                raise SourceError(f"{self.format}: a class name is not valid Unicode: {name!r}") from None

    def _note_dropped(self) -> None:
        """Add a note about names in `drop` that no sample had as a column."""
        for column, count in self.fields.dropped.items():
            if count == 0 and column not in self.source.dropped:
                known = [*self.fields.names, *(other for other, found in self.fields.dropped.items() if found)]
                self.fields.notes.append(f"`drop` names a column that no sample has: {column!r}{did_you_mean(column, known)}")
                _warn.warn(self.fields.notes[-1])

    def _refuse_shrinking(self, options: Mapping[str, Any]) -> None:
        """Raise an error if pictures would be shrunk but their masks would not."""
        shrinking = [name for name in option_names("shrink") if options.get(name) is not None]
        if shrinking and self.fields.masks and "image" in self.fields.kinds.values():
            raise SourceError(
                f"{self.format}: {shrinking[0]} would shrink pictures, but not their masks\n"
                "hint: use `shardpack pack --masks`, which shrinks masks with their pictures"
            )

    def _items(self) -> Iterator[Item]:
        """Yield the items of the source. An unexpected error of the source ends the items."""
        where = ""
        try:
            for item in self.source.items:
                where = item.where if isinstance(item, Sample) else where
                yield item
        except RAW as error:
            after = f", after {where}" if where else ""
            message = f"{self.format}{after}: cannot read the source: {type(error).__name__}: {error}"
            yield Problem(message, samples=None)

    def _first(self, items: Iterator[Item]) -> Sample:
        for item in items:
            if isinstance(item, Sample):
                return item
            self._problem(item.message, samples=item.samples)
        raise self._no_samples()

    def _no_samples(self) -> SourceError:
        if not self.listed:
            return SourceError(f"{self.format}: the source has no samples")
        return SourceError(f"{self.format}: no sample could be converted; first error: {self.listed[0]['reason']}")

    def _begin(
        self,
        writer: Any,
        pool: ThreadPoolExecutor,
        pending: deque[tuple[Sample, Future[None]]],
        item: Item,
        ordered: bool,
    ) -> None:
        if isinstance(item, Problem):
            self._problem(item.message, samples=item.samples)
            return
        try:
            values = self.fields.take(item.values)
        except (SourceError, *RAW) as error:
            self._refused(item, error)
            return
        key = f"{self.first_number + self.taken:08d}" if item.key is None else item.key
        # The second of two samples with one key is always refused, so wait until the first is written.
        while any(sample.key == key for sample, _ in pending):
            self._end(*pending.popleft())
        order = self.taken if ordered else None
        self.taken += 1
        pending.append((item, pool.submit(copy_context().run, self._write, writer, values, key, order)))

    def _write(self, writer: Any, values: Mapping[str, Any], key: str, order: int | None) -> None:
        values = self.fields.decoded(values)
        for column in self.source.numbered if self.numbers is not None else ():
            name = self.fields.names.get(column)
            if name is not None and name in values:
                values = {**values, name: self._numbered(values[name])}
        writer.write(values, key, order=order)

    def _numbered(self, classes: Any) -> Any:
        assert self.numbers is not None
        if classes is None or not len(classes):
            return classes
        if np.max(classes) >= len(self.numbers):
            raise SourceError(f"expected class numbers below {len(self.numbers)}, found {np.max(classes)}")
        return self.numbers[classes]

    def _end(self, sample: Sample, future: Future[None]) -> None:
        try:
            future.result()
        except (ValueError, TypeError, *RAW) as error:
            self._refused(sample, error)
            return
        self.samples += 1
        self._report("convert", self.samples, self.source.total)

    def _refused(self, sample: Sample, error: Exception) -> None:
        hint = self.source.repeated_keys
        # Name the sample as the source does. Errors of the writer have a text without its name for the sample.
        text = getattr(error, "without_key", str(error))
        if hint and isinstance(error, RepeatedKeyError):
            # Leave out the key, because `where` contains it.
            text = f"another sample has this key\nhint: {hint}"
        if isinstance(error, KnownKeyError):
            # This is not bad input, so `on_bad_input="skip"` does not apply.
            raise SourceError(f"{sample.where}: {text}") from error
        self._problem(f"{sample.where}: {text}", sample.key, error)

    def _problem(
        self, message: str, key: str | None = None, cause: Exception | None = None, samples: int | None = 1
    ) -> None:
        if not self.skip:
            hint = f"pass {option(on_bad_input='skip')} to leave out samples that cannot be converted"
            raise SourceError(f"{message}\nhint: {hint}") from cause
        self.skipped += 1 if samples is None else samples
        self.skipped_exact &= samples is not None
        if len(self.listed) < _LISTED:
            self.listed.append({"key": key, "reason": bounded(printable(message))})
        self._report("convert", self.samples, self.source.total)

    def _written(self, progress: Mapping[str, int]) -> None:
        """Report the writer's progress while it writes shards at the end."""
        done, total = progress["samples"], progress["samples_total"]
        self._report("write", done, total, last=True)

    def _report(self, phase: str, samples: int, total: int | None, last: bool = False) -> None:
        if self.progress is None:
            return
        seconds = time.monotonic() - self.started
        if last or seconds - self.reported >= _SECONDS_BETWEEN_REPORTS:
            self.reported = seconds
            self.progress(
                {"phase": phase, "samples": samples, "total": total, "skipped": self.skipped, "seconds": seconds}
            )

