"""Reads the configuration of upstream servers (`mcpServers`), in the form that MCP clients use.

A `mcpServers` block is taken as it is: what starts a program (`command`, `args`, `env`, `cwd`) or names an address
(`url`, `headers`, `type`). Keys that only matter to the client that wrote them are ignored. Values may hold
`${secret:NAME}`, `${env:NAME}`, `${NAME}` or `${NAME:-default}`; they are filled in when a connection is made and stay
out of everything that is printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, cast

from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidInput, InvalidSetting

Transport = Literal["stdio", "http", "sse"]

SERVERS_FILE: Final = "mcp.json"
"""The file of a home that holds its servers."""

MAX_NAME: Final = 64
_FEWEST_MS: Final = 1_000
"""A number below this is taken for seconds: a timeout is at least one."""
_BLOCKS: Final = ("mcpServers", "servers", "context_servers")
_TRANSPORTS: Final[Mapping[str, Transport]] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "remote": "http",
    "streamable-http": "http",
    "streamablehttp": "http",
    "streamable_http": "http",
    "sse": "sse",
}


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One upstream server; what may hold secrets is left out of its text."""

    name: str
    transport: Transport
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    timeout_ms: int | None = None
    handshake: bool = False
    """Whether the older handshake is tried before the newest revision."""

    def as_json(self) -> dict[str, Any]:
        """Return the entry of a `mcpServers` block that means this."""
        if self.transport == "stdio":
            body: dict[str, Any] = {"command": self.command, "args": list(self.args)}
            body |= {"env": dict(self.env)} if self.env else {}
            body |= {"cwd": self.cwd} if self.cwd else {}
        else:
            body = {"type": self.transport, "url": self.url}
            body |= {"headers": dict(self.headers)} if self.headers else {}
        body |= {"timeout_ms": self.timeout_ms} if self.timeout_ms else {}
        return body | ({"handshake": True} if self.handshake else {})


def read_servers(document: Any, *, where: str) -> tuple[ServerConfig, ...]:
    """Read every server of a client's file or settings block that is not switched off."""
    block = find_block(document)
    if block is None:
        raise InvalidSetting(f"{where} has no mcpServers block", field="mcpServers")
    found = [_read_server(str(name), entry, f"{where}: {name}") for name, entry in block.items()]
    return tuple(server for server in found if server is not None)


def load_servers(block: Mapping[str, Any], file: Path) -> tuple[ServerConfig, ...]:
    """Load the servers of a home: those in its settings and those in its own file, if it has one."""
    stated = read_servers({"mcpServers": block}, where="mcpServers")
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return stated
    except OSError as error:
        raise InvalidSetting(f"{file} cannot be read: {error.strerror}", field="mcpServers") from error
    try:
        document = parse_json(text, field=file.name)
    except InvalidInput as error:
        raise InvalidSetting(f"{file}: {error.message}", field="mcpServers") from error
    return (*stated, *read_servers(document, where=str(file)))


def find_block(document: Any) -> Mapping[Any, Any] | None:
    """Find the mapping of names to servers, wherever the client keeps it; a bare mapping of servers is one, too."""
    if not isinstance(document, Mapping):
        return None
    members = cast("Mapping[Any, Any]", document)
    for place in (members, members.get("mcp")):
        for name in _BLOCKS:
            block = cast("Mapping[Any, Any]", place).get(name) if isinstance(place, Mapping) else None
            if isinstance(block, Mapping):
                return cast("Mapping[Any, Any]", block)
    return members if all(_is_server(entry) for entry in members.values()) else None


def _is_server(entry: Any) -> bool:
    return isinstance(entry, Mapping) and bool({"command", "url", "serverUrl", "httpUrl"} & set(cast("Any", entry)))


def _read_server(name: str, entry: Any, where: str) -> ServerConfig | None:
    if not isinstance(entry, Mapping):
        raise InvalidSetting(f"{where} must be an object with a command or a url", field=name)
    members = cast("Mapping[str, Any]", entry)
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise InvalidSetting(f"{where}: a server's name has 1 to {MAX_NAME} printable characters", field=name)
    if members.get("disabled") is True or members.get("enabled") is False:
        return None
    transport = _transport(members, where)
    common: dict[str, Any] = {"name": name, "transport": transport, "timeout_ms": _timeout(members, where)}
    common["handshake"] = members.get("handshake") is True
    if transport == "stdio":
        command, args = _command(members, where)
        cwd = members.get("cwd")
        return ServerConfig(
            command=command,
            args=args,
            env=_texts(members, "env", where),
            cwd=None if cwd is None else _text(cwd, "cwd", where),
            **common,
        )
    return ServerConfig(url=_url(members, where), headers=_texts(members, "headers", where), **common)


def _transport(members: Mapping[str, Any], where: str) -> Transport:
    stated = members.get("type", members.get("transport"))
    if stated is not None:
        known = _TRANSPORTS.get(str(stated).lower())
        if known is None:
            raise InvalidSetting(f"{where}.type must be stdio, http or sse, not {stated!r}", field="type")
        return known
    if "command" in members:
        return "stdio"
    address = str(members.get("url") or members.get("serverUrl") or "")
    return "sse" if address.partition("?")[0].rstrip("/").endswith("/sse") else "http"


def _command(members: Mapping[str, Any], where: str) -> tuple[str, tuple[str, ...]]:
    """Program and arguments; some clients write both as one list."""
    stated, more = members.get("command"), members.get("args", [])
    words: list[Any] = list(cast("list[Any]", stated)) if isinstance(stated, list) else [stated]
    if not isinstance(more, list):
        raise InvalidSetting(f"{where}.args must be a list of texts", field="args")
    words += cast("list[Any]", more)
    if not words or not all(isinstance(word, str) for word in words) or not words[0].strip():
        raise InvalidSetting(f"{where}.command must name a program, and args must be texts", field="command")
    return words[0], tuple(words[1:])


def _url(members: Mapping[str, Any], where: str) -> str:
    address = members.get("httpUrl") or members.get("url") or members.get("serverUrl")
    if address is None:
        stated = f"; it has {', '.join(map(str, members))}" if members else ""
        raise InvalidSetting(f"{where} must have a command (a program) or a url{stated}", field="command")
    if not isinstance(address, str) or not address.startswith(("http://", "https://", "${")):
        raise InvalidSetting(f"{where}.url must begin with http:// or https://", field="url")
    return address


def _texts(members: Mapping[str, Any], key: str, where: str) -> dict[str, str]:
    found: Any = members.get(key) or {}
    if not isinstance(found, Mapping):
        raise InvalidSetting(f"{where}.{key} must hold names and texts", field=key)
    pairs = cast("Mapping[str, Any]", found)
    return {str(name): _text(value, f"{key}.{name}", where) for name, value in pairs.items()}


def _text(value: Any, key: str, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise InvalidSetting(f"{where}.{key} must be a text", field=key)
    return str(value)


def _client_timeout(members: Mapping[str, Any]) -> int | None:
    """Return the time that another client's file allows a call: some write milliseconds, some seconds."""
    value = members.get("timeout", members.get("tool_timeout_sec"))
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        return None
    return round(value * 1000) if "timeout" not in members or value < _FEWEST_MS else round(value)


def _timeout(members: Mapping[str, Any], where: str) -> int | None:
    value = members.get("timeout_ms")
    if value is None:
        return _client_timeout(members)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidSetting(f"{where}.timeout_ms must be a whole number from 1", field="timeout_ms")
    return value
