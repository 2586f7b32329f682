"""What the world does to a call: it takes time, and the parts that belong to others are sometimes away.

A fault belongs to the n-th attempt of one call (tool and arguments), not to a moment, so that a run can be repeated
however its calls overlap. Faults come in spells: right after one, the next is likelier, so that trying again helps
often but not always.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from examples.support_desk.chance import chance
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import ToolTimeout, ToolUnavailable, TwinRavenError

SPELL = 0.3
"""How likely an attempt is to fail right after the same call failed."""


@dataclass(frozen=True, slots=True)
class Climate:
    """How long a tool takes in the middle, and how often it fails for no fault of the caller."""

    middle_ms: float
    fault_rate: float = 0.0


CLIMATES: Mapping[str, Climate] = {
    "find_user_by_email": Climate(2.0),
    "find_user_by_name_zip": Climate(3.0),
    "get_user": Climate(2.0),
    "get_order": Climate(2.5),
    "get_product": Climate(2.0),
    "track_shipment": Climate(7.0, fault_rate=0.08),
    "check_refund_policy": Climate(4.0),
    "search_kb": Climate(5.0, fault_rate=0.03),
    "issue_refund": Climate(9.0, fault_rate=0.05),
    "cancel_order": Climate(4.0),
    "update_address": Climate(3.0),
    "add_note": Climate(2.0),
}

_AWAY: Mapping[str, TwinRavenError] = {
    "track_shipment": ToolUnavailable("the carrier's service does not answer; try again"),
    "search_kb": ToolTimeout("the search index did not answer in time; try again"),
    "issue_refund": ToolUnavailable("the payment provider is away; nothing was paid; try again"),
}


@dataclass(frozen=True, slots=True)
class Toll:
    """What one attempt costs: seconds first, and then perhaps an error."""

    seconds: float
    fault: TwinRavenError | None


_Call = tuple[str, bytes]


class Weather:
    """The tolls of one desk, by seed."""

    def __init__(self, seed: int, *, time_scale: float, fault_scale: float) -> None:
        self._seed = seed
        self._time_scale = time_scale
        self._fault_scale = fault_scale
        self._attempts: Counter[_Call] = Counter()
        self._away: set[_Call] = set()
        self._lock = threading.Lock()

    def toll(self, tool_id: str, params: Mapping[str, Any]) -> Toll:
        """The toll of the next attempt of this call."""
        call = (tool_id, canonical_json(dict(params)))
        with self._lock:
            self._attempts[call] += 1
            rng = chance("toll", self._seed, tool_id, call[1].decode(), self._attempts[call])
            rate = CLIMATES[tool_id].fault_rate * self._fault_scale
            fails = rng.random() < (max(rate, SPELL) if call in self._away else rate)
            if fails:
                self._away.add(call)
            else:
                self._away.discard(call)
        seconds = CLIMATES[tool_id].middle_ms / 1000 * rng.lognormvariate(0.0, 0.35) * self._time_scale
        return Toll(seconds, _copy(_AWAY[tool_id]) if fails else None)


def _copy(error: TwinRavenError) -> TwinRavenError:
    """A fresh error, because a raised one carries the traceback of whoever raised it."""
    return type(error)(error.message)
