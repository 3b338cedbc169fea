"""`clew` and `python -m clew`: the command line."""

import os
import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line; an interrupt ends it without a traceback, even while modules are imported.

    After an interrupt the process exits at once: threads of a model that is still at work would abort it.
    """
    try:
        from clew.surface.cli.app import main as run

        run()
    except KeyboardInterrupt:
        _end_at_once()
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            _end_at_once()
        raise


def _end_at_once() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
