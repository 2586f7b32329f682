"""The client against a real server on a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from tests.api_homes import make_chain
from tests.homes import opened_home
from tests.registry_kit import make_definition, make_verdict
from tests.served import Way, a_way_to, free_port, served
from twinraven import AsyncClient, Client
from twinraven.app import TwinRaven
from twinraven.catalog import tool
from twinraven.foundation.errors import (
    ApprovalDenied,
    ApprovalPending,
    Conflict,
    IdempotencyConflict,
    InvalidInput,
    NotFound,
    PolicyViolation,
    StaleState,
    ToolError,
)
from twinraven.sdk import Event, ObservedCall, RemoteError, ServerUnreachable
from twinraven.tenancy import NotAuthenticated


class Till:
    """What is written to, and how often."""

    def __init__(self) -> None:
        self.payments: list[int] = []
        self.refunds: list[int] = []

    def tools(self) -> list[Callable[..., Any]]:
        @tool(effect="read")
        def search(query: str) -> dict[str, Any]:
            """Find documents."""
            return {"top_result_url": f"doc:{query}"}

        @tool(effect="read")
        def read(url: str) -> dict[str, Any]:
            """Read one document."""
            return {"text": f"text of {url}"}

        @tool(effect="read")
        def fail() -> None:
            """Always fail."""
            raise ValueError("out of paper")

        @tool(effect="write")
        def pay(amount: int) -> dict[str, int]:
            """Pay once."""
            self.payments.append(amount)
            return {"payments": len(self.payments)}

        @tool(effect="write", idempotent_by=("order",))
        def close(order: int) -> dict[str, int]:
            """Close an order, once in a session."""
            self.payments.append(order)
            return {"closed": order}

        @tool(effect="write")
        def refund(order: int) -> dict[str, int]:
            """Give money back, if somebody agrees."""
            self.refunds.append(order)
            return {"order": order}

        return [search, read, fail, pay, close, refund]


@pytest.fixture
def till() -> Till:
    return Till()


@pytest.fixture
async def raven(tmp_path: Path, till: Till) -> AsyncGenerator[TwinRaven]:
    rules = [{"tool": "refund", "then": "ask", "reason": "refunds need a person"}]
    with opened_home(tmp_path, till.tools(), policy={"rules": rules}) as raven:
        yield raven
        await asyncio.to_thread(raven.collector.flush)


@pytest.fixture
async def url(raven: TwinRaven) -> AsyncGenerator[str]:
    async with served(raven) as url:
        yield url


@pytest.fixture
async def client(url: str) -> AsyncGenerator[AsyncClient]:
    async with AsyncClient(url) as client:
        yield client


@pytest.fixture
async def way(url: str) -> AsyncGenerator[Way]:
    async with a_way_to(url) as way:
        yield way


async def count(raven: TwinRaven, session_id: str) -> int:
    return len((await raven.events.session("default", session_id)).events)


async def learn(raven: TwinRaven, tool_id: str) -> None:
    chain = make_chain()
    await raven.chains.add("default", [chain])
    definition = make_definition(tool_id, chain_id=str(chain.chain_id))
    draft = await raven.registry.draft("default", definition, evidence_hash=tool_id)
    await raven.registry.register("default", draft.definition, make_verdict())


@pytest.mark.req("TR-01")
async def test_a_call_gives_the_output_and_is_remembered(client: AsyncClient) -> None:
    """The output comes as it was, and the event says where in the agent's work the call stood."""
    output = await client.call("search", {"query": "x"}, session_id="s", turn=3, outside_input="find x", tags=["t"])
    assert output == {"top_result_url": "doc:x"}
    (event,) = [event async for event in client.events(session_id="s")]
    assert (event.tool_id, event.turn, event.outside_input, event.tags) == ("search", 3, "find x", ("t",))
    assert event.input_params == {"query": "x"}
    whole = await client.event(event.event_id)
    assert (whole.output_stored, whole.output) == (True, {"top_result_url": "doc:x"})


async def test_the_envelope_says_what_came_of_a_call(client: AsyncClient) -> None:
    """What a tool did is in the envelope, failed or not; the convenient door raises it under the same code."""
    result = await client.invoke("fail", session_id="s")
    assert (result.status, (result.error or {})["code"]) == ("failed", "TOOL_FAILED")
    assert isinstance(result.event_id, UUID)
    with pytest.raises(ToolError, match="out of paper") as raised:
        await client.call("fail", session_id="s")
    assert raised.value.code == "TOOL_FAILED"


