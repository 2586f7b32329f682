"""The console in a real browser, over `twinraven up` as a process: journeys, liveness, hostile content, budgets.

The pages of one home serve all tests of this file. Any complaint of a page (a broken content policy, an exception, a
warning) fails the test that caused it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.browsing import Browser, Profile, Tab
from tests.console_desk import HOSTILE, fill_desk, make_desk
from tests.console_site import FOREIGN, HOSTILE_SESSION, IN_A_BROWSER, PAGES, Site, live, serving, start

pytestmark = IN_A_BROWSER
WIDTHS = (1440, 390)


@pytest.fixture
def site(desk_site: Site) -> Site:
    return desk_site


@pytest.fixture
def person(browser: Browser) -> Generator[Profile]:
    with browser.profile() as profile:
        yield profile


def wait_for(is_so: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = is_so()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited for {what}")


def pending(site: Site) -> list[dict[str, Any]]:
    return site.ask("approvals?state=pending&limit=100")["items"]


def ask_for_refund(site: Site, key: str) -> dict[str, Any]:
    """A call that asks first; made again, it runs once it is granted."""
    payload = {"amount_cents": 4200, "order_id": f"O-{key}", "payment_method_id": "M-1", "reason": "late"}
    body = {"tool_name": "issue_refund", "payload": payload, "session_id": f"refund-{key}"}
    return site.ask("calls", body, Idempotency_Key=key)


def test_find_and_read(site: Site, person: Profile) -> None:
    """A failed call is found by tool and code, its arguments are copied as they are stored, and it has an address."""
    tab = person.open(f"{site.url}calls?tool_id=find_user_by_email&error_code=NOT_FOUND")
    tab.press("j")
    tab.loading(lambda: tab.press("Enter"))
    tab.wait("document.querySelector('#side #json-in')")
    url = tab.url
    event = site.ask(f"events/{url.rpartition('call=')[2]}")
    tab.evaluate("window.__copied = null; navigator.clipboard.writeText = async (t) => { window.__copied = t; }")
    tab.click("#side [data-copy=json-in]")
    assert tab.wait("window.__copied") == json.dumps(event["input_params"], indent=2)
    with person.browser.profile() as other:
        assert event["input_params"]["email"] in other.open(url).text("#side")


def test_copies_are_exact(site: Site, person: Profile) -> None:
    """What is copied is what is stored, byte for byte: digits that a browser would round, and signs it would hide."""
    given = {"long": "x" * 300_000, "n": 2**70 + 1, "share": 1.5, "text": HOSTILE[7]}
    site.ask("events", {"events": [{"session_id": "exact", "tool_id": "get_order", "input_params": given}]})
    event = site.ask("events?session_id=exact")["items"][0]["event_id"]
    tab = person.open(f"{site.url}sessions/exact?call={event}")
    tab.evaluate("window.__copied = null; navigator.clipboard.writeText = async (t) => { window.__copied = t; }")
    tab.click("#side [data-copy=json-in]")
    assert tab.wait("window.__copied") == json.dumps(given, ensure_ascii=False, indent=2)


def test_decide_on_a_call_by_keyboard(site: Site, person: Profile) -> None:
    """A call is granted with keys alone and runs once; one key decides nothing, and typing is typing."""
    asked = ask_for_refund(site, "keyboard")
    approval_id = asked["error"]["details"]["approval_id"]
    tab = person.open(f"{site.url}review/calls/{approval_id}")
    tab.press("a")
    tab.wait("document.activeElement?.dataset.key === 'yes'")
    assert site.ask(f"approvals/{approval_id}")["state"] == "pending"
    tab.evaluate("document.querySelector('[name=note]').focus()")
    tab.press("a", "d", "1")
    assert tab.evaluate("document.querySelector('[name=note]').value") == "ad1"
    assert tab.evaluate("document.activeElement.name") == "note"
    tab.press("Escape", "a")
    tab.loading(lambda: tab.press("Enter"))
    granted = site.ask(f"approvals/{approval_id}")
    assert (granted["state"], granted["note"]) == ("granted", "ad1")
    assert ask_for_refund(site, "keyboard")["status"] == "success"
    assert site.ask("idempotency-keys/keyboard")["state"] == "success"


def test_look_at_a_tool_by_keys(site: Site, person: Profile) -> None:
    """With keys alone a learned tool is found and a reason written; keys that say yes or no decide nothing alone."""
    tab = person.open(f"{site.url}review?kind=learned_tool")
    tab.press("j")
    tab.loading(lambda: tab.press("Enter"))
    waiting = [each["tool_id"] for each in site.ask("learned-tools")["items"] if each["status"] == "testing"]
    tab.evaluate("document.querySelector('[name=reason]').focus()")
    tab.type("too narrow")
    for key, word in (("d", "no"), ("a", "yes"), ("2", "no"), ("1", "yes")):
        tab.press("Escape", key)
        tab.wait(f"document.activeElement?.dataset.key === '{word}'")
    assert tab.evaluate("document.querySelector('[name=reason]').value") == "too narrow"
    assert [each["tool_id"] for each in site.ask("learned-tools")["items"] if each["status"] == "testing"] == waiting


def test_decide_on_a_tool(site: Site, person: Profile) -> None:
    """From Today four clicks put a learned tool into service, and callers see it under its new name."""
    tab = person.open(site.url)
    tab.loading(lambda: tab.click("#nav a[href='/console/review']"))
    tab.loading(lambda: tab.click(".filters a[href$='learned_tool']"))
    tab.loading(lambda: tab.click(".queue a"))
    tab.evaluate("document.querySelector('[name=as]').value = 'orders_of_customer'")
    tab.loading(lambda: tab.click("[data-key=yes]"))
    assert any(each["tool_id"] == "orders_of_customer" for each in site.ask("tools?limit=500")["items"])
    entry = next(each for each in site.ask("audit?newest=true&limit=5")["items"] if "promoted" in each["event_type"])
    assert (entry["actor_id"], entry["data_json"]["version"]) == ("local", 1)


def test_two_reviewers(site: Site, browser: Browser) -> None:
    """When one of two decides, the other's page says so by itself."""
    approval_id = ask_for_refund(site, "two")["error"]["details"]["approval_id"]
    with browser.profile() as one, browser.profile() as other:
        first, second = (each.open(f"{site.url}review/calls/{approval_id}") for each in (one, other))
        live(second)
        second.evaluate("document.querySelector('[name=note]').value = 'my words'")
        first.loading(lambda: first.click("[data-key=no]"))
        second.wait("document.querySelector('h1 .pill').textContent === 'denied'")


