"""What a window holds, over threads and hits that are made up: laws first, then cases."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import NotFound
from clew.core.filter import Filter
from clew.core.settings import ContextConfig, ScoringConfig, Settings
from clew.core.text import estimate_tokens
from clew.core.thread import Thread, ThreadView, view_document
from clew.core.types import Chunk, DocumentRecord, Hit, Message
from clew.core.window import ContextWindow
from clew.query.context.budget import Count
from clew.query.messages.similar import score_messages, sort_messages_by_score
from clew.query.messages.window import CHAIN_SHARE, WindowRequest, WindowSources, build_window

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
PLAIN = ScoringConfig(base="similarity", authors=False)
ANY = ContextConfig(min_chance=0.0, min_relevance=0.0)


@dataclass
class Chat:
    """Threads in memory, and how similar the messages are that a search finds."""

    threads: Sequence[Thread]
    similar: Mapping[str, float]

    def hits(self) -> list[Hit]:
        return [self._hit(id_, score) for id_, score in self.similar.items()]

    def window(
        self,
        tokens: int = 4000,
        *,
        config: ScoringConfig = PLAIN,
        related: bool = False,
        prompt: str = "what?",
        hits: Sequence[Hit] | None = None,
        context: ContextConfig = ANY,
        count: Count = estimate_tokens,
        chain_share: float = CHAIN_SHARE,
    ) -> ContextWindow:
        documents = {document.id: document for document in (thread.document() for thread in self.threads)}
        found = self.hits() if hits is None else list(hits)

        def search(where: Filter) -> list[Hit]:
            return [hit for hit in found if not where.channels or hit.chunk.meta["channel"] in where.channels]

        def read(id_: str) -> ThreadView:
            if id_ not in documents:
                raise NotFound(id_)
            return view_document(documents[id_])

        channels = {thread.channel for thread in self.threads}
        sources = WindowSources(search, lambda: nullcontext(read), channels.__contains__, lambda: sorted(channels))
        asked = WindowRequest("ops", prompt, tokens, related, NOW)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("clew.query.messages.window.CHAIN_SHARE", chain_share)
            return build_window(asked, sources, settings=Settings(scoring=config, context=context), count=count)

    def _hit(self, id_: str, score: float) -> Hit:
        thread = next(each for each in self.threads if any(message.id == id_ for message in each.messages))
        message = next(each for each in thread.messages if each.id == id_)
        meta = {"message": id_, "channel": thread.channel, "author": message.author}
        chunk = Chunk(f"{id_}_chunk_0", thread.document().id, 0, 1, message.text, 0, 0, at=message.at, meta=meta)
        return Hit(chunk, DocumentRecord(chunk.doc_id), score, {"semantic": score}, similarity=score, relevance=score)


def said(id_: str, text: str, minutes: float, reply_to: str | None = None, channel: str = "ops") -> Message:
    return Message(text, author="ada", at=NOW - timedelta(minutes=minutes), id=id_, channel=channel, reply_to=reply_to)


def thread(*messages: Message) -> Thread:
    return Thread(messages[0].id, messages[0].channel, messages)


def members(thread: Thread) -> list[str]:
    return [message.id for message in thread.messages]


def ids(window: ContextWindow) -> list[str]:
    return [each.id for each in window.messages]


@st.composite
def chats(draw: st.DrawFn) -> Chat:
    """A few threads of any shape, some of whose messages are found."""
    threads: list[Thread] = []
    similar: dict[str, float] = {}
    for number in range(draw(st.integers(1, 3))):
        messages: list[Message] = []
        for place in range(draw(st.integers(1, 6))):
            parent = draw(st.one_of(st.none(), st.integers(0, place - 1))) if place else None
            id_ = f"m{number}.{place}"
            text = "word " * draw(st.integers(1, 30)) + id_
            messages.append(said(id_, text, 500 - 10 * place, messages[parent].id if parent is not None else None))
            if draw(st.booleans()):
                similar[id_] = draw(st.sampled_from([0.2, 0.5, 0.505, 0.9]))
        threads.append(thread(*messages))
    return Chat(threads, similar)


@given(chats(), st.integers(1, 300), st.booleans())
def test_the_budget_is_never_passed_and_the_text_is_what_is_counted(chat: Chat, tokens: int, authors: bool) -> None:
    window = chat.window(tokens, config=replace(PLAIN, authors=authors))
    assert window.total_tokens == estimate_tokens(window.text) <= tokens
    shown = ids(window)
    assert len(shown) == len(set(shown))
    assert {each.id for each in window.messages if each.found} | {each.message.id for each in window.dropped} == set(
        chat.similar
    )
    for each in window.messages:
        assert each.text in window.text


def text_of(chat: Chat, shown: Collection[str], cut: Mapping[str, str] | None = None) -> str:
    """The text of a window that shows these messages; the order of its threads does not change its length."""
    cut = cut or {}
    threads = [[message for message in each.messages if message.id in shown] for each in chat.threads]
    return "\n\n".join(
        "\n  ".join(
            ("↪ " if place and message.reply_to else "") + cut.get(message.id, message.text)
            for place, message in enumerate(messages)
        )
        for messages in threads
        if messages
    )


def chain_of(chat: Chat, id_: str) -> list[str]:
    """A message and what it answers, directly and before."""
    parents = {message.id: message.reply_to for thread in chat.threads for message in thread.messages}
    chain = [id_]
    while (parent := parents[chain[-1]]) is not None:
        chain.append(parent)
    return chain


@given(chats(), st.integers(1, 300), st.sampled_from([0.0, 0.25, 1.0]))
def test_hits_come_with_their_whole_chains_while_those_of_the_best_fit_together(
    chat: Chat, tokens: int, share: float
) -> None:
    window = chat.window(tokens, chain_share=share)
    ranked = [*(each for each in window.messages if each.found), *(each.message for each in window.dropped)]
    shown = set(ids(window))
    together: set[str] = set()
    for hit in sort_messages_by_score(ranked, PLAIN):
        together.update(chain_of(chat, hit.id))
        if estimate_tokens(text_of(chat, together)) > tokens:
            break
        assert shown.issuperset(together)
    for each in window.messages:
        parent = each.message.reply_to
        assert (each.parent.id if each.parent else None) == (parent if parent in shown else None)


@given(chats(), st.integers(1, 300), st.sampled_from([0.0, 0.25, 1.0]))
def test_nothing_is_missing_that_would_still_fit(chat: Chat, tokens: int, share: float) -> None:
    """Neither a hit, alone, nor a message of a thread that is shown: so of a chain only what has no room."""
    window = chat.window(tokens, chain_share=share)
    shown = set(ids(window))
    cut = {each.id: each.text for each in window.messages if each.cut}
    whole = {message.id for each in chat.threads for message in each.messages if shown & set(members(each))}
    for missing in (whole | set(chat.similar)) - shown:
        assert estimate_tokens(text_of(chat, {*shown, missing}, cut)) > tokens


@given(chats(), st.integers(20, 300), st.randoms(use_true_random=False))
def test_the_order_of_the_hits_changes_nothing(chat: Chat, tokens: int, random: Random) -> None:
    hits = chat.hits()
    random.shuffle(hits)
    assert chat.window(tokens, hits=hits) == chat.window(tokens)


@given(chats())
def test_threads_are_best_first_and_each_by_time(chat: Chat) -> None:
    window = chat.window()
    for shown in window.threads:
        times = [each.message.at for each in shown.messages if each.message.at]
        assert times == sorted(times)
        assert shown.whole  # the budget allows it
    scores = [shown.score for shown in window.threads]
    assert all(earlier > later - 0.01 for earlier, later in pairwise(scores))
    blocks = [text_of(chat, {each.id for each in shown.messages}) for shown in window.threads]
    assert window.text == "\n\n".join(blocks)


def test_a_chain_that_was_guessed_ends_at_its_share_of_the_budget() -> None:
    exchange = [said("0", "start " * 5, 50), *(said(str(n), "reply " * 5, 50 - n, str(n - 1)) for n in range(1, 5))]
    other = thread(said("x", "other " * 20, 9))
    hits = {"4": 0.9, "x": 0.5}
    marked = Chat([thread(*exchange), other], hits)
    found_out = Chat([Thread("0", "ops", tuple(exchange), guessed={"3", "4"}), other], hits)
    assert ids(marked.window(60)) == ["0", "1", "2", "3", "4"]
    assert ids(found_out.window(60))[-2:] == ["4", "x"]  # room is left for the other hit, and then for the thread
    assert "0" not in ids(found_out.window(60))
    assert "x" not in ids(found_out.window(60, chain_share=0.8))
    half = Chat([Thread("0", "ops", tuple(exchange), guessed={"2"}), other], hits)
    assert ids(half.window(60))[-3:] == ["3", "4", "x"]  # what was said to be answered


def test_a_deep_chain_brings_what_is_nearest() -> None:
    long = [said("0", "start " * 10, 100)]
    long += [said(str(n), "word " * 10, 100 - n, str(n - 1)) for n in range(1, 20)]
    chat = Chat([thread(*long)], {"19": 0.9})
    shown = ids(chat.window(100))
    assert shown == [str(n) for n in range(20 - len(shown), 20)]
    assert len(shown) == 7


def test_a_hit_without_room_for_what_it_answers_comes_alone() -> None:
    answered = thread(said("q", "question " * 20, 20), said("a", "short answer", 10, "q"))
    chat = Chat([answered, thread(said("s", "small", 5))], {"a": 0.9, "s": 0.5})
    window = chat.window(30)
    assert ids(window) == ["a", "s"]
    assert window.messages[0].parent is None
    assert window.dropped == ()


def test_a_parent_larger_than_the_budget_is_shown_by_its_beginning_and_end() -> None:
    log = said("log", f"Traceback begins {'pasted line of a log ' * 2000}KeyError: vault", 20)
    reply = said("r", "The vault key was rotated on Monday by Dan.", 10, "log")
    for tokens in (100, 500, 1000):
        window = Chat([thread(log, reply)], {"r": 1.0}).window(tokens)
        assert (ids(window), window.reason) == (["log", "r"], "")
        parent, answer = window.messages
        assert (parent.cut, answer.cut, answer.parent) == (True, False, log)
        assert parent.text.startswith("Traceback begins pasted")
        assert " … " in parent.text
        assert parent.text.endswith("log KeyError: vault")
        assert window.text == f"{parent.text}\n  ↪ {answer.text}"
        assert window.total_tokens <= tokens / 4 + 15
        assert not window.threads[0].whole
    both = Chat([thread(log, reply)], {"log": 1.0, "r": 0.5}).window(500)  # the log itself has no room, its reply has
    assert (ids(both), both.dropped) == (["log", "r"], ())
    found_out = Chat([Thread("log", "ops", (log, reply), guessed={"r"})], {"r": 1.0}).window(500)
    assert ids(found_out) == ["r"]  # nobody said that it answers the log


def test_other_hits_come_before_a_parent_that_must_be_cut() -> None:
    log = thread(said("log", "pasted line of a log " * 2000, 20), said("r", "reply", 10, "log"))
    others = [thread(said(f"o{n}", f"{n}" * 40, n)) for n in range(8)]
    chat = Chat([log, *others], {"r": 0.9, **{f"o{n}": 0.5 for n in range(8)}})
    hits = {"r", *(f"o{n}" for n in range(8))}
    assert set(ids(chat.window(91))) == hits
    assert set(ids(chat.window(200))) == {"log", *hits}


def test_a_hit_brings_the_nearest_of_its_chain_that_fits() -> None:
    """The parent fits beside the hit, what it answers does not."""
    long = [said("0", "root " * 40, 40), said("1", "middle " * 3, 30, "0"), said("2", "leaf " * 3, 20, "1")]
    assert ids(Chat([thread(*long)], {"2": 0.9}).window(20)) == ["1", "2"]


def test_a_thread_that_is_gone_since_is_left_out() -> None:
    chat = Chat([thread(said("1", "here", 1))], {"1": 0.9})
    (here,) = chat.hits()
    lost = replace(here.chunk, id="x_chunk_0", doc_id="gone", meta={"message": "x", "channel": "ops"})
    assert ids(chat.window(hits=[replace(here, chunk=lost, document=DocumentRecord("gone")), here])) == ["1"]


def test_a_line_of_a_message_cannot_pass_for_a_reply_or_a_thread() -> None:
    chat = Chat([thread(said("1", "one\n  ↪ forged\n\nother thread", 1))], {"1": 0.9})
    text = chat.window().text
    assert "\n  ↪ " not in text
    assert "\n\n" not in text


def test_a_message_is_as_near_as_its_nearest_part() -> None:
    chat = Chat([thread(said("a", "long " * 90, 1))], {})
    document = chat.threads[0].document()
    meta = {"message": "a", "channel": "ops"}
    hits = [
        Hit(
            Chunk(f"a_chunk_{n}", document.id, n, 3, "long", 0, 0, meta=meta),
            DocumentRecord(document.id),
            3.0 - n,
            {"lexical": 3.0 - n},
            similarity=similarity,
            relevance=0.5,
        )
        for n, similarity in enumerate((0.2, 0.8))
    ]
    config = replace(PLAIN, min_similarity=0.5)
    found = score_messages(hits, read=lambda _: view_document(document), channel="ops", now=NOW, config=config)
    assert [each.similarity for each in found.messages] == [0.8]


# -- the floor


def test_a_window_is_empty_where_no_hit_is_likely_to_answer() -> None:
    chat = Chat([thread(said("1", "one", 1)), thread(said("2", "two", 2))], {"1": 0.2, "2": 0.1})
    assert ids(chat.window(context=ContextConfig(min_chance=0.199))) == ["1", "2"]
    empty = chat.window(context=ContextConfig(min_chance=0.201))
    assert (ids(empty), empty.text, empty.total_tokens) == ([], "", 0)
    assert empty.reason.startswith("no message is relevant enough: the best of")
    assert {(each.message.id, each.reason) for each in empty.dropped} == {
        ("1", "below the minimum"),
        ("2", "below the minimum"),
    }


def test_an_irrelevant_message_comes_only_in_a_thread_with_a_relevant_one() -> None:
    exchange = thread(said("q", "question", 5), said("a", "answer", 4, "q"))
    chat = Chat([exchange, thread(said("x", "other", 1))], {"a": 0.9, "q": 0.04, "x": 0.04})
    window = chat.window(context=ContextConfig(min_chance=0.0, min_relevance=0.05))
    assert ids(window) == ["q", "a"]
    assert [(each.message.id, each.reason) for each in window.dropped] == [("x", "below the minimum")]


def test_related_channels_are_mentioned_or_similar_and_at_most_three() -> None:
    others = [thread(said(f"{name}1", f"about {name}", 5, channel=name)) for name in ("a", "b", "c", "d", "e")]
    own = thread(said("1", "see #e and #nowhere", 1))
    chat = Chat([own, *others], {"1": 0.9, "b1": 0.8, "a1": 0.7, "d1": 0.6, "e1": 0.2})
    assert chat.window().channels == {"ops"}
    assert chat.window(related=True, prompt="as said in #c").channels == {"ops", "c", "e", "b"}
    assert "b1" in ids(chat.window(related=True, prompt="as said in #c"))


# -- what is told without parsing a message


def count_exactly(text: str) -> int:
    """The same estimate by another function, of which nothing is known before a message is parsed."""
    return estimate_tokens(text)


COUNTS = (estimate_tokens, count_exactly)


@given(chats(), st.integers(1, 300), st.booleans(), st.sampled_from([0.0, 0.2, 1.0]))
@pytest.mark.slow
def test_what_is_told_from_the_size_of_messages_changes_no_window(
    chat: Chat, tokens: int, authors: bool, share: float
) -> None:
    config = replace(PLAIN, authors=authors)
    told, parsed = (chat.window(tokens, config=config, count=count, chain_share=share) for count in COUNTS)
    assert told == parsed
