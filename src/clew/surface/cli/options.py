"""The options and arguments that several commands share, each declared once as an annotated type."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from clew.core.errors import SettingsError
from clew.core.time import parse_time

QueryText = Annotated[
    str | None,
    typer.Argument(
        metavar="QUERY",
        help="Question or keywords, - for standard input; with --conversation, a question asked after it.",
    ),
]
Conversation = Annotated[
    Path | None,
    typer.Option(
        "--conversation",
        metavar="FILE",
        help="Search with a conversation: JSON or JSON Lines of messages (timestamp, author, message; or role, "
        "content); - reads standard input.",
    ),
]
DocumentName = Annotated[str, typer.Argument(metavar="DOCUMENT", help="Document id or URI.")]
Sources = Annotated[
    list[str], typer.Argument(metavar="SOURCE...", help="Files, folders, chat exports or web addresses.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON (stable schema).")]

CollectionPath = Annotated[
    str | None,
    typer.Option(
        "--path",
        "-p",
        "--store",
        metavar="PATH",
        help="Folder of the collections, or a postgresql:// or s3:// address (default: .clew).",
    ),
]
Collection = Annotated[
    str | None, typer.Option("--collection", metavar="NAME", help="Collection name (default: default).")
]
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Settings file (default: the nearest clew.toml, here or above)."),
]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of", metavar="TIME", help="Read the version of this date or time (UTC), of a collection in Lance."
    ),
]
Embedder = Annotated[str | None, typer.Option("--embedder", metavar="NAME", help="Embedding model.")]
Llm = Annotated[str | None, typer.Option("--llm", metavar="NAME", help="Language model (optional).")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Log to stderr, list what add passes over, show tracebacks.")
]

ChunkSize = Annotated[int | None, typer.Option("--chunk-size", metavar="N", help="Tokens per chunk.")]
ChunkOverlap = Annotated[
    int | None, typer.Option("--chunk-overlap", metavar="N", help="Tokens shared by neighbouring chunks.")
]
NoSemantic = Annotated[bool, typer.Option("--no-semantic", help="Split at paragraphs, whatever the headings.")]
Contextual = Annotated[
    bool, typer.Option("--contextual", help="Embed each chunk with a sentence that places it in its document.")
]
Summaries = Annotated[
    bool, typer.Option("--summaries", help="Let the language model write the summaries; it is paid per document.")
]
Sections = Annotated[
    bool, typer.Option("--sections", help="Add each chapter of a file or page as a document of its own.")
]
Sync = Annotated[bool, typer.Option("--sync", help="Also drop documents whose files are gone.")]
Yes = Annotated[
    bool, typer.Option("--yes", help="Let --sync drop more than half of a folder's documents without asking.")
]
Include = Annotated[
    list[str] | None,
    typer.Option("--include", metavar="PATTERN", help="Only files that match, as in .gitignore (repeatable)."),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="PATTERN", help="No files and folders that match (repeatable)."),
]
NoIgnore = Annotated[
    bool,
    typer.Option("--no-ignore", help="Also what .gitignore, .clewignore or the rules for build folders keep out."),
]
MaxCost = Annotated[
    float | None,
    typer.Option("--max-cost", metavar="X", help="Stop before model calls cost more than this.", min=0),
]

K = Annotated[int | None, typer.Option("-k", metavar="N", help="Number of results.")]
Strategy = Annotated[
    str | None, typer.Option("--strategy", metavar="NAME", help="Search strategy: hybrid, semantic, lexical, auto, …")
]
Mode = Annotated[
    str | None, typer.Option("--mode", metavar="MODE", help="Vector search: ann (approximate, fast) or exact.")
]
Depth = Annotated[int | None, typer.Option("--depth", metavar="N", help="Candidates from each ranking.")]
MinRelevance = Annotated[
    float | None,
    typer.Option(
        "--min-relevance",
        metavar="X",
        help="Minimum relevance, 0 to 1: the chance that a result answers; comparable across queries (default: off).",
    ),
]
MinSimilarity = Annotated[
    float | None,
    typer.Option(
        "--min-similarity",
        metavar="X",
        help="Minimum cosine of query and result; its scale depends on the embedder (default: off).",
    ),
]
Tokens = Annotated[int | None, typer.Option("--tokens", metavar="N", help="Token budget of the context.")]


def _make_filter_option(name: str, metavar: str, text: str) -> Any:
    return typer.Option(name, metavar=metavar, help=text, rich_help_panel="Filters")


Kinds = Annotated[
    list[str] | None, _make_filter_option("--kind", "KIND", "Only this kind: page, thread, … (repeatable).")
]
Documents = Annotated[
    list[str] | None, _make_filter_option("--document", "DOC", "Only this id, URI, folder or pattern (repeatable).")
]
Channels = Annotated[list[str] | None, _make_filter_option("--channel", "NAME", "Only this channel (repeatable).")]
Authors = Annotated[list[str] | None, _make_filter_option("--author", "NAME", "Only this author (repeatable).")]
Access = Annotated[
    list[str] | None,
    _make_filter_option("--access", "LABEL", "Only what somebody with this label may see (repeatable)."),
]
Since = Annotated[
    str | None,
    _make_filter_option("--since", "DATE", "Only from this date or time on (UTC): 2025-05-31, yesterday, 7d."),
]
Until = Annotated[str | None, _make_filter_option("--until", "DATE", "Only before this date or time (UTC).")]
Metas = Annotated[list[str] | None, _make_filter_option("--meta", "KEY=VALUE", "Only with this metadata (repeatable).")]


def parse_time_option(option: str, text: str | None) -> datetime | None:
    """The date or time of an option; None if it was not given."""
    if text is None:
        return None
    try:
        return parse_time(text)
    except (ValueError, OverflowError):
        message = f"{option} is {text!r}; it must be a date or a time such as 2025-05-31T14:00, yesterday or 7d"
        raise SettingsError(message) from None


RayAddress = Annotated[
    str | None,
    typer.Option("--ray", metavar="ADDRESS", help="Work with a Ray cluster: its address, 'auto' or 'local'."),
]
Workers = Annotated[int | None, typer.Option("--workers", help="Workers on the Ray cluster; default: one per core.")]
Gpus = Annotated[float, typer.Option("--gpus", help="GPUs of each worker on the Ray cluster that holds a model.")]
