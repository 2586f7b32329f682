"""Sends effects to a service that speaks HTTP and recognises idempotency keys, and asks it what became of a key.

    POST {url}          with Idempotency-Key: KEY and the order as JSON; 2xx means that it happened
    GET  {url}/{key}    200 with the same answer, or 404 where nothing happened under the key

An answer may name the effect in `id`, and its state in `status`: `pending` is no answer yet, `failed` a final no. What
was refused with another 4xx did not happen. A broken connection, a time-out, a 5xx or a conflict on the key tell
nothing: it may have happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

from twinraven.connectors import Credential, HttpRequest, HttpResponse, HttpTransport, NoAnswer, NotSent, parse_url
from twinraven.effects.errors import ProviderRefused, ProviderSilent, ProviderUnreachable
from twinraven.effects.model import EffectKind, EffectOrder, ProviderAnswer
from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.errors import InvalidInput, TwinRavenError

_NOT_TAKEN: Final = (429,)
"""The service did not look at the request."""
_TELLS_NOTHING: Final = (408, 409, 425)
_LONGEST_ID: Final = 500


@dataclass(frozen=True, slots=True)
class HttpProviderConfig:
    """The address and capabilities of a provider."""

    name: str
    url: str
    kinds: frozenset[EffectKind]
    recognises_keys: bool = True
    can_be_asked: bool = True
    timeout_s: float = 30.0
    credential: Credential | None = None


class HttpProvider:
    """A service behind one address."""

    def __init__(self, config: HttpProviderConfig, transport: HttpTransport) -> None:
        self.name = config.name
        self.kinds = config.kinds
        self.recognises_keys = config.recognises_keys
        self.can_be_asked = config.can_be_asked
        self._config = config
        self._transport = transport

    async def send(self, order: EffectOrder) -> ProviderAnswer:
        body = {
            "id": order.effect_id,
            "kind": order.kind,
            "key": order.key,
            "correlation_id": order.correlation_id,
            "request": order.request,
        }
        response = await self._exchange("POST", self._config.url, order, canonical_json(body))
        return self._read(response, order)

    async def find(self, order: EffectOrder) -> ProviderAnswer | None:
        try:
            response = await self._exchange("GET", f"{self._config.url.rstrip('/')}/{order.key}", order, None)
        except ProviderUnreachable as error:
            # Not having asked is no answer to whether it happened.
            raise ProviderSilent(error.message, provider=self.name) from error
        if response.status == 404:
            return None
        if response.status != 200:
            raise ProviderSilent(f"{self.name!r} answered {response.status} when asked", provider=self.name)
        return self._read(response, order)

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def _exchange(self, method: str, url: str, order: EffectOrder, body: bytes | None) -> HttpResponse:
        headers = [("Accept", "application/json"), ("X-Correlation-Id", order.correlation_id)]
        if body is not None:
            headers += [("Content-Type", "application/json"), ("Idempotency-Key", order.key)]
        request = HttpRequest(method, parse_url(url), tuple(headers), body, self._config.credential)
        try:
            return await self._transport.exchange(request, seconds=self._config.timeout_s)
        except NotSent as error:
            raise ProviderUnreachable(f"{self.name!r} cannot be reached: {error}", provider=self.name) from error
        except NoAnswer as error:
            raise ProviderSilent(f"{self.name!r} {error}", provider=self.name) from error
        except TwinRavenError as error:
            raise ProviderUnreachable(f"{self.name!r}: {error.message}", provider=self.name) from error

    def _read(self, response: HttpResponse, order: EffectOrder) -> ProviderAnswer:
        status = response.status
        if status in _NOT_TAKEN:
            raise ProviderUnreachable(f"{self.name!r} is busy and took nothing ({status})", provider=self.name)
        if status in _TELLS_NOTHING or status >= 500 or status < 200 or 300 <= status < 400:
            raise ProviderSilent(f"{self.name!r} answered {status}; it may have happened", provider=self.name)
        if status >= 400 and response.is_sequel:
            # The service took the order and pointed elsewhere; what is there says nothing about the order.
            raise ProviderSilent(f"{self.name!r} redirected to a {status}; it may have happened", provider=self.name)
        told = self._told(response.body)
        if status >= 400:
            reason = str(told.get("message") or told.get("error") or "no reason given")[:300]
            raise ProviderRefused(f"{self.name!r} refused with {status}: {reason}", provider=self.name, status=status)
        if told.get("status") == "failed":
            raise ProviderRefused(f"{self.name!r} says that it failed", provider=self.name)
        if told.get("status") == "pending":
            raise ProviderSilent(f"{self.name!r} is still at it", provider=self.name)
        external = told.get("id")
        external_id = external if isinstance(external, str) and 0 < len(external) <= _LONGEST_ID else order.key
        kept = {name: told[name] for name in ("chain_tx_hash", "url", "status") if isinstance(told.get(name), str)}
        return ProviderAnswer(external_id, kept)

    def _told(self, body: bytes) -> dict[str, Any]:
        """Return the answer's members, without the credential that it may repeat.

        What is no JSON object says nothing more.
        """
        text = body.decode("utf-8", "replace")
        credential = self._config.credential
        try:
            told = parse_json(text if credential is None else credential.hidden_in(text))
        except InvalidInput:
            return {}
        return cast("dict[str, Any]", told) if isinstance(told, dict) else {}
