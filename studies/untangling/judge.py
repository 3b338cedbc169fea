"""Are the links right, do they carry over to another kind of chat, and do they find the rest of a conversation?"""

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
from clew.index.thread.untangle import untangle
from clew.index.thread.untangle.net import ReplyNet
from studies.measures import recall_at
from studies.untangling.logs import Log

Links = Sequence[int | None]
Linker = Callable[[Sequence[Message]], Links]
MAX_DISTANCE = 15  # messages back that the rule looks for the author's own last


def link_to_previous(messages: Sequence[Message]) -> Links:
    """Each answers the one before; what the system says is passed over."""
    found: list[int | None] = []
    last: int | None = None
    for place, message in enumerate(messages):
        found.append(None if message.role == "system" else last)
        last = last if message.role == "system" else place
    return found


def link_by_rule(messages: Sequence[Message]) -> Links:
    """The last message of whoever the first word names, else the author's own last if it is near, else none."""
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
    """What we ship, or another net."""
    return lambda messages: untangle(messages, net=net)


@dataclass(frozen=True, slots=True)
class LinkScores:
    """Precision, recall and F of reply links, in percent; an opening counts as a link to itself."""

    precision: float
    recall: float
    f: float


def score_links(given: Sequence[Log], linker: Linker, *, include_system: bool = True) -> LinkScores:
    """How well the links of the annotated messages are found; with or without what the system says."""
    right = said = gold = 0
    for log in given:
        links = linker(log.messages)
        for place, answered in log.gold.items():
            if include_system or log.messages[place].role != "system":
                link = links[place]
                said += 1
                gold += len(answered)
                right += (place if link is None else link) in answered
    return LinkScores(100 * right / said, 100 * right / gold, 200 * right / (said + gold))


# -- conversations


def find_roots(links: Links) -> list[int]:
    """For each message the first of its conversation."""
    found: list[int] = []
    for place, link in enumerate(links):
        found.append(place if link is None else found[link])
    return found


@dataclass(frozen=True, slots=True)
class ConversationScores:
    """Of messages whose conversations are known: links that stay inside, openings found, and F of pairs together."""

    right: int
    messages: int
    opened: int
    openings: int
    pairs: float


def score_conversations(
    channels: Sequence[tuple[Sequence[Message], Mapping[int, str]]], linker: Linker
) -> ConversationScores:
    """How well conversations are kept apart; each channel comes with the conversations of some of its messages."""
    right = opened = openings = count = together = said = gold = 0
    for messages, conversation in channels:
        links = linker(messages)
        begun: set[str] = set()
        for place, name in sorted(conversation.items()):
            link = links[place]
            first = name not in begun
            begun.add(name)
            count, openings = count + 1, openings + first
            opened += first and link is None
            right += link is None if first else link is not None and conversation.get(link) == name
        of = find_roots(links)
        for one, other in combinations(sorted(conversation), 2):
            same, found = conversation[one] == conversation[other], of[one] == of[other]
            together, said, gold = together + (same and found), said + found, gold + same
    return ConversationScores(right, count, opened, openings, 2 * together / max(said + gold, 1))


# -- the rest of a conversation, from the message that opens it

MIN_MESSAGES = 5  # messages of a conversation that is asked for


def measure_thread_recall(
    given: Sequence[Log], linkers: Mapping[str, Linker | None], *, k: int = 10
) -> dict[str, float]:
    """Recall at k of the other messages of a conversation, searched for by its first, among the messages of all logs.

    Flat is BM25; a linker puts first what its links lead to from the query, the fewest steps first, then BM25.
    """
    texts = {
        f"{number}/{place}": log.messages[place].text
        for number, log in enumerate(given)
        for place in log.gold
        if log.messages[place].role != "system"
    }
    search = _make_bm25(texts)
    found: dict[str, list[float]] = {name: [] for name in linkers}
    led = {name: [linker(log.messages) for log in given] if linker else None for name, linker in linkers.items()}
    for number, log in enumerate(given):
        for opening, others in _list_conversations(log).items():
            query = f"{number}/{opening}"
            flat = [each for each in search(extract_terms(texts[query])) if each != query]
            relevant = [f"{number}/{place}" for place in others]
            for name, links in led.items():
                near = [f"{number}/{place}" for place in _follow_links(links[number], opening)] if links else []
                ranking = dict.fromkeys([*(each for each in near if each in texts), *flat])
                found[name].append(recall_at(k, [*ranking], relevant))
    asked = max(map(len, found.values()), default=0)
    return {"queries": asked, **{name: fmean(values) if values else 0.0 for name, values in found.items()}}


def _list_conversations(log: Log) -> dict[int, list[int]]:
    """The rest of each conversation that opens within what is annotated, by the message that opens it."""
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
    """The messages that links lead to, in either direction, the fewest steps first."""
    beside: defaultdict[int, list[int]] = defaultdict(list)
    for place, link in enumerate(links):
        if link is not None:
            beside[place].append(link)
            beside[link].append(place)
    order, seen = [start], {start}
    for place in order:
        new = [each for each in sorted(beside[place]) if each not in seen]
        seen.update(new)
        order += new
    return order[1:]


def _make_bm25(texts: Mapping[str, str]) -> Callable[[Mapping[str, int]], list[str]]:
    """A search that ranks the texts."""
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
