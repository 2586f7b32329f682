"""Signs browsers in: an API key becomes a random token that is valid for half a day, and ends with its key.

A browser must not keep a key: pages can be left open, and a key opens every door. The token is 256 random bits, of
which only a hash is stored; it stands for the key's user as long as the key is in force, nobody ended it, and its time
is not over. Beginning and ending are told to `note` inside their transactions, as all changes of tenancy are.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from twinraven.foundation.clock import from_micros, now_micros, to_micros
from twinraven.foundation.errors import InvalidInput, NotFound
from twinraven.foundation.ids import new_id
from twinraven.storage import Database, Transaction
from twinraven.tenancy.errors import NotAuthenticated
from twinraven.tenancy.keys import hash_key
from twinraven.tenancy.model import Principal, SignIn, TenancyChange
from twinraven.tenancy.service import Tenancy
from twinraven.tenancy.sign_in_sql import SqlSignIns, sign_in_scope

LASTS: Final = timedelta(hours=12)
_FORM: Final = re.compile(r"[0-9a-f]{32}\.[A-Za-z0-9_-]{43}")
_LONGEST_LABEL: Final = 200
Note = Callable[[Transaction, TenancyChange], None]


class SignIns:
    """The browsers that are signed in, and what lets them in."""

    def __init__(
        self, database: Database, tenancy: Tenancy, *, note: Note, micros: Callable[[], int] = now_micros
    ) -> None:
        self._database = database
        self._tenancy = tenancy
        self._note = note
        self._micros = micros
        self._rows = SqlSignIns()

    async def begin(self, who: Principal, *, label: str = "") -> tuple[SignIn, str]:
        """Sign in the owner of a key; returns the token, which is shown only here."""
        if who.key_id is None:
            raise InvalidInput("signing in needs an API key; on this machine a page needs no sign-in", field="key")
        now = self._micros()
        made = SignIn(
            who.tenant_id,
            new_id(),
            who.user_id,
            who.key_id,
            label[:_LONGEST_LABEL],
            created_at=from_micros(now),
            expires_at=from_micros(now) + LASTS,
        )
        token = f"{made.sign_in_id}.{base64.urlsafe_b64encode(os.urandom(32)).rstrip(b'=').decode()}"

        def work(tx: Transaction) -> None:
            self._rows.add(tx, made, hash_key(token))
            self._tell(tx, made, "sign_in.begun", who)

        await self._database.write(who.tenant_id, work)
        return made, token

    async def principal_of(self, token: str) -> Principal:
        """Return the principal of a token, or raise NotAuthenticated."""
        if _FORM.fullmatch(token) is None:
            raise _refusal()
        hashed = hash_key(token)
        found = await self._database.read(sign_in_scope(hashed), lambda tx: self._rows.find(tx, hashed))
        if found is None or found.ended_at is not None or self._micros() >= to_micros(found.expires_at):
            raise _refusal()
        return await self._tenancy.principal_of(found.tenant_id, found.key_id)

    async def open(self, tenant_id: str, *, user_id: str | None = None) -> list[SignIn]:
        """List active sign-ins, newest first; of one user, or of all."""
        now = self._micros()
        found = await self._database.read(tenant_id, lambda tx: self._rows.open(tx, tenant_id, now=now))
        return [each for each in found if user_id in (None, each.user_id)]

    async def end(self, tenant_id: str, sign_in_id: str, *, by: Principal) -> None:
        """Sign a browser out, your own or, as an administrator, any; idempotent."""

        def work(tx: Transaction) -> None:
            found = self._rows.get(tx, tenant_id, sign_in_id)
            if found is None or (by.role != "admin" and by.user_id != found.user_id):
                raise NotFound(f"no sign-in {sign_in_id!r}", id=sign_in_id)
            if self._rows.end(tx, tenant_id, sign_in_id, at=self._micros()):
                self._tell(tx, found, "sign_in.ended", by)

        await self._database.write(tenant_id, work)

    def _tell(self, tx: Transaction, about: SignIn, event_type: str, by: Principal) -> None:
        data = {"user_id": about.user_id, "key_id": about.key_id}
        self._note(tx, TenancyChange(about.tenant_id, event_type, "sign_in", about.sign_in_id, by, data))


def _refusal() -> NotAuthenticated:
    return NotAuthenticated("the sign-in is not valid any more; sign in again")
