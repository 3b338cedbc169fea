"""A collection in one file: Parquet parts in a zip, which other tools can read without Clew.

A zip, not a tar, because its directory can be read without scanning gigabytes. The manifest is written last and has the
hash of every part, so a truncated file has none. Parts come in pairs, a batch of documents and its chunks: a writer or
reader holds one pair in memory.
"""

import hashlib
import json
import os
import secrets
import tempfile
import zipfile
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime
from itertools import accumulate, islice
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np

from clew.core.calibration import Calibration
from clew.core.errors import DriverFailed, DriverMissing, SourceError, StoreMismatch
from clew.core.stored import BundlePart, Manifest, PackedTerms, StoredDocument
from clew.core.suggest import format_count
from clew.core.thread import THREAD_KIND
from clew.core.time import from_iso, to_iso
from clew.core.types import Chunk, Document, Section, find_section_cycle
from clew.drivers.store.checks import check_stored_document
from clew.drivers.store.inspection import inspect_stored
from clew.drivers.store.rows import MAX_CHARS, MAX_CHUNKS, meta_to_json

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    raise DriverMissing(
        f'to export and restore, pyarrow is needed ({error}); install it with: pip install "clew[bundle]"'
    ) from error

FORMAT = 1
MANIFEST = "manifest.json"
AGAIN = "nothing was restored; copy it again, or make it again with `clew export`"
FORGED = "nothing was restored; make it again with `clew export`"  # its hash is right: it was not damaged in transfer
OnProgress = Callable[[int], None]
PRIVATE = 0o600


def write_bundle(
    path: Path,
    documents: Iterable[StoredDocument],
    *,
    embedder: str,
    dim: int,
    language: str,
    calibration: str = "",
    on_progress: OnProgress | None = None,
) -> Manifest:
    """Write an export and return its manifest; `on_progress` gets the number of documents so far.

    The file is readable only by its owner, and gets its name when it is complete: a killed process leaves nothing.
    """
    parts, count, chunks = list[BundlePart](), 0, 0
    with (
        _translate_errors(path),
        create_unnamed(path) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,  # Parquet is already compressed
    ):
        for number, batch in enumerate(_split_batches(documents), 1):
            batch_chunks = sum(len(stored.chunks) for stored in batch)
            for name, rows, data in (
                (f"documents-{number:05}.parquet", len(batch), documents_to_parquet(batch)),
                (f"chunks-{number:05}.parquet", batch_chunks, chunks_to_parquet(batch, dim)),
            ):
                archive.writestr(zipfile.ZipInfo(name), data)
                parts.append(BundlePart(name, rows, hashlib.sha256(data).hexdigest()))
            count, chunks = count + len(batch), chunks + parts[-1].rows
            if on_progress:
                on_progress(count)
        manifest = Manifest(embedder, dim, language, count, chunks, tuple(parts), FORMAT, calibration)
        archive.writestr(zipfile.ZipInfo(MANIFEST), json.dumps(asdict(manifest), indent=1))
    return manifest


def read_manifest(path: Path) -> Manifest:
    """Read the manifest of an export; SourceError if the file is not an export, StoreMismatch if Clew is too old."""
    with (
        _open_archive(path) as archive,
        _explain(path, f"it has no {MANIFEST} that can be read", f"so it is not an export of Clew; {AGAIN}"),
    ):
        fields = json.loads(read_part(archive, MANIFEST, max_bytes=MAX_MANIFEST_BYTES))
        version = int(fields["format"])
        if version <= FORMAT:
            return _parse_manifest(fields)
    raise StoreMismatch(
        f"{path} was made by a newer Clew (format {version}, this one reads up to {FORMAT}); update this "
        "Clew (`pip install --upgrade clew`), or export again with the older one"
    )


def _parse_manifest(fields: Any) -> Manifest:
    """Parse the manifest from JSON; ValueError for a value of a wrong type."""
    parts = tuple(BundlePart(**part) for part in fields["parts"])
    manifest = Manifest(**{**fields, "parts": parts})
    for value, kind in (
        *((getattr(manifest, name), str) for name in ("embedder", "language", "calibration")),
        *((getattr(manifest, name), int) for name in ("dim", "documents", "chunks", "format")),
        *((value, kind) for part in parts for value, kind in ((part.name, str), (part.rows, int), (part.sha256, str))),
    ):
        if type(value) is not kind:
            raise ValueError(f"{value!r} is not of the type {kind.__name__}")
    if len(parts) % 2 or manifest.dim < 1:
        raise ValueError("its parts do not come in pairs, or its vectors have no dimension")
    is_for_embedder = Calibration.from_json(manifest.calibration, manifest.embedder, manifest.dim) is not None
    return manifest if is_for_embedder else replace(manifest, calibration="")