def test_live_session(site: Site, person: Profile) -> None:
    """Calls appear while they are recorded, none twice and none lost; focus, fold and selection stay as they were."""
    learned = next(
        each["session_id"]
        for each in site.ask("sessions?order=newest&limit=100")["items"]
        if each["session_id"].startswith("ticket-48")
    )
    events = site.ask(f"sessions/{learned}")["events"]
    chosen = next(each["event_id"] for each in events if not each["parent_event_id"])
    tab = person.open(f"{site.url}sessions/{learned}?call={chosen}")
    live(tab)
    tab.click(".fold")
    tab.wait("document.querySelector('tbody.folded')")
    tab.evaluate("document.querySelector('tr.call:last-child th a').focus(); window.__node = document.activeElement")
    before = tab.evaluate("document.querySelectorAll('tr.call').length")
    for number in range(40):
        site.record(learned, number, turn=100 + number)
    tab.wait(f"document.querySelectorAll('tr.call').length === {before + 40}")
    assert tab.evaluate("new Set([...document.querySelectorAll('tr.call')].map(e => e.id)).size") == before + 40
    assert tab.evaluate("document.activeElement === window.__node && window.__node.isConnected")
    assert tab.evaluate("document.querySelector('tbody.folded') !== null")
    assert tab.evaluate("document.querySelector('tr[aria-selected]').id") == f"call-{chosen}"


def loads_of(tab: Tab) -> int:
    """How often a tab asked for its page."""
    return sum(url == tab.url for url in tab.requests)


