"""`twinraven learn` with a configured model, on a real home, against a server that speaks both dialects."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli import forked_command
from tests.servers.http_server import HttpServer, Reply, serving
from tests.servers.model_server import KEY, ModelServer
from tests.servers.server_process import server_process
from tests.unit.huginn.advice.open_world import GOOD, WRONG, answer, open_scripts
from tests.unit.huginn.billing_world import lines_of

TOOLS = """
from typing import Any
from twinraven import tool

@tool(effect="read")
def search_customer(email: str) -> dict[str, Any]:
    "Find a customer by e-mail."
    return {"customer": {"id": f"C-{email}", "account": "A-1", "alias": "X"}, "note": ""}

@tool(effect="read")
def load_customer(account: str, ids: list[list[list[str]]]) -> dict[str, Any]:
    "A customer's plan."
    return {"plan": "pro", "number": len(ids), "of": ids}
"""
TOOL = "find_customer"
EARLY, LATE = "canary-early-7f3a9d", "canary-late-51c0be"
BOTH = pytest.mark.parametrize("protocol", ["openai", "anthropic"])


class Project:
    """A home with recorded sessions, and the real command in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def prepare(self, url: str, *, allowed: Sequence[str] = ("127.0.0.1",), **model: Any) -> None:
        """Two tools, a model, its key in the vault, and what agents did."""
        stated = {"name": "small-1", "url": url, "secret": "model-key", **model}
        settings = {
            "tools": {"modules": ["desk_tools"]},
            "connectors": {"allow_private": list(allowed)},
            "model": stated,
            "learning": {"ask_model": True, "model_budget_s": 240},
        }
        (self.folder / "desk_tools.py").write_text(TOOLS)
        (self.folder / "twinraven.yaml").write_text(json.dumps(settings))
        (self.folder / "calls.jsonl").write_bytes(lines_of(open_scripts(160, note=f"{EARLY} {LATE}")))
        await self.run("init")
        await self.run("secrets", "set", "model-key", given=KEY)
        await self.run("secrets", "set", "early", given=EARLY)
        await self.run("import", "calls.jsonl")
        await self.run("secrets", "set", "late", given=LATE)

    async def run(self, *arguments: str, given: str = "") -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TWINRAVEN")}
        process = await asyncio.create_subprocess_exec(
            *(*forked_command(), *arguments),
            cwd=self.folder,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate(given.encode())
        assert process.returncode == 0, err.decode()
        return out.decode()

    async def json(self, *arguments: str) -> Any:
        return json.loads(await self.run(*arguments, "--output", "json"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def questions(server: HttpServer) -> list[dict[str, Any]]:
    return [request.json for request in server.received if request.method == "POST"]


def says(protocol: str, body: dict[str, Any]) -> ModelServer:
    """A model that gives this answer as its provider would."""
    return ModelServer(lambda _: body if protocol == "anthropic" else json.dumps(body))


@BOTH
@pytest.mark.req("TR-15")
async def test_a_round_with_a_model(project: Project, protocol: str) -> None:
    """The model words the draft and wires what stayed open, replay agrees, and a second round asks nothing."""
    words = [{"name": "email", "description": "Who asks."}]
    said = answer(GOOD, description="Finds a customer and the plan.", parameters=words)
    async with serving(says(protocol, said)) as server:
        await project.prepare(server.url, protocol=protocol)
        first = await project.json("learn")
        again = await project.json("learn")
        told = await project.run("learn")
        asked = questions(server)
    review = await project.json("approve", TOOL)
    screen = await project.run("approve", TOOL)
    page = await project.run("registry", "show", TOOL)
    assert [(each["tool_id"], each["novelty"]) for each in first["proposals"]] == [(TOOL, "awaiting")]
    assert first["model"] == {
        "name": "small-1",
        "asked": 1,
        "tokens": 120,
        "accepted": 4,
        "refused": 0,
        "failures": [],
    }
    assert [(each["tool_id"], each["novelty"]) for each in again["proposals"]] == [(TOOL, "known")]
    assert again["model"]["asked"] == 0
    assert "small-1 was not asked: there is no new draft" in told
    assert len(asked) == 1
    assert ("response_format" if protocol == "openai" else "tool_choice") in asked[0]
    assert list(review["parameters"]["properties"]) == ["email"]
    assert review["advice"]["model"] == "small-1"
    assert review["validation"]["passed"]
    for text in (screen, page):
        assert "small-1 (120 tokens): 4 proposals accepted, 0 refused" in text
        assert f"+ source of ids in step 1: {GOOD}" in text
    called = json.loads(await project.run("approve", TOOL, "--promote", "--output", "json"))
    assert called["tool_id"] == TOOL
    files = (project.folder / ".twinraven" / "tools" / "generated" / TOOL / "v1.json").read_text()
    assert json.loads(files)["evidence"]["advice"] == review["advice"]


async def test_no_secret_reaches_the_model_or_the_draft(project: Project) -> None:
    """Neither a secret known when the calls were recorded nor one stored later stands in what is sent or kept."""
    said = answer(description=f"The key is {EARLY} or {LATE}.")
    async with serving(says("openai", said)) as server:
        await project.prepare(server.url)
        await project.run("learn")
        sent = [request.body.decode() for request in server.received]
    kept = json.dumps(await project.json("approve", TOOL))
    assert len(sent) == 1
    for canary in (EARLY, LATE, KEY):
        assert canary not in sent[0]
        assert canary not in kept
    assert "[secret:" in sent[0]
    assert "The key is [secret:" in kept


async def test_a_wrong_source_is_refused_in_sight(project: Project) -> None:
    """What the record contradicts is not taken, and the screen says why."""
    async with serving(says("openai", answer(WRONG))) as server:
        await project.prepare(server.url)
        await project.run("learn")
    screen = await project.run("approve", TOOL)
    assert f"- source of ids in step 1: {WRONG} (explains 0 of " in screen
    review = await project.json("approve", TOOL)
    assert sorted(review["parameters"]["properties"]) == ["email", "ids"]


async def test_without_the_model_it_is_not_asked(project: Project) -> None:
    """`--no-model` learns from the record alone; the draft it makes is known to the next round."""
    async with serving(says("openai", answer(GOOD))) as server:
        await project.prepare(server.url)
        alone = await project.json("learn", "--no-model")
        await project.run("learn")
        chain = (await project.json("mine"))[0]["chain_id"]
        await project.run("synthesize", chain, "--no-model")
    assert alone["model"] is None
    assert alone["proposals"][0]["tool_id"] == "search_customer_load_customer"
    assert questions(server) == []


async def test_synthesize_asks_and_says_so(project: Project) -> None:
    """One chain is drafted with the model's help once; drafted again on the same evidence, nobody is asked."""
    async with serving(says("openai", answer(GOOD))) as server:
        await project.prepare(server.url)
        chain = (await project.json("mine"))[0]["chain_id"]
        first = await project.run("synthesize", chain)
        again = await project.run("synthesize", chain)
        learned = await project.json("learn")
    assert "a model was asked: small-1 (120 tokens): 3 proposals accepted" in first
    assert first == again
    assert len(questions(server)) == 1
    assert [(each["tool_id"], each["novelty"]) for each in learned["proposals"]] == [(TOOL, "awaiting")]


@pytest.mark.parametrize(
    ("handler", "failure"),
    [
        (ModelServer(lambda _: Reply(500, {"error": "down"})), "the service answered 500"),
        (ModelServer(lambda _: "I would rather not say."), "not JSON"),
        (ModelServer(lambda _: "No.", stop="content_filter"), "the model refuses: No."),
    ],
)
async def test_a_model_that_fails_fails_nothing_else(project: Project, handler: Any, failure: str) -> None:
    """The round ends as it would without a model, and the failure is noted with the draft."""
    async with serving(handler) as server:
        await project.prepare(server.url, timeout_s=5)
        outcome = await project.json("learn")
        count = len(server.received)
        await project.run("learn")
        assert len(server.received) == count
    assert [each["novelty"] for each in outcome["proposals"]] == ["awaiting"]
    assert failure in outcome["model"]["failures"][0]
    review = await project.json("approve", outcome["proposals"][0]["tool_id"])
    assert failure in review["advice"]["failure"]


async def test_a_server_without_schemas_is_asked_again_without(project: Project) -> None:
    """Where binding an answer to a schema is not understood, the same question goes out plainly."""

    def say(body: dict[str, Any]) -> Any:
        return Reply(400, {"error": "response_format"}) if "response_format" in body else json.dumps(answer(GOOD))

    async with serving(ModelServer(say)) as server:
        await project.prepare(server.url)
        outcome = await project.json("learn")
    assert outcome["model"]["failures"] == []
    assert outcome["proposals"][0]["tool_id"] == TOOL


@pytest.mark.parametrize(
    ("stated", "allowed", "failure"),
    [({"secret": "nobody"}, ["127.0.0.1"], "nobody"), ({}, [], "127.0.0.1")],
)
async def test_a_model_is_held_to_the_rules_of_services(
    project: Project, stated: dict[str, Any], allowed: list[str], failure: str
) -> None:
    """Its key must be in the vault, and a private address must be allowed; otherwise nothing is sent."""
    async with serving(says("openai", answer(GOOD))) as server:
        await project.prepare(server.url, allowed=allowed, **stated)
        outcome = await project.json("learn")
        assert server.received == []
    assert failure in outcome["model"]["failures"][0]
    assert outcome["proposals"][0]["novelty"] == "awaiting"


async def test_what_a_person_rejected_is_not_asked_about(project: Project) -> None:
    """On the same evidence a rejected tool is neither proposed again nor worth a question."""
    async with serving(says("openai", answer(GOOD))) as server:
        await project.prepare(server.url)
        await project.run("learn")
        await project.run("reject", TOOL, "--reason", "not needed")
        outcome = await project.json("learn")
        assert len(questions(server)) == 1
    assert [each["novelty"] for each in outcome["proposals"]] == ["rejected"]


@pytest.mark.soak
async def test_a_real_model_may_say_what_it_likes(project: Project, real_model: str) -> None:
    """A small real model is asked in a round: the round ends well, and what it said is kept in form."""
    await project.prepare(real_model, name="smollm2", max_tokens=256, timeout_s=240)
    outcome = await project.json("learn")
    [proposal] = outcome["proposals"]
    advice = (await project.json("approve", proposal["tool_id"]))["advice"]
    assert proposal["novelty"] == "awaiting"
    assert outcome["model"]["asked"] == 1
    assert advice["model"] == "smollm2"
    assert advice["answer"] is not None or advice["failure"] is not None


@pytest.fixture(scope="session")
def real_model() -> Generator[str]:
    """The address of a real model."""
    with server_process("real_model", KEY) as address:
        yield address
