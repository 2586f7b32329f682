"""Graph tools over Bolt, against a server of our own that fails where it is told to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.bindings import bound, entry, frame
from tests.servers.bolt_server import PASSWORD, Drop, Fault, Struct, Table, serving_bolt
from tests.servers.certificates import Authority
from tests.servers.graph_desk import ONE, READ, WRITE, Desk, always, at, in_turn
from tests.servers.http_server import Reply, serving
from twinraven.foundation.errors import (
    EffectUnknown,
    InvalidDefinition,
    InvalidInput,
    InvalidOutput,
    PolicyViolation,
    ToolError,
    ToolTimeout,
    ToolUnavailable,
)


@pytest.fixture
async def desk() -> AsyncGenerator[Desk]:
    made = Desk()
    yield made
    await made.connector.aclose()


@pytest.mark.req("AD-02")
async def test_a_query_travels_beside_its_parameters(desk: Desk) -> None:
    """Text and values are sent apart, so no value can become part of the query."""
    seen: list[Any] = []

    def behave(query: str, params: dict[str, Any]) -> Table:
        seen.append((query, params))
        return Table(("n", "m"), ((params["name"], None), (2, [1.5, True])))

    async with serving_bolt(behave) as server:
        rows = await desk.ask(READ, at(server), {"name": "x' RETURN 1 //", "unused": 1})
    assert rows == [{"n": "x' RETURN 1 //", "m": None}, {"n": 2, "m": [1.5, True]}]
    assert seen == [(READ, {"name": "x' RETURN 1 //"})]


async def test_reads_are_rolled_back_and_writes_committed(desk: Desk) -> None:
    """The tool's effect decides the access mode and how its transaction ends."""
    async with serving_bolt(always(ONE)) as server:
        await desk.ask(READ, at(server))
        assert (server.modes, server.messages) == (["r"], ["BEGIN", "RUN", "ROLLBACK"])
        await desk.ask(WRITE, at(server), effect="write")
        await desk.ask(WRITE, at(server), effect="unknown")
    assert server.modes == ["r", "w", "w"]
    assert server.committed == 2


async def test_a_read_that_changes_something_is_refused(desk: Desk) -> None:
    """A tool that calls itself a read and is none keeps nothing of what it did."""
    async with serving_bolt(always(Table(("n",), ((1,),), created=1))) as server:
        with pytest.raises(InvalidDefinition, match="declared a read"):
            await desk.ask(WRITE, at(server), effect="read")
    assert server.committed == 0


async def test_values_of_a_graph_become_json(desk: Desk) -> None:
    """Nodes, relationships, times, durations, points and bytes have one form each."""
    row = (
        Struct(0x4E, (7, ["B", "A"], {"name": "x", "at": Struct(0x44, (19_000,))})),
        Struct(0x52, (8, 7, 9, "KNOWS", {"since": 2020})),
        Struct(0x45, (14, 6, 3661, 5)),
        Struct(0x58, (7203, 1.0, 2.0)),
        Struct(0x46, (1_600_000_000, 5, 7_200)),
        Struct(0x74, (3_661_000_000_000,)),
        b"\x00\xff",
    )
    columns = ("node", "edge", "duration", "point", "time", "clock", "bytes")
    async with serving_bolt(always(Table(columns, (row,)))) as server:
        (found,) = await desk.ask(READ, at(server))
    assert found["node"] == {"id": "7", "labels": ["A", "B"], "properties": {"name": "x", "at": "2022-01-08"}}
    assert found["edge"] == {"id": "8", "type": "KNOWS", "start": "7", "end": "9", "properties": {"since": 2020}}
    assert found["duration"] == "P1Y2M6DT1H1M1.000000005S"
    assert found["point"] == {"srid": 7203, "x": 1.0, "y": 2.0}
    assert found["time"] == "2020-09-13T12:26:40.000000005+02:00"
    assert found["clock"] == "01:01:01.000000000"
    assert found["bytes"] == "AP8="


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("Neo.ClientError.Statement.SyntaxError", ToolError),
        ("Neo.ClientError.Schema.ConstraintValidationFailed", ToolError),
        ("Neo.DatabaseError.General.UnknownError", ToolError),
        ("Neo.ClientError.Transaction.TransactionTimedOut", ToolTimeout),
        ("Neo.TransientError.Transaction.DeadlockDetected", ToolUnavailable),
    ],
)
async def test_the_servers_errors_become_ours(desk: Desk, code: str, error: type[ToolError]) -> None:
    """What the server says is passed on, and only what may pass is retryable."""
    async with serving_bolt(always(Fault(code, "line 1, column 7"))) as server:
        with pytest.raises(error, match="line 1, column 7") as refusal:
            await desk.ask(READ, at(server))
    assert type(refusal.value) is error
    assert refusal.value.details["code"] == code