def test_a_session_is_made_again_for_its_own_calls(site: Site, person: Profile) -> None:
    """The page of a session asks again when its session has new calls, and never because of those of another."""
    one, other = (person.open(f"{site.url}sessions/{name}") for name in ("ticket-4101", "ticket-4102"))
    rows = "document.querySelectorAll('tr.call').length"
    before = [tab.evaluate(rows) for tab in (one, other)]
    for tab in (one, other):
        live(tab)
        tab.requests.clear()
    for number in range(1, 4):
        site.record("elsewhere", number)
        site.record("ticket-4102", number)
        other.wait(f"{rows} === {before[1] + number}")
    assert (loads_of(one), loads_of(other) >= 3) == (0, True)
    site.record("ticket-4101", 1)
    one.wait(f"{rows} === {before[0] + 1}")


def test_a_full_page_of_a_long_session_waits_for_its_reader(site: Site, person: Profile) -> None:
    """Behind 500 calls come others, so news of the session waits behind a button and nothing is asked for."""
    event: dict[str, object] = {"session_id": "long", "tool_id": "get_order", "input_params": {}, "output": {}}
    site.ask("events", {"events": [event] * 501})
    # What changed within two seconds before a page was made is told: clocks differ.
    person.browser.idle(2.5)
    tab = person.open(f"{site.url}sessions/long")
    live(tab)
    tab.requests.clear()
    assert tab.evaluate("document.querySelector('.news').hidden")
    site.record("long", 1)
    tab.wait("!document.querySelector('.news').hidden")
    assert loads_of(tab) == 0
    assert "501 calls in all" in tab.text(".facts")
    tab.press(".")
    tab.wait("document.querySelector('.facts').innerText.includes('502 calls in all')")
    assert tab.evaluate("document.querySelector('.news').hidden")
    tab.loading(lambda: tab.click(".more a"))
    live(tab)
    site.record("long", 2)
    tab.wait("document.querySelectorAll('tr.call').length === 3")


def test_nothing_is_made_for_a_hidden_page(site: Site, person: Profile) -> None:
    """A page that nobody sees asks for nothing, and for what it missed once it is seen."""
    tab, seen = (person.open(f"{site.url}sessions/ticket-4103") for _ in range(2))
    for each in (tab, seen):
        live(each)
    rows = "document.querySelectorAll('tr.call').length"
    before = tab.evaluate(rows)
    tab.evaluate("Object.defineProperty(document, 'hidden', { configurable: true, get: () => true })")
    tab.requests.clear()
    for number in range(1, 4):
        site.record("ticket-4103", number)
        seen.wait(f"{rows} === {before + number}")
    assert (loads_of(tab), tab.evaluate(rows)) == (0, before)
    tab.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    tab.wait(f"{rows} === {before + 3}")


def streams_of(tabs: list[Tab]) -> int:
    """How many live streams some tabs asked for."""
    return sum(url.partition("?")[0].endswith("/console/news") for tab in tabs for url in tab.requests)


def test_eight_tabs_share_one_stream(site: Site, person: Profile) -> None:
    """Eight tabs all load and are all live over one stream; when the one that has it closes, another takes over."""
    tabs = [person.open(f"{site.url}review") for _ in range(8)]
    for tab in tabs:
        live(tab)
    streams = [streams_of([tab]) for tab in tabs]
    assert sum(streams) == 1
    leader = tabs.pop(streams.index(1))
    leader.close()
    person.tabs.remove(leader)
    wait_for(lambda: (tabs[0].text(), streams_of(tabs) == 1)[1], "another stream")
    ask_for_refund(site, "tabs")
    for tab in tabs:
        tab.wait("document.body.innerText.includes('O-tabs')")


