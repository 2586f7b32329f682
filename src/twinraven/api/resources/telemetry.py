"""Ingests spans of OpenTelemetry exporters: OTLP over HTTP, as JSON or protobuf, plain or gzipped."""

from __future__ import annotations

import asyncio
import zlib
from functools import partial
from typing import Any, Final, cast

from twinraven.api.schemas import form
from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidInput, StorageBusy
from twinraven.muninn import ReceivedSpans, decode_request, encode_response
from twinraven.serving import RawBody, Request, Response, Route, RouteTable, TooLarge

JSON: Final = "application/json"
PROTOBUF: Final = "application/x-protobuf"
MOST_UNPACKED: Final = 64 * 1024 * 1024
ROUTES: Final = RouteTable()


@ROUTES.handles(
    Route(
        "POST",
        "/v1/traces",
        "receiveSpans",
        "Take spans in from an OpenTelemetry exporter (OTLP over HTTP)",
        form(
            {},
            optional={
                "partialSuccess": form({"rejectedSpans": {"type": "string"}, "errorMessage": {"type": "string"}})
            },
        ),
        raw=(JSON, PROTOBUF),
        errors=(StorageBusy,),
        note=(
            "Spans of tool calls become events, spans of models give their turns and the user's words; all others are "
            "passed over. A span that is sent twice is one event. The answer to protobuf is protobuf."
        ),
    )
)
async def receive_spans(request: Request) -> Response:
    """Take the spans of tool calls and model turns in; the work is done on the receiver's thread."""
    body: RawBody = request.body
    waiting = request.raven.spans.submit(request.tenant_id, partial(_document, body))
    # Whoever leaves while waiting does not take back what was sent.
    found = await asyncio.shield(asyncio.wrap_future(waiting))
    if body.media == PROTOBUF:
        return Response(encode_response(found.rejected, found.reason), media=PROTOBUF)
    return Response(_as_json(found))


def _document(body: RawBody) -> dict[str, Any]:
    text = _unpacked(body.text) if body.is_gzip else body.text
    if body.media == PROTOBUF:
        return decode_request(text)
    found = parse_json(text, field="body")
    listed: Any = cast("dict[str, Any]", found).get("resourceSpans", []) if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise InvalidInput("the body must be an OTLP request: an object with resourceSpans", field="resourceSpans")
    return {"resourceSpans": listed}


def _unpacked(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        text = unpacker.decompress(packed, MOST_UNPACKED)
    except zlib.error as error:
        raise InvalidInput(f"the body is not gzip: {error}", field="body") from None
    if unpacker.unconsumed_tail:
        raise TooLarge(f"a body has at most {MOST_UNPACKED} bytes when it is unpacked", limit=MOST_UNPACKED)
    if not unpacker.eof:
        raise InvalidInput("the body is gzip that broke off", field="body")
    return text


def _as_json(found: ReceivedSpans) -> dict[str, Any]:
    """Return the response of the protocol: empty where all was accepted."""
    if not found.rejected:
        return {}
    return {"partialSuccess": {"rejectedSpans": str(found.rejected), "errorMessage": found.reason}}
