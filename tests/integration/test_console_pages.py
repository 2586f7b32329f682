"""The console's pages as text: what they show is what the API says, to whom it may be shown, and nothing else."""

from __future__ import annotations

import asyncio
import html
import re
import shlex
from collections import Counter
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from time import perf_counter
from urllib.parse import quote

import pytest

from tests.api_client import Door
from tests.console_desk import HOSTILE, fill_desk, make_desk
from tests.console_pages import Json, Pages, console_over, hidden, links, number_at, words
from tests.console_work import fill_work, make_work_desk
from tests.gateways import free_port
from tests.unit.catalog.town import service_body, tool_body
from twinraven.app import TwinRaven
from twinraven.cli.parser import build_parser
from twinraven.console.replies import CONTENT_POLICY
from twinraven.console.views import PAGES
from twinraven.console.views.waiting_items import KINDS
from twinraven.foundation.clock import iso, utc_now

PLAIN = sorted({page.path for page in PAGES if page.method == "GET" and "{" not in page.path})


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small desk that the tests of this file only look at."""
    home = make_desk(tmp_path_factory.mktemp("desk"))
    fill_desk(home, sessions=30, learn=False)
    return home


@pytest.fixture
async def pages(desk: Path) -> AsyncGenerator[Pages]:
    async with console_over(desk) as (pages, _):
        yield pages


@pytest.mark.parametrize("path", PLAIN)
async def test_every_page_of_the_menu(pages: Pages, path: str) -> None:
    """Every page is there, with the strict headers, its JSON and its command, and nothing to be kept."""
    reply = await pages.get(path.strip("/"))
    if reply.status == 404:
        assert any(page.needs for page in PAGES if page.path == path)
        return
    assert reply.status == 200, reply.body[-500:]
    stated = reply.headers
    assert stated["content-security-policy"] == CONTENT_POLICY
    assert stated["cache-control"] == "no-store"
    assert stated["referrer-policy"] == "same-origin"
    assert stated["x-content-type-options"] == "nosniff"
    assert stated["cross-origin-opener-policy"] == stated["cross-origin-resource-policy"] == "same-origin"


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A desk in which everything happened at least once."""
    home = make_work_desk(tmp_path_factory.mktemp("full"))
    fill_desk(home, sessions=2, learn=False)
    fill_work(home)
    return home


async def test_every_link_of_a_full_home(full: Path) -> None:
    """From Today on, every page that a page links is there, links its JSON, and names a command that can be pasted."""
    parser, seen, kinds = build_parser(), set[str](), Counter[str]()
    async with console_over(full) as (pages, _):
        waiting = ["/console/", *(f"/console{path}" for path in PLAIN)]
        while waiting:
            address = waiting.pop()
            kind = _kind_of(address)
            if address in seen or kind in ("json/", "static/") or kinds[kind] >= 2:
                continue
            seen.add(address)
            kinds[kind] += 1
            reply = await pages.door.get(address)
            assert reply.status == 200, (address, words(reply.body.decode())[:300])
            text = reply.body.decode()
            asked = [each for each in links(text) if each.startswith("/console/json/")]
            if kind == "find":
                continue
            assert asked, address
            for each in asked[:1]:
                assert (await pages.door.get(each)).status == 200, (address, each)
            assert not [each for each in HOSTILE if "<" in each and each in text], address
            assert "\u202e" not in text, address
            command = re.search(r'id="as-command">([^<]*)<', text)
            assert command is not None, address
            parser.parse_args(shlex.split(html.unescape(command[1]))[1:])
            waiting += links(text)
    reached = {kind.split("/")[0] for kind in kinds}
    assert reached >= {"runs", "plans", "tasks", "talk", "entities", "trace", "audit", "calls", "keys", "processes"}
    assert {f"review/items/{each}" for each in KINDS if each not in ("call", "learned_tool")} <= set(kinds)


def _kind_of(address: str) -> str:
    """Pages of one kind have one name: the folder, and what kind of item is reviewed."""
    parts = address.removeprefix("/console/").partition("?")[0].split("/")
    if parts[:2] == ["review", "items"]:
        return f"review/items/{parts[2].partition('%3A')[0]}"
    return "/".join(parts[:2]) if parts[0] in ("review", "tools") else parts[0] + ("/" if len(parts) > 1 else "")


