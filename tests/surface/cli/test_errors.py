"""Every way out of the command line: one line, one code."""

import re
import subprocess
import sys
from typing import Any

import pytest

from clew.core import errors
from clew.core.errors import ClewError, DriverFailed, DriverMissing, NotFound, SettingsError, SourceError, StoreMismatch
from clew.engine import Engine
from clew.surface.cli.app import GROUPS, Program, app
from clew.surface.cli.errors import get_exit_code
from tests.surface.cli.conftest import Clew

RAISED: list[tuple[BaseException, int]] = [
    (SettingsError("no such thing"), 2),
    (NotFound("no such thing"), 3),
    (SourceError("a.md", "no such thing"), 4),
    (DriverMissing("no such thing"), 5),
    (DriverFailed("no such thing"), 6),
    (StoreMismatch("no such thing"), 7),
    (ClewError("no such thing"), 1),
    (ZeroDivisionError("no such thing"), 1),
    (KeyboardInterrupt(), 130),
]


@pytest.mark.parametrize(("error", "number"), RAISED, ids=lambda value: type(value).__name__)
def test_an_error_is_one_line_and_a_code(
    clew: Clew, monkeypatch: pytest.MonkeyPatch, error: BaseException, number: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Engine, "search", fail)
    done = clew("search", "keys")
    assert (done.code, done.out) == (number, "")
    assert re.fullmatch(r"clew: .*(no such thing|interrupted).*\n", done.err)
    as_json = clew("search", "keys", "--json")
    assert as_json.code == number
    assert as_json.err == ""
    said = as_json.json["error"]
    assert set(said) == {"type", "message"}
    assert said["type"] == ("Interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__)
    assert f"clew: {said['message']}\n" == done.err
    verbose = clew("search", "keys", "--verbose")
    assert verbose.code == number
    assert isinstance(error, KeyboardInterrupt) or "Traceback" in verbose.err


def test_every_error_has_a_code() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ClewError)]
    assert all(get_exit_code(kind.__new__(kind)) != 1 for kind in kinds if kind is not ClewError)


def test_the_help_has_every_command_and_option_within_forty_lines_of_eighty_columns(clew: Clew) -> None:
    from typer.main import get_command

    lines = clew("--help", COLUMNS="80").out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    words = " ".join(lines).replace(",", " ").split()
    assert {*Program.homes} <= {*words}
    program: Any = get_command(app)
    own = [param.opts[0] for param in program.params if param.name not in ("install_completion", "show_completion")]
    assert [option for option in own if option not in words] == []


def test_an_error_of_a_kind_of_ours_has_the_code_of_that_kind() -> None:
    class Lost(NotFound):
        pass

    assert (get_exit_code(Lost("x")), get_exit_code(ValueError("x"))) == (3, 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("search",), "missing argument"),
        (("add",), "missing argument"),
        (("serach", "x"), "no such command"),
        (("search", "x", "--nope"), "no such option"),
        (("ask", "x", "--embeder", "hashed"), "no such option: --embeder; did you mean --embedder?"),
        (("search", "x", "--chanel", "ops"), "no such option: --chanel; did you mean --channel?"),
        (("search", "x", "-k", "five"), "invalid value for '-k'"),
        (("search", "x", "y"), "got unexpected extra argument"),
        (("search", "x", "--path"), "option '--path' requires an argument"),
        (("--nope",), "no such option: --nope; the options of a command follow its name"),
        (("--verson",), "no such option: --verson; did you mean --version?"),
        (("doctor", "--fix"), "no such option: --fix; see clew doctor --help"),
        (("config",), "missing command"),
    ],
)
def test_usage(clew: Clew, words: tuple[str, ...], said: str) -> None:
    done = clew(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"clew: {said}")
    assert re.search(r"(; see|\? See) clew.* --help\n$", done.err)
    as_json = clew(*words[:1], "--json", *words[1:])
    assert as_json.code == 2
    assert as_json.json["error"]["type"] == "UsageError"


def test_without_a_command_the_help_is_shown(clew: Clew) -> None:
    done = clew()
    assert done.code == 2
    assert "Usage: clew" in done.out


def test_a_group_alone_prints_its_help_and_no_error(clew: Clew) -> None:
    done = clew("evaluate")
    assert (done.code, done.err) == (2, "")
    assert "Usage: clew evaluate" in done.out


def test_no_collection(fresh: Clew) -> None:
    for words in (
        ("search", "x"),
        ("context", "x"),
        ("explain", "x"),
        ("list",),
        ("status",),
        ("read", "x"),
        ("drop", "x"),
    ):
        done = fresh(*words)
        assert done.code == 3, words
        assert "clew add" in done.err
    assert not (fresh.folder / ".clew").exists()


def test_no_such_document(clew: Clew) -> None:
    for words in (
        ("read", "pages/vualt.md"),
        ("drop", "pages/vualt.md"),
        ("search", "x", "--document", "pages/vualt.md"),
    ):
        done = clew(*words)
        assert done.code == 3
        assert "pages/vault.md" in done.err  # what it may have meant
    assert clew("list", "--json").json["documents"]


def test_another_embedder(clew: Clew) -> None:
    done = clew("search", "keys", CLEW_EMBEDDER__NAME="hashed:32")
    assert done.code == 7
    assert "hashed" in done.err


def test_an_unknown_key_in_the_file(fresh: Clew) -> None:
    (fresh.folder / "clew.toml").write_text("[search]\ndepht = 5\n")
    done = fresh("search", "keys")
    assert (done.code, done.out) == (2, "")
    assert done.err == "clew: search.depht in clew.toml is not a setting; did you mean search.depth?\n"
    assert fresh("search", "keys", "--json").json["error"]["type"] == "SettingsError"


def test_verbose_logs_to_stderr_and_only_then(clew: Clew, monkeypatch: pytest.MonkeyPatch) -> None:
    import logging

    def log(*_: object, **__: object) -> list[object]:
        logging.getLogger("clew.test").info("looked everywhere")
        return []

    monkeypatch.setattr(Engine, "search", log)
    assert "looked everywhere" in clew("-v", "search", "keys").err
    assert clew("search", "keys").err == ""
    assert logging.getLogger("clew").handlers == []


def test_every_command_has_json_and_a_help() -> None:
    from typer.main import get_command

    program: Any = get_command(app)
    commands = {name: program.get_command(None, name) for name in program.list_commands(None)}
    assert {*commands} == {name for group in GROUPS.values() for name in group}
    inside = [each for command in commands.values() for each in getattr(command, "commands", {}).values()]
    for command in [*(each for each in commands.values() if not hasattr(each, "commands")), *inside]:
        assert command.help
        assert any("--json" in param.opts for param in command.params), command.name
        assert all(getattr(param, "help", None) for param in command.params), command.name


def test_version(clew: Clew) -> None:
    from importlib.metadata import version

    assert clew("--version").out == f"clew {version('clew')}\n"


def test_an_interrupt_while_the_program_is_imported_is_no_traceback() -> None:
    script = (
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from clew.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
