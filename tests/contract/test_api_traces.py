"""OTLP over HTTP: spans of an exporter become events, once, whatever order and however many requests they come in."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.api_client import Reply
from tests.api_homes import ApiHome, Seeds, api_home, login_of, made
from tests.traces import GOLDEN
from twinraven.api.resources import telemetry
from twinraven.foundation.errors import StorageBusy
from twinraven.muninn import SpanReceiver, held_traces

PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}
TRACE = "0af7651916cd43dd8448eb211c80319c"
START = 1_760_000_000_000_000_000
PATIENT_S = 600.0
"""Longer than any test: what is held waits for its root, however slow the machine is."""


@pytest.fixture(params=["sqlite", "postgres"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, postgres=login_of(request), needs_key=True) as opened:
        opened.raven.spans.held.settle_s = PATIENT_S
        yield opened


@pytest.fixture
async def ada(home: ApiHome) -> Seeds:
    return await home.tenant("ada")


def span(number: int, *, parent: int | None = None, tool: bool = True, **facts: Any) -> dict[str, Any]:
    """A span, of a tool call or not, that began as many seconds after the start as its number says."""
    stated = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": f"tool_{number}"} if tool else {}
    began = START + number * 10**9
    return {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "parentSpanId": "" if parent is None else f"{parent:016x}",
        "name": f"span {number}",
        "startTimeUnixNano": str(began),
        "endTimeUnixNano": str(began + 250_000_000),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in stated.items()],
        **facts,
    }


def stated(name: str, value: str) -> dict[str, Any]:
    return {"key": name, "value": {"stringValue": value}}


def held(home: ApiHome, ada: Seeds) -> list[bytes]:
    """The bodies of what waits in the database."""
    connection = home.raven.database.connect()
    with connection.transaction(ada.tenant_id, write=False) as tx:
        rows = tx.fetch_all("SELECT body FROM held_spans WHERE tenant_id = :tenant", tenant=ada.tenant_id)
    connection.close()
    return [bytes(row["body"]) for row in rows]


def document(*spans: Any) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


async def send(ada: Seeds, *spans: Any, headers: Mapping[str, str] = JSON) -> Reply:
    return await ada.door.ask("POST", "/v1/traces", body=json.dumps(document(*spans)).encode(), headers=headers)


async def events(ada: Seeds) -> list[dict[str, Any]]:
    return made(await ada.door.get("/v1/events?limit=500"))["items"]


@pytest.mark.req("TR-01")
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("sample", ["openinference-langchain.pb", "openinference-langchain.json"])
async def test_what_an_exporter_sends_becomes_events(ada: Seeds, sample: str, *, packed: bool) -> None:
    """Spans of a real agent, in either encoding, packed or not, are its calls with all that is known of them."""
    body = (GOLDEN / sample).read_bytes()
    headers = PROTOBUF if sample.endswith(".pb") else JSON
    if packed:
        body, headers = gzip.compress(body), {**headers, "content-encoding": "gzip"}
    for _ in range(2):
        reply = await ada.door.ask("POST", "/v1/traces", body=body, headers=headers)
        assert (reply.status, reply.headers["content-type"]) == (200, headers["content-type"])
        assert reply.body == (b"" if sample.endswith(".pb") else b"{}")
    found, second = await events(ada)
    assert (found["tool_id"], found["input_params"]) == ("find_customer", {"email": "ada@x.org"})
    assert (found["session_id"], found["turn"], found["outside_input"]) == ("th-1", 1, "Orders of ada@x.org please")
    assert (found["outcome"], found["time_known"], found["tenant_id"]) == ("partial", True, ada.tenant_id)
    assert (found["successor"], second["predecessor"]) == (second["event_id"], found["event_id"])
    assert (second["tool_id"], second["turn"], second["outside_input"]) == ("list_orders", 2, None)
    shown = made(await ada.door.get(f"/v1/events/{found['event_id']}"))
    assert shown["output"] == {"customer_id": "c-ada", "email": "ada@x.org"}


async def test_spans_of_one_trace_may_come_in_any_requests(ada: Seeds) -> None:
    """An inner call that comes before the call around it is linked to it, through spans that are no calls too."""
    await send(ada, span(4, parent=3))
    await send(ada, span(3, parent=2, tool=False), span(5, parent=2))
    assert await events(ada) == []
    await send(ada, span(2, parent=1), span(1, tool=False))
    outer, through, inner = await events(ada)
    assert [each["tool_id"] for each in (outer, through, inner)] == ["tool_2", "tool_4", "tool_5"]
    assert outer["parent_event_id"] is None
    assert {through["parent_event_id"], inner["parent_event_id"]} == {outer["event_id"]}
    await send(ada, span(6, parent=2), span(1, tool=False))
    assert (await events(ada))[-1]["parent_event_id"] == outer["event_id"]


async def test_a_span_that_is_sent_twice_is_one_event(ada: Seeds) -> None:
    """Exporters send again what they are not sure of: in the same request, later, or at the same time."""
    await send(ada, span(2, parent=1), span(2, parent=1))
    await asyncio.gather(*(send(ada, span(2, parent=1), span(1, tool=False)) for _ in range(4)))
    await send(ada, span(2, parent=1), span(1, tool=False))
    assert [each["tool_id"] for each in await events(ada)] == ["tool_2"]


async def test_a_trace_without_its_root_is_written_when_it_is_quiet(
    home: ApiHome, ada: Seeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls of a trace whose root never comes are in the log soon after the last of them."""
    monkeypatch.setattr(home.raven.spans.held, "settle_s", 0.05)
    await send(ada, span(2, parent=1))
    async with asyncio.timeout(20):
        while not await events(ada):  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.02)


