"""Values that JSON or a store would rather not hold: each is kept in one settled form or refused, alike on both."""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any

import pytest

from twinraven.foundation.errors import InvalidInput
from twinraven.muninn import Collector, SqlEventStore
from twinraven.storage import Database

TENANT = "default"
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture
def collector(database: Database) -> Generator[Collector]:
    collector = Collector(database)
    yield collector
    collector.close()


@pytest.fixture
def store(database: Database) -> SqlEventStore:
    return SqlEventStore(database)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


ODD_VALUES: list[tuple[Any, Any]] = [
    ({"n": 2**70, "m": -(10**40)}, {"n": 2**70, "m": -(10**40)}),
    ({"n": float("nan"), "i": float("inf"), "j": [float("-inf")]}, {"n": "NaN", "i": "Infinity", "j": ["-Infinity"]}),
    ({"nul\0key": "a\0b"}, {"nul\0key": "a\0b"}),
    ({"text": "a\ud800b", "\udfff": 1}, {"text": "a\ufffdb", "\ufffd": 1}),
    ({"deep": nested(250)}, {"deep": nested(250)}),
    ({"when": NOON, "set": {3, 1}, "bytes": b"x\xff"}, {"when": NOON.isoformat(), "set": [1, 3], "bytes": "x\ufffd"}),
]


async def test_odd_values_are_kept_alike_on_both_stores(collector: Collector, store: SqlEventStore) -> None:
    """What JSON or a store cannot say plainly is kept in one settled form, in arguments as in outputs."""
    for given_value, kept in ODD_VALUES:
        event = await store.event(TENANT, await collector.observe("s").record("f", given_value, output=given_value))
        assert event.input_params == kept
        assert await store.outputs(TENANT, [str(event.output_hash)]) == {event.output_hash: kept}
        assert event.as_json()["input_params"] == kept


async def test_values_beyond_all_bounds_are_refused_alike(collector: Collector) -> None:
    """Arguments and outputs that no one should record are refused by name, before they are queued."""
    for value in ({"deep": nested(300)}, {"n": 2**9000}):
        with pytest.raises(InvalidInput, match="input_params cannot be recorded"):
            collector.observe("s").record("f", value)
        with pytest.raises(InvalidInput, match="output cannot be recorded"):
            collector.observe("s").record("f", {}, output=value)


async def test_names_that_cannot_be_read_back_are_refused_alike(collector: Collector) -> None:
    """Session, tool, tag and tenant names have the same bounds on both stores."""
    names: list[Any] = ["a\0b", "\ud800", "line\nbreak", "", "x" * 513, 7, None]
    for name in names:
        with pytest.raises(InvalidInput, match="session_id"):
            collector.observe(name)
        with pytest.raises(InvalidInput, match="tenant_id"):
            collector.observe("s", tenant_id=name)
        with pytest.raises(InvalidInput, match="tool_id"):
            collector.observe("s").record(name, {})
        with pytest.raises(InvalidInput, match="tags"):
            collector.observe("s").record("f", {}, tags=[name])


async def test_free_text_is_cleaned_alike(collector: Collector, store: SqlEventStore) -> None:
    """What people and errors say may hold anything; NUL and lone surrogates become the replacement character."""
    event_id = await collector.observe("s").record(
        "f", {}, outside_input="a\0b\ud800c\nd", correlation_id="\0", error_code="\udfff", raised=True
    )
    event = await store.event(TENANT, event_id)
    assert (event.outside_input, event.correlation_id, event.error_code) == ("a\ufffdb\ufffdc\nd", "\ufffd", "\ufffd")


@pytest.mark.tenants("𝄞" * 128)
async def test_names_of_the_greatest_length_fit_every_index(collector: Collector, store: SqlEventStore) -> None:
    """The longest names in the widest characters are stored on both stores."""
    tenant, name = "𝄞" * 128, "𝄞" * 512
    session = collector.observe(name, tenant_id=tenant, task_id=name)
    await session.record(name, {}, tags=[name])
    assert [event.tool_id for event in (await store.session(tenant, name)).events] == [name]
