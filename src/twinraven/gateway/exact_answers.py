"""Keeps fields that the SDK's types do not know in the answers that go out.

The SDK checks each answer against the client's revision and sends what its types know. A server's answer may say more
(a name beside a text, say), which clients without the SDK read. So answers are checked as always, and then sent as they
were made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, TypeVar, cast

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

Result = dict[str, Any]
Context = ServerRequestContext[Any, Any]
P = TypeVar("P")

_made: ContextVar[list[Result] | None] = ContextVar("twinraven_gateway_answer", default=None)


def exactly(serve: Callable[[Context, P], Awaitable[Result]]) -> Callable[[Context, P], Awaitable[Result]]:
    """Return a handler whose answer goes out with all its fields."""

    async def served(context: Context, params: P) -> Result:
        result = await serve(context, params)
        made = _made.get()
        if made is not None:
            made.append(result)
        return result

    return served


async def restore(ctx: Context, call_next: CallNext) -> HandlerResult:
    """As the server's middleware: put back what the check took out."""
    made: list[Result] = []
    token = _made.set(made)
    try:
        checked = await call_next(ctx)
    finally:
        _made.reset(token)
    if not made or not isinstance(checked, dict):
        return checked
    exact = made[-1]
    meta = {**cast("Result", exact.get("_meta") or {}), **cast("Result", checked.get("_meta") or {})}
    return {**checked, **exact, **({"_meta": meta} if meta else {})}
