"""What the benchmarks of memory record: one realistic call, never twice with the same output.

So every event brings a blob of its own, as real ones do.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twinraven.foundation.ids import new_uuid
from twinraven.muninn import EncodingRules, Observation, Outcome, encode_output, encode_params
from twinraven.muninn.columns import Row
from twinraven.muninn.row import RowEncoder
from twinraven.storage import Database, open_database

TOOL = "get_order_details"
PARAMS: dict[str, Any] = {"order_id": "#W2378156", "include": ["items", "payments"], "language": "en"}

_numbers = itertools.count()


def next_output() -> dict[str, Any]:
    return {
        "order_id": "#W2378156",
        "user_id": "yusuf_rossi_9620",
        "status": "delivered",
        "items": [
            {"name": "Mechanical Keyboard", "item_id": "1151293680", "price": 272.33, "options": {"switch": "clicky"}},
            {"name": "Smart Thermostat", "item_id": "4983901480", "price": 262.47, "options": {"color": "black"}},
        ],
        "payments": [{"type": "payment", "amount": 534.8, "method": "credit_card_9513926"}],
        "serial": next(_numbers),
    }


def encoded_rows(count: int) -> list[tuple[Row, Row | None]]:
    """The rows that as many recordings would leave, ready to be inserted."""
    encoder = RowEncoder(EncodingRules())
    return [encoder.encode(_observation(number)) for number in range(count)]


def _observation(number: int) -> Observation:
    return Observation(
        tenant_id="default",
        event_id=new_uuid(),
        session_id=f"bench-{number % 64}",
        tool_id=TOOL,
        params=encode_params(PARAMS),
        output=encode_output(next_output()),
        timestamp=1_700_000_000_000_000 + number,
        latency_ms=3,
        outcome=Outcome.PARTIAL,
        tags=(),
        parent_event_id=None,
        raised=False,
        error_code=None,
        turn=None,
        task_id=None,
        outside_input=None,
        source_key=None,
        time_known=True,
        correlation_id=None,
    )


@contextmanager
def fresh_sqlite() -> Generator[tuple[Database, Path]]:
    """A migrated file that disappears afterwards."""
    with tempfile.TemporaryDirectory(prefix="twinraven-bench-") as folder:
        path = Path(folder) / "twinraven.db"
        database = open_database(f"sqlite:///{path}")
        database.migrate()
        try:
            yield database, path
        finally:
            database.close()
