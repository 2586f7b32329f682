"""`twinraven episodes`, `knowledge` and `entities`, as people and programs use them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli import Shell

_TURNS = (
    ("D1:1", "Ann", "Hi Bob! What did you do last weekend?"),
    ("D1:2", "Bob", "I adopted a kitten from the shelter, her name is Biscuit."),
    ("D1:3", "Ann", "So sweet! I signed up for a pottery class in Lisbon last Friday."),
)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    assert shell.run("init").code == 0
    episodes = [
        {"group_id": "g", "name": name, "content": text, "speaker": who, "valid_at": "2023-05-08T13:56:00Z"}
        for name, who, text in _TURNS
    ]
    (tmp_path / "talk.jsonl").write_text("\n".join(json.dumps(each) for each in episodes))
    return shell


@pytest.mark.req("AD-20", "AD-21")
def test_episodes_are_imported_once_and_found(shell: Shell) -> None:
    """An import can be repeated; a search prints the documented array, and a file of questions a line for each."""
    assert shell.run("episodes", "import", "talk.jsonl", "--output", "json").json["added"] == 3
    again = shell.run("episodes", "import", "talk.jsonl", "--output", "json")
    assert (again.code, again.json["added"], again.json["present"]) == (0, 0, 3)
    found = shell.run(
        "knowledge", "search", "What is the name of Bob's cat?", "--group", "g", "--limit", "2", "--output", "json"
    )
    assert {"name", "content", "score", "why", "valid_at"} <= found.json[0].keys()
    assert (found.json[0]["name"], found.json[0]["valid_at"]) == ("D1:2", "2023-05-08T13:56:00.000000Z")
    questions = [{"id": 7, "group_id": "g", "query": "pottery class"}, {"id": "b", "group_id": "g", "query": "kitten"}]
    (shell.folder / "q.jsonl").write_text("\n".join(json.dumps(each) for each in questions))
    lines = shell.run("knowledge", "search", "--queries", "q.jsonl").text.splitlines()
    answers = [json.loads(line) for line in lines]
    assert [(each["id"], each["hits"][0]) for each in answers] == [(7, "D1:3"), ("b", "D1:2")]


@pytest.mark.req("AD-23", "AD-24")
def test_entities_are_made_merged_and_parted(shell: Shell) -> None:
    """A user's entity wins a merge with an extracted one, and undoing the merge parts them."""
    shell.run("episodes", "import", "talk.jsonl")
    listed = shell.run("entities", "list", "--name", "lisbon", "--output", "json").json
    made = shell.run(
        "entities", "create", "Lisboa", "--summary", "my town", "--category", "Place", "--output", "json"
    ).json
    merged = shell.run("entities", "merge", listed[0]["entity_id"], made["entity_id"], "--output", "json").json
    assert merged["kept_id"] == made["entity_id"]
    shown = shell.run("entities", "show", listed[0]["entity_id"], "--output", "json").json
    assert (shown["name"], shown["aliases"], len(shown["sources"])) == ("Lisboa", ["Lisbon"], 2)
    assert shell.run("entities", "undo", merged["merge_id"]).code == 0
    assert shell.run("entities", "show", listed[0]["entity_id"], "--output", "json").json["name"] == "Lisbon"
    itself = shell.run("entities", "merge", made["entity_id"], made["entity_id"], "--output", "json")
    assert (itself.code, json.loads(itself.err)["error"]["code"]) == (2, "VALIDATION_FAILED")


@pytest.mark.req("AD-23", "AD-24")
def test_a_users_entity_is_active_and_what_may_be_the_same_is_proposed(shell: Shell) -> None:
    """It has a summary and is active at once; look-alikes are proposed by the setting; a merge keeps both summaries."""
    corp, corporation = (
        shell.succeed("entities", "create", name, "--summary", summary, "--group", "g", "--output", "json").json
        for name, summary in (("Acme Corp", "makes tools"), ("ACME Corporation", "sells tools"))
    )
    active = shell.succeed("entities", "active", "--group", "g", "--output", "json").json
    assert {each["name"] for each in active} == {"Acme Corp", "ACME Corporation"}
    silent = shell.run("entities", "create", "Nobody", "--summary", "", "--output", "json")
    assert (silent.code, json.loads(silent.err)["error"]["details"]["field"]) == (2, "summary")
    settings = shell.folder / "twinraven.yaml"
    settings.write_text("knowledge:\n  duplicate_similarity: 1.0\n")
    assert shell.succeed("entities", "proposals", "--output", "json").json == []
    settings.write_text("knowledge:\n  duplicate_similarity: 0.9\n")
    (proposed,) = shell.succeed("entities", "proposals", "--output", "json").json
    assert {proposed["first_id"], proposed["second_id"]} == {corp["entity_id"], corporation["entity_id"]}
    shell.succeed("entities", "merge", corp["entity_id"], corporation["entity_id"])
    kept = shell.succeed("entities", "show", corp["entity_id"], "--output", "json").json
    assert set(kept["summary"].split()) >= {"makes", "sells"}


