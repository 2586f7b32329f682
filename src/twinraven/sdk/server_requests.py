"""Implements the requests that all operation groups share: get, create, update, delete and list.

A change that states the version its maker saw is refused if somebody else was faster; one that states none is made to
whatever is there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from twinraven.foundation.ids import new_id
from twinraven.sdk.catalogue_model import Keep
from twinraven.sdk.exchange import Exchange, RequestSpec, path_of
from twinraven.sdk.model import JsonObject
from twinraven.sdk.reading import read

T = TypeVar("T")

_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class _Page:
    items: tuple[Any, ...]
    next_cursor: str | None = None


class ServerRequests:
    """Asks a server."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def _get(self, *parts: str) -> Any:
        return await self._exchange.json(RequestSpec("GET", path_of(*parts)))

    async def _make(self, kind: type[T], body: JsonObject, *parts: str) -> T:
        return read(kind, await self._exchange.json(RequestSpec("POST", path_of(*parts), body=body, key=new_id())))

    async def _change(self, kind: type[T], body: JsonObject, *parts: str, version: int | None) -> T:
        ask = RequestSpec("PATCH", path_of(*parts), body=body, if_match=tag_of(version))
        return read(kind, await self._exchange.json(ask))

    async def _delete(self, *parts: str, version: int | None) -> None:
        await self._exchange.send(RequestSpec("DELETE", path_of(*parts), if_match=tag_of(version)))

    async def _list(self, kind: type[T], /, *parts: str, **query: Any) -> AsyncGenerator[T]:
        cursor: str | None = None
        while True:
            asked: JsonObject = {**query, "limit": _PAGE, "cursor": cursor}
            page = read(_Page, await self._exchange.json(RequestSpec("GET", path_of(*parts), asked)))
            for item in page.items:
                yield read(kind, item)
            cursor = page.next_cursor
            if cursor is None:
                return


def tag_of(version: int | None) -> str:
    """Return the tag of a version, or of any."""
    return "*" if version is None else f'"{version}"'


def stated(members: Mapping[str, Any]) -> JsonObject:
    """Return the fields that were given."""
    return {name: value for name, value in members.items() if value is not None}


def changed(members: Mapping[str, Any]) -> JsonObject:
    """Return the fields to change; None is a value here."""
    return {name: value for name, value in members.items() if not isinstance(value, Keep)}
