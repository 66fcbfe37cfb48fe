"""Tests stores that answer slowly, wrongly or not at all, together with Ctrl-C, forks and many loaders."""

from __future__ import annotations

import gc
import os
import shutil
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image

import shardpack as sp
from test_stores import _server as ranges

# A server that runs in the tested program. `mode` decides whether it answers, stays silent, or trickles its answer.
SERVER = """
    import http.server, os, re, signal, sys, threading, time, zlib
    from pathlib import Path
    import shardpack as sp

    mode = "right"
    times = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            path = Path(sys.argv[1]) / self.path.strip("/")
            data = path.read_bytes() if path.is_file() else b""
            start, end, status = 0, len(data), 200 if data else 404
            if data and (found := re.fullmatch(r"bytes=(\\d*)-(\\d*)", self.headers.get("range", ""))):
                first, last = found.groups()
                start = int(first) if first else max(0, len(data) - int(last))
                end = min(len(data), int(last) + 1) if first and last else len(data)
                status = 206
            if mode == "silent":
                time.sleep(1000)
            times.append(time.monotonic())
            if mode == "busy":
                self.send_response(503)
                self.send_header("content-length", "0")
                self.end_headers()
                return
            self.send_response(status)
            self.send_header("content-length", str(end - start))
            self.send_header("etag", f'"{zlib.crc32(data):08x}"')
            if status == 206:
                self.send_header("content-range", f"bytes {start}-{end - 1}/{len(data)}")
            self.end_headers()
            if mode == "right":
                self.wfile.write(data[start:end])
                return
            for at in range(start, end):
                self.wfile.write(data[at : at + 1])
                time.sleep(0.1)

    Handler.do_PUT = Handler.do_POST = Handler.do_DELETE = Handler.do_GET
    http.server.ThreadingHTTPServer.handle_error = lambda *_: None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
"""


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs a program that starts with the server's code."""
    command = [sys.executable, "-c", textwrap.dedent(SERVER) + textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("how", ["silent", "drip"])
def test_ctrl_c_is_heard_within_a_second(photos: Path, tmp_path: Path, how: str) -> None:
    code = """
        calls = {
            "open": lambda _: sp.Dataset(url),
            "loader": lambda dataset: sp.Loader(dataset, 8, image="rrc32"),
            "sample": lambda dataset: dataset[3],
            "many": lambda dataset: dataset.get_many([1, 2, 3]),
            "labels": lambda dataset: dataset.labels,
            "split": lambda dataset: dataset.split(0.8),
            "key": lambda dataset: dataset.keys[0],
            "raw": lambda dataset: dataset.raw(3, "image"),
            "first": lambda dataset: next(iter(dataset)),
            "batch": lambda dataset: next(iter(sp.Loader(dataset, 8, image="rrc32"))),
            "verify": lambda _: sp.verify(url),
        }
        if sys.argv[2] == "silent":
            bucket, out = "s3://bucket/x", sys.argv[3]
            far = {"endpoint": url, "allow_http": True, "skip_signature": True}
            calls |= {
                "pack": lambda _: sp.pack(bucket, out, storage_options=far),
                "plan": lambda _: sp.plan(bucket, out, parts=2, storage_options=far),
                "send": lambda _: sp.pack(sys.argv[4], bucket, storage_options=far),
                "writer": lambda _: sp.Writer(bucket, storage_options=far),
                "merge": lambda _: sp.merge(bucket, storage_options=far),
                "convert": lambda _: sp.convert("webdataset", bucket, out, storage_options=far),
            }
        for name, call in calls.items():
            mode = "right"
            dataset = sp.Dataset(url)
            mode = sys.argv[2]
            sent = []
            def interrupt():
                time.sleep(0.3)
                sent.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)
            threading.Thread(target=interrupt).start()
            try:
                call(dataset)
                print(name, "was not interrupted", flush=True)
            except KeyboardInterrupt:
                took = time.monotonic() - sent[0]
                print(name, "heard" if took < 1 else f"took {took}", flush=True)
            except Exception as error:
                print(name, error, flush=True)
        os._exit(0)
    """
    (tmp_path / "in").mkdir()
    Image.new("RGB", (64, 64)).save(tmp_path / "in" / "a.jpg")
    done = run(code, photos, how, tmp_path / "out", tmp_path / "in")
    names = ["open", "loader", "sample", "many", "labels", "split", "key", "raw", "first", "batch", "verify"]
    names += ["pack", "plan", "send", "writer", "merge", "convert"] if how == "silent" else []
    assert done.stdout.splitlines() == [f"{name} heard" for name in names], done


def test_no_request_begins_once_ctrl_c_was_heard(photos: Path) -> None:
    code = """
        calls = {
            "many": lambda dataset: dataset.get_many(range(len(dataset))),
            "sample": lambda dataset: dataset[3],
            "labels": lambda dataset: dataset.labels,
            "keys": lambda dataset: dataset.keys[0],
        }
        options = {"max_attempts": 100_000, "backoff": "5ms"}
        for name, call in calls.items():
            mode = "right"
            dataset = sp.Dataset(url, storage_options=options)
            mode = "busy"
            times.clear()
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                call(dataset)
                print(name, "was not interrupted", flush=True)
            except KeyboardInterrupt:
                heard = time.monotonic()
            time.sleep(2)
            asked, late = len(times) > 2, sum(at > heard + 1 for at in times)
            mode = "right"
            print(name, asked, late, len(dataset.get_many([1, 2])), flush=True)
        os._exit(0)
    """
    done = run(code, photos)
    # Opening a dataset tries a busy server only three times, whatever `max_attempts` is.
    names = ["many", "sample", "labels", "keys"]
    assert done.stdout.splitlines() == [f"{name} True 0 2" for name in names], done


def test_a_drip_ends_with_an_error_that_says_so(photos: Path) -> None:
    code = """
        mode = "drip"
        try:
            sp.Dataset(url, storage_options={"stall_timeout": "500ms", "max_attempts": 2})
        except OSError as error:
            print(error, flush=True)
        os._exit(0)
    """
    done = run(code, photos)
    assert "slower than the option `min_rate` allows (1000 bytes/s)" in done.stdout and "attempt 2" in done.stdout, done


def test_a_fork_during_requests_reads_by_itself(photos: Path) -> None:
    code = """
        dataset = sp.Dataset(url)
        stop = threading.Event()
        def read():
            while not stop.is_set():
                fresh = sp.Dataset(url)
                for batch in sp.Loader(fresh, 8, image="rrc32"):
                    pass
        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for _ in range(10):
            time.sleep(0.05)
            child = os.fork()
            if child == 0:
                # The server runs in the parent.
                os._exit(0 if dataset[3]["__key__"] and len(sp.Dataset(url)) == len(dataset) else 1)
            deadline = time.monotonic() + 60
            while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
                time.sleep(0.01)
            print("read" if ended == (child, 0) else f"ended as {ended}", flush=True)
        stop.set()
        for reader in readers:
            reader.join()
        os._exit(0)
    """
    done = run(code, photos)
    assert done.stdout == "read\n" * 10, done


@pytest.mark.parametrize("far", [False, True])
def test_many_loaders_in_one_process_leave_nothing(photos: Path, far: bool) -> None:
    count = int(os.environ.get("SHARDPACK_MANY_LOADERS", "300"))

    def left() -> tuple[int, int, int]:
        gc.collect()
        statm = Path("/proc/self/statm").read_text().split()
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), int(statm[1]) * 4096

    def settled(most: tuple[int, int]) -> tuple[int, int, int]:
        deadline = time.monotonic() + 30
        while any(now > limit for now, limit in zip(left()[:2], most, strict=True)) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left()

    with ranges()(photos) as server:
        # A loader that is dropped must cancel its requests.
        server.server.handle_error = lambda *_: None
        path = server.url if far else photos

        def make(times: int) -> None:
            for number in range(times):
                loader = sp.Loader(sp.Dataset(path), 8, image="rrc32", threads=2)
                # Start every second loader, and drop it in the middle of an epoch.
                if number % 2:
                    next(iter(loader))

        make(50)
        fds, threads, memory = settled((10_000, 10_000))
        make(count // 3 if far else count)
        # Threads of abandoned requests and of the server end a little later. Both ends and a thread of each kept-alive
        # connection are in this process. A loader that leaks anything would leak it 100 times.
        after = settled((fds + 32, threads + 24))
    assert after[0] <= fds + 32 and after[1] <= threads + 24, (after, fds, threads)
    assert after[2] - memory < 64 << 20, (after[2] - memory) / 2**20


def _certificates(folder: Path) -> Callable[..., Path]:
    """Makes a certificate authority in a folder. Returns a function that issues certificates."""

    def openssl(*arguments: str) -> None:
        done = subprocess.run(["openssl", *arguments], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    basics = ["-addext", "basicConstraints=critical,CA:TRUE"]
    openssl("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=tests", "-days", "2", *basics)

    def make(name: str, host: str, *dates: str) -> Path:
        openssl("req", *new, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (folder / "index.txt").write_text("")
        (folder / "serial").write_text(name.encode().hex()[:16].ljust(16, "0") + "\n")
        (folder / "it.cnf").write_text(
            "[ca]\ndefault_ca=it\n[it]\ndatabase=index.txt\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\n"
            f"policy=any\nx509_extensions=ext\n[any]\ncommonName=supplied\n[ext]\nsubjectAltName={host}\n"
        )
        signed = ["-in", f"{name}.csr", "-out", f"{name}.pem", *(dates or ("-days", "2"))]
        openssl("ca", "-batch", "-config", "it.cnf", "-cert", "ca.pem", "-keyfile", "ca.key", *signed)
        return folder / f"{name}.pem"

    return make


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Issues certificates from an authority trusted by this process."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    make = _certificates(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    return make


@pytest.mark.parametrize(
    ("host", "dates", "reason"),
    [
        ("IP:127.0.0.1", (), None),
        ("DNS:other.example", (), "not valid for name"),
        ("IP:127.0.0.1", ("-startdate", "20200101000000Z", "-enddate", "20210101000000Z"), "certificate expired"),
        ("IP:127.0.0.1", ("-startdate", "20400101000000Z", "-enddate", "20410101000000Z"), "not valid yet"),
    ],
)
def test_certificates_are_checked(
    photos: Path, trusted: Callable[..., Path], host: str, dates: tuple[str, ...], reason: str | None
) -> None:
    made = trusted("server", host, *dates)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, made.with_suffix(".key"))
    with ranges()(photos) as server:
        # Print nothing, because clients are expected to disconnect.
        server.server.handle_error = lambda *_: None
        server.server.socket = context.wrap_socket(server.server.socket, server_side=True)
        url = server.url.replace("http://", "https://")
        if reason is None:
            assert len(sp.Dataset(url)) == len(sp.Dataset(photos))
            return
        with pytest.raises(OSError, match=f"cannot make a secure connection to `127.0.0.1:.*{reason}.*attempt 1"):
            sp.Dataset(url)


@pytest.fixture
def answering() -> Iterator[Callable[[bytes], tuple[int, list[int]]]]:
    """Starts servers that answer every request with the same bytes, and counts their connections."""
    sockets: list[socket.socket] = []

    def start(answer: bytes) -> tuple[int, list[int]]:
        listening = socket.create_server(("127.0.0.1", 0))
        sockets.append(listening)
        seen: list[int] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                seen.append(1)
                with connection:
                    try:
                        connection.recv(4096)
                        connection.sendall(answer)
                    except OSError:
                        continue

        threading.Thread(target=serve, daemon=True).start()
        return listening.getsockname()[1], seen

    yield start
    for each in sockets:
        each.close()


@pytest.mark.parametrize(
    ("answer", "reason", "attempts"),
    [
        (b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n", "does not use TLS on this port.*attempt 1", 1),
        (bytes(range(256)) * 20, "does not use TLS on this port.*attempt 1", 1),
        (bytes.fromhex("15030100020246"), "cannot make a secure connection.*ProtocolVersion.*attempt 1", 1),
        (b"\x16\x03\x03", "cannot connect.*handshake.*attempt 3", 3),
        (b"", "cannot connect.*attempt 3", 3),
    ],
)
def test_what_is_no_tls_is_said_soon(
    answering: Callable[[bytes], tuple[int, list[int]]], answer: bytes, reason: str, attempts: int
) -> None:
    port, seen = answering(answer)
    begun = time.monotonic()
    with pytest.raises(OSError, match=f"(?s){reason}"):
        sp.Dataset(f"https://127.0.0.1:{port}/train")
    assert len(seen) == attempts and time.monotonic() - begun < 10


def test_no_secret_of_a_url_is_repeated(tmp_path: Path) -> None:
    urls = ["s3://ann:hunter2@bucket/x", "s3://hunter2@bucket/x", "https://h/x?X-Amz-Signature=hunter2"]
    urls.append("s3://b/x#hunter2")
    calls: list[Callable[[str], object]] = [
        sp.Dataset,
        sp.verify,
        sp.Writer,
        sp.merge,
        lambda url: sp.pack(url, tmp_path / "out"),
        lambda url: sp.pack(tmp_path, url),
        lambda url: sp.plan(url, tmp_path / "out", parts=2),
        lambda url: sp.report(url),
        lambda url: sp.add(url, tmp_path),
        lambda url: sp.remove(url, ["a"]),
        lambda url: sp.compact(url),
        lambda url: sp.convert("webdataset", url, tmp_path / "out"),
        lambda url: sp.convert("webdataset", tmp_path, url),
    ]
    for url in urls:
        for call in calls:
            with pytest.raises((ValueError, OSError, RuntimeError, TypeError)) as caught:
                call(url)
            assert "hunter2" not in str(caught.value), caught.value
