"""Messages as prompt text: each begins a line with its author and time, which no text of a message can imitate."""

import re
from collections.abc import Iterable

from clew.core.attribution import (
    TIME_PATTERN,
    PassageMessage,
    format_reply_mark,
    format_said,
)
from clew.core.cite import MergedChunk
from clew.core.patterns import compile_pattern
from clew.core.thread import SEPARATOR, extract_messages, is_thread
from clew.core.types import Document
from clew.query.context.format.escape import ReservedLines

ATTRIBUTION = rf"[^\n]{{0,200}}?{TIME_PATTERN}:[^\S\n]*"
MESSAGE_LINES = ReservedLines("↪", ATTRIBUTION, marks="↪:")
_ATTRIBUTION_LINE = compile_pattern(rf"^\s*(?:↪\??\s*)?{ATTRIBUTION}", re.MULTILINE)


def format_message_line(message: PassageMessage) -> str:
    """Format a message after its author and time, with an arrow before a reply."""
    return f"{message.reply_mark}{format_said(message.author, message.at, MESSAGE_LINES.escape(message.text.strip()))}"


def format_passage_text(passage: MergedChunk, reserved: ReservedLines | None = None) -> str:
    """Format the text of a passage, under the header of a table it begins in; messages with author and time."""
    above = f"{passage.table_header}\n" if passage.table_header else ""
    text = _join_lines(passage.messages) if passage.messages else f"{above}{passage.text}"
    return text if reserved is None else reserved.escape(text)


def format_document_text(document: Document, *, max_chars: int | None = None) -> tuple[str, int]:
    """Format the text of a document, a thread with authors and times; return also where the shown part ends.

    A thread longer than `max_chars` is cut to whole messages, unless not even the first fits.
    """
    end = len(document.text) if max_chars is None else min(len(document.text), max_chars)
    if not is_thread(document):
        return document.text[:end], end
    lines: list[str] = []
    size, shown = 0, 0
    for section, message in zip(document.sections, extract_messages(document), strict=True):
        line = format_message_line(
            PassageMessage(
                message.id,
                message.text,
                message.author,
                message.at,
                reply_to=message.reply_to,
                guessed=section.guessed,
            )
        )
        size += len(line) + 2
        if max_chars is not None and size > max_chars:
            break
        lines.append(line)
        shown = section.end
    if not lines:
        return document.text[:end], end
    return "\n\n".join(lines), shown


def split_by_message(document: Document, span: tuple[int, int]) -> list[tuple[str, str]]:
    """Split the text of a span by message, each with its reply mark, author and time; a page is one part."""
    if not is_thread(document):
        return [("", document.text[span[0] : span[1]])]
    parts = []
    for section in document.sections:
        text = document.text[max(section.start, span[0]) : min(section.end, span[1])]
        if section.start < span[1] and span[0] < section.end and text.strip():
            mark = format_reply_mark(is_reply=section.parent is not None, guessed=section.guessed)
            parts.append((f"{mark}{format_said(section.author, section.at, '')}", text.removesuffix(SEPARATOR)))
    return parts


def split_at_attributions(text: str) -> list[str]:
    """Split a text at the lines that name an author and time, as a model copies them out of a prompt."""
    return [part for part in _ATTRIBUTION_LINE.split(text) if part.strip()]


def _join_lines(messages: Iterable[PassageMessage]) -> str:
    lines: list[str] = []
    for each in messages:
        lines += filter(None, (each.gap, format_message_line(each)))
    return "\n".join(lines)
