"""Sends NOTIFY with every commit that changes what processes follow: events, approvals, the catalogue.

Triggers do it, so that no writer can forget to. SQLite cannot push; there the feed looks at numbers that grow.
"""

from __future__ import annotations

from typing import Final

from twinraven.storage.guards import TENANT_SETTING
from twinraven.storage.migrations import Ddl

_TOPICS: Final = {
    "muninn_event_log": "events",
    "approvals": "approvals",
    "approval_decisions": "approvals",
    "catalog_version": "catalog",
}


def upgrade(ddl: Ddl) -> None:
    if ddl.dialect == "sqlite":
        return
    ddl.run(
        "CREATE FUNCTION twinraven_tell_change() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_notify('twinraven_changes', "
        f"TG_ARGV[0] || ' ' || current_setting('{TENANT_SETTING}', true)); RETURN NULL; END $$",
        *(
            f"CREATE TRIGGER {table}_tell_change AFTER INSERT OR UPDATE ON {table} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION twinraven_tell_change('{topic}')"
            for table, topic in _TOPICS.items()
        ),
    )
