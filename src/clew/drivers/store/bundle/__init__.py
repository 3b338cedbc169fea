"""A collection in one file: Parquet parts in a zip, which any tool for tables can read without Clew.

A zip and not a tar, because its list of parts can be read without going through gigabytes of them. The manifest is
written last and holds the hash of every part, so a truncated file has none. Parts come in pairs, a batch of documents
and its chunks: a writer or reader holds one pair in memory.
"""

import hashlib
import json
import os
import secrets
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any

from clew.core.calibration import Calibration
from clew.core.errors import DriverFailed, DriverMissing, SourceError, StoreMismatch
from clew.core.plural import format_count
from clew.core.stored import BundlePart, Manifest, StoredDocument
from clew.drivers.store.batches import MAX_CHARS, MAX_CHUNKS

FORMAT = 1
MANIFEST = "manifest.json"
AGAIN = "nothing was restored; copy it again, or make it again with `clew export`"
FORGED = "nothing was restored; make it again with `clew export`"  # its hash is right: it was not damaged on the way
OnProgress = Callable[[int], None]
PRIVATE = 0o600

try:
    from clew.drivers.store.bundle import tables, verify
except ImportError as error:
    raise DriverMissing(
        f'to export and restore, pyarrow is needed ({error}); install it with: pip install "clew[bundle]"'
    ) from error


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
    """Writes an export and returns its manifest; `on_progress` gets the number of documents so far.

    It is written to a file without a name, for its owner alone, which gets the name when it is complete: a process that
    is killed leaves nothing behind.
    """
    parts, count, chunks = list[BundlePart](), 0, 0
    with (
        _translate_errors(path),
        create_unnamed(path) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,  # Parquet is compressed already
    ):
        for number, batch in enumerate(_split_batches(documents), 1):
            batch_chunks = sum(len(stored.chunks) for stored in batch)
            for name, rows, data in (
                (f"documents-{number:05}.parquet", len(batch), tables.documents_to_parquet(batch)),
                (f"chunks-{number:05}.parquet", batch_chunks, tables.chunks_to_parquet(batch, dim)),
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
    """The manifest of an export; SourceError if the file is not one, StoreMismatch if it is of a newer Clew."""
    with (
        _open_archive(path) as archive,
        _explain(path, f"it has no {MANIFEST} that can be read", f"so it is not an export of Clew; {AGAIN}"),
    ):
        fields = json.loads(verify.read_part(archive, MANIFEST, max_bytes=verify.MAX_MANIFEST_BYTES))
        version = int(fields["format"])
        if version <= FORMAT:
            return _parse_manifest(fields)
    raise StoreMismatch(
        f"{path} was made by a newer Clew (format {version}, this one reads up to {FORMAT}); update this "
        "Clew (`pip install --upgrade clew`), or export again with the older one"
    )


def _parse_manifest(fields: Any) -> Manifest:
    """The manifest of JSON; ValueError where a value has not its type."""
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
    """The manifest of an export after checking every part; SourceError names a damaged one.

    Checked are the hash of each part, the types of its columns, and that chunks are the spans of their documents.
    """
    manifest = read_manifest(path)
    _verify_hashes(path, manifest, on_progress)
    seen: set[str] = set()
    documents = chunks = 0
    for batch in read_bundle(path, manifest):
        with _explain(path, "a document of it is not as Clew writes it", FORGED):
            verify.check_stored_documents(batch, manifest.dim, seen=seen)
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
                verify.check_part_size(archive, part.name)
                with archive.open(part.name) as file:
                    if hashlib.file_digest(file, "sha256").hexdigest() != part.sha256:  # type: ignore[arg-type]
                        raise verify.MalformedPart("its hash is another")
            if on_progress:
                on_progress(number)


def read_bundle(path: Path, manifest: Manifest) -> Iterator[list[StoredDocument]]:
    """The documents of a checked export, one pair of parts at a time."""
    names = [part.name for part in manifest.parts]
    with _open_archive(path) as archive:
        for documents, chunks in zip(names[::2], names[1::2], strict=True):
            with _explain(path, f"the part {documents} or {chunks} is not as Clew writes it", FORGED):
                data = verify.read_part(archive, documents), verify.read_part(archive, chunks)
                batch = tables.parse_stored_documents(*data, manifest.dim)
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
    """SourceError for whatever a crafted file makes fail: zip, Arrow, JSON and numpy raise errors of many types."""
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
            f"{path}: cannot be written ({error}); check the folder and the free space on the disk"
        ) from error


@contextmanager
def create_unnamed(path: Path) -> Iterator[IO[bytes]]:
    """A new file for its owner alone, which replaces the one at `path` after the block, or is gone if that raises.

    Where the file system knows files without a name, a killed process leaves nothing; elsewhere it has a random name.
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
                # Python follows the link only where it is given a folder too, which an absolute path makes no use of.
                os.link(f"/proc/self/fd/{handle}", name, src_dir_fd=handle, follow_symlinks=True)
        Path(name).replace(path)
    except BaseException:
        if name:
            Path(name).unlink(missing_ok=True)
        raise


def _open_nameless(folder: Path) -> int | None:
    """A file that has no name in a folder; None where there are no such files."""
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None or not Path("/proc/self/fd").is_dir():
        return None
    try:
        return os.open(folder, flag | os.O_WRONLY, PRIVATE)
    except OSError:
        return None  # the file system has none, or the folder cannot be written: creating a named one says which
