"""Summaries by a model, in a home that its settings describe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.homes import make_home
from tests.servers.http_server import HttpServer, Reply, serving
from tests.servers.model_server import KEY, ModelServer
from twinraven.app import TwinRaven, open_home
from twinraven.calls import CallContext
from twinraven.catalog import tool
from twinraven.foundation.errors import InvalidSetting
from twinraven.muninn import EventFilter

CANARY = "canary-9c1f44d0a7"


@tool(effect="read")
def report(name: str, length: int) -> dict[str, Any]:
    """A report of some length."""
    return {"name": name, "pages": [f"page {number}" for number in range(length)], "token": CANARY}


def home(folder: Path, url: str, summaries: str, *, secret: str | None = "model-key") -> TwinRaven:
    model = {"name": "small-1", "url": url, "secret": secret}
    made = make_home(
        folder,
        model=model,
        connectors={"allow_private": ["127.0.0.1"]},
        muninn={"summaries": summaries, "summary_chars": 120},
    )
    return open_home(made, functions=[report])


async def summary_of(raven: TwinRaven, session: str, **params: Any) -> str | None:
    await raven.calls.call("report", params, CallContext(session, durable=True))
    (event,) = await raven.events.events("default", EventFilter(session_id=session))
    return event.output_summary


def asked(server: HttpServer) -> list[str]:
    return [request.body.decode() for request in server.received if request.method == "POST"]


@pytest.mark.req("TR-10")
async def test_a_model_compresses_what_is_long(tmp_path: Path) -> None:
    """A long output's summary is the model's, without secrets on the way there or back; a short one is its own."""
    said = f"A report of 300 pages about ravens {CANARY}. " + "x" * 200
    async with serving(ModelServer(lambda _: json.dumps({"summary": said}))) as server:
        with home(tmp_path, server.url, "model") as raven:
            for name, value in (("model-key", KEY), ("canary", CANARY)):
                await raven.vault.create("default", "local", name=name, type="api_key", value=value)
            summary = await summary_of(raven, "long", name="ravens", length=300)
            assert summary is not None
            assert summary.startswith("A report of 300 pages about ravens [secret:")
            assert len(summary) == 120
            assert len(asked(server)) == 1
            assert CANARY not in asked(server)[0]
            assert "page 299" in asked(server)[0]
            short = await summary_of(raven, "short", name="x", length=0)
            assert json.loads(short or "")["pages"] == []
    assert len(asked(server)) == 1


@pytest.mark.req("TR-10")
async def test_without_an_answer_the_summary_is_made_here(tmp_path: Path) -> None:
    """A model that fails costs one question, and the log has the deterministic summary of every output."""
    async with serving(ModelServer(lambda _: Reply(400, {"error": {"message": "no"}}))) as server:
        with home(tmp_path / "model", server.url, "model", secret=None) as raven:
            first = await summary_of(raven, "a", name="ravens", length=300)
            before = len(server.received)
            assert before > 0
            assert (await summary_of(raven, "b", name="ravens", length=300), len(server.received)) == (first, before)
        with home(tmp_path / "plain", server.url, "deterministic") as raven:
            assert await summary_of(raven, "a", name="ravens", length=300) == first
        with home(tmp_path / "off", server.url, "off") as raven:
            assert await summary_of(raven, "a", name="ravens", length=300) is None
    assert first is not None
    assert first.startswith('{"name":"ravens","pages":["page 0"')


def test_a_home_without_a_model_says_what_is_missing(tmp_path: Path) -> None:
    """Summaries by a model that no setting names are refused when something is to be recorded."""
    raven = open_home(make_home(tmp_path, muninn={"summaries": "model"}))
    with raven, pytest.raises(InvalidSetting, match=r"model\.name"):
        _ = raven.collector
