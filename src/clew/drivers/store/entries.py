"""Entries: chunks with their vectors and terms as the columns that a store writes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan

from xxhash import xxh3_64_intdigest

from clew.core.facets import collect_facets
from clew.core.stored import NewDocument, PackedTerms
from clew.core.text import Terms
from clew.core.time import to_timestamp
from clew.core.types import Chunk, Document, Matrix, Vector
from clew.drivers.store import checks, codec
from clew.drivers.store.term_ids import pack_terms

_VECTOR_BITS = (1 << 24) - 1


@dataclass(frozen=True, slots=True)
class Entry:
    """A chunk ready to be written. Its fingerprint changes when anything that a search sees of it does."""

    chunk: Chunk
    seconds: float | None
    facets: str
    terms: PackedTerms
    vector: Vector | None  # None: it is still to be made
    fingerprint: int


@dataclass(frozen=True, slots=True)
class DocumentEntries:
    """A document ready to be written: the entries of its chunks, and the vector of its summary, if it is given."""

    document: Document
    entries: Sequence[Entry]
    summary_vector: Vector | None = None


def make_new_entries(new: NewDocument, dim: int) -> DocumentEntries:
    """A document as entries; DriverFailed unless each vector that is given is a unit vector of this width."""
    vectors = checks.check_vectors(new.vectors, new.chunks, new.terms, dim)
    summary = None if new.summary_vector is None else checks.check_vector(new.summary_vector, dim)
    return DocumentEntries(new.document, make_entries(new.document, new.chunks, vectors, new.terms), summary)


def make_entries(
    document: Document, chunks: Sequence[Chunk], vectors: Matrix, terms: Sequence[Terms | PackedTerms]
) -> list[Entry]:
    """The chunks of a document as entries; they are in its channel, since a filter by channel shows all or nothing."""
    entries: list[Entry] = []
    channel = document.meta.get("channel")
    facets_by_meta: dict[str, str] = {}  # many chunks have the same meta, hence facets
    for chunk, row, chunk_terms in zip(chunks, vectors, terms, strict=True):
        if channel is not None and chunk.meta.get("channel", channel) != channel:
            chunk = replace(chunk, meta={**chunk.meta, "channel": channel})
        packed, at, meta = pack_terms(chunk_terms), to_timestamp(chunk.at), repr(chunk.meta)
        facets = facets_by_meta.get(meta) or facets_by_meta.setdefault(meta, facets_to_json(document, chunk))
        filtered_by = f"{facets} {at!r}".encode("utf-8", "surrogatepass")
        words = xxh3_64_intdigest(b"\0".join([packed.hashes.tobytes(), packed.counts.tobytes(), filtered_by]))
        vector = None if isnan(row[0]) else row
        fingerprint = add_vector_to_print(words - (1 << 63), vector)
        entries.append(Entry(chunk, at, facets, packed, vector, fingerprint))
    return entries


def add_vector_to_print(fingerprint: int, vector: Vector | None) -> int:
    """A fingerprint whose last bits are those of the vector: 0 if there is none."""
    own = 0 if vector is None else xxh3_64_intdigest(vector.tobytes()) & _VECTOR_BITS or 1
    return fingerprint & ~_VECTOR_BITS | own


def is_same_print(stored: int, entry: Entry) -> bool:
    """Whether a search sees the same of a stored chunk; a vector that is still to be made is the one that is there."""
    ignored = _VECTOR_BITS if entry.vector is None else 0
    return stored & ~ignored == entry.fingerprint & ~ignored


def facets_to_json(document: Document, chunk: Chunk | None = None) -> str:
    """The facets of a chunk, or of a document alone, as a sorted JSON list."""
    return codec.strings_to_json(sorted(collect_facets(document, chunk)))
