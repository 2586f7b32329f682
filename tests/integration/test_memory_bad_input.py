"""What conversations, entities and metrics refuse at the REST door of a home: a stable code, the field, no row."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.api_client import Door
from tests.api_homes import ApiHome, api_home
from tests.scripted import scripted_model
from tests.talking import Speaker, talking_process
from tests.working import FAST, working
from twinraven.conversations import MOST_ALTERNATIVES, ConversationStore
from twinraven.conversations.building import NewAlternative, TreeBuilder
from twinraven.conversations.sql import AnswerOutcome
from twinraven.foundation.clock import now_micros
from twinraven.storage import Transaction

_TABLES = (
    "conversations", "conversation_turns", "alternatives", "alternative_outcomes", "alternative_quotes", "runs",
    "run_dispatch", "entities", "entity_merges", "metric_values", "audit_log", "event_log",
)  # fmt: skip
_KNOWLEDGE = {"extraction": "rules", "embedder": "off"}
_HUGE = "x" * 10_000_000
_HALF = "a\ud800b"


@dataclass
class Scene:
    """A home with two conversations, of which the second is archived, an entity and a metric."""

    home: ApiHome
    talk: str
    said: dict[str, Any]
    later: dict[str, Any]
    archived: str
    elsewhere: dict[str, Any]
    entity: str
    metric: str

    async def rows(self) -> dict[str, int]:
        def work(tx: Transaction) -> dict[str, int]:
            known = {row["name"] for row in tx.fetch_all("SELECT name FROM sqlite_master WHERE type = 'table'")}
            counted = [name for name in _TABLES if name in known]
            found = {name: tx.fetch_one(f"SELECT COUNT(*) AS rows FROM {name}") for name in counted}
            return {name: row["rows"] for name, row in found.items() if row is not None}

        return await self.home.raven.database.read("default", work)

    async def refused(self, path: str, body: dict[str, Any], method: str = "POST") -> tuple[int, str, str]:
        """How a request is refused, which leaves nothing behind."""
        before = await self.rows()
        text = json.dumps(body).encode()
        reply = await self.home.door.ask(method, path, body=text, headers={"content-type": "application/json"})
        assert await self.rows() == before, path
        problem = reply.json()
        assert problem["status"] == reply.status
        assert len(reply.body) < 10_000
        return reply.status, problem["code"], problem["details"]["field"].removeprefix("body.")


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[Scene]:
    async with api_home(tmp_path, engine=FAST, knowledge=_KNOWLEDGE, functions=[Speaker().speak]) as home:
        door = home.door
        for process in (talking_process("plain"), talking_process("off", enabled=False)):
            await made(door, "/v1/processes", {"definition": process.as_json()})
        talk, other = [(await made(door, "/v1/conversations", {}))["id"] for _ in range(2)]
        turns = [
            await made(door, f"/v1/conversations/{each}/turns", {"speaker": "user", "content": "hello"})
            for each in (talk, talk, other)
        ]
        await door.patch(f"/v1/conversations/{other}", {"status": "archived"})
        entity = await made(door, "/v1/entities", {"name": "Acme", "summary": "makes tools"})
        wish = {"name": "score", "scope": "tool", "aggregation": "last", "data_type": "integer"}
        metric = await made(door, "/v1/metric-definitions", wish)
        yield Scene(
            home,
            talk,
            turns[0],
            turns[1],
            other,
            turns[2],
            entity["entity_id"],
            metric.get("metric_id") or metric["id"],
        )


async def made(door: Door, path: str, body: dict[str, Any]) -> dict[str, Any]:
    reply = await door.post(path, body)
    assert reply.status in (200, 201), reply.body
    return reply.json()


@pytest.mark.req("AD-16", "AD-17", "AD-18")
async def test_conversations_refuse_what_cannot_be(scene: Scene) -> None:
    """Foreign parents, alternatives and processes, texts that no store holds, and what is archived."""
    turns = f"/v1/conversations/{scene.talk}/turns"
    active = f"{turns}/{scene.said['id']}/active"
    messages = f"/v1/conversations/{scene.talk}/messages"
    foreign, theirs = scene.elsewhere["id"], scene.elsewhere["alternatives"][0]["id"]
    for path in (turns, messages):
        more = {"speaker": "user"} if path == turns else {"process_id": "plain"}
        refused = await scene.refused(path, {"content": "x", "parent_turn": foreign, **more})
        assert refused == (404, "NOT_FOUND", "parent_turn")
    later = scene.later["alternatives"][0]["id"]
    assert await scene.refused(active, {"alternative_id": later}) == (400, "VALIDATION_FAILED", "alternative_id")
    assert await scene.refused(active, {"alternative_id": theirs}) == (404, "NOT_FOUND", "alternative_id")
    quoting = {"speaker": "user", "content": "x", "quotes": [theirs]}
    assert await scene.refused(turns, quoting) == (404, "NOT_FOUND", "quotes")
    for process_id in ("off", "nobodys"):
        unsuitable = (400, "PROCESS_UNSUITABLE", "process_id")
        assert await scene.refused(messages, {"content": "x", "process_id": process_id}) == unsuitable
        assert await scene.refused("/v1/conversations", {"process_id": process_id}) == unsuitable
        chosen = await scene.refused(f"/v1/conversations/{scene.talk}", {"process_id": process_id}, "PATCH")
        assert chosen == unsuitable
    for text in (_HUGE, _HALF, "a\0b"):
        for path in (turns, f"{turns}/{scene.said['id']}/alternatives", messages):
            more = {"speaker": "user"} if path == turns else {}
            assert await scene.refused(path, {"content": text, **more}) == (400, "VALIDATION_FAILED", "content")
        for path in ("/v1/conversations", f"/v1/conversations/{scene.talk}/forks"):
            assert await scene.refused(path, {"title": text}) == (400, "VALIDATION_FAILED", "title")
    gone = f"/v1/conversations/{scene.archived}"
    archived = (409, "CONVERSATION_ARCHIVED", "conversation_id")
    assert await scene.refused(f"{gone}/forks", {}) == archived
    assert await scene.refused(f"{gone}/turns", {"speaker": "user", "content": "x"}) == archived
    assert await scene.refused(f"{gone}/turns/{foreign}/active", {"alternative_id": theirs}) == archived


@pytest.mark.req("AD-23", "AD-24", "AD-28")
async def test_entities_and_metrics_refuse_what_cannot_be(scene: Scene) -> None:
    """A merge with itself, names that no store holds, and values of another type than the metric's."""
    merge = f"/v1/entities/{scene.entity}/merge"
    assert await scene.refused(merge, {"other_id": scene.entity}) == (400, "VALIDATION_FAILED", "other_id")
    assert await scene.refused(merge, {"other_id": "nobody"}) == (404, "NOT_FOUND", "other_id")
    for text in (_HUGE, _HALF, "a\0b"):
        for field in ("name", "summary"):
            body = {"name": "Acme", "summary": "makes tools", field: text}
            assert await scene.refused("/v1/entities", body) == (400, "VALIDATION_FAILED", field)
    values = f"/v1/metrics/{scene.metric}/values"
    for value in ("text", 1.5, True, None, [1], {"a": 1}, 10**30, 1e300):
        body = {"entity_id": "search", "value": value}
        assert await scene.refused(values, body) == (400, "VALIDATION_FAILED", "value")
    assert await scene.refused(values, {"entity_id": "ghost", "value": 1}) == (404, "NOT_FOUND", "entity_id")


