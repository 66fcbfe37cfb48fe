"""Packs a dataset on a Ray cluster: Ray tasks pack the parts, then :func:`shardpack.merge` joins them.

Ray places and restarts the tasks, and each task calls :func:`shardpack.pack` with a ``part``. Ray's object store
transfers only a few numbers per second, and no samples. Install Ray with ``pip install ray``.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import ray
from ray.util.scheduling_strategies import NodeLabelSchedulingStrategy, NotIn

from shardpack import _pack, _shardpack, _warn
from shardpack._keywords import keywords
from shardpack._shardpack import UsageError
from shardpack._url import absolute, is_url, settings

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["pack"]

_PARTS_PER_SLOT = 4
"""Number of tasks per slot. At the end, slots wait for the last task. With four tasks per slot, this wait is a small
part of the total time.
"""
_PATIENCE = 30.0
"""Seconds to wait for the board, the actor that collects the progress. Ray takes a while to restart it elsewhere if
its machine fails.
"""
_PATHS = ("labels", "masks", "recipe", "listing", "spool")
_Settings: TypeAlias = "list[tuple[str, str]]"
_SUMS = (
    "samples",
    "samples_total",
    "skipped",
    "bytes_in",
    "bytes_in_total",
    "bytes_out",
    "shards",
    "shards_total",
    "bytes_sent",
    "bytes_to_send",
)


class _Board:
    """A Ray actor that collects the latest progress figures of each part for :func:`pack`."""

    def __init__(self) -> None:
        self.nodes: dict[int, list[str]] = {}
        self.figures: dict[int, dict[str, int]] = {}

    def begin(self, part: int, node: str) -> None:
        self.nodes.setdefault(part, []).append(node)

    def tell(self, part: int, figures: dict[str, int]) -> None:
        self.figures[part] = figures

    def read(self) -> tuple[dict[str, int], dict[int, list[str]]]:
        return {name: sum(part[name] for part in self.figures.values()) for name in _SUMS}, self.nodes


class _Figures:
    """The latest progress figures. Reading them from the board may time out without harm, because packing does not
    need them.
    """

    def __init__(self, board: Any) -> None:
        self.board, self.patience = board, _PATIENCE
        self.asked: Any = None
        self.last: tuple[dict[str, int], dict[int, list[str]]] = (dict.fromkeys(_SUMS, 0), {})

    def read(self) -> tuple[dict[str, int], dict[int, list[str]]]:
        self.asked = self.asked or self.board.read.remote()
        try:
            self.last = ray.get(self.asked, timeout=self.patience)
        except ray.exceptions.GetTimeoutError:
            # Keep the pending call, because its answer may still arrive, but do not wait for it again.
            self.patience = 0.0
            return self.last
        except ray.exceptions.RayActorError:
            pass
        self.asked, self.patience = None, _PATIENCE
        return self.last


def _part(
    src: str, out: str, part: tuple[int, int], options: dict[str, Any], store: _Settings, listing: bytes | None, board: Any
) -> tuple[list[str], list[dict[str, str]]]:
    """Pack one part in a Ray worker. Return the warnings and the skipped files."""
    if listing is not None:
        with tempfile.NamedTemporaryFile(prefix="shardpack-listing-") as file:
            file.write(listing)
            file.flush()
            return _part(src, out, part, {**options, "listing": file.name}, store, None, board)
    board.begin.remote(part[0], ray.get_runtime_context().get_node_id())
    told = 0.0

    def tell(figures: dict[str, int]) -> None:
        nonlocal told
        if time.monotonic() - told >= 0.5 or figures["samples"] == figures["samples_total"]:
            told = time.monotonic()
            board.tell.remote(part[0], figures)

    given = keywords("pack", {**options, "part": part}, _pack.PackOptions)
    try:
        report, notes = _shardpack.pack(src, out, given, tell, store)
    except BlockingIOError:
        # Ray may consider a machine dead while it still packs this part. Wait before the next try.
        time.sleep(5)
        raise
    return notes, json.loads(report)["skipped"]


def _merge(out: str, spool: str | None, take_over: bool, storage_options: Mapping[str, Any] | None) -> dict[str, Any]:
    return _pack.merge(out, spool=spool, take_over=take_over, storage_options=storage_options)


def _listed(src: str, out: str, parts: int, options: dict[str, Any], storage_options: Mapping[str, Any] | None) -> bytes:
    """Return the file list of a source in a store, so that tasks need not list the source."""
    given: Any = {name: value for name, value in options.items() if name not in ("take_over", "spool")}
    with tempfile.TemporaryDirectory(prefix="shardpack-listing-") as folder:
        file = os.path.join(folder, "listing")
        _pack.plan(src, out, parts, storage_options=storage_options, **{**given, "listing": file})
        with open(file, "rb") as listing:
            return listing.read()


def pack(
    src: _pack.StrPath,
    out: _pack.StrPath,
    *,
    parts: int | None = None,
    cpus: int = 1,
    retries: int = 3,
    remote: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: _pack.Progress | bool | None = None,
    **options: Unpack[_pack.PackOptions],
) -> dict[str, Any]:
    """Convert a folder into a dataset on the machines of a Ray cluster, with the same bytes as :func:`shardpack.pack`.

    Every machine must have this package and see ``src`` and ``out`` under the same path or URL. If a worker or a
    machine dies, its part is restarted, on another machine if possible, and the shards that are already finished are
    kept. After a failure or an interruption, repeat the call to continue.

    A source in a store is listed only once, by this call, unless ``listing`` is given.

    Parameters
    ----------
    src, out : str or os.PathLike
        As for :func:`shardpack.pack`, including URLs. Paths are made absolute here.
    parts : int, optional
        Number of tasks. Default: 4 for every ``cpus`` CPUs of the cluster. More parts than shards are useless.
    cpus : int, default 1
        Number of CPUs that a task requests from Ray. This is also its number of threads unless ``threads`` is given.
    retries : int, default 3
        Maximum number of times that a part is restarted because its worker died. Other errors, such as bad input,
        are raised at once.
    remote : mapping, optional
        Further options of Ray's tasks: ``{"memory": 8 << 30}``, ``{"runtime_env": {...}}``.
    storage_options : mapping, optional
        With a URL, as for :func:`shardpack.pack`. These options are passed to the tasks as arguments, so provide
        credentials through environment variables or machine roles instead.
    progress : callable or bool, optional
        Called about twice a second with a dict of the figures of :func:`shardpack.pack`, summed over the parts that
        have started, and of ``parts``, ``parts_total`` and ``retries``. True, the default on a terminal, writes one
        line to stderr.
    **options : PackOptions
        As for :func:`shardpack.pack`, except ``part`` and ``force``.

    Returns
    -------
    dict
        As for :func:`shardpack.merge`, with the total ``seconds``, ``parts``, and ``retried`` (the node ids of each
        restarted part).

    Raises
    ------
    UsageError, FormatError, OSError
        As for :func:`shardpack.pack`. The error comes from the first part that fails, with a note that names the
        part. The other parts are stopped.
    ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError, …
        A part died more often than ``retries`` allows.
    BlockingIOError
        Another run is still packing the same part, even after a wait. In a store, the claim may also have been left
        by a run that died; ``take_over=True`` replaces it.

    Examples
    --------
    >>> import shardpack.ray                                                    # doctest: +SKIP
    >>> report = shardpack.ray.pack("/nfs/photos", "/nfs/train", parts=64)      # doctest: +SKIP
    """
    started = time.monotonic()
    given = _of_tasks({"threads": cpus, **options})
    source, target, store = absolute(src), absolute(out), settings(storage_options)
    if not ray.is_initialized():
        ray.init()
    slots = int(ray.cluster_resources().get("CPU", 1)) // max(cpus, 1)
    count = parts if parts is not None else _PARTS_PER_SLOT * max(slots, 1)
    if min(count, cpus) < 1 or retries < 0:
        found = f"parts={count}, cpus={cpus}, retries={retries}"
        raise UsageError(f"`parts` and `cpus` must be at least 1, and `retries` at least 0, found {found}")
    show = progress if callable(progress) else _Line() if progress or (progress is None and sys.stderr.isatty()) else None

    board = ray.remote(_Board).options(num_cpus=0, max_restarts=-1, max_task_retries=-1).remote()
    how = {"num_cpus": cpus, "scheduling_strategy": "SPREAD", **(remote or {}), "max_retries": 0}
    run, end = ray.remote(_part).options(**how), ray.remote(_merge).options(**{**how, "max_retries": retries})
    listing = None
    if is_url(source) and "listing" not in given:
        listing = ray.put(_listed(source, target, count, given, storage_options))
    parts_of = {run.remote(source, target, (part, count), given, store, listing, board): part for part in range(1, count + 1)}
    tries = dict.fromkeys(parts_of.values(), 1)
    # Parts that lost a worker during this call, and parts that another run may be packing.
    lost, held = set[int](), set[int]()
    notes, skipped, nodes = dict[str, None](), dict[str, dict[str, str]](), dict[int, list[str]]()
    told_by_parts = _Figures(board)
    try:
        while parts_of:
            done, _ = ray.wait(list(parts_of), num_returns=len(parts_of), timeout=0.5)
            figures, nodes = told_by_parts.read()
            for ref in done:
                part = parts_of.pop(ref)
                try:
                    told, left_out = _result(ref, f"part {part}/{count}")
                except (ray.exceptions.RayError, BlockingIOError) as error:
                    if tries[part] > retries or isinstance(error, ray.exceptions.TaskCancelledError):
                        raise
                    if isinstance(error, ray.exceptions.RayError):
                        lost.add(part)
                    elif part not in lost:
                        # This call lost no worker of this part, so another run may be packing the same dataset.
                        if part in held:
                            raise
                        held.add(part)
                    tries[part] += 1
                    again = ray.remote(_part).options(**{**how, **_elsewhere(nodes.get(part, []))})
                    # A worker that died has left its claim in the store, so the next try must take the claim over.
                    over = {**given, "take_over": True} if is_url(target) and part in lost else given
                    parts_of[again.remote(source, target, (part, count), over, store, listing, board)] = part
                    continue
                notes.update(dict.fromkeys(told))
                skipped.update((file["key"], file) for file in left_out)
            if show:
                begun_again = sum(tries.values()) - count
                show({**figures, "parts": count - len(parts_of), "parts_total": count, "retries": begun_again})
    finally:
        for ref in parts_of:
            ray.cancel(ref)
        if parts_of:
            ray.wait(list(parts_of), num_returns=len(parts_of), timeout=10)
        ray.kill(board)
        if isinstance(show, _Line):
            show.end()
    _warn.of_notes(notes)
    where = (given.get("spool"), bool(given.get("take_over")), storage_options) if is_url(target) else (None, False, None)
    merged = _result(end.remote(target, *where), "the merge")
    _warn.of_rounding(merged, options)
    merged["skipped"] = [skipped[key] for key in sorted(skipped)]
    retried = {part: nodes.get(part, []) for part in sorted(tries) if tries[part] > 1}
    return {**merged, "seconds": time.monotonic() - started, "parts": count, "retried": retried}


def _of_tasks(options: dict[str, Any]) -> dict[str, Any]:
    """Check the options of packing, and return them with absolute paths, for tasks on any machine."""
    for name, hint in (("part", "pass the number of parts as `parts`"), ("force", "remove the old dataset first")):
        if name in options:
            raise UsageError(f"{name}={options[name]!r} cannot be passed to shardpack.ray.pack\nhint: {hint}")
    given = options | {name: absolute(options[name]) for name in _PATHS if options.get(name) is not None}
    keywords("pack", given, _pack.PackOptions)
    return given


def _elsewhere(nodes: Sequence[str]) -> dict[str, Any]:
    """Return the task options that make Ray prefer other nodes."""
    return {"scheduling_strategy": NodeLabelSchedulingStrategy({}, soft={"ray.io/node-id": NotIn(*nodes)})} if nodes else {}


def _result(ref: Any, what: str) -> Any:
    """Return the result of a task, or raise the error that the worker raised."""
    try:
        return ray.get(ref)
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        cause.add_note(f"{what} failed; finished shards are kept, so repeat the same call to continue")
        raise cause from None


class _Line:
    """Shows the progress of all parts in one line on stderr."""

    def __call__(self, now: Mapping[str, int]) -> None:
        again = f", {now['retries']} restarted" if now["retries"] else ""
        parts, samples = f"{now['parts']} of {now['parts_total']} parts", f"{now['samples']:,} samples"
        sizes = f"{now['bytes_in'] / 1e9:.2f} GB → {now['bytes_out'] / 1e9:.2f} GB"
        if now["bytes_sent"] < now["bytes_to_send"]:
            sizes = f"uploading {now['bytes_sent'] / 1e9:.2f} of {now['bytes_to_send'] / 1e9:.2f} GB"
        print(f"\rpack: {parts}, {samples}, {sizes}{again}\x1b[K", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
