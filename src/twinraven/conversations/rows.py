"""Reads conversations, turns and alternatives from rows."""

from __future__ import annotations

from twinraven.conversations.model import Alternative, Conversation, ConversationTurn, ForkOrigin
from twinraven.foundation.canonical import parse_json
from twinraven.foundation.clock import from_micros
from twinraven.storage import Row


def to_conversation(row: Row) -> Conversation:
    """Return a conversation from its columns."""
    origin = None
    if row["forked_from"] is not None:
        origin = ForkOrigin(row["forked_from"], row["origin_turn"], row["origin_alternative"])
    return Conversation(
        tenant_id=row["tenant_id"],
        conversation_id=row["conversation_id"],
        owner_id=row["owner_id"],
        title=row["title"],
        status=row["status"],
        created_at=from_micros(row["created_at"]),
        updated_at=from_micros(row["updated_at"]),
        default_process=row["default_process"],
        default_since=None if row["default_since"] is None else from_micros(row["default_since"]),
        forked_from=origin,
        current_turn_id=row["current_turn"],
    )


def to_turn(row: Row) -> ConversationTurn:
    """Return a turn from its columns, without alternatives."""
    return ConversationTurn(
        turn_id=row["turn_id"],
        conversation_id=row["conversation_id"],
        number=row["number"],
        speaker=row["speaker"],
        turn_type=row["turn_type"],
        sequence=row["sequence"],
        parent_turn=row["parent_turn"],
        via_alternative=row["via_alternative"],
        created_at=from_micros(row["created_at"]),
    )


def to_alternative(row: Row, quotes: tuple[str, ...]) -> Alternative:
    """Return an alternative from its columns, what it came to and what is derived."""
    return Alternative(
        alternative_id=row["alternative_id"],
        turn_id=row["turn_id"],
        speaker=row["speaker"],
        sequence=row["sequence"],
        is_active=row["is_active"] == 1,
        responds_to=row["responds_to"],
        created_at=from_micros(row["created_at"]),
        has_children=row["has_children"] == 1,
        answers_active=row["answers_active"] == 1,
        content=row["content"],
        error=None if row["error"] is None else parse_json(row["error"], field="error"),
        tokens=row["tokens"] or 0,
        settled_at=None if row["settled_at"] is None else from_micros(row["settled_at"]),
        process_id=row["process_id"],
        process_version=row["process_version"],
        run_id=row["run_id"],
        episode_id=row["episode_id"],
        quotes=quotes,
    )
