"""Encodes single JSON-RPC messages and errors, and holds the context of a received one."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

import anyio
import orjson
from mcp.shared.dispatcher import CallOptions, Outbound
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data
from mcp.shared.message import MessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, RequestId

from twinraven.foundation.canonical import canonical_json, to_json_value

_PIPE: Final = TransportContext(kind="stdio", can_send_request=True)
_logger = logging.getLogger("twinraven.mcp")

Message = dict[str, Any]

NOT_SENT: Final = -32_950
"""The code of our own error for a request that never left."""
CLOSED: Final = -32_951
"""The code of our own error for a request that was not answered before its connection ended.

The code of the protocol's libraries for that is what many servers put into any error of theirs.
"""
_CLOSED_WORDS: Final = "Connection closed"


@dataclass(slots=True)
class MessageContext:
    """The context of one received message."""

    line: Outbound
    request_id: RequestId | None
    progress_token: str | int | None = None
    message_metadata: MessageMetadata = None
    transport: TransportContext = _PIPE
    cancel_requested: anyio.Event = field(default_factory=anyio.Event)

    @property
    def can_send_request(self) -> bool:
        return self.transport.can_send_request

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> Message:
        return await self.line.send_raw_request(method, params, opts)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        await self.line.notify(method, params, opts)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        if self.progress_token is None:
            return
        stated = {"total": total, "message": message}
        known = {name: value for name, value in stated.items() if value is not None}
        await self.notify(
            "notifications/progress", {"progressToken": self.progress_token, "progress": progress, **known}
        )


async def contained(begin: Callable[[], Awaitable[None]]) -> None:
    """Run a handler whose failure stays contained; it is begun here, since a task may be cancelled before it runs."""
    try:
        await begin()
    except Exception:
        _logger.exception("a handler of notifications failed")


def encode_message(message: Message) -> bytes:
    try:
        return orjson.dumps(message)
    except TypeError:  # integers beyond 64 bits, lone surrogates
        return canonical_json(to_json_value(message))


def notification_message(method: str, params: Mapping[str, Any] | None) -> Message:
    message: Message = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": dict(params)}


def unsent() -> MCPError:
    """Build the error of a message that was not written, because the peer is gone."""
    return MCPError(code=NOT_SENT, message="the connection is closed")


def closed() -> MCPError:
    return MCPError(code=CLOSED, message=_CLOSED_WORDS)


def is_closed(error: MCPError) -> bool:
    """Return whether a request failed because its connection ended, as the SDK's transport of SSE says it, too."""
    return error.code == CLOSED or (error.code == CONNECTION_CLOSED and error.message == _CLOSED_WORDS)


def peer_error(error: Any) -> MCPError:
    members = cast("Message", error) if isinstance(error, dict) else {}
    code, words = members.get("code"), members.get("message")
    return MCPError(
        code=code if isinstance(code, int) else INTERNAL_ERROR,
        message=words if isinstance(words, str) else "the peer answered neither a result nor an error",
        data=members.get("data"),
    )


def as_wire_error(error: Exception) -> Message:
    known = handler_exception_to_error_data(error)
    if known is not None:
        return known.model_dump(by_alias=True, mode="json", exclude_none=True)
    _logger.error("a request could not be served", exc_info=error)
    return {"code": INTERNAL_ERROR, "message": "Internal server error"}