def test_server_comes_back(tmp_path: Path, browser: Browser) -> None:
    """While the server is away the lamp says so; when it is back the page goes on without being loaded again."""
    home = make_desk(tmp_path)
    fill_desk(home, sessions=2, learn=False)
    with serving(home) as site, browser.profile() as person:
        tab = person.open(f"{site.url}sessions/ticket-4100")
        tab.expected += [
            "ERR_CONNECTION_REFUSED",
            "ERR_INCOMPLETE_CHUNKED_ENCODING",
            "ERR_CONNECTION_RESET",
            "ERR_EMPTY_RESPONSE",
        ]
        live(tab)
        tab.evaluate("window.__same = true")
        site.process.kill()
        site.process.wait()
        tab.wait("document.querySelector('#live').dataset.state === 'lost'")
        assert "reconnecting" in tab.text("#live")
        site.process = start(home, site.port)
        live(tab)
        before = tab.evaluate("document.querySelectorAll('tr.call').length")
        site.record("ticket-4100", 1)
        tab.wait(f"document.querySelectorAll('tr.call').length === {before + 1}")
        assert tab.evaluate("window.__same") is True


def test_hostile_content(site: Site, person: Profile) -> None:
    """Nothing that came from outside runs, asks for anything, or is shown elsewhere than inside `hx-disable`."""
    events = site.ask(f"sessions/{HOSTILE_SESSION}")["events"]
    tab = person.open()
    for path in ("sessions", "calls", "flow", f"sessions/{HOSTILE_SESSION}?call={events[0]['event_id']}", ""):
        tab.requests.clear()
        tab.go(site.url + path)
        person.browser.idle(0.3)
        assert tab.evaluate("window.__pwned") is None
        assert all(f"127.0.0.1:{site.port}/console/" in each for each in tab.requests), tab.requests
        assert tab.evaluate("document.querySelectorAll('main img, main script, main b[onclick]').length") == 0
    # Every call beside its session: arguments, answers, words from outside and codes each hold a text of their own.
    for event in events:
        tab.requests.clear()
        tab.go(f"{site.url}sessions/{HOSTILE_SESSION}?call={event['event_id']}")
        assert tab.evaluate("window.__pwned") is None
        assert all(f"127.0.0.1:{site.port}/console/" in each for each in tab.requests), tab.requests
        assert tab.evaluate("document.querySelectorAll('main img, main script, main svg[onload]').length") == 0
        assert tab.evaluate(FOREIGN) == [], event["input_params"]
    tab.go(f"{site.url}sessions/{HOSTILE_SESSION}?call={events[4]['event_id']}")
    assert "⟨U+202E⟩" in tab.text("main")
    assert HOSTILE[0] in tab.text("main")
    brackets = "[...document.fonts].filter(f => f.unicodeRange.startsWith('U+27E8') && f.status === 'loaded').length"
    assert tab.wait(brackets), "the brackets around what cannot be seen are drawn by a font of ours"
    joined = "[...document.querySelectorAll('main *')].filter(e => getComputedStyle(e).fontVariantLigatures !== 'none')"
    assert tab.evaluate(f"{joined}.map(e => e.className)") == [], "a ligature draws what nobody wrote"
    assert tab.evaluate("document.title").startswith('hostile <b>session</b> "quoted"')


def test_accessible(site: Site, browser: Browser, full_scale: bool) -> None:
    """axe finds nothing on any page, in light and in dark, wide and narrow, and pages are of bounded size.

    In short each page is looked at in one theme, and wide.
    """
    extra = [
        f"review/calls/{pending(site)[-1]['approval_id']}",
        "sessions/ticket-4101",
        f"sessions/{HOSTILE_SESSION}",
        f"learned/{site.ask('learned-tools')['items'][0]['tool_id']}",
        "sessions?tool_id=nothing",
    ]
    found: dict[str, list[str]] = {}
    every = (*PAGES, *extra)
    shown = {"light": every, "dark": every} if full_scale else {"light": every[::2], "dark": every[1::2]}
    for theme, width in product(shown, WIDTHS if full_scale else WIDTHS[:1]):
        with browser.profile(theme=theme, width=width) as person:
            tab = person.open()
            for path in shown[theme]:
                tab.go(site.url + path)
                violations = tab.violations()
                if violations:
                    found[f"{path} {theme} {width}"] = violations
                assert tab.evaluate("document.querySelectorAll('*').length") <= 3_000, path
                assert tab.evaluate("document.querySelectorAll('h1').length") == 1, path
    assert found == {}


