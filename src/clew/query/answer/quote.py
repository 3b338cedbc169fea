"""Quotes for an answer without a model: the passage around the part that the reader chose.

A sentence alone misleads more often than the passage that it stands in, which also holds the answer where the reader
chose the wrong sentence of the right passage.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from clew.core.answer import AnswerPart
from clew.core.attribution import PassageMessage
from clew.core.cite import hash_quote
from clew.core.errors import NotFound
from clew.core.passages import Context, MergedChunk
from clew.core.sentences import split_sentences
from clew.core.tables import find_table_header
from clew.query.answer.candidates import Block, count_words, split_blocks
from clew.query.answer.extract import ExtractedPart
from clew.query.answer.passages import Read, Span
from clew.query.context.format.messages import format_message_line
from clew.query.context.merge import as_merged_chunk

MAX_WORDS = 150
# The marks of a source's own footnotes would pass for ours: they are left out, but not the index of a name in code.
_FOOTNOTE = re.compile(r"(`[^`]*`)|(?:(?<=[.,;:!?)”\"])|(?<=[^\W\d_A-Z]{3}))(?:\[\d{1,3}\])+(?=[\s.,;:!?)”\"\[]|$)")


def quote_part(part: ExtractedPart, context: Context, read: Read, *, max_words: int = MAX_WORDS) -> AnswerPart:
    """Return the passage of the context that a part stands in, or else its chunk, as it is shown.

    A longer passage is trimmed to whole sentences, rows, code blocks or messages around the part.
    """
    passage = next((each for each in context.passages if _holds(each, part)), None) or as_merged_chunk(part.hit)
    if passage.messages:
        return _quote_messages(part, passage.messages, max_words)
    low, text = _read_span(part, passage, read)
    start, end = part.citation.start - low, part.citation.end - low
    first, last = _trim(text, start, end, max_words)
    above = f"{passage.table_header}\n" if passage.table_header else ""
    header = find_table_header(above + text, len(above) + first)
    before, chosen, after = (
        _FOOTNOTE.sub(r"\1", each)
        for each in (f"{header}\n" * bool(header) + text[first:start], text[start:end], text[end:last])
    )
    quote = text[first:last]
    citation = replace(part.citation, start=low + first, end=low + last, quote=quote, hash=hash_quote(quote))
    return AnswerPart(f"{before}{chosen}{after}", (len(before), len(before) + len(chosen)), citation)


def _holds(passage: MergedChunk, part: ExtractedPart) -> bool:
    """Whether a part stands in a passage."""
    cited = part.citation
    is_same = passage.chunks[0].chunk.doc_id == cited.document
    if cited.message and all(each.id != cited.message for each in passage.messages):
        return False  # a whole conversation that an agent has read
    return is_same and any(start <= cited.start and cited.end <= end for start, end in passage.spans)


def _read_span(part: ExtractedPart, passage: MergedChunk, read: Read) -> tuple[int, str]:
    """Read the span of a passage that holds a part; where the document has changed meanwhile, that is its chunk."""
    cited = part.citation
    low, high = next((low, high) for low, high in passage.spans if low <= cited.start and cited.end <= high)
    try:
        text = read(cited.document).text[low:high]
    except NotFound:
        text = ""
    if text[cited.start - low : cited.end - low] == cited.quote:
        return low, text
    return part.hit.chunk.start, part.hit.chunk.text


def _quote_messages(part: ExtractedPart, messages: Sequence[PassageMessage], max_words: int) -> AnswerPart:
    """Quote the message that a part stands in, with those before and after it."""
    at = next(place for place, each in enumerate(messages) if each.id == part.citation.message)
    lines = [format_message_line(each) for each in messages]
    text, quote = messages[at].text.strip(), part.citation.quote.strip()
    name, place = lines[at].rfind(text), text.find(quote)
    start, end = (name + place, name + place + len(quote)) if min(name, place) >= 0 else (0, len(lines[at]))
    if min(name, place) >= 0 and count_words(lines[at]) > max_words:
        first, last = _trim(text, place, place + len(quote), max_words)
        lines[at] = lines[at][:name] + text[first:last]
        start, end = start - first, end - first
    first, last = _grow([count_words(line) for line in lines], at, at, max_words)
    gaps = [each.gap and f"{each.gap}\n" for each in messages]
    gaps[first] = ""
    shown = [f"{gap}{line}" for gap, line in zip(gaps, lines, strict=True)]
    before = "".join(f"{line}\n" for line in shown[first:at]) + gaps[at]
    return AnswerPart("\n".join(shown[first : last + 1]), (len(before) + start, len(before) + end), part.citation)


def _trim(text: str, start: int, end: int, max_words: int) -> Span:
    """Return the span of whole units of a text around a part of it, without headings at either end.

    It holds at least the units that the part is in.
    """
    units = [unit for block in split_blocks(text) for unit in _split_block(text, block)]
    own = [place for place, unit in enumerate(units) if unit.start < end and start < unit.end]
    if not own:
        return start, end
    first, last = _grow([count_words(text[each.start : each.end]) for each in units], own[0], own[-1], max_words)
    while first < own[0] and units[first].kind == "none":
        first += 1
    while last > own[-1] and units[last].kind == "none":
        last -= 1
    return min(start, units[first].start), max(end, units[last].end)


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


def _grow(sizes: Sequence[int], first: int, last: int, limit: int) -> Span:
    """Widen a range of units by the next one after and before it in turn, while their sizes fit the limit."""
    total, is_open = sum(sizes[first : last + 1]), [True, True]
    while any(is_open):
        for side in (0, 1):
            place = first - 1 if side else last + 1
            is_open[side] = is_open[side] and 0 <= place < len(sizes) and total + sizes[place] <= limit
            if is_open[side]:
                total += sizes[place]
                first, last = min(first, place), max(last, place)
    return first, last
