"""The examples of `deploy/`: they name settings, extras, commands and files that there are."""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from clew import SettingsError
from clew.surface.cli.app import app
from clew.surface.server.state import Server
from clew.surface.settings.load import Invocation, load_invocation

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read_dockerfile() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each on one line."""
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def read_compose() -> dict[str, Any]:
    compose: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    return compose


def load(environ: Mapping[str, str]) -> Invocation:
    """The settings of these variables; those that Clew does not know are errors."""
    own = {name: text for name, text in environ.items() if name.startswith("CLEW_")}
    return load_invocation(environ=own, overrides={}, folder=Path("/"))


def read_image_environment() -> dict[str, str]:
    (given,) = (rest for word, rest in read_dockerfile() if word == "ENV")
    return dict(each.split("=", 1) for each in shlex.split(given))


def test_the_image_starts_only_with_a_key(tmp_path: Path) -> None:
    environ = {name: text.replace("/data", str(tmp_path)) for name, text in read_image_environment().items()}
    start = load(environ)
    assert (start.path, start.settings.server.host) == (str(tmp_path / "collections"), "0.0.0.0")
    with pytest.raises(SettingsError, match="clew keys add"):
        Server(start)
    (made,) = (line for line in (DEPLOY / "Dockerfile").read_text().splitlines() if "keys add" in line)
    words = made[made.index(" keys add") :].split()
    done = CliRunner().invoke(app, words, env=environ)
    assert done.exit_code == 0, done.output
    with closing(Server(start)) as server:
        assert server.keys.count_valid() == 1


def test_the_image_is_made_of_what_is_here(tmp_path: Path) -> None:
    instructions = read_dockerfile()
    for word, rest in instructions:
        if word == "COPY" and "--from" not in rest:
            for name in rest.split()[:-1]:
                source = ROOT / name
                if source.is_dir():
                    shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(source, tmp_path)
    (extras,) = (re.findall(r"\.\[([\w,-]+)\]", rest) for word, rest in instructions if "pip install" in rest)
    assert set(extras[0].split(",")) <= set(PROJECT["optional-dependencies"])
    assert (tmp_path / PROJECT["readme"]).is_file()
    assert all((tmp_path / name).is_file() for name in PROJECT["license-files"])
    assert (tmp_path / "src" / "clew" / "surface" / "web").is_dir()
    commands = [rest for word, rest in instructions if word in ("ENTRYPOINT", "CMD")]
    assert commands[-2:] == ['["clew"]', '["serve"]']
    (port,) = (int(rest) for word, rest in instructions if word == "EXPOSE")
    (check,) = (rest for word, rest in instructions if word == "HEALTHCHECK")
    assert port == load({}).settings.server.port
    assert f":{port}/health" in check


def test_the_compose_file_names_what_there_is() -> None:
    compose = read_compose()
    clew, postgres = compose["services"]["clew"], compose["services"]["postgres"]
    assert (DEPLOY / clew["build"]["context"] / clew["build"]["dockerfile"]).is_file()
    secret = "${POSTGRES_PASSWORD:?set a password}"
    start = load({name: text.replace(secret, "secret") for name, text in clew["environment"].items()})
    database = {name: text.replace(secret, "secret") for name, text in postgres["environment"].items()}
    user, password, name = (database[f"POSTGRES_{each}"] for each in ("USER", "PASSWORD", "DB"))
    assert start.path == f"postgresql://{user}:{password}@postgres:5432/{name}"
    assert set(clew["depends_on"]) <= set(compose["services"])
    used = [each.partition(":") for service in (clew, postgres) for each in service["volumes"]]
    assert {volume for volume, _, _ in used} == set(compose["volumes"])
    (data,) = (rest for word, rest in read_dockerfile() if word == "VOLUME")
    assert clew["volumes"] == [f"clew:{data}"]
    environ = {**read_image_environment(), **clew["environment"]}
    assert Path(environ["CLEW_SERVER__FOLDER"]).is_relative_to(data)  # keys and uploads outlive the container
    assert [each.split(":")[0] for each in clew["ports"]] == ["127.0.0.1"]


def test_the_unit_is_one(tmp_path: Path) -> None:
    text = (DEPLOY / "clew.service").read_text(encoding="utf-8")
    environ = dict(re.findall(r"^Environment=(\w+)=(.+)$", text, re.MULTILINE))
    (state,) = re.findall(r"^StateDirectory=(.+)$", text, re.MULTILINE)
    assert Path(load(environ).path).is_relative_to(f"/var/lib/{state}")
    assert re.findall(r"^ExecStart=\S+/clew (.+)$", text, re.MULTILINE) == ["serve"]
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "clew.service"
    unit.write_text(text.replace("/opt/clew/bin/clew", sys.executable))  # it must be a program that is there
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
