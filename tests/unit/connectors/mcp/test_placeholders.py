"""Values that are filled in at the last moment and taken out of every message again."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from twinraven.connectors import ServerConfig
from twinraven.connectors.mcp.placeholders import Placeholders
from twinraven.foundation.errors import InvalidSetting, NotFound, TwinRavenError


@dataclass
class Secrets:
    values: dict[str, str] = field(default_factory=dict[str, str])

    async def reveal(self, tenant_id: str, name: str) -> str:
        if name not in self.values:
            raise NotFound(f"no secret {name!r}")
        return f"{self.values[name]} of {tenant_id}"


def placeholders() -> Placeholders:
    return Placeholders(Secrets({"token": "hidden-value"}), "acme", env={"HOME_DIR": "/home/x", "EMPTY": ""})


async def test_every_kind_of_placeholder_is_filled_in() -> None:
    """Secrets come from the vault of the tenant, variables from the environment, and defaults where there is none."""
    server = ServerConfig(
        "git",
        "stdio",
        command="${HOME_DIR}/bin/git",
        args=("--dir=${env:HOME_DIR}", "${NOT_SET:-fallback}", "${EMPTY:-full}", "plain $5"),
        env={"TOKEN": "Bearer ${secret:token}"},
    )
    filled = (await placeholders().fill(server)).config
    assert filled.command == "/home/x/bin/git"
    assert filled.args == ("--dir=/home/x", "fallback", "full", "plain $5")
    assert filled.env == {"TOKEN": "Bearer hidden-value of acme"}


async def test_filled_values_disappear_from_messages() -> None:
    """What was a secret, a header or a variable of a server is not readable in what is said about it."""
    server = ServerConfig("git", "http", url="http://x/${secret:token}", headers={"X-Key": "in-clear-too"})
    filled = await placeholders().fill(server)
    said = filled.scrub("cannot reach http://x/hidden-value of acme with in-clear-too")
    assert said == "cannot reach http://x/*** with ***"


@pytest.mark.parametrize(
    ("text", "error", "names"),
    [
        ("${secret:unknown}", NotFound, "unknown"),
        ("${env:NOT_SET}", InvalidSetting, "NOT_SET"),
        ("${NOT_SET}", InvalidSetting, "NOT_SET"),
        ("${input:token}", InvalidSetting, "input:token"),
    ],
)
async def test_what_is_missing_is_named(text: str, error: type[TwinRavenError], names: str) -> None:
    """A secret or a variable that is not there is refused with its name, before anything is started."""
    with pytest.raises(error, match=names):
        await placeholders().fill(ServerConfig("git", "stdio", command="x", env={"TOKEN": text}))
