"""Serves maintenance of learned tools: dry runs and runs, and the savings of each tool."""

from __future__ import annotations

from typing import Final

from twinraven.api.schemas import FLAG, NUMBER_OR_NULL, TIME, form
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.clock import iso
from twinraven.registry import Adoption, UsedDay
from twinraven.serving import JsonSchema, Request, Response, Route, RouteTable

_REPORT: Final[JsonSchema] = {
    "type": "object",
    "properties": {
        "at": TIME,
        "dry_run": {"type": "boolean"},
        "tools": {"type": "array", "items": {"type": "object"}},
        "actions": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["at", "dry_run", "tools", "actions"],
}
_COUNT: Final = {"type": "integer", "minimum": 0}
ROUTES: Final = RouteTable()


@ROUTES.handles(
    Route(
        "GET",
        "/v1/maintenance",
        "rehearseMaintenance",
        "What maintenance measures of every tool in service, and what it would do",
        _REPORT,
        admin=True,
    )
)
async def rehearse(request: Request) -> Response:
    report = await request.raven.maintenance.run(request.tenant_id, dry_run=True, by=request.who.user_id)
    return Response(report.as_json())


@ROUTES.handles(
    Route(
        "POST",
        "/v1/maintenance",
        "runMaintenance",
        "Look at every tool in service and act on what is found",
        _REPORT,
        admin=True,
    )
)
async def run(request: Request) -> Response:
    report = await request.raven.maintenance.run(request.tenant_id, dry_run=False, by=request.who.user_id)
    return Response(report.as_json())


@ROUTES.handles(
    Route(
        "GET",
        "/v1/savings",
        "showSavings",
        "Turns that learned tools saved, measured from their uses",
        form(
            {
                "turns_saved": {"type": "number"},
                "uses": _COUNT,
                "is_counting": FLAG,
                "items": {
                    "type": "array",
                    "items": form(
                        {
                            "tool_id": {"type": "string"},
                            "status": {"type": "string"},
                            "turns_saved": NUMBER_OR_NULL,
                            "uses": _COUNT,
                            "possible_turns": {"type": ["integer", "null"]},
                            "days": {
                                "type": "array",
                                "items": form({"begins_at": TIME, "uses": _COUNT, "turns_saved": NUMBER_OR_NULL}),
                            },
                        }
                    ),
                },
            }
        ),
        note=(
            "`turns_saved` is measured: turns by hand less turns with the tool, over its uses of the last 30 days. "
            "`possible_turns` is "
            "what a version would have saved in the record it was validated on; tools overlap, so these are not "
            "summed. `days` has the uses of the last 30 days by the day, in UTC, on which their session ended. "
            "`is_counting` says that calls are recorded which the figures do not hold yet."
        ),
    )
)
async def show_savings(request: Request) -> Response:
    raven, tenant_id = request.raven, request.tenant_id
    measured = await raven.maintenance.adoption(tenant_id, wait=False)
    items: list[dict[str, object]] = []
    total, uses, is_counting = 0.0, 0, False
    for record in await raven.registry.tools(tenant_id):
        adoption = measured.get(record.tool_id)
        tool = await raven.registry.tool(tenant_id, record.tool_id)
        version = tool.version(record.current_version)
        possible = None if version is None or not version.savings else version.savings.get("turns_saved")
        saved = None if adoption is None else adoption.turns_saved
        total += saved or 0.0
        uses += 0 if adoption is None else adoption.uses
        is_counting |= record.is_in_service if adoption is None else adoption.pending > 0
        items.append(
            {
                "tool_id": record.tool_id,
                "status": record.status.value,
                "turns_saved": saved,
                "uses": 0 if adoption is None else adoption.uses,
                "possible_turns": possible,
                "days": [] if adoption is None else [_day_json(adoption, day) for day in adoption.days],
            }
        )
    return Response({"turns_saved": round(total, 2), "uses": uses, "is_counting": is_counting, "items": items})


def _day_json(adoption: Adoption, day: UsedDay) -> JsonObject:
    return {"begins_at": iso(day.begins_at), "uses": day.uses, "turns_saved": adoption.turns_saved_on(day)}
