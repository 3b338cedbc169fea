"""Results and stretches as numbered entries, and the wrapper that tells a model where they begin and end."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import count
from typing import Literal

from clew.core.errors import SettingsError
from clew.core.settings import FormatterConfig
from clew.core.types import MergedChunk
from clew.query.context.format.quote import ENDS, Lines, one_line, tag_quoted
from clew.query.context.merge import alone
from clew.query.context.results import JOINT, Result, hit_of

RULE = "\n\n---\n\n"
LINES = Lines(r"\[\d+\]", rf"-{{3,}}[ \t]*{ENDS}", r"\(Source:", r"##\s*Source:", marks="[-(#")
BASE = "## Knowledge Base\n"  # the line with which a renderer of ours begins, as a wrapper may
Style = Literal["xml", "markdown", "prose"]


class ContextFormatter:
    """Writes entries; how, its config says."""

    def __init__(self, config: FormatterConfig | None = None) -> None:
        self.config = config or FormatterConfig()

    def format(self, results: Iterable[Result]) -> str:
        """An entry a result, in their order: Hits, or rows of text, source, heading_path, similarity and metadata."""
        hits = map(hit_of, results)
        return self.format_merged([alone(hit, hit.chunk.doc_id) for hit in hits])

    def format_merged(self, merged: Sequence[MergedChunk]) -> str:
        """An entry a stretch, in their order, numbered from 1; by source, where that is asked for."""
        config = self.config
        if not config.group_by_source:
            return RULE.join(self._entry(number, each, config.include_source) for number, each in enumerate(merged, 1))
        groups: dict[str, list[MergedChunk]] = {}
        for each in merged:
            groups.setdefault(each.source, []).append(each)
        numbers = count(1)
        return RULE.join(
            "\n\n".join(
                [f"## Source: {one_line(source)}", *(self._entry(next(numbers), each, False) for each in members)]
            )
            for source, members in groups.items()
        )

    def wrap_for_prompt(self, context: str, tag: str = "knowledge_base", style: Style = "xml") -> str:
        """The context inside a tag, under a heading or after a line that names it; nothing stays nothing."""
        return wrapped(context, tag, style)

    def _entry(self, number: int, merged: MergedChunk, source: bool) -> str:
        score = f" [{merged.avg_similarity:.2f}]" if self.config.include_scores else ""
        path = shown_headings(merged.heading_path, merged.content_length, self.config)
        headings = one_line(JOINT.join(path) or said_by(merged))
        head = f"[{number}]{score} {headings}".rstrip()
        foot = f"\n(Source: {one_line(merged.source)})" if source and merged.source else ""
        return f"{head}\n{LINES.quoted(merged.text)}{foot}"


def shown_headings(path: Sequence[str], length: int, config: FormatterConfig) -> Sequence[str]:
    """The headings that a text of that length needs: a small one all, a medium one the last two, a large one none."""
    if length < config.small_chunk_threshold:
        return path
    return path[-2:] if length < config.medium_chunk_threshold else ()


def said_by(merged: MergedChunk) -> str:
    """Where, by whom and when the messages of a passage were said; empty where it is none of a conversation."""
    talk = [hit.chunk for hit in merged.chunks if "message" in hit.chunk.meta]
    if not talk:
        return ""
    channels = dict.fromkeys(f"#{chunk.meta['channel']}" for chunk in talk if chunk.meta.get("channel"))
    authors = dict.fromkeys(str(chunk.meta["author"]) for chunk in talk if chunk.meta.get("author"))
    days = dict.fromkeys(f"{chunk.at:%Y-%m-%d}" for chunk in talk if chunk.at)
    return ", ".join((*channels, *authors, *days))


def wrapped(context: str, tag: str, style: Style) -> str:
    """The context in its wrapper, which nothing inside can close or open.

    One without an end would end where another begins or somebody else speaks, so no line inside may look like that.
    """
    if not context:
        return ""
    if not tag or set("<>/\n\r") & set(tag):
        raise SettingsError(f"tag is {tag!r}; it must be a plain name, as in an XML tag")
    if style == "xml":
        return f"<{tag}>\n{tag_quoted(context, tag)}\n</{tag}>"
    title = re.sub(r"[_\W]+", " ", tag).strip().capitalize()
    own = BASE if context.startswith(BASE) else ""
    inside = own + _ending(title).quoted(context[len(own) :])
    if style == "markdown":
        return f"## {title}\n\n{inside}"
    if style == "prose":
        return f"{title}:\n\n{inside}"
    raise SettingsError(f"style is {style!r}; it may be xml, markdown, prose")


@lru_cache(maxsize=16)
def _ending(title: str) -> Lines:
    """The lines at which a wrapper without an end of its own would be taken to end."""
    return Lines(rf"#*\s*{re.escape(title)}\s*:?\s*{ENDS}", r"(?:user|human|assistant|system)\s*:", keep=0)