def verify_bundle(path: Path, on_progress: OnProgress | None = None) -> Manifest:
    """Check every part of an export and return its manifest; SourceError names a damaged part.

    Checks the hash of each part, the types of its columns, and that chunks are spans of their documents.
    """
    manifest = read_manifest(path)
    _verify_hashes(path, manifest, on_progress)
    seen: set[str] = set()
    documents = chunks = 0
    for batch in read_bundle(path, manifest):
        with _explain(path, "a document of it is not as Clew writes it", FORGED):
            check_stored_documents(batch, manifest.dim, seen=seen)
        documents, chunks = documents + len(batch), chunks + sum(len(stored.chunks) for stored in batch)
    if (documents, chunks) != (manifest.documents, manifest.chunks):
        counts = f"it has {format_count(documents, 'document')} and {format_count(chunks, 'chunk')}"
        reason = f"{counts} where its manifest has {manifest.documents} and {manifest.chunks}; {AGAIN}"
        raise SourceError(str(path), reason)
    return manifest


def _verify_hashes(path: Path, manifest: Manifest, on_progress: OnProgress | None) -> None:
    with _open_archive(path) as archive:
        names = set(archive.namelist())
        for number, part in enumerate(manifest.parts, 1):
            if part.name not in names:
                raise SourceError(str(path), f"the part {part.name} is missing; {AGAIN}")
            with _explain(path, f"the part {part.name} is damaged"):
                check_part_size(archive, part.name)
                with archive.open(part.name) as file:
                    if hashlib.file_digest(file, "sha256").hexdigest() != part.sha256:  # type: ignore[arg-type]
                        raise MalformedPart("its hash is another")
            if on_progress:
                on_progress(number)


def read_bundle(path: Path, manifest: Manifest) -> Iterator[list[StoredDocument]]:
    """Read the documents of a checked export, one pair of parts at a time."""
    names = [part.name for part in manifest.parts]
    with _open_archive(path) as archive:
        for documents, chunks in zip(names[::2], names[1::2], strict=True):
            with _explain(path, f"the part {documents} or {chunks} is not as Clew writes it", FORGED):
                data = read_part(archive, documents), read_part(archive, chunks)
                batch = parse_stored_documents(*data, manifest.dim)
            yield batch


def _split_batches(documents: Iterable[StoredDocument]) -> Iterator[Sequence[StoredDocument]]:
    batch, chunks, chars = list[StoredDocument](), 0, 0
    for stored in documents:
        if batch and (chunks + len(stored.chunks) > MAX_CHUNKS or chars + len(stored.document.text) > MAX_CHARS):
            yield batch
            batch, chunks, chars = [], 0, 0
        batch.append(stored)
        chunks, chars = chunks + len(stored.chunks), chars + len(stored.document.text)
    if batch:
        yield batch


@contextmanager
def _open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        file: IO[bytes] = path.open("rb")
    except OSError as error:
        raise SourceError(str(path), f"cannot be opened ({error.strerror}); check the path") from error
    with file:
        with _explain(path, "it is not a whole export of Clew"):
            archive = zipfile.ZipFile(file)
        with archive:
            yield archive


@contextmanager
def _explain(path: Path, what: str, advice: str = AGAIN) -> Iterator[None]:
    """Turn every exception into a SourceError: for a crafted file, zip, Arrow, JSON and numpy raise many types."""
    try:
        yield
    except Exception as error:
        raise SourceError(str(path), f"{what} ({error}); {advice}") from error


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DriverFailed(
            f"{path}: cannot be written ({error.strerror or error}); check the folder and the free space on the disk"
        ) from error


@contextmanager
def create_unnamed(path: Path) -> Iterator[IO[bytes]]:
    """Create a file readable only by its owner; it replaces `path` after the block, or is deleted if the block raises.

    If the file system supports files without a name, a killed process leaves nothing; else a file with a random name.
    """
    handle, name = _open_nameless(path.parent), ""
    if handle is None:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(handle)
            if not name:
                name = str(path.with_name(f".{path.name}.{secrets.token_hex(8)}"))
                # Python follows the link only if it also gets a folder, which has no effect on an absolute path.
                os.link(f"/proc/self/fd/{handle}", name, src_dir_fd=handle, follow_symlinks=True)
        Path(name).replace(path)
    except BaseException:
        if name:
            Path(name).unlink(missing_ok=True)
        raise


