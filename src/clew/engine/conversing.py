"""The verbs of conversations: windows of messages, a person's style, and links between threads and pages."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from clew.core.errors import NotFound, SettingsError
from clew.core.settings import Settings
from clew.core.thread import KIND
from clew.core.types import Filter, Hit, Vector
from clew.core.window import ContextMessage, ContextWindow, Links, StyleProfile
from clew.engine.explaining import Explaining
from clew.query.messages import style
from clew.query.messages.links import links
from clew.query.messages.score import by_message, rebuilt, since_epoch
from clew.query.messages.similar import Similar, similar, threaded
from clew.query.messages.window import Asked, Sources, context_window
from clew.query.search.find import build_query

MOST = 10_000  # chunks that are looked at for a person's style, or for who cites a page


class Conversing(Explaining):
    """Windows of messages, similar messages, profiles, reply prompts and links."""

    def context_window(
        self,
        channel: str,
        prompt: str,
        *,
        max_tokens: int | None = None,
        include_related_channels: bool = False,
        min_score: float | None = None,
        now: datetime | None = None,
        settings: Settings | None = None,
    ) -> ContextWindow:
        """The messages that a prompt in a channel should hold, within a budget of tokens (4000 unless it is set).

        Hits come with the chain of replies before them, and with their whole threads where the budget allows.
        `min_score` is a cosine; without one, what a search finds counts as found. Ages are counted from `now`.
        """
        settings = _with_min_score(settings or self._settings, min_score)
        tokens = settings.scoring.max_tokens if max_tokens is None else max_tokens
        if tokens < 1:
            raise SettingsError(f"max_tokens is {tokens}; it must be at least 1")
        if not channel:
            raise SettingsError("the channel is empty; name the one that the prompt is asked in")
        sources = self._sources(prompt, settings)
        asked = Asked(self._channel(channel), prompt, tokens, include_related_channels, now or datetime.now(UTC))
        return context_window(asked, sources, settings=settings, count=self._count(settings.context.tokenizer))

    def channels(self) -> Sequence[str]:
        """The channels that have messages, by name."""
        return self._store.channels()

    def find_similar_messages(
        self,
        query: str,
        *,
        channel: str | None = None,
        k: int = 5,
        min_score: float | None = None,
        now: datetime | None = None,
        settings: Settings | None = None,
    ) -> Sequence[ContextMessage]:
        """The k messages most similar to a text, best first, each whole and scored; of one channel if named."""
        if k < 1:
            raise SettingsError(f"k is {k}; it must be at least 1")
        channel = self._channel(channel) if channel else None
        settings = _with_min_score(settings or self._settings, min_score)
        where = Filter(channels=frozenset({channel} if channel else ()), kinds=frozenset({KIND}))
        return self._similar(query, where, channel=channel, now=now, settings=settings, k=k).messages[:k]

    def profile(self, person: str, *, settings: Settings | None = None) -> StyleProfile:
        """How a person writes: judged by the language model where there is one, else measured from their messages."""
        settings = settings or self._settings
        texts = self._written_by(person)
        return style.profile(person, texts, least=settings.scoring.style_messages, llm=self._llm)

    def reply_prompt(
        self, person: str, message: str, *, now: datetime | None = None, settings: Settings | None = None
    ) -> str:
        """The system prompt with which a model answers a message as a person would.

        It tells their style, and shows what they wrote in the past threads that are most like the message.
        """
        settings = settings or self._settings
        if not message.strip():
            raise SettingsError("the message is empty; give the one that is to be answered")
        written = self.profile(person, settings=settings)
        where = Filter(authors=frozenset({person}), kinds=frozenset({KIND}))
        found = self._similar(message, where, channel=None, now=now, settings=settings)
        threads = threaded(found.messages, found.talks, most=settings.scoring.style_threads)
        return style.reply_prompt(written, threads)

    def links(self, document: str) -> Links:
        """The documents that a document names by address, path or file name, and the threads whose messages name it."""
        return links(
            self._store.document(self._resolve(document)),
            records=self._store.documents(),
            admitted=self._admitted,
            read=self._store.document,
        )

    # -- inside

    def _channel(self, name: str) -> str:
        """A channel by its own name, or as it is written in a message: #name."""
        bare = name.removeprefix("#")
        return bare if bare and not self._is_channel(name) and self._is_channel(bare) else name

    def _is_channel(self, name: str) -> bool:
        return bool(self._store.latest_chunks(name, 1))

    def _written_by(self, person: str) -> Sequence[str]:
        """The messages of a person, the oldest first, each whole."""
        found = by_message(self._admitted(Filter(authors=frozenset({person}), kinds=frozenset({KIND}))))
        if not found:
            others = {str(hit.chunk.meta.get("author", "")) for hit in self._admitted(Filter(kinds=frozenset({KIND})))}
            folded = {name.casefold(): name for name in sorted(others - {""})}
            near = difflib.get_close_matches(person.casefold(), folded, n=3, cutoff=0.4) or sorted(folded)[:3]
            hint = f"did you mean {', '.join(folded[name] for name in near)}?" if near else "there is no message yet"
            raise NotFound(f"there is no message by {person!r}; {hint}")
        whole = {name: rebuilt(hit.chunk for hit in parts) for name, parts in found.items()}
        return [whole[name] for name in sorted(found, key=lambda name: (since_epoch(found[name][0].chunk.at), name))]

    def _admitted(self, where: Filter) -> Sequence[Hit]:
        """The chunks that a filter admits, as many as are looked at; in no order that means anything."""
        anywhere = np.zeros(self._embedder.dim, np.float32)
        anywhere[0] = 1.0
        return self._store.search_vectors(anywhere, MOST, where, mode="exact")

    def _similar(
        self, text: str, where: Filter, *, channel: str | None, now: datetime | None, settings: Settings, k: int = 1
    ) -> Similar:
        sources = self._sources(text, settings, k=k)
        return similar(
            sources.search(where),
            read=sources.read,
            cosines=sources.cosines,
            channel=channel,
            now=now or datetime.now(UTC),
            config=settings.scoring,
            floor=sources.floor,
        )

    def _sources(self, text: str, settings: Settings, *, k: int = 1) -> Sources:
        """What a window is made from; the text is embedded once for all its searches."""
        wanted = max(settings.search.depth, k)
        asked = build_query(text, wanted, Filter(), (), settings)
        vector = self._embedder.embed([text], role="query")[0]
        # What is less similar than asked may still stand in a thread with what is not, so nothing is cut off here.
        wide = replace(settings, search=replace(settings.search, min_similarity=-1.0))

        def search(where: Filter) -> "list[Hit]":
            return self._finder.find(replace(asked, where=where, vector=vector), settings.search.strategy, wide)

        def cosines(chunk_ids: Sequence[str]) -> Mapping[str, float]:
            return {name: _cosine(vector, each) for name, each in self._store.vectors(chunk_ids).items()}

        return Sources(
            search,
            self._store.document,
            cosines,
            self._is_channel,
            self._store.channels,
            self._embedder.min_similarity,
        )


def _cosine(one: Vector, other: Vector) -> float:
    return float(np.dot(one, other))


def _with_min_score(settings: Settings, min_score: float | None) -> Settings:
    """The settings with a least similarity that was given for one call; 0 is one."""
    if min_score is None:
        return settings
    return replace(settings, scoring=replace(settings.scoring, min_score=min_score))
