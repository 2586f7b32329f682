"""A made-up billing desk of any size, as lines of the `calls` format: about ten calls a session, with outputs.

Sessions look a customer up, load it, read some of its invoices and wander off to other tools, so that there is
something to learn and something to leave alone. The same number always gives the same session.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import orjson

_ASIDE = tuple(f"get_{name}" for name in ("plan", "status", "region", "quota", "news", "offer", "rate", "terms"))


def trace_lines(sessions: int, *, first: int = 0) -> Iterator[bytes]:
    """The lines of so many sessions, session by session."""
    for number in range(first, first + sessions):
        for line in _session(random.Random(number), number):
            yield orjson.dumps(line) + b"\n"


def _session(rng: random.Random, number: int) -> Iterator[dict[str, Any]]:
    email, customer = f"u{rng.randrange(10**6)}@mail.test", f"C-{rng.randrange(10**9)}"
    invoices = [f"INV{rng.randrange(10**9)}" for _ in range(rng.randrange(2, 5))]
    wanted = rng.sample(invoices, rng.randrange(1, len(invoices) + 1))
    calls: list[tuple[str, dict[str, Any], Any]] = [
        ("search_customer", {"email": email}, {"customer": {"id": customer, "name": f"name {number}"}}),
        ("load_customer", {"customer_id": customer}, {"invoices": [{"id": each} for each in invoices], "plan": "pro"}),
        *(("get_invoice", {"invoice_id": each}, {"id": each, "total": rng.randrange(999)}) for each in wanted),
    ]
    while len(calls) < 10:
        tool = rng.choice(_ASIDE)
        asked = {"customer_id": customer, "page": rng.randrange(3)}
        calls.append((tool, asked, {"value": rng.randrange(50), "text": "nothing unusual"}))
    for seq, (tool, params, output) in enumerate(calls):
        yield {
            "session_id": f"s{number:07d}",
            "seq": seq,
            "tool": tool,
            "params": params,
            "output": output,
            "user_before": f"I am {email}" if seq == 0 else None,
            "llm_turn": seq + 1,
            "task_id": number % 5000,
        }
