"""`python -m studies.untangling --data FOLDER [--train --out FILE]`: reply links in flat channels.

FOLDER holds the logs of irc-disentanglement. Prints precision and recall of the reply links found with the shipped
weights, or those of --weights; with --train, trains new weights first and writes them to a file.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from clew.index.thread.untangle import ReplyNet, infer_reply_parents, load_default_net, parse_net_weights
from clew.index.thread.untangle.features import REACH
from studies.sets import report_missing_set
from studies.untangling.judge import (
    link_by_rule,
    link_to_previous,
    make_net_linker,
    measure_thread_recall,
    score_conversations,
    score_links,
)
from studies.untangling.learn import train
from studies.untangling.logs import (
    Log,
    load_logs,
    load_team_chat,
    move_names_to_end,
    remove_addressing,
    remove_authors,
    remove_times,
    slow_down,
)
from studies.untangling.weights import format_net_as_json

ROUNDS, SEED = 4, 1
# The same logs with fewer cues: what only this kind of chat has is removed.
VARIANTS: Mapping[str, Callable[[Log], Log]] = {
    "mentions at the end": move_names_to_end,
    "thirty times slower": partial(slow_down, factor=30),
    "no times": remove_times,
    "nobody addressed": remove_addressing,
    "nobody addressed, no times": lambda log: remove_times(remove_addressing(log)),
    "no authors": remove_authors,
}


def make_link_rows(given: Sequence[Log], net: ReplyNet) -> Iterator[str]:
    """The rows of the table of reply links."""
    yield "| links | P | R | F |\n|---|---|---|---|"
    for name, linker in (
        ("previous message", link_to_previous),
        ("rule", link_by_rule),
        ("clew", make_net_linker(net)),
    ):
        yield _make_row(name, given, linker)
    yield _make_row("clew, without system lines", given, make_net_linker(net), system=False)
    for name, change in VARIANTS.items():
        yield _make_row(f"clew, {name}", [change(log) for log in given], make_net_linker(net))
        if change is remove_addressing:
            yield _make_row(f"rule, {name}", [change(log) for log in given], link_by_rule)


def _make_row(
    name: str, given: Sequence[Log], linker: Callable[..., Sequence[int | None]], *, system: bool = True
) -> str:
    found = score_links(given, linker, include_system=system)
    return f"| {name} | {found.precision:.1f} | {found.recall:.1f} | {found.f:.1f} |"


def make_cost_rows(given: Sequence[Log], net: ReplyNet) -> Iterator[str]:
    """CPU milliseconds per message of a whole log, and for one new message after the last hundred."""
    start = time.process_time()
    for log in given:
        infer_reply_parents(log.messages, net=net)
    whole = (time.process_time() - start) / sum(len(log.messages) for log in given)
    log, calls = given[0], range(REACH, REACH + 50)
    start = time.process_time()
    for place in calls:
        infer_reply_parents(log.messages[place : place + 1], before=log.messages[place - REACH : place], net=net)
    one = (time.process_time() - start) / len(calls)
    yield f"{1000 * whole:.2f} ms per message, {1000 * one:.2f} ms for one new message after {REACH}"


def make_retrieval_rows(given: Sequence[Log], net: ReplyNet) -> Iterator[str]:
    """The rows of the table of thread retrieval."""
    found = measure_thread_recall(
        given, {"flat BM25": None, "along the rule's links": link_by_rule, "along our links": make_net_linker(net)}
    )
    yield f"| the rest of {found.pop('queries'):.0f} conversations from their first message | R@10 |\n|---|---|"
    for name, value in found.items():
        yield f"| {name} | {value:.3f} |"


def make_sample_rows(folder: Path, net: ReplyNet) -> Iterator[str]:
    """The rows of the table of the sample chat: its flat stretches, then all of it with its threads hidden."""
    yield "| the sample chat | links right | openings found | F of pairs |\n|---|---|---|---|"
    for part, hidden in (("flat stretches", False), ("threads hidden", True)):
        channels = load_team_chat(folder, hide_threads=hidden)
        for name, linker in (
            ("previous message", link_to_previous),
            ("rule", link_by_rule),
            ("clew", make_net_linker(net)),
        ):
            all_of = score_conversations(channels, linker)
            shares = f"{all_of.right}/{all_of.messages} | {all_of.opened}/{all_of.openings}"
            yield f"| {part}: {name} | {shares} | {100 * all_of.pairs:.1f} |"


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(prog="studies.untangling", description="Reply links in flat channels.")
    parser.add_argument("--data", type=Path, required=True, help="the folder of irc-disentanglement")
    parser.add_argument("--train", action="store_true", help="train new weights first, which takes minutes")
    parser.add_argument("--out", type=Path, help="the file to write the weights to")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how many times each log is used")
    parser.add_argument("--logs", type=int, help="train on at most so many logs")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--weights", type=Path, help="weights to use instead of the shipped ones")
    parser.add_argument("--sample", type=Path, help="the folder of the sample, which holds chat and chat-threads.jsonl")
    given = parser.parse_args(arguments)
    if given.train and not given.out:
        parser.error("--train needs --out, the file to write the weights to")
    dev = load_logs(given.data, "dev")
    if given.train:
        begun = time.process_time()

        def print_round(number: int, loss: float, net: ReplyNet) -> None:
            f = score_links(dev, make_net_linker(net)).f
            print(f"round {number}: loss {loss:.4f}, dev F {f:.2f}, {time.process_time() - begun:.0f} s", flush=True)

        trained = train(
            load_logs(given.data, "train")[: given.logs], rounds=given.rounds, seed=given.seed, on_round=print_round
        )
        given.out.write_text(format_net_as_json(trained), "utf-8")
    source = given.out if given.train else given.weights
    net = parse_net_weights(json.loads(source.read_text("utf-8"))) if source else load_default_net()
    for part in ("dev", "test", "new-domains"):
        if part == "dev" or (given.data / f"{part}.jsonl.gz").exists():
            read = dev if part == "dev" else load_logs(given.data, part)
            tables = (make_link_rows(read, net), make_cost_rows(read, net), make_retrieval_rows(read, net))
            print(f"\n{part}: {len(read)} logs, {sum(map(len, (log.gold for log in read)))} annotated messages")
            for table in tables:
                print()
                for row in table:
                    print(row, flush=True)
    if given.sample:
        print()
        for row in make_sample_rows(given.sample, net):
            print(row, flush=True)


if __name__ == "__main__":
    main()
