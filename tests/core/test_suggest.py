"""Suggestions for a name that is not known."""

from clew.core.suggest import find_close_names, format_names, format_suggestion, suggest_name


def test_the_nearest_names_come_first_whatever_their_case() -> None:
    assert find_close_names("GENERAl", ["random", "general-2", "General"], max_names=2) == ["General", "general-2"]


def test_names_are_listed_in_a_question() -> None:
    assert format_suggestion("hybird", ["hybrid", "lexical"]) == "did you mean hybrid?"
    assert format_suggestion("hybird", ["semantic"]) == ""


def test_the_cutoff_and_the_number_are_kept() -> None:
    assert format_suggestion("abcd", ["abce", "abxy"], cutoff=0.7) == "did you mean abce?"
    assert format_suggestion("abcd", ["abce", "abcf"], max_names=1).count("abc") == 1


def test_a_first_name_stands_for_a_full_name_and_the_other_way_round() -> None:
    assert find_close_names("Ben", ["eva", "Ben Okafor", "ben"], by_word=True) == ["ben", "Ben Okafor"]
    assert find_close_names("ben okafor", ["Ruth Mann", "Ben"], by_word=True) == ["Ben"]
    names = ["search.k", "search.depth"]
    assert find_close_names("search.depht", names, max_names=1) == ["search.depth"]


def test_both_spellings_of_a_name_are_suggested() -> None:
    assert find_close_names("OPS", ["ops", "Ops"]) == ["ops", "Ops"]


def test_a_list_that_is_cut_says_so() -> None:
    assert format_names(["general", "leads", "ops", "a", "b", "c", "d"]) == "general, leads, ops and 4 more"
    assert format_names(["general"]) == "general"
    assert suggest_name("channel", "zzz", "dcba") == "there is no channel 'zzz'; there are a, b, c and 1 more"
    assert suggest_name("channel", "zzz", []) == "there is no channel 'zzz'"
