"""Whether the embedder knows the languages of a collection, and which one to take if it does not."""

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import TYPE_CHECKING

from clew.core.analyse import UNKNOWN
from clew.core.errors import DriverFailed
from clew.core.languages import EMBEDDER_LANGUAGES
from clew.core.protocols import Embedder
from clew.core.report import Report, SourceFailure

if TYPE_CHECKING:
    from clew.engine.opened import Opened

MAX_FOREIGN = 0.2  # share of chunks in languages that the embedder does not know
MIN_CHUNKS = 20  # of which a share says something
MULTILINGUAL = "multilingual"


def find_foreign_languages(embedder: Embedder, counts: Mapping[str, int]) -> dict[str, int]:
    """The languages that the embedder does not know, with their chunks, most first; none if they are few."""
    known = _list_known_languages(embedder)
    if not known or sum(counts.values()) < MIN_CHUNKS:
        return {}
    foreign = {code: count for code, count in counts.items() if code not in ("", UNKNOWN) and code not in known}
    if sum(foreign.values()) <= MAX_FOREIGN * sum(counts.values()):
        return {}
    return dict(sorted(foreign.items(), key=lambda pair: (-pair[1], pair[0])))


def _list_known_languages(embedder: Embedder) -> Set[str]:
    """The languages that an embedder knows; none if it does not say."""
    return getattr(embedder, "languages", None) or EMBEDDER_LANGUAGES.get(_get_model(embedder)) or frozenset()


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
    if (not report.added and not report.changed) or not _list_known_languages(opened.embedder):
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
