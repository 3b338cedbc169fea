"""The verbs about conversations: windows of messages, channels, writing styles, links between threads and pages."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from clew.core.errors import NotFound, SettingsError
from clew.core.filter import EVERYTHING, Filter
from clew.core.settings import Settings
from clew.core.suggest import format_names, format_suggestion
from clew.core.thread import THREAD_KIND
from clew.core.types import Hit
from clew.core.window import ContextMessage, ContextWindow, Links, StyleProfile
from clew.engine.opened import Opened, check_positive_count, resolve_document
from clew.engine.search import get_token_counter
from clew.query.context.results import rebuild_messages
from clew.query.messages import related, style
from clew.query.messages.similar import ScoredMessages, score_messages
from clew.query.messages.style import build_style_prompt
from clew.query.messages.window import WindowRequest, WindowSources, build_window
from clew.query.search.find import build_query

if TYPE_CHECKING:
    from clew.engine import Engine


def window(
    engine: "Engine",
    channel: str,
    prompt: str,
    *,
    tokens: int | None = None,
    include_related_channels: bool = False,
    min_similarity: float | None = None,
    where: Filter = EVERYTHING,
    now: datetime | None = None,
    settings: Settings | None = None,
) -> ContextWindow:
    """Return the messages of a channel that a prompt should contain, within a token budget (default 4000).

    Hits come with the messages they reply to, and with their whole threads if the budget allows. If nothing relevant
    was said, the window is empty and `reason` says so.

    tokens: Budget of the window.
    include_related_channels: Also search up to three other channels that talk of the same.
    min_similarity: A cosine that a message must reach, or a message of its thread.
    now: The time from which ages are measured.
    where, settings: As for `search`.
    """
    opened = engine.opened.within(where)
    settings = _override_min_similarity(opened.resolve_settings(settings), min_similarity)
    budget = check_positive_count("tokens", settings.scoring.tokens if tokens is None else tokens)
    if not channel:
        raise SettingsError("the channel is empty; name the one that the prompt is asked in")
    asked = WindowRequest(
        _resolve_channel(opened, channel), prompt, budget, include_related_channels, now or datetime.now(UTC)
    )
    sources = _make_window_sources(opened, prompt, settings)
    return build_window(asked, sources, settings=settings, count=get_token_counter(settings.context.tokenizer))


def channels(engine: "Engine", *, where: Filter = EVERYTHING) -> list[str]:
    """Return the channels that have messages, by name."""
    return engine.opened.within(where).store.channels()


def profile(
    engine: "Engine", person: str, *, where: Filter = EVERYTHING, settings: Settings | None = None
) -> StyleProfile:
    """Describe how a person writes: rated by the language model, or measured from their messages without one."""
    opened = engine.opened.within(where)
    settings = opened.resolve_settings(settings)
    texts = _read_messages_by_author(opened, person)
    return style.profile_style(person, texts, llm=opened.llm)


def style_prompt(
    engine: "Engine",
    person: str,
    message: str,
    *,
    where: Filter = EVERYTHING,
    tokens: int | None = None,
    now: datetime | None = None,
    settings: Settings | None = None,
) -> str:
    """Write the system prompt that makes a model answer as a person would, within a token budget (default 1000).

    The prompt describes their style and quotes their replies in the past threads most similar to the message. If the
    model's rating of the style is unusable, the style is measured instead, with a warning.

    tokens: Budget of the prompt. now: The time from which ages are measured. where, settings: As for `search`.
    """
    engine = type(engine)(engine.opened.within(where))
    opened = engine.opened
    settings = opened.resolve_settings(settings)
    if not message.strip():
        raise SettingsError("the message is empty; give the message to answer")
    budget = check_positive_count("tokens", style.TOKENS if tokens is None else tokens)
    texts = _read_messages_by_author(opened, person)
    manner = style.profile_style(person, texts, llm=opened.llm, or_measured=True)
    theirs = Filter(authors=frozenset({person}), kinds=frozenset({THREAD_KIND}))
    found = _score_similar_messages(opened, message, theirs, channel=None, now=now, settings=settings)
    return build_style_prompt(
        manner,
        found.messages,
        found.threads,
        tokens=budget,
        count=get_token_counter(settings.context.tokenizer),
    )


def links(engine: "Engine", document: str, *, where: Filter = EVERYTHING) -> Links:
    """Return the documents that a document names (by address, path or file name), and the threads that name it."""
    opened = engine.opened.within(where)
    return related.find_links(
        opened.store.document(resolve_document(opened, document)),
        records=opened.store.documents(),
        scan=opened.store.scan,
        read=opened.store.document,
    )


def find_messages(
    engine: "Engine",
    query: str,
    *,
    channel: str | None = None,
    k: int = 5,
    min_similarity: float | None = None,
    where: Filter = EVERYTHING,
    now: datetime | None = None,
    settings: Settings | None = None,
) -> Sequence[ContextMessage]:
    """Find the k messages most similar to a text, best first, each complete and scored."""
    opened = engine.opened.within(where)
    k = check_positive_count("k", k)
    channel = _resolve_channel(opened, channel) if channel else None
    settings = _override_min_similarity(opened.resolve_settings(settings), min_similarity)
    messages = Filter(channels=frozenset({channel}) if channel else None, kinds=frozenset({THREAD_KIND}))
    found = _score_similar_messages(opened, query, messages, channel=channel, now=now, settings=settings, k=k)
    return found.messages[:k]


def _resolve_channel(opened: Opened, name: str) -> str:
    """Return the stored name of a channel given as `name` or `#name`."""
    bare = name.removeprefix("#")
    return bare if bare and not _is_channel(opened, name) and _is_channel(opened, bare) else name


def _is_channel(opened: Opened, name: str) -> bool:
    return bool(opened.store.latest_chunks(name, 1))


def _read_messages_by_author(opened: Opened, person: str) -> list[str]:
    """Read all messages of a person, oldest first; NotFound with the nearest names if there are none."""
    texts = rebuild_messages(opened.store.scan(Filter(authors=frozenset({person}), kinds=frozenset({THREAD_KIND}))))
    if texts:
        return texts
    authors = {
        str(chunk.meta.get("author", "")) for chunk in opened.store.scan(Filter(kinds=frozenset({THREAD_KIND})))
    } - {""}
    hint = format_suggestion(person, sorted(authors), by_word=True) or f"authors: {format_names(sorted(authors))}"
    raise NotFound(f"there is no message by {person!r}; {hint if authors else 'the collection has no messages yet'}")


def _score_similar_messages(
    opened: Opened,
    text: str,
    where: Filter,
    *,
    channel: str | None,
    now: datetime | None,
    settings: Settings,
    k: int = 1,
) -> ScoredMessages:
    sources = _make_window_sources(opened, text, settings, k=k)
    hits = sources.search(where)
    with sources.open_threads() as read:
        return score_messages(hits, read=read, channel=channel, now=now or datetime.now(UTC), config=settings.scoring)


def _make_window_sources(opened: Opened, text: str, settings: Settings, *, k: int = 1) -> WindowSources:
    """Make the search and reads that build a window, embedding the text once for all searches."""
    query = build_query(text, max(settings.search.depth, k), Filter(), (), settings)
    vector = opened.embedder.embed([text], role="query")[0]
    # No floor: a dissimilar message may belong to a thread with a similar one.
    unbounded = replace(settings, search=replace(settings.search, min_similarity=None, min_relevance=0.0))

    def find_hits(where: Filter) -> list[Hit]:
        return opened.finder.find(replace(query, where=where, vector=vector), settings.search.strategy, unbounded)

    return WindowSources(
        find_hits,
        opened.store.threads,
        lambda name: _is_channel(opened, name),
        opened.store.channels,
    )


def _override_min_similarity(settings: Settings, value: float | None) -> Settings:
    if value is None:
        return settings
    return replace(settings, scoring=replace(settings.scoring, min_similarity=value))
