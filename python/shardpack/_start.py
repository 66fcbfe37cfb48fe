"""Ctrl-C while the command starts: some tenths of a second go by before Python has loaded what the package needs."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

EXIT_CODE = 130
"""128 and the number of SIGINT, as the command ends at any other time."""


def is_command() -> bool:
    """Whether this process is ``python -m shardpack``, or the console script."""
    at = sys.orig_argv.index("-m") if sys.argv[:1] == ["-m"] and "-m" in sys.orig_argv else len(sys.orig_argv)
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    return sys.orig_argv[at + 1 : at + 2] == ["shardpack"] or name in ("shardpack", "shardpack.exe", "shardpack-script.py")


def end_at_once() -> None:
    """From now on Ctrl-C ends the process without a traceback: nothing has been begun."""

    def end(number: int, frame: FrameType | None) -> None:
        os._exit(EXIT_CODE)

    signal.signal(signal.SIGINT, end)
