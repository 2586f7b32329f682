"""Canaries: secrets sent everywhere a secret can go must be found nowhere a secret may not be."""

from __future__ import annotations

import base64
import io
import json
import logging
from collections.abc import Generator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from tests.homes import all_text, opened_home
from tests.registry_kit import add_chain, make_definition, make_verdict
from tests.registry_kit import read as read_document
from tests.registry_kit import search as search_documents
from twinraven.app import TwinRaven, open_home
from twinraven.calls import CallContext, CallFailed, SkillInvocationRequest
from twinraven.catalog import tool
from twinraven.flow import StepDefinition
from twinraven.foundation.errors import InvalidDefinition, ToolUnavailable
from twinraven.muninn import export_json, export_otlp, export_parquet
from twinraven.vault import clean_log

PARQUET: Any = import_module("pyarrow.parquet")

CANARY = 'canary-"Zq7/Wv+9\\kÄ3=plumage'
BASIC = base64.b64encode(f"user:{CANARY}".encode()).decode()
SPELLINGS = (
    CANARY,
    json.dumps(CANARY)[1:-1],
    json.dumps(CANARY, ensure_ascii=False)[1:-1],
    json.dumps(json.dumps(CANARY))[1:-1],
    base64.b64encode(CANARY.encode()).decode(),
    base64.urlsafe_b64encode(CANARY.encode()).decode().rstrip("="),
    # What the canary alone decides of a longer text in base64.
    BASIC[8:-4],
    quote(CANARY, safe=""),
    quote(CANARY),
    quote_plus(CANARY),
)
HEADERS = {
    "Authorization": f"Bearer {CANARY}",
    "Proxy-Authorization": f"Basic {BASIC}",
    "Cookie": f"sid={quote(CANARY)}; theme=dark",
    f"X-{CANARY}": "1",
}


@tool(effect="write", sensitivity="high")
async def send(text: str, headers: dict[str, str]) -> dict[str, Any]:
    """Say everything back, in every spelling, and to the log."""
    logging.getLogger("vendor.http").warning("sent %s with %r", text, headers)
    return {"said": text, "headers": headers, "raw": json.dumps({"inner": json.dumps(text)}), "url": quote(text)}


@tool(effect="read", sensitivity="high")
async def fail(text: str) -> None:
    """Fail with the secret in the message, and in the traceback of the log."""
    try:
        raise RuntimeError(f"could not log in with {text}")
    except RuntimeError:
        logging.getLogger("vendor.http").exception("giving up")
        raise


@tool(effect="read")
async def whisper(text: str) -> int:
    """Tell nobody but the log."""
    logging.getLogger("vendor.http").warning("heard %s", text)
    return len(text)


@tool(effect="write")
async def be_away(text: str) -> None:
    """Fail for now, with the secret in the details."""
    raise ToolUnavailable(f"{text} is not welcome", url=f"https://x.example/?key={quote(text)}")


