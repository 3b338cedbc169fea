"""The candidates of an answer without a model: what a chunk says, in parts that can stand alone.

A part is a sentence; with the code, list or rows that it introduces; a row of a table; an item of a list; or a short
message as a whole. Headings, field lists and questions are none.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from clew.core.errors import NotFound
from clew.core.sentences import split_sentences
from clew.core.small_talk import is_small_talk
from clew.core.tables import find_header_in_context, find_table_header, is_delimiter_row, is_table_row, label_cells
from clew.core.text import prepend_headings, split_runs
from clew.core.types import Chunk, Hit
from clew.query.answer.question import is_question

Span = tuple[int, int]

MAX_REPLIES = 3  # messages after a question that are read as its answers
MIN_WORDS = 3  # a shorter sentence of a page is skipped
MAX_MESSAGE_CHARS = 280  # a longer message is read by its sentences
MAX_BLOCK_LINES = 14  # of code, a list or a table that is shown with its sentence
MAX_LEAD_CHARS = 200  # of a sentence before code that does not end in a colon
_FENCE = re.compile(r"\s*(?:```|~~~)")
_ITEM = re.compile(r"\s*(?:[-*+•‣▪–]|\d{1,3}[.)])\s+")
_HEADING = re.compile(r"\s*#{1,6}\s|\s*(?:={3,}|-{3,}|\*{3,}|~{3,})\s*$")
_FIELD = re.compile(r"\s*:[\w -]+:(?:\s|$)|\s*\.\. [\w-]+::|\s*\[\^?[\w-]+\]:\s")  # of reStructuredText; a link target
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A part of a chunk that may answer: its span in the document, how it is shown, and what a reranker reads."""

    hit: Hit
    start: int
    end: int
    shown: str
    text: str
    replies_to: str = ""  # the question of a conversation that it follows
    distance: int = 0  # in messages from that question

    @property
    def is_row(self) -> bool:
        """Whether it is a row of a table."""
        chunk = self.hit.chunk
        return is_table_row(chunk.text[self.start - chunk.start : self.end - chunk.start].partition("\n")[0])


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive lines of one kind: prose, item, code, table, or nothing to cite."""

    kind: str
    start: int
    end: int


def collect_candidates(hits: Sequence[Hit], read_chunks: Callable[[str], Sequence[Chunk]]) -> list[Candidate]:
    """The candidates of the hits, and of the messages that answer the questions among them; each span once."""
    found: dict[tuple[str, int, int], Candidate] = {}
    for hit in hits:
        replies: Sequence[Candidate] = ()
        if hit.chunk.meta.get("message"):
            try:
                replies = list_replies(hit, read_chunks(hit.chunk.doc_id), max_replies=MAX_REPLIES)
            except NotFound:
                replies = ()
        for each in (*list_candidates(hit), *replies):
            if each.replies_to and is_small_talk(each.shown):
                continue
            key = each.hit.chunk.doc_id, each.start, each.end
            if key not in found or (each.replies_to and not found[key].replies_to):
                found[key] = each
    return list(found.values())


def list_candidates(hit: Hit) -> list[Candidate]:
    """The candidates of a chunk, in order."""
    spans = _list_message_spans(hit.chunk) if hit.chunk.meta.get("message") else list(_list_page_spans(hit.chunk.text))
    return [make_candidate(hit, low, high) for low, high in spans]


def list_replies(hit: Hit, chunks: Sequence[Chunk], *, max_replies: int) -> list[Candidate]:
    """The candidates that answer a message which asks: those that reply to it, or follow it by somebody else.

    `chunks` are those of the conversation, in order. Questions that follow are no answers; where there are replies,
    what merely follows is none either.
    """
    asked = hit.chunk
    name, author = asked.meta.get("message"), asked.meta.get("author")
    if not name or not asks(asked.text):
        return []
    later = [each for each in chunks if each.index > asked.index and each.meta.get("message") != name]
    direct = [each for each in later if each.meta.get("reply_to") == name and not each.meta.get("guessed")]
    guessed = [each for each in later if each.meta.get("reply_to") == name and each.meta.get("guessed")]
    others = [each for each in later if _leads_to(str(name), each, later, is_threaded=bool(direct))]
    ordered = list({each.id: each for each in (*direct, *guessed, *others)}.values())
    found: list[Candidate] = []
    question = " ".join(asked.text.split())
    for distance, chunk in enumerate(ordered[: 2 * max_replies], 1):
        if chunk.meta.get("author") == author and author and not direct:
            continue
        reply = replace(hit, chunk=chunk)
        found += [
            replace(each, text=f"{question}\n{each.text}", replies_to=question, distance=distance)
            for each in list_candidates(reply)
        ]
    return found


def _leads_to(name: str, chunk: Chunk, chunks: Sequence[Chunk], *, is_threaded: bool) -> bool:
    """Whether a message replies by way of others to the message of this name, or to nothing if it is not threaded."""
    parents = {each.meta.get("message"): each.meta.get("reply_to") for each in chunks}
    parent, seen = chunk.meta.get("reply_to"), set[object]()
    while parent is not None and parent != name and parent not in seen:
        seen.add(parent)
        parent = parents.get(parent, "")
    return parent == name or (parent is None and not is_threaded)


def asks(text: str) -> bool:
    """Whether a message asks something, in any of its sentences."""
    return any(is_question(text[low:high]) for low, high in split_sentences(text))


def make_candidate(hit: Hit, low: int, high: int) -> Candidate:
    """The candidate of a span of a chunk's text, counted from the start of the chunk."""
    chunk = hit.chunk
    quote = chunk.text[low:high]
    if is_table_row(quote.partition("\n")[0]):
        header = find_table_header(chunk.text, low) or find_header_in_context(chunk.context)
        shown = label_cells(quote, header) if "\n" not in quote else quote
    else:
        shown = quote
    text = prepend_headings(chunk.headings, shown)
    if chunk.meta.get("message"):  # without the messages before it: they are scored with its chunk, and any reply to
        text = f"{chunk.meta['author']}: {shown}" if chunk.meta.get("author") else shown  # a good one would score well
    return Candidate(hit, chunk.start + low, chunk.start + high, shown, text)


