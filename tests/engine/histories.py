"""Random collections in which every page, message, title, heading and name is a word of its own: a canary.

What a verb shows can then be compared, word by word, with what a filter admits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from clew import Document, Filter, Message
from clew.core.types import Section

CHANNELS = ("ops", "sales")
AUTHORS = ("ana", "ben", "eva")
LABELS = ("staff", "hr", "board")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
QUESTION = "budget of the harbour pier"


@dataclass(frozen=True, slots=True)
class Item:
    """A page or message, and its canaries."""

    kind: str
    channel: str | None
    author: str | None
    at: datetime | None
    access: frozenset[str] | None
    canaries: tuple[str, ...]
    id: str


@dataclass(slots=True)
class History:
    """What was added to a collection."""

    documents: list[Document] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)


def make_history(random: Random) -> History:
    """A few pages, and threads with replies, in several channels, by several people, for several readers."""
    made, words = History(), _name_canaries(random)
    for number in range(random.randint(2, 4)):
        access = _pick_labels(random)
        title, heading, first, second, note = (next(words) for _ in range(5))
        text = f"# {title}\n\nThe budget is {first}.\n\n## {heading}\n\nThe harbour pier is {second}."
        cut = text.index("##")
        sections = (Section(0, cut, label=title), Section(cut, len(text), label=heading, parent=0))
        document = Document(
            f"page{number}", text, sections, title=title, uri=f"page{number}.md", access=access, meta={"note": note}
        )
        made.documents.append(document)
        made.items.append(Item("page", None, None, None, access, (title, heading, first, second, note), document.id))
    for number in range(random.randint(6, 14)):
        channel, author = random.choice(CHANNELS), random.choice(AUTHORS)
        at = NOON + timedelta(hours=number)
        earlier = [each for each in made.messages if each.channel == channel]
        parent = random.choice(earlier).id if earlier and random.random() < 0.6 else None
        word, name = next(words), next(words)
        pages = random.sample(made.documents, random.randint(0, 1))
        mention = "".join(f" see {page.uri}" for page in pages)
        text = f"The budget of the harbour pier is {word}{mention}"
        access = _pick_labels(random)
        made.messages.append(
            Message(text, author=author, at=at, id=name, channel=channel, reply_to=parent, access=access)
        )
        made.items.append(Item("thread", channel, author, at, access, (word, name), name))
    return made


def make_filter(random: Random, history: History, depth: int = 2) -> Filter:
    """A filter of one condition, or two filters joined by `|` or `&`."""
    if depth and random.random() < 0.5:
        one, other = make_filter(random, history, depth - 1), make_filter(random, history, depth - 1)
        return one | other if random.random() < 0.5 else one & other
    since, until = (NOON + timedelta(hours=random.randint(0, 12)) for _ in range(2))
    conditions = [
        {"kinds": {random.choice(("page", "thread"))}},
        {"channels": _pick_some(random, CHANNELS)},
        {"authors": _pick_some(random, AUTHORS)},
        {"authors": _pick_some(random, AUTHORS)},
        {"access": _pick_some(random, LABELS)},
        {"access": _pick_some(random, LABELS)},
        {"since": since},
        {"until": until},
        {"documents": {document.id for document in random.sample(history.documents, 1)}},
    ]
    return Filter(**random.choice(conditions))  # type: ignore[arg-type]


def admits(where: Filter, item: Item) -> bool:
    """Whether a filter admits an item, by the definition."""
    sides = [admits(each, item) for each in where.any_of or ()]
    if (where.any_of is not None and not any(sides)) or not all(admits(each, item) for each in where.all_of):
        return False
    named = [(where.kinds, item.kind), (where.channels, item.channel), (where.authors, item.author)]
    if not all(values is None or value in values for values, value in named):
        return False
    if where.documents is not None and item.id not in where.documents:
        return False
    if where.access is not None and not (where.access and (item.access is None or item.access & where.access)):
        return False
    if item.at is None:
        return where.since is None and where.until is None
    return (where.since is None or item.at >= where.since) and (where.until is None or item.at < where.until)


def _pick_labels(random: Random) -> frozenset[str] | None:
    return None if random.random() < 0.6 else frozenset(random.sample(LABELS, random.randint(0, 2)))


def _pick_some(random: Random, names: Sequence[str]) -> set[str]:
    """Mostly some of the names, seldom none."""
    return set(random.sample(names, 0 if random.random() < 0.1 else random.randint(1, len(names) - 1)))


def _name_canaries(random: Random) -> Iterator[str]:
    """Words that occur nowhere else."""
    seen: set[str] = set()
    while True:
        word = "zq" + "".join(random.choice("bcdfghjklmnprstvwx") + random.choice("aeiou") for _ in range(5))
        if word not in seen:
            seen.add(word)
            yield word
