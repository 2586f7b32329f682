"""Who looks at the console and what they are shown: roles, problems inside the frame, exact values, who stated what."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.api_client import Door
from tests.api_homes import make_chain
from tests.console_desk import fill_desk, make_desk
from tests.console_pages import Pages, console_over, hidden, links, words
from tests.registry_kit import make_definition, make_verdict
from tests.unit.catalog.town import service_body, tool_body
from twinraven.app import TwinRaven
from twinraven.calls import ApprovalRequest, CallContext, CallFailed
from twinraven.foundation.errors import ApprovalPending
from twinraven.muninn import Outcome

HUGE = 10**25 + 7


async def signed_in(pages: Pages, raven: TwinRaven, role: Any) -> Pages:
    """The pages as a new user of some role sees them."""
    user = await raven.tenancy.add_user("default", f"{role} person", role=role)
    issued = await raven.tenancy.issue_key("default", user.user_id)
    begun = await pages.post("sign-in", key=issued.clear)
    return pages.with_cookie(begun.headers["set-cookie"])


def forms(markup: str) -> set[str]:
    """Where the forms of a page are sent to; whoever signed in may sign out."""
    found = re.findall(r'<form [^>]*method="post" action="([^"]*)"', markup)
    return {each for each in found if each != "/console/sign-out" and "/settings/sign-ins/" not in each}


async def test_a_viewer_is_shown_nothing_to_send(tmp_path: Path) -> None:
    """Whoever only reads sees the pages and no form that changes anything; an administrator sees them all."""
    async with console_over(make_desk(tmp_path), needs_key=True) as (pages, raven):
        with raven.collector.observe("job") as session:
            session.record("get_order", {"order_id": "O-1"}, output={}, latency_ms=1)
        await asyncio.to_thread(raven.collector.flush)
        reader, admin = await signed_in(pages, raven, "viewer"), await signed_in(pages, raven, "admin")
        assert (await admin.post("talk", title="A lamp")).status == 303
        assert (await admin.post("secrets", name="shop", type="api_key", value="canary-0123456789")).status == 303
        offered = set[str]()
        plain = ("", "review", "chains", "processes", "plans", "tools", "secrets", "settings", "talk", "goals", "runs")
        for path in (*plain, "sessions/job", "tools/get_order", "learned", "entities"):
            seen = await reader.get(path)
            assert seen.status in (200, 404), path
            assert forms(seen.body.decode()) == set(), path
            offered |= forms(await admin.text(path))
        assert {"/console/plans", "/console/secrets", "/console/talk", "/console/tools/get_order/call"} < offered


async def test_roles_are_given_and_changed(tmp_path: Path) -> None:
    """Every role can be chosen for a new user, and a user's role changed on the state that was shown."""
    async with console_over(make_desk(tmp_path)) as (pages, raven):
        assert (await pages.post("settings/users", name="vera", role="viewer", kind="person")).status == 303
        user = next(each for each in await raven.tenancy.users("default") if each.name == "vera")
        assert user.role == "viewer"
        shown = await pages.text("settings")
        assert f'action="/console/settings/users/{user.user_id}"' in shown
        seen = re.search(rf'users/{user.user_id}"><input type="hidden" name="seen" value="([^"]*)"', shown)
        assert seen is not None
        changed = await pages.post(f"settings/users/{user.user_id}", role="approver", seen=seen[1])
        assert changed.status == 303
        late = await pages.post(f"settings/users/{user.user_id}", role="admin", seen=seen[1])
        assert late.status == 412
        found = next(each for each in await raven.tenancy.users("default") if each.name == "vera")
        assert found.role == "approver"


async def test_a_problem_keeps_the_frame(tmp_path: Path) -> None:
    """What is not there, and what one may not see, is said on a page from which one can go on."""
    async with console_over(make_desk(tmp_path), needs_key=True) as (pages, raven):
        member = await signed_in(pages, raven, "member")
        for path, status in (("nothing-here", 404), ("sessions/none", 404), ("audit", 403), ("runs/none", 404)):
            reply = await member.get(path)
            assert reply.status == status, path
            text = reply.body.decode()
            assert 'id="nav"' in text
            assert "<h1>" in text
            assert re.search(r"<code>[A-Z_]+</code>", text), path


