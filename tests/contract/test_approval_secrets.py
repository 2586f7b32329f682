"""Secrets in what somebody must approve: a person reads tokens, and no table holds the value."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

from tests.homes import all_text, opened_home
from twinraven.calls import CallContext, SkillInvocationRequest
from twinraven.catalog import tool
from twinraven.tenancy import LOCAL, LOCAL_USER

KEPT, MARKED = "canary-of-the-vault-5512", "pin-8142-and-more"

used: list[tuple[str, str]] = []


@tool(effect="write")
async def log_in(text: str, pin: Annotated[str, Field(json_schema_extra={"x-secret": True})]) -> str:
    """Use both."""
    used.append((text, pin))
    return "in"


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_requests_and_decisions_hold_no_secret(
    request: pytest.FixtureRequest, tmp_path: Path, store: str
) -> None:
    """Neither a stored secret nor a marked field is in a request, a note or their evidence; the tool gets both."""
    login = request.getfixturevalue("postgres_login") if store == "postgres" else None
    used.clear()
    with opened_home(tmp_path, [log_in], postgres=login, policy={"rules": [{"then": "ask"}]}) as raven:
        await raven.vault.create("default", LOCAL_USER, name="bank", type="password", value=KEPT)
        params: dict[str, Any] = {"text": f"with {KEPT}", "pin": MARKED}
        asked = SkillInvocationRequest("log_in", params, idempotency_key="k")
        context = CallContext(f"session of {KEPT}", caller="ada")
        waiting = await raven.calls.invoke(asked, context)
        assert waiting.error is not None
        assert waiting.error["code"] == "APPROVAL_PENDING"
        (approval,) = await raven.approvals.list("default")
        assert KEPT not in str(approval)
        assert MARKED not in str(approval)
        assert set(approval.arguments) == {"text", "pin"}
        await raven.approvals.grant("default", approval.approval_id, by=LOCAL, note=f"knows {KEPT}")
        assert (await raven.calls.invoke(asked, context)).status == "success"
        raven.collector.flush()
        stored = all_text(raven)
        refused = await raven.calls.invoke(
            SkillInvocationRequest("log_in", params, idempotency_key=f"key {KEPT}"), context
        )
        assert refused.error is not None
        assert refused.error["code"] == "VALIDATION_FAILED"
    assert used == [(f"with {KEPT}", MARKED)]
    assert KEPT not in stored
    assert MARKED not in stored
