"""Serves the console as an ASGI application: static files, signing in, news, and a table of pages.

Every answer carries the same strict headers. A page is asked for by somebody whom the authenticator knows, by a sign-in
in a cookie or because this machine needs no key; whoever is unknown is sent to the sign-in page.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from twinraven.console.access import TryLimit, cookie_of, is_own_form, sign_in_token, vouch_for
from twinraven.console.api_caller import ApiCaller, ApiRefused, Vouch, api_path, api_scope, members
from twinraven.console.formatting import exact
from twinraven.console.menu import menu
from twinraven.console.page_requests import ConsolePage, PageRequest, PageView, Redirect, Viewer, live_words
from twinraven.console.rendering import Renderer
from twinraven.console.replies import PageReply, read_form
from twinraven.console.static_files import StaticFiles
from twinraven.console.views import PAGES
from twinraven.console.views.waiting_items import decided_before, waiting_count
from twinraven.foundation.clock import iso, utc_now
from twinraven.foundation.errors import TwinRavenError
from twinraven.foundation.loop_turn import resting
from twinraven.serving import AsgiApp, Authenticator, Receive, Scope, Send
from twinraven.tenancy import NotAuthenticated

_logger = logging.getLogger("twinraven.console")
_TOPICS: Final = "/v1/news"
_NO_PAGE: Final = {"title": "Not Found", "detail": "There is no such page, or it is not yours.", "code": "NOT_FOUND"}
_FOREIGN: Final = {
    "title": "Forbidden",
    "detail": "This form was not sent by a page of the console, so nothing was done.",
    "code": "FOREIGN_FORM",
}
_REST_S: Final = 0.003
_SIGN_IN_LASTS_S: Final = 12 * 3600


def console_app(api: AsgiApp, authenticator: Authenticator) -> Console:
    """Return the console over an API."""
    return Console(api, authenticator)


def home_page(main: AsgiApp) -> AsgiApp:
    """Return the application with `/` added: a browser that asks for it is sent to the console."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] == "http"
            and scope["path"] == "/"
            and b"text/html" in dict(scope["headers"]).get(b"accept", b"")
        ):
            await PageReply(send, dict(scope["headers"])).redirect("/console/")
            return
        await main(scope, receive, send)

    return app


