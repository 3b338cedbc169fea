"""Sections in the write path: split files as they are added, and remove stale sections."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from clew.core.errors import SourceError
from clew.core.filter import Filter
from clew.core.protocols import WritableStore
from clew.core.report import Report
from clew.core.types import Document
from clew.index.read.sections import NUMBER, PARENT, TOTAL, is_section, make_section_name, split_into_sections
from clew.index.walk.sources import Source


@dataclass(slots=True)
class SectionTracker:
    """The input of one `add`: the sections of each source by number, and the unsplit (whole) sources."""

    given: dict[str, dict[int, str]] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)

    def track_documents(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Yield the documents, recording each."""
        for document in documents:
            if is_section(document.meta):
                self._note(document)
            else:
                self.whole.add(document.id)
            yield document

    def track_sources(self, sources: Iterable[Source | SourceError]) -> Iterator[Source | SourceError]:
        """Yield the sources, recording each."""
        for source in sources:
            if isinstance(source, Source):
                self.whole.add(source.id)
            yield source

    def split_sources(
        self, sources: Iterable[Source | SourceError], *, store: WritableStore, fingerprint: str
    ) -> Iterator[Source | SourceError]:
        """Yield the sections of each file or page as sources; threads, and pages of one section, stay whole.

        A file with the stamp of its stored sections is not read. A file that cannot be read is yielded unsplit; the
        pipeline reports the error.
        """
        for source in sources:
            if isinstance(source, SourceError) or source.exported_until is not None:
                yield source
                continue
            total = self._count_unchanged(source, store, fingerprint)
            if total == 1:
                self.whole.add(source.id)
                yield source
                continue
            if total:
                self.totals[source.id], self.given[source.id] = total, {}
                for number in range(1, total + 1):
                    doc_id, uri = make_section_name(source.id, number), make_section_name(source.uri, number)
                    yield Source(doc_id, uri, partial(_read_section, source, number), *_list_file_state(source))
                continue
            try:
                parts = split_into_sections(source.read())
            except Exception:  # the pipeline reads the source again and reports the error
                yield source
                continue
            for part in parts:
                if is_section(part.meta):
                    self._note(part)
                else:
                    self.whole.add(part.id)
                yield Source(part.id, part.uri, partial(_return_document, part), *_list_file_state(source))

    def drop_stale(self, store: WritableStore, report: Report) -> int:
        """Drop documents that the new sections replace; return how many. Drop nothing if anything failed.

        These are sections above the new total, other sections of the same number, the formerly whole source, and the
        sections of a source that is now whole.
        """
        if report.failed or report.stopped:
            return 0
        stale = set[str]()
        if self.totals:
            for record in store.documents(Filter(meta={PARENT: sorted(self.totals)})):
                if is_section(record.meta):
                    parent, number = str(record.meta[PARENT]), int(record.meta[NUMBER])
                    given = self.given[parent].get(number, record.id)
                    if number > self.totals[parent] or given != record.id:
                        stale.add(record.id)
            stale |= {record.id for record in store.documents(Filter(documents=frozenset(self.totals)))}
        stale |= self._find_sections_of_whole(store) if report.added or report.changed else set()
        return store.drop(sorted(stale)) if stale else 0

    def _find_sections_of_whole(self, store: WritableStore) -> set[str]:
        """Find the stored sections of sources that are now whole, looking up section 1 of each by id."""
        first = frozenset(make_section_name(doc_id, 1) for doc_id in self.whole - self.totals.keys())
        found = (
            [record for record in store.documents(Filter(documents=first)) if is_section(record.meta)] if first else []
        )
        parents = sorted({str(record.meta[PARENT]) for record in found})
        records = store.documents(Filter(meta={PARENT: parents})) if parents else ()
        return {record.id for record in records if is_section(record.meta)}

    def _note(self, section: Document) -> None:
        parent = str(section.meta[PARENT])
        self.totals[parent] = int(section.meta[TOTAL])
        self.given.setdefault(parent, {})[int(section.meta[NUMBER])] = section.id

    @staticmethod
    def _count_unchanged(source: Source, store: WritableStore, fingerprint: str) -> int:
        """Return the number of stored sections of an unchanged file; 0 if it has changed or none are stored."""
        if not source.stamp:
            return 0
        first = Filter(documents=frozenset({source.id, make_section_name(source.id, 1)}))
        for record in store.documents(first):
            is_whole = record.id == source.id and record.meta.get(TOTAL) == 1
            if (is_whole or is_section(record.meta)) and record.stamp == f"{source.stamp} {fingerprint}":
                return int(record.meta[TOTAL])
        return 0


def _read_section(source: Source, number: int) -> Document:
    """Read a section again, because its file has just changed or the section has no summary."""
    parts: Sequence[Document] = split_into_sections(source.read())
    if number > len(parts):
        raise SourceError(source.uri, "was changed while it was read; add it again")
    return parts[number - 1]


def _list_file_state(source: Source) -> tuple[str, int, datetime | None]:
    """Return the stamp, size and time of a file for its sections; the size is 0, since a section's is not known."""
    return source.stamp, 0, source.modified


def _return_document(document: Document) -> Document:
    return document
