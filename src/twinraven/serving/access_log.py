"""Logs each request with its status and duration, with `--log-level info`.

The query is left out: it may hold a stream token.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from time import perf_counter
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Message, Receive, Send], Awaitable[None]]

_logger = logging.getLogger("twinraven.access")


def with_access_log(app: AsgiApp) -> AsgiApp:
    """Wrap an application so that its requests are logged; unchanged where the log level is higher."""
    if not _logger.isEnabledFor(logging.INFO):
        return app

    async def logged(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        began, status = perf_counter(), 0

        async def seen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await app(scope, receive, seen)
        finally:
            facts = {
                "method": scope["method"],
                "path": scope["path"],
                "status": status,
                "took_ms": round((perf_counter() - began) * 1000),
            }
            _logger.info("%(method)s %(path)s %(status)s %(took_ms)s ms", facts, extra=facts)

    return logged
