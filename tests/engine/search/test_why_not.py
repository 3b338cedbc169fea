"""why_not through the engine: losses are planted at every stage, and each must be named and mended."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path

import pytest

from clew import Document, Engine, Extensions, Filter, Message, Settings
from clew.core.explanation import WhyNot
from clew.core.filter import EVERYTHING
from clew.core.protocols import Strategy
from clew.core.settings import DEFAULTS, ContextConfig, ConversationConfig, MergerConfig, SearchConfig
from clew.core.types import Hit, Query
from clew.query.rank.dedupe import limit_per_document
from clew.query.search.compose import pipe
from clew.query.search.strategies import Drivers, StrategyFactory, hybrid
from clew.query.why import replace_setting
from tests.soak import choose_runs

PLANTED = choose_runs(few=60, many=200)
TOPICS = ("anchor", "beacon", "cable", "derrick", "engine", "fender", "galley", "hawser", "inlet", "jetty")
FILL = "notes about upkeep and where the spare parts are kept on the quay near the shed "


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that a search cannot find, the stage that is to blame, and the search."""

    stage: str
    asked: str | Sequence[Message]
    target: str
    settings: Settings = DEFAULTS
    where: Filter = EVERYTHING
    tokens: int | None = None
    strategy: str | None = None


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents(pages())
        yield engine


def pages() -> Iterator[Document]:
    """Eight pages a topic, the earlier the more they speak of it; two long ones of two parts; and one odd word each."""
    for topic in TOPICS:
        for place in range(8):
            yield page(f"{topic}{place}", f"{topic} {topic}s " * (9 - place) + FILL + f"rare{topic}{place}. ")
        parts = [f"{topic} overhaul part {part}: " + f"{topic} refit " * 12 + FILL * 4 for part in range(2)]
        yield page(f"{topic}-long", "# Overhaul\n\n" + "\n\n".join(part * 2 for part in parts))


def page(name: str, text: str) -> Document:
    return Document(name, text, title=name, uri=f"{name}.md", meta={"shelf": "low"})


def chunks(engine: Engine, document: str) -> list[str]:
    return [chunk.id for chunk in engine.opened.store.chunks(document)]


def never_added(engine: Engine, n: int, folder: Path) -> Loss:
    file = folder / f"new{n}.md"
    if n % 2:
        file.write_text("# Nobody has added this\n")
    return Loss("not ingested", "anchors", str(file))


def unreadable(engine: Engine, n: int, folder: Path) -> Loss:
    file = folder / f"broken{n}.pdf"
    file.write_bytes(b"%PDF-1.7 not really" + bytes([n]))
    return Loss("parse", "anchors", str(file))


def filtered(engine: Engine, n: int, folder: Path) -> Loss:
    wheres = (Filter(kinds={"thread"}), Filter(meta={"shelf": "high"}), Filter(documents={"anchor1"}))
    topic = TOPICS[n % 9 + 1]
    return Loss("filter", f"{topic} rare{topic}0", f"{topic}0", where=wheres[n % 3])


def below_the_floor(engine: Engine, n: int, folder: Path) -> Loss:
    topic = TOPICS[n % 10]
    settings = Settings(search=SearchConfig(min_similarity=0.99, k=10))
    return Loss("threshold", f"{topic} {topic}s", f"{topic}{n % 3 + 2}", settings, strategy="semantic")


def too_deep(engine: Engine, n: int, folder: Path) -> Loss:
    topic = TOPICS[n % 10]
    if n % 2:
        return Loss("depth", f"{topic} {topic}s", f"{topic}6", Settings(search=SearchConfig(k=2, depth=2)))
    return Loss("depth", f"{topic} {topic}s", f"{topic}5", Settings(search=SearchConfig(k=2)), strategy="lexical")


def fused_away(engine: Engine, n: int, folder: Path) -> Loss:
    """Found by its rare word at once, and by meaning late; with meaning alone in the balance it loses."""
    topic = TOPICS[n % 10]
    settings = Settings(search=SearchConfig(k=2, semantic_weight=1.0))
    return Loss("fusion", f"{topic} {topic}s {topic} {topic}s rare{topic}7", f"{topic}7", settings)


