"""Questions from feedback: what users asked, judged by the thumbs they gave to the answers and their documents."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from clew.core.errors import SettingsError
from clew.evaluation.questions.judged import JudgedQuestion


def make_from_feedback(judgements: Sequence[Mapping[str, Any]], known: Collection[str]) -> Iterator[JudgedQuestion]:
    """The questions with a document that more users found good than bad, those documents relevant.

    Judgements are objects as `/v1/feedback` gives them. The same question, whatever its case and white space, is one. A
    document that is not among the known ones is left out. A question with bad judgements alone tells nothing that a
    ranking could be measured by, and is left out.
    """
    votes: dict[str, dict[str, int]] = {}
    asked: dict[str, str] = {}
    for judgement in judgements:
        try:
            text, good, documents = judgement["question"], judgement["good"], judgement["documents"]
        except (KeyError, TypeError):
            raise SettingsError("feedback is a list of objects with question, good and documents") from None
        text = " ".join(str(text).split())
        key = text.casefold()
        asked[key] = text  # as it was written last
        counts = votes.setdefault(key, {})
        for document in dict.fromkeys(documents):
            counts[document] = counts.get(document, 0) + (1 if good else -1)
    for key, counts in votes.items():
        grades = {name: float(count > 0) for name, count in counts.items() if name in known}
        if asked[key] and any(grades.values()):
            yield JudgedQuestion(asked[key], grades)
