"""The named strategies, each composed of combinators.

A strategy factory receives the drivers and returns a strategy. Register your own by name:
`Extensions(strategies={"mine": factory})`. Under a built-in name it replaces the built-in, also within the strategies
built on that.
"""

import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from clew.core.calibration import Calibration, assume_calibration
from clew.core.errors import DriverFailed, SettingsError
from clew.core.filter import EVERYTHING, Filter
from clew.core.languages import RERANKER_LANGUAGES
from clew.core.patterns import compile_pattern
from clew.core.protocols import LLM, Embedder, Judge, Reranker, Rewrite, SearchableStore, Strategy, Verdict
from clew.core.settings import DEFAULTS, Settings
from clew.core.suggest import unknown_name_error
from clew.core.trace import step
from clew.core.types import Hit, Matrix, Query
from clew.query.rank.fuse import fuse_two, make_fuse, sum_reciprocal_ranks
from clew.query.search import boost, conversation, rank
from clew.query.search.analyse import QueryAnalyser
from clew.query.search.compose import fan_out, fuse, pipe, reflect
from clew.query.search.conversation import SplitText
from clew.query.search.evidence import EvidenceSource, assess, order_by_relevance
from clew.query.search.rank import rerank as rerank_step
from clew.query.search.rank import score_texts
from clew.query.search.topics import split_messages_by_topic

log = logging.getLogger("clew")


@dataclass(frozen=True, slots=True)
class Drivers:
    """The resources of a strategy factory. The reranker is loaded on first use; reranker and model may be missing."""

    store: SearchableStore
    embedder: Embedder
    settings: Settings = DEFAULTS
    reranker: Callable[[], Reranker | None] = lambda: None
    llm: LLM | None = None
    split_text: SplitText = lambda text: [text]  # the storage chunker, for texts as long as documents
    strategies: "Mapping[str, StrategyFactory]" = field(default_factory=lambda: STRATEGIES)
    calibration: Calibration | None = None  # None: assumed from the embedder
    has_messages: Callable[[], bool] = lambda: True  # whether any may be found
    seen: SearchableStore | None = None  # all that the engine may see, whatever the filter of the call; None: the store
    shown: Filter = EVERYTHING  # the filter of `store` within `seen`

    _analyser: QueryAnalyser = field(init=False, repr=False, compare=False)  # shared by both legs of a search

    def __post_init__(self) -> None:
        analyser = QueryAnalyser(self.store, language=self.settings.ingestion.language, count=self.embedder.count)
        object.__setattr__(self, "_analyser", analyser)

    @property
    def evidence(self) -> EvidenceSource:
        """The source that judges how well chunks match a query, by meaning and by words."""
        known = self.calibration or assume_calibration(self.embedder.name, self.embedder.min_similarity)
        seen = self.seen or self.store
        return EvidenceSource(seen, self.shown, self.embedder, known, self._analyser, self.settings, self.has_messages)

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        """Embed queries in one batch."""
        return self.embedder.embed(texts, role="query")

    def build_strategy(self, name: str) -> Strategy:
        """Build the strategy of that name: the user's own where there is one, else the built-in.

        While a factory runs, its own name means the built-in, so an override may be built on what it replaces.
        """
        if name not in self.strategies:
            raise unknown_name_error("strategy", name, self.strategies)
        factory = self.strategies[name]
        if factory is STRATEGIES.get(name):
            return factory(self)
        others = {other: made for other, made in self.strategies.items() if other != name}
        builtin = {name: STRATEGIES[name]} if name in STRATEGIES else {}
        strategy = factory(replace(self, strategies={**others, **builtin}))
        made: object = strategy  # a factory of the user may return anything
        if not callable(made):
            kind = type(made).__name__
            raise SettingsError(f"the factory of strategy {name!r} returned a {kind}; it must return a function")
        return strategy


StrategyFactory = Callable[[Drivers], Strategy]


def semantic(drivers: Drivers) -> Strategy:
    """Make a strategy that searches by meaning (vectors)."""
    return _search_by(rank.SEMANTIC, drivers)


def lexical(drivers: Drivers) -> Strategy:
    """Make a strategy that searches by words (BM25)."""
    return _search_by(rank.LEXICAL, drivers)


def hybrid(drivers: Drivers) -> Strategy:
    """Make a strategy that searches by meaning and by words, and orders all hits by relevance or by `search.fusion`."""
    search, legs = drivers.settings.search, (rank.SEMANTIC, rank.LEXICAL)
    if all(drivers.strategies.get(leg) is STRATEGIES[leg] for leg in legs):
        return _search_by(rank.HYBRID, drivers)
    own = [drivers.build_strategy(leg) for leg in legs]  # one is the user's: its hits may not be in the store
    if search.fusion == "confident":
        return pipe(fuse(*own), assess(drivers.evidence), order_by_relevance)
    by = make_fuse(lambda found, _: fuse_two(found, search.semantic_weight, search), score_name="hybrid")
    return fuse(*own, by=by)