async def test_what_may_pass_is_tried_again(desk: Desk) -> None:
    """A write that met a deadlock was rolled back by the server, so it is simply repeated."""
    answers: list[Table | Fault] = [Fault("Neo.TransientError.Transaction.DeadlockDetected"), ONE]
    async with serving_bolt(in_turn(answers)) as server:
        assert await desk.ask(WRITE, at(server), effect="write") == [{"n": 1}]
    assert server.committed == 1


async def test_a_connection_that_breaks_before_the_commit_is_tried_again(desk: Desk) -> None:
    """Without a commit nothing happened."""
    answers: list[Any] = [Drop(), ONE]

    def behave(*_: Any) -> Table:
        answer = answers.pop(0)
        if isinstance(answer, Drop):
            raise answer
        return answer

    async with serving_bolt(behave) as server:
        assert await desk.ask(WRITE, at(server), effect="write") == [{"n": 1}]
    assert (server.connections, server.committed) == (2, 1)


async def test_a_commit_that_is_not_answered_is_unknown(desk: Desk) -> None:
    """A connection lost in the commit leaves the outcome open, and nothing is sent again."""

    def drop() -> None:
        raise Drop

    async with serving_bolt(always(ONE)) as server:
        server.at_commit = drop
        with pytest.raises(EffectUnknown, match="unknown"):
            await desk.ask(WRITE, at(server), effect="write")
    assert server.committed == 1


async def test_a_commit_that_hangs_is_unknown(desk: Desk) -> None:
    """So does one whose answer does not come in time."""
    async with serving_bolt(always(ONE)) as server:
        server.at_commit = asyncio.Event().wait
        with pytest.raises(EffectUnknown, match="in time"):
            await desk.ask(WRITE, at(server), effect="write", timeout_ms=300)
    assert server.committed == 1


