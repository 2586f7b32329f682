"""A small shop, its tools as plain functions, and what an agent of any library is told to do with them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from tests.homes import opened_home
from tests.served import served
from twinraven import AsyncClient, Client
from twinraven.app import TwinRaven
from twinraven.catalog import tool
from twinraven.integrations.door import Behind
from twinraven.muninn import MuninnEvent

Where = Literal["home", "client", "async client"]
Call = tuple[str, dict[str, Any]]
Turn = Sequence[Call]


def find_customer(email: str) -> dict[str, Any]:
    """Find a customer by e-mail."""
    return {"customer_id": f"C-{email.partition('@')[0]}", "email": email}


def list_orders(customer_id: str) -> dict[str, Any]:
    """The orders of a customer."""
    return {"customer_id": customer_id, "orders": [f"{customer_id}-1", f"{customer_id}-2"]}


def jam(tray: int) -> str:
    """Never works."""
    raise ValueError(f"paper jam in tray {tray}")


OWN: Sequence[Callable[..., Any]] = (find_customer, list_orders, jam)


@dataclass
class Heard:
    """What the model was shown and told."""

    offered: list[set[str]] = field(default_factory=list[set[str]])
    """The names of the tools, at each of its turns."""
    results: list[Any] = field(default_factory=list[Any])
    """What its calls gave, in order."""
    error: Exception | None = None
    """What ended the run, if it did not end by itself."""


class Library(Protocol):
    """One agent library, driven by a model that does as it is told."""

    def adapter(self, behind: Behind, **options: Any) -> Any: ...

    async def run(self, adapter: Any, said: str, turns: Sequence[Turn]) -> Heard:
        """One run of an agent that has the tools above: watched, and offered what there is to offer."""
        ...


@asynccontextmanager
async def shop(folder: Path, where: Where, **sections: Any) -> AsyncGenerator[tuple[TwinRaven, Behind]]:
    """A home whose catalogue has the same tools, and the way an adapter reaches it."""
    functions = [tool(effect="read")(function) for function in OWN]
    with opened_home(folder, functions, **sections) as raven:
        if where == "home":
            yield raven, raven
            return
        async with served(raven) as url:
            if where == "client":
                with Client(url) as client:
                    yield raven, client
            else:
                async with AsyncClient(url) as client:
                    yield raven, client


async def remembered(raven: TwinRaven, session_id: str) -> list[MuninnEvent]:
    return list((await raven.events.session("default", session_id)).events)


async def outputs(raven: TwinRaven, events: Sequence[MuninnEvent]) -> list[Any]:
    kept = await raven.events.outputs("default", [event.output_hash for event in events if event.output_hash])
    return [kept.get(event.output_hash or "") for event in events]
