"""How hits become a prompt, and what a conversation keeps of it."""

import re
from dataclasses import dataclass
from typing import Literal

from clew.core.errors import SettingsError
from clew.core.settings.checks import at_least, between, one_of

RENDERED = ("numbered", "knowledge_base", "related_posts", "threads", "json")


@dataclass(frozen=True, slots=True)
class MergerConfig:
    """How hits of one source and heading path are joined into a readable stretch. Sizes are characters."""

    max_merged_size: int = 2000  # separators and marks counted; a single chunk is never cut
    preserve_order: bool = True  # False: within a stretch the best comes first
    require_adjacent: bool = False  # True: never joined across a gap
    gap_mark: str = "[…]"  # stands where text between two parts is left out; empty: nothing does

    def __post_init__(self) -> None:
        at_least("merger.max_merged_size", self.max_merged_size, 1)


@dataclass(frozen=True, slots=True)
class FormatterConfig:
    """How an entry is written. Thresholds are characters of its text."""

    small_chunk_threshold: int = 200  # below: all headings
    medium_chunk_threshold: int = 800  # below: the last two; from here on: none
    include_scores: bool = False
    include_source: bool = True
    group_by_source: bool = False

    def __post_init__(self) -> None:
        at_least("formatter.small_chunk_threshold", self.small_chunk_threshold, 0)
        at_least("formatter.medium_chunk_threshold", self.medium_chunk_threshold, self.small_chunk_threshold)


@dataclass(frozen=True, slots=True)
class ContextConfig:
    """How hits become a prompt."""

    tokens: int = 2000
    k: int = 10
    render: Literal["numbered", "knowledge_base", "related_posts", "threads", "json"] = "numbered"
    wrap: Literal["none", "xml", "markdown", "prose"] = "none"
    tag: str = "knowledge_base"  # what the wrapper is called
    order: Literal["score", "reading"] = "score"  # best first; or documents by their best, each from its beginning
    grow: Literal["none", "threads", "neighbours", "section"] = "threads"  # what hits bring along
    neighbour_worth: float = 0.8  # of its hit's score: a neighbour comes before hits that score less
    section_share: float = 0.5  # of a section that must be found before the rest of it may come too
    cut: bool = False  # whether what does not fit whole may end at the end of a sentence
    tokenizer: str = ""  # a tokenizers JSON file of the model that reads the prompt; empty: a token is four characters

    def __post_init__(self) -> None:
        at_least("context.tokens", self.tokens, 1)
        at_least("context.k", self.k, 1)
        one_of("context.render", self.render, RENDERED)
        one_of("context.wrap", self.wrap, ("none", "xml", "markdown", "prose"))
        if not re.fullmatch(r"[^\W\d][\w.-]*", self.tag):
            raise SettingsError(f"context.tag is {self.tag!r}; it must be a plain name, as in an XML tag")
        one_of("context.order", self.order, ("score", "reading"))
        one_of("context.grow", self.grow, ("none", "threads", "neighbours", "section"))
        between("context.neighbour_worth", self.neighbour_worth, 0, 1)
        between("context.section_share", self.section_share, 0, 1)


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """How long the documents of a conversation keep their numbers, and how many are kept."""

    most: int = 1000  # conversations at once; the least used are forgotten first
    documents: int = 1000  # numbers in one
    idle: float = 86_400.0  # seconds after which an unused one is forgotten

    def __post_init__(self) -> None:
        at_least("session.most", self.most, 1)
        at_least("session.documents", self.documents, 1)
        at_least("session.idle", self.idle, 1)
