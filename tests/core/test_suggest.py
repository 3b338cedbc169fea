"""Suggestions for a name that is not known."""

from clew.core.suggest import find_close_names, suggest_names


def test_the_nearest_names_come_first_whatever_their_case() -> None:
    assert find_close_names("GENERAl", ["random", "general-2", "General"], max_names=2) == ["General", "general-2"]


def test_names_are_listed_in_a_question() -> None:
    assert suggest_names("hybird", ["hybrid", "lexical"]) == "did you mean hybrid?"
    assert suggest_names("hybird", ["semantic"]) == ""


def test_the_cutoff_and_the_number_are_kept() -> None:
    assert suggest_names("abcd", ["abce", "abxy"], cutoff=0.7) == "did you mean abce?"
    assert suggest_names("abcd", ["abce", "abcf"], max_names=1).count("abc") == 1
