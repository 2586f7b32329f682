"""Fills a desk's home with many events at once, to see what pages cost on a long log.

The events are rows written straight into the log, in sessions like those of the desk, spread over thirty days: some
fail, some say how they went, some carry a tag, the later ones use learned tools that are in service.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID
from zlib import crc32

from tests.console_desk import Made, desk_tickets, learned_tickets
from twinraven.app import open_home
from twinraven.app.foundations import database
from twinraven.foundation.clock import to_micros, utc_now
from twinraven.storage import chunks

DAYS: Final = 30
LONG: Final = "night-batch"
LONG_CALLS: Final = 10_000
RARE_TAG: Final = "escalated"
_AT_ONCE: Final = 50_000
_NAMES: Final = (
    "tenant_id", "event_id", "session_id", "tool_id", "input_hash", "input_params", "output_summary", "timestamp",
    "latency_ms", "outcome", "tags", "parent_event_id", "raised", "error_code", "turn", "outside_input", "time_known",
)  # fmt: skip
_VERDICT: Final = ("tenant_id", "session_id", "outcome", "stated_at", "stated_by")
_Row = tuple[Any, ...]


def fill_log(home: Path, events: int, *, seed: int = 1) -> None:
    """Add about so many events, and put the desk's learned tools into service three weeks ago."""
    chance = random.Random(seed)
    with open_home(home) as raven:
        made = database(raven).connect()
        served = to_micros(utc_now() - timedelta(days=21))
        with made.transaction("default", write=True) as tx:
            serving = tx.fetch_all("SELECT tool_id FROM tool_records WHERE in_service_since IS NOT NULL")
            tx.execute("UPDATE tool_records SET in_service_since = :at WHERE in_service_since IS NOT NULL", at=served)
        rows = _rows(chance, [row["tool_id"] for row in serving], events)
        for part in chunks(rows, _AT_ONCE):
            with made.transaction("default", write=True) as tx:
                tx.insert_rows("muninn_event_log", _NAMES, part)
                sessions = dict.fromkeys(row[2] for row in part)
                judged = [each for each in sessions if chance.random() < 0.3]
                tx.insert_rows(
                    "session_verdicts",
                    _VERDICT,
                    [("default", each, _outcome(chance), served, "desk") for each in judged],
                )
        made.close()


def _rows(chance: random.Random, names: Sequence[str], events: int) -> Iterator[_Row]:
    begin = to_micros(utc_now() - timedelta(days=DAYS))
    span = DAYS * 86_400_000_000 - 3_600_000_000
    plain = [list(each) for each in desk_tickets(60, chance)]
    with_learned = [list(each) for each in learned_tickets(30, names, chance)] if names else plain
    number = session = 0
    while number < events - LONG_CALLS:
        done = number / events
        calls = chance.choice(with_learned if done > 0.4 and chance.random() < 0.3 else plain)
        rows = list(_session(f"case-{session:07d}", calls, begin + int(span * done), chance))
        yield from rows
        number += len(rows)
        session += 1
    batch = [Made("track_shipment", {"tracking_code": f"T-{each}"}) for each in range(LONG_CALLS)]
    yield from _session(LONG, batch, begin + span - 3 * 3_600_000_000, chance)


def _session(name: str, calls: Sequence[Made], at: int, chance: random.Random) -> Iterator[_Row]:
    outcome = _outcome(chance) if chance.random() < 0.5 else "partial"

    def row(made: Made, turn: int, event: str, parent: str | None) -> _Row:
        tags = json.dumps([RARE_TAG]) if chance.random() < 0.0005 else '["retry"]' if chance.random() < 0.01 else "[]"
        params = json.dumps(made.params)
        return (
            "default", event, name, made.tool_id, f"{crc32(params.encode()):016x}", params, '{"found":true}', at,
            chance.randrange(60, 460), "failure" if made.error else outcome, tags, parent, int(made.error is not None),
            made.error, turn, made.said, 1,
        )  # fmt: skip

    for turn, made in enumerate(calls, start=1):
        at += chance.randrange(300_000, 3_000_000)
        outer = _id(chance)
        yield row(made, turn, outer, None)
        for inner in made.inner:
            at += 40_000
            yield row(inner, turn, _id(chance), outer)


def _id(chance: random.Random) -> str:
    return str(UUID(int=chance.getrandbits(128)))


def _outcome(chance: random.Random) -> str:
    return chance.choices(("success", "failure", "partial"), (90, 1, 9))[0]
