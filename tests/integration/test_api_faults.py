"""The API while its store is away: it says so, loses nothing that it promised, and is back when the store is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api_homes import api_home, made
from tests.gateways import until
from tests.postgres import PostgresServer
from twinraven.foundation.errors import StorageUnavailable


async def test_a_store_that_goes_away_is_told_and_comes_back(
    tmp_path: Path, restartable_postgres: PostgresServer
) -> None:
    """Alive but not ready; requests are refused as retryable; when the store is back, all is well."""
    with restartable_postgres.fresh_database() as login:
        async with api_home(tmp_path, postgres=login) as home:
            event: dict[str, Any] = {"session_id": "s", "tool_id": "t", "input_params": {}}
            made(await home.door.post("/v1/events", {"events": [event]}))
            assert (await home.door.get("/readyz")).status == 200
            restartable_postgres.stop(crash=True)
            assert (await home.door.get("/healthz")).status == 200
            for target in ("/readyz", "/v1/events", "/v1/services/x"):
                refused = await home.door.get(target)
                told = refused.json()
                assert (refused.status, told["code"]) == (503, "STORAGE_UNAVAILABLE"), target
                assert (told["retryable"], refused.headers["retry-after"]) == (True, "1")
            lost = await home.door.post("/v1/users", {"name": "u"}, Idempotency_Key="k")
            assert (lost.status, lost.json()["retryable"]) == (503, True)
            restartable_postgres.start()

            async def is_ready() -> bool:
                return (await home.door.get("/readyz")).status == 200

            await until(is_ready)
            made(await home.door.post("/v1/users", {"name": "u"}, Idempotency_Key="k"))
            assert len(made(await home.door.get("/v1/events"))["items"]) == 1


async def test_who_asks_without_a_key_is_not_told_where_the_store_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """`/readyz` is open to all: it says that work cannot be done, and the log says why."""

    async def refuse(tenant_id: str, work: object) -> None:
        raise StorageUnavailable("Postgres: no answer from db-7.internal", path="/srv/raven.db")

    async with api_home(tmp_path, needs_key=True) as home:
        with monkeypatch.context() as patched:
            patched.setattr(home.raven.database, "read", refuse)
            refused = await home.door.get("/readyz")
    assert (refused.status, refused.json()["retryable"], refused.json()["details"]) == (503, True, {})
    assert b"db-7" not in refused.body
    assert "db-7.internal" in caplog.text
