"""Fingerprints of erased content: keyed hashes of short windows of bytes, by which any other bytes are searched for it.

A text is cut at its words, a vector and a set of terms at their numbers. The windows of one length are hashed at every
position of what is searched, all at once, so the cost does not depend on how much was erased. A fingerprint holds no
text, and can be stored while an erasure is unfinished.
"""

import base64
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clew.core.pattern import compile_pattern
from clew.core.types import Matrix

Windows = NDArray[np.uint64]

WORD, TEXT, QUOTE = 8, 16, 32  # bytes of a window
OVERLAP = QUOTE  # bytes that two blocks of one file must share, so that no window is cut
MAX_WINDOWS = 1_000_000  # of each kind; of more, a random sample is kept
VECTOR_WINDOWS = 4  # of each vector
_BATCH = 1 << 20  # bytes whose windows are hashed at once
_TABLE_BITS = 20  # of the table that rejects most windows before they are looked up
_EMPTY: Windows = np.empty(0, np.uint64)
_GAP = b"\0" * QUOTE
_KINDS = ("words", "texts", "quotes", "vectors", "terms")


def _make_empty() -> Windows:
    return _EMPTY


@dataclass(frozen=True, slots=True, eq=False)
class Fingerprints:
    """Sorted hashes of windows, by kind.

    `words` are the ends of long words, `texts` and `quotes` windows of 16 and 32 bytes from the beginnings of words,
    `vectors` parts of vectors, `terms` the hashes of terms. `short` counts texts with too few bytes for any window.
    """

    key: int
    words: Windows = field(default_factory=_make_empty)
    texts: Windows = field(default_factory=_make_empty)
    quotes: Windows = field(default_factory=_make_empty)
    vectors: Windows = field(default_factory=_make_empty)
    terms: Windows = field(default_factory=_make_empty)
    short: int = 0

    def __len__(self) -> int:
        return sum(len(getattr(self, kind)) for kind in _KINDS)

    def to_dict(self) -> dict[str, Any]:
        """As values for JSON."""
        kinds = {kind: base64.b64encode(getattr(self, kind).astype("<u8").tobytes()).decode() for kind in _KINDS}
        return {"key": str(self.key), "short": self.short, **kinds}


def make_key() -> int:
    """A random key, so that equal texts have other fingerprints in every erasure."""
    return secrets.randbits(64)


def parse_fingerprints(stored: Mapping[str, Any]) -> Fingerprints:
    """The fingerprints that `to_dict` wrote."""
    kinds = {kind: np.frombuffer(base64.b64decode(stored[kind]), "<u8").astype(np.uint64) for kind in _KINDS}
    return Fingerprints(int(stored["key"]), **kinds, short=int(stored["short"]))


def fingerprint_texts(texts: Iterable[str], key: int) -> Fingerprints:
    """The fingerprints of texts, in every form in which they may be stored: as they are, on one line, as JSON."""
    found: dict[str, list[Windows]] = {"words": [], "texts": [], "quotes": []}
    short = 0
    for blob, spans in _join_in_batches(texts):
        places: dict[str, list[int]] = {"words": [], "texts": [], "quotes": []}
        for start, end in spans:
            if end - start < WORD:
                short += 1
            _find_windows(blob, start, end, places)
        hashes = _hash_windows(blob, key)
        for kind, length in (("words", WORD), ("texts", TEXT), ("quotes", QUOTE)):
            found[kind].append(hashes[length][np.array(places[kind], np.intp)])
    merged = {kind: _merge(windows) for kind, windows in found.items()}
    return Fingerprints(key, **merged, short=short)


def fingerprint_vectors(vectors: Matrix, key: int) -> Windows:
    """The fingerprints of a few places of each vector that are not zero, in every form that a store may keep."""
    if vectors.size == 0:
        return _EMPTY
    return _merge([_fingerprint_rows(rows, key) for rows in list_vector_forms(vectors)])


def list_vector_forms(vectors: Matrix) -> list[NDArray[Any]]:
    """Vectors as stores keep them: in single precision, and in half precision where that is exact."""
    rows = np.ascontiguousarray(vectors, "<f4")
    half = rows.astype("<f2")
    return [rows, half] if np.array_equal(half, rows) else [rows]


