"""Letters and their marks: no word, and no part of a text that is shown, ends between the two."""

import unicodedata

from clew.core.unicode import is_mark, widen_to_whole_letters
from clew.query.rewrite.keywords import split_words
from clew.surface.cli.render import extract_query_terms, highlight_terms, make_snippet

THAI = "ทีมปฏิบัติการเปลี่ยนกุญแจของเซิร์ฟเวอร์ทุกเก้าสิบวันและบันทึกไว้ในสมุด"
HINDI = "संचालन दल हर नब्बे दिन में सभी सर्वरों की चाबियाँ बदलता है"
TEXTS = (
    THAI,
    HINDI,
    "မြန်မာစာ",
    "ភាសាខ្មែរ",
    "ພາສາລາວ",
    "يُغَيِّرُ الفَرِيقُ",
    unicodedata.normalize("NFD", "Schlüssel für Räume"),
)


def list_cuts(text: str, words: list[str]) -> list[str]:
    """The words that do not stand in the text between letters with all their marks."""
    cut = []
    for word in words:
        end = text.index(word) + len(word)
        if is_mark(word[0]) or (end < len(text) and is_mark(text[end])):
            cut.append(word)
    return cut


def test_words_keep_the_marks_of_their_letters() -> None:
    for text in TEXTS:
        assert split_words(text) == text.split()
    assert split_words("few-shot v2.1 of C# isn't Ada's") == ["few-shot", "v2.1", "of", "C#", "isn't", "Ada"]


def test_spans_are_widened_to_whole_letters() -> None:
    at = THAI.index("ี")
    assert widen_to_whole_letters(THAI, at, at) == (at - 1, at + 1)
    assert widen_to_whole_letters("plain", 1, 3) == (1, 3)
    assert widen_to_whole_letters("", 0, 0) == (0, 0)


def test_what_matches_is_marked_within_a_text_without_spaces() -> None:
    for query, text, language, marked in (
        ("เปลี่ยนกุญแจ", THAI, "th", "เปลี่ยนกุญแจ"),
        ("更换钥匙", "运维团队每九十天更换一次所有服务器的钥匙", "zh", "更换钥匙"),
        ("चाबियाँ", HINDI, "hi", "चाबियाँ"),
    ):
        terms = extract_query_terms(query, language)
        parts = highlight_terms(text, terms, language=language)
        assert "".join(part for part, _ in parts) == text
        shown = [part for part, style in parts if style]
        assert "".join(shown) == marked, shown
        assert list_cuts(text, shown) == []


def test_a_snippet_of_a_long_text_without_spaces_begins_where_it_matches() -> None:
    text = "แมวนอนบนหลังคา" * 30 + THAI
    shown = make_snippet(text, extract_query_terms("เปลี่ยนกุญแจ", "th"), width=60, language="th")
    assert "เปลี่ยนกุญแจ" in "".join(shown)
    assert not is_mark(shown[0].removeprefix("… ")[0])
