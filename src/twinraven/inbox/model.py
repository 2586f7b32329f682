"""Defines an inbox item: what will happen, to what, why it is asked, what it costs, and the evidence. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final, Literal, get_args

from twinraven.foundation.canonical import canonical_json, content_hash
from twinraven.foundation.clock import iso
from twinraven.governance import format_minor
from twinraven.tenancy import Principal

ItemKind = Literal[
    "call", "question", "unknown_step", "learned_tool", "changed_tool", "duplicate", "judgement", "unknown_effect"
]
"""A call to approve, a run's question, a step whose end is unknown, a learned tool that waits, a tool that describes
itself otherwise, two entities that may be one, an escalated decision, an effect whose provider gave no answer."""

ItemState = Literal["open", "decided", "expired"]

ITEM_KINDS: Final[tuple[ItemKind, ...]] = get_args(ItemKind)
SHORTEST_HASH: Final = 12
"""How many characters of the hash a person must repeat at least."""


@dataclass(frozen=True, slots=True)
class ItemCost:
    """The cost of approving: money in minor units, or tokens."""

    amount_minor: int | None = None
    currency: str | None = None
    tokens: int | None = None

    def as_json(self) -> dict[str, Any]:
        has_amount = self.amount_minor is not None and self.currency is not None
        return {
            "amount_minor": self.amount_minor,
            "amount": format_minor(self.amount_minor or 0, self.currency or "") if has_amount else None,
            "currency": self.currency,
            "tokens": self.tokens,
        }


@dataclass(frozen=True, slots=True)
class ItemHold:
    """Money that is held until an item is decided."""

    amount_minor: int
    currency: str
    wallet_id: str
    budget_id: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "amount": format_minor(self.amount_minor, self.currency),
            "currency": self.currency,
            "wallet_id": self.wallet_id,
            "budget_id": self.budget_id,
        }


@dataclass(frozen=True, slots=True)
class InboxChoice:
    """One thing that can be decided, and what has to be said with it."""

    name: str
    summary: str
    needs: Literal["nothing", "note", "answer"] = "nothing"
    answer_schema: Mapping[str, Any] | None = None
    """What an answer must look like, where one is taken."""

    def as_json(self) -> dict[str, Any]:
        schema = None if self.answer_schema is None else dict(self.answer_schema)
        return {"name": self.name, "summary": self.summary, "needs": self.needs, "answer_schema": schema}


@dataclass(frozen=True)
class InboxItem:
    """An item that waits for a person's decision, as it is shown."""

    tenant_id: str
    kind: ItemKind
    ref: str
    """What the kind's own part calls it."""
    what: str
    """What will happen, in a sentence."""
    target: str
    """To what: the tool, the run, the wallet, the channel."""
    why: str
    """Why a person is asked."""
    choices: tuple[InboxChoice, ...]
    asked_at: datetime
    evidence: Mapping[str, Any] = field(default_factory=dict[str, Any])
    cost: ItemCost | None = None
    """None without a price."""
    holds: ItemHold | None = None
    """What of a wallet and a budget cannot be spent as long as it waits."""
    requested_by: str | None = None
    expires_at: datetime | None = None
    """None for what stays until it is decided, because nothing happens before that."""
    state: ItemState = "open"
    decision: str | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    correlation_id: str | None = None
    addressees: frozenset[str] = frozenset()
    """Users who may decide it without being approvers."""

    @property
    def item_id(self) -> str:
        """The kind and what its part calls it: a name for what is stored there, not a record of its own."""
        return f"{self.kind}:{self.ref}"

    @cached_property
    def bound_to(self) -> str:
        """The hash of exactly what a decision is about."""
        return content_hash(canonical_json(self._subject()))

    @property
    def version(self) -> str:
        """The hash as a whole number, for entity tags; what was decided is another version."""
        number = int(content_hash(f"{self.bound_to}\0{self.state}".encode())[:14], 16)
        return str(1 + number)

    def is_for(self, who: Principal) -> bool:
        """Return whether a principal sees it and may decide it."""
        return who.tenant_id == self.tenant_id and (who.may_decide or who.user_id in self.addressees)

    def choice(self, name: str) -> InboxChoice | None:
        return next((each for each in self.choices if each.name == name), None)

    def as_json(self) -> dict[str, Any]:
        return {
            "item_id": self.item_id,
            "tenant_id": self.tenant_id,
            **self._subject(),
            "bound_to": self.bound_to,
            "holds": None if self.holds is None else self.holds.as_json(),
            "asked_at": iso(self.asked_at),
            "requested_by": self.requested_by,
            "state": self.state,
            "decision": self.decision,
            "decided_by": self.decided_by,
            "decided_at": None if self.decided_at is None else iso(self.decided_at),
            "correlation_id": self.correlation_id,
        }

    def _subject(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "ref": self.ref,
            "what": self.what,
            "target": self.target,
            "why": self.why,
            "cost": None if self.cost is None else self.cost.as_json(),
            "evidence": dict(self.evidence),
            "choices": [choice.as_json() for choice in self.choices],
            "expires_at": None if self.expires_at is None else iso(self.expires_at),
        }


@dataclass(frozen=True, slots=True)
class Reservation:
    """Says that a user is looking at an item, and until when that holds; it keeps nobody from deciding."""

    item_id: str
    user_id: str
    since: datetime
    until: datetime

    def as_json(self) -> dict[str, Any]:
        return {
            "item_id": self.item_id,
            "user_id": self.user_id,
            "since": iso(self.since),
            "until": iso(self.until),
        }


@dataclass(frozen=True, slots=True)
class InboxAnswer:
    """A person's decision, and the hash of what they saw."""

    choice: str
    bound_to: str
    note: str = ""
    answer: Any = None
