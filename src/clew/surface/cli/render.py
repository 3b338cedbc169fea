"""Output for people: plain text in a pipe, the same with colour on a terminal."""

import re
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

from clew.core.analyse import DEFAULT, UNKNOWN, analyse_query, analyse_text
from clew.core.attribution import (
    PassageMessage,
    format_attribution,
    format_said,
    make_passage_message,
)
from clew.core.languages import detect_language
from clew.core.patterns import compile_pattern
from clew.core.report import PassedOver, Plan, count_passed_over
from clew.core.suggest import format_count
from clew.core.tables import find_header_in_context, is_table_row
from clew.core.text import UNSPACED_RUN
from clew.core.time import assume_utc
from clew.core.types import DocumentRecord, Hit, Message, Span, StoreStats
from clew.core.unicode import WORD, widen_to_whole_letters
from clew.surface.cli.progress import format_duration
from clew.surface.cli.table import clean_for_stream, escape_json, print_table

if TYPE_CHECKING:
    from clew.core.cite import CitationCheck, Context
    from clew.core.report import Receipt, Report


StyledText = tuple[str, str]  # text and its rich style
_QUOTE_CHARS = 80  # of a quote in a list
_DEFAULT_WIDTH = 100  # columns without a terminal


def print_line(*parts: StyledText, err: bool = False) -> None:
    """Print one line on stdout or stderr, styled if that is a terminal."""
    stream = sys.stderr if err else sys.stdout
    safe = [(clean_for_stream(text, stream), style) for text, style in parts]
    if not stream.isatty():
        print("".join(text for text, _ in safe), file=stream)
        return
    from rich.console import Console
    from rich.text import Text

    Console(file=stream).print(Text.assemble(*safe, overflow="ignore"), crop=False)  # wrapped between words


def print_json(value: Any) -> None:
    """Print the value as JSON on stdout: one line in a pipe, indented on a terminal."""
    from clew.surface.to_json import dump_json

    encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "")
    text = dump_json(value, indent=2 if sys.stdout.isatty() else None, ascii_only=encoding != "utf8")
    print(escape_json(text))


def print_outcome(text: str, value: Any, *, as_json: bool) -> None:
    """Print the outcome of a command: a line, or its value as JSON."""
    if as_json:
        print_json(value)
    else:
        print_line((text, ""))


def print_text(text: str) -> None:
    """Print the text on stdout, without control characters."""
    text = clean_for_stream(text, sys.stdout)
    print(text, end="" if text.endswith("\n") else "\n")


def print_report(report: "Report", *, as_json: bool = False) -> None:
    """Print the counts on stdout, and notes and failures on stderr; or all of it as JSON."""
    if as_json:
        print_json(report)
        return
    print_line(
        (f"{len(report.added)} added, {len(report.changed)} changed, {report.skipped} skipped, ", ""),
        (f"{len(report.failed)} failed", "bold red" if report.failed else ""),
        (f"; {format_count(report.chunks, 'chunk')}, {report.embedded} embedded, {report.reused} reused", ""),
        (f"; {report.dropped} dropped" if report.dropped else "", ""),
        (f"; {len(report.incomplete)} incomplete: the next run completes them" if report.incomplete else "", "yellow"),
        (f"; {format_duration(report.seconds)}" if report.seconds >= 1 else "", "dim"),
        (f"; cost {report.cost:.4f}" if report.cost else "", "dim"),
    )
    print_problems(report)


def print_problems(report: "Report") -> None:
    """Print why the work stopped, notes and failures on stderr."""
    if report.stopped:
        print_line((report.stopped, "yellow"), err=True)
    for note in report.noted:
        print_line(("note: ", "yellow"), (note.source, "bold"), (f": {note.reason}", ""), err=True)
    for failure in report.failed:
        print_line(("failed: ", "red"), (failure.source, "bold"), (f": {failure.reason}", ""), err=True)


