"""The tools that the agents of `mytraces.jsonl.gz` called, on three customers who live in memory."""

from __future__ import annotations

from typing import Any

from twinraven import tool

CUSTOMERS: dict[str, dict[str, Any]] = {
    "C-1": {"email": "ada@mail.test", "plan": "pro", "invoices": ["INV1", "INV2"]},
    "C-2": {"email": "grace@mail.test", "plan": "free", "invoices": ["INV3"]},
    "C-3": {"email": "alan@mail.test", "plan": "pro", "invoices": []},
}
TOTALS = {"INV1": 1200, "INV2": 80, "INV3": 455}


@tool(effect="read")
def search_customer(email: str) -> dict[str, Any]:
    """Find a customer by e-mail."""
    found = next(each for each, customer in CUSTOMERS.items() if customer["email"] == email)
    return {"hits": 1, "customer": {"id": found}}


@tool(effect="read")
def load_customer(customer_id: str, detail: str = "full") -> dict[str, Any]:
    """Load one customer, with `detail="full"` also the ids of its invoices."""
    customer = CUSTOMERS[customer_id]
    invoices: list[str] = customer["invoices"] if detail == "full" else []
    return {"id": customer_id, "plan": customer["plan"], "invoices": [{"id": each} for each in invoices]}


@tool(effect="read")
def get_invoice(invoice_id: str) -> dict[str, Any]:
    """Read one invoice."""
    return {"id": invoice_id, "total": TOTALS[invoice_id], "lines": []}
