"""Models that pay for what they are asked, and stop before the purse is empty: the same protocols around another."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from clew.core.cost import CostBudget
from clew.core.protocols import LLM, Embedder, LLMFailure, Role, Usage
from clew.core.tally import UsageMeter
from clew.core.types import Matrix

if TYPE_CHECKING:
    from pydantic_ai.models import Model


class MeteredEmbedder:
    """An embedder; a call that could pass the purse's limit raises CostLimit and is not made."""

    def __init__(self, embedder: Embedder, purse: CostBudget) -> None:
        self._embedder = embedder
        self._purse = purse
        self.name = embedder.name
        self.dim = embedder.dim
        self.max_tokens = embedder.max_tokens
        self.min_similarity = embedder.min_similarity

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """One unit row a text, in order."""
        if self._purse.is_free(self.name):
            return self._embedder.embed(texts, role=role)
        reserved = self._purse.reserve(self.name, list(texts))
        tokens = 0
        try:
            vectors = self._embedder.embed(texts, role=role)
            tokens = sum(self._embedder.count(texts))
            return vectors
        finally:
            self._purse.settle(reserved, self.name, input=tokens)

    def count(self, texts: Sequence[str]) -> list[int]:
        """How many tokens of the model each text has."""
        return self._embedder.count(texts)


class MeteredLLM:
    """A language model; a call that could pass the purse's limit raises CostLimit and is not made."""

    def __init__(self, llm: LLM, purse: CostBudget) -> None:
        self._llm = llm
        self._purse = purse
        self.name = llm.name

    @property
    def usage(self) -> Usage:
        """What all calls so far took."""
        return self._llm.usage

    def complete(self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0) -> str:
        """The model's answer."""
        with self._paid([system + prompt], max_tokens):
            return self._llm.complete(prompt, system=system, max_tokens=max_tokens, temperature=temperature)

    def complete_many(
        self,
        prompts: Sequence[str],
        *,
        system: str = "",
        max_tokens: int = 300,
        temperature: float = 0.0,
        max_concurrent: int = 5,
    ) -> list[str | LLMFailure]:
        """One answer or failure a prompt; paid for `max_concurrent` at a time, so that the purse lasts longer."""
        answers: list[str | LLMFailure] = []
        for start in range(0, len(prompts), max_concurrent):
            few = prompts[start : start + max_concurrent]
            with self._paid([system + prompt for prompt in few], max_tokens):
                answers += self._llm.complete_many(
                    few,
                    system=system,
                    max_tokens=max_tokens,
                    temperature=temperature,
                    max_concurrent=max_concurrent,
                )
        return answers

    def stream(
        self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0
    ) -> Iterator[str]:
        """The answer in pieces; what it took is paid when it ends, however it does."""
        pieces = self._llm.stream(prompt, system=system, max_tokens=max_tokens, temperature=temperature)
        return self._streamed(pieces, system + prompt, max_tokens)

    def count(self, text: str) -> int:
        """How many tokens of the model a text has."""
        return self._llm.count(text)

    def model(self) -> "Model":
        """The model itself: an agent keeps to limits of its own."""
        return self._llm.model()

    def _streamed(self, pieces: Iterator[str], asked: str, max_tokens: int) -> Iterator[str]:
        tally = UsageMeter()
        reserved = self._purse.reserve(self.name, [asked], output=max_tokens)
        try:
            while True:
                with tally.counting():  # not while the reader has the piece: it may ask for other things
                    piece = next(pieces, None)
                if piece is None:
                    return
                yield piece
        finally:
            with tally.counting():
                if isinstance(pieces, Generator):
                    pieces.close()
            self._settle(reserved, tally.usage)

    @contextmanager
    def _paid(self, asked: list[str], max_tokens: int) -> Iterator[None]:
        tally = UsageMeter()
        reserved = self._purse.reserve(self.name, asked, output=max_tokens)
        try:
            with tally.counting():
                yield
        finally:
            self._settle(reserved, tally.usage)

    def _settle(self, reserved: float, used: Usage) -> None:
        self._purse.settle(reserved, self.name, input=used.input_tokens, output=used.output_tokens)
