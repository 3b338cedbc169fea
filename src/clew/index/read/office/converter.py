"""Conversion by Docling: the bytes of a file in, a DoclingDocument as plain data out.

The extension of docling-rs is loaded without its Python package, which would import docling-core and with it pandas:
two to three seconds for what is not used here. If the user has installed Docling itself, that is used instead.
"""

import importlib.util
import io
import json
import subprocess
import sys
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

from clew.core.errors import DriverMissing, SourceError
from clew.index.read.guard import PASSWORD_PROTECTED, shorten_error_message, wrap_library_errors

LEGACY_SUFFIXES = frozenset({".doc", ".dot", ".xls", ".xlt", ".ppt", ".pps", ".pot", ".msg", ".rtf"})
DOCLING_SUFFIXES = frozenset(
    {".docx", ".pptx", ".xlsx", ".adoc", ".asciidoc"}
)  # converted by Docling itself if it is installed
TIMEOUT_SECONDS = 120
MAX_MEMORY_BYTES = 4_000_000_000
_EXTENSION_MODULE = "docling_rs._native"
# A broken file of an older Office can make the parser allocate more memory than there is, which kills its process:
# those are converted in a subprocess, which needs nothing but the extension.
_SUBPROCESS_CODE = f"""
import importlib.util, sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({MAX_MEMORY_BYTES}, {MAX_MEMORY_BYTES}))
except (ImportError, ValueError, OSError):
    pass
spec = importlib.util.spec_from_file_location("{_EXTENSION_MODULE}", sys.argv[1])
native = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native)
try:
    result = native.DocumentConverter().convert_bytes(sys.argv[2], sys.stdin.buffer.read())
except Exception as error:
    sys.exit(f"{{type(error).__name__}}: {{error}}")
sys.stdout.buffer.write(result.document_json.encode())
"""


def convert_to_docling(data: bytes, *, uri: str, name: str, format_name: str) -> dict[str, Any]:
    """The DoclingDocument of a file; the suffix of its name says the format."""
    suffix = PurePath(name).suffix.lower()
    with wrap_library_errors(uri, format_name=format_name):
        if suffix in DOCLING_SUFFIXES and (converted := _convert_with_docling(data, name)) is not None:
            return converted
        extension = _find_extension()
        if suffix in LEGACY_SUFFIXES:
            text = _convert_in_subprocess(extension, data, name)
        else:
            text = _convert_in_process(extension, data, name, uri=uri)
        document: dict[str, Any] = json.loads(text)
        return document


def _convert_in_process(extension: Path, data: bytes, name: str, *, uri: str) -> str:
    native = _load_extension(extension)
    try:
        text: str = native.DocumentConverter().convert_bytes(name, data).document_json
    except native.EncryptionError as error:
        raise SourceError(uri, PASSWORD_PROTECTED) from error
    return text


def _load_extension(extension: Path) -> ModuleType:
    """The extension module, loaded once per process; its package finds it in sys.modules if it is imported later."""
    if (loaded := sys.modules.get(_EXTENSION_MODULE)) is not None:
        return loaded
    spec = importlib.util.spec_from_file_location(_EXTENSION_MODULE, extension)
    if spec is None or spec.loader is None:
        raise DriverMissing(
            f"docling-rs cannot be loaded from {extension}; install it again: pip install 'clew[documents]'"
        )
    native = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(native)
    sys.modules[_EXTENSION_MODULE] = native
    return native


def _find_extension() -> Path:
    """The path of docling-rs's extension, found without importing its package."""
    package = importlib.util.find_spec("docling_rs")
    for folder in (package.submodule_search_locations or ()) if package else ():
        for file in sorted(Path(folder).glob("_native*")):
            if file.suffix in (".so", ".pyd"):
                return file
    raise DriverMissing("reading office documents needs docling-rs: pip install 'clew[documents]'")


def _convert_in_subprocess(extension: Path, data: bytes, name: str) -> str:
    command = [sys.executable, "-I", "-S", "-c", _SUBPROCESS_CODE, str(extension), f"source{PurePath(name).suffix}"]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"converting it took more than {TIMEOUT_SECONDS} seconds") from error
    if done.returncode == 0:
        return done.stdout.decode("utf-8")
    errors = done.stderr.decode("utf-8", "replace").strip().splitlines()
    if done.returncode != 1 or not errors:
        raise ValueError("it is broken: the converter crashed on it")
    raise ValueError(shorten_error_message(ValueError(errors[-1].partition(": ")[2] or errors[-1])))


def _convert_with_docling(data: bytes, name: str) -> dict[str, Any] | None:
    """The DoclingDocument made by the user's own Docling; None if it is not installed or cannot be imported."""
    if importlib.util.find_spec("docling") is None:
        return None
    try:
        from docling.datamodel.base_models import DocumentStream
        from docling.document_converter import DocumentConverter
    except ImportError:  # some of its modules need extras that may not be installed
        return None
    stream = DocumentStream(name=name, stream=io.BytesIO(data))
    document: dict[str, Any] = DocumentConverter().convert(stream).document.export_to_dict()
    return document
