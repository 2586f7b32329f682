"""Calls REST operations.

The operation says how arguments become a request (in the catalogue); delivery decides how often it may be sent
(`delivery`); the transport sees to it that it goes nowhere it should not (`transport`). Here the three meet.

A body is sent as JSON unless the operation's `Content-Type` says form or text. A service that recognises repeated
requests by a header names it in `idempotency_header`; only then is a write ever sent twice.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

from twinraven.catalog import Health, HealthStatus, RestCall, RestRequest, ToolEntry
from twinraven.connectors.binding import Binding, BindingSource, bind_call
from twinraven.connectors.bodies import read_body
from twinraven.connectors.delivery import DeliveryTerms, HttpDelivery
from twinraven.connectors.endpoints import (
    Probe,
    certificate_of,
    check_endpoint,
    credential_of,
    endpoint_of,
    probe_http,
)
from twinraven.connectors.http_model import Headers, HttpRequest, is_header_name, read_auth
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import InvalidDefinition, InvalidInput

if TYPE_CHECKING:
    from twinraven.calls import CallFrame

_FORM = "application/x-www-form-urlencoded"
# A key must not stand where credentials do, nor say what a body is.
_NOT_FOR_KEYS = frozenset({"authorization", "proxy-authorization", "cookie", "content-type", "accept-encoding"})


class RestConnector:
    """Reaches `rest_api` services."""

    name = "rest"

    def __init__(self, bindings: BindingSource, delivery: HttpDelivery) -> None:
        self._bindings = bindings
        self._delivery = delivery

    async def invoke(self, entry: ToolEntry, params: dict[str, Any], *, call: CallFrame) -> Any:
        """Send the request that the arguments make, and give back the answer's body."""
        binding: Binding[RestCall] = await bind_call(self._bindings, entry, call)
        asked = binding.operation.request(params)
        key_header = _key_header(binding, entry, call)
        body, headers = _encoded(asked)
        request = HttpRequest(
            method=asked.method,
            url=endpoint_of(binding).extended(asked.path).asking(list(asked.query)),
            headers=(*headers, *key_header),
            body=body,
            credential=await credential_of(binding, call.caller),
            ca_certificate=certificate_of(binding),
        )
        terms = DeliveryTerms(
            tenant_id=call.tenant_id,
            tool_id=entry.tool_id,
            timeout_ms=entry.timeout_ms or self._delivery.transport.limits.timeout_ms,
            is_repeatable=not entry.writes or bool(key_header),
            owner_id=binding.owner_id,
        )
        response = await self._delivery.deliver(request, terms)
        return read_body(response.body, response.content_type)

    async def probe(self, binding: Binding[Any], *, user: str | None = None) -> Health:
        """Probe the endpoint, or the path that `health_path` names."""
        try:
            path = _health_path(binding)
        except InvalidDefinition as error:
            # Calls do not use it, so it must not keep them away.
            return Health(HealthStatus.DEGRADED, error.message)

        def prepare() -> Probe:
            return Probe(endpoint_of(binding).extended(path or ""), is_bare=path is None)

        return await probe_http(self._delivery.transport, binding, prepare, user=user)

    @staticmethod
    def check(binding: Binding[Any]) -> None:
        """Raise unless a call could use these connection parameters."""
        check_endpoint(binding)
        _health_path(binding)
        _key_header_name(binding)

    async def aclose(self) -> None:
        await self._delivery.transport.aclose()


def _key_header(binding: Binding[Any], entry: ToolEntry, call: CallFrame) -> Headers:
    """Return the call's key as the service wants it; one that no header can carry is sent as its hash."""
    if not entry.writes or call.key is None:
        return ()
    name = _key_header_name(binding)
    if name is None:
        return ()
    key = call.key
    return ((name, key if key.isascii() and key.isprintable() else hashlib.sha256(key.encode()).hexdigest()),)


def _key_header_name(binding: Binding[Any]) -> str | None:
    name = binding.param("idempotency_header")
    if name is None:
        return None
    if not isinstance(name, str) or not is_header_name(name) or name.lower() in _NOT_FOR_KEYS:
        raise binding.invalid("idempotency_header", "is not a header that can carry a key; try Idempotency-Key")
    kind, taken = read_auth(binding.param("auth"))
    if kind == "header" and taken.lower() == name.lower():
        raise binding.invalid("idempotency_header", "is the header that shows the secret; name another")
    return name


def _health_path(binding: Binding[Any]) -> str | None:
    path = binding.param("health_path")
    if path is None:
        return None
    try:
        if isinstance(path, str):
            endpoint_of(binding).extended(path)
            return path
    except InvalidInput as error:
        if not isinstance(error, InvalidDefinition):
            raise binding.invalid("health_path", "may not climb with '.' or '..'") from None
        raise
    raise binding.invalid("health_path", "must be a path such as /health")


def _encoded(asked: RestRequest) -> tuple[bytes | None, Headers]:
    """Return the body as bytes, and the headers with its type."""
    headers = tuple(asked.headers.items())
    if asked.body is None:
        return None, headers
    stated = next((value for name, value in headers if name.lower() == "content-type"), None)
    if stated is None:
        return canonical_json(asked.body), (*headers, ("Content-Type", "application/json"))
    kind = stated.partition(";")[0].strip().lower()
    if kind == _FORM:
        return _form(asked.body), headers
    if isinstance(asked.body, str) and not kind.endswith("json"):
        return asked.body.encode(), headers
    return canonical_json(asked.body), headers


def _form(body: Any) -> bytes:
    if not isinstance(body, dict):
        raise InvalidInput("the body of a form must be an object", field="params")
    pairs: list[tuple[str, str]] = []
    for name, value in cast("dict[str, Any]", body).items():
        values = cast("list[Any]", value) if isinstance(value, list) else [value]
        texts = [each if isinstance(each, str) else canonical_json(each).decode() for each in values]
        pairs += [(name, text) for text in texts]
    return urlencode(pairs).encode()
