"""Look-ups in Muninn's log walk an index on both stores; shown by the plans of the statements that are really run."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

import pytest

from twinraven.foundation.clock import to_micros
from twinraven.foundation.errors import NotFound
from twinraven.muninn import EventFilter, SessionFilter, SqlActivity, SqlEventStore
from twinraven.muninn.columns import COLUMNS
from twinraven.storage import Database, Dialect, Row, Transaction, Work
from twinraven.storage.postgres import PostgresDatabase

TENANT = "default"
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
EVENTS = 20_000
SESSION = 20
TOOLS = 500
EVENT = UUID(int=EVENTS // 2)


class ExplainingTransaction:
    """Passes statements on and keeps their plans."""

    def __init__(self, tx: Transaction, plans: list[str]) -> None:
        self._tx = tx
        self._plans = plans

    def fetch_all(self, sql: str, **params: Any) -> list[Row]:
        self._explain(sql, params)
        return self._tx.fetch_all(sql, **params)

    def fetch_one(self, sql: str, **params: Any) -> Row | None:
        self._explain(sql, params)
        return self._tx.fetch_one(sql, **params)

    @property
    def dialect(self) -> Dialect:
        return self._tx.dialect

    def _explain(self, sql: str, params: dict[str, Any]) -> None:
        word = "EXPLAIN QUERY PLAN" if self._tx.dialect == "sqlite" else "EXPLAIN"
        lines = [list(row.values())[-1] for row in self._tx.fetch_all(f"{word} {sql}", **params)]
        self._plans.append("\n".join(lines))


class ExplainingDatabase:
    """A database whose reads are explained before they run."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.plans: list[str] = []

    @property
    def dialect(self) -> Dialect:
        return self._database.dialect

    async def read(self, tenant_id: str, work: Work[Any]) -> Any:
        def explained(tx: Transaction) -> Any:
            return work(cast("Transaction", ExplainingTransaction(tx, self.plans)))

        return await self._database.read(tenant_id, explained)


@pytest.fixture
def filled(database: Database) -> ExplainingDatabase:
    """A log that is long enough for a planner to prefer an index, with statistics where the store keeps them."""
    connection = database.connect()
    with connection.transaction(TENANT, write=True) as tx:
        tx.insert_rows("muninn_event_log", _NAMES, [_row(number) for number in range(EVENTS)])
    connection.close()
    if isinstance(database, PostgresDatabase):
        owner = database.maintenance()
        with owner.transaction(TENANT, write=True) as tx:
            tx.execute("ANALYZE muninn_event_log")
        owner.close()
    return ExplainingDatabase(database)


_FACTS: dict[str, Any] = {
    "tenant_id": TENANT,
    "input_hash": "0" * 16,
    "input_params": "{}",
    "latency_ms": 1,
    "outcome": "success",
    "tags": "[]",
    "raised": 0,
    "error_code": None,
    "time_known": 1,
}
_NAMES = tuple(name for name in COLUMNS if name in (*_FACTS, "event_id", "session_id", "tool_id", "timestamp"))


def _row(number: int) -> tuple[Any, ...]:
    facts = {
        **_FACTS,
        "event_id": str(UUID(int=number)),
        "session_id": f"session-{number // SESSION}",
        "tool_id": f"tool-{number % TOOLS}",
        "timestamp": to_micros(NOON) + number * 1_000_000,
        **({"raised": 1, "error_code": f"CODE_{number % 7}"} if number % 500 == 0 else {}),
    }
    return tuple(facts[name] for name in _NAMES)


async def _refused(look_up: Coroutine[Any, Any, Any]) -> None:
    with pytest.raises(NotFound):
        await look_up


LOOK_UPS: dict[str, Callable[[SqlEventStore], Coroutine[Any, Any, Any]]] = {
    "one event with both neighbours": lambda store: store.event(TENANT, EVENT),
    "predecessor": lambda store: store.predecessor(TENANT, EVENT),
    "successor": lambda store: store.successor(TENANT, EVENT),
    "session": lambda store: store.session(TENANT, "session-7"),
    "events of a session": lambda store: store.events(TENANT, EventFilter(session_id="session-7")),
    "events of a tool": lambda store: store.events(TENANT, EventFilter(tool_id="tool-7", limit=10)),
    "events of a time": lambda store: store.events(
        TENANT, EventFilter(since=NOON + timedelta(hours=1), until=NOON + timedelta(hours=1, minutes=1))
    ),
    "an event that is not there": lambda store: _refused(store.event(TENANT, UUID(int=EVENTS + 1))),
    "the newest events": lambda store: store.events(TENANT, EventFilter(limit=10, newest_first=True)),
    "failed calls": lambda store: store.events(TENANT, EventFilter(raised=True, limit=10, newest_first=True)),
    "calls that failed with a code": lambda store: store.events(
        TENANT, EventFilter(error_code="CODE_3", limit=10, newest_first=True)
    ),
    "a page of sessions": lambda store: store.sessions(TENANT, limit=10, after="session-5"),
}

