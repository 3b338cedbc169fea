"""The table of token vectors."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from clew.core.settings import EmbedderConfig
from clew.drivers.embed.static import TOKENIZER, WEIGHTS, WordLlamaEmbedder, make_wordllama_embedder

TEXTS = ["Keys are rotated every ninety days.", "日本語 🎉", "no", "a\nb\tc  d " * 50]


@pytest.fixture(scope="module")
def wordllama() -> WordLlamaEmbedder:
    return make_wordllama_embedder(EmbedderConfig(name="wordllama"))


def test_the_vectors_are_the_package_s_own(wordllama: WordLlamaEmbedder, tmp_path: Path) -> None:
    # In a process of its own: the package sets up the logging of whoever imports it.
    program = (
        "import sys, pathlib, numpy, wordllama\n"
        "from safetensors.numpy import load_file\n"
        "from tokenizers import Tokenizer\n"
        "from wordllama.inference import WordLlamaInference\n"
        "folder = pathlib.Path(wordllama.__file__).parent\n"
        f"table = load_file(folder / '{WEIGHTS}')['embedding.weight']\n"
        f"tokenizer = Tokenizer.from_file(str(folder / '{TOKENIZER}'))\n"
        "config = wordllama.config.Config.l2_supercat\n"
        "model = WordLlamaInference(table, config, tokenizer)\n"
        "numpy.save(sys.argv[1], model.embed(sys.argv[2:], norm=True))\n"
    )
    out = tmp_path / "theirs.npy"
    subprocess.run([sys.executable, "-c", program, str(out), *TEXTS], check=True, capture_output=True, timeout=120)
    np.testing.assert_allclose(wordllama.embed(TEXTS, role="passage"), np.load(out), atol=1e-6)


def test_an_empty_text_is_like_a_space(wordllama: WordLlamaEmbedder) -> None:
    empty, space = wordllama.embed(["", " "], role="query")
    np.testing.assert_array_equal(empty, space)


def test_the_name_of_a_special_token_is_text(wordllama: WordLlamaEmbedder) -> None:
    assert wordllama.count(["</s>"])[0] > 1


def test_related_texts_are_above_the_floor_and_near(wordllama: WordLlamaEmbedder) -> None:
    asked = wordllama.embed(["How often are keys changed?"], role="query")[0]
    keys, lunch = wordllama.embed([TEXTS[0], "Lunch is served at noon in the canteen."], role="passage")
    assert asked @ keys > wordllama.min_similarity
    assert asked @ keys > asked @ lunch
