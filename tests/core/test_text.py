"""The analyser: exact terms, words and sentences, and what holds for any text."""

import os
import subprocess
import sys
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import SettingsError
from clew.core.sentences import split_sentences
from clew.core.text import estimate_tokens, extract_terms, prepend_headings, tokenize_words


def cut(text: str) -> list[str]:
    """The sentences as texts."""
    return [text[start:end] for start, end in split_sentences(text)]


# terms: prose


def test_terms_are_stemmed_counted_and_without_function_words() -> None:
    assert extract_terms("The cats are chasing a cat in the gardens.") == {"cat": 2, "chase": 1, "garden": 1}


def test_words_that_say_something_stay_terms() -> None:
    assert extract_terms("what is not before the war") == {"not": 1, "befor": 1, "war": 1}


def test_a_text_of_function_words_alone_keeps_them() -> None:
    assert extract_terms("Who are you?") == {"who": 1, "are": 1, "you": 1}


@pytest.mark.parametrize("text", ["", " \n\t", "… — !?", "***", "___"])
def test_a_text_without_letters_or_digits_has_no_terms(text: str) -> None:
    assert extract_terms(text) == {}


def test_apostrophes() -> None:
    assert extract_terms("the Einstein’s idea and they'll see O'Brien", language="en") == {
        "einstein": 1,
        "idea": 1,
        "see": 1,
        "obrien": 1,
        "brien": 1,
    }
    assert set(extract_terms("l'eau dell'arte", language="fr")) == {"eau", "arte"}


def test_diacritics_and_width_are_folded() -> None:
    assert extract_terms("café naïve Ｆｕｌｌ ﬁle", language="en") == extract_terms(
        "cafe naive Full file", language="en"
    )
    assert extract_terms("Łódź Ærø", language="en") == extract_terms("Lodz Aero", language="en")


def test_a_blob_is_cut_to_a_term_of_bounded_length() -> None:
    assert extract_terms("x" * 1000, language="tr") == {"x" * 64: 1}


# terms: languages


@pytest.mark.parametrize(
    ("document", "query"),
    [
        ("Die Versicherungen sind für die Häuser der Stadt nicht zu teuer.", "Versicherung"),
        ("Die Versicherungen sind für die Häuser der Stadt nicht zu teuer.", "Haus Stadt"),
        ("Les chevaux sont dans les prairies et ils mangent avec nous.", "cheval prairie"),
        ("Los trabajadores de las ciudades no están en el campo.", "trabajador ciudad"),
        ("Le assicurazioni sono per gli operai della città.", "assicurazione operaio"),
        ("As traduções são para os leitores da cidade.", "tradução leitor"),
        ("De verzekeringen zijn voor de huizen van het dorp niet te duur.", "verzekering"),
        ("Сколько домов было в городах", "город дом"),
        ("The insurances are for the houses of the city.", "insurance house"),
    ],
)
def test_a_query_of_bare_words_finds_the_inflected_document(document: str, query: str) -> None:
    assert extract_terms(document).keys() & extract_terms(query, is_query=True).keys()


def test_english_in_doubt_adds_nothing() -> None:
    assert extract_terms("world health insights") == {"world": 1, "health": 1, "insight": 1}


def test_a_long_text_without_function_words_is_taken_as_english() -> None:
    names = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda sigma omega Versicherungen"
    assert extract_terms(names) == extract_terms(names, language="en")


def test_a_language_may_be_given() -> None:
    assert extract_terms("Versicherungen", language="de") == {"versicher": 1}
    assert extract_terms("Versicherungen", language="en") == {"versicherungen": 1}


def test_an_unknown_language_is_refused_with_those_there_are() -> None:
    with pytest.raises(SettingsError, match=r"language 'klingon' is not known; it may be auto, en, de, fr"):
        extract_terms("text", language="klingon")


def test_scripts_without_spaces_become_pairs_of_characters() -> None:
    assert extract_terms("黑豹队的防守") == {"黑豹": 1, "豹队": 1, "队的": 1, "的防": 1, "防守": 1}
    assert extract_terms("猫") == {"猫": 1}
    assert extract_terms("カタカナ") == {"カタ": 1, "タカ": 1, "カナ": 1}
    assert extract_terms("안녕 세계") == {"안녕": 1, "세계": 1}
    assert extract_terms("ไทย") == {"ไท": 1, "ทย": 1}


def test_latin_inside_unspaced_text_stands_alone() -> None:
    assert extract_terms("使用max_skew设置") == {"使用": 1, "设置": 1, "maxskew": 1, "max": 1, "skew": 1}


