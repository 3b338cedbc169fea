"""Quoted answers without a model: a passage verbatim from its source, trimmed around the part that answers.

A part is a sentence (with the code, list or rows that it introduces), a row of a table, or a message. Headings, field
lists and questions answer nothing, so they are no parts. A reader of the whole passage finds the answer even if another
part of it is marked.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from clew.core.answer import AnswerPart
from clew.core.attribution import PassageMessage
from clew.core.cite import hash_quote
from clew.core.sentences import split_sentences
from clew.core.small_talk import is_small_talk
from clew.core.tables import find_table_header, is_delimiter_row, is_table_row, label_cells
from clew.core.text import prepend_headings, split_runs
from clew.query.answer.passages import NumberedPassage, Span
from clew.query.answer.question import is_question
from clew.query.context.format.messages import format_message_line

EVERYWHERE: Span = (0, sys.maxsize)
MAX_WORDS = 150  # of a quoted passage
MIN_WORDS = 3  # a shorter sentence of a page is no part
MAX_MESSAGE_CHARS = 280  # a longer message is split into sentences
MAX_BLOCK_LINES = 14  # of code, a list or a table that is marked with its sentence
MAX_LEAD_CHARS = 200  # of a sentence that introduces code without a colon
MESSAGES_BEFORE = 2  # in which to look for the question of a message that is no reply
_FENCE = re.compile(r"\s*(?:```|~~~)")
_ITEM = re.compile(r"\s*(?:[-*+•‣▪–]|\d{1,3}[.)])\s+")
_HEADING = re.compile(r"\s*#{1,6}\s|\s*(?:={3,}|-{3,}|\*{3,}|~{3,})\s*$")
_FIELD = re.compile(r"\s*:[\w -]+:(?:\s|$)|\s*\.\. [\w-]+::|\s*\[\^?[\w-]+\]:\s")  # of reStructuredText; a link target
_WORD = re.compile(r"\w")
_WORDS = re.compile(r"\S*\w\S*")
_TAG = (
    r"(?:<!--(?:(?!-->).){0,400}-->|</?(?:a|abbr|aside|b|blockquote|br|center|code|details|div|em|figcaption|figure|font|h[1-6]|hr|i|iframe"
    r"|img|kbd|li|ol|p|picture|pre|script|small|span|strong|style|sub|summary|sup|svg|t[dhr]|table|tbody|thead|u|ul|video)"
    r"(?:\s[^<>]*)?/?>)"
)
_TAGS = re.compile(rf"\s*(?:{_TAG}\s*)+")
# HTML is not content, and a source's own footnote marks would pass for our citations. Code keeps both.
_MARKUP = re.compile(
    rf"(?P<code>^[ \t]*(?P<fence>```|~~~).*?(?:^[ \t]*(?P=fence)|\Z)|`[^`]*`)|^[ \t]*(?:{_TAG}[ \t]*)+\n+|{_TAG}"
    r"|(?:(?<=[.,;:!?)”\"])|(?<=[^\W\d_A-Z]{3}))(?:\[\d{1,3}\])+(?=[\s.,;:!?)”\"\[]|$)",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a passage that may answer: its span in the document, its text for the reader, and its message."""

    start: int
    end: int
    text: str
    message: int = -1  # its place among the messages of the passage


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive lines of one kind: prose, item, code, table, or nothing to cite."""

    kind: str
    start: int
    end: int


def list_parts(passage: NumberedPassage, within: Span = EVERYWHERE) -> list[Part]:
    """List the parts of a passage in order; of a page, only those in blocks that overlap the span `within`.

    The text of a row includes its column names, that of a message its author and the question it answers.
    """
    if passage.passage.messages:
        return list(_list_message_parts(passage))
    headings = passage.passage.heading_path
    return [
        Part(at + low, at + high, prepend_headings(headings, _label_row(passage, text, low, high)))
        for at, text in passage.pieces
        for low, high in _list_page_spans(text, (within[0] - at, within[1] - at))
    ]


def quote_part(passage: NumberedPassage, part: Part, within: Span) -> AnswerPart:
    """Quote a passage with a part marked, trimmed to whole sentences, rows, code blocks or messages around the part.

    On a page, text inside the span `within` has priority over text around it.
    """
    cited = passage.cite_span((part.start, part.end))
    if part.message >= 0:
        text, highlight = _quote_messages(passage.passage.messages, part.message, cited.quote)
        return AnswerPart(text, highlight, cited)
    at, text = next((at, text) for at, text in passage.pieces if at <= part.start < at + len(text))
    start, end = part.start - at, part.end - at
    first, last = _trim(text, (start, end), (within[0] - at, within[1] - at))
    above = f"{passage.passage.table_header}\n" if passage.passage.table_header else ""
    header = find_table_header(above + text, len(above) + first)
    above = f"{header}\n" * bool(header)
    own = len(above) - first
    before, chosen, after = _remove_markup(above + text[first:last], own + start, own + end)
    quote = text[first:last]
    citation = replace(cited, start=at + first, end=at + last, quote=quote, hash=hash_quote(quote))
    return AnswerPart(f"{before}{chosen}{after}", (len(before), len(before) + len(chosen)), citation)


def _remove_markup(text: str, start: int, end: int) -> tuple[str, str, str]:
    """Return the text before a span, the span, and the text after it, all without markup."""
    cuts = [found.span() for found in _MARKUP.finditer(text) if not found["code"]]
    kept = list(zip([0, *(high for _, high in cuts)], [*(low for low, _ in cuts), len(text)], strict=True))
    before, chosen, after = (
        "".join(text[max(begin, low) : max(low, min(stop, high))] for begin, stop in kept if stop > low)
        for low, high in pairwise((0, start, end, len(text)))
    )
    return before, chosen, after


def count_words(text: str) -> int:
    """Count the words of a text; in scripts without spaces, two characters are about one word."""
    spaced, runs = split_runs(text)
    return len(_WORDS.findall(spaced)) + sum(-(-len(run) // 2) for run in runs)


def _label_row(passage: NumberedPassage, text: str, low: int, high: int) -> str:
    """Return the text of a part; a row of a table with the names of its columns."""
    part = text[low:high]
    if not is_table_row(part) or "\n" in part:
        return part
    return label_cells(part, find_table_header(text, low) or passage.passage.table_header)


def _list_message_parts(passage: NumberedPassage) -> Iterator[Part]:
    """Yield the parts of messages, the text of each after its author and the question it answers."""
    messages = passage.passage.messages
    places = {each.id: place for place, each in enumerate(messages)}
    for hit in sorted(passage.passage.chunks, key=lambda hit: hit.chunk.start):
        chunk = hit.chunk
        place = places.get(str(chunk.meta.get("message")), -1)
        spans = _list_message_spans(chunk.text)
        if place < 0 or not spans:
            continue
        asked = _find_asked(messages, place)
        if asked and is_small_talk(chunk.text):
            continue
        name = f"{messages[place].author}: " if messages[place].author else ""
        for low, high in spans:
            text = f"{asked}\n{name}{chunk.text[low:high]}" if asked else f"{name}{chunk.text[low:high]}"
            yield Part(chunk.start + low, chunk.start + high, text, place)


def _find_asked(messages: Sequence[PassageMessage], place: int) -> str:
    """Return the question that a message answers: its parent, or one of another person shortly before; else empty."""
    message = messages[place]
    replied = [each for each in messages[:place] if each.id == message.reply_to]
    before = [each for each in messages[max(0, place - MESSAGES_BEFORE) : place] if each.author != message.author]
    return next((" ".join(each.text.split()) for each in (*replied, *before[::-1]) if _asks(each.text)), "")


def _asks(text: str) -> bool:
    return any(is_question(text[low:high]) for low, high in split_sentences(text))


def _list_message_spans(text: str) -> list[Span]:
    """Return a short message as one span, without questions around it; else its sentences that are no questions."""
    spans = split_sentences(text)
    said = [not is_question(text[low:high]) and bool(_WORD.search(text[low:high])) for low, high in spans]
    kept = [span for span, says in zip(spans, said, strict=True) if says]
    if not kept or (not all(said) and len(kept) == 1 and _is_one_word(text[slice(*kept[0])])):
        return []
    low, high = kept[0][0], kept[-1][1]
    first = spans.index(kept[0])
    is_joined = all(said[first : first + len(kept)])
    return [(low, high)] if is_joined and high - low <= MAX_MESSAGE_CHARS else kept


def _is_one_word(text: str) -> bool:
    """Return whether the text that is left beside a message's questions is one word: "with Karl hungry? dangerous"."""
    return count_words(text) == 1 and not any(map(str.isdigit, text))


