"""Serves activity figures and the change feed: calls per hour and tool, and server-sent change events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Final

from twinraven.api.schemas import NUMBER_OR_NULL, TEXT, TIME, WHOLE, form
from twinraven.api.time_spans import SPAN, asked_span
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.clock import iso, to_micros
from twinraven.foundation.ids import id_digest
from twinraven.serving import QueryParameter, Request, Response, Route, RouteTable, encode_json, moment
from twinraven.storage import Change

ROUTES: Final = RouteTable()
_COUNT: Final = {"type": "integer", "minimum": 0}
_LONGEST: Final = timedelta(days=92)
_MOMENT_S: Final = 0.1
_SIGN_OF_LIFE_S: Final = 15.0
_CLOCKS_APART_S: Final = 2.0
_MOST_NAMED: Final = 64


@ROUTES.handles(
    Route(
        "GET",
        "/v1/activity",
        "showActivity",
        "Calls per stretch of time, and the tools that were called most",
        form(
            {
                "since": TIME,
                "until": TIME,
                "bucket_s": WHOLE,
                "buckets": {
                    "type": "array",
                    "items": form({"begins_at": TIME, "calls": _COUNT, "failed": _COUNT, "sessions": _COUNT}),
                },
                "tools": {
                    "type": "array",
                    "items": form(
                        {
                            "tool_id": {"type": "string"},
                            "calls": _COUNT,
                            "raised": _COUNT,
                            "mean_latency_ms": NUMBER_OR_NULL,
                            "max_latency_ms": NUMBER_OR_NULL,
                        }
                    ),
                },
                "failures": {
                    "type": "array",
                    "items": form(
                        {"tool_id": {"type": "string"}, "error_code": {"type": ["string", "null"]}, "calls": _COUNT}
                    ),
                },
            }
        ),
        query=(
            *SPAN,
            QueryParameter(
                "bucket_s",
                {"type": "integer", "minimum": 60, "maximum": 86_400 * 31, "default": 3_600},
                "how many seconds are counted together",
            ),
            QueryParameter("tool_id", TEXT, "only calls of this tool"),
            QueryParameter(
                "tools", {"type": "integer", "minimum": 0, "maximum": 500, "default": 20}, "at most so many tools"
            ),
            QueryParameter(
                "failures",
                {"type": "integer", "minimum": 0, "maximum": 500, "default": 20},
                "at most so many kinds of failure",
            ),
        ),
        note=(
            "Stretches without a call are left out. `failed` counts calls that raised an error; `tools` are those of "
            "all calls in this time, and `failures` says how often which of them failed with which code. At most 92 "
            "days and 2000 stretches at once."
        ),
    )
)
async def show_activity(request: Request) -> Response:
    query, span = request.query, asked_span(request, longest=_LONGEST)
    activity, width_s = request.raven.activity, int(query["bucket_s"])
    buckets = await activity.buckets(request.tenant_id, span, width_s, tool_id=query.get("tool_id"))
    most = int(query["tools"])
    kinds = int(query["failures"])
    # Who asks for no tools does not pay for counting them.
    failures = await activity.failures(request.tenant_id, span, limit=kinds) if kinds else []
    uses = await activity.tool_uses(request.tenant_id, span, limit=most) if most else []
    return Response(
        {
            "since": iso(span.since),
            "until": iso(span.until),
            "bucket_s": width_s,
            "buckets": [each.as_json() for each in buckets],
            "tools": [asdict(each) for each in uses],
            "failures": [asdict(each) for each in failures],
        }
    )


@ROUTES.handles(
    Route(
        "GET",
        "/v1/transitions",
        "listTransitions",
        "Which tool agents called straight after which, the commonest first",
        form(
            {
                "since": TIME,
                "until": TIME,
                "items": {
                    "type": "array",
                    "items": form({"from_tool": {"type": "string"}, "to_tool": {"type": "string"}, "count": _COUNT}),
                },
            }
        ),
        query=(
            *SPAN,
            QueryParameter(
                "limit", {"type": "integer", "minimum": 1, "maximum": 500, "default": 60}, "at most so many"
            ),
        ),
        note=(
            "Counted in whole hours: from the beginning of the hour of `since` to the end of that of `until`, as the "
            "answer says. A pair counts in the hour of its later call."
        ),
    )
)
async def list_transitions(request: Request) -> Response:
    span = asked_span(request, longest=_LONGEST).in_whole_hours()
    found = await request.raven.activity.transitions(request.tenant_id, span, limit=int(request.query["limit"]))
    items: list[JsonObject] = [asdict(each) for each in found]
    return Response({"since": iso(span.since), "until": iso(span.until), "items": items})


@ROUTES.handles(
    Route(
        "GET",
        "/v1/news",
        "followNews",
        "Word that something changed, as server-sent events",
        {"type": "string"},
        query=(QueryParameter("since", TIME, "when the listener read what it has; only what changed since is told"),),
        takes_token=True,
        media="text/event-stream",
        note=(
            "Each message is an event `change` whose data names a `topic` (events, approvals, catalog, runs, "
            "conversations, work, reservations) and in `about` what changed of it: the first 16 hexadecimal digits of "
            "the SHA-256 of the session of calls, or of the id of a run, a conversation, a task or another thing of "
            "work, so that whoever knows the id recognises it and nobody learns one. `about` is null where anything of "
            "the topic may have changed, because many things did at once or it has no ids; `topic` is null where "
            "anything may have changed: at the beginning, unless `since` is stated and the server has watched from "
            "then on. It says when to ask again, not what is there."
        ),
    )
)
async def follow_news(request: Request) -> Response:
    return Response(stream=_news(request), media="text/event-stream")


def _missed(request: Request) -> Sequence[Change]:
    """Return what may have changed since the listener read what it has."""
    anything = [Change()]
    if "since" not in request.query:
        return anything
    # Clocks of several machines are not quite the same.
    since = moment(request.query["since"], field="since") - timedelta(seconds=_CLOCKS_APART_S)
    found = request.raven.changes.changed_since(request.tenant_id, to_micros(since, field="since"))
    return anything if found is None else found


def _told_at_once(changes: Iterable[Change]) -> bytes:
    """Return messages about changes, each once; of many things of a topic it is said that any may have changed."""
    about: dict[str | None, dict[str | None, None]] = {}
    for change in changes:
        about.setdefault(change.topic, {})[change.about] = None
    messages = [
        {"topic": topic, "about": None if name is None else id_digest(name)}
        for topic, names in about.items()
        for name in ([None] if None in names or len(names) > _MOST_NAMED else names)
    ]
    return b"".join(b"event: change\ndata: %s\n\n" % encode_json(each) for each in messages)


async def _news(request: Request) -> AsyncGenerator[bytes]:
    loop, woken = asyncio.get_running_loop(), asyncio.Event()
    changes: dict[Change, None] = {}

    def note(change: Change) -> None:
        changes[change] = None
        woken.set()

    def told(change: Change) -> None:
        if change.tenant_id in (None, request.tenant_id) and not loop.is_closed():
            loop.call_soon_threadsafe(note, change)

    leave = request.raven.changes.subscribe(told)
    # What changed between the page that was read and now, or while a connection was lost, nobody told.
    for change in _missed(request):
        note(change)
    try:
        yield b": listening\n\n"
        while True:
            try:
                async with asyncio.timeout(_SIGN_OF_LIFE_S):
                    await woken.wait()
            except TimeoutError:
                yield b": still here\n\n"
                continue
            # What is written many times within a moment is told once.
            await asyncio.sleep(_MOMENT_S)
            woken.clear()
            found = list(changes)
            changes.clear()
            yield _told_at_once(found)
    finally:
        leave()
