"""Shows the audit log, one entry, and whether the chain is whole."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from twinraven.console.visits import PageTable, Shown, Visit

PAGES: Final = PageTable()
_FILTERS: Final = ("event_type", "subject_type", "subject_id", "actor_id", "correlation_id")
_PER_PAGE: Final = 100


@PAGES.shows("/audit", "audit")
async def list_audit(visit: Visit) -> Shown:
    where = {name: visit.query[name] for name in _FILTERS if visit.query.get(name)}
    page = await visit.api.get("audit", newest=True, limit=_PER_PAGE, cursor=visit.query.get("cursor"), **where)
    verified = await visit.api.get("audit", "verification") if "verify" in visit.query else None
    more = {**where, "cursor": page["next_cursor"]} if page["next_cursor"] else None
    values = {
        "entries": page["items"],
        "where": where,
        "verified": verified,
        "more": None if more is None else f"/console/audit?{urlencode(more)}",
        "kinds": sorted({each["event_type"] for each in page["items"]}),
    }
    return Shown("audit.html", "Audit log", values, command="twinraven audit verify")


@PAGES.shows("/audit/{entry_id}", "audit")
async def show_entry(visit: Visit) -> Shown:
    entry = await visit.api.get("audit", visit.path["entry_id"])
    command = f"twinraven audit show {entry['id']}"
    return Shown("audit_entry.html", f"Entry {entry['sequence']}", {"entry": entry}, command=command)
