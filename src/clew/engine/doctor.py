"""The verb `doctor`: check and repair a collection: its stored data, its search quality and its surroundings."""

import os
import random
import re
import shutil
import stat
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import compress, islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from clew.core.calibration import Calibration
from clew.core.doctor import SEVERITIES, Defect, DoctorReport, Inspectable, Inspection, Remedy
from clew.core.errors import ClewError, SettingsError
from clew.core.stored import StoredDocument
from clew.core.suggest import format_count
from clew.core.thread import THREAD_KIND, is_thread
from clew.core.time import to_timestamp
from clew.core.types import Document, Matrix
from clew.drivers.store.rows import pack_terms
from clew.drivers.store.store import Store
from clew.drivers.tuned import TunedSettings, read_tuned_settings
from clew.engine.add import calibrate, make_ingest_context
from clew.engine.languages import describe_foreign_languages
from clew.index.add.embed import MIN_CHUNKS as MIN_CALIBRATED
from clew.index.add.pipeline import store_document
from clew.index.add.prepare import Prepared, Recipe
from clew.index.chunk.build import count_document_terms
from clew.index.enrich.summary import Summariser, Summary
from clew.index.read.load import is_there
from clew.index.read.sections import get_source_uri
from clew.index.thread.threads import MAX_GAP

if TYPE_CHECKING:
    from clew.engine import Engine
    from clew.engine.opened import Opened

MAX_ROUNDS = 5  # repair rounds
MAX_CHUNKS = 5000  # chunks read, about, unless `full`
MAX_EXAMINED = 2000  # chunks in the sample for statistics
BATCH = 32  # documents read at once
EMBEDDED, EMBEDDED_FULL = 32, 256  # chunks embedded again (only by a model on this machine)
MAX_DOCUMENTS, MAX_DOCUMENTS_FULL = 64, 512  # documents whose terms and vectors are made again
MIN_COSINE = 0.95  # between a stored vector and a new one of the same text
MIN_CHUNKS = 20  # fewer are too few for a share to mean anything
MAX_COLLAPSED = 0.98  # mean cosine of texts with few terms in common
MAX_COMMON_TERMS = 0.5  # mean share of common terms up to which texts count as different
MAX_SAME_VECTOR = 0.1  # share of chunks with the vector of another text …
MIN_DIM = 64  # … in at least this many dimensions: in fewer, short texts coincide by chance
MAX_COPIES = 0.2  # share of chunks that also occur in another document
MAX_TOO_LONG = 0.1  # share of chunks longer than the model's input
TINY, MAX_TINY = 8, 0.5  # tokens below which a chunk is tiny, and the tolerated share of tiny chunks
_SKETCH = 12  # smallest term hashes of a chunk: chunks with the same sketch are near-duplicates
_DULL = "the embedder does not tell them apart; run `clew reembed` with another model"
_FOREIGN = (
    "open it with the embedder that filled it; if there is none, make a new collection and add the sources, since "
    "nothing here says which model the vectors are of"
)
MAX_FILES = 2000  # source files to check
MIN_FREE = 64 << 20  # bytes
MAX_LOG = 256 << 20  # bytes of a write-ahead log that is not checkpointed
FOR_OTHERS = stat.S_IRWXO
IS_POSIX = os.name == "posix"
_QUOTED = re.compile(r"'([^'\n]+)'")
_warn, _advise = partial(Defect, severity="warning"), partial(Defect, severity="advice")


