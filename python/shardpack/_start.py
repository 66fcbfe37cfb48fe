"""Handles Ctrl-C during the start of the command, because its imports take a few tenths of a second."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

EXIT_CODE = 130
"""Exit code of an interrupted command: 128 plus the number of SIGINT."""


def is_command() -> bool:
    """True if this process is ``python -m shardpack`` or the console script."""
    at = sys.orig_argv.index("-m") if sys.argv[:1] == ["-m"] and "-m" in sys.orig_argv else len(sys.orig_argv)
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    return sys.orig_argv[at + 1 : at + 2] == ["shardpack"] or name in ("shardpack", "shardpack.exe", "shardpack-script.py")


def end_at_once() -> None:
    """Let Ctrl-C end the process without a traceback. This is safe, because no work has started yet."""

    def end(number: int, frame: FrameType | None) -> None:
        os._exit(EXIT_CODE)

    signal.signal(signal.SIGINT, end)