def _list_message_spans(chunk: Chunk) -> list[Span]:
    """A short message as a whole, without questions around it; else its sentences that are no questions."""
    spans = split_sentences(chunk.text)
    said = [not is_question(chunk.text[low:high]) and bool(_WORD.search(chunk.text[low:high])) for low, high in spans]
    if not any(said):
        return []
    first, last = said.index(True), len(said) - 1 - said[::-1].index(True)
    low, high = spans[first][0], spans[last][1]
    if (
        all(said[first : last + 1])
        and high - low <= MAX_MESSAGE_CHARS
        and (all(said) or not _is_one_word(chunk.text[low:high]))
    ):
        return [(low, high)]
    kept = [span for span, says in zip(spans, said, strict=True) if says]
    return [] if len(kept) == 1 and not all(said) and _is_one_word(chunk.text[slice(*kept[0])]) else kept


def _is_one_word(text: str) -> bool:
    """Whether what is left of a message beside its questions is a word: "with Karl hungry? dangerous"."""
    return count_words(text) == 1 and not any(map(str.isdigit, text))


def count_words(text: str) -> int:
    """How many words a text has; in scripts without spaces, two characters are about one."""
    spaced, runs = split_runs(text)
    if not runs:
        return len(text.split())
    return sum(bool(_WORD.search(word)) for word in spaced.split()) + sum(-(-len(run) // 2) for run in runs)


def _list_page_spans(text: str) -> Iterator[Span]:
    """The spans of a page's chunk that can stand alone."""
    blocks = split_blocks(text)
    for place, block in enumerate(blocks):
        after = blocks[place + 1] if place + 1 < len(blocks) else None
        if block.kind == "code":
            before = blocks[place - 1] if place else None
            if before is None or before.kind not in ("prose", "item"):
                yield block.start, _cut_lines(text, block)
        elif block.kind == "table":
            yield from _list_rows(text, block)
        elif block.kind in ("prose", "item"):
            yield from _list_sentences(text, block, after)


def _list_sentences(text: str, block: Block, after: Block | None) -> Iterator[Span]:
    """The sentences of a block; the last with what it introduces, a sentence before code with the code."""
    spans = [(block.start + low, block.start + high) for low, high in split_sentences(text[block.start : block.end])]
    for place, (low, high) in enumerate(spans):
        sentence = text[low:high]
        is_last = place == len(spans) - 1
        introduces = sentence.rstrip("*_ ").endswith((":", "：")) or (
            after is not None and after.kind == "code" and high - low <= MAX_LEAD_CHARS
        )
        if is_last and after is not None and introduces and after.kind in ("code", "table", "item"):
            end = _find_end_of_run(text, after)
            if not is_question(text[low:end]):  # a list of questions
                yield low, end
            continue
        bare = _ITEM.sub("", sentence, count=1) if block.kind == "item" and not place else sentence
        if is_question(sentence) or (count_words(bare) < MIN_WORDS and not (block.kind == "item" and ":" in bare)):
            continue
        yield low, high


def _find_end_of_run(text: str, after: Block) -> int:
    """Where the code, the table or the items that begin with a block end, as far as they are shown."""
    end = after.end
    if after.kind == "item":
        for each in split_blocks(text[after.end :]):
            if each.kind != "item" or text[end : after.end + each.start].strip():
                break
            end = after.end + each.end
    return _cut_lines(text, Block(after.kind, after.start, end))


def _cut_lines(text: str, block: Block) -> int:
    """The end of a block, or of its first lines if it is long."""
    lines = text[block.start : block.end].splitlines(keepends=True)
    return block.start + len("".join(lines[:MAX_BLOCK_LINES]).rstrip())


def _list_rows(text: str, block: Block) -> Iterator[Span]:
    """The rows of a table, without its header and delimiter."""
    rows: list[Span] = []
    at = block.start
    for line in text[block.start : block.end].splitlines(keepends=True):
        rows.append((at + len(line) - len(line.lstrip()), at + len(line.rstrip())))
        at += len(line)
    for place, (low, high) in enumerate(rows):
        is_header = place + 1 < len(rows) and is_delimiter_row(text[slice(*rows[place + 1])])
        if not is_header and not is_delimiter_row(text[low:high]):
            yield low, high


def split_blocks(text: str) -> list[Block]:
    """The blocks of a text, in order, without the blank lines between them."""
    found: list[Block] = []
    fenced = False
    at = 0
    for line in text.splitlines(keepends=True):
        start, at = at, at + len(line)
        fence = _FENCE.match(line) is not None
        kind = "code" if fenced or fence else _classify_line(line)
        if not kind:
            found.append(Block("", start, at))
            continue
        end = start + len(line.rstrip())
        last = found[-1] if found else None
        joins = last is not None and (
            (fenced and last.kind == "code")
            or (kind == last.kind and kind in ("prose", "table", "none"))
            or (kind == "prose" and last.kind == "item" and not (fence and not fenced))
        )
        if joins and last is not None:
            found[-1] = Block(last.kind, last.start, end)
        else:
            found.append(Block(kind, start, end))
        if fence:
            fenced = not fenced
    return [block for block in found if block.kind]


def _classify_line(line: str) -> str:
    if not line.strip():
        return ""
    if _HEADING.match(line) or _FIELD.match(line):
        return "none"
    if is_table_row(line):
        return "table"
    return "item" if _ITEM.match(line) else "prose"
