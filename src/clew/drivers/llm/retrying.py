"""The pydantic-ai model of a ModelLLM for an agent, with the driver's retries, limits, usage and errors.

It imports pydantic-ai, so import it only to run an agent.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from clew.core.errors import AttemptFailed, DriverFailed
from clew.core.usage import Usage
from clew.drivers.llm.requests import ConcurrencyLimit, IncompleteStream, iterate_attempts
from clew.drivers.llm.turns import can_stream, extract_event_text


class RetryingModel(WrapperModel):
    """A pydantic-ai model with its own connections, opened in the event loop of the agent.

    With `on_text` it streams its turns and passes each piece of text to `on_text`; if the model cannot stream, the
    whole text.
    """

    # The parameters are the parts of the ModelLLM that made it.
    def __init__(
        self,
        model: Model,
        *,
        limit: ConcurrencyLimit,
        timeout: float,
        max_attempts: int,
        explain: Callable[[Exception], AttemptFailed],
        on_usage: Callable[[Usage], None],
        count: Callable[[str], int],
        on_text: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(model)
        self._limit = limit
        self._timeout = timeout
        self._max_attempts = max_attempts
        self._explain = explain
        self._on_usage = on_usage
        self._count_tokens = count
        self._on_text = on_text

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the model's turn, retried while the provider fails."""
        settings = self._disable_client_retries(model_settings)
        on_text = self._on_text
        try:
            async for attempt in iterate_attempts(self._max_attempts):
                with attempt:
                    if on_text is not None and can_stream(self.wrapped):
                        response = await self._stream_once(messages, settings, model_request_parameters, on_text)
                    else:
                        response = await self._request_once(messages, settings, model_request_parameters)
                        if on_text is not None and response.text:
                            on_text(response.text)
            self._record_usage(response, messages)
            return response
        except AttemptFailed as failure:
            text = str(failure)
        raise DriverFailed(text)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Open the model's turn as a stream, retried only until it begins."""
        settings = self._disable_client_retries(model_settings)
        async with self._limit, AsyncExitStack() as stack:
            try:
                async for attempt in iterate_attempts(self._max_attempts):
                    with attempt:
                        try:
                            stream = self.wrapped.request_stream(
                                messages, settings, model_request_parameters, run_context
                            )
                            async with asyncio.timeout(self._timeout):
                                response = await stack.enter_async_context(stream)
                        except Exception as error:
                            raise self._explain(error) from None
                yield response
                self._on_usage(Usage(1, response.usage.input_tokens, response.usage.output_tokens))
                return
            except AttemptFailed as failure:
                text = str(failure)
            except ModelAPIError as error:  # thrown into this block by the reader of the stream
                text = f"the answer broke off: {self._explain(error)}"
        raise DriverFailed(text)

    async def _request_once(
        self, messages: list[ModelMessage], settings: ModelSettings, parameters: ModelRequestParameters
    ) -> ModelResponse:
        try:
            async with self._limit, asyncio.timeout(self._timeout):
                return await self.wrapped.request(messages, settings, parameters)
        except Exception as error:
            failure = self._explain(error)
        raise failure

    async def _stream_once(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings,
        parameters: ModelRequestParameters,
        on_text: Callable[[str], None],
    ) -> ModelResponse:
        """Return the model's turn, passing each piece to `on_text`; never retry once it has begun: it is paid for."""
        given: list[str] = []
        begun = False
        now = asyncio.get_running_loop().time
        try:
            async with (
                self._limit,
                asyncio.timeout(self._timeout) as timeout,
                self.wrapped.request_stream(messages, settings, parameters) as stream,
            ):
                async for event in stream:
                    begun = True
                    timeout.reschedule(now() + self._timeout)
                    if piece := extract_event_text(event):
                        given.append(piece)
                        on_text(piece)
                if stream.state == "incomplete":
                    raise IncompleteStream
                return stream.get()
        except Exception as error:
            failure = self._explain(error)
        except BaseException:  # the reader has stopped
            if begun:
                self._record_estimate(messages, "".join(given))
            raise
        if begun:
            said = "".join(given)
            self._record_estimate(messages, said)
            failure = AttemptFailed(f"the answer broke off after {len(said)} characters: {failure}", is_retryable=False)
        raise failure

    def _record_usage(self, response: ModelResponse, messages: list[ModelMessage]) -> None:
        """Record the usage of a turn as the provider reports it, else an estimate."""
        used = response.usage
        if used.input_tokens or used.output_tokens:
            self._on_usage(Usage(1, used.input_tokens, used.output_tokens))
        else:
            self._record_estimate(messages, response.text or "")

    def _record_estimate(self, messages: list[ModelMessage], said: str) -> None:
        read = "".join(str(getattr(part, "content", "")) for message in messages for part in message.parts)
        self._on_usage(Usage(1, self._count_tokens(read), self._count_tokens(said)))

    def _disable_client_retries(self, given: ModelSettings | None) -> ModelSettings:
        settings = ModelSettings(**given) if given else ModelSettings()
        if "max_retries" not in self.wrapped.unsupported_settings:
            settings["max_retries"] = 0  # the client's own retries would multiply ours
        return settings