async def test_numbers_are_shown_digit_by_digit(tmp_path: Path) -> None:
    """A reviewer decides on the very number that would be sent, and copies it as it is stored."""
    async with console_over(make_desk(tmp_path)) as (pages, raven):
        wish = {"amount_cents": HUGE, "order_id": "O-1", "payment_method_id": "M-1", "reason": "late"}
        with pytest.raises(CallFailed):
            await raven.calls.call("issue_refund", wish, CallContext(session_id="huge", caller="local"))
        approval = (await pages.door.get("/v1/approvals?state=pending")).json()["items"][0]["approval_id"]
        assert str(HUGE) in words(await pages.text(f"review/calls/{approval}"))
        with raven.collector.observe("odd") as session:
            session.record("get_order", {"n": HUGE, "share": 1.5}, output={}, latency_ms=1)
        await asyncio.to_thread(raven.collector.flush)
        event = (await pages.door.get("/v1/events?session_id=odd")).json()["items"][0]["event_id"]
        assert str(HUGE) in await pages.text(f"calls/{event}")
        exact = await pages.get(f"exact/v1/events/{event}/input_params")
        assert exact.body.decode() == json.dumps({"n": HUGE, "share": 1.5}, indent=2)
        assert (await pages.get(f"exact/v1/events/{event}/nothing")).status == 404
        assert (await pages.get("exact/openapi.json")).status == 404


async def test_who_said_how_it_went(tmp_path: Path) -> None:
    """A session says who stated its outcome; where nobody did, no page calls it partial."""
    home = make_desk(tmp_path)
    async with console_over(home) as (pages, raven):
        for name in ("judged", "unjudged"):
            call: dict[str, Any] = {"session_id": name, "tool_id": "get_order", "input_params": {}}
            assert (await Door(pages.door.app, {}).post("/v1/events", {"events": [call]})).status == 201
        await raven.events.state_verdict("default", "judged", Outcome.FAILURE, stated_by="ada")
        await raven.events.state_verdict("default", "judged", Outcome.SUCCESS, stated_by="bo")
        shown = (await pages.door.get("/v1/sessions/judged")).json()["verdict"]
        assert (shown["outcome"], shown["stated_by"]) == ("success", "bo")
        assert "stated by bo" in words(await pages.text("sessions/judged"))
        assert (await pages.door.get("/v1/sessions/unjudged")).json()["verdict"] is None
        assert "nobody said how it went" in words(await pages.text("sessions/unjudged"))
        assert '<span class="pill partial">' not in await pages.text("sessions/unjudged")
        listed = await pages.text("sessions")
        assert words(listed).count("not stated") == 1
        assert '<span class="pill partial">' not in listed


async def test_secrets_say_what_uses_them(tmp_path: Path) -> None:
    """The tools that are bound to a secret stand beside it, and it is not deleted from under them."""
    home = make_desk(tmp_path, connectors={"allow_private": ["127.0.0.1"]})
    async with console_over(home) as (pages, _):
        assert (await pages.post("secrets", name="shop", type="api_key", value="canary-0123456789")).status == 303
        assert (await pages.door.post("/v1/services", service_body(name="shop"))).status == 201
        made = await pages.door.post("/v1/tools", tool_body(key="shop_order", secret="shop"))
        assert made.status == 201, made.body
        found = (await pages.door.get("/v1/secrets")).json()["items"][0]
        assert found["used_by"] == ["tool 'shop_order'"]
        assert "tool 'shop_order'" in words(await pages.text("secrets"))
    async with console_over(home) as (pages, raven):
        # A process that has not asked for any tool yet knows it as well.
        refused = await pages.post(f"secrets/{found['id']}/delete", seen="1")
        assert refused.status == 409
        assert "shop_order" in words(refused.body.decode())
        assert len(await raven.vault.secrets("default", "local")) == 1


async def test_a_rejection_says_why(tmp_path: Path) -> None:
    """A learned tool is not rejected without a reason, and a version that is no number is no page."""
    home = make_desk(tmp_path)
    await asyncio.to_thread(fill_desk, home, sessions=60)
    async with console_over(home) as (pages, raven):
        waiting = next(each for each in await raven.registry.tools("default") if each.status.value == "testing")
        target = f"review/tools/{quote(waiting.tool_id, safe='')}/1"
        seen = hidden(await pages.text(target), "seen")
        refused = await pages.post(target, verdict="reject", reason="  ", seen=seen)
        assert refused.status == 400
        assert "reason" in words(refused.body.decode())
        assert (await raven.registry.tool("default", waiting.tool_id)).record.status.value == "testing"
        assert (await pages.post(f"{target}x", verdict="reject", reason="no", seen=seen)).status in (400, 404)
        assert (await pages.post(target, verdict="reject", reason="too narrow", seen=seen)).status == 303


async def test_a_mistake_is_named_beside_the_form(tmp_path: Path) -> None:
    """What was typed wrongly is named by its field, what was typed well stays, and nothing is called or merged."""
    async with console_over(make_desk(tmp_path)) as (pages, raven):
        form = {"k_amount_cents": "number", "p_amount_cents": "ten", "k_order_id": "string", "p_order_id": "O-7"}
        refused = await pages.post("tools/issue_refund/call", None, key="k", **form)
        assert refused.status == 400
        text = refused.body.decode()
        assert "It was not called" in words(text)
        assert "amount_cents must be a number, not 'ten'" in words(text)
        assert 'value="O-7"' in text
        entity = await raven.entities.create("default", "Ann", "a baker", category="Person")
        for other in ("", "nobody"):
            merged = await pages.post(f"entities/{entity.entity_id}/merge", other_id=other)
            assert merged.status in (400, 404), other
            assert "Nothing was changed" in words(merged.body.decode()), other


