"""Citations: how they stand after any change of the text."""

from hypothesis import given
from hypothesis import strategies as st

from clew.core.cite import Citation, check_citation, hash_quote

TEXT = "Keys are rotated by the platform team. Keys are rotated on Mondays."


def cited(text: str, start: int, end: int, *, kept: bool = True) -> Citation:
    quote = text[start:end]
    return Citation("d", "v1", start, end, hash_quote(quote), quote if kept else "")


def test_a_quote_at_its_place_stands_whatever_else_changed() -> None:
    citation = cited(TEXT, 0, 38)
    assert check_citation(citation, TEXT).standing == "stands"
    assert check_citation(citation, TEXT[:38] + " Everything else is new.").standing == "stands"


def test_a_quote_that_moved_is_found_at_the_nearest_place() -> None:
    citation = cited(TEXT, 39, 55)  # "Keys are rotated", the second of two
    moved = check_citation(citation, "Note. " + TEXT)
    assert (moved.standing, moved.start) == ("moved", 45)


def test_changed_words_do_not_stand() -> None:
    assert check_citation(cited(TEXT, 0, 38), TEXT.replace("platform", "security")).standing == "changed"
    assert check_citation(cited(TEXT, 0, 38), "").standing == "changed"


def test_a_document_that_is_gone() -> None:
    assert check_citation(cited(TEXT, 0, 38), None).standing == "gone"


def test_without_the_quote_a_move_cannot_be_told_from_a_change() -> None:
    assert check_citation(cited(TEXT, 0, 38, kept=False), "Note. " + TEXT).standing == "changed"


def test_a_forged_quote_is_not_looked_for() -> None:
    honest = cited(TEXT, 0, 38)
    forged = Citation("d", "v1", 0, 38, honest.hash, "Keys are rotated on Mondays.")
    assert check_citation(forged, "Note. " + TEXT).standing == "changed"
    assert check_citation(forged, TEXT).standing == "changed"


@given(text=st.text(min_size=1), other=st.text(), data=st.data())
def test_a_citation_stands_exactly_where_its_words_do(text: str, other: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    citation = cited(text, start, end)
    assert check_citation(citation, text).standing == "stands"
    result = check_citation(citation, other)
    assert (result.standing == "stands") == (other[start:end] == text[start:end])
    assert (result.standing == "changed") == (text[start:end] not in other)
    if result.start is not None:
        assert other[result.start : result.start + end - start] == text[start:end]
