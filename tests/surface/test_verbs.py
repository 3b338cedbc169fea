"""The verbs are the same words on every surface, and the table of them is true."""

import types

from clew import Engine
from clew.surface.cli.app import app
from clew.surface.verbs import VERBS


def test_the_table_has_every_method_of_the_engine() -> None:
    kinds = (types.FunctionType, staticmethod)
    methods = {name for name, each in vars(Engine).items() if isinstance(each, kinds) and name[0] != "_"}
    assert methods - {"close"} == {verb for verb, surfaces in VERBS.items() if "python" in surfaces}


def test_the_table_has_every_command() -> None:
    commands = {each.name for each in app.registered_commands if not each.hidden}
    commands |= {each.name for each in app.registered_groups if not each.hidden}
    expected = {verb.replace("_", "-") for verb, surfaces in VERBS.items() if "cli" in surfaces}
    assert commands == expected
