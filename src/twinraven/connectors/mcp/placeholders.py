"""Fills `${...}` placeholders of a server's configuration, from the environment or the vault, at start.

Secrets come through a port and are remembered only so that they can be taken out of error messages again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from twinraven.connectors.mcp.servers import ServerConfig
from twinraven.foundation.errors import InvalidSetting, NotFound
from twinraven.tenancy import LOCAL_USER

if TYPE_CHECKING:
    from twinraven.vault import Vault

_PLACEHOLDER: Final = re.compile(r"\$\{([^{}]*)\}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHORTEST_HIDDEN: Final = 4


class SecretSource(Protocol):
    """Reads the values of secrets."""

    async def reveal(self, tenant_id: str, name: str) -> str:
        """Return the value of a tenant's secret, or NotFound."""
        ...


class NoSecrets:
    """For processes that have no vault."""

    async def reveal(self, tenant_id: str, name: str) -> str:
        del tenant_id
        raise NotFound(f"no secret {name!r}: this process has no vault", secret=name)


class VaultSecrets:
    """Reads the vault's secrets of one user, the one who configured the servers."""

    def __init__(self, vault: Vault, *, owner_id: str = LOCAL_USER) -> None:
        self._vault = vault
        self._owner_id = owner_id

    async def reveal(self, tenant_id: str, name: str) -> str:
        secret = await self._vault.find(tenant_id, self._owner_id, name)
        return await self._vault.reveal(secret.ref, for_user=self._owner_id)


@dataclass(frozen=True, slots=True)
class FilledServer:
    """A server ready to be spoken to, and what must not appear in any message about it."""

    config: ServerConfig
    hidden: tuple[str, ...]

    def scrub(self, text: str) -> str:
        """Return the text without the values of secrets."""
        for value in self.hidden:
            text = text.replace(value, "***")
        return text


class Placeholders:
    """Fills in placeholders for one tenant."""

    def __init__(self, secrets: SecretSource, tenant_id: str, *, env: Mapping[str, str] | None = None) -> None:
        self._secrets = secrets
        self._tenant_id = tenant_id
        self._env = os.environ if env is None else env

    async def fill(self, server: ServerConfig) -> FilledServer:
        """Return the server with all values in place; what is missing is named."""
        seen: list[str] = []
        where = f"server {server.name!r}"
        filled = replace(
            server,
            command=await self._text(server.command, where, seen),
            args=tuple([await self._text(word, where, seen) for word in server.args]),
            env={name: await self._text(value, f"{where}, env.{name}", seen) for name, value in server.env.items()},
            cwd=None if server.cwd is None else await self._text(server.cwd, where, seen),
            url=await self._text(server.url, where, seen),
            headers={
                name: await self._text(value, f"{where}, headers.{name}", seen)
                for name, value in server.headers.items()
            },
        )
        # What stands in env and headers is usually a credential, whether or not somebody moved it to the vault.
        given = (*seen, *filled.env.values(), *filled.headers.values())
        hidden = {value for value in given if len(value) >= _SHORTEST_HIDDEN}
        return FilledServer(filled, tuple(sorted(hidden, key=len, reverse=True)))

    async def _text(self, text: str, where: str, seen: list[str]) -> str:
        parts: list[str] = []
        at = 0
        for match in _PLACEHOLDER.finditer(text):
            parts += [text[at : match.start()], await self._value(match[1], where, seen)]
            at = match.end()
        return "".join([*parts, text[at:]])

    async def _value(self, inner: str, where: str, seen: list[str]) -> str:
        kind, colon, name = inner.partition(":")
        if colon and kind == "secret":
            seen.append(await self._secrets.reveal(self._tenant_id, name))
            return seen[-1]
        if colon and kind == "env":
            return self._variable(name, None, where)
        name, has_default, default = inner.partition(":-")
        if _NAME.fullmatch(name) is None:
            raise InvalidSetting(
                f"{where}: ${{{inner}}} cannot be filled in here; use ${{secret:NAME}} or ${{env:NAME}}", field=inner
            )
        return self._variable(name, default if has_default else None, where)

    def _variable(self, name: str, default: str | None, where: str) -> str:
        value = self._env.get(name) or default
        if value is None:
            raise InvalidSetting(f"{where}: the environment has no {name}", field=name)
        return value
