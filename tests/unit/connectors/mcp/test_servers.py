"""The `mcpServers` block of other clients, taken as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from twinraven.connectors import ServerConfig, load_servers, read_servers
from twinraven.foundation.errors import InvalidSetting

GIT = {"command": "uvx", "args": ["mcp-server-git"], "env": {"TOKEN": "abc"}}


def read(document: Any) -> tuple[ServerConfig, ...]:
    return read_servers(document, where="client.json")


@pytest.mark.parametrize(
    "document",
    [
        {"mcpServers": {"git": GIT}},
        {"servers": {"git": {**GIT, "type": "stdio"}}, "inputs": []},
        {"mcp": {"servers": {"git": GIT}}, "editor.fontSize": 12},
        {"git": GIT},
        {"mcpServers": {"git": {**GIT, "autoApprove": ["x"], "icon": "y", "disabled": False}}},
    ],
)
def test_blocks_of_common_clients_mean_the_same(document: Any) -> None:
    """Wherever a client keeps its servers, and whatever it notes beside them, the same server is found."""
    (server,) = read(document)
    assert (server.name, server.transport, server.command, server.args) == ("git", "stdio", "uvx", ("mcp-server-git",))
    assert server.env == {"TOKEN": "abc"}


@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        ({"url": "http://localhost:1/mcp"}, "http"),
        ({"url": "http://localhost:1/mcp", "type": "streamable-http"}, "http"),
        ({"url": "http://localhost:1/sse"}, "sse"),
        ({"url": "http://localhost:1/x", "type": "sse"}, "sse"),
        ({"serverUrl": "http://localhost:1/mcp"}, "http"),
        ({"httpUrl": "http://localhost:1/mcp"}, "http"),
    ],
)
def test_addresses_are_spoken_to_as_their_client_would(entry: dict[str, Any], transport: str) -> None:
    """An address says by its type, or by its path, which protocol it speaks."""
    (server,) = read({"mcpServers": {"x": entry}})
    assert server.transport == transport
    assert server.url.startswith("http://localhost:1/")


def test_a_server_that_is_switched_off_stays_off() -> None:
    """What a client disabled is not started by us either."""
    assert read({"mcpServers": {"a": {**GIT, "disabled": True}, "b": {**GIT, "enabled": False}}}) == ()


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        ({}, "url"),
        ({"cmd": "x"}, "must have a command (a program) or a url; it has cmd"),
        ({"command": ""}, "command"),
        ({"command": "x", "args": "y"}, "args"),
        ({"command": "x", "env": {"A": ["b"]}}, "env.A"),
        ({"url": "ftp://x"}, "url"),
        ({"url": "http://x", "type": "carrier-pigeon"}, "type"),
        ({"command": "x", "timeout_ms": 0}, "timeout_ms"),
        ("uvx", "command or a url"),
    ],
)
def test_what_cannot_be_meant_is_named(entry: Any, names: str) -> None:
    """A wrong entry is refused with its file, its server and its field."""
    with pytest.raises(InvalidSetting) as caught:
        read({"mcpServers": {"git": entry}})
    assert "client.json: git" in caught.value.message
    assert names in caught.value.message


def test_no_text_of_a_server_shows_its_secrets() -> None:
    """Printing a server prints neither its environment nor its headers, arguments or address."""
    (one,) = read({"mcpServers": {"a": {"command": "x", "args": ["--key=s3cret"], "env": {"K": "s3cret"}}}})
    (two,) = read({"mcpServers": {"a": {"url": "http://u:s3cret@x", "headers": {"K": "s3cret"}}}})
    assert "s3cret" not in f"{one!r}{one}{two!r}{two}"


def test_what_was_read_can_be_written_and_read_again() -> None:
    """The form in which a home keeps servers means what the client's file meant."""
    document = {"a": GIT, "b": {"url": "http://x/sse", "headers": {"H": "1"}}, "c": {"command": ["x", "y"], "cwd": "/"}}
    first = read({"mcpServers": document})
    assert read({"mcpServers": {server.name: server.as_json() for server in first}}) == first


def test_a_home_has_the_servers_of_its_settings_and_of_its_file(tmp_path: Path) -> None:
    """Both are one list; a file that is not there is an empty one, and one that is broken is named."""
    file = tmp_path / "mcp.json"
    assert [server.name for server in load_servers({"a": GIT}, file)] == ["a"]
    file.write_text('{"mcpServers": {"b": {"command": "x"}}}')
    assert [server.name for server in load_servers({"a": GIT}, file)] == ["a", "b"]
    file.write_text("{")
    with pytest.raises(InvalidSetting, match=r"mcp\.json"):
        load_servers({}, file)


@pytest.mark.parametrize(
    ("stated", "timeout_ms"),
    [
        ({"timeout": 600_000}, 600_000),
        ({"timeout": 60}, 60_000),
        ({"tool_timeout_sec": 90}, 90_000),
        ({"timeout": 60, "timeout_ms": 5}, 5),
        ({"timeout": "soon"}, None),
        ({}, None),
    ],
)
def test_the_time_of_another_clients_file_is_taken_over(stated: dict[str, object], timeout_ms: int | None) -> None:
    """Milliseconds or seconds, as that client writes them; our own word goes first."""
    (server,) = read_servers({"mcpServers": {"git": {"command": "x", **stated}}}, where="file")
    assert server.timeout_ms == timeout_ms
