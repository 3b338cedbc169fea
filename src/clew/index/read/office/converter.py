"""The doors to Docling: the bytes of a file in, a DoclingDocument as plain data out.

docling-rs is loaded without its Python package, which would import docling-core and with it pandas: two to three
seconds for what is not used here. Where the user has installed Docling itself, that is asked instead.
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
from clew.index.read.guard import PROTECTED, gist, sealed

LEGACY = frozenset({".doc", ".dot", ".xls", ".xlt", ".ppt", ".pps", ".pot", ".msg", ".rtf"})
BY_DOCLING = frozenset({".docx", ".pptx", ".xlsx", ".adoc", ".asciidoc"})  # what the older converter is asked for
SECONDS = 120
MEMORY = 4_000_000_000
_EXTENSION = "docling_rs._native"
# A broken file of an older Office can make the parser ask for more memory than there is, which ends the process it is
# in: those are converted in a process of their own. It needs nothing but the extension.
_CHILD = f"""
import importlib.util, sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
except (ImportError, ValueError, OSError):
    pass
spec = importlib.util.spec_from_file_location("{_EXTENSION}", sys.argv[1])
native = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native)
try:
    result = native.DocumentConverter().convert_bytes(sys.argv[2], sys.stdin.buffer.read())
except Exception as error:
    sys.exit(f"{{type(error).__name__}}: {{error}}")
sys.stdout.buffer.write(result.document_json.encode())
"""


def convert(data: bytes, *, uri: str, name: str, what: str) -> dict[str, Any]:
    """The DoclingDocument of a file's bytes; the suffix of the name says what they are."""
    suffix = PurePath(name).suffix.lower()
    with sealed(uri, what=what):
        if suffix in BY_DOCLING and (made := _by_docling(data, name)) is not None:
            return made
        where = _extension()
        spelled = _in_child(where, data, name) if suffix in LEGACY else _here(where, data, name, uri=uri)
        found: dict[str, Any] = json.loads(spelled)
        return found


def _here(where: Path, data: bytes, name: str, *, uri: str) -> str:
    native = _native(where)
    try:
        spelled: str = native.DocumentConverter().convert_bytes(name, data).document_json
    except native.EncryptionError as error:
        raise SourceError(uri, PROTECTED) from error
    return spelled


def _native(where: Path) -> ModuleType:
    """The extension, once a process: its package finds it here if it is imported later."""
    if (loaded := sys.modules.get(_EXTENSION)) is not None:
        return loaded
    spec = importlib.util.spec_from_file_location(_EXTENSION, where)
    if spec is None or spec.loader is None:
        raise DriverMissing(
            f"docling-rs cannot be loaded from {where}; install it again: pip install 'clew[documents]'"
        )
    native = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(native)
    sys.modules[_EXTENSION] = native
    return native


def _extension() -> Path:
    """The file of docling-rs's extension, found without importing its package."""
    package = importlib.util.find_spec("docling_rs")
    for folder in (package.submodule_search_locations or ()) if package else ():
        for file in sorted(Path(folder).glob("_native*")):
            if file.suffix in (".so", ".pyd"):
                return file
    raise DriverMissing("office documents are read by docling-rs, which is not here: pip install 'clew[documents]'")


def _in_child(where: Path, data: bytes, name: str) -> str:
    command = [sys.executable, "-I", "-S", "-c", _CHILD, str(where), f"source{PurePath(name).suffix}"]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"converting it took more than {SECONDS} seconds") from error
    if done.returncode == 0:
        return done.stdout.decode("utf-8")
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    if done.returncode != 1 or not said:
        raise ValueError("it is broken: converting it ended the converter")
    raise ValueError(gist(ValueError(said[-1].partition(": ")[2] or said[-1])))


def _by_docling(data: bytes, name: str) -> dict[str, Any] | None:
    """The DoclingDocument that the user's own Docling makes; None where there is none, or one that does not load."""
    if importlib.util.find_spec("docling") is None:
        return None
    try:
        from docling.datamodel.base_models import DocumentStream
        from docling.document_converter import DocumentConverter
    except ImportError:  # parts of it need packages that are not installed with every choice of its extras
        return None
    stream = DocumentStream(name=name, stream=io.BytesIO(data))
    found: dict[str, Any] = DocumentConverter().convert(stream).document.export_to_dict()
    return found
