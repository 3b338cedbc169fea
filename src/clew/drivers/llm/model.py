"""A language model behind pydantic-ai: any of its providers, or any OpenAI-compatible address."""

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from clew.core.errors import DriverFailed, SettingsError
from clew.core.protocols import LLMFailure, Usage
from clew.core.tally import record_usage
from clew.core.text import estimate_tokens
from clew.drivers.llm.batch import answer_all, attempt, is_over
from clew.drivers.llm.concurrency import Room
from clew.drivers.llm.errors import HalfAnAnswer, Scrubber, Trouble, explained, pause
from clew.drivers.llm.loop import LoopThread
from clew.drivers.llm.names import model_named
from clew.drivers.llm.request import Ask, asks

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelRequest, ModelResponse, ModelResponseStreamEvent
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.usage import RequestUsage

T = TypeVar("T")


class ModelLLM:
    """Answers from a model by its name (`openai:gpt-4o-mini`, `anthropic:…`, `ollama:…`), or by name and address.

    A request that meets a full, failing, slow or unreachable provider is sent again up to `retries` times. `timeout`
    is in seconds and for one request. It works from any thread, inside a running event loop and after a fork.
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
            return model_named(name, url=url, api_key=api_key)

        shown = f"{name}@{url}" if url else name
        self._begin(build, shown, api_key, timeout=timeout, retries=retries, max_concurrent=max_concurrent)

    @classmethod
    def wrap(cls, model: "Model", *, timeout: float = 60.0, retries: int = 3, max_concurrent: int = 8) -> "ModelLLM":
        """The same around a pydantic-ai model that is already there."""
        name = f"{model.system}:{model.model_name}"
        return cls.built(lambda: model, name, timeout=timeout, retries=retries, max_concurrent=max_concurrent)

    @classmethod
    def built(
        cls,
        build: "Callable[[], Model]",
        name: str,
        *,
        timeout: float = 60.0,
        retries: int = 3,
        max_concurrent: int = 8,
        count: Callable[[str], int] = estimate_tokens,
    ) -> "ModelLLM":
        """The same around a pydantic-ai model that a function makes, once now and once more after a fork."""
        made = cls.__new__(cls)
        made._begin(build, name, "", timeout=timeout, retries=retries, max_concurrent=max_concurrent)
        made._counted = count
        return made

    def _begin(
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
        self._tries = retries + 1
        self._model = build()  # here, so that a wrong name fails at the door
        own_key = getattr(getattr(self._model, "client", None), "api_key", "")  # the environment's, if none was given
        self._scrub = Scrubber([api_key, own_key] if isinstance(own_key, str) else [api_key])
        self._room = Room(max_concurrent)
        self._counted: Callable[[str], int] = estimate_tokens
        self._thread: LoopThread | None = None
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
        """What all answers so far took."""
        return self._usage

    def complete(self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0) -> str:
        """The model's answer, empty if it said nothing, cut off where it reached `max_tokens`."""
        return self._complete(Ask(prompt, system, max_tokens, temperature))

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
        return answer_all(asked, lambda ask: attempt(self._complete, ask), max_concurrent=max_concurrent)

    def stream(
        self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0
    ) -> Iterator[str]:
        """The answer in pieces, as they come; `timeout` is for each of them."""
        return self._stream(Ask(prompt, system, max_tokens, temperature))

    def count(self, text: str) -> int:
        """How many tokens a text has; about, where the model is a provider's, which does not say."""
        return self._counted(text)

    def model(self) -> "Model":
        """The model with connections of its own, for an agent to enter; its calls count here."""
        from clew.drivers.llm.retrying import Lent

        return Lent(
            self._build(),
            room=self._room,
            timeout=self._timeout,
            tries=self._tries,
            explained=self._explained,
            count=self._add,
        )

    def _complete(self, ask: Ask) -> str:
        return self._tried(lambda: self._once(ask))

    def _stream(self, ask: Ask) -> Iterator[str]:
        first, rest = self._tried(lambda: self._begun(ask))
        given = len(first)
        with closing(rest):
            try:
                if first:
                    yield first
                for piece in rest:
                    given += len(piece)
                    yield piece
                return
            except Trouble as trouble:
                text = str(trouble)
        raise DriverFailed(f"the answer broke off after {given} characters, which are kept: {text}")

    def _tried(self, once: Callable[[], T]) -> T:
        """What a try gives, or as many as may be made."""
        import stamina

        tries = 0
        try:
            for trial in stamina.retry_context(
                on=pause, attempts=self._tries, timeout=None, wait_initial=0.5, wait_max=20.0
            ):
                with trial:
                    tries = trial.num
                    return once()
        except Trouble as trouble:
            text = str(trouble) if tries == 1 else f"{trouble} (tried {tries} times)"
        raise DriverFailed(text)  # out here, so that no earlier error, which may hold the key, hangs on it

    def _once(self, ask: Ask) -> str:
        try:
            response = self._loop().run(self._request(ask), stopped=is_over)
        except Exception as error:
            trouble = self._explained(error)
        else:
            text = response.text or ""
            self._count(response.usage, ask, text)
            return text
        raise trouble

    def _begun(self, ask: Ask) -> tuple[str, Generator[str, None, None]]:
        """The first piece, empty if there is none, and those that follow."""
        pieces = self._read(ask)
        return next(pieces, ""), pieces

    def _read(self, ask: Ask) -> Generator[str, None, None]:
        given: list[str] = []
        used: list[RequestUsage] = []  # filled in the other thread, when the answer is whole
        try:
            for piece in self._loop().iterate(self._pieces(ask, used), stopped=is_over):
                given.append(piece)
                yield piece
            return
        except Exception as error:
            trouble = self._explained(error)
        finally:
            if given or used:  # also where it broke off, or whoever read it went away: it is paid for
                self._count(used[0] if used else None, ask, "".join(given))
        raise trouble

    async def _request(self, ask: Ask) -> "ModelResponse":
        from pydantic_ai.direct import model_request

        async with (
            self._room,
            asyncio.timeout(self._timeout),
        ):  # of the whole: a server that drips never runs into the client's
            return await model_request(self._model, [_message(ask)], model_settings=self._settings(ask))

    async def _pieces(self, ask: Ask, used: "list[RequestUsage]") -> AsyncGenerator[str, None]:
        from pydantic_ai.direct import model_request_stream

        now = asyncio.get_running_loop().time
        async with (
            self._room,
            asyncio.timeout(self._timeout) as limit,
            model_request_stream(self._model, [_message(ask)], model_settings=self._settings(ask)) as response,
        ):
            async for event in response:
                if piece := _piece(event):
                    yield piece
                    limit.reschedule(now() + self._timeout)
            if response.state == "incomplete":
                raise HalfAnAnswer  # a connection that was closed in the middle may look like an end
            used.append(response.usage)

    def _settings(self, ask: Ask) -> "ModelSettings":
        from pydantic_ai.settings import ModelSettings

        settings = ModelSettings(max_tokens=ask.max_tokens, temperature=ask.temperature)
        if "max_retries" not in self._model.unsupported_settings:
            settings["max_retries"] = 0  # the client's own tries would multiply ours
        return settings

    def _explained(self, error: Exception) -> Trouble:
        return explained(error, name=self._name, timeout=self._timeout, scrub=self._scrub)

    def _count(self, usage: "RequestUsage | None", ask: Ask, answer: str) -> None:
        """Adds what an answer took: what the provider says, or an estimate where it does not say."""
        if usage is not None and (usage.input_tokens or usage.output_tokens):
            used = Usage(1, usage.input_tokens, usage.output_tokens)
        else:
            used = Usage(1, self.count(ask.system + ask.prompt), self.count(answer))
        self._add(used)

    def _add(self, used: Usage) -> None:
        record_usage(used)
        with self._lock:
            self._usage += used

    def _loop(self) -> LoopThread:
        """The thread that this process's requests run in, started when first needed."""
        with self._lock:
            if self._thread is None or self._thread.pid != os.getpid():
                if self._thread is not None:
                    self._model = self._build()  # its connections are the parent process's
                    self._room = Room(self._room.most)  # and so are the places that are taken
                self._thread = LoopThread(self._model)
                weakref.finalize(self, self._thread.close)
            return self._thread


def _message(ask: Ask) -> "ModelRequest":
    from pydantic_ai.messages import ModelRequest, ModelRequestPart, SystemPromptPart, UserPromptPart

    parts: list[ModelRequestPart] = [SystemPromptPart(ask.system)] if ask.system else []
    return ModelRequest([*parts, UserPromptPart(ask.prompt)])


def _piece(event: "ModelResponseStreamEvent") -> str:
    """The text that an event brings."""
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""
