"""Conversion by Docling: the bytes of a file in, a DoclingDocument as plain data out.

The extension of docling-rs is loaded without its Python package, which would import docling-core and with it pandas:
two to three seconds for what is not used here. If the user has installed Docling itself, that is used instead.
"""

import importlib.util
import io
import json
import sys
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

from clew.core.errors import DriverMissing, SourceError
from clew.index.read.guard import PASSWORD_PROTECTED, wrap_library_errors

DOCLING_SUFFIXES = frozenset(
    {".docx", ".pptx", ".xlsx", ".adoc", ".asciidoc"}
)  # converted by Docling itself if it is installed
_EXTENSION_MODULE = "docling_rs._native"


def convert_to_docling(data: bytes, *, uri: str, name: str, format_name: str) -> dict[str, Any]:
    """The DoclingDocument of a file; the suffix of its name says the format."""
    suffix = PurePath(name).suffix.lower()
    with wrap_library_errors(uri, format_name=format_name):
        if suffix in DOCLING_SUFFIXES and (converted := _convert_with_docling(data, name)) is not None:
            return converted
        document: dict[str, Any] = json.loads(_convert_with_extension(_find_extension(), data, name, uri=uri))
        return document


def _convert_with_extension(extension: Path, data: bytes, name: str, *, uri: str) -> str:
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
