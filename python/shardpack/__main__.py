"""Starts the command, as ``python -m shardpack`` or as the console script ``shardpack``."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Run the command with this process's arguments and return its exit code."""
    if sys.argv[1:2] in (["convert"], ["export"]):
        from shardpack import _command

        return _command.run(sys.argv[1:])
    from shardpack import _shardpack

    # A Python handler would run only after the Rust code returns. The default handler ends the process at once.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _shardpack.command(["shardpack", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
