"""The studio's tools: what agents can do, and where they are not sure."""

from __future__ import annotations

from typing import Any

from twinraven.catalog import tool


@tool(effect="read")
def draft_post(topic: str, required_actions: list[Any] | None = None) -> dict[str, Any]:
    """Write a post; the first version promises too much, and a judge sends it back."""
    if not required_actions:
        return {"text": f"{topic}: guaranteed profit for every reader!", "confidence_score": 0.9}
    return {"text": f"{topic}: what we learned in a year of print.", "confidence_score": 0.9}


@tool(effect="read")
def check_invoice(number: str) -> dict[str, Any]:
    """Compare an invoice with its order; the totals differ by a rounding, so the agent is not sure."""
    return {"invoice": number, "amount": "240.00", "to": "Printer & Co", "confidence_score": 0.4}


TOOLS = [draft_post, check_invoice]
