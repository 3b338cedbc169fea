"""One request a verb: an option that is added to it is found on every surface, and `Engine` takes the same."""

import re
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from inspect import Parameter, signature
from typing import Annotated, Any

import pytest

import clew
from clew import Client, Engine, Filter
from clew.client.client import verb
from clew.client.transport import make_sent
from clew.core import requests as q
from clew.surface.bodies import body_of, build_request, parameters_of
from clew.surface.cli.errors import _build_command
from clew.surface.cli.option_groups import Asked, Seen
from clew.surface.verbs import list_arguments

ONLY_IN_PYTHON = {
    "settings",  # over HTTP single ones are fields of the request, as `depth` is
    "session",  # of a kept conversation, which is a verb of its own elsewhere: chat
    *("on_event", "on_sentence", "on_step", "on_progress"),
    "caller",  # whom the server has let in
    *("folder", "seed"),  # of files on this machine, and of a choice that is to be repeated
    *("allow_mass_drop", "sync", "max_cost", "repair"),  # HTTP has no files of its own, and repairs nothing
}
OWN_FORM = {
    "message",
    "sessions",
    "make_questions",
    "list",
    "drop",
    "drop_messages",
    "chat",
    "add",
    "status",
    "channels",
    "read",
    "links",
    "profile",
}


@dataclass(frozen=True)
class Tinted(q.Search, http="POST /v1/search", verb="search"):
    """A search with one option more."""

    _: KW_ONLY
    tint: Annotated[str | None, q.Option("The tint of what is found.", metavar="COLOUR")] = None


def test_an_option_that_is_added_to_a_request_is_found_everywhere() -> None:
    model: Any = body_of(Tinted)
    body = model(query="keys", tint="blue")
    values = {name: getattr(body, name) for name in type(body).model_fields}
    with Engine.open(":memory:", embedder="hashed") as engine:
        asked = build_request(Tinted, values, engine)
    assert asked.tint == "blue"
    assert list_arguments(asked)["tint"] == "blue"  # what Engine's method is called with
    assert (
        body_of(Tinted, "mcp").model_json_schema()["properties"]["tint"]["description"] == "The tint of what is found."
    )
    assert "tint" in [each.name for each in parameters_of(Tinted)]
    method = verb(Tinted)
    assert signature(method.__get__(None, Client)).parameters["tint"].annotation == str | None
    assert make_sent(Tinted("keys", tint="blue")).body == {"query": "keys", "tint": "blue"}
    assert make_sent(Tinted("keys")).body == {"query": "keys"}


def test_an_option_that_is_added_to_a_request_is_one_of_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Any] = []

    def search(*, asked: "Asked[q.Tinted]") -> None:  # type: ignore[name-defined]
        seen.append(asked.values)

    monkeypatch.setattr(q, "Tinted", Tinted, raising=False)
    command = _build_command("search", search)
    command(["keys", "--tint", "blue", "-k", "3", "--kind", "page"], standalone_mode=False)
    [values] = seen
    assert (values["query"], values["tint"], values["k"]) == ("keys", "blue", 3)
    assert Seen(values).make_filter_without_documents() == Filter(kinds={"page"})
    command(["--help"], standalone_mode=False)
    assert "The tint of what is found." in capsys.readouterr().out


def find_differences(request: type[q.Request[Any]], method: Any) -> set[str]:
    """The options that only the request or only the method has, or that have another default there."""
    fields = {each.name: each for each in q.list_options(request, "python") if not each.option.setting}
    taken = dict(list(signature(method).parameters.items())[1:])
    different = {
        name
        for name in fields.keys() & taken.keys()
        if taken[name].kind is not Parameter.VAR_POSITIONAL
        and (Parameter.empty if fields[name].is_required else fields[name].default) != taken[name].default
    }
    return (fields.keys() ^ taken.keys()) - ONLY_IN_PYTHON | different


def list_pairs() -> Iterator[tuple[str, type[q.Request[Any]], Any]]:
    for each in q.list_requests():
        method = getattr(Engine, each.verb, None) or getattr(clew, each.verb, None)
        if method is not None and each.verb not in OWN_FORM:
            yield each.verb, each, method


@pytest.mark.parametrize(
    ("name", "request_", "method"), [*list_pairs()], ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_method_of_the_engine_takes_what_its_request_has(
    name: str, request_: type[q.Request[Any]], method: Any
) -> None:
    assert find_differences(request_, method) == set(), name


def test_an_option_that_the_engine_lacks_is_noticed() -> None:
    assert find_differences(Tinted, Engine.search) == {"tint"}


def test_every_option_has_a_line_of_help() -> None:
    for each in q.list_requests():
        assert each.__doc__
        for option in q.list_options(each):
            assert option.option.help.endswith((".", "…", ")")), (each, option.name)


def test_the_rows_of_a_conversation_are_those_of_python() -> None:
    rows = [
        {"role": "user", "content": "Who rotates the keys?"},
        {"timestamp": "2026-03-01T09:00:00", "author": "dan", "message": "I do."},
        {"text": "Thank you.", "author": "ada"},
    ]
    model: Any = body_of(q.Search)
    body = model(query=rows)
    with Engine.open(":memory:", embedder="hashed") as engine:
        said: Any = build_request(q.Search, {"query": body.query}, engine).query
    assert [each.text for each in said] == ["Who rotates the keys?", "I do.", "Thank you."]
    assert [each.author for each in said] == ["", "dan", "ada"]
    with pytest.raises(ValueError, match="it must have timestamp/ts, author/author_uuid"):
        model(query=[{"said": "hello"}])


OF_MANY_VERBS = {"where", "settings", "on_progress", "max_cost"}  # explained by the class


def list_explained(name: str) -> set[str]:
    """The parameters that the docstring of a verb names, or that of a verb which it refers to."""
    text = getattr(Engine, name).__doc__ or ""
    named = {
        each for each in re.findall(r"`([a-z_]+)`", text) if each != name and callable(getattr(Engine, each, None))
    }
    return {*re.findall(r"\w+", text)}.union(*map(list_explained, named - {"ask_stream", "agent_stream"}))


def test_every_option_of_a_verb_is_explained_where_an_editor_shows_it() -> None:
    assert {*re.findall(r"\w+", Engine.__doc__ or "")} >= OF_MANY_VERBS
    missing = {
        f"{name}.{each.name}"
        for name in dir(Engine)
        if not name.startswith("_") and callable(getattr(Engine, name))
        for each in signature(getattr(Engine, name)).parameters.values()
        if each.kind is Parameter.KEYWORD_ONLY and each.name not in list_explained(name) | OF_MANY_VERBS
    }
    assert missing == set()