INDEXES = {
    "predecessor": "muninn_event_log_session",
    "successor": "muninn_event_log_session",
    "events of a session": "muninn_event_log_session",
    "events of a tool": "muninn_event_log_tool",
    "events of a time": "muninn_event_log_time",
    "failed calls": "muninn_event_log_raised",
    "calls that failed with a code": "muninn_event_log_code",
}
"""The index that a look-up needs: any other one would lead through every event of the tenant."""


@pytest.mark.req("TR-06")
async def test_look_ups_walk_an_index(filled: ExplainingDatabase) -> None:
    """No look-up by session, tool, time or neighbour reads the log from end to end, nor sorts all of it."""
    store = SqlEventStore(cast("Database", filled))
    for name, look_up in LOOK_UPS.items():
        filled.plans.clear()
        await look_up(store)
        assert any(INDEXES.get(name, "muninn_event_log_") in plan for plan in filled.plans), f"{name}: {filled.plans}"
        for plan in filled.plans:
            assert "muninn_event_log_" in plan, f"{name}:\n{plan}"
            assert not any(_reads_the_whole_log(line) for line in plan.splitlines()), f"{name}:\n{plan}"
        if name == "events of a time":
            assert any(_BOTH_ENDS.search(plan) for plan in filled.plans), filled.plans


async def test_what_arrived_is_read_from_where_one_left_off(filled: ExplainingDatabase) -> None:
    """Where the log ends and what is new in it is found along its key, and not through all calls of the tenant."""
    store = SqlEventStore(cast("Database", filled))
    through = await store.settled(TENANT)
    assert through >= EVENTS
    if filled.dialect == "sqlite":
        assert [plan for plan in filled.plans if "tenant_id=?" in plan] == []
    filled.plans.clear()
    assert len(await store.arrived(TENANT, after=through - 5, through=through, limit=100)) == 5
    assert len(await store.arrived(TENANT, after=through - 5, through=through, limit=100, tool_id="tool-1")) <= 1
    hours, _ = await store.tool_hours(TENANT, after=through - 5, through=through, limit=100)
    assert sum(each.calls for each in hours) == 5
    along = "rowid>? AND rowid<?" if filled.dialect == "sqlite" else "muninn_event_log_pkey"
    assert [plan for plan in filled.plans if along not in plan] == []
    assert await store.settled("nobody") == 0


async def test_a_page_of_sessions_reads_its_sessions(filled: ExplainingDatabase) -> None:
    """What a line of the list says of a session is looked up by the session, not through all calls of the tenant."""
    found = await SqlActivity(cast("Database", filled)).recent_sessions(TENANT, SessionFilter(limit=2))
    assert [each.session_id for each in found] == [f"session-{EVENTS // SESSION - number}" for number in (1, 2)]
    assert len(found[0].tools) == SESSION
    assert [plan for plan in filled.plans if "muninn_event_log_tool" in plan] == []


_LATER_OF_ONE_TIME = re.compile(r"timestamp=\? AND arrival>\?|Index Cond:.*ROW\(.*arrival\) > ROW\(")


async def test_calls_of_one_time_are_not_read_for_each_other(filled: ExplainingDatabase) -> None:
    """Where all calls of a session have one time, an index tells whether a call is the last of them."""
    await SqlActivity(cast("Database", filled)).recent_sessions(TENANT, SessionFilter(limit=2))
    assert any(_LATER_OF_ONE_TIME.search(plan) for plan in filled.plans), filled.plans


_BOTH_ENDS = re.compile(r'timestamp>\? AND timestamp<\?|Index Cond:.*"?timestamp"? >= .*"?timestamp"? < ')
"""Both ends of a stretch of time bound the walk along the index."""


def _reads_the_whole_log(line: str) -> bool:
    return "Seq Scan on muninn_event_log" in line or line.strip().startswith(
        ("SCAN e", "SCAN n", "SCAN muninn_event_log")
    )
