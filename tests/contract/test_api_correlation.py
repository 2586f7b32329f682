"""One id holds a request together, and one table of codes says what went wrong with it."""

from __future__ import annotations

import io
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.api_client import Reply
from tests.api_homes import ApiHome, Seeds, api_home, login_of, made, seed
from tests.unit.catalog.town import service_body
from tools.requirements import ROOT
from twinraven.api import all_routes, openapi_document
from twinraven.foundation.correlation import current_correlation
from twinraven.serving.metrics import HttpMetrics
from twinraven.vault import Secret, clean_log

_CODES = set(re.findall(r"^\| `([A-Z_]+)` ", (ROOT / "docs" / "errors.md").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.fixture(params=["sqlite", "postgres"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, postgres=login_of(request)) as opened:
        yield opened


@pytest.fixture
async def ada(home: ApiHome) -> Seeds:
    return await home.tenant("ada")


@pytest.mark.req("CH-23")
@pytest.mark.parametrize("given", ["ticket-9/step:2", None])
async def test_the_id_of_a_request_is_found_everywhere(home: ApiHome, ada: Seeds, given: str | None) -> None:
    """Given or minted, it stands in the answer's header, in the event, in the audit entries and in the log."""
    log = io.StringIO()
    stated = {} if given is None else {"X_Correlation_Id": given}
    with clean_log(lambda: home.raven.redactor, log):
        call = {"tool_name": "pay", "payload": {"amount": 5}, "session_id": "s"}
        reply = await ada.door.post("/v1/calls", call, Idempotency_Key="k", **stated)
    answer = made(reply)
    correlation = reply.headers["x-correlation-id"]
    assert correlation == given or (given is None and re.fullmatch("[0-9a-f]{32}", correlation))
    event = made(await ada.door.get(f"/v1/events/{answer['event_id']}"))
    assert event["correlation_id"] == correlation
    audited = made(await ada.door.get(f"/v1/audit?correlation_id={correlation}"))["items"]
    assert {entry["event_type"] for entry in audited} >= {"call.intended", "call.succeeded"}
    assert f"shop.till [{correlation}] paid 5" in log.getvalue()


@pytest.mark.req("CH-23")
async def test_the_id_of_a_change_is_found_in_its_audit_entry(ada: Seeds) -> None:
    """Services, tools, templates and secrets that are made under an id leave entries under it."""
    made(await ada.door.post("/v1/services", service_body(), X_Correlation_Id="made-1"))
    made(
        await ada.door.post(
            "/v1/secrets", {"name": "n", "type": "password", "value": "long-enough"}, X_Correlation_Id="made-2"
        )
    )
    event: dict[str, Any] = {"session_id": "s", "tool_id": "t", "input_params": {}}
    made(await ada.door.post("/v1/events", {"events": [event]}, X_Correlation_Id="made-3"))
    for number, subject in ((1, "service"), (2, "secret")):
        entries = made(await ada.door.get(f"/v1/audit?correlation_id=made-{number}"))["items"]
        assert [entry["subject_type"] for entry in entries] == [subject]
    assert made(await ada.door.get("/v1/events"))["items"][0]["correlation_id"] == "made-3"


@pytest.mark.req("CH-23")
async def test_the_id_of_a_step_in_a_learned_tools_life_or_a_persons_is_in_its_entry(home: ApiHome, ada: Seeds) -> None:
    """Who is added, who gets a key and which tool leaves service: each entry has the id of its request."""
    await seed(home.raven, ada, name="ada")
    user = made(await ada.door.post("/v1/users", {"name": "mia"}, X_Correlation_Id="step-1"))
    made(await ada.door.post("/v1/keys", {"user_id": user["user_id"]}, X_Correlation_Id="step-2"))
    learned = f"/v1/learned-tools/{ada.ids['learned-tools', 'tool_id']}"
    made(await ada.door.post(f"{learned}/quarantine", {"reason": "odd"}, X_Correlation_Id="step-3"))
    for number, subject in ((1, "user"), (2, "api_key"), (3, "learned_tool")):
        entries = made(await ada.door.get(f"/v1/audit?correlation_id=step-{number}"))["items"]
        assert [entry["subject_type"] for entry in entries] == [subject], number


@pytest.mark.req("CH-23")
async def test_every_answer_has_an_id_and_an_odd_one_is_refused(ada: Seeds) -> None:
    """Also errors and what is not there; what could break a line of a log is no id."""
    for target in ("/v1/me", "/nowhere", "/healthz", "/v1/me?x=1"):
        first, second = await ada.door.get(target), await ada.door.get(target)
        assert first.headers["x-correlation-id"] != second.headers["x-correlation-id"]
        assert (await ada.door.get(target, X_Correlation_Id="mine")).headers["x-correlation-id"] == "mine"
    for odd in ("", " ", "a b", "a\tb", "é", "x" * 129, "a;b", '"'):
        refused = await ada.door.get("/v1/me", X_Correlation_Id=odd)
        assert (refused.status, refused.json()["details"]["field"]) == (400, "X-Correlation-Id"), odd
        assert refused.headers["x-correlation-id"] != odd


@pytest.mark.req("CH-23")
async def test_an_id_that_holds_a_secret_is_replaced_and_nobody_is_told_why(
    home: ApiHome, ada: Seeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member who sends a guess gets the answer of any request, under a minted id that is also in the log."""
    secret = {"name": "n", "type": "api_key", "value": "guess-0451-exactly"}
    made(await ada.door.post("/v1/secrets", secret))
    mia = await home.user(ada.tenant_id, "mia")
    log = io.StringIO()
    with clean_log(lambda: home.raven.redactor, log):
        call = {"tool_name": "pay", "payload": {"amount": 5}, "session_id": "s"}
        reply = await mia.door.post("/v1/calls", call, Idempotency_Key="k", X_Correlation_Id="guess-0451-exactly")
    correlation = reply.headers["x-correlation-id"]
    assert (reply.status, bool(re.fullmatch("[0-9a-f]{32}", correlation))) == (200, True)
    assert made(await mia.door.get(f"/v1/events/{reply.json()['event_id']}"))["correlation_id"] == correlation
    assert f"shop.till [{correlation}] paid 5" in log.getvalue()
    logged_under: list[str | None] = []

    async def no_secrets(*_: object) -> list[Secret]:
        logged_under.append(current_correlation.get())
        return []

    monkeypatch.setattr(home.raven.vault, "secrets", no_secrets)
    listed = await mia.door.get("/v1/secrets", X_Correlation_Id="guess-0451-exactly")
    assert [listed.headers["x-correlation-id"]] == logged_under


@pytest.mark.req("CH-21")
async def test_problems_have_documented_codes_and_say_whether_to_try_again(home: ApiHome, ada: Seeds) -> None:
    """One answer of every kind: a problem with a code of docs/errors.md; nothing that policy forbids is retryable."""
    await seed(home.raven, ada, name="ada")
    mia = await home.user(ada.tenant_id, "mia")
    refund = {"tool_name": "refund", "payload": {"order": 7}, "session_id": "ada-session"}
    approval = f"/v1/approvals/{ada.ids['approvals', 'approval_id']}"
    made(await ada.door.post(f"{approval}/deny", {"note": "no"}))
    expected: list[tuple[Reply, int, str]] = [
        (await ada.door.get("/v1/me?x=1"), 400, "VALIDATION_FAILED"),
        (await home.door.keyed("x").get("/v1/me"), 401, "NOT_AUTHENTICATED"),
        (await mia.door.get("/v1/users"), 403, "POLICY_VIOLATION"),
        (await ada.door.post("/v1/calls", refund, Idempotency_Key="ada-refund"), 403, "APPROVAL_DENIED"),
        (await ada.door.get("/v1/services/x"), 404, "NOT_FOUND"),
        (await ada.door.delete("/v1/me"), 405, "METHOD_NOT_ALLOWED"),
        (await ada.door.post("/v1/services", service_body(name="ada-service")), 409, "CONFLICT"),
        (await ada.door.patch(ada_service(ada), {}, If_Match='"9"'), 412, "OCC_CONFLICT"),
        (await ada.door.ask("POST", "/v1/users", headers={"content-length": "99999999"}), 413, "PAYLOAD_TOO_LARGE"),
        (await ada.door.ask("POST", "/v1/users", body=b"{}"), 415, "UNSUPPORTED_MEDIA_TYPE"),
        (await ada.door.patch(ada_service(ada), {}), 428, "PRECONDITION_REQUIRED"),
    ]
    for reply, status, code in expected:
        told = reply.json()
        assert (reply.status, told["code"]) == (status, code), told
        assert reply.headers["content-type"] == "application/problem+json"
        assert (told["status"], told["type"]) == (status, f"urn:twinraven:error:{code}")
        assert told["retryable"] is False
        assert code in _CODES


@pytest.mark.req("CH-21")
def test_every_code_in_the_document_is_in_the_page_of_codes() -> None:
    """The OpenAPI document names, for every route and status, codes that docs/errors.md explains."""
    document = openapi_document(all_routes(HttpMetrics()))
    named: set[str] = set()
    for path in document["paths"].values():
        for operation in path.values():
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    named.update(response["x-error-codes"])
                    (problem,) = response["content"].values()
                    whole = document["components"]["schemas"][problem["schema"]["$ref"].rpartition("/")[2]]
                    assert set(response["x-error-codes"]) <= set(whole["properties"]["code"]["enum"])
                    assert whole["properties"]["status"]["enum"] == [int(status)]
    assert len(named) > 20
    assert named <= _CODES


def ada_service(ada: Seeds) -> str:
    return f"/v1/services/{ada.ids['services', 'service_id']}"
