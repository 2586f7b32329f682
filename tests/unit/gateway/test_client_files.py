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


def test_the_change_is_one_line_in_the_clients_own_form(tmp_path: Path) -> None:
    """The line replaces the block under the name the client uses for it."""
    line = read_client_file(write(tmp_path, WITH_COMMENTS)).replacement(Path("/home/me/.twinraven"))
    entry = json.loads("{" + line + "}")["mcpServers"]["twinraven"]
    assert entry == {"command": "twinraven", "args": ["gateway", "--home", "/home/me/.twinraven"]}
    code = write(tmp_path, '{"servers": {"git": {"type": "stdio", "command": "uvx"}}}')
    assert read_client_file(code).replacement(Path("/h")).startswith('"servers": {"twinraven": {"type": "stdio"')


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
