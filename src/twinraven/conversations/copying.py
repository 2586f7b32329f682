"""Copies an active path into another conversation, for a fork.

Each place becomes a turn with one alternative, with its content and EXECUTED_BY. Quotes stay behind: they are no part
of the path, and a conversation refers to nothing outside itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from twinraven.conversations.building import Executor, NewAlternative, TreeBuilder
from twinraven.conversations.sql import AnswerOutcome, ConversationStore
from twinraven.foundation.canonical import parse_json
from twinraven.storage import Row, Transaction


def copy_path(
    store: ConversationStore, tx: Transaction, tenant_id: str, conversation_id: str, path: Sequence[Row], *, now: int
) -> str | None:
    """Copy the places of a path, the root first; gives the last turn of the copy."""
    tree = TreeBuilder(store, tx, tenant_id, conversation_id, now)
    last: str | None = None
    for row in path:
        made = None
        if row["process_id"] is not None:
            made = Executor(row["process_id"], row["process_version"], row["run_id"])
        error = None if row["error"] is None else parse_json(row["error"], field="error")
        said = AnswerOutcome(row["content"], error, row["tokens"])
        last, _ = tree.add_turn(last, row["speaker"], row["turn_type"], NewAlternative(said=said, made_by=made))
    return last