def _search_by(name: str, drivers: Drivers) -> Strategy:

    def search(query: Query) -> list[Hit]:
        return rank.search(name, drivers.evidence, [query], drivers.settings)[0]

    return search


def document_boost(drivers: Drivers) -> Strategy:
    """Make a strategy in which chunks gain from the summary of their document, over `search.document_strategy`."""
    search = drivers.settings.search
    over = None if search.document_strategy == "semantic" else drivers.build_strategy(search.document_strategy)
    return boost.document_boost(drivers.store, drivers.evidence, search, over=over)


def multi_query(drivers: Drivers) -> Strategy:
    """Make a strategy that searches a question and the model's variations, fused by rank; `hybrid` without a model.

    Fused by reciprocal rank, because scores of hybrid searches are relative to their own query: the best score gained
    nothing over the question alone, adding up reciprocal ranks did (MTRAG, recall@5 .280 against .305).
    """
    base = drivers.build_strategy("hybrid")
    if drivers.llm is None:

        def search(query: Query) -> list[Hit]:
            with step("multi_query") as trace:
                trace.notes["reason"] = "without a language model there are no other wordings: this is hybrid"
                return base(query)

        return search
    by = make_fuse(sum_reciprocal_ranks, score_name="multi_query")
    found = fan_out(_build_query_rewrite(drivers, drivers.llm), base, by=by, embed=drivers.embed_queries)
    return pipe(found, assess(drivers.evidence, again=True))  # for the question, not for its variations


def rerank(drivers: Drivers) -> Strategy:
    """Make a strategy that reorders the best hits of a hybrid search by a reranker (cross-encoder)."""
    candidates = drivers.settings.search.candidates
    known = assess(drivers.evidence)  # the reranker refines it; a user's `hybrid` may lack it
    return pipe(drivers.build_strategy("hybrid"), known, rerank_step(drivers.reranker(), candidates=candidates))


def self_reflective(drivers: Drivers) -> Strategy:
    """Make a strategy that repeats a hybrid search with a better query while the judge finds the hits insufficient."""
    found = reflect(drivers.build_strategy("hybrid"), _build_judge(drivers), rounds=drivers.settings.search.rounds)
    return pipe(found, assess(drivers.evidence, again=True))  # for the question, not for a refined one


def chunked(drivers: Drivers) -> Strategy:
    """Make a strategy for a conversation: each topic is a query of its own, and finds its best documents."""
    config = drivers.settings.conversation
    return conversation.chunked(
        drivers.build_strategy(config.strategy),
        config,
        split_text=drivers.split_text,
        embed=drivers.embed_queries,
        split_topics=split_messages_by_topic if config.topics else None,
        fetch_vectors=drivers.store.vectors,
        assess=assess(drivers.evidence),
    )


def auto(drivers: Drivers) -> Strategy:
    """Make a strategy that chooses another: the one the question names, or the one for its kind if available."""

    from clew.query.rewrite.route import route_question  # many patterns, which no other strategy needs

    def search(query: Query) -> list[Hit]:
        route = route_question(query.text, history_length=len(query.history))
        missing = "" if route.is_wanted else _find_missing_part(route.strategy, drivers, query)
        name = "hybrid" if missing else route.strategy
        with step("auto") as trace:
            trace.notes["strategy"] = name
            trace.notes["reason"] = (
                f"{route.reason}; {route.strategy} is left out: {missing}" if missing else route.reason
            )
        return drivers.build_strategy(name)(replace(query, text=route.text))

    return search


def _find_missing_part(name: str, drivers: Drivers, query: Query) -> str:
    """Name what a strategy lacks here to gain anything over `hybrid`; empty if nothing."""
    if name in ("multi_query", "self_reflective"):
        return "" if drivers.llm else "there is no language model"
    if name != "rerank":
        return ""
    reranker, language = drivers.reranker(), drivers.evidence.analyser.find_language(query.text)
    if reranker is None:
        return "there is no reranker"
    known = RERANKER_LANGUAGES.get(reranker.name)
    is_known = known is None or (bool(known) and language in ("", *known))
    return "" if is_known else f"{reranker.name} does not know the language"


STRATEGIES: Mapping[str, StrategyFactory] = {
    "semantic": semantic,
    "lexical": lexical,
    "hybrid": hybrid,
    "document_boost": document_boost,
    "multi_query": multi_query,
    "rerank": rerank,
    "self_reflective": self_reflective,
    "chunked": chunked,
    "auto": auto,
}


def _build_query_rewrite(drivers: Drivers, llm: LLM) -> Rewrite:
    """Build the rewrite of multi_query: the query transformer if enabled, else variations."""
    from clew.query.rewrite.rewrites import rewrite_with_transformer, rewrite_with_variations
    from clew.query.rewrite.transformer import Transformer, TransformerConfig

    config = drivers.settings.query_transformer
    if not config.enabled:
        return rewrite_with_variations(llm, n=drivers.settings.search.variations)
    transformer = Transformer(
        TransformerConfig(
            enabled=True,
            num_queries=config.num_queries,
            domain_context=config.domain_context,
            suppress_thinking=config.suppress_thinking,
        ),
        llm,
    )
    return rewrite_with_transformer(transformer, max_turns=drivers.settings.history.max_context_turns)


