"""REST as clients of a library and browsers know it, through a real server on a real socket."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.api_client import HOST, Door
from tests.api_homes import ApiHome, Seeds, api_home
from tests.gateways import free_port, until
from tests.unit.catalog.town import service_body
from twinraven.serving import StreamTokens, listener, with_cors
from twinraven.tenancy import Principal

PAGE = "https://app.example"
ASKS = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}


@pytest.fixture
async def home(tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, needs_key=True) as opened:
        yield opened


@pytest.fixture
async def ada(home: ApiHome) -> Seeds:
    return await home.tenant("ada")


@pytest.fixture
async def client(home: ApiHome, ada: Seeds) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client of the server with its key, which asks for no compression unless a test says so."""
    port = free_port()
    server = listener(with_cors(home.door.app, [PAGE]), "127.0.0.1", port)
    serving = asyncio.ensure_future(server.serve())
    await until(lambda: server.started)
    headers = {"Authorization": f"Bearer {ada.key}", "Accept-Encoding": "identity"}
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60, headers=headers) as client:
        yield client
    server.should_exit = True
    await serving


async def made_service(client: httpx2.AsyncClient, name: str = "shop") -> httpx2.Response:
    reply = await client.post("/v1/services", json=service_body(name=name))
    assert reply.status_code == 201, reply.text
    return reply


async def test_pages_of_a_named_origin_may_read_answers(client: httpx2.AsyncClient) -> None:
    """A preflight of a named site is answered without a key and its answers are readable; another site gets nothing."""
    preflight = await client.options("/v1/calls", headers={**ASKS, "Authorization": ""})
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == PAGE
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert "Authorization" in preflight.headers["access-control-allow-headers"]
    read = await client.get("/v1/me", headers={"Origin": PAGE})
    assert (read.status_code, read.headers["access-control-allow-origin"]) == (200, PAGE)
    assert "ETag" in read.headers["access-control-expose-headers"]
    failed = await client.get("/v1/nothing", headers={"Origin": PAGE})
    assert failed.headers["access-control-allow-origin"] == PAGE
    for stranger in ("https://evil.example", "null", f"{PAGE}.evil.example"):
        for reply in (
            await client.options("/v1/calls", headers={**ASKS, "Origin": stranger}),
            await client.get("/v1/me", headers={"Origin": stranger}),
        ):
            assert "access-control-allow-origin" not in reply.headers
            assert "Origin" in reply.headers["vary"]


async def test_without_the_setting_no_site_is_let_in(home: ApiHome) -> None:
    """As delivered, no answer says that a page of another site may read it."""
    assert with_cors(home.door.app, home.raven.settings.serving.allow_origins) is home.door.app
    reply = await home.door.ask("OPTIONS", "/v1/calls", headers={name.lower(): value for name, value in ASKS.items()})
    assert reply.status == 204
    assert not any(name.startswith("access-control") for name in reply.headers)


async def test_a_page_of_another_port_changes_nothing_without_a_key(tmp_path: Path) -> None:
    """What browsers send without asking, a POST without a body, acts for no page but our own and those we name."""
    async with api_home(tmp_path) as home:
        door, own, named = home.door, f"http://{HOST}", "http://localhost:3000"
        foreign = {"Origin": named}
        for headers in (foreign, {**foreign, "Sec_Fetch_Site": "same-site"}, {"Sec_Fetch_Site": "cross-site"}):
            refused = await door.post("/v1/maintenance", **headers)
            assert (refused.status, refused.json()["code"]) == (401, "NOT_AUTHENTICATED"), headers
        assert (await door.get("/v1/tools", **foreign)).status == 200
        listed = Door(with_cors(door.app, [named]))
        for reply in (
            await door.post("/v1/maintenance", Origin=own),
            await door.post("/v1/maintenance", Sec_Fetch_Site="same-origin", Origin=own),
            await door.post("/v1/maintenance"),
            await listed.post("/v1/maintenance", **foreign),
            await (await home.user("default", "ann", role="admin")).door.post("/v1/maintenance", **foreign),
        ):
            assert reply.status == 200, reply.body


