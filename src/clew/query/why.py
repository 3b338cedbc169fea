"""Diagnosis of a lost target: the stage that lost it, and the smallest setting change that brings it back.

The losing stage is the first step after the last step whose results still held the target. Steps are followed through
the trace whatever their names, so a user's own step is found like a built-in one. Names decide only the wording for
built-in steps, and which steps run side by side.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from clew.core.candidates import Placed
from clew.core.cite import Context
from clew.core.errors import SettingsError
from clew.core.explanation import Fix, Stage, WhyNot
from clew.core.facets import admits_chunk
from clew.core.filter import EVERYTHING, Filter
from clew.core.protocols import Reranker
from clew.core.settings import Settings
from clew.core.suggest import format_count
from clew.core.trace import Trace
from clew.core.types import Chunk, Document, Hit, StoreStats
from clew.query.context.assemble import IRRELEVANT
from clew.query.rank.calibrate import MATCH
from clew.query.search.rank import RANK, score_texts

IsFound = Callable[[Settings], bool]  # whether these settings find the target

COUNTS = tuple(range(1, 10)) + tuple(int(10 * 1.1**n) for n in range(73))  # up to 9,555, each 10 % more
COSINES = tuple(round(1 - n / 100, 2) for n in range(201))  # from 1 down to -1
CHANCES = (*(round(1 - n / 100, 2) for n in range(100)), 0.005, 0.002, 0.001, 0.0)


@dataclass(frozen=True, slots=True)
class Knob:
    """A setting to change, and the values to try, smallest change first."""

    setting: str
    values: tuple[Any, ...]
    up: bool | None = None  # only values above (True) or below (False) the current one

    def list_values_beyond(self, now: Any) -> Sequence[Any]:
        """List the values to try: not the current one, and only on the side that `up` names."""
        if self.up is False and now is None:
            return []  # no minimum is set
        if self.up is None or now is None:
            return [value for value in self.values if value != now]
        return [value for value in self.values if (value > now if self.up else value < now)]


def _make_increase_knobs(*settings: str) -> tuple[Knob, ...]:
    return tuple(Knob(setting, COUNTS, up=True) for setting in settings)


_WEIGHTS = (
    Knob("search.semantic_weight", tuple(n / 20 for n in range(21)), up=True),
    Knob("search.semantic_weight", tuple(1 - n / 20 for n in range(21)), up=False),
    Knob("search.fusion", ("convex", "rrf", "round_robin")),
)
_DEPTHS = _make_increase_knobs("search.depth", "search.candidates", "conversation.chunks_per_query")
KNOBS: dict[Stage, tuple[Knob, ...]] = {
    "threshold": (
        Knob("search.min_similarity", COSINES, up=False),
        Knob("search.min_relevance", CHANCES, up=False),
        Knob("context.min_relevance", CHANCES, up=False),
        Knob("context.min_chance", CHANCES, up=False),
    ),
    "depth": (*_make_increase_knobs("k"), *_DEPTHS, Knob("search.mode", ("exact",))),
    "fusion": (*_make_increase_knobs("k"), *_WEIGHTS, *_DEPTHS),
    "rerank": (*_make_increase_knobs("k"), Knob("search.strategy", ("hybrid",))),
    "step": (*_make_increase_knobs("k"), *_DEPTHS),
    "dedup": (
        *_make_increase_knobs("conversation.dedup_max_per_doc"),
        Knob("conversation.dedup_threshold", tuple(n / 100 for n in range(50, 101)), up=True),
        Knob("conversation.dedup_strategy", ("document", "none")),
    ),
    "diversity": (
        *_make_increase_knobs("k"),
        Knob("conversation.mmr", (1.0, None)),
        Knob("conversation.order", ("score",)),
    ),
    "merge": (
        Knob("merger.max_merged_size", tuple(int(100_000 / 1.1**n) for n in range(100)), up=False),
        Knob("merger.require_adjacent", (True,)),
        Knob("context.render", ("numbered",)),
    ),
    "budget": (
        Knob("context.tokens", tuple(int(10 * 1.05**n) for n in range(240)), up=True),
        Knob("context.cut", (True,)),
    ),
}


class TrialReranker:
    """A caching reranker for the many trials of one question, over ever longer lists.

    Each text is scored once. Beyond the length of the original search's lists, only wanted texts are scored. The other
    texts count as better than all scored ones, so a target found in a trial would also be found with real scores.
    """

    def __init__(self, wanted: Set[str]) -> None:
        self.is_trial = False  # False while the original search runs
        self._wanted, self._longest = wanted, 0
        self._scores: dict[tuple[str, str], float] = {}
        self._reranker: Reranker

    def wrap(self, reranker: Reranker) -> "TrialReranker":
        """Use another reranker's scores from now on; return this reranker."""
        self._reranker = reranker
        return self

    @property
    def name(self) -> str:
        """The name of the wrapped reranker."""
        return self._reranker.name

    def calibrate(self, score: float) -> float:
        """Calibrate a score as the wrapped reranker does."""
        return self._reranker.calibrate(score)

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Score texts; in a long list, guess most scores."""
        if not self.is_trial:
            self._longest = max(self._longest, len(texts))
        read = [text for place, text in enumerate(texts) if place < self._longest or text in self._wanted]
        new = [text for text in dict.fromkeys(read) if (query, text) not in self._scores]
        for text, score in zip(new, score_texts(self._reranker, query, new) if new else (), strict=True):
            self._scores[query, text] = score
        best = max((self._scores[query, text] for text in read), default=0.0)
        return [self._scores.get((query, text), best + 1) for text in texts]


def find_smallest_fix(stage: Stage, settings: Settings, is_found: IsFound, *, k: str) -> Fix | None:
    """Find the smallest change to a setting of the stage that brings the target back; `k` names the setting for k."""
    for knob in KNOBS.get(stage, ()):
        name = k if knob.setting == "k" else knob.setting
        now = get_setting(settings, name)
        values = knob.list_values_beyond(now)
        value = _find_smallest_working_value(values, partial(_is_found_with, settings, name, is_found=is_found))
        if value is not None:
            return Fix(name, value[0], now)
    return None


def drop_each_condition(where: Filter) -> Iterator[tuple[str, Filter]]:
    """Yield the name of each condition set in a filter, with the filter without that condition."""
    blank = Filter()
    for name in ("documents", "kinds", "channels", "authors", "since", "until", "meta", "access", "any_of", "all_of"):
        if getattr(where, name) != getattr(blank, name):
            yield name, replace(where, **{name: getattr(blank, name)})


def get_setting(settings: Settings, name: str) -> Any:
    """Return the value of a setting by its dotted name."""
    group, _, field = name.partition(".")
    return getattr(getattr(settings, group), field)


def replace_setting(settings: Settings, name: str, value: Any) -> Settings:
    """Return the settings with another value at a dotted name."""
    group, _, field = name.partition(".")
    return replace(settings, **{group: replace(getattr(settings, group), **{field: value})})


def _is_found_with(settings: Settings, name: str, value: Any, is_found: IsFound) -> bool:
    try:
        return is_found(replace_setting(settings, name, value))
    except SettingsError:  # the value conflicts with another setting
        return False


def _find_smallest_working_value(values: Sequence[Any], works: Callable[[Any], bool]) -> tuple[Any] | None:
    """Return the smallest change that works as a 1-tuple (the value may be None), or None if none works.

    Assumes that every change beyond a working one works too. Between two integers of the list, searches all integers.
    """
    if not values or not works(values[-1]):
        return None
    at = _bisect_first_working(len(values) - 1, lambda place: works(values[place]))
    value = values[at]
    if at and type(value) is int and type(values[at - 1]) is int:
        low, high = sorted((values[at - 1], value))
        if value > values[at - 1]:
            value = low + 1 + _bisect_first_working(high - low - 1, lambda more: works(low + 1 + more))
    return (value,)


def _bisect_first_working(last: int, works: Callable[[int], bool]) -> int:
    """Bisect for the first number that works; `last` is known to work."""
    low, high = 0, last
    while low < high:
        middle = (low + high) // 2
        if works(middle):
            high = middle
        else:
            low = middle + 1
    return high


SEARCH = "search"  # the step around a strategy, which keeps its first k hits
# Built-in rankings that run side by side: a hit missing from one may still come from another.
RANKINGS = frozenset({"semantic", "lexical", "chunks", "query", "reflect", RANK, "fused", "fanned"})
# The stage to name for a built-in step that removed the target (and how), or that ranked it too low.
REMOVED_BY: Mapping[str, tuple[Stage, str]] = {
    "by_document": ("dedup", "another chunk of its document was kept instead"),
    "by_meaning": ("dedup", "a chunk that says the same was kept instead"),
    "rerank": ("depth", "it was not among the candidates for re-ranking"),
    "query": ("depth", "each part of the conversation keeps only its best hits"),
    RANK: ("fusion", "the ranking left it out"),
    "fused": ("fusion", "the fusion left it out"),
    "fanned": ("fusion", "the fusion of the queries left it out"),
}
RANKED_BY: Mapping[str, Stage] = {
    RANK: "fusion",
    "fused": "fusion",
    "fanned": "fusion",
    "document_boost": "fusion",
    "flow": "fusion",
    "rerank": "rerank",
}
MINIMUM = "minimum"  # the step that drops hits below a configured minimum
REORDERED_BY = frozenset({"chunked", "mmr"})  # steps that trade score for diversity
_EXCERPT = 40  # characters from the middle of a chunk by which it is recognised in a passage
ANY_SIMILARITY = -1.0  # a cosine that every chunk reaches
MAX_DEPTH = COUNTS[-1]  # how deep to search for a target that no ranking found


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of the read path with the results of every step; `context` is None for a plain search."""

    hits: Sequence[Hit]
    trace: Trace
    context: Context | None = None
    max_chars: int | None = None  # characters of a passage that are rendered (None: all)

    def has_any_chunk(self, wanted: Set[str]) -> bool:
        """Return whether any of the wanted chunks is in the result."""
        if self.context is None:
            return any(hit.chunk.id in wanted for hit in self.hits)
        return self.find_passage_number(wanted) is not None

    def find_passage_number(self, wanted: Set[str]) -> int | None:
        """Find the number of the passage that shows one of the wanted chunks."""
        for number, passage in enumerate(self.context.passages if self.context else (), 1):
            shown = passage.text[: self.max_chars]
            for hit in passage.chunks:
                middle = hit.chunk.text[len(hit.chunk.text) // 2 :][:_EXCERPT]
                if hit.chunk.id in wanted and (self.max_chars is None or middle in shown):
                    return number
        return None

    def list_steps(self) -> list[Trace]:
        """List the steps in the order in which they ended."""
        return list(_walk_steps(self.trace))


Run = Callable[[Settings, Filter], Attempt]


def why_not(
    query: str,
    target: str,
    *,
    document: Document,
    chunks: Sequence[Chunk],
    run: Run,
    settings: Settings,
    where: Filter = EVERYTHING,
) -> WhyNot:
    """Find the stage that lost a target of the collection, and the smallest setting change that brings it back."""
    if not chunks:
        return WhyNot(query, target, "parse", "it is in the collection, but no text could be read from it")
    wanted = frozenset(chunk.id for chunk in chunks if admits_chunk(where, document, chunk))
    if not wanted:
        reason, fix = _explain_filter_exclusion(document, chunks, run, settings, where)
        return WhyNot(query, target, "filter", reason, fix)
    first = run(settings, where)
    if first.has_any_chunk(wanted):
        return WhyNot(query, target, "found", _describe_found_place(first, wanted))
    stage, reason = _find_losing_stage(first, wanted, run, settings, where)
    k = "search.k" if first.context is None else "context.k"
    fix = find_smallest_fix(stage, settings, lambda tried: run(tried, where).has_any_chunk(wanted), k=k)
    return WhyNot(query, target, stage, reason, fix)


def _explain_filter_exclusion(
    document: Document, chunks: Sequence[Chunk], run: Run, settings: Settings, where: Filter
) -> tuple[str, Fix | None]:
    """Name the conditions that exclude the target, and the one to drop so that the search finds it."""
    wider = [
        (name, without)
        for name, without in drop_each_condition(where)
        if any(admits_chunk(without, document, chunk) for chunk in chunks)
    ]
    reason = f"the filter does not admit it ({', '.join(name for name, _ in wider) or 'several conditions together'})"
    wanted = frozenset(chunk.id for chunk in chunks)
    name = next((name for name, without in wider if run(settings, without).has_any_chunk(wanted)), "")
    return reason, Fix(f"where.{name}", "anything", getattr(where, name)) if name else None


def _describe_found_place(attempt: Attempt, wanted: Set[str]) -> str:
    if attempt.context is None:
        rank = next(rank for rank, hit in enumerate(attempt.hits, 1) if hit.chunk.id in wanted)
        return f"it is hit {rank} of {len(attempt.hits)}"
    return f"it is in passage {attempt.find_passage_number(wanted)} of {len(attempt.context.passages)}"


def _find_losing_stage(
    attempt: Attempt, wanted: Set[str], run: Run, settings: Settings, where: Filter
) -> tuple[Stage, str]:
    """Find the stage of the read path that lost the wanted chunks, and the reason in words."""
    if attempt.context is not None and any(hit.chunk.id in wanted for hit in attempt.hits):
        return _explain_context_drop(attempt.context, wanted)
    if not any(step.output is not None and step.name != SEARCH for step in attempt.list_steps()):
        returned = format_count(len(attempt.hits), "hit")
        return "step", f"the strategy returned {returned} without it, and records no steps to look into"
    ranks = {id(step): rank for step in attempt.list_steps() if (rank := _find_best_rank(step, wanted))}
    if not ranks:
        return _explain_unranked(wanted, run, settings, where)
    having = [step for step in attempt.list_steps() if id(step) in ranks]
    last = min(having, key=lambda step: len(_find_later_steps(attempt.trace, step) or ()))
    loser = next(
        (step for step in _find_later_steps(attempt.trace, last) or () if step.output is not None), attempt.trace
    )
    best: dict[str, int] = {}
    for step in having:
        best[step.name] = min(ranks[id(step)], best.get(step.name, ranks[id(step)]))
    known = f"its ranks: {', '.join(f'{name} {rank}' for name, rank in best.items())}"
    if loser.name == MINIMUM:
        return (
            "threshold",
            f"{_describe_numbers(run(_remove_minima(settings), where), wanted)} is below the minimum ({known})",
        )
    if loser.name != SEARCH:
        loser = _find_innermost_step(loser)
        stage, how = REMOVED_BY.get(loser.name, ("step", f"{_format_step_name(loser)} removed it"))
        return stage, f"{how} ({known})"
    k = settings.search.k if attempt.context is None else settings.context.k
    if ranks[id(last)] <= k or len(attempt.hits) < k:  # the cut to k did not lose it
        return "step", f"the strategy removed it after {_format_step_name(last)} ({known})"
    blamed = _find_demoting_step(attempt.trace, having, ranks, k)
    stage = _name_demoting_stage(blamed, wanted, k)
    how = f"{_format_step_name(blamed)} ranked it too low, and" if blamed is not None and stage == "step" else ""
    return stage, f"{how} only the first {k} hits were kept ({known})".strip()


def _find_demoting_step(trace: Trace, having: Sequence[Trace], ranks: Mapping[int, int], k: int) -> Trace | None:
    """Find the step that moved the target out of the first k; None if no step ranked it among them."""
    high = [step for step in having if ranks[id(step)] <= k]
    if not high:
        return None
    last = min(high, key=lambda step: len(_find_later_steps(trace, step) or ()))
    return next((step for step in _find_later_steps(trace, last) or () if id(step) in ranks), None)


def _name_demoting_stage(step: Trace | None, wanted: Set[str], k: int) -> Stage:
    """Return the stage of the step that ranked the target below k."""
    if step is None:
        return "depth"
    if step.name not in REORDERED_BY:
        return RANKED_BY.get(step.name, "step")
    by_score = sorted(_list_ranked(step), key=lambda each: (-each.score, each.id))
    return "diversity" if any(each.id in wanted for each in by_score[:k]) else "depth"


def _explain_context_drop(context: Context, wanted: Set[str]) -> tuple[Stage, str]:
    for dropped in context.dropped:
        if any(hit.chunk.id in wanted for hit in dropped.passage.chunks):
            if dropped.reason == IRRELEVANT:
                relevance = max(hit.relevance for hit in dropped.passage.chunks)
                return (
                    "threshold",
                    f"it was found with a relevance of {relevance:.3f}; {context.reason or 'too little'}",
                )
            stage: Stage = "budget" if dropped.reason == "budget" else "merge"
            return stage, f"it was found and left out of the context: {dropped.reason} ({dropped.tokens} tokens)"
    return "merge", "it was found and merged into a passage of which this part is not rendered"


def _explain_unranked(wanted: Set[str], run: Run, settings: Settings, where: Filter) -> tuple[Stage, str]:
    """Explain why no ranking had the target: it is below the minimum similarity, or below the search depth."""
    if cosine := _format_best_cosine(run(_remove_minima(settings), where), wanted):
        return "threshold", f"its similarity of {cosine} is below the minimum"
    deep = replace(
        settings,
        search=replace(settings.search, k=MAX_DEPTH, depth=MAX_DEPTH),
        context=replace(settings.context, k=MAX_DEPTH),
    )
    if any(_find_best_rank(step, wanted) for step in run(deep, where).list_steps()):
        return "depth", "no ranking searched deep enough to reach it"
    if cosine := _format_best_cosine(run(_remove_minima(deep), where), wanted):
        reason = f"its similarity of {cosine} is below the minimum, and it ranks below the search depth"
        return "threshold", reason
    return "depth", f"no ranking has it among its first {MAX_DEPTH:,}; lexical search needs a shared word"


def _remove_minima(settings: Settings) -> Settings:
    return replace(settings, search=replace(settings.search, min_similarity=ANY_SIMILARITY, min_relevance=0.0))


def _describe_numbers(attempt: Attempt, wanted: Set[str]) -> str:
    """Describe the similarity and relevance of the best wanted chunk."""
    best = max((hit for hit in attempt.hits if hit.chunk.id in wanted), key=lambda hit: hit.relevance, default=None)
    if best is None:
        return "its similarity or relevance"
    return f"its similarity of {best.similarity:.3f} or relevance of {best.relevance:.3f}"


def _format_best_cosine(attempt: Attempt, wanted: Set[str]) -> str:
    """Format the highest cosine of the wanted chunks to three places; empty if no semantic ranking has one."""
    steps = [step for step in attempt.list_steps() if step.name == "semantic"]
    scores = [each.score for step in steps for each in _list_ranked(step) if each.id in wanted]
    return f"{max(scores):.3f}" if scores else ""


def _walk_steps(trace: Trace) -> Iterator[Trace]:
    for step in trace.steps:
        yield from _walk_steps(step)
    yield trace


def _find_later_steps(trace: Trace, node: Trace) -> list[Trace] | None:
    """List, in order, the later steps that work on a step's hits, directly or not; None if the trace lacks the step."""
    if trace is node:
        return []
    for place, step in enumerate(trace.steps):
        inner = _find_later_steps(step, node)
        if inner is not None:
            return [*inner, *(later for later in trace.steps[place + 1 :] if _continues_hits_of(later, step)), trace]
    return None


def _continues_hits_of(later: Trace, earlier: Trace) -> bool:
    """Return whether a step works on the hits of an earlier step, rather than ranking in parallel with it.

    A user's step may have the name of a built-in ranking. It works on the earlier hits if some of its own still carry
    their scores.
    """
    if later.name not in RANKINGS:
        return True
    if earlier.name == RANK:
        return any(MATCH in hit.scores for hit in _iterate_step_hits(later))
    scores = {hit.chunk.id: hit.scores for hit in _iterate_step_hits(earlier)}
    return later.name != earlier.name and any(
        scores.get(hit.chunk.id) and scores[hit.chunk.id].items() <= hit.scores.items()
        for hit in _iterate_step_hits(later)
    )


def _find_innermost_step(step: Trace) -> Trace:
    """Find the innermost step inside a step, such as `by_document` inside the step that `pipe` records."""
    inner = [each for each in step.steps if each.output is not None and each.name not in RANKINGS]
    return _find_innermost_step(inner[0]) if inner and step.name not in REMOVED_BY else step


def _format_step_name(step: Trace) -> str:
    """Format a step's name for a sentence; an unnamed step is recorded as `step N`."""
    return step.name if step.name.startswith("step ") else f"step {step.name!r}"


def _iterate_step_hits(step: Trace) -> Iterator[Hit]:
    return (hit for hit in step.output or () if isinstance(hit, Hit))


def _list_ranked(step: Trace) -> list[Placed]:
    """List the results that a step ranked, best first."""
    found = (Placed(each.chunk.id, each.score) if isinstance(each, Hit) else each for each in step.output or ())
    return [each for each in found if isinstance(each, Placed)]


def _find_best_rank(step: Trace, wanted: Set[str]) -> int | None:
    """Find the rank of the best wanted chunk in a step's results."""
    return next((rank for rank, each in enumerate(_list_ranked(step), 1) if each.id in wanted), None)


def explain_no_hits(stats: StoreStats, where: Filter, unknown_names: Sequence[str]) -> str:
    """Explain an empty result and what to do next; `unknown_names` are sentences about names in the filter."""
    if not stats.chunks:
        return "the collection is empty; `clew add` fills it"
    if unknown_names:
        return "; ".join(unknown_names)
    if where != EVERYTHING:
        return "nothing matches within the filters; remove one of them to search more"
    pending = f"; {stats.describe_pending()}" if stats.pending else ""
    return f"nothing in the collection matches the query{pending}"
