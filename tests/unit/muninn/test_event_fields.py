"""An event's fields are stated in `MuninnEvent`; everything else that names them follows or is compared here."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from twinraven.muninn import MuninnEvent
from twinraven.muninn.columns import COLUMNS
from twinraven.muninn.model import EVENT_FIELDS, Observation
from twinraven.sdk import Event
from twinraven.storage import open_database

COMPUTED = {"input_hash", "input_params", "output_summary", "output_hash"}
DERIVED = {"arrival", "predecessor", "successor"}


def test_the_log_has_a_column_for_every_field_that_is_stored(tmp_path: Path) -> None:
    """The migrated table holds the fields of an event and nothing else, tenant and id first."""
    database = open_database(f"sqlite:///{tmp_path / 'home.db'}")
    database.migrate()
    connection = database.connect()
    with connection.transaction("default", write=False) as tx:
        rows = tx.fetch_all("SELECT name FROM pragma_table_info('muninn_event_log')")
    connection.close()
    database.close()
    assert {row["name"] for row in rows} == {*COLUMNS, "arrival"}
    assert {*COLUMNS} == {field.name for field in fields(MuninnEvent)} - DERIVED
    assert COLUMNS[:2] == ("tenant_id", "event_id")


def test_an_observation_states_every_field_that_is_not_computed() -> None:
    """What the caller's thread hands over has the names of the columns, and params and output besides."""
    assert {*Observation._fields} - {"params", "output"} == {*COLUMNS} - COMPUTED


def test_the_sdk_reads_every_field() -> None:
    """The client's event has the fields of the server's, which it does not import."""
    assert {field.name for field in fields(MuninnEvent)} <= {field.name for field in fields(Event)}


def test_only_texts_that_the_platform_makes_or_checks_are_stored_as_they_are() -> None:
    """A new text is redacted unless somebody says otherwise."""
    kept = {each.name for each in EVENT_FIELDS if each.redaction == "none"}
    assert "actor_id" not in kept
    assert kept == {"tenant_id", "tool_id", "input_hash", "output_hash", "output_summary"}
