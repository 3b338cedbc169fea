"""What must not change which documents a conversation chooses: laws, through Engine, on both stores."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import pytest

from clew import Document, Engine
from tests.engine.chosen import ChosenEmbedder, OpenEngine, conversation, documents

SYLLABLES = ("bo", "dra", "fim", "gul", "kev", "lor", "mip", "nax", "pud", "rys", "sten", "tov", "vul", "wex", "zim")
WORDS = ("winch", "anchor", "harbour", "lantern", "compass")
WITH_WORD = ("the {} is painted red", "on the {} of a ship", "{} and {} once more")
WITHOUT = "nothing of that kind"
EXAMPLES = 5
WANTED = 3


@dataclass
class Case:
    """A collection, and topics that are asked about with a word of it and words that it does not hold."""

    random: Random
    embedder: ChosenEmbedder
    pages: list[Document]
    topics: int
    answers: frozenset[str] = frozenset()  # the pages that clearly answer, where there are as many as are wanted

    def fill(self) -> list[str]:
        """The message of each topic, with new filler: of the same number of words, in the same direction."""
        texts = []
        for topic in range(self.topics):
            text = f"where is the {WORDS[topic]} of the {self.make_word()} and the {self.make_word()}"
            self.embedder.plan[text] = {f"topic {topic}": 1.0}
            texts.append(text)
        return texts

    def make_word(self) -> str:
        return "".join(self.random.choices(SYLLABLES, k=4))

    def shuffle(self, texts: Sequence[str]) -> list[str]:
        return self.random.sample(texts, len(texts))

    def make_unrelated(self, count: int) -> list[Document]:
        texts = [" ".join(f"q{self.make_word()}" for _ in range(self.random.randint(2, 12))) for _ in range(count)]
        return [Document(f"unrelated{place}-{text[:8]}", text) for place, text in enumerate(texts)]

    def add_page(self, topic: int, text: str, cosine: float) -> str:
        name = f"page{topic}{len(self.pages)}"
        text = f"{text.format(WORDS[topic], WORDS[topic])} {name}"
        self.embedder.plan[text] = {f"topic {topic}": round(cosine, 2)}
        self.pages.append(Document(name, text))
        return name


def draw_any(seed: int, *, words: bool = True) -> Case:
    """Three to five topics, each with one to three pages of any cosine, with the word of the topic or without."""
    case = Case(Random(seed), ChosenEmbedder(), [], 0)
    random, case.topics = case.random, case.random.randint(3, 5)
    for topic in range(case.topics):
        for _ in range(random.randint(1, 3)):
            text = random.choice((*WITH_WORD, WITHOUT)) if words else WITHOUT
            case.add_page(topic, text, random.uniform(0.05, 0.98))
    return case


def draw_clear(seed: int) -> Case:
    """Five topics, of which three have a page that is near and has the word; all other pages are far and have none."""
    case = Case(Random(seed), ChosenEmbedder(), [], len(WORDS))
    random, answered = case.random, case.random.sample(range(len(WORDS)), WANTED)
    names = set()
    for topic in range(len(WORDS)):
        if topic in answered:
            names.add(case.add_page(topic, random.choice(WITH_WORD), random.uniform(0.8, 0.98)))
        for _ in range(random.randint(1, 2)):
            case.add_page(topic, WITHOUT, random.uniform(0.02, 0.3))
    random.shuffle(case.pages)
    case.answers = frozenset(names)
    return case


Draw = Callable[[int], Case]
CASES = [
    *(pytest.param(draw_any, seed, id=f"any-{seed}") for seed in range(EXAMPLES)),
    *(pytest.param(draw_clear, seed, id=f"clear-{seed}") for seed in range(EXAMPLES)),
]


def choose(engine: Engine, case: Case, asked: Sequence[str]) -> set[str]:
    """The documents that are chosen: those that answer, where that is clear."""
    chosen = set(documents(engine.search(conversation(*asked), k=WANTED)))
    assert len(chosen) == WANTED
    assert not case.answers or chosen == case.answers
    return chosen


def open_with_pages(open_engine: OpenEngine, case: Case) -> Engine:
    engine = open_engine(embedder=case.embedder)
    engine.add_documents(case.pages)
    return engine


@pytest.mark.parametrize(("draw", "seed"), CASES)
def test_filler_that_the_collection_does_not_hold_changes_nothing(
    open_engine: OpenEngine, draw: Draw, seed: int
) -> None:
    case = draw(seed)
    engine = open_with_pages(open_engine, case)
    chosen = choose(engine, case, case.fill())
    for _ in range(5):
        assert choose(engine, case, case.fill()) == chosen


@pytest.mark.parametrize(("draw", "seed"), CASES)
def test_the_order_of_the_topics_changes_nothing(open_engine: OpenEngine, draw: Draw, seed: int) -> None:
    case = draw(seed)
    engine = open_with_pages(open_engine, case)
    asked = case.fill()
    chosen = choose(engine, case, asked)
    for _ in range(5):
        assert choose(engine, case, case.shuffle(asked)) == chosen


def draw_by_meaning(seed: int) -> Case:
    return draw_any(seed, words=False)


@pytest.mark.parametrize("seed", range(EXAMPLES))
@pytest.mark.parametrize("draw", [draw_by_meaning, draw_clear])
def test_documents_that_share_no_term_and_no_direction_change_nothing(
    open_engine: OpenEngine, draw: Draw, seed: int
) -> None:
    """Words weigh by how rare they are, so that a tie of words and meaning may turn; what is clear does not."""
    case = draw(seed)
    engine = open_with_pages(open_engine, case)
    asked = case.fill()
    chosen = choose(engine, case, asked)
    for count in (1, 5, 60):
        engine.add_documents(case.make_unrelated(count))
        assert choose(engine, case, asked) == chosen
