"""The first half of the write path, for many sources: their records are looked up, and summaries asked for, in batches.

It yields one result per source, in order, and calls no model except the one that enriches and summarises, so that it
can run ahead of the embedder in a thread of its own.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import islice

from clew.core.errors import CostLimit, DriverFailed, SourceError
from clew.core.filter import Filter
from clew.core.parallel import prefetch
from clew.core.protocols import Store
from clew.core.report import SourceFailure
from clew.core.types import Document
from clew.index.add.prepare import (
    Given,
    Prepared,
    PrepareResult,
    Recipe,
    Source,
    Unchanged,
    explain_duplicate_id,
    has_stored_stamp,
    prepare_source,
)
from clew.index.enrich.summary import run_within_budget

Read = Callable[[], Document]
MAX_AHEAD = 1  # documents read before they are needed: one may be large
LOOKUP_BATCH = 64  # sources whose records are fetched together


def prepare_sources(sources: Iterable[Given], *, store: Store, recipe: Recipe) -> Iterator[PrepareResult]:
    """Prepares each source for storing (see `prepare_source`): one result per source, in order.

    What another process has prepared is passed on. A model is asked for several summaries at a time. Where the budget
    ends, the documents without one are left out.
    """
    waiting: list[PrepareResult] = []
    try:
        with closing(_prepare_each(sources, store, recipe)) as results:
            for result in results:
                waiting.append(result)
                wanting = sum(isinstance(each, Prepared) and each.wants_summary for each in waiting)
                if not wanting or len(waiting) >= LOOKUP_BATCH or _is_full(wanting, recipe):
                    batch, waiting = waiting, []
                    yield from _summarise_batch(batch, recipe)
    except CostLimit:
        yield from _summarise_batch(waiting, recipe)  # their contexts are paid for
        raise
    yield from _summarise_batch(waiting, recipe)


def _is_full(wanting: int, recipe: Recipe) -> bool:
    return recipe.summariser is not None and wanting >= recipe.summariser.max_concurrent


def _summarise_batch(batch: Sequence[PrepareResult], recipe: Recipe) -> Iterator[PrepareResult]:
    """The same results, with the summaries that are still wanted; CostLimit at the end if some were not paid for."""
    if not any(isinstance(each, Prepared) and each.wants_summary for each in batch):
        yield from batch
        return
    wanting = {
        position: each for position, each in enumerate(batch) if isinstance(each, Prepared) and each.wants_summary
    }
    calls = [partial(_summarise_or_warn, each, recipe) for each in wanting.values()]
    places = list(wanting)
    summarised: dict[int, Prepared] = {}
    limit: CostLimit | None = None
    at_once = recipe.summariser.max_concurrent if recipe.summariser else 1
    for number, made in run_within_budget(calls, max_concurrent=at_once):
        if isinstance(made, CostLimit):
            limit = made
        else:
            summarised[places[number]] = made
    for position, each in enumerate(batch):
        if position not in wanting:
            yield each
        elif position in summarised:
            yield summarised[position]
    if limit:
        raise limit


def _summarise_or_warn(prepared: Prepared, recipe: Recipe) -> Prepared:
    """The document with its summary; without one, and a warning, where the model failed."""
    assert recipe.summariser is not None
    try:
        summary = recipe.summariser.summarise(prepared.document)
    except DriverFailed as error:
        recipe.on_warning(SourceFailure(prepared.uri_or_id, f"no summary: {error}"))
        return replace(prepared, wants_summary=False, incomplete=True)
    return replace(prepared, wants_summary=False, summary=summary)


def _prepare_each(sources: Iterable[Given], store: Store, recipe: Recipe) -> Generator[PrepareResult, None, None]:
    remaining = iter(sources)
    seen: set[int] = set()
    error: BaseException | None = None
    while error is None:
        batch: list[Given] = []
        try:
            batch.extend(islice(remaining, LOOKUP_BATCH))
        except BaseException as raised:  # what came before it is prepared first
            error = raised
        if not batch:
            break
        ids = frozenset(source.id for source in batch if isinstance(source, Source))
        records = {record.id: record for record in store.documents(Filter(documents=ids))} if ids else {}
        results: list[Source | PrepareResult] = []
        for source in batch:
            if isinstance(source, SourceError):
                results.append(SourceFailure(source.source, source.reason))
            elif not isinstance(source, Source):
                results.append(source)
            elif hash(source.id) in seen:
                results.append(SourceFailure(source.uri, explain_duplicate_id(source)))
            else:
                seen.add(hash(source.id))
                is_unchanged = has_stored_stamp(source, records.get(source.id), recipe)
                results.append(Unchanged(source.uri, size=source.size) if is_unchanged else source)
        unread = [each.read for each in results if isinstance(each, Source) and not each.is_loaded]
        with closing(_read_ahead(unread)) as reads:
            for each in results:
                if isinstance(each, Source):
                    read = None if each.is_loaded else next(reads)
                    yield prepare_source(each, records.get(each.id), store, recipe, read=read)
                else:
                    yield each
    if error is not None:
        raise error


def _read_ahead(reads: Sequence[Read]) -> Generator[Read, None, None]:
    """A call for each of the calls, in order, which returns or raises at once what that did in another thread."""
    if len(reads) < 2:
        return (read for read in reads)
    return prefetch((_run(read) for read in reads), max_ahead=MAX_AHEAD)


def _run(read: Read) -> Read:
    try:
        document = read()
    except Exception as error:
        return partial(_raise, error)
    return lambda: document


def _raise(error: Exception) -> Document:
    raise error
