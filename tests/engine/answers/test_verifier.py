"""What the built-in verifier makes of a model's sentences: paraphrases, lies, quotes, other languages, the setting."""

from typing import Any

import pytest

from clew import Document, Engine, ScriptedLLM
from clew.query.answer.check import NOT_READ
from tests.engine.answers.test_verdicts import ask_about, make_settings

BACKUPS = (
    "Backups run every night at 01:30. They are encrypted before they leave the building. "
    "The keys are kept by Ines Dahl. Weekly copies are kept for five weeks."
)
LEASE = "Rent £2,400 pcm, payable in advance. Pets are allowed in the garden only. The deposit is two months of rent."
GERMAN = "Die Miete beträgt 900 Euro im Monat und ist bis zum dritten Werktag zu zahlen. Haustiere sind nicht erlaubt."


def judge(page: str, reply: str, **options: Any) -> list[str]:
    return [each.verdict for each in ask_about(page, reply, **options).sentences]


@pytest.mark.parametrize(
    ("page", "true"),
    [
        ("The rent is £2,400 a month.", "The rent amounts to £2,400 per month [1]."),
        (BACKUPS, "Every night at 01:30 a backup is made [1]."),
        (BACKUPS, "Ines Dahl holds the keys [1]."),
    ],
)
def test_what_is_true_in_other_words_is_supported(page: str, true: str) -> None:
    assert judge(page, true) == ["supported"]


def test_a_truth_in_other_words_is_not_called_unsupported() -> None:
    for true in ("You owe £2,400 monthly [1].", "Pets may only be kept in the garden [1]."):
        assert judge(LEASE, true) in (["unsure"], ["supported"])


def test_a_truth_in_other_words_that_cites_a_wrong_passage_gets_the_right_one() -> None:
    pages = {"vault": "Dan rotates the signing keys every ninety days.", "lease": LEASE, "backups": BACKUPS}
    for true, wrong in (("The person in charge of swapping the signing keys is Dan", 3), ("Dan is who swaps keys", 9)):
        llm = ScriptedLLM(f"{true} [{wrong}].")
        with Engine.open(":memory:", embedder="hashed", llm=llm, settings=make_settings()) as engine:
            engine.add_documents(Document(name, text, title=name, uri=name) for name, text in pages.items())
            answer = engine.ask("who rotates the signing keys?")
        assert [each.verdict for each in answer.sentences] == ["supported"]
        assert [cited.uri for cited in answer.citations] == ["vault"]


def test_code_that_stands_word_for_word_in_a_passage_is_supported() -> None:
    page = "To restart the worker run:\n\n```sh\nworker stop 3\n\nkeys = found[1]\n```\n\nIt takes a minute."
    code = "```\nworker stop 3\n\nkeys = found[1]\n```"
    for block, verdict in ((code, "supported"), (code.replace("stop", "kill"), "unsure")):
        reply = f"Run this: [1]\n{block}\nIt takes a minute [1]."
        answer = ask_about(page, reply, question="how do I restart the worker?")
        judged = [(each.text, each.verdict) for each in answer.sentences]
        assert judged[1:] == [(block, verdict), ("It takes a minute.", "supported")]
        mark = "[1]" if verdict == "supported" else "[not sure]"
        assert f"{block}\n{mark}\n" in answer.text  # what stands behind a fence would open it again


def test_a_reason_names_only_what_is_missing() -> None:
    page = "The hotel rate is 150 EUR in Germany, and 220 EUR in Switzerland."
    for claim, reason in (
        ("Up to €220 per night in Switzerland", "the cited passage does not clearly say so"),
        ("A hotel there may cost €320", "€320 is not in the cited passage"),
    ):
        answer = ask_about(page, f"{claim} [1].", question="what may a hotel cost in Switzerland?")
        assert [each.reason for each in answer.sentences] == [reason]
        assert (answer.found, answer.reason) == (True, "")  # an unsure sentence is an answer too, and marked


