"""One inbox for people: every kind of waiting thing is listed, shown with its hash, and decided once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.api_homes import ApiHome, Seeds, api_home, make_chain
from tests.governed import approved_task
from tests.postgres import PostgresLogin
from tests.registry_kit import make_definition, make_verdict
from tests.working import FAST, reach, working
from twinraven.foundation.clock import to_micros
from twinraven.foundation.errors import TwinRavenError
from twinraven.inbox import InboxAnswer, Reservations
from twinraven.tenancy import Principal

ASK = {
    "tool_id": "ask",
    "description": "Asks, then searches",
    "parameters": {"type": "object"},
    "steps": [
        {
            "step_index": 0,
            "tool_id": "person:boss",
            "input_mapping": {"question": "What?", "answer_schema": {"type": "string"}},
        },
        {"step_index": 1, "tool_id": "search", "input_mapping": {"query": "$.steps[0].output"}},
    ],
}
PIN = {"name": "echo", "description": "says it again", "inputSchema": {"type": "object"}}


async def _wanted(home: ApiHome, order: int, who: Seeds | None = None) -> str:
    door = home.door if who is None else who.door
    body = {"tool_name": "refund", "payload": {"order": order}, "session_id": "s"}
    asked = await door.post("/v1/calls", body, Idempotency_Key=f"refund-{order}")
    return f"call:{asked.json()['error']['details']['approval_id']}"


async def _items(door: Any, query: str = "") -> list[dict[str, Any]]:
    return (await door.get(f"/v1/inbox{query}")).json()["items"]


def _path(item: str) -> str:
    from urllib.parse import quote

    return f"/v1/inbox/{quote(item, safe='')}"


async def test_a_call_is_listed_shown_and_approved_on_what_was_shown(tmp_path: Path) -> None:
    """An item says what will happen, to what, why and until when; a decision under its tag lets the call run once."""
    async with api_home(tmp_path) as home:
        item_id = await _wanted(home, 7)
        listed = (await home.door.get("/v1/inbox")).json()
        assert (listed["count"], [item["item_id"] for item in listed["items"]]) == (1, [item_id])
        shown = await home.door.get(_path(item_id))
        item = shown.json()
        assert (item["target"], item["why"], item["state"]) == ("refund", "'refund': refunds need a person", "open")
        assert item["evidence"]["arguments"] == {"order": 7}
        assert item["expires_at"] is not None
        assert [choice["name"] for choice in item["choices"]] == ["approve", "deny"]
        done = await home.door.post(f"{_path(item_id)}/decide", {"choice": "approve"}, If_Match=shown.tag)
        assert (done.status, done.json()["state"], done.json()["decision"]) == (200, "decided", "approve")
        body = {"tool_name": "refund", "payload": {"order": 7}, "session_id": "s"}
        again = await home.door.post("/v1/calls", body, Idempotency_Key="refund-7")
        assert again.json()["status"] == "success"
        over = await home.door.post(f"{_path(item_id)}/decide", {"choice": "deny"}, If_Match=shown.tag)
        assert (over.status, over.json()["code"]) == (409, "ILLEGAL_TRANSITION")
        assert (await home.door.get("/v1/inbox")).json() == {"items": [], "next_cursor": None, "count": 0}


@pytest.mark.req("CH-08")
async def test_a_decision_names_what_was_shown(tmp_path: Path) -> None:
    """Without If-Match, with * alone, or with another hash nothing is decided; the hash in the body is enough."""
    async with api_home(tmp_path) as home:
        item_id = await _wanted(home, 7)
        target = f"{_path(item_id)}/decide"
        said = {"choice": "approve"}
        assert (await home.door.post(target, said)).status == 428
        assert (await home.door.post(target, said, If_Match="*")).json()["details"]["field"] == "bound_to"
        assert (await home.door.post(target, said, If_Match='"12345"')).status == 412
        other = {**said, "bound_to": "0" * 64}
        assert (await home.door.post(target, other, If_Match="*")).status == 412
        assert (await home.door.post(target, other)).status == 412
        odd = {"choice": "shrug", "bound_to": (await _items(home.door))[0]["bound_to"]}
        assert (await home.door.post(target, odd, If_Match="*")).json()["details"]["field"] == "choice"
        assert (await home.door.get(_path("call:nothing"))).status == 404
        assert (await home.door.get(_path("nonsense"))).status == 404
        (item,) = await _items(home.door)
        assert item["state"] == "open"
        done = await home.door.post(target, {**said, "bound_to": item["bound_to"]})
        assert (done.status, done.json()["decision"]) == (200, "approve")


@pytest.mark.req("CH-07")
async def test_an_approver_decides_and_administers_nothing(tmp_path: Path) -> None:
    """Who decides is an approver or an administrator, never who asked; an approver opens no administrator's door."""
    async with api_home(tmp_path, needs_key=True) as home:
        admin = await home.tenant("ada")
        bob = await home.user(admin.tenant_id, "bob")
        eve = await home.user(admin.tenant_id, "eve", role="approver")
        first, second = [await _wanted(home, order, who) for order, who in ((1, bob), (2, eve))]
        assert await _items(bob.door) == []
        assert (await bob.door.get(_path(first))).status == 404
        assert [item["item_id"] for item in await _items(eve.door)] == [first, second]
        shown = await eve.door.get(_path(first))
        done = await eve.door.post(f"{_path(first)}/decide", {"choice": "approve"}, If_Match=shown.tag)
        assert (done.status, done.json()["decided_by"]) == (200, eve.user_id)
        own = await eve.door.get(_path(second))
        refused = await eve.door.post(f"{_path(second)}/decide", {"choice": "approve"}, If_Match=own.tag)
        assert (refused.status, refused.json()["code"]) == (403, "POLICY_VIOLATION")
        approval = second.removeprefix("call:")
        assert (await eve.door.post(f"/v1/approvals/{approval}/deny", {"note": "no"})).status == 200
        for path in ("/v1/users", "/v1/audit", "/v1/policy", "/v1/workers"):
            assert (await eve.door.get(path)).status == 403
        assert (await eve.door.post("/v1/users", {"name": "mallory"})).status == 403
        await home.raven.tenancy.add_user(admin.tenant_id, "robot", role="approver", kind="agent")
        third = await _wanted(home, 3, bob)
        robot = Principal(admin.tenant_id, "robot", "approver", kind="agent")
        item = await home.raven.inbox.get(third, by=robot)
        with pytest.raises(TwinRavenError, match="a person must decide"):
            await home.raven.inbox.decide(third, InboxAnswer("approve", item.bound_to), by=robot)


