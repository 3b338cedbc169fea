"""Beside the write path: documents that have no summary get one, each once; one that fails does not stop the rest."""

from collections.abc import Callable
from time import monotonic

from clew.core.cost import CostLimit
from clew.core.errors import DriverFailed
from clew.core.protocols import Embedder, Store
from clew.core.report import Failure, OnProgress, Progress, Report
from clew.core.types import Document


def backfill(
    *, store: Store, embedder: Embedder, summarise: Callable[[Document], str], watch: OnProgress | None = None
) -> Report:
    """Which documents were given a summary, and which failed."""
    started = monotonic()
    missing = [record for record in store.documents() if not record.summary and record.chunks]
    filled: list[str] = []
    failed: list[Failure] = []
    stopped = ""
    for record in missing:
        name = record.uri or record.id
        try:
            summary = summarise(store.document(record.id))
            if summary:
                store.summarise(record.id, summary, embedder.embed([summary], role="passage")[0])
                filled.append(name)
            else:
                failed.append(Failure(name, "no summary could be made of it"))
        except DriverFailed as error:
            failed.append(Failure(name, str(error)))
        except CostLimit as limit:
            stopped = str(limit)
            break
        if watch:
            spent, done = monotonic() - started, len(filled) + len(failed)
            left = spent / done * (len(missing) - done)
            watch(Progress("summarising", done, len(missing), "documents", done / spent, left, len(failed)))
    return Report(
        changed=tuple(filled),
        failed=tuple(failed),
        embedded=len(filled),
        seconds=monotonic() - started,
        stopped=stopped,
    )
