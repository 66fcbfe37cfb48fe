"""Reads the entries of an LMDB environment in a separate process.

LMDB maps its file into memory and trusts each page. A single changed byte can point to a page that does not exist, and
reading that page kills the process. This file is also the program of the separate process. It imports nothing from the
package, so that the process starts fast.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Any, Union

Entry = list[Union[bytes, None]]
"""A key and its value. With prefixes: the part of the key after the prefix, and the value for each prefix or None."""

_END = 0xFFFFFFFF
"""Value that the child process sends before its final JSON message, in place of an entry's number of parts."""
_PATIENCE_S = 5.0
_MOST_SAID = 2000
"""Maximum number of bytes of the child's stderr that an error message includes, counted from the end."""
_OF_BAD_MEMORY = frozenset(getattr(signal, name) for name in ("SIGBUS", "SIGSEGV", "SIGABRT", "SIGILL", "SIGFPE") if hasattr(signal, name))
"""Signals that can kill the child process if the environment is damaged."""


class Damage(Exception):
    """The environment is damaged."""


class Failed(Exception):
    """The reading process failed for a reason other than damage."""


def read(path: str, prefixes: list[bytes] | None) -> tuple[int, Iterator[Entry]]:
    """Read the environment in this process. Return the number of entries, and the entries.

    Raises
    ------
    Damage
        If it is not an environment, or if damage is noticed.
    """
    import lmdb

    file = os.path.join(path, "data.mdb") if os.path.isdir(path) else path
    # Opening a pipe would block.
    if not os.path.isfile(file):
        raise Damage(f"not an LMDB environment: `{file}` does not exist or is not a regular file")
    try:
        env = lmdb.open(path, readonly=True, lock=False, subdir=os.path.isdir(path), max_dbs=0, readahead=True)
    except lmdb.Error as error:
        raise Damage(f"not an LMDB environment: {error}") from error
    size = os.path.getsize(file)
    try:
        # Accessing a page beyond the end of the file would kill the process.
        expected = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    except lmdb.Error as error:
        env.close()
        raise Damage(f"not an LMDB environment: {error}") from error
    if size < expected:
        env.close()
        raise Damage(f"`{file}` is cut short: expected at least {expected} bytes, found {size}")

    def entries() -> Iterator[Entry]:
        try:
            with env.begin(buffers=True) as transaction:
                pairs = transaction.cursor()
                found = ([key, value] for key, value in pairs) if prefixes is None else _joined(transaction, prefixes)
                for number, entry in enumerate(found):
                    # If pages refer to each other in a loop, the entries never end.
                    if number > size or any(part is not None and len(part) > size for part in entry):
                        raise Damage("the file is damaged: its entries are larger than the file")
                    yield [None if part is None else bytes(part) for part in entry]
        except lmdb.Error as error:
            raise Damage(f"the entries are damaged: {error}") from error
        finally:
            env.close()

    return int(env.stat()["entries"]), entries()


def _joined(transaction: Any, prefixes: list[bytes]) -> Iterator[list[Any]]:
    for end in _ends(transaction, prefixes[0], prefixes):
        yield [end, *(transaction.get(prefix + end) for prefix in prefixes)]
    # The loop above missed samples without the first column. Yield each of them at its first column.
    for number, prefix in enumerate(prefixes[1:], 1):
        for end in _ends(transaction, prefix, prefixes):
            if all(transaction.get(before + end) is None for before in prefixes[:number]):
                yield [end, *(transaction.get(one + end) for one in prefixes)]


def _ends(transaction: Any, prefix: bytes, prefixes: list[bytes]) -> Iterator[bytes]:
    """Yield the ends of the keys with this prefix. Keys with a longer prefix belong to another column and are skipped.
    """
    longer = tuple(other for other in prefixes if len(other) > len(prefix))
    cursor = transaction.cursor()
    found = cursor.set_range(prefix) if prefix else cursor.first()
    while found and (key := bytes(cursor.key())).startswith(prefix):
        if not key.startswith(longer):
            yield key[len(prefix) :]
        found = cursor.next()


