"""No answer of any route repeats the value of a secret that a request carries, however it is quoted on its way back.

The cases are made from the table of routes: the value stands in the path, in each parameter of the query and in each
text of a body that the route takes, one at a time.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

import pytest

from tests.api_client import Reply
from tests.api_homes import ApiHome, api_home, made, seed
from tests.api_samples import BODIES
from twinraven.api import all_routes
from twinraven.serving.contract import Route
from twinraven.serving.metrics import HttpMetrics

_ROUTES: Final = [route for route in all_routes(HttpMetrics()) if not (route.is_open or route.is_stream)]
_VALUES: Final = ('Shop\\admin:"it\'s"-9f3e', "plain'quote\"inside-77")
_KEEPS_VALUES: Final = frozenset({"createSecret", "rotateSecret"})


@pytest.fixture
async def home(tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path) as opened:
        yield opened


def is_told(value: str, reply: Reply) -> bool:
    """Whether a value can be read off an answer: as it is, or as Python or JSON quote it."""
    text = reply.body.decode("utf-8", "replace")
    shown = {value, repr(value)[1:-1], value.replace("\\", "\\\\")}
    for _ in range(2):
        shown |= {form.replace("\\", "\\\\").replace('"', '\\"') for form in shown}
    return any(form in text for form in shown) or any(form in str(reply.headers) for form in shown)


def with_value(body: Any, value: str) -> Iterator[Any]:
    """The body with the value in place of one of its texts, for each of them, and as a field that nobody knows."""
    if isinstance(body, str):
        yield value
    elif isinstance(body, list):
        for number, each in enumerate(cast("list[Any]", body)):
            yield from ([*body[:number], other, *body[number + 1 :]] for other in with_value(each, value))
    elif isinstance(body, dict):
        for name, each in cast("dict[str, Any]", body).items():
            yield from ({**body, name: other} for other in with_value(each, value))
        yield {**body, value: value}


def requests(route: Route, path: str, value: str) -> Iterator[tuple[str, Any]]:
    body = BODIES[route.name] if route.body is not None else None
    if route.names:
        yield route.path.format(**dict.fromkeys(route.names, quote(value, safe=""))), body
    for parameter in (*(each.name for each in route.all_query), value):
        yield f"{path}?{urlencode({parameter: value})}", body
    for other in with_value(body, value):
        yield path, other


@pytest.mark.req("AD-04")
async def test_no_answer_repeats_a_secret_that_the_request_held(home: ApiHome) -> None:
    """Refused, not found, or done: what is told is a token, or nothing."""
    ada = await seed(home.raven, await home.tenant("ada"), name="ada")
    told: list[tuple[str, str, Any, Reply]] = []
    asked = 0
    for number, value in enumerate(_VALUES):
        secret = {"name": f"key-{number}", "type": "api_key", "value": value}
        made(await ada.door.post("/v1/secrets", secret))
        for route in _ROUTES:
            if route.method == "DELETE" or route.name in _KEEPS_VALUES:
                continue
            headers = {"if-match": "*"} if route.matching != "no" else {}
            for path, body in requests(route, ada.path_of(route), value):
                asked += 1
                reply = await ada.door.ask(route.method, path, body, headers=headers)
                assert reply.status < 500, (route.name, path, body, reply)
                is_output = route.name == "callTool" and value in body["payload"].values()
                # What a tool answers its caller is the tool's own affair; the record of it is clean.
                if is_told(value, reply) and not is_output:
                    told.append((route.name, path, body, reply))
    assert asked > 1000
    assert told == []