async def test_commands_quote_what_came_from_outside(pages: Pages) -> None:
    """The command of a page runs nothing else, whatever its session is called."""
    name = 'hostile <b>session</b> "quoted"'
    text = await pages.text(f"sessions/{quote(name, safe='')}")
    command = re.search(r'id="as-command">([^<]*)<', text)
    assert command is not None
    assert shlex.split(html.unescape(command[1])) == ["twinraven", "sessions", "show", name]


async def test_filters_stand_in_the_command(pages: Pages) -> None:
    """What is filtered on the page is filtered by its command."""
    text = await pages.text("sessions?tool_id=get_order&failed=true&outcome=success")
    command = re.search(r'id="as-command">([^<]*)<', text)
    assert command is not None
    stated = build_parser().parse_args(shlex.split(html.unescape(command[1]))[1:])
    assert (stated.tool, stated.failed, stated.outcome) == ("get_order", True, "success")


async def test_work_is_shown_as_it_stands(full: Path) -> None:
    """A run's picture has the step it waits for, a task the decision in force, a question buttons for its answers."""
    async with console_over(full) as (pages, _):
        runs = (await pages.door.get("/v1/runs?state=waiting")).json()["items"]
        run_id = next(each["run_id"] for each in runs if each["target"] == "replace_item")
        text = await pages.text(f"runs/{run_id}")
        assert re.search(r'class="box wait"[^>]*><title>note<', text)
        assert text.count('class="box done"') == 3
        answered = await pages.post(f"runs/{run_id}/answer", place="note__ask", answer="true")
        assert answered.status == 303
        assert (await pages.door.get(f"/v1/runs/{run_id}")).json()["waits"][0]["answered_at"] is not None
        tasks = (await pages.door.get("/v1/tasks?limit=50")).json()["items"]
        again = next(each for each in tasks if each["attempts"] == 2 and each["status"] == "complete")
        shown = words(await pages.text(f"tasks/{again['task_id']}"))
        assert "The decision in force: approve, about attempt 2" in shown
        assert re.search(r"Judged Worker Began Run 1 complete reject .* 2 complete approve ", shown)
        board = words(await pages.text("goals"))
        assert "240.00 EUR to Printer & Co" in board
        assert "500.00 EUR" in board
        await _review_says_what_is_at_stake(pages)
        talk = (await pages.door.get("/v1/conversations")).json()["items"][-1]["id"]
        thread = await pages.text(f"talk/{talk}")
        assert thread.count('class="alternatives"') == 2
        assert 'class="turn agent active other"' in thread


async def _review_says_what_is_at_stake(pages: Pages) -> None:
    """Which attempt is judged, and what a payment holds of its wallet as long as nobody decides."""
    queue = words(await pages.text("review"))
    assert "decide whether attempt 1 stands" in queue
    assert "holds 12.50 EUR" in queue
    items = (await pages.door.get("/v1/inbox?limit=100")).json()["items"]
    payment = next(each for each in items if each["kind"] == "unknown_effect")
    shown = words(await pages.text(f"review/items/{quote(payment['item_id'], safe='')}"))
    assert "Holds 12.50 EUR until you decide" in shown
    assert "Wallet wire: 87.50 EUR free, 12.50 held in all" in shown


async def test_the_house_looks_after_itself(tmp_path: Path) -> None:
    """Settings say whether the house is sound and what would leave; services have a past; the audit log has times."""
    home = make_desk(tmp_path, connectors={"allow_private": ["127.0.0.1"]})
    await asyncio.to_thread(fill_desk, home, sessions=3, learn=False)
    async with console_over(home) as (pages, _):
        made = await pages.door.post("/v1/services", service_body(name="shop"))
        nowhere = {"endpoint": f"https://127.0.0.1:{free_port()}"}
        assert (await pages.door.post("/v1/tools", tool_body(key="shop_order", connectionParams=nowhere))).status == 201
        assert (await pages.post(f"services/{made.json()['id']}/check")).status == 303
        history = (await pages.door.get("/v1/health-history")).json()["items"]
        assert [(each["name"], each["checks"], each["healthy"]) for each in history] == [("shop", 1, 0)]
        tools = await pages.text("tools")
        assert "The last 24 hours: 0 of 1 check found it well" in tools
        assert tools.count('<rect class="bad"') == 1
        settings = words(await pages.text("settings"))
        assert "Is the house sound? yes" in settings
        assert re.search(r"schema ok version \d+, up to date", settings)
        assert "Sessions are kept for good" in settings
        assert "Nothing would leave" in words(await pages.text("settings?days=400"))
        assert "no session is that old" not in settings
        today = f"{utc_now():%Y-%m-%d}"
        entries = (await pages.door.get("/v1/audit?limit=100")).json()["items"]
        assert (await pages.text(f"audit?since={today}")).count('href="/console/audit/') == len(entries) > 3
        assert "No entry fits" in await pages.text(f"audit?until={today}")


