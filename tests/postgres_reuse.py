"""Takes a Postgres database back to what it held when it was cloned, so that the next test can have it.

Cloning and dropping a database of hundreds of files costs several times what most tests do in it. Rows that a test left
are deleted and those that the template had are put back, without triggers; sequences go back, too. A test that changed
the schema, a guard or its login, or that left megabytes, has used its database up.
"""

from __future__ import annotations

from typing import Final, LiteralString

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

_GROWTH: Final = 8 << 20
_KEPT: Final = "as_cloned"
_TABLES: Final = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"
_SEQUENCES: Final = "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = 'public'"
_COLUMNS: Final = (
    "SELECT column_name FROM information_schema.columns WHERE table_schema = 'public' AND table_name = %s "
    "AND is_generated = 'NEVER' ORDER BY ordinal_position"
)
# What a row of a catalogue is written by: any change of a definition, a right or a role writes another.
_WRITTEN: Final[LiteralString] = """
    SELECT md5(string_agg(entry, ',' ORDER BY entry)) FROM (
        SELECT 'c' || oid || '.' || xmin AS entry FROM pg_class WHERE relnamespace = 'public'::regnamespace
        UNION ALL SELECT 'a' || attrelid || '.' || attnum || '.' || a.xmin FROM pg_attribute a JOIN pg_class c
            ON c.oid = attrelid WHERE relnamespace = 'public'::regnamespace
        UNION ALL SELECT 't' || oid || '.' || xmin || tgenabled::text FROM pg_trigger
        UNION ALL SELECT 'p' || oid || '.' || xmin FROM pg_policy
        UNION ALL SELECT 'k' || oid || '.' || xmin FROM pg_constraint
        UNION ALL SELECT 'f' || oid || '.' || xmin FROM pg_proc WHERE pronamespace = 'public'::regnamespace
        UNION ALL SELECT 'n' || oid || '.' || xmin FROM pg_namespace
        UNION ALL SELECT 'r' || oid || '.' || xmin FROM pg_authid WHERE rolname = %(login)s
        UNION ALL SELECT 'm' || oid || '.' || xmin FROM pg_auth_members
            WHERE member = (SELECT oid FROM pg_authid WHERE rolname = %(login)s)
        UNION ALL SELECT 's' || setdatabase || '.' || setrole || '.' || xmin FROM pg_db_role_setting
    ) AS written
"""


class ReusableDatabase:
    """One database, seen by its administrator."""

    def __init__(self, url: str, *, login: str) -> None:
        self._url = url
        self._login = login
        with self._connect() as connection:
            self._tables = [name for (name,) in connection.execute(_TABLES)]
            self._kept = self._filled(connection)
            # A template may itself be a copy of a database that was made ready like this.
            connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(_KEPT)))
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(_KEPT)))
            for table in self._kept:
                kept = sql.SQL("CREATE TABLE {} AS TABLE {}").format(_copy(table), sql.Identifier(table))
                connection.execute(kept)
            self._columns = {table: [name for (name,) in connection.execute(_COLUMNS, [table])] for table in self._kept}
            self._sequences = dict[str, int | None](connection.execute(_SEQUENCES).fetchall())
        with self._connect() as connection:
            self._size, self._written = self._state(connection)

    def reset(self) -> bool:
        """Put back what was cloned; False where the database is not to be used again."""
        with self._connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            size, written = self._state(connection)
            if written != self._written or size > self._size + _GROWTH:
                return False
            connection.execute("SET session_replication_role = replica")
            for table in self._filled(connection):
                connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
            for table in self._kept:
                self._put_back(connection, table)
            for name, value in connection.execute(_SEQUENCES).fetchall():
                before = self._sequences[name]
                if value != before:
                    connection.execute("SELECT setval(%s::regclass, %s, %s)", [name, before or 1, before is not None])
        return True

    def _connect(self) -> psycopg.Connection[TupleRow]:
        return psycopg.connect(self._url)

    def _state(self, connection: psycopg.Connection[TupleRow]) -> tuple[int, str]:
        size = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        written = connection.execute(_WRITTEN, {"login": self._login}).fetchone()
        assert size is not None
        assert written is not None
        return size[0], written[0]

    def _filled(self, connection: psycopg.Connection[TupleRow]) -> list[str]:
        """The tables that have rows."""
        asked = sql.SQL(" UNION ALL ").join(
            sql.SQL("SELECT {} WHERE EXISTS (SELECT 1 FROM {})").format(sql.Literal(table), sql.Identifier(table))
            for table in self._tables
        )
        return [name for (name,) in connection.execute(asked)]

    def _put_back(self, connection: psycopg.Connection[TupleRow], table: str) -> None:
        columns = sql.SQL(", ").join(map(sql.Identifier, self._columns[table]))
        connection.execute(
            sql.SQL("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {}").format(
                sql.Identifier(table), columns, columns, _copy(table)
            )
        )


def _copy(table: str) -> sql.Identifier:
    return sql.Identifier(_KEPT, table)