def _open_nameless(folder: Path) -> int | None:
    """Open a file without a name in a folder; None if that is not supported."""
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None or not Path("/proc/self/fd").is_dir():
        return None
    try:
        return os.open(folder, flag | os.O_WRONLY, PRIVATE)
    except OSError:
        return None  # not supported, or the folder is read-only: then creating a named file raises the error


# -- tables

_TEXT_FIELDS = ("id", "text", "kind", "title", "uri", "summary", "hash", "stamp")
_SECTION = pa.struct(
    [
        *((name, pa.int64()) for name in ("start", "end", "parent")),
        *((name, pa.string()) for name in ("label", "id", "author", "at")),
        ("page", pa.int64()),
        ("guessed", pa.bool_()),
        ("access", pa.list_(pa.string())),
        ("awaits", pa.string()),
    ]
)
_SECTION_FIELDS = [field.name for field in _SECTION]
_DOCUMENTS = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "text", "kind", "title", "uri", "summary", "meta", "hash", "stamp")),
        ("sections", pa.list_(_SECTION)),
        ("summary_vector", pa.list_(pa.float32())),
        ("chunks", pa.int64()),
        ("access", pa.list_(pa.string())),
        *((name, pa.string()) for name in ("summary_by", "created", "updated")),
    ]
)
_CHUNKS = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "document", "text", "context", "at", "meta")),
        *((name, pa.int64()) for name in ("index", "start", "end", "length")),
        ("headings", pa.list_(pa.string())),
    ]
)


# Columns that exports of earlier versions lack; sections had fewer fields, too.
_LATER_COLUMNS = ("access", "summary_by", "created", "updated", "sections")


def documents_to_parquet(batch: Sequence[StoredDocument]) -> bytes:
    """Write a Parquet part with documents, without their chunks; meta is JSON, times are ISO 8601."""
    return _to_parquet(pa.Table.from_pylist([_document_to_row(stored) for stored in batch], schema=_DOCUMENTS))


def chunks_to_parquet(batch: Sequence[StoredDocument], dim: int) -> bytes:
    """Write a Parquet part with chunks, vectors and terms (hashes of words, counts and the total count)."""
    rows = [_chunk_to_row(*pair) for stored in batch for pair in zip(stored.chunks, stored.terms, strict=True)]
    terms = [packed for stored in batch for packed in stored.terms]
    vectors = np.concatenate([np.empty((0, dim), np.float32), *(stored.vectors for stored in batch)])
    ends = pa.array([0, *accumulate(len(packed.hashes) for packed in terms)], pa.int32())
    table = pa.Table.from_pylist(rows, schema=_CHUNKS)
    for name, column in (
        ("vector", pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), dim)),
        ("terms", pa.ListArray.from_arrays(ends, _concatenate([packed.hashes for packed in terms], np.int64))),
        ("counts", pa.ListArray.from_arrays(ends, _concatenate([packed.counts for packed in terms], np.uint16))),
    ):
        table = table.append_column(name, column)
    return _to_parquet(table)


def parse_stored_documents(documents: bytes, chunks: bytes, dim: int) -> list[StoredDocument]:
    """Parse a pair of Parquet parts to documents; MalformedPart, or an error of a library, if that fails."""
    table = _read_table(chunks)
    arrays = {"vector": pa.list_(pa.float32(), dim), "terms": pa.list_(pa.int64()), "counts": pa.list_(pa.uint16())}
    check_columns(table, [*_CHUNKS, *pa.schema(arrays)], nullable=("at",))
    rows = table.select(_CHUNKS.names).to_pylist()
    vectors = _flatten(table, "vector").reshape(len(rows), dim)
    hashes, counts = _flatten(table, "terms"), _flatten(table, "counts")
    ends = list(accumulate(table["terms"].combine_chunks().value_lengths().to_pylist() if rows else []))
    batch, start = [], 0
    records = _read_table(documents)
    check_columns(records, _DOCUMENTS, optional=_LATER_COLUMNS, nullable=(*_LATER_COLUMNS, "summary_vector"))
    for row in records.to_pylist():
        count = row["chunks"]
        here = range(start, start + count)
        spans = [(at, slice(ends[at - 1] if at else 0, ends[at])) for at in here]
        vector = row["summary_vector"]
        batch.append(
            StoredDocument(
                _parse_document(row),
                tuple(_parse_chunk(rows[at], count) for at in here),
                vectors[start : start + count],
                tuple(PackedTerms(hashes[span], counts[span], rows[at]["length"]) for at, span in spans),
                None if vector is None else np.array(vector, np.float32),
            )
        )
        start += count
    if start != len(rows):
        raise MalformedPart(f"it has {len(rows)} chunks where its documents have {start}")
    return batch


