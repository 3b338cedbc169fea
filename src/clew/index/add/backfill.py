"""Backfill of summaries: documents without one get one; a document that fails does not stop the rest."""

from collections.abc import Callable
from time import monotonic

from clew.core.errors import CostLimit, DriverFailed
from clew.core.protocols import Embedder, Store
from clew.core.report import OnProgress, Progress, Report, SourceFailure
from clew.core.types import Document


def generate_missing_summaries(
    *, store: Store, embedder: Embedder, summarise: Callable[[Document], str], on_progress: OnProgress | None = None
) -> Report:
    """Writes and embeds a summary for every document that has none; the report says for which, and which failed."""
    started = monotonic()
    missing = [record for record in store.documents() if not record.summary and record.chunks]
    filled: list[str] = []
    failed: list[SourceFailure] = []
    stopped = ""
    for record in missing:
        name = record.uri or record.id
        try:
            summary = summarise(store.document(record.id))
            if summary:
                store.summarise(record.id, summary, embedder.embed([summary], role="passage")[0])
                filled.append(name)
            else:
                failed.append(SourceFailure(name, "no summary could be made of it"))
        except DriverFailed as error:
            failed.append(SourceFailure(name, str(error)))
        except CostLimit as limit:
            stopped = str(limit)
            break
        if on_progress:
            spent, done = monotonic() - started, len(filled) + len(failed)
            left = spent / done * (len(missing) - done)
            on_progress(Progress("summarising", done, len(missing), "documents", done / spent, left, len(failed)))
    return Report(
        changed=tuple(filled),
        failed=tuple(failed),
        embedded=len(filled),
        seconds=monotonic() - started,
        stopped=stopped,
    )
