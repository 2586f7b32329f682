"""Turns requests into intents: the payload, the columns it is stored in, and its limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from twinraven.effects.model import EffectKind, MessageRequest, PaymentRequest, PublishRequest
from twinraven.foundation.clock import iso, to_micros
from twinraven.foundation.errors import InvalidInput
from twinraven.governance import Money, check_currency, parse_minor
from twinraven.muninn import check_name

LONGEST_TEXT: Final = 100_000
LONGEST_WORDS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Intent:
    """An effect as it will be stored and sent."""

    kind: EffectKind
    task_id: str
    key: str
    request: dict[str, Any]
    """Exactly what a provider is given."""
    columns: dict[str, Any]
    channel: str | None = None
    amount: Money | None = None
    checks: tuple[Callable[[], object], ...] = field(default=(), repr=False)

    def check(self) -> None:
        """Refuse what cannot be stored or sent, naming the field."""
        check_name(self.key, field="idempotency_key", limit=200)
        check_name(self.task_id, field="task_id", limit=200)
        for each in self.checks:
            each()


def publish_intent(wish: PublishRequest, provider: str, disclosure: str | None) -> Intent:
    """Return a publication: its text, and under it the words that tell readers how it was made."""
    said = wish.disclosure if wish.disclosure is not None else disclosure
    text = wish.text if not said else f"{wish.text}\n\n{said}"
    request = {
        **_spoken_by(wish.persona_id),
        "channel": wish.channel,
        "text": text,
        "disclosure": said or None,
        "media_asset_id": wish.media_asset_id,
        "scheduled_at": None if wish.scheduled_at is None else iso(wish.scheduled_at),
    }
    return Intent(
        kind="publish",
        task_id=wish.task_id,
        key=wish.idempotency_key,
        request=request,
        columns={
            "channel": wish.channel,
            "provider": provider,
            "scheduled_at": _micros(wish.scheduled_at),
            "media_asset_id": wish.media_asset_id,
            "disclosure_applied": int(bool(said)),
        },
        channel=wish.channel,
        checks=(
            lambda: check_name(wish.channel, field="channel", limit=200),
            lambda: _check_text(wish.text, "text", LONGEST_TEXT),
            lambda: _check_text(said or "-", "disclosure", LONGEST_WORDS),
            lambda: _check_persona(wish.persona_id),
        ),
    )


def message_intent(wish: MessageRequest, provider: str) -> Intent:
    """Return a message to a person or a channel."""
    return Intent(
        kind="message",
        task_id=wish.task_id,
        key=wish.idempotency_key,
        request={
            **_spoken_by(wish.persona_id),
            "channel": wish.channel,
            "recipient": wish.recipient,
            "text": wish.text,
            "scheduled_at": None if wish.scheduled_at is None else iso(wish.scheduled_at),
        },
        columns={
            "channel": wish.channel,
            "provider": provider,
            "scheduled_at": _micros(wish.scheduled_at),
            "recipient": wish.recipient,
        },
        channel=wish.channel,
        checks=(
            lambda: check_name(wish.channel, field="channel", limit=200),
            lambda: check_name(wish.recipient, field="recipient", limit=500),
            lambda: _check_text(wish.text, "text", LONGEST_TEXT),
            lambda: _check_persona(wish.persona_id),
        ),
    )


def payment_intent(wish: PaymentRequest) -> Intent:
    """Return a payment: the amount is read exactly, in the smallest unit of its currency."""
    currency = check_currency(wish.currency)
    amount = parse_minor(wish.amount, currency)
    if amount == 0:
        raise InvalidInput("amount must be more than nothing", field="amount")
    return Intent(
        kind="transaction",
        task_id=wish.task_id,
        key=wish.idempotency_key,
        request={
            "wallet_id": wish.wallet_id,
            "amount": wish.amount,
            "amount_minor": amount,
            "currency": currency,
            "counterparty": wish.counterparty,
            "description": wish.description,
            "budget_id": wish.budget_id,
        },
        columns={
            "wallet_id": wish.wallet_id,
            "budget_id": wish.budget_id,
            "direction": "debit",
            "amount": amount,
            "currency": currency,
            "counterparty": wish.counterparty,
            "description": wish.description,
        },
        amount=Money(amount, currency),
        checks=(
            lambda: check_name(wish.wallet_id, field="wallet_id", limit=200),
            lambda: check_name(wish.counterparty, field="counterparty", limit=500),
            lambda: _check_text(wish.description or "-", "description", LONGEST_WORDS),
        ),
    )


def _spoken_by(persona_id: str | None) -> dict[str, str]:
    """Return the persona as a part of what is sent; what names none is sent, and compared, as it always was."""
    return {} if persona_id is None else {"persona_id": persona_id}


def _check_persona(persona_id: str | None) -> None:
    if persona_id is not None:
        check_name(persona_id, field="persona_id", limit=200)


def _check_text(text: str, name: str, limit: int) -> None:
    if not text.strip() or "\0" in text:
        raise InvalidInput(f"{name} must hold some text, without NUL characters", field=name)
    if len(text) > limit:
        raise InvalidInput(
            f"{name} has {len(text)} characters and may have {limit}; keep media as an asset and name it", field=name
        )


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment, field="scheduled_at")
