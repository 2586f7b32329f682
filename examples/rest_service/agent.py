"""An agent that calls the imported tools through TwinRaven's REST API, with the client.

python agent.py http://127.0.0.1:8765 [SESSIONS]
"""

from __future__ import annotations

import sys

from twinraven import Client

SESSIONS = 60


def main(address: str, sessions: int) -> None:
    """For each customer: who it is, which invoices there are, and each of them."""
    with Client(address) as client:
        for number in range(sessions):
            ticket, mail = f"ticket-{number}", f"ada{number}@mail.test"
            said = f"invoices of {mail}"
            customer = client.call("find_customer", {"mail": mail}, session_id=ticket, turn=1, outside_input=said)
            listed = client.call("list_invoices", {"id": customer["id"]}, session_id=ticket, turn=2)
            for turn, invoice in enumerate(listed["invoices"], start=3):
                client.call("get_invoice", {"id": invoice}, session_id=ticket, turn=turn)
    print(f"{sessions} conversations, {4 * sessions} calls")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else SESSIONS)
