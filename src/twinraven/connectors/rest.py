"""Calling REST operations.

The tool's operation says how arguments become a request (`rest_operation`); delivery decides how often it may be sent
(`delivery`); the transport sees to it that it goes nowhere it should not (`transport`). Here the three meet.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any

from twinraven.catalog import ToolEntry
from twinraven.connectors.binding import Binding, BindingSource, Frame, Health
from twinraven.connectors.bodies import read_body
from twinraven.connectors.delivery import HttpDelivery, Terms
from twinraven.connectors.http_model import Credential, HttpRequest, NoAnswer, NotSent
from twinraven.connectors.rest_operation import RestOperation
from twinraven.connectors.urls import Url, parse_url
from twinraven.foundation.errors import InvalidDefinition, TwinRavenError

PROBE_TIMEOUT_S = 5.0


class RestConnector:
    """Reaches `rest_api` services."""

    name = "rest"

    def __init__(self, bindings: BindingSource, delivery: HttpDelivery) -> None:
        self._bindings = bindings
        self._delivery = delivery

    async def invoke(self, entry: ToolEntry, params: dict[str, Any], *, call: Frame) -> Any:
        """Send the request that the arguments make, and give back the answer's body."""
        binding = await self._bindings.binding(call.tenant_id, entry.tool_id)
        operation = RestOperation.parse(binding.operation)
        filled = operation.fill(params)
        headers = filled.headers
        header = operation.idempotency_header
        if header is not None and entry.writes and call.key is not None:
            headers = (*headers, (header, as_header_value(call.key)))
        request = HttpRequest(
            method=operation.method,
            url=endpoint_of(binding).extended(filled.path).asking(filled.query),
            headers=headers,
            body=filled.body,
            credential=await credential_of(binding, call.caller),
            ca_certificate=binding.params.get("caCertificate"),
        )
        has_key = header is not None and call.key is not None
        terms = Terms(
            tenant_id=call.tenant_id,
            tool_id=entry.tool_id,
            timeout_ms=entry.timeout_ms or self._delivery.transport.limits.timeout_ms,
            is_repeatable=not entry.writes or has_key,
        )
        response = await self._delivery.deliver(request, terms)
        return read_body(response.body, response.content_type, reading=operation.response)

    async def probe(self, binding: Binding, *, user: str | None = None) -> Health:
        """Ask the endpoint, or the path its `healthPath` names, whether anybody is there."""
        return await probe_http(self._delivery, binding, path=binding.params.get("healthPath"), user=user)

    async def aclose(self) -> None:
        await self._delivery.transport.aclose()


def endpoint_of(binding: Binding) -> Url:
    """Where a binding's service is; its scheme is the one the service was declared with."""
    url = parse_url(binding.endpoint, field="connectionParams.endpoint")
    if url.origin.scheme != binding.protocol:
        raise InvalidDefinition(
            f"connectionParams.endpoint is {url.origin.scheme}, but its service speaks {binding.protocol}",
            field="connectionParams.endpoint",
            tool_id=binding.tool_id,
        )
    return url


async def credential_of(binding: Binding, user: str | None, *, default: Any = None) -> Credential | None:
    """The tool's secret, opened for this user, in the form its service wants."""
    secret = await binding.secret(user)
    return None if secret is None else Credential.of(binding.params.get("auth", default), secret)


def as_header_value(key: str) -> str:
    """A key as a header can carry it; one that it cannot is sent as its hash."""
    return key if key.isascii() and key.isprintable() else hashlib.sha256(key.encode()).hexdigest()


async def probe_http(
    delivery: HttpDelivery, binding: Binding, *, path: str | None, user: str | None, default_auth: Any = None
) -> Health:
    """One GET, no retries: an answer below 500 means that somebody is there."""
    begun = time.monotonic()
    try:
        request = HttpRequest(
            "GET",
            endpoint_of(binding).extended(path or ""),
            credential=await credential_of(binding, user, default=default_auth),
            ca_certificate=binding.params.get("caCertificate"),
        )
        response = await delivery.transport.exchange(request, seconds=PROBE_TIMEOUT_S)
    except (NotSent, NoAnswer) as error:
        return Health("down", _elapsed(begun), str(error))
    except TwinRavenError as error:
        return Health("down", _elapsed(begun), error.message)
    if response.status in (401, 403) and request.credential is not None:
        return Health("down", _elapsed(begun), f"the service refuses the credentials ({response.status})")
    if response.status >= 500 or (response.status >= 400 and path is not None):
        return Health("degraded", _elapsed(begun), f"the service answered {response.status}")
    return Health("healthy", _elapsed(begun))


def _elapsed(begun: float) -> int:
    return round((time.monotonic() - begun) * 1000)
