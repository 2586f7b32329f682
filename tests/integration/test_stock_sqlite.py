"""Any program with Python's own SQLite may open the file; it can read the log and cannot change it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from twinraven.muninn import Collector, SqlEventStore
from twinraven.storage import Database

# Read by a Python that knows nothing of us; the library it brings is as old as the machine's.
STRANGER = """
import json, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
rows = connection.execute("SELECT tool_id, predecessor IS NULL, successor IS NULL FROM muninn_events "
                          "ORDER BY session_id, timestamp, arrival").fetchall()
answers = []
for statement in sys.stdin.read().splitlines():
    try:
        answers.append(f"changed {connection.execute(statement).rowcount}")
    except sqlite3.Error as error:
        answers.append(str(error))
print(json.dumps({"version": sqlite3.sqlite_version, "rows": rows, "answers": answers}))
"""

COLUMNS = (
    "arrival, tenant_id, event_id, session_id, tool_id, input_hash, input_params, timestamp, latency_ms, outcome, "
    "tags, raised, source_key, time_known"
)
COPY = f"SELECT {COLUMNS} FROM muninn_event_log"
CHANGES = [
    "UPDATE muninn_event_log SET outcome = 'success'",
    "UPDATE OR REPLACE muninn_event_log SET arrival = 1 WHERE arrival = 2",
    "DELETE FROM muninn_event_log",
    "DELETE FROM muninn_event_log WHERE tool_id = 'a'",
    f"INSERT OR REPLACE INTO muninn_event_log ({COLUMNS}) {COPY}",
    f"REPLACE INTO muninn_event_log ({COLUMNS}) {COPY.replace('arrival,', 'arrival + 100,', 1)}",
    f"INSERT INTO muninn_event_log ({COLUMNS}) {COPY} WHERE true ON CONFLICT DO UPDATE SET outcome = 'success'",
    "UPDATE session_verdicts SET outcome = 'success'",
    "DELETE FROM session_verdicts",
]


@pytest.mark.req("TR-02")
async def test_a_stranger_can_read_the_log_and_not_change_it(sqlite_database: Database, sqlite_url: str) -> None:
    """The file itself refuses UPDATE, DELETE and every way to replace a row, whoever opens it with whatever library."""
    collector, store = Collector(sqlite_database), SqlEventStore(sqlite_database)
    session = collector.observe("s")
    for tool in ("a", "b", "c"):
        await session.record(tool, {}, outcome="failure")
    await store.state_verdict("default", "s", (await store.session("default", "s")).outcome, stated_by="judge")
    before = await store.session("default", "s")
    answer = await asyncio.to_thread(_ask_a_stranger, Path(sqlite_url.removeprefix("sqlite:///")))
    assert answer["rows"] == [["a", 1, 0], ["b", 0, 0], ["c", 0, 1]]
    assert [text.startswith("append-only") for text in answer["answers"]] == [True] * len(CHANGES), answer
    assert await store.session("default", "s") == before
    collector.close()


def _ask_a_stranger(path: Path) -> dict[str, list[str]]:
    done = subprocess.run(
        [sys.executable, "-I", "-c", STRANGER, str(path)],
        input="\n".join(CHANGES),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)
