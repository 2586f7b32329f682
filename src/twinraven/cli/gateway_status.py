"""`twinraven gateway status`: the servers behind the gateway, their tools, and what was last heard of each."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from twinraven.cli.exits import DONE, FAILED
from twinraven.cli.output import TableColumn, print_lines, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.times import short_time

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.connectors import PinnedTool, ServerConfig

_COLUMNS = (
    TableColumn("server", "SERVER", shrinks=True, least=16),
    TableColumn("state", "STATE", tinted=True),
    TableColumn("since", "SINCE", text=short_time, spare=2),
    TableColumn("tools", "TOOLS", right=True),
    TableColumn("unclassified", "UNCLASSIFIED", right=True, spare=1),
    TableColumn("quarantined", "QUARANTINED", right=True),
    TableColumn("detail", "DETAIL", shrinks=True, spare=3, least=24),
)


def register(parser: CommandParser) -> None:
    parser.takes_output("table", "json", "csv")
    parser.runs(run, example="twinraven gateway status")


def run(options: Namespace) -> int:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        rows = asyncio.run(_rows(raven, options.tenant))
    empty = "no MCP servers; put those of your client behind the gateway with `twinraven gateway init`"
    show_rows(options.output, rows, _COLUMNS, empty=empty)
    if options.output == "table":
        print_lines(f"fix: {row['fix']}" for row in rows if row["fix"])
    return FAILED if any(row["state"] in ("broken", "down") for row in rows) else DONE


async def _rows(raven: TwinRaven, tenant_id: str) -> list[dict[str, Any]]:
    from twinraven.connectors import SERVERS_FILE, VaultSecrets, load_servers, server_faults

    servers = load_servers(raven.settings.servers, raven.home / SERVERS_FILE)
    faults = {fault.server: fault for fault in await server_faults(servers, VaultSecrets(raven.vault), tenant_id)}
    pinned = [tool for tool in await raven.upstream_tools.listed(tenant_id) if tool.is_present]
    rows: list[dict[str, Any]] = []
    for server in servers:
        row = await _row(raven, tenant_id, server, [tool for tool in pinned if tool.server == server.name])
        fault = faults.get(server.name)
        rows.append(row if fault is None else {**row, "state": "broken", "detail": fault.message, "fix": fault.fix})
    return rows


async def _row(raven: TwinRaven, tenant_id: str, server: ServerConfig, tools: list[PinnedTool]) -> dict[str, Any]:
    """Return what a home knows of a server without starting it: its accepted tools, and the last news of its health."""
    from twinraven.audit import AuditFilter

    about = AuditFilter(subject_type="upstream_server", subject_id=server.name, limit=20, newest_first=True)
    news = [entry for entry in await raven.audit.entries(tenant_id, about) if entry.event_type in _HEALTH]
    last = news[0] if news else None
    return {
        "server": server.name,
        "transport": server.transport,
        "state": "not started" if last is None else _HEALTH[last.event_type],
        "since": None if last is None else last.timestamp,
        "tools": len(tools),
        "unclassified": sum(tool.classification is None for tool in tools),
        "quarantined": sum(tool.is_quarantined for tool in tools),
        "detail": "no gateway has started it yet" if last is None else last.message or "",
        "fix": None,
    }


_HEALTH = {"upstream.up": "up", "upstream.down": "down"}
