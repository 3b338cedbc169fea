"""The dry run of the write path: what `add` would read, reuse, embed and ask a model, before any call is made."""

from collections.abc import Iterable, Sequence
from threading import Lock
from time import monotonic

from clew.core.errors import SourceError
from clew.core.protocols import LLM, Embedder, Store
from clew.core.report import OnProgress, Plan, SourceFailure, measure_progress
from clew.core.text import estimate_tokens
from clew.core.usage import CostBudget, Usage
from clew.index.add.prepare import Prepared, Recipe, Unchanged, prepare_sources
from clew.index.walk.sources import Source

USUAL_ANSWER_TOKENS = 100  # of a context or a summary
SAMPLE_TEXTS = 16  # embedded to time a local embedder


class EstimatingLLM(LLM):
    """A stand-in for a language model: it answers with placeholders and adds up the tokens of the real one."""

    def __init__(self, llm: LLM) -> None:
        self._name = llm.name
        self._usage = Usage()
        self._lock = Lock()  # summaries are made in several threads

    @property
    def name(self) -> str:
        """The name of the real model."""
        return self._name

    @property
    def usage(self) -> Usage:
        """The estimated usage so far."""
        return self._usage

    def complete(self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0) -> str:  # noqa: ARG002
        """Return a placeholder for the answer."""
        used = Usage(1, estimate_tokens(system + prompt), min(USUAL_ANSWER_TOKENS, max_tokens))
        with self._lock:
            self._usage += used
        return "?"


def make_dry_run_plan(
    sources: Iterable[Source | SourceError],
    *,
    store: Store,
    recipe: Recipe,
    llm: EstimatingLLM | None,
    budget: CostBudget,
    total: int | None = None,
    on_progress: OnProgress | None = None,
) -> Plan:
    """Plan the addition of the sources; `recipe` must be made with the estimating `llm`, not the real one."""
    added: list[str] = []
    changed: list[str] = []
    failed: list[SourceFailure] = []
    unchanged = chunks = reused = embedded = tokens = 0
    started, timing = monotonic(), 0.0
    timer = _EmbeddingTimer(recipe.embedder)
    for done, prepared in enumerate(prepare_sources(sources, store=store, recipe=recipe), 1):
        if isinstance(prepared, Unchanged):
            unchanged += 1
        elif isinstance(prepared, SourceFailure):
            failed.append(prepared)
        else:
            (changed if prepared.record else added).append(prepared.uri_or_id)
            texts = _find_texts_to_embed(prepared, store)
            chunks += len(prepared.chunks)
            embedded += len(texts)
            reused += len(prepared.chunks) - len(texts)
            if prepared.summary.text and prepared.chunks:
                texts = [*texts, prepared.summary.text]
            tokens += sum(recipe.embedder.count(texts))
            timing += timer.sample(texts)
        if on_progress:
            spent, counts = monotonic() - started, {"failed": len(failed), "chunks": chunks}
            on_progress(measure_progress("planning", done, total, "documents", spent, **counts))
    usage = llm.usage if llm else Usage()
    cost = budget.compute_cost(recipe.embedder.name, input_tokens=tokens)
    if llm:
        cost += budget.compute_cost(llm.name, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
    return Plan(
        added=tuple(added),
        changed=tuple(changed),
        unchanged=unchanged,
        failed=tuple(failed),
        chunks=chunks,
        reused=reused,
        embedded=embedded,
        embedded_tokens=tokens,
        calls=usage.calls,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost=cost,
        seconds=timer.estimate(tokens, reading=monotonic() - started - timing),
    )


class _EmbeddingTimer:
    """The speed of an embedder that runs on this machine, from a few of the texts; others are never called."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._is_local = getattr(embedder, "is_local", False)
        self._texts = self._tokens = 0
        self._seconds = 0.0

    def sample(self, texts: Sequence[str]) -> float:
        """Embed some of the texts if more are wanted; return the seconds that it took."""
        part = texts[: SAMPLE_TEXTS - self._texts] if self._is_local else ()
        if not part:
            return 0.0
        tokens = sum(self._embedder.count(part))
        if not self._texts:
            self._embedder.embed(part[:1], role="passage")  # the first call loads the model
        started = monotonic()
        self._embedder.embed(part, role="passage")
        spent = monotonic() - started
        self._texts += len(part)
        self._tokens += tokens
        self._seconds += spent
        return spent

    def estimate(self, tokens: int, *, reading: float) -> float | None:
        """Return how long reading and embedding so many tokens takes; None if the speed is not known."""
        if not tokens:
            return reading
        return reading + self._seconds / self._tokens * tokens if self._tokens else None


def _find_texts_to_embed(prepared: Prepared, store: Store) -> list[str]:
    """Find the embed_text of the chunks that have no stored vector."""
    known = set(store.vectors([chunk.id for chunk in prepared.chunks])) if prepared.record else set[str]()
    known |= {chunk.id for chunk in prepared.chunks if chunk.embed_text in prepared.moved_vectors}
    return [chunk.embed_text for chunk in prepared.chunks if chunk.id not in known]