def read_in_child(path: str, prefixes: list[bytes] | None) -> tuple[int, Iterator[Entry], Callable[[], None]]:
    """Same as :func:`read`, but in a child process. Also returns a function that ends the child.

    Raises
    ------
    Damage
        As for :func:`read`, and also if a bad memory access killed the child.
    Failed
        If the child ended for another reason, for example because it ran out of memory.
    OSError
        If no process can be started.
    """
    said = {
        "path": os.path.abspath(path),
        "prefixes": None if prefixes is None else [prefix.hex() for prefix in prefixes],
        "modules": [os.path.abspath(place) for place in sys.path if place],
    }
    # `multiprocessing` would run the caller's program in the child process.
    command = [sys.executable or "python3", "-I", os.path.abspath(__file__)]
    said_last = tempfile.TemporaryFile()
    try:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said_last, bufsize=1 << 20)
    except BaseException:
        said_last.close()
        raise
    assert child.stdin is not None and child.stdout is not None
    stream = child.stdout

    def close() -> None:
        child.kill()
        stream.close()
        child.wait()
        said_last.close()

    def taken(length: int) -> bytes:
        data = stream.read(length)
        if len(data) < length:
            raise _ended(child, said_last)
        return data

    try:
        try:
            child.stdin.write(json.dumps(said).encode("ascii"))
            child.stdin.close()
        except BrokenPipeError:
            # The child has already ended. The code below reports why.
            pass
        total = struct.unpack("<q", taken(8))[0]
    except BaseException:
        close()
        raise

    def entries() -> Iterator[Entry]:
        try:
            while (parts := struct.unpack("<I", taken(4))[0]) != _END:
                lengths = struct.unpack(f"<{parts}q", taken(8 * parts))
                yield [None if length < 0 else taken(length) for length in lengths]
            length = struct.unpack("<I", taken(4))[0]
            end = json.loads(taken(length))
            if end["error"]:
                raise (Damage if end["damage"] else Failed)(end["error"])
        finally:
            close()

    return total, entries(), close


def _ended(child: subprocess.Popen[bytes], said_last: IO[bytes]) -> Exception:
    """Return the error for a child process that ended before it sent all entries."""
    try:
        code = child.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        from .._voice import option

        return Failed(
            "the process that reads the environment stopped sending data, but did not exit\n"
            f"hint: pass {option(own_process=False)} to read the environment in this process instead"
        )
    if -code in _OF_BAD_MEMORY:
        how = signal.Signals(-code).name
        return Damage(f"the environment is damaged: {how} killed the process that was reading it")
    text = f"the process that reads the environment ended with exit code {code}"
    if code < 0:
        text = f"the process that reads the environment was killed by {_signal_name(-code)}"
        if -code == getattr(signal, "SIGKILL", None):
            text += ", perhaps for lack of memory"
    said_last.seek(max(0, said_last.seek(0, os.SEEK_END) - _MOST_SAID))
    last = said_last.read().decode("utf-8", "replace").strip()
    return Failed(f"{text}: {last}" if last else text)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _serve() -> None:
    # Ctrl-C reaches all processes of a program. Ignore it here, because the parent or the closed pipe ends this
    # process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Do not buffer the output, so that entries read before a crash still reach the parent.
    out = os.fdopen(os.dup(1), "wb", 0)
    said = json.loads(sys.stdin.buffer.read())
    sys.path[:] = said["modules"]
    try:
        import resource

        # Write no core dump if the child crashes.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except ImportError:
        pass
    prefixes = None if said["prefixes"] is None else [bytes.fromhex(prefix) for prefix in said["prefixes"]]
    error, damage = "", False
    try:
        try:
            total, entries = read(said["path"], prefixes)
        except Exception:
            # The parent expects the total before it can read the error.
            _send(out, struct.pack("<q", 0))
            raise
        _send(out, struct.pack("<q", total))
        for entry in entries:
            head = struct.pack(f"<I{len(entry)}q", len(entry), *(-1 if part is None else len(part) for part in entry))
            _send(out, b"".join([head, *(part or b"" for part in entry)]))
    except Damage as found:
        error, damage = str(found), True
    except Exception as found:
        error = f"cannot read the environment: {type(found).__name__}: {found}"
    try:
        text = json.dumps({"error": error, "damage": damage}).encode("ascii")
        _send(out, struct.pack("<II", _END, len(text)) + text)
    except BrokenPipeError:
        os._exit(0)


def _send(out: Any, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[out.write(left) :]


if __name__ == "__main__":
    _serve()
