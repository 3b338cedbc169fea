"""`python -m studies.human_chats --data FOLDER`: is a message of a chat between people found by what it says itself?

The annotated part of the Ubuntu IRC logs has conversations and no questions, so these are made. A log is a channel.
`about`: "what did NAME say about …" and three words of a message, in any order. `words`: two words of a message and
nothing else. In both the message itself is the answer, as in most questions on a chat, and its neighbours are not.
`opening`: the first message of a conversation of at least five; the others answer it, and it is not ranked itself.
Every second log is held out (`--held-out`): nothing was chosen on these.
"""

import argparse
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from clew import Engine, Settings, drivers
from clew.core.settings import EmbedderConfig
from clew.core.text import extract_terms
from clew.core.thread import Thread
from clew.index.thread.threads import build_threads
from studies.locomo import VARIANTS, Values, make_rows, measure_variants, rank_messages
from studies.measures import recall_at
from studies.sets import report_missing_set
from studies.threads import ThreadQuestion, ThreadSet, make_thread_set
from studies.untangling.judge import find_roots
from studies.untangling.logs import Log, load_logs

TASKS = ("about", "words", "opening")
THREADINGS = ("gold", "guessed")
DEPTHS = (1, 5, 10)
LOGS, QUESTIONS = 20, 25  # logs of each half, and questions of each log
MIN_WORDS = 6  # of a message that is asked about
MIN_CONVERSATION = 5  # messages
SEED = 7
_WORD = re.compile(r"[\w'+./-]{3,}")


def load_chats(folder: Path, *, task: str, threading: str, held_out: bool) -> ThreadSet:
    """The logs of a half as threads, and the questions of a task; `gold` threads are the annotated conversations."""
    rng = random.Random(SEED)
    threads: list[Thread] = []
    questions: list[ThreadQuestion] = []
    for log in load_logs(folder / "irc-disentanglement", "train")[int(held_out) :: 2][:LOGS]:
        talks = list_conversations(log)
        threads += _make_threads(log, talks, threading)
        questions += _ask_openings(log, talks) if task == "opening" else _ask_words(log, talks, task, rng)
    return make_thread_set(threads, questions)


def list_conversations(log: Log) -> list[list[int]]:
    """The positions of the messages of each annotated conversation, without system messages."""
    links = {place: min(answered) for place, answered in log.gold.items() if min(answered) != place}
    roots = find_roots([links.get(place) for place in range(len(log.messages))])
    wanted = {*log.gold, *(each for answered in log.gold.values() for each in answered)}
    talks: dict[int, list[int]] = {}
    for place in sorted(wanted):
        if log.messages[place].role != "system" and log.messages[place].text.strip():
            talks.setdefault(roots[place], []).append(place)
    return list(talks.values())


def measure_found(
    engine: Engine, question: ThreadQuestion, talks: ThreadSet, strategy: str, settings: Settings
) -> Values:
    """The recall at each depth, without the message that is the question itself (its `kind`)."""
    del talks
    ranking = rank_messages(engine, question, strategy, settings, max(DEPTHS) + 1)
    found = [name for name in ranking if name != question.kind]
    return {f"R@{depth}": [recall_at(depth, found, question.gold)] for depth in DEPTHS}


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a table for each task and threading."""
    parser = argparse.ArgumentParser(prog="studies.human_chats", description="Messages of chats between people.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds irc-disentanglement")
    parser.add_argument("--held-out", action="store_true", help="the logs that nothing was chosen on")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--threads", default=",".join(THREADINGS), help="annotated conversations, or inferred ones")
    parser.add_argument("--strategies", default="hybrid")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    given = parser.parse_args(arguments)
    embedder = drivers.make_embedder(EmbedderConfig(name=given.embedder, cache=given.cache))
    for task in given.tasks.split(","):
        for threading in given.threads.split(","):
            talks = load_chats(given.data, task=task, threading=threading, held_out=given.held_out)
            messages = sum(len(each) for each in talks.words.values())
            size = f"{len(talks.questions)} questions, {len(talks.words)} logs, {messages} messages, {embedder.name}"
            print(f"{task}, {threading} threads: {size}", flush=True)
            strategies = given.strategies.split(",")
            found = measure_variants(talks, embedder, strategies, variants=VARIANTS, measure=measure_found)
            for row in make_rows(found):
                print(row, flush=True)


def _make_threads(log: Log, talks: Sequence[Sequence[int]], threading: str) -> list[Thread]:
    messages = {
        place: replace(log.messages[place], id=_make_id(log, place), channel=log.name)
        for talk in talks
        for place in talk
    }
    if threading == "guessed":
        return build_threads(log.name, [messages[place] for place in sorted(messages)], config=Settings().threads)
    return [Thread(_make_id(log, talk[0]), log.name, tuple(messages[place] for place in talk)) for talk in talks]


def _ask_words(log: Log, talks: Sequence[Sequence[int]], task: str, rng: random.Random) -> Iterator[ThreadQuestion]:
    """Questions of a few words of a message; names of people are not among them."""
    names = {message.author.casefold() for message in log.messages}
    candidates: list[tuple[int, list[str]]] = []
    for place in sorted(place for talk in talks for place in talk):
        words = [
            word for word in dict.fromkeys(_WORD.findall(log.messages[place].text)) if word.casefold() not in names
        ]
        words = [word for word in words if len(extract_terms(word)) == 1]
        if len(words) >= MIN_WORDS:
            candidates.append((place, words))
    for place, words in rng.sample(candidates, min(QUESTIONS, len(candidates))):
        picked = " ".join(rng.sample(words, 3 if task == "about" else 2))
        text = f"What did {log.messages[place].author} say about {picked}?" if task == "about" else picked
        yield ThreadQuestion(text, log.name, frozenset({_make_id(log, place)}))


def _ask_openings(log: Log, talks: Sequence[Sequence[int]]) -> Iterator[ThreadQuestion]:
    """The first message of each longer conversation as a question that the others answer."""
    for first, *others in talks:
        if len(others) + 1 >= MIN_CONVERSATION:
            gold = frozenset(_make_id(log, place) for place in others)
            yield ThreadQuestion(log.messages[first].text, log.name, gold, kind=_make_id(log, first))


def _make_id(log: Log, place: int) -> str:
    return f"{log.name}/{place}"


if __name__ == "__main__":
    main()