async def test_empty_home(tmp_path: Path) -> None:
    """A home in which nothing happened says how calls come in, and no page of it fails."""
    async with console_over(make_desk(tmp_path)) as (pages, _):
        today = words(await pages.text("", host="localhost:8765"))
        assert "Nothing was recorded yet" in today
        assert "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://localhost:8765/v1/traces" in today
        review = await pages.text("review")
        assert "Nothing waits for you" in words(review)
        assert 'class="filters"' not in review
        assert "Nothing was recorded yet" in words(await pages.text("flow?days=30"))
        assert "time-strip" not in await pages.text("sessions")
        audit = words(await pages.text("audit"))
        assert "Nothing was written yet" in audit
        assert "No entry fits" not in audit
        for path in PLAIN:
            assert (await pages.get(path.strip("/"))).status in (200, 404), path


async def test_what_needs_a_model_says_so(pages: Pages) -> None:
    """Without a model, what was typed stays on the page, with the setting that is missing."""
    begun = await pages.post("talk", title="a question")
    talk = begun.headers["location"].removeprefix("/console/")
    assert 'value="chat_with_tools"' in await pages.text(talk)
    forms: list[tuple[str, dict[str, str]]] = [
        (f"{talk}/say", {"content": "where is my lamp", "answered": "yes"}),
        ("talk", {"title": "where is my lamp", "process_id": "chat"}),
        ("plans", {"request": "where is my lamp"}),
    ]
    for path, form in forms:
        reply = await pages.post(path, {}, **form)
        text = words(reply.body.decode())
        assert reply.status == 409, (path, text[-400:])
        assert "What to do: set model.name" in text, path
        assert "where is my lamp" in reply.body.decode(), path
    alone = await pages.post(f"{talk}/say", content="a note")
    assert alone.status == 303
    assert "a note" in words(await pages.text(talk))


async def test_a_mistyped_id_is_typed_again_where_it_was_typed(pages: Pages) -> None:
    """The trace of what is not there is the page on which one asks for a trace, with what was typed."""
    reply = await pages.get("trace/mistyped")
    assert reply.status == 404
    text = reply.body.decode()
    assert "Nothing is called so" in words(text)
    assert re.search(r'name="id" value="mistyped"', text)


async def test_a_session_of_a_run_leads_to_the_run(full: Path) -> None:
    """The calls of a run name it; a session that is only called like one does not."""
    async with console_over(full) as (pages, _):
        runs = (await pages.door.get("/v1/runs?limit=100")).json()["items"]
        run = next(each for each in runs if each["target"] == "replace_item")
        text = await pages.text(f"sessions/run%3A{run['run_id']}")
        assert f"/console/runs/{run['run_id']}" in links(text)
        assert "of a run of replace_item" in words(text)
        event: Json = {"session_id": "run:nobody", "tool_id": "get_order", "input_params": {}}
        assert (await pages.door.post("/v1/events", {"events": [event]})).status == 201
        assert "of a run of" not in words(await pages.text("sessions/run%3Anobody"))


async def test_figures_are_those_of_the_api(pages: Pages) -> None:
    """What Today counts is what the API counts, and a column leads to exactly the calls that it counts."""
    text = await pages.text("")
    counted = re.search(r'href="(/console/calls\?since=[^"]*)" aria-label="[^"]*: (\d+) calls? in', text)
    assert counted is not None
    asked = next(each for each in links(text) if each.startswith("/console/json/v1/activity"))
    activity = (await pages.door.get(asked)).json()
    assert number_at(text, "calls-today") == sum(each["calls"] for each in activity["buckets"])
    href, number = counted[1].replace("&amp;", "&"), int(counted[2])
    shown = (await pages.door.get(href)).body.decode()
    assert shown.count("/console/sessions/") // 2 == min(number, 100)