@pytest.mark.req("AD-17")
async def test_a_turn_has_so_many_alternatives_and_no_more(scene: Scene) -> None:
    """The one after the last is refused; a page of the turn stays within bounds."""

    def fill(tx: Transaction) -> None:
        tree = TreeBuilder(ConversationStore(), tx, "default", scene.talk, now_micros())
        for number in range(MOST_ALTERNATIVES - 1):
            tree.add_alternative(scene.said["id"], NewAlternative(said=AnswerOutcome(f"wording {number}", None, 2)))

    await scene.home.raven.database.write("default", fill)
    turn = f"/v1/conversations/{scene.talk}/turns/{scene.said['id']}"
    refused = await scene.refused(f"{turn}/alternatives", {"content": "one more"})
    assert refused == (409, "TOO_MANY_ALTERNATIVES", "turn_id")
    shown = (await scene.home.door.get(turn)).json()["alternatives"]
    assert [each["is_active"] for each in shown].count(True) == 1
    assert len(shown) == MOST_ALTERNATIVES


@pytest.mark.req("AD-17")
@pytest.mark.parametrize(
    "answer",
    [
        {"say": "This is cut " * 20, "break_off": 40},
        {"say": "for ever and ever " * 200, "piece_chars": 4, "pause_s": 0.1},
    ],
    ids=["dies in mid-stream", "streams for ever"],
)
async def test_a_model_that_does_not_end_fails_its_answer(tmp_path: Path, answer: dict[str, Any]) -> None:
    """A reader of the stream is told that the answer failed, the turn says why, and no half of a text is kept."""
    async with scripted_model(answer) as model:
        limits = {"conversations": {"answer_timeout_s": 3}, "engine": FAST, "knowledge": _KNOWLEDGE}
        async with api_home(tmp_path, **limits, **model.settings(timeout_s=1.5)) as home, working(home.raven):
            talk = (await made(home.door, "/v1/conversations", {}))["id"]
            sent = (await home.door.post(f"/v1/conversations/{talk}/messages", {"content": "go"})).json()["answer"]
            place = f"/v1/conversations/{talk}/alternatives/{sent['alternatives'][0]['id']}/stream"
            async with home.door.listen(place) as listening:
                while (heard := await listening.named())[1] not in ("done", "failed"):
                    pass
            assert heard[1] == "failed"
            [shown] = (await home.door.get(f"/v1/conversations/{talk}/turns/{sent['id']}")).json()["alternatives"]
            assert (shown["state"], shown["content"]) == ("failed", None)
            assert shown["error"]["code"].startswith("TOOL_")
            left = await home.raven.database.read(
                "default", lambda tx: tx.fetch_all("SELECT * FROM alternative_pieces")
            )
            assert left == []