def print_receipt(receipt: "Receipt", *, records: Sequence[DocumentRecord] = (), as_json: bool = False) -> None:
    """Print what was or would be removed on stdout, and what is left to the user on stderr; or all of it as JSON.

    `records` are some of the documents that would be removed.
    """
    if as_json:
        print_json(receipt)
        return
    counts = (
        (len(receipt.documents), "document", ""),
        (len(receipt.messages), "message", ""),
        (receipt.chunks, "chunk", ""),
        (receipt.vectors, "vector", ""),
        (receipt.postings, "posting", ""),
        (receipt.summaries, "summary", "summaries"),
        (receipt.contexts, "context rebuilt", "contexts rebuilt"),
        (receipt.sessions, "chat session changed", "chat sessions changed"),
        (receipt.jobs, "job", ""),
        (receipt.cache_entries, "cache entry", "cache entries"),
    )
    verb = "would erase" if receipt.dry_run else "finished and erased" if receipt.resumed else "erased"
    removed = ", ".join(format_count(*each) for each in counts if each[0]) or "nothing"
    print_line((f"{receipt.selector}: ", "bold"), (f"{verb} {removed}", ""))
    for record in records:
        print_line(("  ", ""), (record.uri or record.id, "bold"), (f"  {record.title}" if record.title else "", ""))
    if records and len(receipt.documents) > len(records):
        print_line((f"  and {len(receipt.documents) - len(records)} more", "dim"))
    for text in receipt.overwritten:
        print_line(("overwritten: ", "green"), (text, ""))
    for text in receipt.undone:
        print_line(("not done: ", "red"), (text, ""), err=True)
    for what, names in (
        ("quoted by others", receipt.quoted_by),
        ("named by others, not changed", receipt.named_by),
        ("source file remains, and `clew add` would add it again", receipt.sources),
    ):
        for name in names:
            print_line((f"{what}: ", "yellow"), (name, "bold"), err=True)
    for note in receipt.notes:
        print_line(("note: ", "yellow"), (note, ""), err=True)


def print_records(records: Iterable[DocumentRecord]) -> None:
    """Print documents as a table; on a narrow terminal without ids if every document has an address."""
    records = list(records)
    needs_id = not all(record.uri for record in records)
    print_table(
        ("id", "kind", "chunks", "title", "uri", "created", "updated", "language"),
        [
            (
                *(record.id, record.kind, str(record.chunks), _format_title(record), record.uri),
                *(format_time(record.created), format_time(record.updated), record.language),
            )
            for record in records
        ],
        optional=("created", *(() if needs_id else ("id",)), "updated", "kind", "language"),
        texts={"title": 20, "uri": 48},
    )


def format_time(at: datetime | None) -> str:
    """Format the time to the second, in UTC; empty if it is unknown."""
    return f"{assume_utc(at).astimezone(UTC):%Y-%m-%d %H:%M:%S}" if at else ""


def _format_title(record: DocumentRecord) -> str:
    """Format the title of a document; with its number if it is a section of another."""
    number, total = record.meta.get("section_number"), record.meta.get("sections")
    is_section = record.meta.get("parent") and number and total
    return f"{record.title} ({number} of {total})".lstrip() if is_section else record.title


def print_lacking(records: Sequence[DocumentRecord]) -> None:
    """Print on stderr how many documents lack a summary or contexts; threads get a summary on demand only."""
    lacking = [part for record in records for part in record.lacks]
    counts = {part: lacking.count(part) for part in dict.fromkeys(lacking)}
    if counts:
        named = " and ".join(f"{count} without {part}" for part, count in counts.items())
        print_line((f"{named}: `clew backfill` adds what is missing", "yellow"), err=True)


