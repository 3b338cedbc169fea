"""Whether the vectors and words of a collection are those that its embedder and analyser make, and its calibration."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from clew.core.calibration import Calibration
from clew.core.doctor import Defect
from clew.core.errors import ClewError
from clew.core.stored import StoredDocument
from clew.drivers.store.term_ids import pack_terms
from clew.engine.doctor.health import take_chunks
from clew.index.add.calibrate import MIN_CHUNKS
from clew.index.chunk.terms import count_document_terms

if TYPE_CHECKING:
    from clew.engine.opened import Opened

EMBEDDED, EMBEDDED_FULL = 32, 256  # chunks that are embedded again, by a model on this machine alone
MAX_DOCUMENTS, MAX_DOCUMENTS_FULL = 64, 512  # that they are taken from, and summaries
MIN_COSINE = 0.95  # of a stored vector and that of the same text, made again
_FOREIGN = (
    "open it with the embedder that filled it; if there is none, make a new collection and add the sources, since "
    "nothing here says which model the vectors are of"
)


def inspect_models(opened: "Opened", found: Sequence[StoredDocument], *, full: bool) -> Iterator[Defect]:
    """What the models, asked again about a few of these documents, say of what is stored."""
    found = found[: MAX_DOCUMENTS_FULL if full else MAX_DOCUMENTS]
    yield from inspect_terms(opened, found)
    if getattr(opened.embedder, "is_local", False):
        try:
            yield from inspect_embeddings(opened, found, EMBEDDED_FULL if full else EMBEDDED)
        except ClewError as error:
            problem = f"{opened.embedder.name} failed to embed a text ({error})"
            yield Defect("embeddings", problem, next_step="see what the error says; searches need the embedder too")
    yield from inspect_calibration(opened)
    yield from inspect_staged(opened)


def inspect_terms(opened: "Opened", found: Sequence[StoredDocument]) -> Iterator[Defect]:
    """The documents of which searches by word miss something: their words are not those that the analyser finds."""
    language = opened.settings.ingestion.language
    wrong = [stored.document.id for stored in found if not _has_right_terms(stored, language)]
    if len(wrong) > len(found) // 2 and len(wrong) > 1:
        yield Defect(
            "postings",
            f"the words of {len(wrong)} of {len(found)} documents are not those that the analyser finds in them",
            severity="warning",
            next_step="they were added with another ingestion.language or version; add the sources again",
        )
        return
    for doc_id in wrong:
        problem = f"words of the document {doc_id!r} are not those that the analyser finds in it"
        yield Defect("postings", problem, doc_id, "rechunk")


def _has_right_terms(stored: StoredDocument, language: str) -> bool:
    """Whether the terms of every chunk are those that the analyser finds."""
    right = count_document_terms(stored.document, stored.chunks, language=language)
    pairs = zip(map(pack_terms, right), stored.terms, strict=True)
    return all(np.array_equal(wanted.hashes, terms.hashes) for wanted, terms in pairs)


def inspect_embeddings(opened: "Opened", found: Sequence[StoredDocument], limit: int) -> Iterator[Defect]:
    """The documents whose vectors are not those of their texts; all together where they are of another model."""
    taken = list(take_chunks(found, limit))
    summaries = [each for each in found if each.summary_vector is not None and each.document.summary][:limit]
    texts = [each.chunks[place].embed_text for each, place in taken] + [each.document.summary for each in summaries]
    if not texts:
        return
    stored = np.stack([each.vectors[place] for each, place in taken] + [each.summary_vector for each in summaries])
    cosines = np.einsum("ij,ij->i", opened.embedder.embed(texts, role="passage"), stored)
    foreign = cosines < MIN_COSINE
    if foreign[: len(taken)].sum() > len(taken) // 2 and foreign.sum() > 2:
        share = f"{int(foreign[: len(taken)].sum())} of {len(taken)}"
        problem = f"{share} vectors are not those that {opened.embedder.name} makes of their texts"
        yield Defect("embeddings", problem, next_step=_FOREIGN)
        return
    for doc_id in dict.fromkeys(each.document.id for (each, _), is_off in zip(taken, foreign, strict=False) if is_off):
        problem = f"a vector of the document {doc_id!r} is not that of its text"
        yield Defect("embeddings", problem, doc_id, "rechunk")
    for each, is_off in zip(summaries, foreign[len(taken) :], strict=True):
        if is_off:
            problem = f"the vector of the summary of the document {each.document.id!r} is not that of its text"
            yield Defect("embeddings", problem, each.document.id, "summarise")


def inspect_calibration(opened: "Opened") -> Iterator[Defect]:
    """Whether the relevance is calibrated for the embedder, in a collection that is large enough."""
    try:
        text = opened.store.calibration()
    except ClewError:
        return  # named already
    try:
        kept = Calibration.from_json(text, opened.embedder.name)
        if (
            kept
            and kept.centre is not None
            and (kept.centre.shape != (opened.embedder.dim,) or kept.centre @ kept.centre > 1.01)
        ):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError):
        yield Defect("calibration", "the calibration cannot be read", "", "calibrate")
        return
    if kept is None and opened.store.stats().chunks >= MIN_CHUNKS:
        problem = f"the relevance is not calibrated for {opened.embedder.name}"
        yield Defect("calibration", problem, "", "calibrate", severity="warning")


def inspect_staged(opened: "Opened") -> Iterator[Defect]:
    """Vectors of another model that were staged and not put in use."""
    staged = opened.store.staged_model()
    if staged and not staged.was_used and staged.embedder != opened.embedder.name:
        yield Defect(
            "staged",
            f"vectors of {staged.embedder} are kept beside those in use, of a switch that was not finished",
            severity="advice",
            next_step=f"`clew reembed --to {staged.embedder}` goes on with them, `clew reembed --discard` deletes them",
        )