async def test_what_is_held_is_written_when_the_home_closes(home: ApiHome, ada: Seeds) -> None:
    """An orderly end loses nothing that was accepted."""
    await send(ada, span(2, parent=1))
    assert await events(ada) == []
    await asyncio.to_thread(home.raven.spans.close)
    assert [each["tool_id"] for each in await events(ada)] == ["tool_2"]
    assert (await send(ada, span(3))).status == 503


def another_receiver(home: ApiHome, *, settle_s: float = PATIENT_S) -> SpanReceiver:
    """The receiver of another process on the same database."""
    return SpanReceiver(home.raven.database, redact=home.raven.redactor.redact, settle_s=settle_s)


async def test_what_was_accepted_outlives_a_receiver_that_is_gone(
    home: ApiHome, ada: Seeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spans that wait for their root when their process dies are taken over and written once, whoever writes later."""
    monkeypatch.setattr(held_traces, "_ABANDONED", 0)
    attributes = span(2)["attributes"]
    await send(ada, span(2, parent=1, attributes=[*attributes, stated("session.id", "talk")]), span(3, parent=2))
    assert await events(ada) == []
    heir = another_receiver(home, settle_s=0.05)
    heir.recover([ada.tenant_id])
    async with asyncio.timeout(60):
        while not await events(ada):  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.02)
    outer, inner = await events(ada)
    assert (outer["tool_id"], outer["session_id"], inner["parent_event_id"]) == ("tool_2", "talk", outer["event_id"])
    await asyncio.to_thread(heir.close)
    await send(ada, span(1, tool=False))
    assert len(await events(ada)) == 2
    assert held(home, ada) == []


async def test_a_trace_that_goes_on_elsewhere_is_read_whole(home: ApiHome, ada: Seeds) -> None:
    """After a restart in the middle of a trace, the new process joins what the old one had accepted."""
    await send(ada, span(4, parent=3), span(3, parent=2, tool=False))
    heir = another_receiver(home)
    await asyncio.wrap_future(heir.submit(ada.tenant_id, lambda: document(span(5, parent=2))))
    rest = document(span(2, parent=1), span(1, tool=False))
    assert (await asyncio.wrap_future(heir.submit(ada.tenant_id, lambda: rest))).calls == 1
    await asyncio.to_thread(heir.close)
    outer, *inner = await events(ada)
    assert [each["tool_id"] for each in (outer, *inner)] == ["tool_2", "tool_4", "tool_5"]
    assert {each["parent_event_id"] for each in inner} == {outer["event_id"]}
    assert held(home, ada) == []


async def test_what_is_held_is_stored_without_secrets(home: ApiHome, ada: Seeds) -> None:
    """Spans wait in the database as redacted as their events will be."""
    secret = 'canary-"Zq7plumage'
    await home.raven.vault.create(ada.tenant_id, ada.user_id, name="canary", type="password", value=secret)
    arguments = json.dumps({"token": secret, "more": json.dumps([secret])})
    told = [*span(2)["attributes"], stated("gen_ai.tool.call.arguments", arguments)]
    await send(ada, span(2, parent=1, attributes=told), span(3, parent=1, tool=False))
    (body,) = held(home, ada)
    assert b"Zq7plumage" not in body
    assert body.count(b"[secret:") == 2
    await send(ada, span(1, tool=False))
    (found,) = await events(ada)
    assert found["input_params"]["token"].startswith("[secret:")


async def test_spans_that_the_store_does_not_take_are_not_acknowledged(
    home: ApiHome, ada: Seeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exporter is told to send again, and what it sends again is there once."""

    def refuse(*_: object) -> None:
        raise StorageBusy("not now")

    with monkeypatch.context() as patched:
        patched.setattr(held_traces, "keep_parts", refuse)
        assert (await send(ada, span(2, parent=1))).status == 503
        assert held(home, ada) == []
    assert (await send(ada, span(2, parent=1))).status == 200
    assert len(held(home, ada)) == 1
    await send(ada, span(1, tool=False))
    assert [each["tool_id"] for each in await events(ada)] == ["tool_2"]


async def test_what_is_held_is_bounded(ada: Seeds, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond so many spans the traces that came first are written without their roots."""
    monkeypatch.setattr(held_traces, "MOST_HELD", 3)
    await send(ada, *(span(n, parent=1, traceId=f"{n:032x}") for n in range(2, 8)))
    await send(ada)
    assert [each["tool_id"] for each in await events(ada)] == ["tool_2", "tool_3", "tool_4"]


async def test_spans_that_cannot_be_read_are_told_as_a_partial_success(ada: Seeds) -> None:
    """The rest is accepted, and the exporter learns how many were not and why, in its own encoding."""
    bad = [span(2, traceId="xyz"), span(3, startTimeUnixNano="soon"), 17]
    reply = await send(ada, *bad, span(1))
    assert reply.status == 200
    partial = reply.json()["partialSuccess"]
    assert partial["rejectedSpans"] == "3"
    assert "traceId must be 32 hexadecimal digits" in partial["errorMessage"]
    assert [each["tool_id"] for each in await events(ada)] == ["tool_1"]


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", JSON, 400),
        (b"[]", JSON, 400),
        (b'{"resourceSpans": 3}', JSON, 400),
        (b'{"resourceSpans": [3]}', JSON, 400),
        (b"\x0a\xff", PROTOBUF, 400),
        (b"\x07", PROTOBUF, 400),
        (b"plain", {**PROTOBUF, "content-encoding": "gzip"}, 400),
        (gzip.compress(b"x" * 1000, mtime=0)[:-20], {**PROTOBUF, "content-encoding": "gzip"}, 400),
        (b"", {**PROTOBUF, "content-encoding": "zstd"}, 415),
        (b"{}", {"content-type": "text/plain"}, 415),
        (b"", PROTOBUF, 200),
        (b"{}", {"content-type": "application/json; charset=utf-8"}, 200),
    ],
)
async def test_a_body_that_is_no_request_is_refused(
    ada: Seeds, body: bytes, headers: dict[str, str], status: int
) -> None:
    """Each fault has its status and its code; nothing is recorded."""
    reply = await ada.door.ask("POST", "/v1/traces", body=body, headers=headers)
    assert reply.status == status
    assert await events(ada) == []


async def test_a_body_that_unpacks_to_too_much_is_refused(ada: Seeds, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small body that becomes a huge one is refused before it is unpacked."""
    monkeypatch.setattr(telemetry, "MOST_UNPACKED", 1000)
    packed = gzip.compress(b" " * 100_000)
    reply = await ada.door.ask("POST", "/v1/traces", body=packed, headers={**JSON, "content-encoding": "gzip"})
    assert (reply.status, reply.json()["code"]) == (413, "PAYLOAD_TOO_LARGE")


async def test_spans_need_a_key_and_belong_to_its_tenant(home: ApiHome, ada: Seeds) -> None:
    """Without a key nothing is taken in, and nobody sees the spans of another tenant."""
    bob = await home.tenant("bob")
    await send(ada, span(1))
    refused = await home.door.ask("POST", "/v1/traces", body=b"{}", headers=JSON)
    assert (refused.status, await events(bob), len(await events(ada))) == (401, [], 1)
    await send(bob, span(1))
    assert len(await events(bob)) == 1


async def test_turns_go_on_where_the_log_left_off(ada: Seeds) -> None:
    """A conversation that is continued in a later trace, also by another process, has later turns."""
    talk = [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}]
    named = {"key": "gen_ai.conversation.id", "value": {"stringValue": "c"}}
    await ada.door.post("/v1/events", {"events": [{"session_id": "c", "tool_id": "t", "input_params": {}, "turn": 7}]})
    call = span(3, parent=1)
    call["attributes"].append(named)
    await send(ada, span(2, parent=1, tool=False, attributes=[*talk, named]), call, span(1, tool=False))
    (found,) = [each for each in await events(ada) if each["tool_id"] == "tool_3"]
    assert found["turn"] == 8


async def test_the_user_that_a_span_names_is_whom_the_calls_of_its_trace_ran_for(ada: Seeds) -> None:
    """Also where a span names the user that is no call, and that came between calls and the root."""
    user = {"key": "user.id", "value": {"stringValue": "u-7"}}
    await send(ada, span(3, parent=2), span(2, parent=1, tool=False, attributes=[user]))
    await send(ada, span(1, tool=False))
    (found,) = await events(ada)
    assert (found["actor_type"], found["actor_id"]) == ("person", "u-7")
