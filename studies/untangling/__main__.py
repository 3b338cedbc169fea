"""`python -m studies.untangling --data FOLDER [--train --out FILE]`: reply links in flat channels.

FOLDER holds the logs of irc-disentanglement. Prints how well the shipped weights, or those of --weights, find what each
message answers; with --train, trains new ones first and writes them to a file.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from clew.index.thread.untangle import REACH, untangle
from clew.index.thread.untangle.net import Net, loaded, shipped, written
from studies.sets import plainly
from studies.untangling.judge import by_net, by_rule, judged, kept, previous, rest_found
from studies.untangling.learn import train
from studies.untangling.logs import Log, anonymous, logs, marked, slowed, team_chat, uncalled, untimed

ROUNDS, SEED = 4, 1
# The same logs with less to go by: what only this kind of chat has is taken away.
ELSEWHERE: Mapping[str, Callable[[Log], Log]] = {
    "names at the end, marked": marked,
    "thirty times as slow": partial(slowed, factor=30),
    "no times": untimed,
    "nobody addressed": uncalled,
    "nobody addressed, no times": lambda log: untimed(uncalled(log)),
    "no authors": anonymous,
}


def link_rows(given: Sequence[Log], net: Net) -> Iterator[str]:
    """The table of reply links."""
    yield "| links | P | R | F |\n|---|---|---|---|"
    for name, linker in (("previous message", previous), ("rule", by_rule), ("clew", by_net(net))):
        yield _row(name, given, linker)
    yield _row("clew, system lines left out", given, by_net(net), system=False)
    for name, change in ELSEWHERE.items():
        yield _row(f"clew, {name}", [change(log) for log in given], by_net(net))
        if change is uncalled:
            yield _row(f"rule, {name}", [change(log) for log in given], by_rule)


def _row(name: str, given: Sequence[Log], linker: Callable[..., Sequence[int | None]], *, system: bool = True) -> str:
    found = judged(given, linker, system=system)
    return f"| {name} | {found.precision:.1f} | {found.recall:.1f} | {found.f:.1f} |"


def cost_rows(given: Sequence[Log], net: Net) -> Iterator[str]:
    """Milliseconds of processor time: a message of a whole log, and one new message after the last hundred."""
    start = time.process_time()
    for log in given:
        untangle(log.messages, net=net)
    whole = (time.process_time() - start) / sum(len(log.messages) for log in given)
    log, calls = given[0], range(REACH, REACH + 50)
    start = time.process_time()
    for place in calls:
        untangle(log.messages[place : place + 1], before=log.messages[place - REACH : place], net=net)
    one = (time.process_time() - start) / len(calls)
    yield f"{1000 * whole:.2f} ms a message, {1000 * one:.2f} ms for one new message after {REACH}"


def found_rows(given: Sequence[Log], net: Net) -> Iterator[str]:
    """The table of thread retrieval."""
    found = rest_found(given, {"flat BM25": None, "along the rule's links": by_rule, "along our links": by_net(net)})
    yield f"| the rest of {found.pop('queries'):.0f} conversations from their first message | R@10 |\n|---|---|"
    for name, value in found.items():
        yield f"| {name} | {value:.3f} |"


def sample_rows(folder: Path, net: Net) -> Iterator[str]:
    """The table of the sample chat: its flat stretches, then all of it with its threads hidden."""
    yield "| the sample chat | links right | openings found | F of pairs |\n|---|---|---|---|"
    for part, hidden in (("flat stretches", False), ("threads hidden", True)):
        channels = team_chat(folder, hidden=hidden)
        for name, linker in (("previous message", previous), ("rule", by_rule), ("clew", by_net(net))):
            all_of = kept(channels, linker)
            shares = f"{all_of.right}/{all_of.messages} | {all_of.opened}/{all_of.openings}"
            yield f"| {part}: {name} | {shares} | {100 * all_of.pairs:.1f} |"


@plainly
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(prog="studies.untangling", description="Reply links in flat channels.")
    parser.add_argument("--data", type=Path, required=True, help="the folder of irc-disentanglement")
    parser.add_argument("--train", action="store_true", help="train new weights first, which takes minutes")
    parser.add_argument("--out", type=Path, help="where to write them")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each log is seen")
    parser.add_argument("--logs", type=int, help="how many logs are trained on, at most")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--weights", type=Path, help="other weights than those that are shipped")
    parser.add_argument("--sample", type=Path, help="the folder of the sample, which holds chat and chat-threads.jsonl")
    given = parser.parse_args(arguments)
    if given.train and not given.out:
        parser.error("--train needs --out, the file to write the weights to")
    dev = logs(given.data, "dev")
    if given.train:
        begun = time.process_time()

        def tell(number: int, loss: float, net: Net) -> None:
            f = judged(dev, by_net(net)).f
            print(f"round {number}: loss {loss:.4f}, dev F {f:.2f}, {time.process_time() - begun:.0f} s", flush=True)

        trained = train(logs(given.data, "train")[: given.logs], rounds=given.rounds, seed=given.seed, tell=tell)
        given.out.write_text(written(trained), "utf-8")
    source = given.out if given.train else given.weights
    net = loaded(json.loads(source.read_text("utf-8"))) if source else shipped()
    for part in ("dev", "test", "new-domains"):
        if part == "dev" or (given.data / f"{part}.jsonl.gz").exists():
            read = dev if part == "dev" else logs(given.data, part)
            tables = (link_rows(read, net), cost_rows(read, net), found_rows(read, net))
            print(f"\n{part}: {len(read)} logs, {sum(map(len, (log.gold for log in read)))} annotated messages")
            for table in tables:
                print()
                for row in table:
                    print(row, flush=True)
    if given.sample:
        print()
        for row in sample_rows(given.sample, net):
            print(row, flush=True)


if __name__ == "__main__":
    main()
