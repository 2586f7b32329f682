"""Knows where MCP clients keep the files that name their servers, on Linux, macOS and Windows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

_OF_USERS: Final = (
    ("Claude Code", ".claude.json"),
    ("Claude Desktop", ".config/Claude/claude_desktop_config.json"),
    ("Claude Desktop", "Library/Application Support/Claude/claude_desktop_config.json"),
    ("Cursor", ".cursor/mcp.json"),
    ("VS Code", ".config/Code/User/mcp.json"),
    ("VS Code", "Library/Application Support/Code/User/mcp.json"),
    ("Windsurf", ".codeium/windsurf/mcp_config.json"),
    ("Gemini CLI", ".gemini/settings.json"),
    ("LM Studio", ".lmstudio/mcp.json"),
)
_OF_APP_DATA: Final = (
    ("Claude Desktop", "Claude/claude_desktop_config.json"),
    ("VS Code", "Code/User/mcp.json"),
)
_OF_PROJECTS: Final = (
    ("Claude Code, this project", ".mcp.json"),
    ("Cursor, this project", ".cursor/mcp.json"),
    ("VS Code, this project", ".vscode/mcp.json"),
    ("Gemini CLI, this project", ".gemini/settings.json"),
)


class ClientLocation(NamedTuple):
    """A file that an MCP client reads its servers from."""

    client: str
    path: Path


def find_client_files(user_home: Path, project: Path, env: Mapping[str, str]) -> list[ClientLocation]:
    """Find the files of known clients that are there: those of this project first, then those of this user."""
    places = [ClientLocation(client, project / name) for client, name in _OF_PROJECTS]
    places += [ClientLocation(client, user_home / name) for client, name in _OF_USERS]
    if env.get("APPDATA"):
        places += [ClientLocation(client, Path(env["APPDATA"]) / name) for client, name in _OF_APP_DATA]
    found = {place.path: place for place in reversed(places) if place.path.is_file()}
    return [place for place in places if found.get(place.path) is place]