@pytest.mark.req("AD-23", "AD-24")
def test_the_graph_around_an_entity_is_shown_and_changed(shell: Shell) -> None:
    """Facts with their history and their episode, neighbours, relevance, places and merges, all at the command line."""

    def told(*arguments: str) -> Any:
        return shell.succeed("entities", *arguments, "--output", "json").json

    said = {"group_id": "g", "speaker": "Ann"}
    moves = [
        {**said, "name": "E1:1", "content": "I moved to Porto with my cousin Theo.", "valid_at": "2021-05-08"},
        {**said, "name": "E2:1", "content": "I moved to Lisbon.", "valid_at": "8 May, 2023"},
    ]
    (shell.folder / "moves.jsonl").write_text("\n".join(json.dumps(each) for each in moves))
    shell.succeed("episodes", "import", "moves.jsonl")
    ids = {each["name"]: each["entity_id"] for each in told("list", "--group", "g")}
    history = told("facts", ids["Ann"], "--relation", "lives_in")
    assert [(each["value"], each["episode"], each["source"]) for each in history] == [
        ("Porto", "E1:1", "rules"),
        ("Lisbon", "E2:1", "rules"),
    ]
    assert history[0]["invalid_at"] == history[1]["valid_at"]
    (then,) = told("facts", ids["Ann"], "--relation", "lives_in", "--at", "2022-01-01")
    assert then["value"] == "Porto"
    stated = told("state", ids["Ann"], "lives_in", "Oslo", "--since", "2024-01-01")
    assert [each["invalid_at"] is None for each in stated] == [False, False, True]
    near = told("neighbours", ids["Theo"])
    assert [each["name"] for each in near["neighbours"]] == ["Porto"]
    assert [(each["relation"], each["entity_id"]) for each in near["relations"]] == [("has_cousin", ids["Ann"])]
    placed = told("place", ids["Theo"], "--group", "g", "--relationships")
    assert [each["include_relationships"] for each in placed if each["entity_id"] == ids["Theo"]] == [True]
    told("place", ids["Theo"], "--group", "g", "--out")
    assert ids["Theo"] not in [each["entity_id"] for each in told("active", "--group", "g")]
    assert told("enrich", ids["Theo"])["enriched_by"] == "rules"
    merged = told("merge", ids["Porto"], ids["Lisbon"])
    (listed,) = told("merges", ids["Lisbon"])
    assert (listed["merge_id"], listed["kept_name"], listed["gone_name"]) == (merged["merge_id"], "Porto", "Lisbon")
    told("undo", listed["merge_id"])
    assert told("merges")[0]["undone_at"] is not None
    unread = shell.run("entities", "facts", ids["Ann"], "--at", "someday")
    assert (unread.code, "at is no time" in unread.err) == (2, True)
    alone = shell.run("knowledge", "extract", "--group", "g")
    assert (alone.code, "only rules extract here" in alone.err) == (2, True)


def test_what_cannot_be_imported_or_asked_is_said(shell: Shell) -> None:
    """A file without a single episode, and a question without words, end as bad input that names the field."""
    (shell.folder / "bad.jsonl").write_text('{"group_id": "g"}\n{"group_id": "g", "name": "n", "content": "x\\u0000"}')
    refused = shell.run("episodes", "import", "bad.jsonl")
    assert (refused.code, "line 1" in refused.err, "NUL" in refused.err) == (2, True, True)
    neither = shell.run("knowledge", "search", "--output", "json")
    assert (neither.code, json.loads(neither.err)["error"]["details"]["field"]) == (2, "text")
