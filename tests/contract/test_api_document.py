"""The API against its own description: whatever the OpenAPI document allows or forbids, answers are as it says.

Requests are generated from the document by schemathesis, half of them as it asks for and half of them not, half with
ids of things that exist, by the administrator who owns them and by a member beside whom a colleague shares them.
`make test` sends some hundred of them, the same each time; `make soak` sends thousands.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis import checks as general_checks
from schemathesis.specs.openapi import checks as document_checks

from tests.api_client import Reply
from tests.api_homes import SeededHome, Seeds, beside, seeded_home
from tests.postgres import PostgresServer
from tests.unit.catalog.town import CONNECTION, inputs, tool_body
from twinraven.api import all_routes, openapi_document
from twinraven.serving.contract import Route
from twinraven.serving.metrics import HttpMetrics

_ROUTES: Final[Sequence[Route]] = all_routes(HttpMetrics())
_DOCUMENT: Any = schemathesis.openapi.from_dict(openapi_document(_ROUTES))
_GENERAL: Any = general_checks
_OF_DOCUMENTS: Any = document_checks
_CHECKS: Final = [
    _GENERAL.not_a_server_error,
    _OF_DOCUMENTS.status_code_conformance,
    _OF_DOCUMENTS.content_type_conformance,
    _OF_DOCUMENTS.response_headers_conformance,
    _OF_DOCUMENTS.response_schema_conformance,
    _OF_DOCUMENTS.negative_data_rejection,
]
_ORDERS: Final[dict[str, Any]] = {"operation": tool_body()["operation"], "input_schema": inputs("orderId")}
_PLACED: Final[dict[str, Any]] = {
    "key": "made",
    "service": "ada-service",
    "connection_params": {"endpoint": "https://shop.example"},
    "secret": None,
}
_SOUND: Final[dict[str, dict[str, Any]]] = {
    "callTool": {"tool_name": "search", "payload": {"query": "x"}},
    "createService": {"protocol": "https", "type": "rest_api", "connection_schema": CONNECTION},
    "changeService": {"connection_schema": CONNECTION},
    "createTool": {**_PLACED, **_ORDERS},
    "changeTool": {**_ORDERS, "connection_params": _PLACED["connection_params"], "secret": None},
    "makeTool": _PLACED,
    "createServiceTemplate": {"protocol": "https", "type": "rest_api", "connection_schema": CONNECTION},
    "createToolTemplate": _ORDERS,
}
"""What chance would hardly find: parts of bodies that go together."""
_LOWERED: Final[dict[str, Any]] = {"operation": {"type": "rest_call", "method": "POST", "path": "/"}, "effect": "read"}
"""What only an administrator may say of an operation."""
_ADDRESS: Final = "http://127.0.0.1:8765"
_FEW: Final = 3
_MANY: Final = 40
_HOMES: Final = [
    ("sqlite", "owner"),
    # What a member may not do is asked in short by test_api_statuses.
    pytest.param(("sqlite", "member"), marks=pytest.mark.soak),
    pytest.param(("postgres", "owner"), marks=pytest.mark.soak),
]


class Sender:
    """Sends generated requests to a home of its own and counts what came back."""

    def __init__(self, seeds: Seeds, runner: asyncio.Runner) -> None:
        self.statuses: Counter[int] = Counter()
        self.known = seeds.ids
        self._seeds = seeds
        self._runner = runner

    def send(self, case: Any) -> None:
        kwargs = case.as_transport_kwargs(base_url=_ADDRESS)
        kwargs.pop("timeout", None)
        prepared = requests.Request(**kwargs).prepare()
        reply = self._runner.run(self._ask(prepared))
        self.statuses[reply.status] += 1
        case.validate_response(_response(reply, prepared), checks=_CHECKS)

    async def _ask(self, prepared: requests.PreparedRequest) -> Reply:
        body: Any = prepared.body or b""
        # A server would not let these through to the application, and nobody unpacks what comes back.
        own = ("authorization", "x-api-key", "host", "content-length", "transfer-encoding", "accept-encoding")
        headers = {name: _latin(value) for name, value in prepared.headers.items() if name.lower() not in own}
        return await self._seeds.door.ask(
            str(prepared.method),
            prepared.path_url,
            body=body.encode() if isinstance(body, str) else body,
            headers=headers,
        )


@contextmanager
def sender_to(folder: Path, server: PostgresServer | None, caller: str) -> Generator[Sender]:
    with asyncio.Runner() as runner:
        opening = seeded_home(folder, server=server)
        home = runner.run(_enter(opening))
        try:
            yield Sender(runner.run(_caller(home, caller)), runner)
        finally:
            runner.run(opening.__aexit__(None, None, None))


async def _enter(opening: Any) -> Any:
    return await opening.__aenter__()


async def _caller(opened: SeededHome, caller: str) -> Seeds:
    return opened.ada if caller == "owner" else await beside(opened.home, opened.ada, "mia")


@st.composite
def cases(draw: st.DrawFn, route: Route, known: dict[tuple[str, str], str]) -> Any:
    """A request to a route, well-formed or not, to something that is there or to something that is not."""
    mode = draw(st.sampled_from([GenerationMode.POSITIVE, GenerationMode.NEGATIVE]))
    operation = _DOCUMENT[route.path][route.method]
    case: Any = draw(operation.as_strategy(generation_mode=mode))
    if mode is GenerationMode.POSITIVE and draw(st.booleans()):
        for name in route.names:
            case.path_parameters[name] = known[route.tag, name]
        if route.matching != "no":
            case.headers["If-Match"] = "*"
        if route.name in _SOUND:
            case.body = {**case.body, **_SOUND[route.name]}
            if "operation" in case.body and draw(st.booleans()):
                case.body |= _LOWERED
    return case


@pytest.mark.parametrize("home_of", _HOMES, ids="-".join)
@pytest.mark.parametrize("group", sorted({route.tag for route in _ROUTES}))
def test_answers_are_what_the_document_says(
    tmp_path: Path, request: pytest.FixtureRequest, home_of: tuple[str, str], group: str, full_scale: bool
) -> None:
    """No request that can be generated from the document gets a 5xx, or a status, type or body it does not describe."""
    store, caller = home_of
    count = _MANY if full_scale else _FEW
    server = request.getfixturevalue("postgres_server") if store == "postgres" else None
    with sender_to(tmp_path, server, caller) as sender:
        for route in _ROUTES:
            if route.tag == group:
                _exercise(route, sender, count)
        assert sender.statuses.total() >= count


def _exercise(route: Route, sender: Sender, count: int) -> None:
    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    @given(cases(route, sender.known))
    def send(case: Any) -> None:
        sender.send(case)

    send()


def _response(reply: Reply, prepared: requests.PreparedRequest) -> schemathesis.Response:
    headers = {name: [value] for name, value in reply.headers.items()}
    return schemathesis.Response(reply.status, headers, reply.body, prepared, 0.0, verify=False)


def _latin(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
