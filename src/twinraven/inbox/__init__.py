"""Lists everything that waits for a person's decision: the inbox.

Calls that policy leaves to people, questions of runs, effects whose end nobody knows, learned tools and changed tools
are each kept by the part they belong to. An inbox item is derived from what is kept there and stored nowhere else, so
that the two cannot disagree. An item carries the hash of exactly what it shows, and a decision names that hash. The one
thing kept here is who is looking at an item just now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.inbox.model import (
        ITEM_KINDS,
        SHORTEST_HASH,
        InboxAnswer,
        InboxChoice,
        InboxItem,
        ItemCost,
        ItemHold,
        ItemKind,
        ItemState,
        Reservation,
    )
    from twinraven.inbox.reservations import Reservations
    from twinraven.inbox.service import Inbox
    from twinraven.inbox.source import InboxSource
    from twinraven.inbox.sources.calls import CallApprovals
    from twinraven.inbox.sources.duplicates import EntityDuplicates
    from twinraven.inbox.sources.effects import UnknownEffects
    from twinraven.inbox.sources.judgements import EscalatedJudgements
    from twinraven.inbox.sources.learned import LearnedToolReviews
    from twinraven.inbox.sources.runs import RunQuestions, UnknownStepEffects
    from twinraven.inbox.sources.upstream import ChangedUpstreamTools

__all__ = [
    "ITEM_KINDS",
    "SHORTEST_HASH",
    "CallApprovals",
    "ChangedUpstreamTools",
    "EntityDuplicates",
    "EscalatedJudgements",
    "Inbox",
    "InboxAnswer",
    "InboxChoice",
    "InboxItem",
    "InboxSource",
    "ItemCost",
    "ItemHold",
    "ItemKind",
    "ItemState",
    "LearnedToolReviews",
    "Reservation",
    "Reservations",
    "RunQuestions",
    "UnknownEffects",
    "UnknownStepEffects",
]


__getattr__ = lazy_names(__name__)
