"""The door of the command line: every way out of it has one line for the user and one exit code.

Commands raise; here, and only here, an error becomes words on stderr (or JSON on stdout) and a number.
"""

import json
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any

import typer
from typer._click.exceptions import ClickException  # without the underscore from typer 0.28 on
from typer.core import TyperGroup

from clew.core.errors import (
    ClewError,
    ConcurrentChange,
    DriverFailed,
    DriverMissing,
    NotFound,
    SettingsError,
    SourceError,
    StoreMismatch,
)

USAGE = 2
PARTLY = 4  # some sources failed, the rest is done
FALLEN = 8  # what was checked does not hold
INTERRUPTED = 130
PIPE_CLOSED = 141  # whoever read our output has gone: what a shell reports for that
CODES: dict[type[ClewError], int] = {
    SettingsError: USAGE,
    NotFound: 3,
    SourceError: PARTLY,
    DriverMissing: 5,
    ConcurrentChange: 6,
    DriverFailed: 6,
    StoreMismatch: 7,
}
TABLE = (
    (0, "done; a search that finds nothing is done too"),
    (1, "unexpected: a fault of Clew"),
    (USAGE, "a word, option or setting that cannot be"),
    (3, "no such document, collection, strategy or driver"),
    (PARTLY, "a source that cannot be read; the other sources were added"),
    (5, "a driver that is not installed"),
    (6, "a model, disk or database that failed"),
    (7, "a collection that was filled with another embedder or by a newer Clew"),
    (FALLEN, "past answers that no longer stand (`citations check`)"),
    (INTERRUPTED, "interrupted"),
)

# Options of the whole program, which may stand anywhere before a "--".
_VALUED = frozenset({"--path", "-p", "--store", "--collection", "--config", "--embedder", "--llm"})
_FLAGS = frozenset({"--verbose", "-v"})
_JSON = "clew.json"  # in a context's notes: whether the command line asks for JSON


def code(error: BaseException) -> int:
    """The exit code of an error."""
    return next((CODES[kind] for kind in type(error).__mro__ if kind in CODES), 1)


class Door(TyperGroup):
    """The group of all commands, in which no error gets past as a traceback."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Runs a command line and exits with its code."""
        words = list(sys.argv[1:] if args is None else args)
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError):  # a stream of the caller's own
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        try:
            result = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except ClickException as error:
            result = _usage(error, words)
        except typer.Abort:
            result = INTERRUPTED
        except SystemExit as error:
            if not isinstance(error.__context__, BrokenPipeError):  # the shell asked for completions, and has them
                raise
            result = _hushed()
        result = result if isinstance(result, int) else 0
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            result = _hushed()
        if standalone_mode:
            sys.exit(result)
        return result

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """What is left for the command, the program's own options taken from wherever they stand."""
        ctx.meta[_JSON] = _wants_json(args)
        return super().parse_args(ctx, args if ctx.resilient_parsing else _in_front(ctx, args))

    def invoke(self, ctx: Any) -> Any:
        """What the command returns, or Exit with the code of what it raised."""
        try:
            return super().invoke(ctx)
        except (ClickException, typer.Abort, typer.Exit):
            raise
        except BrokenPipeError:
            raise typer.Exit(_hushed()) from None
        except KeyboardInterrupt:
            said, name, number = "interrupted; what was finished by then is kept", "Interrupted", INTERRUPTED
        except ClewError as error:
            said, name, number = str(error), type(error).__name__, code(error)
            _trace_if_verbose(error)
        except Exception as error:
            name, number = type(error).__name__, 1
            said = f"unexpected {name}: {error} (--verbose shows where)"
            _trace_if_verbose(error)
        _say(said, name, as_json=ctx.meta[_JSON])
        raise typer.Exit(number)


def _usage(error: ClickException, words: list[str]) -> int:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "clew"
    said = f"{error.format_message().rstrip('.')}; see {path} --help"
    _say(said[:1].lower() + said[1:], "UsageError", as_json=_wants_json(words))
    return error.exit_code if error.exit_code != 1 else USAGE


def _wants_json(words: Sequence[str]) -> bool:
    return "--json" in takewhile(lambda word: word != "--", words)


def _say(said: str, name: str, *, as_json: bool) -> None:
    with suppress(BrokenPipeError):
        if as_json:
            print(json.dumps({"error": {"type": name, "message": said}}))
        else:
            print(f"clew: {' '.join(said.split())}", file=sys.stderr)


def _trace_if_verbose(error: Exception) -> None:
    if logging.getLogger("clew").isEnabledFor(logging.DEBUG):
        traceback.print_exception(error)


def _hushed() -> int:
    """The code for output that nobody reads; what is left of it goes nowhere, so that the exit is quiet."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED


def _in_front(ctx: Any, args: Sequence[str]) -> list[str]:
    """The words with the program's own options first."""
    front: list[str] = []
    rest: list[str] = []
    words = iter(args)
    for word in words:
        if word == "--":
            rest += [word, *words]
        elif word in _VALUED:
            value = next(words, None)
            if value is None:
                ctx.fail(f"Option {word!r} requires an argument.")
            front += [word, str(value)]
        elif word in _FLAGS or (word.startswith("--") and word.partition("=")[0] in _VALUED):
            front.append(word)
        else:
            rest.append(word)
    return front + rest
