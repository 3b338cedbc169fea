"""Collections drawn from a seed: pages and threads of chosen cosines and shared words, for laws of relevance."""

import re
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from random import Random

import numpy as np
from numpy.typing import NDArray

from clew import Document, Engine, Filter, Message
from clew.core.protocols import Role
from clew.core.types import Matrix

Row = NDArray[np.float64]
QUESTION = "who paints the lantern beside the harbour anchor"
ASKED = ("paints", "lantern", "harbour", "anchor")
FILLER = ("soup", "ledger", "meadow", "violin", "gravel", "pepper", "saddle", "canvas", "marble", "thimble", "walnut")
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
CHANNELS, AUTHORS, LABELS = ("ops", "dev", "crew"), ("ada", "bob", "cleo"), (None, {"staff"}, {"board"})
MARK = re.compile(r"z(\d{4})x")
SELF_COSINE = 0.5  # of a text as a question with itself as a passage: what an embedder without calibration assumes


@dataclass
class MarkedEmbedder:
    """An embedder of chosen cosines: "z0370x12" in a text makes its cosine with the question .37.

    A text without a mark is unrelated to the question. Of a text with a context before it the last paragraph counts.
    The same text as a question and as a passage has the cosine `SELF_COSINE`, as with a real model, so that measuring
    a large collection changes little of what is assumed of a small one.
    """

    name: str = "marked"
    dim: int = 96
    max_tokens: int = 512
    min_similarity: float = 0.0
    languages: Set[str] = field(default_factory=frozenset)

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        return np.stack([self._embed(text.rsplit("\n\n", 1)[-1], role) for text in texts]).astype(np.float32)

    def _embed(self, text: str, role: Role) -> Row:
        if text == QUESTION:
            first: Row = np.eye(self.dim)[0]
            return first
        mark = MARK.search(text)
        passage = self._point(text, int(mark[1]) / 1000 if mark else 0.0)
        if role == "passage":
            return passage
        other = self._point(f"as a question: {text}", 0.0)
        other -= (other @ passage) * passage
        asked: Row = SELF_COSINE * passage + np.sqrt(1 - SELF_COSINE**2) * other / np.linalg.norm(other)
        return asked

    def _point(self, text: str, cosine: float) -> Row:
        seed = int.from_bytes(sha256(text.encode()).digest()[:8], "big")
        rest = np.random.default_rng(seed).normal(size=self.dim)
        rest[0] = 0.0
        rest *= np.sqrt(1 - cosine**2) / np.linalg.norm(rest)
        rest[0] = cosine
        return rest

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]


class Draw:
    """Draws texts of a collection: how near they are, and how many words of the question they have, differs by seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.nearness = self.random.choice([(0.0, 1.0), (0.0, 0.3), (0.2, 0.6), (0.5, 0.9), (0.0, 0.05)])
        self.chance = self.random.choice([0.02, 0.1, 0.3, 0.6])  # of each word of the question
        self.number = 0

    def text(self, cosine: float | None = None, words: Sequence[str] | None = None) -> str:
        """A text of this cosine and these words of the question; what is not given is drawn."""
        random = self.random
        self.number += 1
        if cosine is None:
            near = random.random() < 0.1  # a few stand out
            cosine = random.uniform(0.3, 1.0) if near else random.uniform(*self.nearness)
        if words is None:
            chance = random.choice((self.chance, self.chance, 0.0, 0.9))
            words = [word for word in ASKED if random.random() < chance]
        others = random.choices(FILLER, k=random.randint(1, 25))
        mixed = random.sample([*words, *others], len(words) + len(others))
        return " ".join([*mixed, f"z{round(1000 * min(cosine, 0.999)):04}x{self.number}"])

    def any_text(self) -> str:
        """A text that may be anything: like the others, a perfect match, or near by words or by meaning alone."""
        made: list[Callable[[], str]] = [
            self.text,
            self.restate,
            lambda: self.text(0.0, ASKED),
            lambda: self.text(1.0, ()),
            lambda: self.text(0.0, ()),
        ]
        return self.random.choice(made)()

    def restate(self) -> str:
        """The question once more, word by word."""
        self.number += 1
        return f"{QUESTION} z0999x{self.number}"

    def page(self, text: str) -> Document:
        random, number = self.random, self.number
        meta = {"team": random.choice(("red", "blue"))}
        return Document(f"page{number}", text, meta=meta, access=random.choice(LABELS), updated=NOON)

    def message(self, text: str, at: int, channel: str = "", reply_to: str | None = None) -> Message:
        random = self.random
        time = NOON + timedelta(minutes=at)
        head = random.choice(AUTHORS), time, f"m{self.number}", channel or random.choice(CHANNELS), reply_to
        return Message(text, *head, access=random.choice(LABELS))

    def pages(self, count: int) -> list[Document]:
        return [self.page(self.text()) for _ in range(count)]

    def unrelated(self, count: int) -> list[Document]:
        return [self.page(self.text(self.random.uniform(0.0, 0.08), ())) for _ in range(count)]

    def messages(self, count: int) -> list[Message]:
        """Messages in several channels, some in reply to others, some without content, one thread after another."""
        random, made, at = self.random, list[Message](), 0
        for _ in range(count):
            at += random.choice((1, 2, 5, 600))
            text = "ok" if random.random() < 0.05 else self.text()
            self.number += text == "ok"
            answered = random.choice(made) if made and random.random() < 0.3 else None
            channel, reply_to = (answered.channel, answered.id) if answered else ("", None)
            made.append(self.message(text, at, channel, reply_to))
        return made


def fill(engine: Engine, pages: Sequence[Document], messages: Sequence[Message] = ()) -> Engine:
    engine.add_documents(pages)
    if messages:
        engine.add_messages(messages)
    return engine


def list_filters(pages: Sequence[Document], draw: Draw) -> Iterator[Filter]:
    """Filters of every kind, each of which admits a part of a collection."""
    random = draw.random
    yield Filter(documents={each.id for each in random.sample(list(pages), len(pages) // 2)})
    yield Filter(documents={random.choice(pages).id})
    yield Filter(kinds={"page"})
    yield Filter(kinds={"thread"})
    yield Filter(channels={"ops"})
    yield Filter(channels={"dev", "crew"})
    yield Filter(authors={"ada"})
    yield Filter(access={"staff"})
    yield Filter(access={"board", "crew"})
    yield Filter(meta={"team": "red"})
    yield Filter(since=NOON + timedelta(minutes=600))
    yield Filter(until=NOON + timedelta(minutes=random.randint(100, 3000)))
    yield Filter(authors={"bob"}, channels={"ops"}) | Filter(meta={"team": "blue"})
    yield Filter(kinds={"page"}) & Filter(access={"staff"})
