"""Messages of threads as text: who wrote each and when, arrows before replies, and long ones cut in the middle."""

from collections.abc import Callable, Iterable

from clew.core.attribution import format_reply_mark
from clew.core.types import Message
from clew.core.window import WindowThread
from clew.query.context.format.renderers import NEXT_LINE, THREAD_LINES, format_thread_message

THREAD_SEPARATOR = "\n\n"
CUT_MARK = " … "
HEAD_SHARE = 0.6  # of the text that is left of a message that was cut; the rest is its end

Count = Callable[[str], int]


def render_threads(threads: Iterable[WindowThread], *, authors: bool = True) -> str:
    """Render the threads as text, with a blank line between threads.

    Authors and times stand before the messages if `authors`, an arrow before each reply, with a question mark if it was
    guessed to be one.
    """
    texts = []
    for thread in threads:
        first, *others = thread.messages
        lines = [format_message(first.message, authors=authors)]
        for each in others:
            mark = format_reply_mark(is_reply=each.message.reply_to is not None, guessed=each.guessed)
            lines.append(f"{NEXT_LINE}{mark}{format_message(each.message, authors=authors)}")
        texts.append("".join(lines))
    return THREAD_SEPARATOR.join(texts)


def format_message(message: Message, *, authors: bool) -> str:
    """Format a message as it is shown, without an arrow."""
    if authors:
        return format_thread_message(message.author, message.at, message.text)
    return THREAD_LINES.escape(message.text.strip())


def cut_middle(text: str, fits: Callable[[str], bool]) -> str:
    """Return the longest beginning and end of a text that fit together, with a mark between them; empty if none do."""
    text = text.strip()
    if fits(text):
        return text
    low, high = 0, len(text) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if fits(_join_ends(text, middle)):
            low = middle
        else:
            high = middle - 1
    return _join_ends(text, low) if low else ""


def _join_ends(text: str, chars: int) -> str:
    """Join the beginning and the end of a text, with `chars` characters together, cut between words."""
    head = text[: round(HEAD_SHARE * chars)]
    tail = text[len(text) - (chars - len(head)) :]
    whole_head = head.rsplit(maxsplit=1)[0] if len(head.split()) > 1 and not text[len(head)].isspace() else head
    whole_tail = tail.split(maxsplit=1)[1] if len(tail.split()) > 1 and not text[-len(tail) - 1].isspace() else tail
    return f"{whole_head.rstrip()}{CUT_MARK}{whole_tail.lstrip()}".strip()
