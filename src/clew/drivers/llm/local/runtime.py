"""A model in memory: one context that answers one request at a time, and its tokenizer."""

import atexit
import ctypes
import http.client
import json
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from clew.core.errors import DriverFailed

CONTEXT = 8192  # tokens of prompt and answer together: what SmolLM2 was trained on
GOODBYE = 60.0  # seconds to finish reading a prompt, which nothing can interrupt
SEED = 7  # the same answer to the same question, whatever the temperature


class Runtime:
    """The weights of a file, loaded into llama.cpp with one thread."""

    def __init__(self, path: Path, *, context: int | None = None) -> None:
        from xllamacpp import CommonParams, Server

        params = CommonParams()
        params.model.path = str(path)
        self.context = params.n_ctx = context or CONTEXT
        params.n_parallel = 1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
        params.n_threads_http = 1
        params.verbosity = -1
        params.warmup = params.ui = False
        params.cache_ram_mib = 0
        # It listens on loopback, unasked; nobody else is to find it of use.
        self._key = secrets.token_urlsafe(32)
        params.api_keys = [self._key]
        try:
            self._server = Server(params)
        except Exception as error:
            raise DriverFailed(f"{path.name} is no model that can be loaded ({error}); give another file") from None
        self._lock = threading.Lock()
        self._over = threading.Event()

    def chat(self, request: Mapping[str, Any], heard: Callable[[dict[str, Any]], bool]) -> None:
        """Tells `heard` every event of an answer, in OpenAI's form, until the end or until it returns True."""

        def said(event: dict[str, Any]) -> bool:
            return self._over.is_set() or heard(event)

        asked = {"seed": SEED, **request, "stream": True, "stream_options": {"include_usage": True}}
        with self._lock:
            self._server.handle_chat_completions(asked, said)

    def count(self, text: str) -> int:
        """How many tokens a text has, special ones left out."""
        at = urlsplit(self._server.listening_address)
        connection = http.client.HTTPConnection(at.hostname or "127.0.0.1", at.port, timeout=60)
        try:
            body = json.dumps({"content": text.encode("utf-8", "replace").decode(), "add_special": False})
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
            connection.request("POST", "/tokenize", body, headers)
            return len(json.loads(connection.getresponse().read())["tokens"])
        except (OSError, ValueError, KeyError) as error:
            raise DriverFailed(f"the local model's tokenizer does not answer ({error}); try again") from None
        finally:
            connection.close()

    def stop(self) -> None:
        """Ends what it is saying: a thread that is inside the model when the program ends would bring it down."""
        self._over.set()
        if self._lock.acquire(timeout=GOODBYE):
            self._lock.release()

    def forget(self) -> None:
        """Keeps the loaded model from being taken down: after a fork its threads are not here to be ended."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._server))


_loaded: dict[tuple[Path, int], Runtime] = {}
_loading = threading.Lock()


def runtime(path: Path) -> Runtime:
    """The model of a file, loaded once a process."""
    with _loading:
        key = (path, os.getpid())
        if key not in _loaded:
            _loaded[key] = Runtime(path)
        return _loaded[key]


def _leaving() -> None:
    for (_, process), each in _loaded.items():
        if process == os.getpid():
            each.stop()


def _forked() -> None:
    global _loading
    _loading = threading.Lock()
    for each in _loaded.values():
        each.forget()
    libc = ctypes.CDLL(None)
    if _loaded and hasattr(libc, "on_exit"):
        # llama.cpp waits at the end of a process for a thread that only the parent has: leave without its goodbye.
        libc.on_exit(libc._exit, None)


atexit.register(_leaving)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
