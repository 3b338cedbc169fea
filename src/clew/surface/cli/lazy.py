"""A group of commands whose modules are imported, and whose options are built, only when a command is used."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_command

from clew.surface.cli.option_groups import expand_option_groups


class LazyGroup(TyperGroup):
    """A group that knows of each command where its function or Typer application is, as "module:name"."""

    homes: ClassVar[Mapping[str, str]] = {}
    hidden_names: ClassVar[frozenset[str]] = frozenset()

    def list_commands(self, _: Any) -> list[str]:
        """The names of all commands."""
        return list(self.homes)

    def get_command(self, _: Any, name: str) -> Any:
        """The command of a name, built when it is first asked for; None if there is none."""
        if name in self.homes and name not in self.commands:
            self.commands[name] = _build_command(name, _load(self.homes[name]), hidden=name in self.hidden_names)
        return self.commands.get(name)


def _load(home: str) -> Any:
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)


def _build_command(name: str, found: Any, *, hidden: bool) -> Any:
    app = found
    if not isinstance(found, typer.Typer):
        app = typer.Typer(add_completion=False)
        app.command(name)(expand_option_groups(found))
    command = get_command(app)
    command.name, command.hidden = name, hidden
    return command