async def test_errors_have_the_class_their_code_names(client: AsyncClient, url: str) -> None:
    """What the server refuses is raised here as it would be inside the house."""
    with pytest.raises(InvalidInput) as invalid:
        await client.call("search", {"query": 7}, session_id="s")
    assert invalid.value.code == "VALIDATION_FAILED"
    with pytest.raises(NotFound):
        await client.call("nothing_of_the_kind", session_id="s")
    with pytest.raises(NotFound):
        await client.session("no such session")
    await client.call("pay", {"amount": 1}, session_id="s", idempotency_key="k")
    with pytest.raises(IdempotencyConflict):
        await client.call("pay", {"amount": 2}, session_id="s", idempotency_key="k")
    async with AsyncClient(url, "twr_no_such_key") as stranger:
        with pytest.raises(NotAuthenticated):
            await stranger.me()
    with pytest.raises(InvalidInput, match="http://host:port"):
        Client("localhost:8000")
    with pytest.raises(InvalidInput, match="characters"):
        Client(url, "a\nb")


async def test_another_tenants_things_are_not_there(raven: TwinRaven, url: str, client: AsyncClient) -> None:
    """Whoever has a key of another tenant finds nothing of this one, by list or by name."""
    await client.call("search", {"query": "x"}, session_id="ours")
    (event,) = [event async for event in client.events()]
    tenant = await raven.tenancy.create_tenant("other")
    user = await raven.tenancy.add_user(tenant.tenant_id, "eve", role="admin")
    issued = await raven.tenancy.issue_key(tenant.tenant_id, user.user_id)
    async with AsyncClient(url, issued.clear) as stranger:
        assert (await stranger.me()).tenant_id == tenant.tenant_id
        assert [each async for each in stranger.sessions()] == []
        with pytest.raises(NotFound):
            await stranger.session("ours")
        with pytest.raises(NotFound):
            await stranger.event(event.event_id)


async def test_a_lost_answer_costs_no_second_effect(raven: TwinRaven, till: Till, way: Way) -> None:
    """A write is sent again under the key it had, and the second answer is the first one's."""
    lost: list[bytes] = []

    def lose_one(request: bytes) -> bool:
        if b"POST /v1/calls" in request and not lost:
            lost.append(request)
            return True
        return False

    way.lose = lose_one
    async with AsyncClient(way.url) as client:
        result = await client.invoke("pay", {"amount": 5}, session_id="s")
    assert (till.payments, result.output, result.replayed) == ([5], {"payments": 1}, True)
    keys = [line for request in way.requests for line in request.split(b"\r\n") if b"Idempotency-Key" in line]
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def test_a_recorded_batch_whose_answer_was_lost_is_stored_once(raven: TwinRaven, way: Way) -> None:
    """Recording is a write like any other: sent again, the events are there once."""
    losses = iter([True])
    way.lose = lambda request: b"POST /v1/events" in request and next(losses, False)
    async with AsyncClient(way.url) as client:
        ids = await client.record([ObservedCall("s", "mine", {"n": n}, output=n) for n in range(5)])
    assert len(set(ids)) == 5
    assert await count(raven, "s") == 5


async def test_what_cannot_be_repeated_is_sent_once(raven: TwinRaven, way: Way) -> None:
    """A step in a tool's life has no key: its lost answer is the caller's to look into."""
    await learn(raven, "look_up")
    way.lose = lambda request: b"/promote" in request
    async with AsyncClient(way.url) as client:
        with pytest.raises(ServerUnreachable):
            await client.promote("look_up")
        way.lose = lambda _: False
        assert (await client.learned_tool("look_up")).is_in_service
    assert sum(b"/promote" in request for request in way.requests) == 1


async def test_a_write_that_names_itself_keeps_its_own_key(till: Till, client: AsyncClient) -> None:
    """Where a tool derives keys from its arguments the client gives none, so a careless repetition stays harmless."""
    for _ in range(2):
        assert await client.call("close", {"order": 4}, session_id="s") == {"closed": 4}
    assert till.payments == [4]


