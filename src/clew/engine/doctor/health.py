"""How well a collection serves: vectors that tell nothing apart, sizes, copies, languages, threads."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np

from clew.core.doctor import Defect
from clew.core.errors import ClewError
from clew.core.plural import format_count
from clew.core.stored import StoredDocument
from clew.core.thread import is_thread
from clew.core.time import to_timestamp
from clew.core.types import Document, Matrix
from clew.engine.languages import describe_foreign_languages

if TYPE_CHECKING:
    from clew.engine.opened import Opened

MAX_EXAMINED = 2000  # chunks: what these say holds for the others
BATCH = 32  # documents read at once
MIN_CHUNKS = 20  # of which a share says something
MAX_COLLAPSED = 0.98  # mean cosine of texts that have little in common
MAX_COMMON_TERMS = 0.5  # mean share of the terms that such texts have in common
MAX_SAME_VECTOR = 0.1  # share of chunks whose vector another text has too …
MIN_DIM = 64  # … where it is not chance: in few dimensions short texts coincide
MAX_COPIES = 0.2  # share of chunks that are in another document too
MAX_TOO_LONG = 0.1  # share of chunks longer than the model reads at once
TINY, MAX_TINY = 8, 0.5  # tokens of a chunk that says little, and the share of them
_SKETCH = 12  # smallest hashes of the terms of a chunk: texts with the same are all but the same


@dataclass
class Sample:
    """What is remembered of the chunks that are looked at."""

    stored: list[StoredDocument] = field(default_factory=list)
    vectors: list[Matrix] = field(default_factory=list)
    terms: list[frozenset[int]] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    sections: list[bool] = field(default_factory=list)  # whether it is one of several chunks of a page

    def add(self, stored: StoredDocument) -> None:
        """Remembers the chunks of a document."""
        is_cut = not is_thread(stored.document) and len(stored.chunks) > 2
        self.stored.append(stored)
        self.vectors.append(stored.vectors)
        for chunk, terms in zip(stored.chunks, stored.terms, strict=True):
            self.terms.append(frozenset(terms.hashes.tolist()))
            self.documents.append(stored.document.id)
            self.texts.append(chunk.embed_text)
            self.sections.append(is_cut)


def inspect_health(opened: "Opened", ids: Sequence[str], sample: Sample) -> Iterator[Defect]:
    """What is wrong with how these documents can be found; a part of them is kept in the sample."""
    empty: list[str] = []
    for stored in read_documents(opened, ids):
        if is_thread(stored.document):
            yield from inspect_thread(stored.document, gap=timedelta(hours=opened.settings.threads.gap_hours))
        if not stored.chunks and any(map(str.isalnum, stored.document.text)):
            problem = f"no search finds the document {stored.document.id!r}: it has no chunks"
            yield Defect("sizes", problem, stored.document.id, "rechunk")
        elif not stored.chunks:
            empty.append(repr(stored.document.id))
        if len(sample.texts) < MAX_EXAMINED:
            sample.add(stored)
    if empty:
        shown = ", ".join(empty[:3]) + (", …" if len(empty) > 3 else "")
        yield Defect(
            "sizes",
            f"no search finds {format_count(len(empty), 'document')} without a text, a title at most ({shown})",
            severity="advice",
            next_step="give them a text, or drop them",
        )
    if len(sample.texts) >= MIN_CHUNKS:
        yield from inspect_vectors(sample, opened.embedder.dim)
        yield from inspect_copies(sample)
        yield from inspect_sizes(sample, opened)
    yield from inspect_languages(opened)


def read_documents(opened: "Opened", ids: Sequence[str]) -> Iterator[StoredDocument]:
    """The documents that can be read, a few at a time."""
    for start in range(0, len(ids), BATCH):
        try:
            yield from opened.store.stored_documents(ids[start : start + BATCH])
        except ClewError:  # changed meanwhile; what is damaged was named before
            continue


def inspect_vectors(sample: Sample, dim: int) -> Iterator[Defect]:
    """Whether vectors tell texts apart: one vector for many texts, or all vectors in one place."""
    vectors = np.concatenate(sample.vectors)
    by_vector: dict[bytes, set[frozenset[int]]] = defaultdict(set)
    for vector, terms in zip(vectors, sample.terms, strict=True):
        by_vector[vector.tobytes()].add(terms)
    shared = sum(len(texts) for texts in by_vector.values() if len(texts) > 1)
    if dim >= MIN_DIM and shared > MAX_SAME_VECTOR * len(vectors):
        yield Defect(
            "embeddings",
            f"{shared} of {len(vectors)} chunks have the vector of another text",
            severity="warning",
            next_step="the embedder does not tell them apart; run `clew reembed --to` another model",
        )
        return
    mean = vectors.mean(axis=0, dtype=np.float64)
    if float(mean @ mean) > MAX_COLLAPSED and _measure_common_terms(sample.terms) < MAX_COMMON_TERMS:
        yield Defect(
            "embeddings",
            f"the vectors of different texts are almost the same (mean cosine {float(mean @ mean):.3f})",
            severity="warning",
            next_step="the embedder does not tell them apart; run `clew reembed --to` another model",
        )


def _measure_common_terms(terms: Sequence[frozenset[int]]) -> float:
    """The mean share of terms that neighbours, which are of one document or of two, have in common."""
    far = len(terms) // 2
    pairs = [(some, terms[(place + far) % len(terms)]) for place, some in enumerate(terms)]
    return float(np.mean([len(a & b) / max(1, len(a | b)) for a, b in pairs]))


def inspect_copies(sample: Sample) -> Iterator[Defect]:
    """Whether much of what is stored is in several documents."""
    places: dict[tuple[int, ...], set[str]] = defaultdict(set)
    sketches = [tuple(sorted(terms)[:_SKETCH]) for terms in sample.terms]
    for sketch, doc_id in zip(sketches, sample.documents, strict=True):
        places[sketch].add(doc_id)
    copies = [
        doc_id
        for sketch, doc_id in zip(sketches, sample.documents, strict=True)
        if len(sketch) == _SKETCH and len(places[sketch]) > 1
    ]
    if len(copies) > MAX_COPIES * len(sketches):
        names = ", ".join(map(repr, sorted(set(copies))[:3]))
        yield Defect(
            "duplicates",
            f"{len(copies)} of {len(sketches)} chunks are almost the same as one of another document (as in {names})",
            severity="advice",
            next_step="drop the copies, so that results are not filled with them",
        )


def inspect_sizes(sample: Sample, opened: "Opened") -> Iterator[Defect]:
    """Chunks longer than the model reads at once, and pages cut into pieces that say nothing."""
    tokens = opened.embedder.count(sample.texts)
    too_long = sum(count > opened.embedder.max_tokens for count in tokens)
    if too_long > MAX_TOO_LONG * len(tokens):
        yield Defect(
            "sizes",
            f"{too_long} of {len(tokens)} chunks are longer than the {opened.embedder.max_tokens} tokens that "
            f"{opened.embedder.name} reads at once",
            severity="advice",
            next_step="set ingestion.chunk_size to fewer tokens and add the sources again",
        )
    cut = [count for count, is_cut in zip(tokens, sample.sections, strict=True) if is_cut]
    tiny = sum(count < TINY for count in cut)
    if len(cut) >= MIN_CHUNKS and tiny > MAX_TINY * len(cut):
        yield Defect(
            "sizes",
            f"{tiny} of {len(cut)} chunks of pages have fewer than {TINY} tokens",
            severity="advice",
            next_step="look at one with `clew read`; a file may have been read as the wrong format",
        )


def inspect_languages(opened: "Opened") -> Iterator[Defect]:
    """Whether the model knows the languages of the texts."""
    found = None
    with suppress(ClewError):  # an index that cannot be read was named before
        found = describe_foreign_languages(opened)
    if found:
        yield Defect("languages", found[0], severity="advice", next_step=found[1])


def inspect_thread(document: Document, *, gap: timedelta) -> Iterator[Defect]:
    """What speaks against how messages were joined: answers before their question, guesses over a long silence."""
    name = f"the thread {document.id!r}"
    ids = Counter(section.id for section in document.sections if section.id)
    if doubled := [id_ for id_, count in ids.items() if count > 1]:
        problem = f"{name} has the message {doubled[0]!r} more than once"
        yield Defect("threads", problem, document.id, severity="warning", next_step="add the messages again")
    if waiting := [section for section in document.sections if section.awaits and section.awaits in ids]:
        problem = f"the message {waiting[0].id!r} of {name} waits for one that is there"
        yield Defect("threads", problem, document.id, severity="warning", next_step="add the message again")
    early = late = 0
    for section in document.sections:
        if section.parent is None or not 0 <= section.parent < len(document.sections):
            continue
        parent = document.sections[section.parent]
        if section.at is None or parent.at is None:
            continue
        silence = to_timestamp(section.at) - to_timestamp(parent.at)
        early += silence < 0 and section.guessed
        late += section.guessed and silence > gap.total_seconds()
    for count, what in ((early, "answer one that was written later"), (late, "bridge more than threads.gap_hours")):
        if count:
            yield Defect(
                "threads",
                f"{format_count(count, 'guessed reply', 'guessed replies')} of {name} {what}",
                document.id,
                severity="warning",
                next_step="add its messages again with the settings that are in use",
            )


def take_chunks(found: Iterable[StoredDocument], limit: int) -> Iterator[tuple[StoredDocument, int]]:
    """Documents with the position of one of their chunks, the first of each, then the second, up to a limit."""
    documents = [each for each in found if each.chunks]
    longest = max((len(each.chunks) for each in documents), default=0)
    taken = 0
    for place in range(longest):
        for each in documents:
            if place < len(each.chunks):
                yield each, place
                taken += 1
                if taken >= limit:
                    return
