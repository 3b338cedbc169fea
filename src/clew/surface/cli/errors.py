"""Exit codes and error output of the command line.

Commands raise; ClewGroup, and nothing else, turns an error into one line on stderr (or JSON on stdout) and a code.
"""

import json
import logging
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import takewhile
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_command

from clew.core.errors import (
    ClewError,
    ConcurrentChange,
    CostLimit,
    DriverFailed,
    DriverMissing,
    LimitReached,
    NotFound,
    SettingsError,
    SourceError,
    StoreMismatch,
    UnsupportedAnswer,
)
from clew.core.suggest import find_close_names
from clew.surface.cli.option_groups import expand_option_groups
from clew.surface.cli.program import repeat_options
from clew.surface.cli.table import clean_for_stream


def _build_command(name: str, found: Any) -> Any:
    app = found
    if not isinstance(found, typer.Typer):
        app = typer.Typer(add_completion=False)
        app.command(name)(expand_option_groups(found))
    command = get_command(app)
    command.name = name
    return command


USAGE_ERROR = 2
INCOMPLETE = 4
CITATIONS_INVALID = 8
LIMIT_REACHED = 9
ANSWER_UNSUPPORTED = 10
INTERRUPTED = 130
PIPE_CLOSED = 141  # what a shell reports for a program whose reader has closed the pipe
CODE_BY_ERROR: dict[type[ClewError], int] = {
    SettingsError: USAGE_ERROR,
    NotFound: 3,
    SourceError: INCOMPLETE,
    CostLimit: LIMIT_REACHED,
    LimitReached: LIMIT_REACHED,
    UnsupportedAnswer: ANSWER_UNSUPPORTED,
    DriverMissing: 5,
    ConcurrentChange: 6,
    DriverFailed: 6,
    StoreMismatch: 7,
}
# What other programs call our commands.
SYNONYMS = {
    **dict.fromkeys(("remove", "delete", "rm", "del"), "drop"),
    **dict.fromkeys(("ls", "documents", "docs"), "list"),
    **dict.fromkeys(("cat", "show", "get", "print"), "read"),
    **dict.fromkeys(("find", "query", "grep", "retrieve"), "search"),
    **dict.fromkeys(("index", "ingest", "load", "import", "update", "sync"), "add"),
    **dict.fromkeys(("info", "stats"), "status"),
    **dict.fromkeys(("answer", "question"), "ask"),
    **dict.fromkeys(("settings", "init"), "config"),
    **dict.fromkeys(("purge", "forget"), "erase"),
    **dict.fromkeys(("backup", "save", "dump"), "export"),
    "whynot": "why-not",
}

# Typer contains its own copy of click. It exports this exception, but not the base class of all usage errors.
ClickException: type[Any] = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")
_JSON = "clew.json"  # the key in ctx.meta for whether --json was given


def get_exit_code(error: BaseException) -> int:
    """Return the exit code of an error."""
    return next((CODE_BY_ERROR[kind] for kind in type(error).__mro__ if kind in CODE_BY_ERROR), 1)


