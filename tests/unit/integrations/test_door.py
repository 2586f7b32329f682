"""What an agent is offered of a server's tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from twinraven.integrations.door import ServerDoor
from twinraven.sdk import AsyncClient, ToolInfo


class Listing(AsyncClient):
    """A client whose server has two tools, of which one can only be seen."""

    def tools(self) -> AsyncGenerator[ToolInfo]:
        return self._tools()

    async def _tools(self) -> AsyncGenerator[ToolInfo]:
        yield ToolInfo("search", "Find documents.", {})
        yield ToolInfo("pay", "Pay.", {}, is_callable=False, reason="disabled")


async def test_an_agent_is_offered_only_what_it_can_call() -> None:
    """A tool that is listed for people to find is not one for a model to choose."""
    async with Listing("http://127.0.0.1:1") as client:
        assert [offer.tool_id for offer in await ServerDoor(client).offers("all")] == ["search"]
