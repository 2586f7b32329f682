"""kill -9 around an approved effect: the grant is spent once or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.homes import make_home
from tests.payer import TIMEOUT_MS, pay, pay_into, payments, send, start_payer
from twinraven.app import open_home
from twinraven.calls.claims import GRACE_MS
from twinraven.foundation.clock import now_micros
from twinraven.tenancy import LOCAL

_LATER_US = (TIMEOUT_MS + GRACE_MS + 1_000) * 1000


@pytest.mark.req("CH-16")
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_process_that_dies_while_it_does_what_was_approved(tmp_path: Path, moment: str) -> None:
    """The approval is used and its effect unknown: asking again neither sends it again nor asks a person again."""
    home = make_home(tmp_path, policy={"rules": [{"tool": "pay", "then": "ask"}]})
    book = tmp_path / "paid"
    said, _ = start_payer("work", home, book, 1).communicate()
    assert said == "0 APPROVAL_PENDING\n"
    with open_home(home, functions=[pay]) as raven:
        (approval,) = await raven.approvals.list("default", state="pending")
        await raven.approvals.grant("default", approval.approval_id, by=LOCAL)
    said, _ = start_payer("work", home, book, 1, PAYER_DIES=moment).communicate()
    assert said == ""
    pay_into(book)
    with open_home(home, functions=[pay], micros=lambda: now_micros() + _LATER_US) as raven:
        response = await send(raven, 0, 1)
        assert response.error is not None
        assert response.error["code"] == "EFFECT_UNKNOWN"
        assert [one.state for one in await raven.approvals.list("default")] == ["used"]
        assert (await raven.audit.verify("default")).ok
    assert payments(book) == ({} if moment == "before" else {"payee-0": [1]})
