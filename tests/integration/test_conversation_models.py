"""Conversations with a scripted model over real HTTP: built-in processes, streams over REST, failures."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.api_homes import api_home
from tests.homes import opened_home
from tests.scripted import RunningModel, scripted_model
from tests.talking import bound, settled
from tests.working import FAST, working
from twinraven.catalog import tool
from twinraven.conversations import Alternative, Piece
from twinraven.muninn import EventFilter
from twinraven.tenancy import LOCAL

SLOWLY: dict[str, Any] = {"say": "The order ships on Tuesday, not before.", "piece_chars": 6, "pause_s": 0.06}


@tool(effect="read")
def find_order(order_id: str) -> dict[str, str]:
    """Looks an order up."""
    return {"order_id": order_id, "state": "late"}


@tool(effect="write")
def add_note(text: str) -> str:
    """Writes a note."""
    return f"noted: {text}"


def home(folder: Path, model: RunningModel, **more: Any) -> Any:
    sections: dict[str, Any] = {"knowledge": {"extraction": "rules"}, **model.settings(), **more}
    return opened_home(folder, [find_order, add_note], engine=FAST, **sections)


@pytest.mark.req("AD-17", "AD-19")
async def test_an_answer_is_streamed_and_then_kept(tmp_path: Path) -> None:
    """A new conversation works at once: pieces as they come, then the content, by the built-in process."""
    async with scripted_model(SLOWLY) as model:
        with home(tmp_path, model) as raven:
            talk = raven.conversations
            conversation = await talk.create(by=LOCAL)
            async with working(raven):
                _, answer = await talk.converse(conversation.conversation_id, "When?", by=LOCAL)
                heard = [
                    piece
                    async for piece in await talk.stream(
                        conversation.conversation_id, answer.active.alternative_id, by=LOCAL
                    )
                ]
            await raven.aclose()
    pieces = [piece.text for piece in heard if isinstance(piece, Piece)]
    assert len(pieces) > 1
    last = heard[-1]
    assert isinstance(last, Alternative)
    assert last.content == SLOWLY["say"]
    assert "".join(pieces) == SLOWLY["say"][: len("".join(pieces))]
    assert (last.process_id, last.process_version, last.cache_status) == ("chat", 1, "valid")
    assert model.exchanges[0].asked.last == "When?"


async def test_a_model_may_call_tools_on_the_callers_behalf(tmp_path: Path) -> None:
    """chat_with_tools: calls go through the call path and are recorded; what they gave is shown to the model."""
    script: tuple[dict[str, Any], ...] = (
        {
            "when": {"contains": "order"},
            "tool_calls": [
                {"name": "find_order", "arguments": {"order_id": "W1"}},
                {"name": "add_note", "arguments": {"text": "asked"}},
                {"name": "chat_reply", "arguments": {}},
            ],
            "times": 1,
        },
        {"say": "It is late."},
    )
    async with scripted_model(*script) as model:
        with home(tmp_path, model) as raven:
            talk = raven.conversations
            conversation = await talk.create(by=LOCAL, process_id="chat_with_tools")
            async with working(raven):
                _, answer = await talk.converse(conversation.conversation_id, "How is my order?", by=LOCAL)
                done = await settled(raven, answer)
            events = await raven.events.events("default", EventFilter(session_id=f"run:{done.run_id}"))
            await raven.aclose()
    assert (done.content, done.process_id) == ("It is late.", "chat_with_tools")
    called = [event.tool_id for event in events if event.tool_id in ("find_order", "add_note")]
    assert sorted(called) == ["add_note", "find_order"]
    told = str(model.exchanges[-1].asked)
    assert model.exchanges[-1].asked.messages == 5, told


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"say": "This is cut " * 20, "break_off": 40}, "TOOL_"),
        ({"status": 500}, "TOOL_"),
        ({"say": "  "}, "ANSWER_INVALID"),
        ({"say": "for ever and ever " * 200, "piece_chars": 4, "pause_s": 0.1}, "TOOL_TIMEOUT"),
    ],
    ids=["dies in mid-stream", "fails", "says nothing", "streams for ever"],
)
async def test_a_model_that_misbehaves_fails_the_answer(tmp_path: Path, answer: dict[str, Any], code: str) -> None:
    """The answer fails with a stable code, keeps no half of a text, and the conversation goes on."""
    more: dict[str, Any] = {"conversations": {"answer_timeout_s": 3}}
    async with scripted_model({**answer, "when": {"contains": "first"}}, {"say": "Fine."}) as model:
        settings: dict[str, Any] = {"engine": FAST, **model.settings(timeout_s=1.5), **more}
        with opened_home(tmp_path, [], **settings) as raven:
            talk = raven.conversations
            conversation = await talk.create(by=LOCAL)
            async with working(raven):
                _, turn = await talk.converse(conversation.conversation_id, "first", by=LOCAL)
                failed = await settled(raven, turn)
                assert (failed.state, failed.content) == ("failed", None)
                assert failed.error is not None
                assert failed.error["code"].startswith(code), failed.error
                _, turn = await talk.converse(conversation.conversation_id, "then", by=LOCAL)
                assert (await settled(raven, turn)).content == "Fine."
                await bound(raven, conversation.conversation_id)
            left = await raven.database.read("default", lambda tx: tx.fetch_all("SELECT * FROM alternative_pieces"))
            await raven.aclose()
    assert not left


@pytest.mark.req("AD-16", "AD-17", "AD-18", "AD-22")
async def test_conversations_over_http(tmp_path: Path) -> None:
    """Begin, say, follow the answer by its events, go on with a stream that broke, and branch: all by routes."""
    async with (
        scripted_model(SLOWLY) as model,
        api_home(tmp_path, engine=FAST, knowledge={"extraction": "rules"}, **model.settings()) as home,
    ):
        door = home.door
        made = await door.post("/v1/conversations", {"title": "Order"})
        assert made.status == 201, made.body
        root = f"/v1/conversations/{made.json()['id']}"
        assert made.headers["location"] == root
        sent = await door.post(f"{root}/messages", {"content": "When?"})
        assert sent.status == 202, sent.body
        _said, answer = sent.json()["said"], sent.json()["answer"]
        assert answer["alternatives"][0]["cache_status"] == "generating"
        alternative_id = answer["alternatives"][0]["id"]
        stream = f"{root}/alternatives/{alternative_id}/stream"
        async with door.listen(stream) as listening:
            events = [await listening.named()]
            while events[-1][1] not in ("done", "failed"):
                events.append(await listening.named())
        texts = [body["text"] for _, name, body in events if name == "text"]
        assert len(texts) > 1
        assert events[-1][2]["content"] == SLOWLY["say"]
        ids = [place for place, name, _ in events if name == "text"]
        assert ids == [f"1.{number}" for number in range(1, len(ids) + 1)]
        async with door.listen(stream, Last_Event_ID=str(ids[0])) as listening:
            assert (await listening.named())[1] == "done"
        assert (await door.get(stream, Last_Event_ID="x")).status == 400
        await home.raven.aclose()


@pytest.mark.req("AD-16", "AD-17", "AD-18", "AD-22")
async def test_branches_over_http(tmp_path: Path) -> None:
    """Edit, switch, quote, fork, see the memory, archive and list; what is wrong is a problem that names its field."""
    async with (
        scripted_model({"say": SLOWLY["say"]}) as model,
        api_home(tmp_path, engine=FAST, knowledge={"extraction": "rules"}, **model.settings()) as home,
    ):
        door = home.door
        root = f"/v1/conversations/{(await door.post('/v1/conversations', {'title': 'Order'})).json()['id']}"
        sent = await door.post(f"{root}/messages", {"content": "When?"})
        said, answer = sent.json()["said"], sent.json()["answer"]
        alternative_id = answer["alternatives"][0]["id"]
        async with door.listen(f"{root}/alternatives/{alternative_id}/stream") as listening:
            while (await listening.named())[1] != "done":
                pass
        edited = await door.post(f"{root}/turns/{said['id']}/alternatives", {"content": "When exactly?"})
        assert [each["is_active"] for each in edited.json()["alternatives"]] == [False, True]
        stale = (await door.get(f"{root}/turns/{answer['id']}")).json()
        assert stale["alternatives"][0]["cache_status"] == "stale"
        first = said["alternatives"][0]["id"]
        wrong = await door.post(f"{root}/turns/{answer['id']}/active", {"alternativeId": first})
        assert (wrong.status, wrong.json()["details"]["field"]) == (400, "alternative_id")
        switched = await door.post(f"{root}/turns/{said['id']}/active", {"alternativeId": first})
        assert switched.json()["alternatives"][0]["is_active"]
        memory = (await door.get(f"{root}/memory")).json()
        assert [item["text"] for item in memory["items"]] == ["When?", SLOWLY["say"]]
        assert memory["total_tokens"] == sum(item["tokens"] for item in memory["items"])
        quoting = {"speaker": "user", "content": "And?", "quotes": [edited.json()["alternatives"][1]["id"]]}
        assert (await door.post(f"{root}/turns", quoting)).status == 201
        assert "quote" in [item["kind"] for item in (await door.get(f"{root}/memory")).json()["items"]]
        fork = await door.post(f"{root}/forks", {"turn_id": answer["id"]})
        assert fork.json()["forked_from"]["origin_alternative"] == alternative_id
        copied = (await door.get(f"/v1/conversations/{fork.json()['id']}/path")).json()["items"]
        assert [turn["alternatives"][0]["content"] for turn in copied] == ["When?", SLOWLY["say"]]
        assert (await door.ask("PATCH", root, {"status": "archived"})).json()["status"] == "archived"
        refused = await door.post(f"{root}/messages", {"content": "hm"})
        assert (refused.status, refused.json()["code"]) == (409, "CONVERSATION_ARCHIVED")
        assert (await door.post(f"{root}/forks", {})).json()["code"] == "CONVERSATION_ARCHIVED"
        assert (await door.ask("PATCH", root, {"status": "active"})).json()["status"] == "active"
        assert len((await door.get(f"{root}/turns")).json()["items"]) == 3
        listed = (await door.get("/v1/conversations?limit=1")).json()
        assert (len(listed["items"]), listed["next_cursor"] is None) == (1, False)
        large = await door.post(f"{root}/turns", {"speaker": "user", "content": "x" * 10_000_000})
        assert large.status in (400, 413)
        await home.raven.aclose()


@pytest.mark.req("AD-16", "AD-17", "AD-18", "AD-22")
async def test_a_client_says_where_over_http(tmp_path: Path) -> None:
    """Parent, speaker, kind, quotes, budget, alternative and status that a client states are what it gets."""
    async with (
        scripted_model({"say": "Soon."}) as model,
        api_home(tmp_path, engine=FAST, knowledge={"extraction": "rules"}, **model.settings()) as home,
    ):
        door = home.door
        conversation_id = (await door.post("/v1/conversations", {})).json()["id"]
        root = f"/v1/conversations/{conversation_id}"
        said = (await door.post(f"{root}/turns", {"speaker": "user", "content": "When?"})).json()
        edited = (await door.post(f"{root}/turns/{said['id']}/alternatives", {"content": "When exactly?"})).json()
        left = edited["alternatives"][0]["id"]
        refused = await door.post(f"{root}/forks", {"turn_id": said["id"], "alternative_id": left})
        assert (refused.status, refused.json()["details"]["field"]) == (400, "alternative_id")
        told = {"speaker": "system", "turn_type": "tool_result", "content": "Tuesday at noon, by train"}
        result = (await door.post(f"{root}/turns", told)).json()
        assert (result["speaker"], result["turn_type"]) == ("system", "tool_result")
        below, other = {"parent_turn": said["id"]}, {"speaker": "user", "content": "Please."}
        beside = (await door.post(f"{root}/turns", {**other, **below})).json()
        asked = {"content": "Why?", "quotes": [left], **below}
        question = (await door.post(f"{root}/messages", asked)).json()["said"]
        assert question["alternatives"][0]["quotes"] == [left]
        agent = (await door.post(f"{root}/turns", {"speaker": "agent", **below})).json()
        assert {turn["child_of"]["turn_id"] for turn in (result, beside, question, agent)} == {said["id"]}
        for wish, process_id in (
            ({}, "chat"),
            ({"process_id": "chat_with_tools"}, "chat_with_tools"),
            ({}, "chat_with_tools"),
        ):
            again = (await door.post(f"{root}/turns/{agent['id']}/alternatives", wish)).json()["alternatives"][-1]
            assert (again["is_active"], again["executed_by"]["process_id"]) == (True, process_id)
        memory = (await door.get(f"{root}/memory?turn_id={result['id']}")).json()
        assert [item["text"] for item in memory["items"]] == ["When exactly?", told["content"]]
        small = (await door.get(f"{root}/memory?turn_id={result['id']}&budget=1")).json()
        assert (small["budget"], [item["text"] for item in small["items"]]) == (1, [told["content"]])
        assert [(left["kind"], left["id"]) for left in small["left_out"]] == [("path", edited["alternatives"][1]["id"])]
        path = (await door.get(f"{root}/path?turn_id={beside['id']}")).json()["items"]
        assert [turn["id"] for turn in path] == [said["id"], beside["id"]]
        await door.patch(root, {"status": "archived"})
        for status, ids in (("archived", [conversation_id]), ("active", [])):
            found = (await door.get(f"/v1/conversations?status={status}")).json()["items"]
            assert [each["id"] for each in found] == ids
        await home.raven.aclose()


async def test_without_a_model_nothing_is_said(tmp_path: Path) -> None:
    """The error names the setting, and the conversation holds nothing."""
    async with api_home(tmp_path, engine=FAST) as home:
        root = f"/v1/conversations/{(await home.door.post('/v1/conversations', {})).json()['id']}"
        refused = await home.door.post(f"{root}/messages", {"content": "hi"})
        assert (refused.status, refused.json()["code"]) == (409, "MODEL_NOT_CONFIGURED")
        assert "model.name" in refused.json()["details"]["fix"]
        assert (await home.door.get(f"{root}/turns")).json()["items"] == []


async def test_an_attempt_that_was_cut_off_is_told(tmp_path: Path) -> None:
    """Who follows an answer whose worker died hears that it begins again, and the whole of the new attempt."""
    async with scripted_model(SLOWLY) as model:
        with home(tmp_path, model) as raven:
            talk = raven.conversations
            conversation_id = (await talk.create(by=LOCAL)).conversation_id
            _, answer = await talk.converse(conversation_id, "When?", by=LOCAL)
            alternative_id = answer.active.alternative_id

            def lost(tx: Any) -> None:
                tx.execute(
                    "INSERT INTO alternative_pieces (tenant_id, alternative_id, attempt, number, text) "
                    "VALUES ('default', :id, 1, 1, 'The or')",
                    id=alternative_id,
                )

            await raven.database.write("default", lost)
            heard: list[Piece | Alternative | None] = []

            async def listen() -> None:
                heard.extend([each async for each in await talk.stream(conversation_id, alternative_id, by=LOCAL)])

            listening = asyncio.create_task(listen())
            await asyncio.sleep(0.1)
            async with working(raven):
                await listening
            await raven.aclose()
    pieces = [each for each in heard if isinstance(each, Piece)]
    assert (pieces[0].attempt, pieces[0].text) == (1, "The or")
    again = "".join(each.text for each in pieces if each.attempt == 2)
    assert again
    assert str(SLOWLY["say"]).startswith(again)
