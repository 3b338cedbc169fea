"""What goes between the caller and the reader process: requests, and replies in frames, all of it plain data.

JSON and not pickle: a parser that a file has taken over must not be able to run anything in the process of the caller.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import IO, Any

from clew.core.types import Document, Section
from clew.index.read.process.limits import ReadLimits

READY, STEP, PART, DONE, REFUSED, MISSING = b"r", b"s", b"p", b"d", b"x", b"m"  # kinds of replies
NEXT = b"n"  # asks for what follows a PART
EXPORT = "chat export"  # in the place of a suffix: the uri is the path of an export, which is opened there
_FRAME = struct.Struct("<cQ")
_SIZE = struct.Struct("<QQ")
_SECTION_FIELDS = tuple(each.name for each in fields(Section))
_DOCUMENT_FIELDS = tuple(each.name for each in fields(Document))
_TIMES, _SETS = frozenset({"at", "created", "updated"}), frozenset({"access"})


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A file to be read: the suffix of its reader, its uri and name, the limits, and options of the reader."""

    suffix: str
    uri: str
    name: str
    limits: ReadLimits
    options: Mapping[str, str] = field(default_factory=dict)


class Closed(Exception):
    """The other side has closed its end."""


def write_request(stream: IO[bytes], request: ReadRequest, data: bytes) -> None:
    """Writes a request and the bytes of the file."""
    head = _dump(asdict(request))
    stream.write(_SIZE.pack(len(head), len(data)) + head)
    stream.write(data)
    stream.flush()


def read_request(stream: IO[bytes]) -> tuple[ReadRequest, bytes]:
    """The next request and the bytes of its file."""
    head, size = _SIZE.unpack(_read_exactly(stream, _SIZE.size))
    values = _load(_read_exactly(stream, head))
    return ReadRequest(**values | {"limits": ReadLimits(**values["limits"])}), _read_exactly(stream, size)


def ask_for_next(stream: IO[bytes]) -> None:
    """Asks for what follows a part."""
    stream.write(NEXT)
    stream.flush()


def wait_for_next(stream: IO[bytes]) -> None:
    """Waits until the caller asks for what follows a part."""
    _read_exactly(stream, len(NEXT))


def write_reply(stream: IO[bytes], kind: bytes, value: Any = None) -> None:
    """Writes one reply."""
    body = _dump(value)
    stream.write(_FRAME.pack(kind, len(body)))
    stream.write(body)
    stream.flush()


def read_reply(stream: IO[bytes]) -> tuple[bytes, Any]:
    """The kind of the next reply, and its value."""
    kind, size = _FRAME.unpack(_read_exactly(stream, _FRAME.size))
    return kind, _load(_read_exactly(stream, size))


def encode_document(document: Document) -> dict[str, Any]:
    """The document as JSON values."""
    sections = [[_encode(name, getattr(each, name)) for name in _SECTION_FIELDS] for each in document.sections]
    values = {name: _encode(name, getattr(document, name)) for name in _DOCUMENT_FIELDS if name != "sections"}
    return {**values, "meta": dict(document.meta), "sections": sections}


def decode_document(values: Mapping[str, Any]) -> Document:
    """The document of these JSON values."""
    sections = tuple(
        Section(*(_decode(name, value) for name, value in zip(_SECTION_FIELDS, each, strict=True)))
        for each in values["sections"]
    )
    given = {name: _decode(name, values[name]) for name in _DOCUMENT_FIELDS if name != "sections"}
    return Document(**given, sections=sections)


def _encode(name: str, value: Any) -> Any:
    if value is None:
        return None
    return value.isoformat() if name in _TIMES else sorted(value) if name in _SETS else value


def _decode(name: str, value: Any) -> Any:
    if value is None:
        return None
    return datetime.fromisoformat(value) if name in _TIMES else frozenset(value) if name in _SETS else value


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _load(data: bytes) -> Any:
    return json.loads(data.decode("utf-8", "surrogatepass"))


def _read_exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise Closed
    return data
