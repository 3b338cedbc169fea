"""Small talk is told from short questions; a question is never silenced for the words it is made of."""

import pytest

from clew.core.small_talk import estimate_intent, has_content, is_question, is_small_talk


@pytest.mark.parametrize(
    "text",
    [
        *("thanks!", "ok", "good morning everyone", "have a nice day", "good job!", "how are you?", "what's up?"),
        *("see you tomorrow", "no worries", "haha nice", "👍", "...", "谢谢!", "merci beaucoup", "happy birthday!"),
    ],
)
def test_what_greets_thanks_or_reacts_asks_nothing(text: str) -> None:
    assert is_small_talk(text)
    assert estimate_intent(text) == 0.01


@pytest.mark.parametrize(
    "text",
    [
        *("sick leave", "How does leave work?", "day off", "weekend work", "one on one", "right to work", "E-4147"),
        *("What is the problem?", "How to test?", "Is Christmas day a day off?", "你好,怎么请假?", "test environment"),
        *("Was ist Morgen los?", "welcome pack contents", "who rotates the keys?", "42"),
    ],
)
def test_a_short_question_or_subject_asks(text: str) -> None:
    assert not is_small_talk(text)
    assert estimate_intent(text) == 1.0


def test_what_tells_of_oneself_must_match_more_clearly() -> None:
    assert estimate_intent("sorry, my train is late") == estimate_intent("I forgot my password") == 0.35
    assert estimate_intent("I forgot my password, what now?") == 1.0


def test_a_question_has_a_mark_or_begins_with_a_word_that_asks() -> None:
    assert all(map(is_question, ("the keys?", "where are the keys", "tell me who rotates the keys", "钥匙在哪里？")))
    assert not any(map(is_question, ("the keys", "have a nice day", "")))


@pytest.mark.parametrize(
    "text",
    [
        *("8080", "$400", "#4512", "v2.1.3", "it is 5", "42", "10:30", "10:30:45", "-1.5", "+10", "👍 8080"),
        *("use port 8080", "kernel panic", "PROJ-123", "服务器坏了"),
    ],
)
def test_a_number_a_code_or_two_words_of_a_subject_are_content(text: str) -> None:
    assert has_content(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "+1",
            "-1",
            "1",
            "+1!",
            "+1 👍",
            "+1👍",
            "+1 from me",
            ":+1:",
            ":+1::skin-tone-2:",
            ":white_check_mark:",
            "1️⃣",
            "ok",
            "yes",
            "🙂",
        ),
        *("", "thanks!", "good point", "no problem", "谢谢", "panic"),
    ],
)
def test_votes_and_reactions_are_no_content(text: str) -> None:
    assert not has_content(text)
