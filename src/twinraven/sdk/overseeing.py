"""Requests oversight: search, savings, maintenance, changed upstream tools, sign-ins, settings."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from twinraven.foundation.clock import iso
from twinraven.sdk.exchange import RequestSpec, path_of
from twinraven.sdk.model import Event, JsonObject, LearningRound
from twinraven.sdk.reading import WIRE, read
from twinraven.sdk.server_requests import ServerRequests, stated


@dataclass(frozen=True, slots=True)
class SignInInfo:
    """A browser that a key signed in."""

    sign_in_id: str
    user_id: str
    key_id: str
    label: str
    created_at: datetime
    expires_at: datetime
    ended_at: datetime | None = None
    clear: str | None = field(default=None, repr=False, metadata={WIRE: "shown_once"})
    """What the browser holds, in the answer that made it and nowhere else."""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """An item whose id or name begins with the search text."""

    kind: str
    id: str
    name: str


class OversightOperations(ServerRequests):
    """Looking after a home, as far as the key allows."""

    async def search(self, text: str, *, limit: int | None = None) -> list[SearchHit]:
        """Sessions, tools, learned tools, runs, processes, approvals and keys by how they begin."""
        found = await self._exchange.json(RequestSpec("GET", path_of("search"), {"q": text, "limit": limit}))
        return [read(SearchHit, each) for each in found["items"]]

    async def key_history(self, key: str) -> JsonObject:
        """Return the history of an idempotency key: its call, status and approvals."""
        return await self._get("idempotency-keys", key)

    async def savings(self) -> JsonObject:
        """Turns that learned tools saved, measured from their uses."""
        return await self._get("savings")

    async def occasions(self, tool_id: str, version: int) -> list[Event]:
        """Return the calls at which replay of a version did otherwise than the record."""
        found = await self._get("learned-tools", tool_id, "versions", str(version), "occasions")
        return [read(Event, each) for each in found["items"]]

    async def learning_rounds(self, *, limit: int | None = None) -> list[LearningRound]:
        """Return the newest rounds of learning."""
        found = await self._exchange.json(RequestSpec("GET", path_of("learning"), {"limit": limit}))
        return [read(LearningRound, each) for each in found["items"]]

    async def rehearse_maintenance(self) -> JsonObject:
        """Run maintenance as a dry run: its measurements, and what it would do."""
        return await self._get("maintenance")

    async def run_maintenance(self) -> JsonObject:
        """Look at every tool in service and act on what is found."""
        return await self._exchange.json(RequestSpec("POST", path_of("maintenance")))

    async def upstream_tools(self, *, changed: bool = True) -> list[JsonObject]:
        """Tools of upstream servers, with the words that were accepted and those they have now."""
        found = await self._exchange.json(RequestSpec("GET", path_of("upstreams"), {"changed": changed}))
        return list(found["items"])

    async def accept_upstream_tools(self, tools: Sequence[str]) -> list[JsonObject]:
        """Accept the words that upstream tools have now."""
        ask = RequestSpec("POST", path_of("upstreams", "accept"), body={"tools": list(tools)})
        return list((await self._exchange.json(ask))["items"])

    async def classify_upstream_tools(
        self,
        tools: Sequence[str],
        effect: Literal["read", "write"],
        *,
        sensitivity: Literal["low", "medium", "high"] | None = None,
    ) -> list[JsonObject]:
        """Say what upstream tools do to the world."""
        body = {"tools": list(tools), "effect": effect, **stated({"sensitivity": sensitivity})}
        return list(
            (await self._exchange.json(RequestSpec("POST", path_of("upstreams", "classify"), body=body)))["items"]
        )

    async def settings(self) -> JsonObject:
        """Return every setting, its value and where it was set."""
        return await self._get("settings")

    async def doctor(self) -> JsonObject:
        """Return whether the home is sound, and what to do about it."""
        return await self._get("doctor")

    async def retention(self, *, days: int | None = None) -> JsonObject:
        """Return the retention period and notes; with `days`, a dry run."""
        return await self._exchange.json(RequestSpec("GET", path_of("retention"), stated({"days": days})))

    async def health_history(
        self, *, since: datetime | None = None, until: datetime | None = None, bucket_s: int | None = None
    ) -> JsonObject:
        """Return the health checks of your services over time; by default of the last day."""
        times = {name: iso(moment) for name, moment in (("since", since), ("until", until)) if moment is not None}
        return await self._exchange.json(
            RequestSpec("GET", path_of("health-history"), {**times, **stated({"bucket_s": bucket_s})})
        )

    async def sign_in(self, *, label: str | None = None) -> SignInInfo:
        """Sign a browser in to the console with this client's key."""
        ask = RequestSpec("POST", path_of("sign-ins"), body=stated({"label": label}))
        return read(SignInInfo, await self._exchange.json(ask))

    def sign_ins(self) -> AsyncGenerator[SignInInfo]:
        """List your signed-in browsers; for administrators, those of all users."""
        return self._list(SignInInfo, "sign-ins")

    async def sign_out(self, sign_in_id: str) -> None:
        """Sign a browser out."""
        await self._exchange.send(RequestSpec("DELETE", path_of("sign-ins", sign_in_id)))
