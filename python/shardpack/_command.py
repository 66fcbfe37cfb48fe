"""The commands ``shardpack convert`` and ``shardpack export``. All other subcommands are implemented in Rust."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import re
import signal
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shardpack import _pack
from shardpack._dataset import Dataset
from shardpack._keywords import types_of
from shardpack._size import size
from shardpack._voice import is_command
from shardpack.convert import FORMATS, convert
from shardpack.export import FORMATS as OUTWARD
from shardpack.export import export

NAMES = ("convert", "export")
_LISTED = 20
_OF_FILES = [name for name in FORMATS if name != "torchvision"]
"""Formats on the command line: all except torchvision, because it needs a dataset object."""
_NAMES = {"classes", "names"}
_EXIT_CODES = "exit codes: 0 success, 1 finished but some samples were left out, 2 failed, 130 interrupted"
_EXAMPLES = {
    "convert": """\
examples:
  shardpack convert webdataset 'train-{000..012}.tar' train
  shardpack convert hdf5 cubes.h5 train --key name --drop notes
  shardpack convert webdataset 'week-2/*.tar' train --append
  shardpack convert parquet --help""",
    "export": """\
examples:
  shardpack export train webdataset tars --shard-size 256MiB
  shardpack export cubes zarr cubes.zarr --fields cube --fields label""",
}


def run(args: Sequence[str]) -> int:
    """Run ``convert`` or ``export`` and return the exit code."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    before = is_command.set(True)
    try:
        return (_convert if args[0] == "convert" else _export)(args[1:])
    except KeyboardInterrupt:
        print("interrupted: all unfinished output was removed", file=sys.stderr)
        return 130
    except (ValueError, TypeError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    finally:
        is_command.reset(before)


def _convert(args: Sequence[str]) -> int:
    if not args or args[0] not in FORMATS:
        parser = _parser("convert", "FORMAT SRC… OUT", "Convert a dataset from another format. Run `shardpack convert FORMAT --help` to list the options of a format.")
        parser.add_argument("format", choices=_OF_FILES, metavar="FORMAT", help=", ".join(_OF_FILES))
        parser.add_argument("paths", nargs="+", metavar="SRC… OUT", help="files or folders to convert, and the folder of the dataset to write")
        # `parse_args` prints the help or the error, then exits.
        parser.parse_args(args)
        raise AssertionError("a format was not looked up")
    format = args[0]
    if format == "torchvision":
        hint = 'call shardpack.convert("torchvision", dataset, out) in Python'
        raise ValueError(f"a torchvision dataset is a Python object, so the command line cannot convert it\nhint: {hint}")
    parser, paired = _convert_parser(format)
    given = vars(parser.parse_args(args[1:]))
    paths, as_json = given.pop("paths"), given.pop("json")
    if len(paths) < 2:
        parser.error("pass at least one SRC, then OUT")
    *sources, out = paths
    options = {name: value for name, value in given.items() if value is not None}
    for name in _NAMES & set(options):
        options[name] = _names(options[name])
    for name in paired & set(options):
        options[name] = dict(options[name])
    with _Progress("converting") as progress:
        report = convert(format, sources[0] if len(sources) == 1 else sources, out, progress=progress, **options)
    said = f"converted {report['samples']:,} samples into `{out}` in {report['seconds']:.1f} s"
    _tell(report, as_json, _added(report, out) if options.get("append") else said, report["fields"])
    for left_out in report["skipped"][:_LISTED]:
        print(f"left out: {left_out['reason']}", file=sys.stderr)
    if report["samples_skipped"] != len(report["skipped"][:_LISTED]) or not report["samples_skipped_exact"]:
        at_least = "" if report["samples_skipped_exact"] else "at least "
        skipped = f"{at_least}{report['samples_skipped']:,} samples"
        print(f"left out in total: {skipped} (--json lists up to 1000 reasons)", file=sys.stderr)
    return 1 if report["samples_skipped"] else 0


def _convert_parser(format: str) -> tuple[argparse.ArgumentParser, set[str]]:
    """Return the parser of a format, and the names of the options whose values are pairs."""
    opener = importlib.import_module(f"shardpack.convert.{format}").open
    about = (inspect.getdoc(opener) or "").split("\n\nParameters\n")[0]
    parser = _parser(f"convert {format}", "SRC… OUT", about)
    source = _documented(opener).get("src", "what to convert").replace("%", "%%")
    parser.add_argument("paths", nargs="+", metavar="SRC… OUT", help=f"{source} The last argument is the folder of the dataset to write.")
    common = parser.add_argument_group("fields")
    common.add_argument("--image", metavar="COLUMN", help="the column that becomes the field `image`")
    common.add_argument("--label", metavar="COLUMN", help="the column that becomes the field `label`")
    _add_names(common, "--classes", "Names of the classes, in the order of their labels.")
    common.add_argument("--rename", metavar="COLUMN=FIELD", action="append", type=_pair, help="store a column as a field with another name; may be repeated")
    common.add_argument("--drop", metavar="COLUMN", action="append", help="a column to leave out; may be repeated")
    common.add_argument("--schema", metavar="FIELD=KIND", action="append", type=_pair, help="kind of a field (image, array, text, json, bytes, int64 …); may be repeated")
    common.add_argument("--on-bad-input", choices=("stop", "skip"), help="stop at a sample that cannot be converted, or skip it [default: stop]")
    added = parser.add_argument_group("adding to an existing dataset")
    added.add_argument(
        "--append",
        action="store_const",
        const=True,
        help="add the samples to the existing dataset OUT as its next generation, and store them with its options",
    )
    added.add_argument(
        "--on-known-key",
        choices=("stop", "skip"),
        help="with --append: stop at a sample whose key the dataset already has, or skip it [default: stop]",
    )
    paired = _of_format(parser, opener)
    storage = parser.add_argument_group("storage options, as for `shardpack pack`; by default, JPEGs stay unchanged and arrays keep all bits")
    storage.add_argument("--no-shuffle", dest="shuffle", action="store_const", const=False, help="store the samples in the order of the source")
    for name in _pack.StorageOptions.__annotations__:
        _add_stored(storage, name)
    return parser, paired | {"rename", "schema"}


def _added(report: Mapping[str, Any], out: str) -> str:
    said = f"added {report['samples']:,} samples to `{out}` in {report['seconds']:.1f} s: generation {report['generation']} with {report['samples_of_dataset']:,} samples"
    if report["outcome"] == "already-complete":
        said = f"`{out}` already contains all samples: generation {report['generation']} with {report['samples_of_dataset']:,} samples"
    if report["new_classes"]:
        said += f"\n  new classes: {', '.join(report['new_classes'])}"
    if report["known"]:
        said += f"\n  left out because the dataset already has their keys: {report['known']:,}"
    return said


def _export(args: Sequence[str]) -> int:
    parser = _parser("export", "DATASET FORMAT OUT", "Write a dataset in another format.")
    parser.add_argument("dataset", metavar="DATASET", help="folder of a dataset")
    parser.add_argument("format", metavar="FORMAT", choices=OUTWARD, help=" or ".join(OUTWARD))
    parser.add_argument("out", metavar="OUT", help="folder to write; it must be empty, or must not exist yet")
    parser.add_argument("--generation", metavar="N", type=int, help="generation of the dataset, from 1 [default: the newest]")
    parser.add_argument("--fields", metavar="FIELD", action="append", help="a field to write; may be repeated [default: all]")
    parser.add_argument("--shard-size", metavar="SIZE", help="maximum size of a tar [default: 1GiB], or of a file of a Zarr array [default: 64MiB]")
    parser.add_argument(
        "--keys",
        choices=("dataset", "number"),
        help="keys in tars: the keys of the dataset, or consecutive numbers [default: dataset]",
    )
    given = parser.parse_args(args)
    options = {name: value for name in ("shard_size", "keys") if (value := getattr(given, name)) is not None}
    dataset = given.dataset if given.generation is None else Dataset(given.dataset, generation=given.generation)
    with _Progress("exporting") as progress:
        report = export(dataset, given.format, given.out, fields=given.fields, progress=progress, **options)
    _tell(report, given.json, f"exported {report['samples']:,} samples to `{given.out}` in {report['seconds']:.1f} s", report["fields"])
    return 0


def _parser(command: str, arguments: str, about: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"shardpack {command}",
        # argparse's own usage line would list all options, and would show several sources as `SRC… OUT [SRC… OUT ...]`.
        usage=f"%(prog)s [OPTIONS] {arguments}",
        description=about,
        epilog=f"{_EXAMPLES[command.split()[0]]}\n\n{_EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the summary")
    return parser


def _of_format(parser: argparse.ArgumentParser, opener: Callable[..., Any]) -> set[str]:
    """Add the options of a format that the command line can express. Return the names of the options whose values are
    pairs.
    """
    group = parser.add_argument_group("options of the format")
    about = _documented(opener)
    paired = set[str]()
    for name, parameter in inspect.signature(opener).parameters.items():
        if name in ("src", "drop"):
            continue
        # The annotation without ``| None``: ``str``, ``Sequence[str]``, ``Mapping[str, Any]``, ….
        kind = re.sub(r" \| None$", "", re.sub(r"^Union\[(.*), None\]$", r"\1", str(parameter.annotation)))
        flag, text = "--" + name.replace("_", "-"), about.get(name, "").replace("%", "%%")
        if kind == "bool" and parameter.default is True:
            # Without the flag, the function uses its own default.
            group.add_argument(flag, action=argparse.BooleanOptionalAction, help=f"{text} [default: {flag}]")
        elif kind == "bool":
            group.add_argument(flag, action="store_const", const=True, help=text)
        elif kind == "int" and not name.startswith("max_"):
            group.add_argument(flag, type=int, metavar="N", help=text)
        elif kind == "int":
            # Limits may have a unit.
            group.add_argument(flag, type=lambda given, name=name: size(name, given), metavar="SIZE", help=text)  # type: ignore[misc]
        elif kind == "tuple[int, int]":
            group.add_argument(flag, type=_two, metavar="N,N", help=text)
        elif kind == "str" or kind.startswith(("str, ", "Union[str, Callable")):
            group.add_argument(flag, metavar="NAME", help=text)
        elif name in _NAMES:
            _add_names(group, flag, text)
        elif kind in ("Collection[str]", "Sequence[str]"):
            group.add_argument(flag, action="append", metavar="NAME", help=f"{text} May be repeated.")
        elif (opener.__module__, name) == ("shardpack.convert.tfrecord", "arrays"):
            paired.add(name)
            text = "Element type and shape of a feature that holds raw little-endian values. May be repeated."
            group.add_argument(flag, action="append", type=_layout, metavar="NAME=TYPE[:N,N,…]", help=text)
        elif kind.startswith("Mapping[str, "):
            paired.add(name)
            group.add_argument(flag, action="append", type=_pair, metavar="NAME=VALUE", help=f"{text} May be repeated.")
        else:
            raise AssertionError(f"{opener.__module__}: no command-line form for {name}: {kind}")
    return paired


def _add_stored(group: Any, name: str) -> None:
    flag, types = "--" + name.replace("_", "-"), types_of(_pack.StorageOptions)[name]
    if types == (bool,):
        group.add_argument(flag, action="store_const", const=True)
        return
    of_number: Any = float if float in types else int if types == (int,) else str
    group.add_argument(flag, type=of_number, metavar="N" if of_number is not str else "VALUE")


def _documented(function: Callable[..., Any]) -> dict[str, str]:
    """Return the descriptions of the parameters in a docstring, by name."""
    parameters = (inspect.getdoc(function) or "").partition("\nParameters\n")[2].partition("\n\n")[0]
    found: dict[str, str] = {}
    name = ""
    for line in parameters.splitlines()[1:]:
        if line[:1].strip():
            name = line.strip()
        elif name:
            found[name] = f"{found.get(name, '')} {line.strip()}".strip().replace("``", "")
    return found


def _add_names(group: Any, flag: str, about: str) -> None:
    """Add an option for class names. :func:`_names` parses its values."""
    text = f"{about} Separate the names by commas, or repeat the option for each name if names contain commas."
    group.add_argument(flag, metavar="A,B,…", action="append", help=text)


def _names(given: list[str]) -> list[str]:
    """Return the class names of an option. A single value is a list separated by commas. If the option is given several
    times, each value is one name.

    >>> _names(["cat, dog"]), _names(["cat", "dog, small"])
    (['cat', 'dog'], ['cat', 'dog, small'])
    """
    return [name.strip() for name in given[0].split(",")] if len(given) == 1 else given


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, found {text!r}")
    return name, value


def _two(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)[,x](\d+)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a pair of numbers such as 17,3")
    return int(found[1]), int(found[2])


def _layout(text: str) -> tuple[str, str | tuple[str, tuple[int, ...]]]:
    """Parse ``cube=float32:64,64,224`` into a name, an element type and a shape."""
    name, layout = _pair(text)
    dtype, sign, shape = layout.partition(":")
    if sign and not re.fullmatch(r"\d+(,\d+)*", shape):
        raise argparse.ArgumentTypeError(f"expected NAME=TYPE:N,N,… with a whole number for each axis, found {text!r}")
    return name, (dtype, tuple(map(int, shape.split(",")))) if sign else dtype


def _tell(report: dict[str, Any], as_json: bool, summary: str, fields: dict[str, Any]) -> None:
    if as_json:
        print(json.dumps(report, default=str))
        return
    print(summary)
    for column, field in fields.items():
        print(f"  {column} → {field}")


class _Progress:
    """A progress line on a terminal. As a context manager, it prints warnings as notes and clears the line at the end.
    """

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._shown = False
        self._phase: str | None = None
        # Start of the current phase and time of the last report, both in seconds since the conversion began.
        self._began = self._seconds = 0.0

    def __enter__(self) -> _Progress:
        self._warnings = warnings.catch_warnings()
        self._warnings.__enter__()
        warnings.simplefilter("always", UserWarning)
        self._show_other = warnings.showwarning
        warnings.showwarning = self._note  # type: ignore[assignment]
        return self

    def __exit__(self, *_: object) -> None:
        self._warnings.__exit__(None, None, None)
        self.finish()

    def _note(self, message: Warning | str, category: type[Warning], *place: Any) -> None:
        self.finish()
        if issubclass(category, UserWarning):
            print(f"note: {message}", file=sys.stderr)
        else:
            self._show_other(message, category, *place)

    def __call__(self, now: dict[str, Any]) -> None:
        phase = now.get("phase")
        if phase != self._phase:
            # The sample count and the clock start again with each phase.
            self._phase, self._began = phase, self._seconds
        self._seconds = now["seconds"]
        if not sys.stderr.isatty():
            return
        total, seconds = now["total"], max(now["seconds"] - self._began, 1e-3)
        of = f" of {total:,}" if total else ""
        verb = "writing" if phase == "write" else self._verb
        print(f"\r\x1b[K{verb} {now['samples']:,}{of}, {now['samples'] / seconds:,.0f} samples/s", end="", file=sys.stderr, flush=True)
        self._shown = True

    def finish(self) -> None:
        if self._shown:
            self._shown = False
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
