"""Tests sources and datasets on Azurite, an emulator of Azure's store. The tests run only if the environment variable
`AZURITE` names its program. Run `npm install azurite`, and set AZURITE=node_modules/.bin/azurite-blob.
"""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardpack as sp

# The emulator's account name and key, which its documentation publishes.
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@pytest.fixture
def azure(tmp_path: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    program = os.environ.get("AZURITE")
    if not program:
        pytest.skip("AZURITE names no emulator of Azure")
    blob = pytest.importorskip("azure.storage.blob", reason="azure-storage-blob is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "--location", tmp_path / "azurite", "--blobHost", "127.0.0.1", "--blobPort", str(port), "--silent", "--skipApiVersionCheck"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            assert process.poll() is None, "the emulator has ended"
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        endpoint = f"http://127.0.0.1:{port}/{_ACCOUNT}"
        container = blob.ContainerClient(endpoint, "data", credential=_KEY)
        container.create_container()
        options = {"azure_storage_account_name": _ACCOUNT, "azure_storage_account_key": _KEY, "azure_storage_endpoint": endpoint, "allow_http": True}
        yield container, options
    finally:
        process.terminate()
        process.wait()


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_a_container_is_packed_into_a_container(azure: tuple[Any, dict[str, Any]], tmp_path: Path) -> None:
    container, options = azure
    source = tmp_path / "source"
    source.mkdir()
    for number in range(12):
        np.save(source / f"{number:02}.npy", np.arange(number, number + 20 * 30 * 8, dtype=np.uint16).reshape(20, 30, 8))
        container.upload_blob(f"cubes/{number:02}.npy", (source / f"{number:02}.npy").read_bytes())
    sp.pack(source, tmp_path / "here", shard_size="16KiB")
    sp.pack("az://data/cubes", tmp_path / "there", shard_size="16KiB", storage_options=options)
    assert digests(tmp_path / "there") == digests(tmp_path / "here")
    where = {"spool": tmp_path / "spool", "storage_options": options}
    for part in ((1, 2), (2, 2)):
        sp.pack("az://data/cubes", "az://data/train", shard_size="16KiB", part=part, **where)
    assert sp.merge("az://data/train", **where)["samples"] == 12
    found = {
        entry.name.removeprefix("train/"): hashlib.sha256(container.download_blob(entry.name).readall()).hexdigest()
        for entry in container.list_blobs("train/")
    }
    assert found == digests(tmp_path / "here")
    assert sp.verify("az://data/train", deep=True, storage_options=options)["whole"]
    # Change the file without changing its size.
    changed = bytearray((source / "05.npy").read_bytes())
    changed[-1] ^= 1
    sp.plan("az://data/cubes", tmp_path / "out", 1, listing=tmp_path / "listing", storage_options=options)
    container.upload_blob("cubes/05.npy", bytes(changed), overwrite=True)
    with pytest.raises(Exception, match="az://data/cubes/05.npy` has changed since it was listed"):
        sp.pack("az://data/cubes", tmp_path / "out", listing=tmp_path / "listing", storage_options=options)
