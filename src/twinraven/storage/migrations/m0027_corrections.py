"""Lets an event name the event that it corrects: one of the same session, which stays as it is."""

from __future__ import annotations

from twinraven.storage.guards import FENCE_MESSAGE
from twinraven.storage.migrations import Ddl
from twinraven.storage.migrations.m0001_memory import create_events_view

_UNKNOWN = """NEW.corrects IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM muninn_event_log e
                    WHERE e.event_id = NEW.corrects AND e.tenant_id = NEW.tenant_id
                      AND e.session_id = NEW.session_id)"""
_NO_EVENT = f"corrects: {FENCE_MESSAGE} in the session"


def upgrade(ddl: Ddl) -> None:
    ddl.run(
        "DROP VIEW muninn_events",
        "ALTER TABLE muninn_event_log ADD COLUMN corrects TEXT",
        "CREATE INDEX muninn_event_log_corrects ON muninn_event_log (tenant_id, corrects) WHERE corrects IS NOT NULL",
    )
    create_events_view(ddl)
    if ddl.dialect == "sqlite":
        ddl.run(
            f"CREATE TRIGGER muninn_event_log_corrects_fence BEFORE INSERT ON muninn_event_log WHEN {_UNKNOWN} "
            f"BEGIN SELECT RAISE(ABORT, '{_NO_EVENT}'); END"
        )
        return
    ddl.run(
        "CREATE FUNCTION twinraven_fence_correction() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN IF {_UNKNOWN} THEN "
        f"RAISE EXCEPTION '{_NO_EVENT}' USING ERRCODE = 'foreign_key_violation'; END IF; RETURN NEW; END $$",
        "CREATE TRIGGER muninn_event_log_corrects_fence BEFORE INSERT ON muninn_event_log FOR EACH ROW "
        "WHEN (NEW.corrects IS NOT NULL) EXECUTE FUNCTION twinraven_fence_correction()",
    )
