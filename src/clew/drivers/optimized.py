"""Optimised ONNX graphs, kept in the user's cache folder: optimising one takes longer than loading it.

A kept graph belongs to one file as it was (path, size, time) and to one version of onnxruntime. It is loaded with the
same options as the file itself, and gives the same numbers. One that cannot be read is made again; where none can be
written, the file itself is loaded, every time.
"""

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

MIN_BYTES, MAX_BYTES = 1 << 20, 1 << 28  # of a file whose graph is kept: a small one loads at once
_log = logging.getLogger(__name__)


def open_session(file: Path, make_options: Callable[[], Any], *, providers: list[str], keep: bool) -> Any:
    """The model in a file, opened by onnxruntime; by its kept graph, which is made if there is none yet, if `keep`."""
    from onnxruntime import InferenceSession

    kept = _find_kept(file) if keep else None
    if kept is not None and (kept.is_file() or _optimize(file, kept, make_options())):
        try:
            return InferenceSession(str(kept), make_options(), providers=providers)
        except Exception as error:  # onnxruntime has one exception per status, without a common base
            _log.info("%s cannot be read (%s); it is removed", kept, error)
            with suppress(OSError):
                kept.unlink()
    return InferenceSession(str(file), make_options(), providers=providers)


def find_cache_folder() -> Path:
    """The folder of the kept graphs: in XDG_CACHE_HOME, by default .cache in the home folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clew" / "models"


def _find_kept(file: Path) -> Path | None:
    """Where the graph of a file is kept; None for a file that is too small or too large."""
    from onnxruntime import __version__ as version

    try:
        path, state = file.resolve(), file.stat()
        folder = find_cache_folder()
    except (OSError, RuntimeError):  # no home
        return None
    if not MIN_BYTES <= state.st_size <= MAX_BYTES:
        return None
    of_path = sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    of_state = sha256(f"{state.st_size} {state.st_mtime_ns} {version}".encode()).hexdigest()[:16]
    return folder / f"{of_path}-{of_state}.onnx"


def _optimize(file: Path, kept: Path, options: Any) -> bool:
    """Keeps the optimised graph of a file, whole or not at all, in place of an earlier one; whether that succeeded."""
    from onnxruntime import GraphOptimizationLevel, InferenceSession

    try:
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = Path(mkdtemp(dir=kept.parent)) / kept.name
        try:
            options.optimized_model_filepath = str(made)
            options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_EXTENDED  # of no one processor
            InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
            with made.open("rb+") as written:
                os.fsync(written.fileno())
            made.replace(kept)
        finally:
            for rest in made.parent.iterdir():
                rest.unlink()
            made.parent.rmdir()
        for earlier in kept.parent.glob(f"{kept.name.partition('-')[0]}-*"):
            if earlier != kept:
                earlier.unlink()
    except Exception as error:  # a full disk, a home that cannot be written; the file itself says what is wrong with it
        _log.info("the optimised graph of %s cannot be kept: %s", file, error)
        return kept.is_file()
    return True
