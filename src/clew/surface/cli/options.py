"""The options that several commands share, each said once."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from clew.core.errors import SettingsError

_FILTERS = "Filters"

Question = Annotated[str, typer.Argument(metavar="QUERY", help="What to look for, in words.")]
Name = Annotated[str, typer.Argument(metavar="DOCUMENT", help="A document's id or its uri.")]
Names = Annotated[list[str], typer.Argument(metavar="DOCUMENT...", help="Documents, each by its id or its uri.")]
Messages = Annotated[bool, typer.Option("--messages", help="They are ids of messages, which leave their threads.")]
Sources = Annotated[list[str], typer.Argument(metavar="PATH...", help="Files, folders or exports to read.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON with keys that stay.")]

Place = Annotated[
    str | None,
    typer.Option("--path", "-p", "--store", metavar="PATH", help="The collections' folder (.clew) or postgresql://…"),
]
Collection = Annotated[str | None, typer.Option("--collection", metavar="NAME", help="Which one there (default).")]
Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="The settings (clew.toml here or in a folder above).")
]
Embedder = Annotated[str | None, typer.Option("--embedder", metavar="NAME", help="The model that makes the vectors.")]
Llm = Annotated[str | None, typer.Option("--llm", metavar="NAME", help="The language model that helps, if any.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log to stderr, and show where an error comes from.")]

ChunkSize = Annotated[int | None, typer.Option("--chunk-size", metavar="N", help="Tokens in a chunk.")]
ChunkOverlap = Annotated[int | None, typer.Option("--chunk-overlap", metavar="N", help="Tokens that neighbours share.")]
Contextual = Annotated[bool, typer.Option("--contextual", help="Place each chunk in its document with a sentence.")]
NoSummaries = Annotated[bool, typer.Option("--no-summaries", help="Leave out the summaries of documents.")]
Sync = Annotated[bool, typer.Option("--sync", help="Also drop what has vanished from the folders.")]
Watch = Annotated[bool, typer.Option("--watch", help="Stay, and keep the collection in step with the folders.")]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", metavar="X", help="Stop before models cost more than this.", min=0)
]
NoSemantic = Annotated[bool, typer.Option("--no-semantic", help="Cut plain windows, not along the structure.")]

K = Annotated[int | None, typer.Option("-k", metavar="N", help="How many to find.")]
Strategy = Annotated[str | None, typer.Option("--strategy", metavar="NAME", help="How to search: hybrid, semantic, …")]
Mode = Annotated[str | None, typer.Option("--mode", metavar="MODE", help="ann (fast) or exact.")]
Depth = Annotated[int | None, typer.Option("--depth", metavar="N", help="How many each ranking considers.")]
MinSimilarity = Annotated[
    float | None, typer.Option("--min-similarity", metavar="X", help="The least cosine that counts as found.")
]
Tokens = Annotated[int | None, typer.Option("--tokens", metavar="N", help="The most tokens the context may have.")]
Render = Annotated[
    str | None, typer.Option("--render", metavar="NAME", help="How it is written: numbered, knowledge_base, …")
]

Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", metavar="KIND", help="Only this kind, such as page. (repeatable)", rich_help_panel=_FILTERS),
]
Documents = Annotated[
    list[str] | None,
    typer.Option("--document", metavar="DOC", help="Only this id or uri. (repeatable)", rich_help_panel=_FILTERS),
]
Channels = Annotated[
    list[str] | None,
    typer.Option("--channel", metavar="NAME", help="Only this channel. (repeatable)", rich_help_panel=_FILTERS),
]
Authors = Annotated[
    list[str] | None,
    typer.Option("--author", metavar="NAME", help="Only this author. (repeatable)", rich_help_panel=_FILTERS),
]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="DATE", help="From this day or time on (UTC).", rich_help_panel=_FILTERS),
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="DATE", help="Before this day or time (UTC).", rich_help_panel=_FILTERS),
]
Metas = Annotated[
    list[str] | None,
    typer.Option("--meta", metavar="KEY=VALUE", help="Only where meta says so. (repeatable)", rich_help_panel=_FILTERS),
]


def time_of(option: str, text: str | None) -> datetime | None:
    """The day or time that an option gives; None where it was not given."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        said = f"{option} is {text!r}; it must be a day or a time such as 2025-05-31 or 2025-05-31T14:00"
        raise SettingsError(said) from None
