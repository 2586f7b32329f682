"""What the console's pages weigh, how still they stand, and how often they ask, in a real browser."""

from __future__ import annotations

import pytest

from tests.browsing import Browser, Tab
from tests.console_site import HOSTILE_SESSION, IN_A_BROWSER, PAGES, Site, live

pytestmark = IN_A_BROWSER
MOST_TIMES = 5.0
"""A page with figures asks the database some twenty times and draws a picture; the plain one does not."""
_WATCH = (
    "window.__cls = 0; new PerformanceObserver(l => { for (const e of l.getEntries()) "
    "if (!e.hadRecentInput) window.__cls += e.value; }).observe({type: 'layout-shift', buffered: true});"
)


@pytest.fixture
def site(desk_site: Site) -> Site:
    return desk_site


def test_weight(site: Site, browser: Browser) -> None:
    """A cold page is at most 160 kB, its scripts 45 kB, every further one 40 kB, and nothing moves once shown."""
    with browser.profile() as person:
        tab = person.open()
        tab.send("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)
        tab.go(site.url)
        person.browser.idle(0.5)
        assert tab.received <= 160_000
        scripts = tab.evaluate(
            "performance.getEntriesByType('resource').filter(e => e.name.endsWith('.js'))"
            ".reduce((s, e) => s + e.encodedBodySize, 0)"
        )
        assert 0 < scripts <= 45_000
        assert tab.evaluate("window.__cls") < 0.05
        for path in (*PAGES, f"sessions/{HOSTILE_SESSION}", "sessions/ticket-4101"):
            before = tab.received
            tab.go(site.url + path)
            person.browser.idle(0.1)
            assert tab.received - before <= 40_000, path
            assert tab.evaluate("window.__cls") < 0.05, path
            assert tab.evaluate("document.querySelectorAll('*').length") <= 3_000, path


def test_first_paint_beside_a_plain_page(site: Site, browser: Browser, full_scale: bool) -> None:
    """Today and a session cost a browser a few times what the plainest page of the same server does.

    In short that is the processor time of the page, which does not depend on what else runs; in full, which is for a
    machine of one's own, the time until it is first painted.
    """
    paths = {"plain": "sign-in", "today": "", "session": "sessions/ticket-4101"}
    spent = dict.fromkeys(paths, float("inf"))
    with browser.profile() as person:
        tab = person.open()
        tab.send("Performance.enable", timeDomain="threadTicks")
        for _ in range(4):
            for name, path in paths.items():
                tab.go(site.url + path)
                painted = tab.wait("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
                spent[name] = min(spent[name], painted if full_scale else _processor_time(tab))
    assert max(spent["today"], spent["session"]) <= MOST_TIMES * spent["plain"], spent


def _processor_time(tab: Tab) -> float:
    """Seconds of a processor that the page's main thread took since the page was asked for."""
    found = tab.send("Performance.getMetrics")["metrics"]
    return next(each["value"] for each in found if each["name"] == "TaskDuration")


def test_today_asks_every_ten_seconds_at_most(site: Site, browser: Browser) -> None:
    """However many calls come in, Today asks for its figures now and then, and shows all of them in the end."""
    with browser.profile() as person:
        tab = person.open(site.url)
        live(tab)
        before = _number(tab)
        tab.requests.clear()
        for number in range(30):
            site.record("swarm", number)
            person.browser.idle(0.05)
        tab.wait(f"document.getElementById('calls-today').textContent.replace(/\\D/g, '') === '{before + 30}'")
        assert tab.requests.count(site.url) <= 3


def test_a_dear_page_is_asked_for_less_often(site: Site, browser: Browser) -> None:
    """A page whose answer takes long is not asked for again for five times as long."""
    site.record("dear", 0)
    with browser.profile() as person:
        tab = person.open(f"{site.url}sessions/dear")
        live(tab)
        tab.evaluate(
            "window.__asked = []; const plain = window.fetch; window.fetch = async (...all) => {"
            "window.__asked.push(performance.now());"
            "await new Promise(go => setTimeout(go, 250)); return plain(...all); }"
        )
        for number in range(1, 100):
            site.record("dear", number)
            if tab.evaluate("window.__asked.length") >= 3:
                break
            person.browser.idle(0.1)
        first, second, third = tab.evaluate("window.__asked.slice(0, 3)")
        assert min(second - first, third - second) >= 1_250


def test_a_page_is_asked_for_once_where_nothing_changes(site: Site, browser: Browser) -> None:
    """A page that begins to listen is not made again, unless something changed since it was made."""
    with browser.profile() as person:
        tab = person.open(f"{site.url}sessions/ticket-4101")
        live(tab)
        # What changed within two seconds before a page was made is told: clocks differ.
        person.browser.idle(2.5)
        tab.requests.clear()
        tab.go(f"{site.url}review")
        live(tab)
        person.browser.idle(1.0)
        assert tab.requests.count(f"{site.url}review") == 1
        wish = {"order_id": "O-once", "reason": "x"}
        body = {"tool_name": "cancel_order", "payload": wish, "session_id": "once"}
        site.ask("calls", body, Idempotency_Key="once")
        tab.wait("document.body.innerText.includes('O-once')")


def _number(tab: Tab) -> int:
    return int(tab.evaluate("document.getElementById('calls-today').textContent.replace(/\\D/g, '')"))
