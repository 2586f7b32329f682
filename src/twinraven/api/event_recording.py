"""Records events idempotently: a request that is sent again under its key stores nothing twice.

A request may fail when a part of its events is stored already. Sent again under its key it must not store them twice:
an event without an id gets one that follows from the key and from what it says, and an id that is taken by the very
event that is sent is no conflict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any
from uuid import UUID

from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.errors import Conflict, NotFound, StorageUnavailable, TwinRavenError
from twinraven.muninn import MAX_NAME, MuninnEvent, Receipt
from twinraven.serving import Request, holds_secret, moment


def keyed_id(request: Request, number: int, event: Mapping[str, Any]) -> UUID:
    """Return the id of an event that states none, the same whenever it is sent under this key."""
    who = request.who
    # What it says is part of it: a key that was freed or forgotten may come with other events.
    facts = canonical_json([request.tenant_id, who.user_id, request.idempotency_key, number, dict(event)])
    return UUID(bytes=sha256(facts).digest()[:16], version=4)


async def without_secret_tools(request: Request, events: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the events without the values of secrets in the names of their tools.

    A tool of the catalogue keeps its name: it is known already, and its calls must be found under it.
    """
    raven, tenant_id = request.raven, request.tenant_id
    if not await holds_secret(raven, tenant_id, *(event["tool_id"] for event in events)):
        return events

    def clean() -> list[Mapping[str, Any]]:
        known = {entry.tool_id for entry in raven.catalog.visible(tenant_id, request.who.user_id)}
        redact = raven.redactor.redact_known
        return [
            event
            if event["tool_id"] in known
            # What stands for a secret can be longer than it was; a name has its limit.
            else {**event, "tool_id": redact(tenant_id, event["tool_id"].encode()).decode()[:MAX_NAME]}
            for event in events
        ]

    return await asyncio.to_thread(clean)


async def keep_all(recordings: Iterable[Callable[[], Receipt]], *, is_keyed: bool) -> tuple[list[UUID], list[int]]:
    """Record all, and wait for all before any failure is told; gives their ids and the places of those taken."""
    receipts: list[Receipt] = []
    failure: TwinRavenError | None = None
    try:
        for record in recordings:
            receipts.append(record().expect())  # noqa: PERF401 - what was begun before a failure is waited for
    except TwinRavenError as error:
        failure = error
    taken: list[int] = []
    for place, receipt in enumerate(receipts):
        try:
            await receipt
        except Conflict:
            taken.append(place)
        except TwinRavenError as error:
            failure = failure or error
    if failure is not None and is_keyed and failure.details.get("commit") == "unknown":
        # Who sends them again is not at risk of storing them twice, so nothing need be looked at first.
        raise StorageUnavailable("the store went away; send the events again under the same key") from failure
    if failure is not None:
        raise failure
    return [receipt.event_id for receipt in receipts], taken


async def is_kept_already(request: Request, event_id: UUID, event: Mapping[str, Any]) -> bool:
    """Return whether what has this id is what this request brought when it was sent before."""
    if request.idempotency_key is None:
        return False
    if "event_id" not in event:
        return True
    try:
        stored = await request.raven.events.event(request.tenant_id, event_id)
    except NotFound:
        return False
    return await asyncio.to_thread(_is_same, request, stored, event)


def _is_same(request: Request, stored: MuninnEvent, event: Mapping[str, Any]) -> bool:
    """Compared as it would be stored, which is without secrets."""
    redactor, tenant_id = request.raven.redactor, request.tenant_id
    sent = (
        event["tool_id"],
        redactor.redact_known(tenant_id, event["session_id"].encode()),
        canonical_json(parse_json(redactor.redact(tenant_id, canonical_json(event["input_params"])))),
        event.get("latency_ms", 0),
        event.get("turn"),
        moment(event["timestamp"], field="timestamp") if "timestamp" in event else stored.timestamp,
    )
    return sent == (
        stored.tool_id,
        stored.session_id.encode(),
        canonical_json(stored.input_params),
        stored.latency_ms,
        stored.turn,
        stored.timestamp,
    )
