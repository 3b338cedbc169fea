"""A llama.cpp model in this process: one context, which answers one request at a time, and its tokenizer."""

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

CONTEXT_TOKENS = 8192  # prompt and answer together, as SmolLM2 was trained
STOP_SECONDS = 60.0  # for the model to finish reading a prompt, which cannot be interrupted
SEED = 7  # fixed, so that the same request gets the same answer at any temperature


class Runtime:
    """The weights of a file, loaded into llama.cpp with one thread."""

    def __init__(self, path: Path, *, context: int | None = None) -> None:
        from xllamacpp import CommonParams, Server

        params = CommonParams()
        params.model.path = str(path)
        self.context = params.n_ctx = context or CONTEXT_TOKENS
        params.n_parallel = 1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
        params.n_threads_http = 1
        params.verbosity = -1
        params.warmup = params.ui = False
        params.cache_ram_mib = 0
        # llama.cpp always listens on loopback; a random key keeps others out.
        self._key = secrets.token_urlsafe(32)
        params.api_keys = [self._key]
        try:
            self._server = Server(params)
        except Exception as error:
            raise DriverFailed(f"{path.name} cannot be loaded as a model ({error}); give another GGUF file") from None
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    def chat(self, request: Mapping[str, Any], on_event: Callable[[dict[str, Any]], bool]) -> None:
        """Call `on_event` with each event of an answer, in OpenAI's format, until the end or until it returns True."""

        def handle_event(event: dict[str, Any]) -> bool:
            return self._stopping.is_set() or on_event(event)

        options = {"seed": SEED, **request, "stream": True, "stream_options": {"include_usage": True}}
        with self._lock:
            self._server.handle_chat_completions(options, handle_event)

    def count(self, text: str) -> int:
        """Count the tokens in a text, without special ones."""
        address = urlsplit(self._server.listening_address)
        connection = http.client.HTTPConnection(address.hostname or "127.0.0.1", address.port, timeout=60)
        try:
            body = json.dumps({"content": text.encode("utf-8", "replace").decode(), "add_special": False})
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
            connection.request("POST", "/tokenize", body, headers)
            return len(json.loads(connection.getresponse().read())["tokens"])
        except (OSError, ValueError, KeyError) as error:
            raise DriverFailed(f"the local model's tokenizer does not answer ({error}); try again") from None
        finally:
            connection.close()

    def stop_answer(self) -> None:
        """End the current answer: a thread inside the model would crash the program at exit."""
        self._stopping.set()
        if self._lock.acquire(timeout=STOP_SECONDS):
            self._lock.release()

    def prevent_unload(self) -> None:
        """Leak a reference, so that a forked child never destroys the model: the child lacks the threads to join."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._server))


_loaded: dict[tuple[Path, int], Runtime] = {}
_loading = threading.Lock()


def load_runtime(path: Path) -> Runtime:
    """Return the model of a file, loading it once per process."""
    with _loading:
        key = (path, os.getpid())
        if key not in _loaded:
            _loaded[key] = Runtime(path)
        return _loaded[key]


def _stop_all_answers() -> None:
    for (_, pid), runtime in _loaded.items():
        if pid == os.getpid():
            runtime.stop_answer()


def _detach_after_fork() -> None:
    global _loading
    _loading = threading.Lock()
    for runtime in _loaded.values():
        runtime.prevent_unload()
    libc = ctypes.CDLL(None)
    if _loaded and hasattr(libc, "on_exit"):
        # At exit llama.cpp joins a thread that only the parent has: leave without running its destructors.
        libc.on_exit(libc._exit, None)


atexit.register(_stop_all_answers)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_detach_after_fork)
