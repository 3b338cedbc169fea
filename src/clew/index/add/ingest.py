"""The write path as the engine calls it: files become sources, settings a recipe, and every call is paid for."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from clew.core.cost import CostBudget, Price, price_of
from clew.core.errors import NotFound, SourceError
from clew.core.ids import document_id
from clew.core.metered import MeteredEmbedder, MeteredLLM
from clew.core.protocols import LLM, Embedder, Store
from clew.core.report import Failure, OnProgress, Plan, Report
from clew.core.settings import Settings
from clew.core.thread import first_chunk
from clew.core.types import Document, DocumentRecord, Message
from clew.index.add import backfill, pipeline
from clew.index.add.chats import may_be_chat, thread_sources
from clew.index.add.files import find
from clew.index.add.plan import Estimating, plan
from clew.index.add.prepare import Source
from clew.index.add.recipe import recipe, summarise
from clew.index.chat import Export, export_of
from clew.index.read import read
from clew.index.read.address import uri_of
from clew.index.read.given import prepared
from clew.index.read.source import stamp
from clew.index.read.web.fetch import page
from clew.index.thread import incremental as live

Sources = Iterable[Source | SourceError]


@dataclass(frozen=True, slots=True)
class Desk:
    """What the write path works with; addresses of files start from `root`."""

    store: Store
    embedder: Embedder
    llm: LLM | None
    settings: Settings
    root: Path

    def purse(self, limit: float | None = None) -> CostBudget:
        """An empty account at the prices of the settings."""
        prices = {self.embedder.name: Price(self.settings.embedder.price)}
        if self.llm:
            prices[self.llm.name] = price_of(self.settings.llm, self.llm.name)
        return CostBudget(prices, limit)


def add_places(
    desk: Desk, places: Sequence[str | Path], *, sync: bool, max_cost: float | None, watch: OnProgress | None
) -> Report:
    """What was added of files, folders and web pages, and with `sync` how many vanished documents were dropped."""
    notes: list[Failure] = []
    total = _total(places) if watch else None
    report = add(desk, _sources(desk, places, notes), total=total, max_cost=max_cost, watch=watch)
    report = replace(report, noted=(*report.noted, *notes))
    gone = vanished(desk, places) if sync and not report.stopped else []
    return replace(report, dropped=desk.store.drop([each.id for each in gone]) if gone else 0)


def add_documents(
    desk: Desk, documents: Iterable[Document], *, max_cost: float | None, watch: OnProgress | None
) -> Report:
    """What was added of documents that a program made."""
    sources = (Source(each.id, each.uri or each.id, partial(prepared, each)) for each in documents)
    return add(desk, sources, total=None, max_cost=max_cost, watch=watch)


def add_messages(desk: Desk, messages: Iterable[Message]) -> Report:
    """What was added of messages that a program hands over as they are written."""
    purse = desk.purse()
    embedder = MeteredEmbedder(desk.embedder, purse)
    report = live.add_messages(messages, store=desk.store, embedder=embedder, settings=desk.settings)
    return replace(report, cost=purse.spent)


def drop_messages(desk: Desk, ids: Sequence[str]) -> int:
    """How many messages were taken out of their threads."""
    stored = desk.store.chunks_by_id([first_chunk(name) for name in ids])
    homes: dict[str, set[str]] = {}
    for name in ids:
        chunk = stored.get(first_chunk(name))
        if chunk is None:
            raise NotFound(f"there is no message {name!r} in this collection; a hit names its message in its meta")
        homes.setdefault(chunk.doc_id, set()).add(name)
    made = recipe(desk.settings, embedder=desk.embedder, llm=None, store=desk.store, complain=lambda _: None)
    return sum(pipeline.take_out(doc_id, names, store=desk.store, recipe=made) for doc_id, names in homes.items())


def add(desk: Desk, sources: Sources, *, total: int | None, max_cost: float | None, watch: OnProgress | None) -> Report:
    """What was added of the sources, what it cost, and what the models failed at on the way."""
    purse = desk.purse(max_cost)
    noted: list[Failure] = []
    made = recipe(
        desk.settings,
        embedder=MeteredEmbedder(desk.embedder, purse),
        llm=MeteredLLM(desk.llm, purse) if desk.llm else None,
        store=desk.store,
        complain=noted.append,
    )
    try:
        report = pipeline.add(sources, store=desk.store, recipe=made, total=total, watch=watch)
    finally:
        desk.store.flush()
    return replace(report, noted=tuple(noted), cost=purse.spent)


def plan_places(desk: Desk, places: Sequence[str | Path], *, sync: bool) -> Plan:
    """What adding the files, folders and web pages would do; nothing is asked or stored."""
    model = Estimating(desk.llm) if desk.llm else None
    return plan(
        _sources(desk, places),
        store=desk.store,
        recipe=recipe(
            desk.settings,
            embedder=desk.embedder,
            llm=model,
            store=desk.store,
            complain=lambda _: None,
        ),
        model=model,
        purse=desk.purse(),
        vanished=[each.uri for each in vanished(desk, places)] if sync else (),
    )


def fill(desk: Desk, *, max_cost: float | None, watch: OnProgress | None) -> Report:
    """Which documents without a summary were given one."""
    purse = desk.purse(max_cost)
    noted: list[Failure] = []
    llm = MeteredLLM(desk.llm, purse) if desk.llm else None
    report = backfill.backfill(
        store=desk.store,
        embedder=MeteredEmbedder(desk.embedder, purse),
        summarise=partial(summarise, llm=llm, complain=noted.append),
        watch=watch,
    )
    desk.store.flush()
    return replace(report, noted=tuple(noted), cost=purse.spent)


def vanished(desk: Desk, places: Sequence[str | Path]) -> list[DocumentRecord]:
    """The documents whose files stood below one of the folders and are there no more.

    Only what was read from a file has a stamp; what a program made is never taken for a file that is gone.
    """
    paths = [Path(place) for place in places if not is_web(place)]
    folders = [f"{uri_of(path, desk.root)}/".removeprefix("./") for path in paths if path.is_dir()]
    return [
        each
        for each in desk.store.documents()
        if each.stamp and any(each.uri.startswith(folder) for folder in folders) and not (desk.root / each.uri).exists()
    ]


def is_web(place: str | Path) -> bool:
    """Whether a place is the address of a web page, not a path."""
    return isinstance(place, str) and place.lower().startswith(("http://", "https://"))


def _total(places: Sequence[str | Path]) -> int | None:
    """How many documents will be read; None where a chat is among them, whose threads are not counted before."""
    count = sum(1 for place in places if is_web(place))
    for path in find([Path(place) for place in places if not is_web(place)]):
        if isinstance(path, Path) and may_be_chat(path) and _export(path):
            return None
        count += 1
    return count


def _sources(
    desk: Desk, places: Sequence[str | Path], notes: list[Failure] | None = None
) -> Iterator[Source | SourceError]:
    limit = desk.settings.ingestion.max_file_bytes
    for place in dict.fromkeys(str(place) for place in places if is_web(place)):
        reader = partial(page, place, allow_private=desk.settings.ingestion.allow_private)
        yield Source(document_id(place), place, reader)
    for path in find([Path(place) for place in places if not is_web(place)]):
        if isinstance(path, SourceError):
            yield path
        elif may_be_chat(path) and (export := _export(path)):
            if isinstance(export, SourceError):
                yield export
            else:
                yield from thread_sources(export, desk.settings.threads, notes)
        else:
            uri = uri_of(path, desk.root)
            yield Source(document_id(uri), uri, partial(read, path, uri=uri, max_bytes=limit), stamp(path))


def _export(path: Path) -> Export | SourceError | None:
    """The chat export at a path, or what is wrong with it."""
    try:
        return export_of(path)
    except SourceError as error:
        return error