async def test_large_answers_are_compressed_for_those_who_accept_it(client: httpx2.AsyncClient) -> None:
    """The document shrinks to a fraction and is the same; a small answer, and one for others, is sent as it is."""
    plain = await client.get("/openapi.json")
    assert "content-encoding" not in plain.headers
    assert "Accept-Encoding" in plain.headers["vary"]
    async with client.stream("GET", "/openapi.json", headers={"Accept-Encoding": "gzip"}) as packed:
        body = b"".join([part async for part in packed.aiter_raw()])
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) == len(body) < len(plain.content) / 5
    assert gzip.decompress(body) == plain.content
    headed = await client.head("/openapi.json", headers={"Accept-Encoding": "gzip"})
    assert headed.headers["content-length"] == packed.headers["content-length"]
    small = await client.get("/v1/me", headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in small.headers


async def test_a_compressed_answer_has_a_tag_that_changes_and_reads_by(client: httpx2.AsyncClient) -> None:
    """The tag of a compressed answer is another one, answers 304, and is good for a change."""
    wide = {f"field_{number}": {"type": "string"} for number in range(100)}
    body = service_body(name="wide")
    body["connectionSchema"] = {**body["connectionSchema"], "properties": wide | body["connectionSchema"]["properties"]}
    place = (await client.post("/v1/services", json=body)).headers["location"]
    packed = await client.get(place, headers={"Accept-Encoding": "gzip"})
    plain = await client.get(place)
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["etag"] != plain.headers["etag"]
    assert packed.json() == plain.json()
    for tag in (packed.headers["etag"], plain.headers["etag"]):
        unchanged = await client.get(place, headers={"If-None-Match": tag, "Accept-Encoding": "gzip"})
        assert (unchanged.status_code, unchanged.headers["etag"]) == (304, packed.headers["etag"])
    changed = await client.patch(place, json={"enabled": False}, headers={"If-Match": packed.headers["etag"]})
    assert changed.status_code == 200


async def test_what_was_made_is_found_at_its_location(client: httpx2.AsyncClient) -> None:
    """201 names where the new thing is, also when the request is repeated under its key; reading it there works."""
    asked: list[tuple[str, dict[str, Any]]] = [
        ("/v1/services", service_body(name="one")),
        ("/v1/service-templates", service_body(name="two")),
        ("/v1/users", {"name": "bob"}),
        ("/v1/secrets", {"name": "token", "type": "api_key", "value": "a-long-secret-value"}),
        ("/v1/events", {"events": [{"session_id": "s 1/ä", "tool_id": "t", "input_params": {}}]}),
        ("/v1/sessions/s%201%2F%C3%A4/verdicts", {"outcome": "success"}),
    ]
    for path, body in asked:
        first = await client.post(path, json=body, headers={"Idempotency-Key": f"make {path}".replace(" ", "-")})
        again = await client.post(path, json=body, headers={"Idempotency-Key": f"make {path}".replace(" ", "-")})
        assert (first.status_code, again.status_code) == (201, 201), first.text
        assert again.headers["idempotent-replayed"] == "true"
        assert first.headers["location"] == again.headers["location"]
        assert (await client.get(first.headers["location"])).status_code == 200, path
    key = await client.post("/v1/keys", json={})
    assert key.headers["location"] == f"/v1/keys/{key.json()['key_id']}"


async def test_if_match_takes_lists_and_holds_for_reading(client: httpx2.AsyncClient) -> None:
    """One of several tags suffices for a change, a weak one never does; a GET for another version is 412."""
    place = (await made_service(client)).headers["location"]
    tag = (await client.get(place)).headers["etag"]
    for stale in ('"zzz"', '"zzz", "yyy"', f"W/{tag}"):
        refused = await client.patch(place, json={"enabled": False}, headers={"If-Match": stale})
        assert (refused.status_code, refused.json()["code"]) == (412, "OCC_CONFLICT"), stale
        assert (await client.get(place, headers={"If-Match": stale})).status_code == 412
    for fresh in (tag, "*", f'"zzz", {tag}'):
        assert (await client.get(place, headers={"If-Match": fresh})).status_code == 200
    changed = await client.patch(place, json={"enabled": False}, headers={"If-Match": f'"zzz", {tag}, "yyy"'})
    assert changed.status_code == 200
    again = await client.patch(place, json={"enabled": True}, headers={"If-Match": f'"zzz", {tag}'})
    assert again.status_code == 412


async def test_if_none_match_keeps_a_change_from_what_is_there(client: httpx2.AsyncClient) -> None:
    """A change under `If-None-Match: *`, or with the current tag, is refused and changes nothing."""
    place = (await made_service(client)).headers["location"]
    tag = (await client.get(place)).headers["etag"]
    for known in ("*", tag, f'"zzz", W/{tag}'):
        headers = {"If-None-Match": known, "If-Match": "*"}
        refused = await client.patch(place, json={"enabled": False}, headers=headers)
        assert (refused.status_code, refused.json()["details"]["field"]) == (412, "If-None-Match"), known
    missing = await client.patch(f"{place}x", json={}, headers={"If-None-Match": "*", "If-Match": "*"})
    assert missing.status_code == 404
    other = {"If-None-Match": '"zzz"', "If-Match": tag}
    assert (await client.patch(place, json={"enabled": False}, headers=other)).status_code == 200


async def test_conditions_on_what_has_no_tag_are_not_passed_over(client: httpx2.AsyncClient) -> None:
    """Whoever asks for a version of what has none is refused, rather than changing what somebody else has changed."""
    place = (await client.post("/v1/conversations", json={"title": "old"})).headers["location"]
    for name, value in (("If-Match", '"1"'), ("If-None-Match", "*")):
        refused = await client.patch(place, json={"title": "new"}, headers={name: value})
        assert (refused.status_code, refused.json()["details"]["field"]) == (412, name)
    assert (await client.get(place)).json()["title"] == "old"
    for headers in ({"If-Match": "*"}, {"If-None-Match": '"1"'}, {}):
        assert (await client.patch(place, json={"title": "new"}, headers=headers)).status_code == 200
    made = await client.post("/v1/conversations", json={}, headers={"If-None-Match": "*", "If-Match": '"1"'})
    assert made.status_code == 201


async def test_a_body_in_an_unknown_encoding_is_refused_as_such(client: httpx2.AsyncClient) -> None:
    """A packed body is 415 and the answer says which encodings are taken, not that it is no text."""
    packed = gzip.compress(b'{"name": "bob"}')
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    refused = await client.post("/v1/users", content=packed, headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert refused.headers["accept-encoding"] == "identity"
    odd = await client.post("/v1/traces", content=packed, headers={**headers, "Content-Encoding": "br"})
    assert (odd.status_code, odd.headers["accept-encoding"]) == (415, "gzip, identity")


async def test_options_says_what_a_path_takes(client: httpx2.AsyncClient) -> None:
    """OPTIONS is answered with the methods of the path; of a path that is not there with 404."""
    reply = await client.options("/v1/services")
    assert (reply.status_code, reply.headers["allow"], reply.content) == (204, "GET, HEAD, OPTIONS, POST", b"")
    assert (await client.options("/v1/nothing")).status_code == 404


async def test_a_key_in_quotes_is_the_same_key(client: httpx2.AsyncClient) -> None:
    """An Idempotency-Key as the IETF draft writes it names what the bare one does; escapes are undone."""
    first = await client.post("/v1/users", json={"name": "one"}, headers={"Idempotency-Key": '"k-1"'})
    bare = await client.post("/v1/users", json={"name": "one"}, headers={"Idempotency-Key": "k-1"})
    assert first.json() == bare.json()
    assert bare.headers["idempotent-replayed"] == "true"
    escaped = await client.post("/v1/users", json={"name": "two"}, headers={"Idempotency-Key": r'"k\"1"'})
    plain = await client.post("/v1/users", json={"name": "two"}, headers={"Idempotency-Key": 'k"1'})
    assert escaped.json() == plain.json()
    assert (await client.post("/v1/users", json={"name": "x"}, headers={"Idempotency-Key": '""'})).status_code == 400


async def test_a_browser_opens_a_stream_with_a_token(client: httpx2.AsyncClient, ada: Seeds) -> None:
    """A token in the address opens the live stream and hears events; it opens nothing else."""
    token = (await client.post("/v1/stream-tokens")).json()["token"]
    bare = {"Authorization": ""}
    del client.headers["Authorization"]
    async with client.stream("GET", f"/v1/events/live?access_token={token}") as stream:
        assert stream.status_code == 200
        lines = stream.aiter_lines()
        assert await anext(lines) == ": listening"
        event: dict[str, Any] = {"session_id": "s", "tool_id": "seen", "input_params": {}}
        assert (await ada.door.post("/v1/events", {"events": [event]})).status == 201
        async with asyncio.timeout(20):
            while '"seen"' not in await anext(lines):
                pass
    assert (await client.get(f"/v1/events?access_token={token}", headers=bare)).status_code == 401
    assert (await client.get("/v1/me", headers={"Authorization": f"Bearer {token}"})).status_code == 401
    for odd in (f"{token}x", token[:-4], "trs_.", "trs_W10.00", "x"):
        assert (await client.get(f"/v1/events/live?access_token={odd}")).status_code == 401, odd


async def test_a_token_ends_with_its_time_and_with_its_key(home: ApiHome, client: httpx2.AsyncClient) -> None:
    """A token that is over opens nothing, and a stream that it opened ends when the key behind it is revoked."""
    me = (await client.get("/v1/me")).json()
    who = Principal(me["tenant_id"], me["user_id"], "admin", me["key_id"])
    old, _ = StreamTokens(home.raven.tenant_keys.hash, clock=lambda: 1_000.0).issue(who)
    token, _ = StreamTokens(home.raven.tenant_keys.hash).issue(who)
    del client.headers["Authorization"]
    assert (await client.get(f"/v1/events/live?access_token={old}")).status_code == 401
    async with client.stream("GET", f"/v1/events/live?access_token={token}") as stream:
        assert stream.status_code == 200
        await home.raven.tenancy.revoke_key(me["tenant_id"], me["key_id"])
        async with asyncio.timeout(20):
            async for _ in stream.aiter_bytes():
                pass
    assert (await client.get(f"/v1/events/live?access_token={token}")).status_code == 401
