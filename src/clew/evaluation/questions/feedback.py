"""Questions from feedback: what users asked, judged by their thumbs and by the results that they opened."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from clew.core.errors import SettingsError
from clew.evaluation.questions.judged import JudgedQuestion

OPENED_GRADE = 0.5  # of a document that was opened; one that was found good has 1
FIRST_WEIGHT = 0.5  # of an opening of the first result, which many open whatever it is; others have 1
MIN_WEIGHT = 1.0  # of openings that count: one below the first, or two of the first


def make_from_feedback(judgements: Sequence[Mapping[str, Any]], known: Collection[str]) -> Iterator[JudgedQuestion]:
    """The questions with a document that more users found good than bad, or that was opened; those are relevant.

    Judgements are objects as `/v1/feedback` gives them. The same question, whatever its case and white space, is one. A
    document that is not among the known ones is left out. A question with bad judgements alone tells nothing that a
    ranking could be measured by, and is left out.

    To open is less than to find good: the grade is half, it takes two openings where the result was the first, and
    what thumbs say of the document goes before. What was not opened is not judged by that.
    """
    thumbs: dict[str, dict[str, int]] = {}
    openings: dict[str, dict[str, float]] = {}
    asked: dict[str, str] = {}
    for judgement in judgements:
        try:
            text, good, documents = judgement["question"], judgement["good"], judgement["documents"]
        except (KeyError, TypeError):
            raise SettingsError("feedback is a list of objects with question, good and documents") from None
        text = " ".join(str(text).split())
        key = text.casefold()
        asked[key] = text  # as it was written last
        votes, weights = thumbs.setdefault(key, {}), openings.setdefault(key, {})
        for document in dict.fromkeys(documents):
            if judgement.get("kind") == "opened":
                weight = 1.0 if (judgement.get("rank") or 1) > 1 else FIRST_WEIGHT
                weights[document] = weights.get(document, 0.0) + weight
            else:
                votes[document] = votes.get(document, 0) + (1 if good else -1)
    for key, text in asked.items():
        grades = {name: OPENED_GRADE for name, weight in openings[key].items() if weight >= MIN_WEIGHT}
        grades |= {name: float(count > 0) for name, count in thumbs[key].items()}
        grades = {name: grade for name, grade in grades.items() if name in known}
        if text and any(grades.values()):
            yield JudgedQuestion(text, grades)
