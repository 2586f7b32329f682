"""An MCP server such as you may have: an issue tracker with three tools, on stdin and stdout."""

from __future__ import annotations

from typing import Any

from mcp.server import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("tracker")
READS = ToolAnnotations(read_only_hint=True)


@server.tool(annotations=READS)
def search_issues(query: str) -> dict[str, Any]:
    """Find issues by a word."""
    number = sum(query.encode()) % 900 + 100
    return {"issues": [{"number": number, "title": f"about {query}"}]}


@server.tool(annotations=READS)
def get_issue(number: int) -> dict[str, Any]:
    """One issue, with who reported it."""
    return {"number": number, "state": "open", "reporter": f"user-{number}"}


@server.tool(annotations=READS)
def get_user(login: str) -> dict[str, Any]:
    """One user."""
    return {"login": login, "mail": f"{login}@mail.test"}


if __name__ == "__main__":
    server.run("stdio")
