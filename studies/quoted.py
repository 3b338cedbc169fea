"""`python -m studies.quoted FOLDER …`: does an answer without a model quote the passage that answers?

A folder of material has `questions.jsonl` with rows of a `question`, its `kind` and the `quote` that answers it, word
for word ("also": other quotes that do); of kind "none" are questions that it does not answer. `docs/` are its pages,
and `chats/NAME.txt` its conversations, a message a line: `[2031-03-04 09:12] Ana > Ben: text`. `turns.jsonl` has
chats of two questions, `first` and `second`, each with its quote. All of a folder is one collection.

A passage holds a quote if four fifths of its words stand there in a row; a mark is right if it shares half of the
shorter of both. The first passage counts also where it is only shown as the closest one.
"""

import argparse
import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import SequenceMatcher
from pathlib import Path
from statistics import fmean
from typing import Any

from clew import Answer, Engine, Message, Settings
from clew.core.settings import EmbedderConfig, SearchConfig
from clew.query.answer.question import is_question
from studies.sets import read_jsonl
from studies.support.measures import expected_calibration_error, measure_auc

HELD, MARKED = 0.8, 0.5  # shares of a quote's words that a passage must hold, and a mark
NONE = "none"
SHARES = ("is_first", "is_among", "is_marked", "is_found")
_MESSAGE = re.compile(r"\[(\d{4}-\d\d-\d\d[ T]\d\d:\d\d)\] ([^:>]+?)(?: > ([^:]+))?: (.*)")
_LINK = re.compile(r"\]\([^)\s]*(?:\s+\"[^\"]*\")?\)|<https?://[^>]*>")


@dataclass(frozen=True, slots=True)
class Quoted:
    """A question, and what came of it."""

    kind: str
    is_found: bool
    is_first: bool
    is_among: bool
    is_marked: bool
    shows_question: bool
    confidence: float
    words: int
    seconds: float


def open_material(folder: Path, settings: Settings) -> Engine:
    """A collection of the pages and conversations of a folder."""
    engine = Engine.open(":memory:", settings=settings)
    if (folder / "docs").is_dir():
        engine.add(folder / "docs")
    for path in sorted((folder / "chats").glob("*.txt")):
        engine.add_messages(read_chat(path))
    return engine


def read_chat(path: Path) -> list[Message]:
    """The messages of a conversation; a line without an author belongs to the message before it."""
    found: list[Message] = []
    for line in path.read_text("utf-8").splitlines():
        if match := _MESSAGE.match(line):
            at, author, asked, text = match.groups()
            parent = next((each.id for each in reversed(found) if asked and each.author == asked.strip()), None)
            moment = datetime.fromisoformat(at).replace(tzinfo=UTC)
            name = f"{path.stem}/{len(found)}"
            found.append(Message(text, author.strip(), moment, id=name, channel=path.stem, reply_to=parent))
        elif found and line.strip():
            found[-1] = replace(found[-1], text=f"{found[-1].text}\n{line}")
    return found


def ask_questions(engine: Engine, rows: Sequence[dict[str, Any]]) -> Iterator[Quoted]:
    """Asks each question."""
    for row in rows:
        yield judge(engine, row["kind"], row["question"], list_quotes(row))


def ask_turns(engine: Engine, rows: Sequence[dict[str, Any]]) -> Iterator[Quoted]:
    """Asks the second question of each chat after the first and its answer."""
    for row in rows:
        first, second = row["first"], row["second"]
        answer = engine.ask(first["question"])
        said = (Message(first["question"], role="user"), Message(answer.text, role="assistant"))
        kind = "second turn, follow-up" if row.get("followup", True) else "second turn, another subject"
        yield judge(engine, kind, second["question"], list_quotes(second), history=said)


def list_quotes(row: dict[str, Any]) -> list[str]:
    """The quotes that answer a question; those beside the first may be texts or objects with one."""
    also = [each["quote"] if isinstance(each, dict) else each for each in row.get("also") or ()]
    return [quote for quote in (row.get("quote") or "", *also) if quote]