async def test_a_call_that_waits_for_approval_is_made_again(till: Till, client: AsyncClient) -> None:
    """The same call again asks about the same request; once granted it runs, once, and a denial is told as such."""
    assert (await client.invoke("refund", {"order": 7}, session_id="s")).is_pending
    with pytest.raises(ApprovalPending):
        await client.call("refund", {"order": 7}, session_id="s")
    (waiting,) = [each async for each in client.approvals(state="pending")]
    assert (waiting.tool_id, waiting.arguments, waiting.session_id) == ("refund", {"order": 7}, "s")
    assert (await client.grant(waiting.approval_id, note="go on")).note == "go on"
    assert await client.call("refund", {"order": 7}, session_id="s") == {"order": 7}
    assert till.refunds == [7]
    assert (await client.approval(waiting.approval_id)).state == "used"
    other = await client.invoke("refund", {"order": 8}, session_id="s")
    await client.deny((other.error or {})["details"]["approval_id"], note="not this one")
    with pytest.raises(ApprovalDenied, match="not this one"):
        await client.call("refund", {"order": 8}, session_id="s")


async def test_a_server_that_is_not_there_is_told_after_a_few_tries() -> None:
    """Reads are tried a few times, then the caller knows that nobody answers."""
    async with AsyncClient(f"http://127.0.0.1:{free_port()}", timeout=1) as client:
        with pytest.raises(ServerUnreachable) as raised:
            await client.revoke_key("k")
    assert raised.value.retryable


async def test_a_server_that_comes_back_is_found_again(raven: TwinRaven) -> None:
    """A read outlasts a short absence of the server."""
    port = free_port()
    async with AsyncClient(f"http://127.0.0.1:{port}") as client:
        asking = asyncio.ensure_future(client.me())
        await asyncio.sleep(0.2)
        async with served(raven, port=port):
            assert (await asking).role == "admin"


async def test_lists_are_fetched_page_by_page(client: AsyncClient, way: Way) -> None:
    """An iterator asks for a page when it is needed, gives everything once and in order, and stops asking early."""
    await client.record(ObservedCall("s", "t", {"n": n}) for n in range(450))
    async with AsyncClient(way.url) as paging:
        numbers = [event.input_params["n"] async for event in paging.events(session_id="s")]
        assert sorted(numbers) == list(range(450))
        assert sum(b"GET /v1/events" in request for request in way.requests) == 3
        async with aclosing(paging.events(session_id="s")) as events:
            assert (await anext(events)).session_id == "s"
        assert sum(b"GET /v1/events" in request for request in way.requests) == 4


async def test_what_is_followed_live_goes_on_after_a_break(client: AsyncClient, way: Way) -> None:
    """A broken connection is made again behind the last event seen: none is missed and none comes twice."""
    seen: list[int] = []
    await client.record([ObservedCall("s", "t", {"n": 0})])
    async with AsyncClient(way.url) as listening, aclosing(listening.follow(session_id="s", after=0)) as events:
        for n in range(1, 6):
            seen.append((await anext(events)).input_params["n"])
            way.cut()
            await client.record([ObservedCall("s", "t", {"n": n}), ObservedCall("elsewhere", "t", {"n": n})])
        seen.append((await anext(events)).input_params["n"])
    assert seen == list(range(6))


async def test_a_long_session_comes_whole(client: AsyncClient) -> None:
    """A session has all its calls, in order, also where the server shows only the first of them at once."""
    await client.record([ObservedCall("long", "t", {"n": number}) for number in range(1001)])
    session = await client.session("long")
    assert session.event_count == 1001
    assert [event.input_params["n"] for event in session.events] == list(range(1001))


async def test_a_session_is_observed_from_outside(client: AsyncClient, raven: TwinRaven) -> None:
    """Calls gathered in a block are on the server when it ends, failures with their words, also where it broke off."""

    async def work() -> None:
        async with client.observe("s", task_id="ticket-7") as session:
            ids.append(await session.record("mine", {"a": 1}, output={"b": 2}, latency_ms=5, turn=1))
            await session.record("mine", {"a": 2}, error=ValueError("no"), turn=2, outside_input="again")
            raise KeyError("the agent broke")

    ids: list[UUID] = []
    with pytest.raises(KeyError):
        await work()
    one, two = (await client.session("s")).events
    assert (one.event_id, one.task_id, one.latency_ms, one.turn) == (ids[0], "ticket-7", 5, 1)
    assert (two.raised, two.error_code, two.outside_input) == (True, "ValueError", "again")
    assert (await client.event(two.event_id)).output == {"error": "no"}
    await client.state_verdict("s", "success")
    (session,) = [each async for each in client.sessions(outcome="success")]
    assert (session.session_id, session.event_count) == ("s", 2)