def doctor(engine: "Engine", *, repair: bool = False, full: bool = False) -> DoctorReport:
    """Check a collection and return its defects; `repair` fixes those that can be fixed.

    In a large collection a random sample of the documents is read, a new one each time; `full` and `repair` read all.
    Tables, counts and files are checked completely. If other processes write meanwhile, a defect may be reported that
    is gone on the next check.
    A repair rebuilds derived data from the texts. It keeps every sound text, even if the rest of the document is
    damaged. It removes a document, and names it, only if its text is damaged and its chunks cannot restore it.
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
    """Repair and examine in rounds, damaged files first: a repair may uncover further defects."""
    done, left = dict[tuple[str, str], Defect](), defects
    for _ in range(MAX_ROUNDS):
        todo = [each for each in left if each.remedy == "copy"] or [each for each in left if each.remedy]
        if not todo:
            break
        store.repair(todo)
        with suppress(ClewError):  # a document to remove may have been added again meanwhile
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
    """Collect all defects; return also the inspection by the store."""
    found = store.inspect(max_chunks=None if full else MAX_CHUNKS)
    defects = list(found.defects)
    damaged = {each.document for each in defects if each.document}
    if found.checked:  # else nothing can be read
        defects += [each for each in _find_missing_summaries(opened) if each.document not in damaged]
        sound = [doc_id for doc_id in found.documents if doc_id not in damaged]
        defects += inspect_health(opened, random.sample(sound, len(sound)), full=full)
    return [*defects, *inspect_surroundings(opened)], found


def _compare(defects: Sequence[Defect], left: Sequence[Defect]) -> list[Defect]:
    """Mark the defects that were not found again after a repair as repaired, and add new ones."""
    problems = {(each.area, each.problem) for each in left}
    known = {(each.area, each.problem) for each in defects}
    now = [replace(each, is_repaired=(each.area, each.problem) not in problems) for each in defects]
    return now + [each for each in left if (each.area, each.problem) not in known]


def _rebuild(engine: "Engine", defects: Sequence[Defect]) -> None:
    """Rebuild what a store cannot: chunks, summaries, the calibration and file permissions."""
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
    """Chunk and embed a stored document again; its summary and the summary's vector stay."""
    document = store.document(doc_id)
    summary = Summary(document.summary, document.summary_by)
    prepared = Prepared(document, recipe.chunker(document), summary=summary)
    store_document(prepared, {}, store, recipe, instead_of=document.text)
    store.embed_pending(recipe.embedder, documents=[doc_id])


def _rebuild_summary(doc_id: str, *, store: Store, recipe: Recipe) -> None:
    """Embed the stored summary of a document again; without one, extract a summary from the text."""
    document = store.document(doc_id)
    made = Summary(document.summary, document.summary_by)
    summary = made if made.text else Summariser().summarise(document)
    store.summarise(doc_id, summary.text, by=summary.by, expected_text=document.text)
    store.embed_pending(recipe.embedder, documents=[doc_id])


def _is_of_summary(defect: Defect) -> bool:
    return defect.area == "summaries" or (defect.area == "embeddings" and defect.remedy == "rebuild")


def _name_documents(defect: Defect, names: Mapping[str, str]) -> str:
    """Replace document ids in the text of a defect by addresses or titles."""
    problem = _QUOTED.sub(lambda found: repr(names[found[1]]) if found[1] in names else found[0], defect.problem)
    name = repr(names.get(defect.document, ""))
    return problem if defect.document not in names or name in problem else f"{problem} (in {name})"


def _find_missing_summaries(opened: "Opened") -> Iterator[Defect]:
    """Find the pages without a summary, if the settings ask for summaries."""
    if opened.settings.ingestion.summaries == "none":
        return
    remedy: Remedy = "" if opened.settings.ingestion.summaries == "llm" else "rebuild"
    with suppress(ClewError):  # reported already
        for each in opened.store.documents():
            if each.kind != THREAD_KIND and each.chunks and not each.summary:
                problem = f"the document {each.id!r} has no summary"
                yield Defect("summaries", problem, each.id, remedy, next_step="" if remedy else "run `clew backfill`")


# -- search quality


