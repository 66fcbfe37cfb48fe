"""Tests conversion of Parquet datasets on the Hugging Face Hub, with a stand-in server."""

from __future__ import annotations

import io
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from conftest import command
from convert_support import content, jpeg, kinds

import shardpack as sp

pytest.importorskip("huggingface_hub")
pq = pytest.importorskip("pyarrow.parquet")
TOKEN = "hf_hunter2"
COMMIT = f"{1:040x}"
PINNED = f"me/pets@{COMMIT}"


class Hub:
    """A hub with one dataset, `me/pets`. It redirects requests for files to a second server."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.asked: list[tuple[str, str | None, str | None]] = []
        self.moved = 0
        self.broken = ""
        self.elsewhere = self._serve(self._file)
        self.server = self._serve(self._hub)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def _serve(self, answer: Any) -> ThreadingHTTPServer:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer(self)

            do_HEAD = do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def _answer(self, request: Any, status: int, body: bytes, **headers: str) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def _hub(self, request: Any) -> None:
        path = unquote(urlsplit(request.path).path)
        self.asked.append((path, request.headers.get("authorization"), request.headers.get("range")))
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return self._answer(request, 401, b"{}", x_error_code="RepoNotFound")
        api = "/api/datasets/me/pets"
        if path.startswith(f"{api}/revision/"):
            # The branch moves with every request, and the newest commit has no files.
            self.moved += 1
            commit = f"{self.moved:040x}" if path.endswith("/main") else path.rpartition("/")[2]
            return self._answer(request, 200, json.dumps({"id": "me/pets", "sha": commit}).encode(), content_type="application/json")
        if path.startswith(f"{api}/tree/{COMMIT}"):
            listed = [{"type": "file", "path": name, "size": len(data), "oid": "0" * 40} for name, data in self.files.items()]
            return self._answer(request, 200, json.dumps(listed).encode(), content_type="application/json")
        of_files = f"/datasets/me/pets/resolve/{COMMIT}/"
        if path.startswith(of_files) and path[len(of_files) :] in self.files:
            if self.broken and path.endswith(self.broken) and request.headers.get("range", "").startswith("bytes=4-"):
                return self._answer(request, 404, b"", x_error_code="EntryNotFound")
            return self._answer(request, 302, b"", location=f"http://127.0.0.1:{self.elsewhere.server_port}/{path[len(of_files) :]}")
        return self._answer(request, 404, b"{}", x_error_code="EntryNotFound")

    def _file(self, request: Any) -> None:
        name = unquote(request.path[1:])
        self.asked.append((f"elsewhere {name}", request.headers.get("authorization"), request.headers.get("range")))
        first, last = (int(number) for number in request.headers["range"].removeprefix("bytes=").split("-"))
        data = self.files[name]
        self._answer(request, 206, data[first : last + 1], content_range=f"bytes {first}-{last}/{len(data)}")


def parquet(first: int, last: int, rows: int = 5) -> bytes:
    """Returns rows of pictures and labels in the layout of the library `datasets`, with `rows` rows per row group."""
    from test_convert_parquet import hugging_face

    out = io.BytesIO()
    pq.write_table(hugging_face(first, last), out, row_group_size=rows)
    return out.getvalue()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    files = {
        "README.md": b"# Pets",
        "data/train-00000-of-00002.parquet": parquet(0, 12),
        "data/train-00001-of-00002.parquet": parquet(12, 20),
        "data/test-00000-of-00001.parquet": parquet(20, 23),
    }
    started = Hub(files)
    monkeypatch.setenv("HF_ENDPOINT", started.url)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    yield started
    started.server.shutdown()
    started.elsewhere.shutdown()


def test_pictures_and_classes_of_a_split_at_one_commit(hub: Hub, tmp_path: Path) -> None:
    report = sp.convert("hf", "me/pets", tmp_path / "out", split="train", key="image.path")
    assert report["samples"] == 20
    assert sp.Dataset(tmp_path / "out").classes == ["cat", "dog"]
    assert kinds(tmp_path / "out") == {"coarse": "int64", "image": "image", "label": "int64"}
    found = content(tmp_path / "out", "image")
    for i in range(20):
        assert found[f"photos/{i}.jpg"]["image"] == jpeg(i) and found[f"photos/{i}.jpg"]["label"] == i % 2
    asked = hub.asked
    assert not any(path.startswith("elsewhere data/test") for path, _, _ in asked), "other splits are not read"
    assert all(token is None for path, token, _ in asked if path.startswith("elsewhere")), "the token stays on the hub"
    assert all(COMMIT in path for path, _, _ in asked if "/resolve/" in path), "one commit, although the branch moves"


def test_only_the_columns_that_are_converted_are_read(hub: Hub, tmp_path: Path) -> None:
    # The last 64 KiB of each file are always read.
    hub.files |= {f"data/train-0000{part}-of-00002.parquet": parquet(0, 400, 100) for part in range(2)}
    sp.convert("hf", f"hf://datasets/me/pets@{COMMIT}/data", tmp_path / "out", split="train", drop=["image"])
    read = 0
    for path, _, span in hub.asked:
        if path.startswith("elsewhere") and span is not None:
            first, last = span.removeprefix("bytes=").split("-")
            read += int(last) + 1 - int(first)
    whole = sum(len(data) for name, data in hub.files.items() if "train" in name)
    assert read < whole / 2, (read, whole)


def test_a_row_group_at_a_time(hub: Hub, tmp_path: Path) -> None:
    hub.files["data/train-00000-of-00002.parquet"] = parquet(0, 12, 2)
    whole = len(hub.files["data/train-00000-of-00002.parquet"])
    sp.convert("hf", "me/pets", tmp_path / "out", split="train")
    spans = [span.removeprefix("bytes=").split("-") for path, _, span in hub.asked if path == "elsewhere data/train-00000-of-00002.parquet" and span]
    data = [int(last) + 1 - int(first) for first, last in spans if int(last) + 1 < whole]
    assert len(data) >= 6 and max(data) < whole / 3, (data, whole)


def test_splits_and_configs_must_be_clear(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has several splits: 'test', 'train'\nhint: pass one of them, such as split='train'"):
        sp.convert("hf", PINNED, tmp_path / "out")
    with pytest.raises(ValueError, match="has no split 'val'; its splits are 'test', 'train'"):
        sp.convert("hf", PINNED, tmp_path / "out", split="val")
    hub.files |= {"big/train/0000.parquet": parquet(30, 34), "big/test/0000.parquet": parquet(34, 36)}
    with pytest.raises(ValueError, match="has several configs: 'big', 'data'"):
        sp.convert("hf", PINNED, tmp_path / "out", split="train")
    assert sp.convert("hf", PINNED, tmp_path / "out", config="big", split="test")["samples"] == 2
    del hub.files["data/train-00001-of-00002.parquet"]
    with pytest.raises(ValueError, match="`data/train-00001-of-00002.parquet` is missing"):
        sp.convert("hf", PINNED, tmp_path / "other", config="data", split="train")


def test_what_the_hub_refuses_is_an_error(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pets", "me/pets/../x y@", "me /pets", 3):
        with pytest.raises((ValueError, TypeError)):
            sp.convert("hf", name, tmp_path / "out")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(ValueError, match="cannot list the files of the dataset `me/pets`(.|\n)*HF_TOKEN") as refused:
        sp.convert("hf", PINNED, tmp_path / "out", split="train")
    assert "hf_wrong" not in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_a_failed_request_is_not_skipped_as_damage(hub: Hub, tmp_path: Path) -> None:
    hub.broken = "train-00001-of-00002.parquet"
    with pytest.raises(OSError, match="the hub did not return bytes"):
        sp.convert("hf", PINNED, tmp_path / "out", split="train", on_bad_input="skip")
    assert not (tmp_path / "out").exists()
    hub.broken = ""
    assert sp.convert("hf", PINNED, tmp_path / "out", split="train")["samples"] == 20


def test_hostile_files_and_names_are_refused(hub: Hub, tmp_path: Path) -> None:
    good = hub.files["data/test-00000-of-00001.parquet"]
    hub.files["../../train.parquet"] = good
    for damage in (b"", b"PAR1", good[: len(good) // 2], b"PAR1" + b"\xff" * 100 + good[104:]):
        hub.files["data/test-00000-of-00001.parquet"] = damage
        with pytest.raises(ValueError, match="data/test-00000-of-00001.parquet"):
            sp.convert("hf", PINNED, tmp_path / "out", split="test")
    assert not any(".." in path for path, _, _ in hub.asked)


def test_the_command(hub: Hub, tmp_path: Path) -> None:
    done = subprocess.run(
        [*command(), "convert", "hf", "me/pets", str(tmp_path / "out"), "--split", "test"], capture_output=True, text=True, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    assert len(sp.Dataset(tmp_path / "out")) == 3
