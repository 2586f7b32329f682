"""Events as they are recorded, sent to whoever listens.

The log is asked a few times a second what arrived since; on Postgres only up to where no smaller number can follow, so
that nothing is passed over. What a listener has seen is known by the last number it names. It is told a number at once
and with every sign of life, without an event, so that a connection loses nothing when it breaks before the first event,
or where no event is the listener's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from twinraven.api.encoding import encode_json
from twinraven.foundation.errors import InvalidInput

if TYPE_CHECKING:
    from twinraven.api.contract import Request

_PAUSE_S: Final = 0.25
_SIGN_OF_LIFE_S: Final = 15.0
_AT_ONCE: Final = 500


async def live_events(request: Request) -> AsyncIterator[bytes]:
    """The stream that a request asks for, from where it says or from now on."""
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


async def _follow(request: Request, seen: int) -> AsyncIterator[bytes]:
    raven, query = request.raven, request.query
    quiet = 0.0
    yield b": listening\nid: %d\n\n" % seen
    while True:
        through = await raven.events.settled(request.tenant_id)
        while seen < through:
            found = await raven.events.arrived(request.tenant_id, after=seen, through=through, limit=_AT_ONCE)
            seen = found[-1].arrival if len(found) == _AT_ONCE else through
            for event in found:
                if event.session_id == query.get("session_id", event.session_id) and event.tool_id == query.get(
                    "tool_id", event.tool_id
                ):
                    quiet = 0.0
                    yield b"id: %d\nevent: call\ndata: %s\n\n" % (event.arrival, encode_json(event.as_json()))
        await asyncio.sleep(_PAUSE_S)
        quiet += _PAUSE_S
        if quiet >= _SIGN_OF_LIFE_S:
            quiet = 0.0
            yield b": still here\nid: %d\n\n" % seen