def _list_page_spans(text: str, within: Span) -> Iterator[Span]:
    """Yield the spans to mark in a page's blocks that overlap the span `within`."""
    blocks = split_blocks(text)
    for place, block in enumerate(blocks):
        if block.end <= within[0] or within[1] <= block.start:
            continue
        after = blocks[place + 1] if place + 1 < len(blocks) else None
        if block.kind == "code":
            if not place or blocks[place - 1].kind not in ("prose", "item"):
                yield block.start, _cut_lines(text, block.start, block.end)
        elif block.kind == "table":
            yield from _list_rows(text, block)
        elif block.kind in ("prose", "item"):
            yield from _list_sentences(text, block, after)


def _list_sentences(text: str, block: Block, after: Block | None) -> Iterator[Span]:
    """Yield the sentences of a block; the last one together with the code, table or list that it introduces."""
    spans = [(block.start + low, block.start + high) for low, high in split_sentences(text[block.start : block.end])]
    for place, (low, high) in enumerate(spans):
        sentence = text[low:high]
        introduces = sentence.rstrip("*_ ").endswith((":", "：")) or (
            after is not None and after.kind == "code" and high - low <= MAX_LEAD_CHARS
        )
        if place == len(spans) - 1 and after and introduces and after.kind in ("code", "table", "item"):
            end = _find_end_of_run(text, after)
            if not is_question(text[low:end]):  # a list of questions
                yield low, end
            continue
        bare = _ITEM.sub("", sentence, count=1) if block.kind == "item" and not place else sentence
        if is_question(sentence) or (count_words(bare) < MIN_WORDS and not (block.kind == "item" and ":" in bare)):
            continue
        yield low, high