def print_hits(hits: Sequence[Hit], query: str, *, languages: Set[str]) -> None:
    """Print each hit with rank, relevance, title and headings, and a snippet with the matching words highlighted.

    A message is named by its author, time and channel. `languages` are those of the collection; if there are several,
    the language of each hit is detected.
    """
    if sys.stdout.isatty():
        print_line(("   relevance", "dim"))
    known = {DEFAULT if code == UNKNOWN else code for code in languages}
    width = shutil.get_terminal_size((_DEFAULT_WIDTH, 24)).columns if sys.stdout.isatty() else _DEFAULT_WIDTH
    for rank, hit in enumerate(hits, 1):
        uri = hit.document.uri
        name = hit.document.title or uri or hit.document.id
        message = make_passage_message(hit.chunk.meta, hit.chunk.at, hit.chunk.text)
        shown = (message and format_message_origin(message)) or join_headings(name, hit.chunk.headings)
        print_line(
            (f"{rank}. ", "bold"),
            (f"{hit.relevance:.2f}  ", "green"),
            (shown, "bold"),
            (f"  {uri}" if uri and uri != shown else "", "dim"),
        )
        language = next(iter(known)) if len(known) == 1 else detect_language(hit.chunk.text) or DEFAULT
        query_terms = extract_query_terms(query, language)
        snippet = make_snippet(hit.chunk.text, query_terms, width=width - 4, language=language)
        if (
            snippet
            and is_table_row(hit.chunk.text.lstrip().partition("\n")[0])
            and (header := find_header_in_context(hit.chunk.context))
        ):
            print_line(("   ", ""), (textwrap.shorten(header, width - 4, placeholder=" …"), "dim"))
        if message and snippet[:1] and snippet[0].startswith("… "):
            snippet = [textwrap.shorten(hit.chunk.text, width - 4, placeholder=" …"), *snippet]
        for line in snippet:
            print_line(("   ", ""), *highlight_terms(line, query_terms, language=language))


def join_headings(name: str, headings: Sequence[str]) -> str:
    """Join a document's title and headings, without leading headings that the title already ends with."""
    for count in range(len(headings), 0, -1):
        first = " > ".join(headings[:count])
        if name == first or name.endswith(f" > {first}"):
            return " > ".join((name, *headings[count:]))
    return " > ".join((name, *headings))


def format_message_origin(message: PassageMessage) -> str:
    """Format the author, time and channel of a message, with an arrow before a reply."""
    channel = f"#{message.channel}" if message.channel else ""
    said_by = "  ".join(filter(None, (format_attribution(message.author, message.at), channel)))
    return f"{message.reply_mark}{said_by}".strip()


def print_message(message: Message) -> None:
    """Print a message after its author and time."""
    print_text(format_said(message.author, message.at, message.text))


def print_no_results(reason: str, *, err: bool = False) -> None:
    """Print that nothing was found, and why."""
    print_line((f"No results: {reason}", "yellow"), err=err)


def print_context(context: "Context") -> None:
    """Print the text of a context on stdout and its counts on stderr."""
    if context.text:
        print_text(context.text)
    if not context.passages and context.reason:
        print_no_results(context.reason, err=True)
        return
    passages = format_count(len(context.passages), "passage")
    counts = Counter(each.reason for each in context.dropped)
    why = f" ({', '.join(f'{reason} {count}' for reason, count in counts.most_common())})" if counts else ""
    tokens = format_count(context.tokens, "token")
    print_line((f"{passages}, {tokens}, {len(context.dropped)} dropped{why}", "dim"), err=True)


def print_citation_checks(checks: "Sequence[tuple[str, Sequence[CitationCheck]]]") -> None:
    """Print the citations of each answer that are no longer valid, and the number of valid answers."""
    valid = 0
    for question, checked in checks:
        invalid = [check for check in checked if check.standing != "stands"]
        valid += not invalid
        for check in invalid:
            place = check.citation.uri or check.citation.title or check.citation.document
            quote = " ".join(check.citation.quote.split())
            quote = quote if len(quote) <= _QUOTE_CHARS else f"{quote[:_QUOTE_CHARS]}…"
            print_line((f"{check.standing}: ", "yellow"), (question, "bold"), (f"  {place}  {quote!r}", ""))
    style = "" if valid == len(checks) else "yellow"
    print_line((f"{valid} of {len(checks)} answers have valid citations", style))


