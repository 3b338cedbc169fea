"""Entries: chunks with their vectors and terms as the columns that a store writes."""

from collections.abc import Sequence
from dataclasses import dataclass

from xxhash import xxh3_64_intdigest

from clew.core.facets import collect_facets
from clew.core.stored import NewDocument, PackedTerms, StoredDocument
from clew.core.text import Terms
from clew.core.time import to_timestamp
from clew.core.types import Chunk, Document, Matrix, Vector
from clew.drivers.store import checks, codec
from clew.drivers.store.term_ids import pack_terms


@dataclass(frozen=True, slots=True)
class Entry:
    """A chunk ready to be written. Its fingerprint changes when anything that a search sees of it does."""

    chunk: Chunk
    seconds: float | None
    length: int
    facets: str
    terms: bytes
    counts: bytes
    vector: bytes
    fingerprint: int


@dataclass(frozen=True, slots=True)
class DocumentEntries:
    """A document ready to be written: the entries of its chunks, and the vector of its summary, if it is given."""

    document: Document
    entries: Sequence[Entry]
    summary_vector: Vector | None = None


def make_new_entries(new: NewDocument, dim: int) -> DocumentEntries:
    """A document as entries; DriverFailed unless each chunk, and the summary, has a unit vector of this width."""
    vectors = checks.check_vectors(new.vectors, new.chunks, new.terms, dim)
    summary = None if new.summary_vector is None else checks.check_vector(new.summary_vector, dim)
    return DocumentEntries(new.document, make_entries(new.document, new.chunks, vectors, new.terms), summary)


def make_entries(
    document: Document, chunks: Sequence[Chunk], vectors: Matrix, terms: Sequence[Terms | PackedTerms]
) -> list[Entry]:
    """The chunks of a document as entries."""
    entries, facets_by_meta = list[Entry](), dict[str, str]()  # many chunks have the same meta, hence facets
    for chunk, vector, chunk_terms in zip(chunks, vectors, terms, strict=True):
        packed, row, at, meta = pack_terms(chunk_terms), vector.tobytes(), to_timestamp(chunk.at), repr(chunk.meta)
        facets = facets_by_meta.get(meta) or facets_by_meta.setdefault(meta, facets_to_json(document, chunk))
        hashes, counts = packed.hashes.tobytes(), packed.counts.tobytes()
        filtered_by = f"{facets} {at!r}".encode("utf-8", "surrogatepass")
        fingerprint = xxh3_64_intdigest(b"\0".join([row, hashes, counts, filtered_by])) - (1 << 63) or 1  # never 0
        entries.append(Entry(chunk, at, packed.length, facets, hashes, counts, row, fingerprint))
    return entries


def make_entries_from_stored(stored: StoredDocument) -> list[Entry]:
    """The chunks of a document from another store as entries."""
    return make_entries(stored.document, stored.chunks, stored.vectors, stored.terms)


def facets_to_json(document: Document, chunk: Chunk | None = None) -> str:
    """The facets of a chunk, or of a document alone, as a sorted JSON list."""
    return codec.strings_to_json(sorted(collect_facets(document, chunk)))