def one_of_a_document(engine: Engine, n: int, folder: Path) -> Loss:
    topic = TOPICS[n % 10]
    settings = Settings(search=SearchConfig(k=10), conversation=ConversationConfig(single_below=0))
    said = [Message(f"{topic} overhaul refit", id=f"o{n}"), Message(f"{topic} refit overhaul part", id=f"p{n}")]
    kept = {hit.chunk.id for hit in engine.search(said, settings=settings)}
    return Loss("dedup", said, next(each for each in chunks(engine, f"{topic}-long") if each not in kept), settings)


def crowded_out(engine: Engine, n: int, folder: Path) -> Loss:
    """What says much the same as a better one gives its place to something new."""
    topic = TOPICS[n % 10]
    plain = ConversationConfig(order="score")
    settings = Settings(search=SearchConfig(k=4), conversation=replace(plain, mmr=0.2))
    said = [Message(f"{topic} {topic}s", id=f"m{n}")]
    diverse = {hit.chunk.doc_id for hit in engine.search(said, settings=settings)}
    by_score = engine.search(said, settings=replace(settings, conversation=plain))
    return Loss("diversity", said, next(h.chunk.doc_id for h in by_score if h.chunk.doc_id not in diverse), settings)


def behind_the_excerpt(engine: Engine, n: int, folder: Path) -> Loss:
    topic = TOPICS[n % 10]
    settings = Settings(
        context=ContextConfig(render="related_posts", k=20), merger=MergerConfig(max_merged_size=100_000)
    )
    return Loss("merge", f"{topic} overhaul refit", chunks(engine, f"{topic}-long")[-1], settings, tokens=50_000)


def over_budget(engine: Engine, n: int, folder: Path) -> Loss:
    topic = TOPICS[n % 10]
    return Loss("budget", f"{topic} {topic}s", f"{topic}{n % 4 + 2}", Settings(context=ContextConfig(k=30)), tokens=90)


PLANTS: tuple[Callable[[Engine, int, Path], Loss], ...] = (
    never_added,
    unreadable,
    filtered,
    below_the_floor,
    too_deep,
    fused_away,
    one_of_a_document,
    crowded_out,
    behind_the_excerpt,
    over_budget,
)


def asked(engine: Engine, loss: Loss, **given: object) -> WhyNot:
    settings = given.get("settings", loss.settings)
    assert isinstance(settings, Settings)
    where = given.get("where", loss.where)
    assert isinstance(where, Filter)
    return engine.why_not(
        loss.asked, loss.target, tokens=loss.tokens, strategy=loss.strategy, where=where, settings=settings
    )


def mended(engine: Engine, loss: Loss, answer: WhyNot) -> bool:
    """Whether the search finds it with the one setting that was suggested."""
    if answer.fix is None:
        return False
    if answer.fix.setting.startswith("where."):
        name = answer.fix.setting.removeprefix("where.")
        return asked(engine, loss, where=replace(loss.where, **{name: getattr(Filter(), name)})).stage == "found"
    if answer.fix.setting == "context.tokens":
        assert isinstance(answer.fix.value, int)
        return asked(engine, replace(loss, tokens=answer.fix.value)).stage == "found"
    settings = replace_setting(loss.settings, answer.fix.setting, answer.fix.value)
    return asked(engine, loss, settings=settings).stage == "found"