def inspect_health(opened: "Opened", ids: Sequence[str], *, full: bool) -> Iterator[Defect]:
    """Report defects that keep these documents from being found, and check a sample of them with the models."""
    sample, empty, count = list[StoredDocument](), list[str](), 0
    for stored in _read_documents(opened, ids):
        document = stored.document
        if is_thread(document):
            yield from inspect_thread(document)
        if not stored.chunks and any(map(str.isalnum, document.text)):
            problem = f"no search finds the document {document.id!r}: it has no chunks"
            yield Defect("sizes", problem, document.id, "rechunk")
        elif not stored.chunks:
            empty.append(repr(document.id))
        if count < MAX_EXAMINED:
            sample.append(stored)
            count += len(stored.chunks)
    if empty:
        count_empty = format_count(len(empty), "document")
        problem = f"no search finds {count_empty} without a text, a title at most ({_name(empty)})"
        yield _advise("sizes", problem, next_step="give them a text, or drop them")
    if count >= MIN_CHUNKS:
        terms = [frozenset(each.hashes.tolist()) for stored in sample for each in stored.terms]
        yield from _inspect_vectors(np.concatenate([stored.vectors for stored in sample]), terms)
        yield from _inspect_copies([stored.document.id for stored in sample for _ in stored.chunks], terms)
        yield from _inspect_sizes(sample, opened)
    with suppress(ClewError):  # an unreadable index was reported already
        if found := describe_foreign_languages(opened):
            yield _advise("languages", found[0], next_step=found[1])
    documents = sample[: MAX_DOCUMENTS_FULL if full else MAX_DOCUMENTS]
    yield from _inspect_terms(opened, documents)
    yield from _inspect_embeddings(opened, documents, EMBEDDED_FULL if full else EMBEDDED)
    yield from _inspect_calibration(opened)
    staged = opened.store.staged_model()
    if staged and not staged.was_used and staged.embedder != opened.embedder.name:
        problem = f"vectors of {staged.embedder} are kept beside those in use, of a switch that was not finished"
        advice = f"`clew reembed {staged.embedder}` goes on with them, `clew reembed --discard` deletes them"
        yield _advise("staged", problem, next_step=advice)


def _read_documents(opened: "Opened", ids: Sequence[str]) -> Iterator[StoredDocument]:
    """Yield the documents that can be read, loading a batch at a time."""
    for start in range(0, len(ids), BATCH):
        with suppress(ClewError):  # changed meanwhile; damage was reported already
            yield from opened.store.stored_documents(ids[start : start + BATCH])


def _inspect_vectors(vectors: Matrix, terms: Sequence[frozenset[int]]) -> Iterator[Defect]:
    """Check whether vectors tell texts apart: many texts with one vector, or all vectors nearly alike."""
    is_made = ~np.isnan(vectors[:, 0])  # not pending
    vectors, terms = vectors[is_made], list(compress(terms, is_made))
    if len(vectors) < MIN_CHUNKS:
        return
    by_vector: dict[bytes, set[frozenset[int]]] = defaultdict(set)
    for vector, own in zip(vectors, terms, strict=True):
        by_vector[vector.tobytes()].add(own)
    shared = sum(len(texts) for texts in by_vector.values() if len(texts) > 1)
    mean = vectors.mean(axis=0, dtype=np.float64)
    cosine = float(mean @ mean)
    if vectors.shape[1] >= MIN_DIM and shared > MAX_SAME_VECTOR * len(vectors):
        problem = f"{shared} of {len(vectors)} chunks have the vector of another text"
        yield _warn("embeddings", problem, next_step=_DULL)
    elif cosine > MAX_COLLAPSED and _measure_common_terms(terms) < MAX_COMMON_TERMS:
        problem = f"the vectors of different texts are almost the same (mean cosine {cosine:.3f})"
        yield _warn("embeddings", problem, next_step=_DULL)


def _measure_common_terms(terms: Sequence[frozenset[int]]) -> float:
    """Measure the mean Jaccard overlap of the terms of chunks far apart in the sample."""
    far = len(terms) // 2
    pairs = [(some, terms[(place + far) % len(terms)]) for place, some in enumerate(terms)]
    return float(np.mean([len(a & b) / max(1, len(a | b)) for a, b in pairs]))


