"""Tests that a dataset is either complete or absent after exceptions, signals, forks, and a full disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_writer import files

import shardpack as sp


def test_an_exception_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(ZeroDivisionError), sp.Writer(out) as writer:
        writer.write({"i": 1})
        1 / 0  # noqa: B018
    assert not out.exists()
    with pytest.raises(ValueError, match="the writer is closed"):
        writer.write({"i": 1})
    with pytest.raises(sp.UsageError, match="no samples were added"), sp.Writer(out):
        pass
    assert not out.exists()
    with sp.Writer(out) as writer:
        writer.write({"i": 1})
    before = files(out)
    with pytest.raises(sp.UsageError, match="already contains a dataset of 1 sample\nhint: use `?force=True"):
        sp.Writer(out)
    with pytest.raises(ZeroDivisionError), sp.Writer(out, force=True) as writer:
        writer.write({"i": 2})
        1 / 0  # noqa: B018
    assert files(out) == before
    with sp.Writer(out, force=True) as writer:
        writer.write({"i": 3})
    assert sp.Dataset(out)[0]["i"] == 3


def test_two_writers_of_one_folder_are_refused(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "out") as writer:
        writer.write({"i": 1})
        with pytest.raises(BlockingIOError, match="is being written by another packer: process"):
            sp.Writer(tmp_path / "out", force=True)


def test_progress_and_what_it_raises(tmp_path: Path) -> None:
    writer = sp.Writer(tmp_path / "out")
    for number in range(200):
        writer.write({"i": number})

    def stop(now: dict[str, int]) -> None:
        raise RuntimeError(f"enough after {sorted(now)}")

    seen: list[dict[str, int]] = []
    with pytest.raises(RuntimeError, match="enough after .*'samples', 'samples_total'"):
        writer.close(progress=stop)
    # Even if the exception came too late to stop the commit, closing again must return all 200 samples.
    report = writer.close()
    assert report["samples"] == 200
    assert writer.close() == report and len(writer) == 200
    writer.abort()
    assert len(sp.Dataset(tmp_path / "out")) == 200
    with sp.Writer(tmp_path / "again") as writer:
        for number in range(200):
            writer.write({"i": number})
        writer.close(progress=seen.append)
    assert seen[-1]["samples"] == seen[-1]["samples_total"] == 200


def test_nothing_is_left_of_a_writer_that_was_aborted(tmp_path: Path) -> None:
    writer = sp.Writer(tmp_path / "out")
    writer.write({"i": 1})
    assert len(writer) == 1 and "open" in repr(writer)
    writer.abort()
    assert len(writer) == 0 and "aborted" in repr(writer)
    assert not (tmp_path / "out").exists()


def run(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


ENDLESS = """
import sys, numpy as np, shardpack as sp
with sp.Writer(sys.argv[1]) as writer:
    for number in range(10**9):
        writer.write({"cube": np.random.random((50, 50, 4))})
        if number == 20: print("writing", flush=True)
"""


def test_a_writer_that_is_killed_leaves_no_dataset_and_locks_nobody_out(tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = run(ENDLESS, out)
    assert program.stdout and program.stdout.readline() == "writing\n"
    program.kill()
    program.communicate()
    # The samples disappeared with the process. Only an unlocked lock file is left.
    assert all(path.name.startswith(".shardpack-lock") and path.stat().st_size < 200 for path in out.iterdir())
    with sp.Writer(out) as writer:
        writer.write({"i": 1})
    assert sorted(path.name for path in out.iterdir()) == ["manifest.json", "shard-00000.shard"]


def test_ctrl_c_ends_a_writer_and_clears_up(tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = run(ENDLESS, out)
    assert program.stdout and program.stdout.readline() == "writing\n"
    program.send_signal(signal.SIGINT)
    _, stderr = program.communicate(timeout=600)
    assert program.returncode == -signal.SIGINT and stderr.rstrip().endswith("KeyboardInterrupt")
    assert not out.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_of_a_fork_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    code = """
import os, sys, shardpack as sp
writer = sp.Writer(sys.argv[1])
writer.write({"i": 1})
child = os.fork()
if child == 0:
    try:
        writer.write({"i": 2})
    except RuntimeError as error:
        print(error, flush=True)
    del writer
    os._exit(0)
os.waitpid(child, 0)
writer.write({"i": 3})
print(writer.close()["samples"])
"""
    program = run(code, tmp_path / "out")
    stdout, stderr = program.communicate(timeout=600)
    assert "cannot be used after a fork" in stdout and stdout.splitlines()[-1] == "2", stderr


def test_a_full_disk_costs_one_sample(tmp_path: Path) -> None:
    code = """
import resource, signal, sys, numpy as np, shardpack as sp
# A limit on file sizes simulates a full disk.
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
writer = sp.Writer(sys.argv[1])
writer.write({"noise": np.random.default_rng(0).integers(0, 256, 100_000, np.uint8)})
resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, resource.RLIM_INFINITY))
try:
    writer.write({"noise": np.random.default_rng(1).integers(0, 256, 100_000, np.uint8)}, key="late")
except OSError as error:
    print(type(error).__name__, error.errno, error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
writer.write({"noise": np.random.default_rng(1).integers(0, 256, 100_000, np.uint8)}, key="late")
print(writer.close()["samples"])
"""
    program = run(code, tmp_path / "out")
    stdout, stderr = program.communicate(timeout=600)
    assert stdout.startswith("OSError 27 ") and str(tmp_path / "out") in stdout, stderr
    assert stdout.splitlines()[-1] == "2" and sp.verify(tmp_path / "out")["whole"]
