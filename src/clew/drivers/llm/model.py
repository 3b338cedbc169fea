"""A language model behind pydantic-ai: any of its providers, or any OpenAI-compatible address."""

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from clew.core.answer import explain_cut_off
from clew.core.errors import AttemptFailed, DriverFailed, SettingsError
from clew.core.event_loop import EventLoopThread
from clew.core.parallel import is_cancelled
from clew.core.protocols import LLM
from clew.core.text import estimate_tokens
from clew.core.usage import Usage, record_usage
from clew.drivers.llm.concurrency import ConcurrencyLimit
from clew.drivers.llm.errors import IncompleteStream, Scrubber, iterate_attempts, to_attempt_failed
from clew.drivers.llm.factory import make_model
from clew.drivers.llm.request import CompletionRequest
from clew.drivers.llm.streaming import extract_event_text

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelRequest, ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.usage import RequestUsage

T = TypeVar("T")


class ModelLLM(LLM):
    """Answers from a model by its name (`openai:gpt-4o-mini`, `anthropic:…`, `ollama:…`), or by name and address.

    A request is retried up to `retries` times while the provider is rate limited, failing, slow or unreachable.
    `timeout` is in seconds, per request. It works from any thread, inside a running event loop and after a fork.
    """

    def __init__(
        self,
        name: str,
        *,
        url: str = "",
        api_key: str = "",
        timeout: float = 60.0,
        retries: int = 3,
        max_concurrent: int = 8,
    ) -> None:
        def build() -> "Model":
            return make_model(name, url=url, api_key=api_key)

        full_name = f"{name}@{url}" if url else name
        self._initialize(build, full_name, api_key, timeout=timeout, retries=retries, max_concurrent=max_concurrent)

    @classmethod
    def wrap(cls, model: "Model", *, timeout: float = 60.0, retries: int = 3, max_concurrent: int = 8) -> "ModelLLM":
        """A ModelLLM around an existing pydantic-ai model."""
        name = f"{model.system}:{model.model_name}"
        return cls.from_builder(lambda: model, name, timeout=timeout, retries=retries, max_concurrent=max_concurrent)

    @classmethod
    def from_builder(
        cls,
        build: "Callable[[], Model]",
        name: str,
        *,
        timeout: float = 60.0,
        retries: int = 3,
        max_concurrent: int = 8,
        count: Callable[[str], int] = estimate_tokens,
    ) -> "ModelLLM":
        """A ModelLLM around a pydantic-ai model that `build` makes, now and again after a fork."""
        llm = cls.__new__(cls)
        llm._initialize(build, name, "", timeout=timeout, retries=retries, max_concurrent=max_concurrent)
        llm._count_tokens = count
        return llm

    def _initialize(
        self,
        build: "Callable[[], Model]",
        name: str,
        api_key: str,
        *,
        timeout: float,
        retries: int,
        max_concurrent: int,
    ) -> None:
        if not timeout > 0:
            raise SettingsError(f"timeout is {timeout}; it must be more than 0 seconds")
        if retries < 0:
            raise SettingsError(f"retries is {retries}; it must be at least 0")
        self._name = name
        self._build = build
        self._timeout = timeout
        self._max_attempts = retries + 1
        self._model = build()  # here, so that a wrong name fails early
        own_key = getattr(getattr(self._model, "client", None), "api_key", "")  # the environment's, if none was given
        self._scrub = Scrubber([api_key, own_key] if isinstance(own_key, str) else [api_key])
        self._limit = ConcurrencyLimit(max_concurrent)
        self._count_tokens: Callable[[str], int] = estimate_tokens
        self._loop_thread: EventLoopThread | None = None
        self._lock = threading.Lock()
        self._usage = Usage()

    def __repr__(self) -> str:
        return f"ModelLLM({self._name!r})"

    @property
    def name(self) -> str:
        """The model's name, with its address if one was given: the same name elsewhere may be another model."""
        return self._name

    @property
    def usage(self) -> Usage:
        """The usage of all answers so far."""
        return self._usage

    def complete(self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0) -> str:
        """The model's answer, which may be empty, cut off at `max_tokens`."""
        request = CompletionRequest(prompt, system, max_tokens, temperature)
        return self._retry(lambda: self._complete_once(request))

    def stream(
        self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0
    ) -> Iterator[str]:
        """The answer in pieces as they arrive; `timeout` applies to each."""
        return self._stream(CompletionRequest(prompt, system, max_tokens, temperature))

    def count(self, text: str) -> int:
        """The number of tokens in a text; an estimate for hosted models, whose tokenizer is not known."""
        return self._count_tokens(text)

    def as_agent_model(self, *, on_text: Callable[[str], None] | None = None) -> "Model":
        """A pydantic-ai model with its own connections; its calls add to `usage`.

        With `on_text` it streams its turns, and calls it with each piece of text.
        """
        from clew.drivers.llm.retrying import RetryingModel

        return RetryingModel(
            self._build(),
            limit=self._limit,
            timeout=self._timeout,
            max_attempts=self._max_attempts,
            explain=self._to_attempt_failed,
            on_usage=self._record_usage,
            count=self._count_tokens,
            on_text=on_text,
        )

    def _stream(self, request: CompletionRequest) -> Iterator[str]:
        finish: list[str] = []  # filled in the other thread at the end
        first, rest = self._retry(lambda: self._start_stream(request, finish))
        given = len(first)
        with closing(rest):
            try:
                if first:
                    yield first
                for piece in rest:
                    given += len(piece)
                    yield piece
                text = explain_cut_off(finish[-1] if finish else "", request.max_tokens)
                if not text:
                    return
            except AttemptFailed as failure:
                text = str(failure)
        raise DriverFailed(f"the answer broke off after {given} characters, which are kept: {text}")

    def _retry(self, attempt: Callable[[], T]) -> T:
        """The result of the first attempt that succeeds, or DriverFailed after the last."""
        attempts = 0
        try:
            for trial in iterate_attempts(self._max_attempts):
                with trial:
                    attempts = trial.num
                    return attempt()
        except AttemptFailed as failure:
            text = str(failure) if attempts == 1 else f"{failure} (tried {attempts} times)"
        raise DriverFailed(text)  # outside of `except`, so that no earlier error, which may hold the key, is chained

    def _complete_once(self, request: CompletionRequest) -> str:
        try:
            response = self._get_loop().run(self._send(request), is_cancelled=is_cancelled)
        except Exception as error:
            failure = self._to_attempt_failed(error)
        else:
            text = response.text or ""
            self._record_response_usage(response.usage, request, text)
            return text
        raise failure

    def _start_stream(self, request: CompletionRequest, finish: list[str]) -> tuple[str, Generator[str, None, None]]:
        """The first piece (empty where there is none) and the rest; `finish` gets why the reply ended."""
        pieces = self._read_pieces(request, finish)
        return next(pieces, ""), pieces

    def _read_pieces(self, request: CompletionRequest, finish: list[str]) -> Generator[str, None, None]:
        given: list[str] = []
        used: list[RequestUsage] = []  # filled in the other thread when the answer is complete
        try:
            for piece in self._get_loop().iterate(
                self._send_streaming(request, used, finish), is_cancelled=is_cancelled
            ):
                given.append(piece)
                yield piece
            return
        except Exception as error:
            failure = self._to_attempt_failed(error)
        finally:
            if given or used:  # also where it broke off or the reader stopped: it is paid for
                self._record_response_usage(used[0] if used else None, request, "".join(given))
        raise failure

    async def _send(self, request: CompletionRequest) -> "ModelResponse":
        from pydantic_ai.direct import model_request

        # A timeout of the whole request: a server that sends byte by byte never exceeds the client's own.
        async with self._limit, asyncio.timeout(self._timeout):
            return await model_request(
                self._model, [_to_model_request(request)], model_settings=self._make_model_settings(request)
            )

    async def _send_streaming(
        self, request: CompletionRequest, used: "list[RequestUsage]", finish: list[str]
    ) -> AsyncGenerator[str, None]:
        from pydantic_ai.direct import model_request_stream

        now = asyncio.get_running_loop().time
        async with (
            self._limit,
            asyncio.timeout(self._timeout) as timeout,
            model_request_stream(
                self._model, [_to_model_request(request)], model_settings=self._make_model_settings(request)
            ) as stream,
        ):
            async for event in stream:
                if piece := extract_event_text(event):
                    yield piece
                    timeout.reschedule(now() + self._timeout)
            if stream.state == "incomplete":
                raise IncompleteStream  # a connection closed in the middle may look like the end
            used.append(stream.usage)
            finish.append(stream.finish_reason or "")

    def _make_model_settings(self, request: CompletionRequest) -> "ModelSettings":
        from pydantic_ai.settings import ModelSettings

        settings = ModelSettings(max_tokens=request.max_tokens, temperature=request.temperature)
        if "max_retries" not in self._model.unsupported_settings:
            settings["max_retries"] = 0  # the client's own retries would multiply ours
        return settings

    def _to_attempt_failed(self, error: Exception) -> AttemptFailed:
        return to_attempt_failed(error, name=self._name, timeout=self._timeout, scrub=self._scrub)

    def _record_response_usage(self, usage: "RequestUsage | None", request: CompletionRequest, answer: str) -> None:
        """Records the usage of an answer: as the provider reports it, else an estimate."""
        if usage is not None and (usage.input_tokens or usage.output_tokens):
            used = Usage(1, usage.input_tokens, usage.output_tokens)
        else:
            used = Usage(1, self.count(request.system + request.prompt), self.count(answer))
        self._record_usage(used)

    def _record_usage(self, used: Usage) -> None:
        record_usage(used)
        with self._lock:
            self._usage += used

    def _get_loop(self) -> EventLoopThread:
        """The event loop of this process's requests, started when first needed."""
        with self._lock:
            if self._loop_thread is None or self._loop_thread.pid != os.getpid():
                if self._loop_thread is not None:
                    self._model = self._build()  # its connections belong to the parent process
                    self._limit = ConcurrencyLimit(self._limit.max_concurrent)  # as do the places taken
                self._loop_thread = EventLoopThread(self._model)
                weakref.finalize(self, self._loop_thread.close)
            return self._loop_thread


def _to_model_request(request: CompletionRequest) -> "ModelRequest":
    from pydantic_ai.messages import ModelRequest, ModelRequestPart, SystemPromptPart, UserPromptPart

    parts: list[ModelRequestPart] = [SystemPromptPart(request.system)] if request.system else []
    return ModelRequest([*parts, UserPromptPart(request.prompt)])