@pytest.fixture(params=["sqlite", "postgres"])
def raven(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[TwinRaven]:
    login = request.getfixturevalue("postgres_login") if request.param == "postgres" else None
    with opened_home(
        tmp_path, [send, fail, whisper, be_away, search_documents, read_document], postgres=login
    ) as raven:
        yield raven


@pytest.fixture
def log(raven: TwinRaven) -> Generator[io.StringIO]:
    """What the process says to its log."""
    out = io.StringIO()
    with clean_log(lambda: raven.redactor, out):
        yield out


async def test_calls_leave_no_secret_anywhere(raven: TwinRaven, log: io.StringIO, tmp_path: Path) -> None:
    """Through arguments, headers, answers, errors, tags, names and what was said: no hit in store, files or log."""
    await raven.vault.create("default", "local", name="canary", type="password", value=CANARY)
    heard = [await _call(raven, name) for name in ("send", "fail", "be_away")]
    assert [response["status"] for response in heard] == ["success", "failed", "failed"]
    assert _found(json.dumps([response["error"] for response in heard], ensure_ascii=False)) == []
    with pytest.raises(CallFailed) as caught:
        await raven.calls.call("fail", {"text": CANARY}, CallContext("s"))
    assert _found(f"{caught.value} {caught.value.details}") == []
    # The write-ahead log is looked at while it is full, before closing empties it.
    raven.collector.flush()
    assert _everywhere(raven, tmp_path) == []
    assert "[secret:" in all_text(raven)
    assert "sent [secret:" in log.getvalue()
    assert "giving up" in log.getvalue()
    assert _found(log.getvalue()) == []


async def _call(raven: TwinRaven, name: str) -> dict[str, Any]:
    params: dict[str, Any] = {"text": CANARY} if name != "send" else {"text": CANARY, "headers": HEADERS}
    request = SkillInvocationRequest(
        name,
        params,
        idempotency_key=f"key-{name}",
        correlation_id=f"c-{CANARY}",
        task_id=f"t-{CANARY}",
        campaign_id=f"a-{CANARY}",
        extra={"note": CANARY},
    )
    context = CallContext(
        f"s-{CANARY}", outside_input=f"my password is {CANARY}", tags=(f"tag {CANARY}",), caller=f"user {CANARY}"
    )
    return (await raven.calls.invoke(request, context)).as_json()


async def test_the_first_words_of_a_process_hold_no_secret(raven: TwinRaven) -> None:
    """A process that has just started knows the secrets before the first tool can log one."""
    await raven.vault.create("default", "local", name="canary", type="password", value=CANARY)
    out = io.StringIO()
    with open_home(raven.home, functions=[whisper]) as fresh, clean_log(lambda: fresh.redactor, out):
        await fresh.calls.call("whisper", {"text": CANARY}, CallContext("s"))
    assert "heard [secret:" in out.getvalue()
    assert _found(out.getvalue()) == []


async def test_definitions_that_hold_a_secret_are_refused(raven: TwinRaven, tmp_path: Path) -> None:
    """A learned tool with the secret as a literal, or in its words, becomes neither a row nor a file."""
    await raven.vault.create("default", "local", name="canary", type="password", value=CANARY)
    chain = await add_chain(raven.database)
    sound = make_definition(chain_id=chain)
    literal = StepDefinition(1, "read", {"url": f"https://x.example/?key={quote(CANARY)}"})
    for definition in (
        replace(sound, steps=(sound.steps[0], literal)),
        replace(sound, description=f"Searches with {CANARY}."),
        replace(sound, parameters={"type": "object", "properties": {"q": {"type": "string", "default": CANARY}}}),
    ):
        with pytest.raises(InvalidDefinition) as caught:
            await raven.registry.draft("default", definition, evidence_hash="e")
        with pytest.raises(InvalidDefinition):
            await raven.registry.register("default", definition, make_verdict())
        assert _found(caught.value.message) == []
    assert _everywhere(raven, tmp_path) == []
    draft = await raven.registry.draft("default", sound, evidence_hash="e")
    await raven.registry.register("default", draft.definition, make_verdict())


async def test_imports_and_exports_leave_no_secret(raven: TwinRaven, tmp_path: Path) -> None:
    """Traces that hold the secret come in and go out again without it, and unread lines are complained of without."""
    await raven.vault.create("default", "local", name="canary", type="password", value=CANARY)
    line = {"session_id": f"s-{CANARY}", "seq": 0, "tool": "send", "params": {"a": HEADERS}, "output": [CANARY, BASIC]}
    line["user_before"] = CANARY
    odd: list[Any] = [{**line, "seq": CANARY}, {**line, "session_id": f"{CANARY}\0"}, CANARY]
    chat = {
        "messages": [
            {"role": "user", "content": f"use {CANARY}"},
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": "call-1",
                        "type": "function",
                        "function": {"name": "send", "arguments": json.dumps({"text": CANARY})},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call-1", "content": f"sent {CANARY}"},
        ]
    }
    report = await raven.importer.import_calls("default", [json.dumps(each).encode() for each in (line, *odd)])
    assert (report.events, len(report.errors)) == (1, 3)
    assert _found(" ".join(error.reason for error in report.errors)) == []
    talked = await raven.importer.import_trace("default", [json.dumps(chat).encode()], format="openai")
    assert talked.events == 1
    for name, export in (("spans.jsonl", export_otlp), ("events.parquet", export_parquet)):
        with (tmp_path / name).open("wb") as out:
            assert await export(raven.database, "default", out) == 2
    with (tmp_path / "events.jsonl").open("wb") as out:
        await export_json(raven.events, "default", out)
    rows = PARQUET.read_table(tmp_path / "events.parquet").to_pylist()
    assert _found("\n".join(str(value) for row in rows for value in row.values())) == []
    assert b"[secret:" in (tmp_path / "events.jsonl").read_bytes()
    assert _everywhere(raven, tmp_path) == []


def _everywhere(raven: TwinRaven, folder: Path) -> list[str]:
    """Every place where a spelling of the canary stands: tables with columns decoded, and files as they are."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [
        *(f"table: {spelling}" for spelling in _found(all_text(raven))),
        *(f"{path.name}: {spelling}" for path in files for spelling in SPELLINGS if spelling.encode() in _bytes(path)),
    ]


def _bytes(path: Path) -> bytes:
    return path.read_bytes()


def _found(text: str) -> list[str]:
    return [spelling for spelling in SPELLINGS if spelling in text]
