"""A collection in one file: Parquet parts in a zip, which any tool for tables can read without Clew.

A zip and not a tar, because its list of parts can be read without going through gigabytes of them. The manifest is
written last and holds the hash of every part, so a file that ends too early has none. Parts come in pairs, some
thousand chunks with the documents that they belong to: whoever writes or reads holds no more than one pair.
"""

import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO

from clew.core.errors import DriverFailed, DriverMissing, SourceError, StoreMismatch
from clew.core.stored import Manifest, Part, StoredDocument
from clew.drivers.store.embedded.stored import CHARS, CHUNKS

FORMAT = 1
MANIFEST = "manifest.json"
AGAIN = "nothing was restored; copy it again, or make it again with `clew export`"
Told = Callable[[int], None]

try:
    from clew.drivers.store.bundle import tables
except ImportError as error:
    raise DriverMissing(
        f'to export and restore, pyarrow is needed ({error}); install it with: pip install "clew[bundle]"'
    ) from error


def write(
    path: Path, documents: Iterable[StoredDocument], *, embedder: str, dim: int, language: str, told: Told | None = None
) -> Manifest:
    """What was written. It is written beside and put in place when it is whole; `told` is given the documents so far.

    What was there under the name stays until then.
    """
    beside = path.with_name(f"{path.name}.part")
    parts, many, chunks = list[Part](), 0, 0
    with _failing(path):
        try:
            with beside.open("wb") as file:
                with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:  # Parquet is compressed already
                    for number, some in enumerate(_batches(documents), 1):
                        for name, rows, data in (
                            (f"documents-{number:05}.parquet", len(some), tables.documents(some)),
                            (f"chunks-{number:05}.parquet", sum(len(w.chunks) for w in some), tables.chunks(some, dim)),
                        ):
                            archive.writestr(zipfile.ZipInfo(name), data)
                            parts.append(Part(name, rows, hashlib.sha256(data).hexdigest()))
                        many, chunks = many + len(some), chunks + parts[-1].rows
                        if told:
                            told(many)
                    made = Manifest(embedder, dim, language, many, chunks, tuple(parts), FORMAT)
                    archive.writestr(zipfile.ZipInfo(MANIFEST), json.dumps(asdict(made), indent=1))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    return made


def manifest(path: Path) -> Manifest:
    """What a file says of itself; SourceError if it is none of ours, StoreMismatch if it is of a newer Clew."""
    with _opened(path) as archive:
        try:
            said = json.loads(archive.read(MANIFEST))
            version = int(said["format"])
            if version <= FORMAT:
                return Manifest(**{**said, "parts": tuple(Part(**each) for each in said["parts"])})
        except (KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
            said = f"it has no {MANIFEST} that can be read ({error}), so it is not an export of Clew; {AGAIN}"
            raise SourceError(str(path), said) from error
    raise StoreMismatch(f"{path} was made by a newer Clew (format {version}, this one reads {FORMAT}); update Clew")


def check(path: Path, told: Told | None = None) -> Manifest:
    """What a file says of itself, once all its parts are as they were written; SourceError names one that is not."""
    made = manifest(path)
    with _opened(path) as archive:
        for number, part in enumerate(made.parts, 1):
            try:
                with archive.open(part.name) as file:
                    sound = hashlib.file_digest(file, "sha256").hexdigest() == part.sha256  # type: ignore[arg-type]
            except KeyError:
                raise SourceError(str(path), f"the part {part.name} is missing; {AGAIN}") from None
            except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError) as error:
                said = f"the part {part.name} is damaged ({error}); {AGAIN}"
                raise SourceError(str(path), said) from error
            if not sound:
                raise SourceError(str(path), f"the part {part.name} is damaged: its hash is another; {AGAIN}")
            if told:
                told(number)
    return made


def read(path: Path, made: Manifest) -> Iterator[list[StoredDocument]]:
    """The documents of a file that was checked, a pair of parts at a time."""
    names = [part.name for part in made.parts]
    with _opened(path) as archive:
        for documents, chunks in zip(names[::2], names[1::2], strict=True):
            yield tables.wholes(archive.read(documents), archive.read(chunks), made.dim)


def _batches(documents: Iterable[StoredDocument]) -> Iterator[Sequence[StoredDocument]]:
    some, chunks, chars = list[StoredDocument](), 0, 0
    for each in documents:
        if some and (chunks + len(each.chunks) > CHUNKS or chars + len(each.document.text) > CHARS):
            yield some
            some, chunks, chars = [], 0, 0
        some.append(each)
        chunks, chars = chunks + len(each.chunks), chars + len(each.document.text)
    if some:
        yield some


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        file: IO[bytes] = path.open("rb")
    except OSError as error:
        raise SourceError(str(path), f"cannot be opened ({error.strerror}); check the path") from error
    with file:
        try:
            archive = zipfile.ZipFile(file)
        except zipfile.BadZipFile as error:
            said = f"it is not a whole export of Clew ({error}); {AGAIN}"
            raise SourceError(str(path), said) from error
        with archive:
            yield archive


@contextmanager
def _failing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DriverFailed(f"{path}: cannot be written ({error}); check the folder and the room on the disk") from error
