"""Tools of a support queue, one of which writes, and the sessions of agents that work on it."""

from __future__ import annotations

from typing import Any

from tests.acceptance.desk import Step
from twinraven import tool

CLOSED: list[str] = []
"""What was closed, in its order, since the test began."""


@tool(effect="read")
def list_tickets(queue: str) -> dict[str, Any]:
    """The open tickets of a queue."""
    return {"tickets": [{"id": f"{queue}-{number}"} for number in (1, 2, 3)]}


@tool(effect="write")
def close_ticket(ticket_id: str) -> dict[str, Any]:
    """Close a ticket for good."""
    CLOSED.append(ticket_id)
    return {"closed": ticket_id}


def closing_steps(number: int, *, takes: slice = slice(None)) -> list[Step]:
    """An agent lists a queue and closes these of its tickets."""
    tickets = [f"T-{number:03}-{place}" for place in range(2 + number % 3)]
    return [
        Step("list_tickets", {"queue": f"queue-{number}"}, {"tickets": [{"id": ticket} for ticket in tickets]}),
        *(Step("close_ticket", {"ticket_id": ticket}, {"closed": ticket}) for ticket in tickets[takes]),
    ]
