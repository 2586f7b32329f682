"""Generates `mytraces.jsonl.gz`, a log of billing agents, one call a line.

An agent looks a customer up by e-mail, loads the customer, and reads some of its invoices; on the way users talk, and
unrelated calls happen. The data flow is known, because it is planted here; nothing resembles the names or shapes of any
real record. `python examples/traces/generate.py` writes the same file every time.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LOOKUP, LOAD, INVOICE, RATE, SETTLE = "search_customer", "load_customer", "get_invoice", "get_rate", "settle_invoice"


@dataclass(slots=True)
class SessionScript:
    """Lines of one session, as they are written."""

    session_id: str
    task_id: str
    lines: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    turn: int = 0

    def call(self, tool: str, params: dict[str, Any], output: Any, *, said: str | None = None, ok: bool = True) -> None:
        """Add one call in a turn of its own; what a user says takes a turn too."""
        self.turn += 2 if said is not None else 1
        self.lines.append(
            {
                "session_id": self.session_id,
                "seq": len(self.lines),
                "tool": tool,
                "params": params,
                "output": output,
                "ok": ok,
                "session_outcome": "success",
                "user_before": said,
                "llm_turn": self.turn,
                "task_id": self.task_id,
            }
        )


def billing_scripts(count: int, *, seed: int = 1, tasks: int = 40, pause: bool = False) -> list[SessionScript]:
    """Generate sessions in which the planted chain occurs; with `pause`, the user speaks between every two calls."""
    rng = random.Random(seed)
    return [_billing_session(rng, number, tasks, pause=pause) for number in range(count)]


def lines_of(scripts: Sequence[SessionScript]) -> bytes:
    """Encode sessions as a file of calls."""
    lines = (json.dumps(line, separators=(",", ":")) for script in scripts for line in script.lines)
    return "".join(f"{line}\n" for line in lines).encode()


def log_bytes() -> bytes:
    """Make the whole of `mytraces.jsonl.gz`; without a time stamp, so that it is the same every time."""
    return gzip.compress(lines_of(billing_scripts(400)), mtime=0)


def _billing_session(rng: random.Random, number: int, tasks: int, *, pause: bool) -> SessionScript:
    script = SessionScript(f"s{number:05}", f"task-{rng.randrange(tasks)}")
    email = f"user{rng.randrange(10**6)}@mail{rng.randrange(50)}.test"
    customer = f"C-{rng.randrange(10**9)}"
    invoices = [f"INV{rng.randrange(10**9)}" for _ in range(rng.randrange(2, 5))]
    interject = "go on" if pause else None
    script.call(LOOKUP, {"email": email}, {"hits": 1, "customer": {"id": customer}}, said=f"I am {email}, hello")
    loaded = {"id": customer, "plan": rng.choice(["free", "pro"]), "invoices": [{"id": each} for each in invoices]}
    script.call(LOAD, {"customer_id": customer, "detail": "full"}, loaded, said=interject)
    for invoice in rng.sample(invoices, rng.randrange(1, len(invoices) + 1)):
        body: dict[str, Any] = {"id": invoice, "total": rng.randrange(10_000), "lines": []}
        script.call(INVOICE, {"invoice_id": invoice}, body, said=interject)
    if rng.random() < 0.4:
        day = f"2026-01-{rng.randrange(1, 29):02}"
        script.call(RATE, {"day": day}, {"day": day, "rate": rng.random()}, said=f"what was the rate on {day}?")
    if rng.random() < 0.5:
        script.call(SETTLE, {"invoice_id": invoices[0]}, {"settled": True}, said="please settle it")
    return script


if __name__ == "__main__":
    Path(__file__).with_name("mytraces.jsonl.gz").write_bytes(log_bytes())
