"""Declares which status may follow which, in one table for each kind of thing that has one.

The database holds the same tables as triggers; docs/governance.md shows them, written by `state_tables`. What never
changes once it is there (specs, results, decisions, media assets, audit entries) has no table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from twinraven.foundation.errors import IllegalTransition

CampaignStatus = Literal["active", "paused", "complete", "cancelled"]
GoalStatus = Literal["pending", "in_progress", "complete", "failed", "cancelled"]
TaskStatus = Literal["pending", "in_progress", "review", "escalated", "complete", "rejected", "failed", "cancelled"]
WorkerRunStatus = Literal["queued", "in_progress", "complete", "failed", "cancelled"]
PublishStatus = Literal["scheduled", "sending", "unknown", "published", "failed", "cancelled"]
MessageStatus = Literal["scheduled", "sending", "unknown", "sent", "failed", "cancelled"]
WalletStatus = Literal["open", "frozen", "closed"]
TransactionStatus = Literal["pending", "approved", "sending", "unknown", "executed", "failed", "cancelled"]
BudgetStatus = Literal["open", "closed"]

Transitions = Mapping[str, frozenset[str]]


def _table(**rows: str) -> Transitions:
    return {before: frozenset(after.split()) for before, after in rows.items()}


CAMPAIGN: Final = _table(
    active="paused complete cancelled",
    paused="active complete cancelled",
    complete="",
    cancelled="",
)
GOAL: Final = _table(
    pending="in_progress cancelled",
    in_progress="complete failed cancelled",
    complete="in_progress",
    failed="in_progress cancelled",
    cancelled="",
)
TASK: Final = _table(
    pending="in_progress failed cancelled",
    in_progress="review pending failed cancelled",
    review="complete pending rejected escalated cancelled",
    escalated="complete pending rejected cancelled",
    complete="pending rejected escalated",
    rejected="pending complete escalated cancelled",
    failed="pending cancelled",
    cancelled="",
)
WORKER_RUN: Final = _table(
    queued="in_progress cancelled",
    in_progress="complete failed cancelled",
    complete="",
    failed="",
    cancelled="",
)
PUBLISH_EVENT: Final = _table(
    scheduled="sending failed cancelled",
    sending="published failed unknown",
    unknown="published failed",
    published="",
    failed="sending cancelled",
    cancelled="",
)
MESSAGE: Final = _table(
    scheduled="sending failed cancelled",
    sending="sent failed unknown",
    unknown="sent failed",
    sent="",
    failed="sending cancelled",
    cancelled="",
)
WALLET: Final = _table(open="frozen closed", frozen="open closed", closed="")
TRANSACTION: Final = _table(
    pending="approved failed cancelled",
    approved="sending executed failed cancelled",
    sending="executed failed unknown",
    unknown="executed failed",
    executed="",
    failed="",
    cancelled="",
)
BUDGET: Final = _table(open="closed", closed="open")

TABLES: Final[Mapping[str, tuple[str, Transitions]]] = {
    "campaign": ("campaigns", CAMPAIGN),
    "goal": ("goals", GOAL),
    "task": ("tasks", TASK),
    "worker run": ("worker_runs", WORKER_RUN),
    "publish event": ("publish_events", PUBLISH_EVENT),
    "message": ("outgoing_messages", MESSAGE),
    "wallet": ("wallets", WALLET),
    "transaction": ("transactions", TRANSACTION),
    "budget": ("budgets", BUDGET),
}
"""By the word people use: the database table, and what may follow what."""


def check_transition(kind: str, subject_id: str, before: str, after: str) -> None:
    """Refuse a status that cannot follow the one before; staying as it is, is no transition."""
    _, transitions = TABLES[kind]
    if after not in transitions[before]:
        allowed = ", ".join(sorted(transitions[before])) or "nothing else"
        raise IllegalTransition(
            f"{kind} {subject_id!r} is {before} and can become {allowed}, not {after}",
            subject=kind,
            subject_id=subject_id,
            status=before,
            wanted=after,
        )


def state_tables() -> str:
    """Return the transitions of everything that has a status, as Markdown."""
    lines: list[str] = []
    for kind, (_, transitions) in TABLES.items():
        lines += [f"| {kind} | may become |", "|---|---|"]
        lines += [f"| `{before}` | {_words(transitions[before])} |" for before in transitions]
        lines.append("")
    return "\n".join(lines)


def _words(after: frozenset[str]) -> str:
    return ", ".join(f"`{word}`" for word in sorted(after)) or "nothing else"