def _read_table(data: bytes) -> Any:
    file = pq.ParquetFile(pa.BufferReader(data))
    sizes = (file.metadata.row_group(group).total_byte_size for group in range(file.metadata.num_row_groups))
    if (size := sum(sizes)) > MAX_PART_BYTES or (size := (table := file.read()).nbytes) > MAX_PART_BYTES:
        raise MalformedPart(f"its table has {size} bytes where {MAX_PART_BYTES} are the most")
    return table


def _to_columns(value: Any, names: Iterable[str]) -> dict[str, Any]:
    """Convert fields to columns: meta to JSON, times to ISO 8601, labels to lists."""
    return {name: _to_column(getattr(value, name)) for name in names}


def _to_column(value: Any) -> Any:
    if isinstance(value, Mapping):
        return meta_to_json(value)
    if isinstance(value, datetime):
        return to_iso(value)
    return sorted(value) if isinstance(value, Set) else value


def _document_to_row(stored: StoredDocument) -> dict[str, Any]:
    own = {
        "sections": [_to_columns(section, _SECTION_FIELDS) for section in stored.document.sections],
        "summary_vector": stored.summary_vector,
        "chunks": len(stored.chunks),
    }
    return _to_columns(stored.document, (name for name in _DOCUMENTS.names if name not in own)) | own


def _parse_document(row: dict[str, Any]) -> Document:
    return Document(
        **{name: row[name] for name in _TEXT_FIELDS},
        created=from_iso(row.get("created")),
        updated=from_iso(row.get("updated")),
        sections=tuple(map(_parse_section, row["sections"])),
        meta=json.loads(row["meta"]),
        access=row.get("access"),
        summary_by=row.get("summary_by") or "",
    )


def _parse_section(row: dict[str, Any]) -> Section:
    access = row.get("access")
    return Section(**{**row, "at": from_iso(row["at"]), "access": None if access is None else frozenset(access)})


def _chunk_to_row(chunk: Chunk, terms: PackedTerms) -> dict[str, Any]:
    own = {"document": chunk.doc_id, "length": terms.length}
    return _to_columns(chunk, (name for name in _CHUNKS.names if name not in own)) | own


def _parse_chunk(row: dict[str, Any], total: int) -> Chunk:
    return Chunk(
        **{name: row[name] for name in ("id", "index", "text", "start", "end", "context")},
        doc_id=row["document"],
        total=total,
        headings=tuple(row["headings"]),
        at=from_iso(row["at"]),
        meta=json.loads(row["meta"]),
    )


def _concatenate(arrays: Sequence[Any], kind: Any) -> Any:
    return pa.array(np.concatenate([np.empty(0, kind), *arrays]))


def _flatten(table: Any, name: str) -> Any:
    column = table[name]
    return column.combine_chunks().flatten().to_numpy() if len(column) else np.empty(0, np.float32)


