"""A console over a home, in this process, and its pages as text."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.api_client import Door, Reply
from twinraven.api import api_app
from twinraven.app import TwinRaven, open_home
from twinraven.console import console_app
from twinraven.serving import Authenticator, Mounted
from twinraven.tenancy import LOCAL

OWN = {"sec-fetch-site": "same-origin", "content-type": "application/x-www-form-urlencoded"}


class Pages:
    """The pages of a console, asked for by somebody."""

    def __init__(self, door: Door) -> None:
        self.door = door

    async def get(self, path: str, **headers: str) -> Reply:
        return await self.door.get(f"/console/{path}", **headers)

    async def text(self, path: str, **headers: str) -> str:
        """A page that is there, as markup."""
        reply = await self.get(path, **headers)
        assert reply.status == 200, (path, reply.status, reply.body[-600:])
        return reply.body.decode()

    async def post(self, path: str, headers: dict[str, str] | None = None, **form: str) -> Reply:
        """Send a form as the console's own page does."""
        stated = {**OWN, **(headers or {})}
        return await self.door.ask("POST", f"/console/{path}", body=urlencode(form).encode(), headers=stated)

    def with_cookie(self, cookie: str) -> Pages:
        return Pages(Door(self.door.app, {**self.door.headers, "cookie": cookie.partition(";")[0]}))


@asynccontextmanager
async def console_over(home: Path, *, needs_key: bool = False) -> AsyncGenerator[tuple[Pages, TwinRaven]]:
    """The API and the console as `twinraven up` mounts them."""
    with open_home(home) as raven:
        without = None if needs_key else LOCAL
        authenticator = Authenticator(raven.tenancy, without_key=without, sign_ins=raven.sign_ins)
        api = api_app(raven, authenticator)
        yield Pages(Door(Mounted(api, {"console": console_app(api, authenticator)}))), raven


def words(markup: str) -> str:
    """A page as a reader hears it."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())


def hidden(markup: str, name: str) -> str:
    """The value of a hidden field."""
    found = re.search(rf'name="{name}" value="([^"]*)"', markup)
    assert found is not None, name
    return html.unescape(found[1])


def links(markup: str) -> list[str]:
    """The pages that a page leads to."""
    return [html.unescape(each) for each in re.findall(r'href="(/console/[^"#]*)', markup)]


def number_at(markup: str, mark: str) -> int:
    """The figure in the element with an id."""
    found = re.search(rf'id="{mark}"[^>]*>([\d,]+)', markup)
    assert found is not None, mark
    return int(found[1].replace(",", ""))


Json = dict[str, Any]