def test_phone(site: Site, browser: Browser) -> None:
    """On a phone no page scrolls sideways, targets are large enough, and a call can be decided on."""
    approval_id = ask_for_refund(site, "phone")["error"]["details"]["approval_id"]
    with browser.profile(width=390, height=844) as person:
        tab = person.open()
        for path in (*PAGES, f"sessions/{HOSTILE_SESSION}", "sessions/ticket-4101", f"review/calls/{approval_id}"):
            tab.go(site.url + path)
            assert tab.evaluate("document.documentElement.scrollWidth") <= 390, path
        small = tab.evaluate(
            "[...document.querySelectorAll('button, .decide a')].map(e => [e.className, e.getBoundingClientRect()])"
            ".filter(([, r]) => r.width && (r.height < 23.5 || r.width < 23.5)).map(([c]) => c)"
        )
        assert small == []
        tab.loading(lambda: tab.click("[data-key=yes]"))
    assert site.ask(f"approvals/{approval_id}")["state"] == "granted"


def test_lists_are_read_at_a_glance(site: Site, browser: Browser) -> None:
    """On a desk no list is cut or scrolled sideways; on a phone it is scrolled, and what failed has its name."""
    wide = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length"
    lines = "[...document.querySelectorAll('table.calls tbody tr')].map(e => e.getBoundingClientRect().height)"
    with browser.profile(width=1280, height=800) as person:
        tab = person.open()
        for path in ("sessions", "calls", "tools", "audit", "flow", "learned"):
            assert tab.go(site.url + path).evaluate(wide) == 0, path
        assert max(tab.go(f"{site.url}calls").evaluate(lines)) < 44
    with browser.profile(width=390, height=844) as person:
        tab = person.open(f"{site.url}calls")
        assert max(tab.evaluate(lines)) < 44
        assert tab.evaluate(wide) == 1
        for path in ("flow", "tools"):
            tab.go(site.url + path)
            second = "document.querySelector('.scroll > .list thead th:nth-child(2)').getBoundingClientRect().left"
            assert tab.evaluate(second) < 290, path
        failed = site.ask("events?raised=true&error_code=NOT_FOUND&limit=1")["items"][0]
        tab.go(f"{site.url}sessions/{failed['session_id']}")
        cut = (
            "[...document.querySelectorAll('tr.call.failed .line a')].filter(e => e.scrollWidth > e.clientWidth).length"
        )
        assert tab.evaluate(cut) == 0


def test_without_scripts(site: Site, browser: Browser) -> None:
    """Reading and deciding work without JavaScript."""
    approval_id = ask_for_refund(site, "plain")["error"]["details"]["approval_id"]
    with browser.profile(scripts=False) as person:
        tab = person.open(f"{site.url}sessions")
        assert tab.send("DOM.getDocument", depth=0)["root"]["nodeName"] == "#document"
        tab.go(f"{site.url}review/calls/{approval_id}")
        tab.loading(lambda: _click_plain(tab, "[data-key=no]"))
    assert site.ask(f"approvals/{approval_id}")["state"] == "denied"


def _click_plain(tab: Tab, selector: str) -> None:
    """Click where an element is, found without a script of the page's."""
    root = tab.send("DOM.getDocument", depth=0)["root"]["nodeId"]
    node = tab.send("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
    corners = tab.send("DOM.getBoxModel", nodeId=node)["model"]["content"]
    x, y = sum(corners[0::2]) / 4, sum(corners[1::2]) / 4
    for kind in ("mousePressed", "mouseReleased"):
        tab.send("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, x=x, y=y)


def test_foreign_page_cannot_post(site: Site, person: Profile) -> None:
    """A form on another port of this machine is refused, though it is the same site, and decides nothing."""
    approval_id = ask_for_refund(site, "foreign")["error"]["details"]["approval_id"]
    tab = person.open()
    tab.expected.append("403")
    target = f"{site.url}review/calls/{approval_id}"
    page = f'<form method="post" action="{target}"><input name="verdict" value="grant"><button>go</button></form>'
    tab.go("data:text/html," + quote(page))
    tab.loading(lambda: tab.click("button"))
    assert "not sent by a page of the console" in tab.text() or "Sign in" in tab.text()
    assert site.ask(f"approvals/{approval_id}")["state"] == "pending"
