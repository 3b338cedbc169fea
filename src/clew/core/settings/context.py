"""Settings of the context: how hits become prompt text, and how long sessions are kept."""

import re
from dataclasses import dataclass
from typing import Literal

from clew.core.errors import SettingsError
from clew.core.settings.checks import check_choice, check_min, check_range

RENDERERS = ("numbered", "knowledge_base", "related_posts", "threads", "json")


@dataclass(frozen=True, slots=True)
class MergerConfig:
    """How hits of one source and heading path are merged into a passage. Sizes are characters."""

    max_merged_size: int = 2000  # separators and gap marks included; a single chunk is never cut
    preserve_order: bool = True  # False: best chunk first within a passage
    require_adjacent: bool = False  # True: never merge across a gap
    gap_mark: str = "[…]"  # marks omitted text between two parts; empty: no mark

    def __post_init__(self) -> None:
        check_min("merger.max_merged_size", self.max_merged_size, 1)


@dataclass(frozen=True, slots=True)
class FormatterConfig:
    """How a passage is formatted. Thresholds are characters of its text."""

    small_chunk_threshold: int = 200  # below: all headings
    medium_chunk_threshold: int = 800  # below: the last two; from here on: none
    include_scores: bool = False
    include_source: bool = True
    group_by_source: bool = False

    def __post_init__(self) -> None:
        check_min("formatter.small_chunk_threshold", self.small_chunk_threshold, 0)
        check_min("formatter.medium_chunk_threshold", self.medium_chunk_threshold, self.small_chunk_threshold)


@dataclass(frozen=True, slots=True)
class ContextConfig:
    """How hits become prompt text within a token budget, and when they are not worth it."""

    tokens: int = 2000
    k: int = 10
    min_relevance: float = 0.01  # of a hit that is shown: the chance that it answers
    min_chance: float = 0.3  # of any of the hits answering; below it nothing is shown
    render: Literal["numbered", "knowledge_base", "related_posts", "threads", "json"] = "numbered"
    wrap: Literal["none", "xml", "markdown", "prose"] = "none"
    tag: str = "knowledge_base"  # name of the wrapping element
    order: Literal["score", "reading"] = "score"  # best first; or documents by their best hit, each in reading order
    grow: Literal["none", "threads", "neighbours", "section"] = "threads"  # how hits are expanded
    neighbour_worth: float = 0.8  # factor on the hit's score: a neighbour comes before hits that score less
    section_share: float = 0.5  # of a section that must be found before the rest is added
    cut: bool = False  # whether a passage that does not fit may be cut after a sentence
    tokenizer: str = ""  # tokenizer.json of the model that reads the prompt; empty: four characters per token

    def __post_init__(self) -> None:
        check_min("context.tokens", self.tokens, 1)
        check_min("context.k", self.k, 1)
        check_range("context.min_relevance", self.min_relevance, 0, 1)
        check_range("context.min_chance", self.min_chance, 0, 1)
        check_choice("context.render", self.render, RENDERERS)
        check_choice("context.wrap", self.wrap, ("none", "xml", "markdown", "prose"))
        if not re.fullmatch(r"[^\W\d][\w.-]*", self.tag):
            raise SettingsError(f"context.tag is {self.tag!r}; it must be a plain name, as in an XML tag")
        check_choice("context.order", self.order, ("score", "reading"))
        check_choice("context.grow", self.grow, ("none", "threads", "neighbours", "section"))
        check_range("context.neighbour_worth", self.neighbour_worth, 0, 1)
        check_range("context.section_share", self.section_share, 0, 1)


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """How many sessions are kept, and for how long; a session numbers the documents cited in a conversation."""

    max_sessions: int = 1000  # the least recently used are dropped first, named chats never
    max_documents: int = 1000  # numbered documents per session
    idle: float = 86_400.0  # seconds after which an unused session is dropped; named chats are kept

    def __post_init__(self) -> None:
        check_min("session.max_sessions", self.max_sessions, 1)
        check_min("session.max_documents", self.max_documents, 1)
        check_min("session.idle", self.idle, 1)
