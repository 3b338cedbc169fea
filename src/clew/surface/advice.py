"""Error messages in the words of a surface: what is wrong with a request, and what to do next there."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

HTTP_ADVICE: Final[Mapping[str, str]] = {
    "add": "POST /v1/documents",
    "collections": "GET /v1/collections",
    "drop": "DELETE /v1/documents/{document}",
    "jobs": "GET /v1/jobs",
    "list": "GET /v1/documents",
    "search": "POST /v1/search",
}
MCP_ADVICE: Final[Mapping[str, str]] = {
    "add": "the tool `add`",
    "list": "the tool `list_documents`",
    "search": "the tool `search`",
}
_COMMAND: Final = re.compile(r"`clew ([a-z-]+)[^`]*`")
_FIELD: Final = re.compile(r"[a-z][a-z0-9_]*")  # any other part of a location names a member of a union
_TYPES: Final = frozenset({"str", "int", "float", "bool", "dict", "list", "none"})
_SENTENCES: Final = {"missing": "is missing", "extra_forbidden": "is not known here"}


def translate_advice(message: str, advice: Mapping[str, str]) -> str:
    """Replace the commands in an advice by the names that the surface has for them."""
    return _COMMAND.sub(lambda found: advice.get(found[1], found[0]), message)


def describe_problems(problems: Iterable[Mapping[str, Any]], *, most: int = 5) -> str:
    """Describe the first problems that pydantic found, each once, by field: `where.kinds should be a list`."""
    named = [(_name_field(each["loc"], is_unknown=each["type"] == "extra_forbidden"), each) for each in problems]
    nearer = {name for name, each in named if not str(each["type"]).endswith("_type")}  # the meant member of a union
    told: dict[str, list[str]] = {}
    for name, each in named:
        if str(each["type"]).endswith("_type") and any(
            other == name or other.startswith(f"{name}.") for other in nearer
        ):
            continue
        text = _SENTENCES.get(each["type"]) or _describe_value(each)
        if text not in told.setdefault(name, []):
            told[name].append(text)
    return ", ".join(f"{name} {_join_choices(texts)}" for name, texts in list(told.items())[:most])


def _join_choices(texts: Sequence[str]) -> str:
    """Join the kinds that a value may have: should be a text or a list."""
    first, *others = texts
    return " or ".join([first, *(each.removeprefix("should be ") for each in others)])


def _name_field(location: Sequence[int | str], *, is_unknown: bool) -> str:
    *above, last = location or [""]
    kept = [str(part) for part in above if _is_field(part)]
    kept += [str(last)] if is_unknown or _is_field(last) else []
    return ".".join(kept) or "the body"


def _is_field(part: int | str) -> bool:
    return isinstance(part, int) or (part not in _TYPES and _FIELD.fullmatch(part) is not None)


def _describe_value(problem: Mapping[str, Any]) -> str:
    if problem["type"] == "string_pattern_mismatch":  # a pattern tells a reader nothing
        from clew.surface.bodies import SAYS

        return SAYS.get(problem["ctx"]["pattern"]) or "is not as it must be"
    message = str(problem["msg"]).removeprefix("Value error, ").removeprefix("Input ").removeprefix("String ")
    plain = message.removeprefix("List ").replace("a valid string", "a text").replace("a valid list", "a list")
    return plain[:1].lower() + plain[1:]
