"""The dry run of the write path: what `add` would read, reuse, embed and ask a model, before any call is made."""

from collections.abc import Iterable, Iterator, Sequence
from threading import Lock

from clew.core.errors import SourceError
from clew.core.protocols import LLM, LLMFailure, Store
from clew.core.report import Plan, SourceFailure
from clew.core.text import estimate_tokens
from clew.core.usage import CostBudget, Usage
from clew.index.add.prepare import Prepared, Recipe, Source, Unchanged, prepare_sources

USUAL_ANSWER_TOKENS = 100  # of a context or a summary


class EstimatingLLM:
    """A stand-in for a language model: it answers with placeholders and adds up the tokens of the real one."""

    def __init__(self, llm: LLM) -> None:
        self.name = llm.name
        self.usage = Usage()
        self._lock = Lock()  # summaries are made in several threads

    def complete(self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0) -> str:  # noqa: ARG002
        """A placeholder for the answer."""
        used = Usage(1, estimate_tokens(system + prompt), min(USUAL_ANSWER_TOKENS, max_tokens))
        with self._lock:
            self.usage += used
        return "?"

    def complete_many(
        self,
        prompts: Sequence[str],
        *,
        system: str = "",
        max_tokens: int = 300,
        temperature: float = 0.0,
        max_concurrent: int = 5,  # noqa: ARG002
    ) -> list[str | LLMFailure]:
        """One placeholder per prompt."""
        return [
            self.complete(prompt, system=system, max_tokens=max_tokens, temperature=temperature) for prompt in prompts
        ]

    def stream(
        self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0
    ) -> Iterator[str]:
        """The placeholder alone."""
        yield self.complete(prompt, system=system, max_tokens=max_tokens, temperature=temperature)

    def count(self, text: str) -> int:
        """An estimate of the tokens of a text."""
        return estimate_tokens(text)


def make_dry_run_plan(
    sources: Iterable[Source | SourceError],
    *,
    store: Store,
    recipe: Recipe,
    llm: EstimatingLLM | None,
    budget: CostBudget,
    vanished: Sequence[str] = (),
) -> Plan:
    """What adding the sources would do; `recipe` must have been made with the estimating `llm`, not the real one."""
    added: list[str] = []
    changed: list[str] = []
    failed: list[SourceFailure] = []
    unchanged = chunks = reused = embedded = tokens = 0
    for prepared in prepare_sources(sources, store=store, recipe=recipe):
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
    usage = llm.usage if llm else Usage()
    cost = budget.compute_cost(recipe.embedder.name, input_tokens=tokens)
    if llm:
        cost += budget.compute_cost(llm.name, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
    return Plan(
        added=tuple(added),
        changed=tuple(changed),
        unchanged=unchanged,
        failed=tuple(failed),
        dropped=tuple(vanished),
        chunks=chunks,
        reused=reused,
        embedded=embedded,
        embedded_tokens=tokens,
        calls=usage.calls,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost=cost,
    )


def _find_texts_to_embed(prepared: Prepared, store: Store) -> list[str]:
    """The embed_text of the chunks that have no stored vector."""
    known = store.vectors([chunk.id for chunk in prepared.chunks]) if prepared.record else {}
    return [chunk.embed_text for chunk in prepared.chunks if chunk.id not in known]