async def test_a_learned_tool_is_led_through_its_life(client: AsyncClient, raven: TwinRaven) -> None:
    """Steps are taken on the revision that was seen; a revision that is over is told as such."""
    await learn(raven, "look_up")
    waiting = await client.learned_tool("look_up")
    assert (waiting.status, len(waiting.versions), waiting.is_in_service) == ("testing", 1, False)
    assert (await client.definition("look_up", 1))["tool_id"] == "look_up"
    assert "steps" in str(await client.review("look_up", 1))
    promoted = await client.promote("look_up", version=1)
    assert promoted.is_in_service
    adoption = (await client.learned_tool("look_up")).adoption
    assert adoption is not None
    assert (adoption.since, adoption.taken, adoption.share) == (promoted.in_service_since, 0, None)
    assert [each.adoption async for each in client.learned_tools(adoption=True)] == [adoption]
    assert [each.adoption async for each in client.learned_tools()] == [None]
    with pytest.raises(StaleState):
        await client.retire("look_up", revision=waiting.revision)
    assert {each.tool_id async for each in client.tools() if each.is_learned} == {"look_up"}
    assert (await client.quarantine("look_up", "looks odd")).quarantine is not None
    assert (await client.release("look_up")).is_in_service
    assert (await client.retire("look_up", note="done")).retirement_reason == "manual"
    with pytest.raises(Conflict):
        await client.promote("look_up")
    (chain,) = [each async for each in client.chains()]
    assert (await client.chain(chain.chain_id)).tools == ("search", "read")
    assert [each.tool_id async for each in client.learned_tools()] == ["look_up"]


async def test_secrets_go_in_and_never_come_out(client: AsyncClient) -> None:
    """A secret is kept, renamed, rotated and deleted; nothing the client gives back holds its value."""
    made = await client.add_secret("shop", "api_key", "first-value-7391")
    assert (await client.rotate_secret(made.secret_id, "second-value-7391", version=made.version)).version == 2
    with pytest.raises(StaleState):
        await client.rotate_secret(made.secret_id, "third", version=made.version)
    assert (await client.change_secret(made.secret_id, name="store")).name == "store"
    listed = [each async for each in client.secrets()]
    assert "value-7391" not in repr((made, listed, await client.secret(made.secret_id)))
    await client.delete_secret(made.secret_id)
    assert [each async for each in client.secrets()] == []


async def test_people_keys_and_evidence(client: AsyncClient, url: str) -> None:
    """A key is shown once, opens the door until it is revoked, and the audit log tells of it."""
    ada = await client.add_user("ada")
    issued = await client.issue_key(user_id=ada.user_id, label="laptop", expires_in_days=7)
    assert issued.clear is not None
    assert issued.clear not in repr(issued)
    async with AsyncClient(url, issued.clear) as hers:
        assert (await hers.me()).user_id == ada.user_id
        with pytest.raises(PolicyViolation):
            [each async for each in hers.users()]
    assert ada.user_id in {each.user_id async for each in client.users()}
    known = client.keys()
    assert [each.clear async for each in known if each.key_id == issued.key_id] == [None]
    await client.revoke_key(issued.key_id)
    entries = [entry async for entry in client.audit(newest=True)]
    assert entries[0].sequence > entries[-1].sequence
    assert issued.key_id in str(entries[0])
    assert (await client.verify_audit()).ok


def drive(url: str, till: Till) -> None:
    with Client(url) as client:
        assert client.call("search", {"query": "x"}, session_id="sync") == {"top_result_url": "doc:x"}
        assert client.invoke("pay", {"amount": 3}, session_id="sync").output == {"payments": 1}
        with pytest.raises(NotFound):
            client.tool("nothing_of_the_kind")
        with client.observe("sync") as session:
            for n in range(250):
                session.record("mine", {"n": n})
        assert client.session("sync").event_count == 252
        assert len(list(client.events(session_id="sync"))) == 252
        live = client.follow(session_id="sync", after=0)
        assert next(live).tool_id == "search"
        assert next(live).tool_id == "pay"
        cast("Generator[Event]", live).close()
        assert {"pay", "search"} <= {tool.tool_id for tool in client.tools()}
        assert client.me().role == "admin"
        assert client.verify_audit().ok


async def test_the_blocking_client_does_the_same(url: str, till: Till, raven: TwinRaven) -> None:
    """Without an event loop everything works as with one."""
    await asyncio.to_thread(drive, url, till)
    assert till.payments == [3]


async def test_what_is_no_api_is_told_as_such() -> None:
    """A server that speaks of something else gives an error that shows what it said."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nhello")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, AsyncClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as client:
        with pytest.raises(RemoteError, match="404 and no problem: 'hello'") as raised:
            await client.me()
        assert not isinstance(raised.value, ServerUnreachable)
