"""docs/api.md names every route and every status, and none that is not there."""

from __future__ import annotations

import re

from tools.requirements import ROOT
from twinraven.api import all_routes, openapi_document
from twinraven.serving.metrics import HttpMetrics

_PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")


def test_the_page_lists_the_routes_that_are_there() -> None:
    """A route that was added, dropped or changed without its documentation fails here."""
    listed = {
        (method, path)
        for path, methods in re.findall(r"^\| `(/[^`]+)` \| ([A-Z ]+) \|", _PAGE, re.MULTILINE)
        for method in methods.split()
    }
    assert listed == {(route.method, route.path) for route in all_routes(HttpMetrics())}


def test_the_page_explains_every_status_that_a_route_can_answer() -> None:
    """Each 4xx and 5xx of the OpenAPI document stands in the table of errors."""
    table = _PAGE.split("| status |")[1].split("\n\n")[0]
    explained = {
        int(status) for row in re.findall(r"^\| ([0-9, ]+) \|", table, re.MULTILINE) for status in row.split(",")
    }
    paths = openapi_document(all_routes(HttpMetrics()))["paths"].values()
    answered = {int(status) for path in paths for operation in path.values() for status in operation["responses"]}
    # 405 is answered where there is no route, so no route has it.
    assert {status for status in answered if status >= 400} | {405} == explained


def test_operations_have_names_of_their_own() -> None:
    """What a generated client calls an operation is unique, and every operation says what it does."""
    routes = all_routes(HttpMetrics())
    assert len({route.name for route in routes}) == len(routes)
    assert all(route.summary for route in routes)
