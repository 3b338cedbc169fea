"""The write path without its costs: what `add` would read, reuse, embed and ask, found out before any call."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from clew.core.cost import CostBudget
from clew.core.errors import DriverFailed, SourceError
from clew.core.protocols import LLM, LLMFailure, Store, Usage
from clew.core.report import Failure, Plan
from clew.core.text import estimate_tokens
from clew.index.add.prepare import Recipe, Source, Taken, Unchanged, taken

if TYPE_CHECKING:
    from pydantic_ai.models import Model

ANSWER = 100  # tokens that a context or a summary usually has


class Estimating:
    """A language model that is asked nothing: it counts what the real one would take."""

    def __init__(self, llm: LLM) -> None:
        self.name = llm.name
        self.usage = Usage()

    def complete(self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0) -> str:  # noqa: ARG002
        """A word that stands for the answer."""
        self.usage += Usage(1, estimate_tokens(system + prompt), min(ANSWER, max_tokens))
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
        """A word for each answer."""
        return [
            self.complete(prompt, system=system, max_tokens=max_tokens, temperature=temperature) for prompt in prompts
        ]

    def stream(
        self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0
    ) -> Iterator[str]:
        """That word alone."""
        yield self.complete(prompt, system=system, max_tokens=max_tokens, temperature=temperature)

    def count(self, text: str) -> int:
        """About how many tokens a text has."""
        return estimate_tokens(text)

    def model(self) -> "Model":
        """None: adding runs no agent."""
        raise DriverFailed(f"{self.name} is only estimated here, and runs no agent")


def plan(
    sources: Iterable[Source | SourceError],
    *,
    store: Store,
    recipe: Recipe,
    model: Estimating | None,
    purse: CostBudget,
    vanished: Sequence[str] = (),
) -> Plan:
    """What adding the sources would do; `recipe` must have been made with `model` in place of the real one."""
    added: list[str] = []
    changed: list[str] = []
    failed: list[Failure] = []
    unchanged = chunks = reused = embedded = tokens = 0
    for outcome in taken(sources, store=store, recipe=recipe):
        if isinstance(outcome, Unchanged):
            unchanged += 1
        elif isinstance(outcome, Failure):
            failed.append(outcome)
        else:
            (changed if outcome.record else added).append(outcome.name)
            texts = _fresh(outcome, store)
            chunks += len(outcome.chunks)
            embedded += len(texts)
            reused += len(outcome.chunks) - len(texts)
            spoken = [*texts, outcome.summary] if outcome.summary and len(outcome.chunks) > 1 else texts
            tokens += sum(recipe.embedder.count(spoken))
    asked = model.usage if model else Usage()
    cost = purse.cost(recipe.embedder.name, input=tokens)
    if model:
        cost += purse.cost(model.name, input=asked.input_tokens, output=asked.output_tokens)
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
        calls=asked.calls,
        input_tokens=asked.input_tokens,
        output_tokens=asked.output_tokens,
        cost=cost,
    )


def _fresh(outcome: Taken, store: Store) -> list[str]:
    known = store.vectors([chunk.id for chunk in outcome.chunks]) if outcome.record else {}
    return [chunk.embed_text for chunk in outcome.chunks if chunk.id not in known]
