"""Shares: sources in groups that one worker adds at a time, without those that are known to be unchanged."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from clew.core.errors import SourceError
from clew.core.filter import Filter
from clew.core.protocols import Store
from clew.core.report import SourceFailure
from clew.index.add.prepare import LOOKUP_BATCH, Recipe, explain_duplicate_id, has_stored_stamp
from clew.index.walk.sources import Source
from clew.ray.spec import Share

SHARE_SOURCES = 32  # files of a share: enough for a batch of the embedder, little to do again if a worker is lost


@dataclass(frozen=True, slots=True)
class Skipped:
    """Sources that need no worker: files that are stored as they are, and what cannot be added."""

    unchanged: int = 0
    failed: tuple[SourceFailure, ...] = ()


def make_shares(sources: Iterable[Source | SourceError], *, store: Store, recipe: Recipe) -> Iterator[Share | Skipped]:
    """The sources as shares; the threads of a channel are one, since a message may move between them."""
    for group in _group_by_channel(_drop_duplicates(sources)):
        if isinstance(group, SourceFailure):
            yield Skipped(failed=(group,))
            continue
        ids = frozenset(source.id for source in group)
        records = {record.id: record for record in store.documents(Filter(documents=ids))}
        changed = [source for source in group if not has_stored_stamp(source, records.get(source.id), recipe)]
        if len(changed) < len(group):
            yield Skipped(len(group) - len(changed))
        size = len(changed) if group[0].exported_until is not None else SHARE_SOURCES
        for start in range(0, len(changed), size or 1):
            part = tuple(changed[start : start + size])
            yield Share(part, {source.id: records[source.id].hash for source in part if source.id in records})


def _drop_duplicates(sources: Iterable[Source | SourceError]) -> Iterator[Source | SourceFailure]:
    """The sources, and a failure for each that cannot be read or has the id of one before it."""
    seen: set[int] = set()
    for source in sources:
        if isinstance(source, SourceError):
            yield SourceFailure(source.source, source.reason)
        elif hash(source.id) in seen:
            yield SourceFailure(source.uri, explain_duplicate_id(source))
        else:
            seen.add(hash(source.id))
            yield source


def _group_by_channel(sources: Iterable[Source | SourceFailure]) -> Iterator[Sequence[Source] | SourceFailure]:
    """Files in groups of one look-up, the threads of each channel together, and failures, in order."""
    group: list[Source] = []
    for source in sources:
        if isinstance(source, SourceFailure):
            yield source
            continue
        if group and not _belongs_to(source, group):
            yield group
            group = []
        group.append(source)
    if group:
        yield group


def _belongs_to(source: Source, group: Sequence[Source]) -> bool:
    if source.exported_until is None or group[0].exported_until is None:
        return source.exported_until is group[0].exported_until and len(group) < LOOKUP_BATCH
    return source.exported_ids is group[0].exported_ids
