"""Keeps how far a reader has come in each group, and starts one run of the engine at a time for what is new.

Readers work behind the storing of episodes: a knowledge graph takes them in, extractors look for names and facts. The
run is started in the transaction that stores an episode, so that none is forgotten and nobody waits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from twinraven.foundation.ids import new_id
from twinraven.storage import Row, Transaction

StartWork = Callable[[Transaction, str, str, str], None]
"""Starts the run of a reader: tenant, group, run id."""


class ReaderRunEnd(Protocol):
    """The end of a run, as a callback gets it."""

    @property
    def tenant_id(self) -> str: ...

    @property
    def run_id(self) -> str: ...

    @property
    def state(self) -> str: ...


class GroupProgress:
    """The rows of one reader in a table of progress."""

    def __init__(self, table: str, *, prefix: str, start: StartWork, key: Mapping[str, str] | None = None) -> None:
        """`prefix` begins the ids of its runs; `key` tells its rows from those of other readers in the table."""
        self._table = table
        self._prefix = prefix
        self._start = start
        self._key = dict(key or {})
        self._where = "".join(f" AND {name} = :{name}" for name in self._key)

    def on_stored(self, tx: Transaction, tenant_id: str, group_id: str, *, first: int) -> None:
        """Start the run that reads what is new, unless one is under way; a new group begins with the part `first`."""
        columns = ("tenant_id", "group_id", "next_seq", *self._key)
        tx.insert_missing(self._table, columns, [(tenant_id, group_id, first, *self._key.values())])
        row = self.row(tx, tenant_id, group_id)
        if row is not None and row["run_id"] is None:
            self._begin(tx, tenant_id, group_id)

    def row(self, tx: Transaction, tenant_id: str, group_id: str) -> Row | None:
        return tx.fetch_one(
            f"SELECT * FROM {self._table} WHERE tenant_id = :tenant AND group_id = :group{self._where}",
            tenant=tenant_id,
            group=group_id,
            **self._key,
        )

    def save(self, tx: Transaction, tenant_id: str, group_id: str, **values: Any) -> None:
        """Change columns of a group's row."""
        changed = ", ".join(f"{name} = :{name}" for name in values)
        tx.execute(
            f"UPDATE {self._table} SET {changed} WHERE tenant_id = :tenant AND group_id = :group{self._where}",
            tenant=tenant_id,
            group=group_id,
            **self._key,
            **values,
        )

    def on_end(self, tx: Transaction, end: ReaderRunEnd, *, has_more: Callable[[Transaction, str, str], bool]) -> None:
        """Let the next run begin; after a failure, with the next episode that is stored."""
        row = tx.fetch_one(
            f"SELECT group_id FROM {self._table} WHERE tenant_id = :tenant AND run_id = :run{self._where}",
            tenant=end.tenant_id,
            run=end.run_id,
            **self._key,
        )
        if row is None:
            return
        self.save(tx, end.tenant_id, row["group_id"], run_id=None)
        if end.state == "succeeded" and has_more(tx, end.tenant_id, row["group_id"]):
            self._begin(tx, end.tenant_id, row["group_id"])

    def _begin(self, tx: Transaction, tenant_id: str, group_id: str) -> None:
        run_id = f"{self._prefix}{hashlib.sha256(group_id.encode()).hexdigest()[:16]}-{new_id()}"
        self._start(tx, tenant_id, group_id, run_id)
        self.save(tx, tenant_id, group_id, run_id=run_id)
