"""Fields that a tool's schema marks as secret: used by the tool, seen by the caller, recorded nowhere."""

from __future__ import annotations

import base64
from collections.abc import Generator
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

from tests.homes import all_text, opened_home
from twinraven.app import TwinRaven
from twinraven.calls import CallContext, SkillInvocationRequest
from twinraven.catalog import tool
from twinraven.foundation.errors import ToolUnavailable
from twinraven.muninn import EventFilter

PIN = "pin-8142-and-more"
SPELLINGS = (PIN, base64.b64encode(PIN.encode()).decode().rstrip("="))
SECRET_TEXT = Annotated[str, Field(json_schema_extra={"x-secret": True})]

used: list[str] = []


@tool(effect="write", sensitivity="high")
async def log_in(user: str, pin: SECRET_TEXT, note: str = "") -> dict[str, Any]:
    """Log in and give back what was sent."""
    used.append(pin)
    return {"user": user, "sent": f"Basic {base64.b64encode(pin.encode()).decode()}", "note": note}


@tool(effect="write")
async def fail(pin: SECRET_TEXT) -> None:
    """Refuse, quoting what was sent."""
    raise ValueError(f"{pin} is wrong")


@tool(effect="write")
async def be_away(pin: SECRET_TEXT) -> None:
    """Be away, quoting what was sent."""
    raise ToolUnavailable(f"nobody asks for {pin} now", pin=pin)


@tool(effect="read", sensitivity="high")
async def check(pin: SECRET_TEXT) -> Annotated[str, Field(json_schema_extra={"writeOnly": True})]:
    """Answer with something that is secret itself."""
    return f"session-token-of-{len(pin)}"


@pytest.fixture(params=["sqlite", "postgres"])
def raven(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[TwinRaven]:
    login = request.getfixturevalue("postgres_login") if request.param == "postgres" else None
    used.clear()
    with opened_home(tmp_path, [log_in, fail, be_away, check], postgres=login) as raven:
        yield raven


async def invoke(raven: TwinRaven, name: str, params: dict[str, Any], key: str | None = "k", **context: Any) -> Any:
    asked = SkillInvocationRequest(name, params, idempotency_key=key)
    return await raven.calls.invoke(asked, CallContext("s", **context))


def hits(raven: TwinRaven, *others: str) -> list[str]:
    """Which spellings stand in any column of any table."""
    raven.collector.flush()
    stored = all_text(raven)
    return [spelling for spelling in (*SPELLINGS, *others) if spelling in stored]


async def test_the_tool_and_the_caller_get_the_truth_and_the_record_a_token(raven: TwinRaven) -> None:
    """Event, audit bodies and the kept answer show one stable token; a field that was not marked stays readable."""
    params = {"user": "ada", "pin": PIN, "note": f"remember {PIN}"}
    first = await invoke(raven, "log_in", params, outside_input=f"it is {PIN}", tags=(f"with {PIN}",))
    assert used == [PIN]
    assert first.output["sent"] == f"Basic {base64.b64encode(PIN.encode()).decode()}"
    assert first.output["note"] == f"remember {PIN}"
    again = await invoke(raven, "log_in", params)
    token = raven.redactor.token("default", PIN)
    assert (again.replayed, again.output["note"]) == (True, f"remember {token}")
    assert used == [PIN]
    event = (await raven.events.events("default", EventFilter()))[0]
    assert event.input_params == {"user": "ada", "pin": token, "note": f"remember {token}"}
    assert hits(raven) == []


async def test_errors_that_quote_a_marked_field_are_recorded_without_it(raven: TwinRaven) -> None:
    """Final, retryable and refused: the caller reads the words, the log, the audit chain and the key do not."""
    failed = await invoke(raven, "fail", {"pin": PIN}, "k1")
    assert failed.error is not None
    assert failed.error["message"] == f"ValueError: {PIN} is wrong"
    away = await invoke(raven, "be_away", {"pin": PIN}, "k2")
    assert away.error["details"] == {"pin": PIN}
    refused = await invoke(raven, "log_in", {"pin": PIN, "user": {"name": PIN}}, "k3")
    assert refused.error["code"] == "VALIDATION_FAILED"
    odd = await invoke(raven, "fail", {"pin": float("nan")}, "k4")
    assert odd.status == "failed"
    assert hits(raven) == []


async def test_marked_outputs_are_recorded_without_what_is_marked(raven: TwinRaven) -> None:
    """What the output's schema marks is answered in full and recorded as a token."""
    response = await invoke(raven, "check", {"pin": PIN}, None)
    assert response.output == "session-token-of-17"
    assert hits(raven, "session-token-of-17") == []


@pytest.mark.req("AD-04")
async def test_secrets_of_the_vault_are_told_to_nobody_in_errors(raven: TwinRaven) -> None:
    """An error that quotes a stored secret reaches the caller without it, and so does one after a replay."""
    await raven.vault.create("default", "local", name="bank", type="password", value=PIN)
    for _ in range(2):
        failed = await invoke(raven, "fail", {"pin": PIN})
        assert failed.error["message"] == f"ValueError: {raven.redactor.token('default', PIN)} is wrong"
        assert failed.error["code"] == "TOOL_FAILED"


async def test_a_key_that_holds_a_secret_is_refused(raven: TwinRaven) -> None:
    """A key is kept for ever as it is, so one with a secret in it is not taken and nothing is sent."""
    await raven.vault.create("default", "local", name="bank", type="password", value=PIN)
    refused = await invoke(raven, "log_in", {"user": "ada", "pin": "x"}, f"login-{PIN}")
    assert (refused.error["code"], refused.error["details"]) == ("VALIDATION_FAILED", {"field": "idempotency_key"})
    assert used == []
    assert hits(raven) == []