def _find_end_of_run(text: str, after: Block) -> int:
    """Return the end of the code, table or list that starts with a block, cut to MAX_BLOCK_LINES."""
    end = after.end
    if after.kind == "item":
        for each in split_blocks(text[after.end :]):
            if each.kind != "item" or text[end : after.end + each.start].strip():
                break
            end = after.end + each.end
    return _cut_lines(text, after.start, end)


def _cut_lines(text: str, start: int, end: int) -> int:
    """Return the end of a block, or of its first lines if it is long."""
    lines = text[start:end].splitlines(keepends=True)
    return start + len("".join(lines[:MAX_BLOCK_LINES]).rstrip())


def _list_rows(text: str, block: Block) -> Iterator[Span]:
    """Yield the rows of a table, without its header and delimiter."""
    rows = [row.span() for row in re.finditer(r"[^\s][^\n]*", text[block.start : block.end])]
    lines = [text[block.start + low : block.start + high] for low, high in rows]
    for (low, _), line, below in zip(rows, lines, [*lines[1:], ""], strict=True):
        if not is_delimiter_row(line) and not is_delimiter_row(below):
            yield block.start + low, block.start + low + len(line.rstrip())


def split_blocks(text: str) -> list[Block]:
    """Return the blocks of a text, in order, without the blank lines between them."""
    found: list[Block] = []
    is_fenced, at = False, 0
    for line in text.splitlines(keepends=True):
        start, at = at, at + len(line)
        is_fence = _FENCE.match(line) is not None
        kind = "code" if is_fenced or is_fence else _classify_line(line)
        end, last = start + len(line.rstrip()), found[-1] if found else Block("", 0, 0)
        joins = (
            (is_fenced and last.kind == "code")
            or (kind == last.kind and kind in ("prose", "table", "none"))
            or (kind == "prose" and last.kind == "item")
        )
        if kind and joins:
            found[-1] = Block(last.kind, last.start, end)
        else:
            found.append(Block(kind, start, end))
        is_fenced ^= is_fence
    return [block for block in found if block.kind]


