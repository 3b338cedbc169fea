"""Resolution of names that users give: names in a filter, documents and their sections, messages."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from clew.core.errors import NotFound
from clew.core.filter import EVERYTHING, Filter
from clew.core.patterns import Glob, compile_pattern
from clew.core.suggest import suggest_name
from clew.core.thread import THREAD_KIND, extract_messages
from clew.core.types import Document, DocumentRecord, Message, Section
from clew.engine.languages import find_main_language
from clew.engine.opened import Opened, resolve_document
from clew.index.read.sections import PARENT, get_source_uri, join_sections, sort_sections
from clew.index.walk.uri import resolve_document_ids

if TYPE_CHECKING:
    from clew.engine import Engine


_PATTERN_SIGNS = compile_pattern(r"[*?\[]")
_FIELDS = {"documents": "document with the id", "authors": "author", "channels": "channel", "kinds": "kind"}


class _UnknownName(NamedTuple):
    sentence: str
    is_rest_seen: bool  # whether the rest of the filter admits anything


def unknown_names(engine: "Engine", where: Filter) -> list[str]:
    """Return a sentence for each unknown id, author, channel and kind of a filter, as `there is no author 'Ben'`.

    A name that occurs only in documents hidden by the rest of the filter counts as unknown and is not suggested, so
    the sentences reveal nothing hidden. A filter with an unknown name is valid, since a channel may get its first
    message later.
    """
    found = list(_find_unknown_names(engine.opened, where))
    told = [each.sentence for each in found if each.is_rest_seen]  # if the rest admits nothing, no name is at fault
    return told or [each.sentence for each in found]


def message(engine: "Engine", id: str, *, where: Filter = EVERYTHING) -> Message:  # noqa: A002 (as in Message.id)
    """Return the message with this id; give `channel/id` if several channels have it. NotFound if there is none."""
    document, place = _locate_message(engine.opened.within(where), id)
    return extract_messages(document)[place]


def find_message(opened: Opened, id: str) -> tuple[str, Section]:  # noqa: A002 (as in Message.id)
    """Find the thread id and section of a message by its id or `channel/id`; NotFound if there is none, or several."""
    document, place = _locate_message(opened, id)
    return document.id, document.sections[place]


def _locate_message(opened: Opened, id: str) -> tuple[Document, int]:  # noqa: A002 (as in Message.id)
    """Find the thread of a message and the index of its section."""
    channel, _, short = id.rpartition("/")
    for name, place in ((id, EVERYTHING), (short, Filter(channels={channel}))):
        threads = [opened.store.document(doc_id) for doc_id in _find_threads(opened, name, place)]
        found = [(each, at) for each in threads for at, section in enumerate(each.sections) if section.id == name]
        if len(found) > 1:
            places = ", ".join(f"{each.channel}/{each.id}" for each in (extract_messages(t)[at] for t, at in found))
            raise NotFound(f"{len(found)} messages have the id {name!r}; name one of {places}")
        if found:
            return found[0]
        if not channel:
            break
    raise NotFound(f"there is no message {id!r}; `clew search --json` shows the ids of messages")


def resolve_documents(opened: Opened, name: str) -> list[str]:
    """Resolve a document, source, folder or pattern to the ids of its documents.

    In a pattern `*` and `?` match anything but a slash, `**` any folders; a pattern without a slash matches file names
    in all folders. A folder means all documents below it. If there are none, raise NotFound with the nearest names.
    """
    try:
        return resolve_document_or_sections(opened, name)
    except NotFound:
        found = [record.id for record in _match_documents(opened, name)]
        if not found:
            raise
        return found


def find_named_records(opened: Opened, names: Iterable[str]) -> list[DocumentRecord]:
    """Find the records of the named documents, each once."""
    ids = frozenset(doc_id for name in names for doc_id in resolve_documents(opened, str(name)))
    return list(opened.store.documents(Filter(documents=ids)))


def _match_documents(opened: Opened, name: str) -> Iterator[DocumentRecord]:
    places = [name]
    if "://" not in name and "\0" not in name:
        from clew.index.walk.uri import make_file_uri

        places.append(make_file_uri(Path(name), opened.root))
    records = opened.store.documents()
    if _PATTERN_SIGNS.search(name):
        patterns = [Glob(each) for each in ([f"**/{name}"] if "/" not in name else places)]
        return (record for record in records if any(each.match(record.uri) for each in patterns))
    folders = tuple(f"{each.rstrip('/')}/" for each in places)
    return (record for record in records if record.kind != THREAD_KIND and record.uri.startswith(folders))


def _find_unknown_names(opened: Opened, where: Filter, others: Filter = EVERYTHING) -> Iterator[_UnknownName]:
    """Yield the unknown names of a filter that is combined by *and* with `others`."""
    for field, what in _FIELDS.items():
        if not (names := getattr(where, field)):
            continue
        lifted: dict[str, Any] = {field: None}
        beside = others & replace(where, **lifted)
        if field == "documents" and beside != EVERYTHING:
            continue  # it would reveal whether the other conditions hide the document
        rest, among = opened.within(beside), "" if beside == EVERYTHING else "within the other filters"
        missing = [name for name in sorted(names) if not _is_known(rest, field, name)]
        known = _list_known(rest, field) if missing else ()
        is_rest_seen = bool(missing) and any(True for _ in rest.store.scan())
        for name in missing:
            yield _UnknownName(suggest_name(what, name, known, place=among), is_rest_seen)
    for place, side in enumerate(where.all_of):
        beside = replace(where, all_of=tuple(each for at, each in enumerate(where.all_of) if at != place))
        yield from _find_unknown_names(opened, side, others & beside)


def _is_known(opened: Opened, field: str, name: str) -> bool:
    condition: dict[str, Any] = {field: {name}}
    by_name = Filter(**condition)
    in_records = field in ("kinds", "documents")  # a document without text, such as a picture, has no chunks
    found: Iterable[object] = opened.store.documents(by_name) if in_records else opened.store.scan(by_name)
    return any(True for _ in found)


def _list_known(opened: Opened, field: str) -> set[str]:
    if field == "documents":
        return set()  # ids resemble nothing
    if field == "channels":
        return set(opened.store.channels())
    records = list(opened.store.documents())
    if field == "kinds":
        return {record.kind for record in records}
    metas = [*(record.meta for record in records), *(chunk.meta for chunk in opened.store.scan())]
    names: set[str] = set()
    for meta in metas:
        author = meta.get("author")
        names.update(map(str, author if isinstance(author, list | tuple) else [author] if author else []))
    return names


def _find_threads(opened: Opened, message_id: str, where: Filter) -> list[str]:
    named = where & Filter(meta={"message": message_id}, kinds={THREAD_KIND})
    return list(dict.fromkeys(chunk.doc_id for chunk in opened.store.scan(named)))


def read_document_or_sections(opened: Opened, name: str) -> Document:
    """Read the document of that name, or join the sections of the source of that name; NotFound if there is neither.

    A bare file name is enough if it is unique.
    """
    try:
        document = opened.store.document(resolve_document(opened, name))
        return _name_language(opened, document, [document])
    except NotFound:
        if sections := find_sections(opened, name):
            parts = [opened.store.document(record.id) for record in sections]
            return _name_language(opened, join_sections(parts), parts)
        if uri := _find_only_file(opened, name):
            return read_document_or_sections(opened, uri)
        raise


def _name_language(opened: Opened, document: Document, parts: Sequence[Document]) -> Document:
    """Set the language of a document to the main one of its stored parts."""
    language = find_main_language(opened.store, parts, language=opened.settings.ingestion.language)
    return replace(document, language=language)


def _find_only_file(opened: Opened, name: str) -> str:
    """Find the address of the only file with this name in any folder; empty if there is none, or several."""
    records = opened.store.documents() if name and "/" not in name else ()
    uris = {get_source_uri(record) for record in records if record.kind != THREAD_KIND}
    found = [uri for uri in uris if uri.endswith(f"/{name}")]
    return found[0] if len(found) == 1 else ""


def resolve_document_or_sections(opened: Opened, name: str) -> list[str]:
    """Resolve a name to the id of its document, or the ids of its sections in order; NotFound if there is neither.

    A bare file name is enough if it is unique.
    """
    try:
        return [resolve_document(opened, name)]
    except NotFound:
        if sections := find_sections(opened, name):
            return [record.id for record in sections]
        if uri := _find_only_file(opened, name):
            return resolve_document_or_sections(opened, uri)
        raise


def find_sections(opened: Opened, name: str) -> list[DocumentRecord]:
    """Find the sections of a source, in order, by its id, address or path; empty if there are none."""
    parents = resolve_document_ids(name, opened.root)
    found = sort_sections(list(opened.store.documents(Filter(meta={PARENT: parents}))))
    return found or sort_sections([each for each in opened.store.documents() if get_source_uri(each) == name])
