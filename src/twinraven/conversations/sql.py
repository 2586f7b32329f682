"""Stores conversations, turns and alternatives; every statement names its tenant.

A path is read upwards, one turn to its parent, by keys alone: what it costs depends on its length and not on the tree
around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from twinraven.conversations.model import Alternative, Conversation, ConversationTurn
from twinraven.conversations.rows import to_alternative, to_conversation, to_turn
from twinraven.foundation.canonical import canonical_json
from twinraven.storage import Row, Transaction

_CONVERSATION: Final = (
    "tenant_id, conversation_id, owner_id, title, status, default_process, default_since, forked_from, origin_turn, "
    "origin_alternative, current_turn, created_at, updated_at"
)
_TURN: Final = (
    "turn_id, conversation_id, number, speaker, turn_type, sequence, parent_turn, via_alternative, created_at"
)
_ALTERNATIVE: Final = (
    "SELECT a.alternative_id, a.turn_id, a.speaker, a.sequence, a.is_active, a.responds_to, a.created_at, "
    "a.process_id, a.process_version, a.run_id, o.content, o.error, o.tokens, o.settled_at, e.episode_id, "
    "CASE WHEN EXISTS (SELECT 1 FROM alternatives c WHERE c.tenant_id = a.tenant_id "
    "AND c.responds_to = a.alternative_id) THEN 1 ELSE 0 END AS has_children, "
    "COALESCE((SELECT p.is_active FROM alternatives p WHERE p.tenant_id = a.tenant_id "
    "AND p.alternative_id = a.responds_to), 1) AS answers_active FROM alternatives a "
    "LEFT JOIN alternative_outcomes o ON o.tenant_id = a.tenant_id AND o.alternative_id = a.alternative_id "
    "LEFT JOIN alternative_episodes e ON e.tenant_id = a.tenant_id AND e.alternative_id = a.alternative_id "
    "WHERE a.tenant_id = :tenant"
)
_ON_PATH: Final = "turn_id, parent_turn, speaker, turn_type, sequence, created_at"
# Outer joins keep the order of the tables: inner ones let SQLite begin with all turns of the tenant. Every turn has an
# active alternative, so that nothing comes of it but speed.
_PATH: Final = (
    f"WITH RECURSIVE path ({_ON_PATH}) AS ("
    f"SELECT {_ON_PATH} FROM conversation_turns WHERE tenant_id = :tenant AND turn_id = :turn UNION ALL "
    f"SELECT {', '.join(f't.{name}' for name in _ON_PATH.split(', '))} FROM path p JOIN conversation_turns t "
    "ON t.tenant_id = :tenant AND t.turn_id = p.parent_turn) "
    "SELECT p.turn_id, p.speaker, p.turn_type, p.sequence, p.created_at AS begun_at, a.alternative_id, a.responds_to, "
    "a.process_id, a.process_version, a.run_id, o.content, o.error, o.tokens, o.settled_at, e.episode_id FROM path p "
    "LEFT JOIN alternatives a ON a.tenant_id = :tenant AND a.turn_id = p.turn_id AND a.is_active = 1 "
    "LEFT JOIN alternative_outcomes o ON o.tenant_id = :tenant AND o.alternative_id = a.alternative_id "
    "LEFT JOIN alternative_episodes e ON e.tenant_id = :tenant AND e.alternative_id = a.alternative_id "
    "ORDER BY p.sequence"
)
_DEEPEST: Final = (
    "WITH RECURSIVE down (turn_id, alternative_id, depth) AS ("
    "SELECT turn_id, alternative_id, 0 FROM alternatives "
    "WHERE tenant_id = :tenant AND turn_id = :turn AND is_active = 1 UNION ALL "
    "SELECT a.turn_id, a.alternative_id, d.depth + 1 FROM down d JOIN alternatives a ON a.tenant_id = :tenant "
    "AND a.alternative_id = (SELECT c.alternative_id FROM alternatives c WHERE c.tenant_id = :tenant "
    "AND c.responds_to = d.alternative_id AND c.is_active = 1 ORDER BY c.number DESC LIMIT 1)) "
    "SELECT turn_id FROM down ORDER BY depth DESC LIMIT 1"
)
_UNBOUND: Final = (
    "SELECT a.alternative_id, t.speaker, t.turn_type, a.process_id, o.content, o.settled_at "
    "FROM alternatives a JOIN conversation_turns t ON t.tenant_id = a.tenant_id AND t.turn_id = a.turn_id "
    "JOIN alternative_outcomes o ON o.tenant_id = a.tenant_id AND o.alternative_id = a.alternative_id "
    "WHERE a.tenant_id = :tenant AND a.conversation_id = :conversation AND o.content IS NOT NULL "
    "AND t.turn_type <> 'summary' AND NOT EXISTS (SELECT 1 FROM alternative_episodes e "
    "WHERE e.tenant_id = a.tenant_id AND e.alternative_id = a.alternative_id) ORDER BY a.number LIMIT :limit"
)


class AnswerOutcome(NamedTuple):
    """The outcome of an alternative: content or an error."""

    content: str | None
    error: dict[str, Any] | None
    tokens: int


OTHERS_CONVERSATIONS: Final = (
    "SELECT conversation_id FROM conversations WHERE tenant_id = :tenant AND owner_id <> :viewer"
)
"""The groups of episodes of other users, which are kept hidden."""


class ConversationStore:
    """The tables of conversations."""

    def insert(self, tx: Transaction, table: str, row: dict[str, Any]) -> None:
        tx.insert_rows(table, tuple(row), [tuple(row.values())])

    def find(self, tx: Transaction, tenant_id: str, conversation_id: str) -> Conversation | None:
        row = tx.fetch_one(
            f"SELECT {_CONVERSATION} FROM conversations WHERE tenant_id = :tenant AND conversation_id = :id",
            tenant=tenant_id,
            id=conversation_id,
        )
        return None if row is None else to_conversation(row)

    def listing(
        self,
        tx: Transaction,
        tenant_id: str,
        *,
        owner: str | None,
        status: str | None,
        limit: int,
        before: tuple[int, str] | None,
    ) -> list[Conversation]:
        """List conversations, the last changed first."""
        where, values = "", dict[str, Any]()
        for name, value in (("owner_id", owner), ("status", status)):
            if value is not None:
                where, values[name] = f"{where} AND {name} = :{name}", value
        if before is not None:
            where += " AND (updated_at, conversation_id) < (:at, :id)"
            values |= {"at": before[0], "id": before[1]}
        rows = tx.fetch_all(
            f"SELECT {_CONVERSATION} FROM conversations WHERE tenant_id = :tenant{where} "
            "ORDER BY updated_at DESC, conversation_id DESC LIMIT :limit",
            tenant=tenant_id,
            limit=limit,
            **values,
        )
        return [to_conversation(row) for row in rows]

    def change(self, tx: Transaction, tenant_id: str, conversation_id: str, *, now: int, **columns: Any) -> int:
        """Change columns of a conversation and count the change; the count is the number of what is added next."""
        text = "".join(f", {name} = :{name}" for name in columns)
        tx.execute(
            f"UPDATE conversations SET changes = changes + 1, updated_at = :now{text} "
            "WHERE tenant_id = :tenant AND conversation_id = :id",
            tenant=tenant_id,
            id=conversation_id,
            now=now,
            **columns,
        )
        row = tx.fetch_one(
            "SELECT changes FROM conversations WHERE tenant_id = :tenant AND conversation_id = :id",
            tenant=tenant_id,
            id=conversation_id,
        )
        assert row is not None
        return row["changes"]

    def turn(self, tx: Transaction, tenant_id: str, turn_id: str) -> ConversationTurn | None:
        """Return a turn with all its alternatives."""
        row = tx.fetch_one(
            f"SELECT {_TURN} FROM conversation_turns WHERE tenant_id = :tenant AND turn_id = :turn",
            tenant=tenant_id,
            turn=turn_id,
        )
        if row is None:
            return None
        return to_turn(row).with_alternatives(tuple(self.alternatives(tx, tenant_id, turn_id)))

    def turns(
        self, tx: Transaction, tenant_id: str, conversation_id: str, *, limit: int, after: int
    ) -> list[ConversationTurn]:
        """Turns in the order of their arrival, with their alternatives."""
        rows = tx.fetch_all(
            f"SELECT {_TURN} FROM conversation_turns WHERE tenant_id = :tenant AND conversation_id = :id "
            "AND number > :after ORDER BY number LIMIT :limit",
            tenant=tenant_id,
            id=conversation_id,
            after=after,
            limit=limit,
        )
        return [to_turn(row).with_alternatives(tuple(self.alternatives(tx, tenant_id, row["turn_id"]))) for row in rows]

    def alternatives(self, tx: Transaction, tenant_id: str, turn_id: str) -> list[Alternative]:
        rows = tx.fetch_all(f"{_ALTERNATIVE} AND a.turn_id = :turn ORDER BY a.sequence", tenant=tenant_id, turn=turn_id)
        quotes = self._quotes(tx, tenant_id, "a.turn_id = :key", turn_id)
        return [to_alternative(row, quotes.get(row["alternative_id"], ())) for row in rows]

    def alternative(self, tx: Transaction, tenant_id: str, alternative_id: str) -> Alternative | None:
        row = tx.fetch_one(f"{_ALTERNATIVE} AND a.alternative_id = :id", tenant=tenant_id, id=alternative_id)
        if row is None:
            return None
        quotes = self._quotes(tx, tenant_id, "a.alternative_id = :key", alternative_id)
        return to_alternative(row, quotes.get(alternative_id, ()))

    def shape(self, tx: Transaction, tenant_id: str, turn_id: str) -> Row | None:
        """Return a turn alone with what adding beside or below it needs to know, whatever it holds."""
        return tx.fetch_one(
            f"SELECT {_TURN}, (SELECT COALESCE(MAX(a.sequence), 0) FROM alternatives a "
            "WHERE a.tenant_id = t.tenant_id AND a.turn_id = t.turn_id) AS count, "
            "(SELECT a.alternative_id FROM alternatives a WHERE a.tenant_id = t.tenant_id AND a.turn_id = t.turn_id "
            "AND a.is_active = 1) AS active FROM conversation_turns t "
            "WHERE t.tenant_id = :tenant AND t.turn_id = :turn",
            tenant=tenant_id,
            turn=turn_id,
        )

    def activate(self, tx: Transaction, tenant_id: str, turn_id: str, alternative_id: str | None) -> None:
        """Make one alternative of a turn the active one; None leaves none, for one that is about to be added."""
        tx.execute(
            "UPDATE alternatives SET is_active = 0 WHERE tenant_id = :tenant AND turn_id = :turn AND is_active = 1",
            tenant=tenant_id,
            turn=turn_id,
        )
        if alternative_id is not None:
            tx.execute(
                "UPDATE alternatives SET is_active = 1 WHERE tenant_id = :tenant AND alternative_id = :id",
                tenant=tenant_id,
                id=alternative_id,
            )

    def path(self, tx: Transaction, tenant_id: str, turn_id: str) -> list[Row]:
        """Return the active alternatives from the root to a turn."""
        return tx.fetch_all(_PATH, tenant=tenant_id, turn=turn_id)

    def deepest(self, tx: Transaction, tenant_id: str, turn_id: str) -> str:
        """Return the last turn of what follows a turn: always the newest that answers what is active."""
        row = tx.fetch_one(_DEEPEST, tenant=tenant_id, turn=turn_id)
        return turn_id if row is None else row["turn_id"]

    def quoted(self, tx: Transaction, tenant_id: str, alternative_ids: Sequence[str]) -> list[Row]:
        """Return the quotes of these alternatives, with their content."""
        if not alternative_ids:
            return []
        named = {f"v{number}": value for number, value in enumerate(alternative_ids)}
        return tx.fetch_all(
            "SELECT q.alternative_id, q.position, q.quoted_alternative, b.turn_id, t.speaker, t.sequence, o.content "
            "FROM alternative_quotes q JOIN alternatives b ON b.tenant_id = q.tenant_id "
            "AND b.alternative_id = q.quoted_alternative JOIN conversation_turns t ON t.tenant_id = b.tenant_id "
            "AND t.turn_id = b.turn_id JOIN alternative_outcomes o ON o.tenant_id = b.tenant_id "
            "AND o.alternative_id = b.alternative_id WHERE q.tenant_id = :tenant "
            f"AND q.alternative_id IN ({', '.join(f':{name}' for name in named)}) "
            "ORDER BY q.alternative_id, q.position",
            tenant=tenant_id,
            **named,
        )

    def settle(
        self,
        tx: Transaction,
        tenant_id: str,
        conversation_id: str,
        alternative_id: str,
        came: AnswerOutcome,
        *,
        now: int,
    ) -> None:
        """Write what an alternative came to, and forget what was streamed of it."""
        row = {
            "tenant_id": tenant_id,
            "conversation_id": conversation_id,
            "alternative_id": alternative_id,
            "content": came.content,
            "error": None if came.error is None else canonical_json(came.error).decode(),
            "tokens": came.tokens,
            "settled_at": now,
        }
        self.insert(tx, "alternative_outcomes", row)
        tx.execute(
            "DELETE FROM alternative_pieces WHERE tenant_id = :tenant AND alternative_id = :id",
            tenant=tenant_id,
            id=alternative_id,
        )

    def unsettled(self, tx: Transaction, tenant_id: str, alternative_id: str) -> Row | None:
        """Return an alternative that is being generated, with its conversation."""
        return tx.fetch_one(
            "SELECT a.conversation_id, a.turn_id, a.run_id FROM alternatives a WHERE a.tenant_id = :tenant "
            "AND a.alternative_id = :id AND NOT EXISTS (SELECT 1 FROM alternative_outcomes o "
            "WHERE o.tenant_id = a.tenant_id AND o.alternative_id = a.alternative_id)",
            tenant=tenant_id,
            id=alternative_id,
        )

    def unbound(self, tx: Transaction, tenant_id: str, conversation_id: str, *, limit: int = 1) -> list[Row]:
        """Alternatives with content and without an episode, in the order of their arrival."""
        return tx.fetch_all(_UNBOUND, tenant=tenant_id, conversation=conversation_id, limit=limit)

    def ingestion(self, tx: Transaction, tenant_id: str, conversation_id: str) -> str | None:
        """Return the run that writes the episodes of a conversation, while there is one."""
        row = tx.fetch_one(
            "SELECT ingestion FROM conversations WHERE tenant_id = :tenant AND conversation_id = :id",
            tenant=tenant_id,
            id=conversation_id,
        )
        return None if row is None else row["ingestion"]

    def compression(self, tx: Transaction, tenant_id: str, conversation_id: str) -> str | None:
        """Return the compression of a conversation that was begun last."""
        row = tx.fetch_one(
            "SELECT compression FROM conversations WHERE tenant_id = :tenant AND conversation_id = :id",
            tenant=tenant_id,
            id=conversation_id,
        )
        return None if row is None else row["compression"]

    def set_compression(self, tx: Transaction, tenant_id: str, conversation_id: str, compression_id: str) -> None:
        tx.execute(
            "UPDATE conversations SET compression = :compression WHERE tenant_id = :tenant AND conversation_id = :id",
            tenant=tenant_id,
            id=conversation_id,
            compression=compression_id,
        )

    def set_ingestion(self, tx: Transaction, tenant_id: str, conversation_id: str, run_id: str | None) -> None:
        tx.execute(
            "UPDATE conversations SET ingestion = :run WHERE tenant_id = :tenant AND conversation_id = :id",
            tenant=tenant_id,
            id=conversation_id,
            run=run_id,
        )

    def add_piece(self, tx: Transaction, tenant_id: str, alternative_id: str, at: tuple[int, int], text: str) -> None:
        """Keep a piece of an answer that is under way; one that has ended takes none."""
        tx.execute(
            "INSERT INTO alternative_pieces (tenant_id, alternative_id, attempt, number, text) "
            "SELECT :tenant, :id, :attempt, :number, :text WHERE NOT EXISTS (SELECT 1 FROM alternative_outcomes "
            "WHERE tenant_id = :tenant AND alternative_id = :id)",
            tenant=tenant_id,
            id=alternative_id,
            attempt=at[0],
            number=at[1],
            text=text,
        )

    def last_attempt(self, tx: Transaction, tenant_id: str, alternative_id: str) -> int:
        row = tx.fetch_one(
            "SELECT MAX(attempt) AS last FROM alternative_pieces WHERE tenant_id = :tenant AND alternative_id = :id",
            tenant=tenant_id,
            id=alternative_id,
        )
        return 0 if row is None or row["last"] is None else row["last"]

    def pieces(
        self, tx: Transaction, tenant_id: str, alternative_id: str, *, after: tuple[int, int]
    ) -> list[tuple[int, int, str]]:
        """Return the pieces after a piece, of the last attempt alone."""
        last = self.last_attempt(tx, tenant_id, alternative_id)
        rows = tx.fetch_all(
            "SELECT number, text FROM alternative_pieces WHERE tenant_id = :tenant AND alternative_id = :id "
            "AND attempt = :attempt AND number > :number ORDER BY number",
            tenant=tenant_id,
            id=alternative_id,
            attempt=last,
            number=after[1] if after[0] == last else 0,
        )
        return [(last, row["number"], row["text"]) for row in rows]

    def _quotes(self, tx: Transaction, tenant_id: str, where: str, key: str) -> dict[str, tuple[str, ...]]:
        rows = tx.fetch_all(
            "SELECT a.alternative_id, q.quoted_alternative FROM alternatives a LEFT JOIN alternative_quotes q "
            "ON q.tenant_id = a.tenant_id AND q.alternative_id = a.alternative_id "
            f"WHERE a.tenant_id = :tenant AND {where} ORDER BY a.alternative_id, q.position",
            tenant=tenant_id,
            key=key,
        )
        found: dict[str, tuple[str, ...]] = {}
        for row in rows:
            if row["quoted_alternative"] is not None:
                found[row["alternative_id"]] = (*found.get(row["alternative_id"], ()), row["quoted_alternative"])
        return found


def process_users(tx: Transaction, tenant_id: str, process_id: str) -> list[str]:
    """Return the conversations that refer to a process, by their preference or by an answer; it is not deleted then."""
    rows = tx.fetch_all(
        "SELECT conversation_id FROM conversations WHERE tenant_id = :tenant AND default_process = :process "
        "UNION SELECT conversation_id FROM alternatives WHERE tenant_id = :tenant AND process_id = :process LIMIT 5",
        tenant=tenant_id,
        process=process_id,
    )
    return [row["conversation_id"] for row in rows]
