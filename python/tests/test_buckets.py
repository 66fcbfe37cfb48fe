"""Tests writing datasets to S3, on moto's server if it is installed."""

from __future__ import annotations

import hashlib
import io
import itertools
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardpack as sp

moto = pytest.importorskip("moto.server", reason="moto[s3,server] is not installed")
boto3 = pytest.importorskip("boto3")
_NAMES = itertools.count()


class Bucket:
    def __init__(self, endpoint: str, name: str) -> None:
        self.endpoint, self.name, self.url = endpoint, name, f"s3://{name}/train"
        self.options = {
            "endpoint": endpoint, "allow_http": True, "aws_region": "us-east-1",
            "aws_access_key_id": "someone", "aws_secret_access_key": "hunter2hunter2",
        }  # fmt: skip
        self.client = boto3.client(
            "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="someone", aws_secret_access_key="any"
        )
        self.client.create_bucket(Bucket=name)

    def digests(self) -> dict[str, str]:
        found = {}
        for entry in self.client.list_objects_v2(Bucket=self.name, Prefix="train/").get("Contents", []):
            body = self.client.get_object(Bucket=self.name, Key=entry["Key"])["Body"].read()
            found[entry["Key"].removeprefix("train/")] = hashlib.sha256(body).hexdigest()
        return found


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint: str) -> Bucket:
    return Bucket(endpoint, f"bucket-{next(_NAMES)}")


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def texts(place: Any, **options: Any) -> dict[str, Any]:
    with sp.Writer(place, shard_size="4KiB", **options) as writer:
        for i in range(60):
            writer.write({"text": f"sample {i} " * 10, "label": i % 3}, key=f"{i:03}")
    assert writer.report is not None
    return writer.report


def test_a_writer_sends_the_files_of_a_folder(bucket: Bucket, tmp_path: Path) -> None:
    here = texts(tmp_path / "here")
    there = texts(bucket.url, storage_options=bucket.options, spool=tmp_path / "spool")
    assert (there["samples"], there["bytes_out"]) == (here["samples"], here["bytes_out"]) and there["shards"] > 2
    assert bucket.digests() == digests(tmp_path / "here")
    assert list((tmp_path / "spool").iterdir()) == []
    with pytest.raises(sp.UsageError, match="a dataset of 60 samples"):
        texts(bucket.url, storage_options=bucket.options)
    assert sp.verify(bucket.url, deep=True, storage_options=bucket.options)["whole"]


def test_a_writer_that_is_aborted_leaves_nothing(bucket: Bucket, tmp_path: Path) -> None:
    writer = sp.Writer(bucket.url, storage_options=bucket.options, spool=tmp_path / "spool")
    writer.write({"text": "one"})
    with pytest.raises(BlockingIOError, match="take_over"):
        sp.Writer(bucket.url, storage_options=bucket.options, spool=tmp_path / "another")
    writer.abort()
    assert bucket.digests() == {}
    assert list((tmp_path / "spool").iterdir()) == []


