"""Memory through the REST door: what a client states of episodes, entities, summaries and notes reaches them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.api_client import Door
from tests.api_homes import ApiHome, api_home, made


@pytest.fixture
async def home(tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, knowledge={"embedder": "off", "extraction": "rules"}) as opened:
        yield opened


async def say(door: Door, *texts: str, group: str = "g", **facts: str) -> list[str]:
    """Remember texts as episodes n0, n1 and so on; gives their ids."""
    bodies = [{"group_id": group, "name": f"n{number}", "content": text, **facts} for number, text in enumerate(texts)]
    return [made(await door.post("/v1/episodes", body))["episode_id"] for body in bodies]


@pytest.mark.req("AD-20", "AD-29")
async def test_episodes_are_found_as_a_client_asks(home: ApiHome) -> None:
    """Group, speaker, source, time, limit and neighbours of a search act, and an episode keeps what was said of it."""
    stated = {"speaker": "Ann", "source": "message", "source_description": "chat", "valid_at": "2026-03-01T10:00:00Z"}
    (first,) = await say(home.door, "The parcel went to Lisbon.", **stated)
    shown = made(await home.door.get(f"/v1/episodes/{first}"))
    assert {name: shown[name] for name in stated} == {**stated, "valid_at": "2026-03-01T10:00:00.000000Z"}
    late = {"speaker": "Bob", "source": "tool_result", "valid_at": "2026-05-01T10:00:00Z"}
    await say(home.door, "It rained.", "A parcel came.", "It snowed.", group="h", **late)

    async def found(**wish: Any) -> list[tuple[str, str]]:
        hits = made(await home.door.post("/v1/knowledge/search", {"query": "parcel", **wish}))["items"]
        return sorted((hit["group_id"], hit["name"]) for hit in hits if hit["why"]["words"] == ["parcel"])

    assert await found() == [("g", "n0"), ("h", "n1")]
    one = made(await home.door.post("/v1/knowledge/search", {"query": "parcel", "group_id": "h", "limit": 1}))
    assert len(one["items"]) == 1
    for wish in ({"group_id": "g"}, {"speaker": "Ann"}, {"source": "message"}, {"until": "2026-05-01T10:00:00Z"}):
        assert await found(**wish) == [("g", "n0")], wish
        query = "&".join(f"{name}={value}" for name, value in wish.items())
        listed = made(await home.door.get(f"/v1/episodes?{query}"))["items"]
        assert [each["episode_id"] for each in listed] == [first], wish
    assert await found(since="2026-05-01T10:00:00Z") == [("h", "n1")]
    wide = made(await home.door.post("/v1/knowledge/search", {"query": "parcel", "group_id": "h", "neighbours": 1}))
    best = wide["items"][0]
    assert [each["content"] for each in best["neighbours"]] == ["It rained.", "It snowed."]
    assert (best["speaker"], best["valid_at"]) == ("Bob", "2026-05-01T10:00:00.000000Z")


@pytest.mark.req("AD-23", "AD-24", "AD-25")
async def test_entities_are_what_a_client_states(home: ApiHome) -> None:
    """Category, group, facts with their time, inclusion, merges and their undoing go through the door."""
    door = home.door
    body = {"name": "Clara", "summary": "a sister", "category": "Person", "group_id": "g"}
    clara = made(await door.post("/v1/entities", body))
    assert {name: clara[name] for name in body} == body
    assert (clara["inferred_by"], clara["created_by"]) == ("user", "local")
    lisbon = made(await door.post("/v1/entities", {"name": "Lisbon", "summary": "a town", "category": "Place"}))
    for query in ("group_id=g", "category=Person", "name=clar"):
        listed = made(await door.get(f"/v1/entities?{query}"))["items"]
        assert [each["entity_id"] for each in listed] == [clara["entity_id"]], query
    path = f"/v1/entities/{clara['entity_id']}"
    lives = {"relation": "lives_in", "value": "Lisbon", "valid_at": "2026-03-01T00:00:00Z"}
    made(await door.post(f"{path}/facts", {**lives, "object_id": lisbon["entity_id"]}))
    for value in ("tea", "chess"):
        made(await door.post(f"{path}/facts", {"relation": "likes", "value": value, "is_single": False}))
    details = made(await door.get(path))
    (relation,) = details["relations"]
    assert (relation["object_id"], relation["valid_at"]) == (lisbon["entity_id"], "2026-03-01T00:00:00.000000Z")
    assert sorted((each["value"], each["invalid_at"]) for each in details["facts"]) == [("chess", None), ("tea", None)]
    around = made(await door.get(f"{path}/neighbourhood"))
    assert (around["degree"], [each["value"] for each in around["relations"]]) == (1, ["Lisbon"])
    flags = {"include_summary": False, "include_facets": False, "include_relationships": True}
    (placed,) = made(await door.post(f"{path}/place", {"group_id": "g", **flags}))["items"]
    assert {name: placed[name] for name in flags} == flags
    assert made(await door.get("/v1/active-entities?group_id=g"))["items"] == [placed]
    assert made(await door.post(f"{path}/place", {"group_id": "g", "is_active": False}))["items"] == []
    await say(door, "We met Clara in Sintra.", "Clara loves Sintra.")
    assert made(await door.post(f"{path}/enrich"))["facets"]["related"]
    twin = made(await door.post("/v1/entities", {**body, "name": "CLARA", "group_id": "h"}))
    only_g = {"group_id": "g"}
    assert made(await door.post("/v1/entity-proposals", only_g))["items"] == []
    assert made(await door.post("/v1/entity-proposals", {}))["items"]
    merged = made(await door.post(f"{path}/merge", {"other_id": twin["entity_id"]}))
    assert {merged["kept_id"], merged["gone_id"]} == {clara["entity_id"], twin["entity_id"]}
    assert made(await door.get(f"/v1/entities/{merged['gone_id']}"))["entity_id"] == merged["kept_id"]
    made(await door.post(f"/v1/entity-merges/{merged['merge_id']}/undo"))
    assert made(await door.get(f"/v1/entities/{merged['gone_id']}"))["entity_id"] == merged["gone_id"]


@pytest.mark.req("AD-26", "AD-28")
async def test_summaries_are_written_and_mended_at_the_door(home: ApiHome) -> None:
    """An administrator writes a summary with its coverage, repairs it, states coverage once, and deletes it."""
    door = home.door
    ids = await say(door, "Ann moved.", "She found work.")
    covers = {"covers_up_to_turn": "t1", "covers_up_to_alternative": "a1"}
    wish = {"group_id": "g", "episode_ids": ids}
    whole = made(await door.post("/v1/summaries", {**wish, "content": "Ann moved for work.", **covers}))
    assert {name: whole[name] for name in covers} == covers
    assert (whole["level"], whole["sources"], whole["process_id"]) == (1, ids, "manual")
    bare = made(await door.post("/v1/summaries", {**wish, "content": "Ann moved."}))
    path = f"/v1/summaries/{bare['summary_id']}"
    mended = made(await door.post(f"{path}/repair", {"content": "Ann moved far away from home."}))
    assert (mended["content"], mended["sources"]) == ("Ann moved far away from home.", ids)
    assert mended["token_count"] > bare["token_count"]
    assert [each["bound_by"] for each in mended["contents"]] == ["local", "local"]
    assert mended["contents"][0] == bare["contents"][0]
    stated = made(await door.post(f"{path}/coverage", covers))
    assert {name: stated[name] for name in covers} == covers
    assert (await door.post(f"{path}/coverage", covers)).status == 409
    assert [each["summary_id"] for each in made(await door.get("/v1/summaries?group_id=g"))["items"]] == [
        whole["summary_id"],
        bare["summary_id"],
    ]
    assert made(await door.get("/v1/summaries?group_id=h"))["items"] == []
    assert made(await door.post(f"{path}/delete", {}))["compression"] is None
    assert (await door.post(f"{path}/delete", {})).status == 409
    assert (await door.post(f"{path}/repair", {"content": " "})).status == 400
    assert [each["summary_id"] for each in made(await door.get("/v1/summaries?group_id=g"))["items"]] == [
        whole["summary_id"]
    ]
    every = made(await door.get("/v1/summaries?group_id=g&with_deleted=true"))["items"]
    assert [each["deleted_at"] is None for each in every] == [True, False]
    again = made(await door.post(f"/v1/summaries/{whole['summary_id']}/delete", {"recompress": True}))["compression"]
    assert made(await door.get(f"/v1/compressions/{again['compression_id']}"))["state"] == "running"
    member = await home.user("default", "mia")
    for word, body in (("repair", {"content": "x"}), ("coverage", covers), ("delete", {})):
        assert (await member.door.post(f"{path}/{word}", body)).status == 403, word
    assert (await member.door.post("/v1/summaries", {**wish, "content": "x"})).status == 403


@pytest.mark.req("AD-27")
async def test_notes_are_kept_by_hand_at_the_door(home: ApiHome) -> None:
    """A note has its place and its context, is corrected and deleted, and is its user's alone."""
    door, path = home.door, "/v1/introspections"
    first = made(await door.post(path, {"content": "one", "position": 3, "conversation_context": "talk, turn 2"}))
    assert (first["position"], first["conversation_context"], first["made_by"]) == (3, "talk, turn 2", "local")
    second = made(await door.post(path, {"content": "two"}))
    assert second["position"] == 4
    corrected = made(await door.post(f"{path}/{first['introspection_id']}/correct", {"content": "one, corrected"}))
    assert (corrected["content"], len(corrected["contents"])) == ("one, corrected", 2)
    gone = made(await door.post(f"{path}/{second['introspection_id']}/delete"))
    assert gone["archived_because"] == "deleted"
    assert [each["content"] for each in made(await door.get(path))["items"]] == ["one, corrected"]
    every = made(await door.get(f"{path}?with_archived=true"))["items"]
    assert [each["content"] for each in every] == ["one, corrected", "two"]
    mia = await home.user("default", "mia")
    assert made(await mia.door.get(path))["items"] == []
    for method, word, body in (("GET", "", None), ("POST", "/correct", {"content": "x"}), ("POST", "/delete", None)):
        reply = await mia.door.ask(method, f"{path}/{first['introspection_id']}{word}", body)
        assert reply.status == 404, word
    assert (await mia.door.post(path, {"content": "x", "user_id": "local"})).status == 403
    hers = made(await door.post(path, {"content": "for mia", "user_id": mia.user_id}))
    assert (hers["user_id"], hers["position"]) == (mia.user_id, 0)
    listed = made(await door.get(f"{path}?user_id={mia.user_id}"))["items"]
    assert listed == made(await mia.door.get(path))["items"] == [hers]
    assert made(await door.get(f"/v1/reflections?user_id={mia.user_id}"))["items"] == []