async def test_a_key_has_a_page_with_its_history(tmp_path: Path) -> None:
    """From a call its key is reached: the first answer, who got it again and who was refused, in the reader's words."""
    async with console_over(make_desk(tmp_path)) as (pages, _):

        async def note(session_id: str, text: str) -> int:
            payload = {"user_id": "U-1", "text": text}
            body = {"tool_name": "add_note", "payload": payload, "session_id": session_id}
            return (await pages.door.post("/v1/calls", body, Idempotency_Key="note-7")).status

        assert [await note("one", "hello"), await note("two", "hello"), await note("three", "bye")] == [200, 200, 422]
        first = (await pages.door.get("/v1/events?session_id=one")).json()["items"][0]["event_id"]
        call = await pages.text(f"calls/{first}")
        assert "/console/keys/note-7" in links(call)
        shown = await pages.text("keys/note-7")
        said = words(shown)
        assert "Its effect has happened" in said
        assert f"/console/calls/{first}" in links(shown)
        assert "note_id" in said
        assert re.search(r"replayed the first answer two", said)
        assert re.search(r"refused the key means another request three", said)
        alike = await pages.text(f"calls?tool_id=add_note&same_as={first}")
        assert "Those of the newest 3 calls of add_note with the arguments of this one" in words(alike)
        assert [each for each in links(alike) if each.startswith("/console/sessions/") and "?" not in each] == [
            "/console/sessions/two",
            "/console/sessions/one",
        ]


async def test_people_are_called_by_name(tmp_path: Path) -> None:
    """Who asked and who decided is named to those who decide; a member is shown their own name and no one else's."""
    async with console_over(make_desk(tmp_path), needs_key=True) as (pages, raven):
        approver, member = await signed_in(pages, raven, "approver"), await signed_in(pages, raven, "member")
        users = {each.name: each.user_id for each in await raven.tenancy.users("default")}
        wish = {"order_id": "O-1", "reason": "late"}
        asker = CallContext(session_id="asked", caller=users["member person"])
        with pytest.raises(CallFailed):
            await raven.calls.call("cancel_order", wish, asker)
        (waiting,) = await raven.approvals.list("default", limit=5)
        path = f"review/calls/{waiting.approval_id}"
        shown = await approver.text(path)
        assert "member person wants to run this, once" in words(shown)
        assert users["member person"] not in words(shown)
        assert "default approver person , approver" in words(shown)
        seen = hidden(shown, "seen")
        assert (await approver.post(path, verdict="deny", note="no", seen=seen)).status == 303
        theirs = words(await member.text(path))
        assert "member person wants to run this, once" in theirs
        assert "approver person" not in theirs


async def test_a_version_that_waits_is_no_version_to_go_back_to(tmp_path: Path) -> None:
    """Beside a tool in service its next version leads to Review; only one that was in service can be rolled back to."""
    async with console_over(make_desk(tmp_path, tools={"modules": ["tests.api_homes"]})) as (pages, raven):
        chain = make_chain()
        await raven.chains.add("default", [chain])
        for number in (1, 2, 3):
            made = make_definition("one", chain_id=str(chain.chain_id), description=f"the words of {number}")
            draft = await raven.registry.draft("default", made, evidence_hash=f"e{number}")
            await raven.registry.register("default", draft.definition, make_verdict())
            if number < 3:
                await raven.registry.promote("default", "one", by="local")
        shown = await pages.text("learned/one")
        assert "Roll back to version 1" in words(shown)
        assert "Roll back to version 3" not in words(shown)
        assert "/console/review/tools/one/3" in links(shown)


async def test_what_a_grant_covers_is_named(tmp_path: Path) -> None:
    """A reviewer of a call with other tools inside is told which of them the grant is for."""
    async with console_over(make_desk(tmp_path)) as (pages, raven):
        wish = ApprovalRequest(
            tenant_id="default", tool_id="settle_return", key="return-7", is_spare_key=False, body=b"{}",
            arguments=b"{}", covers=("settle_return", "issue_refund", "add_note"), definition={"settle_return": "d"},
            effect="write", sensitivity="low", rule="rules[1]", reason="refunds need a person", caller="local",
            session_id="s", correlation_id="c",
        )  # fmt: skip
        with pytest.raises(ApprovalPending):
            await raven.approvals.seek(wish)
        (waiting,) = await raven.approvals.list("default", limit=5)
        shown = await pages.text(f"review/calls/{waiting.approval_id}")
        assert "Covers issue_refund , add_note , inside this one run" in words(shown)
        assert "/console/tools/add_note" in links(shown)
