"""The verb that checks a collection and repairs it."""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

from clew.core.doctor import SEVERITIES, Defect, DoctorReport, Inspectable, Inspection, Remedy
from clew.core.errors import ClewError, SettingsError
from clew.core.protocols import Store
from clew.core.thread import THREAD_KIND
from clew.engine.add import calibrate, make_ingest_context
from clew.engine.doctor.health import inspect_health
from clew.engine.doctor.surroundings import inspect_surroundings, protect_files
from clew.index.add.pipeline import store_document
from clew.index.add.prepare import Prepared, Recipe
from clew.index.enrich.summary import Summariser, Summary

if TYPE_CHECKING:
    from clew.engine import Engine
    from clew.engine.opened import Opened

MAX_ROUNDS = 5  # of a repair
MAX_CHUNKS = 5000  # about so many are read unless `full`
_QUOTED = re.compile(r"'([^'\n]+)'")


def doctor(engine: "Engine", *, repair: bool = False, full: bool = False) -> DoctorReport:
    """Checks what is stored and returns what is wrong; `repair` makes right what can be made so.

    Of a large collection a random sample of the documents is read, another one each time, and all of them with `full`
    or `repair`; tables, counts and files are checked as a whole. One that others write to meanwhile may show a defect
    that is gone when it is checked again. What is derived is built again from the texts. A text that is sound is kept,
    whatever else of its document is damaged; only a text that is not, nor said by its chunks, is removed, and named.
    """
    opened, started = engine.opened, monotonic()
    opened.check_unbounded()
    store = opened.store
    if not isinstance(store, Inspectable):
        raise SettingsError("this store cannot be checked: it has no `inspect` and `repair`")
    defects, found = _examine(opened, store, full=full or repair)
    if repair:
        defects = _repair(engine, store, defects)
    named = [replace(each, problem=_name_documents(each, found.names)) for each in defects]
    named.sort(key=lambda each: SEVERITIES.index(each.severity))
    return DoctorReport(tuple(named), found.checked, monotonic() - started, found.is_sample)


def _repair(engine: "Engine", store: Inspectable, defects: list[Defect]) -> list[Defect]:
    """Repair until nothing else is found: a file first, and a repair may show what another defect hid."""
    done, left = dict[tuple[str, str], Defect](), defects
    for _ in range(MAX_ROUNDS):
        todo = [each for each in left if each.remedy == "copy"] or [each for each in left if each.remedy]
        if not todo:
            break
        store.repair(todo)
        with suppress(ClewError):  # what was to be removed may have been added anew meanwhile
            there = {each.id for each in engine.opened.store.documents()}
            todo = [each for each in todo if each.remedy != "remove" or each.document not in there]
        _rebuild(engine, todo)
        engine.opened.store.flush()
        done |= {(each.area, each.problem): each for each in todo}
        before, left = left, _examine(engine.opened, store, full=True)[0]
        if left == before:
            break
    return _compare(list(done.values()), left)


def _examine(opened: "Opened", store: Inspectable, *, full: bool) -> tuple[list[Defect], Inspection]:
    """Everything that is wrong, and what the store said."""
    found = store.inspect(max_chunks=None if full else MAX_CHUNKS)
    defects = list(found.defects)
    damaged = {each.document for each in defects if each.document}
    if found.checked:  # else nothing can be read
        defects += [each for each in _find_missing_summaries(opened) if each.document not in damaged]
        sound = [doc_id for doc_id in found.documents if doc_id not in damaged]
        defects += inspect_health(opened, random.sample(sound, len(sound)), full=full)
    return [*defects, *inspect_surroundings(opened)], found


def _compare(defects: Sequence[Defect], left: Sequence[Defect]) -> list[Defect]:
    """The defects as they are after a repair: what is not found any more is repaired, and what is new is added."""
    problems = {(each.area, each.problem) for each in left}
    known = {(each.area, each.problem) for each in defects}
    now = [replace(each, is_repaired=(each.area, each.problem) not in problems) for each in defects]
    return now + [each for each in left if (each.area, each.problem) not in known]


def _rebuild(engine: "Engine", defects: Sequence[Defect]) -> None:
    """Makes again what a store cannot: chunks, summaries, the calibration, and who may read its files."""
    opened = engine.opened
    context = make_ingest_context(opened, None)
    recipe = context.make_recipe(embedder=opened.embedder, llm=None, on_warning=lambda _: None)
    for doc_id in dict.fromkeys(each.document for each in defects if each.remedy in ("rechunk", "keep")):
        with suppress(ClewError):
            _rebuild_chunks(doc_id, store=opened.store, recipe=recipe)
    kept = {each.document for each in defects if each.remedy == "keep"}
    bare = [each for each in _find_missing_summaries(opened) if each.remedy or each.document in kept]
    for doc_id in dict.fromkeys(each.document for each in (*defects, *bare) if _is_of_summary(each)):
        with suppress(ClewError):
            _rebuild_summary(doc_id, store=opened.store, recipe=recipe)
    if any(each.area == "calibration" and each.remedy for each in defects):
        with suppress(ClewError):
            calibrate(engine)
    if opened.folder and any(each.remedy == "protect" for each in defects):
        with suppress(OSError):
            protect_files(opened.folder)


def _rebuild_chunks(doc_id: str, *, store: Store, recipe: Recipe) -> None:
    """Cuts and embeds a stored document again and replaces its chunks; its summary stays, with its vector."""
    document = store.document(doc_id)
    summary = Summary(document.summary, document.summary_by)
    prepared = Prepared(document, recipe.chunker(document), summary=summary)
    store_document(prepared, {}, store, recipe, instead_of=document.text)
    store.embed_pending(recipe.embedder, documents=[doc_id])


def _rebuild_summary(doc_id: str, *, store: Store, recipe: Recipe) -> None:
    """Embeds the stored summary of a document again; one that has none gets an extract of its text."""
    document = store.document(doc_id)
    made = Summary(document.summary, document.summary_by)
    summary = made if made.text else Summariser().summarise(document)
    store.summarise(doc_id, summary.text, by=summary.by, expected_text=document.text)
    store.embed_pending(recipe.embedder, documents=[doc_id])


def _is_of_summary(defect: Defect) -> bool:
    return defect.area == "summaries" or (defect.area == "embeddings" and defect.remedy == "rebuild")


def _name_documents(defect: Defect, names: Mapping[str, str]) -> str:
    """The problem of a defect with its documents named as a person knows them: by address or title."""
    problem = _QUOTED.sub(lambda found: repr(names[found[1]]) if found[1] in names else found[0], defect.problem)
    name = repr(names.get(defect.document, ""))
    return problem if defect.document not in names or name in problem else f"{problem} (in {name})"


def _find_missing_summaries(opened: "Opened") -> Iterator[Defect]:
    """The pages without a summary, of a collection whose settings ask for one."""
    if opened.settings.ingestion.summaries == "none":
        return
    remedy: Remedy = "" if opened.settings.ingestion.summaries == "llm" else "rebuild"
    with suppress(ClewError):  # named already
        for each in opened.store.documents():
            if each.kind != THREAD_KIND and each.chunks and not each.summary:
                problem = f"the document {each.id!r} has no summary"
                yield Defect("summaries", problem, each.id, remedy, next_step="" if remedy else "run `clew backfill`")
