"""Follows HTTP redirects safely: other origins get no credentials and no writes, and must be public addresses.

A service may send us elsewhere. It may not learn there what only it was told, nor send a request that changes something
to somebody else, nor lead us inside: beyond the origin that the tool names only public addresses count.
"""

from __future__ import annotations

from dataclasses import replace

from twinraven.connectors.http_model import HttpRequest, HttpResponse
from twinraven.connectors.urls import Origin
from twinraven.foundation.errors import InvalidDefinition, PolicyViolation, ToolError

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_UNTOUCHED = frozenset({307, 308})
_SHOWN_TO_STRANGERS = frozenset({"accept", "user-agent"})


def next_request(request: HttpRequest, response: HttpResponse) -> HttpRequest | None:
    """Return the request that an answer asks for, or None if it is the answer."""
    location = response.headers.get("location")
    if response.status not in _REDIRECTS or not location:
        return None
    try:
        url = request.url.redirected(location)
    except (InvalidDefinition, ValueError):
        raise ToolError("the service redirects to something that is no http address") from None
    here, there = request.url.origin, url.origin
    if here.scheme == "https" and there.scheme == "http":
        raise PolicyViolation(f"{here} redirects to {there}, which is not encrypted", rule="connectors.redirects")
    is_stranger = not _is_same_host(here, there)
    if request.method not in ("GET", "HEAD") and response.status != 303:
        if response.status in (301, 302) or is_stranger:
            raise ToolError(
                f"{here} answered {response.status} and points at {there}; a {request.method} is not sent on, "
                "so change the endpoint",
                status=response.status,
            )
        return replace(request, url=url)
    moved = replace(request, url=url, method="HEAD" if request.method == "HEAD" else "GET", body=None)
    return _without_secrets(moved) if is_stranger else moved


def comes_after_effect(response: HttpResponse) -> bool:
    """Return whether a redirect leaves open that its server did what it was asked first.

    These two say that it did not.
    """
    return response.status not in _UNTOUCHED


def _is_same_host(here: Origin, there: Origin) -> bool:
    """Return whether both are one server; moving on to TLS at the usual port does not make it another."""
    return here == there or (here.host == there.host and (here.scheme, here.port) == ("http", 80) and there.port == 443)


def _without_secrets(request: HttpRequest) -> HttpRequest:
    shown = tuple((name, value) for name, value in request.headers if name.lower() in _SHOWN_TO_STRANGERS)
    return replace(request, headers=shown, credential=None, is_strict=True)