def print_pairs(pairs: Mapping[str, Any]) -> None:
    """Print one line per name and value, aligned."""
    width = max(map(len, pairs), default=0) + 2
    for name, value in pairs.items():
        print_line((f"{name:<{width}}", "bold"), (str(value), ""))


def describe_status(stats: StoreStats, *, place: str, is_whole: bool) -> dict[str, str]:
    """Describe the counts of a collection, or of a part of it, in words; empty values need no line."""
    lacking = {"summary": stats.without_summary, "contexts": stats.without_contexts}
    missing = " and ".join(
        f"{format_count(count, 'document')} without {what}" for what, count in lacking.items() if count
    )
    return {
        "place": place,
        "content": f"{format_count(stats.documents, 'document')} in {format_count(stats.chunks, 'chunk')}",
        "languages": ", ".join(f"{code} {count:,}" for code, count in stats.languages.items()),
        "embedder": f"{stats.embedder}, {stats.dim} dimensions",
        "index": stats.index,
        "size": f"{format_bytes(stats.bytes)}, after {format_count(stats.change, 'change')}" if is_whole else "",
        "missing": f"{missing}: `clew backfill` adds them" if missing else "",
        "pending": stats.explain_pending() if stats.pending or stats.is_embedding else "",
    }


def format_bytes(count: int) -> str:
    """Format the size of a file or collection: `1.9 MB`."""
    for power, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= power:
            return f"{count / power:.1f} {unit}"
    return format_count(count, "byte")


def print_config(config: Mapping[str, Any]) -> None:
    """Print one line per setting: name, value, origin."""
    from clew.surface.to_json import dump_json

    print_line((f"# {config['file'] or 'no clew.toml here or in a parent folder'}", "dim"))
    for name, entry in config["settings"].items():
        value = "none" if entry["value"] is None else dump_json(entry["value"])
        print_line((name, "bold"), (f" = {value}", ""), (f"  # {entry['from']}", "dim"))


_WORD = compile_pattern(rf"{WORD}(?:[.'’-]{WORD})*")


def extract_query_terms(query: str, language: str) -> frozenset[str]:
    """Extract the terms of a query, to find its words in a text of a language."""
    return frozenset(chain.from_iterable(analyse_query(query, [language])))


def make_snippet(text: str, query_terms: frozenset[str], *, width: int, language: str = DEFAULT) -> list[str]:
    """Make up to two lines of the text, from where the query's words are densest."""
    flat = " ".join(text.split())
    width = max(20, width)
    room = 2 * width - 10
    if len(flat) > room:
        places = [start for start, _ in _find_spans(flat, query_terms, language)] or [0]
        first = max(places, key=lambda at: (sum(at <= other < at + room - 40 for other in places), -at))
        begin = max(0, min(first - 30, len(flat) - room))
        if begin:
            space = flat.find(" ", begin, max(first, begin) + 1)
            begin = space + 1 if space >= 0 else widen_to_whole_letters(flat, begin, begin)[0]
        flat = ("… " if begin else "") + flat[begin:]
    return textwrap.wrap(flat, width, max_lines=2, placeholder=" …")


def highlight_terms(line: str, query_terms: frozenset[str], *, language: str = DEFAULT) -> list[tuple[str, str]]:
    """Split the line into parts, each with its rich style: the query's words stand out."""
    parts: list[tuple[str, str]] = []
    at = 0
    for start, end in _find_spans(line, query_terms, language):
        parts += [(line[at:start], ""), (line[start:end], "bold yellow")]
        at = end
    return [*parts, (line[at:], "")]


