"""A graph connector for tests, queries to call with it, and ways for a server to answer."""

from __future__ import annotations

from typing import Any

from tests.servers.bindings import Bindings, bound, entry, frame
from tests.servers.bolt_server import PASSWORD, Behaviour, BoltServer, Fault, Table
from twinraven.connectors import AddressGuard, AddressRules, CircuitBreaker, GraphConnector, GraphLimits

ONE = Table(("n",), ((1,),))
READ = "MATCH (n) WHERE n.name = $name RETURN n"
WRITE = "CREATE (n {name: $name}) RETURN n"


class Desk:
    """A connector to graphs and its bindings."""

    def __init__(self) -> None:
        self.bindings = Bindings()
        self.pauses: list[float] = []
        self.connector = GraphConnector(
            self.bindings,
            AddressGuard(AddressRules.of(["127.0.0.0/8", "::1"])),
            limits=GraphLimits(max_rows=100),
            breaker=CircuitBreaker(threshold=4, pause_s=60),
            sleep=self._sleep,
        )

    async def ask(
        self,
        query: str,
        endpoint: str,
        params: dict[str, Any] | None = None,
        *,
        effect: str = "read",
        timeout_ms: int = 5_000,
        secret: str | None = PASSWORD,
        **stated: Any,
    ) -> list[dict[str, Any]]:
        self.bindings.hold(bound({"type": "graph_query", "query": query}, endpoint, secret=secret, **stated))
        tool = entry(connector="graph", effect=effect, timeout_ms=timeout_ms)
        return await self.connector.invoke(tool, {"name": "x"} if params is None else params, call=frame())

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


def at(server: BoltServer, protocol: str = "bolt", host: str = "127.0.0.1") -> str:
    return f"{protocol}://{host}:{server.port}"


def always(answer: Table | Fault) -> Behaviour:
    def behave(query: str, params: dict[str, Any]) -> Table | Fault:
        return answer

    return behave


def in_turn(answers: list[Table | Fault]) -> Behaviour:
    def behave(query: str, params: dict[str, Any]) -> Table | Fault:
        return answers.pop(0)

    return behave