def _classify_line(line: str) -> str:
    if not line.strip():
        return ""
    if _HEADING.match(line) or _FIELD.match(line) or _TAGS.fullmatch(line):
        return "none"
    if is_table_row(line):
        return "table"
    return "item" if _ITEM.match(line) else "prose"


def _quote_messages(messages: Sequence[PassageMessage], at: int, quote: str) -> tuple[str, Span]:
    """Return a message with the messages around it as text, and the span of the quote in that text."""
    lines = [format_message_line(each) for each in messages]
    text, quote = messages[at].text.strip(), quote.strip()
    name, place = lines[at].rfind(text), text.find(quote)
    start, end = (name + place, name + place + len(quote)) if min(name, place) >= 0 else (0, len(lines[at]))
    if min(name, place) >= 0 and count_words(lines[at]) > MAX_WORDS:
        first, last = _trim(text, (place, place + len(quote)))
        lines[at] = lines[at][:name] + text[first:last]
        start, end = start - first, end - first
    first, last = _grow([count_words(line) for line in lines], at, at)
    gaps = [each.gap and f"{each.gap}\n" for each in messages]
    gaps[first] = ""
    shown = [f"{gap}{line}" for gap, line in zip(gaps, lines, strict=True)]
    before = "".join(f"{line}\n" for line in shown[first:at]) + gaps[at]
    return "\n".join(shown[first : last + 1]), (len(before) + start, len(before) + end)


def _trim(text: str, part: Span, near: Span | None = None) -> Span:
    """Return the span of whole units of a text around a part of it, without headings at either end.

    It includes all units of the part; units in the span `near` are added before others.
    """
    units = [unit for block in split_blocks(text) for unit in _split_block(text, block)]
    own = _find_units(units, part)
    if not own:
        return part
    sizes = [count_words(text[each.start : each.end]) for each in units]
    inner = [*own, *_find_units(units, near or part)]
    first, last = _grow(sizes, *_grow(sizes, own[0], own[-1], (min(inner), max(inner))))
    while first < own[0] and units[first].kind == "none":
        first += 1
    while last > own[-1] and units[last].kind == "none":
        last -= 1
    return min(part[0], units[first].start), max(part[1], units[last].end)


def _find_units(units: Sequence[Block], span: Span) -> list[int]:
    return [place for place, unit in enumerate(units) if unit.start < span[1] and span[0] < unit.end]


def _split_block(text: str, block: Block) -> list[Block]:
    """Split prose into sentences and a table into rows; any other block is one unit."""
    inside = text[block.start : block.end]
    if block.kind in ("prose", "item"):
        spans = split_sentences(inside)
    elif block.kind == "table":
        spans = [row.span() for row in re.finditer(r"[^\n]+", inside)]
    else:
        return [block]
    return [Block(block.kind, block.start + low, block.start + high) for low, high in spans]


def _grow(sizes: Sequence[int], first: int, last: int, limits: Span | None = None) -> Span:
    """Widen a range of units after and before it in turn, within limits, while their sizes fit in MAX_WORDS."""
    low, high = limits or (0, len(sizes) - 1)
    total, is_open = sum(sizes[first : last + 1]), [True, True]
    while any(is_open):
        for side in (0, 1):
            place = first - 1 if side else last + 1
            is_open[side] = is_open[side] and low <= place <= high and total + sizes[place] <= MAX_WORDS
            if is_open[side]:
                total += sizes[place]
                first, last = min(first, place), max(last, place)
    return first, last
