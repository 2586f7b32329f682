"""Claims idempotency keys: the first insert runs the call, all others get its stored answer.

A claim is made by INSERT … ON CONFLICT DO NOTHING and committed before anything is sent. Success, final failure and
"unknown" are kept for ever; a retryable failure frees the key. A claim that is still running after its time has run out
belongs to a process that died: whether its effect happened cannot be known from here, so it becomes unknown and is
never sent again blindly, unless that process was only slow and says after all what came of it. A tool that recognises
repetitions is asked again: whoever calls it once more under a key that is unknown takes the key over. The same key with
another body is refused.

A call of a durable run names its epoch. A claim of an earlier epoch was left by a worker that lost the run, so nobody
waits for it: a tool that recognises repetitions gets the call again under its key, any other effect is unknown at once,
and a person says what happened (`resolve`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from twinraven.calls.sql import KeyUse, RepeatKind, note_repeat
from twinraven.foundation.canonical import canonical_json, content_hash, parse_json, to_json_value
from twinraven.foundation.clock import now_micros
from twinraven.foundation.errors import (
    CallInProgress,
    IdempotencyConflict,
    IllegalTransition,
    InvalidInput,
    NotFound,
    StorageError,
    TwinRavenError,
)
from twinraven.foundation.ids import new_id
from twinraven.foundation.redaction import Redact, keep_everything
from twinraven.muninn import clean_text
from twinraven.storage import Database, Row, Transaction

Settled = Literal["success", "failed", "unknown"]
EffectWord = Literal["happened", "did_not_happen", "give_up"]
"""The resolutions of an effect with an unknown outcome, by a person."""

GRACE_MS = 5_000


HashBody = Callable[[str, bytes], str]
"""Hashes a tenant's unredacted request; keyed where there are keys, so that the hash tells nothing."""

Along = Callable[[Transaction], None]


def plain_hash(tenant_id: str, body: bytes) -> str:
    return content_hash(tenant_id.encode() + b"\0" + body)


def request_body(tool_id: str, body: bytes) -> bytes:
    """Return the identity of a request: the tool and its arguments."""
    return tool_id.encode() + b"\0" + body


