"""The OpenAPI document, as generators of clients and linters read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from twinraven.api import all_routes, openapi_document
from twinraven.serving import HttpMetrics


def schemas_below(body: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of the document that says of which type a value is."""
    if isinstance(body, dict):
        members = cast("dict[str, Any]", body)
        if isinstance(members.get("type"), str | list):
            yield place, members
        for word, value in members.items():
            yield from schemas_below(value, f"{place}/{word}")
    elif isinstance(body, list):
        for number, value in enumerate(cast("list[Any]", body)):
            yield from schemas_below(value, f"{place}/{number}")


def test_entities_are_objects() -> None:
    """What stands in answers as an object is described as one, however its class is made."""
    components = openapi_document(all_routes(HttpMetrics()))["components"]["schemas"]
    positional = [name for name, body in components.items() if body.get("type") == "array"]
    assert len(components) > 100
    assert positional == []


def test_lists_say_what_is_in_them() -> None:
    """A generator can type every list, because each says what its items are."""
    document = openapi_document(all_routes(HttpMetrics()))
    lists = [(place, body) for place, body in schemas_below(document, "") if "array" in body["type"]]
    assert len(lists) > 100
    assert [place for place, body in lists if "items" not in body] == []
