"""A language model behind pydantic-ai: any of its providers, or any OpenAI-compatible address."""

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from clew.core.errors import DriverFailed, SettingsError
from clew.core.protocols import LLMFailure, Usage
from clew.drivers.llm.ask import Ask, asks
from clew.drivers.llm.loop import LoopThread
from clew.drivers.llm.many import answer_all, attempt, is_over
from clew.drivers.llm.named import model_named
from clew.drivers.llm.trouble import Scrubber, Trouble, explained

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model


class ModelLLM:
    """Answers from a model by its name (`openai:gpt-4o-mini`, `anthropic:…`, `ollama:…`), or by name and address.

    A request that meets a full, failing, slow or unreachable provider is sent again up to `retries` times. `timeout`
    is in seconds and for one request. It works from any thread, inside a running event loop and after a fork.
    """

    def __init__(self, name: str, *, url: str = "", api_key: str = "", timeout: float = 60.0, retries: int = 3) -> None:
        def build() -> "Model":
            return model_named(name, url=url, api_key=api_key)

        self._begin(build, f"{name}@{url}" if url else name, secrets=(api_key,), timeout=timeout, retries=retries)

    @classmethod
    def wrap(cls, model: "Model", *, timeout: float = 60.0, retries: int = 3) -> "ModelLLM":
        """The same around a pydantic-ai model that is already there."""
        made = cls.__new__(cls)
        name = f"{model.system}:{model.model_name}"
        made._begin(lambda: model, name, secrets=(), timeout=timeout, retries=retries)
        return made

    def _begin(
        self, build: "Callable[[], Model]", name: str, *, secrets: tuple[str, ...], timeout: float, retries: int
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
        self._scrub = Scrubber([*secrets, own_key] if isinstance(own_key, str) else secrets)
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

    def _complete(self, ask: Ask) -> str:
        import stamina

        tries = 0
        try:
            for trial in stamina.retry_context(
                on=_pause, attempts=self._tries, timeout=None, wait_initial=0.5, wait_max=20.0
            ):
                with trial:
                    tries = trial.num
                    return self._once(ask)
        except Trouble as trouble:
            text = str(trouble) if tries == 1 else f"{trouble} (tried {tries} times)"
        raise DriverFailed(text)  # out here, so that no earlier error, which may hold the key, hangs on it

    def _once(self, ask: Ask) -> str:
        try:
            response = self._loop().run(self._request(ask), stopped=is_over)
        except Exception as error:
            trouble = explained(error, name=self._name, timeout=self._timeout, scrub=self._scrub)
        else:
            used = Usage(1, response.usage.input_tokens, response.usage.output_tokens)
            with self._lock:
                self._usage += used
            return response.text or ""
        raise trouble

    async def _request(self, ask: Ask) -> "ModelResponse":
        from pydantic_ai.direct import model_request
        from pydantic_ai.messages import ModelRequest, ModelRequestPart, SystemPromptPart, UserPromptPart
        from pydantic_ai.settings import ModelSettings

        settings = ModelSettings(max_tokens=ask.max_tokens, temperature=ask.temperature)
        if "max_retries" not in self._model.unsupported_settings:
            settings["max_retries"] = 0  # the client's own tries would multiply ours
        parts: list[ModelRequestPart] = [SystemPromptPart(ask.system)] if ask.system else []
        parts.append(UserPromptPart(ask.prompt))
        async with asyncio.timeout(self._timeout):  # of the whole: a server that drips never runs into the client's
            return await model_request(self._model, [ModelRequest(parts)], model_settings=settings)

    def _loop(self) -> LoopThread:
        """The thread that this process's requests run in, started when first needed."""
        with self._lock:
            if self._thread is None or self._thread.pid != os.getpid():
                if self._thread is not None:
                    self._model = self._build()  # its connections are the parent process's
                self._thread = LoopThread(self._model)
                weakref.finalize(self, self._thread.close)
            return self._thread


def _pause(error: Exception) -> bool | float:
    """Whether to try again, or the seconds to wait before."""
    if not isinstance(error, Trouble) or not error.again or is_over():
        return False
    return True if error.after is None else error.after
