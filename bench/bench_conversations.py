"""What a working memory costs: it depends on the length of its path and on nothing around it.

The tree has 10,000 turns, of which 100 are on the path, and 1,000 side alternatives on the path's turns; it is compared
with a conversation that is its path alone, in a store that has nothing else. A path of 10,000 turns is compared with a
hundred readings of one of 100.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.harness import Contender, Harness, Row, cpu_timed
from twinraven.conversations import ConversationStore, NoSources, count_tokens
from twinraven.conversations.building import NewAlternative, TreeBuilder
from twinraven.conversations.reading import MemoryReader
from twinraven.conversations.sql import AnswerOutcome
from twinraven.storage import Connection, Transaction, open_database
from twinraven.tenancy import LOCAL_USER

TENANT = "default"
PATH = 100
TURNS = 10_000
SIDE = 1_000
BUDGET = 100_000_000
TEXT = "The parcel went from Lisbon to Porto, and Ann paid for it."


def measure(harness: Harness) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="twinraven-bench-") as folder, ExitStack() as opened:
        large, small = (opened.enter_context(_store(Path(folder) / name)) for name in ("large.db", "small.db"))
        with large.transaction(TENANT, write=True) as tx:
            long, tree = _path(tx, "long", TURNS), _tree(tx, "tree")
        with small.transaction(TENANT, write=True) as tx:
            path = _path(tx, "path", PATH)
        alone = _reading(small, "path", path, times=10)
        beside = harness.sample({"tree": _reading(large, "tree", tree, times=10), "path": alone})
        longer = harness.sample(
            {
                "long": _reading(large, "long", long, times=1),
                "paths": _reading(small, "path", path, times=TURNS // PATH),
            }
        )
    return [
        harness.row(
            f"memory of {PATH} turns within {TURNS:,}, and {SIDE:,} side alternatives", beside, ours="tree",
            against="path", aim=1.5,
        ),
        harness.row(f"memory of a path of {TURNS:,} turns", longer, ours="long", against="paths", aim=1.5),
    ]  # fmt: skip


@contextmanager
def _store(path: Path) -> Generator[Connection]:
    database = open_database(f"sqlite:///{path}")
    database.migrate()
    connection = database.connect()
    try:
        yield connection
    finally:
        connection.close()
        database.close()


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
        "tenant_id": TENANT, "conversation_id": conversation_id, "status": "active", "owner_id": LOCAL_USER,
        "changes": 0, "created_at": 0, "updated_at": 0,
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
