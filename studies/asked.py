"""The open sets as one kind of thing, for studies over all of them: questions, how each is asked, and what is right.

Of each set a part is taken, for time: as many questions as are wanted, spread evenly, and of the documents those that
answer one of them and every nth of the others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clew import EVERYTHING, Engine, Filter, Hit, Message
from studies.history import load_histories
from studies.judged import SETS, USUAL_MEASURES, JudgedSet, make_document, take_part
from studies.measures import ndcg_at
from studies.reranking import load_run
from studies.threads import load_locomo

TALKS = 2  # chats of LoCoMo
SHARES = {
    "dl19": 10,
    "clapnq": 9,
    "clapnq-last": 9,
    "musique": 4,
    "hotpotqa": 4,
    "2wikimultihopqa": 3,
}  # of the documents without an answer


@dataclass(frozen=True, slots=True)
class AskedSet:
    """A judged set, the conversation before each question, and the part of the collection that each is asked of."""

    data: JudgedSet
    histories: Mapping[str, Sequence[Message]] = field(default_factory=dict)
    filters: Mapping[str, Filter] = field(default_factory=dict)

    def search(self, engine: Engine, id_: str, strategy: str, *, k: int = 10) -> list[Hit]:
        """The hits for a question, asked as it was."""
        return engine.search(
            self.data.questions[id_],
            k=k,
            strategy=strategy,
            history=self.histories.get(id_, ()),
            where=self.where(id_),
        )

    def where(self, id_: str) -> Filter:
        """What a question is asked of."""
        return self.filters.get(id_, EVERYTHING)

    def measure(self, id_: str, hits: Sequence[Hit]) -> float:
        """nDCG@10 of the hits for a question."""
        return ndcg_at(10, list(dict.fromkeys(map(self.name_hit, hits))), self.data.grades[id_])

    def name_hit(self, hit: Hit) -> str:
        """The judged name of a hit: of a document, a passage or a message."""
        return self.data.names.get((hit.chunk.doc_id, hit.chunk.index)) or str(hit.chunk.meta["message"])


def load_chats(folder: Path) -> AskedSet:
    """Chats of LoCoMo: each question is asked of one, and its evidence are messages."""
    talks = load_locomo(folder, max_talks=TALKS)
    questions = {str(number): each for number, each in enumerate(talks.questions) if each.gold}
    data = JudgedSet(
        "locomo",
        talks.documents,
        {},
        {id_: each.text for id_, each in questions.items()},
        {id_: dict.fromkeys(each.gold, 1.0) for id_, each in questions.items()},
        USUAL_MEASURES,
    )
    return AskedSet(data, filters={id_: Filter(channels={each.channel}) for id_, each in questions.items()})


def load_turns(folder: Path) -> AskedSet:
    """Turns of conversations over ClapNQ as they were said, each with its conversation."""
    return AskedSet(SETS["clapnq-last"](folder), histories=load_histories(folder))


def _load_judged(name: str) -> Callable[[Path], AskedSet]:
    return lambda folder: AskedSet(SETS[name](folder))


def load_pool(folder: Path) -> JudgedSet:
    """The questions of TREC Deep Learning 2019, and all passages of the pool."""
    run = load_run(folder / "trec-dl-pool" / "dl19", "bm25")
    documents = [make_document(id_, [text]) for id_, text in run.passages.items()]
    names = {(id_, 0): id_ for id_ in run.passages}
    return JudgedSet("dl19 pool", documents, names, run.questions, run.grades, USUAL_MEASURES)


LOADERS: Mapping[str, Callable[[Path], AskedSet]] = {
    **{name: _load_judged(name) for name in SETS},
    "clapnq-last": load_turns,
    "dl19": lambda folder: AskedSet(load_pool(folder)),
    "locomo": load_chats,
}


def load_part(folder: Path, name: str, questions: int) -> AskedSet:
    """That many questions of a set, and a part of its documents."""
    whole = LOADERS[name](folder)
    every = max(1, len(whole.data.questions) // questions)
    part = take_part(whole.data, every, SHARES.get(name, 1))
    kept = dict(list(part.questions.items())[:questions])
    data = JudgedSet(name, part.documents, part.names, kept, part.grades, part.measures)
    return AskedSet(data, whole.histories, whole.filters)