@pytest.mark.parametrize(
    ("page", "false"),
    [
        (BACKUPS, "Backups are deleted before they leave the building [1]."),
        (BACKUPS, "Backups are encrypted after they leave the building [1]."),
        (BACKUPS, "Weekly copies are kept for nine weeks [1]."),
        (LEASE, "Pets are not allowed in the garden [1]."),
        (LEASE, "The landlord pays for the repairs [1]."),
    ],
)
def test_a_lie_is_not_labelled_supported(page: str, false: str) -> None:
    assert judge(page, false) != ["supported"]


def test_the_rules_pass_what_the_verifier_does_not() -> None:
    lie = "Backups are deleted before they leave the building [1]."
    assert (judge(BACKUPS, lie, verifier="rules"), judge(BACKUPS, lie)) == (["supported"], ["unsupported"])


def test_a_quote_must_be_word_for_word() -> None:
    assert judge(BACKUPS, "The page says “They are encrypted before they leave the building” [1].") == ["supported"]
    assert judge(BACKUPS, "The page says “They are encrypted before leaving the building” [1].") == ["unsupported"]


def test_the_evidence_may_stand_far_down_a_long_page_or_in_the_heading() -> None:
    filler = " ".join(f"Note {at} was filed by the clerk without any comment of interest." for at in range(30))
    assert judge(f"{filler} {BACKUPS}", "The keys are held by Ines Dahl [1].", question="who keeps the keys?") == [
        "supported"
    ]
    page = "It weighs 12 kg and is delivered with two batteries."
    assert judge(page, "The Falcon drill weighs 12 kg [1].", title="Falcon drill") == ["supported"]


def test_what_the_verifier_cannot_read_is_checked_by_its_quotes_numbers_and_names() -> None:
    exact, wrong, other = (
        f"Die Miete {rest} [1]."
        for rest in ("beträgt 900 Euro im Monat", "beträgt im Monat 750 Euro", "ist im Monat 900 Euro")
    )
    answer = ask_about(GERMAN, f"{exact} {wrong} {other}", question="Wie hoch ist die Miete?")
    verbatim, false, changed = answer.sentences
    assert (verbatim.verdict, verbatim.reason, verbatim.is_read) == ("supported", "", True)
    assert false.verdict == "unsupported"
    assert (changed.verdict, changed.reason, changed.is_read) == ("unsure", NOT_READ, False)
    assert answer.text.endswith("[not supported] Die Miete ist im Monat 900 Euro. [not sure] [not checked]")
    assert answer.text.count("[not checked]") == 1


def test_the_confidence_of_a_models_answer_is_the_mean_chance_of_the_sentences_that_are_shown() -> None:
    def answer(reply: str, **options: Any) -> tuple[float, list[float | None]]:
        made = ask_about(BACKUPS, reply, question="what about backups?", **options)
        return made.confidence, [each.support for each in made.sentences]

    verbatim = "The keys are kept by Ines Dahl [1]."
    other_words = "Every night at 01:30 a backup is made [1]."
    lie = "Backups are deleted before they leave the building [1]."
    misquote = "It says “They are encrypted before leaving the building” [1]."
    assert answer(verbatim) == (1.0, [1.0])
    sure, _ = answer(other_words)
    assert 0.5 < sure < 1
    mixed, (first, second) = answer(f"{verbatim} {lie}")
    assert first == 1
    assert second is not None
    assert second < 0.5
    assert mixed == pytest.approx((1 + second) / 2)
    assert answer(f"Here is what it says:\n\n{verbatim} {misquote}") == (0.5, [None, 1.0, 0.0])
    assert answer(f"{verbatim} {misquote}", unsupported="remove")[0] == 1  # what is not shown does not count
    assert answer(lie)[0] == 0  # nothing is cited
    assert answer(lie, verifier="rules") == (0.7, [0.7])
