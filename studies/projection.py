"""`python -m studies.projection`: fits the projection that makes token vectors small, on this repository's own texts.

The handbook and the chat of the sample, the questions about them, and the documentation, which are under the licence of
the code: the unit vectors of their tokens, of which the directions in which they differ most are kept (PCA). Nothing of
the judged sets is used. The same texts give the same file; `--seed` draws them where there are more than `--texts`.
"""

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from clew.drivers.late.colbert import ColbertEncoder
from clew.drivers.late.projection import FILE, fit_projection, save_projection

DIM = 96
CHARS = 1000  # of a text, about 250 tokens
ROOT = Path(__file__).parents[1]


def read_texts(root: Path) -> Iterator[str]:
    """Pieces of the pages, the messages and the questions of the repository, in the order of their files."""
    for path in sorted([*root.glob("examples/handbook/**/*.md"), *root.glob("docs/*.md"), root / "README.md"]):
        text = path.read_text(encoding="utf-8")
        yield from (text[at : at + CHARS] for at in range(0, len(text), CHARS))
    for path in sorted(root.glob("examples/chat/*/*.json")):
        yield from (each["text"] for each in json.loads(path.read_text(encoding="utf-8")) if "subtype" not in each)
    for path in sorted(root.glob("examples/*questions*.jsonl")):
        yield from (json.loads(line)["question"] for line in path.read_text(encoding="utf-8").splitlines())


def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the file, and prints how well it keeps cosines of tokens that it was not fitted on."""
    parser = argparse.ArgumentParser(prog="studies.projection", description="Fit the projection of token vectors.")
    parser.add_argument("--out", type=Path, default=FILE)
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--dim", type=int, default=DIM)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    texts = [text for text in dict.fromkeys(read_texts(ROOT)) if text.strip()]
    random.Random(given.seed).shuffle(texts)
    states = ColbertEncoder(fit_projection(np.eye(384, dtype=np.float32), given.dim)).encode_texts(texts[: given.texts])
    held_out = max(1, len(states) // 10)
    vectors, others = np.concatenate(states[held_out:]), np.concatenate(states[:held_out])
    projection = fit_projection(vectors, given.dim)
    save_projection(projection, given.out)
    queries, packed = others[::7], projection.pack(others)
    exact, kept = others @ queries.T, projection.compare(projection.weigh(queries), packed)
    print(f"{len(vectors)} tokens of {len(states) - held_out} texts; {given.out.stat().st_size} bytes")
    print(f"{len(others)} other tokens: cosines differ by {np.abs(exact - kept).mean():.4f} on average,")
    print(
        f"correlation {np.corrcoef(exact.ravel(), kept.ravel())[0, 1]:.4f}; {len(packed) / len(others):.0f} bytes each"
    )


if __name__ == "__main__":
    main()
