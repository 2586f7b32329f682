"""Dispatches JSON-RPC messages, one per line, from event loop callbacks to the waiting callers.

The SDK's own stdio transport passes each message through threads, streams and tasks, and each of these hops costs a
turn of the event loop; a gateway pays for all of them twice per call. Here a line that arrives resolves its waiter at
once. It is also the place where a peer is not trusted: a line that is too long, broken, or one of too many ends the
connection with a reason instead of filling the memory or leaving a caller to wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import anyio
import anyio.abc
from mcp.shared.dispatcher import (
    CallOptions,
    Dispatcher,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
    ProgressFnT,
    as_request_id,
    coerce_request_id,
    run_notify_intercept,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.transport_context import TransportContext
from mcp_types import INVALID_REQUEST, PARSE_ERROR, REQUEST_TIMEOUT, RequestId

from twinraven.connectors.mcp.wire import (
    Message,
    MessageContext,
    as_wire_error,
    closed,
    contained,
    encode,
    notification,
    peer_error,
    unsent,
)
from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidInput

_NOISE_ALLOWED: Final = 64
"""Lines that are no JSON at all (banners, stray prints) and are passed over before a peer is given up."""
_UNASKED_BURST: Final = 5_000
_UNASKED_PER_S: Final = 500.0
"""How many notifications and requests of its own a peer may send: so many at once, and so many a second after that."""


@dataclass(slots=True)
class _Waiting:
    """A request of ours that has no answer yet."""

    answer: asyncio.Future[Message]
    on_progress: ProgressFnT | None


class LineDispatcher(asyncio.Protocol, Dispatcher[TransportContext]):
    """Both directions of one pipe; as a protocol it is fed bytes, as a dispatcher it is given to the SDK."""

    def __init__(
        self,
        *,
        max_bytes: int,
        on_fault: Callable[[str], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.is_closed = False
        self._max_bytes = max_bytes
        self._on_fault = on_fault
        self._output: asyncio.WriteTransport | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._buffer = bytearray()
        self._searched = 0
        self._noise = 0
        self._monotonic = monotonic
        self._unasked, self._unasked_since = 0.0, monotonic()
        self._next_id = 0
        self._waiting: dict[RequestId, _Waiting] = {}
        self._serving: dict[RequestId, tuple[asyncio.Task[None], MessageContext]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._handlers: tuple[OnRequest, OnNotify, OnNotifyIntercept | None] | None = None
        self._early: list[Message] = []
        self._ended = asyncio.Event()

    # What the event loop calls.

    def attach(self, output: asyncio.WriteTransport) -> None:
        """Set the writer of messages to the peer."""
        self._output = output

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while not self.is_closed:
            end = self._buffer.find(b"\n", self._searched)
            if end < 0:
                self._searched = len(self._buffer)
                if self._searched > self._max_bytes:
                    self._give_up(f"it sent a message of more than {self._max_bytes} bytes")
                return
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._searched = 0
            if len(line) > self._max_bytes:
                self._give_up(f"it sent a message of more than {self._max_bytes} bytes")
            elif line.strip():
                self._read(line)

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.close()

    def close(self) -> None:
        """End everything that waits on this pipe."""
        if self.is_closed:
            return
        self.is_closed = True
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(closed())
        self._waiting.clear()
        self._can_write.set()
        self._buffer.clear()
        self._ended.set()

    # What the SDK calls.

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Hand messages to these handlers until the pipe ends; what came before that is handed over first."""
        self._handlers = (on_request, on_notify, on_notify_intercept)
        task_status.started()
        early, self._early = self._early, []
        for message in early:
            self._dispatch(message)
        try:
            await self._ended.wait()
        finally:
            self.close()
            for task in self._tasks:
                task.cancel()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> Message:
        """Send a request and wait for its answer."""
        options: CallOptions = opts or {}
        request_id = options.get("request_id", self._take_id())
        key, on_progress = coerce_request_id(request_id), options.get("on_progress")
        if key in self._waiting:
            raise ValueError(f"request id {request_id!r} is already in flight")
        sent = dict(params or {})
        if on_progress is not None:
            sent["_meta"] = {**(sent.get("_meta") or {}), "progressToken": request_id}
        message: Message = {"jsonrpc": "2.0", "id": request_id, "method": method} | ({"params": sent} if sent else {})
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[key] = _Waiting(answer, on_progress)
        limit = asyncio.timeout(options.get("timeout"))
        try:
            await self._write(message)
            async with limit:
                return await answer
        except TimeoutError:
            if not limit.expired():
                raise
            await self._abandon(request_id, options)
            raise MCPError(code=REQUEST_TIMEOUT, message=f"Request {method!r} timed out") from None
        except asyncio.CancelledError:
            self._abandon_now(request_id, options)
            raise
        finally:
            self._waiting.pop(key, None)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Send a notification; one that the peer can no longer get is dropped."""
        del opts
        if not self.is_closed:
            await self._write(notification(method, params))

    # Inside.

    def _take_id(self) -> int:
        self._next_id += 1
        while self._next_id in self._waiting:
            self._next_id += 1
        return self._next_id

    async def _write(self, message: Message) -> None:
        if not self._can_write.is_set():
            await self._can_write.wait()
        self._write_now(message)

    def _write_now(self, message: Message) -> None:
        if self.is_closed or self._output is None or self._output.is_closing():
            raise unsent()
        self._output.write(encode(message) + b"\n")

    async def _abandon(self, request_id: RequestId, options: CallOptions) -> None:
        self._abandon_now(request_id, options)
        await asyncio.sleep(0)

    def _abandon_now(self, request_id: RequestId, options: CallOptions) -> None:
        """Tell the peer that the request is abandoned; never waits itself, since its caller may be cancelled."""
        if options.get("cancel_on_abandon", True) and not self.is_closed and self._can_write.is_set():
            params = {"requestId": request_id, "reason": "nobody waits for the answer any more"}
            with suppress(MCPError):
                self._write_now(notification("notifications/cancelled", params))

    def _give_up(self, reason: str) -> None:
        if self._on_fault is not None and not self.is_closed:
            self._on_fault(reason)
        self.close()

    def _read(self, line: bytes) -> None:
        try:
            found = parse_json(line, field="message")
        except InvalidInput:
            self._refuse(line)
            return
        for message in cast("list[Any]", found) if isinstance(found, list) else [found]:
            if not isinstance(message, dict):
                self._refuse(line)
                return
            self._dispatch(cast("Message", message))

    def _refuse(self, line: bytes) -> None:
        """A line that is no message: noise is passed over for a while, a broken message is an answer lost."""
        if self._on_fault is None:
            error = {"code": PARSE_ERROR, "message": "Parse error"}
            self._write_now({"jsonrpc": "2.0", "id": None, "error": error})
            return
        self._noise += 1
        if line.lstrip()[:1] in (b"{", b"[") or self._noise > _NOISE_ALLOWED:
            self._give_up("it sent something that is not JSON-RPC")

    def _dispatch(self, message: Message) -> None:
        if "method" not in message:
            self._resolve(message)
        elif self._handlers is None:
            self._early.append(message)
        elif "id" in message:
            self._serve(message)
        else:
            self._notice(message)

    def _resolve(self, message: Message) -> None:
        request_id = as_request_id(message.get("id"))
        waiting = None if request_id is None else self._waiting.get(coerce_request_id(request_id))
        if waiting is None or waiting.answer.done():
            self._count_unasked()
        elif isinstance(message.get("result"), dict):
            waiting.answer.set_result(message["result"])
        else:
            waiting.answer.set_exception(peer_error(message.get("error")))

    def _serve(self, message: Message) -> None:
        request_id = as_request_id(message.get("id"))
        params = message.get("params")
        if request_id is None or not isinstance(message["method"], str) or not isinstance(params, (dict, type(None))):
            error = {"code": INVALID_REQUEST, "message": "Invalid Request"}
            self._write_now({"jsonrpc": "2.0", "id": request_id, "error": error})
            return
        self._count_unasked()
        arrived = MessageContext(self, request_id, progress_token_from_params(cast("Message | None", params)))
        task = self._spawn(self._answer(arrived, message["method"], cast("Message | None", params)))
        self._serving[coerce_request_id(request_id)] = (task, arrived)

    async def _answer(self, arrived: MessageContext, method: str, params: Message | None) -> None:
        assert self._handlers is not None
        assert arrived.request_id is not None
        key = coerce_request_id(arrived.request_id)
        reply: Message = {"jsonrpc": "2.0", "id": arrived.request_id}
        try:
            reply["result"] = await self._handlers[0](arrived, method, params)
        except Exception as error:  # noqa: BLE001 - the edge of the wire: every request is answered
            reply["error"] = as_wire_error(error)
        finally:
            if self._serving.get(key, (None, None))[1] is arrived:
                del self._serving[key]
        if not arrived.cancel_requested.is_set() and not self.is_closed:
            await self._write(reply)

    def _notice(self, message: Message) -> None:
        assert self._handlers is not None
        method, params = message["method"], message.get("params")
        if not isinstance(method, str) or not isinstance(params, (dict, type(None))):
            return
        self._count_unasked()
        stated = cast("Message", params or {})
        if method == "notifications/cancelled":
            self._stop_serving(as_request_id(stated.get("requestId")))
        elif method == "notifications/progress":
            self._pass_progress(stated)
        if not run_notify_intercept(self._handlers[2], method, cast("Message | None", params)):
            notice = partial(self._handlers[1], MessageContext(self, None), method, cast("Message | None", params))
            self._spawn(contained(notice))

    def _stop_serving(self, request_id: RequestId | None) -> None:
        served = None if request_id is None else self._serving.get(coerce_request_id(request_id))
        if served is not None:
            task, arrived = served
            arrived.cancel_requested.set()
            task.cancel()

    def _pass_progress(self, stated: Message) -> None:
        token, progress, total = as_request_id(stated.get("progressToken")), stated.get("progress"), stated.get("total")
        waiting = None if token is None else self._waiting.get(coerce_request_id(token))
        if waiting is None or waiting.on_progress is None or not isinstance(progress, (int, float)):
            return
        words = stated.get("message")
        known_total = float(total) if isinstance(total, (int, float)) else None
        tell = partial(waiting.on_progress, float(progress), known_total, words if isinstance(words, str) else None)
        self._spawn(contained(tell))

    def _count_unasked(self) -> None:
        """A peer whose messages we asked for is never too fast; one that talks by itself has a budget."""
        if self._on_fault is None:
            return
        now = self._monotonic()
        self._unasked = max(0.0, self._unasked - (now - self._unasked_since) * _UNASKED_PER_S) + 1
        self._unasked_since = now
        if self._unasked > _UNASKED_BURST:
            self._give_up(f"it floods us: more than {_UNASKED_BURST} messages that nobody asked for")

    def _spawn(self, work: Awaitable[None]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
