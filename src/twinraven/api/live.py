"""Streams events as they are recorded, as server-sent events.

All streams of a tenant share one reader of the log. What a listener has seen is known by the last number it names. It
is told a number at once and with every sign of life, without an event, so that a connection loses nothing when it
breaks before the first event, or where no event is the listener's.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from twinraven.foundation.errors import InvalidInput
from twinraven.serving import encode_json

if TYPE_CHECKING:
    from twinraven.muninn import EventBatch
    from twinraven.serving import Request

_SIGN_OF_LIFE_S: Final = 15.0


async def live_events(request: Request) -> AsyncGenerator[bytes]:
    """Return the stream that a request asks for, from where it says or from now on."""
    begun = await _begin(request)
    return _follow(request, begun)


async def _begin(request: Request) -> int:
    """Behind which number to begin: the one that is stated, but none that nothing has yet.

    Numbers begin again from a restored copy, and somebody who waits for one that is far away would hear nothing of what
    comes until then. To refuse it would end a browser's stream for good; so the stream says at once where it stands.
    """
    stated = _stated(request)
    settled = await request.raven.events.settled(request.tenant_id)
    return settled if stated is None else min(stated, settled)


def _stated(request: Request) -> int | None:
    last = request.last_event_id
    if last is None:
        return request.query.get("after")
    if not last.isascii() or not last.isdigit() or len(last) > 18:
        raise InvalidInput("Last-Event-ID must be the id of an event of this stream", field="Last-Event-ID")
    return int(last)


async def _follow(request: Request, seen: int) -> AsyncGenerator[bytes]:
    session_id, tool_id = request.query.get("session_id"), request.query.get("tool_id")
    yield b": listening\nid: %d\n\n" % seen
    async with request.raven.tail.following(request.tenant_id, after=seen) as follower:
        last_sign = time.monotonic()
        while True:
            batch = await follower.next(within_s=_SIGN_OF_LIFE_S)
            if batch is not None:
                seen = batch.through
                for session, tool, frame in _frames(batch):
                    if session_id in (None, session) and tool_id in (None, tool):
                        last_sign = time.monotonic()
                        yield frame
            if time.monotonic() - last_sign >= _SIGN_OF_LIFE_S:
                last_sign = time.monotonic()
                yield b": still here\nid: %d\n\n" % seen


@lru_cache(8)
def _frames(batch: EventBatch) -> list[tuple[str, str, bytes]]:
    """Return the events of a batch as they are sent, encoded once for all streams: each with its session and tool."""
    return [
        (
            event.session_id,
            event.tool_id,
            b"id: %d\nevent: call\ndata: %s\n\n" % (event.arrival, encode_json(event.as_json())),
        )
        for event in batch.events
    ]
