"""Two people who review at the same time, each signed in with a key of their own, in two real browsers."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager

import pytest

from tests.browsing import Browser, Tab
from tests.console_site import IN_A_BROWSER, Site, live

pytestmark = IN_A_BROWSER


@pytest.fixture
def site(desk_site: Site) -> Site:
    return desk_site


def ask_for(site: Site, key: str) -> str:
    """A call that waits for a decision, and what its item is called."""
    payload = {"order_id": f"O-{key}", "reason": "late"}
    body = {"tool_name": "cancel_order", "payload": payload, "session_id": f"cancel-{key}"}
    return site.ask("calls", body, Idempotency_Key=key)["error"]["details"]["approval_id"]


@contextmanager
def signed_in(site: Site, browser: Browser, name: str, role: str) -> Generator[Tab]:
    """A tab of a new user who signed in with a key of their own."""
    user_id = site.ask("users", {"name": name, "role": role})["user_id"]
    key = site.ask("keys", {"user_id": user_id})["shown_once"]
    with browser.profile() as person:
        tab = person.open(f"{site.url}sign-in")
        tab.evaluate(f"document.querySelector('[name=key]').value = '{key}'")
        tab.loading(lambda: tab.click("main button, form button"))
        tab.wait(f"document.querySelector('.who').textContent.includes('{name}')")
        yield tab


def test_reviewers_see_each_other(site: Site, browser: Browser) -> None:
    """Who looks at an item is named beside it to the other, live; the other's next item is one that nobody reads.

    It keeps nobody from deciding: the first decision stands, and a later one is refused on a page that keeps the note.
    """
    first, second = ask_for(site, "both"), ask_for(site, "spare")
    with ExitStack() as stack:
        ada = stack.enter_context(signed_in(site, browser, "Ada Reviewer", "approver"))
        bo = stack.enter_context(signed_in(site, browser, "Bo Reviewer", "approver"))
        row = f".queue li:has(a[href$='{first}'])"
        bo.go(f"{site.url}review?kind=call")
        live(bo)
        ada.go(f"{site.url}review/calls/{first}")
        bo.wait(f"document.querySelector(\"{row} .looking\")?.textContent === 'Ada Reviewer is looking'")
        live(ada)
        assert ada.text(".looking-too") == ""
        bo.go(f"{site.url}review/calls/{first}")
        assert "Ada Reviewer is looking at this, too" in bo.text(".looking-too")
        ada.wait("document.querySelector('.looking-too')?.textContent.startsWith('Bo Reviewer is looking')")
        assert first not in bo.evaluate("document.querySelector('[data-key=later]').href")
        bo.expected += ["409", "412"]
        bo.evaluate("document.querySelector('[name=note]').value = 'my own words'")
        stale = bo.evaluate("document.querySelector('[name=seen]').value")
        ada.loading(lambda: ada.click("[data-key=no]"))
        bo.wait("document.querySelector('h1 .pill').textContent === 'denied'")
        assert "denied by Ada Reviewer" in bo.text("main")
        late = {"verdict": "grant", "seen": stale, "note": "my own words"}
        bo.go(f"{site.url}review/calls/{second}")
        bo.evaluate(
            f"(() => {{ const f = document.querySelector('form.decide'); f.action = '/console/review/calls/{first}';"
            f"f.querySelector('[name=seen]').value = '{late['seen']}';"
            "f.querySelector('[name=note]').value = 'my own words'; })()"
        )
        bo.loading(lambda: bo.click("[data-key=yes]"))
        assert "Nothing was decided" in bo.text("main")
        assert "my own words" in bo.text("#kept")
    assert site.ask(f"approvals/{first}")["state"] == "denied"
    assert site.ask(f"approvals/{second}")["state"] == "pending"


def test_a_viewer_is_kept_out_of_the_queue(site: Site, browser: Browser) -> None:
    """A viewer sees no item and no form to decide, and is not counted among those who look."""
    approval = ask_for(site, "viewer")
    with signed_in(site, browser, "Vera Viewer", "viewer") as vera:
        vera.expected.append("404")
        vera.go(f"{site.url}review/calls/{approval}")
        assert vera.evaluate("document.querySelector('form.decide')") is None
        assert "Vera Viewer" not in [each["name"] for each in site.ask("inbox-reservations")["items"]]
        vera.go(f"{site.url}sessions")
        assert vera.evaluate("document.querySelectorAll('main form[method=post]').length") == 0
