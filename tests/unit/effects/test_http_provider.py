"""What a provider repeats of the request that it got."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from twinraven.connectors import Credential, HttpRequest, HttpResponse, HttpTransport
from twinraven.effects.errors import ProviderRefused
from twinraven.effects.model import EffectOrder
from twinraven.effects.providers.http import HttpProvider, HttpProviderConfig

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
