"""A language model with a disk cache, so that no request is paid for twice."""

import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from clew.core.errors import DriverFailed
from clew.core.parallel import run_parallel
from clew.core.protocols import LLM, LLMFailure, complete_or_failure
from clew.core.usage import Usage, record_usage
from clew.drivers.cache import CacheFile
from clew.drivers.llm.requests import CompletionRequest, make_requests


class CachedLLM:
    """A wrapper of an LLM that caches answers in a file, by model, system, prompt, max_tokens and temperature.

    Threads and processes may share the file. Each answer is stored as it arrives, so that interrupted work resumes
    where it stopped. Failures and empty answers are not cached.
    """

    def __init__(self, llm: LLM, path: str | Path) -> None:
        self._llm = llm
        self._cache = CacheFile(path)
        self._lock = threading.Lock()
        self._cached = 0

    def __repr__(self) -> str:
        return f"CachedLLM({self._llm!r}, {str(self._cache.path)!r})"

    @property
    def name(self) -> str:
        return self._llm.name

    @property
    def usage(self) -> Usage:
        """The usage of all calls so far; every answer counts either in `calls` or in `cached`."""
        return self._llm.usage + Usage(cached=self._cached)

    @property
    def wrapped(self) -> LLM:
        """The inner model, for agents, whose turns are not cached."""
        return self._llm

    def clear_cache(self) -> int:
        """Delete all cached answers; return how many there were."""
        return self._cache.clear()

    def complete(self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0) -> str:
        """Return the cached answer, or the model's."""
        request = CompletionRequest(prompt, system, max_tokens, temperature)
        found = self._look_up([request])
        if request in found:
            self._count_cached(1)
            return found[request]
        answer = self._complete(request)
        self._store(request, answer)
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
        """Return one answer or failure per prompt, in order; equal prompts are sent once."""
        requests = make_requests(prompts, system=system, max_tokens=max_tokens, temperature=temperature)

        def answer_and_store(request: CompletionRequest) -> str | LLMFailure:
            answer = complete_or_failure(partial(self._complete, request))
            # Outside complete_or_failure: an unwritable file is not the failure of one prompt. It must end the work
            # before more is paid.
            if isinstance(answer, str):
                self._store(request, answer)
            return answer

        answers: dict[CompletionRequest, str | LLMFailure] = dict(self._look_up(requests))
        new = [request for request in dict.fromkeys(requests) if request not in answers]
        calls = [partial(answer_and_store, request) for request in new]
        answers.update(zip(new, run_parallel(calls, max_concurrent=max_concurrent, abandon=True), strict=True))
        paid = sum(isinstance(answers[request], str) for request in new)
        self._count_cached(sum(isinstance(answers[request], str) for request in requests) - paid)
        return [answers[request] for request in requests]

    def stream(
        self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0
    ) -> Iterator[str]:
        """Return the cached answer in one piece, or stream the model's answer and cache it once complete."""
        return self._stream(CompletionRequest(prompt, system, max_tokens, temperature))

    def count(self, text: str) -> int:
        """Count the model's tokens in a text."""
        return self._llm.count(text)

    def _stream(self, request: CompletionRequest) -> Iterator[str]:
        found = self._look_up([request])
        if request in found:
            self._count_cached(1)
            yield found[request]
            return
        pieces: list[str] = []
        for piece in self._llm.stream(
            request.prompt, system=request.system, max_tokens=request.max_tokens, temperature=request.temperature
        ):
            pieces.append(piece)
            yield piece
        self._store(request, "".join(pieces))

    def _look_up(self, requests: Sequence[CompletionRequest]) -> dict[CompletionRequest, str]:
        by_key = {request.cache_key(self.name): request for request in requests}
        stored = self._cache.get(list(by_key))
        try:
            return {by_key[key]: answer.decode("utf-8", "surrogatepass") for key, answer in stored.items()}
        except UnicodeDecodeError as error:
            raise DriverFailed(f"{self._cache.path}: the cache file is damaged ({error}); delete the file") from error

    def _store(self, request: CompletionRequest, answer: str) -> None:
        if answer.strip():
            # surrogatepass: a model may send half of a surrogate pair
            self._cache.put({request.cache_key(self.name): answer.encode("utf-8", "surrogatepass")})

    def _complete(self, request: CompletionRequest) -> str:
        return self._llm.complete(
            request.prompt, system=request.system, max_tokens=request.max_tokens, temperature=request.temperature
        )

    def _count_cached(self, answers: int) -> None:
        if answers:
            record_usage(Usage(cached=answers))
        with self._lock:
            self._cached += answers
