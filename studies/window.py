"""`python -m studies.window --data FOLDER`: do windows of threads hold more evidence than hits with neighbours?

LoCoMo's ten long conversations, each a flat channel that is untangled into threads. A question is asked in its own
channel just after the last message. Recall is the mean share of a question's evidence turns in the window. The baseline
fills the same token budget with the best messages of the same search and so many neighbours on each side.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from unittest.mock import patch

from clew import Engine, Filter, Message, drivers
from clew.core.protocols import Embedder
from clew.core.settings import EmbedderConfig, IngestionConfig, ScoringConfig, SearchConfig, Settings
from clew.core.text import estimate_tokens
from clew.core.thread import THREAD_KIND, Thread
from clew.index.thread.threads import build_threads as made_threads
from clew.query.messages import window as windows
from studies.measures import bootstrap
from studies.sets import MissingSet, read_jsonl, report_missing_set

BUDGETS = (500, 1000, 2000)
NEIGHBOURS = (0, 1, 2)
JOINT = estimate_tokens("\n  ↪ ")
SETTINGS = Settings(
    ingestion=IngestionConfig(),
    search=SearchConfig(depth=50),
    scoring=ScoringConfig(authors=False),  # as the baseline: the texts alone are counted
)
VARIANTS = {
    "context_window": SETTINGS.scoring,
    "hits without reply chains": SETTINGS.scoring,
    "with reply chains up to a quarter of the budget": SETTINGS.scoring,
    "with reply chains of any length": SETTINGS.scoring,
    "scored by the cosine alone": replace(SETTINGS.scoring, base="similarity"),
    "age without a floor": replace(SETTINGS.scoring, time_floor=0.0),
}
CHAIN_SHARES = {  # of the budget, in place of a twentieth
    "hits without reply chains": 0.0,
    "with reply chains up to a quarter of the budget": 0.25,
    "with reply chains of any length": 1.0,
}
Shares = dict[str, dict[int, list[float]]]  # of the evidence in the window, by variant and budget


@dataclass(frozen=True, slots=True)
class WindowQuestion:
    """A question about a channel, and the messages that hold the evidence."""

    text: str
    channel: str
    evidence: frozenset[str]


def load_threads(folder: Path) -> list[Thread]:
    """The sessions of every conversation; turns are a minute apart, as only sessions have a time."""
    made = []
    for row in read_jsonl(_find_file(folder, "conversations.jsonl.gz")):
        channel = row["sample_id"]
        for session in row["sessions"]:
            began = datetime.strptime(session["date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
            messages_by_channel = [
                Message(
                    turn["text"] + (f" [{turn['blip_caption']}]" if turn.get("blip_caption") else ""),
                    author=turn["speaker"],
                    at=began + timedelta(minutes=minute),
                    id=f"{channel}/{turn['dia_id']}",
                    channel=channel,
                )
                for minute, turn in enumerate(session["turns"])
            ]
            made.append(Thread(f"{channel}/{session['session']}", channel, tuple(messages_by_channel)))
    return made


def load_questions(folder: Path) -> list[WindowQuestion]:
    """The questions that have evidence."""
    return [
        WindowQuestion(
            row["question"], row["sample_id"], frozenset(f"{row['sample_id']}/{turn}" for turn in row["evidence"])
        )
        for row in read_jsonl(_find_file(folder, "qa.jsonl"))
        if row["evidence"]
    ]


class ChannelOrder:
    """The messages of all channels in order, to find neighbours."""

    def __init__(self, given: Sequence[Thread]) -> None:
        self._sessions = [thread.messages for thread in given]
        self._places = {
            message.id: (session, place)
            for session, messages in enumerate(self._sessions)
            for place, message in enumerate(messages)
        }
        self.ends: dict[str, datetime] = {}
        for thread in given:
            last = max(message.at for message in thread.messages if message.at)
            self.ends[thread.channel] = max(last, self.ends.get(thread.channel, last))

    def fill_budget(self, ranking: Sequence[str], tokens: int, neighbours: int) -> set[str]:
        """The messages of a ranking with so many neighbours on each side, as many as fit the budget."""
        taken: set[str] = set()
        tokens_left = tokens
        for name in ranking:
            session, place = self._places[name]
            messages = self._sessions[session]
            around = messages[max(0, place - neighbours) : place + neighbours + 1]
            for message in sorted(around, key=lambda each: each.id != name):
                cost = estimate_tokens(message.text) + JOINT
                if message.id not in taken and cost <= tokens_left:
                    taken.add(message.id)
                    tokens_left -= cost
        return taken


def make_rows(folder: Path, embedder: Embedder, *, sample: int | None = None) -> Iterator[str]:
    """The rows of the table."""
    sessions, questions = load_threads(folder), load_questions(folder)
    questions = questions[:: max(1, len(questions) // sample)] if sample else questions
    channels = ChannelOrder(sessions)
    shares: Shares = {}
    with Engine.open(":memory:", embedder=embedder, settings=SETTINGS) as engine:
        engine.add_documents(thread.document() for thread in untangle_sessions(sessions))
        for question in questions:
            where = Filter(channels={question.channel}, kinds={THREAD_KIND})
            hits = engine.search(question.text, k=SETTINGS.search.depth, where=where)
            ranking = list(dict.fromkeys(str(hit.chunk.meta["message"]) for hit in hits))
            for tokens in BUDGETS:
                for n in NEIGHBOURS:
                    _record_share(
                        shares, f"±{n} neighbours", tokens, question, channels.fill_budget(ranking, tokens, n)
                    )
        _measure_windows(engine, shares, questions, channels, VARIANTS)
    with Engine.open(":memory:", embedder=embedder, settings=SETTINGS) as engine:
        engine.add_documents(thread.document() for thread in sessions)
        _measure_windows(
            engine, shares, questions, channels, {"a session is a thread, without replies": SETTINGS.scoring}
        )
    yield "| variant | " + " | ".join(f"{tokens} tokens" for tokens in BUDGETS) + " |"
    yield "|---" * (1 + len(BUDGETS)) + "|"
    for variant, by_tokens in shares.items():
        yield f"| {variant} | " + " | ".join(f"{100 * fmean(by_tokens[tokens]):.1f}" for tokens in BUDGETS) + " |"
    for n in NEIGHBOURS:
        leads = [str(bootstrap(shares["context_window"][t], shares[f"±{n} neighbours"][t])) for t in BUDGETS]
        yield f"| lead of context_window over ±{n} | " + " | ".join(leads) + " |"


def untangle_sessions(sessions: Sequence[Thread]) -> list[Thread]:
    """The threads that the messages of each channel are untangled into."""
    messages_by_channel: dict[str, list[Message]] = {}
    for session in sessions:
        messages_by_channel.setdefault(session.channel, []).extend(session.messages)
    return [
        thread
        for channel, messages in messages_by_channel.items()
        for thread in made_threads(channel, messages, config=SETTINGS.threads)
    ]


def _measure_windows(
    engine: Engine,
    shares: Shares,
    questions: Sequence[WindowQuestion],
    channels: ChannelOrder,
    variants: Mapping[str, ScoringConfig],
) -> None:
    for question in questions:
        for variant, config in variants.items():
            for tokens in BUDGETS:
                with patch.object(windows, "CHAIN_SHARE", CHAIN_SHARES.get(variant, windows.CHAIN_SHARE)):
                    window = engine.window(
                        question.channel,
                        question.text,
                        tokens=tokens,
                        now=channels.ends[question.channel],
                        settings=replace(SETTINGS, scoring=config),
                    )
                _record_share(shares, variant, tokens, question, {each.id for each in window.messages})


def _record_share(
    shares: dict[str, dict[int, list[float]]], variant: str, tokens: int, question: WindowQuestion, held: set[str]
) -> None:
    share = len(question.evidence & held) / len(question.evidence)
    shares.setdefault(variant, {}).setdefault(tokens, []).append(share)


def _find_file(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.exists():
        raise MissingSet(f"there is no {name} in {folder}; give the folder of the set with --data")
    return path


@report_missing_set
def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m studies.window", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of LoCoMo")
    parser.add_argument("--embedder", default="wordllama")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    parser.add_argument("--sample", type=int, help="use about so many questions, spread evenly")
    given = parser.parse_args()
    embedder = drivers.make_embedder(EmbedderConfig(name=given.embedder, cache=given.cache))
    for row in make_rows(given.data, embedder, sample=given.sample):
        print(row, flush=True)


if __name__ == "__main__":
    main()
