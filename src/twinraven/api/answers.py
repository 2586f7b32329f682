"""Streams an answer of a conversation as it comes, as server-sent events.

Where no worker is heard, this process works on runs as long as the stream lasts, so that an answer never waits for a
worker that nobody started.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from twinraven.conversations import Alternative, Piece
from twinraven.foundation.errors import InvalidInput
from twinraven.serving import encode_json

if TYPE_CHECKING:
    from twinraven.serving import Request


async def answer_stream(request: Request) -> AsyncGenerator[bytes]:
    """Return the stream that a request asks for, from where it says."""
    seen = _stated(request)
    conversations = request.raven.conversations
    where = request.path["conversation_id"], request.path["alternative_id"]
    found = await conversations.alternative(*where, by=request.who)
    if found.settled_at is not None:
        return _ended(found)
    return _frames(request, await conversations.stream(*where, by=request.who, after=seen), seen)


def _stated(request: Request) -> tuple[int, int]:
    last = request.last_event_id
    if last is None:
        return 0, 0
    attempt, dot, number = last.partition(b".")
    if not (dot and attempt.isdigit() and number.isdigit() and len(last) <= 24):
        raise InvalidInput("Last-Event-ID must be the id of an event of this stream", field="Last-Event-ID")
    return int(attempt), int(number)


async def _ended(answer: Alternative) -> AsyncGenerator[bytes]:
    yield _end(answer)


def _end(answer: Alternative) -> bytes:
    name = b"done" if answer.state == "done" else b"failed"
    return b"event: %s\ndata: %s\n\n" % (name, encode_json(answer.as_json()))


async def _frames(
    request: Request, pieces: AsyncGenerator[Piece | Alternative | None], seen: tuple[int, int]
) -> AsyncGenerator[bytes]:
    from twinraven.engine import somebody_working

    yield b": listening\n\n"
    async with somebody_working(request.raven.runs, request.raven.working):
        async for piece in pieces:
            if piece is None:
                yield b": still here\n\n"
            elif isinstance(piece, Alternative):
                yield _end(piece)
            else:
                if seen[0] not in (0, piece.attempt):
                    yield b"event: restart\ndata: {}\n\n"
                seen = piece.attempt, piece.number
                yield b"id: %d.%d\nevent: text\ndata: %s\n\n" % (*seen, encode_json({"text": piece.text}))
