"""What a working memory costs: it depends on the length of its path and on nothing around it.

The tree has 10,000 turns, of which 100 are on the path, and 1,000 side alternatives on the path's turns; it is compared
with a conversation that is its path alone. A path of 10,000 turns is compared with a hundred paths of 100.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.harness import Contender, Harness, Row, cpu_timed
from twinraven.conversations import ConversationStore, NoSources, count_tokens
from twinraven.conversations.building import NewAlternative, TreeBuilder
from twinraven.conversations.reading import MemoryReader
from twinraven.conversations.sql import AnswerOutcome
from twinraven.storage import Connection, Transaction, open_database

TENANT = "default"
PATH = 100
TURNS = 10_000
SIDE = 1_000
BUDGET = 100_000_000
TEXT = "The parcel went from Lisbon to Porto, and Ann paid for it."


def measure(harness: Harness) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="twinraven-bench-") as folder:
        database = open_database(f"sqlite:///{Path(folder) / 'talk.db'}")
        database.migrate()
        connection = database.connect()
        with connection.transaction(TENANT, write=True) as tx:
            ends = {"path": _path(tx, "path", PATH), "long": _path(tx, "long", TURNS), "tree": _tree(tx, "tree")}
        reads = {name: _reading(connection, name, end, times=1) for name, end in ends.items()}
        reads["paths"] = _reading(connection, "path", ends["path"], times=TURNS // PATH)
        beside = harness.sample({"tree": reads["tree"], "path": reads["path"]})
        longer = harness.sample({"long": reads["long"], "paths": reads["paths"]})
        connection.close()
        database.close()
    return [
        harness.row(
            f"memory of {PATH} turns within {TURNS:,}, and {SIDE:,} side alternatives", beside, ours="tree",
            against="path", aim=1.5,
        ),
        harness.row(f"memory of a path of {TURNS:,} turns", longer, ours="long", against="paths", aim=1.5),
    ]  # fmt: skip


def _reading(connection: Connection, conversation_id: str, end: str, *, times: int) -> Contender:
    store = ConversationStore()
    reader = MemoryReader(store, NoSources())

    def work() -> None:
        for _ in range(times):
            with connection.transaction(TENANT, write=False) as tx:
                conversation = store.find(tx, TENANT, conversation_id)
                assert conversation is not None
                assert reader.read(tx, conversation, end, budget=BUDGET).items

    return cpu_timed(work)


def _begin(tx: Transaction, conversation_id: str) -> TreeBuilder:
    row = {
        "tenant_id": TENANT, "conversation_id": conversation_id, "status": "active", "owner_id": "ann", "changes": 0,
        "created_at": 0, "updated_at": 0,
    }  # fmt: skip
    store = ConversationStore()
    store.insert(tx, "conversations", row)
    return TreeBuilder(store, tx, TENANT, conversation_id, 1)


def _said() -> Callable[[], NewAlternative]:
    tokens = count_tokens(TEXT)
    return lambda: NewAlternative(said=AnswerOutcome(TEXT, None, tokens))


def _path(tx: Transaction, conversation_id: str, length: int) -> str:
    tree, said = _begin(tx, conversation_id), _said()
    last: str | None = None
    for _ in range(length):
        last, _ = tree.add_turn(last, "user", "message", said())
    assert last is not None
    return last


def _tree(tx: Transaction, conversation_id: str) -> str:
    """A path with side alternatives on its turns, and branches below each of them."""
    tree, said = _begin(tx, conversation_id), _said()
    path: list[str] = []
    for _ in range(PATH):
        turn_id, _ = tree.add_turn(path[-1] if path else None, "user", "message", said())
        path.append(turn_id)
    for turn_id in path:
        for _ in range(SIDE // PATH):
            tree.add_alternative(turn_id, said())
        below = turn_id
        for _ in range(TURNS // PATH - 1):
            below, _ = tree.add_turn(below, "user", "message", said())
    return path[-1]