def _build_judge(drivers: Drivers) -> Judge:
    """Build a judge from the language model, else from the reranker, else one that never grades."""
    if drivers.llm is not None:
        return make_model_judge(drivers.llm)
    reranker = drivers.reranker()
    if reranker is None:
        log.warning("there is neither a language model nor a reranker; nothing is graded")
        return lambda _query, _hits: Verdict(None)

    from clew.query.rewrite.keywords import select_expansion_terms

    def refine(query: Query, hits: list[Hit]) -> Query | None:
        terms = select_expansion_terms(query.text, [hit.chunk.text for hit in hits[:5]])
        return replace(query, text=" ".join([query.text, *terms]), vector=None) if terms else None

    return make_reranker_judge(reranker, refine)


MIN_GRADE = 3  # from which no second search is needed
MAX_GRADED_HITS = 5  # hits that are graded
MAX_EXCERPT_CHARS = 600  # of each hit in the prompt

Refine = Callable[[Query, list[Hit]], Query | None]

GRADE = """Question: {query}

What a search found:
{found}

How well does this answer the question, from 1 (not at all) to 5 (completely)? Answer with the number alone."""
REFINE = """Question: {query}

A search for it found only this, which does not answer it well:
{found}

Write one better search query for the same question. Answer with the query alone, on one line."""

_SCALE = compile_pattern(r"(?:on|from)?\s*(?:a\s+)?scale\s+(?:of|from)\s+\d\s*(?:-|–|to)\s*\d", re.IGNORECASE)
_GRADE = compile_pattern(r"(?<![\d.])(-?\d+(?:\.\d+)?)(?:\s*(?:/|out\s+of)\s*5(?!\d))?")


def parse_grade(answer: str) -> int | None:
    """Parse the grade in an answer ("2", "Grade: 2", "2.5/5", "2."), rounded down; None if there is none from 0 to 5.

    The first number counts, except the ends of a scale named before it. A grade of 0 counts as 1.
    """
    found = _GRADE.search(_SCALE.sub(" ", answer))
    grade = math.floor(float(found[1])) if found else -1
    return max(1, grade) if 0 <= grade <= 5 else None


def make_model_judge(llm: LLM) -> Judge:
    """Make a judge that asks a language model for the grade, and for a refined query only when it is needed.

    An answer without a grade counts as ungraded; the hits are then kept as they are.
    """

    def judge(query: Query, hits: list[Hit]) -> Verdict:
        if not hits:
            return Verdict(1, lambda: _refine_query(llm, query, hits))
        try:
            grade = parse_grade(llm.complete(_fill_prompt(GRADE, query, hits), max_tokens=10))
        except DriverFailed:
            return Verdict(None)
        if grade is None or grade >= MIN_GRADE:
            return Verdict(grade)
        return Verdict(grade, lambda: _refine_query(llm, query, hits))

    return judge


def make_reranker_judge(reranker: Reranker, refine: Refine) -> Judge:
    """Make a judge without a language model: its grade is the reranker's calibrated chance of the best hit."""

    def judge(query: Query, hits: list[Hit]) -> Verdict:
        scores = score_texts(reranker, query.text, [hit.chunk.index_text for hit in hits[:MAX_GRADED_HITS]])
        grade = probability_to_grade(max(map(reranker.calibrate, scores), default=0.0))
        return Verdict(grade) if grade >= MIN_GRADE else Verdict(grade, lambda: refine(query, hits))

    return judge


def probability_to_grade(chance: float) -> int:
    """Turn a chance from 0 to 1 into a grade from 1 to 5, in equal steps."""
    return min(5, 1 + int(5 * max(0.0, chance)))


def _refine_query(llm: LLM, query: Query, hits: list[Hit]) -> Query | None:
    try:
        lines = llm.complete(_fill_prompt(REFINE, query, hits), max_tokens=60).strip().splitlines()
    except DriverFailed:
        return None
    text = lines[0].strip().strip("\"'") if lines else ""
    return replace(query, text=text, vector=None) if text and text != query.text else None


def _fill_prompt(prompt: str, query: Query, hits: list[Hit]) -> str:
    """Fill the two placeholders of a prompt; a placeholder inside a text is left alone."""
    found = (
        "\n\n".join(f"[{n}] {hit.chunk.text[:MAX_EXCERPT_CHARS]}" for n, hit in enumerate(hits[:MAX_GRADED_HITS], 1))
        or "(nothing)"
    )
    before, rest = prompt.split("{query}")
    between, after = rest.split("{found}")
    return "".join((before, query.text, between, found, after))
