"""The audit log, for administrators: who did what, and proof that it was not changed."""

from __future__ import annotations

from collections.abc import Sequence

from twinraven.api.contract import Answer, Parameter, Request, Route
from twinraven.api.forms import FLAG, TEXT, listing, ref
from twinraven.api.pages import page_of
from twinraven.audit import AuditFilter, AuditRecord
from twinraven.foundation.errors import NotFound

_FILTERS = ("subject_type", "subject_id", "event_type", "actor_id", "correlation_id")


async def list_entries(request: Request) -> Answer:
    query = request.query
    limit, newest = int(query["limit"]), bool(query["newest"])
    place = None if "cursor" not in query else int(query["cursor"][0])
    where = AuditFilter(
        **{name: query.get(name) for name in _FILTERS},
        after_sequence=None if newest else place,
        before_sequence=place if newest else None,
        limit=limit + 1,
        newest_first=newest,
    )
    found = await request.raven.audit.entries(request.tenant_id, where)
    return Answer(page=page_of(found, limit, place=lambda each: [each.sequence], show=AuditRecord.as_json))


async def show_entry(request: Request) -> Answer:
    entry = await request.raven.audit.entry(request.tenant_id, request.path["entry_id"])
    return Answer(entry.as_json())


async def verify(request: Request) -> Answer:
    report = await request.raven.audit.verify(request.tenant_id)
    return Answer(report.as_json())


ROUTES: Sequence[Route] = (
    Route(
        "GET",
        "/v1/audit",
        "listAudit",
        "Entries of the audit log, oldest first",
        list_entries,
        listing("AuditRecord"),
        query=(
            *(Parameter(name, TEXT, f"only entries with this {name.replace('_', ' ')}") for name in _FILTERS),
            Parameter("newest", {**FLAG, "default": False}, "newest first"),
        ),
        admin=True,
        is_paged=True,
        cursor=(int,),
    ),
    Route(
        "GET",
        "/v1/audit/verification",
        "verifyAudit",
        "Whether the chain is whole, from its first entry to its signed head",
        verify,
        {"type": "object", "required": ["ok", "entries"]},
        admin=True,
    ),
    Route(
        "GET",
        "/v1/audit/{entry_id}",
        "showAuditEntry",
        "One entry, with its body where it was not erased",
        show_entry,
        ref("AuditRecord"),
        admin=True,
        errors=(NotFound,),
    ),
)