def _inspect_copies(doc_ids: Sequence[str], terms: Sequence[frozenset[int]]) -> Iterator[Defect]:
    """Check for many near-duplicate chunks across documents."""
    places: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for doc_id, own in zip(doc_ids, terms, strict=True):
        places[tuple(sorted(own)[:_SKETCH])].append(doc_id)
    copies = [
        doc_id for sketch, ids in places.items() if len(sketch) == _SKETCH and len(set(ids)) > 1 for doc_id in ids
    ]
    total = len(terms)
    if len(copies) > MAX_COPIES * total:
        names = ", ".join(map(repr, sorted(set(copies))[:3]))
        problem = f"{len(copies)} of {total} chunks are almost the same as one of another document (as in {names})"
        yield _advise("duplicates", problem, next_step="drop the copies, so that results are not filled with them")


def _inspect_sizes(sample: Sequence[StoredDocument], opened: "Opened") -> Iterator[Defect]:
    """Check for many chunks longer than the model's input, and many tiny chunks of pages."""
    texts = [chunk.embed_text for stored in sample for chunk in stored.chunks]
    tokens, limit = opened.embedder.count(texts), opened.embedder.max_tokens
    too_long = sum(count > limit for count in tokens)
    if too_long > MAX_TOO_LONG * len(tokens):
        reads = f"the {limit} tokens that {opened.embedder.name} reads at once"
        advice = "set ingestion.chunk_size to fewer tokens and add the sources again"
        yield _advise("sizes", f"{too_long} of {len(tokens)} chunks are longer than {reads}", next_step=advice)
    is_cut = (not is_thread(each.document) and len(each.chunks) > 2 for each in sample for _ in each.chunks)
    cut = [count for count, is_one in zip(tokens, is_cut, strict=True) if is_one]
    tiny = sum(count < TINY for count in cut)
    if len(cut) >= MIN_CHUNKS and tiny > MAX_TINY * len(cut):
        problem = f"{tiny} of {len(cut)} chunks of pages have fewer than {TINY} tokens"
        advice = "look at one with `clew read`; a file may have been read as the wrong format"
        yield _advise("sizes", problem, next_step=advice)


def inspect_thread(document: Document) -> Iterator[Defect]:
    """Find signs of wrong threading: duplicates, guessed replies before their parent or after a long silence."""
    name, sections = f"the thread {document.id!r}", document.sections
    ids = Counter(section.id for section in sections if section.id)
    if doubled := [id_ for id_, count in ids.items() if count > 1]:
        problem = f"{name} has the message {doubled[0]!r} more than once"
        yield _warn("threads", problem, document.id, next_step="add the messages again")
    if waiting := [section for section in sections if section.awaits and section.awaits in ids]:
        problem = f"the message {waiting[0].id!r} of {name} waits for one that is there"
        yield _warn("threads", problem, document.id, next_step="add the message again")
    silences = [
        to_timestamp(section.at) - to_timestamp(parent.at)
        for section in sections
        if section.guessed and section.parent is not None and 0 <= section.parent < len(sections)
        if section.at is not None and (parent := sections[section.parent]).at is not None
    ]
    early, late = sum(each < 0 for each in silences), sum(each > MAX_GAP.total_seconds() for each in silences)
    for count, what in ((early, "answer one that was written later"), (late, "bridge more than twelve hours")):
        if count:
            problem = f"{format_count(count, 'guessed reply', 'guessed replies')} of {name} {what}"
            advice = "add its messages again with the settings that are in use"
            yield _warn("threads", problem, document.id, next_step=advice)


def _inspect_terms(opened: "Opened", found: Sequence[StoredDocument]) -> Iterator[Defect]:
    """Find documents whose stored terms differ from those of the analyser, so that lexical search misses words."""
    language = opened.settings.ingestion.language
    wrong = [stored.document.id for stored in found if not _has_right_terms(stored, language)]
    if len(wrong) > len(found) // 2 and len(wrong) > 1:
        problem = f"the words of {len(wrong)} of {len(found)} documents are not those that the analyser finds in them"
        advice = "they were added with another ingestion.language or version; add the sources again"
        yield _warn("postings", problem, next_step=advice)
        return
    for doc_id in wrong:
        problem = f"words of the document {doc_id!r} are not those that the analyser finds in it"
        yield Defect("postings", problem, doc_id, "rechunk")


