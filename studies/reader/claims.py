"""`python -m studies.reader.claims [--part NAME …]`: the built-in verifier on the claims about written contexts.

Each claim is read with its whole page or chat. By default of the parts that nothing was trained on.
"""

import argparse
from collections.abc import Sequence

from clew.core.settings import AnswerConfig
from clew.drivers.verify.cross_encoder import make_support_model
from studies.reader.written import DEVELOPMENT, KEPT, TEST, TRAINED, load_written
from studies.support.__main__ import print_pairs


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="studies.reader.claims", description="Claims about written contexts.")
    parser.add_argument("--part", nargs="+", choices=(*TRAINED, *KEPT, DEVELOPMENT, TEST), default=[*KEPT])
    parser.add_argument("--every", type=int, default=1, help="read only every so many-th context")
    given = parser.parse_args(arguments)
    groups = {
        f"{part}, {kind}s": [
            (context.passage, claim, label)
            for context in load_written(part)[:: given.every]
            if context.kind == kind
            for label, claims in ((1, context.truths), (0, context.lies))
            for claim in claims
        ]
        for part in given.part
        for kind in ("page", "chat")
    }
    groups = {name: rows for name, rows in groups.items() if rows}
    print_pairs("Written contexts", groups, make_support_model(AnswerConfig()))


if __name__ == "__main__":
    main()
