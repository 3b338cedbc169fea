"""What was said later about a message and replaces it: "10:30 is sold out, I got us 11:30 instead".

The later message may be a reply, or stand anywhere in the same channel, in words that have little in common with the
question. So it is looked for from the message, not from the question.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from clew.core.text import extract_terms
from clew.core.types import Chunk, Hit
from clew.query.answer.candidates import Candidate, list_candidates
from clew.query.answer.facts import Fact
from clew.query.answer.question import asks_who, names_asked_kind
from clew.query.answer.supersede import (
    CHANGE,
    MIN_TERMS,
    are_alike,
    extract_subject,
    find_changing_facts,
    get_time,
    is_message,
)

_DECISION = re.compile(
    r"\b(?:then|(?:it|that) is|let['’]?s|deal|agreed|settled|decided|final(?:ly)?|instead|back to|new|of course"
    r"|sold out|cancell?ed|works|fine by me)\b",
    re.IGNORECASE,
)

_NEW = re.compile(r"\bnew (?:date|day|time|place|price|limit)\b", re.IGNORECASE)


def find_revision(
    question: str,
    message: Candidate,
    read_chunks: Callable[[str], Sequence[Chunk]],
    find_later: Callable[[Candidate], Sequence[Hit]],
) -> Candidate | None:
    """The newest message that gives another value for what a message says, or None.

    `find_later` finds messages of its channel after it that are like it; its conversation is read as well.
    """
    if not is_message(message) or get_time(message) is None:
        return None
    if not find_changing_facts(message) and not asks_who(question):
        return None
    chunk = message.hit.chunk
    after = [replace(message.hit, chunk=each) for each in read_chunks(chunk.doc_id) if each.index > chunk.index]
    replies = {hit.chunk.id for hit in after if _is_answered_by(chunk, hit.chunk, [each.chunk for each in after])}
    hits = {hit.chunk.id: hit for hit in (*after, *find_later(message))}
    found = [
        candidate
        for hit in hits.values()
        for candidate in list_candidates(hit)
        if revises(candidate, message, question, is_reply=hit.chunk.id in replies)
    ]
    return max(found, key=lambda each: (get_time(each), each.start), default=None)


def revises(later: Candidate, earlier: Candidate, question: str, *, is_reply: bool) -> bool:
    """Whether a message gives another value of the same kind for what an earlier one says, or names another person.

    It has a word of change or decision, and names the old value too or replies to the earlier message; or a word of
    change, and shares two terms with the question or one with the question and the earlier message.
    """
    told, stated = get_time(later), get_time(earlier)
    if not is_message(later) or told is None or stated is None or told <= stated:
        return False
    if names_asked_kind(question, later.shown, author=str(later.hit.chunk.meta.get("author") or "")) is False:
        return False
    old, new = find_changing_facts(earlier), find_changing_facts(later)
    is_change = CHANGE.search(later.shown) is not None
    shared = extract_subject(later, new) & extract_terms(question).keys()
    if asks_who(question):
        return is_change and len(shared) >= MIN_TERMS
    changed = [
        before
        for before in old
        for after in new
        if (are_alike(before, earlier, after, later) or (is_reply and _is_bare(before, after)))
        and not any(after.is_same_as(each) for each in old)
    ]
    if not changed or not (is_change or _DECISION.search(later.shown)):
        return False
    measured = [before for before in changed if before.kind != "number" or before.unit]
    known = [before for before in old if any(before.is_same_as(after) for after in new)]
    if is_reply or any(before.kind == each.kind and before.unit == each.unit for before in measured for each in known):
        return True
    enough = 1 if _NEW.search(later.shown) else MIN_TERMS
    is_about_it = len(shared) >= enough or bool(shared & extract_subject(earlier, old))
    return is_change and bool(measured) and is_about_it


def _is_bare(before: Fact, after: Fact) -> bool:
    """Whether a number is said again without its unit: 30 days, then "45 it is"."""
    return before.kind == after.kind == "number" and bool(before.unit) and not after.unit and not after.counted


def _is_answered_by(message: Chunk, reply: Chunk, later: Sequence[Chunk]) -> bool:
    """Whether a message replies to another, by way of others where need be."""
    parents: Mapping[object, object] = {each.meta.get("message"): each.meta.get("reply_to") for each in later}
    parent, seen = reply.meta.get("reply_to"), set[object]()
    while parent is not None and parent not in seen:
        if parent == message.meta.get("message"):
            return True
        seen.add(parent)
        parent = parents.get(parent)
    return False
