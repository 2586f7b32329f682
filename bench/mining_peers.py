"""The peers of the mining benchmark, run by the Python of their own environment.

Usage: mining_peers.py prefixspan|duckdb LOG.npz MINIMUM LONGEST. Prints JSON: the processor seconds that mining alone
took, and the chains found, as [[tools], numbers...]. What a peer needs before it can begin, lists or a table, is made
before the clock starts.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from typing import Any

import numpy as np


def run_prefixspan(log: Any, minimum: int, longest: int) -> tuple[float, list[Any]]:
    peer: Any = import_module("prefixspan")
    sessions = [part.tolist() for part in np.split(log["tools"], log["offsets"][1:-1])]
    begun = time.process_time()
    miner = peer.PrefixSpan(sessions)
    miner.minlen, miner.maxlen = 2, longest
    found = miner.frequent(minimum)
    return time.process_time() - begun, [[tools, count] for count, tools in found]


def run_duckdb(log: Any, minimum: int, longest: int) -> tuple[float, list[Any]]:
    peer: Any = import_module("duckdb")
    lengths = np.diff(log["offsets"])
    # DuckDB finds this by its name.
    columns = {  # noqa: F841  # pyright: ignore[reportUnusedVariable]
        "session": np.repeat(np.arange(len(lengths)), lengths),
        "seq": np.arange(len(log["tools"])),
        "tool": log["tools"],
        "failed": log["failed"],
    }
    connection = peer.connect()
    connection.execute("CREATE TABLE events AS SELECT * FROM columns")
    query = _window_query(minimum, longest)
    begun = time.process_time()
    rows: list[Any] = connection.execute(query).fetchall()
    spent = time.process_time() - begun
    return spent, [[[tool for tool in row[:longest] if tool is not None], *map(int, row[longest:])] for row in rows]


def _window_query(minimum: int, longest: int) -> str:
    """Every event with the tools that follow it, once; then chains of each length grouped and counted."""
    leads = ", ".join(
        f"lead(tool, {step}) OVER w AS t{step}, lead(failed, {step}) OVER w AS f{step}" for step in range(1, longest)
    )
    counted = " UNION ALL ".join(
        f"SELECT {', '.join(f't{step}' if step < length else 'NULL' for step in range(longest))}, "
        f"count(DISTINCT session) AS sessions, count(*), sum(f{length - 1}::INT) FROM wide "
        f"WHERE t{length - 1} IS NOT NULL GROUP BY {', '.join(f't{step}' for step in range(length))} "
        f"HAVING sessions >= {minimum}"
        for length in range(2, longest + 1)
    )
    return (
        f"WITH wide AS MATERIALIZED (SELECT session, tool AS t0, {leads} FROM events "
        f"WINDOW w AS (PARTITION BY session ORDER BY seq)) {counted}"
    )


if __name__ == "__main__":
    peer, path, fewest, most = sys.argv[1:]
    run = {"prefixspan": run_prefixspan, "duckdb": run_duckdb}[peer]
    seconds, chains = run(np.load(path), int(fewest), int(most))
    json.dump({"seconds": seconds, "chains": chains}, sys.stdout)
