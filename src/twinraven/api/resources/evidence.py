"""Serves the audit log to administrators: its entries, and the verification of its hash chain."""

from __future__ import annotations

from typing import Final

from twinraven.api.schemas import FLAG, TEXT, TIME, listing, ref
from twinraven.audit import AuditFilter, AuditRecord
from twinraven.foundation.errors import NotFound
from twinraven.serving import QueryParameter, Request, Response, Route, RouteTable, moment, page_of

_FILTERS = ("subject_type", "subject_id", "event_type", "actor_id", "correlation_id")
ROUTES: Final = RouteTable()


@ROUTES.handles(
    Route(
        "GET",
        "/v1/audit",
        "listAudit",
        "Entries of the audit log, oldest first",
        listing("AuditRecord"),
        query=(
            *(QueryParameter(name, TEXT, f"only entries with this {name.replace('_', ' ')}") for name in _FILTERS),
            QueryParameter("since", TIME, "only entries from this time on"),
            QueryParameter("until", TIME, "only entries before this time"),
            QueryParameter("newest", {**FLAG, "default": False}, "newest first"),
        ),
        admin=True,
        is_paged=True,
        cursor=(int,),
    )
)
async def list_entries(request: Request) -> Response:
    query = request.query
    limit, newest = int(query["limit"]), bool(query["newest"])
    place = None if "cursor" not in query else int(query["cursor"][0])
    where = AuditFilter(
        **{name: query.get(name) for name in _FILTERS},
        since=moment(query["since"], field="since") if "since" in query else None,
        until=moment(query["until"], field="until") if "until" in query else None,
        after_sequence=None if newest else place,
        before_sequence=place if newest else None,
        limit=limit + 1,
        newest_first=newest,
    )
    found = await request.raven.audit.entries(request.tenant_id, where)
    return Response(page=page_of(found, limit, place=lambda each: [each.sequence], show=AuditRecord.as_json))


@ROUTES.handles(
    Route(
        "GET",
        "/v1/audit/verification",
        "verifyAudit",
        "Whether the chain is whole, from its first entry to its signed head",
        {
            "type": "object",
            "properties": {"ok": FLAG, "entries": {"type": "integer"}},
            "required": ["ok", "entries"],
        },
        admin=True,
    )
)
async def verify(request: Request) -> Response:
    report = await request.raven.audit.verify(request.tenant_id)
    return Response(report.as_json())


@ROUTES.handles(
    Route(
        "GET",
        "/v1/audit/{entry_id}",
        "showAuditEntry",
        "One entry, with its body where it was not erased",
        ref("AuditRecord"),
        admin=True,
        errors=(NotFound,),
    )
)
async def show_entry(request: Request) -> Response:
    entry = await request.raven.audit.entry(request.tenant_id, request.path["entry_id"])
    return Response(entry.as_json())