async def test_time_is_bounded(desk: Desk) -> None:
    """A server that accepts and says nothing takes no longer than the tool's time."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with asyncio.timeout(60):
            with pytest.raises((ToolTimeout, ToolUnavailable)):
                await desk.ask(READ, f"bolt://127.0.0.1:{silent.getsockname()[1]}", timeout_ms=300)


async def test_rows_are_bounded_and_nothing_is_kept(desk: Desk) -> None:
    """A write that answers too much is rolled back, not half reported."""
    async with serving_bolt(always(Table(("n",), ((1,),) * 101))) as server:
        with pytest.raises(InvalidOutput, match="more than 100 rows"):
            await desk.ask(WRITE, at(server), effect="write")
    assert server.committed == 0


async def test_a_wrong_password_is_named(desk: Desk) -> None:
    """The error says that the credentials were refused, without them, and is not tried again."""
    async with serving_bolt(always(ONE)) as server:
        with pytest.raises(ToolError, match="refuses the credentials") as refusal:
            await desk.ask(READ, at(server), secret="wr0ng")
    assert "wr0ng" not in repr(refusal.value.as_json())
    assert not refusal.value.retryable
    assert server.connections == 1


async def test_a_rotated_secret_is_used_at_once(desk: Desk) -> None:
    """A driver belongs to a credential: the next call after a rotation logs in anew."""
    async with serving_bolt(always(ONE)) as server:
        await desk.ask(READ, at(server))
        server.password = "n3w"
        await desk.ask(READ, at(server), secret="n3w")
    assert server.connections == 2


async def test_connections_are_used_again(desk: Desk) -> None:
    """Calls one after another share a connection."""
    async with serving_bolt(always(ONE)) as server:
        for _ in range(5):
            await desk.ask(READ, at(server))
    assert server.connections == 1


async def test_a_server_of_another_kind_is_a_clear_error(desk: Desk) -> None:
    """Whoever answers in HTTP is no graph."""
    async with serving(lambda _: Reply()) as server:
        with pytest.raises(ToolError):
            await desk.ask(READ, f"bolt://127.0.0.1:{server.port}", timeout_ms=1_000)


async def test_nobody_there_is_unavailable_and_soon_left_alone(desk: Desk) -> None:
    """A graph that is away is retryable; one that stays away is not waited for."""
    for _ in range(2):
        with pytest.raises(ToolUnavailable):
            await desk.ask(READ, "bolt://127.0.0.1:1")
    with pytest.raises(ToolUnavailable, match="left alone"):
        await desk.ask(READ, "bolt://127.0.0.1:1")
    with pytest.raises(ToolUnavailable) as another:
        await desk.ask(READ, "bolt://127.0.0.1:1", owner_id="bob")
    assert "left alone" not in another.value.message


@pytest.mark.parametrize(
    "endpoint", ["bolt://169.254.169.254", "bolt://10.0.0.1:7687", "bolt://2130706433", "bolt://[::ffff:10.0.0.1]"]
)
async def test_inner_addresses_are_refused(desk: Desk, endpoint: str) -> None:
    """The rule about addresses holds for Bolt as for HTTP."""
    with pytest.raises(PolicyViolation):
        await desk.ask(READ, endpoint)


@pytest.mark.parametrize(
    "endpoint", ["neo4j://127.0.0.1", "bolt://u:p@127.0.0.1", "bolt://127.0.0.1/db", "bolt://", "bolt://127.0.0.1:x"]
)
async def test_an_endpoint_that_is_none_is_named(desk: Desk, endpoint: str) -> None:
    """A host and a port, spoken to in Bolt; routing would follow addresses that nobody checked."""
    binding = bound({"type": "graph_query", "query": READ}, endpoint)
    object.__setattr__(binding, "protocol", "bolt")
    desk.bindings.hold(binding)
    with pytest.raises(InvalidDefinition) as refusal:
        await desk.connector.invoke(entry(connector="graph"), {}, call=frame())
    assert refusal.value.details["field"] == "connection_params.endpoint"


async def test_a_number_beyond_the_graphs_is_the_callers_mistake(desk: Desk) -> None:
    """Bolt has 64 bits; what does not fit is refused before anything runs."""
    async with serving_bolt(always(ONE)) as server:
        with pytest.raises(InvalidInput, match="parameter"):
            await desk.ask(READ, at(server), {"name": 2**80})


async def test_bolt_is_encrypted_under_the_name(desk: Desk, tmp_path: Path) -> None:
    """bolt+s checks the certificate against the name and the authority that the tool names."""
    authority = Authority()
    context = authority.server_context(tmp_path, "localhost")
    async with serving_bolt(always(ONE), context=context) as server:
        named, bare = at(server, "bolt+s", "localhost"), at(server, "bolt+s")
        assert await desk.ask(READ, named, ca_certificate=authority.pem) == [{"n": 1}]
        for endpoint, certificate in ((bare, authority.pem), (named, None), (named, Authority("another").pem)):
            with pytest.raises(ToolError, match="certificate is not trusted"):
                await desk.ask(READ, endpoint, ca_certificate=certificate)
    assert desk.pauses == []


async def test_a_probe_says_how_it_went(desk: Desk) -> None:
    """A probe logs in and asks for nothing; what is wrong is what it says."""
    operation = {"type": "graph_query", "query": READ}
    async with serving_bolt(always(ONE)) as server:
        good = await desk.connector.probe(bound(operation, at(server), secret=PASSWORD), user="ada")
        bad = await desk.connector.probe(bound(operation, at(server), secret="wr0ng"), user="ada")
    gone = await desk.connector.probe(bound(operation, "bolt://127.0.0.1:1"))
    assert [health.status for health in (good, bad, gone)] == ["healthy", "down", "down"]
    assert "credentials" in str(bad.message)
