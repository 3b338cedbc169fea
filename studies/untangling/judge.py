"""Scores of reply links: precision and recall, conversations kept apart, and retrieval along the links."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import numpy as np

from clew.core.text import extract_terms
from clew.core.types import Message
from clew.drivers.store.bm25 import idf, length_norm, saturate
from clew.index.thread.untangle import ReplyNet, infer_reply_parents
from studies.measures import recall_at
from studies.untangling.logs import Log

Links = Sequence[int | None]
Linker = Callable[[Sequence[Message]], Links]
MAX_DISTANCE = 15  # messages back in which the rule looks for the author's own last message


def link_to_previous(messages: Sequence[Message]) -> Links:
    """Each message answers the one before; system messages are skipped."""
    found: list[int | None] = []
    last: int | None = None
    for place, message in enumerate(messages):
        found.append(None if message.role == "system" else last)
        last = last if message.role == "system" else place
    return found


def link_by_rule(messages: Sequence[Message]) -> Links:
    """The last message of the person named by the first word, else the author's own last if it is near, else none."""
    found: list[int | None] = []
    last: dict[str, int] = {}
    for place, message in enumerate(messages):
        name, me = (message.text.split() or [""])[0].rstrip(":,;").casefold(), message.author.casefold()
        own = last.get(me, -MAX_DISTANCE - 1)
        answered = last.get(name) if name != me else None
        if answered is None and place - own <= MAX_DISTANCE:
            answered = own
        found.append(None if message.role == "system" else answered)
        if message.role != "system":
            last[me] = place
    return found


def make_net_linker(net: ReplyNet | None) -> Linker:
    """A linker with the shipped net, or another."""
    return lambda messages: infer_reply_parents(messages, net=net)


@dataclass(frozen=True, slots=True)
class LinkScores:
    """Precision, recall and F of reply links, in percent; an opening counts as a link to itself."""

    precision: float
    recall: float
    f: float


def score_links(given: Sequence[Log], linker: Linker, *, include_system: bool = True) -> LinkScores:
    """The scores of the links of the annotated messages, with or without system messages."""
    right = predicted = gold = 0
    for log in given:
        links = linker(log.messages)
        for place, answered in log.gold.items():
            if include_system or log.messages[place].role != "system":
                link = links[place]
                predicted += 1
                gold += len(answered)
                right += (place if link is None else link) in answered
    return LinkScores(100 * right / predicted, 100 * right / gold, 200 * right / (predicted + gold))


# -- conversations


def find_roots(links: Links) -> list[int]:
    """For each message, the first message of its conversation."""
    found: list[int] = []
    for place, link in enumerate(links):
        found.append(place if link is None else found[link])
    return found


@dataclass(frozen=True, slots=True)
class ConversationScores:
    """For messages with known conversations: links that stay inside, openings found, and F of pairs in one."""

    right: int
    messages: int
    opened: int
    openings: int
    pairs: float


def score_conversations(
    channels: Sequence[tuple[Sequence[Message], Mapping[int, str]]], linker: Linker
) -> ConversationScores:
    """How well conversations are kept apart; each channel comes with the known conversations of its messages."""
    right = opened = openings = count = together = predicted = gold = 0
    for messages, conversation in channels:
        links = linker(messages)
        started: set[str] = set()
        for place, name in sorted(conversation.items()):
            link = links[place]
            first = name not in started
            started.add(name)
            count, openings = count + 1, openings + first
            opened += first and link is None
            right += link is None if first else link is not None and conversation.get(link) == name
        of = find_roots(links)
        for one, other in combinations(sorted(conversation), 2):
            same, found = conversation[one] == conversation[other], of[one] == of[other]
            together, predicted, gold = together + (same and found), predicted + found, gold + same
    return ConversationScores(right, count, opened, openings, 2 * together / max(predicted + gold, 1))


# -- the rest of a conversation, from the message that opens it

MIN_MESSAGES = 5  # of a conversation that is searched for


def measure_thread_recall(
    given: Sequence[Log], linkers: Mapping[str, Linker | None], *, k: int = 10
) -> dict[str, float]:
    """Recall@k of the other messages of a conversation, searched by its first message among those of all logs.

    Without a linker it is BM25; with one, the messages reached by links from the query come first, nearest first.
    """
    texts = {
        f"{number}/{place}": log.messages[place].text
        for number, log in enumerate(given)
        for place in log.gold
        if log.messages[place].role != "system"
    }
    search = _make_bm25(texts)
    found: dict[str, list[float]] = {name: [] for name in linkers}
    links_by_name = {
        name: [linker(log.messages) for log in given] if linker else None for name, linker in linkers.items()
    }
    for number, log in enumerate(given):
        for opening, others in _list_conversations(log).items():
            query = f"{number}/{opening}"
            flat = [each for each in search(extract_terms(texts[query])) if each != query]
            relevant = [f"{number}/{place}" for place in others]
            for name, links in links_by_name.items():
                near = [f"{number}/{place}" for place in _follow_links(links[number], opening)] if links else []
                ranking = dict.fromkeys([*(each for each in near if each in texts), *flat])
                found[name].append(recall_at(k, [*ranking], relevant))
    query_count = max(map(len, found.values()), default=0)
    return {"queries": query_count, **{name: fmean(values) if values else 0.0 for name, values in found.items()}}


def _list_conversations(log: Log) -> dict[int, list[int]]:
    """The other messages of each conversation that opens in the annotated part, by its opening message."""
    root: dict[int, int] = {}
    grouped: defaultdict[int, list[int]] = defaultdict(list)
    for place, answered in log.gold.items():
        firsts = {root.get(each, each) for each in answered}
        root[place] = min(firsts)
        for joined in firsts - {root[place]}:  # one message may join two conversations
            for member in (joined, *grouped.pop(joined, [])):
                root[member] = root[place]
                grouped[root[place]].append(member)
        if place != root[place]:
            grouped[root[place]].append(place)
    return {
        opening: sorted(others)
        for opening, others in grouped.items()
        if opening in log.gold and len(others) + 1 >= MIN_MESSAGES
    }


def _follow_links(links: Links, start: int) -> list[int]:
    """The messages reached by links in either direction, nearest first."""
    neighbours: defaultdict[int, list[int]] = defaultdict(list)
    for place, link in enumerate(links):
        if link is not None:
            neighbours[place].append(link)
            neighbours[link].append(place)
    order, seen = [start], {start}
    for place in order:
        new = [each for each in sorted(neighbours[place]) if each not in seen]
        seen.update(new)
        order += new
    return order[1:]


def _make_bm25(texts: Mapping[str, str]) -> Callable[[Mapping[str, int]], list[str]]:
    """A BM25 search over the texts."""
    names = [*texts]
    postings: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    lengths = np.zeros(len(names))
    for place, text in enumerate(texts.values()):
        counts = Counter(extract_terms(text))
        lengths[place] = counts.total()
        for term, count in counts.items():
            postings[term].append((place, count))
    norm = length_norm(lengths, float(lengths.mean()))

    def search(query: Mapping[str, int]) -> list[str]:
        scores = np.zeros(len(names))
        for term in query:
            if having := postings.get(term):
                places, counts = (np.array(column) for column in zip(*having, strict=True))
                scores[places] += idf(len(names), len(having)) * saturate(counts.astype(np.float32), norm[places])
        best = heapq.nlargest(50, range(len(names)), key=lambda place: (scores[place], -place))
        return [names[place] for place in best if scores[place] > 0]

    return search
