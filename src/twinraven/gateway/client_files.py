"""Reads the configuration file of another MCP client, and computes what to change in it.

Whoever has an agent has such a file already. Its servers move behind the gateway as they are, and one entry takes their
place; the file itself is left for its owner to change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from twinraven.connectors import ServerConfig, find_block, read_servers
from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidInput

_COMMENT: Final = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING: Final = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')
_ANYWHERE: Final = frozenset(
    {"type", "transport", "timeout_ms", "timeout", "tool_timeout_sec", "handshake", "disabled", "enabled"}
)
_OF_PROGRAMS: Final = frozenset({"command", "args", "env", "cwd"})
_OF_ADDRESSES: Final = frozenset({"url", "serverUrl", "httpUrl", "headers"})
_OF_THE_CLIENT: Final = re.compile(r"\$\{(?:input:[^}]*|command:[^}]*|workspace\w*|userHome|pathSeparator)\}")
"""What a client fills in itself, such as VS Code, and no other program can."""
_CREDENTIAL: Final = re.compile(r"key|token|secret|passw|auth|credential", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ClientFile:
    """The servers in a client's configuration file."""

    path: Path
    block: str
    """The name under which it keeps them."""
    servers: tuple[ServerConfig, ...]
    left_out: tuple[str, ...] = ()
    """What of it is not taken over: servers, and fields that mean nothing here."""

    def document(self) -> dict[str, Any]:
        """Return the servers as a home keeps them."""
        return {"mcpServers": {server.name: server.as_json() for server in self.servers}}

    def replacement(self, home: Path, *, command: str) -> str:
        """Return the line that takes the place of all of them, in the client's own form."""
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

    def unfillable(self) -> list[str]:
        """Places that only the client itself could fill in."""
        return [
            f"{server.name}: {match[0]} in {place}"
            for server in self.servers
            for place, text in _texts(server)
            for match in _OF_THE_CLIENT.finditer(text)
        ]


def _texts(server: ServerConfig) -> list[tuple[str, str]]:
    """Return every text of a server that may hold a placeholder, with its place."""
    pairs = [("command", server.command), ("url", server.url), ("cwd", server.cwd or "")]
    pairs += [(f"args[{place}]", word) for place, word in enumerate(server.args)]
    pairs += [(f"env.{name}", value) for name, value in server.env.items()]
    return [*pairs, *((f"headers.{name}", value) for name, value in server.headers.items())]


def read_client_file(path: Path) -> ClientFile:
    """Read a client's file; comments and trailing commas, which some clients allow, are allowed."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidInput(f"{path} cannot be read: {why}", field="from") from error
    document, scopes = _with_projects(_parse(text, path))
    block = find_block(document)
    if block is None:
        raise InvalidInput(f"{path} has no mcpServers block", field="from")
    found = {server.name: server for server in read_servers(document, where=str(path))}
    # An entry that starts a gateway would start this one, which would start itself.
    servers = tuple(server for server in found.values() if not _is_gateway(server))
    left_out = (
        *(line for name, entry in block.items() for line in _left_out(str(name), entry, found.get(str(name)))),
        *scopes,
    )
    if not servers:
        why = "; ".join(left_out) or "it is empty"
        raise InvalidInput(
            f"{path} names no server that could be put behind the gateway: {why}",
            field="from",
            fix="name the file that holds your servers; nothing was changed",
        )
    return ClientFile(path, _block_name(document), servers, left_out)


def _left_out(name: str, entry: Mapping[str, Any], server: ServerConfig | None) -> list[str]:
    """Return what of an entry is not taken over, a line each."""
    if server is None:
        return [f"{name}: it is switched off"]
    if _is_gateway(server):
        return [f"{name}: it is this gateway"]
    known = _ANYWHERE | (_OF_PROGRAMS if server.transport == "stdio" else _OF_ADDRESSES)
    hints = {"envFile": " (put its variables into env)"}
    return [f"{name}: {field}{hints.get(field, '')}" for field in map(str, entry) if field not in known]


def _parse(text: str, path: Path) -> Any:
    try:
        return parse_json(text, field=path.name)
    except InvalidInput as error:
        relaxed = _TRAILING.sub(_keep_text, _COMMENT.sub(_keep_text, text))
        try:
            return parse_json(relaxed, field=path.name)
        except InvalidInput:
            words = error.message if error.message.startswith(path.name) else f"{path} is not JSON: {error.message}"
            raise InvalidInput(words, field="from") from error


def _with_projects(document: Any) -> tuple[Any, list[str]]:
    """Merge the servers of single projects, as Claude Code keeps them, into the others, with a note on each.

    A name that is taken already keeps its first meaning.
    """
    members = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    projects = members.get("projects")
    if not isinstance(projects, dict):
        return cast("Any", document), []
    joined = dict(cast("dict[str, Any]", members.get("mcpServers") or {}))
    words: list[str] = []
    for folder, project in cast("dict[str, Any]", projects).items():
        block = find_block(project) if isinstance(project, dict) and "mcpServers" in project else None
        for name, entry in (block or {}).items():
            if name in joined:
                words.append(f"{name} of project {folder}: another server has its name")
            else:
                joined[name] = entry
                words.append(f"{name}: that it is for project {folder} alone")
    return {**members, "mcpServers": joined}, words


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
