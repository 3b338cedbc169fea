"""Suggestions for a name that is not known."""

from clew.core.suggest import find_close_names, format_suggestion


def test_the_nearest_names_come_first_whatever_their_case() -> None:
    assert find_close_names("GENERAl", ["random", "general-2", "General"], max_names=2) == ["General", "general-2"]


def test_names_are_listed_in_a_question() -> None:
    assert format_suggestion("hybird", ["hybrid", "lexical"]) == "did you mean hybrid?"
    assert format_suggestion("hybird", ["semantic"]) == ""


def test_the_cutoff_and_the_number_are_kept() -> None:
    assert format_suggestion("abcd", ["abce", "abxy"], cutoff=0.7) == "did you mean abce?"
    assert format_suggestion("abcd", ["abce", "abcf"], max_names=1).count("abc") == 1