class Console:
    """The pages, and what serves them."""

    def __init__(self, api: AsgiApp, authenticator: Authenticator) -> None:
        self._api = api
        self._authenticator = authenticator
        self._files = StaticFiles()
        self._renderer = Renderer(self._files.address)
        self._tries = TryLimit()
        self._parts: frozenset[str] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        reply = PageReply(send, headers)
        path = _segments(scope)
        if path[:1] == ["static"]:
            await self._static(path[1:], reply)
            return
        try:
            await self._answer(scope, headers, path, receive, reply)
        except NotAuthenticated:
            await self._ask_to_sign_in(scope, path, reply)
        except ApiRefused as refusal:
            await self._refuse(reply, refusal.status, refusal.problem, refusal.correlation_id)
        except TwinRavenError as error:
            await self._refuse(reply, 503, {"title": "Not now", "detail": str(error), "code": error.code}, "")
        except Exception:
            _logger.exception("unhandled error while serving a page")
            problem = {"title": "Internal error", "detail": "Something went wrong inside.", "code": "INTERNAL"}
            await self._refuse(reply, 500, problem, "")

    async def _answer(
        self, scope: Scope, headers: Mapping[bytes, bytes], path: list[str], receive: Receive, reply: PageReply
    ) -> None:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        form: Mapping[str, str] = {}
        if method == "POST":
            if not is_own_form(headers):
                await self._refuse(reply, 403, _FOREIGN, "")
                return
            form = await read_form(receive)
        vouch = vouch_for(self._authenticator, scope, headers)
        if path == ["sign-in"]:
            await self._sign_in(scope, headers, form, reply)
            return
        if path == ["sign-out"] and method == "POST":
            await self._sign_out(scope, headers, vouch, reply)
            return
        who = await vouch()
        if path == ["news"]:
            since = _pairs(scope["query_string"]).get("since")
            target = _TOPICS + (f"?{urlencode({'since': since})}" if since else "")
            await reply.pass_on(partial(self._api, api_scope(scope, "GET", target, vouch), receive))
            return
        if path[:1] in (["json"], ["exact"]) and method == "GET":
            await self._as_json(scope, path, vouch, reply)
            return
        parts = await self._known_parts(scope)
        page, values = _find(method, path, parts)
        me = Viewer(who.tenant_id, who.user_id, who.role, who.key_id)
        begun = iso(utc_now())
        api = ApiCaller(self._api, scope, vouch)
        visit = PageRequest(api, me, values, _pairs(scope["query_string"]), form, parts)
        # Nobody waits for a page that goes on by itself, so calls of agents are to notice it as little as can be.
        with resting(_REST_S if b"x-live" in headers else 0.0):
            try:
                found = await page.view(visit)
            except ApiRefused as refusal:
                found = _problem(refusal.status, refusal.problem, refusal.correlation_id)
            if isinstance(found, Redirect):
                await reply.redirect(found.location, found.headers)
            elif headers.get(b"hx-request") == b"true":
                values = {"me": visit.me, "names": await _names(visit), **found.values}
                await reply.page(found.status, await self._renderer.part(found.template, values))
            else:
                await self._show(page, visit, found, reply, begun=begun)

    async def _show(
        self, page: ConsolePage, visit: PageRequest, found: PageView, reply: PageReply, *, begun: str
    ) -> None:
        """Send a page in its frame; `begun` is when what it shows was begun to be read."""
        frame = {
            "me": visit.me,
            "names": await _names(visit),
            "title": found.title,
            "section": page.section,
            "groups": menu(visit.has, is_admin=visit.me.is_admin),
            "waiting_count": await waiting_count(visit),
            "live": live_words(page.live, found.about),
            "held": page.held or found.held,
            "begun": begun,
            "again_s": 0,
            "decided": await decided_before(visit),
            "command": found.command,
            "asked": visit.api.asked,
        }
        text = await self._renderer.page(found.template, {**frame, **found.values})
        await reply.page(found.status, text)

    async def _static(self, path: Sequence[str], reply: PageReply) -> None:
        found = self._files.find(*path) if len(path) == 2 else None
        if found is None:
            await reply.text(404, "no such file")
        else:
            await reply.static(found)

    async def _as_json(self, scope: Scope, path: Sequence[str], vouch: Vouch, reply: PageReply) -> None:
        """What a page was made from, as the API says it; under `exact`, one member of it, for copying."""
        kind, parts = path[0], path[1:]
        if parts[:1] != ["v1"]:
            await self._refuse(reply, 404, _NO_PAGE, "")
            return
        member = None if kind == "json" else parts[-1]
        target = api_path(*parts[1:] if member is None else parts[1:-1])
        query = scope["query_string"].decode("latin-1")
        found = (await ApiCaller(self._api, scope, vouch).send("GET", target + (f"?{query}" if query else ""))).body
        if member is not None and member not in members(found):
            await self._refuse(reply, 404, _NO_PAGE, "")
            return
        await reply.data(exact(found if member is None else found[member]).encode("utf-8", "replace"))

    async def _sign_in(
        self, scope: Scope, headers: Mapping[bytes, bytes], form: Mapping[str, str], reply: PageReply
    ) -> None:
        onwards = _own_path(form.get("next") or _pairs(scope["query_string"]).get("next", ""))
        values: dict[str, Any] = {"title": "Sign in", "onwards": onwards, "refused": ""}
        if scope["method"] != "POST":
            await reply.page(200, await self._renderer.page("sign_in.html", values))
            return
        client = str((scope.get("client") or ("",))[0])
        if self._tries.is_reached(client):
            values["refused"] = "Too many keys were refused from here. Wait a minute."
            await reply.page(429, await self._renderer.page("sign_in.html", values))
            return
        key = form.get("key", "").strip()
        try:
            begun = await ApiCaller(self._api, scope, None).send(
                "POST",
                "/v1/sign-ins",
                body={"label": headers.get(b"user-agent", b"").decode("latin-1")[:200]},
                headers={"authorization": f"Bearer {key if key.isascii() and key.isprintable() and key else '-'}"},
            )
        except ApiRefused as refusal:
            if refusal.status not in (400, 401):
                raise
            self._tries.note(client)
            values["refused"] = "This key opens nothing. Ask an administrator of your tenant for one."
            await reply.page(401, await self._renderer.page("sign_in.html", values))
            return
        cookie = cookie_of(headers, begun.body["shown_once"], lasts_s=_SIGN_IN_LASTS_S)
        await reply.redirect(onwards, (("set-cookie", cookie),))

    async def _sign_out(self, scope: Scope, headers: Mapping[bytes, bytes], vouch: Vouch, reply: PageReply) -> None:
        token = sign_in_token(headers)
        if token is not None:
            api = ApiCaller(self._api, scope, vouch)
            await api.send("DELETE", f"/v1/sign-ins/{quote(token.partition('.')[0], safe='')}")
            self._authenticator.forget_sign_in(token)
        await reply.redirect("/console/sign-in", (("set-cookie", cookie_of(headers, "", lasts_s=0)),))

    async def _ask_to_sign_in(self, scope: Scope, path: Sequence[str], reply: PageReply) -> None:
        if path == ["news"] or path[:1] in (["json"], ["exact"]):
            await reply.text(401, "sign in first")
            return
        query = scope["query_string"].decode("latin-1")
        at = scope["path"] + (f"?{query}" if query else "")
        onwards = quote(at, safe="") if scope["method"] == "GET" else ""
        await reply.redirect(f"/console/sign-in?next={onwards}")

    async def _refuse(self, reply: PageReply, status: int, problem: Mapping[str, Any], correlation_id: str) -> None:
        values = {"title": problem.get("title", "Problem"), "problem": problem, "correlation_id": correlation_id}
        await reply.page(status, await self._renderer.page("problem.html", values))

    async def _known_parts(self, scope: Scope) -> frozenset[str]:
        """Return the first words of the API's paths, read once from its own description."""
        if self._parts is None:
            document = (await ApiCaller(self._api, scope, None).send("GET", "/openapi.json")).body
            self._parts = frozenset(path.split("/")[2] for path in document["paths"] if path.startswith("/v1/"))
        return self._parts


