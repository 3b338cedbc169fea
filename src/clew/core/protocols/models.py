"""Protocols of the models: embedder, reranker, verifier and language model."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

from clew.core.answer import SupportVerdict
from clew.core.errors import DriverFailed
from clew.core.parallel import run_parallel
from clew.core.text import estimate_tokens
from clew.core.types import Matrix
from clew.core.usage import Usage

Role = Literal["query", "passage"]


class Embedder(Protocol):
    """Turns texts into unit vectors. Called from several threads at once; a failed call raises DriverFailed."""

    @property
    def name(self) -> str:
        """Identifies the model; stored with the collection, so that the vectors of two models never mix."""

    @property
    def dim(self) -> int:
        """The length of a vector; it never changes for a name."""

    @property
    def max_tokens(self) -> int:
        """The number of tokens that the model reads at once; chunks are made to fit."""

    @property
    def min_similarity(self) -> float:
        """The cosine below which two texts are unrelated for this model; 0 if unknown."""

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """One row per text, in order, each of unit length: float32 of shape (len(texts), dim), also for no texts.

        The vector of a text must not depend on the other texts. Any text has one, also an empty one; a text longer
        than `max_tokens` must be read to its end, in windows whose vectors are averaged. `role` says whether the texts
        are questions or passages; models that make no difference ignore it.
        """

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of the model's tokens in each text, in order, without special tokens; an estimate will do."""


class Reranker(Protocol):
    """Scores how well each text answers a query. Called from several threads at once; failures raise DriverFailed."""

    @property
    def name(self) -> str:
        """Identifies the model in traces."""

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One finite score per text, in the order of the texts, on the model's own scale; higher is better.

        The score of a text must not depend on the other texts. Any text and any query has one; a long text must be
        read to its end. The caller sorts.
        """

    def calibrate(self, score: float) -> float:
        """The probability, from 0 to 1, that a text with this score answers the query; it grows with the score."""


class AnswerReader(Reranker, Protocol):
    """Scores whether a part of a text answers a question, and not merely whether it is about it."""

    @property
    def languages(self) -> Set[str]:
        """The codes of the languages that it reads; for others its answer means nothing."""


class Verifier(Protocol):
    """Says how likely a passage supports a claim. Called from several threads at once; failures raise DriverFailed."""

    @property
    def name(self) -> str:
        """Identifies the model in traces."""

    @property
    def languages(self) -> Set[str]:
        """The codes of the languages that it reads; for others its answer means nothing."""

    def support(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """For each pair of a passage and a claim, in order, the calibrated chance that the passage supports the claim.

        A passage may begin with a line of its title and headings, joined by " > "; what is claimed may hold by them
        alone. The result for a pair must not depend on the other pairs. A long passage must be read to its end.
        """

    def judge(self, chance: float) -> SupportVerdict:
        """What a chance means: supported, unsupported or, between the verifier's two thresholds, unsure."""


@dataclass(frozen=True, slots=True)
class LLMFailure:
    """The reason why one prompt of a batch got no answer; a type of its own, so that it is never taken for one."""

    reason: str


def complete_or_failure(complete: Callable[[], str]) -> str | LLMFailure:
    """The answer, or an LLMFailure where the call raises DriverFailed."""
    try:
        return complete()
    except DriverFailed as error:
        return LLMFailure(str(error))


class LLM(Protocol):
    """A language model, synchronous, called from several threads at once.

    To use a model of your own, subclass this and provide `name` and `complete`; the other methods have defaults. Any
    object with all of these methods will do, too. A failed call raises DriverFailed, an invalid option SettingsError.

    Report each call with `clew.core.usage.record_usage`, so that answers and reports show their usage; the limits of a
    run or an agent estimate what is not reported. An agent describes its tools in the prompt, unless the LLM has native
    tool calls in a method `as_agent_model` (see `clew.drivers.llm.agent_model`), or wraps such an LLM as `wrapped`.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Identifies the model in prices, caches and reports."""

    @abstractmethod
    def complete(self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0) -> str:
        """The model's answer, which may be empty, cut off at `max_tokens`."""

    @property
    def usage(self) -> Usage:
        """The usage of all calls so far; by default none is known."""
        return Usage()

    def complete_many(
        self,
        prompts: Sequence[str],
        *,
        system: str = "",
        max_tokens: int = 300,
        temperature: float = 0.0,
        max_concurrent: int = 5,
    ) -> list[str | LLMFailure]:
        """One answer or failure per prompt, in order; by default `complete` in up to `max_concurrent` threads."""
        complete = partial(self.complete, system=system, max_tokens=max_tokens, temperature=temperature)
        calls = [partial(complete_or_failure, partial(complete, prompt)) for prompt in prompts]
        return run_parallel(calls, max_concurrent=max_concurrent, abandon=True)

    def stream(
        self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0
    ) -> Iterator[str]:
        """The answer in pieces as they arrive, requested when the first is read; by default in one piece.

        A stream that breaks off raises DriverFailed after the pieces that arrived; it is not retried, since they are
        paid for. Before the first piece it is retried like `complete`.
        """
        yield self.complete(prompt, system=system, max_tokens=max_tokens, temperature=temperature)

    def count(self, text: str) -> int:
        """The number of the model's tokens in a text; by default an estimate."""
        return estimate_tokens(text)
