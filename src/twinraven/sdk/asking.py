"""What every group of operations is made of: getting one thing, and listing many a page at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from twinraven.sdk.exchange import Ask, Exchange, path_of
from twinraven.sdk.model import JsonObject
from twinraven.sdk.reading import read

T = TypeVar("T")

_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class _Page:
    items: tuple[Any, ...]
    next_cursor: str | None = None


class Asking:
    """Asks a server."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def _get(self, *parts: str) -> Any:
        return await self._exchange.json(Ask("GET", path_of(*parts)))

    async def _list(self, kind: type[T], *parts: str, **query: Any) -> AsyncGenerator[T]:
        cursor: str | None = None
        while True:
            asked: JsonObject = {**query, "limit": _PAGE, "cursor": cursor}
            page = read(_Page, await self._exchange.json(Ask("GET", path_of(*parts), asked)))
            for item in page.items:
                yield read(kind, item)
            cursor = page.next_cursor
            if cursor is None:
                return


def stated(members: Mapping[str, Any]) -> JsonObject:
    """What was said; what was left out is left out."""
    return {name: value for name, value in members.items() if value is not None}
