"""Tests `shardpack.ray.pack`, with a real Ray on this machine."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_pack import photos

import shardpack as sp

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install ray")

import shardpack.ray  # noqa: E402


@pytest.fixture(scope="module")
def workers() -> Iterator[None]:
    """Starts Ray with two nodes on this machine. Each node has room for all tasks, and each task has its own process.
    """
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "include_dashboard": False})
    cluster.add_node(num_cpus=4)
    ray.init(address=cluster.address, log_to_driver=False)
    yield
    ray.shutdown()
    cluster.shutdown()


def files(folder: Path) -> dict[str, bytes]:
    """Returns the content of each file in a folder by name. Lock files are left out, because they remain after a run.
    """
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".shardpack-lock")}


def slow_cubes(folder: Path, count: int, side: int = 128) -> Path:
    folder.mkdir()
    for number in range(count):
        values = np.random.default_rng(number).normal(size=(side, side, 16)).cumsum(axis=0)
        np.save(folder / f"{number:03}.npy", (values * 50).astype(np.int16))
    return folder


class Killer(threading.Thread):
    """Kills the worker of a part after its first shard, while another remains to be written."""

    def __init__(self, out: Path, part: str, shards: int) -> None:
        super().__init__(daemon=True)
        self.journal, self.lock, self.shards = out / f".shardpack-journal-{part}.jsonl", out / f".shardpack-lock-{part}", shards
        self.ended, self.killed = threading.Event(), 0

    def run(self) -> None:
        while not self.ended.is_set() and not self.killed:
            time.sleep(0.002)
            if not self.journal.exists() or not self.lock.exists():
                continue
            holder = re.match(r"process (\d+) on", self.lock.read_text())
            if holder and 2 <= len(self.journal.read_text().splitlines()) < 1 + self.shards:
                os.kill(int(holder[1]), signal.SIGKILL)
                self.killed = int(holder[1])


def test_a_worker_that_is_killed_changes_no_byte(tmp_path: Path, workers: None) -> None:
    source = slow_cubes(tmp_path / "cubes", 16)
    options = {"shard_size": 100_000, "codec": "zstd", "level": 19, "threads": 1}
    whole = sp.pack(source, tmp_path / "whole", **options)  # type: ignore[arg-type]
    assert whole["shards"] == 16
    killer = Killer(tmp_path / "out", "00002-of-00004", 4)
    killer.start()
    seen: list[dict[str, int]] = []
    packed = shardpack.ray.pack(source, tmp_path / "out", parts=4, progress=seen.append, **options)  # type: ignore[arg-type]
    killer.ended.set()
    killer.join()
    assert killer.killed and list(packed["retried"]) == [2]
    first, second = packed["retried"][2]
    assert first != second, "the second try was on the node of the first"
    assert files(tmp_path / "out") == files(tmp_path / "whole")
    assert {name: packed[name] for name in ("dataset_id", "samples", "shards", "parts")} == {**{n: whole[n] for n in ("dataset_id", "samples", "shards")}, "parts": 4}
    assert seen[-1]["parts"] == seen[-1]["parts_total"] == 4 and seen[-1]["samples"] == seen[-1]["samples_total"] == 16
    assert seen[-1]["retries"] == 1
    again = shardpack.ray.pack(source, tmp_path / "out", parts=4, **options)  # type: ignore[arg-type]
    assert again["outcome"] == "already-complete" and again["retried"] == {}


def test_what_is_left_out_is_told_once(tmp_path: Path, workers: None) -> None:
    source = photos(tmp_path / "photos")
    (source / "a/bad.jpg").write_bytes(b"\xff\xd8\xffnothing")
    with pytest.raises(ValueError, match="bad.jpg") as caught:
        shardpack.ray.pack(source, tmp_path / "out", parts=3)
    assert re.fullmatch(r"part \d/3 failed; finished shards are kept, so repeat the same call to continue", caught.value.__notes__[0])
    packed = shardpack.ray.pack(source, tmp_path / "out", parts=3, shard_size="4KiB", on_bad_input="skip")
    assert [file["key"] for file in packed["skipped"]] == ["a/bad.jpg"] and packed["samples"] == 12
    sp.pack(source, tmp_path / "whole", shard_size="4KiB", on_bad_input="skip")
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def test_paths_are_those_of_the_caller(tmp_path: Path, workers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    photos(tmp_path / "photos", 4)
    (tmp_path / "labels.csv").write_text("key,label\n" + "".join(f"{'ab'[n % 2]}/{n:03}.jpg,{n}\n" for n in range(4)))
    monkeypatch.chdir(tmp_path)
    assert shardpack.ray.pack("photos", "out", labels="labels.csv", parts=1)["samples"] == 4
    assert sorted(sp.Dataset("out").labels) == [0, 1, 2, 3]


def test_wrong_arguments_are_refused_before_ray_is_asked(tmp_path: Path) -> None:
    for options, error, text in [
        ({"part": (1, 2)}, sp.UsageError, "hint: pass the number of parts as `parts`"),
        ({"force": True}, sp.UsageError, "hint: remove the old dataset first"),
        ({"shardsize": 1}, TypeError, "did you mean 'shard_size'"),
    ]:
        with pytest.raises(error, match=re.escape(text)):
            shardpack.ray.pack(tmp_path, tmp_path / "out", **options)  # type: ignore[arg-type]


@pytest.fixture
def bucket() -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yields a client with an empty bucket `of-ray`, and its storage options."""
    moto = pytest.importorskip("moto.server", reason="moto[s3,server] is not installed")
    boto3 = pytest.importorskip("boto3")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        secrets = {"aws_access_key_id": "someone", "aws_secret_access_key": "hunter2hunter2"}
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **secrets)
        client.create_bucket(Bucket="of-ray")
        yield client, {"endpoint": endpoint, "allow_http": True, "aws_region": "us-east-1", **secrets}
        for entry in client.list_objects_v2(Bucket="of-ray").get("Contents", []):
            client.delete_object(Bucket="of-ray", Key=entry["Key"])
    finally:
        server.stop()


