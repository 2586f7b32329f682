"""Serves the settings with their sources, the results of `doctor`, and the policy, to administrators."""

from __future__ import annotations

import asyncio
from typing import Final

from twinraven.api.schemas import TIME, WHOLE, form
from twinraven.app import (
    ExaminationFinding,
    examine_database,
    examine_folder,
    examine_ground,
    examine_upstream_tools,
    settings_as_rows,
)
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.clock import iso
from twinraven.serving import QueryParameter, Request, Response, Route, RouteTable

ROUTES: Final = RouteTable()
_MOST_NOTES: Final = 20


@ROUTES.handles(
    Route(
        "GET",
        "/v1/settings",
        "showSettings",
        "Every setting, its value and where it was set",
        form(
            {
                "items": {
                    "type": "array",
                    "items": form({"name": {"type": "string"}, "value": {}, "source": {"type": "string"}}),
                }
            }
        ),
        admin=True,
        note="Passwords in addresses are masked. Rules are in GET /v1/policy.",
    )
)
async def show_settings(request: Request) -> Response:
    rows = settings_as_rows(request.raven.settings)
    return Response({"items": [dict(zip(("name", "value", "source"), row, strict=True)) for row in rows]})


@ROUTES.handles(
    Route(
        "GET",
        "/v1/doctor",
        "examineHome",
        "Whether the home is sound: its folder, disk, database and optional parts, and what to do about it",
        form(
            {
                "ok": {"type": "boolean"},
                "items": {
                    "type": "array",
                    "items": form(
                        {
                            "check": {"type": "string"},
                            "status": {"enum": ["ok", "info", "warning", "broken"]},
                            "detail": {"type": "string"},
                            "fix": {"type": ["string", "null"]},
                        }
                    ),
                },
            }
        ),
        admin=True,
        note="As `twinraven doctor --fast` sees it from the server, without the files of MCP servers and tools.",
    )
)
async def examine(request: Request) -> Response:
    raven = request.raven

    def look() -> list[ExaminationFinding]:
        return [*examine_ground(), *examine_folder(raven.settings.home), *examine_database(raven, fast=True)]

    found = await asyncio.to_thread(look)
    found += await examine_upstream_tools(raven, request.tenant_id)
    items: list[JsonObject] = [each._asdict() for each in found]
    return Response({"ok": all(each.status != "broken" for each in found), "items": items})


@ROUTES.handles(
    Route(
        "GET",
        "/v1/retention",
        "rehearseRetention",
        "How long sessions are kept, what left, and what would leave",
        form(
            {
                "days": {"type": ["integer", "null"]},
                "notes": {"type": "array", "items": {"type": "object"}},
                "would_leave": {
                    "anyOf": [
                        form({"days": WHOLE, "cutoff": TIME, "sessions": WHOLE, "events": WHOLE, "spared": WHOLE}),
                        {"type": "null"},
                    ]
                },
            }
        ),
        query=(
            QueryParameter(
                "days",
                {"type": "integer", "minimum": 1, "maximum": 36_500},
                "rehearse for sessions whose last call is older than so many days",
            ),
        ),
        admin=True,
        note=(
            "`days` is the setting `retention.days`. A rehearsal reads every session that is old enough; it is made "
            "only where `days` is asked for. Nothing leaves by this route: `twinraven retention run` removes."
        ),
    )
)
async def rehearse_retention(request: Request) -> Response:
    raven, query = request.raven, request.query
    notes = await raven.retention.notes(request.tenant_id, limit=_MOST_NOTES)
    would_leave: JsonObject | None = None
    if "days" in query:
        days = int(query["days"])
        report = await raven.retention.preview(request.tenant_id, days=days)
        would_leave = {
            "days": days,
            "cutoff": iso(report.cutoff),
            "sessions": report.sessions,
            "events": report.events,
            "spared": report.spared,
        }
    told: list[JsonObject] = [note.as_json() for note in notes]
    return Response({"days": raven.settings.retention.days, "notes": told, "would_leave": would_leave})