def judge(
    engine: Engine, kind: str, question: str, quotes: Sequence[str], *, history: Sequence[Message] = ()
) -> Quoted:
    """Asks a question and judges the answer."""
    begun = time.process_time()
    answer = engine.ask(question, history=history)
    seconds = time.process_time() - begun
    held = [any(share_words(quote, part.passage) >= HELD for quote in quotes) for part in answer.parts]
    return Quoted(
        kind,
        is_found=answer.found,
        is_first=any(held[:1]),
        is_among=any(held),
        is_marked=any(held[:1]) and any(is_marked(quote, answer) for quote in quotes),
        shows_question=answer.found and is_question(answer.parts[0].chosen),
        confidence=answer.confidence,
        words=len(answer.parts[0].passage.split()) if answer.parts else 0,
        seconds=seconds,
    )


def is_marked(quote: str, answer: Answer) -> bool:
    """Whether the mark of the first passage and a quote share half of the shorter of both."""
    chosen = answer.parts[0].chosen
    return max(share_words(quote, chosen), share_words(chosen, quote)) >= MARKED


def share_words(quote: str, text: str) -> float:
    """The share of the words of a quote that stand in a text in a row."""
    wanted, words = split_words(quote), split_words(text)
    found = SequenceMatcher(None, wanted, words, autojunk=False).find_longest_match()
    return found.size / max(len(wanted), 1)


def split_words(text: str) -> list[str]:
    """The words of a text without marks and the targets of links."""
    return re.findall(r"\w+", _LINK.sub(" ", text).casefold())


def make_rows(judged: Sequence[Quoted]) -> Iterator[str]:
    """The rows of the table, by kind."""
    columns = ("n", "first, %", "of three, %", "mark, %", "found, %", "shows a question", "words", "seconds")
    yield f"| kind | {' | '.join(columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    asked = [each for each in judged if each.kind != NONE]
    groups = {kind: [each for each in judged if each.kind == kind] for kind in dict.fromkeys(e.kind for e in judged)}
    for kind, some in {**groups, "all that are answered": asked}.items():
        if some:
            shares = [fmean(getattr(each, name) for each in some) for name in SHARES]
            yield (
                f"| {kind} | {len(some)} | {' | '.join(f'{100 * share:.1f}' for share in shares)} "
                f"| {sum(each.shows_question for each in some)} | {fmean(each.words for each in some):.0f} "
                f"| {fmean(each.seconds for each in some):.2f} |"
            )


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="studies.quoted", description="Passages quoted without a language model.")
    parser.add_argument("folders", type=Path, nargs="+", help="folders of material")
    parser.add_argument("--every", type=int, default=1, help="ask only every so many-th question")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    parser.add_argument("--out", type=Path, help="a file for what was asked and shown, as lines of JSON")
    given = parser.parse_args(arguments)
    settings = Settings(
        embedder=EmbedderConfig(name=given.embedder, cache=given.cache), search=SearchConfig(mode="exact")
    )
    judged: list[Quoted] = []
    for folder in given.folders:
        with open_material(folder, settings) as engine:
            judged += ask_questions(engine, list(read_jsonl(folder / "questions.jsonl"))[:: given.every])
            if (folder / "turns.jsonl").is_file():
                judged += ask_turns(engine, list(read_jsonl(folder / "turns.jsonl"))[:: given.every])
    for row in make_rows(judged):
        print(row, flush=True)
    labels, chances = [each.is_first for each in judged], [each.confidence for each in judged]
    print(
        f"\nconfidence as the chance that the first passage answers: AUC {measure_auc(chances, labels):.3f}, "
        f"calibration error {expected_calibration_error(chances, labels):.3f}"
    )
    if given.out:
        lines = [json.dumps({name: getattr(each, name) for name in Quoted.__slots__}) for each in judged]
        given.out.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
