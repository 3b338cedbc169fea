"""Answers kept on disk, so that no question is paid for twice."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clew.core.errors import DriverFailed
from clew.core.protocols import LLM, LLMFailure, Usage
from clew.core.tally import record_usage
from clew.drivers.llm.batch import Answer, answer_all, attempt
from clew.drivers.llm.request import Ask, asks
from clew.drivers.llm.response_file import Kept, opened

if TYPE_CHECKING:
    from pydantic_ai.models import Model


class CachedLLM:
    """Another LLM, with its answers kept in one SQLite file by model, system, prompt, max_tokens and temperature.

    Any number of threads and processes may share the file. Each answer is kept as it arrives, so what is interrupted
    goes on where it stood. Failures and empty answers are not kept.
    """

    def __init__(self, llm: LLM, path: str | Path) -> None:
        self._llm = llm
        self._path = Path(path).expanduser()
        self._lock = threading.Lock()
        self._cached = 0
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DriverFailed(f"{self._path}: cannot be made an answer cache ({error}); give another file") from error
        with opened(self._path):
            pass  # so that a file that is no cache fails at the door

    def __repr__(self) -> str:
        return f"CachedLLM({self._llm!r}, {str(self._path)!r})"

    @property
    def name(self) -> str:
        return self._llm.name

    @property
    def usage(self) -> Usage:
        """What all calls so far took; every answer is either one of `calls` or one of `cached`."""
        return self._llm.usage + Usage(cached=self._cached)

    def complete(self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0) -> str:
        """The kept answer, or the model's."""
        ask = Ask(prompt, system, max_tokens, temperature)
        with opened(self._path) as kept:
            found = self._found(kept, [ask])
            if ask in found:
                self._count(1)
                return found[ask]
            answer = self._fresh(ask)
            self._keep(kept, ask, answer)
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
        """One answer or failure a prompt, in order; equal prompts are asked once, at most so many at once."""
        asked = asks(prompts, system=system, max_tokens=max_tokens, temperature=temperature)
        unique = list(dict.fromkeys(asked))
        with opened(self._path) as kept:

            def answer(ask: Ask) -> Answer:
                given = attempt(self._fresh, ask)
                # Outside the attempt: a file that cannot be written is no prompt's failure, and ends the work before
                # more is paid.
                if isinstance(given, str):
                    self._keep(kept, ask, given)
                return given

            answers: dict[Ask, Answer] = dict(self._found(kept, unique))
            new = [ask for ask in unique if ask not in answers]
            answers.update(zip(new, answer_all(new, answer, max_concurrent=max_concurrent), strict=True))
        paid = sum(isinstance(answers[ask], str) for ask in new)
        self._count(sum(isinstance(answers[ask], str) for ask in asked) - paid)
        return [answers[ask] for ask in asked]

    def stream(
        self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0
    ) -> Iterator[str]:
        """The kept answer in one piece, or the model's in its own; that one is kept when it is whole."""
        return self._stream(Ask(prompt, system, max_tokens, temperature))

    def count(self, text: str) -> int:
        """How many tokens of the model a text has."""
        return self._llm.count(text)

    def model(self) -> "Model":
        """The model itself: what an agent does is not kept."""
        return self._llm.model()

    def _stream(self, ask: Ask) -> Iterator[str]:
        with opened(self._path) as kept:  # not held while pieces come: whoever takes them may never come back
            found = self._found(kept, [ask])
        if ask in found:
            self._count(1)
            yield found[ask]
            return
        pieces: list[str] = []
        for piece in self._llm.stream(
            ask.prompt, system=ask.system, max_tokens=ask.max_tokens, temperature=ask.temperature
        ):
            pieces.append(piece)
            yield piece
        with opened(self._path) as kept:
            self._keep(kept, ask, "".join(pieces))

    def _found(self, kept: Kept, asked: Sequence[Ask]) -> dict[Ask, str]:
        keys = {ask.key(self.name): ask for ask in asked}
        return {keys[key]: answer for key, answer in kept.get(list(keys)).items()}

    def _keep(self, kept: Kept, ask: Ask, answer: str) -> None:
        if answer.strip():
            kept.put(ask.key(self.name), self.name, answer)

    def _fresh(self, ask: Ask) -> str:
        return self._llm.complete(ask.prompt, system=ask.system, max_tokens=ask.max_tokens, temperature=ask.temperature)

    def _count(self, cached: int) -> None:
        if cached:
            record_usage(Usage(cached=cached))
        with self._lock:
            self._cached += cached
