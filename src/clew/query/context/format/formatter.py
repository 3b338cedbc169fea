"""Formatting of results and passages as numbered entries, in a wrapper that shows a model where they begin and end."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import count
from typing import Literal

from clew.core.attribution import format_name
from clew.core.cite import MergedChunk
from clew.core.errors import SettingsError
from clew.core.patterns import compile_pattern
from clew.core.settings import ContextConfig, FormatterConfig
from clew.query.context.format.escape import LINE_END, ReservedLines, escape_tag, to_one_line
from clew.query.context.format.messages import format_passage_text
from clew.query.context.merge import as_merged_chunk, list_sources
from clew.query.context.results import HEADING_SEPARATOR, Result, result_to_hit

ENTRY_SEPARATOR = "\n\n---\n\n"
ENTRY_LINES = ReservedLines(r"\[\d+\]", rf"-{{3,}}[ \t]*{LINE_END}", r"\(Source:", r"##\s*Source:", marks="[-(#")
KNOWLEDGE_BASE_TITLE = "## Knowledge Base\n"  # the first line of a renderer, which may equal a wrapper's title
# The first line of a text with the underline and the blank lines after it.
_HEADING_LINE = compile_pattern(r"\s*([^\n]+)(?:\n[ \t]*[=~^+*\-]{2,}[ \t]*(?=\n|\Z))?(?:\n[ \t]*(?=\n|\Z))*\n?")
Style = Literal["xml", "markdown", "prose"]


class ContextFormatter:
    """A formatter of results as numbered entries."""

    def __init__(self, config: FormatterConfig | None = None) -> None:
        self.config = config or FormatterConfig()

    def format(self, results: Iterable[Result]) -> str:
        """Format one entry per result: Hits, or rows of text, source, heading_path, similarity and metadata."""
        return self.format_merged([as_merged_chunk(result_to_hit(each)) for each in results])

    def format_merged(self, merged: Sequence[MergedChunk]) -> str:
        """Format one entry per passage, in order and numbered from 1; grouped by source if the config says so."""
        config = self.config
        if not config.group_by_source:
            return ENTRY_SEPARATOR.join(
                self._format_entry(number, each, config.include_source) for number, each in enumerate(merged, 1)
            )
        groups: dict[str, list[MergedChunk]] = {}
        for each in merged:
            groups.setdefault(_format_sources(each), []).append(each)
        numbers = count(1)
        blocks = (
            [f"## Source: {source}", *(self._format_entry(next(numbers), each, False) for each in members)]
            for source, members in groups.items()
        )
        return ENTRY_SEPARATOR.join(map("\n\n".join, blocks))

    def wrap_for_prompt(self, context: str, tag: str = "knowledge_base", style: Style = "xml") -> str:
        """Return the context inside a tag, under a heading or after a line with its title; empty stays empty."""
        return wrap_context(context, tag, style)

    def _format_entry(self, number: int, merged: MergedChunk, source: bool) -> str:
        score = f" [{merged.avg_similarity:.2f}]" if self.config.include_scores else ""
        path = select_headings_by_length(merged.heading_path, merged.content_length, self.config)
        headings = to_one_line(HEADING_SEPARATOR.join(path) or describe_messages(merged))
        head = f"[{number}]{score} {headings}".rstrip()
        sources = _format_sources(merged) if source else ""
        text = format_passage_text(merged)
        text = drop_own_headings(text, tuple(merged.heading_path)) if path else text
        return "\n".join(filter(None, (head, ENTRY_LINES.escape(text), sources and f"(Source: {sources})")))


def select_headings_by_length(path: Sequence[str], length: int, config: FormatterConfig) -> Sequence[str]:
    """Select the headings shown for a text: all for a small one, the last two for a medium one, else none."""
    if length < config.small_chunk_threshold:
        return path
    return path[-2:] if length < config.medium_chunk_threshold else ()


@lru_cache(maxsize=512)  # a text is rendered several times until it fits
def drop_own_headings(text: str, path: tuple[str, ...]) -> str:
    """Return the text without the headings it begins with, if they are the last of its path."""
    for place in range(len(path)):
        rest = text
        for heading in path[place:]:
            line = _HEADING_LINE.match(rest)
            if not line or not (name := _strip_heading_marks(heading)) or _strip_heading_marks(line[1]) != name:
                break
            rest = rest[line.end() :]
        else:
            return rest
    return text


def describe_messages(merged: MergedChunk) -> str:
    """Return the channels of a passage's messages; empty if it has none."""
    return ", ".join(dict.fromkeys(f"#{format_name(each.channel)}" for each in merged.messages if each.channel))


def wrap_context(context: str, tag: str, style: Style) -> str:
    """Return the context in its wrapper, which nothing inside can close or open.

    A wrapper without an end mark would end at its own title or at a chat role, so such lines inside are escaped.
    """
    ContextConfig(tag=tag)  # raises SettingsError for a tag that is not a plain name
    if not context:
        return ""
    if style == "xml":
        return f"<{tag}>\n{escape_tag(context, tag)}\n</{tag}>"
    title = re.sub(r"[_\W]+", " ", tag).strip().capitalize()
    first = KNOWLEDGE_BASE_TITLE if context.startswith(KNOWLEDGE_BASE_TITLE) else ""
    inside = first + _compile_wrapper_lines(title).escape(context[len(first) :])
    if style == "markdown":
        return f"## {title}\n\n{inside}"
    if style == "prose":
        return f"{title}:\n\n{inside}"
    raise SettingsError(f"style is {style!r}; it may be xml, markdown, prose")


def _format_sources(merged: MergedChunk) -> str:
    return ", ".join(filter(None, map(format_name, list_sources(merged))))


def _strip_heading_marks(line: str) -> str:
    """Return a line without the signs that mark it as a heading or style its words."""
    return to_one_line(re.sub(r"[#=*_`~]", "", line))


@lru_cache(maxsize=16)
def _compile_wrapper_lines(title: str) -> ReservedLines:
    """Return the lines at which a wrapper without an end mark could be taken to end."""
    return ReservedLines(
        rf"#*\s*{re.escape(title)}\s*:?\s*{LINE_END}", r"(?:user|human|assistant|system)\s*:", cache_size=0
    )
