"""A home from before actors: its chain verifies, its guards stand, and from then on everybody is told apart."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.intruders import intruder_of
from twinraven.audit import AuditLog, KeyRing, NewAuditEntry, Signer
from twinraven.audit.reads import digest_range
from twinraven.foundation.actors import Actor, ActorType, agent
from twinraven.foundation.errors import TwinRavenError
from twinraven.muninn import Collector, EventFilter, SqlEventStore
from twinraven.storage import Database, migrations, open_database
from twinraven.storage.migrations import STEPS
from twinraven.tenancy import Tenancy

BEFORE = STEPS[: STEPS.index("m0012_actors")]
HUMAN = Actor(cast("ActorType", "human"), "ada")
"""What the chain used to say of whoever came through a door."""


@pytest.fixture
def old_database(storage_settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Generator[Database]:
    """A database with the schema from before actors, on each store in turn."""
    monkeypatch.setattr(migrations, "STEPS", BEFORE)
    database = open_database(storage_settings["url"], admin_url=storage_settings["admin_url"])
    database.migrate()
    monkeypatch.undo()
    yield database
    database.close()


def audit_of(database: Database, folder: Path) -> AuditLog:
    return AuditLog(database, Signer(KeyRing(folder / "audit.keys", variable="TWINRAVEN_TEST_AUDIT_KEY")))


def record(database: Database, session_id: str, actor: Actor | None) -> None:
    collector = Collector(database)
    collector.observe(session_id).record("get_order", {"order_id": 1}, output={"ok": True}, actor=actor).result()
    collector.close()


async def test_an_old_chain_verifies_and_goes_on(old_database: Database, tmp_path: Path) -> None:
    """Entries that say human, and seals made before events had actors, stay whole; new ones name agent and person."""
    audit = audit_of(old_database, tmp_path)
    await audit.write(NewAuditEntry("default", "call.intended", "call", "c1", HUMAN, body={"params": {"a": 1}}))
    record(old_database, "before", None)
    sealed = await old_database.read("default", lambda tx: digest_range(tx, "default", after=0, through=1, form=1))
    old_seal = {name: value for name, value in sealed.as_data().items() if name != "form"}
    await audit.write(NewAuditEntry("default", "audit.reads_sealed", "events", "default", data=old_seal))
    assert old_database.migrate() == list(STEPS[STEPS.index("m0012_actors") :])

    await audit.write(NewAuditEntry("default", "call.intended", "call", "c2", agent("planner")))
    record(old_database, "after", agent("planner"))
    assert await audit.seal_reads("default") is not None
    report = await audit.verify("default")
    assert (report.ok, report.entries, report.sealed_reads) == (True, 4, 2)
    told = [(entry.actor_type, entry.actor_id) for entry in await audit.entries("default")]
    assert told == [("human", "ada"), ("system", None), ("agent", "planner"), ("system", None)]
    events = await SqlEventStore(old_database).events("default", EventFilter())
    assert {event.session_id: event.actor for event in events} == {"before": None, "after": agent("planner")}


async def test_the_guards_stand_after_the_migration(old_database: Database, tmp_path: Path) -> None:
    """Neither store lets anybody change an entry's or an event's actor, nor a user's kind."""
    audit = audit_of(old_database, tmp_path)
    await audit.write(NewAuditEntry("default", "call.intended", "call", "c1", HUMAN))
    record(old_database, "before", None)
    old_database.migrate()
    user = await Tenancy(old_database).add_user("default", "planner", kind="agent")
    for change in (
        "UPDATE audit_log SET actor_type = 'person'",
        "DELETE FROM audit_log",
        "UPDATE muninn_event_log SET actor_type = 'person', actor_id = 'eve'",
        f"UPDATE users SET kind = 'person' WHERE user_id = '{user.user_id}'",
    ):
        with pytest.raises(TwinRavenError):
            await old_database.write("default", lambda tx, sql=change: tx.execute(sql))
    with pytest.raises(TwinRavenError, match="actor_type"):
        await audit.write(
            NewAuditEntry("default", "call.intended", "call", "c2", Actor(cast("ActorType", "robot"), "x"))
        )
    assert (await audit.verify("default")).ok


async def test_an_actor_changed_behind_the_log_is_found(
    database: Database, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A seal covers who acted."""
    audit = audit_of(database, tmp_path)
    record(database, "s", agent("planner"))
    await audit.seal_reads("default")
    assert (await audit.verify("default")).ok
    intruder = intruder_of(database, request)
    intruder.run("UPDATE muninn_event_log SET actor_type = 'person'")
    intruder.close()
    fault = (await audit.verify("default")).fault
    assert fault is not None
    assert fault.kind == "reads"


async def test_an_agent_keeps_its_kind_through_its_key(old_database: Database) -> None:
    """Users from before are persons; a key of an agent is an agent's."""
    old_database.migrate()
    tenancy = Tenancy(old_database)
    assert [(user.user_id, user.kind) for user in await tenancy.users("default")] == [("local", "person")]
    planner = await tenancy.add_user("default", "planner", kind="agent")
    issued = await tenancy.issue_key("default", planner.user_id)
    assert (await tenancy.authenticate(issued.clear)).actor == agent(planner.user_id)
