"""A pydantic-ai model around an LLM that only answers: the last thing said is its prompt, and it calls no tools."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from clew.core.protocols import LLM

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.models.function import AgentInfo

MOST = 1000  # tokens of an answer where an agent sets no limit


def spoken(llm: LLM) -> "Model":
    """The model; every request is one `complete`, every stream one `stream`."""
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import RequestUsage

    async def answer(messages: "list[ModelMessage]", info: "AgentInfo") -> "ModelResponse":
        prompt, most = _last(messages), _most(info)
        text = await asyncio.to_thread(llm.complete, prompt, system=info.instructions or "", max_tokens=most)
        usage = RequestUsage(input_tokens=llm.count(prompt), output_tokens=llm.count(text))
        return ModelResponse([TextPart(text)], usage=usage)

    async def pieces(messages: "list[ModelMessage]", info: "AgentInfo") -> AsyncIterator[str]:
        source = llm.stream(_last(messages), system=info.instructions or "", max_tokens=_most(info))
        yield ""  # pydantic-ai takes a stream without any item for a mistake
        while piece := await asyncio.to_thread(next, source, ""):
            yield piece

    return FunctionModel(answer, stream_function=pieces, model_name=llm.name)


def _last(messages: "list[ModelMessage]") -> str:
    """The text of the last part that holds any."""
    parts = [part for message in messages for part in message.parts]
    texts = [content for part in parts if isinstance(content := getattr(part, "content", None), str)]
    return texts[-1] if texts else ""


def _most(info: "AgentInfo") -> int:
    return (info.model_settings or {}).get("max_tokens") or MOST
