"""The languages of documents; whether the embedder knows them, and which embedder to use if not."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from clew.core.analyse import UNKNOWN, make_language_term
from clew.core.errors import DriverFailed
from clew.core.languages import EMBEDDER_LANGUAGES, find_known_languages
from clew.core.protocols import Embedder
from clew.core.report import Report, SourceFailure
from clew.core.types import Document, DocumentRecord
from clew.drivers.store.store import Store

if TYPE_CHECKING:
    from clew.engine.opened import Opened

MAX_FOREIGN = 0.2  # share of chunks in languages that the embedder does not know
MIN_CHUNKS = 20  # fewer chunks are judged by MAX_FOREIGN_OF_FEW
MAX_FOREIGN_OF_FEW = 0.5
MIN_FOREIGN = 3  # chunks in one unknown language
MULTILINGUAL = "multilingual"
MAX_DETECTED = 32  # chunks sampled to detect the language of a document


def name_languages(store: Store, records: Iterable[DocumentRecord]) -> Iterator[DocumentRecord]:
    """Yield the records with their language set."""
    counts = store.language_counts(exact=True)
    found = _count_by_document(store, counts)
    for record in records:
        yield replace(record, language=_choose_document_language(record, counts, found))


def find_main_language(store: Store, documents: Sequence[Document], *, language: str) -> str:
    """Find the language of most chunks of the documents, as `name_languages` does, but without reading the index.

    If `language` is "auto", detect it again from the chunks, at most MAX_DETECTED of them spread evenly.
    """
    from clew.index.chunk.build import find_chunk_language, get_page_text  # lazy: no search needs it

    found = [(chunk, document) for document in documents for chunk in store.chunks(document.id)]
    if not found or language != "auto":
        return language if found else ""
    looked_at = min(len(found), MAX_DETECTED)
    spread = (found[len(found) * at // looked_at] for at in range(looked_at))
    return _choose_known(Counter(find_chunk_language(chunk, get_page_text(document)) for chunk, document in spread))


def _count_by_document(store: Store, counts: Mapping[str, int]) -> dict[str, Counter[str]]:
    """Count the chunks of each document by language, except the most frequent one, which has the remaining chunks."""
    found: dict[str, Counter[str]] = {}
    for code in _sort_languages(counts)[1:]:
        for hit in store.search_terms({make_language_term(code): 1}, counts[code]):
            found.setdefault(hit.chunk.doc_id, Counter())[code] += 1
    return found


def _choose_document_language(
    record: DocumentRecord, counts: Mapping[str, int], found: Mapping[str, Counter[str]]
) -> str:
    """Choose the language of most chunks of a document; "und" only if no chunk has a known language."""
    if not counts or not record.chunks:
        return ""
    own = Counter(found.get(record.id, {}))
    own[_sort_languages(counts)[0]] += record.chunks - own.total()
    return _choose_known(own)


def _choose_known(counts: Mapping[str, int]) -> str:
    """Choose the known language with the most chunks, the first code on a tie; "und" if there is none."""
    known = {code: count for code, count in counts.items() if count > 0 and code != UNKNOWN}
    return _sort_languages(known)[0] if known else UNKNOWN


def _sort_languages(counts: Mapping[str, int]) -> list[str]:
    """Sort the languages by their number of chunks, most first."""
    return sorted(counts, key=lambda code: (-counts[code], code))


def find_foreign_languages(embedder: Embedder, counts: Mapping[str, int]) -> dict[str, int]:
    """Count the chunks in languages that the embedder does not know, most first; empty if there are few.

    In a small collection the majority must be foreign, and MIN_FOREIGN chunks in one language: the language of a short
    text is easily mistaken.
    """
    known = find_known_languages(embedder)
    if not known:
        return {}
    foreign = {code: count for code, count in counts.items() if code not in ("", UNKNOWN) and code not in known}
    total = sum(counts.values())
    if sum(foreign.values()) <= (MAX_FOREIGN if total >= MIN_CHUNKS else MAX_FOREIGN_OF_FEW) * total:
        return {}
    if max(foreign.values()) < MIN_FOREIGN:
        return {}
    return {code: foreign[code] for code in _sort_languages(foreign)}


def advise_embedder(foreign: Mapping[str, int], chunks: int) -> str:
    """Advise on an embedder for these languages; `chunks` is the size of the collection."""
    covered = [code for code in foreign if code in EMBEDDER_LANGUAGES[MULTILINGUAL]]
    others = [code for code in foreign if code not in covered]
    if sum(foreign[code] for code in covered) <= MAX_FOREIGN * chunks:  # the multilingual model would cover too few
        return f"words still find them; for meaning run {_advise_hub(foreign)}"
    advice = f"words still find them; for meaning run `clew reembed {MULTILINGUAL}`"
    return f"{advice}, which does not know {', '.join(others)}: for these, {_advise_hub(others)}" if others else advice


def _advise_hub(codes: Iterable[str]) -> str:
    return f"`clew reembed hf:NAME`, a model of the hub that knows {', '.join(codes)} (docs/models.md)"


def describe_foreign_languages(opened: "Opened") -> tuple[str, str] | None:
    """Describe the share of the collection in languages the embedder does not know, and give advice; None if small."""
    counts = opened.store.language_counts(exact=True)
    foreign = find_foreign_languages(opened.embedder, counts)
    if not foreign:
        return None
    chunks = sum(counts.values())
    share = f"{sum(foreign.values())} of {chunks} chunks"
    problem = f"{share} are in languages that {opened.embedder.name} does not know ({', '.join(foreign)})"
    return problem, advise_embedder(foreign, chunks)


def note_foreign_languages(opened: "Opened", report: Report) -> Report:
    """Add a note to the report if the embedder does not know the languages of the collection."""
    if (not report.added and not report.changed) or not find_known_languages(opened.embedder):
        return report
    try:
        found = describe_foreign_languages(opened)
    except DriverFailed:  # the documents are stored; a search will report the broken index
        return report
    return replace(report, noted=(*report.noted, SourceFailure("embedder", "; ".join(found)))) if found else report