def test_other_scripts_are_stemmed_by_themselves() -> None:
    assert extract_terms("the города", language="en") == extract_terms("город", language="en")
    assert extract_terms("दुनिया").keys() == {"दुनिय"}


# terms: identifiers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("maxSkew", {"maxskew", "max", "skew"}),
        ("max_skew", {"maxskew", "max", "skew"}),
        ("max-skew", {"maxskew", "max", "skew"}),
        ("MAX_SKEW", {"maxskew", "max", "skew"}),
        ("HTTPServer", {"httpserver", "http", "server"}),
        ("APIs", {"api"}),
        ("__init__", {"init"}),
        ("E4417", {"e4417", "4417"}),
        ("E-4417", {"e4417", "4417"}),
        ("4417", {"4417"}),
        ("ingest.max_skew", {"ingestmaxskew", "ingest", "maxskew", "max", "skew"}),
        ("std::vector", {"stdvector", "std", "vector"}),
        ("3.11.2", {"3.11.2", "3.11"}),
        ("v3.11.2", {"v3.11.2", "3.11.2", "3.11"}),
        ("3.14", {"3.14"}),
        ("1,000,000", {"1000000"}),
        ("2024-05-01", {"2024-05-01", "2024", "05", "01"}),
        ("größe2", {"grosse2", "grosse"}),
        ("20mg", {"20mg", "20", "mg"}),
        ("C++", {"c++"}),
        ("C#", {"c#"}),
        ("U.S.", {"us"}),
        ("bob.smith@acme.org", {"bobsmithacmeorg", "bobsmith", "bob", "smith", "acmeorg", "acm", "org"}),
        ("https://www.acme.org/docs", {"acmeorgdoc", "acmeorg", "acm", "org", "doc"}),
    ],
)
def test_identifiers_give_their_parts_and_themselves(text: str, expected: set[str]) -> None:
    assert set(extract_terms(text, language="en")) == expected


def test_an_exact_identifier_shares_more_terms_than_its_parts() -> None:
    stored = extract_terms("set ingest.max_skew_ms to 20", language="en").keys()
    exact = stored & extract_terms("ingest.max_skew_ms", language="en").keys()
    inner = stored & extract_terms("maxSkewMs", language="en").keys()
    parts = stored & extract_terms("max skew ms ingest", language="en").keys()
    assert parts < exact
    assert "maxskewm" in inner
    assert "maxskewm" not in parts


# words


def test_words_are_folded_in_order_and_not_stemmed() -> None:
    assert tokenize_words("The Größe of max_skew_ms, v3.11.2 – don't!") == [
        *("the", "grosse", "of", "max", "skew", "ms", "v3.11.2", "don", "t"),
    ]
    assert tokenize_words("Python语言好 3.5, 1,000.") == ["python", "语言", "言好", "3.5", "1,000"]
    assert tokenize_words("") == []


# sentences


@pytest.mark.parametrize(
    "expected",
    [
        ["First sentence.", "Second sentence.", "Third sentence."],
        ["Dr. Smith met Mrs. Jones, e.g. in Paris.", "They talked."],
        ["See Fig. 2 and No. 5.", "No.", "I will not."],
        ["It costs 3.50 euros!", "Really?", "Yes."],
        ["Das gilt z.B. für Häuser.", "Am 3. Oktober d.h. morgen."],
        ["J. R. R. Tolkien wrote it.", "Vitamin C.", "It helps."],
        ["He lives in the U.S. Army base.", "She left the U.S.", "The end."],
        ['"Stop!" she said.', '"Why?"', "He left (for good.)", "Then: silence."],
        ["Wait... what is it…", "Nothing."],
        ["It is known.[12]", "Next.", "**Bold.**", "Plain."],
        ["i went home.", "it was fine!", "ok"],
        ["Install example.com.", "Use v1.2.3.", "Done"],
    ],
)
def test_sentences(expected: list[str]) -> None:
    assert cut(" ".join(expected)) == expected


def test_an_initial_within_a_name_ends_no_sentence() -> None:
    text = "We read Ursula K. Le Guin in June. The next is by Honoré M. de Balzac. Ask Ada L. The rest is open."
    found = [text[low:high] for low, high in split_sentences(text)]
    assert found[0] == "We read Ursula K. Le Guin in June."
    assert found[-2:] == ["Ask Ada L.", "The rest is open."]


def test_sentences_of_chinese_and_japanese_need_no_space() -> None:
    assert cut("今天好。我们走吧！「真的？」他说。") == ["今天好。", "我们走吧！", "「真的？」", "他说。"]


