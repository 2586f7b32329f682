"""The agent's tools, as functions; `@tool` puts them into the catalogue, so that what is learned can call them."""

from __future__ import annotations

from typing import Any

from twinraven import tool


@tool(effect="read")
def find_customer(email: str) -> dict[str, Any]:
    """Find a customer by e-mail."""
    return {"customer_id": f"C-{email.partition('@')[0]}"}


@tool(effect="read")
def list_orders(customer_id: str) -> dict[str, Any]:
    """The orders of a customer."""
    return {"orders": [f"{customer_id}-1", f"{customer_id}-2"]}


@tool(effect="read")
def get_order(order_id: str) -> dict[str, Any]:
    """One order."""
    return {"order_id": order_id, "state": "shipped"}
