"""Reading the file in which another client keeps its servers, and saying what to change in it.

Whoever has an agent has such a file already. Its servers move behind the gateway as they are, and one entry takes their
place; the file itself is left for its owner to change.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from twinraven.connectors import ServerConfig, find_block, read_servers
from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidInput

_COMMENT: Final = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING: Final = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')
_CREDENTIAL: Final = re.compile(r"key|token|secret|passw|auth|credential", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ClientFile:
    """What a client's file says of its servers."""

    path: Path
    block: str
    """The name under which it keeps them."""
    servers: tuple[ServerConfig, ...]

    def document(self) -> dict[str, Any]:
        """The servers as a home keeps them."""
        return {"mcpServers": {server.name: server.as_json() for server in self.servers}}

    def replacement(self, home: Path, *, command: str = "twinraven") -> str:
        """The line that takes the place of all of them, in the client's own form."""
        entry: dict[str, Any] = {"command": command, "args": ["gateway", "--home", str(home)]}
        if self.block == "servers":
            entry = {"type": "stdio", **entry}
        return f'"{self.block}": {json.dumps({"twinraven": entry})}'

    def credentials(self) -> list[str]:
        """Places that seem to hold a credential in clear, which the vault would keep better."""
        return [
            f"{server.name}: {kind}.{name}"
            for server in self.servers
            for kind, pairs in (("env", server.env), ("headers", server.headers))
            for name, value in pairs.items()
            if value and "${" not in value and _CREDENTIAL.search(name)
        ]


def read_client_file(path: Path) -> ClientFile:
    """Read a client's file; comments and trailing commas, which some clients allow, are allowed."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}", field="from") from error
    document = _parse(text, path)
    if find_block(document) is None:
        raise InvalidInput(f"{path} has no mcpServers block", field="from")
    # An entry that starts a gateway would start this one, which would start itself.
    servers = [server for server in read_servers(document, where=str(path)) if not _is_gateway(server)]
    return ClientFile(path, _block_name(document), tuple(servers))


def _parse(text: str, path: Path) -> Any:
    try:
        return parse_json(text, field=path.name)
    except InvalidInput as error:
        relaxed = _TRAILING.sub(_keep_text, _COMMENT.sub(_keep_text, text))
        try:
            return parse_json(relaxed, field=path.name)
        except InvalidInput:
            raise InvalidInput(f"{path} is not JSON: {error.message}", field="from") from error


def _keep_text(match: re.Match[str]) -> str:
    return match[1] or ""


def _block_name(document: Any) -> str:
    members = cast("dict[str, Any]", document)
    inner = members.get("mcp")
    nested = cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}
    return "servers" if "mcpServers" not in members and ("servers" in members or "servers" in nested) else "mcpServers"


def _is_gateway(server: ServerConfig) -> bool:
    words = (server.command, *server.args)
    return "gateway" in words and any(Path(word).name == "twinraven" or word == "twinraven" for word in words)
