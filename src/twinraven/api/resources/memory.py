"""Serves the event log: events, and the sessions they form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final
from uuid import UUID

from twinraven.api.event_recording import is_kept_already, keep_all, keyed_id, without_secret_tools
from twinraven.api.live import live_events
from twinraven.api.schemas import FLAG, OBJECT, OUTCOME, TEXT, TIME, UUID_TEXT, form, listing, listing_of, ref
from twinraven.calls import find_key_of
from twinraven.foundation.actors import Actor, parse_actor
from twinraven.foundation.clock import to_micros
from twinraven.foundation.errors import Conflict, InvalidInput, NotFound, PolicyViolation
from twinraven.muninn import (
    EventFilter,
    MuninnEvent,
    Outcome,
    Receipt,
    RecentSession,
    Session,
    SessionFilter,
    place_of,
)
from twinraven.serving import QueryParameter, Request, Response, Route, RouteTable, long_page_of, moment, page_of
from twinraven.tenancy import Principal

_TURN: Final = {"type": "integer", "minimum": 0, "maximum": 1_000_000_000}
_TAGS: Final[dict[str, Any]] = {
    "type": "array",
    "items": {**TEXT, "maxLength": 200},
    "maxItems": 50,
}
_MOST_SHOWN: Final = 500
_DETAIL: Final[dict[str, Any]] = {
    "output_stored": FLAG,
    "output": {},
    "idempotency_key": {"type": ["string", "null"], "description": "the key that the call took, if it took one"},
}
_VERDICT: Final[dict[str, Any]] = {
    "oneOf": [form({"outcome": OUTCOME, "stated_by": TEXT, "stated_at": TIME}), {"type": "null"}]
}
_SEEN: Final = form(
    {"session_id": TEXT, "tool_id": TEXT, "input_params": OBJECT},
    optional={
        "output": {},
        "error": {"type": "string", "maxLength": 100_000, "description": "what the call raised, if it did"},
        "error_code": TEXT,
        "latency_ms": {"type": "integer", "minimum": 0, "maximum": 4_000_000_000},
        "timestamp": {**TIME, "description": "when the call began; by default now, less its latency"},
        "outcome": OUTCOME,
        "tags": _TAGS,
        "turn": _TURN,
        "task_id": TEXT,
        "outside_input": {"type": "string", "maxLength": 100_000},
        "event_id": {**UUID_TEXT, "description": "yours, if you have one; recorded once"},
        "parent_event_id": UUID_TEXT,
        "corrects": {
            **UUID_TEXT,
            "description": "the event of the same session that this one states anew; what is not stated of time, "
            "turn and parent is as it was",
        },
        "actor": {
            **TEXT,
            "description": "on whose behalf it ran, as person:ID, agent:ID or node:ID; by default the key's user; "
            "only an administrator's key may state another",
        },
    },
)
_FILTERS: Final = (
    QueryParameter("session_id", TEXT, "only calls of this session"),
    QueryParameter("tool_id", TEXT, "only calls of this tool"),
)
_NEWEST_ONLY: Final = ("since", "until", "tool_id", "failed", "starts_with")
_RECENT: Final[dict[str, Any]] = {
    "failed": {"type": "integer"},
    "turns": {"type": "integer"},
    "tools": {"type": "array", "items": {"type": "string"}},
    "first_words": {"type": ["string", "null"]},
    "lasted_ms": {
        "type": "integer",
        "description": "from the beginning of its first call to the end of the call that ended last",
    },
    "time_known": {**FLAG, "description": "whether its calls came with times; else an import gave them times in order"},
    "is_judged": {**FLAG, "description": "whether somebody said how it went; else `partial` stands for not known"},
}
ROUTES: Final = RouteTable()


@ROUTES.handles(
    Route(
        "GET",
        "/v1/events",
        "listEvents",
        "Calls, oldest first",
        listing("MuninnEvent"),
        query=(
            *_FILTERS,
            QueryParameter("tag", TEXT, "only calls with this tag"),
            QueryParameter("raised", FLAG, "only calls that raised an error, or only those that did not"),
            QueryParameter("error_code", TEXT, "only calls that failed with this code"),
            QueryParameter("correlation_id", TEXT, "only calls of the request with this id"),
            QueryParameter("parent_event_id", UUID_TEXT, "only calls made inside this one"),
            QueryParameter("since", TIME, "from this time on"),
            QueryParameter("until", TIME, "before this time"),
            QueryParameter("newest", {**FLAG, "default": False}, "newest first"),
        ),
        is_paged=True,
        cursor=(int, int),
    )
)
async def list_events(request: Request) -> Response:
    query = request.query
    limit = int(query["limit"])
    where = EventFilter(
        session_id=query.get("session_id"),
        tool_id=query.get("tool_id"),
        tag=query.get("tag"),
        raised=query.get("raised"),
        error_code=query.get("error_code"),
        correlation_id=query.get("correlation_id"),
        parent_event_id=None if "parent_event_id" not in query else str(UUID(query["parent_event_id"])),
        since=None if "since" not in query else moment(query["since"], field="since"),
        until=None if "until" not in query else moment(query["until"], field="until"),
        beyond=None if "cursor" not in query else (query["cursor"][0], query["cursor"][1]),
        limit=limit + 1,
        newest_first=query["newest"],
    )
    found = await request.raven.events.events(request.tenant_id, where)
    return Response(page=await long_page_of(found, limit, place=_place, show=MuninnEvent.as_json))


@ROUTES.handles(
    Route(
        "POST",
        "/v1/events",
        "recordEvents",
        "Record calls that were made elsewhere",
        form({"event_ids": {"type": "array", "items": UUID_TEXT}}),
        status=201,
        body=form({"events": {"type": "array", "items": _SEEN, "minItems": 1, "maxItems": 1000}}),
        errors=(Conflict, PolicyViolation),
        takes_key=True,
    )
)
async def record_events(request: Request) -> Response:
    """Record calls that happened elsewhere; all of them are on disk when this answers."""
    collector = request.raven.collector
    if collector.is_full:
        await collector.room()
    seen: list[Mapping[str, Any]] = request.body["events"]
    chosen = [UUID(event["event_id"]) for event in seen if "event_id" in event]
    if len(set(chosen)) < len(chosen):
        raise InvalidInput("two events have the same event_id", field="events")
    # All are read before the first is recorded: what is refused leaves nothing behind.
    facts = [_facts(event, number, request.who) for number, event in enumerate(seen)]
    for number, (event, stated) in enumerate(zip(seen, facts, strict=True)):
        if "corrects" in event:
            stated.update(await _correction(request, event, stated, field=f"events[{number}].corrects"))
    if request.idempotency_key is not None:
        for number, (event, stated) in enumerate(zip(seen, facts, strict=True)):
            stated.setdefault("event_id", keyed_id(request, number, event))
    seen = await without_secret_tools(request, seen)
    ids, taken = await keep_all(
        (partial(_record, request, event, stated) for event, stated in zip(seen, facts, strict=True)),
        is_keyed=request.idempotency_key is not None,
    )
    foreign = [str(ids[place]) for place in taken if not await is_kept_already(request, ids[place], seen[place])]
    if foreign:
        raise Conflict("some events have ids that are taken; the others are recorded", event_ids=foreign)
    # Of several things that were made none is the one to look at.
    headers = {"Location": f"/v1/events/{ids[0]}"} if len(ids) == 1 else None
    return Response({"event_ids": [str(event_id) for event_id in ids]}, status=201, headers=headers)


@ROUTES.handles(
    Route(
        "GET",
        "/v1/events/live",
        "followEvents",
        "Calls as they are recorded, as server-sent events",
        {"type": "string"},
        query=(
            *_FILTERS,
            QueryParameter("after", {"type": "integer", "minimum": 0}, "begin behind this arrival number"),
        ),
        takes_token=True,
        media="text/event-stream",
        note=(
            "Each event's id is its arrival number. The stream begins with an id that has no event, and gives one with "
            "each sign of life: a client that reconnects with the last id it was given, as Last-Event-ID, misses "
            "nothing. From an id beyond the newest event, as after a restore, it goes on behind the newest event: the "
            "first id is then smaller than the one that was sent."
        ),
    )
)
async def follow_events(request: Request) -> Response:
    return Response(stream=await live_events(request), media="text/event-stream")


@ROUTES.handles(
    Route(
        "GET",
        "/v1/events/{event_id}",
        "showEvent",
        "One call, with its output where it is kept",
        {"allOf": [ref("MuninnEvent"), {"type": "object", "properties": _DETAIL}]},
        parameters={"event_id": UUID_TEXT},
        errors=(NotFound,),
    )
)
async def show_event(request: Request) -> Response:
    store = request.raven.events
    event = await store.event(request.tenant_id, UUID(request.path["event_id"]))
    kept = {} if event.output_hash is None else await store.outputs(request.tenant_id, [event.output_hash])
    body = {
        **event.as_json(),
        "output_stored": bool(kept),
        "output": kept.get(event.output_hash or ""),
        "idempotency_key": await find_key_of(request.raven.database, request.tenant_id, str(event.event_id)),
    }
    return Response(body)


@ROUTES.handles(
    Route(
        "GET",
        "/v1/sessions",
        "listSessions",
        "Sessions with their size, time and outcome, by id or the newest first",
        listing_of({"allOf": [ref("Session"), {"type": "object", "properties": _RECENT}]}),
        query=(
            QueryParameter("order", {"enum": ["id", "newest"], "default": "id"}, "by id, or by the last call"),
            QueryParameter("outcome", OUTCOME, "only sessions that went so; by id"),
            QueryParameter("since", TIME, "only those whose last call was made from this time on; newest first"),
            QueryParameter("until", TIME, "only those whose last call was made before this time; newest first"),
            QueryParameter("tool_id", TEXT, "only those in which this tool was called; newest first"),
            QueryParameter("failed", FLAG, "only those with, or without, a call that raised; newest first"),
            QueryParameter("starts_with", TEXT, "only those whose id begins so; newest first"),
        ),
        is_paged=True,
        note="The newest come with how many calls failed, turns, tools, and the first words from outside.",
    )
)
async def list_sessions(request: Request) -> Response:
    query = request.query
    limit = int(query["limit"])
    if query["order"] == "newest":
        return await _newest_sessions(request, limit)
    unfit = [name for name in _NEWEST_ONLY if name in query]
    if unfit:
        raise InvalidInput(f"{unfit[0]} goes with order=newest", field=unfit[0])
    found = await request.raven.events.sessions(
        request.tenant_id,
        limit=limit + 1,
        after=None if "cursor" not in query else query["cursor"][0],
        outcome=None if "outcome" not in query else Outcome(query["outcome"]),
    )
    return Response(page=page_of(found, limit, place=lambda each: [each.session_id], show=Session.as_json))


async def _newest_sessions(request: Request, limit: int) -> Response:
    query = request.query
    where = SessionFilter(
        since=None if "since" not in query else moment(query["since"], field="since"),
        until=None if "until" not in query else moment(query["until"], field="until"),
        tool_id=query.get("tool_id"),
        failed=query.get("failed"),
        outcome=None if "outcome" not in query else Outcome(query["outcome"]),
        starts_with=query.get("starts_with"),
        beyond=None if "cursor" not in query else _beyond(query["cursor"][0]),
        limit=limit + 1,
    )
    found = await request.raven.activity.recent_sessions(request.tenant_id, where)
    page = page_of(found, limit, place=lambda each: [f"{each.place[0]}.{each.place[1]}"], show=RecentSession.as_json)
    return Response(page=page)


def _beyond(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(-?[0-9]{1,18})\.([0-9]{1,18})", text)
    if found is None:
        raise InvalidInput("cursor is not one that was given out", field="cursor")
    return int(found[1]), int(found[2])


@ROUTES.handles(
    Route(
        "GET",
        "/v1/sessions/{session_id}",
        "showSession",
        "One session and its calls, in order",
        {
            "allOf": [
                ref("Session"),
                form(
                    {
                        "events": {"type": "array", "items": ref("MuninnEvent")},
                        "events_truncated": FLAG,
                        "verdict": _VERDICT,
                    }
                )
                | {"additionalProperties": True},
            ]
        },
        query=(
            QueryParameter(
                "events",
                {"type": "integer", "minimum": 0, "maximum": _MOST_SHOWN, "default": _MOST_SHOWN},
                "at most so many of its calls",
            ),
        ),
        errors=(NotFound,),
        note=f"Of a long session the first {_MOST_SHOWN} calls are shown and `events_truncated` is true; "
        "GET /v1/events?session_id=… gives all of them, page by page. "
        "`verdict` is what somebody stated last.",
    )
)
async def show_session(request: Request) -> Response:
    """Return a session with as many of its calls as fit into a page; a session may have any number of them."""
    most = int(request.query["events"])
    session = await request.raven.events.session(request.tenant_id, request.path["session_id"], most=most)
    verdict = await request.raven.events.verdict(request.tenant_id, session.session_id)
    shown = {
        "events": [event.as_json() for event in session.events],
        "events_truncated": session.event_count > len(session.events),
        "verdict": None if verdict is None else verdict.as_json(),
    }
    return Response({**session.as_json(), **shown})


@ROUTES.handles(
    Route(
        "POST",
        "/v1/sessions/{session_id}/verdicts",
        "stateVerdict",
        "Say afterwards how a session's task went",
        form({"session_id": TEXT, "outcome": OUTCOME, "stated_by": TEXT}),
        status=201,
        location="/v1/sessions/{session_id}",
        body=form({"outcome": OUTCOME}),
        errors=(NotFound,),
        takes_key=True,
    )
)
async def state_verdict(request: Request) -> Response:
    session_id, outcome = request.path["session_id"], Outcome(request.body["outcome"])
    await request.raven.events.state_verdict(request.tenant_id, session_id, outcome, stated_by=request.who.user_id)
    stated = {"session_id": session_id, "outcome": outcome.value, "stated_by": request.who.user_id}
    return Response(stated, status=201)


def _facts(event: Mapping[str, Any], number: int, who: Principal) -> dict[str, Any]:
    """Return what is stated of an event besides its call; raises where it could not be recorded."""
    facts: dict[str, Any] = {
        name: event[name] for name in ("latency_ms", "tags", "turn", "outside_input") if name in event
    }
    for name in ("event_id", "parent_event_id"):
        if name in event:
            facts[name] = UUID(event[name])
    if "timestamp" in event:
        facts["timestamp"] = moment(event["timestamp"], field=f"events[{number}].timestamp")
    facts["actor"] = _stated_actor(event.get("actor"), who, field=f"events[{number}].actor")
    return facts


async def _correction(
    request: Request, event: Mapping[str, Any], stated: Mapping[str, Any], *, field: str
) -> dict[str, Any]:
    """Return what a correction says besides its call: what is not stated is as in the event that it corrects."""
    try:
        wrong = await request.raven.events.event(request.tenant_id, UUID(event["corrects"]))
    except NotFound as error:
        raise InvalidInput(f"{field}: {error.message}", field=field) from error
    if wrong.session_id != event["session_id"]:
        raise InvalidInput(f"{field}: event {wrong.event_id} is of another session", field=field)
    known = wrong.time_known or {"timestamp", "latency_ms"} <= stated.keys()
    return {**place_of(wrong), **stated, "time_known": known, "corrects": wrong.event_id}


def _stated_actor(text: str | None, who: Principal, *, field: str) -> Actor:
    """Return the actor of a recorded call; a key that may state another actor could speak for any."""
    actor = who.actor if text is None else parse_actor(text, field=field)
    if actor == who.actor:
        return actor
    if actor.type == "system":
        raise InvalidInput(f"{field} must be person:ID, agent:ID or node:ID; the system records itself", field=field)
    if who.role != "admin":
        raise PolicyViolation(
            f"{field}: only an administrator's key may record calls of another actor; leave it out", field=field
        )
    return actor


def _record(request: Request, event: Mapping[str, Any], facts: dict[str, Any]) -> Receipt:
    observer = request.raven.collector.observe(
        event["session_id"], tenant_id=request.tenant_id, task_id=event.get("task_id")
    )
    facts["correlation_id"] = request.correlation_id
    error = event.get("error")
    if error is None:
        outcome = event.get("outcome", Outcome.PARTIAL.value)
        return observer.record(
            event["tool_id"], event["input_params"], output=event.get("output"), outcome=outcome, **facts
        )
    return observer.record(
        event["tool_id"],
        event["input_params"],
        output={"error": error},
        outcome=event.get("outcome", Outcome.FAILURE.value),
        raised=True,
        error_code=event.get("error_code", "TOOL_FAILED"),
        **facts,
    )


def _place(event: MuninnEvent) -> list[Any]:
    return [to_micros(event.timestamp), event.arrival]
