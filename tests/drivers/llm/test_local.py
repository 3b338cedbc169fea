"""The prompts of a local model and the parsing of its turns, without the model."""

import json
from typing import Any

import pytest

from clew.core.errors import DriverFailed
from clew.drivers.llm.local.transport import OMISSION, TEMPLATE_TOKENS, TOKENS_PER_MESSAGE, truncate_messages
from clew.drivers.llm.turns import MAX_ARGUMENT_CHARS, build_turn_schema, parse_turn, render_tools_as_text

SEARCH = {
    "name": "search",
    "description": "Search the handbook.",
    "parameters": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["query"],
    },
}
CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"query": "keys"}'}}


def words(text: str) -> int:
    return len(text.split())


def test_what_fits_is_left_alone() -> None:
    messages = [{"role": "user", "content": "one two three"}]
    assert truncate_messages(messages, words, max_tokens=3 + TOKENS_PER_MESSAGE + TEMPLATE_TOKENS) == messages


def test_the_longest_loses_its_middle_and_says_so() -> None:
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "a " * 500 + "b " * 500}]
    system, user = truncate_messages(messages, words, max_tokens=300)
    assert system == messages[0]
    assert OMISSION in user["content"]
    assert user["content"].startswith("a a")
    assert user["content"].endswith("b b ")
    assert 150 < words(user["content"]) <= 300 - TEMPLATE_TOKENS - 2 * TOKENS_PER_MESSAGE - 2
    assert messages[1]["content"].count("a") == 500  # the argument is as it was


def test_what_cannot_be_made_to_fit_is_refused() -> None:
    messages = [{"role": "user", "content": "b " * 42} for _ in range(10)]
    with pytest.raises(DriverFailed, match="has 420 tokens and the model has room for 280"):
        truncate_messages(messages, words, max_tokens=280)


def test_several_lose_their_middle_where_one_is_not_enough() -> None:
    messages = [{"role": "system", "content": "a " * 400}, {"role": "user", "content": "b " * 420}]
    made = truncate_messages(messages, words, max_tokens=280)
    assert all(OMISSION in message["content"] for message in made)
    assert sum(words(message["content"]) for message in made) <= 280 - TEMPLATE_TOKENS - 2 * TOKENS_PER_MESSAGE
    assert made[1]["content"].endswith("b ")


def test_tools_their_calls_and_results_are_told_in_words() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Help."},
        {"role": "user", "content": [{"type": "text", "text": "Who?"}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "Dan."},
    ]
    made = render_tools_as_text(messages, [SEARCH])
    assert [message["role"] for message in made] == ["system", "user", "assistant", "user"]
    assert made[0]["content"].startswith("Help.\n")
    assert '- search: Search the handbook. ["query", "limit"]' in made[0]["content"]
    assert made[1]["content"] == "Who?"
    assert json.loads(made[2]["content"]) == {"tool": "search", "arguments": {"query": "keys"}}
    assert made[3]["content"] == "Result of search:\nDan."
    assert render_tools_as_text(messages[1:2], [SEARCH])[0]["role"] == "system"
    assert render_tools_as_text(messages[:2], [])[0]["content"] == "Help."


def test_a_turn_is_a_call_or_where_it_may_be_an_answer() -> None:
    call, answer = build_turn_schema([SEARCH], may_answer=True)["anyOf"]
    assert call["properties"]["tool"] == {"const": "search"}
    assert call["properties"]["arguments"]["properties"]["query"] == {"type": "string", "maxLength": MAX_ARGUMENT_CHARS}
    assert call["properties"]["arguments"]["required"] == ["query"]
    assert list(answer["properties"]) == ["answer"]
    assert len(build_turn_schema([SEARCH], may_answer=False)["anyOf"]) == 1
    nested = {**SEARCH, "parameters": {"$defs": {"x": {}}, "properties": {"a": {"$ref": "#/$defs/x"}}}}
    assert build_turn_schema([nested], may_answer=False)["anyOf"][0]["properties"]["arguments"] == {"type": "object"}


def test_a_turn_is_heard() -> None:
    message = parse_turn('{"tool": "search", "arguments": {"query": "keys"}}')
    assert message["content"] is None
    assert message["tool_calls"][0]["function"] == {"name": "search", "arguments": '{"query": "keys"}'}
    assert parse_turn('{"answer": "Dan \\"does\\"."}')["content"] == 'Dan "does".'
    assert parse_turn('{"answer": "Dan does, and')["content"] == "Dan does, and"  # it reached its limit
    for half in ('{"tool": "search", "argum', "", '{"to'):
        with pytest.raises(DriverFailed, match="allow more tokens"):
            parse_turn(half)
