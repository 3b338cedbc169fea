"""A language model with scripted answers, for tests and examples."""

import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from clew.core.errors import DriverFailed
from clew.core.parallel import run_parallel
from clew.core.protocols import LLMFailure, complete_or_failure
from clew.core.usage import Usage, record_usage
from clew.drivers.llm.requests import CompletionRequest, make_requests

ScriptLine = str | DriverFailed
WORD = re.compile(r"\s*\S+\s*$|\s*\S+|\s+")  # a word with the space before it; the last one also with the space after


class ScriptedLLM:
    """A fake model: answers by a function of the prompt, from a list (one per prompt, in order), or one fixed text.

    A DriverFailed in the list is raised in its turn. A DriverFailed of the function counts as the model's failure; any
    other exception is a bug in the script and ends even `complete_many`. A token is a word.
    """

    def __init__(self, answer: Callable[[str], str] | Sequence[ScriptLine], *, name: str = "scripted") -> None:
        self._name = name
        self._answer_prompt = answer if callable(answer) else None
        self._fixed_answer = answer if isinstance(answer, str) else None
        self._lines: deque[ScriptLine] = deque() if callable(answer) or isinstance(answer, str) else deque(answer)
        self._lock = threading.Lock()
        self._requests: list[CompletionRequest] = []
        self._usage = Usage()
        self._active = 0
        self._max_active = 0

    @property
    def name(self) -> str:
        return self._name

    @property
    def usage(self) -> Usage:
        """The usage of all answers so far."""
        return self._usage

    @property
    def requests(self) -> tuple[CompletionRequest, ...]:
        """All requests so far, in order, including failed ones."""
        with self._lock:
            return tuple(self._requests)

    @property
    def calls(self) -> int:
        """The number of requests so far, including failed ones."""
        return len(self._requests)

    @property
    def max_active(self) -> int:
        """The greatest number of requests answered at the same time."""
        return self._max_active

    def complete(self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0) -> str:
        """Return the script's answer."""
        request = CompletionRequest(prompt, system, max_tokens, temperature)
        return self._answer_request(request, self._take_next_line())

    def complete_many(
        self,
        prompts: Sequence[str],
        *,
        system: str = "",
        max_tokens: int = 300,
        temperature: float = 0.0,
        max_concurrent: int = 5,
    ) -> list[str | LLMFailure]:
        """Return one answer or failure per prompt, in order."""
        requests = make_requests(prompts, system=system, max_tokens=max_tokens, temperature=temperature)
        # Lines are assigned before the threads race for them, so that the nth prompt gets the nth line.
        answers = [partial(self._answer_request, request, self._take_next_line()) for request in requests]
        calls = [partial(complete_or_failure, answer) for answer in answers]
        return run_parallel(calls, max_concurrent=max_concurrent, abandon=True)

    def stream(
        self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0
    ) -> Iterator[str]:
        """Return the script's answer, word by word."""
        return self._stream(CompletionRequest(prompt, system, max_tokens, temperature))

    def count(self, text: str) -> int:
        """Count the words in a text."""
        return len(text.split())

    def _stream(self, request: CompletionRequest) -> Iterator[str]:
        yield from WORD.findall(self._answer_request(request, self._take_next_line()))

    def _take_next_line(self) -> ScriptLine | None:
        """Return the next line of the list, the fixed answer, or None if a function answers."""
        with self._lock:
            if self._answer_prompt is not None or self._fixed_answer is not None:
                return self._fixed_answer
            if not self._lines:
                return DriverFailed("the script has no line left; give ScriptedLLM more lines, or a function")
            return self._lines.popleft()

    def _answer_request(self, request: CompletionRequest, line: ScriptLine | None) -> str:
        with self._track_active(request):
            answer = self._answer_prompt(request.prompt) if self._answer_prompt is not None else line
            if isinstance(answer, DriverFailed):
                raise answer
        text = answer or ""
        used = Usage(1, self.count(f"{request.system} {request.prompt}"), self.count(text))
        record_usage(used)
        with self._lock:
            self._usage += used
        return text

    @contextmanager
    def _track_active(self, request: CompletionRequest) -> Iterator[None]:
        with self._lock:
            self._requests.append(request)
            self._active += 1
            self._max_active = max(self._max_active, self._active)
        try:
            yield
        finally:
            with self._lock:
                self._active -= 1
