"""The verb that checks a collection and repairs it."""

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

from clew.core.doctor import SEVERITIES, Defect, DoctorReport, Inspectable, Inspection, Remedy
from clew.core.errors import ClewError, SettingsError
from clew.core.thread import THREAD_KIND
from clew.engine.add import calibrate, make_ingest_context
from clew.engine.doctor.health import Sample, inspect_health
from clew.engine.doctor.models import inspect_models
from clew.engine.doctor.surroundings import inspect_surroundings, protect_files
from clew.index.add.prepare import Recipe
from clew.index.add.rebuild import rebuild_chunks, rebuild_summary

if TYPE_CHECKING:
    from clew.engine import Engine
    from clew.engine.opened import Opened

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
    defects, inspection = _examine(opened, store, full=full or repair)
    names = {**_list_names(opened), **inspection.names} if defects else {}
    if repair and defects:
        store.repair(defects)
        defects = [each for each in defects if each.remedy != "remove" or not _is_whole(opened, each.document)]
        recipe = make_ingest_context(opened, None).make_recipe(
            embedder=opened.embedder, llm=None, on_warning=lambda _: None
        )
        defects = [_repair(engine, recipe, defect) for defect in defects]
        store.flush()
        left, _ = _examine(opened, store, full=True)
        problems = {(each.area, each.problem) for each in left}
        defects = [
            replace(each, is_repaired=each.is_repaired and (each.area, each.problem) not in problems)
            for each in defects
            if each.remedy
        ]
        known = {(each.area, each.problem) for each in defects}
        defects += [each for each in left if (each.area, each.problem) not in known]
    named = [replace(each, problem=_name_documents(each, names)) for each in defects]
    named.sort(key=lambda each: SEVERITIES.index(each.severity))
    return DoctorReport(tuple(named), inspection.checked, monotonic() - started, inspection.is_sample)


def _examine(opened: "Opened", store: Inspectable, *, full: bool) -> tuple[list[Defect], Inspection]:
    """Everything that is wrong, and what the store said."""
    found = store.inspect(max_chunks=None if full else MAX_CHUNKS)
    defects = list(found.defects)
    damaged = {each.document for each in defects if each.document}
    if found.checked:  # else nothing can be read
        defects += _find_missing_summaries(opened, damaged)
        sound = [doc_id for doc_id in found.documents if doc_id not in damaged]
        sample = Sample()
        defects += inspect_health(opened, random.sample(sound, len(sound)), sample)
        defects += inspect_models(opened, sample.stored, full=full)
    defects += inspect_surroundings(opened)
    return defects, found


def _list_names(opened: "Opened") -> dict[str, str]:
    """The address or title of each document by its id, as far as they can be read."""
    try:
        return {each.id: each.uri or each.title for each in opened.store.documents() if each.uri or each.title}
    except ClewError:
        return {}


def _is_whole(opened: "Opened", doc_id: str) -> bool:
    """Whether a document can be read: one that was damaged, and that another process has written anew."""
    try:
        opened.store.document(doc_id)
    except ClewError:
        return False
    return True


def _name_documents(defect: Defect, names: Mapping[str, str]) -> str:
    """The problem of a defect with its documents named as a person knows them: by address or title."""
    problem = _QUOTED.sub(lambda found: repr(names[found[1]]) if found[1] in names else found[0], defect.problem)
    name = repr(names.get(defect.document, ""))
    return problem if defect.document not in names or name in problem else f"{problem} (in {name})"


def _find_missing_summaries(opened: "Opened", damaged: set[str]) -> Iterator[Defect]:
    """The pages without a summary, of a collection whose settings ask for one."""
    if opened.settings.ingestion.summaries == "none":
        return
    try:
        records = list(opened.store.documents())
    except ClewError:  # named already
        return
    remedy: Remedy = "" if opened.settings.ingestion.summaries == "llm" else "summarise"
    for each in records:
        if each.kind != THREAD_KIND and each.chunks and not each.summary and each.id not in damaged:
            problem = f"the document {each.id!r} has no summary"
            yield Defect("summaries", problem, each.id, remedy, next_step="" if remedy else "run `clew backfill`")


def _summarise_page(opened: "Opened", recipe: Recipe, doc_id: str) -> None:
    """Gives a page a summary that has lost its own."""
    if opened.store.document(doc_id).kind != THREAD_KIND:
        rebuild_summary(doc_id, store=opened.store, recipe=recipe)


def _repair(engine: "Engine", recipe: Recipe, defect: Defect) -> Defect:
    """The defect, repaired if it could be."""
    opened = engine.opened
    try:
        if defect.remedy in ("rechunk", "keep"):
            rebuild_chunks(defect.document, store=opened.store, recipe=recipe)
            if defect.remedy == "keep" and opened.settings.ingestion.summaries != "none":
                _summarise_page(opened, recipe, defect.document)
        elif defect.remedy == "summarise":
            rebuild_summary(defect.document, store=opened.store, recipe=recipe)
        elif defect.remedy == "calibrate":
            calibrate(engine)
        elif defect.remedy == "protect" and opened.folder:
            protect_files(opened.folder)
    except (ClewError, OSError):
        return defect
    return replace(defect, is_repaired=bool(defect.remedy))
