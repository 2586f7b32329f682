"""Asks for the inbox: what waits for a person, one item, and a decision bound to what was shown."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from twinraven.sdk.deciding_model import InboxItemInfo, InboxItemKind, ReservationInfo
from twinraven.sdk.exchange import RequestSpec, path_of
from twinraven.sdk.model import JsonObject
from twinraven.sdk.reading import read
from twinraven.sdk.server_requests import ServerRequests, stated


class InboxOperations(ServerRequests):
    """Requests the inbox."""

    def inbox(self, *, kind: InboxItemKind | None = None) -> AsyncGenerator[InboxItemInfo]:
        """List the items that you may decide, the oldest first."""
        return self._list(InboxItemInfo, "inbox", kind=kind)

    async def inbox_item(self, item_id: str) -> InboxItemInfo:
        """Return one item: what will happen, to what, why it is asked, what it costs, and the evidence."""
        return read(InboxItemInfo, await self._get("inbox", item_id))

    async def reservations(self) -> list[ReservationInfo]:
        """Return who is looking at which item just now, as far as you may know."""
        return self._reserved(await self._get("inbox-reservations"))

    async def reserve_inbox_item(self, item_id: str) -> list[ReservationInfo]:
        """Say for two minutes that you are looking at an item, and return all who are; nobody is kept from deciding."""
        return self._reserved(await self._exchange.json(RequestSpec("PUT", path_of("inbox", item_id, "reservation"))))

    async def release_inbox_item(self, item_id: str) -> None:
        """Say that you no longer look at an item."""
        await self._exchange.send(RequestSpec("DELETE", path_of("inbox", item_id, "reservation")))

    def _reserved(self, said: JsonObject) -> list[ReservationInfo]:
        return [read(ReservationInfo, each) for each in said["items"]]

    async def trace(self, id: str) -> JsonObject:
        """Return everything before and after whatever has this id, as nodes and links."""
        return await self._get("trace", id)

    async def trace_svg(self, id: str) -> str:
        """Return the same, drawn."""
        return (await self._exchange.send(RequestSpec("GET", path_of("trace", id, "svg")))).body.decode()

    async def decide(
        self, item_id: str, choice: str, *, bound_to: str, note: str | None = None, answer: Any = None
    ) -> InboxItemInfo:
        """Decide an item exactly as it was shown: `bound_to` is the hash that the item carried."""
        body = {"choice": choice, "bound_to": bound_to, **stated({"note": note, "answer": answer})}
        ask = RequestSpec("POST", path_of("inbox", item_id, "decide"), body=body, if_match="*")
        return read(InboxItemInfo, await self._exchange.json(ask))
