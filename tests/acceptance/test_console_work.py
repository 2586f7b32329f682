"""The console's pages of work in a real browser, over a home in which everything happened at least once."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from urllib.parse import quote

import pytest

from tests.browsing import Browser
from tests.console_desk import fill_desk
from tests.console_site import FOREIGN, IN_A_BROWSER, Site, live, serving
from tests.console_work import fill_work, make_work_desk
from twinraven.foundation.ids import id_digest

pytestmark = IN_A_BROWSER


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    home = make_work_desk(tmp_path_factory.mktemp("work"))
    fill_desk(home, sessions=2, learn=False)
    fill_work(home)
    with serving(home) as site:
        yield site


def run_of(site: Site, state: str, target: str = "replace_item") -> str:
    found = site.ask(f"runs?state={state}&limit=100")["items"]
    return next(each["run_id"] for each in found if each["target"] == target)


def work_pages(site: Site) -> list[str]:
    """A page of every kind of work, and an item of every kind that waits."""
    items = {each["kind"]: each["item_id"] for each in site.ask("inbox?limit=200")["items"]}
    tasks = {each["status"]: each["task_id"] for each in site.ask("tasks?limit=100")["items"]}
    talk = site.ask("conversations?limit=50")["items"][-1]["id"]
    entity = next(each for each in site.ask("entities?limit=100")["items"] if each["name"] == "Ines Silva")
    entry = site.ask("audit?newest=true&limit=1")["items"][0]["id"]
    return [
        "goals", "plans", "runs", f"plans/{site.ask('plans')['items'][0]['run_id']}",
        *(f"runs/{run_of(site, state)}" for state in ("succeeded", "failed", "waiting")),
        *(f"tasks/{task_id}" for task_id in tasks.values()), f"talk/{talk}", f"entities/{entity['entity_id']}",
        "processes/replace_item", "trace", "trace/invoice-2026-7", f"audit/{entry}", "keys/never-seen", "nothing-here",
        *(f"review/items/{quote(item, safe='')}" for kind, item in items.items() if kind != "call"),
    ]  # fmt: skip


def test_work_pages_are_accessible(site: Site, browser: Browser, full_scale: bool) -> None:
    """axe finds nothing on any page of work, a problem included, and on a phone none of them scrolls sideways.

    In short each template is looked at once and wide, every other one in the dark.
    """
    pages = work_pages(site)
    by_template = list({path.partition("/")[0] + ("/" if "/" in path else ""): path for path in pages}.values())
    shown = {"light": pages, "dark": pages}
    if not full_scale:
        shown = {"light": by_template[::2], "dark": by_template[1::2]}
    found: dict[str, list[str]] = {}
    for theme, paths in shown.items():
        with browser.profile(theme=theme) as person:
            tab = person.open()
            tab.expected.append("404")
            for path in paths:
                tab.send("Emulation.clearDeviceMetricsOverride")
                tab.go(site.url + path)
                found[f"{path} {theme}"] = tab.violations()
                assert tab.evaluate("document.querySelectorAll('*').length") <= 3_000, path
                tab.send("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=False)
                assert tab.evaluate("document.documentElement.scrollWidth") <= 390, path
                if full_scale:
                    found[f"{path} {theme} narrow"] = tab.violations()
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


def test_hostile_names_are_inert_on_every_page(site: Site, browser: Browser) -> None:
    """Names and words from outside run nothing, ask for nothing, and are shown inside `hx-disable` alone."""
    odd = [each["entity_id"] for each in site.ask("entities?limit=100")["items"] if "onerror" in each["name"]]
    talks = [each["id"] for each in site.ask("conversations?limit=50")["items"] if "__pwned" in (each["title"] or "")]
    tasks = [each["task_id"] for each in site.ask("tasks?limit=100")["items"] if each["status"] == "pending"]
    pages = ["goals", "review", "talk", "entities", "settings", "processes", "processes/odd_process", "tools", "audit"]
    pages += [f"entities/{odd[0]}", f"talk/{talks[0]}", f"tasks/{tasks[0]}", "review/items/changed_tool%3Atown__clock"]
    with browser.profile() as person:
        tab = person.open()
        for path in pages:
            tab.requests.clear()
            tab.go(site.url + path)
            person.browser.idle(0.1)
            assert tab.evaluate("window.__pwned") is None, path
            assert all(f"127.0.0.1:{site.port}/console/" in each for each in tab.requests), tab.requests
            assert tab.evaluate("document.querySelectorAll('main img, main script, main [onmouseover]').length") == 0
            assert tab.evaluate(FOREIGN) == [], path
        assert "⟨U+202E⟩" in tab.text("main")


def test_a_run_is_followed_live(site: Site, browser: Browser) -> None:
    """A run that waits shows its question; answered by a click it goes on, and page and queue follow without a load."""
    given = {"order_id": "O-300", "product_id": "P-9", "user_id": "U-9"}
    run_id = site.ask("processes/replace_item/runs", {"parameters": given})["run_id"]
    with browser.profile() as person:
        tab, queue = person.open(f"{site.url}runs/{run_id}"), person.open(f"{site.url}review?kind=question")
        live(tab)
        tab.evaluate("window.__same = true")
        tab.wait("document.querySelector('h1 .pill').textContent === 'waiting'")
        assert tab.evaluate("document.querySelector('.graph .box.wait title').textContent") == "note"
        before = queue.wait("document.querySelectorAll('.queue li').length")
        site.ask(f"runs/{run_id}/answer", {"place": "note__ask", "answer": True})
        tab.wait("document.querySelector('h1 .pill').textContent === 'succeeded'")
        assert tab.evaluate("window.__same && document.querySelectorAll('.graph .box.done').length") == 4
        queue.wait(f"document.querySelectorAll('.queue li').length === {before - 1}")


def test_a_question_is_answered_by_keys(site: Site, browser: Browser) -> None:
    """In Review `a` moves to Yes and decides nothing; Enter answers, and the run goes on."""
    run_id = run_of(site, "waiting")
    with browser.profile() as person:
        tab = person.open(f"{site.url}review/items/{quote(f'question:note__ask@{run_id}', safe='')}")
        tab.press("a")
        tab.wait("document.activeElement?.dataset.key === 'yes'")
        assert site.ask(f"runs/{run_id}")["state"] == "waiting"
        tab.loading(lambda: tab.press("Enter"))
    assert site.ask(f"runs/{run_id}")["waits"][0]["answered_by"] == "local"


def test_writing_in_a_conversation(site: Site, browser: Browser) -> None:
    """What is said is answered on the page by itself; another alternative is shown by its number."""
    talk = next(each for each in site.ask("conversations?limit=50")["items"] if each["forked_from"] is not None)
    with browser.profile() as person:
        tab = person.open(f"{site.url}talk/{talk['id']}")
        before = tab.evaluate("document.querySelectorAll('.turn-said').length")
        tab.click(".say textarea")
        tab.type("Is it on its way?")
        tab.loading(lambda: tab.click(".say button.yes"))
        live(tab)
        tab.wait(f"document.querySelectorAll('.turn-said').length === {before + 2}")
        tab.wait("document.querySelector('.turn-said:last-of-type .words-said').innerText.length > 20")
        tab.loading(lambda: tab.click(".turn-said:last-of-type form[action$='again'] button"))
        tab.wait("document.querySelectorAll('.turn-said:last-of-type .alternatives > *').length === 2")


def test_what_is_typed_stays_while_the_page_goes_on(site: Site, browser: Browser) -> None:
    """News leave alone what was typed or opened, in fields that have the same name as others, focused or not."""
    found = site.ask("conversations?limit=50")["items"]
    talk = next(each["id"] for each in found if each["default_process"] and each["forked_from"] is None)
    turn = "document.querySelectorAll('.turn-said.user details')"
    with browser.profile() as person:
        tab = person.open(f"{site.url}talk/{talk}")
        live(tab)
        tab.evaluate(f"{turn}[1].open = true; {turn}[1].querySelector('textarea').value = 'another order'")
        tab.click(".say textarea")
        tab.type("half a sentence")
        tab.evaluate("document.activeElement.blur()")
        for number in range(2):
            before = tab.evaluate("document.querySelectorAll('.tree a').length")
            leaf = site.ask(f"conversations/{talk}/turns?limit=200")["items"][-1]["id"]
            said = {"speaker": "user", "content": f"meanwhile {number}", "parent_turn": leaf}
            site.ask(f"conversations/{talk}/turns", said)
            tab.wait(f"document.querySelectorAll('.tree a').length > {before}")
        assert tab.evaluate("document.querySelector('.say textarea').value") == "half a sentence"
        assert tab.evaluate(f"{turn}[1].querySelector('textarea').value") == "another order"
        assert tab.evaluate(f"[...{turn}].map(e => e.open)")[:3] == [False, True, False]


@pytest.mark.soak
def test_fifty_calls_a_second_before_eight_tabs(site: Site, browser: Browser) -> None:
    """Eight tabs of two people show five hundred calls within two seconds of the last, none twice and none lost."""
    site.record("busy", 0)
    with browser.profile() as one, browser.profile() as other:
        tabs = [(one if number % 2 else other).open(f"{site.url}sessions/busy") for number in range(8)]
        for tab in tabs:
            live(tab)
        begin = time.monotonic()
        for number in range(1, 500):
            site.record("busy", number, turn=number)
            time.sleep(max(0.0, begin + number / 50 - time.monotonic()))
        last = time.monotonic()
        rows = "[...document.querySelectorAll('tr.call')].map(e => e.id)"
        for tab in tabs:
            tab.wait(f"{rows}.length === 500", within_s=20)
            assert tab.evaluate(f"new Set({rows}).size") == 500
        assert time.monotonic() - last <= 2 * _slowness()


def _slowness() -> float:
    """How much longer everything takes on this machine while others work on it, too; 1 where nobody does."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def test_pages_of_one_thing_hear_of_it_alone(site: Site, browser: Browser) -> None:
    """A page of a run, a plan, a task or a conversation names what it shows, so that others do not concern it."""

    def calls(run_id: str) -> str:
        return "events=" + ",".join(id_digest(f"run:{run_id}{suffix}") for suffix in ("", ":model"))

    run, plan = run_of(site, "succeeded"), site.ask("plans")["items"][0]["run_id"]
    task, talk = (site.ask(f"{kind}?limit=100")["items"][-1] for kind in ("tasks", "conversations"))
    about = {
        f"runs/{run}": f"runs={id_digest(run)} {calls(run)} approvals",
        f"plans/{plan}": f"runs={id_digest(plan)} {calls(plan)} approvals",
        f"talk/{talk['id']}": f"conversations={id_digest(talk['id'])}",
        f"tasks/{task['task_id']}": f"work={id_digest(task['task_id'])},{id_digest(task['goal_id'])}",
    }
    with browser.profile() as person:
        tab = person.open()
        for path, words in about.items():
            tab.go(site.url + path)
            assert tab.evaluate("document.querySelector('#live').dataset.live").startswith(words), path


def test_a_conversation_is_made_again_for_what_is_said_in_it(site: Site, browser: Browser) -> None:
    """What is said elsewhere does not make the page of a conversation ask again; what is said in it appears."""
    mine, others = (site.ask("conversations", {"title": name})["id"] for name in ("mine", "others"))
    with browser.profile() as person:
        tab, other = (person.open(f"{site.url}talk/{each}") for each in (mine, others))
        for each in (tab, other):
            live(each)
        tab.requests.clear()
        site.ask(f"conversations/{others}/turns", {"speaker": "user", "content": "over there"})
        other.wait("document.body.innerText.includes('over there')")
        assert f"{site.url}talk/{mine}" not in tab.requests
        site.ask(f"conversations/{mine}/turns", {"speaker": "user", "content": "over here"})
        tab.wait("document.body.innerText.includes('over here')")
