"""Token vectors at the end of `add` and `backfill`: for all chunks that have none, where the settings ask for them.

Chunks are stored before: work that is broken off leaves some without, which the next run encodes.
"""

from time import monotonic

from clew.core.errors import SettingsError
from clew.core.protocols import KeepsTokens, TokenEncoder
from clew.core.report import OnProgress, Progress
from clew.index.add.context import IngestContext


def check_tokens(context: IngestContext) -> None:
    """SettingsError where the settings ask for token vectors that the store cannot keep, before anything is added."""
    if context.settings.ingestion.late:
        _open(context)


def keep_tokens(context: IngestContext, on_progress: OnProgress | None = None, *, only_last: bool = False) -> int:
    """Encodes the chunks that have no token vectors, if the settings ask for it; how many."""
    if not context.settings.ingestion.late:
        return 0
    store, encoder = _open(context)
    started = monotonic()

    def report(done: int, total: int) -> None:
        if on_progress:
            spent = monotonic() - started
            rate, left = (done / spent, spent / done * (total - done)) if spent else (0.0, None)
            on_progress(Progress("token vectors", done, total, "chunks", rate, left))

    return store.add_missing_tokens(encoder, report, only_last=only_last)


def _open(context: IngestContext) -> tuple[KeepsTokens, TokenEncoder]:
    if not isinstance(context.store, KeepsTokens) or context.load_token_encoder is None:
        raise SettingsError(
            "ingestion.late is on, and this store keeps no token vectors; use a collection in a folder or in "
            "PostgreSQL, or set ingestion.late = false"
        )
    return context.store, context.load_token_encoder()