async def test_questions_of_runs_are_answered_here(tmp_path: Path) -> None:
    """A manual step is an item with the schema of its answer; answering it lets the run go on. The question of a run
    that was cancelled is none, and takes no other's place."""
    async with api_home(tmp_path, engine=FAST) as home, working(home.raven):
        for run_id in ("r:0", "r:1"):
            await home.door.post("/v1/runs", {"definition": ASK, "run_id": run_id})
            await reach(home.raven, run_id, "waiting")
        assert (await home.door.post("/v1/runs/r:0/cancel", {})).status == 200
        assert [run.run_id for run, _ in await home.raven.runs.waiting("default", limit=1)] == ["r:1"]
        (item,) = await _items(home.door, "?kind=question")
        assert (item["why"], item["choices"][0]["answer_schema"]) == ("What?", {"type": "string"})
        target, bound = f"{_path(item['item_id'])}/decide", {"choice": "answer", "bound_to": item["bound_to"]}
        wrong = await home.door.post(target, {**bound, "answer": 7}, If_Match="*")
        assert (wrong.status, wrong.json()["details"]["field"]) == (400, "answer")
        done = await home.door.post(target, {**bound, "answer": "tea"}, If_Match="*")
        assert (done.status, done.json()["state"]) == (200, "decided")
        await reach(home.raven, "r:1", "succeeded")


