"""Tests that datasets behind a URL give the same results as on disk."""

from __future__ import annotations

import datetime
import http.server
import importlib.util
import ipaddress
import multiprocessing
import pickle
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardpack as sp


def _server() -> Any:
    place = Path(__file__).resolve().parents[2] / "tests" / "python" / "ranges.py"
    spec = importlib.util.spec_from_file_location("ranges", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Server


@pytest.fixture
def url(photos: Path) -> Iterator[str]:
    with _server()(photos) as server:
        yield server.url


def same(here: dict[str, Any], there: dict[str, Any]) -> bool:
    return here.keys() == there.keys() and all(np.array_equal(here[key], there[key]) for key in here)


def test_samples_columns_and_batches_are_the_same(photos: Path, url: str) -> None:
    here, there = sp.Dataset(photos), sp.Dataset(url, storage_options={"max_in_flight": 16, "hedge": False})
    assert there.path == url and url in repr(there) and there.id == here.id
    assert all(same(here[i], there[i]) for i in (0, 7, -1))
    assert np.array_equal(here.labels, there.labels)
    assert there.index_of(here.keys[5]) == 5
    batches = [
        [(batch.indices.tolist(), batch["image"].tobytes()) for batch in sp.Loader(dataset, batch_size=8, image="rrc32")]
        for dataset in (here, there)
    ]
    assert batches[0] == batches[1]
    loader = sp.Loader(there, batch_size=8, image="rrc32")
    assert len(list(loader)) == len(loader)
    stats = loader.stats()
    assert stats["requests"] > 2 and stats["retried_requests"] == 0 and stats["fetched_bytes"] > 0
    assert sp.Loader(here, batch_size=8).stats()["requests"] == 0
    assert sp.verify(url)["whole"]
    assert str(sp.concat([there, there]).path).startswith(url)


def test_it_is_pickled_with_its_options(url: str) -> None:
    dataset = sp.Dataset(url, storage_options={"max_attempts": 4})
    again = pickle.loads(pickle.dumps(dataset))
    assert again.path == url and again.id == dataset.id and same(again[3], dataset[3])


def _in_a_fork(dataset: sp.Dataset, answer: Any) -> None:
    answer.put(dataset.keys[3])


def test_a_fork_opens_it_again(url: str) -> None:
    dataset = sp.Dataset(url)
    key = dataset.keys[3]
    context = multiprocessing.get_context("fork")
    answer = context.Queue()
    process = context.Process(target=_in_a_fork, args=(dataset, answer))
    process.start()
    assert answer.get(timeout=60) == key
    process.join(60)
    assert process.exitcode == 0


def test_what_is_wrong_is_said(photos: Path, url: str) -> None:
    with pytest.raises(sp.UsageError, match="`colour`"):
        sp.Dataset(url, storage_options={"colour": "blue"})
    with pytest.raises(sp.UsageError, match="storage option `hedge` applies only to URLs, but the path is local"):
        sp.Dataset(photos, storage_options={"hedge": True})
    with pytest.raises(sp.UsageError, match="a time such as"):
        sp.Dataset(url, storage_options={"stall_timeout": "soon"})
    with pytest.raises(TypeError, match="storage_options"):
        sp.Dataset(url, storage_options=["hedge"])  # type: ignore[arg-type]
    with pytest.raises(sp.UsageError, match="no manifest.json and no shards"):
        sp.Dataset(url + "/nothing")


def test_a_certificate_that_nobody_vouches_for_is_refused_at_once(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="cryptography is not installed")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now, host = datetime.datetime.now(datetime.timezone.utc), ipaddress.ip_address("127.0.0.1")
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    made = made.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.IPAddress(host)]), critical=False)
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "both.pem").write_bytes(private + made.sign(key, hashes.SHA256()).public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "both.pem")

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *of: object) -> None:
            """Prints nothing, because clients are expected to disconnect."""

    with Server(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"https://127.0.0.1:{server.server_port}/train"
        refused = f"cannot make a secure connection to `127.0.0.1:{server.server_port}`: .*certificate.*attempt 1"
        with pytest.raises(OSError, match=refused) as caught:
            sp.Dataset(url)
        assert f"`{url}/manifest.json`" in str(caught.value)
        elsewhere = {"endpoint": url.removesuffix("/train"), "aws_skip_signature": True}
        with pytest.raises(OSError, match=refused) as caught:
            sp.Dataset("s3://bucket/train", storage_options=elsewhere)
        assert "`s3://bucket/train/manifest.json`" in str(caught.value)
        server.shutdown()
