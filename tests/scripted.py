"""A scripted model on loopback for tests: the ASGI application of the project behind a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from twinraven.models import ScriptedExchange, ScriptedModel, read_script
from twinraven.serving import listener, open_socket


@dataclass(frozen=True)
class RunningModel:
    """A scripted model that answers, and what it was asked."""

    url: str
    app: ScriptedModel

    @property
    def exchanges(self) -> list[ScriptedExchange]:
        return self.app.exchanges

    def settings(self, **model: Any) -> dict[str, Any]:
        """The sections of a home that asks this model."""
        return {
            "model": {"name": "scripted", "url": self.url, **model},
            "connectors": {"allow_private": ["127.0.0.1"]},
        }


@asynccontextmanager
async def scripted_model(*answers: Any) -> AsyncGenerator[RunningModel]:
    """Serve these answers as long as the block lasts."""
    app = ScriptedModel(read_script(list(answers)))
    opened = open_socket("127.0.0.1", 0)
    port = opened.getsockname()[1]
    server = listener(app, "127.0.0.1", port, fd=opened.detach(), patience_s=1)
    task = asyncio.create_task(server.serve())
    try:
        yield RunningModel(f"http://127.0.0.1:{port}/v1", app)
    finally:
        server.should_exit = True
        await task
