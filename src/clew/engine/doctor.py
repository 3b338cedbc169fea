"""The verb that checks a collection and repairs it."""

from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from clew import drivers
from clew.core.doctor import Defect, DoctorReport, Inspectable, Remedy
from clew.core.errors import ClewError, SettingsError
from clew.core.thread import THREAD_KIND
from clew.engine.add import make_ingest_context
from clew.index.add.prepare import Recipe
from clew.index.add.rebuild import rebuild_chunks, rebuild_summary

if TYPE_CHECKING:
    from clew.engine import Engine
    from clew.engine.opened import Opened


def doctor(engine: "Engine", *, repair: bool = False) -> DoctorReport:
    """Checks everything that is stored and returns what is wrong; `repair` makes right what can be made so.

    It reads every row: a collection that others write to meanwhile may show a defect that is gone when it is checked
    again. What is derived is built again from the texts. A document whose own text is damaged is removed, and named.
    """
    opened, started = engine.opened, monotonic()
    opened.check_unbounded()
    store = opened.store
    if not isinstance(store, Inspectable):
        raise SettingsError("this store cannot be checked: it has no `inspect` and `repair`")
    defects, checked = store.inspect()
    defects += _find_missing_summaries(opened, {each.document for each in defects})
    if repair and defects:
        store.repair(defects)
        recipe = make_ingest_context(opened, None).make_recipe(
            embedder=opened.embedder, llm=None, on_warning=lambda _: None
        )
        defects = [_repair(opened, recipe, defect) for defect in defects]
        store.flush()
        left, _ = store.inspect()
        problems = {(each.area, each.problem) for each in left}
        defects = [
            replace(each, is_repaired=each.is_repaired and (each.area, each.problem) not in problems)
            for each in defects
        ]
        known = {(each.area, each.problem) for each in defects}
        defects += [each for each in left if (each.area, each.problem) not in known]
    return DoctorReport(tuple(defects), checked, monotonic() - started)


def accept_missing_changes(path: str | Path, collection: str = "default") -> DoctorReport:
    """Lets a folder's collection be opened whose last changes are missing; returns what was wrong with it, if anything.

    A log that was damaged or deleted takes the changes that were only in it, and Clew then refuses to open the
    collection as if they had never been. This accepts what is there; add the sources again.
    """
    problem = drivers.accept_missing_changes(path, collection)
    return DoctorReport((Defect("truth", problem, "", "accept", is_repaired=True),) if problem else ())


def _find_missing_summaries(opened: "Opened", damaged: set[str]) -> list[Defect]:
    """The pages without a summary, of a collection whose settings ask for one."""
    if not opened.settings.ingestion.summaries:
        return []
    try:
        records = list(opened.store.documents())
    except ClewError:  # named already
        return []
    remedy: Remedy = "" if opened.settings.ingestion.summary == "llm" else "summarise"
    return [
        Defect("summaries", f"the document {each.id!r} has no summary; `clew backfill` makes it", each.id, remedy)
        for each in records
        if each.kind != THREAD_KIND and each.chunks and not each.summary and each.id not in damaged
    ]


def _repair(opened: "Opened", recipe: Recipe, defect: Defect) -> Defect:
    """The defect, repaired if it could be."""
    try:
        if defect.remedy == "rechunk":
            rebuild_chunks(defect.document, store=opened.store, recipe=recipe)
        elif defect.remedy == "summarise":
            rebuild_summary(defect.document, store=opened.store, recipe=recipe)
    except ClewError:
        return defect
    return replace(defect, is_repaired=bool(defect.remedy))
