"""A server that takes connections and never answers: agents go on with their own tools, and soon."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.agents.libraries import LIBRARIES
from tests.agents.world import Library
from twinraven import AsyncClient, Client
from twinraven.foundation.errors import InvalidInput
from twinraven.integrations import LangChainAdapter
from twinraven.integrations.call_recording import PATIENCE_S
from twinraven.sdk import ServerUnreachable

HABIT = [[("find_customer", {"email": "ada@x.org"})], [("list_orders", {"customer_id": "C-ada"})]]
SHORT_S = 0.3
SOON_S = 15.0
"""Well below the 30 s for which a client waits for an answer."""
"""Far less than a client waits for an answer, and far more than the patience of these adapters."""

WITHOUT_A_LOOP = """
import time
from langchain_core.tools import StructuredTool
from twinraven import Client
from twinraven.integrations import LangChainAdapter

def find(email: str) -> str:
    "Find somebody."
    return email

with Client("{url}") as client:
    adapter = LangChainAdapter(client, session_id="s", patience_s=0.3)
    begun = time.monotonic()
    offered = adapter.tools_now()
    tool = StructuredTool.from_function(find)
    said = [tool.invoke({{"email": "a"}}, config={{"callbacks": [adapter.handler]}}) for _ in range(3)]
    print(offered, said, time.monotonic() - begun < 15)
"""


@asynccontextmanager
async def silent_server() -> AsyncGenerator[str]:
    """The address of a server that reads whatever comes and says nothing."""
    open_ones: set[asyncio.StreamWriter] = set()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_ones.add(writer)
        with suppress(ConnectionError):
            while await reader.read(1 << 16):
                pass
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for writer in open_ones:
            writer.transport.abort()


@pytest.mark.parametrize("library", list(LIBRARIES.values()), ids=list(LIBRARIES))
@pytest.mark.parametrize("kind", [Client, AsyncClient])
async def test_a_silent_server_costs_an_agent_a_moment(library: Library, kind: type[Client | AsyncClient]) -> None:
    """Two runs get all their own results, nothing is offered to them, and only the first one waits."""
    async with silent_server() as url:
        client = kind(url)
        adapter = library.adapter(client, session_id="s", patience_s=SHORT_S)
        begun = time.monotonic()
        heard = [await library.run(adapter, f"ada {number}?", HABIT) for number in range(2)]
        assert time.monotonic() - begun < SOON_S
        assert [(one.error, len(one.results)) for one in heard] == [(None, 2)] * 2
        assert all(names == {"find_customer", "list_orders", "jam"} for one in heard for names in one.offered)
        assert await adapter.flush(within_s=SHORT_S) == 4


@pytest.mark.parametrize("library", list(LIBRARIES.values()), ids=list(LIBRARIES))
async def test_a_call_that_nobody_records_holds_up_its_agent_once(library: Library) -> None:
    """The first result waits as long as the adapter's patience, and those after it do not wait at all."""
    async with silent_server() as url, AsyncClient(url) as client:
        adapter = library.adapter(client, session_id="s", patience_s=1.5)
        await library.run(adapter, "ada?", HABIT)
        await adapter.flush(within_s=SHORT_S)
        begun = time.monotonic()
        heard = await library.run(adapter, "ada?", HABIT * 4)
        assert (heard.error, len(heard.results)) == (None, 8)
        assert time.monotonic() - begun < 1.5 * 8 * 0.75


async def test_a_program_without_a_loop_ends_in_time() -> None:
    """Neither a sync run nor the end of the program waits for what the server still owes."""
    async with silent_server() as url:
        command = [sys.executable, "-c", WITHOUT_A_LOOP.format(url=url)]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False, timeout=30)
        assert (done.returncode, done.stdout.strip()) == (0, "[] ['a', 'a', 'a'] True"), done.stderr


async def test_whoever_asks_for_the_offers_is_told() -> None:
    """Asked directly, a silent server is an error that says how long it was waited for; five seconds by default."""
    async with silent_server() as url, AsyncClient(url) as client:
        with pytest.raises(ServerUnreachable, match=r"within 0\.2 s"):
            await LangChainAdapter(client, patience_s=0.2).offers()
        begun = time.monotonic()
        assert await LangChainAdapter(client).tools() == []
        assert time.monotonic() - begun == pytest.approx(PATIENCE_S, abs=2)


@pytest.mark.parametrize("patience", [0, -1.0, float("nan")])
def test_patience_is_some_time(patience: float) -> None:
    """No patience at all would mean that nothing is ever offered."""
    with pytest.raises(InvalidInput, match="seconds"):
        LangChainAdapter(Client("http://127.0.0.1:1"), patience_s=patience)
