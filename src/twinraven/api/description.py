"""Writes the OpenAPI document of the REST API, with every entity as a component."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Final, cast

from twinraven import __version__
from twinraven.api.entities import entity_schemas
from twinraven.serving import Route, describe_routes

_PARTS: Final = "#/components/schemas/"


def openapi_document(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the document."""
    return describe_routes(routes, entity_components(), version=__version__)


@cache
def entity_components() -> dict[str, Any]:
    """Return every entity as a component; what one entity holds of another becomes a component of its own."""
    found: dict[str, Any] = {}
    for name, schema in entity_schemas():
        inner: dict[str, Any] = schema.pop("$defs", {})
        for word in ("$schema", "$id"):
            schema.pop(word, None)
        for part, body in inner.items():
            found.setdefault(part, _pointed(body))
        found[name] = _pointed(schema)
    return found


def _pointed(body: Any) -> Any:
    """Return a schema whose references point to the document's components."""
    if isinstance(body, list):
        return [_pointed(each) for each in cast("list[Any]", body)]
    if not isinstance(body, dict):
        return body
    return {
        word: str(value).replace("#/$defs/", _PARTS) if word == "$ref" else _pointed(value)
        for word, value in cast("dict[str, Any]", body).items()
    }