def _to_parquet(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    data: bytes = sink.getvalue().to_pybytes()
    return data


# -- checks of the content beyond hashes, since an attacker can forge these, too. A chunk must be the span of its
# document that it claims, so that citations are verbatim. It must have the labels of its message, or some of its
# document's, so that it cannot reveal hidden text.

MAX_PART_BYTES = 2 << 30  # of an unpacked part
MAX_MANIFEST_BYTES = 256 << 20
MAX_RATIO = 20  # maximum compression of a compressed entry: Parquet is already compressed
_FREE_BYTES = 1 << 20  # allowed for any part
_MESSAGE_TEXTS = ("message", "channel", "author", "reply_to")


class MalformedPart(Exception):
    """A part of an export with invalid content."""


def check_part_size(archive: ZipFile, name: str, *, max_bytes: int = MAX_PART_BYTES) -> None:
    """Raise MalformedPart for an entry that unpacks to too many bytes (a zip bomb), KeyError if it is missing."""
    entry, limit = archive.getinfo(name), max_bytes
    if entry.compress_type != ZIP_STORED:
        limit = min(limit, max(_FREE_BYTES, MAX_RATIO * entry.compress_size))
    if entry.file_size > limit:
        raise MalformedPart(f"it unpacks to {entry.file_size} bytes where {limit} are the most")


def read_part(archive: ZipFile, name: str, *, max_bytes: int = MAX_PART_BYTES) -> bytes:
    """Read the bytes of an entry; MalformedPart if it unpacks to too many bytes."""
    check_part_size(archive, name, max_bytes=max_bytes)
    return archive.read(name)


def check_columns(
    table: Any, schema: Iterable[Any], *, optional: Collection[str] = (), nullable: Collection[str] = ()
) -> None:
    """Raise MalformedPart unless the table has the columns of the schema, with their types and without nulls."""
    for field in schema:
        if field.name not in table.column_names:
            if field.name in optional:
                continue
            raise MalformedPart(f"the column {field.name} is missing")
        if table.schema.field(field.name).type != field.type and field.name not in optional:
            raise MalformedPart(f"the column {field.name} is {table.schema.field(field.name).type}, not {field.type}")
        if table[field.name].null_count and field.name not in nullable:
            raise MalformedPart(f"the column {field.name} has gaps")


def check_stored_documents(batch: Iterable[StoredDocument], dim: int, *, seen: set[str]) -> None:
    """Raise MalformedPart for a document whose chunks, sections, vectors or terms are inconsistent with it.

    `seen` has the ids of all earlier documents and chunks of the file; those of this batch are added.
    """
    for stored in batch:
        ids = [f"document {stored.document.id}", *(f"chunk {chunk.id}" for chunk in stored.chunks)]
        is_known = len({*ids}) < len(ids) or not seen.isdisjoint(ids)
        seen.update(ids)
        check_stored_document(stored, dim)
        if wrong := "an id of it comes twice" if is_known else next(_find_faults(stored), ""):
            raise MalformedPart(f"{stored.document.uri or stored.document.id}: {wrong}")


def _find_faults(stored: StoredDocument) -> Iterator[str]:
    """Yield the defects that `doctor` finds in a document, and those of forged files."""
    document, chunks, sections = stored.document, stored.chunks, stored.document.sections
    yield from (each.problem for each in inspect_stored(stored, is_pending=True))
    size, starts = len(document.text), [section.start for section in sections]
    if not document.id or not all(chunk.id for chunk in chunks):
        yield "it has no id, or a chunk of it has none"
    if sections and [*starts, size] != [0, *(section.end for section in sections)]:
        yield "its sections do not follow one another from the start of its text to the end"
    if document.kind != THREAD_KIND and any(section.access is not None for section in sections):
        yield "its sections have labels, which only messages may have"
    if find_section_cycle(sections) is not None:
        yield "a section is its own ancestor"
    if any(type(meta) is not dict for meta in (document.meta, *(chunk.meta for chunk in chunks))):
        yield "its meta is not a mapping"
    for place, (chunk, terms) in enumerate(zip(chunks, stored.terms, strict=True)):
        if chunk.doc_id != document.id or not 0 <= chunk.start <= chunk.end <= size:
            yield f"chunk {place} is of another document, or no span of its text"
        if terms.length > MAX_PART_BYTES:
            yield f"chunk {place} has more words than fit a part"
        if "message" in chunk.meta and not _is_message_meta(chunk.meta):
            yield f"chunk {place} has a message, channel or author that is not a text"
        own = islice(sections, max(0, bisect_right(starts, chunk.start) - 1), bisect_left(starts, chunk.end))
        if not _has_labels_of(chunk, own, document.access):
            yield f"the labels of chunk {place} are not those of its document"


def _is_message_meta(meta: Mapping[str, Any]) -> bool:
    return all(type(meta.get(name, "")) is str for name in _MESSAGE_TEXTS) and not any(
        isinstance(member, dict | list)
        for value in meta.values()
        for member in (value if isinstance(value, list) else [value])
    )


def _has_labels_of(chunk: Chunk, sections: Iterable[Section], access: Collection[str] | None) -> bool:
    """Return whether a chunk has the labels of its message, or without any, a subset of its document's labels."""
    has_own, own = "access" in chunk.meta, chunk.meta.get("access", [])
    if has_own and (type(own) is not list or any(type(label) is not str for label in own)):
        return False
    labelled = [each.access for each in sections if each.access is not None]
    if labelled:
        return has_own and all(set(own) == labels for labels in labelled)
    return not has_own or access is None or set(own) <= set(access)
