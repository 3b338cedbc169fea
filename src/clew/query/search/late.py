"""Late interaction: the first hits ordered again by how well the tokens of the question match those of each text.

Half of the new score is that of the search, half MaxSim over token vectors that were kept when the chunks were added
(Khattab and Zaharia, "ColBERT", 2020), each scaled to 0–1 over the hits. `python -m studies.late` compares it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from clew.core.analyse import DEFAULT, UNKNOWN
from clew.core.errors import SettingsError
from clew.core.plural import format_count
from clew.core.protocols import KeepsTokens, Step, Store, Strategy, TokenEncoder
from clew.core.protocols.tokens import NOT_KEPT
from clew.core.stop_words import STOP_WORDS
from clew.core.trace import note
from clew.core.types import Hit, Query, Span
from clew.core.unicode import widen_to_whole_letters
from clew.query.rank.fuse import normalise_minmax
from clew.query.search.analyse import find_query_language

MAX_SIM = "max_sim"  # the name of the score before it is scaled and joined with that of the search
MIN_COSINE = 0.45  # of a word and the token of the question that it is highlighted for
ADVICE = "set ingestion.late = true and run `clew backfill`"

log = logging.getLogger("clew")
LoadTokenEncoder = Callable[[], TokenEncoder]


def no_token_encoder() -> TokenEncoder:
    """Raises SettingsError: where strategies are built without a model of late interaction."""
    raise SettingsError("there is no model of late interaction here; use the strategy rerank")


def widen(strategy: Strategy, *, depth: int) -> Strategy:
    """The strategy asked for as many hits as are ordered again, so that each of them has a relevance."""

    def search(query: Query) -> list[Hit]:
        return strategy(replace(query, k=max(query.k, depth)))

    return search


def match_tokens(
    store: Store, load_encoder: LoadTokenEncoder, *, depth: int, language: str = "auto", every: bool = False
) -> Step:
    """A step that orders the first max(depth, k) hits by half their score and half MaxSim, and highlights the k best.

    SettingsError where no chunk has token vectors; a hit without them keeps its score, with a warning. Highlights are
    for `every` hit where later steps may leave some out. A question in a language that the model does not know leaves
    the hits as they are, and the trace says so; `language` is that of the settings.
    """

    def late(query: Query, hits: list[Hit]) -> list[Hit]:
        if not isinstance(store, KeepsTokens):
            raise SettingsError(NOT_KEPT)
        encoder = load_encoder()
        note("model", encoder.name)
        first = hits[: max(depth, query.k)]
        own = find_query_language(query.text, language)
        if encoder.languages and own not in (*encoder.languages, UNKNOWN):
            note("not used", f"{encoder.name} does not know the language of the question ({own}); ranked as by hybrid")
            return first
        kept = store.tokens([hit.chunk.id for hit in first], encoder.name)
        if len(kept) < len(first):
            _report_missing(store, encoder.name, len(first) - len(kept), len(first))
        scored = join_scores(first, dict(zip(kept, encoder.match(query.text, list(kept.values())), strict=True)))
        shown = len(scored) if every else query.k
        return [*(_highlight(hit, query.text, encoder, kept) for hit in scored[:shown]), *scored[shown:]]

    return late


def join_scores(hits: Sequence[Hit], matched: Mapping[str, float]) -> list[Hit]:
    """The hits by half their score and half the other one, by chunk id, each scaled to 0–1; ties as they came.

    A hit without the other one has its own score in its place.
    """
    own = normalise_minmax([hit.scores.get("hybrid", hit.score) for hit in hits])
    other = dict(zip(matched, normalise_minmax(list(matched.values())), strict=True))
    scored = [
        replace(hit, scores={**hit.scores, MAX_SIM: matched[hit.chunk.id]} if hit.chunk.id in matched else hit.scores)
        .with_score((score + other.get(hit.chunk.id, score)) / 2, "late")
        for hit, score in zip(hits, own, strict=True)
    ]  # fmt: skip
    return sorted(scored, key=lambda hit: -hit.score)


def _highlight(hit: Hit, query: str, encoder: TokenEncoder, kept: Mapping[str, bytes]) -> Hit:
    """The hit with the words of its text that the question's tokens match best; stop words say nothing."""
    encoded = kept.get(hit.chunk.id)
    if encoded is None:
        return hit
    text, before = hit.chunk.text, len(hit.chunk.embed_text) - len(hit.chunk.text)
    aligned = encoder.align(query, hit.chunk.embed_text, encoded)
    matched = [(start - before, end - before) for (start, end), cosine in aligned if cosine >= MIN_COSINE]
    spans = [widen_to_whole_letters(text, start, end) for start, end in matched if start >= 0]
    words = [
        (start, end)
        for start, end in spans
        if any(map(str.isalnum, text[start:end])) and text[start:end].lower() not in STOP_WORDS[DEFAULT]
    ]
    return replace(hit, highlights=_join_neighbours(words, text))


def _join_neighbours(spans: Sequence[Span], text: str) -> tuple[Span, ...]:
    """The spans, in order, of which those with nothing but a space between are one."""
    joined: list[Span] = []
    for start, end in spans:
        if joined and start - joined[-1][1] <= 1 and not text[joined[-1][1] : start].strip():
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return tuple(joined)


def _report_missing(store: KeepsTokens, model: str, missing: int, hits: int) -> None:
    """Warns that hits have no token vectors; SettingsError if none has."""
    lacking = format_count(store.count_missing_tokens(model), "chunk")
    if missing == hits:
        raise SettingsError(
            f"none of the {hits} hits has token vectors, and {lacking} of the collection have none; {ADVICE}"
        )
    note("without token vectors", missing)
    log.warning(
        "%d of %d hits have no token vectors and keep their score; %s of the collection have none; %s",
        missing,
        hits,
        lacking,
        ADVICE,
    )
