"""Checks configured MCP servers without starting them: unfillable placeholders, missing programs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from shutil import which
from typing import NamedTuple

from twinraven.connectors.mcp.placeholders import Placeholders, SecretSource
from twinraven.connectors.mcp.servers import ServerConfig
from twinraven.foundation.errors import NotFound, TwinRavenError


class ServerFault(NamedTuple):
    """A reason why a server cannot start, and its fix."""

    server: str
    message: str
    fix: str | None = None


async def server_faults(
    servers: Iterable[ServerConfig], secrets: SecretSource | None, tenant_id: str
) -> list[ServerFault]:
    """Find what would keep each server from starting; without secrets, those are taken to be there."""
    found = [await _fault(server, Placeholders(secrets or _AnySecret(), tenant_id)) for server in servers]
    return [fault for fault in found if fault is not None]


class _AnySecret:
    """Stands for a vault that nobody opens."""

    async def reveal(self, tenant_id: str, name: str) -> str:
        del tenant_id
        return name


async def _fault(server: ServerConfig, placeholders: Placeholders) -> ServerFault | None:
    try:
        filled = (await placeholders.fill(server)).config
    except NotFound as error:
        name = error.details.get("secret") or error.details.get("name")
        fix = None if name is None else f"twinraven secrets set {name}"
        return ServerFault(server.name, f"server {server.name!r}: {error.message}", fix)
    except TwinRavenError as error:
        return ServerFault(server.name, error.message, error.details.get("fix"))
    return _program_fault(filled) if filled.transport == "stdio" else None


def _program_fault(filled: ServerConfig) -> ServerFault | None:
    name = filled.name
    folder = None if filled.cwd is None else Path(filled.cwd).expanduser()
    if folder is not None and not folder.is_dir():
        return ServerFault(name, f"server {name!r}: there is no folder {folder}")
    if _is_program(filled.command, folder, filled.env.get("PATH")):
        return None
    return ServerFault(name, f"server {name!r}: there is no program {filled.command!r}")


def _is_program(command: str, folder: Path | None, path: str | None) -> bool:
    if which(command, path=path) is not None:
        return True
    return folder is not None and which(str(folder / command)) is not None