def test_parts_that_are_packed_and_merged(bucket: Bucket, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(12):
        np.save(source / f"{number:02}.npy", np.arange(number, number + 20 * 30 * 8, dtype=np.uint16).reshape(20, 30, 8))
    sp.pack(source, tmp_path / "here", shard_size="16KiB")
    where = {"spool": tmp_path / "spool", "storage_options": bucket.options}
    for part in ((1, 2), (2, 2)):
        sp.pack(source, bucket.url, shard_size="16KiB", part=part, **where)
    merged = sp.merge(bucket.url, **where)
    assert merged["samples"] == 12 and merged["shards"] > 1
    assert bucket.digests() == digests(tmp_path / "here")
    assert list((tmp_path / "spool").iterdir()) == []


def test_the_cache_is_an_argument(bucket: Bucket, tmp_path: Path) -> None:
    texts(bucket.url, storage_options=bucket.options)
    for epoch in range(2):
        dataset = sp.Dataset(bucket.url, storage_options=bucket.options, cache=tmp_path / "cache", cache_bytes="64MiB")
        loader = sp.Loader(dataset, batch_size=8)
        assert sum(len(batch.indices) for batch in loader) >= 56
        stats = loader.stats()
        assert (stats["cache_misses"] == 0) == (epoch == 1), stats
    assert list((tmp_path / "cache").glob("*.block"))
    with pytest.raises(TypeError, match="cache is passed twice"):
        sp.Dataset(bucket.url, storage_options={**bucket.options, "cache": "a"}, cache="b")
    with pytest.raises(sp.UsageError, match="applies only to URLs, but the path is local"):
        texts(tmp_path / "here")
        sp.Dataset(tmp_path / "here", cache=tmp_path / "cache")


def test_sources_in_a_bucket_are_packed_as_folders(bucket: Bucket, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(12):
        np.save(source / f"{number:02}.npy", np.arange(number, number + 20 * 30 * 8, dtype=np.uint16).reshape(20, 30, 8))
        bucket.client.upload_file(str(source / f"{number:02}.npy"), bucket.name, f"cubes/{number:02}.npy")
    url = f"s3://{bucket.name}/cubes"
    sp.pack(source, tmp_path / "here", shard_size="16KiB")
    sp.pack(url, tmp_path / "there", shard_size="16KiB", storage_options=bucket.options)
    assert digests(tmp_path / "there") == digests(tmp_path / "here")
    plan = sp.plan(url, bucket.url, 2, shard_size="16KiB", listing=tmp_path / "listing", storage_options=bucket.options)
    assert plan["samples"] == 12
    where = {"spool": tmp_path / "spool", "storage_options": bucket.options}
    for part in ((1, 2), (2, 2)):
        sp.pack(url, bucket.url, shard_size="16KiB", part=part, listing=tmp_path / "listing", **where)
    sp.merge(bucket.url, **where)
    assert bucket.digests() == digests(tmp_path / "here")
    with pytest.raises(sp.UsageError, match="applies only to URLs, but the path is local"):
        sp.pack(source, tmp_path / "other", storage_options=bucket.options)


def tars(folder: Path, count: int) -> list[Path]:
    folder.mkdir()
    for number in range(count):
        with tarfile.open(folder / f"train-{number:03}.tar", "w") as tar:
            for sample in range(3):
                text = f"{number} {sample} ".encode() * 400
                info = tarfile.TarInfo(f"{number:03}-{sample}.txt")
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text))
    return sorted(folder.iterdir())


def test_webdataset_tars_come_from_a_bucket(bucket: Bucket, tmp_path: Path) -> None:
    for path in tars(tmp_path / "tars", 4):
        bucket.client.upload_file(str(path), bucket.name, f"tars/{path.name}")
    sp.convert("webdataset", tmp_path / "tars", tmp_path / "here")
    folder = f"s3://{bucket.name}/tars"
    sources: list[Any] = [
        folder, f"{folder}/", f"{folder}/train-{{000..003}}.tar", f"{folder}/train-*.tar",
        [f"{folder}/train-000.tar", str(tmp_path / "tars/train-001.tar"), f"{folder}/train-{{002..003}}.tar"],
    ]  # fmt: skip
    for number, source in enumerate(sources):
        sp.convert("webdataset", source, tmp_path / f"out-{number}", storage_options=bucket.options)
        assert digests(tmp_path / f"out-{number}") == digests(tmp_path / "here"), source
    sp.convert("webdataset", folder, bucket.url, storage_options=bucket.options, spool=tmp_path / "spool")
    assert bucket.digests()["manifest.json"] == digests(tmp_path / "here")["manifest.json"]
    sp.convert("webdataset", tmp_path / "tars", f"{bucket.url}-2", storage_options=bucket.options, spool=tmp_path / "spool")
    with pytest.raises(ValueError, match="`storage_options` can be used only with URLs, but the WebDataset files are local"):
        sp.convert("webdataset", tmp_path / "tars", tmp_path / "no", storage_options=bucket.options)


def test_a_tar_that_cannot_be_read_is_no_bad_input(bucket: Bucket, tmp_path: Path) -> None:
    path, *_ = tars(tmp_path / "tars", 1)
    url = f"s3://{bucket.name}/tars/train-000.tar"
    with pytest.raises(OSError, match="train-000.tar"):
        sp.convert("webdataset", url, tmp_path / "out", on_bad_input="skip", storage_options=bucket.options)
    # As on disk, a damaged tar is bad input.
    bucket.client.put_object(Bucket=bucket.name, Key="tars/train-000.tar", Body=path.read_bytes()[:4000])
    found = sp.convert("webdataset", url, tmp_path / "out", on_bad_input="skip", storage_options=bucket.options)
    assert found["samples_skipped"] == 1 and url in found["skipped"][0]["reason"]


