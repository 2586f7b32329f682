"""Events that ride in a transaction of their caller's: stored once, whatever becomes of that transaction."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, cast

import pytest

from tests.unit.muninn.fake_store import FakeStore, writer_on
from twinraven.foundation.errors import Conflict, StorageError, StorageUnavailable
from twinraven.foundation.ids import new_uuid
from twinraven.muninn import RETRY, Collector, EncodingRules, Observation, Outcome, TransactionalEvent
from twinraven.muninn.row import RowEncoder
from twinraven.muninn.writer import EventWriter
from twinraven.storage import Database


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def writer(store: FakeStore) -> Generator[EventWriter]:
    writer = writer_on(store)
    yield writer
    store.gate.set()
    writer.close()


def seen(tool_id: str = "f", *, raised: bool = False) -> Observation:
    outcome = Outcome.FAILURE if raised else Outcome.SUCCESS
    return Observation("default", new_uuid(), "s", tool_id, b"{}", b"1", 1, 1, outcome, raised=raised)


def carry(writer: EventWriter, observation: Observation) -> TransactionalEvent:
    event = writer.carry(observation)
    assert event is not None
    return event


def write(store: FakeStore, event: TransactionalEvent) -> None:
    with store.transaction("default", write=True) as tx:
        event.write(cast("Any", tx))


def test_a_carried_event_is_stored_by_its_callers_commit(store: FakeStore, writer: EventWriter) -> None:
    """One commit, and nothing is queued."""
    write(store, carry(writer, seen()))
    assert (store.tools, store.batches, writer.waiting) == (["f"], [1], 0)


@pytest.mark.parametrize(
    ("when", "error"),
    [
        ("before_commit", StorageUnavailable("away")),
        ("after_commit", StorageError("lost the answer", commit="unknown")),
    ],
)
def test_an_event_whose_transaction_failed_is_stored_once(
    store: FakeStore, writer: EventWriter, when: str, error: StorageError
) -> None:
    """The queue stores what the transaction did not, and does not double what it did although nobody can say so."""
    getattr(store, when).append(error)
    event = carry(writer, seen())
    with pytest.raises(StorageError):
        write(store, event)
    event.queue().result(10)
    assert store.tools == ["f"]


def test_a_refused_event_beside_one_that_may_be_stored_costs_only_itself(store: FakeStore, writer: EventWriter) -> None:
    """Whose fault it is, is found out without doubling the others."""
    store.refused["bad"] = Conflict("taken")
    first, second = carry(writer, seen("good")), carry(writer, seen("bad"))
    write(store, first)
    store.gate.clear()
    receipts = [first.queue(), second.queue()]
    store.gate.set()
    receipts[0].result(10)
    with pytest.raises(Conflict):
        receipts[1].result(10)
    assert store.tools == ["good"]


def test_no_event_overtakes_one_that_is_queued(store: FakeStore, writer: EventWriter) -> None:
    """Tags look back, so events are recorded in their order: while one is queued, the next is queued, too."""
    store.gate.clear()
    receipt = writer.submit(seen())
    assert writer.carry(seen()) is None
    store.gate.set()
    receipt.result(10)


def test_a_carried_event_is_tagged_by_what_came_before_it_once(store: FakeStore, writer: EventWriter) -> None:
    """A call after its own failure is a retry; the failure itself is none, however often it was tried to be stored."""
    failed = carry(writer, seen(raised=True))
    store.before_commit.append(StorageUnavailable("away"))
    with pytest.raises(StorageUnavailable):
        write(store, failed)
    failed.queue().result(10)
    write(store, carry(writer, seen()))
    assert [row["tags"] for row in store.rows] == ["[]", f'["{RETRY}"]']


def test_an_event_whose_summary_a_model_writes_is_not_carried(store: FakeStore) -> None:
    """No transaction waits for a model."""
    writer = writer_on(store, RowEncoder(EncodingRules(), compress=lambda _tenant, _output, _limit: "short"))
    assert writer.carry(seen()) is None
    writer.close()


def test_an_event_is_carried_by_no_other_store(store: FakeStore) -> None:
    """A transaction of another database would put the record where nobody looks for it."""
    collector = Collector(cast("Database", store))
    assert collector.carry(seen(), cast("Database", FakeStore())) is None
    assert collector.carry(seen(), cast("Database", store)) is not None
    collector.close()


def test_no_event_is_carried_on_postgres() -> None:
    """Equal outputs of two calls are stored once, so two serializable settlements would conflict over them."""
    store = cast("Database", FakeStore("postgres"))
    collector = Collector(store)
    assert collector.carry(seen(), store) is None
    collector.close()
