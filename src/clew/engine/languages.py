"""The languages of documents; whether the embedder knows those of a collection, and which one to take if not."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from clew.core.analyse import UNKNOWN, make_language_term
from clew.core.errors import DriverFailed
from clew.core.filter import EVERYTHING, Filter
from clew.core.languages import EMBEDDER_LANGUAGES
from clew.core.protocols import Embedder, Store
from clew.core.report import Report, SourceFailure
from clew.core.types import DocumentRecord

if TYPE_CHECKING:
    from clew.engine.opened import Opened

MAX_FOREIGN = 0.2  # share of chunks in languages that the embedder does not know
MIN_CHUNKS = 20  # of which a share says something
MULTILINGUAL = "multilingual"


def name_languages(store: Store, records: Iterable[DocumentRecord]) -> Iterator[DocumentRecord]:
    """The records with their languages."""
    counts = store.language_counts(exact=True)
    found = _count_by_document(store, counts, EVERYTHING)
    for record in records:
        yield replace(record, language=_choose_language(record, counts, found))


def find_main_language(store: Store, doc_ids: Sequence[str]) -> str:
    """The language of most of the chunks of documents."""
    where, counts = Filter(documents=frozenset(doc_ids)), store.language_counts(exact=True)
    found = _count_by_document(store, counts, where)
    languages = Counter[str]()
    for record in store.documents(where):
        languages[_choose_language(record, counts, found)] += record.chunks
    return languages.most_common(1)[0][0] if languages else ""


def _count_by_document(store: Store, counts: Mapping[str, int], where: Filter) -> dict[str, Counter[str]]:
    """The chunks of each document in each language but the most frequent one, which all the others are in."""
    found: dict[str, Counter[str]] = {}
    for code in _sort_languages(counts)[1:]:
        for hit in store.search_terms({make_language_term(code): 1}, counts[code], where):
            found.setdefault(hit.chunk.doc_id, Counter())[code] += 1
    return found


def _choose_language(record: DocumentRecord, counts: Mapping[str, int], found: Mapping[str, Counter[str]]) -> str:
    """The language of most of the chunks of a document; "und" only where no chunk has a known one."""
    if not counts or not record.chunks:
        return ""
    own = Counter(found.get(record.id, {}))
    own[_sort_languages(counts)[0]] += record.chunks - own.total()
    known = {code: count for code, count in own.items() if count > 0 and code != UNKNOWN}
    return _sort_languages(known)[0] if known else UNKNOWN


def _sort_languages(counts: Mapping[str, int]) -> list[str]:
    """The languages by their chunks, most first."""
    return sorted(counts, key=lambda code: (-counts[code], code))


def find_foreign_languages(embedder: Embedder, counts: Mapping[str, int]) -> dict[str, int]:
    """The languages that the embedder does not know, with their chunks, most first; none if they are few."""
    known = getattr(embedder, "languages", None) or EMBEDDER_LANGUAGES.get(_get_model(embedder))
    if not known or sum(counts.values()) < MIN_CHUNKS:
        return {}
    foreign = {code: count for code, count in counts.items() if code not in ("", UNKNOWN) and code not in known}
    if sum(foreign.values()) <= MAX_FOREIGN * sum(counts.values()):
        return {}
    return dict(sorted(foreign.items(), key=lambda pair: (-pair[1], pair[0])))


def advise_embedder(foreign: Mapping[str, int], embedder: Embedder, chunks: int) -> str:
    """What to do where the embedder does not know these languages, of that many chunks.

    A collection that is mixed, so that the embedder knows much of it, is better off with two embedders.
    """
    if foreign.keys() & EMBEDDER_LANGUAGES[MULTILINGUAL]:
        model = _get_model(embedder)
        if model in EMBEDDER_LANGUAGES and chunks - sum(foreign.values()) > MAX_FOREIGN * chunks:
            return f"words still find them; for meaning run `clew reembed --to {model}+{MULTILINGUAL}`"
        return f"words still find them; for meaning run `clew reembed --to {MULTILINGUAL}`"
    return "words still find them; for meaning run `clew reembed --to` a model of these languages (onnx: or openai:)"


def _get_model(embedder: Embedder) -> str:
    """The name without how its vectors are cut and stored ("#128", "#int8")."""
    return embedder.name.partition("#")[0]


def note_foreign_languages(opened: "Opened", report: Report) -> Report:
    """The report, with a note if the collection is in languages that the embedder does not know."""
    if not report.added and not report.changed:
        return report
    try:
        counts = opened.store.language_counts()
    except DriverFailed:  # what was added is stored; a search tells what is wrong with the index
        return report
    foreign = find_foreign_languages(opened.embedder, counts)
    if not foreign:
        return report
    chunks = sum(counts.values())
    share = f"{sum(foreign.values())} of {chunks} chunks"
    problem = f"{share} are in languages that {opened.embedder.name} does not know ({', '.join(foreign)})"
    advice = advise_embedder(foreign, opened.embedder, chunks)
    return replace(report, noted=(*report.noted, SourceFailure("embedder", f"{problem}; {advice}")))
