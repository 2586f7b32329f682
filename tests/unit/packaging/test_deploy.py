"""The files for servers name commands, extras and roles that exist."""

from __future__ import annotations

import re
import shlex
import tomllib
from typing import Any

import pytest
import yaml

import twinraven
from tools.requirements import ROOT
from twinraven.cli.parser import build_parser

_NAMES = ("Dockerfile", "compose.yaml", "twinraven.service", "README.md")
_FILES = {name: (ROOT / "deploy" / name).read_text(encoding="utf-8") for name in (*_NAMES, "roles.sh")}
_COMMAND = re.compile(
    r"(?:sh -c |\", \"|&& |exec |/bin/|^docker .* twinraven )twinraven ([a-z][^\"&\n]*)", re.MULTILINE
)


@pytest.mark.parametrize("name", _NAMES)
def test_their_commands_are_understood(name: str) -> None:
    """Each `twinraven …` that a file runs is one that the command line takes."""
    commands = _COMMAND.findall(_FILES[name])
    assert len(commands) >= 2
    for command in commands:
        build_parser().parse_args(shlex.split(command))


def test_the_extras_of_the_image_exist() -> None:
    """The image installs parts that the project has."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (extras,) = re.findall(r"whl\)\[([\w,]+)\]", _FILES["Dockerfile"])
    assert set(extras.split(",")) <= set(project["project"]["optional-dependencies"])
    assert set(re.findall(r"twinraven-([\d.]+)-py3", _FILES["README.md"])) == {twinraven.__version__}


def test_the_compose_file_keeps_the_owner_from_the_server() -> None:
    """Only the service that upgrades the schema knows the owner, and no password has a default."""
    services: dict[str, Any] = yaml.safe_load(_FILES["compose.yaml"])["services"]
    known = {name for name, service in services.items() if "OWNER_PASSWORD" in str(service["environment"])}
    assert known == {"postgres", "upgrade"}
    assert all(each.endswith(":?") for each in re.findall(r"\$\{([^}]*)\}", _FILES["compose.yaml"]))


def test_the_roles_are_those_of_the_page() -> None:
    """The script for new servers and the page about Postgres create the same roles and database."""
    page = (ROOT / "docs" / "how-to" / "run-on-postgres.md").read_text(encoding="utf-8")
    made = [
        re.findall(r"^CREATE (ROLE|DATABASE) (\w+)", text, flags=re.MULTILINE) for text in (page, _FILES["roles.sh"])
    ]
    assert made[0] == made[1] != []
