"""`python -m studies.support.average FILE FILE … --out FILE`: a model whose weights are the mean of several models'.

Runs that went on from the same weights differ by chance and by their mixture; their mean is as good as the better one
or better.
"""

import argparse
from pathlib import Path

from studies.support.network import load_base, write_onnx


def main() -> None:
    """Writes the mean."""
    parser = argparse.ArgumentParser(prog="studies.support.average", description="The mean of several models.")
    parser.add_argument("models", type=Path, nargs="+", help="model.onnx of each run")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    states = [load_base(path).state_dict() for path in given.models]
    mean = {name: (sum(state[name] for state in states) / len(states)).numpy() for name in states[0]}
    write_onnx(given.models[0], mean, given.out)


if __name__ == "__main__":
    main()
