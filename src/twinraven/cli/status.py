"""`twinraven status`: what a home holds, what waits for a person, and the command that goes on."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from typing import TYPE_CHECKING, Any

from twinraven.cli.output import show_fields
from twinraven.cli.parser import CommandParser

if TYPE_CHECKING:
    from twinraven.app import TwinRaven


def register(parser: CommandParser) -> None:
    parser.takes_output("table", "json")
    parser.runs(run, example="twinraven status")


def run(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        found = asyncio.run(_look(raven, options.tenant))
    show_fields(options.output, found)


async def _look(raven: TwinRaven, tenant_id: str) -> dict[str, Any]:
    from twinraven.muninn import SqlEventStore

    events, sessions = await SqlEventStore(raven.database).counts(tenant_id)
    states = Counter(str(tool.status) for tool in await raven.registry.tools(tenant_id))
    waiting = len(await raven.approvals.list(tenant_id, state="pending", limit=100))
    return {
        "home": str(raven.home),
        "store": raven.database.dialect,
        "tenant": tenant_id,
        "sessions": sessions,
        "events": events,
        "learned tools": ", ".join(f"{number} {state}" for state, number in sorted(states.items())) or "none",
        "calls waiting for approval": waiting,
        "next": _next_command(sessions, states, waiting),
    }


def _next_command(sessions: int, states: Counter[str], waiting: int) -> str:
    if waiting:
        return "twinraven approvals list"
    if states["testing"]:
        return "twinraven registry list"
    if not sessions:
        return "twinraven import FILE, or twinraven gateway init"
    return "twinraven learn" if not states else "twinraven registry list"
