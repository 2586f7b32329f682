"""Bad input over HTTP, on both stores: refused by name with the status that fits, and nothing else is lost by it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest

from tests.api_homes import ApiHome, SeededHome, Seeds, made, seeded_home, server_of
from twinraven.api import all_routes
from twinraven.serving.metrics import HttpMetrics
from twinraven.serving.request_parsing import LARGEST_BODY

_JSON: Final = {"content-type": "application/json"}
_EVENT: Final[dict[str, Any]] = {"session_id": "s", "tool_id": "t", "input_params": {}}
_ODD: Final = (
    *("\0", "a\0b", "a\nb", "\x7f", "\u2028", "\ud800", "a\udfffb", "\U0001d518", "\u202ex"),
    *("x" * 600, "'; --", "%00", "{}", ".."),
)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.soak)])
async def seeded(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[SeededHome]:
    async with seeded_home(tmp_path, server=server_of(request)) as opened:
        yield opened


@pytest.fixture
def home(seeded: SeededHome) -> ApiHome:
    return seeded.home


@pytest.fixture
def ada(seeded: SeededHome) -> Seeds:
    return seeded.ada


async def test_odd_texts_in_every_place_are_kept_or_refused_but_break_nothing(ada: Seeds) -> None:
    """NUL, line breaks, halves of characters, length: 2xx or 4xx in paths, queries and bodies, alike on both stores."""
    for odd in _ODD:
        spelt = "".join(f"%{byte:02X}" for byte in odd.encode("utf-8", "surrogatepass"))
        for route in all_routes(HttpMetrics()):
            path = route.path
            for name in route.names:
                path = path.replace("{" + name + "}", spelt)
            body: Any = {} if route.body is not None else None
            replies = [await ada.door.ask(route.method, path, body, headers={"if-match": "*"})]
            if route.method == "GET":
                replies += [await ada.door.get(f"{path}?{each.name}={spelt}") for each in route.all_query]
            assert [reply.status for reply in replies if reply.status >= 500] == [], (route.name, odd)
    for odd in _ODD:
        text = _escaped(odd)
        for target, body in _bodies(text):
            reply = await ada.door.ask("POST", target, body=body.encode(), headers={**_JSON, "idempotency-key": "k"})
            assert reply.status < 500, (target, odd, reply.body)


async def test_half_characters_in_stored_texts_are_refused(ada: Seeds) -> None:
    """What was said is kept to the letter: a lone surrogate is refused by name, and a pair of them is one character."""
    talk = made(await ada.door.post("/v1/conversations", {}))["id"]
    for odd, status in (("a\ud800b", 400), ("\udfff", 400), ("\U0001d518", 201)):
        body = f'{{"speaker": "user", "content": {_escaped(odd)}}}'.encode()
        reply = await ada.door.ask("POST", f"/v1/conversations/{talk}/turns", body=body, headers=_JSON)
        assert reply.status == status, (odd, reply.body)
        assert reply.json().get("details", {}).get("field") == ("body.content" if status == 400 else None)
    assert len((await ada.door.get(f"/v1/conversations/{talk}/turns")).json()["items"]) == 1


def _bodies(text: str) -> list[tuple[str, str]]:
    return [
        ("/v1/users", f'{{"name": {text}}}'),
        ("/v1/keys", f'{{"label": {text}}}'),
        ("/v1/secrets", f'{{"name": {text}, "type": "password", "value": "long-enough"}}'),
        ("/v1/secrets", f'{{"name": "n", "type": "password", "value": {text}}}'),
        ("/v1/services", f'{{"name": {text}, "type": "rest_api", "protocol": "https", "connection_schema": {{}}}}'),
        ("/v1/tools", f'{{"key": {text}, "service": {text}, "operation": {{{text}: {text}}}, "input_schema": {{}}}}'),
        ("/v1/calls", f'{{"tool_name": "search", "session_id": {text}, "payload": {{"query": {text}}}}}'),
        ("/v1/calls", f'{{"tool_name": "search", "session_id": "s", "payload": {{"query": {text}}}}}'),
        ("/v1/calls", f'{{"tool_name": "search", "session_id": "s", "tags": [{text}], "outside_input": {text}}}'),
        ("/v1/calls", f'{{"tool_name": "search", "session_id": "s", "id": {text}, "correlation_id": {text}}}'),
        ("/v1/calls", f'{{"tool_name": "search", "session_id": "s", "idempotency_key": {text}}}'),
        ("/v1/events", f'{{"events": [{{"session_id": "s", "tool_id": {text}, "input_params": {{}}}}]}}'),
        (
            "/v1/events",
            f'{{"events": [{{"session_id": "s", "tool_id": "t", "input_params": {{{text}: 1}}, "output": {text}}}]}}',
        ),
        (
            "/v1/events",
            f'{{"events": [{{"session_id": "s", "tool_id": "t", "input_params": {{}}, "error": {text}}}]}}',
        ),
        ("/v1/learned-tools/ada_learned/quarantine", f'{{"reason": {text}}}'),
        ("/v1/sessions/ada-session/verdicts", f'{{"outcome": {text}}}'),
    ]


def _escaped(text: str) -> str:
    """A JSON string in ASCII, halves of characters included."""
    units = text.encode("utf-16-be", "surrogatepass")
    return '"' + "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2)) + '"'


async def test_odd_numbers_and_depths_are_kept_or_refused(ada: Seeds) -> None:
    """Numbers beyond 64 bits come back as they were; depth, NaN and minus zero break nothing."""
    huge = 10**40
    event = f'{{"session_id": "n", "tool_id": "t", "input_params": {{"n": {huge}}}, "output": {{"m": -{huge}}}}}'
    reply = await ada.door.ask("POST", "/v1/events", body=f'{{"events": [{event}]}}'.encode(), headers=_JSON)
    shown = await ada.door.get(f"/v1/events/{made(reply)['event_ids'][0]}")
    assert shown.status == 200
    assert f'"n":{huge}'.encode() in shown.body
    assert f'"m":-{huge}'.encode() in shown.body
    session = await ada.door.get("/v1/sessions/n")
    assert f"{huge}".encode() in session.body
    for number in ("1e400", "-0", "-0.0", "1" + "0" * 5000, "NaN", "Infinity", "1e-400"):
        body = f'{{"events": [{{"session_id": "n", "tool_id": "t", "input_params": {{"n": {number}}}}}]}}'
        assert (await ada.door.ask("POST", "/v1/events", body=body.encode(), headers=_JSON)).status in (201, 400)
        latency = f'{{"session_id": "n", "tool_id": "t", "input_params": {{}}, "latency_ms": {number}}}'
        reply = await ada.door.ask("POST", "/v1/events", body=f'{{"events": [{latency}]}}'.encode(), headers=_JSON)
        assert reply.status in (201, 400), number
    for depth in (200, 260, 1000, 1100, 100_000):
        for opening, closing in (("[", "]"), ('{"a":', "}")):
            inner = opening * depth + "1" + closing * depth
            body = f'{{"events": [{{"session_id": "d", "tool_id": "t", "input_params": {{"x": {inner}}}}}]}}'
            reply = await ada.door.ask("POST", "/v1/events", body=body.encode(), headers=_JSON)
            assert reply.status == (201 if depth == 200 else 400), depth


async def test_an_event_id_that_is_taken_costs_the_others_nothing(ada: Seeds) -> None:
    """409 names the ids that are taken; the other events are recorded, and the earlier event stays as it was."""
    taken, fresh = ada.ids["events", "event_id"], str(uuid4())
    before = (await ada.door.get(f"/v1/events/{taken}")).json()
    events = [{**_EVENT, "event_id": taken.upper()}, {**_EVENT, "event_id": fresh}, _EVENT]
    refused = await ada.door.post("/v1/events", {"events": events})
    assert (refused.status, refused.json()["code"]) == (409, "CONFLICT")
    assert refused.json()["details"]["event_ids"] == [taken]
    assert (await ada.door.get(f"/v1/events/{fresh}")).status == 200
    assert len(made(await ada.door.get("/v1/sessions/s"))["events"]) == 2
    assert (await ada.door.get(f"/v1/events/{taken}")).json() == before


async def test_a_batch_with_one_bad_event_records_none(ada: Seeds) -> None:
    """What cannot be read is refused by its place before anything is recorded."""
    twice = str(uuid4())
    bad: list[tuple[list[dict[str, Any]], str]] = [
        ([{**_EVENT, "event_id": twice}, {**_EVENT, "event_id": twice.upper()}], "events"),
        ([_EVENT, {**_EVENT, "timestamp": "2026-02-30T00:00:00Z"}], "body.events[1].timestamp"),
        ([_EVENT, {**_EVENT, "timestamp": "2016-12-31T23:59:60Z"}], "events[1].timestamp"),
        ([_EVENT, {**_EVENT, "timestamp": "0001-01-01T00:00:00+12:00"}], "events[1].timestamp"),
        ([_EVENT, {**_EVENT, "session_id": "a\nb"}], "body.events[1].session_id"),
        ([_EVENT, {**_EVENT, "tags": ["a\0"]}], "body.events[1].tags[0]"),
        ([_EVENT, {**_EVENT, "latency_ms": -1}], "body.events[1].latency_ms"),
        ([_EVENT, {**_EVENT, "surprise": 1}], "body.events[1]"),
    ]
    for events, field in bad:
        refused = await ada.door.post("/v1/events", {"events": events})
        assert (refused.status, refused.json()["details"]["field"]) == (400, field), refused.body
    assert (await ada.door.get("/v1/sessions/s")).status == 404


async def test_a_call_of_no_calendars_time_is_refused(ada: Seeds) -> None:
    """A time that RFC 3339 allows and no clock here shows is bad input, and nothing was called."""
    call = {"tool_name": "search", "payload": {"query": "x"}, "session_id": "s"}
    for odd in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2016-12-31T23:59:60Z"):
        refused = await ada.door.post("/v1/calls", {**call, "created_at": odd})
        assert (refused.status, refused.json()["details"]["field"]) == (400, "created_at"), odd
    assert (await ada.door.get("/v1/sessions/s")).status == 404


async def test_the_form_of_a_request_is_checked_before_its_content(ada: Seeds) -> None:
    """Other types 415, broken or other encodings 400, too much 413, all before anything is done."""
    door = ada.door
    for media in (
        "text/plain",
        "application/xml",
        "application/x-www-form-urlencoded",
        "",
        "json",
        "application/jsonx",
    ):
        refused = await door.ask("POST", "/v1/users", body=b'{"name": "u"}', headers={"content-type": media})
        assert (refused.status, refused.json()["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE"), media
    for broken in (b"{", b"nul", b"{'a': 1}", b'{"name": "u"} x', b'{"name": "\xff"}', b"\xef\xbb\xbf", b"\x00"):
        refused = await door.ask("POST", "/v1/users", body=broken, headers=_JSON)
        assert (refused.status, refused.json()["details"]["field"]) == (400, "body"), broken
    for kind in (b"[]", b'"x"', b"1", b"null", b"true"):
        refused = await door.ask("POST", "/v1/users", body=kind, headers=_JSON)
        assert (refused.status, refused.json()["details"]["field"]) == (400, "body"), kind
    assert (await door.ask("POST", "/v1/users", headers=_JSON)).status == 400
    extra = await door.post("/v1/users", {"name": "u", "surname": "v"})
    assert (extra.status, "surname" in extra.json()["detail"]) == (400, True)
    assert (await door.ask("GET", "/v1/me", body=b"{}", headers=_JSON)).status == 400
    accepted = await door.ask(
        "POST", "/v1/users", body=b'{"name": "u"}', headers={"content-type": "Application/JSON; charset=utf-8"}
    )
    assert accepted.status == 201


async def test_a_body_that_is_too_large_is_refused_stated_or_not(ada: Seeds) -> None:
    """More than 16 MiB: by its stated length before it is read, in chunks as soon as it is too much."""
    for stated in (str(LARGEST_BODY + 1), "9" * 5000):
        refused = await ada.door.ask("POST", "/v1/users", headers={**_JSON, "content-length": stated})
        assert (refused.status, refused.json()["details"]["limit"]) == (413, LARGEST_BODY)
    part = b" " * (1024 * 1024)
    refused = await ada.door.ask("POST", "/v1/users", body=[part] * 17, headers=_JSON)
    assert (refused.status, refused.json()["code"]) == (413, "PAYLOAD_TOO_LARGE")
    whole = [b'{"name": "u"', *[part] * 15, b"}"]
    assert (await ada.door.ask("POST", "/v1/users", body=whole, headers=_JSON)).status == 201


async def test_queries_are_checked_by_name(ada: Seeds) -> None:
    """Unknown, doubled, missing, of another kind: 400 that names the parameter."""
    wrong = {
        "/v1/events?colour=red": "colour",
        "/v1/events?limit=0": "limit",
        "/v1/events?limit=501": "limit",
        "/v1/events?limit=many": "limit",
        "/v1/events?limit=1&limit=2": "limit",
        "/v1/events?limit=%31%30%30%30": "limit",
        "/v1/events?limit=99999999999999999999": "limit",
        "/v1/events?limit=-0": "limit",
        "/v1/events?limit=": "limit",
        "/v1/events?newest=yes": "newest",
        "/v1/events?since=yesterday": "since",
        "/v1/events?until=2016-12-31T23:59:60Z": "until",
        "/v1/sessions?outcome=good": "outcome",
        "/v1/events?session_id=%FF": "query",
        "/v1/events/live?after=-1": "after",
        "/v1/events/not-a-uuid": "event_id",
        "/v1/chains/1": "chain_id",
        "/v1/learned-tools/x/versions/0": "version",
        "/v1/learned-tools/x/versions/1.5": "version",
        f"/v1/events?{'&'.join(f'a{number}=1' for number in range(60))}": "query",
    }
    for target, field in wrong.items():
        refused = await ada.door.get(target)
        assert (refused.status, refused.json()["details"]["field"]) == (400, field), target


async def test_what_is_not_there_and_what_is_not_so(ada: Seeds) -> None:
    """An unknown path is 404; a known one with another method is 405 and says which; HEAD is GET without the body."""
    for target in (
        "/",
        "/v1",
        "/v1/",
        "/v1/nothing",
        "/v1/me/",
        "//v1/me",
        "/v1//me",
        "/V1/me",
        "/v1/me/x",
        "/%FF",
        "*",
    ):
        refused = await ada.door.get(target)
        assert (refused.status, refused.json()["code"]) == (404, "NOT_FOUND"), target
    for method in ("DELETE", "PUT", "TRACE", "PROPFIND", "get"):
        refused = await ada.door.ask(method, "/v1/services")
        assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS, POST"), method
        assert refused.json()["details"]["allowed"] == ["GET", "HEAD", "OPTIONS", "POST"]
    for route in all_routes(HttpMetrics()):
        # Where no graph stands beside the tables there is nothing to show, and that is an error.
        if route.method == "GET" and route.media == "application/json" and route.name != "showGraph":
            asked = "&".join(f"{each.name}=x" for each in route.query if each.required)
            path = ada.path_of(route) + (f"?{asked}" if asked else "")
            whole, headed = await ada.door.get(path), await ada.door.ask("HEAD", path)
            assert (headed.status, headed.body) == (whole.status, b"") == (200, b""), route.name
            assert headed.headers["content-length"] == str(len(whole.body))
            assert headed.headers.get("etag") == whole.headers.get("etag")


async def test_a_header_that_is_given_twice_is_refused(ada: Seeds) -> None:
    """Two versions to match, two callers, two keys: nobody can say which is meant, so it is neither."""
    for name, values in (
        ("if-match", ('"999"', "*")),
        ("authorization", ("Bearer a", "Bearer b")),
        ("idempotency-key", ("a", "b")),
        ("content-type", ("application/json", "text/plain")),
    ):
        reply = await ada.door.ask("PATCH", "/v1/me", {}, repeated=[(name, value) for value in values])
        assert (reply.status, reply.json()["code"]) == (400, "VALIDATION_FAILED"), reply.body
        assert reply.json()["details"]["field"].lower() == name
    again = await ada.door.ask("GET", "/v1/me", repeated=[("accept", "text/plain"), ("accept", "*/*")])
    assert again.status == 200


async def test_what_is_no_number_in_json_is_refused(ada: Seeds) -> None:
    """NaN and Infinity are refused as numbers, at whatever depth, and taken as texts."""
    for word in ("NaN", "Infinity", "-Infinity"):
        call = '{"tool_name": "search", "session_id": "s", "payload": {"query": %s}}'
        reply = await ada.door.ask("POST", "/v1/calls", body=(call % f"[{word}]").encode(), headers=_JSON)
        assert (reply.status, reply.json()["details"]["field"]) == (400, "body")
        assert word.removeprefix("-") in reply.json()["detail"]
        made(await ada.door.ask("POST", "/v1/calls", body=(call % f'"{word}"').encode(), headers=_JSON))
        huge = '{"tool_name": "search", "session_id": "%s", "payload": {"query": "q"}, "turn": %d}'
        over = await ada.door.ask("POST", "/v1/calls", body=(huge % (word, 10**30)).encode(), headers=_JSON)
        assert over.json()["details"]["field"] == "body.turn"
