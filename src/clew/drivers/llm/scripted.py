"""A language model that says what it was told to: for tests, examples and first runs."""

import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from clew.core.errors import DriverFailed
from clew.core.protocols import LLMFailure, Usage
from clew.core.tally import record_usage
from clew.drivers.llm.batch import answer_all, attempt
from clew.drivers.llm.request import Ask, asks

if TYPE_CHECKING:
    from pydantic_ai.models import Model

Line = str | DriverFailed
WORD = re.compile(r"\s*\S+\s*$|\s*\S+|\s+")  # with the space before it, and at the end the space after it


class Scripted:
    """Answers from a function of the prompt, or from a list, one a prompt in the order they are asked.

    A DriverFailed in the list is raised in its turn, and one that the function raises counts as the model's failure;
    any other error of the function is a mistake in the script and ends even `complete_many`. A single text is the
    answer to everything. Tokens are counted as words.
    """

    def __init__(self, answer: Callable[[str], str] | Sequence[Line], *, name: str = "scripted") -> None:
        self._name = name
        self._answer = answer if callable(answer) else None
        self._always = answer if isinstance(answer, str) else None
        self._lines: deque[Line] = deque() if callable(answer) or isinstance(answer, str) else deque(answer)
        self._lock = threading.Lock()
        self._asked: list[Ask] = []
        self._usage = Usage()
        self._now = 0
        self._peak = 0

    @property
    def name(self) -> str:
        return self._name

    @property
    def usage(self) -> Usage:
        """What all answers so far took."""
        return self._usage

    @property
    def asked(self) -> tuple[Ask, ...]:
        """All that was asked so far, failures too, in order."""
        with self._lock:
            return tuple(self._asked)

    @property
    def calls(self) -> int:
        """How many prompts were asked, failures too."""
        return len(self._asked)

    @property
    def peak(self) -> int:
        """The greatest number of prompts that were being answered at once."""
        return self._peak

    def complete(self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0) -> str:
        """The script's answer."""
        ask = Ask(prompt, system, max_tokens, temperature)
        return self._say((ask, self._line()))

    def complete_many(
        self,
        prompts: Sequence[str],
        *,
        system: str = "",
        max_tokens: int = 300,
        temperature: float = 0.0,
        max_concurrent: int = 5,
    ) -> list[str | LLMFailure]:
        """One answer or failure a prompt, in order, at most so many at once."""
        asked = asks(prompts, system=system, max_tokens=max_tokens, temperature=temperature)
        # Lines are dealt before the threads race for them, so the nth prompt gets the nth line.
        jobs = [(ask, self._line()) for ask in asked]
        return answer_all(jobs, lambda job: attempt(self._say, job), max_concurrent=max_concurrent)

    def stream(
        self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0
    ) -> Iterator[str]:
        """The script's answer, word by word."""
        return self._stream(Ask(prompt, system, max_tokens, temperature))

    def count(self, text: str) -> int:
        """How many words a text has."""
        return len(text.split())

    def model(self) -> "Model":
        """A pydantic-ai model that says the script's answers and calls no tools."""
        from clew.drivers.llm.agent_model import spoken

        return spoken(self)

    def _stream(self, ask: Ask) -> Iterator[str]:
        yield from WORD.findall(self._say((ask, self._line())))

    def _line(self) -> Line | None:
        """The next line of the list, or None if a function answers."""
        with self._lock:
            if self._answer is not None or self._always is not None:
                return self._always
            if not self._lines:
                return DriverFailed("the script has no line left; give Scripted more of them, or a function")
            return self._lines.popleft()

    def _say(self, job: tuple[Ask, Line | None]) -> str:
        ask, line = job
        with self._counted(ask):
            answer = self._answer(ask.prompt) if self._answer is not None else line
            if isinstance(answer, DriverFailed):
                raise answer
        text = answer or ""
        used = Usage(1, self.count(f"{ask.system} {ask.prompt}"), self.count(text))
        record_usage(used)
        with self._lock:
            self._usage += used
        return text

    @contextmanager
    def _counted(self, ask: Ask) -> Iterator[None]:
        with self._lock:
            self._asked.append(ask)
            self._now += 1
            self._peak = max(self._peak, self._now)
        try:
            yield
        finally:
            with self._lock:
                self._now -= 1
