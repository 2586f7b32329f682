"""Reads the envelopes of planners, workers and judges, and keeps each as it was sent, once per idempotency key.

An envelope is checked as the common envelope first, which names a missing tenant or key, then against the schema of
its type. The same key with the same body is answered as it was the first time; with another body it is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, Final, cast

import orjson

from twinraven.calls import Envelope
from twinraven.foundation.canonical import canonical_json, content_hash, parse_json, to_json_value
from twinraven.foundation.correlation import correlation_or_new
from twinraven.foundation.errors import IdempotencyConflict, InvalidInput, NotFound
from twinraven.foundation.json_schema import Schema, compile_schema
from twinraven.governance.model import Lineage, Task
from twinraven.governance.work.contracts import ENVELOPE_SCHEMAS
from twinraven.governance.work.result_sql import ResultStore
from twinraven.storage import Row, Transaction
from twinraven.tenancy import Principal

MAX_ENVELOPE_BYTES: Final = 1_000_000
HoldsSecret = Callable[[str, bytes], bool]
_FRESH: Final = ("id", "created_at", "correlation_id")
"""What a sender may write anew when it sends an envelope again."""


@cache
def _schema(kind: str) -> Schema:
    return compile_schema(ENVELOPE_SCHEMAS[kind])


def read_envelope(body: Any, kind: str, *, tenant_id: str, holds_secret: HoldsSecret) -> Envelope:
    """Read an envelope of this type that fits its schema and belongs to the tenant of who sent it."""
    if not isinstance(body, dict):
        raise InvalidInput("an envelope is a JSON object", field="envelope")
    stated = cast("dict[str, Any]", body)
    text = canonical_json(stated)
    if len(text) > MAX_ENVELOPE_BYTES:
        raise InvalidInput(
            f"an envelope has at most {MAX_ENVELOPE_BYTES} bytes, this one {len(text)}; "
            "store what is large as a media asset and name it in content_ref",
            field="payload",
        )
    if stated.get("type") != kind:
        raise InvalidInput(f"type must be {kind!r}", field="type")
    envelope = Envelope.from_json(stated)
    if envelope.tenant_id != tenant_id:
        raise NotFound(f"there is no tenant {envelope.tenant_id!r} here", field="tenant_id")
    _schema(kind).check(stated, field="envelope")
    if holds_secret(tenant_id, text):
        raise InvalidInput("the envelope holds a secret of the tenant; name the secret instead", field="payload")
    if envelope.correlation_id is None:
        return replace(envelope, correlation_id=correlation_or_new())
    return envelope


def refuse_foreign(envelope: Envelope, task: Task) -> None:
    """Refuse an envelope about a task that names another task, or a campaign or a goal that is not the task's."""
    for name in ("task_id", "campaign_id", "goal_id"):
        stated = getattr(envelope, name)
        if stated is not None and stated != getattr(task, name):
            raise NotFound(f"what the envelope is about is not of {name} {stated!r}", field=name)


class EnvelopeLog:
    """Keeps envelopes as they were sent, and what each was answered."""

    def __init__(self, results: ResultStore) -> None:
        self._results = results

    def earlier(self, tx: Transaction, envelope: Envelope) -> dict[str, Any] | None:
        """Return the earlier answer to the same envelope; None for a new one, IdempotencyConflict for another body."""
        row = self._results.envelope_of_key(tx, str(envelope.tenant_id), envelope.type, str(envelope.idempotency_key))
        if row is None:
            self._refuse_taken(tx, envelope)
            return None
        if row["body_hash"] != body_hash(envelope):
            raise IdempotencyConflict(
                f"the idempotency_key {envelope.idempotency_key!r} was used for another {envelope.type}",
                idempotency_key=envelope.idempotency_key,
                envelope_id=row["envelope_id"],
            )
        return parse_json(row["answer"], field="answer")

    def _refuse_taken(self, tx: Transaction, envelope: Envelope) -> None:
        if self._results.envelope(tx, str(envelope.tenant_id), envelope.id) is not None:
            raise IdempotencyConflict(
                f"the envelope {envelope.id!r} was sent before under another idempotency_key", envelope_id=envelope.id
            )

    def keep(
        self,
        tx: Transaction,
        envelope: Envelope,
        answer: dict[str, Any],
        *,
        lineage: Lineage,
        sent_by: str,
        now: int,
    ) -> None:
        """Store an envelope with its answer and with what it is about, which its sender need not have named."""
        self._results.add_envelope(
            tx,
            {
                "tenant_id": envelope.tenant_id,
                "envelope_id": envelope.id,
                "type": envelope.type,
                "role": envelope.role,
                "status": envelope.status,
                "campaign_id": lineage.campaign_id,
                "goal_id": lineage.goal_id,
                "task_id": lineage.task_id,
                "idempotency_key": envelope.idempotency_key,
                "correlation_id": envelope.correlation_id or correlation_or_new(),
                "body": orjson.dumps(to_json_value(envelope.as_sent())).decode(),
                "body_hash": body_hash(envelope),
                "answer": orjson.dumps(answer).decode(),
                "sent_by": sent_by,
                "received_at": now,
            },
        )


def body_hash(envelope: Envelope) -> str:
    """Hash the body of an envelope; another id, time or correlation is no other body."""
    body = {name: value for name, value in envelope.as_json().items() if name not in _FRESH}
    score = envelope.confidence_score
    if isinstance(score, float) and score.is_integer():
        body["confidence_score"] = int(score)  # the same canonical text, which the fast encoder writes
    return content_hash(canonical_json(body))


def shown_envelope(row: Row) -> dict[str, Any]:
    """Return a kept envelope as it was sent; what its sender left out is filled in."""
    return parse_json(row["body"], field="body")


def sender(by: Principal) -> str:
    """Return the actor that is recorded for an envelope."""
    return str(by.actor)
