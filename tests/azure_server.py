"""Azurite, the emulator of Azure's blob storage, where it is installed: `npm install azurite`, and its program named in
CLEW_TEST_AZURITE or on the path as `azurite-blob`."""

import base64
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from urllib.parse import urlencode
from urllib.request import Request, urlopen

AZURITE = shutil.which(os.environ.get("CLEW_TEST_AZURITE", "azurite-blob"))
ACCOUNT = "devstoreaccount1"  # of every Azurite, as is its key
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
VERSION = "2021-08-06"
SECONDS = 30.0  # to start


@contextmanager
def started_azure() -> Iterator[str]:
    """The address of a server without containers, which keeps all in memory."""
    assert AZURITE is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--silent", "--skipApiVersionCheck", "--inMemoryPersistence", "--disableTelemetry"]
    command = [AZURITE, *options, "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + SECONDS
            while process.poll() is None and time.monotonic() < deadline:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/{ACCOUNT}"
        finally:
            process.terminate()


def make_container(server: str, name: str) -> None:
    """Makes an empty container."""
    date = formatdate(usegmt=True)
    told = f"x-ms-date:{date}\nx-ms-version:{VERSION}\n/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    signed = hmac.new(base64.b64decode(KEY), f"PUT{chr(10) * 12}{told}".encode(), hashlib.sha256).digest()
    headers = {
        "x-ms-date": date,
        "x-ms-version": VERSION,
        "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(signed).decode()}",
        "Content-Length": "0",
    }
    with urlopen(Request(f"{server}/{name}?restype=container", method="PUT", headers=headers)):
        pass


def make_address(server: str, container: str) -> str:
    """The address of a collection there, with the key and everything else that is needed."""
    options = {
        "azure_storage_account_name": ACCOUNT,
        "azure_storage_account_key": KEY,
        "azure_storage_endpoint": server,
        "allow_http": "true",
    }
    return f"az://{container}/team?{urlencode(options)}"