def _has_right_terms(stored: StoredDocument, language: str) -> bool:
    right = count_document_terms(stored.document, stored.chunks, language=language)
    pairs = zip(map(pack_terms, right), stored.terms, strict=True)
    return all(np.array_equal(wanted.hashes, terms.hashes) for wanted, terms in pairs)


def _inspect_embeddings(opened: "Opened", found: Sequence[StoredDocument], limit: int) -> Iterator[Defect]:
    """Find documents whose vectors do not fit their texts; report one defect if most do not (another model's)."""
    if not getattr(opened.embedder, "is_local", False):
        return
    name, longest = opened.embedder.name, max((len(each.chunks) for each in found), default=0)
    chunks = ((each, place) for place in range(longest) for each in found if place < len(each.chunks))
    taken = list(islice(chunks, limit))  # the first chunk of each document, then the second
    summaries = [each for each in found if each.summary_vector is not None and each.document.summary][:limit]
    texts = [each.chunks[place].embed_text for each, place in taken] + [each.document.summary for each in summaries]
    if not texts:
        return
    stored = np.stack([each.vectors[place] for each, place in taken] + [each.summary_vector for each in summaries])
    try:
        made = opened.embedder.embed(texts, role="passage")
    except ClewError as error:
        advice = "see what the error says; searches need the embedder too"
        yield Defect("embeddings", f"{name} failed to embed a text ({error})", next_step=advice)
        return
    foreign = np.einsum("ij,ij->i", made, stored) < MIN_COSINE
    wrong = int(foreign[: len(taken)].sum())
    if wrong > len(taken) // 2 and foreign.sum() > 2:
        problem = f"{wrong} of {len(taken)} vectors are not those that {name} makes of their texts"
        yield Defect("embeddings", problem, next_step=_FOREIGN)
        return
    for doc_id in dict.fromkeys(each.document.id for (each, _), is_off in zip(taken, foreign, strict=False) if is_off):
        problem = f"a vector of the document {doc_id!r} is not that of its text"
        yield Defect("embeddings", problem, doc_id, "rechunk")
    for each, is_off in zip(summaries, foreign[len(taken) :], strict=True):
        if is_off:
            problem = f"the vector of the summary of the document {each.document.id!r} is not that of its text"
            yield Defect("embeddings", problem, each.document.id, "rebuild")


def _inspect_calibration(opened: "Opened") -> Iterator[Defect]:
    """Check whether the relevance is calibrated for the embedder, if the collection is large enough."""
    embedder = opened.embedder
    try:
        kept = Calibration.from_json(opened.store.calibration(), embedder.name, embedder.dim)
    except ClewError:
        return  # reported already
    except ValueError:
        yield Defect("calibration", "the calibration cannot be read", "", "rebuild")
        return
    counts = opened.store.counts()
    if kept is None and counts.chunks - counts.pending >= MIN_CALIBRATED:
        yield _warn("calibration", f"the relevance is not calibrated for {embedder.name}", "", "rebuild")


# -- surroundings


def inspect_surroundings(opened: "Opened") -> Iterator[Defect]:
    """Check source files, unfinished work, permissions and disk space."""
    yield from inspect_sources(opened)
    yield from inspect_unfinished(opened)
    if opened.folder and opened.folder.is_dir():
        yield from inspect_permissions(opened.folder)
        yield from inspect_disk(opened.folder)


def inspect_sources(opened: "Opened") -> Iterator[Defect]:
    """Find documents whose files are gone, or have changed since they were read."""
    try:
        records = [each for each in opened.store.documents() if each.stamp]
    except ClewError:  # reported already
        return
    files = {get_source_uri(each): each.stamp for each in records}
    chosen = random.sample(sorted(files), min(MAX_FILES, len(files)))
    gone = sorted(uri for uri in chosen if not is_there(Path(opened.root, uri)))
    changed = sorted(uri for uri in chosen if uri not in gone and has_changed(Path(opened.root, uri), files[uri]))
    if gone and len(gone) == len(chosen):
        problem = f"none of the files that {format_count(len(records), 'document')} were read from is there"
        advice = "they may be on another machine or share; if they moved, add them from their new place"
        yield _advise("sources", problem, next_step=advice)
    elif gone:
        problem = f"{len(gone)} of {len(chosen)} files are gone, and what was in them is still found ({_name(gone)})"
        yield _warn("sources", problem, next_step="`clew add FOLDER --sync` drops their documents")
    if changed:
        problem = f"{len(changed)} of {len(chosen)} files have changed since they were read ({_name(changed)})"
        yield _warn("sources", problem, next_step="`clew add` them again")


