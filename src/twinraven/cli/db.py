"""`twinraven db`: the database and the version of its schema."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from twinraven.cli.output import show_fields
from twinraven.cli.parser import CommandParser

if TYPE_CHECKING:
    from twinraven.app import TwinRaven


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven db status")
    upgrade = parser.command("upgrade", "bring the schema up to date")
    upgrade.takes_output("table", "json")
    upgrade.runs(upgrade_database, example="twinraven db upgrade --home /srv/ravens/.twinraven")
    status = parser.command("status", "which version the schema has")
    status.takes_output("table", "json")
    status.runs(show_status, example="twinraven db status --output json")


def upgrade_database(options: Namespace) -> None:
    with _as_it_is(options) as raven:
        applied = raven.database.migrate()
        version = _seen_version(raven, applied)
    fields = {"store": raven.database.dialect, "version": version, "applied": applied}
    show_fields(options.output, fields if options.output == "json" else {**fields, "applied": _listed(applied)})


def _seen_version(raven: TwinRaven, applied: list[str]) -> int:
    """Read the version as other processes will: the owner who migrates may get in where storage.url does not."""
    from twinraven.foundation.errors import InvalidSetting, StorageError

    try:
        return max(raven.database.applied(), default=0)
    except StorageError as error:
        done = f"the schema is up to date (applied now: {_listed(applied)})"
        raise InvalidSetting(
            f"{done}, but storage.url does not get in: {error.message}",
            field="storage.url",
            fix="create its login: CREATE ROLE app LOGIN PASSWORD '…' IN ROLE twinraven_app",
        ) from error


def show_status(options: Namespace) -> None:
    from twinraven.app import settings_as_rows
    from twinraven.storage import pending_migrations

    with _as_it_is(options) as raven:
        pending = pending_migrations(raven.database)
        version = max(raven.database.applied(), default=0)
    addresses = {row.key: row.value for row in settings_as_rows(raven.settings)}
    fields = {
        "store": raven.database.dialect,
        "url": addresses["storage.url"],
        "version": version,
        "current": not pending,
        "pending": pending,
    }
    show_fields(options.output, fields if options.output == "json" else {**fields, "pending": _listed(pending)})


@contextmanager
def _as_it_is(options: Namespace) -> Generator[TwinRaven]:
    """Provide the home with its database untouched, whatever its version."""
    from twinraven.app import TwinRaven, load_settings
    from twinraven.cli.home import locate_home

    with TwinRaven(load_settings(locate_home(options).path)) as raven:
        yield raven


def _listed(steps: list[str]) -> str:
    return ", ".join(steps) or "nothing"