@pytest.mark.req("AD-24")
async def test_learned_tools_changed_tools_and_duplicates_wait_here(tmp_path: Path) -> None:
    """Each kind is listed with its evidence and decided by its own choices."""
    async with api_home(tmp_path) as home:
        raven, chain = home.raven, make_chain()
        await raven.chains.add("default", [chain])
        draft = await raven.registry.draft(
            "default", make_definition("one", chain_id=str(chain.chain_id)), evidence_hash="e"
        )
        await raven.registry.register("default", draft.definition, make_verdict())
        await raven.upstream_tools.observe("default", "town", [PIN])
        await raven.upstream_tools.observe(
            "default", "town", [{**PIN, "inputSchema": {"type": "object", "required": ["x"]}}]
        )
        await raven.entities.create("default", "Ann Smith", "a baker in York", category="Person")
        await raven.entities.create("default", "Anne Smith", "a baker in York", category="Person")
        await raven.entities.find_proposals("default")
        found = {item["kind"]: item for item in await _items(home.door)}
        assert set(found) == {"learned_tool", "changed_tool", "duplicate"}
        assert found["changed_tool"]["evidence"]["diff"]
        assert found["learned_tool"]["evidence"]["steps"]
        for kind, choice in (("learned_tool", "approve"), ("changed_tool", "accept"), ("duplicate", "merge")):
            item = found[kind]
            said = {"choice": choice, "bound_to": item["bound_to"]}
            done = await home.door.post(f"{_path(item['item_id'])}/decide", said, If_Match="*")
            assert (done.status, done.json()["state"]) == (200, "decided"), done.body
        assert await _items(home.door) == []
        assert len(await raven.entities.entities("default", text="smith")) == 1


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_of_two_deciders_one_wins(tmp_path: Path, store: str, request: pytest.FixtureRequest) -> None:
    """Eight people decide one item at once: one decision stands, the others are told that it is over."""
    login: PostgresLogin | None = request.getfixturevalue("postgres_login") if store == "postgres" else None
    async with api_home(tmp_path, postgres=login) as home:
        await home.raven.entities.create("default", "Ann Smith", "a baker in York", category="Person")
        await home.raven.entities.create("default", "Anne Smith", "a baker in York", category="Person")
        await home.raven.entities.find_proposals("default")
        await _wanted(home, 7)
        for item in await _items(home.door):
            choices = [choice["name"] for choice in item["choices"]]
            said = [{"choice": choices[number % 2], "bound_to": item["bound_to"]} for number in range(8)]
            target = f"{_path(item['item_id'])}/decide"
            replies = await asyncio.gather(*(home.door.post(target, each, If_Match="*") for each in said))
            assert sorted(reply.status for reply in replies) == [200, *[409] * 7]
            (won,) = [reply.json()["decision"] for reply in replies if reply.status == 200]
            assert (await home.door.get(_path(item["item_id"]))).json()["decision"] == won


async def test_an_expired_item_cannot_be_decided(tmp_path: Path) -> None:
    """What expired is neither listed nor decided."""
    rules = [{"tool": "refund", "then": "ask"}]
    async with api_home(tmp_path, policy={"rules": rules, "approval_ttl_s": 1}) as home:
        item_id = await _wanted(home, 7)
        while await _items(home.door):  # noqa: ASYNC110 - time passes by itself
            await asyncio.sleep(0.2)
        shown = await home.door.get(_path(item_id))
        assert shown.json()["state"] == "expired"
        done = await home.door.post(f"{_path(item_id)}/decide", {"choice": "approve"}, If_Match=shown.tag)
        assert (done.status, done.json()["code"]) == (409, "ILLEGAL_TRANSITION")


async def test_pages_go_on_where_they_ended(tmp_path: Path) -> None:
    """A page holds so many, says how many there are in all, and its cursor gives the rest."""
    async with api_home(tmp_path) as home:
        wanted = [await _wanted(home, order) for order in range(5)]
        first = (await home.door.get("/v1/inbox?limit=2")).json()
        second = (await home.door.get(f"/v1/inbox?limit=9&cursor={first['next_cursor']}")).json()
        assert (first["count"], len(first["items"]), second["next_cursor"]) == (5, 2, None)
        assert [item["item_id"] for item in (*first["items"], *second["items"])] == wanted


@pytest.mark.req("CH-07")
async def test_an_escalated_result_is_decided_by_a_person(tmp_path: Path) -> None:
    """What a judge escalated waits with its checks; an approver overrides them with a reason, or sends it back."""
    check = {"check_id": "tone", "name": "tone", "result": "fail", "details": "too loud", "mandatory": True}
    async with api_home(tmp_path, needs_key=True) as home:
        admin = await home.tenant("ada")
        bob = await home.user(admin.tenant_id, "bob")
        eve = await home.user(admin.tenant_id, "eve", role="approver")
        tasks = [
            await approved_task(
                home.raven, tenant_id=admin.tenant_id, verdict="escalate", status="escalated", checks=[check]
            )
            for _ in range(2)
        ]
        wish = {"channel": "blog", "text": "x"}
        items = await _items(eve.door, "?kind=judgement")
        assert [item["target"] for item in items] == [task.task_id for task in tasks]
        assert items[0]["evidence"]["open_checks"] == [check]
        assert "“Pay the printer”" in items[0]["what"]
        assert items[0]["evidence"]["task"]["acceptance_criteria"][0]["description"] == "the invoice was checked"
        assert await _items(bob.door) == []
        for task, item, choice, status in zip(tasks, items, ("approve", "reject"), (202, 403), strict=True):
            target, bound = f"{_path(item['item_id'])}/decide", {"choice": choice, "bound_to": item["bound_to"]}
            bare = await eve.door.post(target, bound, If_Match="*")
            assert (bare.status, bare.json()["details"]["field"]) == (400, "note")
            done = await eve.door.post(target, {**bound, "note": "read it twice"}, If_Match="*")
            assert done.status == 200, done.body
            assert (done.json()["state"], done.json()["decision"]) == ("decided", choice)
            assert done.json()["decided_by"] == eve.user_id
            post = {**wish, "task_id": task.task_id, "idempotency_key": task.task_id}
            assert (await admin.door.post("/v1/publications", post)).status == status
        kept = await home.raven.judge.about(admin.tenant_id, tasks[0].task_id)
        assert [(each.decision, each.override_reason) for each in kept] == [
            ("escalate", None),
            ("approve", "read it twice"),
        ]


