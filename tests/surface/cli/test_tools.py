"""`clew tools`: the agent's tools as a list, and as schemas for agents of others."""

import pytest

from clew import Toolbox
from tests.surface.cli.conftest import Clew


@pytest.mark.parametrize("form", ["json", "openai", "anthropic"])
def test_schemas_are_printed(clew: Clew, form: str) -> None:
    assert clew("tools", "--format", form).json == Toolbox.schemas(form)  # type: ignore[arg-type]


def test_json_is_plain_json_schema(clew: Clew) -> None:
    assert clew("tools", "--json").json == {"tools": Toolbox.schemas("json")}


def test_a_list_for_people(clew: Clew) -> None:
    lines = clew("tools").out.splitlines()
    assert "search_conversations(query, [channel])" in lines
    assert lines[lines.index("read_document(documentIndex, query)") + 1].startswith("  Read a document")


def test_an_unknown_format_is_a_usage_error(clew: Clew) -> None:
    done = clew("tools", "--format", "yaml")
    assert done.code == 2
    assert "anthropic" in done.err
