"""The prompt that makes a model write like a person: their style, and what they answered to whom, within a budget."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from clew.core.attribution import format_reply_mark
from clew.core.thread_view import ThreadView
from clew.core.types import Message
from clew.core.window import ContextMessage, StyleProfile
from clew.query.context.format.renderers import NEXT_LINE
from clew.query.messages.render import THREAD_SEPARATOR, cut_middle, format_message
from clew.query.messages.similar import group_by_thread

EXAMPLES = "What they wrote in past threads like this one; ↪ marks an answer to the message above it, ↪? a likely one:"
_MESSAGE_SHARE = 0.2  # of the budget, for one message; a longer one is cut in the middle
_PHRASE_CHARS = 60  # of a phrase that a model found

Count = Callable[[str], int]


def build_style_prompt(
    style: StyleProfile,
    messages: Sequence[ContextMessage],
    open_threads: Mapping[str, ThreadView],
    *,
    max_threads: int,
    tokens: int,
    count: Count,
) -> str:
    """The system prompt: the style of a person, and messages of theirs with what they answered, the best that fit.

    The messages are given best first; only those of the first `max_threads` threads are shown, each thread by time.
    """
    head = _describe_style(style)
    threads = list(dict.fromkeys(each.thread for each in messages))[:max_threads]
    room = int(_MESSAGE_SHARE * tokens)
    chosen: list[ContextMessage] = []
    prompt = head
    for each in messages:
        if each.thread not in threads:
            continue
        exchange = _cut_exchange(each, room, count)
        if not exchange.text or (exchange.parent and not exchange.parent.text):
            continue
        tried = [*chosen, exchange]
        text = f"{head}\n\n{EXAMPLES}\n\n{_render_exchanges(tried, open_threads)}"
        if count(text) <= tokens:
            chosen, prompt = tried, text
    return prompt


def _describe_style(style: StyleProfile) -> str:
    phrases = [" ".join(phrase.split())[:_PHRASE_CHARS] for phrase in style.common_phrases[:5]]
    lines = [
        f"You answer as {style.person} would, in their own way of writing.",
        "",
        "How they write:",
        f"- Tone: {style.tone}",
        f"- Vocabulary Level: {style.vocabulary_level}",
        f"- Message Length: {style.message_length}",
        f"- Common Phrases: {', '.join(phrases) or 'none'}",
    ]
    if style.emoji:
        lines.append(f"- Emoji: {' '.join(style.emoji)}")
    often = [name for name, share in style.habits.items() if share >= 0.5]
    if often:
        lines.append(f"- Habits: {', '.join(often)}")
    return "\n".join(lines)


def _cut_exchange(each: ContextMessage, room: int, count: Count) -> ContextMessage:
    """A message and the one that it answers, each cut to so many tokens."""

    def cut(message: Message) -> Message:
        def fits(text: str) -> bool:
            return count(format_message(replace(message, text=text), authors=True)) <= room

        return replace(message, text=cut_middle(message.text, fits))

    return replace(each, message=cut(each.message), parent=cut(each.parent) if each.parent else None)


def _render_exchanges(messages: Sequence[ContextMessage], open_threads: Mapping[str, ThreadView]) -> str:
    """The messages by thread, each thread by time; before a reply stands what it answers, unless it was just shown."""
    blocks = []
    for thread in group_by_thread(messages, open_threads):
        lines: list[str] = []
        last = answered = ""
        for each in thread.messages:
            if each.parent and each.parent.id not in (last, answered):
                lines.append(format_message(each.parent, authors=True))
            mark = format_reply_mark(is_reply=each.parent is not None, guessed=each.guessed)
            said = format_message(each.message, authors=True)
            if mark:
                lines[-1] += f"{NEXT_LINE}{mark}{said}"
            else:
                lines.append(said)
            last, answered = each.id, each.parent.id if each.parent else ""
        blocks.append("\n".join(lines))
    return THREAD_SEPARATOR.join(blocks)
