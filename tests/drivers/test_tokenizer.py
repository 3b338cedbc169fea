"""Counting with a tokenizer's file."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from clew.core.errors import DriverFailed, NotFound
from clew.drivers.tokenizer import load_token_counter


def test_tokens_are_those_of_the_file_and_never_cut_or_padded(tmp_path: Path) -> None:
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=8)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    count = load_token_counter(tmp_path / "tokenizer.json")
    assert count("one two three, four") == 5
    assert count("one") == 1
    assert count("") == 0


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"context\.tokenizer"):
        load_token_counter(tmp_path / "none.json")
    (tmp_path / "broken.json").write_text("{}", encoding="utf-8")
    with pytest.raises(DriverFailed, match=r"broken\.json"):
        load_token_counter(tmp_path / "broken.json")
