"""`python -m studies.locomo --data FOLDER`: do earlier messages and thread smoothing improve the retrieval of messages?

LoCoMo: recall of a question's evidence among the first 5, 10 and 25 messages of its chat. With `--qmsum`, where
stretches of a meeting answer a question: the share of their words in the turns that fill a sixth of the meeting. A
message is embedded with its author, date and channel; "context" indexes the words of the messages before it, "flow"
smooths scores along the thread. The default is hybrid with both. No choice was made on LoCoMo alone: `human_chats` has
questions on chats that people wrote.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from clew import Engine, Filter, Settings, drivers
from clew.core.protocols import Embedder
from clew.core.settings import EmbedderConfig, FlowConfig, SearchConfig, ThreadConfig
from studies.measures import bootstrap, recall_at
from studies.sets import report_missing_set
from studies.threads import ThreadQuestion, ThreadSet, load_locomo, load_qmsum

DEPTHS = (5, 10, 25)
BUDGET = 6  # the words of a meeting are divided by this
SETTINGS = Settings(search=SearchConfig(mode="exact", cache=0))
PUBLISHED = "| published: DRAGON, turns | 56.7 | 66.2 | 76.7 | |"
STRATEGIES = ("lexical", "semantic", "hybrid")
Values = dict[str, list[float]]  # each measure, question by question
Measure = Callable[[Engine, ThreadQuestion, ThreadSet, str, Settings], Values]  # of a question with a strategy


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant of the design: with or without earlier messages, with or without thread smoothing."""

    name: str
    context: bool
    flow: bool

    @property
    def settings(self) -> Settings:
        threads = SETTINGS.threads if self.context else ThreadConfig(before=0)
        return replace(SETTINGS, threads=threads, flow=SETTINGS.flow if self.flow else FlowConfig(reach=0))


VARIANTS = (
    Variant("message alone", context=False, flow=False),
    Variant("with flow", context=False, flow=True),
    Variant("with context", context=True, flow=False),
    Variant("with context and flow", context=True, flow=True),
)


def measure_evidence(
    engine: Engine, question: ThreadQuestion, talks: ThreadSet, strategy: str, settings: Settings
) -> Values:
    """The recall of the evidence at each depth."""
    del talks
    found = rank_messages(engine, question, strategy, settings, max(DEPTHS))
    return {f"R@{depth}": [recall_at(depth, found, question.gold)] for depth in DEPTHS}


def measure_span_words(
    engine: Engine, question: ThreadQuestion, talks: ThreadSet, strategy: str, settings: Settings
) -> Values:
    """The share of the words of the gold turns in the best turns that fill a sixth of the meeting."""
    words = talks.words[question.channel]
    words_left = sum(words.values()) / BUDGET
    held = 0
    for name in rank_messages(engine, question, strategy, settings, len(words)):
        words_left -= words[name]
        if words_left < 0:
            break
        held += words[name] if name in question.gold else 0
    wanted = sum(words[name] for name in question.gold)
    return {"span words": [held / wanted if wanted else 1.0]}


def measure_variants(
    talks: ThreadSet,
    embedder: Embedder,
    strategies: Sequence[str],
    *,
    variants: Sequence[Variant] = VARIANTS,
    measure: Measure = measure_evidence,
) -> Iterator[tuple[str, Variant, Values]]:
    """The measures of every question, by strategy and variant."""
    found: dict[tuple[str, Variant], Values] = {}
    for context in (False, True):
        chosen = [variant for variant in variants if variant.context == context]
        if not chosen:
            continue
        with Engine.open(":memory:", embedder=embedder, settings=chosen[0].settings) as engine:
            engine.add_documents(talks.documents)
            for strategy in strategies:
                for variant in chosen:
                    values: Values = {}
                    for question in talks.questions:
                        for name, value in measure(engine, question, talks, strategy, variant.settings).items():
                            values.setdefault(name, []).extend(value)
                    found[strategy, variant] = values
    for strategy in strategies:
        for variant in variants:
            yield strategy, variant, found[strategy, variant]


def make_rows(found: Iterator[tuple[str, Variant, Values]]) -> Iterator[str]:
    """The rows of the table; the lead is over the first variant of the same strategy, by the middle measure."""
    first: tuple[str, Mapping[str, list[float]]] = "", {}
    for number, (strategy, variant, values) in enumerate(found):
        measure = list(values)[len(values) // 2]
        if not number:
            yield f"| | {' | '.join(values)} | lead of {measure} over the first of the strategy |"
            yield "|---" * (2 + len(values)) + "|"
        fresh = strategy != first[0]
        if fresh:
            first = strategy, values
        cells = " | ".join(f"{100 * fmean(each):.1f}" for each in values.values())
        lead = "" if fresh else str(bootstrap(values[measure], first[1][measure]))
        default = ", the default" if (strategy, variant) == ("hybrid", VARIANTS[-1]) else ""
        yield f"| {strategy}, {variant.name}{default} | {cells} | {lead} |"


def rank_messages(engine: Engine, question: ThreadQuestion, strategy: str, settings: Settings, k: int) -> list[str]:
    """The messages found in the channel of a question, each once, best first."""
    where = Filter(channels={question.channel})
    hits = engine.search(question.text, k=k, strategy=strategy, where=where, settings=settings)
    return list(dict.fromkeys(str(hit.chunk.meta["message"]) for hit in hits))


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        prog="studies.locomo", description="Retrieval of messages with and without their context."
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds locomo and qmsum")
    parser.add_argument("--qmsum", action="store_true", help="the meetings of QMSum's val instead of LoCoMo's chats")
    parser.add_argument("--talks", type=int, default=None, help="use only the first so many chats or meetings")
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--context-only", action="store_true", help="skip the variants without earlier messages")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    given = parser.parse_args(arguments)
    talks = (load_qmsum if given.qmsum else load_locomo)(given.data, max_talks=given.talks)
    strategies = given.strategies.split(",")
    variants = [variant for variant in VARIANTS if variant.context or not given.context_only]
    embedder = drivers.make_embedder(EmbedderConfig(name=given.embedder, cache=given.cache))
    messages = sum(len(each) for each in talks.words.values())
    print(
        f"{len(talks.questions)} questions, {len(talks.words)} talks, {messages} messages, {embedder.name}", flush=True
    )
    measure = measure_span_words if given.qmsum else measure_evidence
    for row in make_rows(measure_variants(talks, embedder, strategies, variants=variants, measure=measure)):
        print(row, flush=True)
    if not given.qmsum and given.talks is None:
        print(PUBLISHED)


if __name__ == "__main__":
    main()
