"""Files of other clients: understood as they are, and told what to change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from twinraven.foundation.errors import InvalidInput
from twinraven.gateway import read_client_file

WITH_COMMENTS = """
{
  // the servers of this machine
  "mcpServers": {
    "git": {"command": "uvx", "args": ["mcp-server-git", "--url=http://x//y"],}, /* two
    lines */
    "web": {"url": "https://example.org/mcp", "headers": {"Authorization": "Bearer abc"}},
    "raven": {"command": "/usr/bin/twinraven", "args": ["gateway"]},
  },
}
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "client.json"
    file.write_text(text)
    return file


def test_comments_and_trailing_commas_are_understood(tmp_path: Path) -> None:
    """What editors allow in their files is allowed, and texts that look like comments stay texts."""
    found = read_client_file(write(tmp_path, WITH_COMMENTS))
    assert [server.name for server in found.servers] == ["git", "web"]
    assert found.servers[0].args == ("mcp-server-git", "--url=http://x//y")


def test_a_gateway_is_not_put_behind_itself(tmp_path: Path) -> None:
    """An entry that starts a gateway is left out."""
    assert "raven" not in read_client_file(write(tmp_path, WITH_COMMENTS)).document()["mcpServers"]


def test_what_is_not_taken_over_is_listed(tmp_path: Path) -> None:
    """Servers that are switched off, the gateway itself, and fields that mean nothing here are named one by one."""
    text = """{"mcpServers": {
        "git": {"command": "uvx", "args": [], "envFile": ".env", "timeout": 60, "disabled": false},
        "off": {"command": "x", "disabled": true},
        "web": {"url": "https://example.org/mcp", "env": {"A": "b"}, "alwaysAllow": []},
        "raven": {"command": "twinraven", "args": ["gateway"]}
    }}"""
    assert read_client_file(write(tmp_path, text)).left_out == (
        "git: envFile (put its variables into env)",
        "off: it is switched off",
        "web: env",
        "web: alwaysAllow",
        "raven: it is this gateway",
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "it is empty"),
        ('{"mcpServers": {}}', "it is empty"),
        ('{"mcpServers": {"twinraven": {"command": "twinraven", "args": ["gateway"]}}}', "it is this gateway"),
        ('{"mcpServers": {"git": {"command": "uvx", "disabled": true}}}', "git: it is switched off"),
    ],
)
def test_a_file_that_leaves_no_server_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    """Nothing to put behind the gateway is an error with the reason, not an empty list."""
    with pytest.raises(InvalidInput, match=reason):
        read_client_file(write(tmp_path, text))


def test_the_change_is_one_line_in_the_clients_own_form(tmp_path: Path) -> None:
    """The line replaces the block under the name the client uses for it."""
    line = read_client_file(write(tmp_path, WITH_COMMENTS)).replacement(
        Path("/home/me/.twinraven"), command="/opt/bin/twinraven"
    )
    entry = json.loads("{" + line + "}")["mcpServers"]["twinraven"]
    assert entry == {"command": "/opt/bin/twinraven", "args": ["gateway", "--home", "/home/me/.twinraven"]}
    code = write(tmp_path, '{"servers": {"git": {"type": "stdio", "command": "uvx"}}}')
    assert (
        read_client_file(code)
        .replacement(Path("/h"), command="twinraven")
        .startswith('"servers": {"twinraven": {"type": "stdio"')
    )


def test_credentials_in_clear_are_pointed_out_without_being_shown(tmp_path: Path) -> None:
    """A header or variable that holds a credential is named; its value is not; a reference is no credential."""
    text = '{"mcpServers": {"a": {"command": "x", "env": {"API_KEY": "hush", "B_TOKEN": "${secret:b}", "LANG": "C"}}}}'
    assert read_client_file(write(tmp_path, text)).credentials() == ["a: env.API_KEY"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"theme": "dark"}', '{"mcpServers": 7}'])
def test_a_file_without_servers_is_refused_by_name(tmp_path: Path, text: str) -> None:
    """What holds no servers is refused with the file's name."""
    with pytest.raises(InvalidInput, match=r"client\.json"):
        read_client_file(write(tmp_path, text))
    with pytest.raises(InvalidInput, match=r"nowhere\.json"):
        read_client_file(tmp_path / "nowhere.json")
