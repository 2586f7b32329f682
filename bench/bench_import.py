"""What importing recorded calls costs: processor time beside `json.loads` over the same lines.

The file is generated, with lines of about the length of real ones; the import is durable and starts with an empty
database in each repeat.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from typing import Any

from bench.harness import Harness, Row, cpu_timed
from bench.samples import fresh_sqlite
from twinraven.muninn import Importer

SESSIONS = 1_500
TOOLS = ("find_user_by_email", "get_user_details", "get_order_details", "get_product_details", "return_items")


def measure(harness: Harness) -> list[Row]:
    lines = generated_lines(SESSIONS)
    return [
        harness.compare(
            "calls format, durable",
            ours=lambda: _import(lines),
            theirs=cpu_timed(lambda: [json.loads(line) for line in lines]),
            against="json.loads over the same lines",
            aim=8.0,
        )
    ]


def _import(lines: list[bytes]) -> float:
    with fresh_sqlite() as (database, _):
        begun = time.process_time()
        report = asyncio.run(Importer(database).import_calls("default", lines))
        spent = time.process_time() - begun
    assert (report.events, report.errors) == (len(lines), [])
    return spent


def generated_lines(sessions: int, *, seed: int = 11) -> list[bytes]:
    """Sessions of four to ten calls; the same arguments always give the same lines."""
    chance = random.Random(seed)
    return [line for number in range(sessions) for line in _session(chance, number)]


def _session(chance: random.Random, number: int) -> list[bytes]:
    outcome = chance.choice(("success", "success", "failure"))
    return [
        json.dumps(
            {
                "session_id": f"session-{number:06d}",
                "seq": seq,
                "tool": chance.choice(TOOLS),
                "params": {"order_id": _code(chance), "reason": "ordered by mistake", "items": [_code(chance)]},
                "output": _output(chance),
                "ok": chance.random() > 0.05,
                "session_outcome": outcome,
                "user_before": "I would like to return the tea kettle from my last order." if seq == 0 else None,
                "llm_turn": seq,
                "task_id": number % 115,
                "trial": 0,
                "source": "generated",
            }
        ).encode()
        + b"\n"
        for seq in range(chance.randint(4, 10))
    ]


def _output(chance: random.Random) -> dict[str, Any]:
    return {
        "order_id": _code(chance),
        "user_id": f"user_{_code(chance)}",
        "address": {"city": "Denver", "country": "USA", "zip": str(chance.randrange(10_000, 99_999))},
        "items": [
            {
                "name": chance.choice(("Tea Kettle", "Mechanical Keyboard", "Desk Lamp")),
                "item_id": _code(chance),
                "price": round(chance.uniform(5, 900), 2),
                "options": {"material": "glass", "capacity": "2 liters", "compatibility": "electric"},
            }
            for _ in range(chance.randint(1, 5))
        ],
        "payments": [{"type": "payment", "amount": round(chance.uniform(5, 900), 2), "method": _code(chance)}],
        "status": chance.choice(("delivered", "pending", "processed")),
    }


def _code(chance: random.Random) -> str:
    return str(chance.randrange(10**9, 10**10))