def test_line_breaks_end_a_sentence_at_blank_lines_headings_and_items() -> None:
    text = "# Title\nA wrapped\nline\n\nPoints\n- one\n- two\n1. Install it.\n2. Run\r\n\r\nEnd"
    assert cut(text) == [
        *("# Title", "A wrapped\nline", "Points", "- one", "- two", "1. Install it.", "2. Run", "End"),
    ]


def test_sentences_are_spans_without_the_space_around() -> None:
    assert split_sentences("  One.   Two.  ") == [(2, 6), (9, 13)]
    assert split_sentences(" \n ") == []


# tokens and headings


@pytest.mark.parametrize(("length", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2), (200, 50), (201, 51)])
def test_estimate_tokens_is_a_quarter_rounded_up(length: int, tokens: int) -> None:
    assert estimate_tokens("x" * length) == tokens


@pytest.mark.parametrize(
    ("headings", "text", "expected"),
    [
        ([], "Some content here", "Some content here"),
        (["Patterns"], "Example code", "Patterns: Example code"),
        (["Patterns", "Chain of Thought", "Example"], "code here", "Chain of Thought: Example: code here"),
        (["Patterns", "Chain-of-Thought", "Example"], "code here", "Chain-of-Thought: Example: code here"),
        (["Patterns", "Advanced", "Examples"], "content here", "Patterns: Advanced: Examples: content here"),
        (["Topics", "Chain of Thought", "Zero Shot Learning"], "content", "Zero Shot Learning: content"),
        (["API Reference", "Authentication", "OAuth 2.0"], "Configure", "OAuth 2.0: Configure"),
        (["Getting Started", "Quick Start"], "Install", "Quick Start: Install"),
        (["模式", "思维链", "示例"], "代码", "思维链: 示例: 代码"),
        (["Setup", " "], "Install", "Setup: Install"),
    ],
)
def test_headings_are_taken_up_to_the_first_of_several_words(headings: list[str], text: str, expected: str) -> None:
    assert prepend_headings(headings, text) == expected


# what holds for any text

LIVELY = st.text(st.sampled_from(list("abcXYZäßñ019 .,!?…'’\"()[]-_/@:#+\n\r\t。！「」猫カ안ไก\u0301\u2028नि")))
ANY = st.text() | LIVELY


@given(ANY)
def test_sentences_cover_every_character_that_is_not_space_once_and_in_order(text: str) -> None:
    spans = split_sentences(text)
    assert all(start < end for start, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    inside = {i for start, end in spans for i in range(start, end)}
    assert all(char.isspace() for i, char in enumerate(text) if i not in inside)
    assert not any(text[start].isspace() or text[end - 1].isspace() for start, end in spans)


@given(ANY)
def test_any_text_has_terms_if_it_has_a_letter_or_a_digit(text: str) -> None:
    found = extract_terms(text)
    assert all(term and count > 0 for term, count in found.items())
    if any(map(str.isalnum, text)):
        assert found


@given(ANY)
def test_any_text_has_words_without_space(text: str) -> None:
    assert not any(word != word.strip() or not word for word in tokenize_words(text))


@given(ANY)
def test_composition_does_not_change_the_terms(text: str) -> None:
    assert extract_terms(unicodedata.normalize("NFC", text)) == extract_terms(unicodedata.normalize("NFD", text))


@given(ANY)
def test_case_does_not_change_the_terms(text: str) -> None:
    low = unicodedata.normalize("NFKC", text.casefold())
    if all(
        char.upper().casefold() == char == char.casefold() for char in low
    ):  # a few letters do not survive the way up and back
        assert extract_terms(low.upper()) == extract_terms(low)


def test_threads_agree() -> None:
    texts = [f"running{i} jumped{i} Versicherungen houses" for i in range(400)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(extract_terms, texts)) == [extract_terms(text) for text in texts]


def test_what_is_kept_is_in_one_language_so_an_exact_word_is_not_beaten_by_a_foreign_stem() -> None:
    assert set(extract_terms("token unique")) == {"token", "uniqu"}
    assert set(extract_terms("token unique")) <= set(extract_terms("token unique", is_query=True))


def test_the_terms_of_a_query_do_not_depend_on_the_hash_seed() -> None:
    code = "from clew.core.text import extract_terms; print(extract_terms('get_relevance(hit)', is_query=True))"
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        )
        for seed in ("0", "1")
    ]
    assert len({run.stdout for run in runs}) == 1
