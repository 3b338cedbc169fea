"""Metered models: wrappers that reserve each call in a budget and settle its usage afterwards."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from clew.core.errors import ClewError, CostLimit, DriverFailed
from clew.core.protocols import LLM, Embedder, LLMFailure, Role
from clew.core.types import Matrix
from clew.core.usage import CostBudget, Usage, UsageMeter, record_usage


class Budget(Protocol):
    """A budget for calls to a language model: a CostBudget, or the limits of an agent."""

    def reserve(self, model: str, texts: list[str], *, output: int = 0) -> float:
        """Reserve a call that reads the texts and writes up to `output` tokens per text, or raise."""

    def settle(self, reserved: float, model: str, used: Usage) -> None:
        """Release the reservation of a call and add its usage."""


@contextmanager
def reserve_call(budget: Budget, model: str, texts: list[str], *, output: int) -> Iterator[UsageMeter]:
    """Reserve a model call, and settle the usage recorded in the block even if the block raises."""
    with settle_call(budget, model, budget.reserve(model, texts, output=output)) as meter:
        yield meter


@contextmanager
def settle_call(budget: Budget, model: str, reserved: float) -> Iterator[UsageMeter]:
    """Settle the usage recorded in the block for a reserved call, even if the block raises."""
    meter = UsageMeter()
    try:
        with meter.measure():
            yield meter
    finally:
        budget.settle(reserved, model, meter.usage)


class MeteredEmbedder:
    """An embedder within a budget: raises CostLimit before a call that could exceed the cost limit.

    Other exceptions of a custom model become DriverFailed, so that its documents are stored without vectors.
    """

    def __init__(self, embedder: Embedder, budget: CostBudget) -> None:
        self._embedder = embedder
        self._budget = budget
        self.name = embedder.name
        self.dim = embedder.dim
        self.max_tokens = embedder.max_tokens
        self.min_similarity = embedder.min_similarity

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """Return one unit vector per text, in order."""
        if self._budget.is_free(self.name):
            return self._embed(texts, role)
        reserved = self._budget.reserve(self.name, list(texts))
        tokens = 0
        try:
            vectors = self._embed(texts, role)
            tokens = sum(self._embedder.count(texts))
            return vectors
        finally:
            self._budget.settle(reserved, self.name, Usage(input_tokens=tokens))

    def _embed(self, texts: Sequence[str], role: Role) -> Matrix:
        try:
            return self._embedder.embed(texts, role=role)
        except ClewError:
            raise
        except Exception as error:
            raise DriverFailed(f"{self.name} failed with {type(error).__name__}: {error}") from error

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the model's tokens in each text."""
        return self._embedder.count(texts)


class MeteredLLM:
    """A language model within a budget: raises the budget's error before a call that could exceed it.

    A model that does not report its usage (`record_usage`) is charged by its own token counts.
    """

    def __init__(self, llm: LLM, budget: Budget) -> None:
        self.wrapped = llm
        self._budget = budget
        self.name = llm.name

    @property
    def usage(self) -> Usage:
        """The usage of all calls so far."""
        return self.wrapped.usage

    def complete(self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0) -> str:
        """Return the model's answer."""
        with reserve_call(self._budget, self.name, [system + prompt], output=max_tokens) as meter:
            answer = self.wrapped.complete(prompt, system=system, max_tokens=max_tokens, temperature=temperature)
            self._record_unreported(meter, [system + prompt], [answer])
        return answer

    def complete_many(
        self,
        prompts: Sequence[str],
        *,
        system: str = "",
        max_tokens: int = 300,
        temperature: float = 0.0,
        max_concurrent: int = 5,
    ) -> list[str | LLMFailure]:
        """Return one answer or failure per prompt, reserving the budget in batches of `max_concurrent`.

        Near the cost limit the batches shrink, so that work stops only when a single call could exceed the limit.
        """
        answers: list[str | LLMFailure] = []
        size = max(1, max_concurrent)
        while len(answers) < len(prompts):
            batch = prompts[len(answers) : len(answers) + size]
            texts = [system + prompt for prompt in batch]
            try:
                reserved = self._budget.reserve(self.name, texts, output=max_tokens)
            except CostLimit:
                if len(batch) == 1:
                    raise
                size = len(batch) // 2
                continue
            with settle_call(self._budget, self.name, reserved) as meter:
                replies = self.wrapped.complete_many(
                    batch, system=system, max_tokens=max_tokens, temperature=temperature, max_concurrent=max_concurrent
                )
                answered = [(text, reply) for text, reply in zip(texts, replies, strict=True) if isinstance(reply, str)]
                self._record_unreported(meter, [text for text, _ in answered], [reply for _, reply in answered])
            answers += replies
        return answers

    def stream(
        self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0
    ) -> Iterator[str]:
        """Yield the answer in pieces; settle its usage when the stream ends, even early."""
        pieces = self.wrapped.stream(prompt, system=system, max_tokens=max_tokens, temperature=temperature)
        return self._meter_stream(pieces, system + prompt, max_tokens)

    def count(self, text: str) -> int:
        """Count the model's tokens in a text."""
        return self.wrapped.count(text)

    def _meter_stream(self, pieces: Iterator[str], text: str, max_tokens: int) -> Iterator[str]:
        # Not `reserve_call`: the meter must not run while the reader processes a piece, since it may call models, too.
        reserved = self._budget.reserve(self.name, [text], output=max_tokens)
        meter = UsageMeter()
        given: list[str] = []
        try:
            while True:
                with meter.measure():
                    piece = next(pieces, None)
                if piece is None:
                    return
                given.append(piece)
                yield piece
        finally:
            with meter.measure():
                if isinstance(pieces, Generator):
                    pieces.close()
                if given:
                    self._record_unreported(meter, [text], ["".join(given)])
            self._budget.settle(reserved, self.name, meter.usage)

    def _record_unreported(self, meter: UsageMeter, texts: Sequence[str], answers: Sequence[str]) -> None:
        """Record calls that the model did not record itself. Call it while the meter runs."""
        if answers and meter.usage == Usage():
            count = self.wrapped.count
            record_usage(Usage(len(answers), sum(map(count, texts)), sum(map(count, answers))))
