"""Requests to the reader process, and its replies in frames.

JSON, not pickle: a hijacked parser must not be able to run code in the caller's process.
"""

import json
import struct
from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import IO, Any

from clew.core.types import Document, Section
from clew.index.read.process.limits import ReadLimits

READY, STEP, PART, DONE, REFUSED, MISSING = b"r", b"s", b"p", b"d", b"x", b"m"  # kinds of replies
NEXT = b"n"  # asks for the reply after a PART
EXPORT = "chat export"  # instead of a suffix: the uri is the path of a chat export, which the process opens
_FRAME = struct.Struct("<cQ")
_SIZE = struct.Struct("<QQ")
_SECTION_FIELDS = tuple(each.name for each in fields(Section))
_DOCUMENT_FIELDS = tuple(each.name for each in fields(Document) if each.name != "sections")
_TIMES = frozenset({"at", "created", "updated"})


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A file to read: the suffix of its reader, its uri and name, the limits, and options of the reader."""

    suffix: str
    uri: str
    name: str
    limits: ReadLimits
    options: Mapping[str, str] = field(default_factory=dict)


class Closed(Exception):
    """The other side has closed its end of the pipe."""


def write_request(stream: IO[bytes], request: ReadRequest, data: bytes) -> None:
    """Write a request and the bytes of the file."""
    head = _dump(asdict(request))
    stream.write(_SIZE.pack(len(head), len(data)) + head)
    stream.write(data)
    stream.flush()


def read_request(stream: IO[bytes]) -> tuple[ReadRequest, bytes]:
    """Read the next request and the bytes of its file."""
    head, size = _SIZE.unpack(_read_exactly(stream, _SIZE.size))
    values = _load(_read_exactly(stream, head))
    return ReadRequest(**values | {"limits": ReadLimits(**values["limits"])}), _read_exactly(stream, size)


def ask_for_next(stream: IO[bytes]) -> None:
    """Ask the process for the reply after a part."""
    stream.write(NEXT)
    stream.flush()


def wait_for_next(stream: IO[bytes]) -> None:
    """Block until the caller asks for the reply after a part."""
    _read_exactly(stream, len(NEXT))


def write_reply(stream: IO[bytes], kind: bytes, value: Any = None) -> None:
    """Write a reply."""
    body = _dump(value)
    stream.write(_FRAME.pack(kind, len(body)))
    stream.write(body)
    stream.flush()


def read_reply(stream: IO[bytes]) -> tuple[bytes, Any]:
    """Read the kind and value of the next reply."""
    kind, size = _FRAME.unpack(_read_exactly(stream, _FRAME.size))
    return kind, _load(_read_exactly(stream, size))


def encode_document(document: Document) -> dict[str, Any]:
    """Encode a document as the value of a reply."""
    sections = [[getattr(each, name) for name in _SECTION_FIELDS] for each in document.sections]
    return {**{name: getattr(document, name) for name in _DOCUMENT_FIELDS}, "sections": sections}


def decode_document(values: Mapping[str, Any]) -> Document:
    """Decode a document from the value of a reply."""
    sections = tuple(Section(**_decode(dict(zip(_SECTION_FIELDS, each, strict=True)))) for each in values["sections"])
    return Document(**_decode({name: values[name] for name in _DOCUMENT_FIELDS}), sections=sections)


def _decode(values: dict[str, Any]) -> dict[str, Any]:
    """Decode times and access labels."""
    for name in _TIMES & values.keys():
        values[name] = values[name] and datetime.fromisoformat(values[name])
    return values | {"access": None if values["access"] is None else frozenset(values["access"])}


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, default=_to_json).encode("utf-8", "surrogatepass")


def _to_json(value: Any) -> Any:
    if isinstance(value, Set):
        return sorted(value)
    return dict(value) if isinstance(value, Mapping) else value.isoformat()


def _load(data: bytes) -> Any:
    return json.loads(data.decode("utf-8", "surrogatepass"))


def _read_exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise Closed
    return data
