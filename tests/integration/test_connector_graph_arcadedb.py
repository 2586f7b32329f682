"""Graph tools against ArcadeDB, a database that is not ours; it is heavy, so this runs in `make soak`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Generator
from typing import Any

import pytest

from tests.servers.bindings import bound
from tests.servers.bolt_server import PASSWORD
from tests.servers.certificates import Authority
from tests.servers.graph_desk import READ, Desk
from tests.servers.server_process import server_process
from twinraven.foundation.errors import (
    InvalidDefinition,
    ToolError,
)

AUTHORITY = Authority()


@pytest.fixture
async def desk() -> AsyncGenerator[Desk]:
    made = Desk()
    yield made
    await made.connector.aclose()


@pytest.fixture(scope="session")
def arcadedb(tmp_path_factory: pytest.TempPathFactory) -> Generator[int]:
    """The port of a real graph database, which speaks Bolt with and without TLS."""
    folder = tmp_path_factory.mktemp("arcadedb")
    keystore = AUTHORITY.keystore(folder, PASSWORD, "localhost")
    with server_process("arcadedb", str(folder), PASSWORD, str(keystore)) as port:
        yield int(port)


@pytest.mark.soak
@pytest.mark.req("AD-02")
class TestArcadeDb:
    """A database that is not ours."""

    @staticmethod
    async def _ask(desk: Desk, port: int, query: str, params: dict[str, Any] | None = None, **stated: Any) -> Any:
        return await desk.ask(
            query,
            f"bolt://127.0.0.1:{port}",
            params or {},
            database="graph",
            username="root",
            timeout_ms=20_000,
            **stated,
        )

    async def test_what_is_written_is_read_back(self, desk: Desk, arcadedb: int) -> None:
        """A graph is made, asked for, and comes back as nodes, relationships and times."""
        person = "(a:Person {name: $name, born: date('1815-12-10')})"
        query = f"CREATE {person}-[:KNOWS {{since: 1833}}]->(b:Person {{name: 'Charles'}})"
        await self._ask(desk, arcadedb, query, {"name": "Ada"}, effect="write")
        query = "MATCH (a:Person)-[k:KNOWS]->(b) WHERE a.name = $name RETURN a, k, b.name AS who"
        (row,) = await self._ask(desk, arcadedb, query, {"name": "Ada"})
        assert row["a"]["labels"] == ["Person"]
        assert row["a"]["properties"] == {"name": "Ada", "born": "1815-12-10"}
        assert (row["k"]["type"], row["k"]["start"], row["k"]["properties"]) == (
            "KNOWS",
            row["a"]["id"],
            {"since": 1833},
        )
        assert row["who"] == "Charles"

    async def test_a_value_stays_a_value(self, desk: Desk, arcadedb: int) -> None:
        """Cypher inside an argument is text."""
        name = "x'}) DETACH DELETE n //"
        await self._ask(desk, arcadedb, "CREATE (n:Odd {name: $name})", {"name": name}, effect="write")
        found = await self._ask(
            desk, arcadedb, "MATCH (n:Odd) WHERE n.name = $name RETURN n.name AS name", {"name": name}
        )
        assert found == [{"name": name}]

    async def test_a_read_keeps_nothing(self, desk: Desk, arcadedb: int) -> None:
        """Whatever the server thinks of access modes, a read leaves the graph as it was."""
        with contextlib.suppress(ToolError, InvalidDefinition):
            await self._ask(desk, arcadedb, "CREATE (n:Ghost) RETURN n", effect="read")
        assert await self._ask(desk, arcadedb, "MATCH (n) WHERE 'Ghost' IN labels(n) RETURN n") == []

    async def test_a_failed_write_keeps_nothing(self, desk: Desk, arcadedb: int) -> None:
        """A query that fails half way leaves nothing of its first half."""
        with pytest.raises(ToolError):
            await self._ask(
                desk, arcadedb, "CREATE (n:Half {v: 1}) WITH n UNWIND [1, 0] AS d RETURN 1 / d", effect="write"
            )
        assert await self._ask(desk, arcadedb, "MATCH (n) WHERE 'Half' IN labels(n) RETURN n") == []

    @pytest.mark.parametrize(
        ("query", "stated"),
        [("MATCH (n RETURN", {}), ("RETURN 1 AS n", {"secret": "wr0ng"})],
    )
    async def test_its_errors_become_ours(self, desk: Desk, arcadedb: int, query: str, stated: dict[str, Any]) -> None:
        """A syntax error and a refused login are final."""
        with pytest.raises(ToolError) as refusal:
            await self._ask(desk, arcadedb, query, **stated)
        assert not refusal.value.retryable

    async def test_it_is_spoken_to_in_tls(self, desk: Desk, arcadedb: int) -> None:
        """bolt+s with an authority of our own, and not with another."""
        endpoint = f"bolt+s://localhost:{arcadedb}"
        stated: dict[str, Any] = {"database": "graph", "username": "root"}
        assert await desk.ask("RETURN 1 AS n", endpoint, ca_certificate=AUTHORITY.pem, **stated) == [{"n": 1}]
        with pytest.raises(ToolError, match="certificate is not trusted"):
            await desk.ask("RETURN 1 AS n", endpoint, ca_certificate=Authority("x").pem, **stated)

    async def test_a_probe_finds_it(self, desk: Desk, arcadedb: int) -> None:
        """Health is a login and a query that asks for nothing."""
        operation = {"type": "graph_query", "query": READ}
        params: dict[str, Any] = {"database": "graph", "username": "root"}
        binding = bound(operation, f"bolt://127.0.0.1:{arcadedb}", secret=PASSWORD, **params)
        assert (await desk.connector.probe(binding, user="ada")).status == "healthy"