def _fingerprint_rows(rows: NDArray[Any], key: int) -> Windows:
    width = TEXT // rows.itemsize
    usable = rows[:, : rows.shape[1] // width * width].reshape(len(rows), -1, width)
    full = (usable != 0).sum(axis=2) >= width - 1
    picked = [block[mask][:VECTOR_WINDOWS] for block, mask in zip(usable, full, strict=True)]
    data = np.concatenate(picked) if picked else np.empty((0, width), rows.dtype)
    return np.unique(_hash_windows(data.tobytes(), key)[TEXT][::TEXT]) if len(data) else _EMPTY


def fingerprint_terms(hashes: NDArray[np.int64], key: int) -> Windows:
    """The fingerprints of the hashes of terms."""
    return np.unique(_hash_windows(np.unique(hashes).astype("<i8").tobytes(), key)[WORD][::WORD])


def merge_fingerprints(parts: Iterable[Fingerprints], key: int) -> Fingerprints:
    """All of the fingerprints, which have the same key, as one."""
    every = list(parts)
    kinds = {kind: _merge([getattr(part, kind) for part in every]) for kind in _KINDS}
    return Fingerprints(key, **kinds, short=sum(part.short for part in every))


class Matcher:
    """Looks windows up among fingerprints, and remembers which of them it has met."""

    def __init__(self, fingerprints: Fingerprints) -> None:
        self._key = fingerprints.key
        self._of = {kind: getattr(fingerprints, kind) for kind in _KINDS}
        self._tables = {kind: _make_table(windows) for kind, windows in self._of.items()}
        self._met = {kind: np.zeros(len(windows), bool) for kind, windows in self._of.items()}

    def count(self, data: bytes, kinds: Iterable[str]) -> dict[str, int]:
        """How many windows of the data are fingerprints, by kind; a kind without any is left out."""
        if not data.strip(b"\0"):
            return {}
        hashes = _hash_windows(data, self._key)
        counts: dict[str, int] = {}
        for kind in kinds:
            at = self._find(hashes[_LENGTHS[kind]], kind)
            if len(at):
                self._met[kind][at] = True
                counts[kind] = len(at)
        return counts

    def count_in_text(self, text: str, kinds: Iterable[str]) -> int:
        """How many windows of a text, in any of its forms, are fingerprints of these kinds."""
        return sum(sum(self.count(form, kinds).values()) for form in _list_forms(text))

    def forget_met(self, fingerprints: Fingerprints) -> Fingerprints:
        """The fingerprints without those that were met."""
        kinds = {kind: windows[~self._met[kind]] for kind, windows in self._of.items()}
        return replace(fingerprints, **kinds)

    def _find(self, windows: Windows, kind: str) -> NDArray[np.intp]:
        """The positions among the fingerprints of a kind of those windows that are there."""
        known = self._of[kind]
        if not len(known) or not len(windows):
            return np.empty(0, np.intp)
        likely = windows[self._tables[kind][windows >> np.uint64(64 - _TABLE_BITS)]]
        at: NDArray[np.intp] = np.minimum(known.searchsorted(likely), len(known) - 1)
        found: NDArray[np.intp] = at[known[at] == likely]
        return found


_LENGTHS = {"words": WORD, "texts": TEXT, "quotes": QUOTE, "vectors": TEXT, "terms": WORD}


def _list_forms(text: str) -> set[bytes]:
    """A text as it may be stored: as it is, on one line, and escaped as JSON with and without ASCII."""
    plain = (text, " ".join(text.split()), json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1])
    return {form.encode("utf-8", "surrogatepass") for form in plain}


def _join_in_batches(texts: Iterable[str]) -> Iterator[tuple[bytes, list[tuple[int, int]]]]:
    """The forms of texts, many in one array of bytes, with their places in it."""
    parts: list[bytes] = []
    spans: list[tuple[int, int]] = []
    size = 0
    for text in texts:
        if not text.strip():
            continue
        for form in _list_forms(text):
            spans.append((size, size + len(form)))
            parts += (form, _GAP)
            size += len(form) + len(_GAP)
        if size >= _BATCH:
            yield b"".join(parts), spans
            parts, spans, size = [], [], 0
    if spans:
        yield b"".join(parts), spans


def _find_windows(blob: bytes, start: int, end: int, places: Mapping[str, list[int]]) -> None:
    """Adds the places of a text's windows: at its words, at its end, and within words that are very long."""
    for word in _WORD.finditer(blob, start, end):
        first, last = word.span()
        steps = range(first, last, TEXT) if last - first > 2 * TEXT else (first,)
        places["texts"] += [at for at in steps if end - at >= TEXT]
        places["quotes"] += [at for at in steps if end - at >= QUOTE]
        if last - first >= WORD:
            places["words"] += (first, last - WORD)
    if end - start >= TEXT:
        places["texts"].append(end - TEXT)
    elif end - start >= WORD:
        places["words"] += (start, end - WORD)


_WORD = compile_pattern(rb"\S+")


def _hash_windows(data: bytes, key: int) -> dict[int, Windows]:
    """The hashes of all windows of each length, by length."""
    secret = np.uint64(key | 1)
    hashed = np.frombuffer(data, np.uint8).astype(np.uint64)
    for size in (1, 2, 4):  # after this, each is the number that its eight bytes are
        hashed = hashed[:-size] | hashed[size:] << np.uint64(8 * size) if len(hashed) > size else _EMPTY
    found: dict[int, Windows] = {}
    with np.errstate(over="ignore"):
        for length in (WORD, TEXT, QUOTE):
            if length > WORD:
                half = length // 2
                hashed = hashed[:-half] * _MULTIPLIER ^ hashed[half:] if len(hashed) > half else _EMPTY
            hashed = _mix(hashed ^ secret)
            found[length] = hashed
    return found


_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def _mix(windows: Windows) -> Windows:
    """Every bit spread over all others: the finaliser of SplitMix64."""
    mixed = (windows ^ windows >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return mixed ^ mixed >> np.uint64(31)


def _merge(windows: Iterable[Windows]) -> Windows:
    merged = np.unique(np.concatenate([_EMPTY, *windows]))
    if len(merged) <= MAX_WINDOWS:
        return merged
    return np.sort(np.random.default_rng(0).choice(merged, MAX_WINDOWS, replace=False))


def _make_table(windows: Windows) -> NDArray[np.bool_]:
    """Which leading bits the windows have."""
    table = np.zeros(1 << _TABLE_BITS, bool)
    table[windows >> np.uint64(64 - _TABLE_BITS)] = True
    return table
