"""The model of a driver in the hands of an agent: as patient as the driver, counted by it, failing in its words.

Imports pydantic-ai, so it is itself imported only when an agent is run.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import stamina
from pydantic_ai import RunContext
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from clew.core.errors import DriverFailed
from clew.core.protocols import Usage
from clew.drivers.llm.concurrency import Room
from clew.drivers.llm.errors import Trouble, pause


class Lent(WrapperModel):
    """A pydantic-ai model with connections of its own: an agent enters it, in whatever loop it runs."""

    def __init__(
        self,
        model: Model,
        *,
        room: Room,
        timeout: float,
        tries: int,
        explained: Callable[[Exception], Trouble],
        count: Callable[[Usage], None],
    ) -> None:
        super().__init__(model)
        self._room = room
        self._timeout = timeout
        self._tries = tries
        self._explained = explained
        self._count = count

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """The model's turn; a failing provider is asked again."""
        settings = self._patient(model_settings)
        try:
            async for trial in self._trials():
                with trial:
                    response = await self._once(messages, settings, model_request_parameters)
            self._count(Usage(1, response.usage.input_tokens, response.usage.output_tokens))
            return response
        except Trouble as trouble:
            text = str(trouble)
        raise DriverFailed(text)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """The model's turn as it comes; asked again only until it begins."""
        settings = self._patient(model_settings)
        async with self._room, AsyncExitStack() as stack:
            try:
                async for trial in self._trials():
                    with trial:
                        try:
                            opened = self.wrapped.request_stream(
                                messages, settings, model_request_parameters, run_context
                            )
                            async with asyncio.timeout(self._timeout):
                                response = await stack.enter_async_context(opened)
                        except Exception as error:
                            raise self._explained(error) from None
                yield response
                self._count(Usage(1, response.usage.input_tokens, response.usage.output_tokens))
                return
            except Trouble as trouble:
                text = str(trouble)
            except ModelAPIError as error:  # thrown in here by whoever reads the stream
                text = f"the answer broke off: {self._explained(error)}"
        raise DriverFailed(text)

    async def _once(
        self, messages: list[ModelMessage], settings: ModelSettings, parameters: ModelRequestParameters
    ) -> ModelResponse:
        try:
            async with self._room, asyncio.timeout(self._timeout):
                return await self.wrapped.request(messages, settings, parameters)
        except Exception as error:
            trouble = self._explained(error)
        raise trouble

    def _trials(self) -> Any:
        return stamina.retry_context(on=pause, attempts=self._tries, timeout=None, wait_initial=0.5, wait_max=20.0)

    def _patient(self, given: ModelSettings | None) -> ModelSettings:
        settings = ModelSettings(**given) if given else ModelSettings()
        if "max_retries" not in self.wrapped.unsupported_settings:
            settings["max_retries"] = 0  # the client's own tries would multiply ours
        return settings
