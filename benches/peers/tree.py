"""Reads the CPU time and memory of a process and all its descendants from /proc."""

import contextlib
import os
import threading
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")


def processes(pid):
    """Returns a process and its living descendants. Processes that end during the call are left out."""
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, children.read_text().split())
    return found


def cpu_seconds(pid):
    """Returns the user and system time of the process tree, including ended children that have been waited for."""
    total = 0
    for process in processes(pid):
        with contextlib.suppress(OSError):
            # The program name is in parentheses and may contain spaces, so count the fields from its end.
            fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
            total += sum(map(int, fields[11:15]))
    return total / TICK


def memory_bytes(pid):
    """Returns the memory of the process tree without mapped files: anonymous pages, and shared pages counted once."""
    total = 0
    for process in processes(pid):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
                    total += 1024 * int(line.split()[1])
    return total


def busy_seconds():
    """Returns the time since boot during which the cores were busy, summed over all cores."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    idle, waiting = int(fields[3]), int(fields[4])
    return (sum(map(int, fields[:8])) - idle - waiting) / TICK


class PeakMemory:
    """Measures the peak memory of a process tree while the `with` block runs. Samples only four times a second, because
    a sample is slow and loaders rarely free memory.
    """

    def __init__(self, pid):
        self.pid, self.bytes, self.done = pid, 0, threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while True:
            self.bytes = max(self.bytes, memory_bytes(self.pid))
            if self.done.wait(0.25):
                return

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
