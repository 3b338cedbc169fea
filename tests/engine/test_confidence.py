"""Whether `ask` answers: what the collection shows of a question decides, and not how it was searched."""

import pytest

from clew import Document, Engine, Settings
from clew.core.answer import Answer
from clew.core.settings import AnswerConfig, IngestionConfig, RerankerConfig
from clew.query.answer.confidence import PROBE_HITS

OVERLAP = Settings(reranker=RerankerConfig(name="overlap"))
SUBJECTS = ("keel", "mast", "rudder", "anchor", "compass", "galley", "pump", "sail", "winch", "hatch", "buoy", "lamp")
PAGES = [
    Document(name, f"The {name} is checked every week. Grease keeps the {name} from rusting in the salt.", title=name)
    for name in SUBJECTS
]
KEYS = Document("vault", "Signing keys are rotated every 90 days by Dan. The vault is green.", title="Vault")
ASKED = "who rotates the signing keys?"


def asked(
    *documents: Document, question: str = ASKED, settings: Settings = OVERLAP, embedder: str = "hashed"
) -> Answer:
    with Engine.open(":memory:", embedder=embedder, settings=settings) as engine:
        engine.add_documents(documents)
        return engine.ask(question)


@pytest.mark.parametrize("embedder", ["hashed", "wordllama"])
def test_what_is_there_is_answered_and_what_is_not_is_not(embedder: str) -> None:
    there = asked(*PAGES, KEYS, embedder=embedder)
    absent = asked(*PAGES, embedder=embedder)
    assert there.found
    assert there.citations[0].document == "vault"
    assert there.confidence > 0.5 > absent.confidence
    assert (absent.found, absent.text) == (False, "No passage clearly answers this.")


def test_what_all_documents_say_answers_less_than_what_one_does() -> None:
    """The same document, the same reranker: only what stands beside it differs."""
    alone = asked(PAGES[0], KEYS, question="is the keel checked every week?")
    crowd = asked(*PAGES, KEYS, question="is the keel checked every week?")
    assert alone.confidence > crowd.confidence


def test_that_there_is_no_other_page_speaks_for_nothing() -> None:
    page = Document("vault", "Signing keys are kept in the vault, and the vault is green.", title="Vault")
    sure = Settings(reranker=OVERLAP.reranker, answer=AnswerConfig(min_confidence=0.5))
    near = asked(page, question="which bank sold the green vault?", settings=sure)
    assert not near.found  # on the topic, without the point
    assert asked(page, question="where are the signing keys kept?", settings=sure).found


def test_the_confidence_does_not_hang_on_the_search() -> None:
    with Engine.open(":memory:", embedder="hashed", settings=OVERLAP) as engine:
        engine.add_documents([*PAGES, KEYS])
        usual = engine.ask(ASKED).confidence
        assert engine.ask(ASKED, k=1).confidence == usual
        assert engine.ask(ASKED, strategy="lexical").confidence == usual
        assert engine.ask(ASKED, strategy="semantic", k=PROBE_HITS + 5).confidence == usual


def test_the_least_confidence_is_a_setting() -> None:
    sure = asked(*PAGES, KEYS)
    strict = Settings(reranker=OVERLAP.reranker, answer=AnswerConfig(min_confidence=min(1.0, sure.confidence + 0.01)))
    lax = Settings(reranker=OVERLAP.reranker, answer=AnswerConfig(min_confidence=0.0))
    assert not asked(*PAGES, KEYS, settings=strict).found
    assert asked(*PAGES, settings=lax).found


def test_the_language_of_the_collection_counts() -> None:
    german = Settings(reranker=OVERLAP.reranker, ingestion=IngestionConfig(language="de"))
    houses = Document("haus", "Häuser stehen am Hafen.", title="Hafen")
    boats = Document("boot", "Boote liegen am Kai.", title="Kai")
    told = asked(houses, boats, question="Haus", settings=german)
    other = asked(
        houses,
        boats,
        question="Haus",
        settings=Settings(reranker=german.reranker, ingestion=IngestionConfig(language="en")),
    )
    assert told.confidence > other.confidence


def test_nothing_in_the_collection_is_no_confidence() -> None:
    assert asked().confidence == 0.0


def test_what_has_no_sentence_to_cite_says_so() -> None:
    answer = asked(Document("keys", "Signing keys", title="Signing keys"), question="signing keys")
    assert (answer.found, answer.reason) == (False, "the passages found have no sentence to cite")
    assert answer.confidence > 0.5