def objects(client: Any) -> dict[str, bytes]:
    """Returns all objects below `train`, including any leftover claim."""
    found = client.list_objects_v2(Bucket="of-ray", Prefix="train/")["Contents"]
    return {
        entry["Key"].removeprefix("train/"): client.get_object(Bucket="of-ray", Key=entry["Key"])["Body"].read()
        for entry in found
    }


def test_a_bucket_is_packed_into_a_bucket(tmp_path: Path, workers: None, bucket: tuple[Any, dict[str, Any]]) -> None:
    client, store = bucket
    source = photos(tmp_path / "photos")
    for path in source.rglob("*.jpg"):
        client.upload_file(str(path), "of-ray", f"photos/{path.relative_to(source)}")
    sp.pack(source, tmp_path / "whole", shard_size="4KiB")
    options = {"parts": 3, "shard_size": "4KiB", "storage_options": store, "spool": tmp_path / "spool"}
    packed = shardpack.ray.pack("s3://of-ray/photos", "s3://of-ray/train", **options)  # type: ignore[arg-type]
    assert packed["samples"] == 12 and packed["parts"] == 3
    assert objects(client) == files(tmp_path / "whole")
    assert list((tmp_path / "spool").iterdir()) == []
    here = shardpack.ray.pack("s3://of-ray/photos", tmp_path / "here", parts=2, shard_size="4KiB", storage_options=store)
    assert here["samples"] == 12 and files(tmp_path / "here") == files(tmp_path / "whole")
    again = shardpack.ray.pack("s3://of-ray/photos", "s3://of-ray/train", **options)  # type: ignore[arg-type]
    assert again["outcome"] == "already-complete"


def test_a_worker_that_is_killed_changes_no_byte_of_a_bucket(tmp_path: Path, workers: None, bucket: tuple[Any, dict[str, Any]]) -> None:
    client, store = bucket
    source = slow_cubes(tmp_path / "cubes", 16, 64)
    options = {"shard_size": 20_000, "codec": "zstd", "level": 3, "threads": 1}
    assert sp.pack(source, tmp_path / "whole", **options)["shards"] == 16  # type: ignore[arg-type]
    out, spool = "s3://of-ray/train", tmp_path / "spool"
    killer = Killer(spool / f"shardpack-spool-{hashlib.sha256(out.encode()).hexdigest()[:16]}", "00002-of-00004", 4)
    killer.start()
    packed = shardpack.ray.pack(source, out, parts=4, spool=spool, storage_options=store, **options)  # type: ignore[arg-type]
    killer.ended.set()
    killer.join()
    assert killer.killed and list(packed["retried"]) == [2]
    # The dead worker must leave neither a claim nor files in the spool.
    assert objects(client) == files(tmp_path / "whole")
    assert list(spool.iterdir()) == []


@pytest.mark.parametrize(
    ("fates", "taken_over"),
    [(["held", "held"], [False, False]), (["held", "done"], [False, False]), (["lost", "done"], [False, True]), (["held", "lost", "done"], [False, False, True])],
)
def test_the_place_of_a_run_that_lives_is_not_taken(
    fates: list[str], taken_over: list[bool], tmp_path: Path, workers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"

    def part(src: str, out: str, part: Any, options: dict[str, Any], store: Any, listing: Any, board: Any) -> Any:
        with log.open("a") as file:
            file.write(f"{options.get('take_over', False)}\n")
        fate = fates[len(log.read_text().split()) - 1]
        if fate == "lost":
            os._exit(1)
        if fate == "held":
            raise BlockingIOError(f"{out} is being packed")
        return [], []

    monkeypatch.setattr(shardpack.ray, "_part", part)
    monkeypatch.setattr(shardpack.ray, "_merge", lambda *where: {"fidelity": {}})
    monkeypatch.setattr(shardpack.ray._warn, "of_rounding", lambda *report: None)
    if fates[-1] == "held":
        with pytest.raises(BlockingIOError, match="s3://of-ray/train is being packed") as caught:
            shardpack.ray.pack(tmp_path, "s3://of-ray/train", parts=1)
        assert caught.value.__notes__ == ["part 1/1 failed; finished shards are kept, so repeat the same call to continue"]
    else:
        shardpack.ray.pack(tmp_path, "s3://of-ray/train", parts=1)
    assert log.read_text().split() == [str(taken) for taken in taken_over]


@pytest.mark.parametrize("fate", ["silent", "dead"])
def test_figures_that_never_come_hold_up_nothing(
    fate: str, tmp_path: Path, workers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Board(shardpack.ray._Board):
        def read(self) -> tuple[dict[str, int], dict[int, list[str]]]:
            if self.nodes and fate == "silent":
                time.sleep(3600)
            if self.nodes:
                os._exit(1)
            return super().read()

    monkeypatch.setattr(shardpack.ray, "_Board", Board)
    monkeypatch.setattr(shardpack.ray, "_PATIENCE", 5.0)
    seen: list[dict[str, int]] = []
    packed = shardpack.ray.pack(photos(tmp_path / "photos"), tmp_path / "out", parts=2, progress=seen.append)
    assert packed["samples"] == 12 and seen[-1]["parts"] == 2