def has_changed(path: Path, stamp: str) -> bool:
    """Return whether the time or size of a file differs from its stamp."""
    when, size, *_ = [*stamp.split(" "), "", ""]
    if not (when.isdigit() and size.isdigit()):  # read just after it was written: `add` compares its text
        return False
    try:
        status = path.stat()
    except OSError:
        return False
    return (status.st_mtime_ns, status.st_size) != (int(when), int(size))


def _name(uris: list[str]) -> str:
    return ", ".join(uris[:3]) + (", …" if len(uris) > 3 else "")


def inspect_unfinished(opened: "Opened") -> Iterator[Defect]:
    """Find an interrupted erasure, and settings tuned for another embedder."""
    is_erasing, tuned = False, list[TunedSettings]()
    with suppress(ClewError):  # damage was reported already
        is_erasing = bool(opened.store.records.read("erasing"))
    with suppress(ClewError):
        tuned = read_tuned_settings(opened.records)
    if is_erasing:
        problem = "an erasure was not finished: what it was to remove may still be on the disk"
        yield _warn("truth", problem, next_step="`clew erase` finishes it, also without a name")
    if tuned and tuned[-1].embedder != opened.embedder.name:
        problem = f"settings were tuned for {tuned[-1].embedder} and are not used with {opened.embedder.name}"
        yield _advise("calibration", problem, next_step="`clew tune` again, or `clew tune --rollback`")


def inspect_permissions(folder: Path) -> Iterator[Defect]:
    """Find files that everybody on the machine may access, and files that this user may not write."""
    if not IS_POSIX:
        return
    if open_ := [path.name for path in _list_own(folder) if path.stat().st_mode & FOR_OTHERS]:
        problem = f"everybody on this machine may read or change {_name(open_)} of {folder}"
        yield _warn("protection", problem, "", "protect")
    files = [path for path in _list_own(folder) if path.is_file()]
    if denied := [path.name for path in files if not os.access(path, os.R_OK | os.W_OK)]:
        advice = "it can be searched, not added to; give this user the right to write, or use its owner"
        yield _advise("protection", f"this user may not change {_name(denied)} of {folder}", next_step=advice)


def protect_files(folder: Path) -> None:
    """Remove the permissions of others from a folder and Clew's files in it."""
    for path in _list_own(folder):
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~FOR_OTHERS)


def _list_own(folder: Path) -> list[Path]:
    """List the folder and the database files in it."""
    return [folder, *(path for path in sorted(folder.glob("clew.*")) if path.is_file() and not path.is_symlink())]


def inspect_disk(folder: Path) -> Iterator[Defect]:
    """Check the free space and the size of the write-ahead log."""
    size = sum(path.stat().st_size for path in folder.glob("clew.db*") if path.is_file())
    yield from check_room(shutil.disk_usage(folder).free, size)
    log = folder / "clew.db-wal"
    if log.is_file() and log.stat().st_size > MAX_LOG:
        problem = f"the log of changes has grown to {log.stat().st_size >> 20} MB"
        advice = "a process that reads all the time keeps it; close the ones that need not be open"
        yield _advise("disk", problem, next_step=advice)


def check_room(free: int, size: int) -> Iterator[Defect]:
    """Check for enough free bytes: rebuilding the index takes about the size of the collection."""
    if free < max(MIN_FREE, size):
        problem = f"{free >> 20} MB are free on the disk, and the collection has {size >> 20} MB"
        advice = "make room: an index that is built again takes about as much as the collection"
        yield _warn("disk", problem, next_step=advice)
