"""The command that shows the agent's tools, for agents of others: tools."""

from typing import Annotated, Literal

import typer

from clew.surface.cli import options as o

Format = Annotated[
    Literal["json", "openai", "anthropic"] | None,
    typer.Option("--format", help="Print the schemas: plain JSON Schema, or as OpenAI or Anthropic take tools."),
]


def tools(*, form: Format = None, as_json: o.Json = False) -> None:
    """List the agent's tools, or print their JSON schemas for another agent; `Engine.tools` calls them."""
    from clew.query.agent import Toolbox
    from clew.surface.cli import render

    if form:
        render.print_json(Toolbox.schemas(form))
        return
    if as_json:
        render.print_json({"tools": Toolbox.schemas()})
        return
    for schema in Toolbox.schemas():
        arguments = ", ".join(name if name in schema["required"] else f"[{name}]" for name in schema["properties"])
        render.print_line((f"{schema['title']}({arguments})", "bold"))
        render.print_text(f"  {schema['description'].splitlines()[0]}")