async def test_a_quiet_day_says_when_the_last_call_was(tmp_path: Path) -> None:
    """Where nothing happened for a day, Today says so, and leads to the session of the last call."""
    async with console_over(make_desk(tmp_path)) as (pages, _):
        at = iso(utc_now() - timedelta(days=3))
        event: Json = {"session_id": "old job", "tool_id": "get_order", "input_params": {}, "timestamp": at}
        assert (await Door(pages.door.app, {}).post("/v1/events", {"events": [event]})).status == 201
        text = await pages.text("")
        assert "No call was made in this time. The last one was 3 days ago" in words(text)
        assert "/console/sessions/old%20job" in links(text)


async def test_a_page_that_is_asked_for_again_is_made_with_rests(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opens a page gets it as soon as can be; one that goes on by itself leaves calls their turns."""
    monkeypatch.setattr("twinraven.console.rendering._SLICE_S", 0.0)
    monkeypatch.setattr("twinraven.console.app._REST_S", 0.01)

    async def seconds(**headers: str) -> float:
        begun = perf_counter()
        await pages.text("secrets", **headers)
        return perf_counter() - begun

    assert min([await seconds() for _ in range(3)]) < 0.1 <= await seconds(x_live="1")


async def test_sessions_are_the_newest_first(pages: Pages) -> None:
    """The list is ordered by the last call and not by id, and a filter that fits nothing is named."""
    text = await pages.text("sessions")
    ids = re.findall(r'<td class="id"><a href="/console/sessions/([^"]+)"', text)
    newest = (await pages.door.get("/v1/sessions?order=newest&limit=100")).json()["items"]
    assert ids == [quote(each["session_id"], safe="") for each in newest]
    assert ids != sorted(ids)
    assert "No session fits" in words(await pages.text("sessions?tool_id=nothing"))


async def test_hostile_texts_are_texts(pages: Pages) -> None:
    """Whatever came from outside is escaped, with its invisible characters shown, on every page that shows it."""
    session = quote('hostile <b>session</b> "quoted"', safe="")
    found = (await pages.door.get(f"/v1/sessions/{session}")).json()
    chosen = found["events"][4]["event_id"]
    for path in ("sessions", f"sessions/{session}?call={chosen}", "calls", "flow", "", f"calls/{chosen}"):
        text = await pages.text(path)
        for canary in HOSTILE:
            if "<" in canary:
                assert canary not in text, (path, canary)
        assert "\u202e" not in text
        assert "\u200b" not in text
        assert "<script>window" not in text
    shown = await pages.text(f"sessions/{session}")
    assert "⟨U+202E⟩" in shown


async def test_foreign_forms_are_refused(pages: Pages) -> None:
    """A form from another port, another site or nobody is refused, whatever it holds, and nothing is decided."""
    waiting = (await pages.door.get("/v1/approvals?state=pending")).json()["items"]
    target = f"review/calls/{waiting[0]['approval_id']}"
    for stated in (
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:8799"},
    ):
        refused = await pages.post(target, stated, verdict="grant", seen="1")
        assert refused.status == 403, stated
    bare = Pages(Door(pages.door.app, {}))
    body = b"verdict=grant"
    kinds: tuple[dict[str, str], ...] = ({"origin": "http://127.0.0.1:8799"}, {"origin": "null"}, {})
    for headers in kinds:
        assert (await bare.door.ask("POST", f"/console/{target}", body=body, headers=headers)).status == 403
    assert len((await pages.door.get("/v1/approvals?state=pending")).json()["items"]) == len(waiting)


async def test_other_names_of_this_machine_are_refused(pages: Pages) -> None:
    """A page under a name that was pointed at this machine is asked to sign in, and shows nothing."""
    rebound = await pages.door.get("/console/sessions", Host="evil.example:8765")
    assert (rebound.status, rebound.headers["location"][:16]) == (303, "/console/sign-in")


async def test_stale_decision_keeps_the_note(tmp_path: Path) -> None:
    """Of two people who decide, the later is told what happened, and keeps what was typed; nothing happens twice."""
    home = make_desk(tmp_path)
    await asyncio.to_thread(fill_desk, home, sessions=3, learn=False)
    async with console_over(home) as (pages, raven):
        waiting = (await pages.door.get("/v1/approvals?state=pending")).json()["items"]
        target = f"review/calls/{waiting[0]['approval_id']}"
        seen = hidden(await pages.text(target), "seen")
        first = await pages.post(target, verdict="grant", note="mine", seen=seen)
        assert first.status == 303
        onward = first.headers["location"].removeprefix("/console/")
        assert not onward.startswith(target)
        said = words(await pages.text(onward))
        assert re.search(rf"Decided: approve , {waiting[0]['tool_id']} \S+", said), said[:600]
        for nothing in ("nobody", "call%3Anobody", quote(f"call:{waiting[1]['approval_id']}", safe="")):
            assert "Decided:" not in words(await pages.text(f"review?decided={nothing}"))
        late = await pages.post(target, verdict="deny", note="kept words", seen=seen)
        assert late.status in (409, 412)
        text = words(late.body.decode())
        assert "Nothing was decided" in text
        assert "kept words" in late.body.decode()
        assert (await raven.approvals.get("default", waiting[0]["approval_id"])).state == "granted"


async def test_a_decision_carries_what_was_shown(tmp_path: Path) -> None:
    """A decision on another version than the one that waits is refused and decides nothing, though nobody decided."""
    home = make_desk(tmp_path)
    await asyncio.to_thread(fill_desk, home, sessions=2, learn=False)
    async with console_over(home) as (pages, _):
        waiting = (await pages.door.get("/v1/approvals?state=pending")).json()["items"][0]["approval_id"]
        refused = await pages.post(f"review/calls/{waiting}", verdict="grant", seen="4711", note="as I saw it")
        assert refused.status == 412
        assert "as I saw it" in refused.body.decode()
        assert (await pages.door.get(f"/v1/approvals/{waiting}")).json()["state"] == "pending"
        seen = hidden(await pages.text(f"review/calls/{waiting}"), "seen")
        assert (await pages.post(f"review/calls/{waiting}", verdict="grant", seen=seen)).status == 303
        assert (await pages.door.get(f"/v1/approvals/{waiting}")).json()["state"] == "granted"


async def test_store_away_is_a_page(pages: Pages, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the store cannot be asked, a page says so with the code and the correlation id."""

    async def away(*_: object, **__: object) -> object:
        from twinraven.foundation.errors import StorageUnavailable

        raise StorageUnavailable("the disk is away")

    async with console_over(desk) as (broken, raven):
        monkeypatch.setattr(raven.database, "read", away)
        reply = await broken.get("sessions")
        assert reply.status in (500, 503)
        assert reply.headers["content-security-policy"] == CONTENT_POLICY
        assert "correlation id" in words(reply.body.decode()) or "STORAGE" in reply.body.decode()


async def signed_in(pages: Pages, key: str) -> Pages:
    begun = await pages.post("sign-in", key=key, next="/console/sessions")
    assert begun.status == 303, begun.body
    assert begun.headers["location"] == "/console/sessions"
    return pages.with_cookie(begun.headers["set-cookie"])


async def key_of(raven: TwinRaven, name: str, role: str) -> tuple[str, str]:
    user = await raven.tenancy.add_user("default", name, role=role)  # pyright: ignore[reportArgumentType]
    issued = await raven.tenancy.issue_key("default", user.user_id)
    return issued.clear, issued.key.key_id


async def test_signing_in_and_out(tmp_path: Path) -> None:
    """A key signs a browser in; the cookie opens pages and no API, and ends with the key or by signing out."""
    async with console_over(make_desk(tmp_path), needs_key=True) as (pages, raven):
        asked = await pages.get("sessions")
        assert (asked.status, asked.headers["location"]) == (303, "/console/sign-in?next=%2Fconsole%2Fsessions")
        key, key_id = await key_of(raven, "ada", "admin")
        ada = await signed_in(pages, key)
        cookie = ada.door.headers["cookie"]
        assert cookie.startswith("twinraven=")
        assert (await ada.get("audit")).status == 200
        assert (await ada.door.get("/v1/me")).status == 401
        assert (await ada.get("json/v1/me")).json()["role"] == "admin"
        again = await signed_in(pages, key)
        assert (await again.post("sign-out")).status == 303
        assert (await again.get("audit")).status == 303
        assert (await ada.get("audit")).status == 200
        async with ada.door.listen("/console/news") as stream:
            await raven.tenancy.revoke_key("default", key_id)
            await asyncio.wait_for(stream.ended.wait(), 10)
        assert (await ada.get("audit")).status == 303


async def test_cookie_is_bound_to_its_host(tmp_path: Path) -> None:
    """Elsewhere than on this machine the cookie is secure and bound to its host; it is never readable by scripts."""
    async with console_over(make_desk(tmp_path), needs_key=True) as (pages, raven):
        key, _ = await key_of(raven, "ada", "admin")
        away = Pages(Door(pages.door.app, {"host": "raven.example"}))
        begun = await away.post("sign-in", key=key)
        assert re.fullmatch(
            r"__Host-twinraven=[0-9a-f]{32}\.[\w-]{43}; Path=/; HttpOnly; SameSite=Strict; Max-Age=43200; Secure",
            begun.headers["set-cookie"],
        )
        onward = await away.post("sign-in", key=key, next="https://evil.example/")
        assert onward.headers["location"] == "/console/"


async def test_wrong_keys_are_alike_and_limited(tmp_path: Path) -> None:
    """Every bad key gets the same answer, and after ten of them no key is looked at for a while."""
    async with console_over(make_desk(tmp_path), needs_key=True) as (pages, _):
        answers = [await pages.post("sign-in", key=key) for key in ("x", "tr_" + "a" * 43, "\u00fc", "", "a b")]
        assert {each.status for each in answers} == {401}
        assert len({each.body for each in answers}) == 1
        for _ in range(5):
            await pages.post("sign-in", key="x")
        assert (await pages.post("sign-in", key="x")).status == 429


async def test_members_see_what_is_theirs(tmp_path: Path) -> None:
    """A member's menu has no audit log, its page is refused, and another tenant's things are not there."""
    home = make_desk(tmp_path)
    await asyncio.to_thread(fill_desk, home, sessions=2, learn=False)
    async with console_over(home, needs_key=True) as (pages, raven):
        key, _ = await key_of(raven, "eve", "member")
        eve = await signed_in(pages, key)
        assert "/console/audit" not in links(await eve.text("sessions"))
        assert (await eve.get("audit")).status == 403
        tenant = await raven.tenancy.create_tenant("other")
        user = await raven.tenancy.add_user(tenant.tenant_id, "mallory", role="admin")
        issued = await raven.tenancy.issue_key(tenant.tenant_id, user.user_id)
        mallory = await signed_in(pages, issued.clear)
        theirs = await mallory.get("sessions/ticket-4100")
        nowhere = await mallory.get("sessions/ticket-9999")
        assert (theirs.status, nowhere.status) == (404, 404)
        plain = [re.sub(rb"[0-9a-f]{32}|ticket-\d+", b"-", each.body) for each in (theirs, nowhere)]
        assert plain[0] == plain[1]


async def test_secrets_are_never_shown(tmp_path: Path) -> None:
    """A secret's value and a key's are nowhere on any page; a new key is on the page that made it, once."""
    async with console_over(make_desk(tmp_path)) as (pages, _):
        value = "s3cr3t-canary-0123456789"
        assert (await pages.post("secrets", name="bank", type="api_key", value=value)).status == 303
        made = await pages.post("settings/keys", label="laptop")
        key = re.search(r"tr_[\w-]{43}", made.body.decode())
        assert key is not None
        for path in PLAIN:
            text = (await pages.get(path.strip("/"))).body.decode()
            assert value not in text
            assert key[0] not in text, path


async def test_deciding_on_a_learned_tool(tmp_path: Path) -> None:
    """A learned tool is put into service under another name, by the version and hash that were shown."""
    home = make_desk(tmp_path)
    await asyncio.to_thread(fill_desk, home, sessions=60)
    async with console_over(home) as (pages, raven):
        waiting = [each for each in links(await pages.text("review?kind=learned_tool")) if "/review/tools/" in each]
        target = waiting[0].removeprefix("/console/")
        text = await pages.text(target)
        assert "You decide on version 1" in words(text)
        done = await pages.post(target, None, verdict="promote", seen=hidden(text, "seen"), **{"as": "customer_orders"})
        assert done.status == 303, words(done.body.decode())[:400]
        record = (await raven.registry.tool("default", "customer_orders")).record
        assert record.status.value == "promoted"
        stale = await pages.post(target, verdict="reject", reason="late", seen=hidden(text, "seen"))
        assert stale.status in (404, 409, 412)
        assert (await pages.get("learned/customer_orders")).status == 200
        audited = (await pages.door.get("/v1/audit?newest=true&limit=5")).json()["items"]
        assert any(each["event_type"].endswith("promoted") and each["actor_id"] == "local" for each in audited)
