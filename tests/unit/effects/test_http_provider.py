"""What a provider repeats of the request that it got."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from twinraven.connectors import Credential, HttpRequest, HttpResponse, HttpTransport, NoAnswer, NotSent
from twinraven.effects.errors import ProviderRefused, ProviderSilent, ProviderUnreachable
from twinraven.effects.model import EffectOrder
from twinraven.effects.providers.http import HttpProvider, HttpProviderConfig
from twinraven.foundation.errors import InvalidInput

TOKEN = 'tok-"4711"-abcdefgh'
ORDER = EffectOrder("default", "publish", "e1", "k1", {"text": "hello"}, "c1")


class Echo:
    """A service that puts the headers it got into every text of its answer."""

    def __init__(self, status: int) -> None:
        self._status = status

    async def exchange(self, request: HttpRequest, *, seconds: float) -> HttpResponse:
        del seconds
        assert request.credential is not None
        said = f"you sent {request.credential.headers}"
        body: dict[str, Any] = {"id": said, "url": said, "message": said, "error": {"seen": TOKEN}}
        return HttpResponse(self._status, {}, json.dumps(body).encode())


def provider(status: int) -> HttpProvider:
    config = HttpProviderConfig(
        "press", "https://press.example", frozenset({"publish"}), credential=Credential.of("bearer", TOKEN)
    )
    return HttpProvider(config, cast("HttpTransport", Echo(status)))


async def test_a_provider_that_repeats_its_token_does_not_bring_it_into_the_records() -> None:
    """Neither the refusal nor the answer that is kept holds the credential."""
    with pytest.raises(ProviderRefused) as refused:
        await provider(400).send(ORDER)
    answer = await provider(200).send(ORDER)
    for told in (refused.value.message, answer.external_id, *answer.details.values()):
        assert "4711" not in told
        assert "***" in told


class Saying:
    """A service that answers one thing, or a way to it that fails."""

    def __init__(self, said: HttpResponse | Exception) -> None:
        self._said = said
        self.is_closed = False

    async def exchange(self, request: HttpRequest, *, seconds: float) -> HttpResponse:
        del request, seconds
        if isinstance(self._said, Exception):
            raise self._said
        return self._said

    async def aclose(self) -> None:
        self.is_closed = True


def saying(said: HttpResponse | Exception) -> HttpProvider:
    config = HttpProviderConfig("press", "https://press.example", frozenset({"publish"}))
    return HttpProvider(config, cast("HttpTransport", Saying(said)))


def response(code: int, /, *, is_sequel: bool = False, **told: Any) -> HttpResponse:
    return HttpResponse(code, {}, json.dumps(told).encode(), is_sequel=is_sequel)


@pytest.mark.parametrize(
    ("said", "sending", "asking"),
    [
        (NotSent("no route"), ProviderUnreachable, ProviderSilent),
        (NoAnswer("timed out"), ProviderSilent, ProviderSilent),
        (InvalidInput("an address inside"), ProviderUnreachable, ProviderSilent),
        (response(429), ProviderUnreachable, ProviderSilent),
        (response(500), ProviderSilent, ProviderSilent),
        (response(302), ProviderSilent, ProviderSilent),
        (response(422, is_sequel=True), ProviderSilent, ProviderSilent),
        (response(422, message="no"), ProviderRefused, ProviderSilent),
        (response(200, status="failed"), ProviderRefused, ProviderRefused),
        (response(200, status="pending"), ProviderSilent, ProviderSilent),
    ],
)
async def test_what_an_answer_says_of_the_effect(
    said: HttpResponse | Exception, sending: type[Exception], asking: type[Exception]
) -> None:
    """Only a final no is a refusal, only what was never sent may be sent freely; asking in vain tells nothing."""
    with pytest.raises(sending):
        await saying(said).send(ORDER)
    with pytest.raises(asking):
        await saying(said).find(ORDER)


async def test_asking_finds_what_happened_and_what_did_not() -> None:
    """A 404 says that nothing happened under the key; a 200 names what did, by the key where it gives no id."""
    assert await saying(response(404)).find(ORDER) is None
    found = await saying(response(200, id="ext-1")).find(ORDER)
    unnamed = await saying(response(200, id=7)).find(ORDER)
    assert found is not None
    assert unnamed is not None
    assert (found.external_id, unnamed.external_id) == ("ext-1", ORDER.key)


async def test_closing_a_provider_closes_its_connections() -> None:
    """The way to the service is closed with it."""
    way = Saying(response(200))
    config = HttpProviderConfig("press", "https://press.example", frozenset({"publish"}))
    await HttpProvider(config, cast("HttpTransport", way)).aclose()
    assert way.is_closed