class ClewGroup(TyperGroup):
    """The group of all commands: handles every error, and accepts the program's own options anywhere.

    A command is imported when it is first used; `homes` has the "module:name" of each.
    """

    homes: ClassVar[Mapping[str, str]] = {}

    def list_commands(self, _: Any) -> list[str]:
        """List the names of all commands."""
        return list(self.homes)

    def get_command(self, _: Any, name: str) -> Any:
        """Return the command of a name, built when it is first asked for; None if there is none."""
        if name in self.homes and name not in self.commands:
            module, _, place = self.homes[name].partition(":")
            self.commands[name] = _build_command(name, getattr(import_module(module), place))
        return self.commands.get(name)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line and exit with its code."""
        words = list(sys.argv[1:] if args is None else args)
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError):  # a stream without an encoding
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        try:
            result = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except ClickException as error:
            result = _print_usage_error(error, words)
        except typer.Abort:
            result = INTERRUPTED
        except SystemExit as error:
            if not isinstance(error.__context__, BrokenPipeError):  # shell completion exits this way
                raise
            result = _discard_stdout()
        result = result if isinstance(result, int) else 0
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            result = _discard_stdout()
        if standalone_mode:
            sys.exit(result)
        return result

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Resolve the command and its arguments; an underscore in the name counts as a hyphen (`why_not`)."""
        name, *rest = args
        name = name if self.get_command(ctx, name) is not None else name.replace("_", "-").lower()
        if self.get_command(ctx, name) is None and not name.startswith("-") and not ctx.resilient_parsing:
            near = (
                [SYNONYMS[name]]
                if name in SYNONYMS
                else find_close_names(name, self.list_commands(ctx), max_names=2, cutoff=0.6)
            )
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, [name, *rest])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the program's own options from anywhere on the line, and parse the arguments left for the command."""
        ctx.meta[_JSON] = _wants_json(args)
        return super().parse_args(ctx, args if ctx.resilient_parsing else self._hoist_options(ctx, args))

    def invoke(self, ctx: Any) -> Any:
        """Run the command and return its result, or raise Exit with the code of its error."""
        try:
            return super().invoke(ctx)
        except (ClickException, typer.Abort, typer.Exit):
            raise
        except BrokenPipeError:
            raise typer.Exit(_discard_stdout()) from None
        except KeyboardInterrupt as error:
            told = str(error) or "interrupted; everything finished until now is saved"
            message, name, code = repeat_options(told, ctx.obj), "Interrupted", INTERRUPTED
        except ClewError as error:
            message, name, code = repeat_options(error.message, ctx.obj), type(error).__name__, get_exit_code(error)
            _print_traceback_if_verbose(error)
        except Exception as error:
            name, code = type(error).__name__, 1
            message = f"unexpected {name}: {error} (--verbose shows the traceback)"
            _print_traceback_if_verbose(error)
        _print_error(message, name, as_json=ctx.meta[_JSON])
        raise typer.Exit(code)

    def _hoist_options(self, ctx: Any, args: Sequence[str]) -> list[str]:
        """Move the program's own options to the front of the arguments, up to a "--"."""
        own = [option for option in self.params if not option.is_eager]  # an eager one, such as --help, stays in place
        flags = {name for option in own if getattr(option, "is_flag", False) for name in option.opts}
        valued = {name for option in own for name in option.opts} - flags
        front: list[str] = []
        rest: list[str] = []
        words = iter(args)
        for word in words:
            if word == "--":
                rest += [word, *words]
            elif word in valued:
                value = next(words, None)
                if value is None:
                    ctx.fail(f"Option {word!r} requires an argument.")
                front += [word, str(value)]
            elif word in flags or (word.startswith("--") and word.partition("=")[0] in valued):
                front.append(word)
            else:
                rest.append(word)
        return front + rest


def _print_usage_error(error: Any, words: list[str]) -> int:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "clew"
    text = error.format_message().rstrip(".")
    if not text:  # a group alone, which has printed its help
        return USAGE_ERROR
    if context and hasattr(error, "possibilities"):  # click looks among the command's own options only
        known = [name for each in (context, context.find_root()) for own in each.command.params for name in own.opts]
        near = find_close_names(error.option_name, known, max_names=1, cutoff=0.75)  # the dashes are alike
        hint = "".join(f"; did you mean {name}?" for name in near)
        if not hint and not context.parent:
            hint = "; the options of a command follow its name"
        text = f"no such option: {error.option_name}{hint}"
    message = f"{text} See {path} --help" if text.endswith("?") else f"{text}; see {path} --help"
    _print_error(message[:1].lower() + message[1:], "UsageError", as_json=_wants_json(words))
    return error.exit_code if error.exit_code != 1 else USAGE_ERROR


def _wants_json(words: Sequence[str]) -> bool:
    return "--json" in takewhile(lambda word: word != "--", words)


def _print_error(message: str, name: str, *, as_json: bool) -> None:
    with suppress(BrokenPipeError):
        if as_json:
            print(json.dumps({"error": {"type": name, "message": message}}))
        else:
            print(clean_for_stream(f"clew: {' '.join(message.split())}", sys.stderr), file=sys.stderr)


def _print_traceback_if_verbose(error: Exception) -> None:
    if logging.getLogger("clew").isEnabledFor(logging.DEBUG):
        print(clean_for_stream("".join(traceback.format_exception(error)), sys.stderr), end="", file=sys.stderr)


def _discard_stdout() -> int:
    """Send the rest of the output to the null device, so that Python exits quietly; return the exit code."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED
