"""Locates the home of a command, and opens it in the cheapest way that the command needs.

Most commands ask one question and end. They need no event loop and no threads: the question runs on this thread, on one
connection, so that neither has to be made for it.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from twinraven.foundation.errors import StorageError, StorageReadOnly, StorageUnavailable
from twinraven.foundation.homes import HOME_VARIABLE, existing_home, find_home, resolve_home

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.muninn import EventStore
    from twinraven.storage import Connection, Database, Dialect, Work

T = TypeVar("T")

_BROKEN_FILE: Final = ("SQLite: file is not a database", "SQLite: database disk image is malformed")


class HomeLocation(NamedTuple):
    """The location of the home, and what named it: an option, the environment or a search."""

    path: Path
    stated_by: str


def stated_home(options: Namespace) -> HomeLocation | None:
    """Return the home that `--home` or the environment names, whether or not it is there."""
    home: str | None = options.home
    if home is not None:
        return HomeLocation(Path(home).expanduser().absolute(), "--home")
    if os.environ.get(HOME_VARIABLE):
        named = find_home(Path.cwd(), os.environ)
        return None if named is None else HomeLocation(named, HOME_VARIABLE)
    return None


def locate_home(options: Namespace) -> HomeLocation:
    """Locate the home this command uses, or NotFound."""
    stated = stated_home(options)
    if stated is not None:
        return HomeLocation(resolve_home(stated.path, stated_by=stated.stated_by), stated.stated_by)
    return HomeLocation(existing_home(None, {}), f"found from {Path.cwd()} upwards")


@contextmanager
def opened(options: Namespace) -> Generator[TwinRaven]:
    """Provide the home, ready for every kind of work; what is logged meanwhile goes to stderr, without secrets."""
    from twinraven.app import open_home
    from twinraven.cli.people import operator
    from twinraven.vault import clean_log

    place = locate_home(options).path
    with (
        _naming(place),
        open_home(place, operator=operator) as raven,
        clean_log(lambda: raven.redactor, sys.stderr, level=options.log_level, as_json=options.log_format == "json"),
    ):
        resolve_tenant(options, raven.database)
        see_tools_of(raven.home)
        yield raven


@contextmanager
def _naming(home: Path) -> Generator[None]:
    """Say which home it is whose file cannot be opened or written, and what to do about it."""
    try:
        yield
    except (StorageReadOnly, StorageUnavailable) as error:
        if error.message.startswith("SQLite: "):
            fix = f"let your user read and write {home} and its files, or name another home with --home"
            error.details.setdefault("fix", fix)
        raise
    except StorageError as error:
        if error.message in _BROKEN_FILE:
            fix = f"{home / 'twinraven.db'} is damaged: put a copy back with `twinraven restore FILE --force`"
            error.details.setdefault("fix", fix)
        raise


def resolve_tenant(options: Namespace, database: Database) -> None:
    """Replace the name in `--tenant` by the tenant's id; refuse an unknown one before anything is read or written."""
    from twinraven.storage import DEFAULT_TENANT

    if options.tenant == DEFAULT_TENANT:
        return
    from twinraven.tenancy import Tenancy

    options.tenant = _answer(Tenancy(_OnThisThread(database)).named(options.tenant)).tenant_id


def see_tools_of(home: Path) -> None:
    """Add the folder beside the home to Python's search path, after everything installed, for the project's tool
    modules.
    """
    project = str(home.parent)
    if project not in sys.path:
        sys.path.append(project)


def ask(options: Namespace, question: Callable[[EventStore], Coroutine[Any, Any, T]]) -> T:
    """Read something from the log, on this thread."""
    from twinraven.muninn import SqlEventStore

    return ask_database(options, lambda database: question(SqlEventStore(database)))


def ask_database(options: Namespace, question: Callable[[Database], Coroutine[Any, Any, T]]) -> T:
    """Read something from the database, on this thread."""
    from twinraven.app import open_home

    place = locate_home(options).path
    with _naming(place), open_home(place) as raven:
        resolve_tenant(options, raven.database)
        return _answer(question(_OnThisThread(raven.database)))


class _OnThisThread:
    """A database whose reads run where they are asked."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def dialect(self) -> Dialect:
        return self._database.dialect

    async def read(self, tenant_id: str, work: Work[T]) -> T:
        return self._database.read_here(tenant_id, work)

    def read_here(self, tenant_id: str, work: Work[T]) -> T:
        return self._database.read_here(tenant_id, work)

    async def write(self, tenant_id: str, work: Work[T]) -> T:
        return await self._database.write(tenant_id, work)

    def connect(self) -> Connection:
        return self._database.connect()

    def migrate(self) -> list[str]:
        return self._database.migrate()

    def applied(self) -> dict[int, str]:
        return self._database.applied()

    def close(self) -> None:
        self._database.close()


def _answer(question: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits; it may give others a turn, of whom there are none."""
    try:
        while question.send(None) is None:
            pass
    except StopIteration as done:
        return done.value
    raise AssertionError("a question to the log waited for something; it needs an event loop")