def _find_spans(line: str, query_terms: frozenset[str], language: str) -> Iterator[Span]:
    """Find the words of a line that have terms of the query; in a script without spaces, the terms themselves."""
    for word in _WORD.finditer(line):
        if query_terms.isdisjoint(analyse_text(word[0], language)):
            continue
        if not UNSPACED_RUN.search(word[0]):
            yield word.span()
            continue
        places = {
            place
            for term in query_terms
            for found in re.finditer(f"(?={re.escape(term)})", word[0])
            for place in range(found.start(), found.start() + len(term))
        }
        last = word.start()
        for place in sorted(places):
            start, end = widen_to_whole_letters(line, word.start() + place, word.start() + place + 1)
            if start >= last:
                while end - word.start() in places:
                    end += 1
                start, last = widen_to_whole_letters(line, start, end)
                yield start, last


MAX_LISTED = 20  # documents that are named before they are dropped
_SHOWN_NAMES = 3  # of the documents that would be dropped


def print_passed_over(entries: Sequence[PassedOver], *, verbose: bool) -> None:
    """Print on stderr how many files were passed over for each reason; with `verbose` each of them."""
    if not entries:
        return
    counts = ", ".join(f"{count:,} {reason}" for reason, count in count_passed_over(entries).items())
    print_line((f"passed over: {counts}", ""), ("" if verbose else " (--verbose lists them)", "dim"), err=True)
    for entry in entries if verbose else ():
        files = f" ({format_count(entry.files, 'file')})" if entry.source.endswith("/") else ""
        print_line(("  ", ""), (entry.source, "bold"), (f": {entry.reason}{files}", ""), err=True)


def confirm_drop(held_back: Sequence[str]) -> bool:
    """Ask on a terminal whether to drop the documents; return False without a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    import typer

    names = ", ".join(held_back[:_SHOWN_NAMES]) + (", …" if len(held_back) > _SHOWN_NAMES else "")
    return typer.confirm(
        f"Drop {format_count(len(held_back), 'document')} whose files are gone ({names})?", default=False, err=True
    )


def confirm_named_drop(names: Sequence[str]) -> None:
    """List on a terminal the documents to drop, and ask; abort on no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    import typer

    _list_names(names, err=True)
    typer.confirm(f"Drop {format_count(len(names), 'document')}?", default=False, abort=True, err=True)


def print_drop(names: Sequence[str], *, as_json: bool) -> None:
    """Print the documents that would be dropped."""
    if as_json:
        print_json({"documents": names})
        return
    print_line((f"would drop {format_count(len(names), 'document')}", ""))
    _list_names(names, err=False)


def _list_names(names: Sequence[str], *, err: bool) -> None:
    for name in names[:MAX_LISTED]:
        print_line(("  ", ""), (name, "bold"), err=err)
    if len(names) > MAX_LISTED:
        print_line((f"  and {len(names) - MAX_LISTED:,} more", "dim"), err=err)


def print_plan(plan: Plan, *, verbose: bool) -> None:
    """Print what `add` would do on stdout, and what fails or is passed over on stderr."""
    pairs = {
        "new documents": len(plan.added),
        "changed documents": len(plan.changed),
        "unchanged documents": plan.unchanged,
        "failing sources": len(plan.failed),
        "dropped documents": f"{len(plan.dropped)}, of which {len(plan.held_back)} only with --yes"
        if plan.held_back
        else len(plan.dropped),
        "chunks": plan.chunks,
        "chunks to embed": plan.embedded,
        "chunks reused": plan.reused,
        "tokens to embed": plan.embedded_tokens,
        "model calls": plan.calls,
        "model input tokens": plan.input_tokens,
        "model output tokens": plan.output_tokens,
        "cost": plan.cost,
        "time": "unknown: the embedder is a service" if plan.seconds is None else _describe_time(plan),
    }
    print_pairs(pairs)
    for failure in plan.failed:
        print_line(("fails: ", "red"), (failure.source, "bold"), (f": {failure.reason}", ""), err=True)
    print_passed_over(plan.passed_over, verbose=verbose)


def _describe_time(plan: Plan) -> str:
    models = ", and the language model's time" if plan.calls else ""
    return f"about {format_duration(plan.seconds or 0.0)} on this machine{models}"
