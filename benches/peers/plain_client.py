"""Reads all files of a folder over HTTP in random order, in ranges of a fixed size, and prints the bytes per second. It
uses none of the bytes, so its rate is about the limit of the server.

    python3 benches/peers/plain_client.py PORT ROOT FOLDER RANGE_BYTES PROCESSES THREADS

FOLDER is relative to ROOT, the folder of the server. Each thread keeps one connection.
"""

import concurrent.futures
import os
import random
import socket
import sys
import time
from pathlib import Path


def ranges(root, folder, size):
    """Returns the path, start and end of all ranges, in random order."""
    found = []
    for path in sorted((root / folder).iterdir()):
        length = path.stat().st_size
        found += [(path.relative_to(root), start, min(start + size, length)) for start in range(0, length, size)]
    random.Random(0).shuffle(found)
    return found


def read(port, parts, size):
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buffer = bytearray(size + (64 << 10))
    for path, start, end in parts:
        connection.sendall(f"GET /{path} HTTP/1.1\r\nhost: localhost\r\nrange: bytes={start}-{end - 1}\r\n\r\n".encode())
        got, expected = 0, None
        while expected is None or got < expected:
            count = connection.recv_into(memoryview(buffer)[got:])
            assert count, "the server closed the connection"
            got += count
            head = buffer.find(b"\r\n\r\n", 0, got) if expected is None else -1
            if head >= 0:
                assert buffer.startswith(b"HTTP/1.1 206"), bytes(buffer[:head])
                expected = head + 4 + end - start


def all_read(port, parts, size, threads):
    """Returns true unless a thread has failed. Its error is on stderr then."""
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(read, port, parts[thread::threads], size) for thread in range(threads)]
    failures = [future.exception() for future in futures if future.exception()]
    print(*failures, sep="", end="", file=sys.stderr)
    return not failures


def main():
    port, size, processes, threads = (int(sys.argv[number]) for number in (1, 4, 5, 6))
    parts = ranges(Path(sys.argv[2]), sys.argv[3], size)
    started, children = time.perf_counter(), []
    for number in range(processes):
        child = os.fork()
        if child == 0:
            os._exit(not all_read(port, parts[number::processes], size, threads))
        children.append(child)
    codes = [os.waitpid(child, 0)[1] for child in children]
    assert not any(codes), codes
    print(sum(end - start for _, start, end in parts) / (time.perf_counter() - started))


if __name__ == "__main__":
    main()