def refuse_secret_key(redact_names: Redact, tenant_id: str, key: str) -> None:
    """A key is kept for ever and must stay what it is, so it cannot be redacted."""
    raw = key.encode()
    if redact_names(tenant_id, raw) is not raw:
        raise InvalidInput("the idempotency_key holds a secret; choose another", field="idempotency_key")


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to run a call under a key."""

    tenant_id: str
    key: str
    owner: str


@dataclass(frozen=True, slots=True)
class EarlierAnswer:
    """The stored outcome of an earlier call under the same idempotency key."""

    state: Settled
    response: dict[str, Any]


class Claims:
    """The table of keys."""

    def __init__(
        self,
        database: Database,
        *,
        hash_body: HashBody = plain_hash,
        redact: Redact = keep_everything,
        redact_names: Redact = keep_everything,
        micros: Callable[[], int] = now_micros,
    ) -> None:
        self.database = database
        """Where keys are kept, and whatever else their transactions write."""
        self._hash_body = hash_body
        self._redact = redact
        self._redact_names = redact_names
        self._micros = micros

    def hash_text(self, tenant_id: str, text: bytes) -> str:
        """Return the hash that requests are compared by."""
        return self._hash_body(tenant_id, text)

    async def claim(  # noqa: PLR0913 - each by name
        self,
        tenant_id: str,
        key: str,
        *,
        tool_id: str,
        body: bytes,
        timeout_ms: int | None,
        along: Along | None = None,
        epoch: int | None = None,
        takes_key: bool = False,
        use: KeyUse | None = None,
    ) -> Claim | EarlierAnswer:
        """Take the key, or learn what came of it; raises if it is running or means something else.

        `along` runs in the transaction that takes the key, so that both happen or neither. Without a time
        limit the key belongs to what `along` stored, which others will do: it is not given up because time passed, nor
        because nobody knows whether the commit arrived. Of a call, `use` is kept for the history of the key.
        """
        owner = new_id()
        hashed = self._hash_body(tenant_id, request_body(tool_id, body))
        now = self._micros()

        wanted = {
            "tenant": tenant_id,
            "key": key,
            "hash": hashed,
            "owner": owner,
            "now": now,
            "epoch": epoch,
            "event": None if use is None else use.event_id,
        }

        def work(tx: Transaction) -> Row | None:
            refuse_secret_key(self._redact_names, tenant_id, key)
            taken = tx.execute(_INSERT, tool=tool_id, **wanted)
            before = 0 if timeout_ms is None else now - (timeout_ms + GRACE_MS) * 1000
            if not taken and takes_key:
                taken = tx.execute(
                    _TAKE_OVER.format(left=_UNANSWERED if epoch is None else _LOST_EPOCH), **wanted, before=before
                )
            if taken:
                if along is not None:
                    along(tx)
                return None
            self._expire(tx, tenant_id, key, before=before, epoch=epoch)
            found = tx.fetch_one(
                "SELECT body_hash, state, response, tool_id FROM idempotency_claims "
                "WHERE tenant_id = :tenant AND idempotency_key = :key",
                tenant=tenant_id,
                key=key,
            )
            if use is not None and found is not None:
                self._note_repeat(tx, tenant_id, key, _repeat_kind(found, hashed), use, tool_id=tool_id, at=now)
            return found

        try:
            row = await self.database.write(tenant_id, work)
        except StorageError as error:
            if error.details.get("commit") == "unknown" and timeout_ms is not None:
                await self._withdraw(Claim(tenant_id, key, owner))
            raise
        if row is None:
            return Claim(tenant_id, key, owner)
        if row["body_hash"] != hashed:
            raise IdempotencyConflict(
                f"idempotency key {key!r} was used for another request; use a new key for a new request",
                idempotency_key=key,
                tool_id=row["tool_id"],
            )
        if row["state"] == "running":
            raise CallInProgress(f"a call under key {key!r} is still running; ask again later", idempotency_key=key)
        return EarlierAnswer(row["state"], parse_json(row["response"] or "{}", field="response"))

    async def settle(
        self, claim: Claim, state: Settled, response: dict[str, Any], *, along: Along | None = None
    ) -> None:
        """Store the answer, redacted, for all requests with this key."""
        # What is said now is kept; looking for secrets in it may ask the store and happens on the store's thread.
        said = _members(response).encode()

        def work(tx: Transaction) -> None:
            text = self._redact(claim.tenant_id, said).decode()
            tx.execute(
                "UPDATE idempotency_claims SET state = :state, settled_at = :now, response = :response "
                "WHERE tenant_id = :tenant AND idempotency_key = :key AND owner = :owner",
                state=state,
                now=self._micros(),
                response=text,
                tenant=claim.tenant_id,
                key=claim.key,
                owner=claim.owner,
            )
            if along is not None:
                along(tx)

        await self.database.write(claim.tenant_id, work)

    async def release(self, claim: Claim, *, along: Along | None = None) -> None:
        """Free the key after a failure that may be tried again."""

        def work(tx: Transaction) -> None:
            tx.execute(
                "DELETE FROM idempotency_claims "
                "WHERE tenant_id = :tenant AND idempotency_key = :key AND owner = :owner",
                tenant=claim.tenant_id,
                key=claim.key,
                owner=claim.owner,
            )
            if along is not None:
                along(tx)

        await self.database.write(claim.tenant_id, work)

    def resolve(self, tx: Transaction, tenant_id: str, key: str, word: EffectWord, *, output: Any = None) -> None:
        """Keep a person's word on an unknown effect: it happened and gave `output`, or it did not and the key is free.

        Giving up leaves the effect unknown. The key must stand as unknown; the caller writes the audit entry.
        """
        found = tx.fetch_one(
            "SELECT state FROM idempotency_claims WHERE tenant_id = :tenant AND idempotency_key = :key",
            tenant=tenant_id,
            key=key,
        )
        if found is None:
            raise NotFound(f"no call was made under key {key!r}", idempotency_key=key)
        if found["state"] != "unknown":
            raise IllegalTransition(
                f"the call under key {key!r} is {found['state']}; only an unknown effect can be resolved",
                idempotency_key=key,
                state=found["state"],
            )
        if word == "happened":
            self._store_answer(tx, tenant_id, key, {"output": output})
        elif word == "did_not_happen":
            self.free(tx, tenant_id, key, state="unknown")

    def free(self, tx: Transaction, tenant_id: str, key: str, *, state: Literal["failed", "unknown"]) -> None:
        """Let a key be used again that stands so, because a person said so; one that stands otherwise stays."""
        tx.execute(
            "DELETE FROM idempotency_claims WHERE tenant_id = :tenant AND idempotency_key = :key AND state = :state",
            state=state,
            tenant=tenant_id,
            key=key,
        )

    def conclude(self, tx: Transaction, tenant_id: str, key: str, state: Settled, response: dict[str, Any]) -> None:
        """Keep what came of a key that outlives the process which took it; what is known for good stays."""
        tx.execute(
            "UPDATE idempotency_claims SET state = :state, settled_at = :now, response = :response "
            "WHERE tenant_id = :tenant AND idempotency_key = :key AND state IN ('running', 'unknown')",
            state=state,
            now=self._micros(),
            response=self._redact(tenant_id, _members(response).encode()).decode(),
            tenant=tenant_id,
            key=key,
        )

    def _store_answer(self, tx: Transaction, tenant_id: str, key: str, response: dict[str, Any]) -> None:
        tx.execute(
            "UPDATE idempotency_claims SET state = 'success', settled_at = :now, response = :response, owner = :owner "
            "WHERE tenant_id = :tenant AND idempotency_key = :key AND state = 'unknown'",
            now=self._micros(),
            response=self._redact(tenant_id, _members(response).encode()).decode(),
            owner=new_id(),  # whoever had the claim is too late to say anything else
            tenant=tenant_id,
            key=key,
        )

    def _note_repeat(
        self, tx: Transaction, tenant_id: str, key: str, kind: RepeatKind, use: KeyUse, *, tool_id: str, at: int
    ) -> None:
        """Keep for the history of a key that it was named again; names are redacted as those of an event are."""

        def clean(name: str) -> str:
            return self._redact_names(tenant_id, clean_text(name).encode()).decode()

        caller = None if use.caller is None else clean(use.caller)
        told = KeyUse(use.event_id, clean(use.session_id), caller)
        note_repeat(tx, tenant_id, key, kind, told, tool_id=tool_id, at=at)

    async def _withdraw(self, claim: Claim) -> None:
        """Withdraw a claim whose commit is uncertain: nothing was sent under it, so it must not stay."""
        with suppress(TwinRavenError):
            await self.release(claim)

    def _expire(self, tx: Transaction, tenant_id: str, key: str, *, before: int, epoch: int | None) -> None:
        tx.execute(
            "UPDATE idempotency_claims SET state = 'unknown', settled_at = :now, response = :response "
            "WHERE tenant_id = :tenant AND idempotency_key = :key AND state = 'running' "
            "AND (claimed_at < :before OR epoch < :epoch)",
            now=self._micros(),
            response=_members({"error": {**_LOST, "details": {"idempotency_key": key}}}),
            tenant=tenant_id,
            key=key,
            before=before,
            epoch=0 if epoch is None else epoch,
        )


def _repeat_kind(claim: Row, hashed: str) -> RepeatKind:
    """Return what came of a request under a key that was taken."""
    if claim["body_hash"] != hashed:
        return "conflict"
    return "running" if claim["state"] == "running" else "replayed"


def _members(response: dict[str, Any]) -> str:
    """Encode an object as JSON, each member by itself: an output may already be as deep as JSON may."""
    members = (f'"{name}":{canonical_json(to_json_value(value)).decode()}' for name, value in response.items())
    return "{" + ",".join(members) + "}"


_LOST: dict[str, Any] = {
    "code": "EFFECT_UNKNOWN",
    "message": "the process that ran this call ended before it could say what happened; look before you try again",
    "retryable": False,
}

_INSERT = """
    INSERT INTO idempotency_claims
        (tenant_id, idempotency_key, tool_id, body_hash, state, owner, claimed_at, epoch, event_id)
    VALUES (:tenant, :key, :tool, :hash, 'running', :owner, :now, :epoch, :event) ON CONFLICT DO NOTHING"""

_TAKE_OVER = """
    UPDATE idempotency_claims
    SET state = 'running', owner = :owner, claimed_at = :now, epoch = :epoch, settled_at = NULL, response = NULL,
        event_id = :event
    WHERE tenant_id = :tenant AND idempotency_key = :key AND body_hash = :hash AND {left}"""
_LOST_EPOCH = "state IN ('running', 'unknown') AND epoch < :epoch"
_UNANSWERED = "epoch IS NULL AND (state = 'unknown' OR (state = 'running' AND claimed_at < :before))"
