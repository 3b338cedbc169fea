"""The stage that lost a target: the step after the last one that still had it."""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace

from clew.core.facets import facets_of, required_facets, to_timestamp
from clew.core.settings import Settings
from clew.core.trace import Trace
from clew.core.types import EVERYTHING, Chunk, Context, Document, Filter, Hit
from clew.core.why import Fix, Stage, WhyNot
from clew.query.why.fix import COUNTS, smallest, without_conditions

# Rankings that stand side by side: what one of them lacks may still come from the other.
BESIDE = frozenset({"semantic", "lexical", "chunks", "query", "reflect", "fused"})
RANKINGS = ("semantic", "lexical")
_SEEN = 40  # characters from its middle on by which a chunk is known to be shown
ANYTHING = -1.0  # a cosine that everything has
DEEPEST = COUNTS[-1]  # how deep a ranking is looked through for what none has


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of the read path with all that came out of its steps; without a context where none was asked for."""

    hits: Sequence[Hit]
    trace: Trace
    context: Context | None = None
    shows: int | None = None  # characters of a passage that are written (None: all)

    def has(self, wanted: Set[str]) -> bool:
        """Whether any of the wanted chunks is in what the asker gets."""
        if self.context is None:
            return any(hit.chunk.id in wanted for hit in self.hits)
        return self.passage(wanted) is not None

    def passage(self, wanted: Set[str]) -> int | None:
        """The number of the passage that shows one of the wanted chunks."""
        for number, passage in enumerate(self.context.passages if self.context else (), 1):
            shown = passage.text[: self.shows]
            for hit in passage.chunks:
                middle = hit.chunk.text[len(hit.chunk.text) // 2 :][:_SEEN]
                if hit.chunk.id in wanted and (self.shows is None or middle in shown):
                    return number
        return None

    def steps(self) -> list[Trace]:
        """The steps in the order in which they ended."""
        return _ended(self.trace)

    def ranks(self, wanted: Set[str], *names: str) -> dict[str, int]:
        """Where the best of the wanted chunks stood, by the names of the steps; the best place of each."""
        places: dict[str, int] = {}
        for step in self.steps():
            rank = _rank(step, wanted)
            if rank and (step.name in names or not names):
                places[step.name] = min(rank, places.get(step.name, rank))
        return places


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
    """What became of the chunks of a target that is in the collection."""
    if not chunks:
        return WhyNot(query, target, "parse", "it is in the collection, but nothing readable was found in it")
    wanted = frozenset(chunk.id for chunk in chunks if admits(where, document, chunk))
    if not wanted:
        reason, fix = _filtered(document, chunks, run, settings, where)
        return WhyNot(query, target, "filter", reason, fix)
    first = run(settings, where)
    if first.has(wanted):
        return WhyNot(query, target, "found", _placed(first, wanted))
    stage, reason = _lost(first, wanted, run, settings, where)
    k = "search.k" if first.context is None else "context.k"
    fix = smallest(stage, settings, lambda tried: run(tried, where).has(wanted), k=k)
    return WhyNot(query, target, stage, reason, fix)


def admits(where: Filter, document: Document, chunk: Chunk) -> bool:
    """Whether a filter lets a chunk be found."""
    at, since, until = to_timestamp(chunk.at), to_timestamp(where.since), to_timestamp(where.until)
    if (since is not None or until is not None) and at is None:
        return False
    if at is not None and ((since is not None and at < since) or (until is not None and at >= until)):
        return False
    return all(not group.isdisjoint(facets_of(document, chunk)) for group in required_facets(where))


def _filtered(
    document: Document, chunks: Sequence[Chunk], run: Run, settings: Settings, where: Filter
) -> tuple[str, Fix | None]:
    """Which conditions keep it out, and the one without which it is found."""
    wider = [
        (name, without)
        for name, without in without_conditions(where)
        if any(admits(without, document, chunk) for chunk in chunks)
    ]
    reason = f"the filter does not admit it ({', '.join(name for name, _ in wider) or 'several conditions together'})"
    wanted = frozenset(chunk.id for chunk in chunks)
    back = (name for name, without in wider if run(settings, without).has(wanted))
    name = next(back, "")
    return reason, Fix(f"where.{name}", "anything", getattr(where, name)) if name else None


def _placed(attempt: Attempt, wanted: Set[str]) -> str:
    if attempt.context is None:
        rank = next(rank for rank, hit in enumerate(attempt.hits, 1) if hit.chunk.id in wanted)
        return f"it is hit {rank} of {len(attempt.hits)}"
    return f"it is in passage {attempt.passage(wanted)} of {len(attempt.context.passages)}"


def _lost(attempt: Attempt, wanted: Set[str], run: Run, settings: Settings, where: Filter) -> tuple[Stage, str]:
    """The stage that lost the wanted chunks, and in words how."""
    if attempt.context is not None and any(hit.chunk.id in wanted for hit in attempt.hits):
        return _left_out(attempt.context, wanted)
    had = [step for step in attempt.steps() if _rank(step, wanted)]
    if not had:
        return _never_seen(wanted, run, settings, where)
    reached = min(had, key=lambda step: len(_after(attempt.trace, step) or ()))
    after = _after(attempt.trace, reached) or []
    loser = next((step.name for step in after if step.output is not None), "search")
    said = ", ".join(f"{name} {rank}" for name, rank in attempt.ranks(wanted).items())
    if loser in ("by_document", "by_meaning"):
        return "dedup", f"another chunk was kept in its place by {loser} (it stood at: {said})"
    if loser == "rerank":
        return "depth", f"it was not among the candidates that are re-ranked (it stood at: {said})"
    if loser == "query":
        return "depth", f"each part of the conversation takes only its best (it stood at: {said})"
    return _cut(attempt, wanted, reached), f"the first {len(attempt.hits)} were taken (it stood at: {said})"


def _cut(attempt: Attempt, wanted: Set[str], reached: Trace) -> Stage:
    """The stage that put it too low in the last ranking: without that one it would have been taken."""
    k = len(attempt.hits)
    names = {step.name for step in attempt.steps()}
    if reached.name in ("chunked", "mmr"):
        hits = [hit for hit in reached.output or () if isinstance(hit, Hit)]
        by_score = sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id))
        return "diversity" if any(hit.chunk.id in wanted for hit in by_score[:k]) else "depth"
    if "rerank" in names:
        return "rerank" if min(attempt.ranks(wanted, "fused").values(), default=k + 1) <= k else "depth"
    if names & {"fused", "fanned"}:
        return "fusion" if min(attempt.ranks(wanted, *RANKINGS).values(), default=k + 1) <= k else "depth"
    return "depth"


def _left_out(context: Context, wanted: Set[str]) -> tuple[Stage, str]:
    for left in context.dropped:
        if any(hit.chunk.id in wanted for hit in left.passage.chunks):
            stage: Stage = "budget" if left.reason == "budget" else "merge"
            return stage, f"it was found and left out of the context: {left.reason} ({left.tokens} tokens)"
    return "merge", "it was found and joined to others, and the passage is not shown as far as it stands"


def _never_seen(wanted: Set[str], run: Run, settings: Settings, where: Filter) -> tuple[Stage, str]:
    """No ranking had it: it is less similar than what counts as found, or stood deeper than any ranking looked."""
    if cosine := _cosine(run(_any_similarity(settings), where), wanted):
        return "threshold", f"its similarity of {cosine} is below the least that counts as found"
    deep = replace(
        settings,
        search=replace(settings.search, k=DEEPEST, depth=DEEPEST),
        context=replace(settings.context, k=DEEPEST),
    )
    if any(_rank(step, wanted) for step in run(deep, where).steps()):
        return "depth", "no ranking looked deep enough to see it"
    if cosine := _cosine(run(_any_similarity(deep), where), wanted):
        said = f"its similarity of {cosine} is below the least that counts as found"
        return "threshold", f"{said}, and it stands deeper than any ranking looked"
    return "depth", f"no ranking has it among its first {DEEPEST:,}; one by words has only what shares a word"


def _any_similarity(settings: Settings) -> Settings:
    return replace(settings, search=replace(settings.search, min_similarity=ANYTHING))


def _cosine(attempt: Attempt, wanted: Set[str]) -> str:
    """How similar the best of the wanted chunks is, as it is shown; empty where no ranking by meaning saw one."""
    scores = [
        hit.scores["semantic"]
        for step in attempt.steps()
        for hit in step.output or ()
        if isinstance(hit, Hit) and hit.chunk.id in wanted and "semantic" in hit.scores
    ]
    return f"{max(scores):.3f}" if scores else ""


def _ended(trace: Trace) -> list[Trace]:
    return [inner for step in trace.steps for inner in _ended(step)] + [trace]


def _after(trace: Trace, node: Trace) -> list[Trace] | None:
    """The steps that a step's hits go through after it, in order; None where the step is not inside."""
    if trace is node:
        return []
    for at, step in enumerate(trace.steps):
        inner = _after(step, node)
        if inner is not None:
            return [*inner, *(later for later in trace.steps[at + 1 :] if later.name not in BESIDE), trace]
    return None


def _rank(step: Trace, wanted: Set[str]) -> int | None:
    """Where the best of the wanted chunks stands in what came out of a step."""
    hits = (hit for hit in step.output or () if isinstance(hit, Hit))
    return next((rank for rank, hit in enumerate(hits, 1) if hit.chunk.id in wanted), None)
