"""A viewer of a tenant sees what a member sees, and neither changes nor calls anything, at any door."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.api_homes import SeededHome, Seeds, seeded_home, server_of
from twinraven.api import all_routes
from twinraven.serving import HttpMetrics


@pytest.fixture(params=["sqlite", "postgres"])
async def seeded(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[SeededHome]:
    async with seeded_home(tmp_path, server=server_of(request)) as opened:
        yield opened


@pytest.fixture
async def viewer(seeded: SeededHome) -> Seeds:
    return await seeded.home.user(seeded.ada.tenant_id, "vera", role="viewer")


async def test_a_viewer_is_refused_whatever_is_no_looking(seeded: SeededHome, viewer: Seeds) -> None:
    """Every route that is no GET answers 403 before it looks at the body, but for signing in and out and streams."""
    allowed: set[str] = set()
    for route in all_routes(HttpMetrics()):
        if route.method != "GET" and not route.is_open:
            path = seeded.ada.path_of(route)
            reply = await viewer.door.ask(route.method, path, body=b"", headers={"If-Match": "*"})
            if reply.status != 403:
                allowed.add(route.name)
    assert allowed == {"signIn", "signOut", "issueStreamToken"}


async def test_a_viewer_reads_and_every_attempt_to_change_is_audited(seeded: SeededHome, viewer: Seeds) -> None:
    """Lists answer as for a member; a refused call names the rule, runs nothing and is in the audit log."""
    for path in ("/v1/sessions", "/v1/tools", "/v1/events", "/v1/runs", "/v1/learned-tools", "/v1/me"):
        assert (await viewer.door.get(path)).status == 200
    call = {"tool_name": "pay", "payload": {"amount": 1}, "session_id": "s", "idempotency_key": "k"}
    refused = await viewer.door.post("/v1/calls", call)
    assert (refused.status, refused.json()["code"], refused.json()["retryable"]) == (403, "POLICY_VIOLATION", False)
    assert seeded.home.till.payments == []
    audited = await seeded.ada.door.get(f"/v1/audit?event_type=policy.refused&actor_id={viewer.user_id}")
    assert [entry["subject_id"] for entry in audited.json()["items"]] == ["POST /v1/calls"]


async def test_roles_are_given_and_seen(seeded: SeededHome, viewer: Seeds) -> None:
    """An administrator makes a viewer a member, who may then call; an unknown role is refused by its field."""
    path = f"/v1/users/{viewer.user_id}"
    assert (await seeded.ada.door.patch(path, {"role": "owner"}, If_Match="*")).status == 400
    changed = await seeded.ada.door.patch(path, {"role": "member"}, If_Match="*")
    assert (changed.status, changed.json()["role"]) == (200, "member")
    call = {"tool_name": "search", "payload": {"query": "x"}, "session_id": "s"}
    assert (await viewer.door.post("/v1/calls", call)).status == 200
