"""`clew` and `python -m clew`: the command line."""

import sys

INTERRUPTED = 130


def main() -> None:
    """Runs the command line; an interrupt while it is imported ends it without a traceback, as later ones do."""
    try:
        from clew.surface.cli.app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
