"""How well a collection serves: what its models make of it now, vectors, words, sizes, copies, languages, threads."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from clew.core.calibration import Calibration
from clew.core.doctor import Defect
from clew.core.errors import ClewError
from clew.core.plural import format_count
from clew.core.stored import StoredDocument
from clew.core.thread import is_thread
from clew.core.time import to_timestamp
from clew.core.types import Document, Matrix
from clew.drivers.store.term_ids import pack_terms
from clew.engine.languages import describe_foreign_languages
from clew.index.add.calibrate import MIN_CHUNKS as MIN_CALIBRATED
from clew.index.chunk.terms import count_document_terms

if TYPE_CHECKING:
    from clew.engine.opened import Opened

MAX_EXAMINED = 2000  # chunks: what these say holds for the others
BATCH = 32  # documents read at once
EMBEDDED, EMBEDDED_FULL = 32, 256  # chunks that are embedded again, by a model on this machine alone
MAX_DOCUMENTS, MAX_DOCUMENTS_FULL = 64, 512  # that they are taken from, and summaries
MIN_COSINE = 0.95  # of a stored vector and that of the same text, made again
MIN_CHUNKS = 20  # of which a share says something
MAX_COLLAPSED = 0.98  # mean cosine of texts that have little in common
MAX_COMMON_TERMS = 0.5  # mean share of the terms that such texts have in common
MAX_SAME_VECTOR = 0.1  # share of chunks whose vector another text has too …
MIN_DIM = 64  # … where it is not chance: in few dimensions short texts coincide
MAX_COPIES = 0.2  # share of chunks that are in another document too
MAX_TOO_LONG = 0.1  # share of chunks longer than the model reads at once
TINY, MAX_TINY = 8, 0.5  # tokens of a chunk that says little, and the share of them
_SKETCH = 12  # smallest hashes of the terms of a chunk: texts with the same are all but the same
_DULL = "the embedder does not tell them apart; run `clew reembed --to` another model"
_FOREIGN = (
    "open it with the embedder that filled it; if there is none, make a new collection and add the sources, since "
    "nothing here says which model the vectors are of"
)
_warn, _advise = partial(Defect, severity="warning"), partial(Defect, severity="advice")


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
        count = len(stored.chunks)
        self.stored.append(stored)
        self.vectors.append(stored.vectors)
        self.terms += [frozenset(terms.hashes.tolist()) for terms in stored.terms]
        self.documents += [stored.document.id] * count
        self.texts += [chunk.embed_text for chunk in stored.chunks]
        self.sections += [not is_thread(stored.document) and count > 2] * count


def inspect_health(opened: "Opened", ids: Sequence[str], *, full: bool) -> Iterator[Defect]:
    """What is wrong with how these documents can be found, and with what the models say of some of them."""
    sample, empty = Sample(), list[str]()
    for stored in _read_documents(opened, ids):
        document = stored.document
        if is_thread(document):
            yield from inspect_thread(document, gap=timedelta(hours=opened.settings.threads.gap_hours))
        if not stored.chunks and any(map(str.isalnum, document.text)):
            problem = f"no search finds the document {document.id!r}: it has no chunks"
            yield Defect("sizes", problem, document.id, "rechunk")
        elif not stored.chunks:
            empty.append(repr(document.id))
        if len(sample.texts) < MAX_EXAMINED:
            sample.add(stored)
    if empty:
        shown = ", ".join(empty[:3]) + (", …" if len(empty) > 3 else "")
        problem = f"no search finds {format_count(len(empty), 'document')} without a text, a title at most ({shown})"
        yield _advise("sizes", problem, next_step="give them a text, or drop them")
    if len(sample.texts) >= MIN_CHUNKS:
        yield from _inspect_vectors(sample, opened.embedder.dim)
        yield from _inspect_copies(sample)
        yield from _inspect_sizes(sample, opened)
    with suppress(ClewError):  # an index that cannot be read was named before
        if found := describe_foreign_languages(opened):
            yield _advise("languages", found[0], next_step=found[1])
    documents = sample.stored[: MAX_DOCUMENTS_FULL if full else MAX_DOCUMENTS]
    yield from _inspect_terms(opened, documents)
    yield from _inspect_embeddings(opened, documents, EMBEDDED_FULL if full else EMBEDDED)
    yield from _inspect_calibration(opened)
    staged = opened.store.staged_model()
    if staged and not staged.was_used and staged.embedder != opened.embedder.name:
        problem = f"vectors of {staged.embedder} are kept beside those in use, of a switch that was not finished"
        advice = f"`clew reembed --to {staged.embedder}` goes on with them, `clew reembed --discard` deletes them"
        yield _advise("staged", problem, next_step=advice)


def _read_documents(opened: "Opened", ids: Sequence[str]) -> Iterator[StoredDocument]:
    """The documents that can be read, a few at a time."""
    for start in range(0, len(ids), BATCH):
        with suppress(ClewError):  # changed meanwhile; what is damaged was named before
            yield from opened.store.stored_documents(ids[start : start + BATCH])


def _inspect_vectors(sample: Sample, dim: int) -> Iterator[Defect]:
    """Whether vectors tell texts apart: one vector for many texts, or all vectors in one place."""
    vectors = np.concatenate(sample.vectors)
    by_vector: dict[bytes, set[frozenset[int]]] = defaultdict(set)
    for vector, terms in zip(vectors, sample.terms, strict=True):
        by_vector[vector.tobytes()].add(terms)
    shared = sum(len(texts) for texts in by_vector.values() if len(texts) > 1)
    mean = vectors.mean(axis=0, dtype=np.float64)
    cosine = float(mean @ mean)
    if dim >= MIN_DIM and shared > MAX_SAME_VECTOR * len(vectors):
        problem = f"{shared} of {len(vectors)} chunks have the vector of another text"
        yield _warn("embeddings", problem, next_step=_DULL)
    elif cosine > MAX_COLLAPSED and _measure_common_terms(sample.terms) < MAX_COMMON_TERMS:
        problem = f"the vectors of different texts are almost the same (mean cosine {cosine:.3f})"
        yield _warn("embeddings", problem, next_step=_DULL)


def _measure_common_terms(terms: Sequence[frozenset[int]]) -> float:
    """The mean share of terms that chunks far from each other in the sample have in common."""
    far = len(terms) // 2
    pairs = [(some, terms[(place + far) % len(terms)]) for place, some in enumerate(terms)]
    return float(np.mean([len(a & b) / max(1, len(a | b)) for a, b in pairs]))


def _inspect_copies(sample: Sample) -> Iterator[Defect]:
    """Whether much of what is stored is in several documents."""
    places: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for terms, doc_id in zip(sample.terms, sample.documents, strict=True):
        places[tuple(sorted(terms)[:_SKETCH])].append(doc_id)
    copies = [
        doc_id for sketch, ids in places.items() if len(sketch) == _SKETCH and len(set(ids)) > 1 for doc_id in ids
    ]
    total = len(sample.terms)
    if len(copies) > MAX_COPIES * total:
        names = ", ".join(map(repr, sorted(set(copies))[:3]))
        problem = f"{len(copies)} of {total} chunks are almost the same as one of another document (as in {names})"
        yield _advise("duplicates", problem, next_step="drop the copies, so that results are not filled with them")


def _inspect_sizes(sample: Sample, opened: "Opened") -> Iterator[Defect]:
    """Chunks longer than the model reads at once, and pages cut into pieces that say nothing."""
    tokens, limit = opened.embedder.count(sample.texts), opened.embedder.max_tokens
    too_long = sum(count > limit for count in tokens)
    if too_long > MAX_TOO_LONG * len(tokens):
        reads = f"the {limit} tokens that {opened.embedder.name} reads at once"
        advice = "set ingestion.chunk_size to fewer tokens and add the sources again"
        yield _advise("sizes", f"{too_long} of {len(tokens)} chunks are longer than {reads}", next_step=advice)
    cut = [count for count, is_cut in zip(tokens, sample.sections, strict=True) if is_cut]
    tiny = sum(count < TINY for count in cut)
    if len(cut) >= MIN_CHUNKS and tiny > MAX_TINY * len(cut):
        problem = f"{tiny} of {len(cut)} chunks of pages have fewer than {TINY} tokens"
        advice = "look at one with `clew read`; a file may have been read as the wrong format"
        yield _advise("sizes", problem, next_step=advice)


def inspect_thread(document: Document, *, gap: timedelta) -> Iterator[Defect]:
    """What speaks against how messages were joined: answers before their question, guesses over a long silence."""
    name, sections = f"the thread {document.id!r}", document.sections
    ids = Counter(section.id for section in sections if section.id)
    if doubled := [id_ for id_, count in ids.items() if count > 1]:
        problem = f"{name} has the message {doubled[0]!r} more than once"
        yield _warn("threads", problem, document.id, next_step="add the messages again")
    if waiting := [section for section in sections if section.awaits and section.awaits in ids]:
        problem = f"the message {waiting[0].id!r} of {name} waits for one that is there"
        yield _warn("threads", problem, document.id, next_step="add the message again")
    silences = [
        to_timestamp(section.at) - to_timestamp(parent.at)
        for section in sections
        if section.guessed and section.parent is not None and 0 <= section.parent < len(sections)
        if section.at is not None and (parent := sections[section.parent]).at is not None
    ]
    early, late = sum(each < 0 for each in silences), sum(each > gap.total_seconds() for each in silences)
    for count, what in ((early, "answer one that was written later"), (late, "bridge more than threads.gap_hours")):
        if count:
            problem = f"{format_count(count, 'guessed reply', 'guessed replies')} of {name} {what}"
            advice = "add its messages again with the settings that are in use"
            yield _warn("threads", problem, document.id, next_step=advice)


def _inspect_terms(opened: "Opened", found: Sequence[StoredDocument]) -> Iterator[Defect]:
    """The documents of which searches by word miss something: their words are not those that the analyser finds."""
    language = opened.settings.ingestion.language
    wrong = [stored.document.id for stored in found if not _has_right_terms(stored, language)]
    if len(wrong) > len(found) // 2 and len(wrong) > 1:
        problem = f"the words of {len(wrong)} of {len(found)} documents are not those that the analyser finds in them"
        advice = "they were added with another ingestion.language or version; add the sources again"
        yield _warn("postings", problem, next_step=advice)
        return
    for doc_id in wrong:
        problem = f"words of the document {doc_id!r} are not those that the analyser finds in it"
        yield Defect("postings", problem, doc_id, "rechunk")


def _has_right_terms(stored: StoredDocument, language: str) -> bool:
    right = count_document_terms(stored.document, stored.chunks, language=language)
    pairs = zip(map(pack_terms, right), stored.terms, strict=True)
    return all(np.array_equal(wanted.hashes, terms.hashes) for wanted, terms in pairs)


def _inspect_embeddings(opened: "Opened", found: Sequence[StoredDocument], limit: int) -> Iterator[Defect]:
    """The documents whose vectors are not those of their texts; all together where they are of another model."""
    if not getattr(opened.embedder, "is_local", False):
        return
    name, longest = opened.embedder.name, max((len(each.chunks) for each in found), default=0)
    chunks = ((each, place) for place in range(longest) for each in found if place < len(each.chunks))
    taken = list(islice(chunks, limit))  # the first of each document, then the second
    summaries = [each for each in found if each.summary_vector is not None and each.document.summary][:limit]
    texts = [each.chunks[place].embed_text for each, place in taken] + [each.document.summary for each in summaries]
    if not texts:
        return
    stored = np.stack([each.vectors[place] for each, place in taken] + [each.summary_vector for each in summaries])
    try:
        made = opened.embedder.embed(texts, role="passage")
    except ClewError as error:
        advice = "see what the error says; searches need the embedder too"
        yield Defect("embeddings", f"{name} failed to embed a text ({error})", next_step=advice)
        return
    foreign = np.einsum("ij,ij->i", made, stored) < MIN_COSINE
    wrong = int(foreign[: len(taken)].sum())
    if wrong > len(taken) // 2 and foreign.sum() > 2:
        problem = f"{wrong} of {len(taken)} vectors are not those that {name} makes of their texts"
        yield Defect("embeddings", problem, next_step=_FOREIGN)
        return
    for doc_id in dict.fromkeys(each.document.id for (each, _), is_off in zip(taken, foreign, strict=False) if is_off):
        problem = f"a vector of the document {doc_id!r} is not that of its text"
        yield Defect("embeddings", problem, doc_id, "rechunk")
    for each, is_off in zip(summaries, foreign[len(taken) :], strict=True):
        if is_off:
            problem = f"the vector of the summary of the document {each.document.id!r} is not that of its text"
            yield Defect("embeddings", problem, each.document.id, "rebuild")


def _inspect_calibration(opened: "Opened") -> Iterator[Defect]:
    """Whether the relevance is calibrated for the embedder, in a collection that is large enough."""
    embedder = opened.embedder
    try:
        kept = Calibration.from_json(opened.store.calibration(), embedder.name)
        centre = kept.centre if kept else None
        if centre is not None and (centre.shape != (embedder.dim,) or centre @ centre > 1.01):
            raise ValueError
    except ClewError:
        return  # named already
    except (ValueError, KeyError, TypeError, AttributeError):
        yield Defect("calibration", "the calibration cannot be read", "", "rebuild")
        return
    if kept is None and opened.store.stats().chunks >= MIN_CALIBRATED:
        yield _warn("calibration", f"the relevance is not calibrated for {embedder.name}", "", "rebuild")