def test_no_credential_is_in_a_message(bucket: Bucket, tmp_path: Path) -> None:
    missing = bucket.url.replace("bucket", "no-bucket")
    with pytest.raises(OSError, match="there is no such bucket") as caught:
        texts(missing, storage_options=bucket.options, spool=tmp_path / "spool")
    assert "hunter2" not in str(caught.value)
    assert list((tmp_path / "spool").iterdir()) == []


def test_a_bucket_changes_like_a_folder(bucket: Bucket, tmp_path: Path) -> None:
    here, where = tmp_path / "here", {"spool": tmp_path / "spool", "storage_options": bucket.options}
    for number in range(6):
        name = tmp_path / ("first" if number < 4 else "week") / f"{number}.npy"
        name.parent.mkdir(exist_ok=True)
        np.save(name, np.full((16, 16, 4), number, dtype=np.uint16))
    sp.pack(tmp_path / "first", here, shard_size="4KiB")
    sp.pack(tmp_path / "first", bucket.url, shard_size="4KiB", **where)
    for name in ("4.npy", "5.npy"):
        bucket.client.upload_file(str(tmp_path / "week" / name), bucket.name, f"week/{name}")
    bucket.client.put_object(Bucket=bucket.name, Key="other/note.txt", Body=b"not ours")

    def same() -> None:
        assert bucket.digests() == digests(here)
        assert list((tmp_path / "spool").iterdir()) == []
        assert sp.verify(bucket.url, deep=True, storage_options=bucket.options)["whole"]

    same()
    keys = ["4.npy"]
    for source in (tmp_path / "week", f"s3://{bucket.name}/week"):
        added = sp.add(bucket.url, source, **where)
        if source == tmp_path / "week":
            sp.add(here, source)
            assert (added["generation"], added["samples"], added["samples_of_dataset"]) == (2, 2, 6)
        else:
            assert added["outcome"] == "already-complete"
        same()
    assert sp.remove(bucket.url, keys, **where)["generation"] == sp.remove(here, keys)["generation"] == 3
    same()
    assert len(sp.Dataset(bucket.url, generation=1, storage_options=bucket.options)) == 4
    assert sp.compact(bucket.url, **where) == sp.compact(here)
    same()
    with pytest.raises(sp.UsageError, match="are not in the dataset, so nothing was removed"):
        sp.remove(bucket.url, keys, **where)
    with pytest.raises(sp.UsageError, match="`spool` applies only if the output is a URL"):
        sp.compact(here, spool=tmp_path / "spool")
    for path in (here, bucket.url):
        with pytest.raises(sp.UsageError, match="it has no manifest.json"):
            sp.add(f"{path}-missing", tmp_path / "week", **(where if path == bucket.url else {}))
    assert bucket.client.get_object(Bucket=bucket.name, Key="other/note.txt")["Body"].read() == b"not ours"


def test_a_writer_appends_to_a_bucket(bucket: Bucket, tmp_path: Path) -> None:
    where: dict[str, Any] = {"spool": tmp_path / "spool", "storage_options": bucket.options}
    texts(tmp_path / "here")
    texts(bucket.url, **where)
    for place, options in ((tmp_path / "here", {}), (bucket.url, where)):
        with sp.Writer(place, append=True, **options) as writer:
            with pytest.raises(sp.KnownKeyError):
                writer.write({"text": "again", "label": 0}, key="003")
            writer.write({"text": "new", "label": 2}, key="new")
        assert writer.report is not None and writer.report["generation"] == 2
    assert bucket.digests() == digests(tmp_path / "here")
    first = sp.Writer(bucket.url, append=True, **where)
    with pytest.raises(BlockingIOError, match="is being written by another packer"):
        sp.Writer(bucket.url, append=True, storage_options=bucket.options, spool=tmp_path / "elsewhere")
    first.abort()
    assert bucket.digests() == digests(tmp_path / "here")


def test_a_conversion_appends_to_a_bucket(bucket: Bucket, tmp_path: Path) -> None:
    where: dict[str, Any] = {"spool": tmp_path / "spool", "storage_options": bucket.options}
    first, second = tars(tmp_path / "tars", 2)
    for place, options in ((tmp_path / "here", {}), (bucket.url, where)):
        sp.convert("webdataset", first, place, **options)
        assert sp.convert("webdataset", second, place, append=True, **options)["samples_of_dataset"] == 6
    assert bucket.digests() == digests(tmp_path / "here")
    assert list((tmp_path / "spool").iterdir()) == []