@pytest.mark.soak
@pytest.mark.slow
def test_planted_losses_are_named_and_mended(engine: Engine, tmp_path: Path) -> None:
    right, back, wrong = 0, 0, list[str]()
    mendable = 0
    for n, plant in enumerate(islice(cycle(PLANTS), PLANTED)):
        loss = plant(engine, n // len(PLANTS), tmp_path)
        answer = asked(engine, loss)
        right += answer.stage == loss.stage
        if answer.stage != loss.stage:
            wrong.append(f"{loss.stage} {n}: {answer}")
        if loss.stage in ("not ingested", "parse"):
            continue
        mendable += 1
        if mended(engine, loss, answer):
            back += 1
        else:
            wrong.append(f"not mended: {answer}")
    assert right >= 0.95 * PLANTED, "\n".join(wrong)
    assert back >= 0.90 * mendable, "\n".join(wrong)


def test_what_is_found_is_said_to_be(engine: Engine) -> None:
    assert str(engine.why_not("anchor anchors", "anchor0")).startswith("anchor0: found\n  it is hit ")
    shown = engine.why_not("anchor anchors", "anchor0.md", tokens=2000)
    assert (shown.stage, shown.reason[:16]) == ("found", "it is in passage")


def test_a_document_is_asked_for_by_its_title() -> None:
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents([Document("v", "Ten milligrams a day.", title="Velocarin dosing sheet", uri="v.md")])
        assert engine.why_not("milligrams", "velocarin dosing sheet").stage == "found"
        assert engine.why_not("milligrams", "Aspirin").stage == "not ingested"


def test_the_smallest_value_is_suggested(engine: Engine) -> None:
    """One less does not do."""
    settings = Settings(search=SearchConfig(k=2))
    answer = engine.why_not("anchor anchors", "anchor6", strategy="lexical", settings=settings)
    assert answer.fix is not None
    assert answer.fix.setting == "search.k"
    assert isinstance(answer.fix.value, int)
    found = [hit.chunk.doc_id for hit in engine.search("anchor anchors", k=answer.fix.value, strategy="lexical")]
    assert found.index("anchor6") == answer.fix.value - 1


def test_a_message_is_asked_for_by_its_id() -> None:
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_messages(
            Message(f"the winch of crane {n} squeaks", id=f"m{n}", channel="yard", author="Ann") for n in range(9)
        )
        answer = engine.why_not("crane 1 winch", "m7", k=1)
        assert answer.stage in ("depth", "fusion")
        assert answer.fix is not None
        assert engine.why_not("crane 1 winch", "m7", k=1, where=Filter(channels={"deck"})).stage == "filter"
        assert engine.why_not("crane 1 winch", "m99").stage == "not ingested"
        assert engine.why_not("crane 7 winch", "m7").stage == "found"


def test_a_document_in_which_nothing_can_be_read(engine: Engine) -> None:
    with Engine.open(":memory:", embedder="hashed") as own:
        own.add_documents([Document("blank", "", title="Blank")])
        assert own.why_not("anything", "blank").stage in ("parse", "not ingested")


def test_nothing_is_kept_or_changed(engine: Engine) -> None:
    before = engine.status()
    engine.why_not("anchor anchors", "beacon3", k=1)
    assert engine.status() == before


def test_what_no_depth_would_find_is_not_blamed_on_depth(engine: Engine) -> None:
    strict = Settings(search=SearchConfig(min_similarity=0.9, k=1))
    far = engine.why_not("anchor anchors", "jetty7", strategy="semantic", settings=strict)
    assert (far.stage, far.fix) == ("threshold", None)
    assert "below the minimum" in far.reason
    apart = engine.why_not("anchor anchors", "jetty7", strategy="lexical")
    assert (apart.stage, apart.fix) == ("depth", None)
    assert "needs a shared word" in apart.reason


def test_a_condition_is_shown_as_it_was_given(engine: Engine) -> None:
    lost = engine.why_not("anchor rareanchor0", "anchor0", where=Filter(kinds={"thread", "mail"}))
    assert str(lost.fix) == "where.kinds = anything (now mail, thread)"


class CountingReranker:
    """Scores by words in common, and counts the texts that it was given."""

    name = "counting"

    def __init__(self) -> None:
        self.read = 0

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        self.read += len(texts)
        return [sum(text.count(word) for word in query.split()) / len(text.split()) for text in texts]

    def calibrate(self, score: float) -> float:
        return min(score, 1.0)


@pytest.mark.parametrize("target", ["beacon3", "derrick7", "jetty-long", "anchor7"])
@pytest.mark.parametrize("tokens", [None, 120, 3000])
def test_trials_of_a_reranker_score_few_texts(target: str, tokens: int | None) -> None:
    reranker, settings = CountingReranker(), Settings(search=SearchConfig(candidates=8))
    asked = "the beacon refit and the anchor"
    with Engine.open(
        ":memory:", embedder="hashed", extensions=Extensions(reranker=reranker), settings=settings
    ) as engine:
        engine.add_documents(pages())
        engine.add_documents(page(f"more{n}", f"anchors and {n} other things. {FILL}") for n in range(150))
        lost = engine.why_not(asked, target, strategy="rerank", tokens=tokens)
        assert 0 < reranker.read < 80  # of the thousands in its trials
        assert lost.fix is not None or lost.stage == "found" or tokens
        if lost.fix is not None and tokens is None:
            assert lost.fix.setting == "search.k"
            assert isinstance(lost.fix.value, int)
            for k, found in ((lost.fix.value, True), (lost.fix.value - 1, False)):
                hits = engine.search(asked, k=k, strategy="rerank")
                assert (target in {hit.document.id for hit in hits}) is found


def drop_short(_: Query, hits: list[Hit]) -> list[Hit]:
    return [hit for hit in hits if len(hit.chunk.text) > 150]


def drop_all(_: Query, hits: list[Hit]) -> list[Hit]:
    return hits[:0]


def reverse(_: Query, hits: list[Hit]) -> list[Hit]:
    return hits[::-1]


def semantic(_: Query, hits: list[Hit]) -> list[Hit]:
    """A step that is called like a built-in ranking."""
    return [hit for hit in hits if len(hit.chunk.text) > 150]


def filter_untraced(drivers: Drivers) -> Strategy:
    """A strategy that filters on its own, outside of any step."""
    inner = hybrid(drivers)
    return lambda query: drop_short(query, inner(query))


def give_nothing(_: Drivers) -> Strategy:
    return lambda _: []


def own_strategies() -> dict[str, StrategyFactory]:
    return {
        "drop_short": lambda drivers: pipe(hybrid(drivers), drop_short),
        "lambda": lambda drivers: pipe(hybrid(drivers), lambda _, hits: [h for h in hits if len(h.chunk.text) > 150]),
        "drop_all": lambda drivers: pipe(hybrid(drivers), drop_all),
        "then_others": lambda drivers: pipe(hybrid(drivers), reverse, drop_short, reverse),
        "named_semantic": lambda drivers: pipe(hybrid(drivers), semantic),
        "one_each": lambda drivers: pipe(hybrid(drivers), limit_per_document(1)),
        "reverse": lambda drivers: pipe(hybrid(drivers), reverse),
        "untraced": filter_untraced,
        "nothing": give_nothing,
    }


@pytest.fixture(scope="module")
def own() -> Iterator[Engine]:
    with Engine.open(":memory:", embedder="hashed", extensions=Extensions(strategies=own_strategies())) as engine:
        engine.add_documents([page("short", "winch winch winch winch"), page("long", "winch " + FILL * 2)])
        engine.add_documents([page("both", "# Winch\n\n" + "\n\n".join("winch repair " * 90 for _ in range(2)))])
        yield engine


@pytest.mark.parametrize(
    ("strategy", "reason"),
    [
        ("drop_short", "step 'drop_short' removed it (its ranks: "),
        ("lambda", "step 1 removed it (its ranks: "),
        ("drop_all", "step 'drop_all' removed it (its ranks: "),
        ("then_others", "step 'drop_short' removed it (its ranks: "),
        ("named_semantic", "step 'semantic' removed it (its ranks: "),
        ("untraced", "the strategy removed it after step 'rank' (its ranks: "),
        ("nothing", "the strategy returned 0 hits without it, and records no steps to look into"),
    ],
)
def test_the_step_of_a_users_strategy_that_removed_the_target_is_named(own: Engine, strategy: str, reason: str) -> None:
    lost = own.why_not("winch", "short", strategy=strategy)
    assert (lost.stage, lost.fix) == ("step", None)
    assert lost.reason.startswith(reason)
    assert own.why_not("winch", "short", strategy="hybrid").stage == "found"
    if strategy not in ("drop_all", "nothing"):
        assert own.why_not("winch", "long", strategy=strategy).stage == "found"


def test_a_users_step_that_ranks_the_target_too_low_is_named(own: Engine) -> None:
    best = own.search("winch", k=1, strategy="hybrid")[0].chunk.doc_id
    lost = own.why_not("winch", best, k=1, strategy="reverse")
    assert lost.stage == "step"
    assert lost.reason.startswith("step 'reverse' ranked it too low, and only the first 1 hits were kept (its ranks: ")
    assert lost.fix is not None
    assert lost.fix.setting == "search.k"
    assert isinstance(lost.fix.value, int)
    assert best in {hit.chunk.doc_id for hit in own.search("winch", k=lost.fix.value, strategy="reverse")}


def test_a_built_in_step_in_a_users_strategy_keeps_its_stage(own: Engine) -> None:
    kept = {hit.chunk.id for hit in own.search("winch repair", strategy="one_each")}
    target = next(chunk for chunk in chunks(own, "both") if chunk not in kept)
    assert own.why_not("winch repair", target, strategy="one_each").stage == "dedup"