@pytest.mark.req("CH-07")
async def test_what_nobody_can_decide_any_more_hides_nothing(tmp_path: Path) -> None:
    """An escalation that expired takes no place of one that waits, and one whose task was cancelled waits no more."""
    async with api_home(tmp_path) as home:
        waits: dict[str, Any] = {"verdict": "escalate", "status": "escalated"}
        await approved_task(home.raven, **waits, expires_at=1)
        gone, live = [await approved_task(home.raven, **waits, expires_at=2**52) for _ in range(2)]
        (first,) = await home.raven.judge.escalated("default", limit=1)
        assert first.decision_id == gone.decision_id
        cancelled = await home.door.post(f"/v1/tasks/{gone.task_id}/cancel", {"state_version": 1})
        assert cancelled.status == 200, cancelled.body
        assert [item["ref"] for item in await _items(home.door)] == [live.decision_id]
        over = await home.door.get(_path(f"judgement:{gone.decision_id}"))
        assert (over.status, over.json()["state"]) == (200, "expired")


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_reviewers_see_who_is_looking(tmp_path: Path, store: str, request: pytest.FixtureRequest) -> None:
    """Whoever opens an item is seen by the others for a while; it keeps nobody from deciding, and ends with that."""
    login: PostgresLogin | None = request.getfixturevalue("postgres_login") if store == "postgres" else None
    async with api_home(tmp_path, needs_key=True, postgres=login) as home:
        ada = await home.tenant("ada")
        eve = await home.user(ada.tenant_id, "eve", role="approver")
        bob = await home.user(ada.tenant_id, "bob")
        item_id = await _wanted(home, 7, ada)
        hold = f"{_path(item_id)}/reservation"

        async def lookers(who: Seeds) -> list[str]:
            return [each["name"] for each in (await who.door.get("/v1/inbox-reservations")).json()["items"]]

        assert [each["name"] for each in (await ada.door.ask("PUT", hold)).json()["items"]] == ["ada"]
        assert [each["name"] for each in (await eve.door.ask("PUT", hold)).json()["items"]] == ["ada", "eve"]
        assert (await bob.door.ask("PUT", hold)).status == 404
        assert (await lookers(ada), await lookers(bob)) == (["ada", "eve"], [])
        assert (await ada.door.ask("DELETE", hold)).status == 204
        assert await lookers(ada) == ["eve"]
        shown = await ada.door.get(_path(item_id))
        done = await ada.door.post(f"{_path(item_id)}/decide", {"choice": "approve"}, If_Match=shown.tag)
        assert done.status == 200, done.body
        assert await lookers(ada) == []
        assert (await ada.door.ask("PUT", hold)).status == 409


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_a_reservation_ends_by_itself(tmp_path: Path, store: str, request: pytest.FixtureRequest) -> None:
    """Two minutes after somebody last looked they are looking no more; whoever looks again is looking since then."""
    login: PostgresLogin | None = request.getfixturevalue("postgres_login") if store == "postgres" else None
    async with api_home(tmp_path, postgres=login) as home:
        now = [1_000_000_000_000_000]
        held = Reservations(home.raven.database, micros=lambda: now[0])
        await held.take("default", "call:1", "ada")
        began = now[0]
        now[0] += 119_000_000
        (kept,) = await held.take("default", "call:1", "ada")
        assert to_micros(kept.since) == began
        now[0] += 119_000_000
        assert len(await held.current("default")) == 1
        now[0] += 2_000_000
        assert await held.current("default") == []
        (again,) = await held.take("default", "call:1", "ada")
        assert to_micros(again.since) == now[0]
