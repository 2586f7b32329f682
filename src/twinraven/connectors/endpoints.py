"""Builds the endpoint of an HTTP service: its address, its credential, and a health probe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from twinraven.catalog import Health, HealthStatus
from twinraven.connectors.binding import Binding
from twinraven.connectors.http_model import Credential, Headers, HttpRequest, NoAnswer, NotSent, read_auth
from twinraven.connectors.tls import make_tls_context
from twinraven.connectors.transport import HttpTransport
from twinraven.connectors.urls import Url, parse_url
from twinraven.foundation.errors import TwinRavenError

PROBE_TIMEOUT_S = 5.0


def endpoint_of(binding: Binding[Any]) -> Url:
    """Return the endpoint of a binding's service; its scheme is the one the service declares."""
    url = parse_url(binding.endpoint, field="connection_params.endpoint")
    if url.origin.scheme != binding.protocol:
        raise binding.invalid("endpoint", f"is {url.origin.scheme}, but its service speaks {binding.protocol}")
    return url


async def credential_of(binding: Binding[Any], user: str | None, *, default: Any = None) -> Credential | None:
    """Return the tool's secret, opened for this user, in the form its service wants."""
    secret = await binding.secret(user)
    return None if secret is None else Credential.of(binding.param("auth") or default, secret)


def certificate_of(binding: Binding[Any]) -> str | None:
    """Return the authority to trust instead of the system's, where the tool names one."""
    found = binding.param("ca_certificate")
    if found is not None and (not isinstance(found, str) or not found.strip()):
        raise binding.invalid("ca_certificate", "must be a certificate in PEM form")
    return found


def check_endpoint(binding: Binding[Any]) -> None:
    """Raise unless a service over HTTP could be reached by these parameters, as far as that shows without asking it."""
    endpoint_of(binding)
    read_auth(binding.param("auth"))
    check_certificate(binding)


def check_certificate(binding: Binding[Any]) -> None:
    """Raise unless the authority to trust is one."""
    stated = certificate_of(binding)
    if stated is not None:
        make_tls_context(stated)


@dataclass(frozen=True, slots=True)
class Probe:
    """The request of a health check."""

    url: Url
    auth: Any = None
    headers: Headers = ()
    is_bare: bool = False
    """Whether no health path is declared; then any response below 500 counts as healthy."""


async def probe_http(
    transport: HttpTransport, binding: Binding[Any], prepare: Callable[[], Probe], *, user: str | None
) -> Health:
    """Probe a service with one GET, without retries; whatever is wrong with the binding shows here too."""
    try:
        probe = prepare()
        credential = await credential_of(binding, user, default=probe.auth)
        request = HttpRequest("GET", probe.url, probe.headers, None, credential, certificate_of(binding))
        response = await transport.exchange(request, seconds=PROBE_TIMEOUT_S)
    except (NotSent, NoAnswer) as error:
        return Health(HealthStatus.DOWN, str(error))
    except TwinRavenError as error:
        return Health.of_error(error)
    if response.status in (401, 403) and credential is not None:
        return Health(HealthStatus.DOWN, f"the service refuses the credentials ({response.status})")
    if response.status >= (500 if probe.is_bare else 300):
        return Health(HealthStatus.DEGRADED, f"the service answered {response.status}")
    return Health(HealthStatus.HEALTHY)
