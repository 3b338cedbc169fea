"""Hits of a search into messages with scores: the chunks of a message are one, and each is weighed once.

Stands between the search and whoever selects: the window, and the examples of a person's style.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from clew.core.errors import NotFound
from clew.core.settings import ScoringConfig
from clew.core.thread import messages_in
from clew.core.types import Document, Filter, Hit, Message
from clew.core.window import ContextMessage, WindowThread
from clew.query.messages.score import Evidence, by_message, completeness, flow, ordered, scored, since_epoch
from clew.query.rank.fuse import minmax

Search = Callable[[Filter], list[Hit]]
Cosines = Callable[[Sequence[str]], Mapping[str, float]]  # of chunks with the prompt, by id
Read = Callable[[str], Document]


class Talk(NamedTuple):
    """A thread that is open: its document, its messages, and where each of them stands."""

    document: Document
    messages: list[Message]
    places: dict[str, int]

    def chain(self, place: int) -> list[int]:
        """The messages that one answers, the nearest first."""
        chain: list[int] = []
        at = self.document.sections[place].parent
        while at is not None:
            chain.append(at)
            at = self.document.sections[at].parent
        return chain


@dataclass(frozen=True, slots=True)
class Similar:
    """The messages that were found, best first; those whose similarity is too low; and the threads they stand in.

    `near` are the ids of those that are similar enough themselves; the others stand in a thread with one.
    """

    messages: list[ContextMessage]
    below: list[ContextMessage]
    near: set[str]
    talks: dict[str, Talk]


def similar(
    hits: Sequence[Hit],
    *,
    read: Read,
    cosines: Cosines,
    channel: str | None,
    now: datetime,
    config: ScoringConfig,
    floor: float,
) -> Similar:
    """The messages of the hits under their scores.

    A message is kept when its cosine reaches `min_score`, or when it stands in a thread with one that does. Where no
    `min_score` is set, the embedder's own floor holds, and what was found by its words needs none.
    """
    found = by_message(hits)
    talks = _talks((parts[0].chunk.doc_id for parts in found.values()), read)
    best = [
        parts[0]
        for name, parts in found.items()
        if (talk := talks.get(parts[0].chunk.doc_id)) is not None and name in talk.places
    ]
    nearness = _nearness(best, found, cosines)
    cosine = [max(0.0, nearness[_name(hit)]) for hit in best]  # what points away is no better for being old
    bases = minmax([hit.score for hit in best]) if config.base == "search" else cosine
    near = {name for hit in best if _admitted(hit, nearness[name := _name(hit)], config, floor)}
    lively = {hit.chunk.doc_id for hit in best if _name(hit) in near}
    kept = {_name(hit): hit.chunk.doc_id for hit in best if hit.chunk.doc_id in lively}

    def weighed(hit: Hit, base: float) -> ContextMessage:
        name, talk = _name(hit), talks[hit.chunk.doc_id]
        message = talk.messages[talk.places[name]]
        others = [talk.messages[talk.places[other]].at for other in kept if other != name and other in talk.places]
        chain = [name, *(talk.messages[place].id for place in talk.chain(talk.places[name]))]
        evidence = Evidence(
            base,
            message.at,
            message.channel,
            member=len(talk.messages) > 1,
            flow=flow(message.at, others, decay=config.time_decay),
            completeness=completeness(chain, kept),
        )
        scores = scored(evidence, now=now, channel=channel, config=config)
        return replace(
            unfound(talk, talk.places[name]),
            found=True,
            score=scores.total,
            original_score=base,
            similarity=nearness[name],
            time_score=scores.time,
            channel_score=scores.channel,
            thread_score=scores.thread,
            flow_score=scores.flow,
            completeness_score=scores.completeness,
        )

    every = in_order([weighed(hit, base) for hit, base in zip(best, bases, strict=True)], config)
    return Similar(
        [each for each in every if each.id in kept],
        [each for each in every if each.id not in kept],
        near,
        talks,
    )


def unfound(talk: Talk, place: int) -> ContextMessage:
    """A message that comes along, with the one that it answers."""
    message = talk.messages[place]
    parent = talk.document.sections[place].parent
    return ContextMessage(
        message, talk.document.id, parent=None if parent is None else talk.messages[parent], found=False
    )


def in_order(messages: Iterable[ContextMessage], config: ScoringConfig) -> list[ContextMessage]:
    """The messages best first, those of nearly equal score newest first."""
    return ordered(
        messages,
        equality=config.score_equality,
        score=lambda each: each.score,
        at=lambda each: each.message.at,
        name=lambda each: each.id,
    )


def threaded(
    messages: Sequence[ContextMessage], talks: Mapping[str, Talk], *, most: int | None = None
) -> list[WindowThread]:
    """The messages by thread, the thread of the best one first, each by time; what has no time is the oldest.

    The messages come in their order, best first; of equal times the earlier in the thread is first.
    """
    groups: dict[str, list[ContextMessage]] = {}
    for each in messages:
        groups.setdefault(each.thread, []).append(each)
    threads = []
    for name in list(groups)[:most]:
        talk, members = talks[name], groups[name]
        places = talk.places
        members.sort(key=lambda each: (since_epoch(each.message.at), places[each.id]))
        threads.append(
            WindowThread(
                name,
                talk.document.title,
                str(talk.document.meta.get("channel", "")),
                max(each.score for each in members),
                tuple(members),
                whole=len(members) == len(talk.messages),
            )
        )
    return threads


def _talks(ids: Iterable[str], read: Read) -> dict[str, Talk]:
    talks: dict[str, Talk] = {}
    for id_ in dict.fromkeys(ids):
        try:
            document = read(id_)
        except NotFound:  # dropped since it was found
            continue
        messages = messages_in(document)
        talks[id_] = Talk(document, messages, {message.id: place for place, message in enumerate(messages)})
    return talks


def _nearness(best: Sequence[Hit], found: Mapping[str, list[Hit]], cosines: Cosines) -> dict[str, float]:
    """The greatest cosine of each message's chunks, by message; asked for only where the search did not tell."""
    names = [_name(hit) for hit in best]
    told = {
        part.chunk.id: part.scores["semantic"] for name in names for part in found[name] if "semantic" in part.scores
    }
    silent = [name for name in names if not any(part.chunk.id in told for part in found[name])]
    if missing := [part.chunk.id for name in silent for part in found[name]]:
        told |= cosines(missing)
    return {name: max((told[p.chunk.id] for p in found[name] if p.chunk.id in told), default=0.0) for name in names}


def _admitted(hit: Hit, cosine: float, config: ScoringConfig, floor: float) -> bool:
    if config.min_score is not None:
        return cosine >= config.min_score
    return cosine >= floor or "lexical" in hit.scores


def _name(hit: Hit) -> str:
    return str(hit.chunk.meta["message"])