def _segments(scope: Scope) -> list[str]:
    raw = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").partition("?")[0]
    return [unquote(part) for part in raw.removeprefix("/console").strip("/").split("/") if part]


def _pairs(query: bytes) -> dict[str, str]:
    return dict(parse_qsl(query.decode("latin-1")))


def _own_path(text: str) -> str:
    """Return an address inside the console; anything else is its first page."""
    return text if text.startswith("/console/") and "\\" not in text and "\n" not in text else "/console/"


def _problem(status: int, problem: Mapping[str, Any], correlation_id: str) -> PageView:
    """Return a problem as a page inside the frame, so that its reader can go on from there."""
    # Nothing here tells when it was made: what is another's is answered as if it had never been.
    values = {"problem": problem, "correlation_id": correlation_id, "live": "", "begun": ""}
    return PageView("problem_page.html", str(problem.get("title", "Problem")), values, status=status)


async def _no_page(_: PageRequest) -> PageView:
    return _problem(404, _NO_PAGE, "")


async def _names(visit: PageRequest) -> Mapping[str, str]:
    """Return what users are called, by id, as far as the viewer may know: everybody knows their own name."""
    path = "/v1/user-names" if visit.me.may_decide else "/v1/me"
    found = (await visit.api.send("GET", path)).body
    return found if visit.me.may_decide else {found["user_id"]: found["name"]}


_NOWHERE: Final = ConsolePage("GET", "", _no_page, section="")


def _find(method: str, path: Sequence[str], parts: frozenset[str]) -> tuple[ConsolePage, Mapping[str, str]]:
    for page in PAGES:
        wanted = [part for part in page.path.split("/") if part]
        if page.method != method or len(wanted) != len(path) or (page.needs and page.needs not in parts):
            continue
        pairs = list(zip(wanted, path, strict=True))
        if all(want == part or want.startswith("{") for want, part in pairs):
            return page, {want[1:-1]: part for want, part in pairs if want.startswith("{")}
    return _NOWHERE, {}
